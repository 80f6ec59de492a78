/* events: see events.h. */
#include "sim/events.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static uint64_t events_bits(double at)
{
	uint64_t bits;
	at += 0.0; /* not -0 */
	memcpy(&bits, &at, sizeof bits);
	return bits;
}

static struct event_bucket *events_bucket(struct events *e, double at)
{
	uint64_t differs = events_bits(at) ^ e->last;
	return &e->bucket[differs ? 64 - __builtin_clzll(differs) : 0];
}

static int events_put(struct events *e, const struct event *event)
{
	struct event_bucket *b = events_bucket(e, event->at);
	if (GROW(b->event, b->room, b->count + 1) != 0)
		return -1;
	b->event[b->count++] = *event;
	return 0;
}

int events_add(struct events *e, double at, enum event_kind kind, uint32_t node, uint32_t life)
{
	struct event new = {.at = at, .node = node, .kind = kind & 31, .life = life & 0x7ffffff};
	return events_put(e, &new);
}

/* The first bucket that has events is emptied into those before it: they share more bits with its
 * earliest event than with `last`. */
static int events_spread(struct events *e)
{
	size_t i = 1, earliest = 0;
	while (i < EVENTS_BUCKETS && e->bucket[i].count == 0)
		i++;
	if (i == EVENTS_BUCKETS)
		return 0;
	struct event_bucket *b = &e->bucket[i];
	for (size_t k = 1; k < b->count; k++)
		if (b->event[k].at < b->event[earliest].at)
			earliest = k;
	e->last = events_bits(b->event[earliest].at);
	for (size_t k = 0; k < b->count; k++)
		if (events_put(e, &b->event[k]) != 0)
			return -1;
	b->count = 0;
	return 1;
}

int events_take(struct events *e, struct event *out)
{
	struct event_bucket *now = &e->bucket[0];
	if (e->next == now->count) {
		e->next = now->count = 0;
		int result = events_spread(e);
		if (result <= 0)
			return result;
	}
	*out = now->event[e->next++];
	return 1;
}

const struct event *events_ahead(const struct events *e, size_t count)
{
	const struct event_bucket *now = &e->bucket[0];
	return now->count > e->next + count ? &now->event[e->next + count] : NULL;
}

void events_free(struct events *e)
{
	for (size_t i = 0; i < EVENTS_BUCKETS; i++)
		free(e->bucket[i].event);
}
