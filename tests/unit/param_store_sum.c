/*
 * Sums of pushes and the step with them: to the bit what store_apply() makes of the same pushes,
 * for any number of threads, cut anywhere and in any order; values that may not be are named;
 * memory that somebody else writes spoils nothing else; and parameters that are shared with
 * readers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/team.h"
#include "param/store_sum.h"
#include "param/table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DENSE 300007
#define PUSHES 9
#define ROWS 2000 /* of several pushes: enough for several threads */
#define WIDTH 5

static struct layout layout;
static struct opt opt;
static float gradient[PUSHES][DENSE], row_gradient[PUSHES][ROWS * WIDTH];
static uint32_t key[PUSHES][ROWS];
static float *row[PUSHES][ROWS];
static struct store_push push[PUSHES];

static uint32_t next_random(void)
{
	static uint32_t x = 1;

	x ^= x << 13;
	x ^= x >> 17;
	return x ^= x << 5;
}

/* Two tensors for the optimiser around one that only adds, of sizes that fit no vector. */
static struct store *make(const char *optimizer, enum layout_update rows)
{
	struct layout_table table = {
		.name = "t", .width = WIDTH, .zero_columns = 1, .scale = 0.1, .update = rows};
	static struct map map;
	struct store *s;

	layout_start(&layout, 42);
	assert_int_equal(layout_add_tensor(&layout, "a", 100001, 1, LAYOUT_NORMAL, 0.5,
					   LAYOUT_OPTIMIZER, NULL),
			 0);
	assert_int_equal(layout_add_tensor(&layout, "b", 77, 1, LAYOUT_ZERO, 0, LAYOUT_ADD, NULL),
			 0);
	assert_int_equal(layout_add_tensor(&layout, "c", DENSE - 100001 - 77, 1, LAYOUT_NORMAL, 0.5,
					   LAYOUT_OPTIMIZER, NULL),
			 0);
	assert_int_equal(layout_set_table(&layout, &table, NULL), 0);
	assert_int_equal(opt_by_name(&opt, optimizer, NULL), 0);
	opt.lr = 0.1f;
	opt.l2 = 0.01f;
	map_even(&map, 1, DENSE);
	assert_int_equal(store_new(&s, &layout, &map, 0, &opt, NULL), 0);
	return s;
}

static void contribute(size_t pushes, int scaled)
{
	for (size_t k = 0; k < pushes; k++) {
		for (size_t i = 0; i < DENSE; i++)
			gradient[k][i] = (float)(int32_t)next_random() * 1e-9f;
		for (size_t i = 0; i < ROWS * WIDTH; i++)
			row_gradient[k][i] = (float)(int32_t)next_random() * 1e-9f;
		for (size_t i = 0; i < ROWS; i++) /* no two the same */
			key[k][i] = (uint32_t)i * 4 + next_random() % 4;
		push[k] = (struct store_push){.dense = gradient[k],
					      .rows = ROWS,
					      .row_gradient = row_gradient[k],
					      .count = 3 + k,
					      .size = k == 0 ? 20 : 0,
					      .scale = scaled ? 0.3 + 0.1 * (double)k : 1.0};
	}
}

static void find_rows(struct store *s, size_t pushes)
{
	for (size_t k = 0; k < pushes; k++) {
		assert_int_equal(store_rows(s, key[k], ROWS, 1, row[k], NULL), 0);
		push[k].row = row[k];
	}
}

static void add_up(struct store *s, struct team *team, size_t pushes, float *sum,
		   struct row_sums *rows)
{
	struct store_bad bad[PUSHES] = {{0}};
	/* Ranges in no order, the last one first. */
	const size_t cut[] = {0, 1, 4096, 70000, 100001, 200000, DENSE};

