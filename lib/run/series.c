/* series: see series.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_SECONDS 0.5
#define NODE_SECONDS 0.02  /* so much more for each node */
#define PART 1000.0        /* records of a node, evenly in time: a picture has no more points */
#define PART_NODES 12000.0 /* if there are many nodes: records of all together */
#define PART_MIN 50.0
#define MOST_SECONDS 120.0
#define MOST_NODE_SECONDS 10.0

double series_seconds(double elapsed, size_t nodes)
{
	double n = (double)nodes;
	double part = fmax(fmin(PART, n > 0 ? PART_NODES / n : PART), PART_MIN);
	double most = MOST_SECONDS + MOST_NODE_SECONDS * n;
	return fmin(fmax(elapsed / part, LEAST_SECONDS + NODE_SECONDS * n), most);
}

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

static const char *const keys[] = {"role",     "id",       "state",    "size",
				   "samples",  "batches",  "time-sum", "compute-sum",
				   "comm-sum", "wait-sum", "last",     "cpu"};

static void series_put(struct supervisor *s, FILE *out, const struct record *r, double at)
{
	struct record_out *o = RECORD_BARE("series");
	const struct sup_node *n = sup_find(s, record_get(r, "id") ? record_get(r, "id") : "");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *value = record_get(r, keys[i]);
		if (value && value[0])
			record_add(o, keys[i], value);
	}
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
	FILE *out = open_memstream(&text, &len);
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
