/* param_layout: initial values against the published test vectors of Philox and their moments; the
 * text form there and back; the partition. */
#include "ckpt_make.h"

#include <math.h>

static struct layout sample(void)
{
	struct layout l;
	struct layout_table t = {.name = "emb", .width = 5, .rows = 100, .zero_columns = 1,
				 .scale = 0.25, .export = LAYOUT_EXPORT_DENSE};
	layout_start(&l, 0);
	OK(layout_add_tensor(&l, "u", 3, 7, LAYOUT_UNIFORM, 2, LAYOUT_OPTIMIZER, err));
	OK(layout_add_tensor(&l, "zero", 5, 1, LAYOUT_ZERO, 1, LAYOUT_ADD, err));
	OK(layout_add_tensor(&l, "n", 40, 1000, LAYOUT_NORMAL, 0.5, LAYOUT_OPTIMIZER, err));
	OK(layout_set_table(&l, &t, err));
	return l;
}

/* kat_vectors of Random123: philox4x32-10, counter 0, key 0. */
static void philox_is_the_published_one(void **state)
{
	static const uint32_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
	struct layout l = sample();
	float out[4];
	(void)state;
	layout_init_dense(&l, 0, 4, out);
	for (int i = 0; i < 4; i++)
		assert_true(fabs(out[i] - 2 * (2 * ((double)known[i] + 0.5) / 4294967296.0 - 1)) <
			    1e-6);
}

static void any_cut_gives_the_same_values(void **state)
{
	struct layout l = sample();
	uint64_t total = layout_dense_count(&l);
	float *whole = malloc(total * sizeof *whole), *piece = malloc(total * sizeof *piece);
	(void)state;
	layout_init_dense(&l, 0, total, whole);
	for (uint32_t n = 1; n < 12; n++) {
		uint64_t covered = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t begin = i * total / n, count = (i + 1) * total / n - begin;
			assert_int_equal(begin, covered);
			layout_init_dense(&l, begin, count, piece);
			assert_memory_equal(piece, whole + begin, count * sizeof *piece);
			covered += count;
		}
		assert_int_equal(covered, total);
	}
	free(whole);
	free(piece);
}

static void moments(const float *x, uint64_t n, double *mean, double *deviation)
{
	double sum = 0, squares = 0;
	for (uint64_t i = 0; i < n; i++) {
		sum += x[i];
		squares += (double)x[i] * x[i];
	}
	*mean = sum / (double)n;
	*deviation = sqrt(squares / (double)n - *mean * *mean);
}

