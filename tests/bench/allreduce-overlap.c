/*
 * A worker of allreduce-overlap: a backward pass that is slept, not computed, over layers from the
 * last to the first; gradients really are exchanged.  Of each two iterations one tells which of its
 * gradients are final as its layers end, the other tells nothing before its push.
 *
 *   allreduce-overlap LEAD REPLICA ID ITERATIONS BACKWARD FLOATS-OF-A-LAYER...
 *
 * BACKWARD 0: first it measures how long the exchange takes; the backward pass then lasts as long.
 * Prints "backward told untold", in seconds, the last two medians.
 * Otherwise it is the seconds of the backward pass, and the exchange is awaited only when the next
 * one has ended (worker --delay 1).  Prints the median of an iteration.
 */
#include "rounds.h"
#include "work/replica.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 18) /* floats that a model tells at once, as wdl does */
#define WARM 3
#define ALONE 7
#define MOST 4096
#define EARLY 4 /* iterations in which not all may be here yet, at the start and the end */

static struct exchange *x;
static struct batch batch = {.count = 1, .positions = 1, .parts = 1};
static size_t part_begin[2], layer[64], layers, floats;
static uint64_t iteration, sequence;

static void must(int result, const char *what, const struct error *err)
{
	if (result == WORK_OK)
		return;
	if (result < 0)
		fprintf(stderr, "%s: %s: %s\n", what, err->place, err->text);
	else
		fprintf(stderr, "%s: result %d\n", what, result);
	exit(1);
}

static void sleep_until(double when)
{
	double left = when - now();

	if (left > 0)
		usleep((useconds_t)(left * 1e6));
}

static void backward(double seconds, int tell)
{
	double done = now();
	size_t end = floats;

	for (size_t i = layers; i-- > 0;)
		for (size_t left = layer[i], piece; left > 0; left -= piece) {
			piece = left < PIECE + PIECE / 2 ? left : PIECE;
			done += seconds * (double)piece / (double)floats;
			sleep_until(done);
			end -= piece;
			if (tell)
				x->kind->final(x, sequence, iteration, end, piece);
		}
}

/* Seconds from having the parameters to having the next ones. */
static double unit(double seconds, int tell)
{
	struct exchange_values v;
	struct error err;
	struct exchange_push push = {
		.sequence = ++sequence, .iteration = iteration, .size = 1, .loss = 1};

	must(x->kind->pull(x, iteration, &batch, &v, &err), "pull", &err);
	for (size_t i = 0; i < floats; i += 1024)
		v.dense_gradient[i] = 1e-3f;
	double begin = now();
	backward(seconds, tell);
	must(x->kind->push(x, &push, &batch, NULL, &err), "push", &err);
	must(x->kind->wait(x, &iteration, &err), "wait", &err);
	return now() - begin;
}

/* Seconds from having the parameters of a batch to having those of the next. */
static double unit_ahead(double seconds, int is_first)
{
	struct exchange_values v;
	struct error err;
	double begin = now();

	sleep_until(begin + seconds);
	if (!is_first)
		must(x->kind->wait(x, &iteration, &err), "wait", &err);
	struct exchange_push push = {
		.sequence = ++sequence, .iteration = iteration, .size = 1, .loss = 1};
	must(x->kind->push(x, &push, &batch, &batch, &err), "push", &err);
	must(x->kind->pull(x, iteration, &batch, &v, &err), "pull", &err);
	return now() - begin;
}

static void go_ahead(double seconds, size_t iterations)
{
	struct exchange_values v;
	struct error err;
	double of[MOST];

	must(x->kind->pull(x, iteration, &batch, &v, &err), "pull", &err);
	for (size_t i = 0; i < iterations + 2 * EARLY; i++)
		of[i] = unit_ahead(seconds, i == 0);
	must(x->kind->wait(x, &iteration, &err), "wait", &err);
	printf("%.6f\n", median(of + EARLY, iterations));
}

static void measure(size_t iterations)
{
	double alone[ALONE], of[2][MOST], exchange;

	for (int i = 0; i < WARM; i++)
		unit(0, 0);
	for (int i = 0; i < ALONE; i++)
		alone[i] = unit(0, 0);
	exchange = median(alone, ALONE);
	/* Behind a pause it may take another time than one behind the other. */
	for (int i = 0; i < ALONE; i++)
		alone[i] = unit(exchange, 0) - exchange;
	exchange = median(alone, ALONE);
	for (size_t i = 0; i < 2 * iterations; i++)
		of[i % 2][i / 2] = unit(exchange, i % 2 == 0);
	printf("%.6f %.6f %.6f\n", exchange, median(of[0], iterations), median(of[1], iterations));
}

int main(int argc, char **argv)
{
	double backward = atof(argv[5]);
	struct replica_options options = {.lead = argv[1],
					  .replica = argv[2],
					  .delay = backward > 0,
					  .talk = {.worker = argv[3],
						   .wait_seconds = 60,
						   .answer_seconds = 600}};
	struct exchange_member member = {.size = 1};
	size_t iterations = (size_t)atol(argv[4]);
	uint64_t low, high;
	struct error err;

	for (int i = 6; i < argc && layers < 64; i++)
		floats += layer[layers++] = (size_t)atol(argv[i]);
	options.dense_count = floats;
	batch.part_begin = part_begin;
	must(replica_new(&x, &options, &err), "start", &err);
	must(x->kind->connect(x, &low, &high, &err), "connect", &err);
	x->kind->identify(x, 1, high);
	must(x->kind->join(x, &member, &iteration, &err), "join", &err);
	if (backward > 0)
		go_ahead(backward, iterations);
	else
		measure(iterations);
	x->kind->leave(x, 0, 0, &err);
	x->kind->free(x);
	return 0;
}
