/*
 * schema_file: the file form of a schema, records that lie in every checkpoint.  Checked whole by
 * the sum in its last line, because a schema with one column less would still score, wrongly.
 *
 *     schema version=1 format=csv scale=log-z hash=xxh3 hash-bits=20 fitted=1 label=income ...
 *     dense name=age mean=3.6 deviation=0.35
 *     sparse name=country
 *     end sum=0123456789abcdef
 */
#include "data/schema.h"

#include "base/fs.h"
#include "base/grow.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SCHEMA_FILE_MAX (16u << 20)

struct text {
	char *data;
	size_t len, room;
};

static int schema_file_append(struct text *t, struct record_out *o, const char *path,
			      struct error *err)
{
	size_t n = record_end(o, NULL);
	if (n == 0)
		return error_set(err, ERROR_CONFIG, path, "a record of the schema is too long");
	if (GROW(t->data, t->room, t->len + n) != 0)
		return error_set(err, ERROR_OS, path, "out of memory");
	memcpy(t->data + t->len, o->data, n);
	t->len += n;
	return 0;
}

/* Words of a bag are keys as they are. */
static const char *schema_hash(const char *format)
{
	return format && strcmp(format, "bag") == 0 ? "none" : "xxh3";
}

/* All but the last line. */
static int append_columns(struct text *t, const struct schema *s, const char *path,
			  struct error *err)
{
	char separator[8];
	const char *format = row_syntax_name(s->syntax);
	row_separator_text(s->syntax.separator, separator);
	if (schema_file_append(
		    t,
		    RECORD("schema", F("version", 1), F("format", format),
			   row_syntax_is_odd(s->syntax) ? F("separator", separator) : F_NONE,
			   row_is_image(s->syntax) ? F("pixels", s->syntax.pixels) : F_NONE,
			   F("scale", schema_scale_name(s->scale)), F("hash", schema_hash(format)),
			   F("hash-bits", s->hash_bits), F("fitted", (uint64_t)s->fitted),
			   s->labels != SCHEMA_BINARY ? F("labels", schema_labels_name(s->labels)) : F_NONE,
			   s->labels == SCHEMA_REAL ? F_REAL("label-mean", s->label_mean) : F_NONE,
			   s->labels == SCHEMA_REAL ? F_REAL("label-deviation", s->label_deviation) : F_NONE,
			   s->label ? F("label", s->label) : F_NONE,
			   s->weight ? F("weight", s->weight) : F_NONE,
			   s->positive ? F("positive", s->positive) : F_NONE,
			   s->negative ? F("negative", s->negative) : F_NONE,
			   s->missing ? F("missing", s->missing) : F_NONE),
		    path, err) != 0)
		return -1;
	/* One line says all of an image's bytes. */
	for (size_t i = 0; i < s->dense_count && !row_is_image(s->syntax); i++)
		if (schema_file_append(t,
				       RECORD("dense", F("name", s->dense[i].name),
					      F_REAL("mean", s->dense[i].mean),
					      F_REAL("deviation", s->dense[i].deviation)),
				       path, err) != 0)
			return -1;
	for (size_t i = 0; i < s->sparse_count; i++)
		if (schema_file_append(t, RECORD("sparse", F("name", s->sparse[i].name)), path,
				       err) != 0)
			return -1;
	for (size_t i = 0; i < s->classes.count; i++)
		if (schema_file_append(t, RECORD("class", F("name", s->classes.value[i].text)), path,
				       err) != 0)
			return -1;
	return 0;
}

int schema_sum(const struct schema *s, uint64_t *sum, struct error *err)
{
	struct text t = {0};
	int result = append_columns(&t, s, "schema", err);
	if (result == 0)
		*sum = XXH3_64bits(t.data, t.len);
	free(t.data);
	return result;
}

int schema_write(const struct schema *s, const char *path, struct error *err)
{
	struct text t = {0};
	char sum[17];
	int result = append_columns(&t, s, path, err);
	snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(t.data, t.len));
	if (result == 0)
		result = schema_file_append(&t, RECORD("end", F("sum", sum)), path, err);
	if (result == 0)
		result = fs_replace_file(path, t.data, t.len, err);
	free(t.data);
	return result;
}

