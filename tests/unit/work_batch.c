/* Batches: unique keys and their parts, ranges, slices; pieces: what shardd may say, the shuffle. */
#include "base/random.h"
#include "work/batch.h"
#include "work/shards.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 500
#define FIELDS 7

static const struct model_keys of_data, of_rows = {.are_rows = 1};

static struct rows make_rows(uint64_t key_count)
{
	static size_t offset[ROWS + 1];
	static uint64_t number[ROWS];
	static uint32_t key[ROWS * FIELDS];
	static float label[ROWS], weight[ROWS], dense[ROWS * 2];
	uint64_t state = 99;
	for (size_t i = 0; i < ROWS; i++) {
		number[i] = 1000 + i;
		label[i] = (float)(i % 2);
		weight[i] = 1;
		dense[2 * i] = (float)i;
		dense[2 * i + 1] = -(float)i;
		offset[i + 1] = (i + 1) * FIELDS;
	}
	for (size_t k = 0; k < ROWS * FIELDS; k++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		key[k] = (uint32_t)((state >> 33) % key_count);
	}
	return (struct rows){.count = ROWS,
			     .dense_columns = 2,
			     .fields = FIELDS,
			     .row = number,
			     .label = label,
			     .weight = weight,
			     .dense = dense,
			     .offset = offset,
			     .key = key};
}

static const struct map *map_of(uint32_t parts)
{
	static struct map map;
	map_even(&map, parts, 0);
	return &map;
}

static void check_unique(const struct batch *b, const struct rows *rows, uint32_t parts)
{
	assert_int_equal(b->part_begin[0], 0);
	assert_int_equal(b->part_begin[parts], b->unique);
	for (uint32_t i = 0; i < parts; i++)
		for (size_t u = b->part_begin[i]; u < b->part_begin[i + 1]; u++)
			assert_int_equal(map_part_of_key(map_of(parts), b->key[u]), i);
	for (size_t u = 0; u < b->unique; u++)
		for (size_t v = 0; v < u; v++)
			assert_int_not_equal(b->key[u], b->key[v]);
	for (size_t k = 0; k < ROWS * FIELDS; k++) {
		assert_true(b->index[k] < b->unique);
		assert_int_equal(b->key[b->index[k]], rows->key[k]);
	}
}

/* Few keys, so that the table is as small as they are; many, so that it is probed; the largest. */
static void unique_keys(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct batch b = {0};
	static const uint64_t counts[] = {1, 64, 100, 5000, 1u << 20, 0xffffffffu};
	for (size_t c = 0; c < 3 * sizeof(counts) / sizeof(*counts); c++) {
		uint64_t keys = counts[c / 3];
		uint32_t parts = (uint32_t)(c % 3) * 2 + 1;
		struct rows rows = make_rows(keys);
		batch_start(&b, 2, 0);
		assert_int_equal(batch_reserve(&b, ROWS, ROWS * FIELDS, &err), 0);
		for (size_t i = 0; i < ROWS; i++)
			batch_add_sample(&b, &rows, i, &of_data);
		assert_int_equal(batch_finish(&b, map_of(parts), keys, &err), 0);
		check_unique(&b, &rows, parts);
	}
	struct model_batch slice = batch_slice(&b, 100, 50, 1);
	assert_int_equal(slice.offset[0], 100 * FIELDS);
	assert_true(slice.dense[1] == -100.0f);
	assert_null(slice.weight);
	assert_null(slice.value);
	batch_free(&b);
}

#define KEYS 300
static struct batch whole;

/* The gradient of `whole` in steps of a model whose parameters are p: dense, then rows. */
static float *train_in_steps(struct model *model, const float *p, size_t dense, size_t all,
			     size_t step, double *loss)
{
	struct error err = {0};
	float *sum = calloc(all, sizeof *sum);
	*loss = 0;
	for (size_t at = 0; at < ROWS; at += step) {
		size_t count = ROWS - at < step ? ROWS - at : step;
		struct model_batch slice = batch_slice(&whole, at, count, 0);
		assert_int_equal(model_train(model, &slice, p, p + dense, sum, sum + dense, loss,
					     &err),
				 0);
	}
	return sum;
}

