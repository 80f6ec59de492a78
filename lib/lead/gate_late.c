/*
 * Members that are late, where there are replicas: what a member says of its batch, and the sum
 * that goes on without it.  Members say when they begin to compute a batch and when they have
 * computed it. The next sum is ordered when that is known of all, so that none is given up for one
 * who is late, and nothing of a late one is sent.
 *
 * Who is late is told, drops what it has computed and computes the same rows anew, with the newest
 * parameters, for the iteration after this.  The rows never leave its hand, so that shardd need not
 * know.
 */
#include "lead/gate_internal.h"
#include "lead/late.h"

#include <stdlib.h>

int late_is_out(const struct gate *g, const struct worker *w)
{
	return w->late_until > g->applied;
}

int late_is_ready(const struct worker *w)
{
	return w->compute == COMPUTE_DONE || (worker_held(w) && !worker_held(w)->late);
}

static void late_answer(struct gate *g, struct worker *w, uint64_t iteration, int is_late)
{
	if (w->compute_token)
		effect_ok(g, w->compute_token, NULL, "iteration=%llu%s",
			  (unsigned long long)iteration, is_late ? " late=1" : "");
	w->compute_token = 0;
}

void late_pushed(struct gate *g, struct worker *w)
{
	if (g->options.late <= 0.0)
		return;
	late_answer(g, w, g->applied, 0);
	w->compute = COMPUTE_NONE;
}

void late_left(struct gate *g, struct worker *w, const char *why)
{
	if (w->compute_token)
		effect_err(g, w->compute_token, "fenced", "%s", why);
	w->compute_token = w->late_until = 0;
	w->compute = COMPUTE_NONE;
}

/* It computes for the iteration after this. */
static void late_put_out(struct gate *g, struct worker *w)
{
	w->late_until = g->applied + 1;
	late_answer(g, w, w->late_until, 1);
	w->compute = COMPUTE_NONE;
	w->delays.dropped++;
	g->delays.dropped++;
}

/* When all whom this iteration waits for have gone, those that were late for it would wait for
 * ever. */
void late_alone(struct gate *g)
{
	struct worker *w, *next;

	for (w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE && !late_is_out(g, w))
			return;
	}
	HASH_ITER (hh, g->workers, w, next) {
		if (w->state == WORKER_ACTIVE)
			worker_out(g, w, "nobody is left in the iteration that it was late for");
	}
}

void late_step(struct gate *g)
{
	struct late_batch *batch;
	size_t n = 0;

	if (g->options.late <= 0.0 || g->backup || g->sums.is_open || !g->active ||
	    !(batch = calloc(g->active, sizeof *batch)))
		return;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state != WORKER_ACTIVE)
			continue;
		struct late_batch *b = &batch[n++];
		b->is_late = late_is_out(g, w);
		b->was_late = w->late_until && !b->is_late && w->late_until == g->applied;
		b->took = w->took;
		b->began = w->began;
		if (!b->is_late && late_is_ready(w))
			b->state = LATE_READY;
		else if (w->compute == COMPUTE_NOW)
			b->state = LATE_COMPUTES;
	}
	g->late_at = late_mark(batch, n, g->options.late, g->now);
	n = 0;
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE && batch[n++].is_late && !late_is_out(g, w))
			late_put_out(g, w);
	}
	free(batch);
}

void gate_compute(struct gate *g, const struct gate_who *who, int done)
{
	struct worker *w = pushes_pusher(g, who);

	if (!w)
		return;
	if (g->options.late <= 0.0) {
		effect_err(g, who->token, "bad-request", "nobody is late here");
		return;
	}
	if (!done) {
		late_answer(g, w, g->applied, 0); /* of one that it has given up */
		w->compute = COMPUTE_NOW;
		w->compute_token = who->token;
		w->began = g->now;
	} else {
		if (w->compute == COMPUTE_NOW) {
			w->took = g->now > w->began ? g->now - w->began : 1;
			w->compute = COMPUTE_DONE;
			late_answer(g, w, g->applied, 0);
		}
		effect_ok(g, who->token, NULL, "iteration=%llu", (unsigned long long)g->applied);
	}
	units_step(g);
}
