/* Preloaded by tests: time goes $CLOCK_SPEED times as fast for this process, for limits of half a
 * minute that a test would have to sit out.  What happens stays the same; only how long a program
 * waits for nothing is shorter.  And the machine's clock is so many seconds fast as the file $CLOCK_SET
 * says, which may change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

typedef int clock_fn(clockid_t clock, struct timespec *t);

static double speed(void)
{
	const char *text = getenv("CLOCK_SPEED");
	double factor = text ? atof(text) : 1.0;
	return factor >= 1.0 ? factor : 1.0;
}

static time_t set(void)
{
	char text[32] = "";
	const char *path = getenv("CLOCK_SET");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	return got > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static clock_fn *real;
	if (!real)
		real = (clock_fn *)dlsym(RTLD_NEXT, "clock_gettime");
	int rc = real(clock, t);
	if (rc == 0 && clock == CLOCK_REALTIME)
		t->tv_sec += set();
	if (rc != 0 || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return rc;
	double at = ((double)t->tv_sec + (double)t->tv_nsec * 1e-9) * speed();
	t->tv_sec = (time_t)at;
	t->tv_nsec = (long)((at - (double)t->tv_sec) * 1e9);
	return 0;
}

static int shorter(int ms)
{
	return ms > 0 ? (int)((double)ms / speed()) + 1 : ms;
}

int epoll_wait(int fd, struct epoll_event *event, int events, int ms)
{
	return epoll_pwait(fd, event, events, shorter(ms), NULL);
}

int poll(struct pollfd *fd, nfds_t n, int ms)
{
	ms = shorter(ms);
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	return ppoll(fd, n, ms < 0 ? NULL : &t, NULL);
}
