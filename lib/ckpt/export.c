/*
 * export: see export.h.  First the layout of the file is computed, and its space is allocated and
 * mapped; then tensors are read straight into their places.  It must never interpret the
 * parameters.
 */
#include "ckpt/export.h"

#include "base/fs.h"
#include "base/reals.h"
#include "record/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_PREFIX_BYTES 8

struct export {
	struct ckpt *ckpt;
	const char *name;
	struct layout layout;
	uint64_t rows;         /* of the table, as exported */
	uint64_t keys_bytes;   /* keys are at 0 of the data */
	uint64_t dense_at;     /* where the flat vector is: its tensors follow each other */
	uint64_t table_at;
	uint64_t data_bytes;
	char *header;          /* JSON, padded */
	size_t header_bytes;
	uint8_t *data;         /* mapped */
};

static int export_no_memory(const struct export *x, struct error *err)
{
	return error_set(err, ERROR_OS, x->name, "out of memory");
}

static int has_sorted_rows(const struct export *x)
{
	return x->layout.has_table && x->layout.table.export == LAYOUT_EXPORT_ROWS;
}

static int add_tensor(json_t *header, const char *name, const char *dtype, json_t *shape,
		      uint64_t begin, uint64_t bytes)
{
	json_t *tensor = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape,
				   "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
	if (!tensor)
		return -1;
	if (json_object_get(header, name)) {
		json_decref(tensor);
		return -2;
	}
	return json_object_set_new(header, name, tensor);
}

/* [rows], or [rows, cols]. */
static json_t *export_shape_of(uint64_t rows, uint64_t cols, int flat)
{
	return flat ? json_pack("[I]", (json_int_t)rows)
		    : json_pack("[I, I]", (json_int_t)rows, (json_int_t)cols);
}

static int add_table(const struct export *x, json_t *header)
{
	const struct layout_table *t = &x->layout.table;
	uint64_t bytes = x->data_bytes - x->table_at;
	char name[LAYOUT_NAME_MAX + 8];
	if (!has_sorted_rows(x))
		return add_tensor(header, t->name, "F32",
				  export_shape_of(x->rows, t->width, t->width == 1), x->table_at,
				  bytes);
	snprintf(name, sizeof name, "%s.keys", t->name);
	int result =
		add_tensor(header, name, "I64", export_shape_of(x->rows, 0, 1), 0, x->keys_bytes);
	snprintf(name, sizeof name, "%s.values", t->name);
	return result ? result
		      : add_tensor(header, name, "F32", export_shape_of(x->rows, t->width, 0),
				   x->table_at, bytes);
}

/* Adds an included file as it is. One that is not UTF-8 (a column's name in another encoding) can't
 * be a JSON string, and is left out. */
static int export_add_text(const struct export *x, json_t *metadata, const char *name,
			   struct error *err)
{
	char *text;
	size_t len;
	if (!ckpt_find_file(x->ckpt, name))
		return 0;
	if (ckpt_read_file(x->ckpt, name, &text, &len, err) != 0)
		return -1;
	json_t *string = json_stringn(text, len);
	free(text);
	if (string && json_object_set_new(metadata, name, string) != 0)
		return export_no_memory(x, err);
	return 0;
}

static int add_metadata(const struct export *x, json_t *header, struct error *err)
{
	const struct ckpt_manifest *m = ckpt_get_manifest(x->ckpt);
	char iteration[32];
	snprintf(iteration, sizeof iteration, "%" PRIu64, m->iteration);
	json_t *metadata = json_pack("{s:s, s:s}", "job", m->job, "iteration", iteration);
	if (json_object_set_new(header, "__metadata__", metadata) != 0)
		return export_no_memory(x, err);
	if (export_add_text(x, metadata, "schema", err) != 0 ||
	    export_add_text(x, metadata, "model", err) != 0)
		return -1;
	return export_add_text(x, metadata, "layout", err);
}

static int add_all(const struct export *x, json_t *header)
{
	int result = 0;
	for (size_t i = 0; result == 0 && i < x->layout.count; i++) {
		const struct layout_tensor *t = &x->layout.tensor[i];
		result = add_tensor(header, t->name, "F32",
				    export_shape_of(t->rows, t->cols, t->cols == 1),
				    x->dense_at + 4 * t->begin, 4 * t->rows * t->cols);
	}
	if (result == 0 && x->layout.has_table)
		result = add_table(x, header);
	return result;
}

