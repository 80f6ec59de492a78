/*
 * scores: what auc(1) says of a model, in its record and in all that take it from there: the scoring
 * of TEST, the summary, the report, the metrics.
 */
#ifndef PACELINE_RECORD_SCORES_H
#define PACELINE_RECORD_SCORES_H

#include "record/record.h"

#include <stddef.h>

enum score { SCORE_AUC, SCORE_LOG_LOSS, SCORE_ACCURACY, SCORE_RMSE, SCORE_MAE, SCORES };

struct score_name {
	const char *field; /* of records */
	const char *words; /* for people */
	int rises;         /* more is better */
};
extern const struct score_name score_names[SCORES];

/* value[SCORES] becomes NAN. */
void scores_none(double *value);
/* Those that a record has, value[SCORES]; NAN: it has not this one, or none for these rows. */
void scores_take(const struct record *r, double *value);
void scores_put(struct record_out *o, const double *value);
/* "AUC 0.9123, log loss 0.2345"; "": there are none. */
void scores_text(const double *value, char *out, size_t max);

#endif
