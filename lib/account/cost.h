/*
 * cost: where the time of a job went, and what it would have taken without stragglers.
 *
 * The time in which workers train is cut into windows.  In each window worker i has a speed v(i):
 * the samples that it computed over the seconds of its batches, without waiting (if it computed
 * none, its speed in the window before).  V is the sum of all v(i): the speed of all machines
 * together.  What the job trained in the window takes samples/V seconds at that speed, and as
 *
 *     samples = sum over i of v(i) * (seconds that worker i computed)
 *
 * the rest of the window is, to the last millisecond, the sum over i of v(i)/V times the seconds in
 * which worker i did something else: waited for others, was down, was starting, and so on.  So each
 * cause gets its seconds of the job, and they add up.
 *
 * Not all waiting is for slower workers: even the slowest worker waits for the servers and the
 * commit.  The wait per batch of the worker that waits least is the cost of the barrier.  The part
 * of it by which the slowest server took longer than the median server is the cost of a slow
 * server.  Waiting for a worker that starts, or is down, is part of what its start or its being down
 * costs.  Trainers that share gradients wait for each other inside their collectives: there, too,
 * the shortest time that any trainer spends in them is their cost, and the rest is waiting for
 * slower trainers.
 *
 * Pure.
 */
#ifndef PACELINE_ACCOUNT_COST_H
#define PACELINE_ACCOUNT_COST_H

#include "account/account.h"

#define COST_WINDOWS 600

enum cost_kind {
	COST_TOGETHER, /* training at the speed of all workers together */
	COST_THROWN,   /* training what does not count: dropped, or rolled back */
	COST_WAITING,  /* for slower workers */
	COST_SERVER,   /* for a slower server */
	COST_BARRIER,  /* for servers and the commit, as all workers must */
	COST_COLLECTIVE, /* trainers, in sums with others, as all must */
	COST_FIRST,    /* workers that start */
	COST_RESTARTS, /* workers that are down, or start again */
	COST_HANDOVER, /* servers that are restarted */
	COST_STALL,    /* checkpoints while workers train */
	COST_OTHER,    /* asking for shards, reading, nothing left to do */
	COST_STARTING, /* before workers train: services, servers, the first checkpoint */
	COST_ROLLBACK, /* going back to a checkpoint */
	COST_ENDING,   /* the last checkpoint, stopping */
	COST_SCORING,
	COST_KINDS
};

/* In words, for people; and in records. */
extern const char *const cost_text[COST_KINDS], *const cost_name[COST_KINDS];

struct cost {
	int known;       /* 0: the log has no measurements of workers; then there are only phases */
	double seconds;  /* of all phases: the sum of those below */
	double training; /* of these, while workers train */
	double of[COST_KINDS];
	/* What the job would have taken: if no worker had ever waited for a slower node, been down
	 * or been idle; if also each had been as fast as the median one. Both include phases in
	 * which nobody trains, workers that start, barriers and collectives. NAN: not known. */
	double busy, even;
	double speed; /* samples a second while workers train */
	double could; /* the same, of all workers together, barriers and collectives included */
	double rows;  /* seconds of COST_TOGETHER in which workers get the rows of their batches */
	/* By how much shorter the job would have been with this one as fast as the others. */
	struct cost_node {
		size_t node; /* ACCOUNT_NOBODY: none */
		double seconds;
	} slowest, host, server; /* a worker; all workers of its host; a server, of COST_SERVER */
};

/* What a phase of the account is for; COST_TOGETHER: workers train. */
enum cost_kind cost_phase(const struct account *a, int phase);
/* Seconds of a batch for the barrier, and for collectives: the least of any worker in the same
 * window. */
double cost_barrier(const struct account_point *did, size_t count);
double cost_collective(const struct account_point *did, size_t count);
/* A worker's first known speed, in samples a second; 0: none. */
double cost_first_speed(const struct account_node *n);

int cost_of(const struct account *a, struct cost *out, struct error *err);

#endif
