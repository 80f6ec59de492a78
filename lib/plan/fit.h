/*
 * fit: the time of a step, learnt from steps that were measured (DLRover 4.1).
 *
 *     t = io + worker_work/min(w, worker_cores) + server_work/min(s, server_cores)
 *
 * w is the cores of a worker, s the cores of all servers divided by the number of workers: with one
 * worker the published equation, with more of them constraint (4) of the paper as a price.
 * worker_cores and server_cores are w^ and s^: what a step can use of each.
 *
 * Measurements are kept by configuration (workers, their cores, the servers' cores): the last times
 * of each.  Their median counts, so that single outliers have no effect.  Over the configurations
 * the sum of absolute relative errors is minimised (least squares, weighted again and again), and
 * no part is negative.
 */
#ifndef PACELINE_PLAN_FIT_H
#define PACELINE_PLAN_FIT_H

#include "plan/usage.h"

#define FIT_POINTS_MAX 32 /* configurations; the one not seen for longest goes */
#define FIT_ROUNDS_MAX 32 /* rounds kept of each */
#define FIT_LATE 5        /* the last of them: what a configuration does nowadays */

enum fit_value {
	FIT_TIME,
	FIT_IO,
	FIT_COMPUTE,
	FIT_UPDATE,
	FIT_WORKER_USED,
	FIT_SERVER_USED,
	FIT_VALUES
};

struct fit_point {
	double workers, w, servers; /* servers: cores of all of them */
	uint64_t rounds, seen;      /* seen: number of the round last added to it */
	double value[FIT_VALUES][FIT_ROUNDS_MAX];
	double servers_count; /* in the last round */
	/* Steps a second once there are FIT_LATE rounds, else NAN. late: the median of the last FIT_LATE;
	 * did: the same of all, if that is more. */
	double late, did;
};

struct fit {
	struct fit_point point[FIT_POINTS_MAX];
	size_t count;
	uint64_t rounds;
	/* What is known; worker_cores 0: nothing yet. */
	double io, worker_work, server_work, worker_cores, server_cores;
	double spread;        /* relative, of what was measured around the fit */
	double inverse[3][3]; /* of what the configurations tell of the three parts */
	int is_determined;    /* configurations or phases enough to tell the parts apart */
};

/* All zeros at first. Adds a round that has a rate and nodes of both roles; others change nothing.
 */
void fit_add(struct fit *f, const struct usage *u);

/* Cores of a role at work while it is its turn, in one round: of a worker, or of the servers for
 * one worker. */
double fit_at_work(const struct usage *u, enum plan_role role);
/* Whether nearly all of these cores are at work: with more it would use more. */
int fit_is_held_back(double at_work, double cores);

/* Seconds of a step; 0: nothing is known. */
double fit_time(const struct fit *f, double workers, double w, double servers);
/* Its relative standard error, as far as it comes from measuring; 1: nothing is known. */
double fit_error(const struct fit *f, double workers, double w, double servers);

#endif
