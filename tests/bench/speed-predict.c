/*
 * speed-predict: what a prediction and an online update cost, for tests/bench/speed-predict. Reads
 * the `obs` records of one worker, replays them through one model, and prints the median, the 99th
 * percentile and the largest of both, in microseconds of processor time, over the observations behind the warm-up.
 *
 *   speed-predict MODEL < obs        or: group WORKERS, the round of a group of so many
 */
#include "predict/group.h"
#include "record/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MANY 100000
#define BEHIND 600

static double cpu[MANY], mem[MANY], speed[MANY], said_us[MANY], learnt_us[MANY];

/* Of this thread: what others do on the machine costs us nothing. */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t read_obs(void)
{
	static struct record r;
	struct error err = {0};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	size_t n = 0;
	while (n < MANY && record_read(in, &r, &err) == RECORD_ONE) {
		cpu[n] = mem[n] = NAN;
		if (record_real_opt(&r, "cpu", 0, 1, &cpu[n], &err) != 0 ||
		    record_real_opt(&r, "mem", 0, 1, &mem[n], &err) != 0 ||
		    record_real(&r, "speed", PREDICT_SPEED_MIN, PREDICT_SPEED_MAX, &speed[n], &err))
			break;
		n++;
	}
	record_reader_free(in);
	if (err.code) {
		fprintf(stderr, "speed-predict: %s: %s\n", err.place, err.text);
		exit(err.code);
	}
	return n;
}

static int order(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;
	return (d > 0) - (d < 0);
}

static void print(const char *what, double *us, size_t n)
{
	qsort(us, n, sizeof *us, order);
	printf(" %s-us=%.2f %s-us-p99=%.2f %s-us-max=%.1f", what, us[n / 2], what, us[n * 99 / 100],
	       what, us[n - 1]);
}

static void one(const char *model, size_t n)
{
	struct predict_config c;
	struct predictor *p;
	enum predict_model kind;
	if (predict_model_of(model, &kind) != 0)
		exit(64);
	predict_config_init(&c, kind);
	if (predictor_new(&p, &c, NULL) != 0)
		exit(71);
	for (size_t k = 0; k < n; k++) {
		double begin = now();
		predictor_predict(p, cpu[k], mem[k]);
		double middle = now();
		predictor_observe(p, speed[k]);
		said_us[k] = 1e6 * (middle - begin);
		learnt_us[k] = 1e6 * (now() - middle);
	}
	predictor_free(p);
	printf("model=%s", model);
	print("predict", said_us + BEHIND, n - BEHIND);
	print("update", learnt_us + BEHIND, n - BEHIND);
	puts("");
}

static void group(size_t workers, size_t n)
{
	struct predict_group *g;
	size_t worker, rounds = 0;
	if (predict_group_new(&g, NULL) != 0)
		exit(71);
	for (size_t i = 0; i < workers; i++)
		if (predict_group_add(g, &worker, NULL) != 0)
			exit(71);
	for (size_t k = 0; (k + 1) * workers <= n; k++, rounds++) {
		double begin = now();
		for (size_t i = 0; i < workers; i++)
			predict_group_predict(g, i, speed[k], PREDICT_LOSS_BOTH);
		double middle = now();
		for (size_t i = 0; i < workers; i++)
			predict_group_observe(g, i, speed[k * workers + i]);
		predict_group_close(g);
		said_us[k] = 1e6 * (middle - begin);
		learnt_us[k] = 1e6 * (now() - middle);
	}
	predict_group_free(g);
	printf("model=group workers=%zu", workers);
	print("predict", said_us, rounds);
	print("update", learnt_us, rounds);
	puts("");
}

int main(int argc, char **argv)
{
	size_t n = read_obs();
	if (argc < 2 || n <= BEHIND)
		return 64;
	if (strcmp(argv[1], "group") == 0 && argc == 3)
		group(strtoul(argv[2], NULL, 10), n);
	else
		one(argv[1], n);
	return 0;
}
