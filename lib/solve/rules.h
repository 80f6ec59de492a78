/*
 * rules: the built-in solutions, one function each (AntDT V-E, VI).  Only solution.c names them;
 * everybody else goes through solution_find() and solution_decide(), which check the snapshot.
 * Each gives at least one action.
 */
#ifndef PACELINE_SOLVE_RULES_H
#define PACELINE_SOLVE_RULES_H

#include "solve/solution.h"

solution_fn rule_none;
/* Start even: B_i = B/n (AntDT VI-A 1), again whenever the set of workers has changed. */
solution_fn rule_even;

#endif
