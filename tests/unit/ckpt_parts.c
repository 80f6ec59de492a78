/* ckpt_parts: what is written is what is read, for any number of parts and any piece sizes. */
#include "ckpt_make.h"

#include "ckpt/block.h"

#include <math.h>

static void block_there_and_back(const void *values, size_t count, size_t most)
{
	static uint8_t encoded[BLOCK_BYTES_MAX];
	static uint32_t back[BLOCK_VALUES_MAX];
	uint32_t plane[BLOCK_PLANES];
	struct block_coder *c = block_coder_new();
	size_t len = block_encode(c, values, count, encoded, plane);
	assert_in_range(len, 4, most);
	assert_int_equal(block_decode(c, encoded, plane, count, back), 0);
	assert_memory_equal(back, values, 4 * count);
	block_coder_free(c);
}

static void blocks_come_back(void **state)
{
	static float weights[BLOCK_VALUES_MAX];
	static uint32_t bits[BLOCK_VALUES_MAX];
	struct layout l;
	(void)state;
	layout_start(&l, 1);
	OK(layout_add_tensor(&l, "w", BLOCK_VALUES_MAX, 1, LAYOUT_NORMAL, 0.05, LAYOUT_OPTIMIZER,
			     err));
	layout_init_dense(&l, 0, BLOCK_VALUES_MAX, weights);
	for (size_t i = 0; i < BLOCK_VALUES_MAX; i++)
		bits[i] = (uint32_t)mix(i);
	/* Normal weights shrink 1.18 times at least: the top plane alone (libraries measured). */
	block_there_and_back(weights, BLOCK_VALUES_MAX, BLOCK_BYTES_MAX * 100 / 118);
	/* Random bits don't, and cost nothing either. */
	block_there_and_back(bits, BLOCK_VALUES_MAX, BLOCK_BYTES_MAX);
	for (size_t count = 1; count < 70; count++) {
		block_there_and_back(weights, count, 4 * count);
		block_there_and_back(bits, count, 4 * count);
	}
	memset(weights, 0, sizeof weights);
	block_there_and_back(weights, BLOCK_VALUES_MAX, 4);
	weights[BLOCK_VALUES_MAX - 1] = 1; /* not seen by a sample */
	block_there_and_back(weights, BLOCK_VALUES_MAX, BLOCK_BYTES_MAX / 7);
	for (size_t i = 0; i < BLOCK_VALUES_MAX; i++)
		bits[i] = (uint32_t)i;
	block_there_and_back(bits, BLOCK_VALUES_MAX, BLOCK_BYTES_MAX);
}

/* Lengths that no encoder gives; under ASan a write beyond the plane would show. */
static void bad_planes_are_refused(void **state)
{
	static uint8_t in[4096];
	uint32_t out[64];
	struct block_coder *c = block_coder_new();
	int refused = 0;
	(void)state;
	for (uint64_t turn = 0; turn < 20000; turn++) {
		uint32_t plane[BLOCK_PLANES];
		for (size_t i = 0; i < 16; i++)
			in[mix(turn * 64 + i) % sizeof in] = (uint8_t)mix(turn * 64 + i + 32);
		for (size_t p = 0; p < BLOCK_PLANES; p++)
			plane[p] = (uint32_t)(mix(turn * 64 + 48 + p) % 80);
		refused += block_decode(c, in, plane, 64, out) != 0;
	}
	assert_true(refused > 19000);
	block_coder_free(c);
}

static void round_trip(const struct make *m)
{
	struct ckpt *c;
	make_checkpoint(in_dir("c"), m, 5, 0);
	OK(ckpt_open(&c, in_dir("c"), err));
	assert_int_equal(ckpt_get_manifest(c)->parts, m->parts);
	assert_int_equal(ckpt_get_manifest(c)->iteration, 5);
	assert_int_equal(ckpt_row_count(c), m->rows);
	assert_string_equal(ckpt_note(c, "step"), "12");
	assert_null(ckpt_note(c, "none"));
	assert_int_equal(check_content(c, m), 0);
	ckpt_close(c);
	OK(fs_remove_tree(in_dir("c"), err));
}

