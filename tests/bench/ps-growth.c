/*
 * The driver of ps-growth: a worker by hand that makes one step after the other, a push without
 * gradients to all parts and then to the lead, by the map that is in force.
 *
 *     ps-growth LEAD FIRST-ITERATION                  one step; when it is done, it ends
 *     ps-growth LEAD FIRST-ITERATION SOCKET,...       asks for a move to these, and goes on
 *     ps-growth LEAD FIRST-ITERATION SOCKET,... ROWS  the same, with so many rows in their tables
 *     ps-growth LEAD FIRST-ITERATION cut=DIR          asks for a cut, and goes on; prints the longest
 *                                                     step until it is written
 *
 * Prints of a move: bytes moved, pieces, seconds that it took, the median step without a move, the
 * longest one while it lasted, seconds of copying as many bytes once, and of sending as many to
 * another process; with ROWS also the median and the longest pull of those that made them, and
 * seconds of sending as many rows as move (three quarters) from one table to another process' table.
 */
#include "param/map.h"
#include "param/table.h"
#include "wire/call.h"

#include "rounds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTS_MAX 64
#define STEPS 100 /* before the move */
#define PULL_ROWS ((size_t)4096)
#define ROW_WIDTH 8 /* as bench/move-rows has it */
#define ROUNDS 3     /* of the peer */
#define COPY_BYTES ((size_t)64 << 20)

static struct call *lead, *part[PARTS_MAX];
static size_t parts;
static unsigned long long version = 1, step_number;
static struct record answer;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "ps-growth: %s: %s\n", what, why);
	exit(70);
}

static void say(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct call *c, const char *fmt, ...)
{
	char line[RECORD_LINE_MAX];
	struct error err;
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (call_send(c, line, (size_t)len, NULL, 0, &err) != 0)
		die("send", err.text);
}

/* The closing record of an answer; 0: another map is in force. */
static int closing(struct call *c)
{
	struct error err = {0};
	const char *code;

	do {
		if (call_receive(c, &answer, &err) != 0)
			die("receive", err.text);
		if (!record_is(&answer, "err"))
			continue;
		code = record_get(&answer, "code");
		if (code && strcmp(code, "map") == 0)
			return 0;
		die("answer", answer.text ? answer.text : "refused");
	} while (!record_is(&answer, "ok"));
	return 1;
}

/* The parts that there are now. */
static void look(void)
{
	struct error err = {0};
	char path[PARTS_MAX][512];
	size_t count = 0;

	say(lead, "parts\n");
	for (;;) {
		if (call_receive(lead, &answer, &err) != 0)
			die("parts", err.text);
		if (!record_is(&answer, "part"))
			break;
		const char *socket = record_get(&answer, "socket");
		if (count < PARTS_MAX)
			snprintf(path[count++], sizeof path[0], "%s", socket ? socket : "");
	}
	version = strtoull(record_get(&answer, "version"), NULL, 10);
	for (size_t i = 1; i < parts; i++)
		call_close(part[i]);
	parts = count;
	for (size_t i = 1; i < parts; i++)
		if (call_open(&part[i], path[i], 10, 600, &err) != 0)
			die(path[i], err.text);
}

static int try_step(void)
{
	int same = 1;

	for (size_t i = 1; i <= parts; i++) { /* the lead last, when all others have it */
		struct call *c = i < parts ? part[i] : lead;
		if (i == parts)
			for (size_t k = 1; k < parts; k++)
				same &= closing(part[k]);
		if (!same)
			return 0;
		say(c,
		    "push worker=w0 generation=1 incarnation=1 sequence=%llu iteration=%llu count=1 "
		    "dense=0 rows=0 map=%llu%s\n",
		    step_number + 1, step_number, version, i < parts ? "" : " ranges=");
	}
	return closing(lead);
}

static double step(void)
{
	double start = now();

	while (!try_step())
		look();
	step_number++;
	return now() - start;
}

