/* window: see window.h. Numbers only: no clock, no ids. */
#include "monitor/window.h"

#include "base/fetch.h"

#include <math.h>

void window_init(struct window *w, struct pool *pool)
{
	*w = (struct window){.pool = pool};
}

void window_clear(struct window *w)
{
	for (size_t i = 0; i < w->room; i += WINDOW_CHUNK)
		pool_give(w->pool, w->chunk[i / WINDOW_CHUNK]);
	window_init(w, w->pool);
}

static struct window_entry *window_at(const struct window *w, size_t i)
{
	return &w->chunk[i / WINDOW_CHUNK][i % WINDOW_CHUNK];
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
		const struct window_entry *e = window_at(w, i);
		if (e->at <= now - window_long)
			continue;
		double grid =
			(e->at > now - window_short ? window_short : window_long) / WINDOW_GRID;
		struct window_entry *last = kept ? window_at(w, kept - 1) : NULL;
		if (!last || !on_one_grid_point(last->at, e->at, grid)) {
			*window_at(w, kept++) = *e;
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
		w->count--;
		for (size_t i = 0; i < w->count; i++)
			*window_at(w, i) = *window_at(w, i + 1);
		return 0;
	}
	struct window_entry *chunk = pool_take(w->pool);
	if (!chunk)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu observations",
				 w->count + 1);
	w->chunk[w->room / WINDOW_CHUNK] = chunk;
	w->room += WINDOW_CHUNK;
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
	for (; i > 0 && window_at(w, i - 1)->at > at; i--)
		*window_at(w, i) = *window_at(w, i - 1);
	*window_at(w, i) = (struct window_entry){at, what->seconds, what->samples, what->count};
	return 0;
}

void window_fetch(const struct window *w)
{
	if (w->count == 0)
		return;
	fetch_ahead(window_at(w, w->count - 1), 1);
	if (w->count < w->room)
		fetch_ahead(window_at(w, w->count), 1);
}

struct window_sum window_since(const struct window *w, double from)
{
	struct window_sum sum = {0};
	for (size_t i = w->count; i > 0 && window_at(w, i - 1)->at > from; i--) {
		const struct window_entry *e = window_at(w, i - 1);
		sum.count += e->count;
		sum.seconds += e->seconds;
		sum.samples += e->samples;
	}
	return sum;
}
