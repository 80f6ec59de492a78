/*
 * keepers: the workers that keep the gradients they pushed, until a standby needs them no more.
 * Each has a connection for this alone, and its end means that what the worker kept is gone.
 */
#ifndef PACELINE_PS_KEEPERS_H
#define PACELINE_PS_KEEPERS_H

#include "ps/ps_internal.h"

/* Whether the worker keeps what it pushes; elsewhere: on another host than this. */
int keepers_has(const struct ps *p, const char *worker, uint64_t generation, int elsewhere);
void keepers_on_keep(struct request *rq, void *ps);
/* A worker that leaves: answered when the standby needs nothing of it. */
void keepers_on_release(struct request *rq, void *ps);

#endif
