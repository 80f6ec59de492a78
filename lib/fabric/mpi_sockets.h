/*
 * mpi_sockets: the connections of MPI, for who wants to sleep until something comes there.
 *
 * MPI has no descriptor to wait for, and its own waits never sleep.  But its transport for TCP
 * (btl_tcp of Open MPI) keeps ordinary sockets: they are found among this process's descriptors and
 * watched for something to read, which is left there for MPI, and for room where there was none.
 *
 * MPI closes sockets without a word, and their numbers are used again.  So they are watched in
 * epolls of our own, which the kernel takes closed ones out of: libevent would believe that a
 * number is still watched and not ask for whoever has it now.
 */
#ifndef PACELINE_FABRIC_MPI_SOCKETS_H
#define PACELINE_FABRIC_MPI_SOCKETS_H

#include <event2/event.h>
#include <stddef.h>
#include <sys/types.h>

struct mpi_socket {
	int fd;
	ino_t ino; /* a number may be used again for another socket */
	int listens; /* for new connections */
	int seen;
};

/* An epoll and the event that says that something happened in it. */
struct mpi_epoll {
	int fd;
	struct event *event;
};

struct mpi_sockets {
	event_callback_fn came;
	void *arg;
	struct mpi_epoll data, room; /* for something to read, and for room to write */
	struct mpi_socket *at;
	size_t count, at_room;
};

/* came(fd, ..., arg) is called as long as there is something to read at one of them, and each time
 * one that was full takes more. -1: no event loop. */
int mpi_sockets_begin(struct mpi_sockets *s, struct event_base *base, event_callback_fn came,
		       void *arg);
void mpi_sockets_end(struct mpi_sockets *s);
/* Looks anew which there are. -1: not all of them can be watched. */
int mpi_sockets_find(struct mpi_sockets *s);
/* Whether connections arrive there: others will be there soon. */
int mpi_sockets_listens(const struct mpi_sockets *s, int fd);

#endif
