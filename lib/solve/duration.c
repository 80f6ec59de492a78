/* duration: see duration.h. */
#include "solve/duration.h"

/*
 * The estimate is nearly always right or one off; where fixed dwarfs size/speed many sizes share
 * one time, hence the doubling steps.
 */
uint64_t duration_fits(double speed, double fixed, uint64_t steps, double t, uint64_t low,
		       uint64_t high)
{
	double estimate = (t / (double)steps - fixed) * speed;
	uint64_t x = estimate <= (double)low    ? low
		     : estimate >= (double)high ? high
						: (uint64_t)estimate;
	if (duration_of(speed, fixed, steps, x) <= t) {
		low = x;
		for (uint64_t step = 1; x < high; step *= 2) {
			x = high - low > step ? low + step : high;
			if (duration_of(speed, fixed, steps, x) > t) {
				high = x - 1;
				break;
			}
			low = x;
		}
	} else {
		high = x > low ? x - 1 : low;
		for (uint64_t step = 1; high > low && duration_of(speed, fixed, steps, high) > t;
		     step *= 2) {
			x = high - low > step ? high - step : low;
			if (duration_of(speed, fixed, steps, x) <= t) {
				low = x;
				break;
			}
			high = x > low ? x - 1 : low;
		}
	}
	while (low < high) {
		x = low + (high - low + 1) / 2;
		if (duration_of(speed, fixed, steps, x) <= t)
			low = x;
		else
			high = x - 1;
	}
	return low;
}
