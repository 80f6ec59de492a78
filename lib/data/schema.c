/*
 * schema: see schema.h.  Made from option values, compared, copied; its file form is in
 * schema_file.c.  Must never look at rows: what a row becomes is the business of parse.c.
 */
#include "data/schema.h"

#include "base/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const scale_names[] = {"log-z", "z", "none"};
static const char *const labels_names[] = {"binary", "class", "real"};

const char *schema_labels_name(enum schema_labels labels)
{
	return labels_names[labels];
}

const char *schema_scale_name(enum schema_scale scale)
{
	return scale_names[scale];
}

static int find_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

void schema_free(struct schema *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->dense_count; i++)
		free(s->dense[i].name);
	for (size_t i = 0; i < s->sparse_count; i++)
		free(s->sparse[i].name);
	free(s->dense);
	free(s->sparse);
	free(s->label);
	free(s->weight);
	free(s->positive);
	free(s->negative);
	for (size_t i = 0; i < s->missing_count; i++)
		free(s->missing_word[i].text);
	free(s->missing_word);
	free(s->missing);
	classes_free(&s->classes);
	free(s);
}

static int schema_out_of_memory(struct error *err)
{
	return error_set(err, ERROR_OS, "schema", "out of memory");
}

/* Adds a column; takes a copy of name[len]. */
static int add_column(struct schema_column **columns, size_t *count, const char *name, size_t len,
		      struct error *err)
{
	/* The room doubles at each power of two, so the count itself gives the room. */
	if ((*count & (*count - 1)) == 0) {
		size_t room = *count ? *count * 2 : 1;
		struct schema_column *larger = realloc(*columns, room * sizeof **columns);
		if (!larger)
			return schema_out_of_memory(err);
		*columns = larger;
	}
	struct schema_column *c = &(*columns)[*count];
	*c = (struct schema_column){.deviation = 1, .seed = XXH3_64bits(name, len)};
	c->name = strndup(name, len);
	if (!c->name)
		return schema_out_of_memory(err);
	(*count)++;
	return 0;
}

static int schema_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One name of a list, up to the comma: %XX decoded into out. */
static int schema_take_name(const char **text, char *out, size_t *len, const char *key,
			    struct error *err)
{
	const char *p = *text;
	size_t n = 0;
	for (; *p && *p != ','; p++) {
		char c = *p;
		if (c == '%') {
			int high = p[1] ? schema_hex_value(p[1]) : -1;
			int low = high >= 0 && p[2] ? schema_hex_value(p[2]) : -1;
			if (low < 0 || high * 16 + low == 0)
				return error_set(err, ERROR_CONFIG, key,
						 "'%.80s': '%%' without two hexadecimal digits", p);
			c = (char)(high * 16 + low);
			p += 2;
		}
		if (n == SCHEMA_NAME_MAX)
			return error_set(err, ERROR_CONFIG, key, "name longer than %d bytes",
					 SCHEMA_NAME_MAX);
		out[n++] = c;
	}
	out[n] = '\0';
	*len = n;
	*text = p;
	if (n == 0)
		return error_set(err, ERROR_CONFIG, key, "an empty name in the list");
	return 0;
}

/* There may be thousands of names, so the check for duplicates sorts instead of comparing all
 * pairs. */
