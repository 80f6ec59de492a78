/* window: see window.h. Numbers only: no clock, no ids. */
#include "monitor/window.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void window_init(struct window *w)
{
	*w = (struct window){0};
}

void window_clear(struct window *w)
{
	free(w->entry);
	window_init(w);
}

static int on_one_grid_point(double a, double b, double grid)
{
	return floor(a / grid) == floor(b / grid);
}

/* Entries on the same grid point become one. At most 2 * (WINDOW_GRID + 1) are left, as the grid
 * is absolute: about half the room, so this happens once in a few hundred observations. */
static void window_compact(struct window *w, double now, double window_short, double window_long)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->count; i++) {
		const struct window_entry *e = &w->entry[i];
		if (e->at <= now - window_long)
			continue;
		double grid =
			(e->at > now - window_short ? window_short : window_long) / WINDOW_GRID;
		struct window_entry *last = kept ? &w->entry[kept - 1] : NULL;
		if (!last || !on_one_grid_point(last->at, e->at, grid)) {
			w->entry[kept++] = *e;
			continue;
		}
		last->at = e->at;
		last->seconds += e->seconds;
		last->samples += e->samples;
		last->count += e->count;
	}
	w->count = kept;
}

static int window_make_room(struct window *w, double now, double window_short, double window_long,
			    struct error *err)
{
	if (w->count < w->room)
		return 0;
	if (w->room >= WINDOW_ROOM) {
		window_compact(w, now, window_short, window_long);
		if (w->count < w->room)
			return 0;
		/* Only happens when observations are later than now: drop the oldest one. */
		memmove(w->entry, w->entry + 1, --w->count * sizeof *w->entry);
		return 0;
	}
	if (GROW(w->entry, w->room, w->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu observations",
				 w->count + 1);
	return 0;
}

int window_add(struct window *w, double at, const struct window_sum *what, double now,
	       double window_short, double window_long, struct error *err)
{
	if (at <= now - window_long)
		return 0;
	if (window_make_room(w, now, window_short, window_long, err) != 0)
		return -1;
	size_t i = w->count++;
	for (; i > 0 && w->entry[i - 1].at > at; i--)
		w->entry[i] = w->entry[i - 1];
	w->entry[i] = (struct window_entry){at, what->seconds, what->samples, what->count};
	return 0;
}

void window_fetch(const struct window *w)
{
	if (w->count == 0)
		return;
	__builtin_prefetch(&w->entry[w->count - 1]);
	if (w->count < w->room)
		__builtin_prefetch(&w->entry[w->count], 1);
}

struct window_sum window_since(const struct window *w, double from)
{
	struct window_sum sum = {0};
	for (size_t i = w->count; i > 0 && w->entry[i - 1].at > from; i--) {
		sum.count += w->entry[i - 1].count;
		sum.seconds += w->entry[i - 1].seconds;
		sum.samples += w->entry[i - 1].samples;
	}
	return sum;
}
