/* mpi_sockets: see mpi_sockets.h. */
#include "fabric/mpi_sockets.h"

#include "base/grow.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOMS 16 /* of one look */

/* Only that there were some matters. */
static void on_room(evutil_socket_t fd, short what, void *sockets)
{
	struct mpi_sockets *s = sockets;
	struct epoll_event seen[ROOMS];
	while (epoll_wait(fd, seen, ROOMS, 0) == ROOMS)
		;
	s->came(fd, what, s->arg);
}

int mpi_sockets_begin(struct mpi_sockets *s, struct event_base *base, event_callback_fn came,
		      void *arg)
{
	*s = (struct mpi_sockets){.base = base, .came = came, .arg = arg};
	s->room_fd = epoll_create1(EPOLL_CLOEXEC);
	s->room_event = s->room_fd < 0 ? NULL
				       : event_new(base, s->room_fd, EV_READ | EV_PERSIST, on_room, s);
	return s->room_event ? event_add(s->room_event, NULL) : -1;
}

static void forget(struct mpi_sockets *s, size_t i)
{
	event_free(s->at[i].event);
	s->at[i] = s->at[--s->count];
}

void mpi_sockets_end(struct mpi_sockets *s)
{
	while (s->count > 0)
		forget(s, s->count - 1);
	if (s->room_event) {
		event_free(s->room_event);
		close(s->room_fd);
	}
	free(s->at);
	*s = (struct mpi_sockets){0};
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;
	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* This process has no TCP sockets of its own. */
static int is_mpi(int fd)
{
	int domain = option(fd, SO_DOMAIN);
	return (domain == AF_INET || domain == AF_INET6) && option(fd, SO_TYPE) == SOCK_STREAM;
}

static int watch(struct mpi_sockets *s, int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return 0; /* it is gone already */
	for (size_t i = 0; i < s->count; i++) {
		if (s->at[i].fd == fd && s->at[i].ino == st.st_ino) {
			s->at[i].seen = 1;
			return 0;
		}
	}
	if (GROW(s->at, s->room, s->count + 1) != 0)
		return -1;
	struct mpi_socket *found = &s->at[s->count];
	*found = (struct mpi_socket){.fd = fd,
				     .ino = st.st_ino,
				     .listens = option(fd, SO_ACCEPTCONN) == 1,
				     .seen = 1};
	found->event = event_new(s->base, fd, EV_READ | EV_PERSIST, s->came, s->arg);
	if (!found->event)
		return -1;
	s->count++;
	/* Tells when there is room after there was none, and not that there is. */
	struct epoll_event room = {.events = EPOLLOUT | EPOLLET};
	if (!found->listens)
		(void)epoll_ctl(s->room_fd, EPOLL_CTL_ADD, fd, &room);
	return event_add(found->event, NULL);
}

int mpi_sockets_find(struct mpi_sockets *s)
{
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return -1;
	int result = 0;
	for (size_t i = 0; i < s->count; i++)
		s->at[i].seen = 0;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] != '.' && is_mpi(fd) && watch(s, fd) != 0)
			result = -1;
	}
	closedir(dir);
	for (size_t i = s->count; i-- > 0;)
		if (!s->at[i].seen)
			forget(s, i);
	return result;
}

int mpi_sockets_listens(const struct mpi_sockets *s, int fd)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].fd == fd)
			return s->at[i].listens;
	return 0;
}
