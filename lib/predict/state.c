/*
 * state: the numbers of a model's state as records, and back.
 *
 * A line holds VALUES_A_LINE numbers at most: %.17g takes 24 bytes, so each fits a record.
 */
#include "base/number.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_A_LINE 128

static void save(struct predict_state *f, const char *name, const double *x, size_t n)
{
	char list[VALUES_A_LINE * 26 + 32];
	for (size_t at = 0; at < n && !f->failed; at += VALUES_A_LINE) {
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
		struct record_out *o =
			RECORD("values", F("name", name), F("n", n), F("at", at), F("v", list));
		f->failed = f->put(o->data, record_end(o, NULL), f->arg, f->err) != 0;
	}
}

/* The next `values` record, and that it is the one for name, n, at. */
static int predict_state_take_values(struct predict_state *f, const char *name, size_t n, size_t at,
				     const char **list)
{
	uint64_t value;
	const char *word;
	struct record *r = f->record;
	if (f->take(r, f->arg, f->err) != 0)
		return -1;
	if (!record_is(r, "values"))
		return error_set(f->err, ERROR_DATA, NULL, "values of %s expected, this is '%.40s'",
				 name, r->type);
	if (record_text(r, "name", &word, f->err) != 0)
		return -1;
	if (strcmp(word, name) != 0)
		return error_set(f->err, ERROR_DATA, NULL,
				 "values of %s expected, these are of '%.40s'", name, word);
	if (record_u64(r, "n", n, n, &value, f->err) != 0 ||
	    record_u64(r, "at", at, at, &value, f->err) != 0)
		return -1;
	return record_text(r, "v", list, f->err);
}

static int predict_state_parse_list(const char *list, double *x, size_t n, struct error *err)
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

static void predict_state_take(struct predict_state *f, const char *name, double *x, size_t n)
{
	for (size_t at = 0; at < n && !f->failed; at += VALUES_A_LINE) {
		const char *list;
		size_t here = n - at < VALUES_A_LINE ? n - at : VALUES_A_LINE;
		f->failed = predict_state_take_values(f, name, n, at, &list) != 0 ||
			    predict_state_parse_list(list, x + at, here, f->err) != 0;
	}
}

void predict_state_reals(struct predict_state *f, const char *name, double *x, size_t n)
{
	if (f->failed)
		return;
	if (f->loading)
		predict_state_take(f, name, x, n);
	else
		save(f, name, x, n);
}

void predict_state_u64(struct predict_state *f, const char *name, uint64_t *x, uint64_t max)
{
	const char *word;
	if (f->failed)
		return;
	if (!f->loading) {
		struct record_out *o =
			RECORD("values", F("name", name), F("n", 1), F("at", 0), F("v", *x));
		f->failed = f->put(o->data, record_end(o, NULL), f->arg, f->err) != 0;
		return;
	}
	f->failed = predict_state_take_values(f, name, 1, 0, &word) != 0 ||
		    record_u64(f->record, "v", 0, max, x, f->err) != 0;
}

void predict_state_refuse(struct predict_state *f, const char *why)
{
	if (f->loading && !f->failed)
		f->failed = error_set(f->err, ERROR_DATA, NULL, "this model has %s", why) != 0;
}

int predict_state_save(struct record_out *head, predict_state_fn *walk, void *of,
		       predict_put_fn *put, void *arg, struct error *err)
{
	struct predict_state f = {.put = put, .arg = arg, .err = err};
	if (put(head->data, record_end(head, NULL), arg, err) != 0)
		return -1;
	walk(of, &f);
	if (f.failed)
		return -1;
	struct record_out *o = RECORD_BARE("end");
	return put(o->data, record_end(o, NULL), arg, err);
}

int predict_state_load(predict_state_fn *walk, void *of, const char *what, predict_take_fn *take,
		       void *arg, struct error *err)
{
	struct predict_state f = {.loading = 1, .take = take, .arg = arg, .err = err};
	f.record = malloc(sizeof *f.record);
	if (!f.record)
		return error_set(err, ERROR_OS, NULL, "out of memory for a record");
	walk(of, &f);
	int result = f.failed ? -1 : take(f.record, arg, err);
	if (result == 0 && !record_is(f.record, "end"))
		result = error_set(err, ERROR_DATA, NULL, "the %s's end expected, this is '%.40s'",
				   what, f.record->type);
	free(f.record);
	return result;
}
