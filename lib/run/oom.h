/*
 * oom: what follows when a node ended because it had no memory left (proc/limits.h): before its
 * next start it gets more memory, or less to do.
 *
 *   a worker   twice the memory, up to what its host has; if it has no limit, or all memory: half
 *   the
 *              rows at a time in twice as many steps, so that an iteration has the same samples
 *   a server   twice as many servers, each with about half; if there can't be more, twice the
 *   memory a replica, which has all parameters: twice the memory
 *
 * RESTARTS oom is the number of such steps of a node, and of all servers together; an end with a step does
 * not count against RESTARTS, any other does.  Each step is a record:
 *     oom id= step= limit= [memory= memory-before=] [size= accum=] [servers= servers-before=]
 */
#ifndef PACELINE_RUN_OOM_H
#define PACELINE_RUN_OOM_H

#include <stdint.h>

struct sup_node;

/* Of a node. */
struct sup_oom {
	uint64_t steps;
	int stepped; /* at its last end */
};

/* Call when the node has just ended for lack of memory. */
void sup_oom_ended(struct sup_node *n);

#endif
