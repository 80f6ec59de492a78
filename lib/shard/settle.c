/* settle: the moment at which a batch belongs to the model (architecture.md, "The life of a
 * batch", 2; batch.pml, settle1).  One request, many lines, all or nothing; its number makes a
 * repetition harmless, and its answer is part of the state, so that a lead which asks again after
 * a crash hears the same. */
#include "shard/queue_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one line comes to. */
enum verdict { VERDICT_ACT, VERDICT_NOTHING, VERDICT_REFUSED };

enum queue_result queue_settle_known(const struct queue *q, uint64_t number, uint64_t incarnation,
				     struct error *err)
{
	if (incarnation != q->incarnation) {
		error_set(err, ERROR_DATA, NULL, "incarnation %llu is not in force: %llu is",
			  (unsigned long long)incarnation, (unsigned long long)q->incarnation);
		return QUEUE_FENCED;
	}
	if (!q->has_settled || number > q->settle_number)
		return QUEUE_OK;
	if (number == q->settle_number)
		return QUEUE_REPEATED;
	error_set(err, ERROR_DATA, NULL, "settle %llu comes after %llu",
		  (unsigned long long)number, (unsigned long long)q->settle_number);
	return QUEUE_BAD;
}

/* A range inside the frame; the sum begin + length can't be trusted. */
static int is_in_frame(const struct piece *p, const struct queue_line *line)
{
	return line->length > 0 && line->begin >= p->begin && line->length <= p->length &&
	       line->begin - p->begin <= p->length - line->length;
}

static enum verdict judge(const struct queue *q, const struct queue_line *line, struct piece **p)
{
	const struct worker *w = queue_worker(q, line->worker);
	*p = NULL;
	/* What a fenced worker held came back when it was fenced: `back` asks for no more. */
	enum verdict otherwise = line->is_back ? VERDICT_NOTHING : VERDICT_REFUSED;
	if (!w || w->generation == 0 || w->generation != line->generation)
		return otherwise;
	*p = table_get(&q->pieces, line->id);
	if (!*p)
		return VERDICT_NOTHING; /* settled before */
	return (*p)->worker == w ? VERDICT_ACT : otherwise;
}

static enum queue_result check(const struct queue *q, const struct queue_line *lines, size_t count,
			       struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct piece *p;
		enum verdict verdict = judge(q, &lines[i], &p);
		if (verdict == VERDICT_REFUSED)
			continue;
		enum queue_result result = queue_find(q, lines[i].id, &p, err);
		if (result == QUEUE_OK && verdict == VERDICT_ACT && !is_in_frame(p, &lines[i])) {
			error_set(err, ERROR_DATA, NULL, "shard %llu has no such rows",
				  (unsigned long long)lines[i].id);
			result = QUEUE_BAD;
		}
		if (result != QUEUE_OK) {
			char place[32];
			snprintf(place, sizeof place, "line %zu", i + 1);
			error_wrap(err, place);
			return result;
		}
	}
	return QUEUE_OK;
}

static enum verdict act(struct queue *q, const struct queue_line *line)
{
	struct piece *p;
	enum verdict verdict = judge(q, line, &p);
	if (verdict != VERDICT_ACT)
		return verdict;
	if (!is_in_frame(p, line)) /* an earlier line gave the piece a new frame */
		return line->is_back ? VERDICT_NOTHING : VERDICT_REFUSED;
	uint64_t lo = line->begin - p->begin;
	p->worker->is_blamed = 0;
	if (line->is_back)
		piece_return_range(q, p, lo, lo + line->length);
	else
		piece_apply(q, p, lo, lo + line->length);
	return verdict;
}

/* The apply lines of a worker's generation are one gradient, which the lead applies or not: one that
 * is refused takes the others with it, or rows would count that are not in the model. */
static void refuse_whole_pushes(const struct queue *q, struct queue_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lines[i].refused = 0;
	for (size_t i = 0; i < count; i++) {
		struct piece *p;
		if (lines[i].refused || judge(q, &lines[i], &p) != VERDICT_REFUSED)
			continue;
		for (size_t j = 0; j < count; j++)
			if (!lines[j].is_back && lines[j].generation == lines[i].generation &&
			    strcmp(lines[j].worker, lines[i].worker) == 0)
				lines[j].refused = 1;
	}
}

static void log_one(struct queue *q, const struct queue_line *line, enum verdict verdict)
{
	struct line l;
	if (verdict == VERDICT_REFUSED) {
		line_begin(&l, "fenced");
		line_text(&l, "worker", line->worker);
		line_u64(&l, "generation", line->generation);
		line_u64(&l, "id", line->id);
	} else {
		line_begin(&l, line->is_back ? "back" : "apply");
		line_text(&l, "worker", line->worker);
		line_u64(&l, "id", line->id);
		line_u64(&l, "begin", line->begin);
		line_u64(&l, "length", line->length);
	}
	queue_log_line(q, &l);
}

static void log_settle(struct queue *q, const struct queue_line *lines, const enum verdict *verdict,
		       size_t count)
{
	uint64_t told = 0;
	for (size_t i = 0; i < count; i++)
		told += verdict[i] != VERDICT_NOTHING;
	struct line l;
	line_begin(&l, "settle");
	line_u64(&l, "number", q->settle_number);
	line_u64(&l, "iteration", q->iteration);
	line_u64(&l, "lines", told);
	queue_log_line(q, &l);
	for (size_t i = 0; i < count; i++)
		if (verdict[i] != VERDICT_NOTHING)
			log_one(q, &lines[i], verdict[i]);
}

static void refuse(struct queue *q, const struct queue_line *line)
{
	struct queue_refusal *r = &q->refusal[q->refusals++];
	snprintf(r->worker, sizeof r->worker, "%s", line->worker);
	r->generation = line->generation;
	r->id = line->id;
}

enum queue_result queue_settle(struct queue *q, uint64_t number, uint64_t iteration,
			       uint64_t incarnation, struct queue_line *lines, size_t count,
			       struct error *err)
{
	enum queue_result result = queue_settle_known(q, number, incarnation, err);
	if (result == QUEUE_OK)
		result = check(q, lines, count, err);
	if (result != QUEUE_OK)
		return result;
	struct queue_refusal *refusal = malloc((count + 1) * sizeof *refusal);
	enum verdict *verdict = malloc((count + 1) * sizeof *verdict);
	if (!refusal || !verdict || piece_prepare(q, 3 * count) != 0) {
		free(refusal);
		free(verdict);
		error_set(err, ERROR_OS, NULL, "out of memory");
		return QUEUE_MEMORY;
	}
	free(q->refusal);
	q->refusal = refusal;
	q->refusals = 0;
	q->has_settled = 1;
	q->settle_number = number;
	q->iteration = iteration;
	refuse_whole_pushes(q, lines, count);
	for (size_t i = 0; i < count; i++) {
		verdict[i] = lines[i].refused ? VERDICT_REFUSED : act(q, &lines[i]);
		lines[i].refused = verdict[i] == VERDICT_REFUSED;
		if (lines[i].refused)
			refuse(q, &lines[i]);
	}
	struct queue_refusal *smaller = realloc(refusal, (q->refusals + 1) * sizeof *refusal);
	if (smaller)
		q->refusal = smaller;
	log_settle(q, lines, verdict, count);
	free(verdict);
	return QUEUE_OK;
}

const struct queue_refusal *queue_refusals(const struct queue *q, size_t *count)
{
	*count = q->refusals;
	return q->refusal;
}