/* The contents of the lines as option values, so that schema_new() checks them all. */
struct reading {
	const char *path;
	uint64_t line;
	int ended;
	uint64_t fitted;
	double label_mean, label_deviation;
	struct schema_options options;
	struct classes classes;
	char *head[9];           /* values of the first record, which options point to */
	struct text dense, sparse; /* comma lists, percent-coded */
	double mean[SCHEMA_COLUMNS_MAX], deviation[SCHEMA_COLUMNS_MAX];
	size_t dense_count, sparse_count;
};

static int schema_file_bad(const struct reading *in, struct error *err)
{
	if (err) {
		int n = snprintf(err->place, sizeof err->place, "%.400s:%llu", in->path,
				 (unsigned long long)in->line);
		(void)n;
		err->code = ERROR_DATA;
	}
	return -1;
}

static int schema_file_take_head(struct reading *in, const struct record *r, struct error *err)
{
	static const char *const keys[] = {"format",   "separator", "scale",	"label",
					   "weight",   "positive",  "negative", "missing",
					   "labels"};
	uint64_t version;
	const char *hash = record_get(r, "hash");
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_u64_opt(r, "hash-bits", 1, SCHEMA_HASH_BITS_MAX, &in->options.hash_bits, err) !=
		    0 ||
	    record_u64_opt(r, "fitted", 0, 1, &in->fitted, err) != 0 ||
	    record_u64_opt(r, "pixels", 0, ROW_PIXELS_MAX, &in->options.pixels, err) != 0 ||
	    record_real_opt(r, "label-mean", -1e308, 1e308, &in->label_mean, err) != 0 ||
	    record_real_opt(r, "label-deviation", 1e-308, 1e308, &in->label_deviation, err) != 0)
		return -1;
	if (hash && strcmp(hash, schema_hash(record_get(r, "format"))) != 0)
		return error_set(err, ERROR_DATA, NULL, "hash '%.40s' is not known", hash);
	const char **target[] = {&in->options.format,	   &in->options.separator,
				 &in->options.dense_scale, &in->options.label,
				 &in->options.weight,	   &in->options.positive,
				 &in->options.negative,    &in->options.missing,
				 &in->options.labels};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *value = record_get(r, keys[i]);
		if (!value)
			continue;
		free(in->head[i]);
		in->head[i] = strdup(value);
		if (!in->head[i])
			return error_set(err, ERROR_OS, NULL, "out of memory");
		*target[i] = in->head[i];
	}
	return 0;
}

