/* ckpt_import: what export wrote comes back, other programs' tensors are read, and no file, however
 * damaged, harms the reader. */
#include "ckpt_make.h"

#include "ckpt/export.h"
#include "ckpt/import.h"
#include "rounds.h"

static char left[256];

static void remember(const char *name, void *arg)
{
	(void)arg;
	snprintf(left + strlen(left), sizeof left - strlen(left), "%s ", name);
}

static int import(const char *file, const char *layout, const char *out, uint32_t parts,
		  struct error *err)
{
	struct ckpt_import how = {.file = in_dir(file),
				  .layout = layout ? in_dir(layout) : NULL,
				  .out = in_dir(out),
				  .parts = parts,
				  .level = PLANES_LEVEL,
				  .at = 1,
				  .left_out = remember};
	left[0] = '\0';
	return ckpt_import(&how, err);
}

static void export_comes_back(void **state)
{
	const struct make m = {.dense = 101, .width = 3, .rows = 200, .parts = 3, .piece = 9};
	struct ckpt *c;
	(void)state;
	make_checkpoint(in_dir("c"), &m, 9, 0);
	OK(ckpt_open(&c, in_dir("c"), err));
	OK(ckpt_export_file(c, in_dir("x.safetensors"), err));
	ckpt_close(c);
	OK(import("x.safetensors", NULL, "back", 4, err));
	assert_string_equal(left, "");
	assert_int_equal(ckpt_verify(in_dir("back"), NULL, NULL, NULL), 0);
	OK(ckpt_open(&c, in_dir("back"), err));
	assert_int_equal(ckpt_get_manifest(c)->parts, 4);
	assert_int_equal(ckpt_get_manifest(c)->iteration, 9);
	assert_int_equal(check_content(c, &m), 0);
	OK(ckpt_export_file(c, in_dir("y.safetensors"), err));
	ckpt_close(c);
	same_file("x.safetensors", "y.safetensors");
}

