/* opening: see opening.h. */
#include "proc/opening.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The name begins with a NUL. A long host name is cut: two hosts with the same beginning only wait
 * for each other. */
static int opening_hold(const char *host, int place)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int len = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "paceline-opening/%u/%d/%s",
			   (unsigned)getuid(), place, host);
	size_t bytes = (size_t)len < sizeof at.sun_path - 2 ? (size_t)len : sizeof at.sun_path - 2;
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&at,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int opening_take(const char *host, int places)
{
	for (int i = 0; i < places; i++) {
		int fd = opening_hold(host, i);
		if (fd >= 0)
			return fd;
	}
	return -1;
}
