/*
 * The gate's members: joining, leaving, fences.  Each event changes the state, queues effects, and
 * ends in units_step(), which closes what can be closed.
 *
 * Never waits, never asks anybody: what is not known yet comes as a later event.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const worker_state_name[WORKER_STATES + 1] = {"out", "joining", "active", "ended"};

int gate_new(struct gate **out, const struct gate_options *options, struct error *err)
{
	struct gate *g = calloc(1, sizeof *g);

	if (!g)
		return error_set(err, ERROR_OS, "gate", "out of memory");
	g->options = *options;
	g->push = (struct pool){.bytes = sizeof(struct push)};
	g->worker = (struct pool){.bytes = sizeof(struct worker)};
	g->effect = (struct pool){.bytes = sizeof(struct gate_effect)};
	if (g->options.workers_max == 0)
		g->options.workers_max = GATE_WORKERS_MAX;
	if (g->options.actions_max == 0)
		g->options.actions_max = GATE_ACTIONS_BYTES_MAX;
	g->open = g->applied = options->iteration;
	g->number = options->settle_first;
	g->round = g->groups = options->round_first;
	g->backup = options->backup;
	g->expect = options->sync == GATE_BSP ? options->expect : 0;
	g->servers_up = 1;
	g->late_at = INT64_MAX;
	pushes_start(&g->announced);
	pushes_start(&g->held);
	pushes_start(&g->sent);
	if (replicas_new(g) != 0) {
		gate_free(g);
		return error_set(err, ERROR_OS, "gate", "out of memory");
	}
	*out = g;
	return 0;
}

void gate_free(struct gate *g)
{
	struct worker *w, *next;
	struct push *p;

	if (!g)
		return;
	HASH_ITER(hh, g->workers, w, next)
	{
		grants_end(g, w, "");
		HASH_DEL(g->workers, w);
		push_free(g, w->waiting);
	}
	while ((p = g->held.first)) {
		pushes_remove(&g->held, p);
		push_free(g, p);
	}
	while ((p = g->sent.first)) {
		pushes_remove(&g->sent, p);
		push_free(g, p);
	}
	pool_free(&g->push);
	pool_free(&g->worker);
	free(g->seat);
	free(g->waits);
	free(g->place);
	free(g->replica);
	sizes_free(g);
	acts_free(g);
	effects_free(g);
	free(g);
}

/* ---- workers ---- */

struct worker *worker_find(const struct gate *g, const char *id)
{
	struct worker *w;

	HASH_FIND_STR(g->workers, id, w);
	return w;
}

struct worker *worker_of(const struct gate *g, const struct gate_who *who)
{
	return who->seat && who->seat <= HASH_COUNT(g->workers) ? g->seat[who->seat - 1]
								 : worker_find(g, who->worker);
}

void gate_fetch(const struct gate *g, size_t seat, int is_near)
{
	if (!seat || seat > HASH_COUNT(g->workers))
		return;
	if (is_near)
		fetch_ahead(g->seat[seat - 1], offsetof(struct worker, newest));
	else
		fetch_ahead(&g->seat[seat - 1], 1);
}

size_t gate_seat(const struct gate *g, const char *worker)
{
	const struct worker *w = worker_find(g, worker);

	return w ? w->seat : 0;
}

/* The record of an id, made when new; NULL when there are too many, or no memory. */
struct worker *worker_get(struct gate *g, const char *id)
{
	struct worker *w = worker_find(g, id);

	if (w || HASH_COUNT(g->workers) >= g->options.workers_max)
		return w;
	if (GROW(g->seat, g->seats, HASH_COUNT(g->workers) + 1) != 0 ||
	    !(w = pool_take(&g->worker))) {
		g->failed = 1;
		return NULL;
	}
	*w = (struct worker){0};
	g->seat[HASH_COUNT(g->workers)] = w;
	w->seat = HASH_COUNT(g->workers) + 1;
	snprintf(w->id, sizeof w->id, "%s", id);
	w->scale = 1.0;
	w->version = GATE_NO_STATE;
	HASH_ADD_STR(g->workers, id, w);
	if (hash_lacks(w)) {
		g->failed = 1;
		pool_give(&g->worker, w);
		return NULL;
	}
	return w;
}

