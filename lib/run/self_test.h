/*
 * self_test: tests hosts when a node is suspected: it hung, or a solution restarts it because it is
 * slow (BAD_HOSTS=test:on).  All hosts that train are tested at once by node-host(8), beside what
 * they do, except those of LAUNCHER more.  A bad one is named in the log and avoided (hosts.h).
 * Its workers are restarted elsewhere, as far as the guard of restarts lets them (solve/restart_guard.h).
 * There is at most one test in half a minute.
 */
#ifndef PACELINE_RUN_SELF_TEST_H
#define PACELINE_RUN_SELF_TEST_H

struct child;
struct supervisor;

struct sup_self_test {
	struct child *child; /* NULL: none is under way */
	double at;           /* clock_mono(): the last one began; 0: none yet */
};

/* id: of the suspected node. */
void sup_self_test(struct supervisor *s, const char *id);
void sup_self_test_stop(struct supervisor *s);

#endif
