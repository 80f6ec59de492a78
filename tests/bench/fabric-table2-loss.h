/*
 * fabric-table2-loss: what staleness costs.  A simulation says when the worker of each update got
 * the model, and when the update was committed; here a real model is trained that way.  Each
 * gradient is computed with the parameters that were committed when its worker got them, and is
 * applied when the simulation commits it.  What is committed at the same time is one step with the
 * mean.  Rows, model, parameters and optimiser (adagrad, schedule:adadelay) are those of lib/data,
 * lib/model and lib/param.
 */
#ifndef PACELINE_BENCH_FABRIC_TABLE2_LOSS_H
#define PACELINE_BENCH_FABRIC_TABLE2_LOSS_H

#include <stddef.h>
#include <stdint.h>

struct loss_push {
	double pulled, committed; /* s */
};

struct loss_training {
	double lr;
	uint64_t seed; /* of the order of rows */
	double target; /* log loss of rows that are not trained on */
	double within; /* s; gives up then */
};

struct loss_end {
	double seconds, updates; /* until it is reached; INFINITY: it is not */
	double delay, most;      /* until then: updates that one missed, the mean and the most */
};

/* Files as those of the Adult data set; model: lr, or wdl; rows: of an update. Ends the process on
 * an error. */
void loss_open(const char *model, size_t rows, const char *train, const char *test);
/* Sorts push[]. */
struct loss_end loss_train(struct loss_push *push, size_t count, const struct loss_training *t);

#endif
