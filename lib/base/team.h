/*
 * team: threads that share the pieces of one loop.
 *
 * The caller works with them, and goes on when all pieces are done; between two loops they sleep.
 * A piece is taken by whoever is free, so that one thread that the machine has no core for holds
 * the others up by the piece it has, and no more.
 *
 * One thread (the owner) makes, uses and frees a team.  In the child of a fork it must not be used.
 */
#ifndef PACELINE_BASE_TEAM_H
#define PACELINE_BASE_TEAM_H

#include "base/error.h"

#include <stddef.h>

#define TEAM_THREADS_MAX 64

struct team;

/* Cores that this process may use, 1 at least. */
unsigned team_cores(void);

/* threads: the caller among them, 1..TEAM_THREADS_MAX. */
int team_new(struct team **out, unsigned threads, struct error *err);
void team_free(struct team *t);              /* NULL is fine */
unsigned team_threads(const struct team *t); /* of NULL: 1 */

/* do_piece(i, arg) once for each i < pieces, in any order, several at a time. t NULL: by the caller
 * alone. What they have written is seen by the caller then. */
void team_run(struct team *t, size_t pieces, void (*do_piece)(size_t piece, void *arg), void *arg);

#endif
