/* address: see address.h. */
#include "wire/address.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int address_open(struct address *a, const char *path, struct error *err)
{
	*a = (struct address){.name.sun_family = AF_UNIX, .dir_fd = -1};
	size_t len = strlen(path), room = sizeof a->name.sun_path;
	if (len == 0)
		return error_set(err, ERROR_USAGE, NULL, "the socket has no name");
	if (len < room) {
		memcpy(a->name.sun_path, path, len);
	} else {
		char dir[PATH_MAX];
		const char *slash = strrchr(path, '/');
		fs_dirname(path, dir, sizeof dir);
		a->dir_fd = slash ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
		if (slash && a->dir_fd < 0)
			return error_errno(err, 0, path, "can't be opened");
		int n = a->dir_fd < 0 ? -1
				      : snprintf(a->name.sun_path, room, "/proc/self/fd/%d/%s",
						 a->dir_fd, slash + 1);
		if (n < 0 || (size_t)n >= room) {
			address_close(a);
			return error_set(err, ERROR_USAGE, path, "name of a socket too long");
		}
		len = (size_t)n;
	}
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	return 0;
}

void address_close(struct address *a)
{
	if (a->dir_fd >= 0)
		close(a->dir_fd);
	a->dir_fd = -1;
}

int address_connect(const char *path, int *fd, struct error *err)
{
	struct address a;
	if (address_open(&a, path, err) != 0) {
		if (err && err->code == ERROR_NOINPUT)
			err->code = ERROR_UNAVAILABLE;
		return -1;
	}
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), result = 0;
	if (s < 0)
		result = error_errno(err, ERROR_OS, path, "socket");
	while (result == 0 && connect(s, (struct sockaddr *)&a.name, a.len) != 0) {
		if (errno == EINTR)
			continue;
		int code = errno == EAGAIN ? ERROR_TEMPFAIL : errno == EACCES ? ERROR_NOPERM
									      : ERROR_UNAVAILABLE;
		result = error_errno(err, code, path, "can't be reached");
	}
	address_close(&a);
	if (result != 0) {
		if (s >= 0)
			close(s);
		return -1;
	}
	*fd = s;
	return 0;
}