static void values_have_their_distribution(void **state)
{
	struct layout l = sample();
	const struct layout_tensor *t = layout_tensor(&l, "n");
	float values[40000], row[5], all[4 * 100];
	double mean, deviation;
	(void)state;
	layout_init_dense(&l, t->begin, 40000, values);
	moments(values, 40000, &mean, &deviation);
	assert_true(fabs(mean) < 4 * 0.5 / 200); /* four standard errors */
	assert_true(fabs(deviation - 0.5) < 4 * 0.5 / sqrt(2 * 40000));
	layout_init_dense(&l, layout_tensor(&l, "zero")->begin, 5, values);
	for (int i = 0; i < 5; i++)
		assert_true(values[i] == 0);
	for (uint32_t key = 0; key < 100; key++) {
		layout_init_row(&l, key, row);
		assert_true(row[0] == 0);
		memcpy(all + 4 * key, row + 1, 4 * sizeof *row);
	}
	moments(all, 400, &mean, &deviation);
	assert_true(fabs(mean) < 4 * 0.25 / 20);
	assert_true(fabs(deviation - 0.25) < 4 * 0.25 / sqrt(800));
	/* Rows are no shifted copies of one another, nor of the dense vector. */
	for (uint32_t i = 0; i < 400; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_true(all[i] != all[k]);
}

static void another_seed_gives_other_values(void **state)
{
	struct layout a = sample(), b = sample();
	float x[8], y[8];
	(void)state;
	for (uint64_t seed = 1; seed; seed <<= 9) {
		b.seed = seed;
		layout_init_dense(&a, 0, 8, x);
		layout_init_dense(&b, 0, 8, y);
		assert_memory_not_equal(x, y, sizeof x);
		layout_init_row(&a, 3, x);
		layout_init_row(&b, 3, y);
		assert_memory_not_equal(x + 1, y + 1, 4 * sizeof *x);
	}
}

static void tensors_are_found(void **state)
{
	struct layout l = sample();
	(void)state;
	assert_string_equal(layout_tensor(&l, "zero")->name, "zero");
	assert_int_equal(layout_tensor(&l, "zero")->begin, 21);
	assert_null(layout_tensor(&l, "emb"));
}

static void text_and_back(void **state)
{
	struct layout a = sample(), b;
	(void)state;
	a.seed = UINT64_MAX;
	OK(layout_write(&a, in_dir("layout"), err));
	OK(layout_read(&b, in_dir("layout"), err));
	assert_int_equal(b.seed, a.seed);
	assert_int_equal(b.count, a.count);
	for (size_t i = 0; i < a.count; i++) {
		assert_string_equal(a.tensor[i].name, b.tensor[i].name);
		assert_int_equal(a.tensor[i].rows, b.tensor[i].rows);
		assert_int_equal(a.tensor[i].cols, b.tensor[i].cols);
		assert_int_equal(a.tensor[i].begin, b.tensor[i].begin);
		assert_int_equal(a.tensor[i].init, b.tensor[i].init);
		assert_int_equal(a.tensor[i].update, b.tensor[i].update);
		assert_true(a.tensor[i].scale == b.tensor[i].scale);
	}
	assert_string_equal(a.table.name, b.table.name);
	assert_int_equal(a.table.width, b.table.width);
	assert_int_equal(a.table.rows, b.table.rows);
	assert_int_equal(a.table.zero_columns, b.table.zero_columns);
	assert_int_equal(a.table.export, b.table.export);
	assert_true(a.table.scale == b.table.scale);
}

static void largest_layout(void **state)
{
	struct layout l, back;
	char name[LAYOUT_NAME_MAX];
	(void)state;
	layout_start(&l, 1);
	for (int i = 0; i < LAYOUT_TENSORS_MAX; i++) {
		snprintf(name, sizeof name, "%064d", i);
		OK(layout_add_tensor(&l, name, 1ull << 34, 1, LAYOUT_UNIFORM, 0.123456789012345678,
				     LAYOUT_ADD, err));
	}
	assert_int_equal(layout_dense_count(&l), LAYOUT_DENSE_MAX);
	assert_int_equal(layout_add_tensor(&l, "x", 1, 1, LAYOUT_ZERO, 0, LAYOUT_ADD, NULL), -1);
	OK(layout_write(&l, in_dir("layout"), err));
	OK(layout_read(&back, in_dir("layout"), err));
	assert_int_equal(layout_dense_count(&back), LAYOUT_DENSE_MAX);
}

static void bad_text_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text, *place;
	} bad[] = {
		{"", ""},
		{"tensor name=a rows=1 cols=1 init=zero scale=0\n", ":1"},
		{"layout version=2 seed=0\n", ":1"},
		{"layout version=1 seed=0\nlayout version=1 seed=0\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=0 cols=1\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=1\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=1 cols=1 init=one\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=1099511627776 cols=2\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a%2Fb rows=1 cols=2\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=1 cols=2 scale=-1\n", ":2"},
		{"layout version=1 seed=0\ntensor name=a rows=1 cols=2\n"
		 "tensor name=a rows=1 cols=2\n", ":3"},
		{"layout version=1 seed=0\ntable name=a width=0\n", ":2"},
		{"layout version=1 seed=0\ntable name=a width=2 zero-columns=3\n", ":2"},
		{"layout version=1 seed=0\ntable name=a width=2 export=dense\n", ":2"},
		{"layout version=1 seed=0\ntable name=a width=2\ntable name=b width=2\n", ":3"},
		{"layout version=1 seed=0\ntable name=a width=2", ":2"},
	};
	struct layout l;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char place[300];
		struct error why = {0};
		OK(fs_replace_file(in_dir("bad"), bad[i].text, strlen(bad[i].text), err));
		assert_int_equal(layout_read(&l, in_dir("bad"), &why), -1);
		assert_int_equal(why.code, ERROR_DATA);
		snprintf(place, sizeof place, "%s%s", in_dir("bad"), bad[i].place);
		assert_string_equal(why.place, place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(philox_is_the_published_one),
		cmocka_unit_test(any_cut_gives_the_same_values),
		cmocka_unit_test(values_have_their_distribution),
		cmocka_unit_test(another_seed_gives_other_values),
		cmocka_unit_test(tensors_are_found),
		cmocka_unit_test(text_and_back),
		cmocka_unit_test(largest_layout),
		cmocka_unit_test(bad_text_is_refused_with_its_line),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
