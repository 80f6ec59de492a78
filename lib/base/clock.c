#include "base/clock.h"

#include <pthread.h>
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

double clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

static double booted; /* seconds since 1970 */

static void clock_look(void)
{
	booted = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
}

double clock_epoch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, clock_look);
	return booted + read_clock(CLOCK_BOOTTIME);
}

int clock_within(double last, double now, double seconds)
{
	return last > 0 && now >= last && now - last < seconds;
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
