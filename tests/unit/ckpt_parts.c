/* ckpt_parts: what is written is what is read, for any number of parts and any piece sizes. */
#include "ckpt_make.h"

#include <inttypes.h>
#include <math.h>
#include <xxhash.h>

static void block_there_and_back(const void *values, size_t count, size_t most)
{
	static uint8_t encoded[PLANES_BYTES_MAX];
	static uint32_t back[PLANES_VALUES_MAX];
	uint32_t plane[PLANES];
	struct planes_coder *c = planes_coder_new(PLANES_LEVEL);
	size_t len = planes_encode(c, values, count, encoded, plane);
	assert_in_range(len, 4, most);
	assert_int_equal(planes_decode(c, encoded, plane, count, back), 0);
	assert_memory_equal(back, values, 4 * count);
	planes_coder_free(c);
}

/* Rows that are alike are found from level 2 on; and where nothing repeats, no level is worse than 1. */
static void levels_gain_something(void **state)
{
	static float alike[PLANES_VALUES_MAX], normal[PLANES_VALUES_MAX];
	static uint8_t encoded[PLANES_BYTES_MAX];
	static float back[PLANES_VALUES_MAX];
	uint32_t plane[PLANES];
	size_t len[10][2];
	struct layout l;
	(void)state;
	layout_start(&l, 1);
	OK(layout_add_tensor(&l, "w", PLANES_VALUES_MAX, 1, LAYOUT_NORMAL, 0.05, LAYOUT_OPTIMIZER,
			     err));
	layout_init_dense(&l, 0, PLANES_VALUES_MAX, normal);
	for (size_t i = 0; i < PLANES_VALUES_MAX; i++)
		alike[i] = normal[mix(i / 17) % 50 * 17 + i % 17];
	for (int level = 0; level < 10; level++) {
		struct planes_coder *c = planes_coder_new(level);
		for (int k = 0; k < 2; k++) {
			len[level][k] = planes_encode(c, k ? normal : alike, PLANES_VALUES_MAX, encoded,
						      plane);
			assert_int_equal(planes_decode(c, encoded, plane, PLANES_VALUES_MAX, back), 0);
			assert_memory_equal(back, k ? normal : alike, sizeof back);
		}
		planes_coder_free(c);
	}
	assert_int_equal(len[0][1], PLANES_BYTES_MAX);
	assert_true(len[6][0] < len[1][0] / 4);
	for (int level = 2; level < 10; level++)
		assert_true(len[level][1] <= len[1][1]);
}

static void blocks_come_back(void **state)
{
	static float weights[PLANES_VALUES_MAX];
	static uint32_t bits[PLANES_VALUES_MAX];
	struct layout l;
	(void)state;
	layout_start(&l, 1);
	OK(layout_add_tensor(&l, "w", PLANES_VALUES_MAX, 1, LAYOUT_NORMAL, 0.05, LAYOUT_OPTIMIZER,
			     err));
	layout_init_dense(&l, 0, PLANES_VALUES_MAX, weights);
	for (size_t i = 0; i < PLANES_VALUES_MAX; i++)
		bits[i] = (uint32_t)mix(i);
	/* Normal weights shrink 1.18 times at least: the top plane alone (libraries measured). */
	block_there_and_back(weights, PLANES_VALUES_MAX, PLANES_BYTES_MAX * 100 / 118);
	/* Random bits don't, and cost nothing either. */
	block_there_and_back(bits, PLANES_VALUES_MAX, PLANES_BYTES_MAX);
	for (size_t count = 1; count < 70; count++) {
		block_there_and_back(weights, count, 4 * count);
		block_there_and_back(bits, count, 4 * count);
	}
	memset(weights, 0, sizeof weights);
	block_there_and_back(weights, PLANES_VALUES_MAX, 4);
	weights[PLANES_VALUES_MAX - 1] = 1; /* not seen by a sample */
	block_there_and_back(weights, PLANES_VALUES_MAX, PLANES_BYTES_MAX / 7);
	for (size_t i = 0; i < PLANES_VALUES_MAX; i++)
		bits[i] = (uint32_t)i;
	block_there_and_back(bits, PLANES_VALUES_MAX, PLANES_BYTES_MAX);
}

