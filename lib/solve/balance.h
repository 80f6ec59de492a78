/*
 * balance: batch sizes at every barrier (LB-BSP): Algorithm 1 (`lb-bsp`), Eq. 3 over the speeds
 * that the workers foretell, see batch.h; Algorithm 2 (`lb-bsp-gpu`), which learns from their
 * times, see step.h.  ps-server(8) asks it when an iteration closes; trainctl(1) asks it again
 * about the rounds that the server has logged.
 *
 * Algorithm 1 keeps no state: a decision follows from its round alone.
 */
#ifndef PACELINE_SOLVE_BALANCE_H
#define PACELINE_SOLVE_BALANCE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define BALANCE_METHODS "lb-bsp|lb-bsp-gpu" /* of an option */

struct balance_member {
	const char *worker;
	double speed;   /* samples a second, as it foretells of its next batch; 0: not known */
	double time;    /* seconds of its last batch, without waiting; 0: not known */
	double mem;     /* in use then, 0..1 */
	uint64_t count; /* samples of that batch */
	uint64_t most;  /* that fit a step of it; 0: not known */
	uint64_t size;  /* in: of the batch that it was told last; out: of its next one */
	int warn;       /* out: the job is faster without it */
};

/* Whether it is one of them. */
int balance_is(const char *method);

struct balance;

/* global: samples of an iteration; least: samples of a member in one, unless it can't hold as many.
 * Both 1 or more. */
int balance_new(struct balance **out, const char *method, uint64_t global, uint64_t least,
		struct error *err);
void balance_free(struct balance *b); /* NULL is fine */

/* One round; m in any order, each worker once. Sizes sum to the global batch; to less if the
 * members can't hold it (each has what it can hold), to more if there are too many members (each
 * has the least). -1: out of memory, or ERROR_DATA: more members than step.h allows;
 * sizes are as they were. */
int balance_round(struct balance *b, struct balance_member *m, size_t n, struct error *err);

#endif
