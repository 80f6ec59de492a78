/*
 * node: the words that the monitor and the solutions share about a node: its role, its state, the
 * order of ids.
 */
#ifndef PACELINE_MONITOR_NODE_H
#define PACELINE_MONITOR_NODE_H

#include "base/option.h"
#include "record/record.h"

#define NODE_SIZE_MAX (1ull << 40) /* samples of one batch; sums over all nodes stay exact */
#define NODE_BATCH_MAX (1u << 24)  /* the same: no worker is told to make a larger one */

enum node_role { NODE_WORKER, NODE_SERVER };
#define NODE_ROLES 2

enum node_state {
	NODE_STARTING, /* a process was started and has not said that it is ready */
	NODE_UP,       /* ready, or reporting */
	NODE_HUNG,     /* silent or unreachable, by somebody else's judgement */
	NODE_DOWN      /* its process has ended */
};

const char *node_role_name(enum node_role role);
const char *node_state_name(enum node_state state);
/* 0; -1: the word names no state. */
int node_state_of(const char *word, enum node_state *state);

/* role= and id= of a record, which must be there: ERROR_DATA. */
int node_role_in(const struct record *r, enum node_role *role, struct error *err);
int node_name_in(const struct record *r, enum node_role *role, const char **id, struct error *err);

/* Natural order: runs of digits compare as numbers, so w2 stands before w10. Ids that differ only
 * in leading zeros are ordered by strcmp(), so 0 means the same id. */
int node_id_compare(const char *a, const char *b);

#endif
