/*
 * Sizes: LB-BSP Algorithm 1 (and 2) at the barrier.  When an iteration closes the owner's function
 * is asked, once, how the global batch is cut among the members of the next one; each member hears
 * of its own size with the answer that lets it into that iteration, be it to a push or to a join.
 *
 * If a member goes after that, its share stays undone until the next close: the others compute
 * already.
 *
 * Without that function a solution's sizes are in force, which it gave to those who were members then.
 * When others are members, their sizes are cut anew, so that they sum to the batch that came with them.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"
#include "solve/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_ROOM (OPTION_ID_MAX * 3 + 96) /* each byte of an id may be written as three */

static int sizes_reserve(struct gate *g)
{
	size_t room = g->members_max;

	if (GROW(g->number_of, room, g->active) == 0 &&
	    GROW(g->member, g->members_max, g->active) == 0)
		return 0;
	g->failed = 1;
	return -1;
}

/* The batch that the sizes of all members are parts of; 0: none, or they are no parts of one. Where
 * memory limits a size, for example, their sum is meant as it is. */
static uint64_t sizes_batch(struct gate *g, double *weight, double *sum)
{
	char key[FORCE_KEY_MAX];
	uint64_t batch = 0;
	size_t n = 0;

	*sum = 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state != WORKER_ACTIVE)
			continue;
		const struct force *f = acts_force(g, "adjust-bs", w->id, key);
		weight[n++] = f ? (double)f->size : NAN;
		*sum += f ? (double)f->size : NAN;
		if (!f)
			continue;
		if (f->accum != 1 || !f->batch || (batch && f->batch != batch))
			return 0;
		batch = f->batch;
	}
	return batch;
}

static void give_size(struct worker *w, uint64_t size)
{
	if (w->size == size)
		return;
	w->size = size;
	w->size_told = 0;
}

/* A member that has what it was given needs to be told nothing, unless it was told something else
 * since. */
static void sizes_fit(struct gate *g)
{
	char key[FORCE_KEY_MAX];
	size_t n = 0;
	double *weight = malloc(g->active * sizeof *weight), sum;
	uint64_t *size = malloc(g->active * sizeof *size);

	g->failed |= !weight || !size;
	uint64_t batch = weight && size ? sizes_batch(g, weight, &sum) : 0;
	int fits = !batch || sum == (double)batch;
	if (!fits)
		batch_scaled(weight, g->active, batch, 1, size);
	for (struct worker *w = g->workers; w && !g->failed; w = w->hh.next) {
		if (w->state != WORKER_ACTIVE)
			continue;
		uint64_t most = w->most ? w->most : UINT64_MAX, part = fits ? 0 : size[n++];
		const struct force *f =
			fits && w->size ? acts_force(g, "adjust-bs", w->id, key) : NULL;
		if (!fits)
			give_size(w, part < most ? part : most);
		else if (f)
			give_size(w, f->size);
	}
	free(weight);
	free(size);
}

void sizes_ask(struct gate *g, uint64_t iteration)
{
	size_t n = 0;

	if (!g->options.balance && g->active && g->sizes_given && g->options.sync == GATE_BSP)
		sizes_fit(g);
	if (!g->options.balance || g->active == 0 || sizes_reserve(g) != 0)
		return;
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE)
			g->member[n++] = w;
	}
	qsort(g->member, n, sizeof *g->member, worker_order);
	for (size_t i = 0; i < n; i++) {
		const struct worker *w = g->member[i];
		g->number_of[i] = (struct balance_member){.worker = w->id,
							  .speed = w->speed,
							  .time = w->time,
							  .mem = w->mem,
							  .count = w->count,
							  .most = w->most,
							  .size = w->size};
	}
	if (g->options.balance(iteration, g->number_of, n, g->options.balance_arg) != 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct worker *w = g->member[i];
		give_size(w, g->number_of[i].size);
	}
}

char *sizes_tell(struct gate *g, struct worker *w, char *actions, int again)
{
	char *all;
	size_t len, more = actions ? strlen(actions) : 0;

	if (w->state != WORKER_ACTIVE || !w->size || (w->size_told && !again))
		return actions;
	struct record_out *o = RECORD("action", F("kind", "adjust-bs"), F("id", w->id),
				      F("size", w->size), F("accum", 1), F("barrier", 1));
	len = record_end(o, NULL);
	all = malloc(len + more + 1);
	if (!all) {
		g->failed = 1;
		return actions;
	}
	/* behind the size that a solution had given, which holds no more */
	size_t at = g->options.balance ? 0 : more;
	memcpy(all + at, o->data, len);
	memcpy(all + (at ? 0 : len), actions ? actions : "", more);
	all[len + more] = '\0';
	free(actions);
	w->size_told = 1;
	return all;
}

void sizes_free(struct gate *g)
{
	free(g->number_of);
	free(g->member);
}
