/* series: see series.h. */
#include "monitor/series.h"

#include <math.h>

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

static const char *const series_keys[] = {"role",     "id",       "state",    "size",
					  "samples",  "batches",  "time-sum", "compute-sum",
					  "comm-sum", "wait-sum", "last",     "cpu",
					  /* of a device that was measured */
					  "type", "launch", "device-speed", "saturation", "max"};

void series_fields(struct record_out *o, const struct record *node)
{
	for (size_t i = 0; i < sizeof series_keys / sizeof *series_keys; i++) {
		const char *value = record_get(node, series_keys[i]);
		if (value && value[0])
			record_add(o, series_keys[i], value);
	}
}
