/*
 * Pushes: gradients are read, judged and staged.  Nothing that a client sends is trusted: sizes,
 * keys and order are checked before anything is kept, and memory that a client can still write is
 * read only once.
 *
 * Here it is never decided what is applied.
 */
#include "ps/move.h"
#include "ps/replica.h"
#include "ps/behind.h"
#include "ps/standby.h"

#include "base/clock.h"
#include "base/log.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ps_push_fields(const struct record *r, struct staged *s, uint64_t *dense, uint64_t *rows,
		   struct error *err)
{
	const char *worker;
	uint64_t kept = 0, full = 0;

	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX - 1, &s->generation, err) != 0 ||
	    record_u64(r, "sequence", 0, UINT64_MAX - 1, &s->sequence, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX - 1, &s->iteration, err) != 0 ||
	    record_u64(r, "count", 0, ORDER_COUNT_MAX, &s->push.count, err) != 0 ||
	    record_u64_opt(r, "size", 0, ORDER_COUNT_MAX, &s->push.size, err) != 0 ||
	    record_u64_opt(r, "sum", 0, UINT64_MAX, &s->sum, err) != 0 ||
	    record_u64_opt(r, "sum-of", 0, UINT32_MAX, &s->sum_of, err) != 0 ||
	    record_u64_opt(r, "kept", 0, 1, &kept, err) != 0 ||
	    record_u64_opt(r, "full", 0, 1, &full, err) != 0 ||
	    record_u64(r, "dense", 0, 1, dense, err) != 0 ||
	    record_u64(r, "rows", 0, UINT32_MAX, rows, err) != 0)
		return -1;
	snprintf(s->worker, sizeof s->worker, "%s", worker);
	s->push.scale = 1.0;
	s->kept = (int)kept;
	s->full = (int)full;
	return 0;
}

/* Finds the parts of the payload: float dense[count], u32 keys[rows], float rows[rows * width]. */
int ps_push_find(struct ps *p, struct staged *s, const void *bulk, size_t have, uint64_t dense,
		 uint64_t rows, struct error *err)
{
	uint64_t width = store_width(p->store);
	uint64_t count = dense ? store_dense_count(p->store) : 0;
	uint64_t want = (count + rows * (1 + width)) * sizeof(float);
	float **row = NULL;

	if (rows && width == 0)
		return error_set(err, ERROR_DATA, NULL, "rows=%llu, but there is no table",
				 (unsigned long long)rows);
	if (want != have)
		return error_set(
			err, ERROR_DATA, NULL,
			"a payload of %zu bytes, %llu floats and %llu rows of %llu make %llu", have,
			(unsigned long long)count, (unsigned long long)rows,
			(unsigned long long)width, (unsigned long long)want);
	if (have == 0)
		return 0;
	const float *data = bulk;
	const uint32_t *key = (const uint32_t *)(const void *)(data + count);
	s->push.dense = count ? data : NULL;
	if (rows) {
		row = malloc((size_t)rows * sizeof *row);
		if (!row)
			return error_set(err, ERROR_OS, NULL, "out of memory for %llu rows",
					 (unsigned long long)rows);
		s->push.row = row;
		s->push.rows = (size_t)rows;
		s->push.row_gradient = data + count + rows;
		if (store_rows(p->store, key, (size_t)rows, 1, row, err) != 0)
			return -1;
	}
	return 0;
}

void ps_bad_gradient(const struct ps *p, const struct store_push *push,
		     const struct store_bad *bad, char why[STAGED_WHY_MAX])
{
	char name[LAYOUT_NAME_MAX + 32];

	if (bad->in_rows)
		snprintf(name, sizeof name, "%u",
			 table_key(push->row[bad->at / store_width(p->store)]));
	else
		store_dense_name(p->store, bad->at, name, sizeof name);
	snprintf(why, STAGED_WHY_MAX, "the gradient of %s %.100s is %g, beyond %g",
		 bad->in_rows ? "key" : "parameter", name, (double)bad->value,
		 (double)OPT_GRADIENT_MAX);
}

