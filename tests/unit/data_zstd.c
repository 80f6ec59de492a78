/* data/source_zstd: frames behind one another are one text, which goes on from each of them; an index
 * of it reaches every row; damage is named. */
#include "data/index.h"
#include "data/source.h"
#include "rounds.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include <cmocka.h>

enum { TEXT = 3 << 18, FRAMES_MAX = 64 };

static char path[128];
static uint64_t random_state = 1;

static uint32_t below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % n;
}

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/file", scratch);
	return 0;
}

/* ---- files ---- */

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

static size_t noise_text(char *out, size_t max)
{
	for (size_t i = 0; i < max; i++)
		out[i] = (char)below(256);
	return max;
}

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

/* As pzstd(1) writes one before each frame. */
static void add_skipped(FILE *f)
{
	static const unsigned char frame[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'f', 'o', 'u', 'r'};
	assert_int_equal(fwrite(frame, 1, sizeof frame, f), sizeof frame);
}

/* The text in so many frames; some are empty. */
static void write_frames(const char *text, size_t len, int frames)
{
	FILE *f = fopen(path, "wb");
	size_t from = 0;
	assert_non_null(f);
	for (int i = 0; i < frames; i++) {
		size_t to = i + 1 == frames ? len : from + below((uint32_t)(len - from) / 2 + 1);
		if (below(3) == 0)
			add_skipped(f);
		if (below(8) == 0)
			add_frame(f, text, 0, 3, 0, (int)below(2), 1);
		add_frame(f, text + from, to - from, (int)below(20) - 4, (int)below(2) * 10,
			  (int)below(2), 1 + (int)below(20));
		from = to;
	}
	fclose(f);
}

/* ---- the text ---- */

struct points {
	struct source_point point[2 * FRAMES_MAX];
	size_t count;
};

static int on_point(const struct source_point *p, const void *window, size_t len, void *arg,
		    struct error *err)
{
	struct points *all = arg;
	(void)err;
	assert_null(window);
	assert_int_equal(len, 0);
	assert_int_equal(p->bits, 0);
	assert_true(all->count < 2 * FRAMES_MAX);
	all->point[all->count++] = *p;
	return 0;
}

/* From where the source stands to the end. */
static void same_to_the_end(struct source *s, const char *text, size_t len)
{
	static char buffer[50000];
	struct error err;
	size_t at = (size_t)source_offset(s), got;
	do {
		if (source_read(s, buffer, 1 + below(sizeof buffer), &got, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		assert_true(got <= len - at);
		assert_memory_equal(buffer, text + at, got);
		at += got;
	} while (got > 0);
	assert_int_equal(at, len);
}

static void test_from_every_frame(void **state)
{
	(void)state;
	const int rounds = ROUNDS(40);
	char *text = malloc(TEXT);
	for (int round = 0; round < rounds; round++) {
		size_t len = (round % 4 ? csv_text : noise_text)(text, TEXT);
		struct points all = {0};
		struct source *s;
		struct error err;
		uint64_t span = 0;
		int frames = 1 + (int)below(FRAMES_MAX / 4);
		write_frames(text, len, frames);
		assert_int_equal(source_open(&s, path, &err), 0);
		assert_int_equal(source_packing(s), SOURCE_ZSTD);
		source_collect(s, &span, on_point, &all);
		same_to_the_end(s, text, len);
		source_collect(s, NULL, NULL, NULL);
		assert_true(all.count >= (size_t)frames);
		while (all.count-- > 0) {
			assert_int_equal(source_seek_point(s, &all.point[all.count], NULL, 0, &err), 0);
			same_to_the_end(s, text, len);
		}
		source_close(s);
	}
	free(text);
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
		assert_memory_equal(ref.data, text + ref.offset, ref.len);
	}
	rowscan_free(&scan);
}

static void test_every_row_is_reached(void **state)
{
	(void)state;
	const int rounds = ROUNDS(20);
	const struct index_bounds bounds = {.every = 4, .places_max = 1 << 16, .span = 1, .points_max = 8};
	char *text = malloc(TEXT);
	for (int round = 0; round < rounds; round++) {
		size_t len = csv_text(text, TEXT);
		int frames = 1 + (int)below(12);
		struct source *s;
		struct index *ix;
		struct error err;
		write_frames(text, len, frames);
		assert_int_equal(source_open(&s, path, &err), 0);
		if (index_build_within(&ix, s, row_syntax(ROW_LINES), &bounds, NULL, NULL, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		assert_true(ix->point_count >= 1 && ix->point_count <= 8);
		assert_true(index_span_most(ix) <= len && index_span_most(ix) >= len / 24);
		if (frames == 1)
			assert_true(index_span_most(ix) == len);
		/* Where the source stands now counts, too. */
		for (int i = 0; i < 25; i++)
			same_rows(ix, s, text, below((uint32_t)ix->rows), below(3) ? 20 : 4000);
		source_close(s);
		index_free(ix);
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
		size_t len = (round % 2 ? csv_text : noise_text)(text, LEN), got = 1, total = 0;
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
		cmocka_unit_test_setup_teardown(test_from_every_frame, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_every_row_is_reached, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_damage_is_survived, set_up, scratch_remove),
	};
	return cmocka_run_group_tests_name("data_zstd", tests, NULL, NULL);
}
