/*
 * The store: units applied against plain arithmetic, keys refused, rows that many workers touch,
 * and checkpoints that come back the same from any number of parts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "param/store.h"
#include "param/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct layout layout;
static struct opt opt;

static void prepare(const char *name, uint64_t dense, uint32_t width)
{
	struct layout_table table = {.name = "t", .width = width, .zero_columns = 1, .scale = 0.1};

	layout_start(&layout, 42);
	if (dense)
		assert_int_equal(layout_add_tensor(&layout, "a", dense, 1, LAYOUT_NORMAL, 0.5,
						   LAYOUT_OPTIMIZER, NULL),
				 0);
	if (width)
		assert_int_equal(layout_set_table(&layout, &table, NULL), 0);
	assert_int_equal(opt_by_name(&opt, name, NULL), 0);
	opt.lr = 0.5f;
}

static struct store *make(uint32_t part, uint32_t parts)
{
	static struct map map;
	struct store *s;

	map_even(&map, parts, layout_dense_count(&layout));
	assert_int_equal(store_new(&s, &layout, &map, part, &opt, NULL), 0);
	return s;
}

static void mean_over_all_samples_of_all_workers(void **state)
{
	float g0[10], g1[10], before[10], after[10];
	struct store_push push[] = {{.dense = g0, .count = 3, .scale = 1.0},
				    {.dense = g1, .count = 1, .scale = 0.5}};

	(void)state;
	prepare("sgd", 10, 0);
	struct store *s = make(0, 1);
	for (int i = 0; i < 10; i++) {
		g0[i] = (float)i;
		g1[i] = 10.0f;
	}
	store_pull_dense(s, before, 0);
	assert_int_equal(store_apply(s, push, 2, NULL), 0);
	store_pull_dense(s, after, 1);
	for (int i = 0; i < 10; i++)
		assert_float_equal(after[i], before[i] - 0.5f * ((float)i + 5.0f) / 4.0f, 1e-6f);
	push[1].size = 5; /* a whole batch of its worker: this one was cut short */
	store_pull_dense(s, before, 0);
	assert_int_equal(store_apply(s, push, 2, NULL), 0);
	store_pull_dense(s, after, 0);
	for (int i = 0; i < 10; i++)
		assert_float_equal(after[i], before[i] - 0.5f * ((float)i + 5.0f) / 8.0f, 1e-6f);
	push[0].count = push[1].count = 0; /* no samples: no mean, nothing happens */
	store_pull_dense(s, before, 0);
	assert_int_equal(store_apply(s, push, 2, NULL), 0);
	store_pull_dense(s, after, 0);
	assert_memory_equal(before, after, sizeof before);
	store_free(s);
}

/* Large ranges go past the caches, from and to any alignment. */
static void large_ranges_are_copied_whole(void **state)
{
	size_t n = 300007;
	float *out = malloc((n + 32) * sizeof *out), *near = malloc(n * sizeof *near);

	(void)state;
	prepare("sgd", n, 0);
	struct store *s = make(0, 1);
	store_pull_dense(s, near, 0);
	for (size_t shift = 0; shift < 20; shift += 3) {
		memset(out, 0, (n + 32) * sizeof *out);
		out[shift + n] = 7.0f;
		store_pull_dense(s, out + shift, 1);
		assert_memory_equal(out + shift, near, n * sizeof *out);
		assert_true(out[shift + n] == 7.0f);
	}
	store_free(s);
	free(out);
	free(near);
}

/* Threads make pieces of a long vector: the values are those of the flat vector. Under ftrl a step
 * with a gradient of 0 makes them anew, of the slots. */
static void a_long_vector_is_begun_in_pieces(void **state)
{
	size_t all = ((size_t)5 << 20) + 3, begin = all / 2, n = all - begin, other = 0;
	float *want = malloc(n * sizeof *want), *is = malloc(n * sizeof *is);
	float *zero = calloc(n, sizeof *zero);
	struct store_push push = {.dense = zero, .count = 1, .scale = 1.0};

	(void)state;
	prepare("ftrl", all, 0);
	struct store *s = make(1, 2);
	assert_int_equal(store_dense_begin(s), begin);
	layout_init_dense(&layout, begin, n, want);
	store_pull_dense(s, is, 0);
	assert_memory_equal(is, want, n * sizeof *is);
	assert_int_equal(store_apply(s, &push, 1, NULL), 0);
	store_pull_dense(s, is, 0);
	for (size_t i = 0; i < n; i++)
		other += fabsf(is[i] - want[i]) > 1e-5f;
	assert_int_equal(other, 0);
	store_free(s);
	free(want);
	free(is);
	free(zero);
}

