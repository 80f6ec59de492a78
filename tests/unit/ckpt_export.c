/* ckpt_export: the safetensors file as a reader of that format sees it, by jansson: names, types,
 * shapes, offsets without gap, and the numbers behind them. */
#include "ckpt_make.h"

#include "ckpt/export.h"

#include <jansson.h>

struct file {
	char *data;
	size_t len;
	json_t *header;
	const char *body;
	size_t body_len;
};

static void load(struct file *f, const char *path)
{
	uint64_t n;
	json_error_t why;
	OK(fs_read_file(path, 1 << 24, &f->data, &f->len, err));
	memcpy(&n, f->data, 8);
	assert_int_equal(n % 8, 0);
	assert_true(n <= f->len - 8);
	f->header = json_loadb(f->data + 8, n, JSON_REJECT_DUPLICATES, &why);
	assert_non_null(f->header);
	f->body = f->data + 8 + n;
	f->body_len = f->len - 8 - n;
}

static void unload(struct file *f)
{
	json_decref(f->header);
	free(f->data);
}

/* The tensor's bytes; checks type and shape (cols -1: one dimension), adds its length to *total. */
static const void *tensor(const struct file *f, const char *name, const char *dtype, long rows,
			  long cols, size_t *total)
{
	json_t *t = json_object_get(f->header, name);
	assert_non_null(t);
	assert_string_equal(json_string_value(json_object_get(t, "dtype")), dtype);
	json_t *shape = json_object_get(t, "shape"), *at = json_object_get(t, "data_offsets");
	assert_int_equal(json_array_size(shape), cols < 0 ? 1 : 2);
	assert_int_equal(json_integer_value(json_array_get(shape, 0)), rows);
	if (cols >= 0)
		assert_int_equal(json_integer_value(json_array_get(shape, 1)), cols);
	size_t begin = (size_t)json_integer_value(json_array_get(at, 0));
	size_t end = (size_t)json_integer_value(json_array_get(at, 1));
	size_t element = strcmp(dtype, "I64") == 0 ? 8 : 4;
	assert_int_equal(end - begin, (size_t)(rows * (cols < 0 ? 1 : cols)) * element);
	assert_true(end <= f->body_len);
	assert_int_equal((size_t)(f->body - f->data + (long)begin) % element, 0);
	*total += end - begin;
	return f->body + begin;
}

static void export(const char *dir, const char *path)
{
	struct ckpt *c;
	OK(ckpt_open(&c, dir, err));
	OK(ckpt_export_file(c, path, err));
	ckpt_close(c);
}

static void rows_are_sorted_by_key(void **state)
{
	const struct make m = {.dense = 101, .dense_slots = 1, .width = 3, .row_slots = 1,
			       .rows = 200, .parts = 3, .piece = 9};
	struct file f;
	size_t total = 0;
	(void)state;
	make_checkpoint(in_dir("c"), &m, 9, 0);
	export(in_dir("c"), in_dir("x.safetensors"));
	load(&f, in_dir("x.safetensors"));
	const float *bias = tensor(&f, "bias", "F32", 1, -1, &total);
	const float *w = tensor(&f, "w", "F32", 100, -1, &total);
	const int64_t *keys = tensor(&f, "emb.keys", "I64", 200, -1, &total);
	const float *values = tensor(&f, "emb.values", "F32", 200, 3, &total);
	assert_int_equal(json_object_size(f.header), 5);
	assert_int_equal(total, f.body_len);
	assert_true(bias[0] == dense_value(-1, 0));
	for (uint64_t i = 0; i < 100; i++)
		assert_true(w[i] == dense_value(-1, i + 1));
	for (uint32_t i = 0; i < 200; i++) {
		assert_true(i == 0 || keys[i] > keys[i - 1]);
		for (uint32_t c = 0; c < 3; c++)
			assert_true(values[3 * i + c] == row_value(-1, (uint32_t)keys[i], c));
	}
	json_t *meta = json_object_get(f.header, "__metadata__");
	assert_string_equal(json_string_value(json_object_get(meta, "iteration")), "9");
	unload(&f);
}

