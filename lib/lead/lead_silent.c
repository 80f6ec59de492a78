/*
 * A member that keeps its connection but makes no progress: as long as it owes a push, a BSP unit
 * waits for it.  Where no supervisor watches over the job, the lead itself lets go of it in the
 * end: it leaves, as if it had said so.  What it pushes later is refused, so it says hello again;
 * until then its rows are in its hand, and a person may say `fail` to shardd.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "monitor/pulse.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_SECONDS 1.0

struct silent {
	char worker[OPTION_ID_MAX];
	uint64_t generation, pushes;
	struct pulse pulse;
	int owes, hung;
	UT_hash_handle hh;
};

struct silents {
	struct silent *all; /* every id that was a member */
	struct pulse_rules rules;
	struct timer *timer;
	double at;      /* of the last look */
	double seconds; /* since the one before */
};

static struct silent *silent_get(struct silents *s, const char *worker)
{
	struct silent *m;

	HASH_FIND_STR(s->all, worker, m);
	if (m || !(m = calloc(1, sizeof *m)))
		return m;
	snprintf(m->worker, sizeof m->worker, "%s", worker);
	HASH_ADD_STR(s->all, worker, m);
	if (hash_lacks(m)) {
		free(m);
		return NULL;
	}
	return m;
}

static void lead_silent_look_at(const struct gate_member *member, void *lead)
{
	struct silents *s = ((struct lead *)lead)->silents;
	struct silent *m = silent_get(s, member->worker);

	if (!m)
		return;
	if (m->generation != member->generation)
		pulse_begin(&m->pulse);
	else if (member->pushes > m->pushes)
		pulse_work(&m->pulse, member->pushes - m->pushes);
	else if (member->owes != m->owes)
		pulse_sign(&m->pulse);
	m->generation = member->generation;
	m->pushes = member->pushes;
	m->owes = member->owes;
	pulse_tick(&m->pulse, s->seconds, m->owes && !lead_trainers_rest(lead));
	m->hung = m->owes && pulse_hung(&m->pulse, &s->rules, PULSE_BATCH, 1);
}

static void lead_silent_on_look(void *lead)
{
	struct lead *l = lead;
	struct silents *s = l->silents;
	struct silent *m, *next;
	double now = clock_mono();

	timer_set(s->timer, LOOK_SECONDS);
	s->seconds = now - s->at;
	s->at = now;
	(void)gate_members(l->gate, lead_silent_look_at, l); /* without memory not this time */
	HASH_ITER(hh, s->all, m, next)
	{
		if (!m->hung)
			continue;
		log_say(LOG_LEVEL_WARNING,
			"%s has owed a push for %.3g s: it is dropped, and units no longer wait "
			"for it", m->worker,
			m->pulse.silent);
		m->hung = m->owes = 0;
		pulse_begin(&m->pulse);
		gate_let_go(l->gate, m->worker, m->generation, "it gave no sign of life");
	}
	lead_pump(l);
}

int lead_silent_start(struct lead *l, struct event_base *base)
{
	struct silents *s;

	if (!(l->options.hung_seconds > 0.0))
		return 0;
	s = l->silents = calloc(1, sizeof *s);
	if (!s)
		return -1;
	s->rules.least[PULSE_BATCH] = l->options.hung_seconds;
	s->at = clock_mono();
	s->timer = timer_new(base, lead_silent_on_look, l);
	if (!s->timer)
		return -1;
	timer_set(s->timer, LOOK_SECONDS);
	return 0;
}

void lead_silent_stop(struct lead *l)
{
	struct silents *s = l->silents;
	struct silent *m, *next;

	if (!s)
		return;
	timer_free(s->timer);
	HASH_ITER(hh, s->all, m, next)
	{
		HASH_DEL(s->all, m);
		free(m);
	}
	free(s);
	l->silents = NULL;
}