/* Lengths that no encoder gives; under ASan a write beyond the plane would show. */
static void bad_planes_are_refused(void **state)
{
	static uint8_t in[4096];
	uint32_t out[64];
	struct planes_coder *c = planes_coder_new(PLANES_LEVEL);
	int refused = 0;
	(void)state;
	for (uint64_t turn = 0; turn < 20000; turn++) {
		uint32_t plane[PLANES];
		for (size_t i = 0; i < 16; i++)
			in[mix(turn * 64 + i) % sizeof in] = (uint8_t)mix(turn * 64 + i + 32);
		for (size_t p = 0; p < PLANES; p++)
			plane[p] = (uint32_t)(mix(turn * 64 + 48 + p) % 80);
		refused += planes_decode(c, in, plane, 64, out) != 0;
	}
	assert_true(refused > 19000);
	planes_coder_free(c);
}

static void round_trip(const struct make *m)
{
	const char *value;
	struct ckpt *c;
	make_checkpoint(in_dir("c"), m, 5, 0);
	OK(ckpt_open(&c, in_dir("c"), err));
	assert_int_equal(ckpt_get_manifest(c)->parts, m->parts);
	assert_int_equal(ckpt_get_manifest(c)->iteration, 5);
	assert_int_equal(ckpt_row_count(c), m->rows);
	assert_string_equal(ckpt_note_at(c, 0, &value), "step");
	assert_string_equal(value, "12");
	assert_null(ckpt_note_at(c, 1, &value));
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

/* Notes what has come, and that it is what was written. */
static int mark(void *arg, int slot, uint64_t begin, size_t count, const float *values,
		struct error *err)
{
	unsigned char *seen = arg;
	for (size_t i = 0; i < count; i++) {
		if (values[i] != dense_value(slot, begin + i))
			return error_set(err, ERROR_DATA, NULL, "element %zu differs", i);
		seen[begin + i]++;
	}
	return 0;
}

/* Blocks come in which something of the range is, once, and not many others. */
static void any_range_is_read(void **state)
{
	const struct make m = {.dense = 600000, .dense_slots = 1, .parts = 3, .piece = 10000};
	unsigned char *seen = malloc(m.dense);
	const struct stream_taker taker = {.dense = mark, .owner = seen};
	struct ckpt *c;
	(void)state;
	make_checkpoint(in_dir("r"), &m, 1, 0);
	OK(ckpt_open(&c, in_dir("r"), err));
	for (uint64_t turn = 0; turn < 200; turn++) {
		uint64_t begin = mix(turn) % m.dense, count = 1 + mix(turn + 1000) % 50000, all = 0;
		struct part_want want = {.dense_begin = begin, .dense_end = begin + count};
		memset(seen, 0, m.dense);
		OK(ckpt_read(c, &want, &taker, err));
		for (uint64_t i = 0; i < m.dense; i++) {
			int wanted = i >= begin && i < begin + count;
			assert_true(seen[i] == 1 || (!wanted && seen[i] == 0));
			all += seen[i];
		}
		assert_true(all < count + 2 * m.piece);
	}
	ckpt_close(c);
	free(seen);
}

/* The writer's own mistakes leave no file behind. */
static void half_a_part_is_no_part(void **state)
{
	const struct stream_shape shape = {.parts = 1, .dense_count = 4, .width = 1, .rows = 1};
	const uint32_t keys[2] = {1, 2};
	struct part_writer *file;
	struct stream_writer *w;
	uint64_t bytes, sum;
	float four[4] = {1, 2, 3, 4};
	(void)state;
	OK(part_create(&file, in_dir("half"), err));
	OK(stream_begin(&w, part_sink(file), &shape, err));
	OK(stream_dense(w, -1, four, 3, err));
	assert_int_equal(stream_dense(w, -1, four, 2, NULL), -1);
	assert_int_equal(stream_dense(w, 0, four, 2, NULL), -1);
	assert_int_equal(stream_end(w, NULL), -1);
	OK(stream_dense(w, -1, four, 1, err));
	assert_int_equal(stream_end(w, NULL), -1);
	assert_int_equal(stream_rows(w, 2, keys, four, NULL, NULL), -1);
	OK(stream_rows(w, 1, keys, four, NULL, err));
	OK(stream_end(w, err));
	stream_writer_free(w);
	part_abandon(file);
	assert_int_equal(access(in_dir("half"), F_OK), -1);
	OK(part_create(&file, in_dir("half"), err));
	assert_int_equal(part_create(&file, in_dir("half"), NULL), -1);
	OK(part_finish(file, &bytes, &sum, err));
}

/* A block of at most 8 values, as planes that are stored; or as a hand-over has them. */
struct forged {
	const char *section;
	size_t count;
	const void *values;
	int is_raw;
};

/* A whole part file by hand: what our writer does not write, or does not write any more. */
static void forge(const char *path, const char *head, const struct forged *block, size_t blocks)
{
	char index[4096] = "note key=optimizer value=sgd\n", end[PART_END_BYTES + 1];
	size_t at = strlen(head), len = strlen(index);
	XXH3_state_t *sum = XXH3_createState();
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(head, f);
	for (size_t i = 0; i < blocks; i++) {
		size_t n = block[i].count;
		uint8_t bytes[4 * 8];
		for (size_t k = 0; k < 4 * n; k++)
			bytes[k % 4 * n + k / 4] = ((const uint8_t *)block[i].values)[k];
		fwrite(bytes, 4, n, f);
		len += (size_t)sprintf(index + len, "block section=%s at=%zu count=%zu",
				       block[i].section, at, n);
		if (!block[i].is_raw)
			len += (size_t)sprintf(index + len,
					       " planes=%zu,%zu,%zu,%zu sum=%016" PRIx64, n, n, n,
					       n, (uint64_t)XXH3_64bits(bytes, 4 * n));
		index[len++] = '\n';
		at += 4 * n;
	}
	sprintf(end, PART_END_FORMAT, (uint64_t)at);
	XXH3_64bits_reset(sum);
	XXH3_64bits_update(sum, head, strlen(head));
	XXH3_64bits_update(sum, index, len);
	XXH3_64bits_update(sum, end, PART_END_PREFIX_BYTES);
	sprintf(end + PART_END_PREFIX_BYTES, "%016" PRIx64 "\n",
		(uint64_t)XXH3_64bits_digest(sum));
	XXH3_freeState(sum);
	fwrite(index, 1, len, f);
	fwrite(end, 1, PART_END_BYTES, f);
	assert_int_equal(fclose(f), 0);
}

static void forge_dense(const char *path, const uint32_t bits[2])
{
	const struct forged dense = {"dense", 2, bits, 0};
	forge(path, "part version=1 part=0 parts=1 dense-begin=0 dense=2 dense-slots=0 width=0 "
		    "row-slots=0\n", &dense, 1);
}

static void note_bad(const char *place, const char *text, void *arg)
{
	snprintf(arg, 256, "%s: %s", place, text);
}

static int count_dense(void *arg, int slot, uint64_t begin, size_t count, const float *values,
		       struct error *err)
{
	(void)begin;
	(void)values;
	(void)err;
	*(size_t *)arg += slot == -1 ? count : 1000;
	return 0;
}

static void what_is_not_finite_is_not_read(void **state)
{
	const uint32_t fine[2] = {0x7f7fffffu, 0xff7fffffu};
	const uint32_t bad[3][2] = {{0x3f800000u, 0x7fc00000u},
				    {0, 0xff800000u},
				    {0, 0x7f800001u}};
	const char *path = in_dir("forged");
	const struct part_want want = {.dense_end = 1};
	size_t taken = 0;
	const struct stream_taker taker = {.dense = count_dense, .owner = &taken};
	struct part_reader *p;
	char told[256] = "";
	(void)state;
	forge_dense(path, fine);
	OK(part_open(&p, path, err));
	OK(part_read(p, &want, &taker, err));
	assert_int_equal(taken, 2);
	assert_int_equal(part_verify(p, note_bad, told), 0);
	part_close(p);
	for (size_t i = 0; i < 3; i++) {
		struct error why = {0};
		forge_dense(path, bad[i]);
		OK(part_open(&p, path, err));
		assert_int_equal(part_read(p, &want, &taker, &why), -1);
		assert_int_equal(why.code, ERROR_DATA);
		assert_non_null(strstr(why.place, "forged: block 0 (dense)"));
		assert_non_null(strstr(why.text, "value 1 of dense is not finite"));
		assert_int_equal(part_verify(p, note_bad, told), 1);
		assert_non_null(strstr(told, "block 0 (dense): value 1 of dense is not finite"));
		part_close(p);
	}
}

/* What is only fit for a socket: its values could change unnoticed. */
static void a_block_without_checksum_is_refused(void **state)
{
	const float values[2] = {1, 2};
	const struct forged dense = {"dense", 2, values, 1};
	struct part_reader *p;
	struct error why = {0};
	(void)state;
	forge(in_dir("raw"), "part version=1 part=0 parts=1 dense-begin=0 dense=2 dense-slots=0 "
			     "width=0 row-slots=0\n", &dense, 1);
	assert_int_equal(part_open(&p, in_dir("raw"), &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	assert_non_null(strstr(why.text, "without planes= and sum="));
}

/* Before rows were grouped: no rows=, no low= and high=, blocks of keys in any order. Every server
 * finds its own. */
static void an_older_part_is_restored(void **state)
{
	static const float dense[3] = {1, 2, 3}, values[2][6] = {{10, 11, 20, 21, 30, 31}, {40, 41}};
	static const uint32_t keys[2][3] = {{7, 1, 900}, {4000000000u}};
	const struct forged block[] = {{"rows.keys", 3, keys[0], 0}, {"dense", 3, dense, 0},
				       {"rows", 6, values[0], 0},    {"rows.keys", 1, keys[1], 0},
				       {"rows", 2, values[1], 0}};
	struct ckpt_manifest m;
	static struct map map;
	struct layout l;
	struct layout_table t = {.name = "emb", .width = 2, .scale = 0.01};
	struct opt opt;
	char told[256] = "";
	(void)state;
	layout_start(&l, 7);
	OK(layout_add_tensor(&l, "w", 3, 1, LAYOUT_NORMAL, 0.5, LAYOUT_OPTIMIZER, err));
	OK(layout_set_table(&l, &t, err));
	OK(opt_by_name(&opt, "sgd", err));
	OK(fs_make_dirs(in_dir("older"), err));
	forge(in_dir("older/part-0"), "part version=1 part=0 parts=1 dense-begin=0 dense=3 "
				      "dense-slots=0 width=2 row-slots=0\n", block, 5);
	OK(ckpt_manifest_start(&m, "j", 1, 0, 1, err));
	OK(ckpt_add_file(&m, in_dir("older"), "part-0", err));
	OK(ckpt_commit(&m, in_dir("older"), err));
	ckpt_manifest_free(&m);
	assert_int_equal(ckpt_verify(in_dir("older"), note_bad, told, NULL), 0);
	for (uint32_t n = 1; n <= 3; n++) {
		size_t rows = 0;
		map_even(&map, n, 3);
		for (uint32_t part = 0; part < n; part++) {
			struct store *s;
			struct ckpt *c;
			float out[3];
			int lost;
			OK(store_new(&s, &l, &map, part, &opt, err));
			OK(ckpt_open(&c, in_dir("older"), err));
			OK(ckpt_restore(c, s, &lost, err));
			ckpt_close(c);
			store_pull_dense(s, out, 0);
			for (size_t i = 0; i < store_dense_count(s); i++)
				assert_true(out[i] == dense[store_dense_begin(s) + i]);
			rows += store_row_count(s);
			for (size_t i = 0; i < 4; i++) {
				uint32_t key = keys[i / 3][i % 3];
				float *row;
				if (map_part_of_key(&map, key) != part)
					continue;
				OK(store_rows(s, &key, 1, 0, &row, err));
				assert_memory_equal(row, values[i / 3] + i % 3 * 2, 2 * sizeof *row);
			}
			assert_true(store_row_count(s) <= 4);
			store_free(s);
		}
		assert_int_equal(rows, 4);
	}
}

static void what_is_not_finite_is_not_written(void **state)
{
	const struct stream_shape shape = {.parts = 1, .dense_count = 4, .width = 2, .rows = 2,
					   .row_slots = 1};
	const char *const section[] = {"dense", "rows", "rows.s0", NULL};
	const float fine[4] = {1, 2, 3, 4}, bad[4] = {1, 2, 3, NAN};
	const uint32_t keys[2] = {0x7fc00000u, 0xffffffffu}; /* no floats: anything goes */
	(void)state;
	for (int turn = 0; turn < 4; turn++) {
		const float *slots[] = {turn == 2 ? bad : fine};
		struct part_writer *file;
		struct stream_writer *w;
		struct error why = {0};
		OK(part_create(&file, in_dir("part"), err));
		OK(stream_begin(&w, part_sink(file), &shape, err));
		int result = stream_dense(w, -1, turn == 0 ? bad : fine, 4, &why);
		if (result == 0)
			result = stream_rows(w, 2, keys, turn == 1 ? bad : fine, slots, &why);
		assert_int_equal(result, section[turn] ? -1 : 0);
		stream_writer_free(w);
		part_abandon(file);
		if (!section[turn])
			continue;
		char expected[64];
		snprintf(expected, sizeof expected, "a value of %s is not finite", section[turn]);
		assert_string_equal(why.text, expected);
	}
}

static void commit_wants_all_parts(void **state)
{
	struct ckpt_manifest own, *m = &own;
	(void)state;
	OK(fs_make_dirs(in_dir("gap"), err));
	OK(ckpt_manifest_start(m, "j", 1, 0, 1, err));
	assert_int_equal(ckpt_commit(m, in_dir("gap"), NULL), -1);
	OK(ckpt_add(m, "part-1", 1, 1, err));
	assert_int_equal(ckpt_commit(m, in_dir("gap"), NULL), -1);
	assert_int_equal(ckpt_add(m, "part-1", 1, 1, NULL), -1);
	assert_int_equal(ckpt_add(m, "MANIFEST", 1, 1, NULL), -1);
	assert_int_equal(ckpt_add(m, "../x", 1, 1, NULL), -1);
	ckpt_manifest_free(m);
	assert_int_equal(ckpt_manifest_start(m, "a/b", 1, 0, 1, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_gain_something),
		cmocka_unit_test(blocks_come_back),    cmocka_unit_test(bad_planes_are_refused),
		cmocka_unit_test(any_shape_comes_back), cmocka_unit_test(any_range_is_read),
		cmocka_unit_test(half_a_part_is_no_part),
		cmocka_unit_test(what_is_not_finite_is_not_read),
		cmocka_unit_test(a_block_without_checksum_is_refused),
		cmocka_unit_test(an_older_part_is_restored),
		cmocka_unit_test(what_is_not_finite_is_not_written),
		cmocka_unit_test(commit_wants_all_parts),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