/* A layout of our choice around one part. */
static void write_one_part(const char *dir, const struct layout *l, const uint32_t *keys,
			   uint64_t rows, const float *values)
{
	struct stream_shape shape = {.parts = 1, .dense_count = layout_dense_count(l),
				     .width = l->table.width, .rows = rows};
	struct part_writer *file;
	struct stream_writer *w;
	struct ckpt_manifest own, *m = &own;
	uint64_t bytes, sum;
	char path[256];
	float *dense = calloc(shape.dense_count + 1, sizeof *dense);
	for (uint64_t i = 0; i < shape.dense_count; i++)
		dense[i] = (float)i;
	OK(fs_make_dirs(dir, err));
	snprintf(path, sizeof path, "%s/part-0", dir);
	OK(part_create(&file, path, err));
	OK(stream_begin(&w, part_sink(file), &shape, err));
	OK(stream_dense(w, -1, dense, shape.dense_count, err));
	OK(stream_rows(w, (size_t)rows, keys, values, NULL, err));
	OK(stream_end(w, err));
	stream_writer_free(w);
	OK(part_finish(file, &bytes, &sum, err));
	OK(ckpt_manifest_start(m, "", 1, 0, 1, err));
	OK(ckpt_add(m, "part-0", bytes, sum, err));
	OK(layout_write(l, in_dir("layout"), err));
	OK(ckpt_include(m, dir, in_dir("layout"), NULL, err));
	OK(ckpt_commit(m, dir, err));
	free(dense);
	ckpt_manifest_free(m);
}

static void dense_table_is_one_tensor(void **state)
{
	struct layout l;
	struct layout_table t = {.name = "audit", .width = 2, .rows = 5, .scale = 1,
				 .update = LAYOUT_ADD, .export = LAYOUT_EXPORT_DENSE};
	const uint32_t keys[] = {3, 0};
	const float values[] = {30, 31, 1, 2};
	float initial[2];
	struct file f;
	size_t total = 0;
	(void)state;
	layout_start(&l, 1);
	OK(layout_add_tensor(&l, "h", 2, 3, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err));
	OK(layout_set_table(&l, &t, err));
	write_one_part(in_dir("a"), &l, keys, 2, values);
	export(in_dir("a"), in_dir("a.safetensors"));
	load(&f, in_dir("a.safetensors"));
	const float *h = tensor(&f, "h", "F32", 2, 3, &total);
	const float *audit = tensor(&f, "audit", "F32", 5, 2, &total);
	assert_int_equal(total, f.body_len);
	assert_true(h[5] == 5);
	assert_memory_equal(audit, values + 2, 8);
	assert_memory_equal(audit + 6, values, 8);
	layout_init_row(&l, 4, initial);
	assert_memory_equal(audit + 8, initial, 8);
	unload(&f);

	t.width = 1;
	layout_start(&l, 1);
	OK(layout_set_table(&l, &t, err));
	write_one_part(in_dir("b"), &l, keys, 2, values);
	export(in_dir("b"), in_dir("b.safetensors"));
	load(&f, in_dir("b.safetensors"));
	total = 0;
	audit = tensor(&f, "audit", "F32", 5, -1, &total);
	assert_true(audit[3] == 30 && audit[0] == 31);
	unload(&f);
}

/* Refused, and nothing is left where the file would be. */
static void wrong_rows_are_refused(void **state)
{
	static const char *const names[] = {"key out of range", "key twice", "name twice"};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct layout l;
		struct layout_table t = {.name = "t", .width = 1, .rows = i ? 0 : 5,
					 .export = i ? LAYOUT_EXPORT_ROWS : LAYOUT_EXPORT_DENSE};
		const uint32_t keys[] = {3, i == 1 ? 3 : 5};
		const float values[] = {1, 2};
		struct error why = {0};
		struct ckpt *c;
		char dir[16];
		snprintf(dir, sizeof dir, "w%d", i);
		layout_start(&l, 1);
		if (i == 2)
			OK(layout_add_tensor(&l, "t.keys", 2, 3, LAYOUT_ZERO, 0, LAYOUT_ADD, err));
		OK(layout_set_table(&l, &t, err));
		write_one_part(in_dir(dir), &l, keys, 2, values);
		OK(ckpt_open(&c, in_dir(dir), err));
		assert_int_equal(ckpt_export_file(c, in_dir("w.safetensors"), &why), -1);
		print_message("%s: %s\n", names[i], why.text);
		assert_int_equal(why.code, ERROR_DATA);
		assert_int_equal(access(in_dir("w.safetensors"), F_OK), -1);
		ckpt_close(c);
	}
}

static void nothing_is_exported_as_well(void **state)
{
	const struct make m = {.dense = 0, .width = 2, .parts = 1, .piece = 1};
	struct file f;
	size_t total = 0;
	(void)state;
	make_checkpoint(in_dir("e"), &m, 0, 0);
	export(in_dir("e"), in_dir("e.safetensors"));
	load(&f, in_dir("e.safetensors"));
	tensor(&f, "emb.keys", "I64", 0, -1, &total);
	tensor(&f, "emb.values", "F32", 0, 2, &total);
	assert_int_equal(f.body_len, 0);
	unload(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sorted_by_key),
		cmocka_unit_test(dense_table_is_one_tensor),
		cmocka_unit_test(wrong_rows_are_refused),
		cmocka_unit_test(nothing_is_exported_as_well),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
