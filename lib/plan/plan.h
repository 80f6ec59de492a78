/*
 * plan: how many workers and servers a job gets, with how many cores and how much memory
 * (DLRover 4.1 and 4.2).  Pure: what it says depends on the rounds so far and on nothing else.
 *
 * The published formulas:
 *
 *     workers = floor(cores/(w^ + s^)), w = ceil(w^)
 *     servers = floor((cores - workers*w)/server_cores)
 *
 * If the measurements tell the three parts of a step's time apart (fit.h), the best of all
 * (workers, w, servers, s) is searched for instead.
 *
 * No plan is above limits.cores, limits.node_cores, limits.bytes, limits.node_bytes.
 */
#ifndef PACELINE_PLAN_PLAN_H
#define PACELINE_PLAN_PLAN_H

#include "plan/fit.h"
#include "plan/history.h"
#include "plan/usage.h"

struct plan_limits {
	uint64_t cores;             /* of the job; at least 2 */
	uint64_t node_cores;        /* of one node */
	uint64_t server_cores;      /* a server's, if nothing speaks for another number */
	uint64_t bytes, node_bytes; /* of the job, of one node; 0: not limited */
	double gain;  /* a change is expected to make the job faster by this part at least */
	double every; /* seconds between two changes at least */
	double cost;  /* seconds of training that a change costs */
	double slow;  /* a node that takes so many times as long as its peers is slow */
};
#define PLAN_LIMITS_DEFAULT                                                                        \
	{                                                                                          \
		.server_cores = 16, .gain = 0.05, .every = 60, .slow = 2                           \
	}

struct plan_role_size {
	uint64_t count, cores;
	uint64_t bytes; /* 0: not known */
};

enum plan_what { PLAN_REPLACE, PLAN_MIGRATE, PLAN_REBALANCE };
const char *plan_what_name(enum plan_what what);

/* What is done about one node: another one in its place, the same on another machine, or less for
 * it to do, as the servers share out their parameters anew. */
struct plan_action {
	enum plan_what what;
	const struct usage_node *node; /* the round's */
	uint64_t cores, bytes, batch;  /* of the new one; 0: as it was */
	const char *reason;
};

struct plan_answer {
	struct plan_role_size role[PLAN_ROLES];
	int changes[PLAN_ROLES]; /* whether the role's size is another one than now */
	struct plan_action *action;
	size_t actions, room;
	const char *method; /* default, history, formula, search, rule, none */
	const char *reason; /* why, or why nothing changes */
	double rate;        /* steps a second expected; NAN: not known */
	double confidence;  /* 0..1: 1 less the relative error of rate; NAN: nothing was measured */
	const struct finished *like; /* method history: the job */
};

/* All zeros at first. */
struct plan {
	struct plan_limits limits;
	enum plan_stage stage;
	const struct history *history; /* the caller's; may be NULL */
	struct fit fit;
	struct plan_limits within; /* limits of a search: fewer cores where so many did worse */
	double changed; /* when this plan made its last change; NAN: not said */
	struct plan_answer answer;
};

void plan_init(struct plan *p, const struct plan_limits *limits, enum plan_stage stage,
	       const struct history *history);
void plan_clear(struct plan *p);
/* Learns from a round and answers it in p->answer, valid until the next one. -1: ERROR_OS. */
int plan_round(struct plan *p, const struct usage *u, struct error *err);
/* Whether it says to change anything. */
int plan_changes(const struct plan_answer *a);

#endif