static void rows_of_many_workers_are_summed_once(void **state)
{
	uint32_t k0[] = {7, 1000000, 3}, k1[] = {3, 8};
	float g0[] = {1, 1, 2, 2, 3, 3}, g1[] = {10, 20, 30, 40}, out[8], want[8];
	float *r0[3], *r1[2], *r[4];
	uint32_t all[] = {3, 7, 8, 1000000};

	(void)state;
	prepare("sgd", 0, 2);
	struct store *s = make(0, 1);
	for (int i = 0; i < 4; i++)
		layout_init_row(&layout, all[i], want + 2 * i);
	assert_int_equal(store_rows(s, k0, 3, 1, r0, NULL), 0);
	assert_int_equal(store_rows(s, k1, 2, 1, r1, NULL), 0);
	struct store_push push[] = {
		{.rows = 3, .row = r0, .row_gradient = g0, .count = 1, .scale = 1.0},
		{.rows = 2, .row = r1, .row_gradient = g1, .count = 1, .scale = 1.0}};
	assert_int_equal(store_apply(s, push, 2, NULL), 0);
	assert_int_equal(store_rows(s, all, 4, 0, r, NULL), 0);
	store_pull_rows(s, r, 4, out);
	const float sum[] = {13, 23, 1, 1, 30, 40, 2, 2};
	for (int i = 0; i < 8; i++)
		assert_float_equal(out[i], want[i] - 0.5f * sum[i] / 2.0f, 1e-6f);
	assert_int_equal(store_row_count(s), 4);
	store_free(s);
}

/* A step on many random rows, alone and by two workers, against one row at a time. */
static void many_rows(void **state)
{
	enum { KEYS = 5000, W = 3 };
	static uint32_t key[KEYS];
	static float g[KEYS * W], *row[KEYS], out[KEYS * W], expected[KEYS * W];

	(void)state;
	prepare("adagrad", 0, W);
	struct store *s = make(0, 1);
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = i * 2654435761u + 1;
		for (uint32_t j = 0; j < W; j++)
			g[i * W + j] = (float)(i % 17) - 8.0f + (float)j;
		layout_init_row(&layout, key[i], expected + i * W);
	}
	assert_int_equal(store_rows(s, key, KEYS, 1, row, NULL), 0);
	struct store_push one = {
		.rows = KEYS, .row = row, .row_gradient = g, .count = 2, .scale = 1.0};
	assert_int_equal(store_apply(s, &one, 1, NULL), 0);
	struct store_push two[] = {
		{.rows = KEYS / 2, .row = row, .row_gradient = g, .count = 1, .scale = 1.0},
		{.rows = KEYS / 2,
		 .row = row + KEYS / 2,
		 .row_gradient = g + KEYS / 2 * W,
		 .count = 1,
		 .scale = 1.0}};
	assert_int_equal(store_apply(s, two, 2, NULL), 0);
	store_pull_rows(s, row, KEYS, out);
	for (size_t i = 0; i < KEYS * W; i++) {
		double d = (double)g[i] / 2, n = (double)OPT_ADAGRAD_START, p = (double)expected[i];
		for (int t = 0; t < 2; t++) {
			n += d * d;
			p -= 0.5 * d / (sqrt(n) + 1e-10);
		}
		assert_true(fabs(p - (double)out[i]) < 1e-5);
	}
	store_free(s);
}

/* Rows that are there and rows that are not, of more keys than are looked for at a time. */
static void looking_makes_no_rows(void **state)
{
	enum { KEYS = 200 };
	uint32_t key[KEYS], all[2 * KEYS];
	float *row[KEYS], out[2 * KEYS * 3], initial[3];

	(void)state;
	prepare("adagrad", 0, 3);
	struct store *s = make(0, 1);
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		all[i] = i * 7919;
		if (i % 2)
			key[i / 2] = all[i];
	}
	assert_int_equal(store_rows(s, key, KEYS, 1, row, NULL), 0);
	for (size_t i = 0; i < KEYS; i++)
		row[i][1] = (float)i;
	store_look_rows(s, all, 2 * KEYS, out);
	for (size_t i = 0; i < 2 * KEYS; i++) {
		layout_init_row(&layout, all[i], initial);
		if (i % 2)
			initial[1] = (float)(i / 2);
		assert_memory_equal(out + 3 * i, initial, sizeof initial);
	}
	assert_int_equal(store_row_count(s), KEYS);
	store_free(s);
}

