/*
 * opt: what an optimiser does to parameters, given a gradient.  Pure: it has no state of its own.
 * Slots are the caller's memory, beside the parameters.  Servers use it, and so do AllReduce
 * workers.
 *
 * g below is factor * (sum of gradients), so that factor = 1/samples makes it their mean.  t counts
 * the steps from 1.
 *
 *     sgd       p -= lr * (g + l2 p)
 *     momentum  v = mu v + (g + l2 p);  p -= lr v                    (Polyak; as PyTorch has it)
 *     adagrad   n += g'^2;  p -= lr g' / (sqrt(n) + 1e-10), g' = g + l2 p
 *                                                     (Duchi, Hazan, Singer, JMLR 2011, diagonal)
 *     adam      m, v moments, bias corrected          (Kingma, Ba, ICLR 2015, Alg. 1), g' as above
 *     ftrl      z, n; alpha = lr, beta = 1; l1, l2 are the regularisers of the proximal step
 *                                                     (McMahan et al., KDD 2013, Alg. 1)
 *     add       p += sum of gradients: neither mean nor learning rate (counts, the audit model)
 *
 * The rate need not stay lr.  With t + delay steps, where delay is how stale the gradient is
 * (lead/delay.h), and beta:
 *
 *     sqrt      lr / (beta + sqrt(t)); not adagrad, whose steps become smaller by themselves
 *     adadelay  lr / (beta + sqrt(t + delay));  adagrad: lr / (beta + sqrt(n (t + delay) / t))
 *                                     (AdaDelay: Sra, Yu, Li, Smola, AISTATS 2016, and their code)
 *
 *     step      lr * factor^k, k = (t - 1) / steps rounded down
 *     cosine    lr * (factor + (1 - factor) (1 + cos(pi min(1, (t - 1) / steps))) / 2)
 *                                     (SGDR: Loshchilov, Hutter, ICLR 2017, Eq. 5, without restarts)
 *
 * In the first `warmup` steps the rate is multiplied by t / warmup, whatever the schedule is
 * (Goyal et al., 2017, arXiv:1706.02677).  With decay, p is multiplied by 1 - rate * decay before
 * the step: an L2 penalty that the gradient's scale has no part in (AdamW: Loshchilov, Hutter, ICLR
 * 2019, Alg. 2).  ftrl has none of these.
 *
 * Everything is computed in float, elementwise, in the order of the elements: the same input gives
 * the same bits however a range is cut.
 *
 * All stored values are finite, whatever the gradient is, and an outlier does not stop a parameter:
 *   - the g' of a step (momentum: its v) is held within +-1e15.  That bounds most values.  The
 *     others (parameters of sgd and add, and ftrl's z) are held within +-OPT_VALUE_MAX
 *   - where squares are kept, their root tells which gradient is usual: a g' counts as at most
 *     1000 + 1000 times that (adam: 1000 + 1000 times the mean of squares).  One gradient of 1e14
 *     would otherwise make all later steps 1e14 times smaller.  If all gradients are that large,
 *     the bound has grown with them after a few steps.
 * Each function that makes a step returns how many values it held at such a bound.  A check of each
 * push can't replace these bounds: a push is committed before it is applied, and a sum over
 * members, a weight, or many iterations can exceed a bound that no single push exceeds.
 */
#ifndef PACELINE_PARAM_OPT_H
#define PACELINE_PARAM_OPT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define OPT_SLOTS_MAX 2
/* Floats of a block: gradient, parameters and slots of one block stay in the first cache. */
#define OPT_BLOCK 2048

/* The value with which adagrad's sums start. If they started at 0, the first step of every
 * parameter would be lr, whatever its gradient; this disturbs the hidden layers of a fresh network.
 * 0.1, as in TensorFlow, is slow to start with means over batches. This value gave wide & deep the
 * best AUC in the worst of 200 seeds. */
#define OPT_ADAGRAD_START 1e-5f

/* The bound of each gradient that is pushed. The sum of OPT_SOURCES_MAX gradients, with weights up
 * to OPT_WEIGHT_MAX, is finite. So no sum can be infinity minus infinity. */