static int schema_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int schema_check_twice(const struct schema_column *columns, size_t count, const char *key,
			      struct error *err)
{
	if (count < 2)
		return 0;
	const char **names = malloc(count * sizeof *names);
	if (!names)
		return schema_out_of_memory(err);
	for (size_t i = 0; i < count; i++)
		names[i] = columns[i].name;
	qsort(names, count, sizeof *names, schema_by_name);
	int result = 0;
	for (size_t i = 1; i < count && result == 0; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			result = error_set(err, ERROR_CONFIG, key, "'%.80s' appears twice", names[i]);
	free(names);
	return result;
}

static int schema_parse_list(const char *text, struct schema_column **columns, size_t *count,
			     const char *key, struct error *err)
{
	char name[SCHEMA_NAME_MAX + 1];
	while (text && *text) {
		size_t len;
		if (schema_take_name(&text, name, &len, key, err) != 0)
			return -1;
		if (*count == SCHEMA_COLUMNS_MAX)
			return error_set(err, ERROR_CONFIG, key, "more than %d columns",
					 SCHEMA_COLUMNS_MAX);
		if (add_column(columns, count, name, len, err) != 0)
			return -1;
		if (*text == ',' && *++text == '\0')
			return error_set(err, ERROR_CONFIG, key, "an empty name in the list");
	}
	return schema_check_twice(*columns, *count, key, err);
}

/* criteo: all columns I1.. or C1.., or those of a list, which must be among them. */
static int criteo_columns(const char *text, char letter, unsigned count_max,
			  struct schema_column **columns, size_t *count, const char *key,
			  struct error *err)
{
	char name[SCHEMA_CRITEO_SPARSE][8];
	const char *known[SCHEMA_CRITEO_SPARSE];
	for (unsigned i = 0; i < count_max; i++) {
		int n = snprintf(name[i], sizeof name[i], "%c%u", letter, i + 1);
		known[i] = name[i];
		if (!text && add_column(columns, count, name[i], (size_t)n, err) != 0)
			return -1;
	}
	if (schema_parse_list(text, columns, count, key, err) != 0)
		return -1;
	for (size_t i = 0; i < *count; i++)
		if (find_name(known, count_max, (*columns)[i].name) < 0)
			return error_set(err, ERROR_CONFIG, key,
					 "criteo has no column '%.80s' there (%c1..%c%u)",
					 (*columns)[i].name, letter, letter, count_max);
	return 0;
}

/* p1, p2, ...: a byte of the image each; none of other formats. */
static int image_columns(struct schema *s, struct error *err)
{
	for (uint32_t i = 0; i < s->syntax.pixels; i++) {
		char name[16];
		int len = snprintf(name, sizeof name, "p%u", i + 1);
		if (add_column(&s->dense, &s->dense_count, name, (size_t)len, err) != 0)
			return -1;
	}
	return 0;
}

static int copy_text(char **out, const char *text, const char *key, struct error *err)
{
	if (!text)
		return 0;
	if (strlen(text) > SCHEMA_NAME_MAX)
		return error_set(err, ERROR_CONFIG, key, "longer than %d bytes", SCHEMA_NAME_MAX);
	*out = strdup(text);
	return *out ? 0 : schema_out_of_memory(err);
}

static int schema_refuse(const char *text, const char *key, const char *format, struct error *err)
{
	if (!text || !*text)
		return 0;
	return error_set(err, ERROR_CONFIG, key, "'%.80s': FORMAT=%s has no named columns for it",
			 text, format);
}

static int set_missing(struct schema *s, const char *text, struct error *err)
{
	char word[SCHEMA_NAME_MAX + 1];
	size_t len;
	if (!text || !*text)
		return 0;
	s->missing = strdup(text);
	s->missing_word = calloc(SCHEMA_MISSING_MAX, sizeof *s->missing_word);
	if (!s->missing || !s->missing_word)
		return schema_out_of_memory(err);
	for (const char *p = text; p; p = *p == ',' ? p + 1 : NULL) {
		if (schema_take_name(&p, word, &len, "MISSING", err) != 0)
			return -1;
		if (s->missing_count == SCHEMA_MISSING_MAX)
			return error_set(err, ERROR_CONFIG, "MISSING", "more than %d values",
					 SCHEMA_MISSING_MAX);
		s->missing_word[s->missing_count] = (struct schema_word){strdup(word), len};
		if (!s->missing_word[s->missing_count++].text)
			return schema_out_of_memory(err);
	}
	return 0;
}

static int set_columns(struct schema *s, const struct schema_options *o, struct error *err)
{
	const char *name = row_syntax_name(s->syntax);
	if (s->syntax.format == ROW_CSV) {
		if (!o->label || !*o->label)
			return error_set(err, ERROR_CONFIG, "LABEL",
					 "is needed with FORMAT=%s: the name of the column that "
					 "the model learns",
					 name);
		if (copy_text(&s->label, o->label, "LABEL", err) != 0 ||
		    (o->weight && *o->weight && copy_text(&s->weight, o->weight, "WEIGHT", err) != 0))
			return -1;
		if (set_missing(s, o->missing, err) != 0 ||
		    schema_parse_list(o->dense, &s->dense, &s->dense_count, "DENSE", err) != 0 ||
		    schema_parse_list(o->sparse, &s->sparse, &s->sparse_count, "SPARSE", err) != 0)
			return -1;
		if (s->dense_count + s->sparse_count == 0)
			return error_set(err, ERROR_CONFIG, "DENSE",
					 "FORMAT=%s needs columns in DENSE or SPARSE", name);
		return 0;
	}
	if (schema_refuse(o->label, "LABEL", name, err) != 0 ||
	    schema_refuse(o->weight, "WEIGHT", name, err) != 0 ||
	    schema_refuse(o->missing, "MISSING", name, err) != 0)
		return -1;
	if (s->syntax.format == ROW_BAG && s->positive)
		return error_set(err, ERROR_CONFIG, "POSITIVE", "FORMAT=bag has no labels");
	if (s->syntax.format == ROW_LIBSVM || s->syntax.format == ROW_BAG ||
	    row_is_image(s->syntax)) {
		if (schema_refuse(o->dense, "DENSE", name, err) != 0 ||
		    schema_refuse(o->sparse, "SPARSE", name, err) != 0)
			return -1;
		return image_columns(s, err);
	}
	const char *dense = o->dense && *o->dense ? o->dense : NULL;
	const char *sparse = o->sparse && *o->sparse ? o->sparse : NULL;
	if (criteo_columns(dense, 'I', SCHEMA_CRITEO_DENSE, &s->dense, &s->dense_count, "DENSE",
			   err) != 0 ||
	    criteo_columns(sparse, 'C', SCHEMA_CRITEO_SPARSE, &s->sparse, &s->sparse_count,
			   "SPARSE", err) != 0)
		return -1;
	return 0;
}

static int set_options(struct schema *s, const struct schema_options *o, struct error *err)
{
	if (row_syntax_find(o->format, o->separator, &s->syntax, err) != 0)
		return -1;
	if (s->syntax.format == ROW_LINES)
		return error_set(err, ERROR_CONFIG, "FORMAT", "lines have no columns to train on");
	int scale = o->dense_scale && *o->dense_scale ? find_name(scale_names, 3, o->dense_scale) : 0;
	if (scale < 0)
		return error_set(err, ERROR_CONFIG, "MODEL scale", "'%.80s' is none of log-z, z, none",
				 o->dense_scale);
	if (o->hash_bits > SCHEMA_HASH_BITS_MAX)
		return error_set(err, ERROR_CONFIG, "MODEL hash-bits", "%llu is not in 1..%d",
				 (unsigned long long)o->hash_bits, SCHEMA_HASH_BITS_MAX);
	s->scale = (enum schema_scale)scale;
	s->hash_bits = o->hash_bits ? (unsigned)o->hash_bits : 20;
	if (s->syntax.format == ROW_BAG)
		s->hash_bits = SCHEMA_HASH_BITS_MAX;
	if (row_is_image(s->syntax))
		s->scale = SCHEMA_NONE;
	if (s->syntax.format == ROW_IDX) {
		if (o->pixels < 1 || o->pixels > ROW_PIXELS_MAX)
			return error_set(err, ERROR_CONFIG, "FORMAT",
					 "idx: images of %llu bytes are not known (1 to %d)",
					 (unsigned long long)o->pixels, ROW_PIXELS_MAX);
		s->syntax.pixels = (uint32_t)o->pixels;
	}
	int labels = o->labels ? find_name(labels_names, 3, o->labels) : SCHEMA_BINARY;
	if (labels < 0)
		return error_set(err, ERROR_CONFIG, "labels", "'%.80s' is none of " SCHEMA_LABELS,
				 o->labels);
	s->labels = (enum schema_labels)labels;
	s->label_deviation = 1;
	const char *positive = o->positive && *o->positive ? o->positive : NULL;
	const char *negative = o->negative && *o->negative ? o->negative : NULL;
	if (positive && labels != SCHEMA_BINARY)
		return error_set(err, ERROR_CONFIG, "POSITIVE",
				 "is for models of two labels; labels of this one are %s "
				 "(mlp: MODEL=mlp,labels:binary)",
				 labels == SCHEMA_CLASS ? "classes" : "numbers");
	if (negative && !positive)
		return error_set(err, ERROR_CONFIG, "NEGATIVE", "needs POSITIVE");
	if (negative && strcmp(positive, negative) == 0)
		return error_set(err, ERROR_CONFIG, "NEGATIVE", "'%.80s' is POSITIVE too", negative);
	if (copy_text(&s->positive, positive, "POSITIVE", err) != 0 ||
	    copy_text(&s->negative, negative, "NEGATIVE", err) != 0)
		return -1;
	return set_columns(s, o, err);
}

int schema_new(struct schema **out, const struct schema_options *options, struct error *err)
{
	struct schema *s = calloc(1, sizeof *s);
	if (!s)
		return schema_out_of_memory(err);
	if (set_options(s, options, err) != 0) {
		schema_free(s);
		return -1;
	}
	*out = s;
	return 0;
}

static int differ(struct error *err, const char *what, const char *a, const char *b)
{
	error_set(err, ERROR_DATA, "schema", "%s is '%.80s' in one and '%.80s' in the other", what,
		  a ? a : "", b ? b : "");
	return 0;
}

static int same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int schema_same_columns(const struct schema_column *a, size_t a_count,
			       const struct schema_column *b, size_t b_count, int fitted,
			       const char *what, struct error *err)
{
	if (a_count != b_count) {
		error_set(err, ERROR_DATA, "schema", "%zu %s columns in one and %zu in the other",
			  a_count, what, b_count);
		return 0;
	}
	for (size_t i = 0; i < a_count; i++) {
		if (strcmp(a[i].name, b[i].name) != 0)
			return differ(err, what, a[i].name, b[i].name);
		if (fitted && (a[i].mean != b[i].mean || a[i].deviation != b[i].deviation)) {
			error_set(err, ERROR_DATA, "schema",
				  "mean or deviation of '%.80s' differs", a[i].name);
			return 0;
		}
	}
	return 1;
}

int schema_equal(const struct schema *a, const struct schema *b, struct error *err)
{
	if (!row_syntax_same(a->syntax, b->syntax)) {
		const char *in_a = row_syntax_name(a->syntax), *in_b = row_syntax_name(b->syntax);
		char separator_a[8], separator_b[8];
		if (strcmp(in_a, in_b) != 0)
			return differ(err, "format", in_a, in_b);
		if (a->syntax.pixels != b->syntax.pixels) {
			error_set(err, ERROR_DATA, "schema",
				  "images have %u bytes in one and %u in the other",
				  a->syntax.pixels, b->syntax.pixels);
			return 0;
		}
		row_separator_text(a->syntax.separator, separator_a);
		row_separator_text(b->syntax.separator, separator_b);
		return differ(err, "separator", separator_a, separator_b);
	}
	if (a->scale != b->scale)
		return differ(err, "scale", schema_scale_name(a->scale),
			      schema_scale_name(b->scale));
	if (a->hash_bits != b->hash_bits) {
		error_set(err, ERROR_DATA, "schema", "hash-bits is %u in one and %u in the other",
			  a->hash_bits, b->hash_bits);
		return 0;
	}
	if (a->labels != b->labels)
		return differ(err, "labels", labels_names[a->labels], labels_names[b->labels]);
	if (a->classes.count > 0 && b->classes.count > 0 && !classes_same(&a->classes, &b->classes)) {
		error_set(err, ERROR_DATA, "schema", "the classes differ");
		return 0;
	}
	if (!same_text(a->label, b->label))
		return differ(err, "label", a->label, b->label);
	if (!same_text(a->weight, b->weight))
		return differ(err, "weight", a->weight, b->weight);
	if (!same_text(a->positive, b->positive))
		return differ(err, "positive", a->positive, b->positive);
	if (!same_text(a->negative, b->negative))
		return differ(err, "negative", a->negative, b->negative);
	if (!same_text(a->missing, b->missing))
		return differ(err, "missing", a->missing, b->missing);
	int fitted = a->fitted && b->fitted;
	if (fitted && (a->label_mean != b->label_mean || a->label_deviation != b->label_deviation)) {
		error_set(err, ERROR_DATA, "schema", "mean or deviation of the label differs");
		return 0;
	}
	return schema_same_columns(a->dense, a->dense_count, b->dense, b->dense_count, fitted,
				   "dense", err) &&
	       schema_same_columns(a->sparse, a->sparse_count, b->sparse, b->sparse_count, 0,
				   "sparse", err);
}

int schema_scales(const struct schema *s)
{
	return (s->dense_count > 0 || s->labels == SCHEMA_REAL) && s->scale != SCHEMA_NONE && !s->fitted;
}

int schema_needs_fit(const struct schema *s)
{
	return schema_scales(s) || (s->labels == SCHEMA_CLASS && s->classes.count == 0);
}

size_t schema_fields(const struct schema *s)
{
	return s->sparse_count;
}

uint32_t schema_key(const struct schema *s, const struct schema_column *column, const char *value,
		    size_t len)
{
	uint64_t mask = (UINT64_C(1) << s->hash_bits) - 1;
	return (uint32_t)(XXH3_64bits_withSeed(value, len, column->seed) & mask);
}

uint32_t schema_index_key(const struct schema *s, int64_t field, uint64_t index)
{
	unsigned char bytes[8];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(index >> (8 * i));
	uint64_t seed = field < 0 ? 0 : 1 + (uint64_t)field;
	uint64_t mask = (UINT64_C(1) << s->hash_bits) - 1;
	return (uint32_t)(XXH3_64bits_withSeed(bytes, sizeof bytes, seed) & mask);
}

const char *schema_nearest(const char *name, const char *const *names, size_t count)
{
	struct near near = {0};
	for (size_t i = 0; i < count; i++)
		near_look(&near, name, names[i]);
	return near_enough(&near, name) ? near.word : NULL;
}
