/*
 * say: actions as a rule says them, each with its reason; for rule*.c only.
 */
#ifndef PACELINE_SOLVE_SAY_H
#define PACELINE_SOLVE_SAY_H

#include "solve/solution.h"

/* Of ACTION_REASON_MAX bytes; a longer text is cut. */
__attribute__((format(printf, 2, 3))) void say_reason(char *out, const char *format, ...);

struct voice {
	action_fn *take;
	void *arg;
	struct error *err;
	size_t given;
};

/* 0, or -1 from take. */
int say_action(struct voice *v, const struct action *a);
__attribute__((format(printf, 2, 3))) int say_none(struct voice *v, const char *format, ...);
int say_restart(struct voice *v, const struct snapshot_node *n, const char *reason);
int say_backup(struct voice *v, uint64_t count, const char *reason);

#endif