	memset(sum, 0xff, DENSE * sizeof *sum);
	for (size_t i = 6; i-- > 0;)
		store_sum_dense(s, team, push, pushes, cut[i], cut[i + 1] - cut[i], sum + cut[i],
				bad);
	assert_int_equal(store_sum_rows(s, team, push, pushes, rows, bad, NULL), 0);
	for (size_t k = 0; k < pushes; k++)
		assert_false(bad[k].found);
}

static void assert_same_store(struct store *a, struct store *b)
{
	static float x[ROWS * PUSHES * WIDTH], y[ROWS * PUSHES * WIDTH];

	assert_memory_equal(store_dense(a), store_dense(b), DENSE * sizeof(float));
	for (size_t k = 0; k < PUSHES; k++) {
		store_look_rows(a, key[k], ROWS, x);
		store_look_rows(b, key[k], ROWS, y);
		assert_memory_equal(x, y, ROWS * WIDTH * sizeof *x);
	}
	assert_true(store_held(a) == store_held(b));
}

static void compare(const char *optimizer, enum layout_update rows, size_t pushes, unsigned threads,
		    int scaled)
{
	struct store *whole = make(optimizer, rows), *summed = make(optimizer, rows);
	float *sum = malloc(DENSE * sizeof *sum);
	struct row_sums merged = {0};
	struct team *team;

	assert_int_equal(team_new(&team, threads, NULL), 0);
	for (int step = 0; step < 3; step++) { /* slots differ from step to step */
		double divisor = 0.0;
		contribute(pushes, scaled);
		find_rows(summed, pushes);
		add_up(summed, team, pushes, sum, &merged);
		for (size_t k = 0; k < pushes; k++)
			divisor += (double)(push[k].size > push[k].count ? push[k].size
									 : push[k].count);
		store_sum_step(summed, team, sum, &merged, divisor, 1);
		find_rows(whole, pushes);
		assert_int_equal(store_apply(whole, push, pushes, NULL), 0);
		assert_same_store(whole, summed);
	}
	team_free(team);
	row_sums_free(&merged);
	free(sum);
	store_free(whole);
	store_free(summed);
}

static void the_step_is_that_of_store_apply(void **state)
{
	(void)state;
	for (size_t i = 0; i < opt_kinds; i++)
		compare(opt_name(i), LAYOUT_OPTIMIZER, 2 + i % (PUSHES - 1), 1 + (unsigned)i % 3,
			i % 2 != 0);
	compare("adagrad", LAYOUT_ADD, PUSHES, 2, 1);
	/* One push: where its weight is 1, as a weight is part of the factor elsewhere. */
	compare("adam", LAYOUT_OPTIMIZER, 1, 2, 0);
}

static void nothing_is_divided_by_no_samples(void **state)
{
	struct store *s = make("sgd", LAYOUT_OPTIMIZER);
	float *sum = malloc(DENSE * sizeof *sum), *before = malloc(DENSE * sizeof *before);
	struct store_bad bad = {0};
	struct row_sums none = {0};

	(void)state;
	contribute(1, 0);
	push[0].dense = NULL;
	store_sum_dense(s, NULL, push, 1, 0, DENSE, sum, &bad);
	for (size_t i = 0; i < DENSE; i++)
		assert_true(sum[i] == 0.0f);
	for (size_t i = 0; i < DENSE; i++)
		sum[i] = 2.0f;
	store_pull_dense(s, before, 0);
	store_sum_step(s, NULL, sum, &none, 0.0, 0);
	for (size_t i = 0; i < DENSE; i++) { /* sums (audit) count all the same */
		float want = i >= 100001 && i < 100078 ? before[i] + 2.0f : before[i];
		if (store_dense(s)[i] < want || store_dense(s)[i] > want)
			fail_msg("parameter %zu is %g", i, (double)store_dense(s)[i]);
	}
	free(sum);
	free(before);
	store_free(s);
}

