/* plan: who should have how many rows, and which rows go where. Pure: no clock, no file. */
#include "partition/partition.h"

#include "base/grow.h"

#include <stdlib.h>

/* How far apart the passes since the last reset are: the greatest difference of given /
 * rows. */
static double partitions_gap(const struct partitions *p)
{
	double most = 0, least = 0;
	for (size_t i = 0; i < p->count; i++) {
		double done = (double)p->partition[i].given / (double)p->partition[i].rows;
		if (i == 0 || done > most)
			most = done;
		if (i == 0 || done < least)
			least = done;
	}
	return most - least;
}

static uint64_t lowest(const uint64_t *rows, size_t i, uint64_t floor_rows)
{
	return rows[i] < floor_rows ? rows[i] : floor_rows;
}

/* a * b / c without overflow: c > 0, and the result fits. */
static uint64_t partition_plan_part_of(uint64_t a, uint64_t b, uint64_t c, uint64_t *rest)
{
	__extension__ unsigned __int128 product = a;
	product *= b;
	*rest = (uint64_t)(product % c);
	return (uint64_t)(product / c);
}

/* A partition whose part would be below its minimum gets that minimum, and the others divide the
 * rest. share[i] 0 marks the others until the last pass. */
static void settle_lowest(const uint64_t *rows, const uint64_t *given, size_t count,
			  uint64_t floor_rows, uint64_t *share, uint64_t *left, uint64_t *weight)
{
	for (int again = 1; again;) {
		again = 0;
		for (size_t i = 0; i < count; i++) {
			uint64_t rest, low = lowest(rows, i, floor_rows);
			if (share[i] > 0 ||
			    (*weight > 0 &&
			     partition_plan_part_of(*left, given[i], *weight, &rest) >= low))
				continue;
			share[i] = low;
			*left -= low;
			*weight -= given[i];
			again = 1;
		}
	}
}

void partitions_shares(const uint64_t *rows, const uint64_t *given, size_t count,
		       uint64_t floor_rows, uint64_t *share)
{
	uint64_t left = 0, weight = 0;
	for (size_t i = 0; i < count; i++) {
		left += rows[i];
		weight += given[i];
		share[i] = 0;
	}
	if (weight == 0) { /* no partition has handed out a row */
		for (size_t i = 0; i < count; i++)
			share[i] = rows[i];
		return;
	}
	if (floor_rows == 0)
		floor_rows = 1;
	settle_lowest(rows, given, count, floor_rows, share, &left, &weight);
	/* By cumulated parts: so roundings cancel, and the sum is exact. */
	uint64_t done = 0, seen = 0;
	size_t last = count;
	for (size_t i = 0; i < count; i++) {
		uint64_t rest;
		if (share[i] > 0)
			continue;
		seen += given[i];
		uint64_t upto = weight > 0 ? partition_plan_part_of(left, seen, weight, &rest) : 0;
		share[i] = upto - done;
		done = upto;
		last = i;
	}
	/* All have their minimum: the rest goes to the one that hands out most. */
	if (last == count)
		for (size_t i = last = 0; i < count; i++)
			last = given[i] > given[last] ? i : last;
	share[last] += left - done;
}

/* Consecutive rows of a partition. */
struct stretch {
	size_t part;
	uint64_t begin, length;
};

struct plan {
	struct partition_move *move;
	size_t count, room;
	uint64_t id;
	struct stretch *stretch;
	size_t stretches;
};