static void check_steps(const char *name)
{
	static const size_t steps[] = {250, 64, 7, 1};
	struct error err = {0};
	struct model_spec spec;
	struct model *model;
	double loss, want_loss;
	float largest = 0;
	model_spec_default(&spec, name);
	spec.dense_inputs = 2;
	spec.fields = FIELDS;
	spec.hash_bits = 9;
	spec.embed = 4;
	assert_int_equal(model_new(&model, &spec, NULL, &err), 0);
	size_t dense = model_dense_count(&spec), all = dense + whole.unique * model_width(&spec);
	float *p = malloc(all * sizeof *p);
	for (size_t i = 0; i < all; i++)
		p[i] = (float)((i * 7919) % 201) / 1000 - 0.1f;
	float *want = train_in_steps(model, p, dense, all, ROWS, &want_loss);
	for (size_t k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		float *sum = train_in_steps(model, p, dense, all, steps[k], &loss);
		assert_true(fabs(loss - want_loss) < 1e-3);
		for (size_t i = 0; i < all; i++) {
			assert_true(fabsf(sum[i] - want[i]) < 1e-3f);
			largest = fmaxf(largest, fabsf(want[i]));
		}
		free(sum);
	}
	assert_true(largest > 1); /* there was something to compare */
	free(want);
	free(p);
	model_free(model);
}

/* A batch computed in steps has the gradient of the whole, whatever the last step lacks. */
static void steps_sum_to_the_whole(void **unused)
{
	(void)unused;
	struct rows rows = make_rows(KEYS);
	struct error err = {0};
	for (size_t i = 0; i < ROWS * 2; i++) /* as a schema would scale them */
		rows.dense[i] /= ROWS;
	batch_start(&whole, 2, 0);
	assert_int_equal(batch_reserve(&whole, ROWS, ROWS * FIELDS, &err), 0);
	for (size_t i = 0; i < ROWS; i++)
		batch_add_sample(&whole, &rows, i, &of_data);
	assert_int_equal(batch_finish(&whole, map_of(3), KEYS, &err), 0);
	check_steps("lr");
	check_steps("wdl");
	batch_free(&whole);
}

static void row_numbers(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct batch b = {0};
	struct rows rows = make_rows(10);
	batch_start(&b, 0, 0);
	assert_int_equal(batch_reserve(&b, 4, 4, &err), 0);
	for (size_t i = 0; i < 4; i++)
		batch_add_sample(&b, &rows, i % 3, &of_rows);
	assert_int_equal(batch_finish(&b, map_of(1), 2000, &err), 0);
	assert_int_equal(b.unique, 3);
	assert_int_equal(b.key[b.index[2]], 1002);
	assert_int_equal(b.index[0], b.index[3]);
	batch_start(&b, 0, 0);
	assert_int_equal(batch_finish(&b, map_of(3), 2000, &err), 0); /* nothing at all */
	assert_int_equal(b.unique, 0);
	batch_free(&b);
}

static void largest_is(const struct batch *b, int unit_weights, uint64_t row, double weight,
		       double value)
{
	struct batch_extreme e = batch_extreme(b, unit_weights);
	assert_int_equal(e.row, row);
	assert_true(fabs(e.weight - weight) <= 1e-6 * weight);
	assert_true(fabs(e.value - value) <= 1e-6 * value);
}

/* The row to name when a batch gave too much: its weight, an input, a value of a key. */
static void the_largest_row(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct batch b = {0};
	struct rows rows = make_rows(10);
	static float value[ROWS * FIELDS];
	for (size_t i = 0; i < ROWS * FIELDS; i++)
		value[i] = 1;
	rows.value = value;
	rows.weight[7] = 1e25f;
	batch_start(&b, 2, 1);
	assert_int_equal(batch_reserve(&b, ROWS, ROWS * FIELDS, &err), 0);
	for (size_t i = ROWS; i-- > 0;) /* in another order than that of the data */
		batch_add_sample(&b, &rows, i, &of_data);
	largest_is(&b, 0, 1007, 1e25, 7);
	largest_is(&b, 1, 1000 + ROWS - 1, 1, ROWS - 1);
	b.value[b.offset[3] + 2] = -1e6f; /* of the fourth from behind */
	largest_is(&b, 1, 1000 + ROWS - 4, 1, 1e6);
	b.dense[1] = -1e7f; /* of the last */
	largest_is(&b, 1, 1000 + ROWS - 1, 1, 1e7);
	batch_free(&b);
}

