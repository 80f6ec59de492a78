#include "base/clock.h"

#include <time.h>

static double read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double clock_mono(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

double clock_epoch(void)
{
	return read_clock(CLOCK_REALTIME);
}

void clock_sleep(double seconds)
{
	if (seconds <= 0)
		return;
	struct timespec t = {.tv_sec = (time_t)seconds};
	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

struct timeval clock_timeval(double seconds)
{
	struct timeval t = {.tv_sec = (time_t)seconds};
	t.tv_usec = (suseconds_t)((seconds - (double)t.tv_sec) * 1e6);
	return t;
}
