/*
 * want: what an answer of a brain asks for beside what there is, and whether a job may do it.
 */
#ifndef PACELINE_PLAN_WANT_H
#define PACELINE_PLAN_WANT_H

#include "plan/answer.h"
#include "plan/measure.h"

struct want {
	struct plan_role_size role[PLAN_ROLES], now[PLAN_ROLES];
	int counts, sizes; /* whether those of any role change */
};

struct want_rules {
	uint64_t most[PLAN_ROLES];  /* nodes of a role */
	uint64_t cores, node_cores; /* of BRAIN */
	int limits_memory;          /* else a plan does not limit it either */
};

/* `now`: what there is. */
void want_of(struct want *w, const struct answer *a, const struct plan_role_size now[PLAN_ROLES],
	     const struct want_rules *rules);
/* Whether it wants more cores than BRAIN allows; why says it for people. */
int want_is_beyond(const struct want *w, const struct want_rules *rules, char *why, size_t max);
/* Whether there is anything to do. */
int want_anything(const struct want *w, const struct answer *a);
/* Why nothing may be changed now, as a word of the log; NULL: it may. */
const char *want_refusal(const struct want *w, const struct answer *a, int is_spent, int is_too_early);

/* Why nothing is done about a node that has these cores and this memory, for people; NULL: it may be
 * done. */
const char *want_node_refusal(const struct answer_node *k, double cores, uint64_t memory, uint64_t node_cores);

/* What changes have cost so far. */
struct want_past {
	uint64_t changes; /* made */
	double changed;   /* seconds since 1970: the last of them; NAN: none yet */
	double cost_sum;  /* seconds of training that they cost */
	uint64_t costs;   /* how many changes have a known cost */
};
/* A change is over, which took so long; so many samples were trained meanwhile, `before` a second before
 * it. Returns what training has lost by it; NAN: not known. */
double want_changed(struct want_past *past, double took, double samples, double before, double now);
/* Seconds of training that a change costs: as measured; else as a worker's start, where that is known. */
double want_cost_of_change(const struct want_past *past, double start);

/* For people: "24 workers of 3 cores, 8 servers of 16: faster". */
void want_text(const struct want *w, const struct answer *a, char *out, size_t max);

/* ---- the log ---- */

/* The records of a round or of an answer, with WANT_TYPES in front of their types: a job's log has job
 * and node records that mean something else. */
#define WANT_TYPES "brain-"
void want_lines(const char *text, size_t len, void (*put)(const char *line, size_t len, void *arg), void *arg);
void want_add_size(struct record_out *o, const char *prefix, enum plan_role role,
		   const struct plan_role_size *size);
/* What there is now, and what was done. */
void want_add_known(struct record_out *o, const struct plan_role_size now[PLAN_ROLES],
		    const struct want_past *past);
/* What became of a round. refused: by want_refusal(), or other words; NULL: it is carried out. rate:
 * steps a second now. */
void want_add_done(struct record_out *o, const struct answer *a, const struct want *w, const char *refused,
		   double rate, uint64_t batch);

#endif