/* Rows 0 to count-1 come into being, as a worker would ask for them. */
static void make_rows(size_t count)
{
	size_t pulls = 0, n[PARTS_MAX] = {0};
	uint32_t(*key)[PULL_ROWS] = calloc(parts, sizeof *key);
	double *seconds = malloc((count / PULL_ROWS + parts) * sizeof *seconds), most = 0.0;
	struct map map;
	struct error err;
	char line[256];

	if (!key || !seconds)
		die("rows", "out of memory");
	map_even(&map, (uint32_t)parts, 0);
	for (size_t i = 0; i < count + parts; i++) { /* at the end, what is left for each */
		uint32_t k = (uint32_t)i;
		size_t to = i < count ? map_part_of_key(&map, k) : i - count;
		if (i < count)
			key[to][n[to]++] = k;
		if (n[to] == 0 || (i < count && n[to] < PULL_ROWS))
			continue;
		struct call *c = to ? part[to] : lead;
		int len = snprintf(line, sizeof line,
				   "pull worker=w0 generation=1 incarnation=1 iteration=%llu dense=0 rows=%zu "
				   "map=%llu bytes=%zu\n",
				   step_number, n[to], version, n[to] * sizeof *key[to]);
		double start = now();
		if (call_send(c, line, (size_t)len, key[to], n[to] * sizeof *key[to], &err) != 0)
			die("pull", err.text);
		if (!closing(c))
			die("pull", "another map");
		seconds[pulls] = now() - start;
		most = seconds[pulls] > most ? seconds[pulls] : most;
		pulls++;
		n[to] = 0;
	}
	printf("%.6f %.6f ", median(seconds, pulls), most);
	free(seconds);
	free(key);
}

static double copy_seconds(double bytes)
{
	char *a = malloc(COPY_BYTES), *b = malloc(COPY_BYTES);
	double best = 1e9;

	if (!a || !b)
		die("copy", "out of memory");
	memset(a, 1, COPY_BYTES);
	memset(b, 2, COPY_BYTES);
	for (int i = 0; i < 5; i++) {
		double start = now();
		memcpy(b, a, COPY_BYTES);
		double took = now() - start;
		if (b[i] == 1 && took < best)
			best = took;
	}
	free(a);
	free(b);
	return best / (double)COPY_BYTES * bytes;
}

static void no_values(uint32_t key, float *row, void *arg)
{
	(void)key;
	(void)row;
	(void)arg;
}

/* Rows of a batch on their way between processes. */
struct batch {
	uint32_t key[PULL_ROWS];
	float value[PULL_ROWS * ROW_WIDTH];
};

static void all_bytes(int fd, void *at, size_t bytes, int out)
{
	for (char *to = at; bytes > 0;) {
		ssize_t n = out ? write(fd, to, bytes) : read(fd, to, bytes);
		if (n <= 0)
			die("rows", "the other process has gone");
		to += n;
		bytes -= (size_t)n;
	}
}

static struct table *empty_table(void)
{
	struct table *t;
	struct error err;

	if (table_new(&t, ROW_WIDTH, 0, no_values, NULL, &err) != 0)
		die("rows", err.text);
	return t;
}

static void find_or_make(struct table *t, const uint32_t *key, size_t n, float **row)
{
	struct error err;

	if (table_rows(t, key, n, row, &err) != 0)
		die("rows", err.text);
}

static size_t batch_rows(size_t left)
{
	return left < PULL_ROWS ? left : PULL_ROWS;
}

/* A process that takes what comes through a socket, until so much is there; *fd: the other end. */
static pid_t taker(int *fd, void (*take)(int fd, size_t count), size_t count)
{
	int ends[2];
	pid_t pid = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? fork() : -1;

	if (pid < 0)
		die("taker", "no process");
	if (pid == 0) {
		take(ends[1], count);
		all_bytes(ends[1], (char[]){1}, 1, 1);
		_exit(0);
	}
	close(ends[1]);
	*fd = ends[0];
	return pid;
}

static double taken(int fd, pid_t pid, double start)
{
	char end;

	all_bytes(fd, &end, 1, 0);
	double took = now() - start;
	close(fd);
	(void)waitpid(pid, NULL, 0);
	return took;
}

static void take_bytes(int fd, size_t bytes)
{
	char *to = malloc(bytes);

	if (!to)
		die("bytes", "out of memory");
	all_bytes(fd, to, bytes, 0);
}

static double sent_seconds(size_t bytes)
{
	int fd;
	pid_t pid = taker(&fd, take_bytes, bytes);
	char *from = malloc(COPY_BYTES);

	if (!from)
		die("bytes", "out of memory");
	memset(from, 1, COPY_BYTES);
	double start = now();
	for (size_t n; bytes > 0; bytes -= n) {
		n = bytes < COPY_BYTES ? bytes : COPY_BYTES;
		all_bytes(fd, from, n, 1);
	}
	double took = taken(fd, pid, start);
	free(from);
	return took;
}

