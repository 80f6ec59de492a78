/*
 * predict: see predict.h.  The table of models, and what is the same for each.  A model knows its
 * state only; who owns it, what it is called in a file and that a prediction is a speed is said
 * here.
 */
#include "predict/predict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct predictor {
	const struct predict_kind *kind;
	struct predict_config config;
	uint64_t count;
	void *state;
};

static const struct predict_kind *const kinds[PREDICT_MODELS] = {
	[PREDICT_LAST] = &predict_last,   [PREDICT_EMA] = &predict_ema,
	[PREDICT_ARIMA] = &predict_arima, [PREDICT_QUANTILE] = &predict_quantile,
	[PREDICT_RNN] = &predict_rnn,     [PREDICT_LSTM] = &predict_lstm,
	[PREDICT_NARX] = &predict_narx,   [PREDICT_ARX] = &predict_arx,     [PREDICT_GAM] = &predict_gam,
	
	[PREDICT_MIX] = &predict_mix};

void predict_config_init(struct predict_config *c, enum predict_model model)
{
	*c = (struct predict_config){.model = model,
				     .alpha = 0.2,
				     .quantile = 0.75,
				     .window = 8,
				     .p = 2,
				     .d = 2,
				     .q = 1,
				     .warmup = 500,
				     .seed = 1};
}

const char *predict_model_name(enum predict_model model)
{
	return kinds[model]->name;
}

int predict_model_of(const char *word, enum predict_model *model)
{
	for (int i = 0; i < PREDICT_MODELS; i++)
		if (strcmp(word, kinds[i]->name) == 0) {
			*model = (enum predict_model)i;
			return 0;
		}
	return -1;
}

int predictor_new(struct predictor **out, const struct predict_config *config, struct error *err)
{
	const struct predict_kind *kind = kinds[config->model];
	struct predictor *p = calloc(1, sizeof *p);
	void *state = calloc(1, kind->bytes);
	if (!p || !state) {
		free(p);
		free(state);
		return error_set(err, ERROR_OS, NULL, "out of memory for a predictor");
	}
	*p = (struct predictor){.kind = kind, .config = *config, .state = state};
	if (kind->init(state, config, err) != 0) {
		predictor_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

void predictor_free(struct predictor *p)
{
	if (!p)
		return;
	if (p->kind->free)
		p->kind->free(p->state);
	free(p->state);
	free(p);
}

double predictor_predict(struct predictor *p, double cpu, double mem)
{
	double speed = p->kind->predict(p->state, cpu, mem);
	if (p->count == 0 || !isfinite(speed))
		return NAN;
	return fmin(fmax(speed, PREDICT_SPEED_MIN), PREDICT_SPEED_MAX);
}

void predictor_observe(struct predictor *p, double speed)
{
	p->kind->observe(p->state, speed);
	p->count++;
}

double predictor_next(struct predictor *p, double measured, double cpu, double mem)
{
	if (measured >= PREDICT_SPEED_MIN && measured <= PREDICT_SPEED_MAX)
		predictor_observe(p, measured);
	double speed = predictor_predict(p, cpu, mem);
	return isnan(speed) ? 0 : speed;
}

uint64_t predictor_count(const struct predictor *p)
{
	return p->count;
}

int predictor_reuse(struct predictor **out, const struct predictor *p, struct error *err)
{
	if (predictor_new(out, &p->config, err) != 0)
		return -1;
	if (p->kind->reuse && p->kind->reuse((*out)->state, p->state, err) != 0) {
		predictor_free(*out);
		*out = NULL;
		return -1;
	}
	return 0;
}

/* ---- files ---- */
void predictor_walk(struct predictor *p, struct predict_state *f)
{
	predict_state_u64(f, "count", &p->count, UINT64_MAX - 1);
	p->kind->walk(p->state, f);
}

static void predict_walk(void *p, struct predict_state *f)
{
	predictor_walk(p, f);
}

int predictor_save(struct predictor *p, predict_put_fn *put, void *arg, struct error *err)
{
	const struct predict_config *c = &p->config;
	return predict_state_save(RECORD("model", F("kind", p->kind->name),
					 F_REAL("alpha", c->alpha), F_REAL("quantile", c->quantile),
					 F("window", c->window), F("by-aic", c->by_aic != 0),
					 F("p", c->p), F("d", c->d), F("q", c->q),
					 F("warmup", c->warmup), F("seed", c->seed)),
				  predict_walk, p, put, arg, err);
}

static int read_config(struct predict_config *c, const struct record *head, struct error *err)
{
	const char *kind;
	uint64_t window, aic, p, d, q;
	if (record_text(head, "kind", &kind, err) != 0)
		return -1;
	predict_config_init(c, PREDICT_LAST);
	if (predict_model_of(kind, &c->model) != 0)
		return error_set(err, ERROR_DATA, NULL, "a model of unknown kind '%.40s'", kind);
	if (record_real(head, "alpha", 1e-9, 1, &c->alpha, err) != 0 ||
	    record_real(head, "quantile", 0, 1, &c->quantile, err) != 0 ||
	    record_u64(head, "window", 1, PREDICT_WINDOW_MAX, &window, err) != 0 ||
	    record_u64(head, "by-aic", 0, 1, &aic, err) != 0 ||
	    record_u64(head, "p", 0, PREDICT_ORDER_MAX, &p, err) != 0 ||
	    record_u64(head, "d", 0, 2, &d, err) != 0 ||
	    record_u64(head, "q", 0, PREDICT_ORDER_MAX, &q, err) != 0 ||
	    record_u64(head, "warmup", 0, UINT64_MAX, &c->warmup, err) != 0 ||
	    record_u64(head, "seed", 0, UINT64_MAX, &c->seed, err) != 0)
		return -1;
	c->window = (size_t)window;
	c->by_aic = aic != 0;
	c->p = (unsigned)p;
	c->d = (unsigned)d;
	c->q = (unsigned)q;
	return 0;
}

int predictor_load(struct predictor **out, const struct record *head, predict_take_fn *take,
		   void *arg, struct error *err)
{
	struct predict_config c;
	if (read_config(&c, head, err) != 0 || predictor_new(out, &c, err) != 0)
		return -1;
	if (predict_state_load(predict_walk, *out, "model", take, arg, err) == 0)
		return 0;
	predictor_free(*out);
	*out = NULL;
	return -1;
}
