/*
 * listen: the name a server is found by.  A lock beside the socket says who may own the name; the
 * socket itself is made only when requests can be handled, so that its being there means ready.
 */
#include "wire/server_internal.h"

#include "base/fs.h"
#include "wire/address.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int listen_prepare(struct server *s, struct error *err)
{
	char dir[PATH_MAX], lock[PATH_MAX];
	fs_dirname(s->path, dir, sizeof dir);
	if (fs_make_dirs(dir, err) != 0)
		return -1;
	int n = snprintf(lock, sizeof lock, "%s.lock", s->path);
	if (n < 0 || (size_t)n >= sizeof lock)
		return error_set(err, ERROR_USAGE, s->path, "name of a socket too long");
	return fs_lock(lock, &s->lock_fd, err);
}

/* A socket that nobody listens on any more is removed. Someone who listens without our lock (it
 * was deleted, or is no server of ours) keeps his name. */
static int remove_dead(const char *path, struct error *err)
{
	struct stat st;
	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : error_errno(err, 0, path, "can't be looked at");
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, path, "is there and is no socket");
	int fd;
	struct error why;
	if (address_connect(path, &fd, &why) == 0) {
		close(fd);
		return error_set(err, ERROR_TEMPFAIL, path, "another instance runs");
	}
	if (why.code != ERROR_UNAVAILABLE) {
		*err = why;
		return -1;
	}
	if (unlink(path) != 0 && errno != ENOENT)
		return error_errno(err, ERROR_CANTCREAT, path, "a dead socket can't be removed");
	return 0;
}

int listen_bind(struct server *s, struct error *err)
{
	struct address a;
	struct stat st;
	if (remove_dead(s->path, err) != 0 || address_open(&a, s->path, err) != 0)
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), result = 0;
	/* The mode is given before the name exists: nobody can slip in between, and the process's
	 * umask is left alone. */
	if (fd < 0 || fchmod(fd, 0600) != 0)
		result = error_errno(err, ERROR_OS, s->path, "socket");
	else if (bind(fd, (struct sockaddr *)&a.name, a.len) != 0)
		result = error_errno(err, ERROR_CANTCREAT, s->path, "bind");
	else if (listen(fd, SOMAXCONN) != 0 || lstat(s->path, &st) != 0)
		result = error_errno(err, ERROR_OS, s->path, "listen");
	address_close(&a);
	if (result != 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	s->socket_dev = st.st_dev;
	s->socket_ino = st.st_ino;
	s->listen_fd = fd;
	return 0;
}

void listen_close(struct server *s)
{
	struct stat st;
	/* Only our own name: the path may hold another's by now. */
	if (s->listen_fd >= 0 && !s->inherited && lstat(s->path, &st) == 0 &&
	    st.st_dev == s->socket_dev && st.st_ino == s->socket_ino)
		unlink(s->path);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->listen_fd = s->lock_fd = -1;
}
