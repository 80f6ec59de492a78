/*
 * A worker of allreduce-late: a batch is slept, not computed, and now and then takes longer;
 * gradients really are exchanged, while the next batch is slept (worker --delay 1).
 *
 *   allreduce-late LEAD REPLICA ID BEGIN END SECONDS CHANCE TIMES FLOATS
 *
 * A batch takes SECONDS, and with a chance of CHANCE so many TIMES as long.  Works until END,
 * seconds of the monotonic clock.  Prints "update ID ITERATION SECONDS" for each batch that was
 * committed, then "committed dropped": of its batches from BEGIN on.
 */
#include "rounds.h"
#include "work/replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct exchange *x;
static struct batch batch = {.count = 1, .positions = 1, .parts = 1};
static size_t part_begin[2];
static uint64_t iteration, sequence, pushed;
static const char *id;

/* 0 to 1; those of another seed have nothing to do with it. */
static double random_real(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void must(int result, const char *what, const struct error *err)
{
	if (result == WORK_OK)
		return;
	fprintf(stderr, "%s: result %d: %s: %s\n", what, result, err->place, err->text);
	exit(1);
}

/* The batch that was pushed last is committed, or dropped. */
static void wait_for_it(void)
{
	struct error err = {0};

	must(x->kind->wait(x, &iteration, &err), "wait", &err);
	if (!x->dropped)
		printf("update %s %llu %.4f\n", id, (unsigned long long)pushed, now());
}

/* Pulls and computes the batch; 0: it was late. is_flying: the one before is not in the parameters.
 */
static int try_batch(double seconds, int *is_flying)
{
	struct exchange_values v;
	struct error err = {0};
	uint64_t belongs = iteration;
	double until = now() + seconds;

	must(x->kind->pull(x, iteration, &batch, &v, &err), "pull", &err);
	v.dense_gradient[0] = 1e-3f;
	while (!x->late && now() < until)
		must(x->kind->heed(x, until - now(), &err), "heed", &err);
	must(x->kind->computed(x, &belongs, &err), "computed", &err);
	if (*is_flying)
		wait_for_it();
	*is_flying = 0;
	if (x->late)
		iteration = belongs;
	return !x->late;
}

int main(int argc, char **argv)
{
	struct replica_options options = {.lead = argv[1],
					  .replica = argv[2],
					  .dense_count = strtoull(argv[argc - 1], NULL, 10),
					  .delay = 1,
					  .talk = {.worker = argv[3],
						   .wait_seconds = 60,
						   .answer_seconds = 600}};
	struct exchange_member member = {.size = 1};
	double begin = atof(argv[4]), end = atof(argv[5]), seconds = atof(argv[6]);
	double chance = atof(argv[7]), times = atof(argv[8]);
	unsigned long committed = 0, dropped = 0;
	int is_flying = 0;
	uint64_t low, high;
	struct error err = {0};
	uint64_t seed = strtoull(argv[3] + strcspn(argv[3], "0123456789"), NULL, 10) << 40;

	id = argv[3];
	batch.part_begin = part_begin;
	must(replica_new(&x, &options, &err), "start", &err);
	must(x->kind->connect(x, &low, &high, &err), "connect", &err);
	x->kind->identify(x, 1, high);
	must(x->kind->join(x, &member, &iteration, &err), "join", &err);
	while (now() < end) {
		double takes = seconds * (random_real(&seed) < chance ? times : 1);
		int is_done = try_batch(takes, &is_flying);
		committed += is_done && now() >= begin;
		dropped += !is_done && now() >= begin;
		if (!is_done)
			continue;
		pushed = iteration++;
		struct exchange_push push = {
			.sequence = ++sequence, .iteration = pushed, .size = 1, .loss = 1};
		must(x->kind->push(x, &push, &batch, &batch, &err), "push", &err);
		is_flying = 1;
	}
	if (is_flying)
		wait_for_it();
	x->kind->leave(x, 0, 0, &err);
	x->kind->free(x);
	printf("%lu %lu\n", committed, dropped);
	return 0;
}
