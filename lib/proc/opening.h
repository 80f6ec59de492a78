/*
 * opening: bounds how many connections to one host are being opened at the same time.  When more
 * than ten have not logged in yet, sshd(8) drops some of them (MaxStartups in sshd_config(5)), so a
 * job with many nodes on a host must not open all their connections at once.
 *
 * A place is a name that one process can hold: a socket of the abstract namespace (unix(7)).  It is
 * free again when its holder ends, in any way.  Only processes of the same user and the same
 * network namespace wait for each other.
 */
#ifndef PACELINE_PROC_OPENING_H
#define PACELINE_PROC_OPENING_H

/* A descriptor that holds one of `places` places for this host, until it is closed. -1: all are
 * taken, or it is not possible to ask, as without descriptors. */
int opening_take(const char *host, int places);

#endif
