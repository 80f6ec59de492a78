/* See rows.h.  Only arithmetic; never reads a clock, never writes a record. */
#include "lead/rows.h"

static void pass(struct rows *w, uint64_t iteration)
{
	while (w->power <= iteration && w->power)
		w->power *= 2;
}

void rows_start(struct rows *w, double every, uint64_t iteration, double now)
{
	*w = (struct rows){.every = every, .until = now + every, .next = now + every, .power = 1};
	pass(w, iteration);
}

int rows_due(struct rows *w, const struct rows_unit *unit, double now, double *mean)
{
	int early = (w->every <= 0.0 || now < w->until) && unit->iteration >= w->power;
	int late = w->every > 0.0 && now >= w->next;

	w->samples += unit->samples;
	w->loss += unit->loss;
	if (!early && !late)
		return 0;
	*mean = w->samples ? w->loss / (double)w->samples : 0.0;
	pass(w, unit->iteration);
	w->next = now + w->every;
	w->samples = 0;
	w->loss = 0.0;
	return 1;
}
