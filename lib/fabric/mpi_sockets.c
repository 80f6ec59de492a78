/* mpi_sockets: see mpi_sockets.h. */
#include "fabric/mpi_sockets.h"

#include "base/grow.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEN 16 /* of one look */

/* As long as there is something to read. Nobody asks where: MPI looks at all of them. */
static void mpi_sockets_on_data(evutil_socket_t fd, short what, void *sockets)
{
	struct mpi_sockets *s = sockets;
	(void)fd;
	(void)what;
	s->came(0, s->arg);
}

static int mpi_sockets_listens(const struct mpi_sockets *s, int fd)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].fd == fd)
			return s->at[i].listens;
	return 0;
}

static void on_room(evutil_socket_t fd, short what, void *sockets)
{
	struct mpi_sockets *s = sockets;
	struct epoll_event seen[SEEN];
	int n, listens = 0;
	(void)what;
	do {
		n = epoll_wait(fd, seen, SEEN, 0);
		for (int i = 0; i < n; i++)
			listens |= mpi_sockets_listens(s, seen[i].data.fd);
	} while (n == SEEN);
	s->came(listens, s->arg);
}

static int mpi_sockets_poll_begin(struct mpi_epoll *e, struct event_base *base,
				  event_callback_fn on, struct mpi_sockets *s)
{
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0)
		return -1;
	e->event = event_new(base, e->fd, EV_READ | EV_PERSIST, on, s);
	if (e->event && event_add(e->event, NULL) == 0)
		return 0;
	if (e->event)
		event_free(e->event);
	e->event = NULL;
	close(e->fd);
	return -1;
}

static void mpi_sockets_poll_end(struct mpi_epoll *e)
{
	if (!e->event)
		return;
	event_free(e->event);
	close(e->fd);
}

int mpi_sockets_begin(struct mpi_sockets *s, struct event_base *base, mpi_sockets_came_fn *came,
		      void *arg)
{
	*s = (struct mpi_sockets){.came = came, .arg = arg};
	if (mpi_sockets_poll_begin(&s->data, base, mpi_sockets_on_data, s) != 0)
		return -1;
	return mpi_sockets_poll_begin(&s->room, base, on_room, s);
}

void mpi_sockets_end(struct mpi_sockets *s)
{
	mpi_sockets_poll_end(&s->data);
	mpi_sockets_poll_end(&s->room);
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

static int mpi_sockets_watch(struct mpi_sockets *s, int fd)
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
	if (GROW(s->at, s->at_room, s->count + 1) != 0)
		return -1;
	struct mpi_socket *found = &s->at[s->count];
	*found = (struct mpi_socket){.fd = fd,
				     .ino = st.st_ino,
				     .listens = option(fd, SO_ACCEPTCONN) == 1,
				     .seen = 1};
	struct epoll_event data = {.events = EPOLLIN, .data.fd = fd};
	/* Reports only when there is room after there was none. */
	struct epoll_event room = {.events = EPOLLOUT | EPOLLET, .data.fd = fd};
	if (epoll_ctl(found->listens ? s->room.fd : s->data.fd, EPOLL_CTL_ADD, fd, &data) != 0)
		return -1;
	s->count++;
	if (!found->listens)
		(void)epoll_ctl(s->room.fd, EPOLL_CTL_ADD, fd, &room);
	return 0;
}

int mpi_sockets_find(struct mpi_sockets *s)
{
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return -1;
	int result = 0;
	s->finds++;
	for (size_t i = 0; i < s->count; i++)
		s->at[i].seen = 0;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] != '.' && is_mpi(fd) && mpi_sockets_watch(s, fd) != 0)
			result = -1;
	}
	closedir(dir);
	for (size_t i = s->count; i-- > 0;)
		if (!s->at[i].seen)
			s->at[i] = s->at[--s->count];
	return result;
}
