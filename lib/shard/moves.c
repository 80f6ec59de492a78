/* moves: rows that go to another worker's partition. It decides when they are planned, who is told
 * of them, and when nobody waits for them any more. */
#include "shard/service_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define MOVE_SECONDS_MAX 600.0 /* moves that take longer are dropped, and planned again */

/* ---- planning ---- */

static const char *name(const struct partitions *own, size_t i)
{
	return own->partition[i].worker;
}

static void moves_drop_all(struct service *s, const struct partitions *own)
{
	struct error err;
	while (own->moves > 0 && service_make_room(s, JOURNAL_LINE_BYTES, &err) == 0) {
		struct queue_change c = {.id = own->move[0].id};
		log_say(LOG_LEVEL_WARNING, "move %llu from %s to %s is dropped: not done in %g s",
			(unsigned long long)c.id, name(own, own->move[0].from),
			name(own, own->move[0].to), MOVE_SECONDS_MAX);
		queue_make(s->queue, queue_kind("drop"), &c, &err);
	}
	service_changed(s, NULL);
}

static void moves_take_plan(struct service *s, const struct partitions *own,
			    const struct partition_move *moves, size_t count)
{
	struct error err;
	if (service_make_room(s, (count + 1) * JOURNAL_LINE_BYTES, &err) != 0)
		return; /* they will still be due when there is room again */
	for (size_t i = 0; i < count; i++) {
		struct queue_change c = {.id = moves[i].id,
					 .from = name(own, moves[i].from),
					 .to = name(own, moves[i].to),
					 .begin = moves[i].begin,
					 .length = moves[i].length};
		if (queue_make(s->queue, queue_kind("move"), &c, &err) != QUEUE_OK)
			log_say(LOG_LEVEL_WARNING, "%s", err.text);
		else
			log_say(LOG_LEVEL_INFO, "move %llu: rows %llu + %llu from %s to %s",
				(unsigned long long)c.id, (unsigned long long)c.begin,
				(unsigned long long)c.length, c.from, c.to);
	}
	service_changed(s, NULL);
}

void moves_plan(struct service *s)
{
	const struct partitions *own = queue_own(s->queue);
	struct partition_move *moves;
	size_t count;
	if (!own || s->is_lost)
		return;
	double now = clock_mono();
	if (own->moves == 0) {
		s->planned = 0;
	} else if (s->planned == 0) {
		s->planned = now;
	} else if (now - s->planned > MOVE_SECONDS_MAX) {
		moves_drop_all(s, own);
		s->planned = 0;
	}
	if (partitions_due(own, queue_parameters(s->queue)->batch, &moves, &count) != 0)
		return; /* out of memory: later */
	if (count > 0)
		moves_take_plan(s, own, moves, count);
	free(moves);
}

/* ---- telling ---- */

int moves_are_open(const struct service *s)
{
	const struct partitions *own = queue_own(s->queue);
	return own && own->moves > 0;
}

int moves_put(struct service *s, struct request *rq, const char *worker, int even_none)
{
	const struct partitions *own = queue_own(s->queue);
	size_t to = own ? partitions_find(own, worker) : 0;
	int count = 0;
	for (size_t i = 0; own && i < own->moves; i++) {
		const struct partition_move *m = &own->move[i];
		if (m->to != to)
			continue;
		request_put_record(rq, RECORD("move", F("id", m->id), F("from", name(own, m->from)),
					      F("begin", m->begin), F("length", m->length)));
		count++;
	}
	if (count == 0 && !even_none)
		return 0;
	request_ok(rq, "count=%d", count);
	return 1;
}

static void verb_moves(struct request *rq, void *service)
{
	struct service *s = service;
	const struct partitions *own = queue_own(s->queue);
	const char *worker;
	double wait = 0;
	struct error err;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_real_opt(request_record(rq), "wait", 0, WAIT_SECONDS_MAX, &wait, &err) != 0)
		request_bad(rq, &err);
	else if (!own || partitions_find(own, worker) == own->count)
		request_err(rq, "unknown-worker", "worker '%.64s' has no partition", worker);
	else if (!moves_put(s, rq, worker, wait <= 0))
		wait_for_moves(s, rq, worker, wait);
}

const struct verb move_verbs[] = {
	{"moves", "worker", "wait", verb_moves, 0,
	 "rows that are to come to this worker's partition"},
	{0}};
