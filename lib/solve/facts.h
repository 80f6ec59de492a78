/*
 * facts: what a snapshot says of the job besides its nodes: `info` records that the supervisor adds
 * before it asks a solution, and a simulated supervisor (lib/sim), too.  And when it asks: as soon
 * as every worker has reported, and then every so many seconds; once so many have passed, in any
 * case.  Pure.
 */
#ifndef PACELINE_SOLVE_FACTS_H
#define PACELINE_SOLVE_FACTS_H

#include <stdint.h>

struct facts {
	uint64_t samples, done; /* of all epochs; that count by now */
	double rate;            /* samples a second; as the next, NAN: not known */
	double pending;         /* seconds that the cluster lets a node wait */
	int may_leave;          /* an iteration can end without its slowest workers */
	uint64_t backup;        /* how many it leaves now */
	double restart_worker, restart_server; /* seconds of a restart; NAN: not known */
	int restart_all;        /* with one trainer all go back */
	const char *sync;
};

/* Each as an info of `value`. */
typedef void facts_put_fn(const char *name, const char *value, void *arg);
void facts_put(const struct facts *f, facts_put_fn *put, void *arg);

/* last: when the last decision was made, or workers were started if there was none. */
int facts_may_decide(double last, double now, double every, int has_decided, int all_reported);
/* When a decision of now counts as made, so that small delays do not add up. */
double facts_decided(double last, double now, double every, int has_decided);

#endif