static void what_may_not_be_is_named(void **state)
{
	const float wrong[] = {NAN, INFINITY, -INFINITY, 1.1e18f, -1.1e18f};
	const size_t place[] = {0, 15, 4095, 4096, 100001, DENSE - 17, DENSE - 1};
	struct store *s = make("sgd", LAYOUT_OPTIMIZER);
	float *sum = malloc(DENSE * sizeof *sum);
	struct row_sums merged = {0};
	struct team *team;

	(void)state;
	assert_int_equal(team_new(&team, 3, NULL), 0);
	contribute(PUSHES, 1);
	find_rows(s, PUSHES);
	for (size_t i = 0; i < 35; i++) {
		struct store_bad bad[PUSHES] = {{0}};
		size_t k = i % PUSHES, at = place[i % 7];
		float had = gradient[k][at], had_last = gradient[k][DENSE - 1];
		gradient[k][DENSE - 1] = NAN; /* the first is named */
		gradient[k][at] = wrong[i % 5];
		store_sum_dense(s, team, push, PUSHES, 0, DENSE, sum, bad);
		for (size_t j = 0; j < PUSHES; j++)
			assert_int_equal(bad[j].found, j == k);
		assert_int_equal(bad[k].at, at);
		assert_false(bad[k].in_rows);
		assert_true(bad[k].is_infinite == (i % 5 < 3 || at < DENSE - 1));
		assert_memory_equal(&bad[k].value, &wrong[i % 5], sizeof(float));
		gradient[k][DENSE - 1] = had_last;
		gradient[k][at] = had;
	}
	gradient[3][5] = 1e18f; /* itself is within */
	row_gradient[4][7] = -NAN;
	struct store_bad bad[PUSHES] = {{0}};
	store_sum_dense(s, team, push, PUSHES, 0, DENSE, sum, bad);
	assert_int_equal(store_sum_rows(s, team, push, PUSHES, &merged, bad, NULL), 0);
	for (size_t j = 0; j < PUSHES; j++)
		assert_int_equal(bad[j].found, j == 4);
	assert_true(bad[4].in_rows && bad[4].at == 7 && isnan(bad[4].value));
	row_sums_free(&merged);
	team_free(team);
	free(sum);
	store_free(s);
}

/* ---- memory that is written meanwhile ---- */

static atomic_int end;

static void *scribble(void *arg)
{
	volatile uint32_t *word = arg;

	while (!atomic_load(&end)) {
		*word = 0x7fc00000u;
		*word = 0x3f800000u;
	}
	return NULL;
}

/* Not named means not added. */
static void what_was_judged_was_added(void **state)
{
	struct store *s = make("sgd", LAYOUT_OPTIMIZER);
	float *sum = malloc(DENSE * sizeof *sum);
	struct row_sums merged = {0};
	pthread_t thread[2];
	unsigned fine = 0;

	(void)state;
	contribute(3, 0);
	find_rows(s, 3);
	gradient[1][1000] = row_gradient[1][1000] = 1.0f;
	atomic_store(&end, 0);
	assert_int_equal(pthread_create(&thread[0], NULL, scribble, &gradient[1][1000]), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, scribble, &row_gradient[1][1000]), 0);
	for (unsigned turn = 0; turn < 3000; turn++) {
		struct store_bad bad[3] = {{0}};
		store_sum_dense(s, NULL, push, 3, 0, 4096, sum, bad);
		assert_int_equal(store_sum_rows(s, NULL, push, 3, &merged, bad, NULL), 0);
		assert_false(bad[0].found || bad[2].found);
		if (bad[1].found)
			continue;
		fine++;
		for (size_t i = 0; i < 4096; i++)
			assert_true(isfinite(sum[i]));
		for (size_t i = 0; i < merged.count * WIDTH; i++)
			assert_true(isfinite(merged.value[i]));
	}
	atomic_store(&end, 1);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	print_message("%u of 3000 sums met no such value\n", fine);
	row_sums_free(&merged);
	free(sum);
	store_free(s);
}

/* ---- parameters that others read ---- */

/* A stream is thrown away, but for its first values, which are the dense parameters. */
struct written {
	float *dense;
	size_t bytes;
};

