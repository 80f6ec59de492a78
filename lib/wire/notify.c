/* notify: see notify.h. */
#include "wire/notify.h"

#include "base/number.h"
#include "wire/transport.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#define LISTEN_FDS_FIRST 3

void notify_send(const char *socket, const char *text)
{
	if (socket)
		transport_tell(socket, text);
}

static int is_this_process(const char *pid)
{
	uint64_t number;
	return pid && number_u64(pid, 1, INT32_MAX, &number, NULL, NULL) == 0 &&
	       (pid_t)number == getpid();
}

int notify_listen_fd(const char *listen_pid, const char *listen_fds)
{
	uint64_t count;
	if (!is_this_process(listen_pid) || !listen_fds ||
	    number_u64(listen_fds, 1, 1024, &count, NULL, NULL) != 0)
		return -1;
	if (fcntl(LISTEN_FDS_FIRST, F_SETFD, FD_CLOEXEC) != 0)
		return -1;
	return LISTEN_FDS_FIRST;
}

double notify_watchdog_seconds(const char *usec, const char *pid)
{
	uint64_t count;
	if (!usec || number_u64(usec, 1, UINT64_MAX, &count, NULL, NULL) != 0)
		return 0;
	if (pid && !is_this_process(pid))
		return 0;
	return (double)count * 1e-6;
}
