/*
 * The driver of fabric-allreduce: a replica of one host, as far as the fabric sees it.  In each
 * round all hosts begin together (a small sum of its own), add what their workers have block by
 * block, and wait for the sum.  Every sum is checked.  Prints one line:
 *
 *     each=SECONDS,SECONDS,... time=SECONDS rows=N own-rows=N wire-bytes=N sums=DIGITS
 *
 * each: the rounds in their order, from their begin until the sum is there; time their median;
 * wire-bytes what this host sent in the last one; sums the same on all hosts.
 *
 *     fabric-allreduce SOCKET HOSTS SELF ROUNDS FLOATS WORKERS SAMPLES
 *
 * HOSTS is h0,h1,...; SELF this one's place in it; SAMPLES of 26 keys each, as in Criteo's data,
 * with rows of 16 floats (0: none).
 */
#include "base/random.h"
#include "wire/call.h"

#include "rounds.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_FLOATS (UINT64_C(1) << 18)
#define WIDTH 16
#define COLUMNS 26
#define WORKERS_MAX 8

/* How many values each column of Criteo's data has. */
static const double values[COLUMNS] = {1460,  583,     10131227, 2202608, 305,     24,   12517,
				       633,   3,       93145,    5683,    8351593, 3194, 27,
				       14992, 5461306, 10,       5652,    2173,    4,    7046547,
				       18,    15,      286181,   105,     142572};

static struct call *call;
static struct record answer;
static const char *hosts;
static unsigned host_count = 1, self, workers;
static uint64_t floats, samples, opened, oks;
static float *worker[WORKERS_MAX], *dense;
static char *memory;
static size_t rows, rows_offset, out_offset, out_bytes;
static uint32_t *key;
static uint64_t sums = 1, wire_bytes, merged_rows;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "fabric-allreduce: %s: %s\n", what, why);
	exit(70);
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
	char line[RECORD_LINE_MAX];
	struct error err = {0};
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (call_send(call, line, (size_t)len, NULL, 0, &err) != 0)
		die("send", err.text);
	oks++;
}

static void hear(void)
{
	struct error err = {0};

	for (; oks > 0; oks--) {
		if (call_receive(call, &answer, &err) != 0)
			die("receive", err.text);
		if (!record_is(&answer, "ok"))
			die(record_get(&answer, "code"), answer.text ? answer.text : "");
	}
}

/* All hosts have come here. */
static void begin_together(void)
{
	say("sum-open round=%" PRIu64 " iteration=0 hosts=%s dense=0\n", ++opened, hosts);
	say("sum-wait round=%" PRIu64 "\n", opened);
	hear();
}

/* ---- dense ---- */

/* Whole numbers, so that sums are exact in any order. */
static float number(uint64_t i, unsigned host, unsigned w, uint64_t round)
{
	return (float)((i * 7 + i / 1000 + host * 31 + w * 17 + round) % 97);
}

static void fill(uint64_t round)
{
	for (unsigned w = 0; w < workers; w++)
		for (uint64_t i = 0; i < floats; i++)
			worker[w][i] = number(i, self, w, round);
}

static void add_block(uint64_t begin, uint64_t length)
{
	memcpy(dense + begin, worker[0] + begin, length * sizeof *dense);
	for (unsigned w = 1; w < workers; w++) {
		float *restrict to = dense + begin;
		const float *restrict from = worker[w] + begin;
		for (uint64_t i = 0; i < length; i++)
			to[i] += from[i];
	}
}

/* As the backward pass comes to them: from the end. */
static void give_dense(void)
{
	for (uint64_t end = floats; end > 0;) {
		uint64_t begin = (end - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
		if (workers > 1)
			add_block(begin, end - begin);
		say("sum-part round=%" PRIu64 " begin=%" PRIu64 " length=%" PRIu64 "\n", opened,
		    begin, end - begin);
		end = begin;
	}
}

static void check_dense(uint64_t round)
{
	for (uint64_t i = 0; i < floats; i += 1 + i % 7) {
		float sum = 0;
		for (unsigned h = 0; h < host_count; h++)
			for (unsigned w = 0; w < workers; w++)
				sum += number(i, h, w, round);
		if (dense[i] != sum) {
			fprintf(stderr, "float %" PRIu64 ": %g, not %g\n", i, (double)dense[i],
				(double)sum);
			die("sum", "is wrong");
		}
	}
}

/* ---- rows ---- */

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The keys of a host's batch: of each column the values that are frequent come often (Zipf's law).
 */
static size_t draw_keys(unsigned host, uint64_t round, uint32_t *to)
{
	uint64_t state = 1000 * round + host;
	size_t n = 0, kept = 0;

	for (uint64_t i = 0; i < samples; i++)
		for (unsigned c = 0; c < COLUMNS; c++) {
			uint64_t v = (uint64_t)pow(values[c] + 1, random_uniform(&state));
			to[n++] = (uint32_t)(v * 2654435761u + c * 40503u * 65537u);
		}
	qsort(to, n, sizeof *to, ascending);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || to[i] != to[kept - 1])
			to[kept++] = to[i];
	return kept;
}

