/*
 * predict_internal: the inside of the predictors: what a model must do, how its state is walked.
 * For lib/predict and their unit tests only.
 */
#ifndef PACELINE_PREDICT_PREDICT_INTERNAL_H
#define PACELINE_PREDICT_PREDICT_INTERNAL_H

#include "predict/predict.h"

/* ---- a walk over a state: the same function saves and loads, so the two can't disagree ---- */
struct predict_state {
	int loading;
	int failed; /* then err says why, and nothing more is done */
	predict_put_fn *put;
	predict_take_fn *take;
	void *arg;
	struct error *err;
	struct record *record; /* room for loading */
};

/* n numbers; NAN is kept. Loading refuses other counts and names. */
void predict_state_reals(struct predict_state *f, const char *name, double *x, size_t n);
void predict_state_u64(struct predict_state *f, const char *name, uint64_t *x, uint64_t max);
/* What was loaded contradicts itself. */
void predict_state_refuse(struct predict_state *f, const char *why);

/* Walks over the state of `of`. */
typedef void predict_state_fn(void *of, struct predict_state *f);
/* The record in head, what walk says, `end`; and all behind that record. what: the word for `of` in
 * errors. */
int predict_state_save(struct record_out *head, predict_state_fn *walk, void *of,
		       predict_put_fn *put, void *arg, struct error *err);
int predict_state_load(predict_state_fn *walk, void *of, const char *what, predict_take_fn *take,
		       void *arg, struct error *err);

/* ---- a model ---- */
struct predict_kind {
	const char *name;
	size_t bytes; /* of its state, which begins as zeros; walk and reuse see to its pointers */
	int (*init)(void *state, const struct predict_config *c, struct error *err);
	void (*free)(void *state); /* may be NULL */
	double (*predict)(void *state, double cpu, double mem);
	void (*observe)(void *state, double speed);
	void (*walk)(void *state, struct predict_state *f);
	/* Forget the run, keep what was learnt; NULL: nothing is learnt, begin anew. */
	int (*reuse)(void *state, const void *from, struct error *err);
};

extern const struct predict_kind predict_last, predict_ema, predict_quantile, predict_arima,
	predict_rnn, predict_lstm, predict_narx, predict_arx, predict_gam, predict_mix;

/* A predictor inside of another. */
void predictor_walk(struct predictor *p, struct predict_state *f);

/* ---- what several models need ---- */
/* The newest times, and quantiles of them. */
struct predict_times {
	double time[PREDICT_WINDOW_MAX]; /* seconds a sample, newest at count-1 modulo the room */
	uint64_t count;
};
void predict_times_add(struct predict_times *t, double speed);
/* The newest `window` <= PREDICT_WINDOW_MAX, or as many as there are, in order; their number. */
size_t predict_times_sort(const struct predict_times *t, size_t window, double *sorted);
/* Between neighbours linearly; NAN of none. */
double predict_times_place(const double *sorted, size_t n, double quantile);
void predict_times_walk(struct predict_times *t, struct predict_state *f);

#endif
