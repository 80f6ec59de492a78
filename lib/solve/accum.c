/*
 * accum: see accum.h. Pure: nothing but the arguments decides.
 *
 * Feasible(T): is there one size and one number of steps a row, each within time T, whose samples
 * sum to the global batch?  What a row can take within T is one arithmetic progression a number of
 * steps: count*c*size for size from min to the largest that fits.  Whether one number out of each
 * row's list sums to B is a set of reachable sums (sumset.h).  More time only adds numbers, so the
 * smallest T is found by bisection on the bits of T; then the same lists with costs in place of
 * bits give the fewest steps, and the way back through the tables the answer.
 *
 * What makes it fast, and free of a limit to B: sums are not counted from 0.
 *   - From the top: what is missing to the most that each row could take.  At the time T0 at which
 *     the tops of all rows reach B, hardly anything is missing; no time below T0 is possible, and
 *     the optimum is mostly found a few sizes above it.  So T starts at T0 and grows by doubling
 *     steps, and the sums to be looked at stay few, whatever B is.
 *   - From the bottom: what is more than the least.  Better where one slow row dictates T and the
 *     others have far more room than they need.
 * Whichever has fewer sums is taken.  All sums are multiples of the strides' common divisor, which
 * is divided out.
 */
#include "solve/accum.h"

#include "solve/batch.h"
#include "solve/duration.h"
#include "solve/sumset.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond these the search would take minutes and gigabytes: an error, not a guess. */
#define WIDTH_MAX (1ull << 27)   /* sums */
#define TABLE_MAX (1ull << 27)   /* sums times rows: 1 GiB */
#define NEAREST_MAX (1ull << 24) /* sums; beyond, an error message does without them */

struct problem {
	struct accum_type *row;
	size_t n;
	uint64_t global;
	uint64_t least; /* sum of the least that each row takes */
	uint64_t unit;  /* all sums are multiples of it */
	/* What time allows: */
	double time;
	uint64_t *top;    /* by row: the most that it can take */
	uint64_t total;   /* their sum, or UINT64_MAX when that is larger */
	uint64_t members; /* of all lists; equal numbers mean equal lists; UINT64_MAX: unknown */
	int from_top;
	uint64_t target; /* the sum asked for: see above; in units */
};

double accum_time(const struct accum_type *t)
{
	return duration_of(t->speed, t->fixed, t->accum, t->size);
}

static uint64_t accum_least_of(const struct accum_type *t)
{
	return batch_add(0, t->count * t->cmin, t->min);
}

/* The most that a row can take when the others take their least. */
static uint64_t accum_room_for(const struct problem *p, size_t i)
{
	return p->global - (p->least - accum_least_of(&p->row[i]));
}

/* With more steps than that even one sample a step is too much; size 0 needs no more than cmin. */
static uint64_t most_steps(const struct problem *p, size_t i)
{
	const struct accum_type *t = &p->row[i];
	uint64_t steps = accum_room_for(p, i) / t->count;
	steps = steps > t->cmin ? steps : t->cmin;
	return steps < t->cmax ? steps : t->cmax;
}

/* The largest size of row i with c steps within p->time. 0: none fits, nor does with more steps. */
static int largest_size(const struct problem *p, size_t i, uint64_t c, uint64_t *size)
{
	const struct accum_type *t = &p->row[i];
	if (duration_of(t->speed, t->fixed, c, t->min) > p->time)
		return 0;
	uint64_t cap = accum_room_for(p, i) / (t->count * c);
	cap = cap < t->max ? cap : t->max;
	if (cap < t->min)
		return 0;
	*size = duration_fits(t->speed, t->fixed, c, p->time, t->min, cap);
	return 1;
}

/* Computes what fits into `time`. Returns whether the rows together could take the global batch. */
static int accum_set_time(struct problem *p, double time)
{
	p->time = time;
	p->total = p->members = 0;
	for (size_t i = 0; i < p->n; i++) {
		const struct accum_type *t = &p->row[i];
		uint64_t most = most_steps(p, i), size, lists = 0;
		p->top[i] = 0;
		for (uint64_t c = t->cmin; c <= most && largest_size(p, i, c, &size); c++) {
			uint64_t samples = t->count * c * size;
			p->top[i] = samples > p->top[i] ? samples : p->top[i];
			p->members = batch_add(p->members, 1, size - t->min + 1);
			lists++;
		}
		if (lists == 0)
			return 0;
		p->total = batch_add(p->total, 1, p->top[i]);
	}
	uint64_t missing = p->total - p->global, more = p->global - p->least;
	p->from_top = p->total != UINT64_MAX && missing < more;
	p->target = (p->from_top ? missing : more) / p->unit;
	return p->total >= p->global;
}

