/*
 * Members that have the parameters themselves: the barrier at which they say what their next
 * batches are, and the cuts that come to them there.
 */
#include "lead/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int begins_bsp(const struct gate *g)
{
	return g->options.sync == GATE_BSP;
}

void gate_takes_part(struct gate *g, const struct gate_who *who, uint64_t world)
{
	struct worker *w =
		who->incarnation == g->options.incarnation ? worker_get(g, who->worker) : NULL;

	if (!w || !g->options.foreign || states_are(g) || who->generation <= w->fenced ||
	    who->generation < w->newest)
		return;
	if (w->generation && w->generation < who->generation)
		worker_out(g, w, "a later generation came");
	w->begins = who->generation;
	w->world = world;
}

static int is_beginner(const struct worker *w)
{
	return w->generation && w->begins == w->generation;
}

/* Whether w is told of cuts. */
static int is_told(const struct worker *w)
{
	return is_beginner(w) && (w->state == WORKER_ACTIVE || w->state == WORKER_ENDED);
}

int gate_tells_all(const struct gate *g)
{
	for (const struct worker *w = g->workers; w && !states_are(g); w = w->hh.next)
		if (w->state == WORKER_ACTIVE && !is_beginner(w))
			return 0;
	return g->options.foreign;
}

int gate_is_member(const struct gate *g, const char *worker, uint64_t generation)
{
	struct worker *w = worker_find(g, worker);

	return w && (w->state == WORKER_ACTIVE || w->state == WORKER_ENDED) &&
	       w->generation == generation;
}

/* ---- answers ---- */

void begins_tell(struct gate *g, struct worker *w)
{
	struct gate_effect *e = effect_last(g);

	if (g->failed)
		return;
	if (g->enough && !w->knows_enough)
		w->knows_enough = e->enough = 1;
	if (w->owes_saved)
		e->saved = w->owes_saved;
	w->owes_saved = 0;
	if (!w->owes_save)
		return;
	w->told_cut = g->cut_iteration + 1;
	e->save = w->owes_save;
	w->owes_save = GATE_SAVES_NOT;
	e->iteration = g->cut_iteration;
	e->worker = w->id;
}

/* Answers a begin that waits with `wait=1`: the member says it again, and hears of a cut. */
void begins_again(struct gate *g, struct worker *w)
{
	if (!w->begin_token)
		return;
	effect_ok(g, w->begin_token, NULL, "iteration=%llu members=0 samples=0 wait=1",
		  (unsigned long long)(begins_bsp(g) ? g->open : g->applied));
	w->begin_token = 0;
	g->slowest_members = 0; /* it counts again */
	begins_tell(g, w);
}

static void begins_answer(struct gate *g, struct worker *w, uint64_t members, uint64_t samples)
{
	effect_ok(g, w->begin_token, NULL, "iteration=%llu members=%llu samples=%llu",
		  (unsigned long long)(begins_bsp(g) ? g->open : g->applied),
		  (unsigned long long)members, (unsigned long long)samples);
	w->begin_token = 0;
	g->slowest_members = 0; /* it counts again */
	begins_tell(g, w);
}

/* ---- the barrier ---- */

/* All who are in the open iteration, or would be. */
struct barrier {
	size_t here, begun, strangers; /* here: members that say what they begin, also when they
					  have ended; begun: when they have not; strangers:
					  members that never say it */
	uint64_t world; /* so many must be here, as they say; 0: nobody says it */
	int complete;   /* all have said what they begin, and are enough; another iteration may begin */
	uint64_t members, samples;
};

static struct barrier begins_look(const struct gate *g)
{
	struct barrier b = {.complete = 1};

	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		b.here += (size_t)is_told(w);
		if (is_told(w) && w->world > b.world)
			b.world = w->world;
		if (w->state != WORKER_ACTIVE)
			continue;
		if (!is_beginner(w)) {
			b.strangers++;
			continue;
		}
		b.begun++;
		b.complete &= w->begin_token && (!begins_bsp(g) || w->batch.iteration == g->open);
		b.samples += w->batch.count;
		b.members += w->batch.count > 0 || w->batch.with_none;
	}
	if (b.here < b.world || b.begun == 0 || g->enough)
		b.complete = 0;
	return b;
}