static int make_header(struct export *x, struct error *err)
{
	json_watch_memory();
	json_t *header = json_object();
	if (!header)
		return export_no_memory(x, err);
	if (add_metadata(x, header, err) != 0) {
		json_decref(header);
		return -1;
	}
	int result = add_all(x, header);
	char *text = result == 0 ? json_dumps(header, JSON_COMPACT) : NULL;
	json_decref(header);
	if (json_lacked_memory()) {
		free(text);
		return export_no_memory(x, err);
	}
	if (result == -2)
		return error_set(err, ERROR_DATA, x->name,
				 "two tensors would have the same name in the file");
	size_t len = text ? strlen(text) : 0;
	x->header_bytes = (len + 7) / 8 * 8;
	x->header = text ? malloc(x->header_bytes + 1) : NULL;
	if (x->header)
		snprintf(x->header, x->header_bytes + 1, "%-*s", (int)x->header_bytes, text);
	free(text);
	return x->header ? 0 : error_set(err, ERROR_OS, x->name, "out of memory");
}

/* Computes where everything is in the file. */
static int export_plan(struct export *x, struct error *err)
{
	const struct layout_table *t = &x->layout.table;
	if (ckpt_read_layout(x->ckpt, &x->layout, err) != 0)
		return -1;
	uint64_t table_bytes = 0, width = x->layout.has_table ? t->width : 0;
	if (x->layout.has_table)
		x->rows = has_sorted_rows(x) ? ckpt_row_count(x->ckpt) : t->rows;
	if (has_sorted_rows(x))
		x->keys_bytes = 8 * x->rows;
	x->dense_at = x->keys_bytes;
	x->table_at = x->dense_at + 4 * layout_dense_count(&x->layout);
	if (x->rows > (1ull << 32) || __builtin_mul_overflow(x->rows, 4 * width, &table_bytes) ||
	    __builtin_add_overflow(x->table_at, table_bytes, &x->data_bytes) ||
	    x->data_bytes > INT64_MAX / 2)
		return error_set(err, ERROR_DATA, x->name, "more than a file can hold");
	return make_header(x, err);
}

/* ---- values ---- */

struct fill {
	const struct export *x;
	uint64_t n;      /* rows seen */
	uint64_t *order; /* key << 32 | number of the row, in the order of reading */
	uint32_t *rank;  /* [number of the row]: its place in the file */
};

static void export_put_row(const struct export *x, uint64_t row, const float *values)
{
	uint64_t bytes = 4 * (uint64_t)x->layout.table.width;
	memcpy(x->data + x->table_at + bytes * row, values, (size_t)bytes);
}

static int export_take_dense(void *arg, int slot, uint64_t begin, size_t count, const float *values,
			     struct error *err)
{
	const struct export *x = ((const struct fill *)arg)->x;
	(void)slot;
	(void)err;
	memcpy(x->data + x->dense_at + 4 * begin, values, 4 * count);
	return 0;
}

static int take_all_rows(void *arg, size_t rows, const uint32_t *keys, const float *values,
			 const float *const *slots, struct error *err)
{
	const struct export *x = ((const struct fill *)arg)->x;
	(void)slots;
	for (size_t i = 0; i < rows; i++) {
		if (keys[i] >= x->rows)
			return error_set(err, ERROR_DATA, ckpt_dir(x->ckpt),
					 "row %u of a table of %" PRIu64, keys[i], x->rows);
		export_put_row(x, keys[i], values + i * x->layout.table.width);
	}
	return 0;
}

/* The parts say how many rows there are, and there is room for exactly so many. */
static int check_count(const struct fill *f, uint64_t count, struct error *err)
{
	return count == f->x->rows
		       ? 0
		       : error_set(err, ERROR_DATA, ckpt_dir(f->x->ckpt),
				   "does not have as many rows as its parts say (%" PRIu64 ")", f->x->rows);
}

static int export_take_keys(void *arg, size_t rows, const uint32_t *keys, const float *values,
			    const float *const *slots, struct error *err)
{
	struct fill *f = arg;
	(void)values;
	(void)slots;
	if (rows > f->x->rows - f->n)
		return check_count(f, f->n + rows, err);
	for (size_t i = 0; i < rows; i++, f->n++)
		f->order[f->n] = (uint64_t)keys[i] << 32 | f->n;
	return 0;
}

static int take_sorted_rows(void *arg, size_t rows, const uint32_t *keys, const float *values,
			    const float *const *slots, struct error *err)
{
	struct fill *f = arg;
	(void)keys;
	(void)slots;
	if (rows > f->x->rows - f->n)
		return check_count(f, f->n + rows, err);
	for (size_t i = 0; i < rows; i++, f->n++)
		export_put_row(f->x, f->rank[f->n], values + i * f->x->layout.table.width);
	return 0;
}

