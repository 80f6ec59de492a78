/*
 * import: see import.h.  The file may be anything: every length and offset is checked before it is
 * used.  It is mapped and read once, part by part.
 */
#include "ckpt/import.h"

#include "base/fs.h"
#include "base/number.h"
#include "base/option.h"
#include "base/reals.h"
#include "ckpt/manifest.h"
#include "ckpt/reshard.h"
#include "record/json.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_PREFIX_BYTES 8
#define HEADER_BYTES_MAX (100u << 20) /* the format's own bound */
#define NAME_BYTES (LAYOUT_NAME_MAX + 8)

enum type { F16, BF16, F32, F64, I32, I64, TYPES };

static const struct {
	const char *name;
	size_t bytes;
} types[TYPES] = {{"F16", 2}, {"BF16", 2}, {"F32", 4}, {"F64", 8}, {"I32", 4}, {"I64", 8}};

struct tensor {
	enum type type;
	uint64_t rows, count; /* rows: first dimension; count: elements */
	const uint8_t *data;
};

struct import {
	const struct ckpt_import *how;
	struct team *team;
	uint8_t *map;
	size_t map_bytes;
	const uint8_t *data;
	uint64_t data_bytes;
	json_t *header;
	struct layout layout;
	struct tensor tensor[LAYOUT_TENSORS_MAX];
	struct tensor keys, values; /* of the table; keys.data NULL: row k is for key k */
	uint64_t rows;
	uint64_t *order; /* place of the key << 32 | number of the row, ascending */
	struct ckpt_manifest manifest;
	float *buffer; /* PLANES_VALUES_MAX */
	uint32_t *key;
};

static int import_no_memory(const struct import *x, struct error *err)
{
	return error_set(err, ERROR_OS, x->how->file, "out of memory");
}

/* ---- the file ---- */

static int read_header(struct import *x, struct error *err)
{
	const char *file = x->how->file;
	json_error_t why;
	uint64_t len = 0;
	if (x->map_bytes >= HEADER_PREFIX_BYTES)
		memcpy(&len, x->map, sizeof len); /* little-endian, as is the machine */
	if (x->map_bytes < HEADER_PREFIX_BYTES || len > HEADER_BYTES_MAX ||
	    len > x->map_bytes - HEADER_PREFIX_BYTES)
		return error_set(err, ERROR_DATA, file, "is no safetensors file, or is cut off");
	x->header = json_read((const char *)x->map + HEADER_PREFIX_BYTES, (size_t)len, &why);
	if (!json_is_object(x->header))
		return error_set(err, ERROR_DATA, file, "its header is no JSON object%s%s",
				 x->header ? "" : ": ", x->header ? "" : why.text);
	x->data = x->map + HEADER_PREFIX_BYTES + len;
	x->data_bytes = x->map_bytes - HEADER_PREFIX_BYTES - len;
	return 0;
}

