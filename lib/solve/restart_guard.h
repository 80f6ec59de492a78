/*
 * restart_guard: whether a node may be restarted by intention now (kill-restart, AntDT V-E: the
 * most expensive action).  It guards against any solution, and any person: at most one restart of a
 * node in a window, a pause between any two restarts, and a limit for each node in all.  Pure:
 * times come from the caller.
 */
#ifndef PACELINE_SOLVE_RESTART_GUARD_H
#define PACELINE_SOLVE_RESTART_GUARD_H

#include <stdint.h>

struct restart_rules {
	double window, cooldown; /* seconds */
	uint64_t limit;          /* of one node */
};

/* The restarts of one node. */
struct restart_past {
	uint64_t count;
	double last; /* seconds since 1970; 0: none yet */
};

enum restart_answer { RESTART_GO, RESTART_LIMIT, RESTART_WINDOW, RESTART_COOLDOWN };

/* last_any: the last restart of any node, in seconds since 1970; 0: none yet. */
enum restart_answer restart_guard(const struct restart_rules *rules,
				  const struct restart_past *node, double last_any, double now);
/* "limit", "window", "cool-down"; NULL for RESTART_GO. */
const char *restart_guard_word(enum restart_answer answer);

#endif