#define OPT_GRADIENT_MAX 1e18f
#define OPT_SOURCES_MAX 65536
#define OPT_WEIGHT_MAX 1e9
#define OPT_VALUE_MAX 1e28f /* multiplied by the largest learning rate it is still finite */

enum opt_kind { OPT_SGD, OPT_MOMENTUM, OPT_ADAGRAD, OPT_ADAM, OPT_FTRL, OPT_ADD };
#define OPT_JOB_NAMES "sgd|momentum|adagrad|adam|ftrl" /* for a job to choose from */
#define OPT_NAMES OPT_JOB_NAMES "|add"

enum opt_schedule { OPT_CONSTANT, OPT_SQRT, OPT_ADADELAY, OPT_STAIRS, OPT_COSINE };
#define OPT_SCHEDULES "constant|sqrt|adadelay|step|cosine"
#define OPT_SCHEDULED "sgd|momentum|adagrad" /* those that can have sqrt or adadelay */
#define OPT_RATED OPT_SCHEDULED "|adam"      /* step, cosine, warmup, decay */

/* How the rate changes, and decay. */
struct opt_rate {
	const char *schedule;
	double beta;     /* of sqrt and adadelay */
	uint64_t steps;  /* of step and cosine */
	double factor;   /* the same, 0..1; NAN: 0.1 of step, 0 of cosine */
	uint64_t warmup; /* 0: none */
	double decay;
};

struct opt {
	enum opt_kind kind;
	enum opt_schedule schedule;
	float lr;       /* ftrl: alpha */
	float beta;     /* of sqrt and adadelay */
	double steps, factor, warmup;
	float decay;
	float l1, l2;   /* l1: ftrl only */
	float momentum; /* momentum only */
};

/* One step: an optimiser with what is the same for all elements. */
struct opt_step {
	struct opt opt;
	float factor;    /* g = factor * gradient */
	float stale;     /* adagrad: its root of squares is multiplied by this, */
	float beta;      /* and this is added */
	float adam_lr;   /* lr / (1 - beta1^t) */
	float adam_bias; /* 1 / sqrt(1 - beta2^t) */
	float shrink;    /* parameters are multiplied by it first */
};

/* Fills *o with the optimiser of this name. ERROR_CONFIG, with the name: there is no such
 * optimiser. */
int opt_by_name(struct opt *o, const char *name, struct error *err);
/* Sets how the rate of *o changes. ERROR_CONFIG, with the field's name: this optimiser has no such
 * schedule, or this schedule no such field. */
int opt_set_rate(struct opt *o, const struct opt_rate *r, struct error *err);
extern const size_t opt_kinds; /* they are 0 .. opt_kinds - 1 */
const char *opt_name(size_t kind);
/* The learning rate of a job that does not set one; name is one of OPT_JOB_NAMES. */
double opt_usual_lr(const char *name);
/* Floats kept beside each parameter: 0, 1 or 2. */
size_t opt_slots(const struct opt *o);

/* Sets slots[k][0..n-1] for fresh parameters p[n]. (ftrl: z is such that p stays as it is.) */
void opt_init(const struct opt *o, const float *p, float *const *slots, size_t n);

/* Step t (from 1) with g = factor * gradient, which missed the last `delay` steps before it. */
void opt_step_begin(struct opt_step *s, const struct opt *o, double factor, uint64_t t,
		    uint64_t delay);

/* Return the first element that is not allowed, or n if all are: a gradient beyond
 * OPT_GRADIENT_MAX, a slot that is not finite, a sum of squares below 0, a first moment beyond
 * 1e18. */
size_t opt_bad_gradient(const float *g, size_t n);
size_t opt_bad_slot(const struct opt *o, size_t slot, const float *x, size_t n);

/* One step on n parameters p with gradient g[n]. slots[k] has n floats; slots that the optimiser
 * does not use are not read. Returns how many values were held at a bound. */
size_t opt_apply(const struct opt_step *s, float *p, float *const *slots, const float *g, size_t n);

/* The same for count rows. row[i] points at width parameters and the slots behind them, width
 * floats each; the gradient of row i is g[i*width .. (i+1)*width-1]. */
size_t opt_apply_rows(const struct opt_step *s, float *const *row, size_t count, size_t width,
		      const float *g);

#endif