static int import_open_file(struct import *x, struct error *err)
{
	const char *file = x->how->file;
	struct stat st;
	/* A pipe is refused, not waited for. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, 0, file, "can't be read");
	int result = 0;
	if (fstat(fd, &st) != 0)
		result = error_errno(err, 0, file, "can't be looked at");
	else if (!S_ISREG(st.st_mode) || st.st_size == 0)
		result = error_set(err, ERROR_DATA, file, "is no safetensors file");
	if (result == 0) {
		void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED)
			result = error_errno(err, ERROR_IO, file, "mmap");
		else {
			x->map = map;
			x->map_bytes = (size_t)st.st_size;
		}
	}
	close(fd);
	return result == 0 ? read_header(x, err) : -1;
}

static const char *metadata(const struct import *x, const char *name)
{
	return json_string_value(json_object_get(json_object_get(x->header, "__metadata__"), name));
}

static int import_wrong(const struct import *x, const char *name, const char *what,
			struct error *err)
{
	return error_set(err, ERROR_DATA, x->how->file, "tensor '%.80s': %s", name, what);
}

static int find_type(const char *name, enum type *out)
{
	for (int i = 0; name && i < TYPES; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = (enum type)i;
			return 0;
		}
	return -1;
}

/* Reads the number of elements and the first dimension; a shape without dimensions has one
 * element. */
static int read_shape(const json_t *shape, struct tensor *t)
{
	size_t n = json_array_size(shape);
	if (!json_is_array(shape))
		return -1;
	t->count = 1;
	for (size_t i = 0; i < n; i++) {
		const json_t *d = json_array_get(shape, i);
		if (!json_is_integer(d) || json_integer_value(d) < 0 ||
		    __builtin_mul_overflow(t->count, (uint64_t)json_integer_value(d), &t->count))
			return -1;
	}
	t->rows = n ? (uint64_t)json_integer_value(json_array_get(shape, 0)) : 1;
	return t->count <= INT64_MAX / 16 ? 0 : -1;
}

/* Finds a tensor. 1: there is none of this name. */
static int import_find(const struct import *x, const char *name, struct tensor *t,
		       struct error *err)
{
	const json_t *j = json_object_get(x->header, name);
	const json_t *at = json_object_get(j, "data_offsets");
	if (!j)
		return 1;
	if (find_type(json_string_value(json_object_get(j, "dtype")), &t->type) != 0)
		return import_wrong(x, name,
				    "its dtype is none of F32, F64, F16, BF16, I64 and I32", err);
	if (read_shape(json_object_get(j, "shape"), t) != 0)
		return import_wrong(x, name, "its shape is no list of sizes", err);
	const json_t *from = json_array_get(at, 0), *to = json_array_get(at, 1);
	if (json_array_size(at) != 2 || !json_is_integer(from) || !json_is_integer(to))
		return import_wrong(x, name, "its data_offsets are no two numbers", err);
	json_int_t begin = json_integer_value(from), end = json_integer_value(to);
	if (begin < 0 || end < begin || (uint64_t)end > x->data_bytes ||
	    (uint64_t)(end - begin) != t->count * types[t->type].bytes)
		return import_wrong(x, name, "its data_offsets fit neither its shape nor the file",
				    err);
	t->data = x->data + begin;
	return 0;
}

/* ---- the tensors together ---- */

struct span {
	uint64_t begin, end;
	const char *name;
};

static int compare_spans(const void *left, const void *right)
{
	const struct span *a = left, *b = right;
	if (a->begin != b->begin)
		return (a->begin > b->begin) - (a->begin < b->begin);
	return (a->end > b->end) - (a->end < b->end);
}

static int import_read_spans(const struct import *x, struct span *span, size_t *count,
			     struct error *err)
{
	const char *name;
	json_t *value;
	json_object_foreach(x->header, name, value)
	{
		const json_t *at = json_object_get(value, "data_offsets");
		const json_t *from = json_array_get(at, 0), *to = json_array_get(at, 1);
		json_int_t begin = json_integer_value(from), end = json_integer_value(to);
		if (strcmp(name, "__metadata__") == 0)
			continue;
		if (json_array_size(at) != 2 || !json_is_integer(from) || !json_is_integer(to))
			return import_wrong(x, name, "its data_offsets are no two numbers", err);
		if (begin < 0 || end < begin || (uint64_t)end > x->data_bytes)
			return import_wrong(x, name, "its data_offsets do not fit the file", err);
		span[(*count)++] = (struct span){(uint64_t)begin, (uint64_t)end, name};
	}
	return 0;
}

/* In this format tensors have no gaps between them and do not overlap. A header that has either
 * belongs to other data. */
static int check_spans(const struct import *x, struct error *err)
{
	struct span *span = malloc((json_object_size(x->header) + 1) * sizeof *span);
	size_t count = 0;
	uint64_t end = 0;
	int result = span ? import_read_spans(x, span, &count, err) : import_no_memory(x, err);
	if (result == 0 && count)
		qsort(span, count, sizeof *span, compare_spans);
	for (size_t i = 0; result == 0 && i < count; i++) {
		if (span[i].begin != end)
			result = import_wrong(x, span[i].name,
					      span[i].begin < end
						      ? "its bytes belong to another tensor, "
							"too"
						      : "the bytes before it belong to no "
							"tensor",
					      err);
		end = span[i].end;
	}
	if (result == 0 && end != x->data_bytes)
		result = error_set(err, ERROR_DATA, x->how->file,
				   "its last %" PRIu64 " bytes are no tensor's", x->data_bytes - end);
	free(span);
	return result;
}

/* ---- numbers ---- */

static float from_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, bits;
	uint32_t mantissa = h & 1023;
	float value;
	if (exponent == 31) {
		bits = sign | 0x7f800000u | mantissa << 13;
	} else if (exponent == 0) { /* subnormal: a multiple of 2^-24 */
		value = (float)mantissa * 0x1p-24f;
		return sign ? -value : value;
	} else {
		bits = sign | (exponent + 112) << 23 | mantissa << 13;
	}
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Elements begin .. begin+count-1 of t, as floats. */
static void import_load(const struct tensor *t, uint64_t begin, size_t count, float *out)
{
	const uint8_t *at = t->data + begin * types[t->type].bytes;
	if (t->type == F32) {
		memcpy(out, at, count * sizeof *out);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		uint32_t bits;
		double wide;
		switch (t->type) {
		case F16:
			memcpy(&half, at + 2 * i, 2);
			out[i] = from_half(half);
			break;
		case BF16:
			memcpy(&half, at + 2 * i, 2);
			bits = (uint32_t)half << 16;
			memcpy(&out[i], &bits, 4);
			break;
		default:
			memcpy(&wide, at + 8 * i, 8);
			out[i] = (float)wide;
		}
	}
}

/* The same, but a value that is not finite is an error. */
static int load_finite(const struct import *x, const struct tensor *t, const char *name,
		       uint64_t begin, size_t count, float *out, struct error *err)
{
	import_load(t, begin, count, out);
	size_t bad = stream_not_finite(out, count);
	if (bad == count)
		return 0;
	return error_set(err, ERROR_DATA, x->how->file, "tensor '%.80s': value %" PRIu64
			 " is not finite", name, begin + bad);
}

/* ---- what the layout wants ---- */

static int find_floats(const struct import *x, const char *name, uint64_t rows, uint64_t cols,
		       struct tensor *t, struct error *err)
{
	char shape[80];
	int found = import_find(x, name, t, err);
	if (found < 0)
		return -1;
	if (found > 0)
		return error_set(err, ERROR_DATA, x->how->file,
				 "has no tensor '%.80s', which the layout names", name);
	if (t->type == I32 || t->type == I64)
		return import_wrong(x, name, "its dtype is none of F32, F64, F16 and BF16", err);
	snprintf(shape, sizeof shape, "its shape is not the layout's [%" PRIu64 ", %" PRIu64 "]", rows,
		 cols);
	return t->count == rows * cols && t->rows == rows ? 0 : import_wrong(x, name, shape, err);
}

/* Finds NAME.keys and NAME.values, or NAME. */
static int find_table(struct import *x, struct error *err)
{
	const struct layout_table *t = &x->layout.table;
	char keys[NAME_BYTES], values[NAME_BYTES];
	snprintf(keys, sizeof keys, "%s.keys", t->name);
	snprintf(values, sizeof values, "%s.values", t->name);
	int found = import_find(x, keys, &x->keys, err);
	if (found < 0)
		return -1;
	if (found == 0) {
		x->rows = x->keys.count;
		if (x->keys.type != I64 && x->keys.type != I32)
			return import_wrong(x, keys, "its dtype is neither I64 nor I32", err);
		return find_floats(x, values, x->rows, t->width, &x->values, err);
	}
	found = import_find(x, t->name, &x->values, err);
	if (found > 0)
		return error_set(err, ERROR_DATA, x->how->file,
				 "holds neither '%s' and '%s' nor '%s', a table of the layout", keys,
				 values, t->name);
	x->rows = found == 0 ? x->values.rows : 0;
	return found < 0 ? -1 : find_floats(x, t->name, x->rows, t->width, &x->values, err);
}

static int64_t import_key_of(const struct import *x, uint64_t row)
{
	int32_t narrow;
	int64_t wide;
	if (!x->keys.data)
		return (int64_t)row;
	if (x->keys.type == I32) {
		memcpy(&narrow, x->keys.data + 4 * row, 4);
		return narrow;
	}
	memcpy(&wide, x->keys.data + 8 * row, 8);
	return wide;
}

/* Whether a row of a table that is one tensor has its initial values: it can't be told from one
 * that does not exist. */
static int is_untouched(const struct import *x, uint32_t key, uint64_t row, float *values,
			float *initial)
{
	size_t width = x->layout.table.width;
	if (x->layout.table.export != LAYOUT_EXPORT_DENSE || x->keys.data)
		return 0;
	import_load(&x->values, row * width, width, values);
	layout_init_row(&x->layout, key, initial);
	return memcmp(values, initial, width * sizeof *values) == 0;
}

/* Sorts the rows by their places; a key that comes twice is an error. */
static int import_order_rows(struct import *x, struct error *err)
{
	const struct layout_table *t = &x->layout.table;
	uint64_t most = t->rows ? t->rows : UINT64_C(1) << 32, n = 0;
	float *row = malloc((size_t)t->width * 2 * sizeof *row);
	if (x->rows >= UINT32_MAX) {
		free(row);
		return error_set(err, ERROR_DATA, x->how->file, "a table of %" PRIu64 " rows is too long",
				 x->rows);
	}
	x->order = malloc((x->rows + 1) * sizeof *x->order);
	int result = row && x->order ? 0 : import_no_memory(x, err);
	for (uint64_t i = 0; result == 0 && i < x->rows; i++) {
		int64_t key = import_key_of(x, i);
		if (key < 0 || (uint64_t)key >= most)
			result = error_set(err, ERROR_DATA, x->how->file,
					   "key %" PRId64 " of table '%s' is not below %" PRIu64, key,
					   t->name, most);
		else if (!is_untouched(x, (uint32_t)key, i, row, row + t->width))
			x->order[n++] = (uint64_t)map_place((uint32_t)key) << 32 | i;
	}
	free(row);
	if (result != 0)
		return -1;
	u64_sort(x->order, (size_t)n);
	x->rows = n;
	for (uint64_t i = 1; i < n; i++)
		if (x->order[i] >> 32 == x->order[i - 1] >> 32)
			return error_set(err, ERROR_DATA, x->how->file,
					 "key %" PRId64 " of table '%s' is there twice",
					 import_key_of(x, (uint32_t)x->order[i]), t->name);
	return 0;
}

static int import_is_wanted(const struct import *x, const char *name)
{
	const struct layout_table *t = &x->layout.table;
	char keys[NAME_BYTES], values[NAME_BYTES];
	snprintf(keys, sizeof keys, "%s.keys", t->name);
	snprintf(values, sizeof values, "%s.values", t->name);
	return strcmp(name, "__metadata__") == 0 || layout_tensor(&x->layout, name) ||
	       (x->layout.has_table && (x->keys.data ? strcmp(name, keys) == 0 || strcmp(name, values) == 0
						     : strcmp(name, t->name) == 0));
}

static int import_find_all(struct import *x, struct error *err)
{
	const char *name;
	json_t *value;
	for (size_t i = 0; i < x->layout.count; i++) {
		const struct layout_tensor *t = &x->layout.tensor[i];
		if (find_floats(x, t->name, t->rows, t->cols, &x->tensor[i], err) != 0)
			return -1;
	}
	if ((x->layout.has_table && find_table(x, err) != 0) || check_spans(x, err) != 0 ||
	    (x->layout.has_table && import_order_rows(x, err) != 0))
		return -1;
	json_object_foreach(x->header, name, value)
		if (x->how->left_out && !import_is_wanted(x, name))
			x->how->left_out(name, x->how->arg);
	return 0;
}

/* ---- the checkpoint ---- */

static int write_dense(struct import *x, struct stream_writer *w, uint64_t begin, uint64_t end,
		       struct error *err)
{
	for (size_t i = 0; i < x->layout.count; i++) {
		const struct layout_tensor *t = &x->layout.tensor[i];
		uint64_t from = begin > t->begin ? begin : t->begin;
		uint64_t to = t->begin + t->rows * t->cols;
		to = to < end ? to : end;
		while (from < to) {
			size_t n = to - from < PLANES_VALUES_MAX ? (size_t)(to - from)
								 : PLANES_VALUES_MAX;
			if (load_finite(x, &x->tensor[i], t->name, from - t->begin, n, x->buffer,
					err) != 0 ||
			    stream_dense(w, -1, x->buffer, n, err) != 0)
				return -1;
			from += n;
		}
	}
	return 0;
}

static int import_write_rows(struct import *x, struct stream_writer *w,
			     const struct stream_shape *shape, uint64_t first, struct error *err)
{
	size_t width = shape->width, most = stream_block_rows(shape);
	for (uint64_t at = 0; at < shape->rows;) {
		size_t n = shape->rows - at < most ? (size_t)(shape->rows - at) : most;
		for (size_t i = 0; i < n; i++) {
			uint64_t row = (uint32_t)x->order[first + at + i];
			x->key[i] = (uint32_t)import_key_of(x, row);
			if (load_finite(x, &x->values, x->layout.table.name, row * width, width,
					x->buffer + i * width, err) != 0)
				return -1;
		}
		if (stream_rows(w, n, x->key, x->buffer, NULL, err) != 0)
			return -1;
		at += n;
	}
	return 0;
}

/* The first row whose place is this one or a later one. */
static uint64_t row_at(const struct import *x, uint64_t place)
{
	uint64_t low = 0, high = x->rows;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (x->order[middle] >> 32 < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int import_write_part(struct import *x, const struct map *map, uint32_t part,
			     struct error *err)
{
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX];
	uint64_t first = row_at(x, map->key_begin[part]);
	const struct stream_shape shape = {
		.part = part,
		.parts = map->parts,
		.dense_begin = map->dense_begin[part],
		.dense_count = map->dense_begin[part + 1] - map->dense_begin[part],
		.width = x->layout.has_table ? x->layout.table.width : 0,
		.rows = row_at(x, map->key_begin[part + 1]) - first};
	struct part_writer *file;
	struct stream_writer *w = NULL;
	uint64_t bytes, sum;
	ckpt_part_name(part, name);
	if (fs_join(path, sizeof path, x->how->out, name, err) != 0 ||
	    part_create(&file, path, err) != 0)
		return -1;
	part_compress(file, x->how->level, x->team);
	int result = stream_begin(&w, part_sink(file), &shape, err);
	if (result == 0)
		result = write_dense(x, w, shape.dense_begin, shape.dense_begin + shape.dense_count,
				     err);
	if (result == 0 && shape.width)
		result = import_write_rows(x, w, &shape, first, err);
	if (result == 0)
		result = stream_end(w, err);
	stream_writer_free(w);
	if (result != 0) {
		part_abandon(file);
		return -1;
	}
	return part_finish(file, &bytes, &sum, err) == 0
		       ? ckpt_add(&x->manifest, name, bytes, sum, err)
		       : -1;
}

static int write_parts(struct import *x, struct error *err)
{
	struct map *map = malloc(sizeof *map);
	x->buffer = malloc(PLANES_BYTES_MAX);
	x->key = malloc(PLANES_BYTES_MAX);
	int result = map && x->buffer && x->key ? 0 : import_no_memory(x, err);
	if (result == 0)
		map_even(map, x->how->parts, layout_dense_count(&x->layout));
	for (uint32_t i = 0; result == 0 && i < x->how->parts; i++)
		result = import_write_part(x, map, i, err);
	free(map);
	return result;
}

/* Writes a file that the metadata have. */
static int write_text(struct import *x, const char *name, struct error *err)
{
	const char *text = metadata(x, name);
	char path[CKPT_PATH_MAX];
	if (!text)
		return 0;
	if (fs_join(path, sizeof path, x->how->out, name, err) != 0 ||
	    fs_replace_file(path, text, strlen(text), err) != 0)
		return -1;
	return ckpt_add_file(&x->manifest, x->how->out, name, err);
}

static int write_layout(struct import *x, struct error *err)
{
	char path[CKPT_PATH_MAX];
	if (x->how->layout)
		return layout_read(&x->layout, x->how->layout, err) == 0
			       ? ckpt_include(&x->manifest, x->how->out, x->how->layout, "layout", err)
			       : -1;
	if (!metadata(x, "layout"))
		return error_set(err, ERROR_DATA, x->how->file,
				 "does not say which of its tensors are parameters: a layout is needed "
				 "(--layout FILE)");
	if (fs_join(path, sizeof path, x->how->out, "layout", err) != 0 ||
	    write_text(x, "layout", err) != 0)
		return -1;
	return layout_read(&x->layout, path, err) == 0 ? 0 : error_wrap(err, x->how->file);
}

static int start_manifest(struct import *x, struct error *err)
{
	const char *job = metadata(x, "job"), *iteration = metadata(x, "iteration");
	uint64_t n = 0;
	if (iteration && number_u64_span(iteration, strlen(iteration), &n) != 0)
		n = 0;
	return ckpt_manifest_start(&x->manifest, job && option_id_ok(job) ? job : "", n, 0, x->how->at,
				   err);
}

static int import_write_all(struct import *x, struct error *err)
{
	if (start_manifest(x, err) != 0 || write_layout(x, err) != 0 ||
	    import_find_all(x, err) != 0 || write_text(x, "schema", err) != 0 ||
	    write_text(x, "model", err) != 0 || write_parts(x, err) != 0)
		return -1;
	return ckpt_commit(&x->manifest, x->how->out, err);
}

int ckpt_import(const struct ckpt_import *how, struct error *err)
{
	struct import *x = calloc(1, sizeof *x); /* large */
	if (!x)
		return error_set(err, ERROR_OS, how->file, "out of memory");
	x->how = how;
	x->team = ckpt_team();
	int making, result = import_open_file(x, err);
	if (result == 0)
		result = ckpt_make_dir(how->out, &making, err);
	if (result == 0)
		result = ckpt_made_dir(how->out, making, import_write_all(x, err), err);
	team_free(x->team);
	if (x->map)
		munmap(x->map, x->map_bytes);
	json_decref(x->header);
	ckpt_manifest_free(&x->manifest);
	free(x->order);
	free(x->buffer);
	free(x->key);
	free(x);
	return result;
}
