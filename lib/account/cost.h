/*
 * cost: where the time of a job went, and what it would have taken without stragglers.
 *
 * The time in which workers train is cut into windows.  In each of them worker i has a speed v(i),
 * the samples that it computed over the seconds that its batches took, waiting left out (where it
 * did none: that of the window before), and V is the sum of all v(i): the pace of all machines
 * together.  What the job trained in the window takes samples/V seconds at that pace, and as
 *
 *     samples = sum over i of v(i) * (seconds that worker i computed)
 *
 * the rest of the window is, to the last millisecond, the sum over i of v(i)/V times the seconds in
 * which worker i did something else: waited for others, was down, was starting, ... .  So each
 * cause has its seconds of the job, and they add up.
 *
 * Not all waiting is for slower workers: the slowest one waits, too, for the servers and the
 * commit. So much a batch as the worker that waits least is what a barrier takes; of that, what the
 * slowest server took longer than the one in the middle is a straggler's.  Trainers that share
 * gradients wait for each other inside of their collectives: there, too, what the one in them for
 * the shortest time spends is what they take, and the rest is waiting for slower ones.
 *
 * Pure.
 */
#ifndef PACELINE_ACCOUNT_COST_H
#define PACELINE_ACCOUNT_COST_H

#include "account/account.h"

#define COST_WINDOWS 600

enum cost_kind {
	COST_TOGETHER, /* training at the pace of all workers together */
	COST_THROWN,   /* training what does not count: dropped, or rolled back */
	COST_WAITING,  /* for slower workers */
	COST_SERVER,   /* for a slower server */
	COST_BARRIER,  /* for servers and the commit, as everybody has to */
	COST_COLLECTIVE, /* trainers, in sums with others, as everybody has to */
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

/* In words, for people. */
extern const char *const cost_text[COST_KINDS];

struct cost {
	int known;       /* 0: the log has no measurements of workers; then there are only phases */
	double seconds;  /* of all phases: the sum of those below */
	double training; /* of these, while workers train */
	double of[COST_KINDS];
	/* What the job would have taken: had no worker ever waited for a slower node, been down or
	 * idle; had besides each been as fast as the median one. Phases in which nobody trains,
	 * workers that start, barriers and collectives are in both. NAN: not known. */
	double busy, even;
	double pace;  /* samples a second while workers train */
	double could; /* the same, of all workers together, barriers and collectives included */
	/* For whom others waited most: the worker that waited least. ACCOUNT_NOBODY: nobody. */
	size_t slowest;
	double slowest_seconds; /* of COST_WAITING */
};

/* What a phase of the account is for; COST_TOGETHER: workers train. */
enum cost_kind cost_phase(const struct account *a, int phase);
/* What a barrier, and what collectives take of a batch, in seconds, by what workers did in the same
 * window: the least of any of them. */
double cost_barrier(const struct account_point *did, size_t count);
double cost_collective(const struct account_point *did, size_t count);
/* What a worker did first, in samples a second; 0: nothing. */
double cost_first_speed(const struct account_node *n);

int cost_of(const struct account *a, struct cost *out, struct error *err);

#endif
