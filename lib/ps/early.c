/*
 * Gradients of which parts are final before their push comes; requests `part` say so.  Only their
 * place and the named ranges are kept.  In the end only the push itself counts.
 */
#include "ps/replica.h"

#include "base/grow.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_MAX 65536 /* workers */
/* Ranges of one gradient that do not touch. A worker goes through its gradient in order. */
#define RANGES_MAX 4096

struct range {
	size_t begin, end;
};

struct early {
	char worker[OPTION_ID_MAX];
	uint64_t generation, sequence, iteration;
	struct payload *payload; /* the dense gradient, held */
	struct range *range;     /* in order, none touching another */
	size_t ranges, room;
	struct early *next;
};

static void early_free(struct early *e)
{
	payload_release(e->payload);
	free(e->range);
	free(e);
}

const struct early *early_find(const struct ps_replica *r, const char *worker, uint64_t generation,
			       uint64_t iteration)
{
	const struct early *e = r->early;

	while (e && (e->generation != generation || e->iteration != iteration ||
		     strcmp(e->worker, worker) != 0))
		e = e->next;
	return e;
}

const float *early_dense(const struct early *e)
{
	return payload_data(e->payload);
}

uint64_t early_sequence(const struct early *e)
{
	return e->sequence;
}

int early_covers(const struct early *e, size_t begin, size_t end)
{
	for (size_t i = 0; i < e->ranges; i++) {
		if (e->range[i].begin <= begin && end <= e->range[i].end)
			return 1;
	}
	return 0;
}

/* Joins a range with those that it touches. If there are too many ranges, this one is forgotten: it
 * will be final with the push. */
static int add_range(struct early *e, struct range add)
{
	size_t i = 0, n;

	if (e->ranges == RANGES_MAX)
		return 0;
	if (GROW(e->range, e->room, e->ranges + 1) != 0)
		return -1;
	while (i < e->ranges && e->range[i].end < add.begin)
		i++;
	for (n = 0; i + n < e->ranges && e->range[i + n].begin <= add.end; n++) {
		const struct range *old = &e->range[i + n];
		add.begin = old->begin < add.begin ? old->begin : add.begin;
		add.end = old->end > add.end ? old->end : add.end;
	}
	memmove(e->range + i + 1, e->range + i + n, (e->ranges - i - n) * sizeof *e->range);
	e->range[i] = add;
	e->ranges += 1 - n;
	return 0;
}

static void early_drop_if(struct ps_replica *r,
			  int (*gone)(const struct early *e, const struct early *like),
			  const struct early *like)
{
	struct early **at = &r->early, *e;

	while ((e = *at)) {
		if (!gone(e, like)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		early_free(e);
	}
}

static int early_is_before(const struct early *e, const struct early *like)
{
	return e->iteration < like->iteration;
}

static int is_up_to(const struct early *e, const struct early *like)
{
	return e->generation <= like->generation &&
	       (!*like->worker || strcmp(e->worker, like->worker) == 0);
}

void early_drop_before(struct ps_replica *r, uint64_t iteration)
{
	early_drop_if(r, early_is_before, &(struct early){.iteration = iteration});
}

void early_drop(struct ps_replica *r, const char *worker, uint64_t generation)
{
	struct early like = {.generation = generation};

	snprintf(like.worker, sizeof like.worker, "%s", worker ? worker : "");
	early_drop_if(r, is_up_to, &like);
}

static int early_is_same(const struct early *e, const struct early *like)
{
	return e->generation == like->generation && strcmp(e->worker, like->worker) == 0;
}

void early_over(struct ps_replica *r, const char *worker, uint64_t generation)
{
	struct early like = {.generation = generation};

	snprintf(like.worker, sizeof like.worker, "%s", worker);
	early_drop_if(r, early_is_same, &like);
}

/* Finds or makes the one of this worker. What it said about another batch or other memory is
 * forgotten. NULL: no memory. */
static struct early *early_find_or_make(struct ps_replica *r, const struct early *like,
					struct payload *payload)
{
	struct early **at = &r->early, *e;
	size_t count = 0;

	while ((e = *at) && strcmp(e->worker, like->worker) != 0) {
		at = &e->next;
		count++;
	}
	if (e && e->generation == like->generation && e->sequence == like->sequence &&
	    e->iteration == like->iteration && payload_data(e->payload) == payload_data(payload))
		return e;
	if (e) {
		*at = e->next;
		early_free(e);
	} else if (count >= EARLY_MAX)
		return NULL;
	e = malloc(sizeof *e);
	if (!e)
		return NULL;
	*e = *like;
	e->payload = payload_hold(payload);
	e->next = r->early;
	r->early = e;
	return e;
}

static int early_read_part(const struct ps_replica *r, struct request *rq, struct early *like,
			   struct range *range, struct error *err)
{
	const struct record *rec = request_record(rq);
	size_t count = store_dense_count(r->ps->store);
	struct payload *payload = request_payload(rq);
	const char *worker;
	uint64_t begin, length;

	if (record_id(rec, "worker", &worker, err) != 0 ||
	    record_u64(rec, "generation", 1, UINT64_MAX - 1, &like->generation, err) != 0 ||
	    record_u64(rec, "sequence", 0, UINT64_MAX - 1, &like->sequence, err) != 0 ||
	    record_u64(rec, "iteration", 0, UINT64_MAX - 1, &like->iteration, err) != 0 ||
	    record_u64(rec, "begin", 0, count, &begin, err) != 0 ||
	    record_u64(rec, "length", 0, count - begin, &length, err) != 0)
		return -1;
	if (!payload || !payload_is_shared(payload))
		return error_set(err, ERROR_DATA, NULL,
				 "a part lies in mapped memory: map-offset-bytes= and map-bytes=");
	if (payload_bytes(payload) != count * sizeof(float))
		return error_set(err, ERROR_DATA, NULL,
				 "map-bytes=%zu is not the whole vector of %zu floats",
				 payload_bytes(payload), count);
	snprintf(like->worker, sizeof like->worker, "%s", worker);
	*range = (struct range){(size_t)begin, (size_t)(begin + length)};
	return 0;
}

void early_on_part(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct ps_replica *r = p->replica;
	struct early like = {.ranges = 0}, *e;
	struct range range = {0, 0};
	struct error err = {0};

	if (!ps_in_force(p, rq) || !ps_replica_serves(r, rq))
		return;
	if (early_read_part(r, rq, &like, &range, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	/* It is late, as its push will be; or its push is here, which covers everything. */
	if (like.iteration < p->applied ||
	    stage_find_for(p->stage, like.worker, like.generation, like.iteration)) {
		request_ok(rq, NULL);
		return;
	}
	/* Its push will cover it. */
	if (like.iteration == p->applied + 1 ||
	    (p->options.sums && like.iteration > p->applied)) {
		request_ok(rq, NULL);
		return;
	}
	if (like.iteration > p->applied) {
		request_err(rq, "bad-request",
			    "iteration %llu: %llu units are applied here, and nobody has "
			    "parameters of later ones",
			    (unsigned long long)like.iteration, (unsigned long long)p->applied);
		return;
	}
	if (stage_is_over(p->stage, like.worker, like.generation)) {
		request_err(rq, "fenced", "generation %llu of %s is over",
			    (unsigned long long)like.generation, like.worker);
		return;
	}
	e = early_find_or_make(r, &like, request_payload(rq));
	if (!e || (range.begin < range.end && add_range(e, range) != 0)) {
		request_err(rq, "no-memory", "for a part");
		return;
	}
	round_look(r);
	request_ok(rq, NULL);
}
