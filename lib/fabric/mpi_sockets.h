/*
 * mpi_sockets: the connections of MPI, so that a thread can sleep until something comes there.
 *
 * MPI has no descriptor to wait for, and its own waits never sleep.  But its transport for TCP
 * (btl_tcp of Open MPI) keeps ordinary sockets.  We find them among this process's descriptors, and
 * watch them for data, which we leave there for MPI, and for room to write if they were full.
 *
 * MPI closes sockets without notice, and their numbers are used again.  So we watch them in epolls
 * of our own, from which the kernel removes closed sockets: libevent would believe that a number is
 * still watched, and would not watch the socket that has it now.
 */
#ifndef PACELINE_FABRIC_MPI_SOCKETS_H
#define PACELINE_FABRIC_MPI_SOCKETS_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>
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

/* listens: a socket that listens has data, and there may soon be others. */
typedef void mpi_sockets_came_fn(int listens, void *arg);

struct mpi_sockets {
	mpi_sockets_came_fn *came;
	void *arg;
	struct mpi_epoll data; /* to read */
	struct mpi_epoll room; /* to write; and those that listen */
	struct mpi_socket *at;
	size_t count, at_room;
	uint64_t finds; /* how often they were looked for */
};

/* came() is called as long as one of them has data to read, and each time one that was
 * full takes more. -1: no event loop. */
int mpi_sockets_begin(struct mpi_sockets *s, struct event_base *base, mpi_sockets_came_fn *came,
		      void *arg);
void mpi_sockets_end(struct mpi_sockets *s);
/* Finds the present sockets. -1: not all of them can be watched. */
int mpi_sockets_find(struct mpi_sockets *s);

#endif
