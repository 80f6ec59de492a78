/* A job's state on standard output, for people: status and top, once; how a job ended. */
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "base/clock.h"
#include "job/condition.h"
#include "screen/text.h"
#include "screen/view.h"

#include <stdio.h>
#include <string.h>

#define END_SECONDS 2.0 /* a trainctl that ends gives its last answer first */

void trainctl_show_view(struct view *v)
{
	struct screen_line line[VIEW_HEAD_MAX];
	struct grid table;
	size_t layout[GRID_MAX], width = terminal_width();
	/* A bar as wide as a file would take is no help. */
	size_t head_width = terminal_width() == SCREEN_WIDTH_MAX ? 100 : width;
	size_t count = view_head(v, head_width, text_has_blocks(), 0, line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	if (v->checkpoint[0])
		printf("checkpoint %s\n", v->checkpoint);
	putchar('\n');
	view_table(v, &table);
	grid_layout(&table, width, layout);
	line[0] = (struct screen_line){.tint = TINT_HEAD};
	grid_line(&table, layout, GRID_HEAD, line[0].text, sizeof line[0].text);
	line[0].len = strlen(line[0].text);
	terminal_put(&line[0]);
	for (size_t i = 0; i < table.rows; i++) {
		view_row(v, &table, layout, i, &line[0]);
		terminal_put(&line[0]);
	}
	grid_free(&table);
}

void trainctl_show_end(const struct dirs *dirs)
{
	static struct condition c;
	double until = clock_mono() + END_SECONDS;
	int got;
	while ((got = condition_read(&c, dirs, NULL)) == 0 && c.is == CONDITION_RUNNING &&
	       clock_mono() < until)
		clock_sleep(0.05);
	if (got == 0)
		trainctl_show_condition(&c, dirs);
}