/* Commas are encoded, too, so that any name fits into the list. */
static int add_to_list(struct text *list, const char *name, struct error *err)
{
	size_t len = strlen(name);
	if (GROW(list->data, list->room, list->len + 3 * len + 2) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (list->len)
		list->data[list->len++] = ',';
	for (; *name; name++) {
		if (*name == ',' || *name == '%')
			list->len += (size_t)sprintf(list->data + list->len, "%%%02X",
						     (unsigned)(unsigned char)*name);
		else
			list->data[list->len++] = *name;
	}
	list->data[list->len] = '\0';
	return 0;
}

static int take_column(struct reading *in, const struct record *r, int dense, struct error *err)
{
	const char *name;
	size_t *count = dense ? &in->dense_count : &in->sparse_count;
	if (record_text(r, "name", &name, err) != 0)
		return -1;
	if (*count == SCHEMA_COLUMNS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d columns", SCHEMA_COLUMNS_MAX);
	if (dense) {
		/* In a schema that is not fitted, they come from the data. */
		int (*real)(const struct record *, const char *, double, double, double *,
			    struct error *) = in->fitted ? record_real : record_real_opt;
		double *mean = &in->mean[*count], *deviation = &in->deviation[*count];
		*deviation = 1;
		if (real(r, "mean", -1e308, 1e308, mean, err) != 0 ||
		    real(r, "deviation", 0, 1e308, deviation, err) != 0)
			return -1;
		if (*deviation == 0)
			return error_set(err, ERROR_DATA, NULL, "deviation=0");
	}
	(*count)++;
	return add_to_list(dense ? &in->dense : &in->sparse, name, err);
}

static int take_class(struct reading *in, const struct record *r, struct error *err)
{
	const char *name;
	if (record_text(r, "name", &name, err) != 0)
		return -1;
	return classes_add(&in->classes, name, strlen(name), err);
}

static int schema_file_take_end(struct reading *in, const struct record *r, const char *file,
				size_t before, struct error *err)
{
	const char *sum = record_get(r, "sum"); /* no checksum: written by hand */
	char want[17];
	snprintf(want, sizeof want, "%016llx", (unsigned long long)XXH3_64bits(file, before));
	if (sum && strcmp(sum, want) != 0)
		return error_set(err, ERROR_DATA, NULL, "damaged: sum=%.20s, but the lines give %s", sum,
				 want);
	in->ended = 1;
	return 0;
}

static int schema_file_take_line(struct reading *in, const struct record *r, const char *file,
				 size_t before, struct error *err)
{
	if (in->ended)
		return error_set(err, ERROR_DATA, NULL, "lines after the end");
	if ((in->line == 1) != record_is(r, "schema"))
		return error_set(err, ERROR_DATA, NULL, "a schema begins with one 'schema' record");
	if (record_is(r, "schema"))
		return schema_file_take_head(in, r, err);
	if (record_is(r, "dense") || record_is(r, "sparse"))
		return take_column(in, r, record_is(r, "dense"), err);
	if (record_is(r, "class"))
		return take_class(in, r, err);
	if (record_is(r, "end"))
		return schema_file_take_end(in, r, file, before, err);
	return 0; /* formats grow */
}

static int schema_file_take_file(struct reading *in, const char *data, size_t len,
				 struct error *err)
{
	struct record *r = malloc(sizeof *r);
	if (!r)
		return error_set(err, ERROR_OS, in->path, "out of memory");
	struct record_walk walk = record_walk(data, len);
	int result;
	while ((result = record_next(&walk, r, err)) == RECORD_ONE) {
		in->line = walk.number;
		if (schema_file_take_line(in, r, data, (size_t)(walk.line - data), err) != 0)
			break;
	}
	if (result != RECORD_END)
		result = -1;
	in->line = walk.number;
	free(r);
	if (result == 0 && !in->ended) {
		in->line++;
		result = error_set(err, ERROR_DATA, NULL, "ends without its 'end' record");
	}
	return result == 0 ? 0 : schema_file_bad(in, err);
}

/* The gathered options as a schema. */
static int schema_file_finish(struct schema **out, struct reading *in, struct error *err)
{
	struct schema *s;
	in->options.dense = in->dense.data;
	in->options.sparse = in->sparse.data;
	if (schema_new(&s, &in->options, err) != 0) {
		if (err)
			err->code = ERROR_DATA;
		return error_wrap(err, in->path);
	}
	/* criteo without a list means all columns there, which a file never leaves out. */
	int is_image = row_is_image(s->syntax);
	if ((s->dense_count != in->dense_count && !is_image) ||
	    s->sparse_count != in->sparse_count) {
		schema_free(s);
		return error_set(err, ERROR_DATA, in->path, "columns are missing");
	}
	for (size_t i = 0; i < in->dense_count; i++) {
		s->dense[i].mean = in->mean[i];
		s->dense[i].deviation = in->deviation[i];
	}
	s->label_mean = in->label_mean;
	s->label_deviation = in->label_deviation;
	s->fitted = (int)in->fitted;
	s->classes = in->classes;
	in->classes = (struct classes){0};
	*out = s;
	return 0;
}

int schema_read(struct schema **out, const char *path, struct error *err)
{
	char *data;
	size_t len;
	if (fs_read_file(path, SCHEMA_FILE_MAX, &data, &len, err) != 0)
		return -1;
	struct reading *in = calloc(1, sizeof *in);
	if (!in) {
		free(data);
		return error_set(err, ERROR_OS, path, "out of memory");
	}
	in->path = path;
	in->label_deviation = 1;
	int result = schema_file_take_file(in, data, len, err);
	if (result == 0)
		result = schema_file_finish(out, in, err);
	for (size_t i = 0; i < sizeof in->head / sizeof *in->head; i++)
		free(in->head[i]);
	free(in->dense.data);
	free(in->sparse.data);
	classes_free(&in->classes);
	free(in);
	free(data);
	return result;
}
