/*
 * parse: see parse.h.  What all formats share (labels, scaling, places), and csv, whose fields
 * rowscan.c has split already.  Must never decide what happens to a bad row.
 */
#include "data/parse.h"

#include "base/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int parse_bad(size_t *at, size_t where, struct error *err, const char *fmt, ...)
{
	*at = where;
	if (err) {
		va_list args;
		va_start(args, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, args);
		va_end(args);
		err->code = ERROR_DATA;
		err->place[0] = '\0';
	}
	return PARSE_BAD;
}

void parse_place(char *out, size_t out_max, const char *file, const struct row_ref *row, size_t at)
{
	uint64_t line = row->line;
	size_t column = at;
	for (size_t i = 0; i < at && i < row->len; i++)
		if (row->data[i] == '\n') {
			line++;
			column = at - i - 1;
		}
	snprintf(out, out_max, "%.440s:%llu:%zu", file, (unsigned long long)line, column + 1);
}

/* ---- the parser ---- */

static double unscaled(enum schema_scale scale, double x)
{
	if (scale != SCHEMA_LOG_Z)
		return x;
	return x < 0 ? -log1p(-x) : log1p(x);
}

/* x as unscaled() gives it */
static float parse_normed(const struct parser *p, size_t column, double x)
{
	if (p->schema->scale == SCHEMA_NONE)
		return (float)x;
	return (float)((x - p->schema->dense[column].mean) * p->inverse[column]);
}

float parse_scale(const struct parser *p, size_t column, double x)
{
	return parse_normed(p, column, unscaled(p->schema->scale, x));
}

void parser_refresh(struct parser *p)
{
	for (size_t i = 0; i < p->schema->dense_count; i++)
		p->inverse[i] = 1.0 / p->schema->dense[i].deviation;
	if (!p->table)
		return;
	for (size_t x = 0; x < PARSE_TABLE; x++) {
		double plain = unscaled(p->schema->scale, (double)x);
		for (size_t i = 0; i < p->schema->dense_count; i++)
			p->table[i * PARSE_TABLE + x] = parse_normed(p, i, plain);
	}
}

int parser_init(struct parser *p, const struct schema *s, int label_optional, struct error *err)
{
	*p = (struct parser){.schema = s,
			     .label_optional = label_optional,
			     .mask = (UINT64_C(1) << s->hash_bits) - 1};
	size_t n = s->dense_count + 1;
	p->inverse = malloc(n * sizeof *p->inverse);
	p->raw = malloc(n * sizeof *p->raw);
	if (s->syntax.format == ROW_CRITEO)
		p->table = malloc(n * PARSE_TABLE * sizeof *p->table);
	if (!p->inverse || !p->raw || (s->syntax.format == ROW_CRITEO && !p->table)) {
		parser_free(p);
		return error_set(err, ERROR_OS, "parser", "out of memory");
	}
	parser_refresh(p);
	return 0;
}

void parser_free(struct parser *p)
{
	free(p->inverse);
	free(p->raw);
	free(p->table);
	*p = (struct parser){0};
}

/* ---- labels ---- */

static int parse_same(const char *text, size_t len, const char *want)
{
	return strlen(want) == len && memcmp(text, want, len) == 0;
}

/* As text, or as numbers where both are ("1" and "1.0" and "+1"). */
static int parse_matches(const char *text, size_t len, const char *want)
{
	double a, b;
	if (parse_same(text, len, want))
		return 1;
	return number_real_span(text, len, &a) == 0 &&
	       number_real_span(want, strlen(want), &b) == 0 && a == b;
}

static int refuse_label(const struct schema *s, const char *text, size_t len, size_t *at,
			size_t where, struct error *err)
{
	int shown = len > 80 ? 80 : (int)len;
	if (len == 0)
		return parse_bad(at, where, err, "the label is empty");
	if (s->positive)
		return parse_bad(at, where, err, "label '%.*s' is neither '%.80s' nor '%.80s'", shown,
				 text, s->positive, s->negative);
	return parse_bad(at, where, err, "label '%.*s' is neither 0 nor 1%s", shown, text,
			 s->syntax.format == ROW_LIBSVM ? " (or -1)"
							: "; POSITIVE= says which value means 1");
}

