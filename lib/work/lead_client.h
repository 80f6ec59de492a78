/*
 * lead_client: what a worker says to the lead of its job: that it joins, what it pushed, that it
 * leaves.  The lead is a conversation like others (conversation.h).
 */
#ifndef PACELINE_WORK_LEAD_CLIENT_H
#define PACELINE_WORK_LEAD_CLIENT_H

#include "work/conversation.h"
#include "work/exchange.h"

/* Whether this greeting is that of a lead without parameters. -1: ERROR_CONFIG. */
int lead_client_check(const struct record *greeting, const void *unused, struct error *err);

/* Keys of a join. */
void lead_client_add_member(struct record_out *o, const struct exchange_member *member);
/* Waits until the worker can enter; *iteration is where it does. replica: where it pulls and
 * pushes; NULL: at parts. */
int lead_client_join(struct conversation *lead, const struct exchange_member *member,
		     const char *replica, uint64_t *iteration, struct error *err);
int lead_client_leave(struct conversation *lead, uint64_t idle, struct error *err); /* exchange.h */
/* Waits until the job is finished. */
int lead_client_end(struct conversation *lead, struct error *err);

/* Keys of a push, for any receiver: which push it is, and the rows that it covers. */
void lead_client_add_push(struct record_out *o, const struct exchange_push *push,
			  const struct batch *b);
/* To the lead only. */
void lead_client_add_report(struct record_out *o, const struct exchange_push *push);
/* The lead's answer to a push; *iteration: where the next batch belongs. */
int lead_client_wait(struct conversation *lead, uint64_t *iteration, struct error *err);

#endif
