/* delay: see delay.h. */
#include "lead/delay.h"

#include <math.h>

static unsigned delay_step(uint64_t delay)
{
	if (delay < 8)
		return (unsigned)delay;
	if (delay >> DELAY_BITS)
		return DELAY_STEPS - 1;
	unsigned power = 63 - (unsigned)__builtin_clzll(delay);
	return 8 * (power - 2) + (unsigned)(delay >> (power - 3) & 7);
}

/* The greatest delay that is counted there. */
static uint64_t delay_upto(unsigned step)
{
	unsigned power = step / 8 + 2;
	if (step < 8)
		return step;
	if (step == DELAY_STEPS - 1)
		return UINT64_MAX;
	return ((uint64_t)(8 + step % 8 + 1) << (power - 3)) - 1;
}

void delay_count(struct delays *d, uint64_t delay)
{
	d->count[delay_step(delay)]++;
	d->pushes++;
	if (delay > d->most)
		d->most = delay;
}

uint64_t delay_quantile(const struct delays *d, double fraction)
{
	double wanted = ceil(fraction * (double)d->pushes);
	uint64_t seen = 0;
	for (unsigned i = 0; i < DELAY_STEPS; i++) {
		seen += d->count[i];
		if (d->count[i] && (double)seen >= wanted)
			return delay_upto(i) < d->most ? delay_upto(i) : d->most;
	}
	return d->most;
}

void delay_put(struct record_out *o, const struct delays *d)
{
	if (d->pushes > 0) {
		record_add_u64(o, "delay", delay_quantile(d, 0.5));
		record_add_u64(o, "delay-95", delay_quantile(d, 0.95));
		record_add_u64(o, "delay-most", d->most);
	}
	if (d->dropped > 0)
		record_add_u64(o, "stale", d->dropped);
}
