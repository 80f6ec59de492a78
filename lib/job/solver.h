/*
 * solver: how a solution that is an executable is asked (paceline-solution(7)): the snapshot is its
 * input, options are its arguments, and it is killed when it is late or says too much.
 */
#ifndef PACELINE_JOB_SOLVER_H
#define PACELINE_JOB_SOLVER_H

#include "job/dirs.h"
#include "proc/child.h"
#include "solve/options.h"

struct solver { /* must live until it is started */
	char path[DIRS_PATH_MAX], called[80];
	char *argv[SOLUTION_OPTIONS_MAX + 2];
	struct solution_arguments given;
};

/* For child_start() and child_run(). `path` without a slash is in the current directory. */
struct child_options solver_child(struct solver *v, const char *path,
				  const struct solution_options *options, const char *snapshot,
				  size_t bytes);

#endif
