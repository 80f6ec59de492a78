/* verbs: what workers say, and what people say of workers and pieces.  Here text becomes numbers
 * and results become answers; what may happen is the queue's to say. */
#include "shard/service_internal.h"

#include <stdio.h>

/* Where a generation is not in force, that is the answer, whatever else is wrong; but for lines that
 * may be missing. */
struct grip {
	const char *worker;
	uint64_t generation, id;
};

void verb_refuse(struct request *rq, enum queue_result result, const struct error *err)
{
	request_err(rq, queue_result_code(result), "%s%s%s", err->place, err->place[0] ? ": " : "",
		    err->text);
}

static int read_worker(struct service *s, struct request *rq, struct grip *g)
{
	struct error err;
	const struct record *r = request_record(rq);
	if (!service_is_whole(s, rq))
		return 0;
	if (record_id(r, "worker", &g->worker, &err) == 0 &&
	    record_u64(r, "generation", 0, UINT64_MAX, &g->generation, &err) == 0)
		return 1;
	request_bad(rq, &err);
	return 0;
}

/* A value is wrong: so says the answer, unless the generation is not in force. */
static void refuse_value(struct service *s, struct request *rq, const struct grip *g,
			 const struct error *bad)
{
	struct error err;
	enum queue_result result = queue_in_force(s->queue, g->worker, g->generation, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_bad(rq, bad);
}

/* Room in the journal for what this worker asks. */
static int may_change(struct service *s, struct request *rq, const char *worker,
		      uint64_t generation)
{
	struct error full, err;
	if (service_make_room(s, JOURNAL_LINE_BYTES, &full) == 0)
		return 1;
	enum queue_result result = queue_in_force(s->queue, worker, generation, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_err(rq, "journal", "%s: %s", full.place, full.text);
	return 0;
}

static int read_grip(struct service *s, struct request *rq, struct grip *g)
{
	struct error err;
	if (!read_worker(s, rq, g))
		return 0;
	if (record_u64(request_record(rq), "id", 0, UINT64_MAX, &g->id, &err) == 0)
		return 1;
	refuse_value(s, rq, g, &err);
	return 0;
}

static void answer(struct service *s, struct request *rq, enum queue_result result,
		   const struct error *err)
{
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, err);
		return;
	}
	service_changed(s, rq);
	request_ok(rq, NULL);
}

void verb_put_piece(const struct service *s, struct request *rq, const struct queue_piece *piece)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "shard");
	record_add_u64(&o, "id", piece->id);
	record_add_u64(&o, "epoch", piece->epoch);
	record_add_u64(&o, "begin", piece->begin);
	record_add_u64(&o, "length", piece->length);
	record_add(&o, "lease", s->lease_text);
	record_add_u64(&o, "seed", piece->seed);
	if (piece->skip > 0 || piece->take != piece->length) {
		record_add_u64(&o, "skip", piece->skip);
		record_add_u64(&o, "take", piece->take);
	}
	request_put_record(rq, &o);
}

/* ---- hello ---- */

static void answer_hello(struct service *s, struct request *rq, const char *worker,
			 uint64_t generation)
{
	const struct queue_parameters *p = queue_parameters(s->queue);
	struct queue_share share;
	char own[80] = "";
	if (queue_share_of(s->queue, worker, &share) == 0)
		snprintf(own, sizeof own, " partition-begin=%llu partition-samples=%llu",
			 (unsigned long long)share.begin, (unsigned long long)share.samples);
	request_ok(rq,
		   "generation=%llu samples=%llu shards=%llu epochs=%llu incarnation=%llu "
		   "shuffle=%s batch=%llu%s",
		   (unsigned long long)generation, (unsigned long long)p->samples,
		   (unsigned long long)queue_shards(s->queue), (unsigned long long)p->epochs,
		   (unsigned long long)queue_incarnation(s->queue), queue_shuffle_name(p->shuffle),
		   (unsigned long long)p->batch, own);
}