static void ranges(void **unused)
{
	(void)unused;
	struct batch b = {0};
	batch_start(&b, 0, 0);
	batch_add_range(&b, 7, 100, 10);
	batch_add_range(&b, 7, 110, 5);
	assert_int_equal(b.range_count, 1);
	assert_int_equal(b.range[0].length, 15);
	batch_add_range(&b, 8, 115, 5);
	batch_add_range(&b, 7, 0, 1);
	batch_add_range(&b, 7, 2, 1); /* not right behind it */
	assert_int_equal(b.range_count, 4);
	assert_int_equal(b.positions, 22);
	while (batch_takes_range(&b, 9, 0, 1))
		batch_add_range(&b, 9 + b.range_count, 0, 1);
	assert_int_equal(b.range_count, BATCH_RANGES_MAX);
	batch_start(&b, 0, 0);
	uint64_t far = UINT64_MAX - 5000000000u;
	while (batch_takes_range(&b, UINT64_MAX, far, 1000000000))
		batch_add_range(&b, UINT64_MAX - b.range_count, far, 1000000000);
	assert_true(b.range_count < BATCH_RANGES_MAX);
	assert_true(b.ranges_bytes <= BATCH_RANGES_BYTES_MAX);
	batch_free(&b);
}

static int parse(const char *line, struct piece *p)
{
	static struct record r;
	struct error err = {0};
	assert_int_equal(record_parse(&r, line, strlen(line), &err), 0);
	const struct generation g = {.samples = 1000, .shuffled = 1};
	return generation_parse(&g, p, &r, &err);
}

static void pieces(void **unused)
{
	(void)unused;
	struct piece p;
	assert_int_equal(parse("shard id=3 epoch=1 begin=10 length=20 lease=0 seed=5", &p), 0);
	assert_int_equal(p.take, 20);
	assert_int_equal(p.skip, 0);
	assert_int_equal(parse("shard id=3 begin=10 length=20 seed=5 skip=4 take=6", &p), 0);
	assert_int_equal(p.take, 6);
	assert_int_equal(p.skip, 4);
	assert_int_equal(parse("shard id=3 begin=10 length=20 skip=4", &p), 0);
	assert_int_equal(p.take, 16);
	static const char *const bad[] = {
		"shard begin=10 length=20",	    "shard id=1 length=20",
		"shard id=1 begin=10",		    "shard id=1 begin=10 length=0",
		"shard id=1 begin=990 length=11",   "shard id=1 begin=1001 length=1",
		"shard id=1 begin=0 length=4 skip=5", "shard id=1 begin=0 length=4 skip=2 take=3",
		"shard id=x begin=0 length=4",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(bad[i], &p), -1);
}

/* Computed by hand from the published text: SplitMix64 of seed 1 begins 0x910a2dec89025cc1,
 * 0xbeeb8da1658eec67, 0xf893a2eefb32555e, 0x71c18690ee42c90b. */
static void shuffle(void **unused)
{
	(void)unused;
	uint32_t a[5];
	uint32_t want[5] = {0, 1, 2, 3, 4};
	static const uint64_t next[] = {0x910a2dec89025cc1u, 0xbeeb8da1658eec67u,
					0xf893a2eefb32555eu, 0x71c18690ee42c90bu};
	for (size_t j = 4, n = 0; j >= 1; j--, n++) {
		size_t r = (size_t)(next[n] % (j + 1));
		uint32_t t = want[j];
		want[j] = want[r];
		want[r] = t;
	}
	random_permute(a, 5, 1);
	assert_memory_equal(a, want, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unique_keys), cmocka_unit_test(row_numbers),
		cmocka_unit_test(ranges),      cmocka_unit_test(pieces),
		cmocka_unit_test(the_largest_row),
		cmocka_unit_test(shuffle),     cmocka_unit_test(steps_sum_to_the_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
