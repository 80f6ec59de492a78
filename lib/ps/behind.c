/* behind: see behind.h. */
#include "ps/behind.h"

#include "base/log.h"
#include "wire/timer.h"

#include <stdlib.h>
#include <string.h>

/* Gradients that nobody has sent for so long, and nobody is sending, are nowhere. Over a slow link
 * those of one push may need longer. */
#define NOWHERE_SECONDS 30.0

struct behind_unit {
	struct behind_unit *next;
	size_t pushes;
	struct behind_push {
		struct order_push name;
		struct staged *staged;
	} push[];
};

void behind_start(struct behind *b)
{
	b->end = &b->first;
}

static void behind_drop_first(struct behind *b)
{
	struct behind_unit *u = b->first;

	b->first = u->next;
	if (!b->first)
		b->end = &b->first;
	b->units--;
	for (size_t i = 0; i < u->pushes; i++)
		staged_free(u->push[i].staged);
	free(u);
}

void behind_free(struct behind *b)
{
	while (b->first)
		behind_drop_first(b);
	timer_free(b->nowhere);
	b->nowhere = NULL;
}

/* ---- at the standby ---- */

int behind_holds_up(const struct ps *p, const struct order *o)
{
	if (behind_is(&p->behind))
		return 1;
	for (size_t i = 0; i < o->pushes; i++) {
		const struct order_push *q = &o->push[i];
		const struct staged *s =
			stage_find(p->stage, q->worker, q->generation, q->sequence);
		if (s && s->absent)
			return 1;
	}
	return 0;
}

int behind_add(struct ps *p, const struct order_push *push, size_t pushes, size_t *missing,
	       struct error *err)
{
	struct behind *b = &p->behind;
	struct behind_unit *u = calloc(1, sizeof *u + pushes * sizeof u->push[0]);

	if (!u)
		return error_set(err, ERROR_OS, "apply", "out of memory");
	for (size_t i = 0; i < pushes; i++) {
		struct behind_push *q = &u->push[u->pushes];
		q->staged =
			stage_take(p->stage, push[i].worker, push[i].generation, push[i].sequence);
		q->name = push[i];
		if (q->staged)
			u->pushes++;
		else
			(*missing)++;
	}
	*b->end = u;
	b->end = &u->next;
	b->units++;
	ps_unit_applied(p, 0);
	return 0;
}

static int unit_is_whole(const struct behind_unit *u)
{
	for (size_t i = 0; i < u->pushes; i++)
		if (u->push[i].staged->absent)
			return 0;
	return 1;
}

static int apply_first(struct ps *p, struct error *err)
{
	struct behind_unit *u = p->behind.first;

	if (ps_unit_reserve(p, u->pushes, err) != 0)
		return -1;
	for (size_t i = 0; i < u->pushes; i++)
		ps_unit_put(p, i, &u->push[i].name, u->push[i].staged);
	return ps_unit_apply(p, u->pushes, err);
}

void behind_run(struct ps *p)
{
	struct behind *b = &p->behind;
	struct error err = {0};

	while (b->first && unit_is_whole(b->first)) {
		if (apply_first(p, &err) != 0) {
			ps_break(p, &err);
			return;
		}
		behind_drop_first(b);
		if (!b->first && !p->stands_by)
			ps_waits_soon(p);
	}
}

void behind_skip(struct ps *p, uint64_t unit)
{
	struct behind *b = &p->behind;

	while (b->first && behind_reached(p) < unit)
		behind_drop_first(b);
}

/* ---- when the part has died ---- */

int behind_lacks(const struct ps *p)
{
	return behind_is(&p->behind) || stage_lacks(p->stage);
}

static void behind_over(struct ps *p)
{
	timer_free(p->behind.nowhere);
	p->behind.nowhere = NULL;
	log_say(LOG_LEVEL_INFO, "at iteration %llu: the workers have sent what was lacking",
		(unsigned long long)p->applied);
	if (p->more.adopted) /* the greeting says no longer that this part is behind */
		p->more.adopted(p->more.adopted_owner);
}

static void behind_on_nowhere(void *ps)
{
	struct ps *p = ps;
	const struct behind_unit *u = p->behind.first;
	struct error err = {0};

	if (server_is_reading(p->server, "kept")) {
		timer_set(p->behind.nowhere, NOWHERE_SECONDS);
		return;
	}
	for (size_t i = 0; u && i < u->pushes; i++) {
		const struct staged *s = u->push[i].staged;
		if (s->absent)
			error_set(&err, ERROR_TEMPFAIL, s->worker,
				  "its push of iteration %llu is nowhere: the server has died, its "
				  "standby had not got it, and the worker does not send it",
				  (unsigned long long)s->iteration);
	}
	if (u)
		ps_break(p, &err);
	else
		behind_over(p); /* those that are staged may never be named */
}

int behind_wait(struct ps *p, struct error *err)
{
	struct behind *b = &p->behind;

	if (!behind_lacks(p))
		return 0;
	log_say(LOG_LEVEL_INFO,
		"at iteration %llu: the last %llu lack gradients, which workers keep",
		(unsigned long long)p->applied, (unsigned long long)b->units);
	b->nowhere = timer_new(server_base(p->server), behind_on_nowhere, p);
	if (!b->nowhere)
		return error_set(err, ERROR_OS, "ps", "out of memory");
	timer_set(b->nowhere, NOWHERE_SECONDS);
	return 0;
}

static struct staged **find_absent(struct behind *b, const struct staged *like)
{
	for (struct behind_unit *u = b->first; u; u = u->next) {
		for (size_t i = 0; i < u->pushes; i++) {
			struct staged *s = u->push[i].staged;
			if (s->absent && s->generation == like->generation &&
			    s->sequence == like->sequence && strcmp(s->worker, like->worker) == 0)
				return &u->push[i].staged;
		}
	}
	return NULL;
}

static int fill_one(struct ps *p, struct staged *s)
{
	struct staged **at, *here = stage_find(p->stage, s->worker, s->generation, s->sequence);

	if (here && here->absent) {
		s->held = here->held;
		stage_drop(p->stage, s->worker, s->generation, s->sequence);
		(void)stage_restore(p->stage, s, NULL); /* there is room: it was there */
		return 1;
	}
	at = find_absent(&p->behind, s);
	if (!at)
		return 0;
	staged_free(*at);
	*at = s;
	behind_run(p);
	return 1;
}

int behind_fill(struct ps *p, struct staged *s)
{
	if (s->absent || !fill_one(p, s))
		return 0;
	if (p->behind.nowhere && behind_lacks(p))
		timer_set(p->behind.nowhere, NOWHERE_SECONDS);
	else if (p->behind.nowhere)
		behind_over(p);
	return 1;
}

/* From a worker that saw in our greeting that this part is behind. What was settled meanwhile is
 * not needed any more. */
void behind_on_kept(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct staged *s;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (ps_push_read(p, rq, &s, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!behind_fill(p, s))
		staged_free(s);
	request_ok(rq, NULL);
}
