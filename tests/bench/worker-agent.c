/* worker-agent: what a report costs the worker that sends it, in microseconds; and beside it, what
 * a write to a socket costs whose reader is asleep. */
#include "base/clock.h"
#include "meter/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_BYTES 200
#define BATCH_US 25 /* as long as a batch of the bench's job: the reader sleeps by then */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print(const char *what, double *us, size_t count)
{
	qsort(us, count, sizeof *us, compare);
	printf("%s-us=%.2f %s-p99-us=%.2f ", what, us[count / 2], what, us[count * 99 / 100]);
}

static void fail(const struct error *err)
{
	fprintf(stderr, "worker-agent: %s: %s\n", err->place, err->text);
	exit(1);
}

static void measure_load(double *us, size_t rounds)
{
	struct load *load;
	struct load_values v;
	struct error err;
	if (load_new(&load, "", &err) < 0)
		fail(&err);
	for (size_t i = 0; i < rounds; i++) {
		double began = clock_mono(); /* every look is told that the last was long ago */
		load_look(load, (double)i, &v);
		us[i] = (clock_mono() - began) * 1e6;
	}
	print("load", us, rounds);
	load_free(load);
}

/* Reports as fast as they can be made, so that the load is looked at in few of them only. */
static void measure_reports(const char *monitor, double *us, size_t rounds)
{
	struct meter_options options = {.id = "w0",
					.monitor = monitor,
					.load_root = "",
					.report_every = 1,
					.report_seconds = 1000};
	struct tally_batch b = {.time = 0.1, .compute = 0.05, .comm = 0.01, .wait = 0.02, .samples = 64};
	struct meter *meter;
	struct error err;
	if (meter_new(&meter, &options, &err) != 0)
		fail(&err);
	for (size_t i = 0; i < rounds; i++) {
		double began = clock_mono();
		meter_batch(meter, i, 1, &b);
		us[i] = (clock_mono() - began) * 1e6;
	}
	print("report", us, rounds);
	meter_free(meter);
}

/* The peer: nothing but the write of as many bytes as a report has, to a process that waits for them. */
static void measure_writes(double *us, size_t rounds)
{
	char bytes[REPORT_BYTES] = {0};
	int pair[2];
	pid_t reader;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || (reader = fork()) < 0) {
		perror("worker-agent");
		exit(1);
	}
	if (reader == 0) {
		close(pair[0]);
		while (read(pair[1], bytes, sizeof bytes) > 0)
			;
		_exit(0);
	}
	close(pair[1]);
	for (size_t i = 0; i < rounds; i++) {
		double began = clock_mono();
		if (write(pair[0], bytes, sizeof bytes) != sizeof bytes)
			exit(1);
		double ended = clock_mono();
		us[i] = (ended - began) * 1e6;
		while (clock_mono() - ended < BATCH_US * 1e-6)
			;
	}
	close(pair[0]);
	waitpid(reader, NULL, 0);
	print("write", us, rounds);
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	double *us = malloc(rounds * sizeof *us);
	if (!us || argc < 2)
		return 64;
	if (strcmp(argv[1], "load") == 0)
		measure_load(us, rounds);
	else if (strcmp(argv[1], "write") == 0)
		measure_writes(us, rounds);
	else
		measure_reports(argv[1], us, rounds);
	printf("\n");
	free(us);
	return 0;
}
