/* series: see series.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/grow.h"
#include "monitor/series.h"

#include <stdio.h>
#include <stdlib.h>

/* There is a record after each change of phase, too, with what was done last in the phase. */
int sup_series_due(const struct supervisor *s)
{
	enum sup_phase now = s->phases.now;
	double time = clock_mono();
	if (now < PHASE_RUNNING || now > PHASE_STOPPING)
		return 0;
	return s->series.at == 0 || (int)now != s->series.phase ||
	       time - s->series.at >= series_seconds(time - s->phases.started,
						     s->progress.snapshot.now.node_count);
}

static void series_put(struct supervisor *s, FILE *out, const struct record *r, double at)
{
	struct record_out *o = RECORD_BARE("series");
	const struct sup_node *n = sup_find(s, record_get(r, "id") ? record_get(r, "id") : "");
	series_fields(o, r);
	if (n && n->watch.seen.delays.known) /* the lead's, not the monitor's */
		record_add_u64(o, "stale", n->watch.seen.delays.stale);
	record_add_seconds(o, "at", at);
	record_print(out, o);
}

void sup_series(struct supervisor *s)
{
	const struct sup_snapshot *p = &s->progress.snapshot;
	struct record_walk walk = record_walk(p->text, p->bytes);
	struct record r;
	char *text = NULL;
	size_t len = 0;
	double at = clock_epoch();
	int got;
	if (p->is_wrong || !sup_series_due(s))
		return;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return;
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END)
		if (got == RECORD_ONE && record_is(&r, "node"))
			series_put(s, out, &r, at);
	if (fclose(out) == 0 && len > 0)
		sup_log_text(s, text, len);
	free(text);
	s->series.at = clock_mono();
	s->series.phase = (int)s->phases.now;
}
