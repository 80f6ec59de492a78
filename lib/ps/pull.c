/*
 * Pulls: parameters as of an iteration, at once or when its units are applied, into the answer or
 * into memory that the client has mapped.
 *
 * A pull never changes what is in the store; but it makes rows that nobody has asked for yet, with
 * their initial values.
 */
#include "ps/behind.h"
#include "ps/move.h"
#include "ps/replica.h"

#include "base/clock.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASKED_SECONDS_MAX 3600.0

/* Reads when the worker asked, by the clock that all processes of a host share. While a server
 * sleeps, its requests wait unread, and only this time tells for how long. An impossible time is
 * ignored. */
static int read_asked(const struct record *r, double *asked, struct error *err)
{
	double told = *asked;

	if (record_real_opt(r, "asked", 0.0, 1e15, &told, err) != 0)
		return -1;
	if (told > 0 && told < *asked && told > *asked - ASKED_SECONDS_MAX)
		*asked = told;
	return 0;
}

static int pull_read(const struct ps *p, struct request *rq, struct ps_pull *q, struct error *err)
{
	const struct record *r = request_record(rq);
	struct payload *payload = request_payload(rq);
	const char *worker;

	memset(q, 0, sizeof *q);
	q->asked = clock_mono();
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &q->generation, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &q->iteration, err) != 0 ||
	    record_u64_opt(r, "after", 0, UINT64_MAX, &q->after, err) != 0 ||
	    record_u64(r, "dense", 0, 1, &q->dense, err) != 0 ||
	    record_u64(r, "rows", 0, UINT32_MAX, &q->rows, err) != 0 ||
	    record_u64_opt(r, "into-offset-bytes", 0, UINT64_MAX, &q->into_offset, err) != 0 ||
	    record_u64_opt(r, "into-bytes", 0, UINT64_MAX, &q->into_bytes, err) != 0)
		return -1;
	if (read_asked(r, &q->asked, err) != 0)
		return -1;
	snprintf(q->worker, sizeof q->worker, "%s", worker);
	q->into = record_get(r, "into-bytes") != NULL;
	if (q->rows * sizeof(uint32_t) != (payload ? payload_bytes(payload) : 0))
		return error_set(err, ERROR_DATA, NULL, "rows=%llu with a payload of %zu bytes",
				 (unsigned long long)q->rows, payload ? payload_bytes(payload) : 0);
	if (q->dense && p->options.sums)
		return error_set(err, ERROR_DATA, NULL,
				 "dense=1, but there are no parameters here, only sums");
	if (q->rows && store_width(p->store) == 0)
		return error_set(err, ERROR_DATA, NULL, "rows=%llu, but there is no table",
				 (unsigned long long)q->rows);
	return 0;
}

/* Writes the bulk of an answer: the dense range, then the rows. */
static void model_fill(const struct ps *p, int dense, size_t rows, float *const *row, float *out,
		       int apart)
{
	if (dense) {
		store_pull_dense(p->store, out, apart);
		out += store_dense_count(p->store);
	}
	store_pull_rows(p->store, row, rows, out);
}

/* For how many seconds the worker waited until the units that it needs were applied. */
static double pull_waited(const struct ps *p, uint64_t iteration, double asked)
{
	double reached;

	if (iteration > p->applied || p->applied - iteration >= PS_REACHED)
		return 0.0;
	reached = p->reached[iteration % PS_REACHED];
	return reached > asked ? reached - asked : 0.0;
}

int ps_pull_waits(const struct ps *p, const struct ps_pull *q)
{
	return q->iteration > p->applied || behind_is(&p->behind) ||
	       (q->after && stage_find(p->stage, q->worker, q->generation, q->after));
}

size_t ps_pull_bytes(const struct ps *p, const struct ps_pull *q)
{
	size_t count = q->dense ? store_dense_count(p->store) : 0;

	return (count + (size_t)q->rows * store_width(p->store)) * sizeof(float);
}

void ps_pull_answer(struct ps *p, struct request *rq, const struct ps_pull *q, float *const *row)
{
	int dense = (int)q->dense, into = q->into;
	uint64_t into_offset = q->into_offset, into_bytes = q->into_bytes;
	size_t rows = (size_t)q->rows;
	double wait = pull_waited(p, q->iteration, q->asked);
	size_t width = store_width(p->store), count = dense ? store_dense_count(p->store) : 0;
	size_t bytes = ps_pull_bytes(p, q);
	float *out = into ? request_mapped(rq, into_offset, bytes) : malloc(bytes ? bytes : 1);

	if (into && (bytes > into_bytes || (!out && bytes))) {
		request_err(rq, "bad-request",
			    "%zu bytes do not fit into-offset-bytes=%llu into-bytes=%llu", bytes,
			    (unsigned long long)into_offset, (unsigned long long)into_bytes);
		return;
	}
	if (!out) {
		request_err(rq, "no-memory", "%zu bytes", bytes);
		return;
	}
	model_fill(p, dense, rows, row, out, into);
	struct record_out *o =
		RECORD("model", F("iteration", p->applied), F("dense", count), F("rows", rows),
		       F("width", width), wait > 0.0 ? F_SECONDS("waited", wait) : F_NONE);
	if (into) {
		record_add_u64(o, "map-offset-bytes", into_offset);
		record_add_u64(o, "map-bytes", bytes);
	} else
		record_add_u64(o, "bytes", bytes);
	request_put_record(rq, o);
	if (!into && bytes)
		request_put_ref(rq, out, bytes, free, out);
	else if (!into)
		free(out);
	request_ok(rq, NULL);
}

static float **scratch(struct ps *p, size_t rows)
{
	if (rows > p->scratch_rows) {
		free(p->scratch);
		p->scratch = malloc(rows * 2 * sizeof *p->scratch);
		p->scratch_rows = p->scratch ? rows * 2 : 0;
	}
	return p->scratch;
}

static void pull_later(struct ps *p, struct request *rq, const struct ps_pull *q, float *const *row)
{
	struct ps_wait *w = calloc(1, sizeof *w);

	if (w && q->rows)
		w->row = malloc((size_t)q->rows * sizeof *w->row);
	if (!w || (q->rows && !w->row)) {
		free(w);
		request_err(rq, "no-memory", "for a pull that waits");
		return;
	}
	if (q->rows)
		memcpy(w->row, row, (size_t)q->rows * sizeof *w->row);
	w->pull = *q;
	ps_wait_add(w, p, rq);
}

void ps_on_pull(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct ps_pull q;
	struct error err = {0};
	double start = clock_mono();

	p->pulls++;
	if (p->more.seen)
		p->more.seen(rq, p->more.owner);
	if (!ps_in_force(p, rq) ||
	    (p->replica ? !ps_replica_serves(p->replica, rq) : !move_check_map(p, rq)))
		return;
	if (pull_read(p, rq, &q, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	float **row = scratch(p, (size_t)q.rows);
	if (q.rows && !row) {
		request_err(rq, "no-memory", "%llu rows", (unsigned long long)q.rows);
		return;
	}
	if (q.rows && store_rows(p->store, payload_data(request_payload(rq)), (size_t)q.rows, 0,
				 row, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!p->replica)
		heat_pull(&p->heat, q.rows ? payload_data(request_payload(rq)) : NULL, (size_t)q.rows,
			  (int)q.dense);
	if (ps_pull_waits(p, &q))
		pull_later(p, rq, &q, row);
	else
		ps_pull_answer(p, rq, &q, row);
	p->work += clock_mono() - start;
}
