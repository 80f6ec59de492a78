/*
 * Checkpoints where the members have the parameters (agent(1)): each one that the gate told writes
 * its own files by its own means, where it is, and says which.  The lead never reads them.
 *
 * A member that goes before it has saved fails the checkpoint; the others are waited for all the
 * same, so that the directory is not removed under them.  Where one takes too long it stays:
 * without a manifest it is no checkpoint.  Of members whose gradients replicas sum only one is told,
 * as they are all alike, and one on each other host, to hold its own state in memory.
 *
 * Such members also give their state to others; here are the deadlines of that.
 */
#include "lead/lead_internal.h"

#include "base/log.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAVED_SECONDS 1800.0 /* for the slowest, as for a part */
#define MEMORY_SECONDS 60.0  /* for those who only hold their states, once another one has saved */
/* A settle waits so long for a state on its way to a member; after one that was late twice as long, or
 * a large one would never be there. An agent waits 600 s for the answer to its push. */
#define STATE_SECONDS 60.0
#define STATE_SECONDS_MAX 480.0
#define LOST_SECONDS 10.0  /* in which one comes back who has the state that all others lack */
/* The same if it was cut off: a supervisor waits for less long for a host that is silent, and for a
 * fabric that begins anew. */
#define ABSENT_SECONDS 60.0

struct told {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	int answered, only_memory; /* only_memory: the cut needs nothing of it */
	char *path;  /* what it saved; NULL: nothing */
	char *files; /* lines `file name= bytes= sum=`; NULL: none */
	size_t files_len;
};

/* What a member's agent has said last of its trainer. */
struct trainer_seen {
	char worker[OPTION_ID_MAX];
	uint64_t generation, waits, stopped;
	double pauses; /* for so many seconds at most; 0: it does not pause */
	char state[64], wchan[64];
	UT_hash_handle hh;
};

void lead_trainers_forget(struct lead *l)
{
	struct cutting *c = &l->cut;

	for (size_t i = 0; i < c->tolds; i++) {
		free(c->told[i].path);
		free(c->told[i].files);
	}
	free(c->told);
	c->told = NULL;
	c->tolds = 0;
	if (c->deadline)
		timer_stop(c->deadline);
}

/* ---- where they are ---- */

/* Once a member was elsewhere, or did not say where, APART stays: what it trained may outlive this
 * boot. */
void lead_trainers_join(struct lead *l, const struct record *join)
{
	const char *boot = record_get(join, "boot");
	int here = boot && l->boot[0] && strcmp(boot, l->boot) == 0;

	if (!here)
		l->trainers = TRAINERS_APART;
	else if (l->trainers == TRAINERS_NONE)
		l->trainers = TRAINERS_HERE;
}

const char *lead_trainers_boot(const struct lead *l)
{
	return l->trainers == TRAINERS_HERE ? l->boot : "";
}

/* Where replicas sum one saves, and the cut needs nothing of the others. */
static void lead_trainers_answered(struct lead *l, struct told *t)
{
	t->answered = 1;
	if (l->options.sums && !t->only_memory)
		timer_set(l->cut.deadline, MEMORY_SECONDS);
}

/* It has not saved, and will not. */
static void lead_trainers_fail(struct lead *l, struct told *t, const char *why)
{
	lead_trainers_answered(l, t);
	if (t->only_memory)
		log_say(LOG_LEVEL_WARNING, "%s does not hold its state in memory: %.200s", t->worker,
			why);
	else
		lead_cut_fail(l, t->worker, why);
}

/* ---- beginning ---- */

static void lead_trainers_on_deadline(void *lead)
{
	struct lead *l = lead;
	struct cutting *c = &l->cut;
	size_t late = 0;

	for (size_t i = 0; i < c->tolds; i++) {
		if (c->told[i].answered)
			continue;
		c->is_left = 1;
		lead_trainers_fail(l, &c->told[i], "has not saved in time");
		late++;
	}
	while (late-- > 0)
		lead_cut_answered(l);
}

/* ---- states ---- */

static void lead_states_on_late(void *lead)
{
	struct lead *l = lead;

	log_say(LOG_LEVEL_WARNING, "the state for those who join was not there in %.0f s: the others go "
				   "on", l->states.seconds);
	gate_state_late(l->gate);
	l->states.due = 0;
	if (l->states.seconds < STATE_SECONDS_MAX)
		l->states.seconds *= 2.0;
	lead_pump(l);
}

static void lead_states_on_lost(void *lead)
{
	struct lead *l = lead;

	lead_breakf(l, ERROR_TEMPFAIL, "trainers",
		    "none of those that are here has the state of iteration %llu: a rollback is needed",
		    (unsigned long long)gate_iteration(l->gate));
}

