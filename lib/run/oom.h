/*
 * oom: what is done after a node ended because it had no memory left (proc/limits.h).  Before its
 * next start it gets more memory, or less to do:
 *
 *   worker    twice the memory, but not more than its host has.  If it has no limit, or has that
 *             much already: half of the rows at a time, in twice as many steps, so that an
 *             iteration has the same samples.
 *   server    twice as many servers, each with about half of the parameters.  If there can't be
 *             so many: twice the memory.
 *   replica   twice the memory, because each replica has all parameters.
 *
 * RESTARTS oom limits the number of such steps, for each node, and for all servers together.  An
 * end that led to a step does not count against RESTARTS; any other end does.  Each step is a
 * record:
 *     oom id= step= limit= [memory= memory-before=] [size= accum=] [servers= servers-before=]
 */
#ifndef PACELINE_RUN_OOM_H
#define PACELINE_RUN_OOM_H

#include <stdint.h>

struct sup_node;

/* Of a node. */
struct sup_oom {
	uint64_t steps; /* so far */
	int stepped;    /* its last end led to one */
};

/* Call when the node has just ended for lack of memory. */
void sup_oom_ended(struct sup_node *n);

#endif