struct piece_target {
	const struct service *service;
	struct request *rq;
};

static int put_held(void *target, const struct queue_piece *piece)
{
	struct piece_target *to = target;
	verb_put_piece(to->service, to->rq, piece);
	return 0;
}

static void resume(struct service *s, struct request *rq)
{
	struct grip g;
	struct error err;
	uint64_t in_force, last;
	if (!read_worker(s, rq, &g))
		return;
	enum queue_result result = queue_in_force(s->queue, g.worker, g.generation, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	queue_asked(s->queue, g.worker);
	struct piece_target to = {s, rq};
	queue_who(s->queue, g.worker, &in_force, &last, put_held, &to, NULL);
	answer_hello(s, rq, g.worker, g.generation);
}

static int pass_over(void *arg, const struct queue_piece *piece)
{
	(void)arg;
	(void)piece;
	return 1;
}

/* A supervisor says fail of who died, before it says hello again: whoever still holds something
 * here and begins anew was refused, or is nobody's worker. Shards must not be held for that. */
static void give_back(struct service *s, const char *worker)
{
	uint64_t in_force, last;
	if (queue_who(s->queue, worker, &in_force, &last, pass_over, NULL, NULL) == QUEUE_OK &&
	    in_force > 0)
		(void)queue_bye(s->queue, worker, in_force, NULL);
}

void verb_hello(struct request *rq, void *service)
{
	struct service *s = service;
	const char *worker;
	uint64_t generation;
	struct error err;
	if (record_get(request_record(rq), "generation")) {
		resume(s, rq);
		return;
	}
	if (record_id(request_record(rq), "worker", &worker, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!service_may_change(s, rq, 2 * JOURNAL_LINE_BYTES)) {
		queue_asked(s->queue, worker); /* it lives, and asks again */
		return;
	}
	if (s->options.settle_only)
		give_back(s, worker);
	enum queue_result result = queue_hello(s->queue, worker, &generation, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	s->is_fencing |= generation > 1;
	queue_asked(s->queue, worker);
	service_changed(s, rq);
	answer_hello(s, rq, worker, generation);
}

/* ---- get ---- */

/* is_here: a piece is as loose as the settles of its rows are; where all of those are waited for,
 * this is, too. */
int verb_try_get(struct service *s, struct request *rq, const char *worker, uint64_t generation,
		 uint64_t max, int is_here)
{
	struct queue_piece piece;
	struct queue_stat stat;
	struct error err;
	if (queue_has_todo(s->queue) && !may_change(s, rq, worker, generation))
		return 1;
	s->is_loose = is_here && queue_loose(s->queue)[0];
	enum queue_result result = queue_get(s->queue, worker, generation, max, &piece, &err);
	if (result == QUEUE_OK)
		service_changed(s, rq);
	s->is_loose = 0;
	switch (result) {
	case QUEUE_OK:
		verb_put_piece(s, rq, &piece);
		request_ok(rq, NULL);
		return 1;
	case QUEUE_WAIT:
		return 0;
	case QUEUE_END:
		queue_stat(s->queue, &stat);
		request_ok(rq, "state=end held=%llu", (unsigned long long)stat.held);
		return 1;
	default:
		verb_refuse(rq, result, &err);
		return 1;
	}
}

void verb_get(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	struct grip g;
	struct error err;
	uint64_t max = 0;
	double wait = 0;
	if (!read_worker(s, rq, &g))
		return;
	if (record_u64_opt(r, "max", 1, UINT64_MAX, &max, &err) != 0 ||
	    record_real_opt(r, "wait", 0, WAIT_SECONDS_MAX, &wait, &err) != 0) {
		refuse_value(s, rq, &g, &err);
		return;
	}
	queue_asked(s->queue, g.worker);
	int is_here = service_is_here(s, r);
	if (!verb_try_get(s, rq, g.worker, g.generation, max, is_here))
		wait_for_piece(s, rq, g.worker, g.generation, max, is_here, wait);
}

/* ---- of one piece ---- */

/* Whether a worker's own word that rows are in the model is taken; answers when not. */
static int may_count(struct service *s, struct request *rq, const struct grip *g)
{
	struct error err;
	enum queue_result result;
	if (!s->options.settle_only)
		return 1;
	result = queue_in_force(s->queue, g->worker, g->generation, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_err(rq, "settle-only", "what is in the model is the lead's to say");
	return 0;
}

void verb_done(struct request *rq, void *service)
{
	struct service *s = service;
	struct grip g;
	struct error err;
	if (read_grip(s, rq, &g) && may_count(s, rq, &g) &&
	    may_change(s, rq, g.worker, g.generation))
		answer(s, rq, queue_done(s->queue, g.worker, g.generation, g.id, &err), &err);
}

void verb_progress(struct request *rq, void *service)
{
	struct service *s = service;
	struct grip g;
	struct error err;
	uint64_t upto;
	if (!read_grip(s, rq, &g) || !may_count(s, rq, &g))
		return;
	if (record_u64(request_record(rq), "upto", 0, UINT64_MAX, &upto, &err) != 0)
		refuse_value(s, rq, &g, &err);
	else if (may_change(s, rq, g.worker, g.generation))
		answer(s, rq, queue_progress(s->queue, g.worker, g.generation, g.id, upto, &err),
		       &err);
}

void verb_back(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	struct grip g;
	struct error err;
	uint64_t begin = 0, length = 0;
	if (!read_grip(s, rq, &g))
		return;
	int has_range = record_get(r, "begin") || record_get(r, "length");
	if (has_range && (record_u64(r, "begin", 0, UINT64_MAX, &begin, &err) != 0 ||
			  record_u64(r, "length", 1, UINT64_MAX, &length, &err) != 0)) {
		refuse_value(s, rq, &g, &err);
		return;
	}
	if (!may_change(s, rq, g.worker, g.generation))
		return;
	enum queue_result result =
		has_range ? queue_back_range(s->queue, g.worker, g.generation, g.id, begin, length,
					     &err)
			  : queue_back(s->queue, g.worker, g.generation, g.id, &err);
	answer(s, rq, result, &err);
}

/* A lease is of this life of the daemon: nothing is written down. */
void verb_renew(struct request *rq, void *service)
{
	struct service *s = service;
	struct grip g;
	struct error err;
	if (!read_grip(s, rq, &g))
		return;
	service_clock(s);
	enum queue_result result = queue_renew(s->queue, g.worker, g.generation, g.id, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_ok(rq, NULL);
}

void verb_release(struct request *rq, void *service)
{
	struct service *s = service;
	uint64_t id;
	struct error err;
	if (record_u64(request_record(rq), "id", 0, UINT64_MAX, &id, &err) != 0)
		request_bad(rq, &err);
	else if (service_may_change(s, rq, JOURNAL_LINE_BYTES))
		answer(s, rq, queue_release(s->queue, id, &err), &err);
}

/* ---- of one worker ---- */

void verb_bye(struct request *rq, void *service)
{
	struct service *s = service;
	struct grip g;
	struct error err;
	if (!read_worker(s, rq, &g) || !may_change(s, rq, g.worker, g.generation))
		return;
	s->is_fencing = 1;
	answer(s, rq, queue_bye(s->queue, g.worker, g.generation, &err), &err);
}

void verb_fail(struct request *rq, void *service)
{
	struct service *s = service;
	const char *worker;
	uint64_t shards;
	struct error err;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!service_may_change(s, rq, JOURNAL_LINE_BYTES))
		return;
	enum queue_result result = queue_fail(s->queue, worker, &shards, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	s->is_fencing = 1;
	service_changed(s, rq);
	request_ok(rq, "shards=%llu", (unsigned long long)shards);
}
