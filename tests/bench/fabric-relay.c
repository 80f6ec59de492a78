/*
 * The two ends of fabric-relay: a daemon that does nothing with what it gets, and its clients, timed;
 * and, built with mpicc -DWITH_MPI, what MPI itself needs for the same.
 *
 *     fabric-relay serve SOCKET
 *     fabric-relay bulk SOCKET BYTES ROUNDS      a payload there and one back, by shared memory
 *     fabric-relay inline SOCKET BYTES ROUNDS    the same through the sockets
 *     fabric-relay turn SOCKET ROUNDS            a short request and its answer
 *     fabric-relay many SOCKET COUNT             so many clients at once, one of them never reads
 *     mpirun -n 2 fabric-relay-mpi BYTES ROUNDS
 *
 * Prints the median seconds of a round.
 */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(double *seconds, size_t n)
{
	printf("%.7f\n", median(seconds, n));
}

#ifdef WITH_MPI
#include <mpi.h>

int main(int argc, char **argv)
{
	int rank, bytes = atoi(argv[1]), rounds = atoi(argv[2]);
	double *seconds = calloc((size_t)rounds, sizeof *seconds);
	char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	memset(out, 1, (size_t)bytes);
	memset(in, 1, (size_t)bytes);
	for (int i = 0; i < rounds; i++) {
		double start = now();
		if (rank == 0) {
			MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
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
#include "wire/server.h"

#include <sys/resource.h>

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "fabric-relay: %s: %s\n", what, err->text);
	exit(70);
}

/* ---- the daemon ---- */

static void on_push(struct request *rq, void *owner)
{
	(void)owner;
	request_ok(rq, "got=%zu", payload_bytes(request_payload(rq)));
}

static char *bulk;

static void on_pull(struct request *rq, void *owner)
{
	const struct record *r = request_record(rq);
	uint64_t offset = 0, bytes = 0;
	char line[128];
	(void)owner;
	if (record_get(r, "into-bytes")) {
		(void)record_u64_opt(r, "into-offset-bytes", 0, UINT64_MAX, &offset, NULL);
		(void)record_u64_opt(r, "into-bytes", 0, UINT64_MAX, &bytes, NULL);
		request_put(rq, line, (size_t)snprintf(line, sizeof line,
				"model map-offset-bytes=%llu map-bytes=%llu\n",
				(unsigned long long)offset, (unsigned long long)bytes));
	} else {
		(void)record_u64_opt(r, "want", 0, UINT64_MAX, &bytes, NULL);
		if (!bulk)
			bulk = calloc(1, bytes);
		request_put(rq, line, (size_t)snprintf(line, sizeof line, "model bytes=%llu\n",
						       (unsigned long long)bytes));
		request_put_ref(rq, bulk, bytes, NULL, NULL);
	}
	request_ok(rq, NULL);
}

static void on_echo(struct request *rq, void *owner)
{
	(void)owner;
	request_ok(rq, "n=%s", record_get(request_record(rq), "n"));
}

static int serve(const char *path)
{
	static const struct verb verbs[] = {
		{"push", "", "bytes", on_push, 1u << 30, ""},
		{"pull", "", "want into-bytes into-offset-bytes", on_pull, 0, ""},
		{"echo", "n", "", on_echo, 0, ""},
	};
	struct server_options options = {.path = path, .role = "bench", .verbs = verbs,
					 .verb_count = 3};
	struct server *s;
	struct error err = {0};
	if (server_new(&s, &options, &err) != 0 || server_run(s, NULL, 0, &err) != 0)
		die(path, &err);
	server_free(s);
	return 0;
}

/* ---- its clients ---- */

static struct call *dial(const char *path)
{
	struct call *c;
	struct error err;
	if (call_open(&c, path, 30, 60, &err) != 0)
		die(path, &err);
	return c;
}

static void ask(struct call *c, const char *line)
{
	static struct record r;
	struct error err;
	int got = call_request(c, line, strlen(line), &r, NULL, NULL, &err);
	if (got != CALL_OK)
		die(line, got == CALL_ERR ? &(struct error){.text = "refused"} : &err);
}

static void time_bulk(const char *path, size_t bytes, size_t rounds)
{
	struct call *c = dial(path);
	double *seconds = calloc(rounds, sizeof *seconds);
	struct error err;
	char push[128], pull[128];
	void *memory;
	if (call_map(c, 2 * bytes, &memory, &err) != 0)
		die("map", &err);
	memset(memory, 1, 2 * bytes);
	snprintf(push, sizeof push, "push map-offset-bytes=0 map-bytes=%zu\n", bytes);
	snprintf(pull, sizeof pull, "pull into-offset-bytes=%zu into-bytes=%zu\n", bytes, bytes);
	for (size_t i = 0; i < rounds; i++) {
		double start = now();
		ask(c, push);
		ask(c, pull);
		seconds[i] = now() - start;
	}
	report(seconds, rounds);
	call_close(c);
}

static void time_inline(const char *path, size_t bytes, size_t rounds)
{
	struct call *c = dial(path);
	double *seconds = calloc(rounds, sizeof *seconds);
	struct record r;
	struct error err;
	char push[128], pull[128], *data = calloc(1, bytes);
	snprintf(push, sizeof push, "push bytes=%zu\n", bytes);
	snprintf(pull, sizeof pull, "pull want=%zu\n", bytes);
	for (size_t i = 0; i < rounds; i++) {
		double start = now();
		if (call_send(c, push, strlen(push), data, bytes, &err) != 0 ||
		    call_receive(c, &r, &err) != 0 ||
		    call_send(c, pull, strlen(pull), NULL, 0, &err) != 0 ||
		    call_receive(c, &r, &err) != 0 || call_bytes(c, data, bytes, &err) != 0 ||
		    call_receive(c, &r, &err) != 0)
			die("inline", &err);
		seconds[i] = now() - start;
	}
	report(seconds, rounds);
	call_close(c);
}

static void time_turns(const char *path, size_t rounds)
{
	struct call *c = dial(path);
	double *seconds = calloc(rounds, sizeof *seconds);
	for (size_t i = 0; i < rounds; i++) {
		double start = now();
		ask(c, "echo n=1\n");
		seconds[i] = now() - start;
	}
	report(seconds, rounds);
	call_close(c);
}

/* All of them are there at once. The first asks for more than anybody keeps, and never reads. */
static void many(const char *path, size_t count)
{
	struct call **c = calloc(count, sizeof *c);
	struct rlimit limit;
	struct error err;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	double start = now();
	for (size_t i = 0; i < count; i++) {
		c[i] = dial(path);
		if (i > 0)
			continue;
		for (int k = 0; k < 10; k++)
			if (call_send(c[0], "pull want=100000000\n", 20, NULL, 0, &err) != 0)
				die("flood", &err);
	}
	double open = now() - start;
	start = now();
	for (size_t i = 1; i < count; i++)
		if (call_send(c[i], "echo n=1\n", 9, NULL, 0, &err) != 0)
			die("echo", &err);
	for (size_t i = 1; i < count; i++) {
		struct record r;
		if (call_receive(c[i], &r, &err) != 0)
			die("echo", &err);
	}
	printf("%.7f %.7f\n", open, now() - start);
	fflush(stdout);
	(void)getchar(); /* until nobody wants to look at it any more */
	for (size_t i = 0; i < count; i++)
		call_close(c[i]);
}

int main(int argc, char **argv)
{
	size_t a = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	size_t b = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	const char *what = argc > 2 ? argv[1] : "";
	if (strcmp(what, "serve") == 0)
		return serve(argv[2]);
	if (strcmp(what, "bulk") == 0 && b)
		time_bulk(argv[2], a, b);
	else if (strcmp(what, "inline") == 0 && b)
		time_inline(argv[2], a, b);
	else if (strcmp(what, "turn") == 0 && a)
		time_turns(argv[2], a);
	else if (strcmp(what, "many") == 0 && a)
		many(argv[2], a);
	else
		return 64;
	return 0;
}
#endif