/* The sums that row i with c steps may add, of at most `last`. 0: none; -1: nor with more steps. */
static int row_sums(const struct problem *p, size_t i, uint64_t c, uint64_t last,
		    struct progression *out)
{
	const struct accum_type *t = &p->row[i];
	uint64_t size, stride = t->count * c;
	if (!largest_size(p, i, c, &size))
		return -1;
	out->start = p->from_top ? p->top[i] - stride * size : stride * t->min - accum_least_of(t);
	out->start /= p->unit;
	out->stride = stride / p->unit;
	if (out->start > last)
		return 0;
	uint64_t within = (last - out->start) / out->stride + 1;
	out->len = size - t->min + 1 < within ? size - t->min + 1 : within;
	return 1;
}

/* A single number that fewer steps gave already is not examined again: with many numbers of steps
 * nearly all are like that. */
static int told_already(uint64_t *told, const struct progression *list)
{
	if (list->len > 1)
		return 0;
	if (sumset_has(told, list->start))
		return 1;
	sumset_put(told, list->start);
	return 0;
}

static int too_large(const struct problem *p, uint64_t width, struct error *err)
{
	return error_set(err, ERROR_DATA, NULL,
			 "too large for an exact answer: the global batch %llu leaves %llu sums of "
			 "%zu rows to be searched",
			 (unsigned long long)p->global, (unsigned long long)width, p->n);
}

/* The reachable sums up to `last`, a set to be freed by the caller; NULL: err is filled. */
static uint64_t *reachable(const struct problem *p, uint64_t last, struct error *err)
{
	if (last >= WIDTH_MAX) {
		too_large(p, last, err);
		return NULL;
	}
	uint64_t width = last + 1;
	size_t words = sumset_words(width);
	uint64_t *set = calloc(5 * words, sizeof *set);
	if (!set) {
		error_set(err, ERROR_OS, NULL, "out of memory for %zu sums", words * 64);
		return NULL;
	}
	uint64_t *from = set, *to = set + words, *told = set + 2 * words, *spare = set + 3 * words;
	sumset_put(from, 0);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t most = most_steps(p, i);
		memset(to, 0, words * sizeof *to);
		memset(told, 0, words * sizeof *told);
		for (uint64_t c = p->row[i].cmin; c <= most; c++) {
			struct progression list;
			int got = row_sums(p, i, c, last, &list);
			if (got < 0)
				break;
			if (got > 0 && !told_already(told, &list))
				sumset_reach(to, from, &list, width, spare);
		}
		uint64_t *swap = from;
		from = to;
		to = swap;
	}
	if (from != set)
		memcpy(set, from, words * sizeof *set);
	return set;
}

/* 1, 0, or -1 with err. */
static int is_feasible(const struct problem *p, struct error *err)
{
	uint64_t *set = reachable(p, p->target, err);
	if (!set)
		return -1;
	int found = sumset_has(set, p->target);
	free(set);
	return found;
}

/* T0: the smallest time at which the rows together could take the global batch. */
static uint64_t first_time(struct problem *p)
{
	uint64_t low = 0, high = duration_bits(DBL_MAX);
	if (accum_set_time(p, 0))
		return 0;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		*(accum_set_time(p, duration_of_bits(middle)) ? &high : &low) = middle;
	}
	return high;
}

/* The smallest time, into *bits: 1; there is none: 0; -1 with err. */
static int find_time(struct problem *p, uint64_t *bits, struct error *err)
{
	uint64_t last = duration_bits(DBL_MAX), at, below, bad = UINT64_MAX, step = 1;
	if (!accum_set_time(p, DBL_MAX))
		return 0;
	int got = 0;
	at = below = first_time(p);
	for (;; step *= 2) {
		accum_set_time(p, duration_of_bits(at));
		if (p->members == UINT64_MAX || p->members != bad)
			got = is_feasible(p, err);
		if (got != 0 || at == last)
			break;
		bad = p->members;
		below = at;
		at = last - at > step ? at + step : last;
	}
	uint64_t good = p->members;
	while (got > 0 && at - below > 1) {
		uint64_t middle = below + (at - below) / 2;
		int fits = 0;
		accum_set_time(p, duration_of_bits(middle));
		if (p->members == UINT64_MAX || (p->members != bad && p->members != good))
			fits = is_feasible(p, err);
		else
			fits = p->members == good;
		if (fits < 0)
			return -1;
		*(fits ? &at : &below) = middle;
		*(fits ? &good : &bad) = p->members;
	}
	*bits = at;
	return got;
}