static int put_written(void *written, struct record_out *r, const void *values, size_t bytes,
		       struct error *err)
{
	struct written *w = written;
	size_t room = DENSE * sizeof *w->dense - w->bytes;

	(void)r;
	(void)err;
	bytes = bytes < room ? bytes : room;
	if (bytes)
		memcpy((char *)w->dense + w->bytes, values, bytes);
	w->bytes += bytes;
	return 0;
}

/* Whether that is what is written of s. */
static int writes(const struct store *s, const float *dense)
{
	struct written w = {.dense = malloc(DENSE * sizeof *w.dense)};
	struct stream_sink sink = {.put = put_written, .owner = &w};

	return w.dense && store_write(s, &sink, NULL) == 0 &&
	       w.bytes == DENSE * sizeof *w.dense && memcmp(w.dense, dense, w.bytes) == 0;
}

static void readers_see_steps_and_cannot_write(void **state)
{
	struct store *s = make("momentum", LAYOUT_OPTIMIZER);
	float *before = malloc(DENSE * sizeof *before), *sum = malloc(DENSE * sizeof *sum);
	const size_t bytes = DENSE * sizeof *before;
	struct row_sums none = {0};
	int status;

	(void)state;
	store_pull_dense(s, before, 0);
	const float *where = store_dense(s);
	assert_int_equal(store_shared_fd(s), -1);
	assert_int_equal(store_share(s, NULL), 0);
	assert_ptr_equal(store_dense(s), where);
	assert_memory_equal(store_dense(s), before, bytes);
	int fd = store_shared_fd(s);
	const float *seen = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(seen != MAP_FAILED);
	assert_true(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(mprotect((void *)(uintptr_t)seen, bytes, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(pwrite(fd, before, 4, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_memory_equal(seen, before, bytes);
	/* A child that was forked before a step has the parameters and slots as they were. */
	for (size_t i = 0; i < DENSE; i++)
		sum[i] = 1.0f;
	int go[2];
	assert_int_equal(pipe(go), 0);
	assert_int_equal(store_freeze(s, NULL, NULL), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(go[1]);
		(void)!read(go[0], &byte, 1);
		_exit(writes(s, before) && memcmp(seen, before, bytes) != 0 ? 0 : 1);
	}
	store_thaw(s);
	store_sum_step(s, NULL, sum, &none, 1.0, 1);
	assert_memory_not_equal(seen, before, bytes);
	assert_memory_equal(seen, store_dense(s), bytes);
	close(go[1]);
	close(go[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap((void *)(uintptr_t)seen, bytes);
	free(before);
	free(sum);
	store_free(s);
}

/* ---- threads ---- */

struct counted {
	atomic_int times[1000];
};

static void count_piece(size_t piece, void *arg)
{
	atomic_fetch_add(&((struct counted *)arg)->times[piece], 1);
}

static void each_piece_is_done_once(void **state)
{
	struct team *team;

	(void)state;
	for (unsigned threads = 1; threads <= 5; threads++) {
		assert_int_equal(team_new(&team, threads, NULL), 0);
		assert_int_equal(team_threads(team), threads);
		for (size_t pieces = 0; pieces <= 1000; pieces += pieces < 10 ? 1 : 99) {
			struct counted c;
			memset(&c, 0, sizeof c);
			team_run(team, pieces, count_piece, &c);
			for (size_t i = 0; i < 1000; i++)
				assert_int_equal(c.times[i], i < pieces);
		}
		team_free(team);
	}
	team_free(NULL);
	assert_int_equal(team_threads(NULL), 1);
	assert_true(team_cores() >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_step_is_that_of_store_apply),
		cmocka_unit_test(nothing_is_divided_by_no_samples),
		cmocka_unit_test(what_may_not_be_is_named),
		cmocka_unit_test(what_was_judged_was_added),
		cmocka_unit_test(readers_see_steps_and_cannot_write),
		cmocka_unit_test(each_piece_is_done_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
