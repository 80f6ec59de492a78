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
	int more = labelled ? libsvm_next_word(row, &i, &w) : 1;
	for (; more; more = libsvm_next_word(row, &i, &w)) {
		int64_t field = -1;
		uint64_t index = 0;
		float value = 0;
		if (w.len > 4 && memcmp(w.text, "qid:", 4) == 0)
			continue;
		if (libsvm_take_word(&w, &field, &index, &value, at, err) != PARSE_OK)
			return PARSE_BAD;
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
