/* transport: see transport.h. */
#include "wire/transport.h"

#include "base/clock.h"
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 4 /* of one message; the kernel closes those beyond */

/* ---- names ---- */

struct address {
	struct sockaddr_un name;
	socklen_t len;
	int dir_fd; /* open while the address is in use, or -1 */
};

static void address_close(struct address *a)
{
	if (a->dir_fd >= 0)
		close(a->dir_fd);
	a->dir_fd = -1;
}

/* A path too long for sun_path (107 bytes) goes through its directory's descriptor. */
static int address_open(struct address *a, const char *path, struct error *err)
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

static int stream_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Anybody who can write to a socket's directory can listen at its name. We talk only to a server of
 * our own user or of root, who may do anything. Root may talk to any server. */
static int check_server(int fd, const char *name, struct error *err)
{
	uid_t server, self = geteuid();
	pid_t pid;
	if (transport_who(fd, &server, &pid) != 0)
		return error_errno(err, ERROR_OS, name, "SO_PEERCRED");
	if (self == 0 || server == 0 || server == self)
		return 0;
	return error_set(err, ERROR_NOPERM, name, "the process that listens there is another "
						  "user's (%lu)",
			 (unsigned long)server);
}

/* errnum: why it can't be reached; 0: something else failed. */
static int reach(const char *name, int *fd, int *errnum, struct error *err)
{
	struct address a;
	*errnum = 0;
	if (address_open(&a, name, err) != 0) {
		if (err && err->code == ERROR_NOINPUT)
			err->code = ERROR_UNAVAILABLE;
		return -1;
	}
	int s = stream_socket(), result = 0;
	if (s < 0)
		result = error_errno(err, ERROR_OS, name, "socket");
	while (result == 0 && connect(s, (struct sockaddr *)&a.name, a.len) != 0) {
		if (errno == EINTR)
			continue;
		int code = errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS ? ERROR_TEMPFAIL
			   : errno == EACCES                                       ? ERROR_NOPERM
										   : ERROR_UNAVAILABLE;
		*errnum = errno;
		result = error_errno(err, code, name, "can't be reached");
	}
	address_close(&a);
	if (result == 0)
		result = check_server(s, name, err);
	if (result != 0) {
		if (s >= 0)
			close(s);
		return -1;
	}
	*fd = s;
	return 0;
}

int transport_connect(const char *name, int *fd, struct error *err)
{
	int errnum;
	return reach(name, fd, &errnum, err);
}

/* ---- listening ---- */

int transport_remove_dead(const char *path, struct error *err)
{
	struct stat st;
	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : error_errno(err, 0, path, "can't be looked at");
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, path, "exists and is not a socket");
	int fd, errnum;
	struct error why;
	if (reach(path, &fd, &errnum, &why) == 0) {
		close(fd);
		return error_set(err, ERROR_TEMPFAIL, path, "another instance runs");
	}
	/* A datagram socket may be alive; so may any socket when there is no memory to test it. */
	if (why.code == ERROR_UNAVAILABLE && errnum != 0 && errnum != ECONNREFUSED &&
	    errnum != ENOENT) {
		errno = errnum;
		return error_errno(err, ERROR_CANTCREAT, path, "exists and may be in use");
	}
	if (why.code != ERROR_UNAVAILABLE) {
		if (err)
			*err = why;
		return -1;
	}
	if (unlink(path) != 0 && errno != ENOENT)
		return error_errno(err, ERROR_CANTCREAT, path, "a dead socket can't be removed");
	return 0;
}

