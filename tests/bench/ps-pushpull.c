/*
 * The driver of ps-pushpull: one worker's conversation with one ps-server, timed; what one process
 * alone needs for the same arithmetic; and, built with mpicc -DWITH_MPI, the same bytes there and
 * back by MPI point to point.  Prints the median seconds of a round.
 *
 *     ps-pushpull dense SOCKET FLOATS ROUNDS        push and pull of all dense parameters
 *     ps-pushpull local - FLOATS ROUNDS             y += x, then copy y
 *     ps-pushpull sparse SOCKET ROWS ROUNDS WIDTH   pull and push of so many random rows
 *     mpirun -n 2 ps-pushpull-mpi FLOATS ROUNDS
 */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(double *seconds, size_t n)
{
	printf("%.6f\n", median(seconds, n));
}

#ifdef WITH_MPI
#include <mpi.h>

int main(int argc, char **argv)
{
	int rank, floats = atoi(argv[1]), rounds = atoi(argv[2]);
	double *seconds = calloc((size_t)rounds, sizeof *seconds);
	float *out = calloc((size_t)floats, sizeof *out), *in = calloc((size_t)floats, sizeof *in);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	memset(out, 1, (size_t)floats * sizeof *out);
	memset(in, 1, (size_t)floats * sizeof *in);
	for (int i = 0; i < rounds; i++) {
		double start = now();
		if (rank == 0) {
			MPI_Send(out, floats, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(in, floats, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, floats, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, floats, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
		}
		seconds[i] = now() - start;
	}
	if (rank == 0)
		report(seconds, (size_t)rounds);
	MPI_Finalize();
	return argc == 0;
}
#else
#include "wire/call.h"

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "ps-pushpull: %s: %s\n", what, err->text);
	exit(70);
}

static struct call *server;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#include <stdarg.h>

static void say(const char *fmt, ...)
{
	char line[1024];
	struct error err;
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (call_send(server, line, (size_t)len, NULL, 0, &err) != 0)
		die("send", &err);
}

static void expect_ok(void)
{
	static struct record r;
	struct error err = {0};

	do {
		if (call_receive(server, &r, &err) != 0)
			die("receive", &err);
	} while (!record_is(&r, "ok") && !record_is(&r, "err"));
	if (record_is(&r, "err")) {
		error_set(&err, 70, NULL, "%s", r.text ? r.text : "refused");
		die("answer", &err);
	}
}

#define ME "worker=w0 generation=1 incarnation=1"

/* push of round i and pull of round i+1 in one write, as a worker does that has its batch ready. */
static void dense(size_t floats, size_t rounds, double *seconds)
{
	size_t bytes = floats * sizeof(float);
	struct error err;
	void *memory;

	if (call_map(server, 2 * bytes, &memory, &err) != 0)
		die("map", &err);
	float *gradient = memory, *model = gradient + floats;
	for (size_t i = 0; i < floats; i++)
		gradient[i] = (float)(i % 8) / 8;
	memset(model, 1, bytes);
	for (size_t i = 0; i < rounds; i++) {
		double start = now();
		say("push " ME " sequence=%zu iteration=%zu count=1 dense=1 rows=0 ranges= "
		    "map-offset-bytes=0 map-bytes=%zu\n"
		    "pull " ME
		    " iteration=%zu dense=1 rows=0 into-offset-bytes=%zu into-bytes=%zu\n",
		    i + 1, i, bytes, i + 1, bytes, bytes);
		expect_ok();
		expect_ok();
		seconds[i] = now() - start;
	}
	for (size_t i = 0; i < floats; i += 997) { /* lr 0.5 */
		float want = -(float)rounds * 0.5f * gradient[i];
		if (model[i] < want - 1e-3f || model[i] > want + 1e-3f) {
			fprintf(stderr, "ps-pushpull: element %zu is %g, not %g\n", i,
				(double)model[i], (double)want);
			exit(70);
		}
	}
}

static void sparse(size_t rows, size_t rounds, size_t width, double *seconds)
{
	size_t bytes = rows * (1 + width) * sizeof(float);
	unsigned *key, x = 1;
	struct error err;
	void *memory;

	/* keys, gradients; then room for the model */
	if (call_map(server, 2 * bytes, &memory, &err) != 0)
		die("map", &err);
	key = memory;
	memset(memory, 0, 2 * bytes);
	for (size_t i = 0; i < rounds; i++) {
		for (size_t k = 0; k < rows; k++) { /* no two the same, all over a million */
			x = x * 1664525u + 1013904223u;
			key[k] = (unsigned)(k * (1000000 / rows)) +
				 (x >> 8) % (unsigned)(1000000 / rows);
		}
		for (size_t k = rows - 1; k > 0; k--) {
			x = x * 1664525u + 1013904223u;
			size_t j = (x >> 4) % (k + 1);
			unsigned swap = key[k];
			key[k] = key[j];
			key[j] = swap;
		}
		double start = now();
		say("pull " ME " iteration=%zu dense=0 rows=%zu into-offset-bytes=%zu "
		    "into-bytes=%zu map-offset-bytes=0 map-bytes=%zu\n",
		    i, rows, bytes, rows * width * sizeof(float), rows * sizeof(unsigned));
		expect_ok();
		say("push " ME " sequence=%zu iteration=%zu count=4096 dense=0 rows=%zu ranges= "
		    "map-offset-bytes=0 map-bytes=%zu\n",
		    i + 1, i, rows, bytes);
		expect_ok();
		seconds[i] = now() - start;
	}
}

static void local(size_t floats, size_t rounds, double *seconds)
{
	float *x = malloc(floats * sizeof *x), *y = malloc(floats * sizeof *y);
	float *copy = malloc(floats * sizeof *copy);

	memset(x, 1, floats * sizeof *x);
	memset(y, 1, floats * sizeof *y);
	memset(copy, 1, floats * sizeof *copy);
	for (size_t i = 0; i < rounds; i++) {
		double start = now();
		for (size_t k = 0; k < floats; k++)
			y[k] += x[k];
		memcpy(copy, y, floats * sizeof *copy);
		__asm__ volatile("" ::"r"(copy), "r"(y) : "memory");
		seconds[i] = now() - start;
	}
	free(x);
	free(y);
	free(copy);
}

int main(int argc, char **argv)
{
	struct error err;

	if (argc < 5)
		return 64;
	size_t size = strtoul(argv[3], NULL, 10), rounds = strtoul(argv[4], NULL, 10);
	double *seconds = calloc(rounds, sizeof *seconds);
	if (strcmp(argv[1], "local") == 0) {
		local(size, rounds, seconds);
		report(seconds, rounds);
		return 0;
	}
	if (call_open(&server, argv[2], 10, 60, &err) != 0)
		die(argv[2], &err);
	say("join " ME "\n");
	expect_ok();
	if (strcmp(argv[1], "dense") == 0)
		dense(size, rounds, seconds);
	else
		sparse(size, rounds, strtoul(argv[5], NULL, 10), seconds);
	report(seconds, rounds);
	call_close(server);
	return 0;
}
#endif
