/* keep: see keep.h. */
#include "base/keep.h"

#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define ANSWER_SECONDS 10

int keep_socket(const char *number)
{
	uint64_t fd;
	int type;
	socklen_t len = sizeof type;
	if (!number || number_u64_span(number, strlen(number), &fd) != 0 || fd > INT_MAX ||
	    getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		return -1;
	return (int)fd;
}

int keep_new(const char *name, struct error *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd >= 0 ? fd : error_errno(err, ERROR_OS, name, "no file of memory");
}

int keep_fill(int fd, uint64_t bytes)
{
	struct sysinfo node;

	if (bytes > INT64_MAX ||
	    (sysinfo(&node) == 0 && bytes / node.mem_unit > (uint64_t)node.totalram + node.totalswap)) {
		errno = ENOMEM;
		return -1;
	}
	int rc;
	while ((rc = fallocate(fd, 0, 0, (off_t)bytes)) != 0 && errno == EINTR)
		;
	return rc;
}

int keep_seal(int fd)
{
	return (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS ? 0 : fcntl(fd, F_ADD_SEALS, SEALS);
}

/* Sends a message with a descriptor; -1: without one. */
static ssize_t send_with(int socket, const char *text, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct iovec iov = {.iov_base = (void *)(size_t)text, .iov_len = strlen(text) + 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		m.msg_control = control.room;
		m.msg_controllen = sizeof control.room;
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(h), &fd, sizeof fd);
	}
	ssize_t n;
	while ((n = sendmsg(socket, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	return n;
}

int keep_give(int keeper, const char *link, int fd, struct error *err)
{
	const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	char answer = 0;
	ssize_t n;
	if (strlen(link) >= KEEP_LINK_MAX)
		return error_set(err, ERROR_OS, link, "path is too long");
	if (fd >= 0 && keep_seal(fd) != 0)
		return error_errno(err, ERROR_OS, link, "can't be sealed");
	setsockopt(keeper, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (send_with(keeper, link, fd) < 0)
		return error_errno(err, ERROR_OS, link, "can't be handed over");
	while ((n = recv(keeper, &answer, 1, 0)) < 0 && errno == EINTR)
		;
	return n == 1 && answer == '+' ? 0 : error_set(err, ERROR_OS, link, "is not kept");
}

int keep_open(const char *link, const char *name)
{
	char expected[KEEP_LINK_MAX], is[KEEP_LINK_MAX], own[64];
	int fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -1;
	snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
	snprintf(expected, sizeof expected, "/memfd:%s (deleted)", name);
	ssize_t n = readlink(own, is, sizeof is - 1);
	is[n > 0 ? n : 0] = '\0';
	if (strcmp(is, expected) == 0 && (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS)
		return fd;
	close(fd);
	return -1;
}

int keep_next(int node, int *fd, char link[KEEP_LINK_MAX])
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = link, .iov_len = KEEP_LINK_MAX};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof control.room};
	ssize_t n;
	while ((n = recvmsg(node, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n <= 0)
		return 0;
	link[n - 1] = '\0';
	*fd = -1;
	const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(h), sizeof *fd);
	return 1;
}

void keep_answer(int node, int ok)
{
	(void)send(node, ok ? "+" : "-", 1, MSG_NOSIGNAL);
}
