/*
 * standstill: for whom, or for what, the members of a job wait when nothing is committed any more, where
 * gradients are summed (SYNC=allreduce).  A member that owes its push is whom the others wait for, and a
 * host, a daemon, or the network between hosts is named before any of them.  It is told with `status`
 * and `top`; a standstill that lasts is told in the log, and that it is over.
 *
 * Nothing here decides: nodes that hang are found by the watchdog, hosts that are gone by hosts.h.
 */
#ifndef PACELINE_RUN_STANDSTILL_H
#define PACELINE_RUN_STANDSTILL_H

#include "base/option.h"
#include "run/supervisor.h"

#define SUP_WHO_MAX (2 * OPTION_ID_MAX + 8)

struct sup_standstill {
	uint64_t iteration; /* the one that is not committed */
	double since;       /* clock_mono(): it is this one since; 0: the job does not train */
	char why[RUN_WAITS_MAX]; /* which is no member's fault; "": it may be */
	int is_stopped; /* why: a daemon is stopped */
	/* The same, after the log was told; "": it was not, or it goes on. That a daemon was stopped stays told, also
	 * while that one, which goes on, has not answered yet. */
	char told[RUN_WAITS_MAX];
	int told_stopped;
};

void sup_standstill_tick(struct supervisor *s);
/* Whether it waits for other trainers: in a sum, or as it says. */
int sup_waits_for_others(const struct sup_node *n);
/* Why this worker waits, or why the others wait for it, for people; "": they don't, or not for long. */
void sup_standstill_of(const struct sup_node *n, char *out, size_t max);
/* "w1 on host7"; without hosts "w1". */
const char *sup_who(const struct sup_node *n, char out[SUP_WHO_MAX]);

#endif
