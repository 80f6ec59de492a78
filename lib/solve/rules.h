/*
 * rules: the built-in solutions, one function each (AntDT V-E, VI; LB-BSP 3.2).  Only solution.c
 * names them; everybody else goes through solution_find() and solution_decide(), which check the
 * snapshot.  Each gives at least one action, and every action says why.
 *
 * Words that all of them share:
 *   the crew     the nodes of a role that are up; nobody else gets an action (but by `even`: those
 *                that start join with the size that they are told)
 *   slow         a worker whose seconds per sample (1/speed) are at least lambda times the mean
 *                over the crew.  At equal sizes that is AntDT's ratio of batch times; at unequal
 *                ones batch times say nothing, since balancing makes them equal.  Where no speed is
 *                known, and for servers, who all get the same work: the monitor's ratio
 *   persistent   slow over the long window, and up for as long
 *   a split      AntDT Eq. 3: min max B_i/v_i, sum B_i = B, to the optimum (batch.h), at least one
 *                sample each and no more than the device holds; a worker whose speed is not known
 *                yet gets the mean of the others
 */
#ifndef PACELINE_SOLVE_RULES_H
#define PACELINE_SOLVE_RULES_H

#include "solve/solution.h"

solution_fn rule_none;
/* Start even: B_i = B/n (AntDT VI-A 1), again whenever the set of workers has changed. */
solution_fn rule_even;
/* The N slowest gradients of an iteration are dropped (AntDT, table of actions); BSP only. */
solution_fn rule_backup;
/* A split by the newest speeds in each decision (LB-BSP 3.2, Eq. 3, memoryless). */
solution_fn rule_lb_bsp;
/* Never anything: LB-BSP's Algorithm 2 learns from one iteration to the next (balance.h), which no
 * snapshot holds. */
solution_fn rule_lb_bsp_gpu;
/*
 * AntDT VI-A.  Somebody slow in the short window: a split by the speeds of that window.  Nobody,
 * but sizes are uneven or don't sum to B: a split again, when it gains 1 %.  A persistent worker
 * or server: kill-restart, unless the cluster is busy or the node was restarted `limit` times.
 * Under ASP nothing but kill-restart.
 */
solution_fn rule_antdt_nd;
/* AntDT VI-B: Eq. 4 over device types, to be done once. */
solution_fn rule_antdt_dd;
/* See rule_pace.c. */
solution_fn rule_pace;

#endif
