/*
 * column: see column.h.  Must never look at another column: what is a label is survey.c's business.
 */
#include "survey/column.h"

#include "base/grow.h"
#include "base/reals.h"
#include "data/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define RARE 5              /* fewer rows for each value: the model learns them by heart */
#define RARE_ROWS 100       /* in a smaller file every column of categories would be like that */
#define ROWS_FEW 20         /* too few rows to say that values never repeat */
#define CODES_MAX 10        /* whole numbers of so many kinds are categories */
#define CODE_ROWS 5         /* rows that each value needs */
#define NEARLY_ALL 0.95
#define TEXT_WORDS 3.5      /* with more words on average the column is free text */

/* ---- values ---- */

int column_open(struct column *c, const char *name, size_t len, struct error *err)
{
	*c = (struct column){.name = strndup(name, len), .min = INFINITY, .max = -INFINITY};
	return c->name ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

void column_free(struct column *c)
{
	for (size_t i = 0; i < c->values; i++)
		free(c->value[i].text);
	free(c->name);
	free(c->hash);
	*c = (struct column){0};
}

/* Counts of the first different values. */
static int column_keep(struct column *c, const char *text, size_t len, uint64_t hash, int missing,
		       uint64_t line)
{
	for (size_t i = 0; i < c->values; i++)
		if (c->value[i].hash == hash) {
			c->value[i].count++;
			return 0;
		}
	if (c->values == COLUMN_VALUES_MAX) {
		c->more_values = 1;
		return 0;
	}
	char *copy = strndup(text, len);
	if (!copy)
		return -1;
	c->value[c->values++] = (struct column_value){copy, len, hash, 1, line, missing};
	return 0;
}

static void column_add_number(struct column *c, const struct value *v)
{
	if (c->numbers > 0 && v->number <= c->last)
		c->falls = 1;
	c->last = v->number;
	c->min = fmin(c->min, v->number);
	c->max = fmax(c->max, v->number);
	c->numbers++;
	c->whole += v->whole != 0;
	c->padded += v->padded != 0;
	c->days += v->day != 0;
}

static void add_odd(struct column *c, const char *text, size_t len, uint64_t line)
{
	if (c->odd_line > 0)
		return;
	snprintf(c->odd, sizeof c->odd, "%.*s", len > COLUMN_SHOWN ? COLUMN_SHOWN : (int)len, text);
	error_plain(c->odd);
	c->odd_line = line;
}

int column_add(struct column *c, const char *text, size_t len, uint64_t line, struct error *err)
{
	struct value v;
	uint64_t hash = XXH3_64bits(text, len);
	value_look(text, len, &v);
	c->runs += c->rows == 0 || hash != c->last_hash;
	c->last_hash = hash;
	c->rows++;
	/* A column with more values than we keep needs no counts. */
	if (len > 0 && !c->more_values &&
	    column_keep(c, text, len, hash, v.kind == VALUE_MISSING, line) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (v.kind == VALUE_MISSING) {
		c->missing[v.spelling]++;
		c->absent++;
		return 0;
	}
	if (GROW(c->hash, c->room, c->hashes + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	c->hash[c->hashes++] = hash;
	c->words += v.words;
	c->bytes += len;
	c->commas += v.kind == VALUE_COMMA;
	c->percents += v.kind == VALUE_PERCENT;
	c->dates += v.kind == VALUE_DATE;
	if (v.kind == VALUE_NUMBER)
		column_add_number(c, &v);
	else
		add_odd(c, text, len, line);
	return 0;
}

void column_close(struct column *c)
{
	if (c->hashes > 1)
		u64_sort(c->hash, c->hashes);
	c->distinct = c->hashes > 0;
	for (size_t i = 1; i < c->hashes; i++)
		c->distinct += c->hash[i] != c->hash[i - 1];
	free(c->hash);
	c->hash = NULL;
	c->hashes = c->room = 0;
}

uint64_t column_present(const struct column *c)
{
	return c->rows - c->absent;
}

size_t column_classes(const struct column *c, size_t *index, size_t max)
{
	if (c->more_values)
		return 0;
	for (int all = 0; all < 2; all++) {
		size_t count = 0;
		for (size_t i = 0; i < c->values; i++) {
			if (c->value[i].missing && !all)
				continue;
			if (count == max)
				return 0;
			index[count++] = i;
		}
		if (count >= 2 || all)
			return count;
	}
	return 0;
}

/* ---- what it is good for ---- */

const char *column_count(uint64_t n, char out[COLUMN_COUNT_MAX])
{
	char plain[24];
	int len = snprintf(plain, sizeof plain, "%llu", (unsigned long long)n), at = 0;
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = plain[i];
	}
	out[at] = '\0';
	return out;
}

static int is_one_of(const char *name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(name, words[i]) == 0)
			return 1;
	return 0;
}

/* "customer_id", "customerID", "zip.code": the last word of a name. */
static const char *last_word(const char *name)
{
	const char *word = name;
	for (const char *p = name; *p; p++) {
		if (p[0] == '_' || p[0] == '-' || p[0] == '.' || p[0] == ' ')
			word = p + 1;
		else if (p > name && p[0] >= 'A' && p[0] <= 'Z' && p[-1] >= 'a' && p[-1] <= 'z')
			word = p;
	}
	return word;
}

static int names_code(const char *name)
{
	static const char *const words[] = {"id",     "uid",  "uuid", "guid",    "code", "zip",
					    "zipcode", "postcode", "postal", "phone", "sku"};
	return is_one_of(last_word(name), words, sizeof words / sizeof *words);
}

static int names_time(const char *name)
{
	static const char *const words[] = {"time", "timestamp", "date", "datetime", "ts", "at",
					    "epoch"};
	return is_one_of(last_word(name), words, sizeof words / sizeof *words);
}

static void verdict(struct column_verdict *out, enum column_use use, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void verdict(struct column_verdict *out, enum column_use use, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(out->why, sizeof out->why, fmt, args);
	va_end(args);
	out->use = use;
}

/* Behind the reason: how many are missing, and how that is written. */
static void add_missing(const struct column *c, struct column_verdict *out)
{
	char number[COLUMN_COUNT_MAX];
	size_t at = strlen(out->why);
	if (c->absent == 0)
		return;
	at += (size_t)snprintf(out->why + at, sizeof out->why - at, "; %s missing (",
			       column_count(c->absent, number));
	int first = 1;
	for (size_t i = 0; i < VALUE_SPELLINGS && at < sizeof out->why; i++) {
		if (c->missing[i] == 0)
			continue;
		at += (size_t)snprintf(out->why + at, sizeof out->why - at, "%s%s",
				       first ? "" : ", ", i == 0 ? "empty" : value_spelling(i));
		first = 0;
	}
	if (at < sizeof out->why)
		snprintf(out->why + at, sizeof out->why - at, ")");
}

/* The most frequent values, as far as a line has room for them. */
static void add_values(const struct column *c, struct column_verdict *out)
{
	int shown[COLUMN_VALUES_MAX] = {0};
	for (size_t n = 0; n < 3 && n < c->values && !c->more_values; n++) {
		size_t best = COLUMN_VALUES_MAX, at = strlen(out->why);
		for (size_t i = 0; i < c->values; i++)
			if (!shown[i] && !c->value[i].missing &&
			    (best == COLUMN_VALUES_MAX ||
			     c->value[i].count > c->value[best].count))
				best = i;
		if (best == COLUMN_VALUES_MAX)
			return;
		shown[best] = 1;
		char text[25];
		snprintf(text, sizeof text, "%s", c->value[best].text);
		error_plain(text);
		snprintf(out->why + at, sizeof out->why - at, "%s%s %.0f %%", n == 0 ? ": " : ", ",
			 text, 100.0 * (double)c->value[best].count / (double)c->rows);
	}
}

static void categories(const struct column *c, struct column_verdict *out)
{
	char number[COLUMN_COUNT_MAX];
	verdict(out, COLUMN_SPARSE, "%s value%s", column_count(c->distinct, number),
		c->distinct == 1 ? "" : "s");
	add_values(c, out);
}

/* Different in nearly every row; of few rows only where the name says what it is. */
static int names_rows(const struct column *c)
{
	double present = (double)column_present(c);
	return (double)c->distinct >= NEARLY_ALL * present &&
	       (present >= ROWS_FEW || names_code(c->name));
}

/* Row numbers, keys of a database: they say nothing about new rows. */
static int counts_rows(const struct column *c)
{
	uint64_t present = column_present(c);
	return c->whole == present && c->distinct == present && present >= ROWS_FEW &&
	       (!c->falls || c->max - c->min + 1 == (double)present);
}

static int is_time(const struct column *c)
{
	return c->whole == column_present(c) && names_time(c->name) &&
	       ((c->min > 1e9 && c->max < 4e9) || (c->min > 1e12 && c->max < 4e12));
}

static void show_number(double x, char out[32])
{
	if (fabs(x) < 1e15 && x == floor(x))
		snprintf(out, 32, "%.0f", x);
	else
		snprintf(out, 32, "%.6g", x);
}

static void judge_numbers(const struct column *c, struct column_verdict *out)
{
	uint64_t present = column_present(c);
	char number[COLUMN_COUNT_MAX], min[32], max[32];
	int unique = names_rows(c);
	show_number(c->min, min);
	show_number(c->max, max);
	column_count(c->distinct, number);
	if ((double)c->days >= NEARLY_ALL * (double)present && c->distinct > 1)
		verdict(out, COLUMN_OUT, "dates, %s to %s; a weekday, or days since something, could be "
					 "used", min, max);
	else if (is_time(c))
		verdict(out, COLUMN_OUT, "times, counted from 1970; an hour or a weekday could be used");
	else if (counts_rows(c))
		verdict(out, COLUMN_OUT, "whole numbers, different in every row (%s to %s): they name "
					 "the row", min, max);
	else if (c->whole == present && (names_code(c->name) || c->padded > 0))
		unique ? verdict(out, COLUMN_OUT, "a code, different in nearly every row: it names "
						  "the row")
		       : verdict(out, COLUMN_SPARSE, "%s values, a code by its %s", number,
				 c->padded > 0 ? "leading zeros" : "name");
	else if (c->distinct <= 2 ||
		 (c->whole == present && c->distinct <= CODES_MAX &&
		  c->distinct * CODE_ROWS <= present))
		categories(c, out);
	else
		verdict(out, COLUMN_DENSE, "%s different numbers, %s to %s", number, min, max);
}

static int is_percent(const struct column *c)
{
	return c->percents > 0 &&
	       (double)(c->numbers + c->percents) >= NEARLY_ALL * (double)column_present(c);
}

static void judge_mixed(const struct column *c, struct column_verdict *out)
{
	uint64_t present = column_present(c);
	out->mend = 1;
	if ((double)(c->numbers + c->commas) >= NEARLY_ALL * (double)present && c->commas > 0)
		verdict(out, COLUMN_OUT, "numbers with a comma ('%s' in line %llu): write them "
					 "with a point and without thousands separators",
			c->odd, (unsigned long long)c->odd_line);
	else if (is_percent(c))
		verdict(out, COLUMN_OUT, "numbers with a %% ('%s' in line %llu): write them without it",
			c->odd, (unsigned long long)c->odd_line);
	else
		verdict(out, COLUMN_OUT, "numbers, and other text ('%s' in line %llu): correct it, "
					 "or put the column into DENSE and leave out such rows "
					 "with BAD_ROWS",
			c->odd, (unsigned long long)c->odd_line);
}

static void judge_words(const struct column *c, struct column_verdict *out)
{
	double present = (double)column_present(c);
	if ((double)c->words >= TEXT_WORDS * present && c->distinct >= ROWS_FEW &&
	    2 * (double)c->distinct >= present)
		verdict(out, COLUMN_OUT, "free text, %.0f words on average: no model here uses it",
			(double)c->words / present);
	else if (names_rows(c))
		verdict(out, COLUMN_OUT, "different in nearly every row: it names the row");
	else
		categories(c, out);
	if (out->use != COLUMN_SPARSE || !is_percent(c))
		return;
	size_t at = strlen(out->why);
	snprintf(out->why + at, sizeof out->why - at,
		 "; numbers with a %%, used as categories: write them without the %% to use them "
		 "as numbers");
	out->mend = 1;
}

void column_judge(const struct column *c, struct column_verdict *out)
{
	double present = (double)column_present(c);
	*out = (struct column_verdict){0};
	if (present == 0)
		verdict(out, COLUMN_OUT, "always missing");
	else if (!c->name[0])
		verdict(out, COLUMN_OUT, "it has no name");
	else if (c->twin)
		verdict(out, COLUMN_OUT, "another column has the same name");
	else if (strlen(c->name) > SCHEMA_NAME_MAX)
		verdict(out, COLUMN_OUT, "its name is longer than %d bytes", SCHEMA_NAME_MAX);
	else if (c->distinct == 1 && c->absent == 0)
		verdict(out, COLUMN_OUT, "always the same");
	else if (c->distinct == 1)
		categories(c, out);
	else if ((double)c->dates >= NEARLY_ALL * present)
		verdict(out, COLUMN_OUT, "dates, like %s; a weekday, or days since something, could be used",
			c->odd);
	else if (c->numbers == column_present(c))
		judge_numbers(c, out);
	else if ((double)(c->numbers + c->commas + c->percents) >= 0.5 * present && c->more_values &&
		 !names_code(c->name))
		judge_mixed(c, out);
	else
		judge_words(c, out);
	add_missing(c, out);
	size_t at = strlen(out->why);
	if (c->tells && out->use != COLUMN_OUT)
		snprintf(out->why + at, sizeof out->why - at,
			 "; TELLS THE LABEL of every row: is it known before the label is?");
}

int column_rare(const struct column *c, const struct column_verdict *v)
{
	uint64_t present = column_present(c);
	return v->use == COLUMN_SPARSE && present >= RARE_ROWS && c->distinct * RARE > present;
}