void lead_states_look(struct lead *l)
{
	static const double within[] = {[GATE_LOST] = LOST_SECONDS,
					[GATE_LOST_ABSENT] = ABSENT_SECONDS};
	uint64_t due = gate_state_due(l->gate);
	enum gate_lost lost = gate_lost(l->gate);

	if (due != l->states.due && (l->states.due || l->states.seconds <= 0.0))
		l->states.seconds = STATE_SECONDS; /* the last one was there in time */
	if (due != l->states.due && due)
		timer_set(l->states.late, l->states.seconds);
	else if (due != l->states.due)
		timer_stop(l->states.late);
	l->states.due = due;
	if (lost == GATE_LOST_NOT)
		timer_stop(l->states.lost);
	else if (lost != l->states.is_lost)
		timer_set(l->states.lost, within[lost]);
	l->states.is_lost = lost;
}

void lead_on_given(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct record *r = request_record(rq);
	const char *why = record_get(r, "why");
	uint64_t attempt, failed = 0;
	struct gate_who who;
	struct error err = {0};

	if (lead_who(rq, &who, &err) != 0 ||
	    record_u64(r, "attempt", 1, UINT64_MAX, &attempt, &err) != 0 ||
	    record_u64_opt(r, "failed", 0, 1, &failed, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (failed)
		log_say(LOG_LEVEL_WARNING, "%s can't give its state: %.200s", who.worker,
			why ? why : "it does not say why");
	if (!(who.token = lead_defer(l, rq)))
		return;
	gate_given(l->gate, &who, attempt, failed != 0);
	lead_pump(l);
}

int lead_trainers_start(struct lead *l, struct event_base *base)
{
	l->cut.deadline = timer_new(base, lead_trainers_on_deadline, l);
	l->states.late = timer_new(base, lead_states_on_late, l);
	l->states.lost = timer_new(base, lead_states_on_lost, l);
	return l->cut.deadline && l->states.late && l->states.lost ? 0 : -1;
}

void lead_trainers_stop(struct lead *l)
{
	struct trainer_seen *t, *next;

	HASH_ITER(hh, l->seen, t, next)
	{
		HASH_DEL(l->seen, t);
		free(t);
	}
	lead_trainers_forget(l);
	timer_free(l->cut.deadline);
	timer_free(l->states.late);
	timer_free(l->states.lost);
	l->cut.deadline = NULL;
}

void lead_trainers_cut(struct lead *l, const struct gate_effect *e)
{
	struct cutting *c = &l->cut;

	lead_trainers_forget(l);
	c->told = calloc(e->members + 1, sizeof *c->told);
	if (!c->told) {
		lead_cut_fail(l, "lead", "out of memory");
		return;
	}
	for (size_t i = 0; i < e->members; i++) {
		memcpy(c->told[i].worker, e->member[i].worker, sizeof c->told[i].worker);
		c->told[i].generation = e->member[i].generation;
		c->told[i].only_memory = e->member[i].only_memory;
	}
	c->tolds = e->members;
	c->writing += e->members;
	timer_set(c->deadline, SAVED_SECONDS);
	/* Who was to save may have died while shardd did. */
	if (e->members == 0 && e->iteration > 0)
		lead_cut_fail(l, "trainers", "none is left that could save");
}

void lead_trainers_tell(struct lead *l, struct request *rq, const struct gate_effect *e)
{
	request_put_record(rq,
			   RECORD("save", F("path", l->cut.dir), F("iteration", e->iteration),
				  e->save == GATE_SAVES_MEMORY ? F("memory", 1) : F_NONE));
}

/* ---- answers ---- */

/* The entry of a member that was told and has not answered yet; else NULL. */
static struct told *waits_for(const struct lead *l, const char *worker, uint64_t generation)
{
	const struct cutting *c = &l->cut;

	for (size_t i = 0; c->busy && i < c->tolds; i++) {
		struct told *t = &c->told[i];
		if (!t->answered && t->generation == generation && strcmp(t->worker, worker) == 0)
			return t;
	}
	return NULL;
}

int lead_trainers_saves(const struct lead *l, const char *worker, uint64_t generation)
{
	return waits_for(l, worker, generation) != NULL;
}

int lead_trainers_rest(const struct lead *l)
{
	for (size_t i = 0; l->cut.busy && i < l->cut.tolds; i++)
		if (!l->cut.told[i].answered)
			return 1;
	for (const struct trainer_seen *t = l->seen; t; t = t->hh.next)
		if (t->pauses > 0.0 && gate_is_member(l->gate, t->worker, t->generation))
			return 1;
	return 0;
}

void lead_trainers_put(const struct lead *l, const struct gate_member *m, struct record_out *o)
{
	struct trainer_seen *t;

	HASH_FIND_STR(l->seen, m->worker, t);
	if (!t || t->generation != m->generation)
		return;
	if (t->waits)
		record_add_u64(o, "waits", 1);
	if (t->pauses > 0.0)
		record_add_seconds(o, "pauses", t->pauses);
	if (t->stopped)
		record_add_u64(o, "stopped", 1);
	if (t->state[0]) {
		record_add(o, "trainer", t->state);
		record_add(o, "wchan", t->wchan);
	}
}

static struct trainer_seen *seen_get(struct lead *l, const char *worker)
{
	struct trainer_seen *t;

	HASH_FIND_STR(l->seen, worker, t);
	if (t || !(t = calloc(1, sizeof *t)))
		return t;
	snprintf(t->worker, sizeof t->worker, "%s", worker);
	HASH_ADD_STR(l->seen, worker, t);
	if (hash_lacks(t)) {
		free(t);
		return NULL;
	}
	return t;
}

void lead_on_trainer(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct record *r = request_record(rq);
	const char *state = record_get(r, "state"), *wchan = record_get(r, "wchan");
	struct trainer_seen now = {0}, *t;
	struct gate_who who;
	struct error err = {0};

	if (lead_who(rq, &who, &err) != 0 ||
	    record_u64_opt(r, "waits", 0, 1, &now.waits, &err) != 0 ||
	    record_u64_opt(r, "stopped", 0, 1, &now.stopped, &err) != 0 ||
	    record_real_opt(r, "pauses", 0.0, 1e9, &now.pauses, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!lead_is_of_member(l, rq, &who))
		return;
	t = seen_get(l, who.worker);
	if (!t) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	t->generation = who.generation;
	t->waits = now.waits;
	t->stopped = now.stopped;
	t->pauses = now.pauses;
	snprintf(t->state, sizeof t->state, "%s", state ? state : "");
	snprintf(t->wchan, sizeof t->wchan, "%s", wchan ? wchan : "");
	request_ok(rq, NULL);
}

void lead_trainers_look(struct lead *l)
{
	struct cutting *c = &l->cut;
	size_t gone = 0;

	for (size_t i = 0; c->busy && i < c->tolds; i++) {
		struct told *t = &c->told[i];
		if (t->answered || gate_is_member(l->gate, t->worker, t->generation))
			continue;
		lead_trainers_fail(l, t, "left before it had saved");
		gone++;
	}
	while (gone-- > 0)
		lead_cut_answered(l);
}

/* A copy: the client could change mapped memory. -1: no memory. */
static int lead_trainers_keep(struct told *t, const char *path, const struct payload *payload)
{
	size_t len = payload ? payload_bytes(payload) : 0;

	if (path && !(t->path = strdup(path)))
		return -1;
	if (len == 0)
		return 0;
	t->files = malloc(len);
	if (!t->files)
		return -1;
	memcpy(t->files, payload_data(payload), len);
	t->files_len = len;
	return 0;
}

void lead_on_saved(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct record *r = request_record(rq);
	const char *why = record_get(r, "why");
	uint64_t iteration, failed = 0;
	struct gate_who who;
	struct error err = {0};
	struct told *t = NULL;

	if (lead_who(rq, &who, &err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &iteration, &err) != 0 ||
	    record_u64_opt(r, "failed", 0, 1, &failed, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (who.incarnation == l->options.gate.incarnation && iteration == l->cut.iteration)
		t = waits_for(l, who.worker, who.generation);
	if (!t) {
		request_err(rq, "no-cut", "no checkpoint of iteration %llu waits for %s",
			    (unsigned long long)iteration, who.worker);
		return;
	}
	lead_trainers_answered(l, t);
	if (failed)
		lead_trainers_fail(l, t, why ? why : "could not save");
	else if (lead_trainers_keep(t, record_get(r, "path"), request_payload(rq)) != 0)
		lead_cut_fail(l, who.worker, "out of memory");
	request_ok(rq, NULL);
	lead_cut_answered(l);
}

/* ---- the manifest ---- */

static int lead_trainers_add_file(struct ckpt_manifest *m, const char *worker,
				  const struct record *r, struct error *err)
{
	const char *name;
	size_t len = strlen(worker);

	if (record_text(r, "name", &name, err) != 0)
		return -1;
	if (name[0] != '/' && (strncmp(name, worker, len) != 0 || name[len] != '/'))
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is not in its directory", name);
	return ckpt_add_line(m, r, err);
}

static int add_told(struct ckpt_manifest *m, const struct told *t, struct record *r,
		    struct error *err)
{
	struct record_walk walk = record_walk(t->files, t->files_len);
	int got;

	if (ckpt_add_saved(m, t->worker, t->only_memory ? NULL : t->path, err) != 0)
		return error_wrap(err, t->worker);
	while ((got = t->files ? record_next(&walk, r, err) : RECORD_END) == RECORD_ONE) {
		int result = 0;
		if (record_is(r, "held"))
			result = ckpt_add_held(m, r, err);
		else if (record_is(r, "file") && !t->only_memory) /* or it is removed soon */
			result = lead_trainers_add_file(m, t->worker, r, err);
		if (result != 0)
			return error_wrap(err, t->worker);
	}
	return got == RECORD_END ? 0 : error_wrap(err, t->worker);
}

int lead_trainers_files(struct lead *l, struct ckpt_manifest *m, struct error *err)
{
	struct cutting *c = &l->cut;
	struct record *r = malloc(sizeof *r);
	int result = r ? 0 : error_set(err, ERROR_OS, c->dir, "out of memory");

	for (size_t i = 0; result == 0 && i < c->tolds; i++) {
		if (l->options.sums && !c->told[i].path && !c->told[i].only_memory)
			result = error_set(err, ERROR_DATA, c->told[i].worker,
					   "has saved nothing, and nobody else was asked");
		else
			result = add_told(m, &c->told[i], r, err);
	}
	free(r);
	return result;
}
