/* division_verbs: partitions, as they are asked for and told; and when moves are planned. */
#include "shard/service_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOVE_SECONDS_MAX 600.0 /* moves that take longer are dropped, and planned again */

/* ---- planning ---- */

static void drop_all(struct service *s)
{
	struct queue_move move;
	struct error err;
	while (queue_move(s->queue, 0, &move) == 0 &&
	       service_make_room(s, JOURNAL_LINE_BYTES, &err) == 0) {
		log_say(LOG_LEVEL_WARNING, "move %llu from %s to %s is dropped: not done in %g s",
			(unsigned long long)move.id, move.from, move.to, MOVE_SECONDS_MAX);
		queue_drop_move(s->queue, move.id, &err);
	}
	service_changed(s, NULL);
}

static void take_plan(struct service *s, const struct queue_move *moves, size_t count)
{
	struct error err;
	if (service_make_room(s, (count + 1) * JOURNAL_LINE_BYTES, &err) != 0)
		return; /* it will be as due when there is room again */
	for (size_t i = 0; i < count; i++) {
		if (queue_plan_take(s->queue, &moves[i], &err) != QUEUE_OK) {
			log_say(LOG_LEVEL_WARNING, "%s", err.text);
			continue;
		}
		log_say(LOG_LEVEL_INFO, "move %llu: rows %llu + %llu from %s to %s",
			(unsigned long long)moves[i].id, (unsigned long long)moves[i].begin,
			(unsigned long long)moves[i].length, moves[i].from, moves[i].to);
	}
	service_changed(s, NULL);
}

void share_plan(struct service *s)
{
	struct queue_move move, *moves;
	size_t count;
	double now = clock_mono();
	if (queue_move(s->queue, 0, &move) != 0) {
		s->planned = 0;
	} else if (s->planned == 0) {
		s->planned = now;
	} else if (now - s->planned > MOVE_SECONDS_MAX) {
		drop_all(s);
		s->planned = 0;
	}
	if (queue_plan(s->queue, &moves, &count) != 0)
		return; /* no memory: later */
	if (count > 0)
		take_plan(s, moves, count);
	free(moves);
}

/* ---- telling ---- */

static void moving(const struct service *s, const char *worker, uint64_t *in, uint64_t *out)
{
	struct queue_move move;
	*in = *out = 0;
	for (size_t i = 0; queue_move(s->queue, i, &move) == 0; i++) {
		*in += strcmp(move.to, worker) == 0 ? move.length : 0;
		*out += strcmp(move.from, worker) == 0 ? move.length : 0;
	}
}

void share_partitions(struct request *rq, void *service)
{
	struct service *s = service;
	struct queue_share share;
	struct queue_parts_stat stat;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	for (size_t i = 0; queue_share(s->queue, i, &share) == 0; i++) {
		uint64_t in, out;
		moving(s, share.worker, &in, &out);
		record_begin(&o, line, sizeof line, "partition");
		record_add(&o, "worker", share.worker);
		record_add_u64(&o, "begin", share.begin);
		record_add_u64(&o, "samples", share.samples);
		record_add_u64(&o, "rows", share.rows);
		record_add_u64(&o, "traversals", share.traversals);
		record_add_u64(&o, "left", share.left);
		record_add_brief(&o, "since", (double)share.given / (double)share.rows);
		record_add_u64(&o, "incoming", in);
		record_add_u64(&o, "outgoing", out);
		request_put_record(rq, &o);
	}
	queue_parts_stat(s->queue, &stat);
	record_begin(&o, line, sizeof line, "ok");
	record_add_u64(&o, "budget", stat.budget);
	record_add_u64(&o, "unseen", stat.unseen);
	record_add_real(&o, "migrate", queue_migrate(s->queue));
	record_add_u64(&o, "moves", stat.moves);
	record_add_u64(&o, "moves-done", stat.moves_done);
	record_add_u64(&o, "rows-moved", stat.rows_moved);
	request_ok_record(rq, &o);
}

void share_rows(struct request *rq, void *service)
{
	struct service *s = service;
	struct queue_share share;
	const char *only = record_get(request_record(rq), "worker");
	char line[RECORD_LINE_MAX], worker[OPTION_ID_MAX];
	struct record_out o;
	snprintf(worker, sizeof worker, "%s", only ? only : "");
	for (size_t i = 0; queue_share(s->queue, i, &share) == 0; i++) {
		uint64_t begin, length, times;
		if (worker[0] && strcmp(worker, share.worker) != 0)
			continue;
		for (size_t j = 0; queue_rows(s->queue, i, j, &begin, &length, &times) == 0; j++) {
			record_begin(&o, line, sizeof line, "rows");
			record_add(&o, "worker", share.worker);
			record_add_u64(&o, "begin", begin);
			record_add_u64(&o, "length", length);
			record_add_u64(&o, "times", times);
			request_put_record(rq, &o);
		}
	}
	request_ok(rq, NULL);
}

/* ---- moves ---- */

int share_put_moves(struct service *s, struct request *rq, const char *worker, int even_none)
{
	struct queue_move move;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	int count = 0;
	for (size_t i = 0; queue_move(s->queue, i, &move) == 0; i++) {
		if (strcmp(move.to, worker) != 0)
			continue;
		record_begin(&o, line, sizeof line, "move");
		record_add_u64(&o, "id", move.id);
		record_add(&o, "from", move.from);
		record_add_u64(&o, "begin", move.begin);
		record_add_u64(&o, "length", move.length);
		request_put_record(rq, &o);
		count++;
	}
	if (count == 0 && !even_none)
		return 0;
	request_ok(rq, "count=%d", count);
	return 1;
}

void share_moves(struct request *rq, void *service)
{
	struct service *s = service;
	const char *worker;
	double wait = 0;
	struct error err;
	struct queue_share share;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_real_opt(request_record(rq), "wait", 0, WAIT_SECONDS_MAX, &wait, &err) != 0)
		request_bad(rq, &err);
	else if (queue_share_of(s->queue, worker, &share) != 0)
		request_err(rq, "unknown-worker", "worker '%.64s' has no partition", worker);
	else if (!share_put_moves(s, rq, worker, wait <= 0))
		wait_for_moves(s, rq, worker, wait);
}

void share_moved(struct request *rq, void *service)
{
	struct service *s = service;
	const char *worker;
	uint64_t id;
	struct error err;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_u64(request_record(rq), "id", 0, UINT64_MAX, &id, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!service_may_change(s, rq, JOURNAL_LINE_BYTES))
		return;
	enum queue_result result = queue_moved(s->queue, worker, id, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	service_changed(s, rq);
	request_ok(rq, NULL);
}

void share_drop(struct request *rq, void *service)
{
	struct service *s = service;
	uint64_t id;
	struct error err;
	if (record_u64(request_record(rq), "id", 0, UINT64_MAX, &id, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!service_may_change(s, rq, JOURNAL_LINE_BYTES))
		return;
	enum queue_result result = queue_drop_move(s->queue, id, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	service_changed(s, rq);
	request_ok(rq, NULL);
}
