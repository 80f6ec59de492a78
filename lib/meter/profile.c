/* profile: see profile.h. Numbers only. */
#include "meter/profile.h"

size_t profile_flat(const struct profile_point *p, size_t count)
{
	double low = p[0].seconds, high = p[0].seconds;
	for (size_t i = 0; i < count; i++) {
		low = p[i].seconds < low ? p[i].seconds : low;
		high = p[i].seconds > high ? p[i].seconds : high;
		if (high > low * PROFILE_FLAT)
			return i;
	}
	return count;
}

/* Least squares of the relative errors: seconds = launch + size / speed. -1: not a device's. */
static int fit_line(const struct profile_point *p, size_t count, struct profile *out)
{
	double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
	for (size_t i = 0; i < count; i++) {
		double x = (double)p[i].size, y = p[i].seconds, w = 1 / (y * y);
		sw += w;
		sx += w * x;
		sy += w * y;
		sxx += w * x * x;
		sxy += w * x * y;
	}
	double below = sw * sxx - sx * sx, slope = (sw * sxy - sx * sy) / below;
	if (count < 2 || !(below > 0) || !(slope > 0))
		return -1;
	out->launch = (sy - slope * sx) / sw;
	out->speed = 1 / slope;
	if (out->launch >= 0)
		return 0;
	out->launch = 0; /* so through the origin */
	out->speed = sxx / sxy;
	return 0;
}

void profile_fit(const struct profile_point *p, size_t count, struct profile *out)
{
	size_t flat = profile_flat(p, count);
	double level = p[0].seconds;
	const struct profile_point *last = &p[count - 1];
	/* Of a line two points are needed; the last flat one is on it, or just before it. */
	size_t from = count - flat >= 2 ? flat : flat > 0 ? flat - 1 : 0;
	for (size_t i = 1; i < flat; i++)
		level = p[i].seconds < level ? p[i].seconds : level;
	*out = (struct profile){0, (double)last->size / last->seconds, last->size};
	if (flat == count || fit_line(p + from, count - from, out) != 0)
		return; /* it never got slower: nothing is known beyond the last */
	/* Where the line meets the level. */
	double knee = (level - out->launch) * out->speed, most = (double)p[flat].size;
	knee = knee < 1 ? 1 : knee > most ? most : knee;
	out->saturation = (uint64_t)(knee + 0.5);
}
