/* address: Unix socket addresses for paths of any length. */
#ifndef PACELINE_WIRE_ADDRESS_H
#define PACELINE_WIRE_ADDRESS_H

#include "base/error.h"

#include <sys/socket.h>
#include <sys/un.h>

struct address {
	struct sockaddr_un name;
	socklen_t len;
	int dir_fd; /* open while the address is in use, or -1 */
};

/* A path too long for sun_path (107 bytes) goes through its directory's descriptor. */
int address_open(struct address *a, const char *path, struct error *err);
void address_close(struct address *a);

/* A non-blocking stream socket connected to path; -1 with errno's error when nobody is there
 * (ERROR_UNAVAILABLE), ERROR_TEMPFAIL when the backlog is full. */
int address_connect(const char *path, int *fd, struct error *err);

#endif