static enum label_meaning meaning_of(const struct schema *s, const char *text, size_t len)
{
	double x;
	if (len == 0)
		return LABEL_BAD;
	if (s->positive) {
		if (parse_matches(text, len, s->positive))
			return LABEL_ONE;
		return s->negative && !parse_matches(text, len, s->negative) ? LABEL_BAD
									     : LABEL_ZERO;
	}
	if (number_real_span(text, len, &x) != 0 ||
	    !(x == 0 || x == 1 || (s->syntax.format == ROW_LIBSVM && x == -1)))
		return LABEL_BAD;
	return x == 1 ? LABEL_ONE : LABEL_ZERO;
}

/* Not what some programs write for a missing value, either. */
static int parse_class(struct parser *p, const char *text, size_t len, float *out, size_t *at,
		       size_t where, struct error *err)
{
	int shown = len > 80 ? 80 : (int)len;
	if (len == 0)
		return parse_bad(at, where, err, "the label is empty");
	if (len == 3 && strncasecmp(text, "nan", 3) == 0)
		return parse_bad(at, where, err, "label '%.*s' is no class", shown, text);
	if (len > CLASS_TEXT_MAX)
		return parse_bad(at, where, err,
				 "label '%.*s...' has %zu bytes; a class has %d at most", shown, text,
				 len, CLASS_TEXT_MAX);
	*out = 0;
	p->class_text = text;
	p->class_len = len;
	p->class_at = where;
	if (p->classes)
		return PARSE_OK;
	size_t found = classes_find(&p->schema->classes, text, len);
	if (found == CLASSES_NONE)
		return parse_bad(at, where, err, "label '%.*s' is none of the %zu classes", shown,
				 text, p->schema->classes.count);
	*out = (float)found;
	return PARSE_OK;
}

static int gather_class(struct parser *p, size_t *at, struct error *err)
{
	struct error why;
	if (classes_add(p->classes, p->class_text, p->class_len, &why) == 0)
		return PARSE_OK;
	if (why.code == ERROR_DATA)
		return parse_bad(at, p->class_at, err, "%s", why.text);
	if (err)
		*err = why;
	return -1;
}

static int parse_real(struct parser *p, const char *text, size_t len, float *out, size_t *at,
		      size_t where, struct error *err)
{
	double x;
	const struct schema *s = p->schema;
	int shown = len > 80 ? 80 : (int)len;
	if (len == 0)
		return parse_bad(at, where, err, "the label is empty");
	if (number_real_span(text, len, &x) != 0 || !isfinite((float)x))
		return parse_bad(at, where, err, "label '%.*s' is no number", shown, text);
	p->raw[s->dense_count] = x;
	*out = (float)((x - s->label_mean) / s->label_deviation);
	if (!isfinite(*out))
		return parse_bad(at, where, err, "label '%.*s' is too large", shown, text);
	return PARSE_OK;
}

int parse_label(struct parser *p, const char *text, size_t len, float *out, size_t *at,
		size_t where, struct error *err)
{
	if (len == 0 && p->label_optional) {
		*out = NAN;
		return PARSE_OK;
	}
	if (p->schema->labels == SCHEMA_CLASS)
		return parse_class(p, text, len, out, at, where, err);
	if (p->schema->labels == SCHEMA_REAL)
		return parse_real(p, text, len, out, at, where, err);
	enum label_meaning meaning = meaning_of(p->schema, text, len);
	if (p->labels)
		labels_add(p->labels, text, len, meaning, p->row);
	if (meaning == LABEL_BAD)
		return refuse_label(p->schema, text, len, at, where, err);
	*out = meaning == LABEL_ONE ? 1.0f : 0.0f;
	return PARSE_OK;
}

/* ---- csv ---- */

#define NAMES_SHOWN 6 /* of a header */
#define WORD_SHORT 8 /* most bytes of a word for a missing value */

struct header {
	const char *file;
	const struct row_ref *row;
	const char **names; /* terminated copies */
	size_t count;
};

/* How the header seems to be written, if not as FORMAT says: "FORMAT='csv,separator:;'". */
static int guess_separator(const struct header *h, char *out, size_t max)
{
	char text[8], guess = row_separator_guess(h->row->data, h->row->len, h->row->separator);
	if (guess == h->row->separator)
		return 0;
	row_separator_text(guess, text);
	if (guess == '\t' || guess == ',')
		snprintf(out, max, "FORMAT=%s", guess == ',' ? "csv" : "tsv");
	else
		snprintf(out, max, "FORMAT='csv,separator:%s'", text);
	return 1;
}

