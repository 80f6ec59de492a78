/*
 * verbs: the requests that a running job answers on trainctl.sock (trainctl(1),
 * paceline-protocol(7)), and the clients that wait for an answer.  Handlers note what is wanted and
 * kick; the phases do it.
 */
#ifndef PACELINE_RUN_VERBS_H
#define PACELINE_RUN_VERBS_H

#include "wire/server.h"

#include <stddef.h>

struct run_row;
struct sup_waiter;
struct supervisor;

/* Clients that wait: for a checkpoint, a restart, the end. */
struct sup_waiters {
	struct sup_waiter *first;
};

struct sup_clients {
	struct sup_waiters stop, watch;
};

extern const struct verb sup_verbs[];
extern const size_t sup_verb_count;

/* Takes the next client, for an answer. There must be one. */
struct request *sup_wait_take(struct sup_waiters *waiters);
void sup_answer_watchers(struct supervisor *s, const struct run_row *row);
/* The job is over: answers all requests that still wait. */
void sup_answer_all(struct supervisor *s);

#endif
