/* events: see events.h. */
#include "sim/events.h"

#include "base/grow.h"

#include <stdlib.h>

static int events_before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at <= b->at && a->order < b->order);
}

int events_add(struct events *e, double at, enum event_kind kind, uint32_t node, uint32_t life)
{
	struct event new = {at, e->planned++, kind, node, life};
	size_t i = e->count;
	if (GROW(e->heap, e->room, e->count + 1) != 0)
		return -1;
	e->count++;
	for (; i > 0 && events_before(&new, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = new;
	return 0;
}

int events_take(struct events *e, struct event *out)
{
	if (e->count == 0)
		return 0;
	*out = e->heap[0];
	struct event last = e->heap[--e->count];
	size_t i = 0, child;
	while ((child = 2 * i + 1) < e->count) {
		if (child + 1 < e->count && events_before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!events_before(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	if (e->count > 0)
		e->heap[i] = last;
	return 1;
}

void events_free(struct events *e)
{
	free(e->heap);
}
