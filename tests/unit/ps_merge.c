/* ps/merge: a store that takes each difference has the bits of the one that has made the steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/incoming.h"
#include "ps/merge.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define KEYS 3000
#define PUSHES 3
#define ROWS 200 /* of a push */

static struct layout layout;
static uint64_t random_state = 27;

static struct store *make(uint32_t width, uint64_t dense)
{
	struct layout_table table = {.name = "t", .width = width, .scale = 0.1};
	struct opt opt;
	struct store *s;
	struct map map;

	layout_start(&layout, 42);
	if (dense)
		assert_int_equal(layout_add_tensor(&layout, "a", dense, 1, LAYOUT_NORMAL, 0.5,
						   LAYOUT_OPTIMIZER, NULL),
				 0);
	if (width)
		assert_int_equal(layout_set_table(&layout, &table, NULL), 0);
	assert_int_equal(opt_by_name(&opt, "adam", NULL), 0);
	opt.lr = 0.5f;
	map_even(&map, 1, dense);
	assert_int_equal(store_new(&s, &layout, &map, 0, &opt, NULL), 0);
	return s;
}

/* One unit for each of these stores; the first also makes rows that nobody changes. */
static void apply(struct store **store, size_t stores, uint32_t width, uint64_t dense)
{
	uint32_t key[PUSHES + 1][KEYS];
	size_t values = (size_t)ROWS * width + dense;
	float *row[ROWS * PUSHES], *gradient = calloc(values, sizeof *gradient);
	struct store_push push[PUSHES];

	for (size_t i = 0; i <= PUSHES; i++)
		random_permute(key[i], KEYS, random_next(&random_state));
	for (size_t i = 0; i < values; i++)
		gradient[i] = (float)random_uniform(&random_state) - 0.5f;
	if (width)
		assert_int_equal(store_rows(store[0], key[PUSHES], ROWS, 1, row, NULL), 0);
	for (size_t s = 0; s < stores; s++) {
		for (size_t i = 0; i < PUSHES; i++) {
			push[i] = (struct store_push){.dense = dense ? gradient : NULL,
						      .rows = width ? ROWS : 0,
						      .row = row + i * ROWS,
						      .row_gradient = gradient + dense,
						      .count = 1,
						      .scale = 1};
			if (width)
				assert_int_equal(store_rows(store[s], key[i], ROWS, 1,
							    row + i * ROWS, NULL),
						 0);
		}
		assert_int_equal(store_apply(store[s], push, PUSHES, NULL), 0);
	}
	free(gradient);
}

/* to gets what has changed at p. */
static void take(struct ps *p, struct store *to)
{
	struct incoming in = {.store = to};
	struct record *r = malloc(sizeof *r);
	uint64_t bytes, iteration;
	size_t len;
	char *text = merge_write(p, p->buffers, &len, NULL), *end = text ? memchr(text, '\n', len) : NULL;

	assert_non_null(end);
	assert_int_equal(record_parse(r, text, (size_t)(end - text), NULL), 0);
	assert_true(record_is(r, "merge"));
	assert_int_equal(record_u64(r, "iteration", 0, UINT64_MAX, &iteration, NULL), 0);
	assert_int_equal(iteration, p->applied);
	assert_int_equal(record_u64(r, "bytes", 0, UINT64_MAX, &bytes, NULL), 0);
	assert_int_equal(bytes, len - (size_t)(end + 1 - text));
	assert_int_equal(incoming_begin(&in, NULL), 0);
	assert_int_equal(incoming_text(&in, end + 1, (size_t)bytes, NULL), 0);
	incoming_end(&in);
	buffer_give(text);
	free(r);
}

static void compare(const struct store *a, const struct store *b, uint32_t width, uint64_t dense)
{
	size_t values = (size_t)KEYS * width;
	float *at = calloc(2 * values + 1, sizeof *at);
	uint32_t key[KEYS];

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	if (width) {
		store_look_rows(a, key, KEYS, at);
		store_look_rows(b, key, KEYS, at + values);
		assert_memory_equal(at, at + values, values * sizeof *at);
	}
	if (dense)
		assert_memory_equal(store_dense(a), store_dense(b), dense * sizeof *at);
	free(at);
}

static void go(uint32_t width, uint64_t dense)
{
	struct store *store[] = {make(width, dense), make(width, dense)};
	struct ps *p = calloc(1, sizeof *p);
	uint64_t dense_bytes = dense * 3 * sizeof(float); /* with two slots */

	p->store = store[0];
	p->buffers = buffers_new();
	store_begin_changes(p->store);
	for (p->applied = 0; p->applied < 8; p->applied++) {
		for (uint64_t unit = 0; unit < p->applied % 3; unit++) {
			apply(store, 1, width, dense);
			(void)store_mark(p->store); /* as for a checkpoint */
		}
		take(p, store[1]);
		compare(store[0], store[1], width, dense);
		assert_int_equal(store_row_count(store[0]), store_row_count(store[1]));
		assert_int_equal(store_changes_bytes(p->store), dense_bytes);
	}
	apply(store, 2, width, dense); /* slots and the number of steps are the same, too */
	compare(store[0], store[1], width, dense);
	for (size_t i = 0; i < 2; i++)
		store_free(store[i]);
	buffers_free(p->buffers);
	free(p);
}

static void differences_make_the_same_store(void **state)
{
	(void)state;
	go(8, 1000);
	go(1, 0);
	go(0, 1000);
	go(400, 1);
}

/* Each row has 48 kB: those of a unit have more than 32 MiB. */
static void many_rows_are_large_if_the_dense_range_is_smaller(void **state)
{
	static const uint64_t dense[] = {0, 1000, 4000000};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct store *s = make(4000, dense[i]);
		struct ps *p = calloc(1, sizeof *p);
		p->store = s;
		store_begin_changes(s);
		assert_false(merge_is_large(p));
		apply(&s, 1, 4000, dense[i]);
		assert_int_equal(merge_is_large(p), i < 2);
		store_begin_changes(s);
		assert_false(merge_is_large(p));
		store_free(s);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_make_the_same_store),
		cmocka_unit_test(many_rows_are_large_if_the_dense_range_is_smaller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
