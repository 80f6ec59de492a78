/*
 * batch: see batch.h. Pure arithmetic: it must never depend on anything but its arguments, and
 * never on the order in which sums of floating-point numbers are taken (there are none).
 *
 * Why share is optimal.  Let f_i(x) = fixed_i + x/speed_i as a double; rounding is monotone, so
 * f_i never falls as x grows.  Start everybody at min_i and hand out the other samples one by one,
 * each to the worker whose time WITH it is smallest.  As every f_i is monotone, this takes the
 * k = B - sum(min) smallest elements of the union of the sorted lists f_i(min_i+1), f_i(min_i+2),
 * ... f_i(max_i).  Take any other assignment y with the same sum: where y_i > x_i it uses
 * elements that greedy did not take, each >= every element that greedy took; where y_j < x_j it
 * gives up elements that greedy took.  Exchanging them one by one (last element of i for the next
 * one of j) never makes a time larger than the one it removes, so each exchange leaves the sorted
 * vector of times lexicographically no larger; after all of them y is x.  So greedy is minimal in
 * the largest time, and among those in the next largest, and so on.
 *
 * The k smallest elements need no heap: they are all elements below a threshold T and some of
 * those equal to it.  Doubles >= 0 are ordered as their bit patterns, so T is found by bisection
 * on the bits, in 63 rounds at most, and no tie is ever missed by an epsilon.  Ties at T go to the
 * rows in input order: equal times, so any choice is optimal, and this one is reproducible.
 */
#include "solve/batch.h"

#include <stdlib.h>
#include <string.h>

static double time_of(const struct batch_worker *w, uint64_t size)
{
	return w->fixed + (double)size / w->speed;
}

double batch_time(const struct batch_worker *w)
{
	return time_of(w, w->size + (w->larger > 0));
}

static uint64_t bits_of(double t)
{
	uint64_t bits;
	memcpy(&bits, &t, sizeof bits);
	return bits;
}

static double time_at(uint64_t bits)
{
	double t;
	memcpy(&t, &bits, sizeof t);
	return t;
}

/* sum + count*size, stuck at the largest number instead of wrapping round. */
static uint64_t add_many(uint64_t sum, uint64_t count, uint64_t size)
{
	uint64_t product;
	if (__builtin_mul_overflow(count, size, &product) ||
	    __builtin_add_overflow(sum, product, &sum))
		return UINT64_MAX;
	return sum;
}

/*
 * The largest x in [low, high] with f(x) <= t, given that f(low) <= t (or low is all there is).
 * The estimate is nearly always right or one off; where fixed dwarfs size/speed many sizes share
 * one time, hence the doubling steps.
 */
static uint64_t largest_within(const struct batch_worker *w, double t, uint64_t low, uint64_t high)
{
	double estimate = (t - w->fixed) * w->speed;
	uint64_t x = estimate <= (double)low    ? low
		     : estimate >= (double)high ? high
						: (uint64_t)estimate;
	if (time_of(w, x) <= t) {
		low = x;
		for (uint64_t step = 1; x < high; step *= 2) {
			x = high - low > step ? low + step : high;
			if (time_of(w, x) > t) {
				high = x - 1;
				break;
			}
			low = x;
		}
	} else {
		high = x > low ? x - 1 : low;
		for (uint64_t step = 1; high > low && time_of(w, high) > t; step *= 2) {
			x = high - low > step ? high - step : low;
			if (time_of(w, x) <= t) {
				low = x;
				break;
			}
			high = x > low ? x - 1 : low;
		}
	}
	while (low < high) {
		x = low + (high - low + 1) / 2;
		if (time_of(w, x) <= t)
			low = x;
		else
			high = x - 1;
	}
	return low;
}

static int check_bounds(const struct batch_worker *w, size_t n, uint64_t global, struct error *err)
{
	uint64_t sum_min = 0, sum_max = 0;
	for (size_t i = 0; i < n; i++) {
		sum_min = add_many(sum_min, w[i].count, w[i].min);
		sum_max = add_many(sum_max, w[i].count, w[i].max);
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

/* One row that the bisection has not settled yet. */
struct open_row {
	size_t index;
	uint64_t low, high; /* sizes at the two ends of the threshold's interval */
	uint64_t middle;
};

/* Rows whose size is the same at both ends are settled: out of the list, into *settled. */
static size_t drop_settled(struct batch_worker *w, struct open_row *row, size_t n,
			   uint64_t *settled)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (row[i].low == row[i].high) {
			w[row[i].index].size = row[i].low;
			*settled = add_many(*settled, w[row[i].index].count, row[i].low);
		} else {
			row[kept++] = row[i];
		}
	}
	return kept;
}

/* Narrows [low, high] of every row until all elements between are equal to the threshold; returns
 * how many rows are left. *settled: what the others take. */
static size_t bisect(struct batch_worker *w, struct open_row *row, size_t n, uint64_t global,
		     double top, uint64_t *settled)
{
	uint64_t low = 0, high = bits_of(top); /* count(low) < global <= count(high) */
	n = drop_settled(w, row, n, settled);
	while (n > 0 && high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		double t = time_at(middle);
		uint64_t sum = *settled;
		for (size_t i = 0; i < n; i++) {
			const struct batch_worker *v = &w[row[i].index];
			row[i].middle = largest_within(v, t, row[i].low, row[i].high);
			sum = add_many(sum, v->count, row[i].middle);
		}
		if (sum < global) {
			low = middle;
			for (size_t i = 0; i < n; i++)
				row[i].low = row[i].middle;
		} else {
			high = middle;
			for (size_t i = 0; i < n; i++)
				row[i].high = row[i].middle;
		}
		n = drop_settled(w, row, n, settled);
	}
	return n;
}

/* What is left are equal times: rows take them in input order. */
static void share_ties(struct batch_worker *w, const struct open_row *row, size_t n, uint64_t left)
{
	for (size_t i = 0; i < n; i++)
		left -= w[row[i].index].count * row[i].low;
	for (size_t i = 0; i < n; i++) {
		struct batch_worker *v = &w[row[i].index];
		uint64_t ties = add_many(0, v->count, row[i].high - row[i].low);
		uint64_t taken = ties < left ? ties : left;
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
		return error_set(err, ERROR_OS, NULL, "no memory for %zu workers", n);
	double top = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t high = w[i].max < global ? w[i].max : global;
		if (high < w[i].min) /* global is at least the sum of all min, this one too */
			high = w[i].min;
		row[i] = (struct open_row){.index = i, .low = w[i].min, .high = high};
		w[i].larger = 0;
		double t = time_of(&w[i], high);
		top = t > top ? t : top;
	}
	uint64_t settled = 0;
	size_t open = bisect(w, row, n, global, top, &settled);
	share_ties(w, row, open, global - settled);
	free(row);
	return 0;
}

int batch_even(struct batch_worker *w, size_t n, uint64_t global, size_t *broken,
	       struct error *err)
{
	uint64_t workers = 0;
	for (size_t i = 0; i < n; i++)
		workers = add_many(workers, w[i].count, 1);
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
