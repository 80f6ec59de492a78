/* lag: see lag.h. */
#include "ps/lag.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void lag_free(struct lag *l)
{
	free(l->push);
	*l = (struct lag){0};
}

int lag_add(struct lag *l, const struct lag_push *push, struct error *err)
{
	if (GROW(l->push, l->room, l->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	l->push[l->count++] = *push;
	return 0;
}

void lag_reached(struct lag *l, uint64_t unit)
{
	size_t n = 0;

	while (n < l->count && l->push[n].unit <= unit)
		n++;
	l->count -= n;
	if (n)
		memmove(l->push, l->push + n, l->count * sizeof *l->push);
}

void lag_merge(struct lag *l, uint64_t unit)
{
	l->merged = unit;
}

size_t lag_ahead(const struct lag *l)
{
	size_t n = 0;
	int kept = 0;

	while (n < l->count && l->push[l->count - 1 - n].unit > l->merged)
		kept |= l->push[l->count - 1 - n++].kept;
	return kept ? n : 0;
}

int lag_is_full(const struct lag *l, size_t bound, size_t pushes)
{
	size_t ahead = lag_ahead(l);

	return ahead > 0 && (pushes > bound || ahead > bound - pushes);
}

int lag_is_due(const struct lag *l, size_t bound, int is_large)
{
	size_t ahead = lag_ahead(l);

	return ahead > 0 && (is_large || ahead >= bound - bound / 2);
}

static const struct lag_push *lag_find(const struct lag *l, const char *worker, uint64_t generation)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct lag_push *q = &l->push[i];
		if (q->kept && q->generation == generation && strcmp(q->worker, worker) == 0)
			return q;
	}
	return NULL;
}

uint64_t lag_first(const struct lag *l, const char *worker, uint64_t generation, uint64_t sequence)
{
	const struct lag_push *q = lag_find(l, worker, generation);

	return q && q->sequence < sequence ? q->sequence : sequence;
}

int lag_binds(const struct lag *l, const char *worker, uint64_t generation)
{
	const struct lag_push *q = lag_find(l, worker, generation);

	return q && q->unit > l->merged;
}

size_t lag_bytes(const struct lag *l)
{
	size_t bytes = 0;

	for (size_t i = 0; i < l->count; i++)
		bytes += l->push[i].bytes;
	return bytes;
}