/* Takes so many rows into a table of its own. */
static void take_rows(int fd, size_t rows)
{
	static float *row[PULL_ROWS];
	static struct batch b;
	struct table *t = empty_table();

	for (size_t n; rows > 0; rows -= n) {
		n = batch_rows(rows);
		all_bytes(fd, b.key, n * sizeof *b.key, 0);
		all_bytes(fd, b.value, n * ROW_WIDTH * sizeof *b.value, 0);
		find_or_make(t, b.key, n, row);
		for (size_t j = 0; j < n; j++)
			memcpy(row[j], b.value + j * ROW_WIDTH, ROW_WIDTH * sizeof *b.value);
	}
}

/* Of so many rows in a table, all from `first` on go to another process' empty table. */
static double rows_seconds(size_t rows, size_t first)
{
	static float *row[PULL_ROWS];
	static struct batch b;
	int fd;
	pid_t pid = taker(&fd, take_rows, rows - first);
	struct table *t = empty_table();

	for (size_t i = 0, n; i < rows; i += n) {
		n = batch_rows(rows - i);
		for (size_t j = 0; j < n; j++)
			b.key[j] = (uint32_t)(i + j);
		find_or_make(t, b.key, n, row);
	}
	double start = now();
	for (size_t i = first, n; i < rows; i += n) {
		n = batch_rows(rows - i);
		for (size_t j = 0; j < n; j++)
			b.key[j] = (uint32_t)(i + j);
		table_look(t, b.key, n, row);
		for (size_t j = 0; j < n; j++)
			memcpy(b.value + j * ROW_WIDTH, row[j], ROW_WIDTH * sizeof *b.value);
		all_bytes(fd, b.key, n * sizeof *b.key, 1);
		all_bytes(fd, b.value, n * ROW_WIDTH * sizeof *b.value, 1);
		table_remove(t, b.key, n);
	}
	double took = taken(fd, pid, start);
	table_free(t);
	return took;
}

/* Steps are made until the lead has answered; the longest one. */
static double beside(const char *path, const char *line)
{
	struct call *asked;
	struct error err = {0};
	double most = 0.0;

	if (call_open(&asked, path, 10, 600, &err) != 0)
		die(path, err.text);
	say(asked, "%s\n", line);
	while (call_receive_within(asked, &answer, 0.0, &err) != 0) {
		double one = step();
		most = one > most ? one : most;
	}
	if (!record_is(&answer, "ok"))
		die(line, answer.text ? answer.text : "refused");
	call_close(asked);
	return most;
}

static void move(const char *path, const char *sockets)
{
	char line[RECORD_LINE_MAX];
	double before[STEPS], sent[ROUNDS], start;
	size_t count = 1;

	for (size_t i = 0; i < STEPS; i++)
		before[i] = step();
	for (const char *at = sockets; *at; at++)
		count += *at == ',';
	snprintf(line, sizeof line, "move parts=%zu servers=%s", count + 1, sockets);
	start = now();
	double most = beside(path, line), took = now() - start;
	double bytes = strtod(record_get(&answer, "moved-bytes"), NULL);
	double pieces = strtod(record_get(&answer, "pieces"), NULL);
	double last = step(); /* by the new map */
	most = last > most ? last : most;
	for (size_t i = 0; i < ROUNDS; i++)
		sent[i] = sent_seconds((size_t)bytes);
	printf("%.0f %.0f %.3f %.6f %.6f %.6f %.6f", bytes, pieces, took, median(before, STEPS), most,
	       copy_seconds(bytes), median(sent, ROUNDS));
}

int main(int argc, char **argv)
{
	struct error err = {0};

	if (argc < 3)
		return 64;
	if (call_open(&lead, argv[1], 600, 600, &err) != 0)
		die(argv[1], err.text);
	step_number = strtoull(argv[2], NULL, 10);
	say(lead, "join worker=w0 generation=1 incarnation=1\n");
	(void)closing(lead);
	look();
	if (argc > 4)
		make_rows(strtoull(argv[4], NULL, 10));
	if (argc > 3 && strncmp(argv[3], "cut=", 4) == 0) {
		char line[RECORD_LINE_MAX];
		snprintf(line, sizeof line, "cut path=%s", argv[3] + 4);
		printf("%.6f\n", beside(argv[1], line));
	} else if (argc > 3) {
		move(argv[1], argv[3]);
		if (argc > 4) {
			size_t rows = strtoull(argv[4], NULL, 10);
			double seconds[ROUNDS];
			for (size_t i = 0; i < ROUNDS; i++)
				seconds[i] = rows_seconds(rows, rows / 4);
			printf(" %.6f", median(seconds, ROUNDS));
		}
		printf("\n");
	} else
		(void)step();
	return 0;
}
