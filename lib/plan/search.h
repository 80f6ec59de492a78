/* search: the best (workers, w, servers, s) within the limits, by the published formulas or by what
 * the fit expects. */
#ifndef PACELINE_PLAN_SEARCH_H
#define PACELINE_PLAN_SEARCH_H

#include "plan/plan.h"

/* What a plan has to keep to, in the round that it is made for. */
struct search {
	const struct plan_limits *limits;
	const struct fit *fit;
	uint64_t workers_max;                 /* no more of them help */
	uint64_t worker_bytes;                /* that each needs; 0: not known */
	uint64_t servers_bytes;               /* that all of them need together; 0: not known */
	uint64_t server_bytes;                /* of each where that is not known; 0: nor is this */
	const struct plan_role_size *servers; /* these and no others; NULL: any */
};

struct found {
	struct plan_role_size role[PLAN_ROLES]; /* worker count 0: nothing fits */
	double rate;                            /* steps a second expected */
};

/* DLRover, equations 10 and 11. */
struct found search_formula(const struct search *s);
/* The highest rate; of those within PLAN_EQUAL of it the fewest cores, then servers nearest to
 * limits->server_cores. */
#define PLAN_EQUAL 0.005
struct found search_best(const struct search *s);

/* Whether it keeps to all limits. */
int search_fits(const struct plan_limits *l, const struct plan_role_size role[PLAN_ROLES]);
/* Cores of both roles together. */
uint64_t search_cores(const struct plan_role_size role[PLAN_ROLES]);
/* Steps a second expected; NAN: nothing is known. */
double search_rate(const struct fit *f, const struct plan_role_size role[PLAN_ROLES]);

#endif
