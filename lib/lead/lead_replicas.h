/* What lead_replicas.c and lead_replica_cut.c share: the replicas as the lead has them. */
#ifndef PACELINE_LEAD_LEAD_REPLICAS_H
#define PACELINE_LEAD_LEAD_REPLICAS_H

#include "lead/lead_internal.h"

struct one {
	struct lead *lead;
	size_t index;
	char name[32];
	const char *path;
	struct peer *peer;
	char boot[BOOT_ID_MAX];
	int in;               /* in force, when it was last looked at */
	struct timer *renew;  /* its connection is to be made anew */
	struct timer *limit;  /* of a fill */
	struct timer *failed; /* a fill failed: then the next one */
	double pause;         /* until then */
	uint64_t steps;     /* that it was told and has not answered */
	uint64_t filling;   /* the round of the fill that it was told; 0: none */
	struct timer *look; /* while another lead fills it: then it is asked where it is */
};

/* A cut that one replica is asked for, on a connection of its own: answers on one connection keep
 * their order, and a sum is not answered before all members have pushed. */
struct cutter {
	struct order_answer answer; /* who is told; done NULL: no cut is asked for */
	struct one *one;
	struct peer *peer;
	char *text; /* the order */
	size_t head;
	struct timer *limit;
};

struct replicas {
	struct one *one;
	size_t count, in;
	struct timer *again; /* for the sum of this round */
	uint64_t again_round;
	/* How many sums of failed_iteration could not be made, and the round of the last one. */
	uint64_t failures, failed_round, failed_iteration;
	struct timer *alone;
	struct timer *late; /* the sum of this round, when all have pushed */
	uint64_t late_round;
	struct timer *door; /* somebody waits to join */
	struct cutter cut;
};

/* lead_replica_cut.c */
int lead_replica_cut_start(struct lead *l, struct event_base *base);
void lead_replica_cut_stop(struct lead *l);
/* Asks for a cut, if one is wanted and its replica has made the steps that it was told. */
void lead_replica_cut_ask(struct lead *l);
/* Ends a cut that is under way, and tells its owner. r NULL: the connection is lost. */
void lead_replica_cut_over(struct lead *l, const struct record *r);

#endif
