/*
 * Pushes: their lists, and their arrival: whether one is a member's, is new, and adds up.
 */
#include "lead/gate_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists of pushes ---- */

struct push *push_new(struct gate *g, size_t ranges)
{
	struct push *p = pool_take(&g->push);

	if (!p)
		return NULL;
	memset(p, 0, offsetof(struct push, is_kept));
	if (g->options.announces)
		memset(&p->is_kept, 0, sizeof *p - offsetof(struct push, is_kept));
	if (ranges > PUSH_FEW && !(p->range.many = malloc(ranges * sizeof *p->range.many))) {
		push_free(g, p);
		return NULL;
	}
	p->ranges = (unsigned char)ranges;
	return p;
}

void push_free(struct gate *g, struct push *p)
{
	if (!p)
		return;
	if (p->ranges > PUSH_FEW)
		free(p->range.many);
	if (g->options.announces)
		free(p->part);
	pool_give(&g->push, p);
}

void pushes_start(struct pushes *list)
{
	list->first = NULL;
	list->end = &list->first;
	list->count = list->row = 0;
}

void pushes_remove(struct pushes *list, struct push *p)
{
	struct push **at = &list->first;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (list->end == &p->next)
		list->end = at;
	list->count--;
	list->row = 0;
}

void pushes_hold(struct gate *g, struct push *p)
{
	struct worker *w = p->worker;

	w->older = w->push;
	w->push = p;
	pushes_add(&g->held, p);
}

struct push *pushes_ahead(struct push *p, size_t count)
{
	while (p && count-- > 0)
		p = p->next;
	return p;
}

/* ---- arrival ---- */

/* A request for a push that is under way: it gets the same answer, if it says the same. */
static void join_push(struct gate *g, struct push *p, const struct gate_push *push, uint64_t token)
{
	if (p->count != push->count || p->iteration != push->iteration)
		effect_err(g, token, "bad-request",
			   "sequence %llu was pushed with count=%llu for iteration %llu",
			   (unsigned long long)p->sequence, (unsigned long long)p->count,
			   (unsigned long long)p->iteration);
	else if (p->tokens == GATE_TOKENS_MAX)
		effect_err(g, token, "busy", "this push was repeated too often");
	else
		p->token[p->tokens++] = token;
}

/* Whether it was applied or dropped before. */
static int is_done(const struct worker *w, const struct gate_who *who, uint64_t sequence)
{
	return w->done && w->done_generation == who->generation && sequence <= w->done_sequence;
}

/* Answers a push that is not a new one; 1 when it did. */
static int push_known(struct gate *g, struct worker *w, const struct gate_who *who,
		      const struct gate_push *push)
{
	struct push *held = worker_held(w), *sent = worker_sent(w);

	if (held && held->sequence == push->sequence)
		join_push(g, held, push, who->token);
	else if (sent && sent->generation == who->generation && sent->sequence == push->sequence)
		join_push(g, sent, push, who->token);
	else if (w->waiting && w->waiting->generation == who->generation &&
		 w->waiting->sequence == push->sequence)
		join_push(g, w->waiting, push, who->token);
	else if (is_done(w, who, push->sequence)) {
		int dropped = push->sequence == w->done_sequence && w->done_dropped;
		char samples[STATES_SAMPLES_MAX];
		effect_ok(g, who->token, sizes_tell(g, w, acts_unseen(g, w), 1),
			  "iteration=%llu %s=1%s repeated=1", (unsigned long long)g->applied,
			  dropped ? "dropped" : "applied", states_samples(g, samples));
	} else
		return 0;
	return 1;
}

/* NULL: there was no memory, and the request is answered. */
static struct push *push_make(struct gate *g, struct worker *w, const struct gate_who *who,
			      const struct gate_push *push)
{
	struct push *p = push_new(g, push->ranges);
	size_t parts = g->options.announces ? push->parts : 0;

	if (p && parts && !(p->part = malloc(parts * sizeof *p->part))) {
		push_free(g, p);
		p = NULL;
	}
	if (!p) {
		effect_err(g, who->token, "no-memory", "for the push");
		return NULL;
	}
	if (push->ranges)
		memcpy(p->ranges > PUSH_FEW ? p->range.many : p->range.few, push->range,
		       push->ranges * sizeof *push->range);
	p->worker = w;
	p->seat = (uint32_t)w->seat;
	p->generation = who->generation;
	p->sequence = push->sequence;
	p->iteration = push->iteration;
	p->count = push->count;
	p->size = push->size;
	p->pulled = push->pulled;
	g->says_pulled |= p->pulled != GATE_PULLED_UNKNOWN;
	p->loss = push->loss;
	p->scale = w->scale;
	if (parts)
		p->parts = parts;
	for (size_t i = 0; i < parts; i++) {
		p->part[i] = push->part[i];
		p->bytes += push->part[i];
	}
	p->token[p->tokens++] = who->token;
	return p;
}

static void take_numbers(struct worker *w, const struct gate_push *push)
{
	w->speed = push->speed;
	w->time = push->time;
	w->mem = push->mem;
	w->count = push->count;
	if (push->most > 0)
		w->most = push->most;
}