int transport_listen(struct transport_listener *l, const char *name, struct error *err)
{
	struct address a;
	struct stat st;
	if (transport_remove_dead(name, err) != 0 || address_open(&a, name, err) != 0)
		return -1;
	int fd = stream_socket(), result = 0;
	/* The mode is given before the name exists: nobody can slip in between, and the process's
	 * umask is left alone. */
	if (fd < 0 || fchmod(fd, 0600) != 0)
		result = error_errno(err, ERROR_OS, name, "socket");
	else if (bind(fd, (struct sockaddr *)&a.name, a.len) != 0)
		result = error_errno(err, ERROR_CANTCREAT, name, "bind");
	else if (listen(fd, SOMAXCONN) != 0 || lstat(name, &st) != 0)
		result = error_errno(err, ERROR_OS, name, "listen");
	address_close(&a);
	if (result != 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*l = (struct transport_listener){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

int transport_inherit(struct transport_listener *l, int fd, const char *name, struct error *err)
{
	int listens = 0;
	socklen_t len = sizeof listens;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens)
		return error_set(err, ERROR_CONFIG, name, "descriptor %d is no listening socket",
				 fd);
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return error_errno(err, ERROR_OS, name, "descriptor %d", fd);
	*l = (struct transport_listener){.fd = fd, .inherited = 1};
	return 0;
}

void transport_unlisten(struct transport_listener *l, const char *name)
{
	struct stat st;
	if (l->fd < 0)
		return;
	if (!l->inherited && lstat(name, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(name);
	close(l->fd);
	l->fd = -1;
}

int transport_accept(const struct transport_listener *l)
{
	return accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int transport_who(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred who;
	socklen_t len = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
		return -1;
	*uid = who.uid;
	*pid = who.pid;
	return 0;
}

/* ---- bytes ---- */

static void take_descriptors(struct msghdr *message, int *passed)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (*passed < 0)
				*passed = fd;
			else
				close(fd);
		}
	}
}

static ssize_t transport_receive(int fd, const struct iovec *piece, size_t count, int *passed)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)piece,
				 .msg_iovlen = count,
				 .msg_control = &control,
				 .msg_controllen = sizeof control};
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n >= 0 && message.msg_controllen > 0)
		take_descriptors(&message, passed);
	return n;
}

static ssize_t later_or_lost(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK ? TRANSPORT_LATER : TRANSPORT_LOST;
}

ssize_t transport_read(int fd, const struct iovec *piece, size_t count, int *passed)
{
	ssize_t n;
	do
		n = passed ? transport_receive(fd, piece, count, passed)
			   : readv(fd, piece, (int)count);
	while (n < 0 && errno == EINTR);
	return n > 0 ? n : n == 0 ? TRANSPORT_END : later_or_lost();
}

ssize_t transport_write(int fd, const struct iovec *piece, size_t count, int pass)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)piece, .msg_iovlen = count};
	if (pass >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		struct cmsghdr *h = CMSG_FIRSTHDR(&message);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof pass);
		memcpy(CMSG_DATA(h), &pass, sizeof pass);
	}
	ssize_t n;
	do
		n = count == 1 && pass < 0
			    ? send(fd, piece->iov_base, piece->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
			    : sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n >= 0 ? n : later_or_lost();
}

size_t transport_advance(struct iovec *piece, size_t count, size_t written)
{
	size_t first = 0;
	while (first < count && written >= piece[first].iov_len)
		written -= piece[first++].iov_len;
	for (size_t i = first; i < count; i++)
		piece[i - first] = piece[i];
	if (first < count) {
		piece[0].iov_base = (char *)piece[0].iov_base + written;
		piece[0].iov_len -= written;
	}
	return count - first;
}

/* ---- waiting ---- */

int transport_wait(int fd, short what, double deadline, short *got, const char *name,
		   struct error *err)
{
	for (;;) {
		double left = deadline - clock_mono();
		struct pollfd p = {.fd = fd, .events = what};
		double ms = ceil(left * 1e3);
		int n = poll(&p, 1, left <= 0 ? 0 : ms > 1e9 ? 1000000000 : (int)ms);
		if (n > 0) {
			if (got)
				*got = p.revents;
			return 0;
		}
		if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_OS, name, "poll");
		if (n == 0 && left <= 0)
			return error_set(err, ERROR_TEMPFAIL, name, "no answer in time");
	}
}

int transport_is_gone(int fd)
{
	struct pollfd p = {.fd = fd};
	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

/* ---- datagrams ---- */

void transport_tell(const char *name, const char *text)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	if (len < 2 || len >= sizeof to.sun_path || (name[0] != '@' && name[0] != '/'))
		return;
	memcpy(to.sun_path, name, len);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* An abstract name ends with its length: no NUL is part of it. */
	socklen_t to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
		      to_len);
	close(fd);
}
