/* lean: see lean.h. */
#include "predict/lean.h"

#include <math.h>

#define LEAN_MAX 0.5
#define LEAN_COST 0.04 /* of the squared error: 2 % of its root */
#define EMA_COST 0.02  /* the same of an ema's */
#define FORGET 0.005
#define FIRST 5 /* observations before errors are trusted, and anything leans */
#define EMA_WEIGHT 0.2

void predict_lean_init(struct predict_lean *l)
{
	*l = (struct predict_lean){.ema = NAN};
	for (int i = 0; i < PREDICT_LEAN_STEPS; i++)
		l->said[i] = NAN;
}

double predict_lean_predict(struct predict_lean *l, double own, double group)
{
	double away = isnan(own) || isnan(group) ? 0 : log(group / own);
	double from = isnan(own) ? group : own;
	int step = 0;
	for (int i = 0; i < PREDICT_LEAN_STEPS; i++)
		l->said[i] = from * exp(away * LEAN_MAX * i / (PREDICT_LEAN_STEPS - 1));
	if (l->count < FIRST)
		return l->said[0];
	double most = fmin((1 + LEAN_COST) * l->error[0], (1 + EMA_COST) * l->ema_error);
	while (step + 1 < PREDICT_LEAN_STEPS && l->error[step + 1] <= most)
		step++;
	return l->said[step];
}

static double forgetful(double sum, double said, double speed)
{
	return (1 - FORGET) * sum + (said - speed) * (said - speed);
}

void predict_lean_observe(struct predict_lean *l, double speed)
{
	if (!isnan(l->said[0]) && !isnan(l->ema)) {
		for (int i = 0; i < PREDICT_LEAN_STEPS; i++)
			l->error[i] = forgetful(l->error[i], l->said[i], speed);
		l->ema_error = forgetful(l->ema_error, l->ema, speed);
		l->count++;
	}
	l->ema = isnan(l->ema) ? speed : (1 - EMA_WEIGHT) * l->ema + EMA_WEIGHT * speed;
}

void predict_lean_walk(struct predict_lean *l, struct predict_walk *w)
{
	predict_walk_reals(w, "lean-said", l->said, PREDICT_LEAN_STEPS);
	predict_walk_reals(w, "lean-error", l->error, PREDICT_LEAN_STEPS);
	predict_walk_reals(w, "lean-ema", &l->ema, 1);
	predict_walk_reals(w, "lean-ema-error", &l->ema_error, 1);
	predict_walk_u64(w, "lean-count", &l->count, UINT64_MAX / 2);
}
