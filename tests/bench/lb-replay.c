/*
 * lb-replay: what an iteration would have lasted, had the batches been cut by predictions. Reads the
 * `pred` records of speed-predict (or of anybody), grouped by k; cuts a global batch of 1024 samples
 * a worker in proportion (Eq. 3, lib/solve/batch.h) by the predictions and, for the oracle, by the
 * actual speeds; prints the sum of the longest times of both and their ratio.
 *
 *   lb-replay [even] [FROM [TO]] < pred      even: the same batch for each, whatever was predicted
 *
 * Rounds FROM <= k < TO count, with workers that have both a prediction and an actual speed.
 */
#include "solve/batch.h"
#include "wire/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 4096
#define BATCH 1024

static struct batch_worker row[WORKERS_MAX];
static double said[WORKERS_MAX], actual[WORKERS_MAX];
static size_t count;
static double sum_said, sum_oracle;
static unsigned long rounds;

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "lb-replay: %s: %s\n", what, err ? err->text : "");
	exit(65);
}

/* Longest of batch/actual when batches are cut by `speed`; all the same when it is NULL. */
static double longest(const double *speed)
{
	struct error err = {0};
	double t = 0;
	for (size_t i = 0; i < count; i++)
		row[i] = (struct batch_worker){.speed = speed ? speed[i] : 1,
					       .max = BATCH_SIZE_MAX,
					       .count = 1};
	if (batch_share(row, count, BATCH * count, &err) != 0)
		die("share", &err);
	for (size_t i = 0; i < count; i++)
		t = fmax(t, (double)row[i].size / actual[i]);
	return t;
}

static void end_round(int even)
{
	if (count > 0) {
		sum_said += longest(even ? NULL : said);
		sum_oracle += longest(actual);
		rounds++;
	}
	count = 0;
}

int main(int argc, char **argv)
{
	static struct record r;
	struct error err = {0};
	int even = argc > 1 && strcmp(argv[1], "even") == 0, got;
	uint64_t from = argc > 1 + even ? strtoull(argv[1 + even], NULL, 10) : 0;
	uint64_t to = argc > 2 + even ? strtoull(argv[2 + even], NULL, 10) : UINT64_MAX;
	uint64_t k, now = UINT64_MAX;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	while (in && (got = record_read(in, &r, &err)) != RECORD_END) {
		double s = NAN, a = NAN;
		if (got < 0)
			die("stdin", &err);
		if (got == RECORD_BLANK || !record_is(&r, "pred"))
			continue;
		if (record_u64(&r, "k", 0, UINT64_MAX, &k, &err) != 0 ||
		    record_real_opt(&r, "speed", 1e-12, 1e18, &s, &err) != 0 ||
		    record_real_opt(&r, "actual", 1e-12, 1e18, &a, &err) != 0)
			die("stdin", &err);
		if (k != now)
			end_round(even);
		now = k;
		if (k < from || k >= to || isnan(s) || isnan(a) || count == WORKERS_MAX)
			continue;
		said[count] = s;
		actual[count++] = a;
	}
	end_round(even);
	record_reader_free(in);
	printf("%lu %.6f %.6f %.5f\n", rounds, sum_said, sum_oracle, sum_said / sum_oracle);
	return 0;
}
