/*
 * keep: a file without a name that another process holds, so that it outlives whoever made it, and
 * goes when there is nobody any more.
 *
 * Who holds it is told through a socket (SOCK_SEQPACKET) and makes a link to it, by which others of
 * the same user open it: LINK -> /proc/PID/fd/N.  A link without its process leads nowhere; one whose
 * process is another's by now leads to another file: who opens it compares its name (keep_open()).
 * It holds one file at a time.
 */
#ifndef PACELINE_BASE_KEEP_H
#define PACELINE_BASE_KEEP_H

#include "base/error.h"

#include <stddef.h>

#define KEEP_VARIABLE "PACELINE_KEEPER" /* in a node's environment: the number of the socket */
#define KEEP_LINK_MAX 4096

/* The socket by its number, close-on-exec from here on; -1: NULL, or none. */
int keep_socket(const char *number);
/* A new file of memory. name: for keep_open(). */
int keep_new(const char *name, struct error *err);
/* From here on nobody can change it; then it is held, and link leads to it. fd stays the caller's.
 * What was held before is let go first; fd -1: that is all. */
int keep_give(int keeper, const char *link, int fd, struct error *err);
/* What link leads to, to be read; -1: none, or not the sealed file of that name. */
int keep_open(const char *link, const char *name);

/* ---- who holds it ---- */

/* The next that is asked for: 1, *fd and link (fd -1: none); 0: there is nobody any more. */
int keep_next(int node, int *fd, char link[KEEP_LINK_MAX]);
/* What it says to that. */
void keep_answer(int node, int ok);

#endif