static const struct part_want everything = {.dense_end = UINT64_MAX, .place_end = MAP_PLACES};

/* Reads the rows twice, in the same order: first the keys, then each row to its rank. */
static int fill_sorted(struct fill *f, struct error *err)
{
	const struct part_want rows = {.place_end = MAP_PLACES};
	struct stream_taker taker = {
		.dense = export_take_dense, .rows = export_take_keys, .owner = f, .keys_only = 1};
	const struct export *x = f->x;
	if (ckpt_read(x->ckpt, &everything, &taker, err) != 0 || check_count(f, f->n, err) != 0)
		return -1;
	if (f->n)
		u64_sort(f->order, (size_t)f->n);
	for (uint64_t i = 0; i < f->n; i++) {
		int64_t key = (int64_t)(f->order[i] >> 32);
		if (i && f->order[i - 1] >> 32 == f->order[i] >> 32)
			return error_set(err, ERROR_DATA, ckpt_dir(x->ckpt),
					 "holds row %" PRId64 " twice", key);
		memcpy(x->data + 8 * i, &key, sizeof key);
		f->rank[(uint32_t)f->order[i]] = (uint32_t)i;
	}
	f->n = 0;
	taker.rows = take_sorted_rows;
	taker.keys_only = 0;
	return ckpt_read(x->ckpt, &rows, &taker, err);
}

/* For a table that is one tensor: rows that do not exist get their initial values. */
static int fill_all_rows(struct fill *f, struct error *err)
{
	const struct stream_taker taker = {
		.dense = export_take_dense, .rows = take_all_rows, .owner = f};
	const struct export *x = f->x;
	float *initial = malloc(4 * (size_t)x->layout.table.width + 1);
	if (!initial)
		return error_set(err, ERROR_OS, x->name, "out of memory");
	for (uint64_t row = 0; row < x->rows; row++) {
		layout_init_row(&x->layout, (uint32_t)row, initial);
		export_put_row(x, row, initial);
	}
	free(initial);
	return ckpt_read(x->ckpt, &everything, &taker, err);
}

static int export_fill(const struct export *x, struct error *err)
{
	struct fill f = {.x = x};
	if (!has_sorted_rows(x))
		return fill_all_rows(&f, err);
	f.order = calloc((size_t)x->rows + 1, sizeof *f.order);
	f.rank = calloc((size_t)x->rows + 1, sizeof *f.rank);
	int result = f.order && f.rank ? fill_sorted(&f, err)
				       : error_set(err, ERROR_OS, x->name, "out of memory");
	free(f.order);
	free(f.rank);
	return result;
}

/* ---- the file ---- */

static int map_and_fill(struct export *x, int fd, struct error *err)
{
	uint64_t data_at = HEADER_PREFIX_BYTES + x->header_bytes;
	uint64_t total = data_at + x->data_bytes;
	uint64_t length = x->header_bytes; /* little-endian, as is the machine */
	int errnum = posix_fallocate(fd, 0, (off_t)total);
	if (errnum != 0) {
		errno = errnum;
		return error_errno(err, ERROR_IO, x->name, "no room for %" PRIu64 " bytes", total);
	}
	uint8_t *map = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return error_errno(err, ERROR_IO, x->name, "mmap");
	memcpy(map, &length, sizeof length);
	memcpy(map + HEADER_PREFIX_BYTES, x->header, x->header_bytes);
	x->data = map + data_at;
	int result = export_fill(x, err);
	if (munmap(map, (size_t)total) != 0 && result == 0)
		result = error_errno(err, ERROR_IO, x->name, "munmap");
	return result;
}

int ckpt_export(struct ckpt *c, int fd, const char *name, struct error *err)
{
	struct export *x = calloc(1, sizeof *x);
	if (!x)
		return error_set(err, ERROR_OS, name, "out of memory");
	x->ckpt = c;
	x->name = name;
	int result = export_plan(x, err);
	if (result == 0)
		result = map_and_fill(x, fd, err);
	free(x->header);
	free(x);
	return result;
}

static int export_fill_file(int fd, const char *path, void *c, struct error *err)
{
	return ckpt_export(c, fd, path, err);
}

int ckpt_export_file(struct ckpt *c, const char *path, struct error *err)
{
	return fs_replace(path, 0666, export_fill_file, c, err);
}
