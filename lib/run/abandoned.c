/* abandoned: see abandoned.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <string.h>

static void ask_holder_after(struct supervisor *s, const char *id);

/* Waits a tenth of DEADLINE_STRAY before the holders are looked at again. */
static void abandoned_wait(struct supervisor *s)
{
	s->abandoned.since = clock_mono() - deadline_seconds(DEADLINE_STRAY) * 0.9;
}

static void abandoned_ask(struct supervisor *s, struct link *link, struct record_out *o,
			  sup_answer_fn *each, sup_answer_fn *done)
{
	if (sup_ask_now(&s->abandoned.question, link, o, each, done, s) != 0)
		abandoned_wait(s);
}

static void on_bye(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (!sup_answer_ok(r))
		return;
	sup_note(s, "stray",
		 "%s is neither a worker of this job nor a member, and nothing was trained for %g "
		 "s: its rows are handed out again",
		 s->abandoned.id, deadline_seconds(DEADLINE_STRAY));
	ask_holder_after(s, s->abandoned.id);
}

static void abandoned_on_who(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	uint64_t generation = 0;
	if (!sup_answer_ok(r) || record_u64(r, "generation", 1, UINT64_MAX, &generation, NULL) != 0)
		return;
	abandoned_ask(s, &sup_shardd(s)->link,
		      RECORD("bye", F("worker", s->abandoned.id), F("generation", generation)),
		      NULL, on_bye);
}

static void ask_who(struct supervisor *s)
{
	abandoned_ask(s, &sup_shardd(s)->link, RECORD("who", F("worker", s->abandoned.id)), NULL,
		      abandoned_on_who);
}

static void abandoned_on_member(const struct record *r, void *owner)
{
	struct sup_abandoned *a = &((struct supervisor *)owner)->abandoned;
	const char *id = record_get(r, "worker"), *state = record_get(r, "state");
	a->is_member |= id && strcmp(id, a->id) == 0 && state && strcmp(state, "active") == 0;
}

/* A member keeps its rows: if it is silent, the lead acts on it. */
static void abandoned_on_members(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (!sup_answer_ok(r))
		return;
	if (s->abandoned.is_member)
		ask_holder_after(s, s->abandoned.id);
	else
		ask_who(s);
}

/* Finds the least id after the last one, of those that are no nodes of the job. */
static void on_holder(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_abandoned *a = &s->abandoned;
	const char *id = record_get(r, "worker");
	if (id && strlen(id) < sizeof a->id && strcmp(id, a->after) > 0 &&
	    (!a->id[0] || strcmp(id, a->id) < 0) && !sup_find(s, id))
		memcpy(a->id, id, strlen(id) + 1);
}

static void on_holders(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (!sup_answer_ok(r))
		return;
	if (!s->abandoned.id[0]) { /* all are ours */
		abandoned_wait(s);
		return;
	}
	s->abandoned.is_member = 0;
	if (!sup_lead(s)) {
		ask_who(s);
		return;
	}
	abandoned_ask(s, &sup_lead(s)->link, RECORD_BARE("members"), abandoned_on_member,
		      abandoned_on_members);
}

/* Asks who holds rows. The holders are looked at one after the other, in the order of their ids. id
 * is the last one; "": none yet. */
static void ask_holder_after(struct supervisor *s, const char *id)
{
	memmove(s->abandoned.after, id, strlen(id) + 1);
	s->abandoned.id[0] = '\0';
	abandoned_ask(s, &sup_shardd(s)->link, RECORD("list", F("state", "doing")), on_holder,
		      on_holders);
}

void sup_abandoned_tick(struct supervisor *s)
{
	const struct sup_stat *stat = &s->progress.stat;
	struct sup_abandoned *a = &s->abandoned;
	if (s->phases.now != PHASE_RUNNING || !stat->known || stat->doing == 0 || stat->todo > 0 ||
	    stat->samples_done != a->samples) {
		a->samples = stat->samples_done;
		a->since = clock_mono();
		return;
	}
	if (!a->question.open && clock_mono() - a->since >= deadline_seconds(DEADLINE_STRAY))
		ask_holder_after(s, "");
}
