/*
 * walk: the numbers of a model's state as records, and the random numbers.
 *
 * A line holds VALUES_A_LINE numbers at most: %.17g takes 24 bytes, so each fits a record.
 */
#include "base/number.h"
#include "base/random.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <string.h>

#define VALUES_A_LINE 128

double predict_uniform(uint64_t *state)
{
	return (double)(random_next(state) >> 11) * 0x1p-53;
}

static void save(struct predict_walk *w, const char *name, const double *x, size_t n)
{
	char line[RECORD_LINE_MAX], list[VALUES_A_LINE * 26 + 32];
	struct record_out o;
	for (size_t at = 0; at < n && !w->failed; at += VALUES_A_LINE) {
		size_t len = 0, end = at + VALUES_A_LINE < n ? at + VALUES_A_LINE : n;
		for (size_t i = at; i < end; i++) {
			if (i > at)
				list[len++] = ',';
			if (isfinite(x[i]))
				len += number_format_real(x[i], list + len);
			else
				list[len++] = '-';
		}
		list[len] = '\0';
		record_begin(&o, line, sizeof line, "values");
		record_add(&o, "name", name);
		record_add_u64(&o, "n", n);
		record_add_u64(&o, "at", at);
		record_add(&o, "v", list);
		w->failed = w->put(line, record_end(&o, NULL), w->arg, w->err) != 0;
	}
}

/* The next `values` record, and that it is the one for name, n, at. */
static int take(struct predict_walk *w, const char *name, size_t n, size_t at, const char **list)
{
	uint64_t value;
	const char *word;
	struct record *r = w->record;
	if (w->take(r, w->arg, w->err) != 0)
		return -1;
	if (!record_is(r, "values"))
		return error_set(w->err, ERROR_DATA, NULL, "values of %s expected, this is '%.40s'",
				 name, r->type);
	if (record_text(r, "name", &word, w->err) != 0)
		return -1;
	if (strcmp(word, name) != 0)
		return error_set(w->err, ERROR_DATA, NULL,
				 "values of %s expected, these are of '%.40s'", name, word);
	if (record_u64(r, "n", n, n, &value, w->err) != 0 ||
	    record_u64(r, "at", at, at, &value, w->err) != 0)
		return -1;
	return record_text(r, "v", list, w->err);
}

static int parse_list(const char *list, double *x, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(list, ",");
		if (len == 1 && *list == '-')
			x[i] = NAN;
		else if (number_real_span(list, len, &x[i]) != 0 || !isfinite(x[i]))
			return error_set(err, ERROR_DATA, NULL, "v=: number %zu is '%.*s'", i + 1,
					 (int)(len < 40 ? len : 40), list);
		list += len;
		if ((*list == ',') != (i + 1 < n))
			return error_set(err, ERROR_DATA, NULL, "v=: not %zu numbers", n);
		list += *list == ',';
	}
	return 0;
}

static void load(struct predict_walk *w, const char *name, double *x, size_t n)
{
	for (size_t at = 0; at < n && !w->failed; at += VALUES_A_LINE) {
		const char *list;
		size_t here = n - at < VALUES_A_LINE ? n - at : VALUES_A_LINE;
		w->failed = take(w, name, n, at, &list) != 0 ||
			    parse_list(list, x + at, here, w->err) != 0;
	}
}

void predict_walk_reals(struct predict_walk *w, const char *name, double *x, size_t n)
{
	if (w->failed)
		return;
	if (w->loading)
		load(w, name, x, n);
	else
		save(w, name, x, n);
}

void predict_walk_u64(struct predict_walk *w, const char *name, uint64_t *x, uint64_t max)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	const char *word;
	if (w->failed)
		return;
	if (!w->loading) {
		record_begin(&o, line, sizeof line, "values");
		record_add(&o, "name", name);
		record_add_u64(&o, "n", 1);
		record_add_u64(&o, "at", 0);
		record_add_u64(&o, "v", *x);
		w->failed = w->put(line, record_end(&o, NULL), w->arg, w->err) != 0;
		return;
	}
	w->failed = take(w, name, 1, 0, &word) != 0 ||
		    record_u64(w->record, "v", 0, max, x, w->err) != 0;
}

void predict_walk_refuse(struct predict_walk *w, const char *why)
{
	if (w->loading && !w->failed)
		w->failed = error_set(w->err, ERROR_DATA, NULL, "this model has %s", why) != 0;
}
