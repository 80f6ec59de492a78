/*
 * parse_criteo: label, 13 integers, 26 categories, tabs between, as fast as we can: a worker that
 * trains a million rows a second spends most of its time here.  The tabs of a row are found 64 bytes
 * at a time; integers are looked up already scaled; hashing is inlined for the usual 8 bytes.
 *
 * Public copies of the data have lost the tabs of empty fields at a line's end.  C23 is never empty
 * there, so a line may end behind it; one that ends before is torn.
 */
#include "data/parse.h"

#include "base/number.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	FIELDS = 1 + SCHEMA_CRITEO_DENSE + SCHEMA_CRITEO_SPARSE,
	FIELDS_MIN = FIELDS - 3, /* up to C23 */
	TABS = FIELDS - 1,
	HASH_MIN = 8 /* a category has as many bytes; no integer has */
};

/* Offsets of the first TABS + 1 tabs at most; *count of them. Reads up to 63 bytes behind the row,
 * which ROWSCAN_SLACK allows. */
static size_t find_tabs(const char *data, size_t len, uint32_t tab[TABS + 64])
{
	size_t n = 0;
#if defined(__AVX2__)
	const __m256i want = _mm256_set1_epi8('\t');
	for (size_t i = 0; i < len && n <= TABS; i += 64) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(data + i));
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(data + i + 32));
		uint64_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, want));
		uint64_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, want));
		uint64_t mask = low | high << 32;
		if (len - i < 64)
			mask &= (UINT64_C(1) << (len - i)) - 1;
		while (mask) {
			tab[n++] = (uint32_t)(i + (size_t)__builtin_ctzll(mask));
			mask &= mask - 1;
		}
	}
#else
	for (size_t i = 0; i < len && n <= TABS; i++) {
		tab[n] = (uint32_t)i;
		n += data[i] == '\t';
	}
#endif
	return n;
}

/* A whole number of at most 18 digits, the only kind in the format; any other number is accepted,
 * too, but slowly. */
static int take_number(const char *text, size_t len, int *whole, int64_t *integer, double *real)
{
	size_t i = text[0] == '-';
	int64_t x = 0;
	if (len - i - 1 < 18) {
		size_t first = i;
		unsigned digit;
		while (i < len && (digit = (unsigned)(unsigned char)text[i] - '0') <= 9) {
			x = x * 10 + (int64_t)digit;
			i++;
		}
		if (i == len && i > first) {
			*whole = 1;
			*integer = first ? -x : x;
			return 0;
		}
	}
	*whole = 0;
	return number_real_span(text, len, real);
}

static int criteo_take_dense(struct parser *p, size_t column, const char *text, size_t len,
			     float *out)
{
	int whole;
	int64_t integer;
	double real;
	*out = 0;
	p->raw[column] = NAN;
	if (len == 0)
		return 0;
	if (take_number(text, len, &whole, &integer, &real) != 0)
		return -1;
	if (whole && (uint64_t)integer < PARSE_TABLE && !p->fit) {
		*out = p->table[column * PARSE_TABLE + (size_t)integer];
		return 0;
	}
	p->raw[column] = whole ? (double)integer : real;
	*out = parse_scale(p, column, p->raw[column]);
	return isfinite(*out) ? 0 : -1;
}

/* Turns the places of the tabs behind bound[0] into beginnings of fields; fields whose tabs are
 * lost are empty, behind the row's end. */
static void mark_fields(uint32_t bound[1 + TABS + 64 + 1], size_t tabs, size_t len)
{
	bound[0] = 0;
	for (size_t i = 1; i <= tabs; i++)
		bound[i]++;
	for (size_t i = tabs + 1; i <= FIELDS; i++)
		bound[i] = (uint32_t)(len + i - tabs);
}

int parse_criteo(struct parser *p, const struct columns *c, const struct row_ref *row,
		 struct rows *rows, size_t *at, struct error *err)
{
	const struct schema *s = p->schema;
	const char *data = row->data;
	/* bound[i] is where field i begins, bound[i + 1] - 1 where it ends. With 64 to spare, as
	 * a block of tabs is written before they are counted. */
	uint32_t bound[1 + TABS + 64 + 1];
	size_t n = rows->count;
	if (rows_reserve(rows, s->sparse_count, err) != 0)
		return -1;
	size_t tabs = find_tabs(data, row->len, bound + 1);
	int labelled = 1;
	mark_fields(bound, tabs, row->len);
	if (p->label_optional && tabs < TABS && tabs + 2 >= FIELDS_MIN)
		labelled = bound[SCHEMA_CRITEO_DENSE + 1] - bound[SCHEMA_CRITEO_DENSE] <= HASH_MIN;
	if (tabs > TABS || tabs + 1 < (size_t)(FIELDS_MIN - !labelled))
		return parse_bad(at, tabs > TABS ? bound[TABS + 1] : row->len, err,
				 "%s%zu fields instead of %d", tabs > TABS ? "at least " : "",
				 tabs + 1, FIELDS);
	/* Without a label, column 1 is the first field. */
	size_t shift = labelled ? 0 : 1;

	rows->weight[n] = 1;
	rows->label[n] = NAN;
	if (labelled) {
		size_t len = bound[1] - 1;
		if (len == 1 && (data[0] == '0' || data[0] == '1') && !s->positive && !p->labels &&
		    s->labels == SCHEMA_BINARY)
			rows->label[n] = (float)(data[0] - '0');
		else if (parse_label(p, data, len, &rows->label[n], at, 0, err) != PARSE_OK)
			return PARSE_BAD;
	}
	float *dense = rows->dense + n * s->dense_count;
	for (size_t i = 0; i < s->dense_count; i++) {
		size_t f = c->dense_at[i] - shift, from = bound[f], len = bound[f + 1] - 1 - from;
		if (criteo_take_dense(p, i, data + from, len, &dense[i]) != 0)
			return parse_bad(at, from, err, "%s: '%.*s' is not a number",
					 s->dense[i].name, len > 80 ? 80 : (int)len, data + from);
	}
	uint32_t *key = rows->key + rows->offset[n];
	for (size_t i = 0; i < s->sparse_count; i++) {
		size_t f = c->sparse_at[i] - shift, from = bound[f], len = bound[f + 1] - 1 - from;
		key[i] = (uint32_t)(XXH3_64bits_withSeed(data + from, len, s->sparse[i].seed) &
				    p->mask);
	}
	rows->offset[n + 1] = rows->offset[n] + s->sparse_count;
	return PARSE_OK;
}