static void drop_held(struct gate *g, struct worker *w, const char *why)
{
	struct push *p = worker_held(w);

	if (!p)
		return;
	pushes_end(p);
	pushes_remove(&g->held, p);
	grants_give_up(g, p->group);
	g->late -= p->late ? 1 : 0;
	effect_name(g, GATE_DROP, w->id, p->generation, p->sequence);
	for (size_t i = 0; i < p->tokens; i++)
		effect_err(g, p->token[i], "fenced", "%s", why);
	push_free(g, p);
}

/* Nobody waits for w any more. A push of it that is being settled goes on: shardd decides. */
void worker_out(struct gate *g, struct worker *w, const char *why)
{
	units_goes_on(g, w);
	begins_out(g, w, why);
	states_out(g, w);
	late_left(g, w, why);
	if (w->state == WORKER_ACTIVE)
		g->active--;
	if (w->state == WORKER_JOINING)
		g->joining--;
	if (!g->active)
		g->begun = 0; /* nobody is left in the iteration */
	w->state = WORKER_OUT;
	w->generation = 0;
	w->listed = 0;
	g->sums.is_changed = 1;
	w->connection = 0;
	grants_end(g, w, why);
	drop_held(g, w, why);
	if (w->waiting) { /* slower members no longer matter to one who goes */
		char samples[STATES_SAMPLES_MAX];
		for (size_t i = 0; i < w->waiting->tokens; i++)
			effect_ok(g, w->waiting->token[i], NULL, "iteration=%llu %s=1%s",
				  (unsigned long long)g->applied,
				  w->waiting->late ? "dropped" : "applied",
				  states_samples(g, samples));
		push_free(g, w->waiting);
		w->waiting = NULL;
	}
	if (w->join_token)
		effect_err(g, w->join_token, "fenced", "%s", why);
	if (w->end_token)
		effect_err(g, w->end_token, "fenced", "%s", why);
	w->join_token = w->end_token = 0;
}

static void let_in(struct gate *g, struct worker *w, uint64_t slowest)
{
	w->clock = slowest;
	if (g->slowest_members)
		g->slowest_members = g->slowest == slowest ? g->slowest_members + 1 : 0;
	w->state = WORKER_ACTIVE;
	g->joining--;
	w->acts_seen = g->acts_base + g->acts;
	w->size_told = 0;
	g->active++;
	g->sums.is_changed = 1;
}

static void answer_join(struct gate *g, struct worker *w)
{
	char beginning[STATES_BEGINNING_MAX];

	effect_ok(g, w->join_token, sizes_tell(g, w, acts_in_force(g, w), 1),
		  "iteration=%llu members=%zu%s",
		  (unsigned long long)(g->options.sync == GATE_BSP ? g->open : g->applied),
		  g->active, states_beginning(g, beginning));
	if (!g->failed)
		effect_last(g)->enters = 1;
	w->acts_seen = g->acts_base + g->acts; /* what is in force is what was published */
	if (states_know(g))
		begins_tell(g, w);
	w->join_token = 0;
	states_tell(g, w);
}

/* Whether w waits to enter, and nothing but the other members can keep it out. */
static int may_enter(const struct gate *g, const struct worker *w)
{
	return w->state == WORKER_JOINING &&
	       (!g->options.replicas || gate_in_force(g, w->replica));
}

/* Whether those who wait are enough to begin with. */
static int expected(struct gate *g)
{
	uint64_t waiting = 0;

	if (g->joining < g->expect)
		return 0;
	for (const struct worker *w = g->workers; w && g->expect; w = w->hh.next)
		waiting += (uint64_t)may_enter(g, w);
	if (waiting < g->expect)
		return 0;
	g->expect = 0;
	return 1;
}

/* Members who enter together are told the same number of members. None of those who wait stands before
 * `first`. */
