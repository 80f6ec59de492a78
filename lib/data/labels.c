/* labels: see labels.h. */
#include "data/labels.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

void labels_add(struct labels *l, const char *text, size_t len, enum label_meaning meaning,
		uint64_t row)
{
	if (len >= LABELS_TEXT_MAX)
		len = LABELS_TEXT_MAX - 1;
	for (size_t i = 0; i < l->count; i++) {
		struct label_value *v = &l->value[i];
		if (memcmp(v->text, text, len) == 0 && v->text[len] == '\0') {
			v->rows++;
			return;
		}
	}
	if (l->count == LABELS_MAX) {
		l->other_rows++;
		return;
	}
	struct label_value *v = &l->value[l->count++];
	*v = (struct label_value){.meaning = meaning, .rows = 1, .first = row};
	memcpy(v->text, text, len);
}

static int same_number(const char *a, const char *b)
{
	double x, y;
	return number_real_span(a, strlen(a), &x) == 0 && number_real_span(b, strlen(b), &y) == 0 &&
	       x == y;
}

int labels_are_odd(const struct labels *l)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->value[i].meaning == LABEL_BAD)
			return 1;
		for (size_t k = 0; k < i; k++)
			if (l->value[k].meaning == l->value[i].meaning &&
			    !same_number(l->value[k].text, l->value[i].text))
				return 1;
	}
	return l->other_rows > 0;
}

int labels_have_bad(const struct labels *l)
{
	return labels_most(l, LABEL_BAD) != NULL;
}

const struct label_value *labels_most(const struct labels *l, enum label_meaning meaning)
{
	const struct label_value *most = NULL;
	for (size_t i = 0; i < l->count; i++)
		if (l->value[i].meaning == meaning && (!most || l->value[i].rows > most->rows))
			most = &l->value[i];
	return most;
}

/* The value behind `last` (NULL: the first) in the order by rows. */
static const struct label_value *next_value(const struct labels *l, const struct label_value *last)
{
	const struct label_value *next = NULL;
	for (size_t i = 0; i < l->count; i++) {
		const struct label_value *v = &l->value[i];
		if (last && (v->rows > last->rows || (v->rows == last->rows && v <= last)))
			continue;
		if (!next || v->rows > next->rows)
			next = v;
	}
	return next;
}

void labels_describe(const struct labels *l, labels_place_fn *place, void *arg, char *out, size_t max)
{
	static const char *const meanings[] = {"0", "1", "bad row"};
	size_t at = 0;
	out[0] = '\0';
	for (const struct label_value *v = NULL; (v = next_value(l, v));) {
		char where[512], one[700];
		place(v->first, where, sizeof where, arg);
		int n = snprintf(one, sizeof one, "%s'%s' (%s): %llu row%s at %s", at ? "; " : "",
				 v->text, meanings[v->meaning], (unsigned long long)v->rows,
				 v->rows == 1 ? "" : "s, first", where);
		if (n < 0 || at + (size_t)n >= max)
			return;
		memcpy(out + at, one, (size_t)n + 1);
		at += (size_t)n;
	}
	if (l->other_rows > 0)
		snprintf(out + at, max - at, "; other values: %llu rows",
			 (unsigned long long)l->other_rows);
}
