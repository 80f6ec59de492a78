/*
 * restart_guard: whether a node may be restarted by intention now (kill-restart, AntDT V-E: the
 * dearest action).  A guard around any solution, also a person's: once a node in a window, a pause
 * between any two, so many a node in all.  Pure: times come from the caller.
 */
#ifndef PACELINE_RUN_RESTART_GUARD_H
#define PACELINE_RUN_RESTART_GUARD_H

#include <stdint.h>

struct restart_rules {
	double window, cooldown; /* seconds */
	uint64_t limit;          /* of one node */
};

/* The restarts of one node, or (count unused) of all nodes. */
struct restart_past {
	uint64_t count;
	double last; /* epoch seconds; 0: none yet */
};

enum restart_answer { RESTART_GO, RESTART_LIMIT, RESTART_WINDOW, RESTART_COOLDOWN };

/* last_any: of all nodes, as restart_past.last. */
enum restart_answer restart_guard(const struct restart_rules *rules,
				  const struct restart_past *node, double last_any, double now);
/* "limit", "window", "cool-down"; of RESTART_GO NULL. */
const char *restart_guard_word(enum restart_answer answer);

#endif
