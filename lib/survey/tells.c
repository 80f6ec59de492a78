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

/* What was seen of one column so far, by label 0 and 1. */
struct told {
	int not;                               /* the column does not tell the label */
	double min[2], max[2];                 /* of numbers */
	unsigned char seen[COLUMN_VALUES_MAX]; /* of values: bit 0, bit 1 */
};

struct pass {
	const struct survey *s;
	size_t label;
	const char *positive;
	struct told *told;
	uint64_t rows[2];
};

static int label_of(const struct pass *p, const struct row_field *f)
{
	double x;
	if (p->positive)
		return f->len == strlen(p->positive) && memcmp(f->data, p->positive, f->len) == 0;
	return number_real_span(f->data, f->len, &x) == 0 && x == 1;
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
	for (size_t i = 0; i < c->values; i++)
		if (c->value[i].len == f->len && memcmp(c->value[i].text, f->data, f->len) == 0) {
			t->seen[i] |= (unsigned char)(1 << label);
			t->not |= t->seen[i] == 3;
			return;
		}
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
	p->rows[label]++;
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
	if (numbers_only(c))
		return t->max[0] < t->min[1] || t->max[1] < t->min[0];
	return !c->more_values;
}

int survey_tells(struct survey *s, const char *path, size_t label, const char *positive,
		 struct error *err)
{
	if (s->syntax.format != ROW_CSV || s->rows < ROWS_MIN)
		return 0;
	struct pass p = {.s = s, .label = label, .positive = positive};
	p.told = calloc(s->count, sizeof *p.told);
	if (!p.told)
		return error_set(err, ERROR_OS, path, "out of memory");
	for (size_t i = 0; i < s->count; i++) {
		p.told[i].not = s->column[i].more_values && !numbers_only(&s->column[i]);
		p.told[i].min[0] = p.told[i].min[1] = INFINITY;
		p.told[i].max[0] = p.told[i].max[1] = -INFINITY;
	}
	int result = tells_read_rows(&p, path, err);
	for (size_t i = 0; result == 0 && i < s->count && p.rows[0] > 0 && p.rows[1] > 0; i++)
		s->column[i].tells = i != label && tells(&p.told[i], &s->column[i]);
	free(p.told);
	return result;
}