static void fill_rows(uint64_t round)
{
	if (samples == 0)
		return;
	rows = draw_keys(self, round, key);
	float *to = (float *)(memory + rows_offset + rows * sizeof *key);
	memcpy(memory + rows_offset, key, rows * sizeof *key);
	for (size_t i = 0; i < rows * WIDTH; i++)
		to[i] = (float)(self + 1);
}

static void check_rows(uint64_t round)
{
	const uint32_t *got = (const uint32_t *)(const void *)(memory + out_offset);
	const float *row = (const float *)(const void *)(got + merged_rows);

	if (samples == 0)
		return;
	float *sum = calloc(merged_rows, sizeof *sum);
	for (unsigned h = 0; sum && h < host_count; h++) {
		size_t n = draw_keys(h, round, key), at = 0;
		for (size_t i = 0; i < n; i++) {
			while (at < merged_rows && got[at] < key[i])
				at++;
			if (at == merged_rows || got[at] != key[i])
				die("rows", "a key is missing");
			sum[at] += (float)(h + 1);
		}
	}
	for (size_t i = 0; sum && i < merged_rows * WIDTH; i++)
		if (row[i] != sum[i / WIDTH] || sum[i / WIDTH] == 0)
			die("rows", "a sum is wrong");
	free(sum);
}

/* ---- rounds ---- */

static double run_round(uint64_t round)
{
	struct error err;

	fill_rows(round);
	if (workers > 1 || round == 0)
		fill(round);
	if (workers == 1)
		memcpy(dense, worker[0], floats * sizeof *dense);
	begin_together();
	double began = now();
	say("sum-open round=%" PRIu64 " iteration=%" PRIu64 " hosts=%s dense=%" PRIu64
	    " dense-offset=0\n",
	    ++opened, round, hosts, floats);
	give_dense();
	if (samples)
		say("sum-rows round=%" PRIu64 " rows=%zu width=%d offset=%zu out-offset=%zu "
		    "out-bytes=%zu\n",
		    opened, rows, WIDTH, rows_offset, out_offset, out_bytes);
	say("sum-wait round=%" PRIu64 "\n", opened);
	hear();
	double seconds = now() - began;
	if (record_u64(&answer, "rows", 0, UINT64_MAX, &merged_rows, &err) != 0 ||
	    record_u64(&answer, "wire-bytes", 0, UINT64_MAX, &wire_bytes, &err) != 0)
		die("answer", err.text);
	say("sum-wait round=%" PRIu64 " check=1\n", opened);
	hear();
	sums = sums * 31 + strtoull(record_get(&answer, "sum"), NULL, 10);
	check_dense(workers > 1 ? round : 0);
	check_rows(round);
	return seconds;
}

static void make_memory(void)
{
	struct error err;
	void *at;
	size_t row_bytes = 4 + 4 * WIDTH;

	rows_offset = (floats * sizeof *dense + 63) / 64 * 64;
	out_offset = rows_offset + (samples * COLUMNS * row_bytes + 63) / 64 * 64;
	out_bytes = samples * COLUMNS * host_count * row_bytes;
	if (call_map(call, out_offset + out_bytes + 64, &at, &err) != 0)
		die("map", err.text);
	memory = at;
	memset(memory, 0, out_offset + out_bytes + 64);
	dense = at;
	key = malloc((samples * COLUMNS + 1) * sizeof *key);
	for (unsigned w = 0; w < workers; w++)
		if (!key || !(worker[w] = malloc((floats + 1) * sizeof *dense)))
			die("memory", "none is left");
}

int main(int argc, char **argv)
{
	struct error err;

	if (argc != 8)
		die("usage", "SOCKET HOSTS SELF ROUNDS FLOATS WORKERS SAMPLES");
	hosts = argv[2];
	for (const char *c = hosts; *c; c++)
		host_count += *c == ',';
	self = (unsigned)atoi(argv[3]);
	size_t rounds = (size_t)atoi(argv[4]);
	floats = strtoull(argv[5], NULL, 10);
	workers = (unsigned)atoi(argv[6]);
	samples = strtoull(argv[7], NULL, 10);
	if (workers < 1 || workers > WORKERS_MAX || rounds < 1)
		die("usage", "WORKERS is 1 to 8, ROUNDS at least 1");
	double *seconds = calloc(rounds, sizeof *seconds);
	if (!seconds || call_open(&call, argv[1], 10, 300, &err) != 0)
		die(argv[1], err.text);
	make_memory();
	(void)run_round(0); /* pages that are there, connections that are warm */
	for (size_t i = 0; i < rounds; i++)
		seconds[i] = run_round(i + 1);
	begin_together(); /* nobody leaves what another one still needs */
	for (size_t i = 0; i < rounds; i++)
		printf("%s%.6f", i ? "," : "each=", seconds[i]);
	printf(" time=%.6f rows=%" PRIu64 " own-rows=%zu wire-bytes=%" PRIu64 " sums=%016" PRIx64
	       "\n",
	       median(seconds, rounds), merged_rows, rows, wire_bytes, sums);
	call_close(call);
	return 0;
}