/* Notes a gradient that can't be applied, if there is one. dense and row: index of the first bad
 * float in each, or how many floats there are: none is bad. */
static void note_diverged(const struct ps *p, struct staged *s, size_t dense, size_t row)
{
	struct store_bad bad = {.found = 1};

	if (s->push.count == 0)
		return; /* it is never applied */
	if (s->push.dense && dense < store_dense_count(p->store)) {
		bad.at = dense;
		bad.value = s->push.dense[dense];
	} else if (row < s->push.rows * store_width(p->store)) {
		bad.in_rows = 1;
		bad.at = row;
		bad.value = s->push.row_gradient[row];
	} else
		return;
	s->diverged = 1;
	ps_bad_gradient(p, &s->push, &bad, s->why);
}

void ps_push_judge(const struct ps *p, struct staged *s)
{
	size_t dense = s->push.dense ? store_dense_count(p->store) : 0;

	note_diverged(p, s, opt_bad_gradient(s->push.dense, dense),
		      opt_bad_gradient(s->push.row_gradient, s->push.rows * store_width(p->store)));
}

/* Copies gradients that are in memory to which the client can still write. The copy is judged and
 * then applied, so the client can't change it in between. */
static int push_copy(struct ps *p, struct staged *s, struct error *err)
{
	size_t dense = s->push.dense ? store_dense_count(p->store) : 0;
	size_t rows = s->push.rows * store_width(p->store);
	float *own = buffer_take(p->buffers, (dense + rows) * sizeof *own);

	if (!own)
		return error_set(err, ERROR_OS, NULL, "out of memory for a push of %zu floats",
				 dense + rows);
	size_t bad_dense = store_copy_judged(own, s->push.dense, dense);
	size_t bad_row = store_copy_judged(own + dense, s->push.row_gradient, rows);
	s->buffer = own;
	s->push.dense = dense ? own : NULL;
	s->push.row_gradient = own + dense;
	note_diverged(p, s, bad_dense, bad_row);
	return 0;
}

static int push_payload(struct ps *p, struct staged *s, struct payload *payload, uint64_t dense,
			uint64_t rows, struct error *err)
{
	if (ps_push_find(p, s, payload ? payload_data(payload) : NULL,
			 payload ? payload_bytes(payload) : 0, dense, rows, err) != 0)
		return -1;
	if (!p->replica && payload) {
		const float *keys = payload_data(payload); /* they are behind the dense range */
		heat_push(&p->heat,
			  (const uint32_t *)(const void *)(keys +
							    (dense ? store_dense_count(p->store)
								   : 0)),
			  (size_t)rows, (int)dense);
	}
	if (payload && payload_is_shared(payload) && !p->replica)
		return push_copy(p, s, err);
	s->payload = payload ? payload_hold(payload) : NULL;
	if (!p->replica) /* a replica judges when it sums */
		ps_push_judge(p, s);
	return 0;
}

int ps_push_read(struct ps *p, struct request *rq, struct staged **out, struct error *err)
{
	struct staged *s = calloc(1, sizeof *s);
	uint64_t dense, rows;
	double start = clock_mono();

	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	p->pushes++;
	if (ps_push_fields(request_record(rq), s, &dense, &rows, err) != 0)
		goto failed;
	s->absent = s->kept && p->stands_by && !request_payload(rq);
	if (!s->absent && push_payload(p, s, request_payload(rq), dense, rows, err) != 0)
		goto failed;
	*out = s;
	p->work += clock_mono() - start;
	return 0;
failed:
	staged_free(s);
	return -1;
}

/* Refuses a push because of its values. */
static void refuse_values(struct ps *p, struct request *rq, const char *why)
{
	const char *worker = record_get(request_record(rq), "worker");
	const char *iteration = record_get(request_record(rq), "iteration");

	worker = worker ? worker : "";
	iteration = iteration ? iteration : "";
	if (log_is_worth(++p->diverged))
		log_say(LOG_LEVEL_WARNING,
			"a push of %.64s in iteration %.20s is refused: %s; %llu so far", worker,
			iteration, why, (unsigned long long)p->diverged);
	request_err(rq, "diverged", "worker %.64s, iteration %.20s: %s", worker, iteration, why);
}

