/* See rows.h.  Only arithmetic; never reads a clock, never writes a record. */
#include "gate/rows.h"

static void pass(struct rows *w, uint64_t iteration)
{
	while (w->power <= iteration && w->power)
		w->power *= 2;
}

void rows_start(struct rows *w, double every, const struct rows_total *total, double now)
{
	w->every = every;
	w->until = w->next = now + every;
	w->power = 1;
	w->last = *total;
	pass(w, total->iteration);
}

int rows_due(struct rows *w, const struct rows_total *total, double now, double *mean)
{
	int early = (w->every <= 0.0 || now < w->until) && total->iteration >= w->power;
	int late = w->every > 0.0 && now >= w->next;
	uint64_t samples = total->samples - w->last.samples;

	if (!early && !late)
		return 0;
	*mean = samples ? (total->loss - w->last.loss) / (double)samples : 0.0;
	pass(w, total->iteration);
	w->next = now + w->every;
	w->last = *total;
	return 1;
}
