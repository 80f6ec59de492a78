/*
 * most: limits of a job that more than one room knows.  A job beyond them is refused before
 * anything is started; the man pages name them.
 */
#ifndef PACELINE_BASE_MOST_H
#define PACELINE_BASE_MOST_H

/* Bytes of all routes of a job: enough for about 4000 sockets. */
#define MOST_ROUTES_BYTES 262144
/* Bytes of the names of all hosts that train with SYNC=allreduce, with a comma after each: a sum
 * names them in one line. */
#define MOST_SUM_HOSTS_BYTES 3072

#endif
