/* A wave: the pushes of all who began their batches at one barrier, as their answers came, in the order of seats.
 *
 * Under BSP nothing comes of a push before the last one is there. If nothing else happens until then, the pushes of a
 * wave are handled as they stand, each with its own time, and the last one last: walks go over workers as they lie in
 * memory, and no push waits in the heap of events. Else they are events as all others are. */
#include "sim/sim_internal.h"

#include "base/grow.h"

#include <stdlib.h>

void wave_plan(struct sim *s, double at, const struct sim_node *n)
{
	struct sim_wave *w = &s->wave;
	if (s->at_once != AT_ONCE_YES || GROW(w->event, w->room, w->count + 1) != 0) {
		sim_plan(s, at, EVENT_PUSHED, n);
		return;
	}
	if (w->count == 0 || at >= w->event[w->last].at)
		w->last = w->count;
	w->event[w->count++] = (struct event){.at = at, .node = (uint32_t)(n - s->node), .kind = EVENT_PUSHED};
}

/* Whether nothing else happens before the last of them is there. */
static int wave_is_alone(struct sim *s)
{
	const struct sim_wave *w = &s->wave;
	double until = w->event[w->last].at;
	return w->count <= gate_awaits(s->gate) && until <= s->options.until &&
	       events_next_at(&s->events, 4 * w->count) > until && cluster_stays(s, until);
}

static void wave_push(struct sim *s, const struct event *e)
{
	s->now = s->moved_at = e->at;
	worker_pushed(s, &s->node[e->node]);
}

void wave_go(struct sim *s)
{
	struct sim_wave *w = &s->wave;
	if (w->count == 0)
		return;
	int is_alone = wave_is_alone(s);
	for (size_t i = 0; i < w->count && !s->failed; i++) {
		const struct event *e = &w->event[i];
		if (!is_alone) {
			sim_plan(s, e->at, EVENT_PUSHED, &s->node[e->node]);
		} else if (i != w->last) {
			sim_fetch_ahead(s, e, w->count - i);
			wave_push(s, e);
		}
	}
	if (is_alone && !s->failed)
		wave_push(s, &w->event[w->last]);
	w->count = 0;
}

void wave_free(struct sim *s)
{
	free(s->wave.event);
}
