/* Rows that go, and parameters on their way between stores: store_move.h, table_remove(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "param/store_move.h"
#include "param/table.h"
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define KEYS 4000
#define UNDO 244002641u /* the inverse of the multiplier of places */

static void init(uint32_t key, float *row, void *arg)
{
	(void)arg;
	row[0] = (float)key;
	row[1] = row[2] = 0.5f;
}

static void init_one(uint32_t key, float *row, void *arg)
{
	(void)arg;
	row[0] = (float)key;
}

/* Against a plain array, with tables that are nearly full and nearly empty. */
static void rows_go_and_come_back(void **state)
{
	static int here[KEYS];
	struct table *t;
	struct error err;
	uint32_t key[64];
	float *row[64];
	size_t count = 0;

	(void)state;
	srand(5);
	assert_int_equal(table_new(&t, 1, 2, init, NULL, &err), 0);
	for (int round = 0; round < ROUNDS(4000); round++) {
		size_t n = 1 + (size_t)rand() % 64;
		int add = rand() % 100 < (round / 400 % 2 ? 40 : 60);
		for (size_t i = 0; i < n; i++) {
			key[i] = (uint32_t)(rand() % KEYS) * 2654435761u;
			size_t k = key[i] * UNDO; /* its inverse */
			k = (uint32_t)k;
			count += (size_t)(add && !here[k]);
			count -= (size_t)(!add && here[k]);
			here[k] = add;
		}
		if (add)
			assert_int_equal(table_rows(t, key, n, row, &err), 0);
		else
			table_remove(t, key, n);
		assert_int_equal(table_count(t), count);
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		key[0] = k * 2654435761u;
		table_look(t, key, 1, row);
		assert_int_equal(row[0] != NULL, here[k]);
		if (row[0])
			assert_true(table_key(row[0]) == key[0] && row[0][0] == (float)key[0]);
	}
	for (size_t i = 0; i < count; i++)
		assert_true(here[(uint32_t)(table_key(table_at(t, i)) * UNDO)]);
	table_free(t);
}

/* In CPU time: no call takes a large part of what all take together. */
static void a_table_grows_a_little_at_a_time(void **state)
{
	enum { AT_ONCE = 64, CALLS = 40000 };
	uint32_t key[AT_ONCE];
	float *row[AT_ONCE], *first[AT_ONCE];
	clock_t begin = clock(), longest = 0;
	struct table *t;
	struct error err;

	(void)state;
	assert_int_equal(table_new(&t, 1, 2, init, NULL, &err), 0);
	for (uint32_t i = 0; i < CALLS; i++) {
		clock_t called = clock();
		for (uint32_t k = 0; k < AT_ONCE; k++)
			key[k] = i * AT_ONCE + k;
		assert_int_equal(table_rows(t, key, AT_ONCE, row, &err), 0);
		if (i == 0)
			memcpy(first, row, sizeof first);
		longest = clock() - called > longest ? clock() - called : longest;
	}
	assert_true(longest < (clock() - begin) / 10);
	assert_int_equal(table_count(t), AT_ONCE * CALLS);
	/* where they were, each once */
	for (uint32_t i = CALLS; i-- > 0;) {
		for (uint32_t k = 0; k < AT_ONCE; k++)
			key[k] = i * AT_ONCE + k;
		table_look(t, key, AT_ONCE, row);
		for (uint32_t k = 0; k < AT_ONCE; k++)
			assert_true(row[k] == table_at(t, key[k]) && row[k][0] == (float)key[k]);
	}
	assert_memory_equal(first, row, sizeof first);
	/* and gone */
	for (uint32_t i = 0; i < CALLS; i++) {
		for (uint32_t k = 0; k < AT_ONCE; k++)
			key[k] = i * AT_ONCE + k;
		table_remove(t, key, AT_ONCE);
	}
	assert_int_equal(table_count(t), 0);
	table_look(t, key, 1, row);
	assert_null(row[0]);
	table_free(t);
}

static long faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_minflt;
}

