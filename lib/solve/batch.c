/*
 * batch: see batch.h. Pure arithmetic: it must never depend on anything but its arguments, and
 * never on the order in which sums of floating-point numbers are taken (there are none).
 *
 * Why share is optimal.  f_i(x) = fixed_i + x/speed_i grows with x.  Start everybody at min_i; the
 * k = B - sum(min) other samples are elements of the sorted lists f_i(min_i+1) ... f_i(max_i), each
 * list taken from its beginning.  Let T be the k-th smallest element of all lists together.
 *   1. Nobody does better than T: with all times below T fewer than k samples are placed.  (A
 *      worker whose f_i(min_i) is above T has that time whatever is done, and gets no more.)
 *   2. A list has one element equal to T at most.  So the number of workers at T is smallest when
 *      all elements below T are taken, and each optimum takes them all.
 *   3. What is left to choose is which of the workers with an element equal to T take it.  A worker
 *      that takes it loses the time it had before; so those with the largest times before take it,
 *      and the sorted vector of the others' times is the smallest.  (Ties must NOT be broken at
 *      will: the largest time stays the same, the next largest does not.)
 *
 * No heap is needed.  Doubles >= 0 are ordered as their bit patterns, so T is found by bisection on
 * the bits, in 63 rounds at most, and workers drop out as soon as their size is settled.
 *
 * Times that are equal for the decimal numbers of the input may differ as doubles: by 2^-50 of
 * their size at most, as fixed, speed, the quotient and the sum are each off by 2^-53.  So times
 * within DURATION_EQUAL of T count as equal to T; no smaller tolerance finds all ties, and the
 * optimum is missed by no more than that.
 */
#include "solve/batch.h"

#include "solve/duration.h"

#include <math.h>
#include <stdlib.h>

static double solve_batch_time_of(const struct batch_worker *w, uint64_t size)
{
	return duration_of(w->speed, w->fixed, 1, size);
}

double batch_time(const struct batch_worker *w)
{
	return solve_batch_time_of(w, w->size + (w->larger > 0));
}

static uint64_t largest_within(const struct batch_worker *w, double t, uint64_t low, uint64_t high)
{
	return duration_fits(w->speed, w->fixed, 1, t, low, high);
}

static int check_bounds(const struct batch_worker *w, size_t n, uint64_t global, struct error *err)
{
	uint64_t sum_min = 0, sum_max = 0;
	for (size_t i = 0; i < n; i++) {
		sum_min = batch_add(sum_min, w[i].count, w[i].min);
		sum_max = batch_add(sum_max, w[i].count, w[i].max);
	}
	if (sum_min > global)
		return error_set(err, ERROR_DATA, NULL,
				 "the sum of min, %llu, is above the global batch %llu",
				 (unsigned long long)sum_min, (unsigned long long)global);
	if (sum_max < global)
		return error_set(err, ERROR_DATA, NULL,
				 "the sum of max, %llu, is below the global batch %llu",
				 (unsigned long long)sum_max, (unsigned long long)global);
	return 0;
}

/* A row whose size is between low and high: while T is searched for, and again for the ties. */
struct open_row {
	size_t index;
	uint64_t low, high;
	uint64_t key; /* searching: the size in the middle; ties: bits of the time at low */
};

/* Rows with the same size at both ends are settled: moves them out of the list, into *settled. */
static size_t drop_settled(const struct batch_worker *w, struct open_row *row, size_t n,
			   uint64_t *settled)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (row[i].low == row[i].high)
			*settled = batch_add(*settled, w[row[i].index].count, row[i].low);
		else
			row[kept++] = row[i];
	}
	return kept;
}

/* The largest size that needs to be considered. */
static uint64_t size_cap(const struct batch_worker *w, uint64_t global)
{
	uint64_t cap = w->max < global ? w->max : global;
	return cap > w->min ? cap : w->min;
}

/* T: the smallest double at which the sizes that fit into it reach the global batch. row is scratch
 * for n. */
static double find_threshold(const struct batch_worker *w, struct open_row *row, size_t n,
			     uint64_t global)
{
	double top = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t cap = size_cap(&w[i], global);
		row[i] = (struct open_row){.index = i, .low = w[i].min, .high = cap};
		double t = solve_batch_time_of(&w[i], cap);
		top = t > top ? t : top;
	}
	uint64_t low = 0, high = duration_bits(top), settled = 0;
	n = drop_settled(w, row, n, &settled);
	while (n > 0 && high - low > 1) {
		uint64_t middle = low + (high - low) / 2, sum = settled;
		double t = duration_of_bits(middle);
		for (size_t i = 0; i < n; i++) {
			const struct batch_worker *v = &w[row[i].index];
			row[i].key = largest_within(v, t, row[i].low, row[i].high);
			sum = batch_add(sum, v->count, row[i].key);
		}
		if (sum < global)
			low = middle;
		else
			high = middle;
		for (size_t i = 0; i < n; i++)
			*(sum < global ? &row[i].low : &row[i].high) = row[i].key;
		n = drop_settled(w, row, n, &settled);
	}
	return duration_of_bits(high);
}