/* cost[i]: by sum, the fewest steps with which rows i.. reach it. */
static void fill_costs(const struct problem *p, uint64_t **cost, uint64_t width, uint64_t *told,
		       uint64_t *spare)
{
	for (uint64_t s = 0; s < width; s++)
		cost[p->n][s] = s ? SUMSET_NEVER : 0;
	for (size_t i = p->n; i-- > 0;) {
		const struct accum_type *t = &p->row[i];
		uint64_t most = most_steps(p, i);
		memset(cost[i], 0xff, width * sizeof *cost[i]);
		memset(told, 0, sumset_words(width) * sizeof *told);
		for (uint64_t c = t->cmin; c <= most; c++) {
			struct progression list;
			int got = row_sums(p, i, c, width - 1, &list);
			if (got < 0)
				break;
			/* Over cmin, so that sums stay below 2^64: count*c is at most what the
			 * row takes then. */
			if (got > 0 && !told_already(told, &list))
				sumset_least(cost[i], cost[i + 1], &list, t->count * (c - t->cmin),
					     width, spare);
		}
	}
}

/* The first choice of row i, in the order that accum.h promises, on a cheapest way to `sum`;
 * returns the rest of `sum`. */
static uint64_t accum_take_row(const struct problem *p, size_t i, uint64_t *const *cost,
			       uint64_t sum)
{
	struct accum_type *t = &p->row[i];
	uint64_t most = most_steps(p, i);
	for (uint64_t c = t->cmin; c <= most; c++) {
		struct progression list;
		uint64_t size = 0, more = t->count * (c - t->cmin);
		int got = row_sums(p, i, c, sum, &list);
		if (got < 0)
			break;
		for (uint64_t k = 0; got > 0 && k < list.len; k++) {
			/* The larger size first: the smaller sum from the top. */
			uint64_t j = p->from_top ? k : list.len - 1 - k;
			uint64_t rest = cost[i + 1][sum - list.start - j * list.stride];
			if (rest == SUMSET_NEVER || rest + more != cost[i][sum])
				continue;
			largest_size(p, i, c, &size);
			t->accum = c;
			t->size = p->from_top ? size - j : t->min + j;
			return sum - list.start - j * list.stride;
		}
	}
	return SUMSET_NEVER;
}

/* For p->time: the fewest steps, as sizes and steps. */
static int take_fewest(struct problem *p, struct error *err)
{
	uint64_t width = p->target + 1;
	if (width > TABLE_MAX / (p->n + 4))
		return too_large(p, width, err);
	uint64_t *table = reallocarray(NULL, (p->n + 4) * width, sizeof *table);
	uint64_t **cost = reallocarray(NULL, p->n + 1, sizeof *cost);
	if (!table || !cost) {
		free(table);
		free(cost);
		return error_set(err, ERROR_OS, NULL, "out of memory for %llu sums of %zu rows",
				 (unsigned long long)width, p->n);
	}
	for (size_t i = 0; i <= p->n; i++)
		cost[i] = table + i * width;
	uint64_t *told = table + (p->n + 1) * width;
	fill_costs(p, cost, width, told, told + width);
	uint64_t sum = p->target;
	for (size_t i = 0; i < p->n && sum != SUMSET_NEVER; i++)
		sum = accum_take_row(p, i, cost, sum);
	free(cost);
	free(table);
	return sum == 0 ? 0 : error_set(err, ERROR_SOFTWARE, NULL, "the sizes of the best sum were "
								   "not found again (a bug)");
}

/* The sums next to the global batch that can be met; 0 below, UINT64_MAX above: none, or too far
 * away to be looked for. */
static void nearest_sums(struct problem *p, uint64_t *below, uint64_t *above)
{
	uint64_t wanted = p->global, margin = wanted - p->least, asked = margin / p->unit;
	*below = 0;
	*above = UINT64_MAX;
	for (size_t i = 0; i < p->n; i++) {
		uint64_t stride = batch_add(0, p->row[i].count, p->row[i].cmax);
		margin = stride > margin ? stride : margin;
	}
	margin = margin < BATCH_SIZE_MAX ? margin : BATCH_SIZE_MAX;
	p->global = p->global + margin < BATCH_SIZE_MAX ? p->global + margin : BATCH_SIZE_MAX;
	accum_set_time(p, DBL_MAX);
	p->from_top = 0;
	uint64_t last = (p->global - p->least) / p->unit;
	uint64_t *set = last < NEAREST_MAX ? reachable(p, last, NULL) : NULL;
	for (uint64_t s = asked + 1; set && s-- > 0;)
		if (sumset_has(set, s) && p->least + s * p->unit < wanted) {
			*below = p->least + s * p->unit;
			break;
		}
	for (uint64_t s = asked; set && s <= last; s++)
		if (sumset_has(set, s) && p->least + s * p->unit > wanted) {
			*above = p->least + s * p->unit;
			break;
		}
	free(set);
}