/* Hashes are spread evenly, so that its segments fill alike: they do not grow in one call for all that. */
static void segments_do_not_grow_together(void **state)
{
	enum { AT_ONCE = 1 << 16, CALLS = 80, FEW = 4 };
	uint32_t *key = malloc(AT_ONCE * sizeof *key);
	float **row = malloc(AT_ONCE * sizeof *row);
	long most = 0, begin = 0;
	struct table *t;
	struct error err;

	(void)state;
	memset(row, 0, AT_ONCE * sizeof *row);
	memset(key, 0, AT_ONCE * sizeof *key);
	assert_int_equal(table_new(&t, 1, 0, init_one, NULL, &err), 0);
	for (uint32_t i = 0; i < CALLS; i++) {
		long called = faults();
		begin = i < FEW ? called : begin; /* not while there is one, in small pages */
		for (uint32_t k = 0; k < AT_ONCE; k++)
			key[k] = i * AT_ONCE + k;
		assert_int_equal(table_rows(t, key, AT_ONCE, row, &err), 0);
		if (i >= FEW && faults() - called > most)
			most = faults() - called;
	}
	long all = faults() - begin;
	table_free(t);
	free(row);
	free(key);
	assert_true(most < all / 8);
}

/* Murmur3's finalizer the other way round: the key with this hash. */
static uint32_t key_of(uint32_t hash)
{
	hash ^= hash >> 16;
	hash *= 0x7ed1b41du;
	hash ^= hash >> 13 ^ hash >> 26;
	hash *= 0xa5cb9243u;
	return hash ^ hash >> 16;
}

/* All keys of one segment that can't become two any more: it is full, and others are not. */
static void a_segment_may_be_full(void **state)
{
	enum { SLOTS = 1 << 18, OTHERS = 1000, GONE = 1 << 13 }; /* one of so many goes */
	const uint32_t high = 0x2a5cu << 18, other = 0x2a5du << 18;
	struct table *t;
	struct error err;
	float *row;

	(void)state;
	assert_int_equal(table_new(&t, 1, 0, init_one, NULL, &err), 0);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t key = key_of(high | i * 40503u % SLOTS);
		assert_int_equal(table_rows(t, &key, 1, &row, &err), 0);
		key = key_of(other | i);
		if (i < OTHERS)
			assert_int_equal(table_rows(t, &key, 1, &row, &err), 0);
	}
	assert_int_equal(table_count(t), SLOTS + OTHERS);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t key = key_of(high | i);
		table_look(t, &key, 1, &row);
		assert_true(row && table_key(row) == key && row[0] == (float)key);
	}
	for (uint32_t i = 0; i < SLOTS; i += GONE) {
		uint32_t key = key_of(high | i);
		table_remove(t, &key, 1);
	}
	assert_int_equal(table_count(t), SLOTS - SLOTS / GONE + OTHERS);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t key = key_of(high | i);
		table_look(t, &key, 1, &row);
		assert_true(i % GONE ? row && table_key(row) == key : !row);
		key = key_of(other | i);
		table_look(t, &key, 1, &row);
		assert_true((row != NULL) == (i < OTHERS));
	}
	table_free(t);
}

/* ---- stores ---- */

#define DENSE 30000
#define PARTS 4

static struct layout layout;
static struct opt opt = {.kind = OPT_ADAM, .lr = 0.01f};

struct bytes {
	char *at;
	size_t len, room;
};

static int put(void *owner, struct record_out *r, const void *values, size_t bytes,
	       struct error *err)
{
	struct bytes *b = owner;
	size_t len = record_end(r, NULL);

	(void)err;
	assert_true(b->len + len + bytes <= b->room);
	memcpy(b->at + b->len, r->data, len);
	if (bytes)
		memcpy(b->at + b->len + len, values, bytes);
	b->len += len + bytes;
	return 0;
}

static struct bytes stream(const struct store *s, struct store_share *share)
{
	struct bytes b = {.room = store_share_bytes(s, share)};
	const struct stream_sink sink = {.put = put, .owner = &b};
	struct error err;

	b.at = malloc(b.room);
	assert_non_null(b.at);
	assert_int_equal(store_share_write(s, share, &sink, &err), 0);
	return b;
}

