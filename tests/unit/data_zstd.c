/* data/source_zstd: from every access point of frames of all kinds the text goes on as it did; and
 * data/index keeps none from which it does not. */
#include "data/index.h"
#include "data/source.h"
#include "scratch.h"

/* In place of the library's: the same code, but its dictionaries may be made wrong. */
#define zstd_memory_dictionary right_dictionary
#include "data/zstd_memory.c"
#include "rounds.h"
#undef zstd_memory_dictionary

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include <cmocka.h>

enum { TEXT = 3 << 18, POINTS_MAX = 4096 };

static char path[128];
static enum wrong { RIGHT, WRONG_OFFSET, WRONG_TREE, WRONG_TABLE, WRONG_LEN, WRONG_KINDS } wrong;
static size_t dictionaries; /* made */
static uint64_t random_state = 1;

static uint32_t below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % n;
}

/* As an error in the rules of zstd_memory.c would have it. */
size_t zstd_memory_dictionary(const struct zstd_memory *m, size_t text_len, unsigned char *out)
{
	struct zstd_memory other = *m;
	uint32_t first = other.offset[0];
	size_t len = right_dictionary(m, text_len, out);
	dictionaries += len > 0;
	switch (wrong) {
	case WRONG_OFFSET:
		other.offset[0] = other.offset[2];
		other.offset[2] = first;
		break;
	case WRONG_TREE:
		other.tree_len = 0;
		break;
	case WRONG_TABLE:
		for (int i = 0; i < ZSTD_CODES; i++)
			other.table[i].text_len = 0;
		break;
	default:
		break;
	}
	/* A wrong one before a right one is what may be noticed late. */
	if (len > 0 && wrong != RIGHT && below(3))
		len = right_dictionary(&other, text_len, out);
	/* Other text before than there was. */
	return wrong == WRONG_LEN && len > 0 && below(2) ? len - 1 : len;
}

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/file", scratch);
	return 0;
}

/* ---- texts ---- */

static size_t csv_text(char *out, size_t max)
{
	static const char *const city[] = {"Rome", "Oslo", "Bern", "Lima", "Quito", "Accra"};
	size_t at = 0;
	while (at + 100 < max) {
		uint32_t x = below(UINT32_MAX), y = below(100000);
		at += (size_t)sprintf(out + at, "%u,%u,%s,%u.%02u,%s\n", x % 2, x / 2 % 100,
				      city[x / 200 % 6], y / 100, y % 100,
				      x / 1200 % 3 ? "yes" : "no");
	}
	return at;
}

/* Copies of what stood before, near and far, with noise between. */
static size_t copied_text(char *out, size_t max)
{
	size_t at = 0;
	while (at + 400 < max) {
		size_t noise = below(20) ? below(30) : below(400);
		for (size_t i = 0; i < noise; i++)
			out[at++] = (char)below(256);
		size_t len = 3 + below(below(10) ? 40 : 300), back = 1 + below(below(3) ? 200 : 60000);
		for (size_t i = 0; i < len && back <= at && at < max; i++, at++)
			out[at] = out[at - back];
	}
	return at;
}

static size_t noise_text(char *out, size_t max)
{
	for (size_t i = 0; i < max; i++)
		out[i] = (char)below(256);
	return max;
}

static size_t same_text(char *out, size_t max)
{
	for (size_t i = 0; i < max; i++)
		out[i] = i % 70000 ? 'a' : (char)('b' + below(20));
	return max;
}

/* Blocks of different kinds in one frame. */
static size_t mixed_text(char *out, size_t max)
{
	static size_t (*const kinds[])(char *, size_t) = {csv_text, copied_text, noise_text, same_text};
	size_t at = 0;
	while (max - at > 1000) {
		size_t len = 1000 + below(90000);
		at += kinds[below(4)](out + at, len < max - at ? len : max - at);
	}
	return at;
}

/* ---- files ---- */

static size_t add_frame(FILE *f, const char *text, size_t len, int level, int window_log, int checksum,
			int pieces)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t room = ZSTD_compressBound(len) + 100000;
	char *packed = malloc(room);
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	if (window_log)
		ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum);
	ZSTD_outBuffer out = {packed, room, 0};
	/* Blocks end where they are flushed, too; without a known size there is a window. */
	size_t from = 0;
	for (int i = 0; i < pieces; i++) {
		size_t to = i + 1 == pieces ? len : len * (size_t)(i + 1) / (size_t)pieces;
		ZSTD_inBuffer in = {text + from, to - from, 0};
		size_t left = ZSTD_compressStream2(c, &out, &in,
						   i + 1 == pieces ? ZSTD_e_end : ZSTD_e_flush);
		assert_int_equal(left, 0);
		from = to;
	}
	assert_int_equal(fwrite(packed, 1, out.pos, f), out.pos);
	free(packed);
	ZSTD_freeCCtx(c);
	return out.pos;
}

struct points {
	struct source_point point[POINTS_MAX];
	unsigned char *packed[POINTS_MAX];
	size_t len[POINTS_MAX];
	size_t count;
};

