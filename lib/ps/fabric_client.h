/*
 * fabric_client: how a replica uses fabricd.  The sum of its host goes into memory that both have
 * mapped, and the sum of all hosts comes out there.  The numbers of rounds grow; calls for any
 * round but the last have no effect.
 *
 * Each connection has memory of its own, because a fabricd that we have lost may still write into
 * the old one.  But sums that ranks read where they lie (room.c) have one memory always: a fabricd
 * answers an open or a drop when it writes nothing any more of all rounds before.
 */
#ifndef PACELINE_PS_FABRIC_CLIENT_H
#define PACELINE_PS_FABRIC_CLIENT_H

#include "ps/replica.h"

/* _new makes a client of r, which stays the owner; _start connects, and connects again when the
 * connection is lost. */
int fabric_client_new(struct fabric_client **out, struct ps_replica *r, struct error *err);
int fabric_client_start(struct fabric_client *f, struct error *err);
void fabric_client_stop(struct fabric_client *f);
void fabric_client_free(struct fabric_client *f); /* NULL is fine */
int fabric_client_is_up(const struct fabric_client *f);

/* Begins a new round of these replicas ("r0,r2"); older rounds end. Returns the place for the dense
 * sum of this host, which may be written once fabric_client_is_open(): `place`, in the memory of
 * sums, or if that is NULL, a place of its own. NULL: it failed, and round_end() was called. */
float *fabric_client_open(struct fabric_client *f, uint64_t round, uint64_t iteration,
			  const char *replicas, float *place);
int fabric_client_is_open(const struct fabric_client *f, uint64_t round);
/* Whether fabricd may write: a round is open there, or was, and it has not said that it is over. */
int fabric_client_is_busy(const struct fabric_client *f);
/* The memory of sums is there (room.c). */
void fabric_client_share(struct fabric_client *f);
/* These floats of that place hold the sum of this host now. */
void fabric_client_part(struct fabric_client *f, uint64_t round, size_t begin, size_t length);
/* All parts were announced, and these are the rows of this host. They are replaced by those of all
 * hosts, and then round_summed() is called; or, after a failure, round_end(). */
void fabric_client_finish(struct fabric_client *f, uint64_t round, int check,
			  struct row_sums *rows);
/* Gives up a round. */
void fabric_client_drop(struct fabric_client *f, uint64_t round);

#endif