static int holds_numbers_only(const struct header *h)
{
	double x;
	size_t numbers = 0;
	for (size_t i = 0; i < h->count; i++) {
		size_t len = strlen(h->names[i]);
		if (len > 0 && number_real_span(h->names[i], len, &x) != 0)
			return 0;
		numbers += len > 0;
	}
	return numbers > 0;
}

/* The first names, where none is near. */
static void parse_list_names(const struct header *h, char *out, size_t max)
{
	size_t at = 0;
	for (size_t i = 0; i < h->count && i < NAMES_SHOWN && at < max; i++)
		at += (size_t)snprintf(out + at, max - at, "%s'%.30s'", i > 0 ? ", " : "", h->names[i]);
	if (h->count > NAMES_SHOWN && at < max)
		snprintf(out + at, max - at, " and %zu more", h->count - NAMES_SHOWN);
}

static int missing_column(const struct header *h, const char *name, struct error *err)
{
	char place[ERROR_PLACE_MAX], guess[32], names[300];
	snprintf(place, sizeof place, "%.480s:%llu", h->file, (unsigned long long)h->row->line);
	if (guess_separator(h, guess, sizeof guess))
		return error_set(err, ERROR_DATA, place,
				 "no column '%.80s': the header has %zu column%s; did you mean %s?",
				 name, h->count, h->count == 1 ? "" : "s", guess);
	if (row_syntax_guess(h->row->data, h->row->len).format == ROW_CRITEO)
		return error_set(err, ERROR_DATA, place,
				 "no column '%.80s': the first line looks like a row of FORMAT=criteo, "
				 "which has no header",
				 name);
	if (holds_numbers_only(h))
		return error_set(err, ERROR_DATA, place,
				 "no column '%.80s': the first line holds numbers, but should hold "
				 "the names of the columns",
				 name);
	const char *nearest = schema_nearest(name, h->names, h->count);
	if (nearest)
		return error_set(err, ERROR_DATA, place,
				 "no column '%.80s' in the header; the nearest is '%.80s'", name, nearest);
	parse_list_names(h, names, sizeof names);
	return error_set(err, ERROR_DATA, place, "no column '%.80s' in the header, which has %s", name,
			 names);
}

static int find_column(const struct header *h, const char *name, size_t *at, struct error *err)
{
	size_t found = SIZE_MAX;
	for (size_t i = 0; i < h->count; i++) {
		if (strcmp(h->names[i], name) != 0)
			continue;
		if (found != SIZE_MAX) {
			char place[ERROR_PLACE_MAX];
			parse_place(place, sizeof place, h->file, h->row,
				    rowscan_field_at(h->row, i));
			return error_set(err, ERROR_DATA, place,
					 "column '%.80s' appears twice in the header: rename one",
					 name);
		}
		found = i;
	}
	if (found == SIZE_MAX)
		return missing_column(h, name, err);
	*at = found;
	return 0;
}

static int find_columns(const struct header *h, const struct schema_column *columns, size_t count,
			size_t **at, struct error *err)
{
	*at = malloc((count + 1) * sizeof **at);
	if (!*at)
		return error_set(err, ERROR_OS, h->file, "out of memory");
	for (size_t i = 0; i < count; i++)
		if (find_column(h, columns[i].name, &(*at)[i], err) != 0)
			return -1;
	return 0;
}

static int bind_names(struct columns *c, const struct parser *p, const struct header *h,
		      struct error *err)
{
	const struct schema *s = p->schema;
	c->count = h->count;
	c->label_at = c->weight_at = SIZE_MAX;
	if (find_column(h, s->label, &c->label_at, err) != 0 && !p->label_optional)
		return -1;
	/* Rows to be scored need no weight either. */
	if (s->weight && find_column(h, s->weight, &c->weight_at, err) != 0 && !p->label_optional)
		return -1;
	if (find_columns(h, s->dense, s->dense_count, &c->dense_at, err) != 0 ||
	    find_columns(h, s->sparse, s->sparse_count, &c->sparse_at, err) != 0)
		return -1;
	return 0;
}

