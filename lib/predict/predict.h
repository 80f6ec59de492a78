/*
 * predict: the speed that a worker will have in the next iteration (LB-BSP 3.2).
 *
 * A predictor belongs to one worker.  Iteration after iteration its owner asks for a prediction,
 * naming the load of the node if that is known, and says what the speed was:
 *
 *     speed = predictor_predict(p, cpu, mem);     NAN: nothing is known yet
 *     predictor_observe(p, measured);             left out when it was not measured
 *
 * Models (LB-BSP Table 3; the last four are ours):
 *   last      the speed before
 *   ema       exponential moving average, from the first speed on
 *   arima     p, d, q given, or the one of the smallest AIC; on the last 256 speeds
 *   rnn lstm  look-back 2, speeds only
 *   narx      v[k] = F(v[k-1..k-2], c[k..k-2], m[k..k-2]), one hidden layer, beside gam
 *   arx       the same as a straight line, which some tens of batches teach
 *   gam       moving average, corrected by what a curve of each load says has changed
 *   quantile  of the last batch times: an underestimated time delays everybody, see group.h
 *   mix       all of them but quantile, weighed by how well they have done
 *
 * The nets learn with each observation and speak from `warmup` observations on; ema speaks before.
 * Pure: no clock, random numbers from the seed only, memory bounded, the same calls give the same
 * bits.  Nothing here is faster or slower with time: a prediction takes microseconds, an
 * observation well under a millisecond (tests/bench/speed-predict).
 */
#ifndef PACELINE_PREDICT_PREDICT_H
#define PACELINE_PREDICT_PREDICT_H

#include "base/error.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define PREDICT_SPEED_MIN 1e-9 /* samples per second */
#define PREDICT_SPEED_MAX 1e18
#define PREDICT_WINDOW_MAX 64 /* of the quantile */
#define PREDICT_ORDER_MAX 3   /* of p and q; d is 2 at most */

enum predict_model {
	PREDICT_LAST,
	PREDICT_EMA,
	PREDICT_QUANTILE,
	PREDICT_ARIMA,
	PREDICT_RNN,
	PREDICT_LSTM,
	PREDICT_NARX,
	PREDICT_ARX,
	PREDICT_GAM,
	PREDICT_MIX
};
#define PREDICT_MODELS 10
#define PREDICT_CHOICES "last|ema|quantile|arima|rnn|lstm|narx|arx|gam|mix" /* of an option */

struct predict_config {
	enum predict_model model;
	double alpha;    /* ema: weight of the newest speed, 0 < alpha <= 1 */
	double quantile; /* 0..1 of the times in the window; 0.75: slower than three of four */
	size_t window;   /* 1..PREDICT_WINDOW_MAX */
	int by_aic;      /* arima: choose the order */
	unsigned p, d, q;
	uint64_t warmup;
	uint64_t seed;
};

/* ema 0.2, the 0.75 quantile of 8, arima(2,2,1), 500 observations of warm-up, seed 1. */
void predict_config_init(struct predict_config *c, enum predict_model model);
const char *predict_model_name(enum predict_model model);
/* 0, or -1 for a word that is none. */
int predict_model_of(const char *word, enum predict_model *model);

struct predictor;

int predictor_new(struct predictor **out, const struct predict_config *config, struct error *err);
void predictor_free(struct predictor *p); /* NULL is fine */

/* Begins an iteration. cpu and mem: in use on the node, 0..1; NAN when not known. */
double predictor_predict(struct predictor *p, double cpu, double mem);
/* The speed of the iteration predicted last, PREDICT_SPEED_MIN..MAX. */
void predictor_observe(struct predictor *p, double speed);
/* Both, between two batches: measured is the speed of the one that has ended, and counts if it is in
 * these bounds; returns that of the next one, 0: not known. */
double predictor_next(struct predictor *p, double measured, double cpu, double mem);
/* Speeds observed so far. */
uint64_t predictor_count(const struct predictor *p);

/*
 * The whole state as records, and back: `model kind= ...`, `values name= n= at= v=` lines, `end`.
 * A predictor that was loaded goes on bit for bit.  put gets whole lines; take gives the next record
 * or an error of its own (the end of the file is one: ERROR_DATA).
 */
typedef int predict_put_fn(const char *line, size_t len, void *arg, struct error *err);
typedef int predict_take_fn(struct record *r, void *arg, struct error *err);
int predictor_save(struct predictor *p, predict_put_fn *put, void *arg, struct error *err);
/* head is the `model` record, already taken. What does not fit this program or is damaged:
 * ERROR_DATA without a place. The configuration is the saved one. */
int predictor_load(struct predictor **out, const struct record *head, predict_take_fn *take,
		   void *arg, struct error *err);

/*
 * What p has learnt, without what it remembers of the last iterations and the old samples: the
 * start of a new run, or of another worker (model reuse, LB-BSP 4).  The nets speak from
 * PREDICT_REUSE_MIN observations on, and find out how fast this worker is beside the other.
 */
#define PREDICT_REUSE_MIN 8
int predictor_reuse(struct predictor **out, const struct predictor *p, struct error *err);

#endif