/* With shardd: whether a worker says that it trained as many samples as its ranges have rows.
 * Whether these are its own rows is for shardd to judge. */
static int push_adds_up(struct gate *g, const struct gate_who *who, const struct gate_push *push)
{
	uint64_t rows = 0;
	int bad = 0;

	if (!g->options.commit)
		return 1;
	for (size_t i = 0; i < push->ranges; i++)
		bad |= __builtin_add_overflow(rows, push->range[i].length, &rows);
	if (!bad && push->skipped <= rows && push->count == rows - push->skipped)
		return 1;
	effect_err(g, who->token, "bad-request",
		   "count=%llu and skipped=%llu, but its ranges have %llu rows",
		   (unsigned long long)push->count, (unsigned long long)push->skipped,
		   (unsigned long long)rows);
	return 0;
}

/* Whether a new push fits what is open; 0: it was refused. */
static int push_fits(struct gate *g, const struct worker *w, const struct gate_who *who,
		     const struct gate_push *push)
{
	if (worker_held(w) || w->waiting || (g->options.replicas && worker_sent(w)))
		effect_err(g, who->token, "bad-request", "one push at a time");
	else if (g->options.sync == GATE_BSP && push->iteration > g->open &&
		 push->iteration != w->late_until)
		effect_err(g, who->token, "bad-request", "iteration %llu is not open, %llu is",
			   (unsigned long long)push->iteration, (unsigned long long)g->open);
	else
		return push_adds_up(g, who, push);
	return 0;
}

/* Its record, if it is a member. */
static struct worker *pushes_member(const struct gate *g, const struct gate_who *who)
{
	struct worker *w = worker_of(g, who);

	return w && who->incarnation == g->options.incarnation && w->state == WORKER_ACTIVE &&
			       w->generation == who->generation && who->generation > w->fenced
		       ? w
		       : NULL;
}

int gate_wants(const struct gate *g, const struct gate_who *who, uint64_t sequence)
{
	const struct worker *w = pushes_member(g, who);

	return w && !is_done(w, who, sequence);
}

void gate_unfit(struct gate *g, const struct gate_who *who, uint64_t sequence)
{
	struct worker *w = pushes_member(g, who);
	const struct push *sent = w ? worker_sent(w) : NULL;

	if (!w)
		return;
	if (!sent || sent->generation != who->generation || sent->sequence != sequence)
		effect_name(g, GATE_DROP, w->id, who->generation, sequence);
	worker_out(g, w, "its push can't be applied");
	units_step(g);
}

/* A push of somebody who is no member; maybe not any more, because its gradient could not be
 * summed: a replica may say that before the push comes here. */
static void refuse_stranger(struct gate *g, const struct gate_who *who)
{
	const struct worker *w = worker_of(g, who);

	if (w && w->diverged == who->generation && who->incarnation == g->options.incarnation)
		effect_err(g, who->token, "diverged", "%s", w->why);
	else
		effect_err(g, who->token, "fenced", "not a member");
}

struct worker *pushes_pusher(struct gate *g, const struct gate_who *who)
{
	struct worker *w = pushes_member(g, who);

	if (w && w->connection == 0) /* it is back, see gate_here() */
		w->connection = who->connection;
	else if (!w)
		refuse_stranger(g, who);
	return w;
}

void gate_push(struct gate *g, const struct gate_who *who, const struct gate_push *push)
{
	struct worker *w = pushes_pusher(g, who);
	struct push *p;

	if (!w)
		return;
	if (push_known(g, w, who, push))
		return;
	p = push_fits(g, w, who, push) ? push_make(g, w, who, push) : NULL;
	if (!p) { /* so nobody will name this push again */
		effect_name(g, GATE_DROP, w->id, who->generation, push->sequence);
		/* With replicas it may be in the open sum; only what was summed may be settled. */
		if (w->listed && w->listed == w->generation && !worker_sent(w)) {
			worker_out(g, w, "its push was refused");
			units_step(g);
		}
		return;
	}
	p->late = g->options.sync == GATE_BSP && push->iteration < g->open;
	grants_take(g, w, p, push->group);
	g->late += p->late ? 1 : 0;
	late_pushed(g, w);
	take_numbers(w, push);
	pushes_hold(g, p);
	units_step(g);
}

void gate_announce(struct gate *g, const struct gate_who *who, const struct gate_push *push)
{
	struct worker *w = pushes_pusher(g, who);
	struct push *p;

	if (!w)
		return;
	if (w->announced && w->announced->sequence == push->sequence) {
		grants_repeat(g, w->announced, who->token);
		return;
	}
	if (push_known(g, w, who, push))
		return;
	if (!g->options.announces) {
		effect_err(g, who->token, "bad-request", "nothing is announced here");
		return;
	}
	p = push_fits(g, w, who, push) ? push_make(g, w, who, push) : NULL;
	if (!p)
		return;
	grants_end(g, w, "another push was announced");
	p->grant = GRANT_ASKED;
	p->asked_at = g->now;
	w->away = g->now - w->answered;
	w->announced = p;
	pushes_add(&g->announced, p);
	units_step(g);
}
