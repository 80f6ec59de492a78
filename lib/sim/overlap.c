/* Under allreduce with a delay: a worker computes its next batch while the gradients of the last one are summed
 * (work/trainer.c, work/replica.c), and a sum may go on without one that is late (lead/late.h). */
#include "sim/sim_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OVERLAP_TOKEN (UINT64_C(1) << 62) /* beyond all processes */

int overlap_is_token(uint64_t token)
{
	return token > OVERLAP_TOKEN;
}

int overlap_is_void(const struct sim *s, const struct sim_node *n, const struct event *e)
{
	return s->job.overlaps && e->kind == EVENT_COMPUTED && e->at != n->computed_at;
}

void overlap_forget(struct sim_node *n)
{
	n->is_flying = n->awaits = 0;
	n->computed_at = n->waits_since = -1;
}

void overlap_plan(struct sim *s, struct sim_node *n, double at)
{
	n->computed_at = fmax(at, s->now);
	sim_plan(s, n->computed_at, EVENT_COMPUTED, n);
}

static void overlap_tell(struct sim *s, struct sim_node *n, int is_done)
{
	struct gate_who who = worker_who(s, n);
	who.token = is_done ? 0 : who.token + OVERLAP_TOKEN;
	announce_clock(s);
	gate_compute(s->gate, &who, is_done);
	leading_obey(s);
}

void overlap_computes(struct sim *s, struct sim_node *n, double until)
{
	n->waits_since = -1;
	n->has_told = 0;
	overlap_plan(s, n, until);
	hung_plan_if_long(s, n, until);
	if (s->job.late > 0)
		overlap_tell(s, n, 0);
}

int overlap_may_push(struct sim *s, struct sim_node *n)
{
	n->computed_at = -1;
	if (n->waits_since < 0)
		n->waits_since = s->now;
	if (s->job.late > 0 && !n->has_told) {
		n->has_told = 1;
		overlap_plan(s, n, s->now + 2 * s->cost.message);
		overlap_tell(s, n, 1);
		return 0;
	}
	/* One that was late may be done before the sum that went on without it: it pulls for its next batch as it pushes,
	 * so that no gradient is staler than one iteration. */
	n->awaits = !n->is_flying && gate_iteration(s->gate) < n->iteration;
	if (n->is_flying || n->awaits) {
		hung_rests(s, n);
		return 0;
	}
	n->batch.wait += s->now - n->waits_since;
	n->waits_since = -1;
	return 1;
}

void overlap_settled(struct sim *s)
{
	for (size_t i = 0; i < s->workers; i++) {
		struct sim_node *n = &s->node[i];
		if (!n->awaits || gate_iteration(s->gate) < n->iteration)
			continue;
		n->awaits = 0;
		hung_owes(s, n, s->now);
		overlap_plan(s, n, s->now);
	}
}

/* Nobody has the answer yet: the next batch begins, if there is one. Else it waits, as without a delay. */
void overlap_pushed(struct sim *s, struct sim_node *n)
{
	if (n->state != SIM_PUSHING || !n->is_flying)
		return;
	struct tally_batch done = n->batch;
	double mark = n->pushed_at;
	if (!worker_begins_next(s, n, mark))
		return;
	if (tally_add(&n->tally, &s->reports, &done, mark))
		control_report(s, n);
}

/* What it has computed belongs to an iteration that is over: the same rows again, with the newest parameters. */
static void overlap_again(struct sim *s, struct sim_node *n, double there)
{
	n->batch = (struct tally_batch){.samples = n->batch.samples, .wait = there - n->mark};
	hung_owes(s, n, there);
	worker_computes(s, n, there, there);
}

/* To the push before its batch. */
void overlap_answered(struct sim *s, struct sim_node *n, const struct gate_effect *e)
{
	uint64_t expected = n->iteration + 1;
	double there = s->now + s->cost.message;
	n->iteration = worker_number(e->fields + strlen("iteration="));
	if (e->actions)
		worker_obeys(s, n, e->actions);
	if (n->iteration != expected || strstr(e->fields, " dropped=1"))
		overlap_again(s, n, there);
	else if (n->waits_since >= 0 && n->computed_at < 0) {
		hung_owes(s, n, s->now);
		overlap_plan(s, n, there);
	}
}

void overlap_late(struct sim *s, struct sim_node *n, const struct gate_effect *e)
{
	const char *iteration = strstr(e->fields, "iteration=");
	if (e->token != sim_process(s, n) + OVERLAP_TOKEN || n->state != SIM_COMPUTING || n->has_told ||
	    !e->ok || !iteration || !strstr(e->fields, " late=1"))
		return;
	n->iteration = worker_number(iteration + strlen("iteration="));
	overlap_again(s, n, s->now + s->cost.message);
}
