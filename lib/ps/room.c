/*
 * A replica without parameters: trainers have those, and it keeps the last two sums, where its
 * ranks read them (sum_pair.h).
 *
 * The first rank that says `room` decides how long a sum is.  What a rank still has of an earlier
 * process of this replica it hands over: so a sum that was settled, and not applied before that
 * process died, is not lost.
 */
#include "ps/replica.h"

#include "base/log.h"
#include "ps/fabric_client.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_FLOATS ((size_t)1 << 20) /* one thread copies so many at a time */

float *ps_room_begin(struct ps_replica *r)
{
	ps_room_mark(r, SUM_PAIR_OPEN);
	return sum_pair_at(&r->sums, !r->newest);
}

void ps_room_mark(struct ps_replica *r, enum sum_pair_state state)
{
	const struct sum_pair_head head = {state, r->round.iteration, r->round.number};

	sum_pair_set(&r->sums, !r->newest, &head);
	if (state == SUM_PAIR_COMMITTED)
		r->newest = !r->newest;
}

void ps_room_free(struct ps_replica *r)
{
	sum_pair_close(&r->sums);
	if (r->gradient)
		r->ps->store = r->ps->options.store;
	store_free(r->gradient);
	r->gradient = NULL;
}

/* ---- the memory ---- */

/* What asks a replica for the length and the names of its parameters asks this; nothing is ever
 * written there, so it takes no memory. */
static int make_gradient(struct store **out, uint64_t floats, struct error *err)
{
	struct layout *layout = malloc(sizeof *layout);
	struct map *map = malloc(sizeof *map);
	struct opt opt;
	int rc = -1;

	if (!layout || !map) {
		error_set(err, ERROR_OS, NULL, "out of memory");
	} else {
		layout_start(layout, 0);
		map_even(map, 1, floats);
		if (layout_add_tensor(layout, "float", floats, 1, LAYOUT_ZERO, 0, LAYOUT_ADD,
				      err) == 0 &&
		    opt_by_name(&opt, "add", err) == 0)
			rc = store_new_bare(out, layout, map, 0, &opt, err);
	}
	free(layout);
	free(map);
	return rc;
}

static int make_room(struct ps_replica *r, uint64_t floats, struct error *err)
{
	struct ps *p = r->ps;

	if (sum_pair_make(&r->sums, floats, p->options.incarnation, err) != 0)
		return -1;
	if (make_gradient(&r->gradient, floats, err) == 0) {
		p->store = r->gradient;
		if (round_make_buckets(r, err) == 0)
			return 0;
	}
	ps_room_free(r);
	return -1;
}

struct copy {
	const float *from;
	float *to;
	size_t count;
};

static void copy_piece(size_t piece, void *arg)
{
	const struct copy *c = arg;
	size_t at = piece * COPY_FLOATS, left = c->count - at;

	memcpy(c->to + at, c->from + at,
	       (left < COPY_FLOATS ? left : COPY_FLOATS) * sizeof *c->to);
}

/* The newest sum of the other process, if nothing that is here is as new. */
static void room_take(struct ps_replica *r, const struct sum_pair *theirs)
{
	const struct round *rd = &r->round;
	struct sum_pair_head head[2] = {sum_pair_head(theirs, 0), sum_pair_head(theirs, 1)};
	int which = head[1].state != SUM_PAIR_OPEN &&
		    (head[0].state == SUM_PAIR_OPEN || head[1].round > head[0].round);
	struct copy c = {sum_pair_at(theirs, which), sum_pair_at(&r->sums, !r->newest),
			 (size_t)theirs->floats};

	if (rd->state != ROUND_NONE || head[which].state == SUM_PAIR_OPEN ||
	    head[which].state > SUM_PAIR_COMMITTED || head[which].round <= rd->number ||
	    head[which].iteration == UINT64_MAX)
		return;
	sum_pair_set(&r->sums, !r->newest, &(struct sum_pair_head){SUM_PAIR_OPEN, 0, 0});
	team_run(r->team, (c.count + COPY_FLOATS - 1) / COPY_FLOATS, copy_piece, &c);
	struct sum_pair_head after = sum_pair_head(theirs, which);
	if (memcmp(&after, &head[which], sizeof after) != 0)
		return; /* somebody writes there still */
	round_take(r, &head[which]);
	ps_room_mark(r, (enum sum_pair_state)head[which].state);
	log_say(LOG_LEVEL_INFO, "the sum of iteration %llu is here again, %s",
		(unsigned long long)head[which].iteration,
		head[which].state == SUM_PAIR_WHOLE ? "not committed" : "committed");
}

/* ---- requests ---- */

/* Memory of another job's life is of no use, but no mistake either: a rank does not know. */
static int read_theirs(struct ps_replica *r, struct request *rq, uint64_t floats,
		       struct sum_pair *theirs, struct error *err)
{
	int fd = request_passed(rq), rc = fd < 0 ? 0 : sum_pair_open(theirs, fd, err);

	if (fd >= 0)
		close(fd);
	if (rc != 0 || !theirs->base)
		return rc;
	if (theirs->incarnation != r->ps->options.incarnation)
		sum_pair_close(theirs);
	else if (theirs->floats != floats)
		rc = error_set(err, ERROR_DATA, NULL, "floats=%llu, with sums of %llu",
			       (unsigned long long)floats, (unsigned long long)theirs->floats);
	return rc;
}

static void room(struct ps_replica *r, struct request *rq, uint64_t floats,
		 const struct sum_pair *theirs)
{
	struct error err = {0};

	if (r->sums.base && r->sums.floats != floats) {
		request_err(rq, "config", "floats=%llu, but another rank has said floats=%llu",
			    (unsigned long long)floats, (unsigned long long)r->sums.floats);
		return;
	}
	if (!r->sums.base && make_room(r, floats, &err) != 0) {
		log_say(LOG_LEVEL_ERROR, "room: %s", err.text);
		request_err(rq, "no-memory", "%s", err.text);
		return;
	}
	if (theirs->base)
		room_take(r, theirs);
	if (r->state != REPLICA_SERVING && r->fabric)
		fabric_client_share(r->fabric);
	r->state = REPLICA_SERVING;
	ps_room_on_look(rq, r->ps);
}

void ps_room_on_room(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct sum_pair theirs = {.fd = -1, .own_fd = -1};
	uint64_t floats;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_u64(request_record(rq), "floats", 1, SUM_PAIR_FLOATS_MAX, &floats, &err) != 0 ||
	    read_theirs(p->replica, rq, floats, &theirs, &err) != 0)
		request_bad(rq, &err);
	else
		room(p->replica, rq, floats, &theirs);
	sum_pair_close(&theirs);
}

void ps_room_on_look(struct request *rq, void *ps)
{
	const struct ps *p = ps;
	const struct sum_pair *sums = &p->replica->sums;

	if (sums->base)
		request_ok_with(rq, RECORD("ok", F("map-bytes", sums->bytes)), sums->fd);
	else
		request_err(rq, "empty", "nobody has said room here yet");
}
