/* events: see events.h. */
#include "sim/events.h"

#include "base/grow.h"

#include <math.h>
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

static int events_add_to_full(struct event_bucket *b, struct event new)
{
	if (GROW(b->event, b->room, b->count + 1) != 0)
		return -1;
	b->event[b->count++] = new;
	return 0;
}

int events_add(struct events *e, struct event new)
{
	struct event_bucket *b = events_bucket(e, new.at);
	if (b->count == b->room)
		return events_add_to_full(b, new);
	b->event[b->count++] = new;
	return 0;
}

/* The first bucket that has events is emptied into those before it: they share more bits with its
 * earliest event than with `last`. */
int events_spread(struct events *e)
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
		if (events_add(e, b->event[k]) != 0)
			return -1;
	b->count = 0;
	return 1;
}

double events_next_at(const struct events *e, size_t most)
{
	double at = INFINITY;
	size_t i = 1;
	while (i < EVENTS_BUCKETS && e->bucket[i].count == 0)
		i++;
	if (e->next < e->bucket[0].count || (i < EVENTS_BUCKETS && e->bucket[i].count > most)) {
		memcpy(&at, &e->last, sizeof at);
		return at;
	}
	for (size_t k = 0; i < EVENTS_BUCKETS && k < e->bucket[i].count; k++)
		at = fmin(at, e->bucket[i].event[k].at);
	return at;
}

void events_free(struct events *e)
{
	for (size_t i = 0; i < EVENTS_BUCKETS; i++)
		free(e->bucket[i].event);
}
