/*
 * Workers of several replicas and their lead, for replica.bats: many steps with random gradients,
 * dense and of rows, of some of the workers.  Replicas have to have the same bits then, and what
 * one process makes of the same gradients, to float rounding.
 *
 *     replica-steps STEPS SOCKET...     r0, r1, ...; layout d20011w3 of files.bash, --optimizer adagrad
 * --lr 0.05
 */
#include "param/store.h"
#include "wire/call.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DENSE 20011
#define WIDTH 3
#define KEYS 500 /* of the table */
#define ROWS_MAX 60
#define REPLICAS_MAX 4
#define WORKERS_MAX (2 * REPLICAS_MAX)

struct worker {
	struct call *call;
	float *dense, *value;
	uint32_t *key;
	size_t rows, bytes;
	struct store_push push;
	float *row[ROWS_MAX];
};

static struct worker worker[WORKERS_MAX];
static struct call *lead[REPLICAS_MAX];
static const float *seen[REPLICAS_MAX];
static size_t replicas;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "replica-steps: %s: %s\n", what, why);
	exit(1);
}

static uint32_t next_random(void)
{
	static uint32_t x = 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	return x ^= x << 5;
}

static struct call *open_call(const char *path)
{
	struct call *c;
	struct error err;

	if (call_open(&c, path, 10, 60, &err) != 0)
		die(path, err.text);
	return c;
}

static void say(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct call *c, const char *fmt, ...)
{
	char text[8192];
	struct error err;
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (call_send(c, text, (size_t)len, NULL, 0, &err) != 0)
		die("send", err.text);
}

static char expected_sum[64];

/* The closing record's sum=, if it has one, is that of all replicas. */
static void expect_ok(struct call *c)
{
	static struct record r;
	struct error err;

	do {
		if (call_receive(c, &r, &err) != 0)
			die("receive", err.text);
	} while (!record_is(&r, "ok") && !record_is(&r, "err"));
	if (record_is(&r, "err"))
		die(call_path(c), r.text ? r.text : "refused");
	const char *sum = record_get(&r, "sum");
	if (sum && !*expected_sum)
		snprintf(expected_sum, sizeof expected_sum, "%s", sum);
	if (sum && strcmp(sum, expected_sum) != 0)
		die("sum", "another one on another replica");
}

/* Gradients of a batch: sums over 1 to 8 samples. */
static void compute(struct worker *w)
{
	w->rows = next_random() % ROWS_MAX;
	w->key = (uint32_t *)(void *)(w->dense + DENSE);
	w->value = w->dense + DENSE + w->rows;
	w->bytes = (DENSE + w->rows * (1 + WIDTH)) * sizeof(float);
	for (size_t i = 0; i < DENSE; i++)
		w->dense[i] = (float)(int32_t)next_random() * 1e-9f;
	for (size_t i = 0; i < w->rows; i++)
		w->key[i] = (uint32_t)(i * (KEYS / ROWS_MAX)) + next_random() % (KEYS / ROWS_MAX);
	for (size_t i = 0; i < w->rows * WIDTH; i++)
		w->value[i] = (float)(int32_t)next_random() * 1e-9f;
	w->push = (struct store_push){.dense = w->dense,
				      .rows = w->rows,
				      .row = w->row,
				      .row_gradient = w->value,
				      .count = 1 + next_random() % 8,
				      .scale = 1.0};
}

static struct store *reference(void)
{
	static struct layout layout;
	static struct map map;
	struct layout_table table = {.name = "table", .width = WIDTH, .zero_columns = WIDTH};
	struct opt opt;
	struct store *s;
	struct error err;

	layout_start(&layout, 0);
	if (layout_add_tensor(&layout, "dense", DENSE, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, &err) !=
		    0 ||
	    layout_set_table(&layout, &table, &err) != 0 || opt_by_name(&opt, "adagrad", &err) != 0)
		die("layout", err.text);
	opt.lr = 0.05f;
	map_even(&map, 1, DENSE);
	if (store_new(&s, &layout, &map, 0, &opt, &err) != 0)
		die("store", err.text);
	return s;
}

