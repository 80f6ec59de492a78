/* rate: see rate.h. */
#include "fabric/rate.h"

#include <math.h>
#include <string.h>

#define BUSY_SECONDS 0.05 /* less is too near to the resolution of the kernel's counts */
#define LIMITED_SHARE 0.1 /* with more of the time, a sample is a lower bound */
#define UNCLEAR_SHARE 1.2 /* so much may the two bounds of the busy time differ */
#define BYTES_MIN 32768.0 /* with less it is the round trip that is measured */

int traffic_between(struct traffic *t, const struct rate_counts *from, const struct rate_counts *to,
		    double seconds)
{
	if (to->bytes < from->bytes || to->busy < from->busy || to->limited < from->limited)
		return -1;
	*t = (struct traffic){.bytes = (double)(to->bytes - from->bytes),
			      .seconds = seconds,
			      .busy = (double)(to->busy - from->busy) * 1e-6,
			      .limited = (double)(to->limited - from->limited) * 1e-6};
	t->busy_most = t->busy;
	return 0;
}

static void traffic_add(struct traffic *t, const struct traffic *more)
{
	t->bytes += more->bytes;
	t->busy_most += more->busy_most;
	t->limited += more->limited;
	t->waited |= more->waited;
}

void traffic_append(struct traffic *t, const struct traffic *next)
{
	traffic_add(t, next);
	t->busy += next->busy;
	t->seconds += next->seconds;
}

void traffic_beside(struct traffic *t, const struct traffic *other)
{
	if (!other->waited && other->bytes < BYTES_MIN) {
		t->bytes += other->bytes;
		return;
	}
	traffic_add(t, other);
	t->busy = fmax(t->busy, other->busy);
	t->seconds = fmax(t->seconds, other->seconds);
	t->busy_most = fmax(t->busy, fmin(t->busy_most, t->seconds));
}

int traffic_is_enough(const struct traffic *t)
{
	return t->busy >= BUSY_SECONDS && t->bytes >= BYTES_MIN;
}

static int is_least(const struct traffic *t)
{
	return !t->waited || t->limited > LIMITED_SHARE * t->busy_most ||
	       t->busy_most > UNCLEAR_SHARE * t->busy;
}

/* One that is wrong moves the median of three not at all; the second one of a change moves it
 * there. */
static double median(const double *value, size_t count)
{
	if (count < RATE_SAMPLES)
		return value[count - 1];
	return fmax(fmin(value[0], value[1]), fmin(fmax(value[0], value[1]), value[2]));
}

static void rate_add(struct rate *r, double value, double resolution)
{
	double least = value, most = value;
	if (r->count == RATE_SAMPLES)
		memmove(r->last, r->last + 1, --r->count * sizeof *r->last);
	r->last[r->count++] = value;
	for (size_t i = 0; i < r->count; i++) {
		least = fmin(least, r->last[i]);
		most = fmax(most, r->last[i]);
	}
	r->value = median(r->last, r->count);
	r->error = fmax((most - least) / 2, resolution);
}

int rate_take(struct rate *r, const struct traffic *t, double tick, double now)
{
	double value = t->bytes / t->busy_most, most = t->bytes / t->busy;
	double seen = t->bytes / (t->busy_most + tick);
	r->seen = r->seen_at > 0 ? fmin(seen, r->seen_last) : seen;
	r->seen_last = seen;
	r->seen_at = now;
	if (!is_least(t)) {
		if (r->is_least)
			*r = (struct rate){.seen = r->seen, .seen_last = seen, .seen_at = now};
		rate_add(r, value, fmax(most - value, value * tick / t->busy));
	} else {
		if (r->count > 0 && r->seen <= r->value + r->error)
			return 0;
		*r = (struct rate){.value = r->seen,
				   .is_least = 1,
				   .count = 1,
				   .seen = r->seen,
				   .seen_last = seen,
				   .seen_at = now};
	}
	r->at = now;
	return 1;
}
