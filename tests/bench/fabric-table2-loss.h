/*
 * fabric-table2-loss: what staleness costs.  A simulation says when the worker of each update got
 * the model, and when the update was committed; here a real model is trained that way.  Each
 * gradient is computed with the parameters that were committed when its worker got them, and is
 * applied when the simulation commits it.  What is committed at the same time is one step with the
 * mean.  Rows, model, parameters and optimiser (adagrad, schedule:adadelay) are those of lib/data,
 * lib/model and lib/param.
 *
 * lda has counts, which are added, and no learning rate.  Each worker has documents of its own, as
 * in AD-LDA, and an update is of some of them in turn.
 */
#ifndef PACELINE_BENCH_FABRIC_TABLE2_LOSS_H
#define PACELINE_BENCH_FABRIC_TABLE2_LOSS_H

#include <stddef.h>
#include <stdint.h>

#define LOSS_WORKERS 30

struct loss_push {
	double pulled, committed; /* s */
	size_t worker;
};

struct loss_training {
	double lr;     /* not of lda */
	uint64_t seed; /* of the order of rows */
	double target; /* log loss of rows that are not trained on; lda: of a word of theirs */
	double within; /* s; gives up then */
};

struct loss_end {
	double seconds, updates; /* until it is reached; INFINITY: it is not */
	double delay, most;      /* until then: updates that one missed, the mean and the most */
};

/* model: lr or wdl with files as those of the Adult data set, lda with bags of words. rows: of an
 * update; of lda half as many as each worker has. Ends the process on an error. */
void loss_open(const char *model, size_t rows, const char *train, const char *test);
/* Sorts push[]. */
struct loss_end loss_train(struct loss_push *push, size_t count, const struct loss_training *t);

#endif