/* One step of those of the workers whose bit is in `who`. */
static void step(struct store *s, size_t i, uint32_t who, const char *list)
{
	struct store_push push[WORKERS_MAX];
	char members[4096] = "";
	size_t pushes = 0, samples = 0;
	struct error err;

	for (size_t k = 0; k < 2 * replicas; k++) {
		struct worker *w = &worker[k];
		if (!(who >> k & 1))
			continue;
		compute(w);
		samples += w->push.count;
		if (store_rows(s, w->key, w->rows, 1, w->row, &err) != 0)
			die("rows", err.text);
		push[pushes++] = w->push;
		sprintf(members + strlen(members), "member worker=w%zu generation=1 replica=r%zu\n",
			k, k / 2);
	}
	*expected_sum = '\0';
	for (size_t k = 0; k < replicas; k++)
		say(lead[k],
		    "sum incarnation=1 round=%zu iteration=%zu replicas=%s%s bytes=%zu\n%s", i + 1,
		    i, list, i % 50 == 0 ? " check=1" : "", strlen(members), members);
	for (size_t k = 0; k < 2 * replicas; k++) {
		struct worker *w = &worker[k];
		if (who >> k & 1)
			say(w->call,
			    "push worker=w%zu generation=1 incarnation=1 sequence=%zu "
			    "iteration=%zu "
			    "count=%llu dense=1 rows=%zu map-offset-bytes=0 map-bytes=%zu\n",
			    k, i + 1, i, (unsigned long long)w->push.count, w->rows, w->bytes);
	}
	for (size_t k = 0; k < 2 * replicas; k++)
		if (who >> k & 1)
			expect_ok(worker[k].call);
	for (size_t k = 0; k < replicas; k++)
		expect_ok(lead[k]);
	for (size_t k = 0; k < replicas; k++) {
		say(lead[k],
		    "apply incarnation=1 iteration=%zu units=1 round=%zu divisor=%zu samples=%zu\n",
		    i, i + 1, samples, samples);
		expect_ok(lead[k]);
	}
	if (store_apply(s, push, pushes, &err) != 0)
		die("apply", err.text);
}

static void pull_rows(struct call *c, size_t iteration, const uint32_t *key, float *out)
{
	static struct record r;
	char line[256];
	struct error err;
	int len = snprintf(line, sizeof line,
			   "pull worker=w0 generation=1 incarnation=1 iteration=%zu dense=0 "
			   "rows=%d bytes=%zu\n",
			   iteration, KEYS, KEYS * sizeof *key);

	if (call_send(c, line, (size_t)len, key, KEYS * sizeof *key, &err) != 0 ||
	    call_receive(c, &r, &err) != 0 ||
	    call_bytes(c, out, KEYS * WIDTH * sizeof *out, &err) != 0)
		die("pull", err.text);
	expect_ok(c);
}

static double most_apart(const float *a, const float *b, size_t n)
{
	double most = 0.0;

	for (size_t i = 0; i < n; i++) {
		double apart = fabs((double)a[i] - (double)b[i]);
		most = apart > most || isnan(apart) ? apart : most;
	}
	return most;
}

static void compare(struct store *s, size_t steps)
{
	static float rows[REPLICAS_MAX][KEYS * WIDTH], want[KEYS * WIDTH];
	uint32_t key[KEYS];
	double dense, sparse;

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	store_look_rows(s, key, KEYS, want);
	for (size_t k = 0; k < replicas; k++) {
		pull_rows(worker[2 * k].call, steps, key, rows[k]);
		if (memcmp(seen[k], seen[0], DENSE * sizeof(float)) != 0 ||
		    memcmp(rows[k], rows[0], sizeof rows[0]) != 0)
			die("replicas", "they differ");
	}
	dense = most_apart(seen[0], store_dense(s), DENSE);
	sparse = most_apart(rows[0], want, KEYS * WIDTH);
	printf("steps=%zu dense-apart=%g rows-apart=%g\n", steps, dense, sparse);
	if (!(dense < 1e-4) || !(sparse < 1e-4))
		die("one process", "it has other parameters");
}

int main(int argc, char **argv)
{
	size_t steps = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	char list[64] = "";
	struct store *s = reference();

	replicas = (size_t)argc - 2;
	if (steps == 0 || replicas > REPLICAS_MAX)
		return 64;
	for (size_t k = 0; k < 2 * replicas; k++) {
		struct error err;
		void *memory;
		worker[k].call = open_call(argv[2 + k / 2]);
		if (call_map(worker[k].call, (DENSE + ROWS_MAX * (1 + WIDTH) + 1) / 2 * 8, &memory,
			     &err) != 0)
			die("map", err.text);
		worker[k].dense = memory;
	}
	for (size_t k = 0; k < replicas; k++) {
		sprintf(list + strlen(list), "%sr%zu", k ? "," : "", k);
		lead[k] = open_call(argv[2 + k]);
		say(worker[2 * k].call, "look\n");
		expect_ok(worker[2 * k].call);
		seen[k] = mmap(NULL, DENSE * sizeof(float), PROT_READ, MAP_SHARED,
			       call_passed(worker[2 * k].call), 0);
		if (seen[k] == MAP_FAILED)
			die("look", "mmap");
	}
	for (size_t i = 0; i < steps; i++) {
		uint32_t all = (1u << 2 * replicas) - 1, who = next_random() & all;
		step(s, i, who ? who : all, list);
	}
	compare(s, steps);
	return 0;
}
