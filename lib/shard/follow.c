/* follow: makes a queue of lines: of its state, and then of the changes since. Each change is made
 * again by the function that made it; its result must be what it was when the line was written. */
#include "shard/state.h"

#include <stdlib.h>
#include <string.h>

struct queue_loader {
	struct state_reader state;
	/* A settle whose lines are coming. */
	struct settle_head settle;
	struct queue_range *range;
	size_t ranges;
	struct queue_refusal *refusal;
	size_t refusals;
	uint64_t due;
	struct record r;
};

static int follow_wrong(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "%s", why);
}

struct queue_loader *queue_loader_new(const struct queue_parameters *expected)
{
	struct queue_loader *l = calloc(1, sizeof *l);
	if (l && expected) {
		l->state.has_expected = 1;
		l->state.expected = *expected;
	}
	return l;
}

static void forget_settle(struct queue_loader *l)
{
	free(l->range);
	free(l->refusal);
	l->range = NULL;
	l->refusal = NULL;
	l->ranges = l->refusals = 0;
}

void queue_loader_free(struct queue_loader *l)
{
	if (!l)
		return;
	forget_settle(l);
	state_reader_free(&l->state);
	free(l);
}

/* ---- settles: several lines that count together ---- */

static int end_settle(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->state.q;
	struct queue_settlement said = {.number = l->settle.number,
					.iteration = l->settle.iteration,
					.term = l->settle.term,
					.is_whole = l->settle.is_whole != 0,
					.note = l->settle.note[0] ? l->settle.note : NULL};
	/* The number was judged when the lines were written. */
	if (queue_settle_again(q, &said, l->range, l->ranges, err) != QUEUE_OK)
		return -1;
	if (q->refusals > 0)
		return follow_wrong(err, "a settled line is refused now");
	free(q->refusal);
	q->refusal = l->refusal;
	q->refusals = l->refusals;
	l->refusal = NULL;
	forget_settle(l);
	return 0;
}

static int begin_settle(struct queue_loader *l, struct error *err)
{
	if (fields_read(settle_fields, &l->r, &l->settle, err) != 0)
		return -1;
	if (l->settle.lines > SETTLE_LINES_MAX)
		return follow_wrong(err, "a settle of too many lines");
	l->due = l->settle.lines;
	l->range = malloc((l->due + 1) * sizeof *l->range);
	l->refusal = malloc((l->due + 1) * sizeof *l->refusal);
	if (!l->range || !l->refusal)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	return l->due > 0 ? 1 : end_settle(l, err);
}

static int read_settle_line(struct queue_loader *l, struct error *err)
{
	l->due--;
	if (record_is(&l->r, "fenced"))
		return fields_read(refusal_fields, &l->r, &l->refusal[l->refusals++], err);
	struct queue_range *range = &l->range[l->ranges];
	*range = (struct queue_range){.is_back = record_is(&l->r, "back")};
	if (!range->is_back && !record_is(&l->r, "apply"))
		return follow_wrong(err, "a settle ends before its lines do");
	if (fields_read(range_fields, &l->r, range, err) != 0)
		return -1;
	const struct worker *w = queue_worker(l->state.q, range->worker);
	if (!w)
		return follow_wrong(err, "unknown worker");
	range->worker = w->id; /* the record will be used for the next line */
	range->generation = w->generation;
	l->ranges++;
	return 0;
}

/* ---- all other changes ---- */

static int follow_change(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->state.q;
	const struct queue_kind *kind = queue_kind(l->r.type);
	struct queue_change said = {0};
	if (!kind)
		return error_set(err, ERROR_DATA, NULL, "unknown line '%.40s'", l->r.type);
	if (fields_read(kind->fields, &l->r, &said, err) != 0)
		return -1;
	struct queue_change c = said;
	if (kind->flags & QUEUE_BY_WORKER) {
		const struct worker *w = queue_worker(q, c.worker);
		c.generation = said.generation = w ? w->generation : 0;
	}
	enum queue_result result = queue_make(q, kind, &c, err);
	if (result != QUEUE_OK && result != QUEUE_WAIT && result != QUEUE_END)
		return -1;
	if (!c.is_made || c.id != said.id || c.generation != said.generation ||
	    c.term != said.term)
		return follow_wrong(err, "what was written down would not be so now");
	return 0;
}

int queue_loader_line(struct queue_loader *l, const char *line, size_t len, struct error *err)
{
	if (record_parse(&l->r, line, len, err) != 0)
		return -1;
	if (l->state.stage != STATE_WHOLE)
		return state_read(&l->state, &l->r, err);
	if (l->due > 0) {
		if (read_settle_line(l, err) != 0)
			return -1;
		return l->due > 0 ? 1 : end_settle(l, err);
	}
	return record_is(&l->r, "settle") ? begin_settle(l, err) : follow_change(l, err);
}

int queue_loader_ended(const struct queue_loader *l)
{
	return l->state.stage == STATE_WHOLE;
}

const char *queue_loader_loose(const struct queue_loader *l)
{
	return l->state.q ? l->state.q->loose : "";
}

int queue_loader_finish(struct queue_loader *l, struct queue **out, struct error *err)
{
	int result = 0;
	if (!queue_loader_ended(l)) {
		result = follow_wrong(err, "ends before its `end` line");
	} else {
		*out = l->state.q;
		l->state.q = NULL;
	}
	queue_loader_free(l);
	return result;
}
