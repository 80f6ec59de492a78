/* label: finds the column that a model should learn, and its value that means 1. See survey.h. */
#include "survey/survey.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CLASSES_MAX 20 /* a label with more values than this is something else */

#define FAR_BEHIND 3   /* columns below this fraction of the best score are not offered */

/* What people call it. */
static int names_label(const char *name)
{
	static const char *const words[] = {
		"label",     "labels",   "target",   "class",      "y",         "outcome",
		"response",  "click",    "clicked",  "is_click",   "converted", "conversion",
		"churn",     "churned",  "exited",   "attrition",  "survived",  "default",
		"fraud",     "is_fraud", "income",   "result",     "diagnosis", "approved",
		"purchased", "bought",   "spam",     "subscribed", "deposit",   "cancelled"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcasecmp(name, words[i]) == 0)
			return 1;
	return 0;
}

static int score_of(const struct survey *s, size_t i)
{
	const struct column *c = &s->column[i];
	size_t index[CLASSES_MAX], classes = column_classes(c, index, CLASSES_MAX);
	if (classes < 2 || !c->name[0] || 2 * c->absent > c->rows)
		return 0;
	/* Measured, not said. */
	if (c->numbers > c->whole && classes > 2 && !names_label(c->name))
		return 0;
	int score = 1 + (names_label(c->name) ? 4 : 0) + (i + 1 == s->count ? 2 : i == 0 ? 1 : 0);
	if (classes == 2)
		score += 3 + (value_yes(c->value[index[0]].text, c->value[index[1]].text) != 0);
	if (c->absent > 0)
		score--;
	return score;
}

size_t survey_labels(const struct survey *s, struct survey_label out[SURVEY_LABELS_MAX])
{
	size_t count = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct survey_label one = {i, score_of(s, i)};
		if (one.score == 0)
			continue;
		size_t at = count;
		while (at > 0 && out[at - 1].score < one.score)
			at--;
		if (at == SURVEY_LABELS_MAX)
			continue;
		count += count < SURVEY_LABELS_MAX;
		memmove(out + at + 1, out + at, (count - at - 1) * sizeof *out);
		out[at] = one;
	}
	/* Columns far behind the best one are not worth showing. */
	while (count > 1 && FAR_BEHIND * out[count - 1].score < out[0].score)
		count--;
	return count;
}

void survey_classes(const struct column *c, char out[SURVEY_CLASSES_MAX])
{
	size_t index[CLASSES_MAX], classes = column_classes(c, index, CLASSES_MAX), at = 0;
	char number[COLUMN_COUNT_MAX];
	if (classes == 0) {
		snprintf(out, SURVEY_CLASSES_MAX, "%s different values",
			 column_count(c->distinct, number));
		return;
	}
	out[0] = '\0';
	for (size_t i = 0; i < classes && i < 4; i++) {
		const struct column_value *v = &c->value[index[i]];
		at += (size_t)snprintf(out + at, SURVEY_CLASSES_MAX - at, "%s'%.40s' %.0f %%",
				       i > 0 ? ", " : "", v->text,
				       100.0 * (double)v->count / (double)c->rows);
	}
	if (classes > 4)
		snprintf(out + at, SURVEY_CLASSES_MAX - at, " and %zu more", classes - 4);
	error_plain(out);
}

int survey_positive(const struct column *c)
{
	size_t index[2];
	if (column_classes(c, index, 2) != 2)
		return -1;
	int known = value_yes(c->value[index[0]].text, c->value[index[1]].text);
	if (known == 0)
		known = c->value[index[0]].count <= c->value[index[1]].count ? 1 : -1;
	return (int)index[known > 0 ? 0 : 1];
}

int survey_sorted(const struct column *c)
{
	size_t index[2];
	if (c->rows < 100 || column_classes(c, index, 2) != 2)
		return 0;
	double n = (double)c->rows, p = (double)c->value[index[0]].count / n;
	return (double)c->runs < 0.2 * 2 * n * p * (1 - p);
}
