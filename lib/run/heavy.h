/*
 * heavy: whether a node may be restarted by intention now (kill-restart, AntDT V-E: the dearest
 * action).  A guard around any solution, also a person's: once a node in a window, a pause between
 * any two, so many a node in all.  Pure: times come from the caller.
 */
#ifndef PACELINE_RUN_HEAVY_H
#define PACELINE_RUN_HEAVY_H

#include <stdint.h>

struct heavy_rules {
	double window, cooldown; /* seconds */
	uint64_t limit;          /* of one node */
};

/* Of one node, or (count unused) of all. */
struct heavy_past {
	uint64_t count;
	double last; /* epoch seconds; 0: none yet */
};

enum heavy_answer { HEAVY_GO, HEAVY_LIMIT, HEAVY_WINDOW, HEAVY_COOLDOWN };

/* last_any: of all nodes, as heavy_past.last. */
enum heavy_answer heavy_check(const struct heavy_rules *rules, const struct heavy_past *node,
			      double last_any, double now);
/* "limit", "window", "cool-down"; of HEAVY_GO NULL. */
const char *heavy_word(enum heavy_answer answer);

#endif