static void write_file(const char *name, const char *header, const void *data, size_t len)
{
	uint64_t n = strlen(header);
	FILE *f = fopen(in_dir(name), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(&n, 8, 1, f), 1);
	assert_int_equal(fwrite(header, 1, n, f), n);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void write_layout(const char *name, const char *text)
{
	OK(fs_replace_file(in_dir(name), text, strlen(text), err));
}

struct got {
	float dense[16], row[8][2];
	unsigned rows;
};

static int take_dense(void *arg, int slot, uint64_t begin, size_t count, const float *values,
		      struct error *err)
{
	struct got *g = arg;
	(void)slot;
	(void)err;
	memcpy(g->dense + begin, values, 4 * count);
	return 0;
}

static int take_rows(void *arg, size_t rows, const uint32_t *keys, const float *values,
		     const float *const *slots, struct error *err)
{
	struct got *g = arg;
	(void)slots;
	(void)err;
	for (size_t i = 0; i < rows; i++, g->rows++)
		memcpy(g->row[keys[i]], values + 2 * i, 8);
	return 0;
}

static struct got read_all(const char *name)
{
	struct got g = {.rows = 0};
	const struct stream_taker taker = {.dense = take_dense, .rows = take_rows, .owner = &g};
	const struct part_want all = {.dense_end = 16, .place_end = MAP_PLACES};
	struct ckpt *c;
	OK(ckpt_open(&c, in_dir(name), err));
	OK(ckpt_read(c, &all, &taker, err));
	ckpt_close(c);
	return g;
}

/* As torch writes them: no metadata of ours, halves, a scalar, dimensions beyond two, a buffer that is
 * no parameter, an embedding whose row k is that of key k. */
static void a_state_dict_with_a_layout(void **state)
{
	static const char header[] =
		"{\"conv.weight\":{\"dtype\":\"F16\",\"shape\":[2,1,2],\"data_offsets\":[0,8]},"
		"\"bias\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
		"\"scale\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[12,20]},"
		"\"emb\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[20,44]},"
		"\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[44,52]}}";
	unsigned char data[52] = {0};
	const uint16_t half[] = {0x3c00, 0xc100, 0x0001, 0x7bff}, brain[] = {0x3f80, 0xc000};
	const double scale = 0.25;
	const float emb[] = {1, 2, 3, 4, 5, 6};
	(void)state;
	memcpy(data, half, 8);
	memcpy(data + 8, brain, 4);
	memcpy(data + 12, &scale, 8);
	memcpy(data + 20, emb, 24);
	write_file("t.safetensors", header, data, sizeof data);
	write_layout("layout", "layout version=1 seed=1\n"
			       "tensor name=conv.weight rows=2 cols=2 init=zero scale=0\n"
			       "tensor name=bias rows=2 cols=1 init=zero scale=0\n"
			       "tensor name=scale rows=1 cols=1 init=zero scale=0\n"
			       "table name=emb width=2 rows=3 zero-columns=0 scale=1\n");
	OK(import("t.safetensors", "layout", "t", 2, err));
	assert_string_equal(left, "steps ");
	struct got g = read_all("t");
	const float dense[] = {1, -2.5f, 0x1p-24f, 65504, 1, -2, 0.25f};
	assert_memory_equal(g.dense, dense, sizeof dense);
	assert_int_equal(g.rows, 3);
	assert_memory_equal(g.row, emb, sizeof emb);
	/* The same without a layout. */
	struct error why = {0};
	assert_int_equal(import("t.safetensors", NULL, "n", 1, &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	assert_int_equal(access(in_dir("n"), F_OK), -1);
}

static void wrong_ones_are_refused(void **state)
{
	static const struct {
		const char *header, *text;
	} wrong[] = {
		{"[]", "no JSON object"},
		{"{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "no tensor 'w'"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", "shape is not"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "data_offsets"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", "data_offsets"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "data_offsets"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", "data_offsets"},
		{"{\"w\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", "dtype"},
		{"{\"w\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", "dtype"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],"
		 "\"data_offsets\":[0,8]}}", "shape is no"},
		{"{\"w\":7}", "dtype"},
		{"{\"w\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", "last 4 bytes"},
		{"{\"w\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[4,8]}}", "before it"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		 "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", "belong to another"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		 "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[8,10]}}", "do not fit"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		 "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "duplicate"},
		{"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,99999999999999999999]}}",
		 "no JSON object: too big integer"},
	};
	const float nan[] = {1, 0x1p127f * 2};
	struct error why;
	(void)state;
	write_layout("layout", "layout version=1 seed=1\ntensor name=w rows=2 cols=1 init=zero scale=0\n");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		memset(&why, 0, sizeof why);
		write_file("w.safetensors", wrong[i].header, "12345678", 8);
		assert_int_equal(import("w.safetensors", "layout", "out", 1, &why), -1);
		print_message("%s\n", why.text);
		assert_int_equal(why.code, ERROR_DATA);
		assert_non_null(strstr(why.text, wrong[i].text));
		assert_int_equal(access(in_dir("out"), F_OK), -1);
	}
	write_file("w.safetensors", "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", nan,
		   sizeof nan);
	assert_int_equal(import("w.safetensors", "layout", "out", 1, &why), -1);
	assert_non_null(strstr(why.text, "value 1 is not finite"));
}

static void wrong_keys_are_refused(void **state)
{
	static const int64_t keys[][2] = {{1, 1}, {-1, 0}, {0, 5}, {1, 4}};
	static const char *const text[] = {"key 1 of table 't' is there twice", "key -1", "key 5", NULL};
	unsigned char data[24] = {0};
	(void)state;
	write_layout("layout",
		     "layout version=1 seed=1\ntable name=t width=1 rows=5 zero-columns=0 scale=1\n");
	for (size_t i = 0; i < 4; i++) {
		struct error why = {0};
		memcpy(data, keys[i], 16);
		write_file("k.safetensors",
			   "{\"t.keys\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
			   "\"t.values\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[16,24]}}",
			   data, sizeof data);
		int result = import("k.safetensors", "layout", "out", 1, &why);
		assert_int_equal(result, text[i] ? -1 : 0);
		if (text[i])
			assert_non_null(strstr(why.text, text[i]));
	}
}

static void no_damage_harms_the_reader(void **state)
{
	const struct make m = {.dense = 5, .width = 1, .rows = 4, .parts = 1, .piece = 9};
	struct ckpt *c;
	char *data;
	size_t len;
	(void)state;
	make_checkpoint(in_dir("c"), &m, 9, 0);
	OK(ckpt_open(&c, in_dir("c"), err));
	OK(ckpt_export_file(c, in_dir("x.safetensors"), err));
	ckpt_close(c);
	OK(fs_read_file(in_dir("x.safetensors"), 1 << 20, &data, &len, err));
	for (size_t i = 0; i < len; i += 1 + (size_t)mix(i) % 5) {
		struct error why = {0};
		data[i] = (char)(data[i] ^ (1 << mix(i) % 8));
		OK(fs_replace_file(in_dir("d.safetensors"), data, len, err));
		data[i] = (char)(data[i] ^ (1 << mix(i) % 8));
		if (import("d.safetensors", NULL, "d", 2, &why) == 0) /* values have no checksum */
			OK(fs_remove_tree(in_dir("d"), err));
		else
			assert_int_not_equal(why.code, ERROR_SOFTWARE);
		assert_int_equal(access(in_dir("d"), F_OK), -1);
		/* Cut there. */
		OK(fs_replace_file(in_dir("d.safetensors"), data, i, err));
		assert_int_equal(import("d.safetensors", NULL, "d", 2, &why), -1);
		assert_int_equal(access(in_dir("d"), F_OK), -1);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(export_comes_back, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_state_dict_with_a_layout, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(wrong_ones_are_refused, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(wrong_keys_are_refused, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(no_damage_harms_the_reader, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
