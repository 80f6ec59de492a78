/*
 * Rows on the trainer's standard input: the rows of each batch, in order, so that the trainer reads
 * `size` of them. A thread writes them, so that a trainer that does not read blocks nobody.
 */
#include "agent/agent_internal.h"

#include <unistd.h>

int agent_rows_start(struct agent *a, struct error *err)
{
	const struct generation *g = shards_generation(a->shards);
	struct rows_text *rows = a->options.rows;
	if (!rows)
		return 0;
	if (rows_text_fit(rows, g->samples, g->part_begin, g->part_samples, err) != 0 ||
	    rows_pipe_new(&a->rows, rows, err) != 0)
		return -1;
	return rows_pipe_begin(a->rows, &a->options.command.input, err);
}

void agent_rows_started(struct agent *a)
{
	if (a->rows)
		close(a->options.command.input);
	a->options.command.input = -1;
}

int agent_rows_give(struct agent *a, struct error *err)
{
	for (size_t i = 0; a->rows && !a->none && i < a->cut.ranges; i++) {
		struct piece p = a->cut.range[i].piece;
		p.skip = a->cut.range[i].position;
		p.take = a->cut.range[i].length;
		if (rows_pipe_add(a->rows, &p, err) != 0)
			return -1;
	}
	return WORK_OK;
}

int agent_rows_look(struct agent *a, struct error *err)
{
	struct rows_pipe_look look;
	if (!a->rows)
		return WORK_OK;
	rows_pipe_look(a->rows, &look);
	if (look.state != ROWS_PIPE_BAD)
		return WORK_OK;
	*err = look.error;
	return -1;
}

void agent_rows_end(struct agent *a)
{
	if (a->rows)
		rows_pipe_end(a->rows);
}
