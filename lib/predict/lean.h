/*
 * lean: a compromise between two predictions of one worker's speed: the one with the smallest
 * error, and the one that makes iterations of all short (group.h).
 *
 * The second one leans away from the truth, as errors of the two kinds cost differently.  A little of
 * that lean costs next to nothing in error (squares), and buys most of what there is to be had: on a
 * shared cluster's hardest job 1.138 of the oracle's time becomes 1.125 for 1 % of error, 1.117 at
 * full lean for 14 %.  So: own^(1-x) group^x, with the largest x up to LEAN_MAX at which the squared
 * error so far (newer ones counting more) has been at most LEAN_COST more than own's, and EMA_COST
 * more than that of an ema.
 */
#ifndef PACELINE_PREDICT_LEAN_H
#define PACELINE_PREDICT_LEAN_H

#include "predict/predict_internal.h"

#define PREDICT_LEAN_STEPS 5

struct predict_lean {
	double said[PREDICT_LEAN_STEPS]; /* by x; NAN: none */
	double error[PREDICT_LEAN_STEPS];
	double ema, ema_error;
	uint64_t count;
};

void predict_lean_init(struct predict_lean *l);
/* Either may be NAN; then it is the other. */
double predict_lean_predict(struct predict_lean *l, double own, double group);
void predict_lean_observe(struct predict_lean *l, double speed);
void predict_lean_walk(struct predict_lean *l, struct predict_walk *w);

#endif
