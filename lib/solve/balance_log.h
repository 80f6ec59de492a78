/*
 * balance_log: rounds of a balance as records.  A lead writes what it decided on (ps-server(8)),
 * and trainctl(1) reads that and decides again.
 *
 *     balancing method= batch= least= at=
 *     balance iteration= [from=] time-us= sizes=ID:SIZE,... speeds= times= counts= mems= mosts=
 *             [had=]
 *
 * A log without least= is of a lead that had none: 1.
 *
 * Lists are in the order of the members; a value that is not known is an empty item, and a list
 * without known values is empty.  A round of more members than fit a record continues in the next
 * one: from= is the number of members in the records before.
 */
#ifndef PACELINE_SOLVE_BALANCE_LOG_H
#define PACELINE_SOLVE_BALANCE_LOG_H

#include "record/record.h"
#include "solve/balance.h"

/* Takes a record, to be ended with record_end(). */
typedef void balance_log_put_fn(struct record_out *o, void *arg);

/* A round as records; m as balance_round() left them. had: their sizes before, which say more than
 * the round before does where members come and go; NULL: left out. us: what it cost. */
void balance_log_round(uint64_t iteration, const struct balance_member *m, size_t n,
		       const uint64_t *had, double us, balance_log_put_fn *put, void *arg);

/* ---- deciding again ---- */

struct balance_replay;

/* Takes a round decided again, as text: such records with the sizes only, then a `warn` record for
 * each member without which the job is faster. Valid during the call only. */
typedef void balance_replay_fn(const char *text, size_t len, void *arg);

/* method: to be used in place of the logged one; NULL: the logged one. */
int balance_replay_new(struct balance_replay **out, const char *method, balance_replay_fn *say,
		       void *arg, struct error *err);
void balance_replay_free(struct balance_replay *b); /* NULL is fine */
/* Records of other types are passed over. ERROR_DATA without a place, ERROR_USAGE for an unknown
 * method, ERROR_OS. A round that can't be decided is logged (log.h) and counts as failed. */
int balance_replay_record(struct balance_replay *b, const struct record *r, struct error *err);
int balance_replay_end(struct balance_replay *b, struct error *err); /* no record follows */
/* How many rounds, and how many of them failed. */
uint64_t balance_replay_rounds(const struct balance_replay *b, uint64_t *failed);

#endif
