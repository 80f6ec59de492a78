/*
 * The driver of ps-unit: so many workers' conversations with all parts of a model, timed from the
 * push that closes a unit until everybody has the parameters behind it.  Everything before that
 * (the gradients at the other parts, those of the other workers at the lead, the pulls that wait)
 * is done when the clock starts.  Prints two medians, in seconds: until the push is answered, and
 * until the last parameter is there.
 *
 *     ps-unit FLOATS UNITS WORKERS LEAD-SOCKET [SOCKET]...
 */
#include "wire/call.h"

#include "rounds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64
#define WORKERS_MAX 16

struct talk {
	struct call *call;
	float *gradient, *model;
	size_t floats;
};

static struct talk talk[WORKERS_MAX][PARTS_MAX];
static size_t workers, parts;
static struct record answer;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "ps-unit: %s: %s\n", what, why);
	exit(70);
}

static void say(struct talk *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct talk *t, const char *fmt, ...)
{
	char line[1024];
	struct error err;
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (call_send(t->call, line, (size_t)len, NULL, 0, &err) != 0)
		die("send", err.text);
}

/* Reads on to the next record of this type, into answer. */
static void expect(struct talk *t, const char *type)
{
	struct error err = {0};

	do {
		if (call_receive(t->call, &answer, &err) != 0)
			die("receive", err.text);
		if (record_is(&answer, "err"))
			die("answer", answer.text ? answer.text : "refused");
	} while (!record_is(&answer, type));
}

static void open_all(char **path, size_t floats)
{
	struct error err;

	for (size_t w = 0; w < workers; w++)
		for (size_t i = 0; i < parts; i++) {
			struct talk *t = &talk[w][i];
			uint64_t count = 0;
			void *memory;
			if (call_open(&t->call, path[i], 10, 600, &err) != 0 ||
			    record_u64(call_greeting(t->call), "dense", 1, floats, &count, &err))
				die(path[i], err.text);
			t->floats = (size_t)count;
			if (call_map(t->call, 2 * t->floats * sizeof(float), &memory, &err) != 0)
				die(path[i], err.text);
			t->gradient = memory;
			t->model = t->gradient + t->floats;
			for (size_t k = 0; k < t->floats; k++)
				t->gradient[k] = (float)(k % 8) / 8;
			memset(t->model, 1, t->floats * sizeof(float));
		}
}

static void join_all(void)
{
	for (size_t w = 0; w < workers; w++)
		say(&talk[w][0], "join worker=w%zu generation=1 incarnation=1\n", w);
	for (size_t w = 0; w < workers; w++)
		expect(&talk[w][0], "ok");
}

static void push(size_t w, size_t part, size_t unit)
{
	struct talk *t = &talk[w][part];

	say(t,
	    "push worker=w%zu generation=1 incarnation=1 sequence=%zu iteration=%zu count=1 "
	    "dense=1 "
	    "rows=0 ranges= map-offset-bytes=0 map-bytes=%zu\n",
	    w, unit + 1, unit, t->floats * sizeof(float));
}

static void pull(size_t w, size_t part, size_t unit)
{
	struct talk *t = &talk[w][part];
	size_t bytes = t->floats * sizeof(float);

	say(t,
	    "pull worker=w%zu generation=1 incarnation=1 iteration=%zu dense=1 rows=0 "
	    "into-offset-bytes=%zu into-bytes=%zu\n",
	    w, unit + 1, bytes, bytes);
}

/* Until so many pushes are staged at the lead. */
static void wait_staged(size_t count)
{
	struct error err;
	static struct call *lead;
	const char *path = call_path(talk[0][0].call);
	uint64_t staged;

	if (!lead && call_open(&lead, path, 10, 600, &err) != 0)
		die(path, err.text);
	do {
		struct talk t = {.call = lead};
		say(&t, "stat\n");
		expect(&t, "stat");
		if (record_u64(&answer, "staged", 0, UINT64_MAX, &staged, &err) != 0)
			die("stat", err.text);
		expect(&t, "ok");
	} while (staged < count);
}

static void one_unit(size_t unit, double *told, double *there)
{
	for (size_t w = 0; w < workers; w++)
		for (size_t i = 1; i < parts; i++)
			push(w, i, unit);
	for (size_t w = 0; w + 1 < workers; w++)
		push(w, 0, unit);
	for (size_t w = 0; w < workers; w++)
		for (size_t i = 0; i < parts; i++) {
			if (i)
				expect(&talk[w][i], "ok");
			if (i || w + 1 < workers)
				pull(w, i, unit);
		}
	wait_staged(workers - 1);
	double start = now();
	push(workers - 1, 0, unit);
	pull(workers - 1, 0, unit);
	for (size_t w = 0; w < workers; w++)
		expect(&talk[w][0], "ok");
	*told = now() - start;
	for (size_t w = 0; w < workers; w++)
		for (size_t i = 0; i < parts; i++)
			expect(&talk[w][i], "ok");
	*there = now() - start;
}

/* Each unit was one step of 0.5 with the mean of equal gradients. */
static void check(size_t units)
{
	for (size_t w = 0; w < workers; w++)
		for (size_t i = 0; i < parts; i++)
			for (size_t k = 0; k < talk[w][i].floats; k += 997) {
				float is = talk[w][i].model[k];
				float want = -(float)units * 0.5f * talk[w][i].gradient[k];
				if (is < want - 1e-3f || is > want + 1e-3f)
					die("model", "not what was pushed");
			}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 64;
	size_t floats = strtoul(argv[1], NULL, 10), units = strtoul(argv[2], NULL, 10);
	workers = strtoul(argv[3], NULL, 10);
	parts = (size_t)argc - 4;
	if (workers < 1 || workers > WORKERS_MAX || parts > PARTS_MAX || units < 1)
		return 64;
	double *told = calloc(units, sizeof *told), *there = calloc(units, sizeof *there);
	open_all(argv + 4, floats);
	join_all();
	for (size_t i = 0; i < units; i++)
		one_unit(i, &told[i], &there[i]);
	check(units);
	printf("%.6f %.6f\n", median(told, units), median(there, units));
	return 0;
}
