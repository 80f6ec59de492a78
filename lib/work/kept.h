/*
 * kept: what a worker has pushed to a part whose standby may be behind (ps-server(8)), until the
 * part says that it needs it no more.
 *
 * A thread holds a connection to the part beside the worker's own, because the worker computes, or
 * waits for others, when the part dies.  If the process that is the part then says that it is
 * behind, the thread sends it all that is kept.
 *
 * With a directory, what is kept outlives the worker (kept_file.h).  The workers of its host look
 * there when they connect to the part, and every few seconds: they hand in what a worker that has
 * died kept, and remove it when the part says that it is not needed.
 */
#ifndef PACELINE_WORK_KEPT_H
#define PACELINE_WORK_KEPT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct kept;

struct kept_options {
	const char *path, *worker;
	const char *dir; /* NULL: it goes with the worker */
	uint64_t generation, incarnation;
};

int kept_new(struct kept **out, const struct kept_options *options, struct error *err);
/* The worker leaves: waits until the part does not need what is kept, 30 s at most. */
void kept_release(struct kept *k);
/* Takes care of what workers of this host kept for the part at path until they died, beside the
 * caller's work. dir NULL is fine. */
void kept_take_over(const char *dir, const char *path);
/* The worker starts over, in another generation: the same beside its work. */
void kept_retire(struct kept *k); /* NULL is fine */

/* Keeps a push: line[len) is its request up to the fields that say where its gradients are. 1: it
 * may say kept=1. 0: there is no room, or the part does not know of us (yet). */
int kept_add(struct kept *k, const char *line, size_t len, uint64_t sequence, const void *payload,
	     size_t bytes);
/* Whether one more push of so many bytes has no room. */
int kept_is_full(const struct kept *k, size_t bytes);
/* Those below this sequence are not needed any more. */
void kept_until(struct kept *k, uint64_t sequence);

#endif