/* criteo: the numbers in the names I1..I13 and C1..C26 say where. */
static int bind_criteo(struct columns *c, const struct schema *s, struct error *err)
{
	c->dense_at = malloc((s->dense_count + 1) * sizeof *c->dense_at);
	c->sparse_at = malloc((s->sparse_count + 1) * sizeof *c->sparse_at);
	if (!c->dense_at || !c->sparse_at)
		return error_set(err, ERROR_OS, "columns", "out of memory");
	for (size_t i = 0; i < s->dense_count; i++)
		c->dense_at[i] = (size_t)strtoul(s->dense[i].name + 1, NULL, 10);
	for (size_t i = 0; i < s->sparse_count; i++)
		c->sparse_at[i] =
			SCHEMA_CRITEO_DENSE + (size_t)strtoul(s->sparse[i].name + 1, NULL, 10);
	return 0;
}

int columns_bind(struct columns *c, const struct parser *p, struct rowscan *scan,
		 const struct row_ref *header, const char *file, struct error *err)
{
	*c = (struct columns){0};
	if (p->schema->syntax.format == ROW_CRITEO)
		return bind_criteo(c, p->schema, err);
	if (p->schema->syntax.format == ROW_LIBSVM || p->schema->syntax.format == ROW_BAG)
		return 0;
	if (row_is_image(p->schema->syntax))
		return image_bind(c, p, file, err);
	const struct row_field *field;
	struct header h = {.file = file, .row = header};
	if (rowscan_fields(scan, header, &field, &h.count, err) != 0)
		return -1;
	h.names = calloc(h.count + 1, sizeof *h.names);
	int result = h.names ? 0 : error_set(err, ERROR_OS, file, "out of memory");
	for (size_t i = 0; result == 0 && i < h.count; i++) {
		h.names[i] = strndup(field[i].data, field[i].len);
		if (!h.names[i])
			result = error_set(err, ERROR_OS, file, "out of memory");
	}
	if (result == 0)
		result = bind_names(c, p, &h, err);
	for (size_t i = 0; h.names && i < h.count; i++)
		free((char *)(uintptr_t)h.names[i]);
	free(h.names);
	if (result != 0)
		columns_free(c);
	return result;
}

void columns_free(struct columns *c)
{
	free(c->dense_at);
	free(c->sparse_at);
	free(c->image_label);
	free(c->image_label_path);
	*c = (struct columns){0};
}

/* Advice for a value that is not a number. */
static const char *hint_number(const struct row_field *f)
{
	char point[32];
	double x;
	if (f->len > sizeof point)
		return "";
	for (size_t i = 0; i < f->len; i++)
		point[i] = f->data[i] == ',' ? '.' : f->data[i];
	if (number_real_span(point, f->len, &x) == 0)
		return ": write a point instead of the comma";
	return f->len > WORD_SHORT ? "" : "; MISSING= says which values mean a missing value";
}

static int csv_dense(struct parser *p, const struct columns *c, const struct row_ref *row,
		     const struct row_field *field, float *out, size_t *at, struct error *err)
{
	const struct schema *s = p->schema;
	for (size_t i = 0; i < s->dense_count; i++) {
		const struct row_field *f = &field[c->dense_at[i]];
		double x = NAN;
		out[i] = 0;
		if (f->len > 0) {
			if (number_real_span(f->data, f->len, &x) != 0)
				return parse_bad(at, rowscan_field_at(row, c->dense_at[i]), err,
						 "%.80s: '%.*s' is not a number%s", s->dense[i].name,
						 f->len > 80 ? 80 : (int)f->len, f->data,
						 hint_number(f));
			out[i] = parse_scale(p, i, x);
			if (!isfinite(out[i]))
				return parse_bad(at, rowscan_field_at(row, c->dense_at[i]), err,
						 "%.80s: %g is too large", s->dense[i].name, x);
		}
		p->raw[i] = x;
	}
	return PARSE_OK;
}

static int csv_weight(const struct columns *c, const struct row_ref *row,
		      const struct row_field *field, float *out, size_t *at, struct error *err)
{
	double x;
	*out = 1;
	if (c->weight_at == SIZE_MAX)
		return PARSE_OK;
	const struct row_field *f = &field[c->weight_at];
	if (number_real_span(f->data, f->len, &x) != 0 || x < 0 || !isfinite((float)x))
		return parse_bad(at, rowscan_field_at(row, c->weight_at), err,
				 "weight '%.*s' is not a number from 0 up",
				 f->len > 80 ? 80 : (int)f->len, f->data);
	*out = (float)x;
	return PARSE_OK;
}