static void any_shape_comes_back(void **state)
{
	const struct make shapes[] = {
		{.dense = 0, .parts = 1, .piece = 10},
		{.dense = 1, .parts = 3, .piece = 10},
		{.dense = 1000, .dense_slots = 2, .parts = 2, .piece = 7},
		{.dense = 100, .dense_slots = 1, .width = 1, .rows = 500, .parts = 1, .piece = 500},
		{.dense = 64, .width = 17, .row_slots = 2, .rows = 300, .parts = 3, .piece = 11},
		{.dense = 3, .dense_slots = 4, .width = 2, .row_slots = 4, .rows = 1, .parts = 5,
		 .piece = 1},
		{.dense = 3, .width = 4, .rows = 0, .parts = 2, .piece = 4},
		{.dense = 700000, .dense_slots = 1, .parts = 2, .piece = 300000},
		{.dense = 1, .width = 60000, .rows = 30, .parts = 2, .piece = 3},
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		round_trip(&shapes[i]);
}

/* A job restored with another number of servers: each reads its range across the old parts. */
static void any_range_is_read(void **state)
{
	const struct make m = {.dense = 600000, .dense_slots = 1, .parts = 3, .piece = 100000};
	float *out = malloc(m.dense * sizeof *out);
	struct ckpt *c;
	(void)state;
	make_checkpoint(in_dir("r"), &m, 1, 0);
	OK(ckpt_open(&c, in_dir("r"), err));
	for (uint32_t n = 1; n < 8; n++)
		for (uint32_t i = 0; i < n; i++) {
			uint64_t begin, count;
			layout_cut(m.dense, i, n, &begin, &count);
			OK(ckpt_read_dense(c, -1, begin, count, out, err));
			for (uint64_t k = 0; k < count; k++)
				assert_true(out[k] == dense_value(-1, begin + k));
		}
	for (uint64_t turn = 0; turn < 200; turn++) {
		uint64_t begin = mix(turn) % m.dense;
		uint64_t count = mix(turn + 1000) % 50;
		count = count < m.dense - begin ? count : m.dense - begin;
		OK(ckpt_read_dense(c, -1, begin, count, out, err));
		for (uint64_t k = 0; k < count; k++)
			assert_true(out[k] == dense_value(-1, begin + k));
	}
	assert_int_equal(ckpt_read_dense(c, -1, 1, m.dense, out, NULL), -1);
	assert_int_equal(ckpt_read_dense(c, -1, UINT64_MAX, 2, out, NULL), -1);
	assert_int_equal(ckpt_read_dense(c, 1, 0, 1, out, NULL), -1);
	ckpt_close(c);
	free(out);
}

/* The writer's own mistakes leave no file behind. */
static void half_a_part_is_no_part(void **state)
{
	struct part_shape shape = {.parts = 1, .dense_count = 4};
	struct part_writer *w;
	uint64_t bytes, sum;
	float four[4] = {1, 2, 3, 4};
	(void)state;
	OK(part_create(&w, in_dir("half"), &shape, err));
	OK(part_dense(w, -1, four, 3, err));
	assert_int_equal(part_dense(w, -1, four, 2, NULL), -1);
	assert_int_equal(part_dense(w, 0, four, 2, NULL), -1);
	assert_int_equal(part_finish(w, &bytes, &sum, NULL), -1);
	assert_int_equal(access(in_dir("half"), F_OK), -1);
	OK(part_create(&w, in_dir("half"), &shape, err));
	part_abandon(w);
	assert_int_equal(access(in_dir("half"), F_OK), -1);
	OK(part_create(&w, in_dir("half"), &shape, err));
	OK(part_dense(w, -1, four, 4, err));
	OK(part_finish(w, &bytes, &sum, err));
	assert_int_equal(part_create(&w, in_dir("half"), &shape, NULL), -1);
}

static void commit_wants_all_parts(void **state)
{
	struct ckpt_manifest *m = malloc(sizeof *m);
	(void)state;
	OK(fs_make_dirs(in_dir("gap"), err));
	OK(ckpt_manifest_start(m, "j", 1, 0, 1, err));
	assert_int_equal(ckpt_commit(m, in_dir("gap"), NULL), -1);
	OK(ckpt_add(m, "part-1", 1, 1, err));
	assert_int_equal(ckpt_commit(m, in_dir("gap"), NULL), -1);
	assert_int_equal(ckpt_add(m, "part-1", 1, 1, NULL), -1);
	assert_int_equal(ckpt_add(m, "MANIFEST", 1, 1, NULL), -1);
	assert_int_equal(ckpt_add(m, "../x", 1, 1, NULL), -1);
	assert_int_equal(ckpt_manifest_start(m, "a/b", 1, 0, 1, NULL), -1);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_come_back),    cmocka_unit_test(bad_planes_are_refused),
		cmocka_unit_test(any_shape_comes_back), cmocka_unit_test(any_range_is_read),
		cmocka_unit_test(half_a_part_is_no_part),
		cmocka_unit_test(commit_wants_all_parts),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