static int by_number(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

static int find_stretches(struct plan *plan, const struct partitions *p)
{
	size_t count = 0, filled = 0;
	for (size_t i = 0; i < p->count; i++)
		count += p->partition[i].count;
	plan->stretch = malloc((count + 1) * sizeof *plan->stretch);
	if (!plan->stretch)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		for (size_t j = 0; j < p->partition[i].count; j++)
			plan->stretch[filled++] = (struct stretch){
				i, p->partition[i].run[j].begin, p->partition[i].run[j].length};
	qsort(plan->stretch, count, sizeof *plan->stretch, by_number);
	for (size_t i = 0; i < count; i++) {
		const struct stretch *s = &plan->stretch[i];
		struct stretch *last =
			plan->stretches > 0 ? &plan->stretch[plan->stretches - 1] : NULL;
		if (last && last->part == s->part && last->begin + last->length == s->begin)
			last->length += s->length;
		else
			plan->stretch[plan->stretches++] = *s;
	}
	return 0;
}

static int partition_plan_add(struct plan *plan, size_t from, size_t to, uint64_t begin,
			      uint64_t length)
{
	if (GROW(plan->move, plan->room, plan->count + 1) != 0)
		return -1;
	plan->move[plan->count++] = (struct partition_move){plan->id++, from, to, begin, length};
	return 0;
}

/* Takes n of the giver's rows that were not taken yet; it has so many. */
static int take_longest(struct plan *plan, size_t from, size_t to, uint64_t n)
{
	while (n > 0) {
		struct stretch *best = NULL;
		for (size_t i = 0; i < plan->stretches; i++) {
			struct stretch *s = &plan->stretch[i];
			if (s->part == from && (!best || s->length > best->length))
				best = s;
		}
		uint64_t here = best->length < n ? best->length : n;
		best->length -= here;
		n -= here;
		if (partition_plan_add(plan, from, to, best->begin + best->length, here) != 0)
			return -1;
	}
	return 0;
}

static size_t greatest(const uint64_t *value, size_t count)
{
	size_t best = 0;
	for (size_t i = 1; i < count; i++)
		best = value[i] > value[best] ? i : best;
	return best;
}

/* A move of less than a hundredth of a usual partition is not worth its file. */
static int match(struct plan *plan, const struct partitions *p, uint64_t *more, uint64_t *less)
{
	uint64_t least = 0;
	for (size_t i = 0; i < p->count; i++)
		least += p->partition[i].rows;
	least /= 100 * p->count;
	for (;;) {
		size_t from = greatest(more, p->count), to = greatest(less, p->count);
		uint64_t n = more[from] < less[to] ? more[from] : less[to];
		if (n <= least)
			return 0;
		if (take_longest(plan, from, to, n) != 0)
			return -1;
		more[from] -= n;
		less[to] -= n;
	}
}

static int partitions_moves(const struct partitions *p, uint64_t floor_rows,
			    struct partition_move **moves, size_t *count)
{
	struct plan plan = {.id = p->next_move};
	uint64_t *number = calloc(5 * p->count, sizeof *number);
	*moves = NULL;
	*count = 0;
	if (!number)
		return -1;
	uint64_t *rows = number, *given = rows + p->count, *share = given + p->count;
	uint64_t *more = share + p->count, *less = more + p->count;
	for (size_t i = 0; i < p->count; i++) {
		rows[i] = p->partition[i].rows;
		given[i] = p->partition[i].given;
	}
	partitions_shares(rows, given, p->count, floor_rows, share);
	for (size_t i = 0; i < p->count; i++) {
		more[i] = rows[i] > share[i] ? rows[i] - share[i] : 0;
		less[i] = share[i] > rows[i] ? share[i] - rows[i] : 0;
	}
	int result = find_stretches(&plan, p);
	if (result == 0)
		result = match(&plan, p, more, less);
	free(number);
	free(plan.stretch);
	if (result != 0) {
		free(plan.move);
		return -1;
	}
	*moves = plan.move;
	*count = plan.count;
	return 0;
}

int partitions_due(const struct partitions *p, uint64_t floor_rows, struct partition_move **moves,
		   size_t *count)
{
	*moves = NULL;
	*count = 0;
	if (p->migrate <= 0 || p->moves > 0 || p->budget == p->unseen ||
	    partitions_gap(p) <= p->migrate)
		return 0;
	return partitions_moves(p, floor_rows, moves, count);
}
