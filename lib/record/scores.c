/* scores: see scores.h. */
#include "record/scores.h"

#include <math.h>
#include <stdio.h>

const struct score_name score_names[SCORES] = {
	[SCORE_AUC] = {"auc", "AUC", 1},
	[SCORE_LOG_LOSS] = {"logloss", "log loss", 0},
	[SCORE_ACCURACY] = {"accuracy", "accuracy", 1},
	[SCORE_RMSE] = {"rmse", "RMSE", 0},
	[SCORE_MAE] = {"mae", "MAE", 0},
};

void scores_none(double *value)
{
	for (size_t i = 0; i < SCORES; i++)
		value[i] = NAN;
}

void scores_take(const struct record *r, double *value)
{
	for (size_t i = 0; i < SCORES; i++)
		if (record_real(r, score_names[i].field, 0, 1e300, &value[i], NULL) != 0)
			value[i] = NAN;
}

void scores_put(struct record_out *o, const double *value)
{
	for (size_t i = 0; i < SCORES; i++)
		if (!isnan(value[i]))
			record_add_real(o, score_names[i].field, value[i]);
}

void scores_text(const double *value, char *out, size_t max)
{
	char number[40];
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; i < SCORES; i++) {
		if (isnan(value[i]))
			continue;
		/* The last two have the unit of the labels, which may be tiny or large. */
		snprintf(number, sizeof number, i <= SCORE_ACCURACY ? "%.4f" : "%.5g", value[i]);
		if (len < max)
			len += (size_t)snprintf(out + len, max - len, "%s%s %s", len ? ", " : "",
						score_names[i].words, number);
	}
}