static int on_point(const struct source_point *p, const void *window, size_t len, void *arg,
		    struct error *err)
{
	struct points *all = arg;
	(void)err;
	assert_true(all->count < POINTS_MAX);
	all->point[all->count] = *p;
	all->packed[all->count] = NULL;
	if (len) {
		assert_int_equal(source_pack_window(SOURCE_ZSTD, window, len,
						    &all->packed[all->count], &all->len[all->count]),
				 0);
		all->point[all->count].window_len = (uint32_t)all->len[all->count];
	}
	all->count++;
	return 0;
}

static void same_from(struct source *s, const char *text, size_t len, size_t most)
{
	static char buffer[50000];
	struct error err;
	size_t at = (size_t)source_offset(s), got, end = at + most < len ? at + most : len;
	while (at < end) {
		size_t max = 1 + below(sizeof buffer);
		if (source_read(s, buffer, max, &got, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		assert_true(got > 0 && got <= len - at);
		if (memcmp(buffer, text + at, got) != 0)
			fail_msg("another text near %zu", at);
		at += got;
	}
	if (end == len) {
		assert_int_equal(source_read(s, buffer, sizeof buffer, &got, &err), 0);
		assert_int_equal(got, 0);
	}
}

static size_t check_file(const char *text, size_t len)
{
	struct points *all = malloc(sizeof *all);
	struct source *s;
	struct error err;
	uint64_t span = 1;
	size_t inside = 0;
	all->count = 0;
	assert_int_equal(source_open(&s, path, &err), 0);
	assert_int_equal(source_packing(s), SOURCE_ZSTD);
	source_collect(s, &span, on_point, all);
	same_from(s, text, len, len);
	source_collect(s, NULL, NULL, NULL);
	for (size_t i = all->count; i-- > 0;) {
		unsigned char *window = NULL;
		size_t window_len = 0;
		if (all->packed[i]) {
			assert_int_equal(source_unpack_window(SOURCE_ZSTD, all->packed[i], all->len[i],
							      &window, &window_len),
					 0);
			inside++;
		}
		assert_int_equal(source_seek_point(s, &all->point[i], window, window_len, &err), 0);
		/* To the end from some, far enough from all to leave the window behind. */
		same_from(s, text, len, i % 7 == 0 ? len : 300000);
		free(window);
		free(all->packed[i]);
	}
	source_close(s);
	free(all);
	return inside;
}

static void test_from_every_point(void **state)
{
	(void)state;
	static size_t (*const kinds[])(char *, size_t) = {csv_text, copied_text, noise_text, same_text,
							  mixed_text};
	static const int levels[] = {-20, -1, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 17, 19};
	char *text = malloc(TEXT);
	size_t inside = 0;
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
		for (size_t kind = 0; kind < 5; kind++) {
			size_t len = kinds[kind](text, TEXT);
			FILE *f = fopen(path, "wb");
			assert_non_null(f);
			/* Large blocks and small ones; what stands behind the frame. */
			size_t second = below(3) ? below(100000) : 0;
			int window_log = 10 + (int)(i + kind) % 8, checksum = (int)below(2);
			add_frame(f, text, len - second, levels[i], window_log, checksum,
				  below(2) ? 1 : 1 + (int)below(200));
			if (second)
				add_frame(f, text + len - second, second, 3, 0, (int)below(2), 1);
			fclose(f);
			inside += check_file(text, len);
		}
	/* Noise has no compressed blocks; of the others nearly every one can be a beginning. */
	assert_true(inside > 300);
	printf("%zu access points inside of frames\n", inside);
	free(text);
}

/* Far between, text whose literals have a tree: what is wrong of it may show late. */
static size_t sparse_text(char *out, size_t max)
{
	size_t at = 0;
	while (max - at > 1000) {
		size_t room = 2000 + below(6000), noise = 30000 + below(30000);
		at += csv_text(out + at, room < max - at ? room : max - at);
		for (size_t end = at + noise; at < end && max - at > 1000;) {
			at += noise_text(out + at, 300);
			for (size_t i = 0; i < 500; i++, at++)
				out[at] = out[at - 300];
		}
	}
	return at;
}

static size_t rows_text(char *out, size_t max, int sparse)
{
	size_t len = (sparse ? sparse_text : mixed_text)(out, max);
	for (size_t i = below(80); i < len; i += 1 + below(sparse ? 3000 : 300))
		out[i] = '\n';
	return len;
}

static void same_rows(struct index *ix, struct source *s, const char *text, uint64_t row, uint64_t count)
{
	struct rowscan scan;
	struct row_ref ref;
	struct error err;
	uint64_t at;
	assert_int_equal(rowscan_init(&scan, ix->syntax, &err), 0);
	assert_int_equal(index_seek(ix, s, &scan, row, &at, &err), 0);
	for (; at < row + count && at < ix->rows; at++) {
		if (rowscan_next(&scan, &ref, 0, &err) != ROWSCAN_ROW)
			fail_msg("%s: %s", err.place, err.text);
		if (memcmp(ref.data, text + ref.offset, ref.len) != 0)
			fail_msg("another row %llu, at %llu", (unsigned long long)at,
				 (unsigned long long)ref.offset);
	}
	rowscan_free(&scan);
}

/* Access points inside of frames that the index keeps. */
static size_t check_rows(const char *text, size_t points_max)
{
	const struct index_bounds bounds = {.every = 4, .places_max = 1 << 16, .span = 1,
					    .points_max = points_max};
	struct source *s;
	struct index *ix;
	struct error err;
	size_t inside = 0;
	assert_int_equal(source_open(&s, path, &err), 0);
	if (index_build_within(&ix, s, row_syntax(ROW_LINES), &bounds, NULL, NULL, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	for (size_t i = 0; i < ix->point_count; i++)
		inside += ix->point[i].window_len > 0;
	/* Where the source stands now counts, too. */
	for (int i = 0; i < 25; i++)
		same_rows(ix, s, text, below((uint32_t)ix->rows), below(3) ? 20 : 4000);
	for (size_t i = 0; i < ix->place_count; i += 1 + ix->place_count / 12)
		same_rows(ix, s, text, i * ix->every, i % 3 ? 1 : ix->rows);
	source_close(s);
	index_free(ix);
	return inside;
}

/* A defect in what is remembered costs access points, and never a row. */
static void test_wrong_points_are_not_kept(void **state)
{
	(void)state;
	static const int levels[] = {-5, 1, 3, 9, 19};
	char *text = malloc(TEXT);
	size_t made[WRONG_KINDS] = {0}, kept[WRONG_KINDS] = {0};
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
		for (int kind = RIGHT; kind < 2 * WRONG_KINDS; kind++) {
			size_t len = rows_text(text, TEXT, kind & 1), second = below(2) ? below(100000) : 0;
			FILE *f = fopen(path, "wb");
			assert_non_null(f);
			add_frame(f, text, len - second, levels[i], 10 + (int)below(4), (int)below(2), 1);
			if (second)
				add_frame(f, text + len - second, second, 3, 10, (int)below(2), 1);
			fclose(f);
			wrong = (enum wrong)(kind / 2);
			dictionaries = 0;
			kept[wrong] += check_rows(text, POINTS_MAX);
			made[wrong] += dictionaries;
			check_rows(text, 8);
			wrong = RIGHT;
		}
	for (int kind = RIGHT; kind < WRONG_KINDS; kind++) {
		printf("%d: %zu of %zu points inside of frames kept\n", kind, kept[kind], made[kind]);
		assert_true(made[kind] > 20);
		assert_true(kind == RIGHT ? kept[kind] == made[kind] : kept[kind] < made[kind]);
	}
	free(text);
}

static int drop_point(const struct source_point *p, const void *window, size_t len, void *arg,
		      struct error *err)
{
	(void)p;
	(void)window;
	(void)len;
	(void)arg;
	(void)err;
	return 0;
}

/* Whatever the file holds: an error with the file's name, or some text. */
static void test_damage_is_survived(void **state)
{
	(void)state;
	enum { LEN = 100000 };
	const int rounds = ROUNDS(150);
	static unsigned char packed[2 * LEN];
	char *text = malloc(LEN), *room = malloc(LEN);
	size_t failed = 0;
	for (int round = 0; round < rounds; round++) {
		size_t len = (round % 2 ? csv_text : copied_text)(text, LEN), got = 1, total = 0;
		struct error err = {0};
		struct source *s;
		uint64_t span = 1;
		FILE *f = fopen(path, "w+b");
		assert_non_null(f);
		size_t bytes = add_frame(f, text, len, 1 + round % 12, 10, 0, 1 + round % 60);
		rewind(f);
		assert_int_equal(fread(packed, 1, bytes, f), bytes);
		/* Headers of blocks are near the start of each; the first one is hit oftener. */
		for (int i = 0; i <= round % 3; i++)
			packed[6 + below(below(2) ? 200 : (uint32_t)bytes - 6)] ^=
				(unsigned char)(1u << below(8));
		rewind(f);
		assert_int_equal(fwrite(packed, 1, bytes, f), bytes);
		fclose(f);
		assert_int_equal(source_open(&s, path, &err), 0);
		source_collect(s, &span, drop_point, NULL);
		int result = 0;
		while (result == 0 && got > 0 && total < 100 * LEN) {
			result = source_read(s, room, LEN, &got, &err);
			total += got;
		}
		if (result != 0) {
			failed++;
			assert_int_equal(err.code, ERROR_DATA);
			assert_string_equal(err.place, path);
		}
		source_close(s);
	}
	assert_true(failed > (size_t)rounds / 20); /* most bits are of literals */
	free(text);
	free(room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_from_every_point, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_wrong_points_are_not_kept, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_damage_is_survived, set_up, scratch_remove),
	};
	return cmocka_run_group_tests_name("data_zstd", tests, NULL, NULL);
}