static void keys_are_checked(void **state)
{
	uint32_t twice[] = {1, 2, 1}, beyond[] = {5, 100}, other[1] = {0};
	float *row[3];
	struct error err;

	(void)state;
	prepare("sgd", 4, 1);
	layout.table.rows = 100;
	struct store *s = make(0, 2);
	while (map_place(other[0]) < MAP_PLACES / 2)
		other[0]++;
	assert_int_equal(store_rows(s, other, 1, 0, row, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	store_free(s);
	s = make(0, 1);
	assert_int_equal(store_rows(s, beyond, 2, 0, row, &err), -1);
	assert_non_null(strstr(err.text, "100"));
	assert_int_equal(store_rows(s, twice, 3, 1, row, &err), -1);
	assert_non_null(strstr(err.text, "twice"));
	assert_int_equal(store_rows(s, twice, 3, 0, row, &err), 0); /* to read is fine */
	assert_ptr_equal(row[0], row[2]);
	store_free(s);
	prepare("sgd", 4, 0);
	s = make(0, 1);
	assert_int_equal(store_rows(s, twice, 1, 0, row, &err), -1);
	store_free(s);
}

static void tensors_that_add_are_plain_sums(void **state)
{
	float g[6] = {1, 2, 3, 4, 5, 6}, out[6];
	struct store_push push = {.dense = g, .count = 100, .scale = 0.25};

	(void)state;
	layout_start(&layout, 1);
	layout_add_tensor(&layout, "a", 2, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, NULL);
	layout_add_tensor(&layout, "b", 3, 1, LAYOUT_ZERO, 0, LAYOUT_ADD, NULL);
	layout_add_tensor(&layout, "c", 1, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, NULL);
	opt_by_name(&opt, "sgd", NULL);
	opt.lr = 1.0f;
	struct store *s = make(0, 1);
	assert_int_equal(store_apply(s, &push, 1, NULL), 0);
	store_pull_dense(s, out, 0);
	const float want[] = {-0.0025f, -0.005f, 3, 4, 5, -0.015f};
	for (int i = 0; i < 6; i++)
		assert_float_equal(out[i], want[i], 1e-7f);
	store_free(s);
}

/* ---- checkpoints ---- */

enum { DENSE = 1001, KEYS = 3000, WIDTH = 2 };

static uint32_t part_of(uint32_t key, uint32_t parts)
{
	static struct map map;

	map_even(&map, parts, 0);
	return map_part_of_key(&map, key);
}

static void train(struct store **part, uint32_t parts)
{
	static float dense[DENSE], g[KEYS * WIDTH], *row[KEYS];
	static uint32_t key[KEYS];

	for (uint32_t round = 1; round <= 2; round++) {
		for (uint32_t p = 0; p < parts; p++) {
			size_t n = 0, begin = (size_t)store_dense_begin(part[p]);
			for (size_t i = 0; i < store_dense_count(part[p]); i++)
				dense[i] = (float)((begin + i) * round % 13) - 6.0f;
			for (uint32_t k = 0; k < KEYS; k++) {
				if (part_of(k * 7, parts) != p)
					continue;
				key[n] = k * 7;
				g[n * WIDTH] = (float)(k % 5);
				g[n * WIDTH + 1] = (float)round;
				n++;
			}
			assert_int_equal(store_rows(part[p], key, n, 1, row, NULL), 0);
			struct store_push push = {.dense = dense,
						  .rows = n,
						  .row = row,
						  .row_gradient = g,
						  .count = 4,
						  .scale = 1.0};
			assert_int_equal(store_apply(part[p], &push, 1, NULL), 0);
		}
	}
}

static void write_all(struct store **part, uint32_t parts, const char *dir)
{
	struct ckpt_manifest own, *m = &own;
	struct error err = {0};
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX];

	assert_int_equal(fs_make_dirs(dir, NULL), 0);
	assert_int_equal(ckpt_manifest_start(m, "", 2, 1, 0.0, NULL), 0);
	for (uint32_t p = 0; p < parts; p++) {
		uint64_t bytes, sum;
		ckpt_part_name(p, name);
		assert_int_equal(fs_join(path, sizeof path, dir, name, NULL), 0);
		if (ckpt_write_part(part[p], path, 0, PLANES_LEVEL, &bytes, &sum, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		assert_int_equal(ckpt_add(m, name, bytes, sum, NULL), 0);
	}
	assert_int_equal(ckpt_commit(m, dir, NULL), 0);
	ckpt_manifest_free(m);
}

static void restore_all(struct store **part, uint32_t parts, const char *dir, int lost)
{
	struct ckpt *c;
	struct error err = {0};
	int is_lost;

	assert_int_equal(ckpt_open(&c, dir, NULL), 0);
	for (uint32_t p = 0; p < parts; p++) {
		part[p] = make(p, parts);
		if (ckpt_restore(c, part[p], &is_lost, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		assert_int_equal(is_lost, lost);
	}
	ckpt_close(c);
}

static void compare(struct store **a, uint32_t as, struct store **b, uint32_t bs)
{
	static float x[DENSE], y[DENSE], *ra[1], *rb[1];

	for (uint32_t p = 0; p < as; p++)
		store_pull_dense(a[p], x + store_dense_begin(a[p]), 0);
	for (uint32_t p = 0; p < bs; p++)
		store_pull_dense(b[p], y + store_dense_begin(b[p]), 0);
	assert_memory_equal(x, y, sizeof x);
	for (uint32_t k = 0; k < KEYS; k++) {
		uint32_t key = k * 7;
		assert_int_equal(store_rows(a[part_of(key, as)], &key, 1, 0, ra, NULL),
				 0);
		assert_int_equal(store_rows(b[part_of(key, bs)], &key, 1, 0, rb, NULL),
				 0);
		assert_memory_equal(ra[0], rb[0], WIDTH * (1 + opt_slots(&opt)) * sizeof(float));
	}
}

static void free_all(struct store **part, uint32_t parts)
{
	for (uint32_t p = 0; p < parts; p++)
		store_free(part[p]);
}

/* What goes on after a restore shows that dense slots and step counts came back, too. */
static void checkpoint_comes_back_in_other_parts(void **state)
{
	static const char *const names[] = {"adam", "ftrl", "sgd"};
	char root[] = "/tmp/ps_store.XXXXXX", dir[64];
	struct store *a[5], *b[5];

	(void)state;
	assert_non_null(mkdtemp(root));
	for (uint32_t i = 0; i < 25; i++) {
		uint32_t from = 1 + i / 5, to = 1 + i % 5;
		snprintf(dir, sizeof dir, "%s/%u", root, i);
		prepare(names[i % 3], DENSE, WIDTH);
		opt.lr = 0.05f;
		for (uint32_t p = 0; p < from; p++)
			a[p] = make(p, from);
		train(a, from);
		write_all(a, from, dir);
		restore_all(b, to, dir, 0);
		compare(a, from, b, to);
		train(a, from);
		train(b, to);
		compare(a, from, b, to);
		free_all(a, from);
		free_all(b, to);
	}
	snprintf(dir, sizeof dir, "%s/0", root);
	prepare("adagrad", DENSE, WIDTH); /* another optimiser: parameters only */
	restore_all(b, 2, dir, 1);
	free_all(b, 2);
	fs_remove_tree(root, NULL);
}

/* The places of the last block of rows in a part file, and the offset of its values. */
static void last_rows(const char *path, uint64_t *low, uint64_t *at)
{
	char *text, *line, *end;
	size_t len;

	assert_int_equal(fs_read_file(path, 1 << 28, &text, &len, NULL), 0);
	line = memmem(text, len, "block section=rows.keys ", 24);
	for (char *next = line; next; next = memmem(line + 1, (size_t)(text + len - line - 1),
						    "block section=rows.keys ", 24))
		line = next;
	assert_non_null(line);
	end = strchr(line, '\n');
	assert_non_null(strstr(line, " low="));
	assert_true(strstr(line, " low=") < end);
	*low = strtoull(strstr(line, " low=") + 5, NULL, 10);
	*at = strtoull(strstr(end, " at=") + 4, NULL, 10); /* of the rows behind the keys */
	free(text);
}

/* What is another server's may be damaged: it is not read. */
static void only_what_is_ones_own_is_read(void **state)
{
	enum { WIDE = 4096, ROWS = 1500 };
	static uint32_t key[ROWS];
	static float *row[ROWS];
	char root[] = "/tmp/ps_store.XXXXXX", path[64];
	struct store *s;
	struct ckpt *c;
	struct error err;
	uint64_t low, at;
	int lost;

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof path, "%s/part-0", root);
	prepare("sgd", 4, WIDE);
	s = make(0, 1);
	for (uint32_t i = 0; i < ROWS; i++)
		key[i] = i * 2246822519u;
	assert_int_equal(store_rows(s, key, ROWS, 1, row, NULL), 0);
	write_all(&s, 1, root);
	store_free(s);
	last_rows(path, &low, &at);
	assert_true(low >= MAP_PLACES / 4 * 3);
	FILE *f = fopen(path, "r+");
	fseek(f, (long)at, SEEK_SET);
	int byte = fgetc(f);
	fseek(f, (long)at, SEEK_SET);
	fputc(byte ^ 1, f);
	fclose(f);
	assert_int_equal(ckpt_open(&c, root, NULL), 0);
	for (uint32_t part = 0; part < 4; part++) {
		s = make(part, 4);
		assert_int_equal(ckpt_restore(c, s, &lost, &err), part == 3 ? -1 : 0);
		if (part < 3)
			assert_in_range(store_row_count(s), ROWS / 5, ROWS / 3);
		store_free(s);
	}
	assert_non_null(strstr(err.place, "(rows)"));
	ckpt_close(c);
	fs_remove_tree(root, NULL);
}

/* A sum of squares below 0 would give roots that are no numbers. */
static void slots_that_can_not_be_are_refused(void **state)
{
	const struct stream_shape shape = {.parts = 1, .dense_count = 4, .rows = 4, .dense_slots = 1,
					   .width = 1, .row_slots = 1};
	const float p[4] = {1, 2, 3, 4}, bad[4] = {1, 2, -3, 4};
	const float *fine_slots[] = {p}, *bad_slots[] = {bad};
	const uint32_t keys[4] = {7, 8, 9, 10};
	char root[] = "/tmp/ps_store.XXXXXX", dir[64], path[96];

	(void)state;
	assert_non_null(mkdtemp(root));
	prepare("adagrad", 4, 1);
	for (int turn = 0; turn < 3; turn++) {
		struct ckpt_manifest own, *m = &own;
		struct part_writer *file;
		struct stream_writer *w;
		struct ckpt *c;
		struct error err = {0};
		uint64_t bytes, sum;
		int lost;
		snprintf(dir, sizeof dir, "%s/%d", root, turn);
		snprintf(path, sizeof path, "%s/part-0", dir);
		assert_int_equal(fs_make_dirs(dir, &err), 0);
		assert_int_equal(part_create(&file, path, &err), 0);
		assert_int_equal(stream_begin(&w, part_sink(file), &shape, &err), 0);
		assert_int_equal(stream_note(w, "optimizer", "adagrad", &err), 0);
		assert_int_equal(stream_dense(w, -1, p, 4, &err), 0);
		assert_int_equal(stream_dense(w, 0, turn == 0 ? bad : p, 4, &err), 0);
		assert_int_equal(
			stream_rows(w, 4, keys, p, turn == 1 ? bad_slots : fine_slots, &err), 0);
		stream_writer_free(w);
		assert_int_equal(part_finish(file, &bytes, &sum, &err), 0);
		assert_int_equal(ckpt_manifest_start(m, "", 1, 1, 0.0, &err), 0);
		assert_int_equal(ckpt_add(m, "part-0", bytes, sum, &err), 0);
		assert_int_equal(ckpt_commit(m, dir, &err), 0);
		ckpt_manifest_free(m);
		assert_int_equal(ckpt_open(&c, dir, &err), 0);
		struct store *s = make(0, 1);
		assert_int_equal(ckpt_restore(c, s, &lost, &err), turn < 2 ? -1 : 0);
		if (turn < 2) {
			assert_int_equal(err.code, ERROR_DATA);
			assert_string_equal(err.text,
					    turn == 0 ? "slot 0 of adagrad can't be -3 (dense "
							"parameter 2)"
						      : "slot 0 of adagrad can't be -3 (key 9)");
		}
		store_free(s);
		ckpt_close(c);
	}
	fs_remove_tree(root, NULL);
}

/* Of several pushes the greatest delay counts. */
static void a_step_has_the_greatest_delay(void **state)
{
	float g[2] = {1.0f, 1.0f}, before[2], after[2];
	struct store_push push[] = {{.dense = g, .count = 1, .scale = 1.0, .delay = 8},
				    {.dense = g, .count = 1, .scale = 1.0, .delay = 3}};

	(void)state;
	prepare("sgd", 2, 0);
	const struct opt_rate rate = {.schedule = "adadelay", .beta = 1.0, .factor = NAN};
	assert_int_equal(opt_set_rate(&opt, &rate, NULL), 0);
	struct store *s = make(0, 1);
	store_pull_dense(s, before, 0);
	assert_int_equal(store_apply(s, push, 2, NULL), 0); /* 0.5/(1 + sqrt(1 + 8)) */
	store_pull_dense(s, after, 0);
	assert_float_equal(after[0], before[0] - 0.125f, 1e-6f);
	assert_int_equal(store_apply(s, push + 1, 1, NULL), 0); /* 0.5/(1 + sqrt(2 + 3)) */
	store_pull_dense(s, before, 0);
	assert_float_equal(before[0], after[0] - 0.1545085f, 1e-6f);
	store_free(s);
}

/* Counts whose sum comes round to 0 would divide by it. */
static void counts_may_be_anything(void **state)
{
	float g[2] = {0.0f, 1e18f}, p[2];
	struct store_push push[] = {{.dense = g, .count = UINT64_C(1) << 63, .scale = 1.0},
				    {.dense = g, .count = UINT64_C(1) << 63, .scale = 1.0}};

	(void)state;
	prepare("sgd", 2, 0);
	struct store *s = make(0, 1);
	store_pull_dense(s, p, 0);
	float before = p[0];
	for (int naive = 0; naive < 2; naive++) {
		if (naive)
			store_naive_mean(push, 2);
		assert_int_equal(store_apply(s, push, 2, NULL), 0);
		store_pull_dense(s, p, 0);
		assert_float_equal(p[0], before, 0);
		assert_true(fabsf(p[1]) < 2.0f);
	}
	store_free(s);
}

/* Many members, each within what a push may be, with a weight: the sum is applied, and told. */
static void sums_of_many_stay_finite(void **state)
{
	enum { MANY = 1000 };
	float g[3] = {OPT_GRADIENT_MAX, -OPT_GRADIENT_MAX, 1.0f}, p[3];
	uint32_t key = 5;
	struct store_push push[MANY];

	(void)state;
	for (size_t k = 0; k < opt_kinds; k++) {
		float *row;
		prepare(opt_name(k), 2, 1);
		opt.lr = 1e9f;
		struct store *s = make(0, 1);
		assert_int_equal(store_rows(s, &key, 1, 1, &row, NULL), 0);
		for (size_t i = 0; i < MANY; i++)
			push[i] = (struct store_push){g, 1, &row, g + (i % 2), 1, 0, i ? 1e30 : 1.0, 0};
		push[MANY / 2].dense = NULL;
		for (int turn = 0; turn < 100; turn++) {
			assert_int_equal(store_apply(s, push, turn % 2 ? MANY : 1, NULL), 0);
			store_pull_dense(s, p, 0);
			store_pull_rows(s, &row, 1, p + 2);
			for (size_t i = 0; i < 3; i++)
				if (!isfinite(p[i]))
					fail_msg("%s: %g in turn %d", opt_name(k), (double)p[i], turn);
		}
		assert_true(k == OPT_ADD || store_held(s) > 0);
		assert_int_equal(store_largest(s, push, 2), 1);
		push[1].scale = 0.5;
		assert_int_equal(store_largest(s, push, 2), 0);
		store_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mean_over_all_samples_of_all_workers),
		cmocka_unit_test(large_ranges_are_copied_whole),
		cmocka_unit_test(a_long_vector_is_begun_in_pieces),
		cmocka_unit_test(rows_of_many_workers_are_summed_once),
		cmocka_unit_test(many_rows),
		cmocka_unit_test(looking_makes_no_rows),
		cmocka_unit_test(keys_are_checked),
		cmocka_unit_test(tensors_that_add_are_plain_sums),
		cmocka_unit_test(checkpoint_comes_back_in_other_parts),
		cmocka_unit_test(only_what_is_ones_own_is_read),
		cmocka_unit_test(slots_that_can_not_be_are_refused),
		cmocka_unit_test(a_step_has_the_greatest_delay),
		cmocka_unit_test(counts_may_be_anything),
		cmocka_unit_test(sums_of_many_stay_finite),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