static void random_map(struct map *m, uint64_t version)
{
	map_even(m, PARTS, DENSE);
	m->version = version;
	for (int i = 1; i < PARTS; i++) {
		m->dense_begin[i] = (uint64_t)rand() % (DENSE + 1);
		m->key_begin[i] = (uint64_t)rand() * 2;
		for (int k = i; k > 1; k--) {
			uint64_t *d = m->dense_begin, *p = m->key_begin, x;
			if (d[k - 1] > d[k])
				x = d[k], d[k] = d[k - 1], d[k - 1] = x;
			if (p[k - 1] > p[k])
				x = p[k], p[k] = p[k - 1], p[k - 1] = x;
		}
	}
	assert_true(map_is_whole(m, DENSE));
}

/* Gradients that depend on the parameter only. */
static void make_step(struct store *s)
{
	size_t n = store_dense_count(s), rows = 0;
	float *dense = malloc((n + 1) * sizeof *dense), *row_gradient = malloc(KEYS * 2 * sizeof *dense);
	uint32_t *key = malloc(KEYS * sizeof *key);
	float **row = malloc(KEYS * sizeof *row);
	struct error err;

	for (size_t i = 0; i < n; i++)
		dense[i] = (float)((store_dense_begin(s) + i) % 7) - 3.0f;
	for (uint32_t k = 0; k < KEYS; k++) {
		if (map_part_of_key(store_map(s), k) != store_part(s))
			continue;
		row_gradient[2 * rows] = (float)(k % 5);
		row_gradient[2 * rows + 1] = -1.0f;
		key[rows++] = k;
	}
	assert_int_equal(store_rows(s, key, rows, 1, row, &err), 0);
	struct store_push push = {.dense = n ? dense : NULL,
				  .rows = rows,
				  .row = row,
				  .row_gradient = row_gradient,
				  .count = 1,
				  .size = 1,
				  .scale = 1.0};
	assert_int_equal(store_apply(s, &push, 1, &err), 0);
	free(dense);
	free(row_gradient);
	free(key);
	free(row);
}

static void look(struct store *const *s, uint32_t parts, float *dense, float *rows)
{
	for (uint32_t i = 0; i < parts; i++)
		store_pull_dense(s[i], dense + store_dense_begin(s[i]), 0);
	for (uint32_t k = 0; k < KEYS; k++)
		store_look_rows(s[map_part_of_key(store_map(s[0]), k)], &k, 1, rows + 2 * k);
}

/* From map to map; or half of it, and back. */
static void move_all(struct store *const *s, const struct map *to, int undo)
{
	struct store_incoming in[PARTS] = {0};
	struct store_share share[PARTS][PARTS] = {0};
	struct error err;

	for (uint32_t i = 0; i < PARTS; i++)
		assert_int_equal(store_incoming_begin(&in[i], s[i], to, i, &err), 0);
	for (uint32_t i = 0; i < PARTS; i++) {
		int learns = rand() % 2, known = !learns;
		while (known == 0)
			known = store_learn_places(s[i], 100, &err);
		assert_int_equal(known, 1);
		for (uint32_t k = 0; k < PARTS; k++) {
			size_t at = 0;
			if (k == i)
				continue;
			share[i][k] = store_share_of(s[i], to, k);
			/* of rows whose places are known none is looked at */
			if (learns)
				assert_int_equal(store_share_find(s[i], &share[i][k], &at, 0, &err), 0);
			assert_true(!learns || at == store_row_count(s[i]));
			while (at < store_row_count(s[i]))
				assert_int_equal(store_share_find(s[i], &share[i][k], &at, 100, &err), 0);
			if (undo && rand() % 2)
				continue;
			struct bytes b = stream(s[i], &share[i][k]);
			assert_int_equal(store_incoming_take(&in[k], b.at, b.len, &err), 0);
			/* cut short, or what is not ours: refused */
			assert_int_equal(store_incoming_take(&in[k], b.at, b.len - 1, &err), -1);
			if (!store_share_is_empty(&share[i][k]) && undo)
				assert_int_equal(store_incoming_take(&in[i], b.at, b.len, &err), -1);
			free(b.at);
		}
	}
	for (uint32_t i = 0; i < PARTS; i++) {
		if (undo)
			store_incoming_undo(&in[i]);
		else
			store_adopt(s[i], to, i, share[i], PARTS);
		store_incoming_free(&in[i]);
		for (uint32_t k = 0; k < PARTS; k++)
			store_share_free(&share[i][k]);
	}
}