int begins_may_enter(const struct gate *g)
{
	return g->options.foreign && begins_bsp(g) && !g->begun && begins_look(g).strangers == 0;
}

static void begins_pass(struct gate *g, const struct barrier *b)
{
	g->begun = 1;
	for (struct worker *w = g->workers, *next; w; w = next) {
		next = w->hh.next;
		if (w->state == WORKER_ACTIVE && w->begin_token)
			begins_answer(g, w, b->members, b->samples);
	}
}

/* ---- cuts ---- */

/* Whether everybody's parameters are what shardd would save now. */
static int cut_ready(const struct gate *g, const struct barrier *b)
{
	if (g->cut != CUT_WANTED)
		return 0;
	if (g->lost[0] || (g->applied > 0 && b->here < b->world)) /* begin_cut() refuses it */
		return 1;
	if (g->settling)
		return 0;
	if (!begins_bsp(g))
		return 1;
	return g->active == 0 || (!g->begun && b->complete);
}

/* Whether all that was trained is in the parameters of those who are here; else the cut is
 * refused. */
static int begins_is_whole(struct gate *g)
{
	struct barrier b = begins_look(g);

	if (g->lost[0])
		effect_err(g, g->cut_token, "cut",
			   "%s left with parameters that were not saved: go back to a checkpoint",
			   g->lost);
	else if (g->applied > 0 && (b.here == 0 || b.here < b.world))
		effect_err(g, g->cut_token, "cut", "%zu of %llu trainers are here", b.here,
			   (unsigned long long)(b.world ? b.world : 1));
	else
		return 1;
	return 0;
}

static void begin_cut(struct gate *g)
{
	if (!begins_is_whole(g)) {
		g->cut = CUT_NONE;
		return;
	}
	g->cut = CUT_SAVING;
	if (!g->options.commit)
		gate_saved(g);
	else if (g->shards_up)
		effect_add(g, GATE_SAVE);
}

/* GATE_CUT with all who will be told; those who wait are told now. */
void begins_saved(struct gate *g)
{
	struct worker *w, *next;
	size_t n = 0;

	if (!begins_is_whole(g)) { /* one of them went while shardd saved */
		g->cut = CUT_NONE;
		return;
	}
	struct gate_effect *e = effect_add(g, GATE_CUT);
	g->cut = CUT_WRITING;
	g->cut_iteration = g->applied;
	if (!e || !(e->member = calloc(HASH_COUNT(g->workers) + 1, sizeof *e->member))) {
		g->failed = 1;
		return;
	}
	e->iteration = g->applied;
	HASH_ITER(hh, g->workers, w, next)
	{
		if (!is_told(w))
			continue;
		w->owes_save = GATE_SAVES_FILES;
		snprintf(e->member[n].worker, sizeof e->member[n].worker, "%s", w->id);
		e->member[n++].generation = w->generation;
	}
	e->members = n;
	struct barrier b = begins_look(g);
	if (begins_bsp(g) && b.samples > 0 && b.complete)
		begins_pass(g, &b);
	HASH_ITER(hh, g->workers, w, next)
	{
		if (!w->owes_save)
			continue;
		if (w->begin_token) {
			begins_again(g, w);
		} else if (w->end_token) {
			effect_ok(g, w->end_token, NULL, "wait=1");
			w->end_token = 0;
			begins_tell(g, w);
		}
	}
}

/* ---- events ---- */

void begins_step(struct gate *g)
{
	struct barrier b;

	if (!g->options.foreign || g->quit)
		return;
	b = begins_look(g);
	if (cut_ready(g, &b)) {
		begin_cut(g);
		b = begins_look(g);
	}
	if (g->cut == CUT_SAVING)
		return; /* whoever waits goes on after the cut */
	if (begins_bsp(g) && !g->begun && b.complete && b.samples > 0 && !g->settling)
		begins_pass(g, &b);
	if (g->enough && !(begins_bsp(g) && g->begun) && !g->settling)
		for (struct worker *w = g->workers; w; w = w->hh.next)
			begins_again(g, w);
}

