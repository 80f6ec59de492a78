/*
 * oom: what follows when a node ended because there was no memory for it (proc/limits.h): before it is
 * started again it is given more, or less to do.
 *
 *   a worker   twice the memory, up to what its host has; where it is not limited, or has all, half
 *              the batch in twice as many steps, so that the samples of an iteration stay the same
 *   a server   twice as many servers, each with about half; where there can't be more, twice the memory
 *   a replica, which has all parameters: twice the memory
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

/* It has just ended so. */
void sup_oom_ended(struct sup_node *n);

#endif
