/*
 * roster: the nodes of a job, as a list that is ordered by role (as in the table of roles) and
 * number, so that the nodes of a role always come in the same order.
 */
#ifndef PACELINE_RUN_ROSTER_H
#define PACELINE_RUN_ROSTER_H

#include "base/error.h"
#include "run/role.h"

#include <stddef.h>
#include <stdint.h>

struct supervisor;
struct sup_node;

struct sup_roster {
	struct sup_node *first;
	struct sup_node *by_id; /* the same, uthash */
	struct sup_node *former; /* nodes that left the job; an answer for one may still arrive */
	/* By this supervisor: steps after an end for memory (oom.h); places that spares took. */
	uint64_t oom_steps, spares_used;
};

/* Makes as many nodes of each role as the job says; all are off, and launched when their phase
 * wants them. ERROR_CONFIG: each worker has its own file of DATA, and there are more workers than
 * files. */
int sup_roster_fill(struct supervisor *s, struct error *err);
void sup_roster_free(struct supervisor *s);
/* One more of a role, off; its number is the lowest that is free. NULL: err. */
struct sup_node *sup_roster_add(struct supervisor *s, const struct role *role, struct error *err);
/* It is off, and leaves the job. */
void sup_roster_leave(struct sup_node *n);

/* Roles or numbers have changed: sorts the list again. */
void sup_roster_order(struct supervisor *s);

struct sup_node *sup_find(struct supervisor *s, const char *id); /* NULL: none */
/* Of a role; NULL: none. */
struct sup_node *sup_find_of(struct supervisor *s, const struct role *role, const char *id);
size_t sup_count(const struct supervisor *s, const struct role *role);
/* How many of its role stand before it. */
size_t sup_rank(const struct sup_node *n);
struct sup_node *sup_first(const struct supervisor *s, const struct role *role);
struct sup_node *sup_next_of(const struct sup_node *n);

#define EACH_NODE(n, s) for (struct sup_node *n = (s)->roster.first; n; n = n->next)
#define EACH_OF(n, s, role) for (struct sup_node *n = sup_first(s, role); n; n = sup_next_of(n))

/* The role that holds parameters: servers, or with SYNC=allreduce replicas. If trainers have their
 * own parameters, it is the lead, if there is one. */
const struct role *sup_holders(const struct supervisor *s);
/* The replica that a worker works with. */
struct sup_node *sup_replica_of(const struct sup_node *worker);

/* The only node of its kind. The lead is the first server, or a node of its own; NULL: there is none,
 * because nothing is trained in iterations (trainers.h). */
struct sup_node *sup_shardd(const struct supervisor *s);
struct sup_node *sup_monitor(const struct supervisor *s);
struct sup_node *sup_lead(const struct supervisor *s);
/* Whether it has no parameters: always if the job has other hosts, where all parameters are. */
int sup_leads_alone(const struct supervisor *s);

/* Whether all of a role are off. */
int sup_off(const struct supervisor *s, const struct role *role);
/* A worker's samples of an iteration, unless a solution or a person says otherwise. */
uint64_t sup_share(const struct sup_node *worker);
uint64_t sup_all_restarts(const struct supervisor *s);

#endif
