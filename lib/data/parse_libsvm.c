/*
 * parse_libsvm: `label index:value ...` and libffm's `label field:index:value ...`, blanks between,
 * `qid:N` left out, `#` ends the row.  And a bag of words, `[anything] word:count ...`.
 */
#include "data/parse.h"

#include "base/number.h"

#include <limits.h>
#include <math.h>
#include <string.h>

struct word {
	const char *text;
	size_t len, at;
};

static int libsvm_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the row; 0 at its end. */
static int libsvm_next_word(const struct row_ref *row, size_t *i, struct word *w)
{
	while (*i < row->len && libsvm_is_blank(row->data[*i]))
		(*i)++;
	if (*i == row->len || row->data[*i] == '#')
		return 0;
	size_t from = *i;
	while (*i < row->len && !libsvm_is_blank(row->data[*i]))
		(*i)++;
	*w = (struct word){row->data + from, *i - from, from};
	return 1;
}

static int libsvm_bad_word(const struct word *w, size_t *at, struct error *err, const char *what)
{
	return parse_bad(at, w->at, err, "'%.*s' is not %s", w->len > 80 ? 80 : (int)w->len, w->text,
			 what);
}

/* [field:]index:value */
static int libsvm_take_word(const struct word *w, int64_t *field, uint64_t *index, float *value,
			    size_t *at, struct error *err)
{
	const char *end = w->text + w->len;
	const char *first = memchr(w->text, ':', w->len);
	if (!first)
		return libsvm_bad_word(w, at, err, "index:value");
	const char *second = memchr(first + 1, ':', (size_t)(end - first) - 1);
	const char *from = w->text, *to = first;
	*field = -1;
	if (second) {
		uint64_t f;
		if (number_u64_span(from, (size_t)(to - from), &f) != 0 || f > INT_MAX)
			return libsvm_bad_word(w, at, err, "field:index:value");
		*field = (int64_t)f;
		from = first + 1;
		to = second;
	}
	double x;
	if (number_u64_span(from, (size_t)(to - from), index) != 0 ||
	    number_real_span(to + 1, (size_t)(end - to) - 1, &x) != 0 || !isfinite((float)x))
		return libsvm_bad_word(w, at, err, second ? "field:index:value" : "index:value");
	*value = (float)x;
	return PARSE_OK;
}

#define DIGITS_MAX 15 /* of a number that is exact in a double */

static const char *libsvm_digits(const char *from, const char *end, uint64_t *x)
{
	const char *most = end - from > DIGITS_MAX ? from + DIGITS_MAX : end, *p = from;
	for (unsigned digit; p < most && (digit = (unsigned)*p - '0') <= 9; p++)
		*x = *x * 10 + digit;
	return p;
}

/* The word at `from` if it is written as nearly all are: short numbers without an exponent. Returns its
 * end; NULL: look at it again, more slowly. The numbers are those of libsvm_take_word(). */
static const char *libsvm_take_fast(const char *from, const char *end, int64_t *field,
				    uint64_t *index, float *value)
{
	static const double power[DIGITS_MAX + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
						     1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
	uint64_t first = 0, whole = 0;
	const char *p = libsvm_digits(from, end, &first), *begin = p + 1;
	if (p == from || begin >= end || *p != ':')
		return NULL;
	p = libsvm_digits(begin, end, &whole);
	if (p > begin && p + 1 < end && *p == ':') {
		if (first > INT_MAX)
			return NULL;
		*field = (int64_t)first;
		first = whole;
		whole = 0;
		begin = p + 1;
		p = libsvm_digits(begin, end, &whole);
	}
	int negative = p == begin && *p == '-';
	if (negative)
		p = libsvm_digits(++begin, end, &whole);
	const char *point = p;
	if (p > begin && p < end && *p == '.')
		p = libsvm_digits(p + 1, end, &whole);
	size_t fraction = p > point ? (size_t)(p - point) - 1 : 0;
	if (p == begin || p - begin > DIGITS_MAX || (p < end && !libsvm_is_blank(*p)))
		return NULL;
	double x = (double)whole / power[fraction];
	*index = first;
	*value = (float)(negative ? -x : x);
	return p;
}

int parse_libsvm(struct parser *p, const struct row_ref *row, struct rows *rows, size_t *at,
		 struct error *err)
{
	size_t i = 0, n = rows->count;
	struct word w;
	if (rows_reserve(rows, 0, err) != 0)
		return -1;
	rows->weight[n] = 1;
	rows->label[n] = NAN;
	if (!libsvm_next_word(row, &i, &w))
		return parse_bad(at, 0, err, "no label");
	int labelled = !memchr(w.text, ':', w.len);
	if (!labelled && !p->label_optional)
		return libsvm_bad_word(&w, at, err, "a label");
	if (labelled &&
	    parse_label(p, w.text, w.len, &rows->label[n], at, w.at, err) != PARSE_OK)
		return PARSE_BAD;
	size_t k = rows->offset[n];
	if (!labelled)
		i = 0;
	for (;;) {
		int64_t field = -1;
		uint64_t index = 0;
		float value = 0;
		while (i < row->len && libsvm_is_blank(row->data[i]))
			i++;
		const char *end = libsvm_take_fast(row->data + i, row->data + row->len, &field, &index,
						   &value);
		if (end) {
			i = (size_t)(end - row->data);
		} else {
			field = -1;
			if (!libsvm_next_word(row, &i, &w))
				break;
			if (w.len > 4 && memcmp(w.text, "qid:", 4) == 0)
				continue;
			if (libsvm_take_word(&w, &field, &index, &value, at, err) != PARSE_OK)
				return PARSE_BAD;
		}
		if (k + 1 > rows->key_room || k + 1 > rows->value_room_count)
			if (rows_reserve(rows, k + 1 - rows->offset[n], err) != 0)
				return -1;
		rows->key[k] = schema_index_key(p->schema, field, index);
		rows->value[k++] = value;
	}
	rows->offset[n + 1] = k;
	return PARSE_OK;
}

int parse_bag(const struct row_ref *row, struct rows *rows, size_t *at, struct error *err)
{
	size_t i = 0, n = rows->count;
	struct word w;
	if (rows_reserve(rows, 0, err) != 0)
		return -1;
	rows->weight[n] = 1;
	rows->label[n] = NAN;
	size_t k = rows->offset[n];
	int more = libsvm_next_word(row, &i, &w);
	if (more && !memchr(w.text, ':', w.len)) /* a name, or how many words follow */
		more = libsvm_next_word(row, &i, &w);
	for (; more; more = libsvm_next_word(row, &i, &w)) {
		const char *colon = memchr(w.text, ':', w.len);
		size_t id = colon ? (size_t)(colon - w.text) : 0;
		uint64_t word, count;
		if (!colon || number_u64_span(w.text, id, &word) != 0 || word > UINT32_MAX)
			return libsvm_bad_word(&w, at, err, "word:count, with a word below 2^32");
		if (number_u64_span(colon + 1, w.len - id - 1, &count) != 0 || count < 1 ||
		    count > BAG_COUNT_MAX)
			return libsvm_bad_word(&w, at, err,
					       "word:count, with a count from 1 to 2^24");
		if (k + 1 > rows->key_room || k + 1 > rows->value_room_count)
			if (rows_reserve(rows, k + 1 - rows->offset[n], err) != 0)
				return -1;
		rows->key[k] = (uint32_t)word & BAG_KEY_MAX;
		rows->value[k++] = (float)count;
	}
	rows->offset[n + 1] = k;
	return PARSE_OK;
}
