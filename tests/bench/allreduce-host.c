/*
 * The driver of allreduce-host: gradients of several workers on one host become one step, timed
 * from the last push to the moment when the new parameters may be read.  As workers it shares a
 * gradient each with a replica, as the lead it orders the sum and the step.  Built with mpicc
 * -DWITH_MPI: an MPI_Allreduce of the same bytes, without the step, by as many ranks; from when the
 * last one is there to when the last one has it.  With `parts` all but the first 256 KiB of each
 * gradient is said to be final before, as by workers whose backward pass still runs.  Prints the
 * median seconds of a round.  ID and REPLICAS: of this host's replica and of all (r0,r1,r2), each
 * host with such a driver and as many workers.
 *
 *     allreduce-host SOCKET FLOATS ROUNDS WORKERS [ID REPLICAS] [parts]
 *     mpirun -n WORKERS allreduce-host-mpi FLOATS ROUNDS
 */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float gradient_of(size_t worker, size_t i)
{
	return (float)(i % 8 + worker) / 8;
}

#ifdef WITH_MPI
#include <mpi.h>

int main(int argc, char **argv)
{
	int rank, ranks, floats = atoi(argv[1]), rounds = atoi(argv[2]);
	double *seconds = calloc((size_t)rounds, sizeof *seconds);
	float *in = malloc((size_t)floats * sizeof *in),
	      *out = malloc((size_t)floats * sizeof *out);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < floats; i++)
		in[i] = gradient_of((size_t)rank, (size_t)i);
	memset(out, 0, (size_t)floats * sizeof *out);
	for (int i = 0; i < rounds; i++) {
		double begin, last, end, done;
		MPI_Barrier(MPI_COMM_WORLD);
		begin = now();
		MPI_Allreduce(in, out, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		end = now();
		MPI_Allreduce(&begin, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		MPI_Allreduce(&end, &done, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		seconds[i] = done - last;
	}
	if (rank == 0)
		printf("%.6f\n", median(seconds, (size_t)rounds));
	MPI_Finalize();
	return argc == 0;
}
#else
#include "wire/call.h"

#include <stdarg.h>
#include <sys/mman.h>

#define WORKERS_MAX 64
#define ME "generation=1 incarnation=1"
#define LAST_FLOATS ((size_t)64 << 10) /* of a gradient that is final with the push */
#define BACKWARD_SECONDS 0.15

static void die(const char *what, const char *why)
{
	fprintf(stderr, "allreduce-host: %s: %s\n", what, why);
	exit(70);
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

static void expect_ok(struct call *c)
{
	static struct record r;
	struct error err;

	do {
		if (call_receive(c, &r, &err) != 0)
			die("receive", err.text);
	} while (!record_is(&r, "ok") && !record_is(&r, "err"));
	if (record_is(&r, "err"))
		die("answer", r.text ? r.text : "refused");
}

static const float *look(struct call *c, size_t floats)
{
	say(c, "look\n");
	expect_ok(c);
	void *memory = mmap(NULL, floats * sizeof(float), PROT_READ, MAP_SHARED, call_passed(c), 0);
	if (memory == MAP_FAILED)
		die("look", "mmap");
	return memory;
}

/* From the back to the front, a megabyte at a time, while a backward pass would run. */
static void say_parts(struct call *const *worker, size_t workers, size_t round, size_t floats)
{
	size_t piece = (size_t)256 << 10;

	for (size_t to = floats; to > LAST_FLOATS; to -= piece < to ? piece : to) {
		size_t from = to > LAST_FLOATS + piece ? to - piece : LAST_FLOATS;
		for (size_t k = 0; k < workers; k++) {
			say(worker[k],
			    "part worker=w%zu " ME " sequence=%zu iteration=%zu begin=%zu "
			    "length=%zu map-offset-bytes=0 map-bytes=%zu\n",
			    k, round + 1, round, from, to - from, floats * sizeof(float));
			expect_ok(worker[k]);
		}
		struct timespec pause = {
			.tv_nsec = (long)(BACKWARD_SECONDS * 1e9 * (double)piece / (double)floats)};
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct call *lead, *worker[WORKERS_MAX];
	struct error err;
	char members[8192] = "";
	void *memory;
	float mean = 0;

	if (argc < 5)
		return 64;
	size_t floats = strtoul(argv[2], NULL, 10), rounds = strtoul(argv[3], NULL, 10);
	size_t workers = strtoul(argv[4], NULL, 10), bytes = floats * sizeof(float);
	const char *id = argc > 6 ? argv[5] : "r0", *replicas = argc > 6 ? argv[6] : id;
	size_t all = workers;
	for (const char *c = replicas; *c; c++)
		all += *c == ',' ? workers : 0;
	double *seconds = calloc(rounds, sizeof *seconds);
	lead = open_call(argv[1]);
	for (size_t k = 0; k < workers && k < WORKERS_MAX; k++) {
		worker[k] = open_call(argv[1]);
		if (call_map(worker[k], bytes, &memory, &err) != 0)
			die("map", err.text);
		for (size_t i = 0; i < floats; i++)
			((float *)memory)[i] = gradient_of(k, i);
		sprintf(members + strlen(members), "member worker=w%zu generation=1 replica=%s\n",
			k, id);
		mean += gradient_of(k, 997 % 8) / (float)workers;
	}
	const float *parameters = look(worker[0], floats);
	for (size_t i = 0; i < rounds; i++) {
		double start = 0;
		say(lead, "sum incarnation=1 round=%zu iteration=%zu replicas=%s bytes=%zu\n%s",
		    i + 1, i, replicas, strlen(members), members);
		if (argc % 2 == 0) /* parts */
			say_parts(worker, workers, i, floats);
		for (size_t k = 0; k < workers; k++) {
			if (k + 1 == workers)
				start = now();
			say(worker[k],
			    "push worker=w%zu " ME
			    " sequence=%zu iteration=%zu count=1 dense=1 rows=0 "
			    "ranges= map-offset-bytes=0 map-bytes=%zu\n",
			    k, i + 1, i, bytes);
			expect_ok(worker[k]);
		}
		expect_ok(lead);
		say(lead,
		    "apply incarnation=1 iteration=%zu units=1 round=%zu divisor=%zu samples=%zu\n",
		    i, i + 1, all, all);
		say(worker[0], "pull worker=w0 " ME " iteration=%zu dense=0 rows=0\n", i + 1);
		expect_ok(worker[0]);
		seconds[i] = now() - start;
		float want = -(float)(i + 1) * 0.5f * mean; /* lr 0.5 */
		if (parameters[997] < want - 1e-3f || parameters[997] > want + 1e-3f)
			die("look", "the step is not there");
		expect_ok(lead);
	}
	printf("%.6f\n", median(seconds, rounds));
	return 0;
}
#endif
