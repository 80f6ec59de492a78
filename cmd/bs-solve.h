/* bs-solve: what its files share. */
#ifndef PACELINE_CMD_BS_SOLVE_H
#define PACELINE_CMD_BS_SOLVE_H

#include "base/error.h"
#include "solve/step.h"

#include <stdint.h>

#define PROGRAM "bs-solve"

/* share, even, accum: all workers in, one answer out. An exit status. */
int bs_solve_once(const char *method, uint64_t global, int strict);
/* step: iterations in, sizes out after each. An exit status. */
int bs_solve_step(const struct step_options *options, int strict);

#endif