/* The worker, if it is a member that says what it begins, or sums; NULL: it was refused. */
static struct worker *beginner(struct gate *g, const struct gate_who *who, int may_sum)
{
	struct worker *w = worker_find(g, who->worker);

	if (!w || who->incarnation != g->options.incarnation || w->state != WORKER_ACTIVE ||
	    w->generation != who->generation || who->generation <= w->fenced) {
		effect_err(g, who->token, "fenced", "not a member");
		return NULL;
	}
	if (is_beginner(w) || (may_sum && states_are(g)))
		return w;
	effect_err(g, who->token, "bad-request", "it has not joined with begins=1");
	return NULL;
}

/* It has pushed, and says at once what comes next: that waits for the others' pushes. */
static int is_early(const struct gate *g, const struct worker *w, const struct gate_batch *batch)
{
	return begins_bsp(g) && batch->iteration == g->open + 1 && worker_held(w) &&
	       worker_held(w)->iteration == g->open;
}

void gate_take_part(struct gate *g, const struct gate_who *who, const struct gate_batch *batch)
{
	struct worker *w = beginner(g, who, 0);

	if (!w)
		return;
	int early = is_early(g, w, batch);
	if (begins_bsp(g) && batch->iteration > g->open && !early) {
		effect_err(g, who->token, "bad-request", "iteration %llu is open",
			   (unsigned long long)g->open);
		return;
	}
	begins_again(g, w);
	units_goes_on(g, w); /* it holds up nobody now */
	w->begin_token = who->token;
	w->connection = who->connection;
	if (early) {
		w->batch = *batch;
		return;
	}
	int is_void = batch->is_ahead && w->voids;
	w->voids = 0;
	if (begins_bsp(g) && (is_void || batch->iteration < g->open || g->begun)) {
		begins_again(g, w); /* the answer to what it said before is on its way */
		return;
	}
	w->batch = *batch;
	if (!begins_bsp(g) && batch->count > 0) {
		uint64_t least = units_slowest(g); /* idle, it held up nobody */
		if (w->clock < least)
			w->clock = least;
		begins_answer(g, w, g->active, batch->count);
	} else if (w->owes_save) {
		begins_again(g, w);
	}
	units_step(g);
}

void gate_enough(struct gate *g, const struct gate_who *who)
{
	struct worker *w = who->worker ? beginner(g, who, 1) : NULL;

	if (who->worker && !w)
		return;
	g->enough = 1;
	effect_ok(g, who->token, NULL, "%s", "");
	/* Those whose gradients replicas sum hear it with the answer to a push: so all members of that
	 * sum end with the same state. */
	if (w && !states_are(g))
		begins_tell(g, w);
	units_step(g);
}

/* w goes. What it has trained goes with it, unless the job is over. */
void begins_out(struct gate *g, struct worker *w, const char *why)
{
	if (w->begin_token)
		effect_err(g, w->begin_token, "fenced", "%s", why);
	w->begin_token = 0;
	w->owes_save = GATE_SAVES_NOT;
	w->told_cut = w->owes_saved = 0;
	w->knows_enough = 0;
	w->batch = (struct gate_batch){0};
	if (is_beginner(w) && w->samples && !g->finished && !g->lost[0])
		snprintf(g->lost, sizeof g->lost, "%s", w->id);
}

/* A push of w is in the model now. If w has gone meanwhile, what it trained went with it. */
void begins_trained(struct gate *g, const struct worker *w, uint64_t generation)
{
	int gone = w->state == WORKER_OUT || w->generation != generation;

	if (w->begins >= generation && gone && !g->finished && !g->lost[0])
		snprintf(g->lost, sizeof g->lost, "%s", w->id);
}

/* Those who were not told of the cut yet need not hear of it any more. */
void begins_cut_over(struct gate *g)
{
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		w->owes_save = GATE_SAVES_NOT;
		w->told_cut = 0;
	}
}

void gate_cut_saved(struct gate *g)
{
	for (struct worker *w = g->workers; w; w = w->hh.next)
		w->owes_saved = w->told_cut;
}
