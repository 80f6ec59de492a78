/* tally: see tally.h.  Sums only; what is said about them is the agent's. */
#include "meter/tally.h"

#define EARLY_MAX 8 /* the last of the early reports */

void tally_start(struct tally *t, uint64_t every, double seconds, double now)
{
	*t = (struct tally){.every = every, .seconds = seconds, .since = now};
}

int tally_add(struct tally *t, const struct tally_batch *b, double now)
{
	t->total++;
	t->count++;
	t->sum.time += b->time;
	t->sum.compute += b->compute;
	t->sum.comm += b->comm;
	t->sum.wait += b->wait;
	t->sum.samples += b->samples;
	int early = t->total <= EARLY_MAX && (t->total & (t->total - 1)) == 0;
	return early || t->count >= t->every || now - t->since >= t->seconds;
}

uint64_t tally_take(struct tally *t, double now, struct tally_batch *mean)
{
	uint64_t count = t->count;
	double n = (double)count;
	if (count == 0)
		return 0;
	*mean = (struct tally_batch){t->sum.time / n, t->sum.compute / n, t->sum.comm / n,
				     t->sum.wait / n, (t->sum.samples + count / 2) / count};
	t->sum = (struct tally_batch){0};
	t->count = 0;
	t->since = now;
	return count;
}
