/*
 * alone: a lock that only one process at a time holds, and whose holder can be ended by the next one.
 *
 * On another host a command may live on when the end that asked for it has given it up: its
 * node-host was stopped there, or the host could not be reached.  The next command of the same node
 * would find its sockets taken.  So each takes this lock first, and ends who still has it.
 *
 * The kernel says who has a lock of fcntl(2), and only a process that lives has one: neither can the
 * file be out of date, nor the number be another process's by now.  A descendant does not get it.
 */
#ifndef PACELINE_PROC_ALONE_H
#define PACELINE_PROC_ALONE_H

#include "base/error.h"

#include <sys/types.h>

/* Locks a file, which is made if it is not there. The lock is held until *lock is closed, or any other
 * descriptor of the file. Who has it, if it is of our program and leads a session, is killed with all of
 * its session; *killed is its pid, or 0. ERROR_TEMPFAIL: it does not end, or it is none of ours. */
int alone_take(const char *path, int *lock, pid_t *killed, struct error *err);

#endif
