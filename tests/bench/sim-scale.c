/*
 * sim-scale: what memory alone costs a batch of trainsim.  Touches the lines of the cache that a batch under BSP
 * touches, of as many objects of the same sizes, in the same order of passes, and fetched ahead alike; and computes
 * nothing.  All passes go over workers as they lie in memory, pushes, too, as where nothing else happens at a barrier.
 *
 *   sim-scale WORKERS BATCHES
 *
 * Prints microseconds of CPU for each batch.
 */
#include "base/fetch.h"
#include "base/pool.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AHEAD 16

/* One object for each worker, so many bytes apart, and in what order they lie: by worker, in no order, or in that of
 * each walk. */
enum kind { NODE, MEMBER, HAND, PIECE, REPORTS, WINDOW, SEATS, ROW_SEATS, PLACES, SLOTS, PUSH, EVENT, LINE, RANGE, CLAIM, ANSWER, KINDS };
static const struct {
	size_t bytes;
	enum { BY_WORKER, BY_CHANCE, BY_WALK } lies;
} kinds[KINDS] = {
	[NODE] = {768, BY_WORKER},    /* of trainsim */
	[MEMBER] = {1408, BY_WORKER}, /* of the gate */
	[HAND] = {192, BY_WORKER},    /* of shardd: a worker */
	[PIECE] = {192, BY_WALK},     /* in its hand: they are taken and given back in the order of workers */
	[REPORTS] = {576, BY_WORKER}, /* of the monitor */
	[WINDOW] = {2048, BY_WORKER}, /* the last chunk of it */
	[SEATS] = {8, BY_WORKER}, [ROW_SEATS] = {8, BY_WORKER}, [PLACES] = {8, BY_WORKER}, /* where the others are */
	[SLOTS] = {32, BY_CHANCE},    /* of the map of pieces */
	[PUSH] = {384, BY_WALK},      /* likewise */
	[EVENT] = {16, BY_WALK},
	[LINE] = {56, BY_WALK},       /* of a settle, as the gate says it */
	[RANGE] = {64, BY_WALK},      /* and as shardd reads it */
	[CLAIM] = {56, BY_WALK},
	[ANSWER] = {32, BY_WALK},
};

/* In each pass over all workers: the lines of 64 bytes, as bits; and that it is only one worker in so many. */
static const struct touch {
	int pass;
	enum kind kind;
	unsigned lines, one_in;
} touches[] = {
	/* its push comes */
	{0, EVENT, 1, 1}, {0, SEATS, 1, 1}, {0, NODE, 0x2f, 1}, {0, MEMBER, 0x3, 1}, {0, PUSH, 0x7, 1},
	/* all are sent */
	{1, MEMBER, 0x1, 1}, {1, PUSH, 0x1, 1},
	/* shardd is asked */
	{2, PUSH, 0x3, 1}, {2, LINE, 1, 1}, {3, LINE, 1, 1}, {3, ROW_SEATS, 1, 1}, {3, RANGE, 1, 1},
	/* it judges, and carries out */
	{4, RANGE, 1, 1}, {4, ROW_SEATS, 1, 1}, {4, HAND, 1, 1}, {4, PIECE, 0x1, 1}, {4, CLAIM, 1, 1},
	{5, CLAIM, 1, 1}, {5, HAND, 1, 1}, {5, PIECE, 0x3, 1}, {5, SLOTS, 1, 1},
	/* they are applied, and answered */
	{6, PUSH, 0x3, 1}, {6, MEMBER, 0x5, 1}, {6, ANSWER, 1, 1},
	/* the answer comes, some report, and the next batch begins, for which some ask for rows */
	{7, ANSWER, 1, 1}, {7, NODE, 0x4f, 1}, {7, EVENT, 1, 1}, {7, PLACES, 1, 2}, {7, NODE, 0x310, 2},
	{7, REPORTS, 0x1ff, 2}, {7, WINDOW, 0x1, 2}, {7, ROW_SEATS, 1, 1}, {7, HAND, 1, 1}, {7, PIECE, 0x7, 1}, {7, SLOTS, 1, 1},
};
static char *memory[KINDS];
static uint32_t *order; /* a random one */

/* What the i-th touches. */
static char *sim_scale_at(const struct touch *t, size_t i)
{
	return memory[t->kind] + kinds[t->kind].bytes * (kinds[t->kind].lies == BY_CHANCE ? order[i] : i);
}

static void sim_scale_pass(const struct touch *t, size_t touched, size_t workers)
{
	for (size_t i = 0; i < workers; i++)
		for (size_t k = 0; k < touched; k++) {
			if (i % t[k].one_in > 0)
				continue;
			char *ahead = i + AHEAD * t[k].one_in < workers ? sim_scale_at(&t[k], i + AHEAD * t[k].one_in) : NULL;
			char *now = sim_scale_at(&t[k], i);
			for (unsigned lines = t[k].lines; lines > 0; lines &= lines - 1) {
				size_t at = 64 * (size_t)__builtin_ctz(lines);
				if (ahead && kinds[t[k].kind].lies != BY_WALK)
					fetch_ahead(ahead + at, 1);
				++*(uint64_t *)(void *)(now + at);
			}
		}
}

static void sim_scale_iteration(size_t workers)
{
	size_t count = sizeof touches / sizeof *touches;
	for (size_t from = 0, n; from < count; from += n) {
		for (n = 1; from + n < count && touches[from + n].pass == touches[from].pass; n++)
			;
		sim_scale_pass(&touches[from], n, workers);
	}
}

/* Microseconds of CPU for each batch. */
static double sim_scale_measure(size_t workers, size_t batches)
{
	size_t iterations = (batches + workers - 1) / workers;
	sim_scale_iteration(workers); /* all is in memory, or in caches, as far as it fits */
	clock_t began = clock();
	for (size_t i = 0; i < iterations; i++)
		sim_scale_iteration(workers);
	return (double)(clock() - began) / CLOCKS_PER_SEC * 1e6 / (double)(iterations * workers);
}

int main(int argc, char **argv)
{
	size_t workers = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, batches = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	if (workers == 0 || batches == 0)
		return fputs("sim-scale WORKERS BATCHES\n", stderr) < 0 ? 1 : 64;
	order = malloc(workers * sizeof *order);
	for (size_t k = 0; k < KINDS; k++)
		if (!order || !(memory[k] = pool_array(kinds[k].bytes * workers + 64)))
			return 71;
	random_permute(order, workers, 1);
	printf("%.3f\n", sim_scale_measure(workers, batches));
	return 0;
}
