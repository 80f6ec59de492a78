/*
 * step: LB-BSP Algorithm 2, batch sizes found by trying: at each barrier the fastest worker takes
 * `step` samples from the slowest, once it has been faster in each of the last `window` iterations.
 * No speed is predicted and no shape of the time is assumed, so launch costs, saturation and slow
 * links need not be known.
 *
 * A state machine without a clock: the same rounds give the same sizes.  One round is one
 * iteration.  Two phases:
 *   coarse (step, window): until the leader was once slower than the straggler in this phase
 *     (oscillation), or the straggler has too little left to give a step: then
 *   fine (fine_step, fine_window): until for `window` rounds the straggler was so much slower than
 *     the leader that a coarse step could not have turned them round (the balance is lost): then
 *     coarse again, and what was before those rounds is forgotten.
 * Each round names the workers: one that is not named has left, and the others take over its
 * samples in proportion to their sizes; a new one starts with the mean size.  Either way the coarse
 * phase starts again.  The sizes always sum to the global batch.
 *
 * Beyond the paper: a fine move is not made when it leads to sizes that were tried in this phase
 * and were no better (it would swing for ever); then the next fastest worker takes the samples, if
 * it stays faster than the straggler even with its mean cost a sample.  And the paper warns of
 * every straggler that has no step to give; here the others must be able to do its samples, too,
 * before it ends.
 */
#ifndef PACELINE_SOLVE_STEP_H
#define PACELINE_SOLVE_STEP_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define STEP_WORKERS_MAX 4096
#define STEP_WINDOW_MAX 1000
#define STEP_MEM_MAX 0.95 /* a worker with more of its memory in use is given no more samples */

enum step_phase { STEP_COARSE, STEP_FINE };

struct step_options {
	uint64_t global;              /* samples, 1..BATCH_SIZE_MAX */
	uint64_t step, fine_step;     /* samples, 1..BATCH_SIZE_MAX */
	uint64_t window, fine_window; /* iterations, 1..STEP_WINDOW_MAX */
};
#define STEP_OPTIONS_DEFAULT                                                                       \
	((struct step_options){.step = 5, .window = 5, .fine_step = 1, .fine_window = 20})

struct step_worker {
	const char *id;    /* 64 characters at most; each once a round */
	double time;       /* seconds of its last batch, barrier not included; 0: not known */
	double mem;        /* memory in use, 0..1 */
	uint64_t min, max; /* bounds of its size, min <= max <= BATCH_SIZE_MAX */
	uint64_t start;    /* its size so far, looked at when it is new; 0: not known */
	uint64_t size;     /* out: of its next batch */
	int remove;        /* out: the warning that the job is faster without it, as its size can't
			      be reduced; once, until another worker is the slowest */
};

struct step;

struct step *step_new(const struct step_options *options, struct error *err);
void step_free(struct step *s);
/* One iteration. ERROR_DATA: bounds that the global batch can't meet, an id twice, too many
 * workers; nothing has changed then. n 0 changes nothing. O(n^2) bits, n*window numbers. */
int step_round(struct step *s, struct step_worker *w, size_t n, struct error *err);
enum step_phase step_phase(const struct step *s);

#endif