static int no_sum(struct problem *p, struct error *err)
{
	unsigned long long wanted = p->global;
	uint64_t below, above;
	nearest_sums(p, &below, &above);
	char near[128] = "";
	if (below && above != UINT64_MAX)
		snprintf(near, sizeof near, "; the nearest that do: %llu and %llu",
			 (unsigned long long)below, (unsigned long long)above);
	else if (below || above != UINT64_MAX)
		snprintf(near, sizeof near, "; the nearest that does: %llu",
			 (unsigned long long)(below ? below : above));
	if (p->unit > 1)
		return error_set(err, ERROR_DATA, NULL,
				 "no sizes sum to the global batch %llu: count, cmin and cmax make "
				 "all sums multiples of %llu%s",
				 wanted, (unsigned long long)p->unit, near);
	return error_set(err, ERROR_DATA, NULL,
			 "no sizes within min, max, cmin and cmax sum to the global batch %llu%s",
			 wanted, near);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

uint64_t accum_unit(const struct accum_type *t, size_t n)
{
	uint64_t unit = 0;
	/* With more than one number of steps, two are neighbours: strides c and c+1. */
	for (size_t i = 0; i < n; i++)
		unit = common_divisor(unit, t[i].count * (t[i].cmin == t[i].cmax ? t[i].cmin : 1));
	return unit;
}

static int accum_check_rows(struct problem *p, struct error *err)
{
	uint64_t most = 0;
	if (p->n == 0)
		return error_set(err, ERROR_DATA, NULL, "no worker");
	for (size_t i = 0; i < p->n; i++) {
		const struct accum_type *t = &p->row[i];
		if (!(t->speed > 0 && t->speed <= DBL_MAX && t->fixed >= 0 && t->fixed <= DBL_MAX))
			return error_set(err, ERROR_DATA, NULL, "row %zu: speed %g, fixed %g", i,
					 t->speed, t->fixed);
		if (t->min > t->max || t->max > BATCH_SIZE_MAX || t->cmin < 1 ||
		    t->cmin > t->cmax || t->cmax > ACCUM_STEPS_MAX || t->count < 1 ||
		    t->count > BATCH_COUNT_MAX)
			return error_set(err, ERROR_DATA, NULL, "row %zu: bounds", i);
		p->least = batch_add(p->least, 1, accum_least_of(t));
		most = batch_add(most, t->count * t->cmax, t->max);
	}
	p->unit = accum_unit(p->row, p->n);
	if (p->global > BATCH_SIZE_MAX)
		return error_set(err, ERROR_DATA, NULL, "the global batch %llu is above 2^53",
				 (unsigned long long)p->global);
	if (p->least > p->global)
		return error_set(err, ERROR_DATA, NULL,
				 "the sum of count*cmin*min, %llu, is above the global batch %llu",
				 (unsigned long long)p->least, (unsigned long long)p->global);
	if (most < p->global)
		return error_set(err, ERROR_DATA, NULL,
				 "the sum of count*cmax*max, %llu, is below the global batch %llu",
				 (unsigned long long)most, (unsigned long long)p->global);
	return 0;
}

static int accum_solve_all(struct problem *p, struct error *err)
{
	uint64_t bits;
	if (p->global % p->unit != 0)
		return no_sum(p, err);
	int found = find_time(p, &bits, err);
	if (found <= 0)
		return found == 0 ? no_sum(p, err) : -1;
	accum_set_time(p, duration_of_bits(bits) * (1 + DURATION_EQUAL));
	return take_fewest(p, err);
}

int accum_solve(struct accum_type *t, size_t n, uint64_t global, struct error *err)
{
	struct problem p = {.row = t, .n = n, .global = global};
	if (accum_check_rows(&p, err) != 0)
		return -1;
	p.top = reallocarray(NULL, n, sizeof *p.top);
	if (!p.top)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu rows", n);
	int result = accum_solve_all(&p, err);
	free(p.top);
	return result;
}
