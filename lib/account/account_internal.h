/* account_internal: what an account keeps while it is being read, shared by account.c (the job) and
 * account_node.c (its nodes) only. */
#ifndef PACELINE_ACCOUNT_ACCOUNT_INTERNAL_H
#define PACELINE_ACCOUNT_ACCOUNT_INTERNAL_H

#include "account/account.h"

/* Sums as the monitor says them: they begin anew when the monitor is restarted. */
struct account_sums {
	double batches, samples, time, compute, comm, wait;
};

struct account_intake {
	uint64_t life; /* number of its process */
	uint64_t standby; /* of its last standby, + 1; 0: it had none */
	/* a restart under way */
	double ended_at, from; /* 0: none; NAN: nobody saw when it ended */
	char why[32], reason[ACCOUNT_REASON_MAX];
	int asked, handing; /* handing: a server's next process is there */
	/* from the snapshots of decisions */
	double samples_at, samples, busy, watched;
	/* what it had done: from sums, or else estimated from those snapshots */
	int has_sums, begun; /* begun: its first process was seen to start */
	struct account_sums before, last;
	double accum;   /* steps of its last batch; 0: not known */
	uint64_t stale; /* as its present generation has it */
};

struct account_reader {
	account_tell_fn *tell;
	void *arg;
	size_t phase_now; /* the number of phases: none */
	double phase_since;
	double set_back;    /* seconds that are added to each time */
	double snapshot_at; /* of the decision that is being read; 0: none */
	size_t found;       /* index of the node that was found last */
	char **by;          /* who decided: each name once */
	size_t bys, bys_room, by_now;
	double samples; /* of the last row, as are the next two */
	uint64_t delay_most, stale;
	int failed;     /* out of memory */
};

const char *account_value(const struct record *r, const char *key);
void account_tell(struct account *a, struct record_out *o);
/* NULL: out of memory. */
struct account_mark *account_mark(struct account *a, enum account_kind kind);
void account_mark_reason(struct account *a, struct account_mark *m, const char *reason);

/* A span begins, the one before it ends. */
void account_enter(struct account *a, struct account_spans *s, int what, double at);
/* The last span ends. */
void account_close(struct account_spans *s, double at);

/* The node of that name, made when it is new; NULL: out of memory. */
struct account_node *account_node(struct account *a, const char *id, const char *role);
void account_node_free(struct account_node *n);
void account_node_away(struct account *a, struct account_node *n, double at);
void account_node_end(struct account *a, struct account_node *n);
/* Takes a record about a node. 1: it was such a record. */
int account_take_node(struct account *a, const struct record *r);

#endif