/* From here on every missing value is empty, however it was written. */
static void empty_missing(const struct schema *s, const struct columns *c, struct row_field *field,
			  size_t count)
{
	for (size_t i = 0; s->missing_count > 0 && i < count; i++)
		for (size_t k = 0; i != c->label_at && k < s->missing_count; k++)
			if (field[i].len == s->missing_word[k].len &&
			    memcmp(field[i].data, s->missing_word[k].text, field[i].len) == 0) {
				field[i].len = 0;
				break;
			}
}

static int parse_csv(struct parser *p, const struct columns *c, struct rowscan *scan,
		     const struct row_ref *row, struct rows *rows, size_t *at, struct error *err)
{
	const struct schema *s = p->schema;
	const struct row_field *field;
	size_t count, n = rows->count;
	if (rowscan_fields(scan, row, &field, &count, err) != 0 ||
	    rows_reserve(rows, s->sparse_count, err) != 0)
		return -1;
	if (count != c->count)
		return parse_bad(at, count > c->count ? rowscan_field_at(row, c->count) : row->len,
				 err, "%zu field%s instead of the header's %zu", count,
				 count == 1 ? "" : "s", c->count);
	empty_missing(s, c, scan->fields.field, count);
	int result = PARSE_OK;
	rows->label[n] = NAN;
	if (c->label_at != SIZE_MAX)
		result = parse_label(p, field[c->label_at].data, field[c->label_at].len,
				     &rows->label[n], at, 0, err);
	if (result != PARSE_OK) {
		*at = rowscan_field_at(row, c->label_at);
		return result;
	}
	result = csv_weight(c, row, field, &rows->weight[n], at, err);
	if (result == PARSE_OK && s->dense_count > 0)
		result = csv_dense(p, c, row, field, rows->dense + n * s->dense_count, at, err);
	if (result != PARSE_OK)
		return result;
	size_t k = rows->offset[n];
	for (size_t i = 0; i < s->sparse_count; i++) {
		const struct row_field *f = &field[c->sparse_at[i]];
		rows->key[k++] = (uint32_t)(XXH3_64bits_withSeed(f->data, f->len,
								 s->sparse[i].seed) &
					    p->mask);
	}
	rows->offset[n + 1] = k;
	return PARSE_OK;
}

/* ---- any row ---- */

static void fit_add(struct fit_column *f, double x)
{
	double delta = x - f->mean;
	f->count++;
	f->mean += delta / (double)f->count;
	f->squares += delta * (x - f->mean);
}

static void parse_gather(struct parser *p)
{
	size_t dense = p->schema->dense_count;
	for (size_t i = 0; i < dense; i++)
		if (!isnan(p->raw[i]))
			fit_add(&p->fit[i], unscaled(p->schema->scale, p->raw[i]));
	if (p->schema->labels == SCHEMA_REAL)
		fit_add(&p->fit[dense], p->raw[dense]);
}

/* A table with a header that is read as Criteo rows because of its name. */
static void hint_header(const struct row_ref *row, struct error *err)
{
	struct row_syntax guess = row_syntax_guess(row->data, row->len);
	size_t n = strlen(err->text);
	if (row->line == 1 && guess.format == ROW_CSV)
		snprintf(err->text + n, sizeof err->text - n,
			 "; if this is a header, say FORMAT=%s and LABEL=",
			 row_syntax_name(guess));
}

int parse_row(struct parser *p, const struct columns *c, struct rowscan *scan,
	      const struct row_ref *row, uint64_t number, struct rows *rows, size_t *at,
	      struct error *err)
{
	int result = -1;
	p->row = number;
	switch (p->schema->syntax.format) {
	case ROW_LINES:
		break;
	case ROW_BAG:
		result = parse_bag(row, rows, at, err);
		break;
	case ROW_CRITEO:
		result = parse_criteo(p, c, row, rows, at, err);
		if (result == PARSE_BAD && err)
			hint_header(row, err);
		break;
	case ROW_CSV:
		result = parse_csv(p, c, scan, row, rows, at, err);
		break;
	case ROW_LIBSVM:
		result = parse_libsvm(p, row, rows, at, err);
		break;
	case ROW_CIFAR10:
	case ROW_CIFAR100:
	case ROW_IDX:
		result = parse_image(p, c, row, rows, at, err);
		break;
	}
	if (result != PARSE_OK)
		return result;
	if (p->classes && (result = gather_class(p, at, err)) != PARSE_OK)
		return result;
	rows->row[rows->count++] = number;
	if (p->fit)
		parse_gather(p);
	return PARSE_OK;
}
