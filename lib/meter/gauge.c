/* gauge: see gauge.h. Numbers only. */
#include "meter/gauge.h"

#include <math.h>

#define TRIES 2u
#define MISSES_MAX 8u
#define SIZES_LEAST 2     /* of a line two points are needed */
#define GROWTH_LEAST 0.01 /* of the memory; what grows by less may be something else */

void gauge_begin(struct gauge *g, uint64_t rows, uint64_t least)
{
	*g = (struct gauge){.first = rows};
	uint64_t size = rows * 2;
	for (; g->count < GAUGE_SIZES_MAX && size >= least && size > 0; size /= 2)
		g->count++;
	for (size_t i = 0; i < g->count; i++)
		g->point[i].size = rows * 2 >> (g->count - 1 - i);
}

uint64_t gauge_size(const struct gauge *g)
{
	if (g->at >= g->count)
		return 0;
	return g->first > 0 ? g->first : g->point[g->at].size;
}

void gauge_take(struct gauge *g, uint64_t rows, double seconds, double mem)
{
	if (g->at >= g->count)
		return;
	if (rows != gauge_size(g)) {
		if (++g->misses == MISSES_MAX)
			gauge_end(g);
		return;
	}
	if (g->first > 0) {
		g->first = 0;
		return;
	}
	struct profile_point *p = &g->point[g->at];
	seconds = fmax(seconds, 1e-9);
	if (g->tries == 0 || seconds < p->seconds)
		p->seconds = seconds;
	g->mem[g->at] = fmax(g->mem[g->at], mem);
	if (++g->tries == TRIES) {
		g->tries = g->misses = 0;
		g->at++;
	}
}

void gauge_end(struct gauge *g)
{
	g->count = g->at;
}

/* Memory left over memory a row. */
static uint64_t gauge_most(const struct gauge *g, double level, uint64_t most)
{
	const struct profile_point *first = &g->point[0], *last = &g->point[g->count - 1];
	double growth = g->mem[g->count - 1] - g->mem[0];
	double each = growth / (double)(last->size - first->size);
	double rows = (double)last->size + (DEVICE_MEMORY_PART - level) / each;
	if (level <= 0 || !(growth >= GROWTH_LEAST) || rows >= (double)most)
		return most;
	return rows < 1 ? 1 : (uint64_t)rows;
}

int gauge_fit(const struct gauge *g, double level, uint64_t most, struct device *d)
{
	if (g->count < SIZES_LEAST)
		return -1;
	profile_fit(g->point, g->count, &d->profile);
	d->max = gauge_most(g, level, most);
	if (d->profile.saturation > d->max)
		d->profile.saturation = d->max;
	return 0;
}
