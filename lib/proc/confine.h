/*
 * confine: from now on this process, and all that it starts, may do what it has to do and no more. Whoever
 * takes it over by bad input finds little to do. It is a second wall: nothing of the kit relies on it.
 *
 *   Landlock (landlock(7))   files are read, written and made only where the caller says; signals go only to
 *                            processes that it has made
 *   seccomp  (seccomp(2))    no program is executed; no sockets but those asked for; no debugging of others,
 *                            no namespaces, none of the large parts of the kernel that we do not use
 *
 * What is open already stays open. A kernel that has one of them, or neither, does what it can: nothing
 * here fails. What is refused fails with EACCES or EPERM, as if the user had no right to it.
 *
 * Both are inherited, also by programs that are executed later, and with them goes no_new_privs, with which
 * sudo(8) does not work. So who runs commands of the user never calls this.
 *
 * Threads that run already are not kept from files. Call it before there are any.
 */
#ifndef PACELINE_PROC_CONFINE_H
#define PACELINE_PROC_CONFINE_H

#include <stddef.h>

#define CONFINE_PATHS 8

enum confine_sockets { CONFINE_NO_SOCKETS, CONFINE_UNIX_SOCKETS, CONFINE_ANY_SOCKETS };

/* A path that is NULL counts as none, and so does one that is not there. What a directory allows holds for
 * all below it. */
struct confine_ask {
	const char *read[CONFINE_PATHS];    /* files and directories */
	const char *write[CONFINE_PATHS];   /* the same: read, written, made and removed */
	const char *replace[CONFINE_PATHS]; /* files made anew under a name that may exist, so their directory
					     * is as one of `write` */
	const char *const *more;            /* `more_count` others, to be read */
	size_t more_count;
	enum confine_sockets sockets; /* that may be made */
	int signals;                  /* to processes that it has not made */
};

void confine(const struct confine_ask *ask);

#endif
