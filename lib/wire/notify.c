/* notify: see notify.h. */
#include "wire/notify.h"

#include "base/number.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_FDS_FIRST 3

void notify_send(const char *socket_name, const char *text)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = socket_name ? strlen(socket_name) : 0;
	if (len < 2 || len >= sizeof to.sun_path)
		return;
	memcpy(to.sun_path, socket_name, len);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0';
	else if (to.sun_path[0] != '/')
		return;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* An abstract name ends with its length: no NUL is part of it. */
	socklen_t to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
		      to_len);
	close(fd);
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
