/*
 * tells: columns that tell the label exactly.  See survey_tells() in survey.h.
 */
#include "survey/survey.h"

#include "base/number.h"
#include "data/rowscan.h"
#include "data/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MIN 50 /* fewer may agree by chance */

/* What was seen of one column so far. Labels are 0 and 1, else indexes of the label's values. */
struct told {
	int not;                                               /* the column does not tell the label */
	double min[COLUMN_VALUES_MAX], max[COLUMN_VALUES_MAX]; /* of numbers, by label */
	int label[COLUMN_VALUES_MAX];                          /* of values; -1: none yet */
};

struct pass {
	const struct survey *s;
	size_t label;
	const char *positive;
	struct told *told;
	int last, more; /* the label of the row before, -1: none; whether another one was seen */
};

static int value_of(const struct column *c, const struct row_field *f)
{
	for (size_t i = 0; i < c->values; i++)
		if (c->value[i].len == f->len && memcmp(c->value[i].text, f->data, f->len) == 0)
			return (int)i;
	return -1;
}

static int label_of(const struct pass *p, const struct row_field *f)
{
	if (p->positive)
		return f->len == strlen(p->positive) && memcmp(f->data, p->positive, f->len) == 0;
	return value_of(&p->s->column[p->label], f);
}

static int numbers_only(const struct column *c)
{
	return c->numbers > 0 && c->numbers == column_present(c);
}

static void tells_look(struct told *t, const struct column *c, const struct row_field *f, int label)
{
	double x;
	if (f->len == 0)
		return;
	if (numbers_only(c)) {
		if (number_real_span(f->data, f->len, &x) == 0) {
			t->min[label] = fmin(t->min[label], x);
			t->max[label] = fmax(t->max[label], x);
		}
		return;
	}
	int value = value_of(c, f);
	if (value < 0)
		return;
	t->not = t->label[value] >= 0 && t->label[value] != label;
	t->label[value] = label;
}

static int tells_take_row(struct pass *p, struct rowscan *scan, const struct row_ref *row,
			  struct error *err)
{
	const struct row_field *field;
	size_t count;
	if (rowscan_fields(scan, row, &field, &count, err) != 0)
		return -1;
	if (count != p->s->count)
		return 0;
	int label = label_of(p, &field[p->label]);
	if (label < 0)
		return 0;
	p->more |= p->last >= 0 && p->last != label;
	p->last = label;
	for (size_t i = 0; i < count; i++)
		if (!p->told[i].not)
			tells_look(&p->told[i], &p->s->column[i], &field[i], label);
	return 0;
}

/* All rows behind the header that survey_file() looked at. */
static int tells_read_rows(struct pass *p, const char *path, struct error *err)
{
	struct source *source;
	struct rowscan scan = {0};
	struct row_ref row;
	int got = ROWSCAN_ROW, result = 0;
	if (source_open(&source, path, err) != 0)
		return -1;
	if (rowscan_init(&scan, p->s->syntax, err) != 0 ||
	    rowscan_start(&scan, source, 1, err) != 0 || rowscan_next(&scan, &row, 0, err) < 0)
		result = -1;
	for (uint64_t n = 0; result == 0 && n < p->s->rows; n++) {
		got = rowscan_next(&scan, &row, 0, err);
		if (got == ROWSCAN_END)
			break;
		result = got < 0 ? -1 : tells_take_row(p, &scan, &row, err);
	}
	rowscan_free(&scan);
	source_close(source);
	return result;
}

/* A column with few missing values, of which each was seen with one label. */
static int tells(const struct told *t, const struct column *c)
{
	if (t->not || c->distinct < 2 || 2 * c->absent > c->rows)
		return 0;
	if (!numbers_only(c))
		return !c->more_values;
	for (size_t i = 1; i < COLUMN_VALUES_MAX; i++)
		for (size_t j = 0; j < i; j++)
			if (t->max[i] >= t->min[j] && t->max[j] >= t->min[i])
				return 0;
	return 1;
}

int survey_tells(struct survey *s, const char *path, size_t label, const char *positive,
		 struct error *err)
{
	if (s->syntax.format != ROW_CSV || s->rows < ROWS_MIN ||
	    (!positive && s->column[label].more_values))
		return 0;
	struct pass p = {.s = s, .label = label, .positive = positive, .last = -1};
	p.told = calloc(s->count, sizeof *p.told);
	if (!p.told)
		return error_set(err, ERROR_OS, path, "out of memory");
	for (size_t i = 0; i < s->count; i++) {
		p.told[i].not = s->column[i].more_values && !numbers_only(&s->column[i]);
		for (size_t k = 0; k < COLUMN_VALUES_MAX; k++) {
			p.told[i].min[k] = INFINITY;
			p.told[i].max[k] = -INFINITY;
			p.told[i].label[k] = -1;
		}
	}
	int result = tells_read_rows(&p, path, err);
	for (size_t i = 0; result == 0 && i < s->count && p.more; i++)
		s->column[i].tells = i != label && tells(&p.told[i], &s->column[i]);
	free(p.told);
	return result;
}