static void let_in_from(struct gate *g, struct worker *first, int closed)
{
	struct worker *w, *next;
	size_t came = 0, joining = g->joining;

	if (!closed && g->active && g->options.sync == GATE_BSP && !begins_may_enter(g) &&
	    !states_are(g))
		return;
	/* With replicas the unit that is being settled is still open. */
	if (g->options.replicas && (g->settling || !g->sums.is_known))
		return;
	if (!g->active && !expected(g))
		return;
	states_begin(g);
	uint64_t slowest = joining && g->active ? units_slowest(g) : 0;
	for (w = first; w && joining; w = next)
	{
		next = w->hh.next;
		joining -= w->state == WORKER_JOINING;
		if (!may_enter(g, w) || !states_let_in(g, w))
			continue;
		let_in(g, w, slowest);
		came++;
	}
	states_bring(g);
	if (closed || came)
		sizes_ask(g, g->open);
	for (w = first; w && came; w = next)
	{
		next = w->hh.next;
		if (w->state != WORKER_ACTIVE || !w->join_token)
			continue;
		answer_join(g, w);
		came--;
	}
}

void worker_let_in(struct gate *g, int closed)
{
	let_in_from(g, g->workers, closed);
}

void gate_begin(struct gate *g)
{
	g->expect = 0;
	units_step(g);
}

/* The worker that joins or ends, if its generation is not over; NULL: it was refused. */
static struct worker *admissible(struct gate *g, const struct gate_who *who)
{
	struct worker *w;

	if (who->incarnation != g->options.incarnation) {
		effect_err(g, who->token, "fenced", "incarnation %llu is in force",
			   (unsigned long long)g->options.incarnation);
		return NULL;
	}
	w = worker_get(g, who->worker);
	if (!w) {
		effect_err(g, who->token, "busy", "too many workers");
		return NULL;
	}
	uint64_t least = w->fenced + 1 > w->newest ? w->fenced + 1 : w->newest;
	if (who->generation < least) {
		effect_err(g, who->token, "fenced", "generation %llu or later",
			   (unsigned long long)least);
		return NULL;
	}
	if (w->generation && w->generation < who->generation)
		worker_out(g, w, "a later generation came");
	int is_new = g->round && !w->newest; /* a lead before this one may have known it */
	if ((w->newest > w->fenced || is_new) &&
	    w->newest < who->generation) { /* a fence throws by itself */
		w->throw_upto = who->generation - 1;
		units_throw(g, w);
	}
	if (w->newest < who->generation) {
		w->pushes = w->samples = w->tried = 0;
		w->delays = (struct delays){0};
	}
	w->newest = who->generation;
	return w;
}

static void not_idle(struct gate *g, struct worker *w)
{
	g->idle -= w->idle;
	w->idle = 0;
}

void gate_join(struct gate *g, const struct gate_who *who)
{
	struct worker *w = admissible(g, who);

	if (w) {
		if (w->join_token)
			effect_err(g, w->join_token, "fenced", "joined again");
		if (w->end_token)
			effect_err(g, w->end_token, "fenced", "joined again");
		w->end_token = 0;
		w->join_token = who->token;
		w->unaware = w->absent = 0;
		not_idle(g, w);
		w->connection = who->connection;
		w->generation = who->generation;
		if (w->state == WORKER_ACTIVE) /* again: others still wait for the barrier */
			answer_join(g, w);
		else {
			g->joining += w->state != WORKER_JOINING;
			w->state = WORKER_JOINING;
			let_in_from(g, g->joining == 1 ? w : g->workers, 0);
		}
	}
	units_step(g);
}

struct worker *worker_telling(struct gate *g, const struct gate_who *who)
{
	struct worker *w =
		who->incarnation == g->options.incarnation ? worker_get(g, who->worker) : NULL;

	return w && who->generation > w->fenced && who->generation >= w->newest ? w : NULL;
}

void gate_speed(struct gate *g, const struct gate_who *who, double speed)
{
	struct worker *w = worker_telling(g, who);

	if (w)
		w->speed = speed;
}

void gate_most(struct gate *g, const struct gate_who *who, uint64_t most)
{
	struct worker *w = worker_telling(g, who);

	if (w)
		w->most = most;
}

