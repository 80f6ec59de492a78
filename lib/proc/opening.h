/*
 * opening: how many connections to one host are being opened at the same time.  sshd(8) drops some of
 * those that have not logged in yet when there are more than ten of them (MaxStartups in
 * sshd_config(5)), so that a job with many nodes on a host must not open all of theirs at once.
 *
 * A place is a name that one process can hold: a socket of the abstract namespace (unix(7)).  It is
 * free again when its holder ends, however that ends.  Only processes of the same user and the same
 * network namespace wait for each other.
 */
#ifndef PACELINE_PROC_OPENING_H
#define PACELINE_PROC_OPENING_H

/* A descriptor that holds one of `places` places for this host, until it is closed. -1: all are taken.
 * Where no place can be asked for, as without descriptors, -1, too. */
int opening_take(const char *host, int places);

#endif