/* Takes s and stages it, unless nobody will ever name it: its unit is over (the lead will settle it
 * as dropped), or it has no samples and so is in no unit. Such a push would stay for ever, and a
 * pull behind it would wait. (A sum waits for all its members, also for those without samples.) */
static int push_keep(struct ps *p, struct staged *s, struct error *err)
{
	if (behind_fill(p, s))
		return 0;
	if ((s->push.count == 0 && !p->replica) ||
	    (p->options.bsp && !p->options.sums && s->iteration < p->applied)) {
		staged_free(s);
		return 0;
	}
	size_t had = stage_count(p->stage);
	int rc = stage_put(p->stage, s, err);
	if (rc != 0)
		staged_free(s);
	if (stage_count(p->stage) <= had) /* older ones were dropped: pulls may wait behind those */
		ps_waits_soon(p);
	return rc;
}

static void refuse_room(struct request *rq, const struct error *err)
{
	request_err(rq, err->code == ERROR_DATA ? "fenced" : "no-memory", "%s", err->text);
}

/* Tells the standby of a push, if it was kept. */
static void push_repeat(struct ps *p, const struct staged *name)
{
	struct staged *s = stage_find(p->stage, name->worker, name->generation, name->sequence);

	if (s && p->standby)
		standby_push(p, s);
	else if (s && !s->absent)
		s->kept = 0;
}

enum part_staged ps_stage(void *ps, struct request *rq, const char *unfit)
{
	struct ps *p = ps;
	struct staged *s = NULL;
	struct error err = {0};

	if (!unfit && ps_push_read(p, rq, &s, &err) != 0) {
		request_bad(rq, &err);
		return PART_BAD;
	}
	if (unfit || s->diverged) {
		refuse_values(p, rq, unfit ? unfit : s->why);
		staged_free(s);
		return PART_UNFIT;
	}
	struct staged name = *s;
	if (push_keep(p, s, &err) == 0) {
		push_repeat(p, &name);
		return PART_STAGED;
	}
	refuse_room(rq, &err);
	return PART_UNFIT;
}

void ps_push_answer(struct ps *p, struct request *rq, struct staged *s)
{
	struct staged name = *s; /* s may be gone soon */
	struct error err = {0};

	if (p->replica && round_check_push(p->replica, s, &err) != 0) {
		request_bad(rq, &err);
		staged_free(s);
		return;
	}
	if (push_keep(p, s, &err) != 0) {
		refuse_room(rq, &err);
		return;
	}
	push_repeat(p, &name);
	standby_staged(p, rq, name.worker, name.generation, name.sequence);
	if (p->replica) {
		early_over(p->replica, name.worker, name.generation);
		round_look(p->replica);
	}
}

/* For a part whose lead is another process: a push for a later iteration waits for it. At a replica
 * only the next iteration is possible: nobody has parameters of a later one. One with sums only does
 * not know which iterations there are until the lead says so. */
void ps_on_push(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct staged *s;
	struct error err = {0};

	if (!ps_in_force(p, rq) ||
	    (p->replica ? !ps_replica_serves(p->replica, rq) : !move_check_map(p, rq)))
		return;
	if (ps_push_read(p, rq, &s, &err) != 0) {
		request_bad(rq, &err);
	} else if (s->diverged) {
		refuse_values(p, rq, s->why);
		staged_free(s);
	} else if (s->iteration <= p->applied || p->options.sums) {
		ps_push_answer(p, rq, s);
	} else if (p->replica && s->iteration > p->applied + 1) {
		request_err(rq, "bad-request",
			    "iteration %llu: %llu units are applied here, and nobody has "
			    "parameters of later ones",
			    (unsigned long long)s->iteration, (unsigned long long)p->applied);
		staged_free(s);
	} else {
		struct ps_wait *w = calloc(1, sizeof *w);
		if (!w) {
			staged_free(s);
			request_err(rq, "no-memory", "for a push that waits");
			return;
		}
		w->push = s;
		ps_wait_add(w, p, rq);
	}
}