static void parts_are_as_one(void **state)
{
	static float dense[2][DENSE], rows[2][2 * KEYS];
	struct store *part[PARTS], *alone;
	struct map map, one;
	struct layout_table table = {.name = "t", .width = 2, .zero_columns = 1, .scale = 0.5};
	struct error err;

	(void)state;
	srand(9);
	layout_start(&layout, 4);
	assert_int_equal(layout_add_tensor(&layout, "a", DENSE - 100, 1, LAYOUT_NORMAL, 1.0,
					   LAYOUT_OPTIMIZER, &err), 0);
	assert_int_equal(layout_add_tensor(&layout, "b", 100, 1, LAYOUT_ZERO, 0.0, LAYOUT_ADD, &err), 0);
	assert_int_equal(layout_set_table(&layout, &table, &err), 0);
	map_even(&one, 1, DENSE);
	map_even(&map, PARTS, DENSE);
	assert_int_equal(store_new(&alone, &layout, &one, 0, &opt, &err), 0);
	for (uint32_t i = 0; i < PARTS; i++)
		assert_int_equal(store_new(&part[i], &layout, &map, i, &opt, &err), 0);
	for (int round = 0; round < ROUNDS(30); round++) {
		make_step(alone);
		for (uint32_t i = 0; i < PARTS; i++)
			make_step(part[i]);
		random_map(&map, (uint64_t)round + 2);
		move_all(part, &map, rand() % 3 == 0);
		size_t all = 0;
		for (uint32_t i = 0; i < PARTS; i++)
			all += store_row_count(part[i]);
		assert_int_equal(all, KEYS);
		look(&alone, 1, dense[0], rows[0]);
		look(part, PARTS, dense[1], rows[1]);
		assert_memory_equal(dense[0], dense[1], sizeof dense[0]);
		assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
	}
	store_free(alone);
	for (uint32_t i = 0; i < PARTS; i++)
		store_free(part[i]);
}

/* KiB that this process may write. */
static long writable(void)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		(void)sscanf(line, "VmData: %ld", &kib);
	fclose(f);
	assert_true(kib >= 0);
	return kib;
}

/* As that of what has been given away. */
static void memory_for_what_did_not_come_goes(void **state)
{
	struct store_incoming in = {0};
	struct store *s;
	struct map map;
	struct error err;
	uint64_t count = 4 << 20;

	(void)state;
	layout_start(&layout, 4);
	assert_int_equal(layout_add_tensor(&layout, "a", count, 1, LAYOUT_ZERO, 0.0, LAYOUT_OPTIMIZER,
					   &err), 0);
	map_even(&map, 4, count);
	assert_int_equal(store_new(&s, &layout, &map, 1, &opt, &err), 0);
	map.dense_begin[1] = 0;
	map.dense_begin[2] = map.dense_begin[3] = count;
	long before = writable();
	assert_int_equal(store_incoming_begin(&in, s, &map, 1, &err), 0);
	assert_true(writable() >= before + 30000); /* 3/4 of 48 MiB */
	while (!store_incoming_warm(&in, 1 << 20))
		;
	store_incoming_undo(&in);
	assert_true(writable() <= before + 1000);
	/* what it has had all the time is there */
	assert_true(store_dense(s)[0] == 0.0f && store_dense(s)[store_dense_count(s) - 1] == 0.0f);
	store_incoming_free(&in);
	store_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_go_and_come_back),
		cmocka_unit_test(a_table_grows_a_little_at_a_time),
		cmocka_unit_test(segments_do_not_grow_together),
		cmocka_unit_test(a_segment_may_be_full),
		cmocka_unit_test(parts_are_as_one),
		cmocka_unit_test(memory_for_what_did_not_come_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