void gate_idle(struct gate *g, const struct gate_who *who, uint64_t size)
{
	struct worker *w = worker_of(g, who);

	if (!w || w->state != WORKER_ACTIVE || w->generation != who->generation ||
	    who->incarnation != g->options.incarnation)
		return;
	not_idle(g, w);
	w->idle = size < g->largest ? size : g->largest;
	w->idle_connection = who->connection;
	g->idle += w->idle;
}

uint64_t worker_idle_samples(const struct gate *g)
{
	if (g->options.sync != GATE_BSP || g->options.balance || g->sizes_given)
		return 0;
	return g->idle < ORDER_COUNT_MAX ? g->idle : ORDER_COUNT_MAX;
}

int gate_pushes_to(struct gate *g, const struct gate_who *who, const char *replica)
{
	struct worker *w = worker_telling(g, who);

	for (size_t i = 0; i < g->options.replicas; i++) {
		if (strcmp(g->replica[i].name, replica) != 0)
			continue;
		if (w && w->state == WORKER_ACTIVE && w->generation < who->generation)
			worker_out(g, w, "a later generation came");
		if (w && w->state != WORKER_ACTIVE)
			w->replica = i;
		return 0;
	}
	return -1;
}

void gate_leave(struct gate *g, const struct gate_who *who)
{
	struct worker *w = worker_of(g, who);

	if (who->incarnation != g->options.incarnation) {
		effect_err(g, who->token, "fenced", "incarnation %llu is in force",
			   (unsigned long long)g->options.incarnation);
		return;
	}
	if (w && w->generation != who->generation)
		w = NULL;
	if (w && w->end_token) { /* answers keep their order */
		effect_ok(g, w->end_token, NULL, "wait=1");
		w->end_token = 0;
	}
	if (w && states_stays(g, w)) {
		effect_ok(g, who->token, NULL, "wait=1");
		states_tell(g, w);
	} else {
		if (w)
			worker_out(g, w, "it left");
		effect_ok(g, who->token, NULL, "%s", "");
	}
	units_step(g);
}

void gate_end(struct gate *g, const struct gate_who *who)
{
	struct worker *w = admissible(g, who);

	if (w && states_are(g) && w->state != WORKER_ACTIVE && w->state != WORKER_ENDED) {
		/* it was put out, and may lack what was committed since */
		effect_err(g, who->token, "fenced", "not a member");
	} else if (w) {
		begins_again(g, w);
		uint64_t samples = w->samples;
		enum gate_saves owes_save = w->owes_save;
		uint64_t version = w->state == WORKER_ACTIVE ? g->applied : w->version;
		w->samples = 0; /* what it trained is not lost: it stays until the job's end */
		worker_out(g, w, "it ended");
		w->samples = samples;
		w->owes_save = owes_save;
		w->version = version;
		w->generation = who->generation;
		w->connection = who->connection;
		w->state = WORKER_ENDED;
		if (g->finished)
			effect_ok(g, who->token, NULL, "%s", "");
		else if (owes_save) {
			effect_ok(g, who->token, NULL, "wait=1");
			begins_tell(g, w);
		} else
			w->end_token = who->token;
	}
	units_step(g);
}

void gate_closed(struct gate *g, uint64_t connection)
{
	struct worker *w, *next;

	HASH_ITER(hh, g->workers, w, next)
	{
		if (w->state != WORKER_OUT && w->connection == connection)
			states_absent(g, w, "its connection closed");
		if (w->unaware == connection)
			w->unaware = 0;
		if (w->idle_connection == connection)
			not_idle(g, w);
	}
	units_step(g);
}

void gate_let_go(struct gate *g, const char *worker, uint64_t generation, const char *why)
{
	struct worker *w = worker_find(g, worker);

	if (w && w->generation == generation)
		worker_out(g, w, why);
	units_step(g);
}

void gate_here(struct gate *g, const char *worker, uint64_t generation, uint64_t connection)
{
	struct worker *w = worker_find(g, worker);

	if (w && w->state != WORKER_OUT && w->generation == generation && w->connection == 0)
		w->connection = connection;
}