/* Gives every row its elements below t; row lists the rows that have elements equal to t. Returns
 * how many rows, and in *left the samples that remain for them. */
static size_t take_below(struct batch_worker *w, struct open_row *row, size_t n, uint64_t global,
			 double t, uint64_t *left)
{
	size_t ties = 0;
	*left = global;
	for (size_t i = 0; i < n; i++) {
		uint64_t cap = size_cap(&w[i], global);
		uint64_t low = largest_within(&w[i], t * (1 - DURATION_EQUAL), w[i].min, cap);
		uint64_t high = largest_within(&w[i], t * (1 + DURATION_EQUAL), low, cap);
		w[i].size = low;
		w[i].larger = 0;
		*left -= w[i].count * low;
		if (high > low)
			row[ties++] = (struct open_row){
				.index = i,
				.low = low,
				.high = high,
				.key = duration_bits(solve_batch_time_of(&w[i], low))};
	}
	return ties;
}

/* Largest time first, then input order. */
static int compare_ties(const void *a, const void *b)
{
	const struct open_row *p = a, *q = b;
	if (p->key != q->key)
		return p->key > q->key ? -1 : 1;
	return p->index < q->index ? -1 : p->index > q->index;
}

static void take_ties(struct batch_worker *w, struct open_row *row, size_t n, uint64_t left)
{
	qsort(row, n, sizeof *row, compare_ties);
	for (size_t i = 0; i < n && left > 0; i++) {
		struct batch_worker *v = &w[row[i].index];
		/* More than one a worker only where doubles can't tell its times apart. */
		uint64_t equal = batch_add(0, v->count, row[i].high - row[i].low);
		uint64_t taken = equal < left ? equal : left;
		v->size = row[i].low + taken / v->count;
		v->larger = taken % v->count;
		left -= taken;
	}
}

int batch_share(struct batch_worker *w, size_t n, uint64_t global, struct error *err)
{
	if (check_bounds(w, n, global, err) != 0)
		return -1;
	struct open_row *row = reallocarray(NULL, n ? n : 1, sizeof *row);
	if (!row)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", n);
	uint64_t left;
	double t = find_threshold(w, row, n, global);
	size_t ties = take_below(w, row, n, global, t, &left);
	take_ties(w, row, ties, left);
	free(row);
	return 0;
}

int batch_even(struct batch_worker *w, size_t n, uint64_t global, size_t *broken, struct error *err)
{
	uint64_t workers = 0;
	for (size_t i = 0; i < n; i++)
		workers = batch_add(workers, w[i].count, 1);
	if (broken)
		*broken = n;
	if (workers == 0)
		return error_set(err, ERROR_DATA, NULL, "no worker");
	uint64_t each = global / workers, rest = global % workers;
	for (size_t i = 0; i < n; i++) {
		uint64_t more = rest < w[i].count ? rest : w[i].count;
		rest -= more;
		w[i].size = each + (more == w[i].count);
		w[i].larger = more == w[i].count ? 0 : more;
		uint64_t largest = w[i].size + (w[i].larger > 0);
		if (w[i].size >= w[i].min && largest <= w[i].max)
			continue;
		if (broken)
			*broken = i;
		int low = w[i].size < w[i].min;
		return error_set(err, ERROR_DATA, NULL, "even size %llu is %s %llu",
				 (unsigned long long)(low ? w[i].size : largest),
				 low ? "below min" : "above max",
				 (unsigned long long)(low ? w[i].min : w[i].max));
	}
	return 0;
}

void batch_scaled(const double *weight, size_t n, uint64_t global, uint64_t least, uint64_t *size)
{
	double known = 0, mean = 1, at = 0, batch = (double)global;
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		known += isnan(weight[i]) ? 0 : weight[i];
		count += isnan(weight[i]) ? 0 : 1;
	}
	if (count > 0)
		mean = known / (double)count;
	double sum = known + mean * (double)(n - count);
	for (size_t i = 0; i < n; i++) {
		double before = floor(at / sum * batch + 0.5);
		at += isnan(weight[i]) ? mean : weight[i];
		size[i] = (uint64_t)fmax(floor(at / sum * batch + 0.5) - before, (double)least);
	}
}
