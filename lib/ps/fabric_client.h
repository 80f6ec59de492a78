/*
 * fabric_client: fabricd as a replica uses it: the sum of a host goes in, that of all hosts comes
 * out, in memory that both have mapped.  Rounds grow; calls for any round but the last have no
 * effect.
 *
 * Each connection has its own memory: a fabricd that we have lost may still write into that of the
 * previous connection.
 */
#ifndef PACELINE_PS_FABRIC_CLIENT_H
#define PACELINE_PS_FABRIC_CLIENT_H

#include "ps/replica.h"

int fabric_client_new(struct fabric_client **out, struct ps_replica *r, struct error *err);
int fabric_client_start(struct fabric_client *f, struct error *err);
void fabric_client_stop(struct fabric_client *f);
void fabric_client_free(struct fabric_client *f); /* NULL is fine */
int fabric_client_is_up(const struct fabric_client *f);

/* Begins a new round of these replicas (r0,r2); the older ones end. Returns where their dense sum
 * goes, once fabric_client_is_open(); NULL: this failed, and round_end() was called. */
float *fabric_client_open(struct fabric_client *f, uint64_t round, uint64_t iteration,
			  const char *replicas);
int fabric_client_is_open(const struct fabric_client *f, uint64_t round);
/* These floats of it hold the sum of this host. */
void fabric_client_part(struct fabric_client *f, uint64_t round, size_t begin, size_t length);
/* All parts are said, and these are the rows of this host: those of all hosts replace them, and
 * round_summed() is called, or round_end(). */
void fabric_client_finish(struct fabric_client *f, uint64_t round, int check,
			  struct row_sums *rows);
void fabric_client_drop(struct fabric_client *f, uint64_t round);

#endif