void gate_absent(struct gate *g)
{
	gate_closed(g, 0);
}

/* ---- the supervisor ---- */

/* Carries out the fences of w, once nothing of it is with shardd. */
void worker_fence(struct gate *g, struct worker *w)
{
	if (!w->fence_tokens || worker_sent(w))
		return;
	if (w->generation && w->generation <= w->fenced)
		worker_out(g, w, "fenced");
	if (w->throw_upto < w->fenced)
		w->throw_upto = w->fenced;
	units_throw(g, w);
	for (size_t i = 0; i < w->fence_tokens; i++) {
		if (w->fence_token[i]) /* 0: asked for before a hand-over */
			effect_ok(g, w->fence_token[i], NULL, "%s", "");
	}
	w->fence_tokens = 0;
}

void gate_fence(struct gate *g, const char *worker, uint64_t generation, uint64_t token)
{
	struct worker *w = worker_get(g, worker);

	if (!w || w->fence_tokens == GATE_TOKENS_MAX) {
		effect_err(g, token, "busy", w ? "too many fences wait" : "too many workers");
		return;
	}
	/* In force from now on, so that nothing new of it comes in; the answer waits while a settle
	 * names it: only its outcome says what the worker's rows have become. */
	if (w->fenced < generation)
		w->fenced = generation;
	w->unaware = w->absent = 0;
	not_idle(g, w);
	w->fence_token[w->fence_tokens++] = token;
	worker_fence(g, w);
	units_step(g);
}

void gate_finish(struct gate *g, uint64_t token)
{
	struct worker *w, *next;

	g->finished = 1;
	HASH_ITER(hh, g->workers, w, next)
	{
		if (w->end_token)
			effect_ok(g, w->end_token, NULL, "%s", "");
		w->end_token = 0;
	}
	effect_ok(g, token, NULL, "%s", "");
}

/* ---- looking ---- */

uint64_t gate_iteration(const struct gate *g)
{
	return g->applied;
}

size_t gate_active(const struct gate *g)
{
	return g->active;
}

const struct delays *gate_delays(const struct gate *g)
{
	return &g->delays;
}

uint64_t gate_groups(const struct gate *g)
{
	return g->groups - g->options.round_first;
}

uint64_t gate_far_groups(const struct gate *g)
{
	return g->far_groups;
}

uint64_t gate_spared(const struct gate *g)
{
	return g->spared;
}

int worker_order(const void *a, const void *b)
{
	return node_id_compare((*(const struct worker *const *)a)->id,
			       (*(const struct worker *const *)b)->id);
}

static const char *const grant_name[GRANTS] = {"", "waits", "given", "over"};

static int members_owes(const struct worker *w)
{
	const struct push *sent = worker_sent(w);

	return w->state == WORKER_ACTIVE && !worker_held(w) && !w->waiting && !w->begin_token &&
	       !(sent && sent->generation == w->generation);
}

int gate_members(const struct gate *g, gate_member_fn *fn, void *arg)
{
	const struct worker *w, **all = malloc((HASH_COUNT(g->workers) + 1) * sizeof *all);
	size_t n = 0;

	if (!all)
		return -1;
	for (w = g->workers; w; w = w->hh.next) {
		if (w->state != WORKER_OUT)
			all[n++] = w;
	}
	qsort(all, n, sizeof *all, worker_order);
	for (size_t i = 0; i < n; i++) {
		struct gate_member m = {
			.worker = all[i]->id,
			.state = worker_state_name[all[i]->state],
			.generation = all[i]->generation,
			.iteration = g->options.sync == GATE_BSP ? g->open : all[i]->clock,
			.owes = members_owes(all[i]),
			.pushes = all[i]->pushes,
			.samples = all[i]->samples,
			.size = all[i]->size ? all[i]->size : all[i]->count,
			.delays = &all[i]->delays,
			.grant = grant_name[all[i]->announced ? all[i]->announced->grant
							    : GRANT_NONE],
			.replica = g->options.replicas ? g->replica[all[i]->replica].name : ""};
		fn(&m, arg);
	}
	free(all);
	return 0;
}
