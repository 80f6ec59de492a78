/* Pulls and pushes whose iteration has not come: kept in the order of their arrival, answered when
 * its units are applied. */
#include "ps/ps_internal.h"

#include "base/clock.h"
#include "wire/timer.h"

#include <stdlib.h>

#define ANSWER_BYTES ((size_t)256 << 10) /* of parameters that are copied in one turn */

static void ps_wait_free(struct ps_wait *w)
{
	struct ps *p = w->ps;

	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	else
		p->waits_end = w->at;
	staged_free(w->push);
	free(w->row);
	free(w);
}

static void ps_wait_on_cancel(struct request *rq, void *arg)
{
	(void)rq;
	ps_wait_free(arg);
}

void ps_wait_add(struct ps_wait *w, struct ps *p, struct request *rq)
{
	w->ps = p;
	w->rq = rq;
	w->at = p->waits_end;
	w->next = NULL;
	*p->waits_end = w;
	p->waits_end = &w->next;
	request_defer(rq, ps_wait_on_cancel, w);
}

static void ps_wait_answer(struct ps_wait *w)
{
	struct staged *s = w->push;

	w->push = NULL;
	if (s)
		ps_push_answer(w->ps, w->rq, s);
	else
		ps_pull_answer(w->ps, w->rq, &w->pull, w->row);
	ps_wait_free(w);
}

void ps_waits_soon(struct ps *p)
{
	if (p->waits)
		timer_set(p->answer, 0);
}

/* Answers waits whose iteration has come, as long as their pulls have no more than room bytes
 * together. With `any`, the first is answered even if it has more. The others have their turn when
 * these answers were sent. */
static void ps_wait_run(struct ps *p, size_t room, int any)
{
	double start = clock_mono();

	for (struct ps_wait *w = p->waits, *next; w; w = next) {
		size_t bytes = w->push ? 0 : ps_pull_bytes(p, &w->pull);
		next = w->next;
		if (w->push ? w->push->iteration > p->applied : ps_pull_waits(p, &w->pull))
			continue;
		if (bytes > room && !any) {
			ps_waits_soon(p);
			break;
		}
		room -= bytes < room ? bytes : room;
		any = 0;
		ps_wait_answer(w);
	}
	p->work += clock_mono() - start;
}

static void ps_wait_on_turn(void *ps)
{
	ps_wait_run(ps, ANSWER_BYTES, 1);
}

void ps_waits_run(struct ps *p)
{
	ps_wait_run(p, ANSWER_BYTES, 0);
}

struct request *ps_wait_take(struct ps *p)
{
	struct request *rq = p->waits->rq;

	ps_wait_free(p->waits);
	return rq;
}

void ps_waits_refuse(struct ps *p, const char *code, const char *text)
{
	while (p->waits)
		request_err(ps_wait_take(p), code, "%s", text);
}

int ps_waits_start(struct ps *p, struct error *err)
{
	p->answer = timer_new(server_base(p->server), ps_wait_on_turn, p);
	return p->answer ? 0 : error_set(err, ERROR_OS, "ps", "out of memory");
}

void ps_waits_stop(struct ps *p)
{
	timer_free(p->answer);
	p->answer = NULL;
}
