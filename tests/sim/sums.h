/*
 * sums: fabricd(8) as replicas know it: the sums of all hosts (lib/fabric), as they are, in one simulated process. What MPI
 * carries between hosts arrives late and in any order, but messages from one host to another keep theirs.
 */
#ifndef PACELINE_TESTS_SIM_SUMS_H
#define PACELINE_TESTS_SIM_SUMS_H

#include "fabric/sums.h"

#define SUMS_HOSTS_MAX 8

struct between;
struct event_base;

/* Of these hosts. host_of: where a client's process is, as an index into them; -1: on none. */
int between_new(struct between **out, const char *const *host, unsigned hosts, int (*host_of)(pid_t pid), struct error *err);
/* For server_options, with the owner `out`: SUMS_VERBS verbs. */
const struct verb *between_verbs(const struct between *b);
void between_begin(struct between *b, struct event_base *base);
void between_closed(struct between *b, struct connection *c);

#endif
