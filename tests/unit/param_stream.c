/*
 * param_stream: what a store writes, a store reads, also in the form of a hand-over; and whatever
 * comes in place of it harms nobody.
 */
#include "param/store.h"
#include "param/stream.h"
#include "tests/unit/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DENSE 100003 /* more than a block that is taken at once */
#define WIDTH 3
#define ROWS 40000

/* A conversation in memory: lines, and values behind those that say bytes=. */
struct tape {
	char *data;
	size_t len, room, at;
	size_t blocks;
};

static struct layout layout;
static struct map map;
static struct opt opt;

static int put(void *owner, struct record_out *r, const void *values, size_t bytes,
	       struct error *err)
{
	struct tape *t = owner;

	(void)err;
	if (bytes)
		record_add_u64(r, "bytes", bytes);
	size_t len = record_end(r, NULL);
	assert_true(len > 0 && t->room - t->len > len + bytes);
	memcpy(t->data + t->len, r->data, len);
	if (bytes)
		memcpy(t->data + t->len + len, values, bytes);
	t->len += len + bytes;
	t->blocks += bytes > 0;
	return 0;
}

static int get(void *owner, void *to, size_t bytes, struct error *err)
{
	struct tape *t = owner;

	if (bytes > t->len - t->at)
		return error_set(err, ERROR_DATA, NULL, "the tape ends");
	memcpy(to, t->data + t->at, bytes);
	t->at += bytes;
	return 0;
}

static struct store *make(uint32_t part, uint32_t parts)
{
	struct store *s;

	map_even(&map, parts, DENSE);
	assert_int_equal(store_new(&s, &layout, &map, part, &opt, NULL), 0);
	return s;
}

static struct store *make_full(void)
{
	static uint32_t key[ROWS];
	static float *row[ROWS];
	struct store *s = make(0, 1);

	for (uint32_t i = 0; i < ROWS; i++)
		key[i] = i * 2246822519u;
	assert_int_equal(store_rows(s, key, ROWS, 1, row, NULL), 0);
	for (size_t i = 0; i < ROWS; i++)
		row[i][WIDTH + 1] = (float)i; /* a slot */
	return s;
}

static void write_tape(const struct store *s, struct tape *t)
{
	const struct stream_sink sink = {.put = put, .owner = t};

	*t = (struct tape){.room = 16 << 20};
	t->data = malloc(t->room);
	assert_int_equal(store_write(s, &sink, NULL), 0);
}

/* 0, or -1 when the tape is no stream. */
static int read_tape(struct tape *t, struct store *s, struct error *err)
{
	struct stream_reader *reader = stream_reader_new();
	struct record *r = malloc(sizeof *r);
	const struct stream_source source = {get, t};
	struct stream_block block;
	int rc = 0, same = 0, expected = 0;

	t->at = 0;
	while (rc == 0 && t->at < t->len) {
		char *line = t->data + t->at, *end = memchr(line, '\n', t->len - t->at);
		if (!end || record_parse(r, line, (size_t)(end - line), err) != 0) {
			rc = -1;
			break;
		}
		t->at += (size_t)(end - line) + 1;
		int kind = stream_record(reader, r, &block, err);
		if (kind == STREAM_BLOCK && !expected) {
			rc = store_expect(s, reader, &same, err);
			expected = 1;
		}
		struct stream_taker taker = store_taker(s);
		if (kind < 0 || (rc == 0 && kind == STREAM_BLOCK &&
				 stream_read(reader, &block, &source, &taker, err) != 0))
			rc = -1;
	}
	if (rc == 0)
		rc = stream_complete(reader, err);
	stream_reader_free(reader);
	free(r);
	return rc;
}

static void same_rows(struct store *a, struct store *b, uint32_t part)
{
	for (uint32_t i = 0; i < ROWS; i += 7) {
		uint32_t key = i * 2246822519u;
		float *x, *y;
		if (map_part_of_key(store_map(b), key) != part)
			continue;
		assert_int_equal(store_rows(a, &key, 1, 0, &x, NULL), 0);
		assert_int_equal(store_rows(b, &key, 1, 0, &y, NULL), 0);
		assert_memory_equal(x, y, 2 * WIDTH * sizeof *x);
	}
}

static void a_hand_over_gives_the_same_store(void **state)
{
	static float x[DENSE], y[DENSE];
	struct store *a = make_full();
	struct tape t, again;

	(void)state;
	write_tape(a, &t);
	assert_true(t.blocks > 2 + 3); /* several of each */
	assert_null(memmem(t.data, t.len, " sum=", 5));
	for (uint32_t parts = 1; parts <= 3; parts++) { /* the whole, or a share of it */
		size_t rows = 0;
		for (uint32_t part = 0; part < parts; part++) {
			struct store *b = make(part, parts);
			assert_int_equal(read_tape(&t, b, NULL), 0);
			store_pull_dense(a, x, 0);
			store_pull_dense(b, y, 0);
			assert_memory_equal(x + store_dense_begin(b), y,
					    store_dense_count(b) * sizeof *y);
			rows += store_row_count(b);
			same_rows(a, b, part);
			if (parts == 1) { /* rows in the same order, the same bytes */
				write_tape(b, &again);
				assert_int_equal(again.len, t.len);
				assert_memory_equal(again.data, t.data, t.len);
				free(again.data);
			}
			store_free(b);
		}
		assert_int_equal(rows, ROWS);
	}
	free(t.data);
	store_free(a);
}

static uint64_t mix(uint64_t z)
{
	z += 0x9E3779B97F4A7C15ull;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

/* Under ASan a step outside of a buffer would show. */
static void hostile_streams_do_no_harm(void **state)
{
	struct store *a, *b;
	struct tape t, bad;
	int taken = 0;

	(void)state;
	layout.tensor[0].rows = 40;
	map_even(&map, 1, 40);
	assert_int_equal(store_new(&a, &layout, &map, 0, &opt, NULL), 0);
	uint32_t key[5] = {1, 2, 3, 4, 5};
	float *row[5];
	assert_int_equal(store_rows(a, key, 5, 1, row, NULL), 0);
	write_tape(a, &t);
	bad = t;
	bad.data = malloc(t.len);
	for (uint64_t turn = 0; turn < (uint64_t)ROUNDS(20000); turn++) {
		struct error why;
		assert_int_equal(store_new(&b, &layout, &map, 0, &opt, NULL), 0);
		memcpy(bad.data, t.data, t.len);
		bad.len = turn % 5 ? t.len : mix(turn) % t.len;
		for (uint64_t i = 0; i < 1 + turn % 3 && bad.len; i++) {
			uint64_t r = mix(turn * 8 + i);
			bad.data[r % bad.len] = (char)(r & 1ull << 40 ? '0' + (r >> 41) % 10 : r >> 41);
		}
		taken += read_tape(&bad, b, &why) == 0;
		store_free(b);
	}
	assert_in_range(taken, ROUNDS(100), ROUNDS(19000));
	free(bad.data);
	free(t.data);
	store_free(a);
}

static int prepare(void **state)
{
	struct layout_table table = {.name = "t", .width = WIDTH, .zero_columns = 1, .scale = 0.1};

	(void)state;
	layout_start(&layout, 42);
	if (layout_add_tensor(&layout, "a", DENSE, 1, LAYOUT_NORMAL, 0.5, LAYOUT_OPTIMIZER, NULL) != 0)
		return -1;
	return layout_set_table(&layout, &table, NULL) == 0 ? opt_by_name(&opt, "adagrad", NULL) : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hand_over_gives_the_same_store),
		cmocka_unit_test(hostile_streams_do_no_harm),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}
