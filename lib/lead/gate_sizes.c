/*
 * Sizes: LB-BSP Algorithm 1 (and 2) at the barrier.  When an iteration closes the owner's function
 * is asked, once, how the global batch is cut among the members of the next one; each member hears
 * of its own size with the answer that lets it into that iteration, be it to a push or to a join.
 *
 * If a member goes after that, its share stays undone until the next close: the others compute
 * already.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"

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

void sizes_ask(struct gate *g, uint64_t iteration)
{
	size_t n = 0;

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
		if (w->size == g->number_of[i].size)
			continue;
		w->size = g->number_of[i].size;
		w->size_told = 0;
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
	memcpy(all, o->data, len);
	memcpy(all + len, actions ? actions : "", more);
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
