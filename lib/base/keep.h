/*
 * keep: a file without a name that another process holds, so that the file outlives its maker, and
 * is gone when both processes are.
 *
 * The holder gets the file through a socket (SOCK_SEQPACKET) and makes a link to it, by which
 * others of the same user open it: LINK -> /proc/PID/fd/N.  If the holder has ended, the link leads
 * nowhere; if another process has its PID by now, the link leads to another file, so keep_open()
 * compares the name.  A holder has one file at a time.
 */
#ifndef PACELINE_BASE_KEEP_H
#define PACELINE_BASE_KEEP_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define KEEP_VARIABLE "PACELINE_KEEPER" /* in a node's environment: the number of the socket */
#define KEEP_LINK_MAX 4096

/* The socket with this number, close-on-exec from here on; -1: number is NULL, or no socket. */
int keep_socket(const char *number);
/* A new file of memory. name: for keep_open(). */
int keep_new(const char *name, struct error *err);
/* Gets all memory of a file of memory, so that nobody is killed later who writes there. -1: errno;
 * also if the machine has less than that, which is not tried, as other processes would pay. */
int keep_fill(int fd, uint64_t bytes);
/* So that nobody can change it. -1: errno; somebody has it mapped for writing. */
int keep_seal(int fd);
/* Seals the file; then it is held, and link leads to it. fd stays the
 * caller's. The holder first lets go of the file before; with fd -1 it does only that. */
int keep_give(int keeper, const char *link, int fd, struct error *err);
/* Opens for reading what link leads to; -1: nothing, or not the sealed file of that name. */
int keep_open(const char *link, const char *name);

/* ---- the holder ---- */

/* The next request: 1, with *fd and link (fd -1: hold none); 0: the other process has gone. */
int keep_next(int node, int *fd, char link[KEEP_LINK_MAX]);
/* Answers that request. */
void keep_answer(int node, int ok);

#endif
