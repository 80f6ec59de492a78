/* wait: answers that are held back. A get with wait= is answered as soon as there is a piece, in
 * the order of arrival; a stat with wait= when all is over. Each has a deadline. */
#include "shard/service_internal.h"

#include "wire/timer.h"

#include <stdlib.h>
#include <string.h>

static void unlink_waiter(struct waiter *w)
{
	struct service *s = w->service;
	if (w->prev)
		w->prev->next = w->next;
	else
		s->first_waiter = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		s->last_waiter = w->prev;
	timer_free(w->timer);
	free(w);
}

static void shard_wait_cancelled(struct request *rq, void *waiter)
{
	(void)rq;
	unlink_waiter(waiter);
}

static void answer_wait(struct request *rq)
{
	request_ok(rq, "state=wait after=%g", AFTER_SECONDS);
}

static void shard_wait_on_deadline(void *waiter)
{
	struct waiter *w = waiter;
	struct service *s = w->service;
	struct request *rq = w->rq;
	struct waiter was = *w;
	unlink_waiter(w);
	if (was.is_moves)
		moves_put(s, rq, was.worker, 1);
	else if (was.is_stat)
		reads_put_stat(s, rq);
	else
		answer_wait(rq);
}

/* Adds a waiter. NULL: there was no memory or no time, and it was answered. */
static struct waiter *shard_wait_add(struct service *s, struct request *rq, double seconds)
{
	struct waiter *w = calloc(1, sizeof *w);
	if (w)
		w->timer = timer_new(server_base(s->server), shard_wait_on_deadline, w);
	if (!w || !w->timer) {
		free(w);
		request_err(rq, "no-memory", "out of memory");
		return NULL;
	}
	timer_set(w->timer, seconds);
	w->service = s;
	w->rq = rq;
	w->prev = s->last_waiter;
	if (w->prev)
		w->prev->next = w;
	else
		s->first_waiter = w;
	s->last_waiter = w;
	request_defer(rq, shard_wait_cancelled, w);
	return w;
}

void wait_for_piece(struct service *s, struct request *rq, const struct queue_change *asked,
		    int is_here, double seconds)
{
	if (seconds <= 0) {
		answer_wait(rq);
		return;
	}
	struct waiter *w = shard_wait_add(s, rq, seconds);
	if (!w)
		return;
	memcpy(w->worker, asked->worker, strlen(asked->worker) + 1);
	w->asked = *asked;
	w->asked.worker = w->worker;
	w->is_here = is_here;
}

void wait_for_end(struct service *s, struct request *rq, double seconds)
{
	struct waiter *w = shard_wait_add(s, rq, seconds);
	if (w)
		w->is_stat = 1;
}

void wait_for_moves(struct service *s, struct request *rq, const char *worker, double seconds)
{
	struct waiter *w = shard_wait_add(s, rq, seconds);
	if (!w)
		return;
	memcpy(w->worker, worker, strlen(worker) + 1);
	w->is_moves = 1;
}

/* Answers a request that was held back, if this is possible now; otherwise 0. */
static int serve_one(struct service *s, struct waiter *w)
{
	struct request *rq = w->rq;
	struct error err;
	if (w->is_moves)
		return moves_put(s, rq, w->worker, 0);
	if (w->is_stat) {
		if (!queue_is_over(s->queue))
			return 0;
		reads_put_stat(s, rq);
		return 1;
	}
	enum queue_result result = queue_in_force(s->queue, w->worker, w->asked.generation, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return 1;
	}
	if (verb_is_past(s, rq, w->worker))
		return 1;
	if (queue_has_todo(s->queue) || queue_is_over(s->queue))
		return verb_try_get(s, rq, &w->asked, w->is_here);
	return 0;
}

void wait_serve(struct service *s)
{
	s->is_stirred = 0;
	/* Usually nobody can be answered: then 10,000 waiters cost nothing. */
	int is_over = queue_is_over(s->queue) || s->is_fencing || moves_are_open(s);
	if (!is_over && !queue_has_todo(s->queue))
		return;
	s->is_fencing = 0;
	for (struct waiter *w = s->first_waiter, *next; w; w = next) {
		next = w->next;
		if (!is_over && !queue_has_todo(s->queue))
			break;
		if (serve_one(s, w))
			unlink_waiter(w);
	}
	s->is_stirred = 0; /* what our own gets have changed */
}

void wait_free(struct service *s)
{
	while (s->first_waiter)
		unlink_waiter(s->first_waiter);
	while (s->watchers) {
		struct watcher *next = s->watchers->next;
		free(s->watchers);
		s->watchers = next;
	}
}
