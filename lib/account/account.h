/*
 * account: what all records of a job's log say together: which nodes the job had and when they were
 * up, what they had done at which time, how the loss went, what was decided, what failed.  For a
 * look at a job afterwards, or while it runs (trainctl report).
 *
 * It is fed record by record, in the order of the log.  Its memory for each node is bounded,
 * however long the job was: when a course gets too long, every other point is left out; as points
 * are sums, nothing between two of them is lost.  All decisions and restarts are kept.
 *
 * Times are seconds since 1970, durations seconds.  Pure.
 */
#ifndef PACELINE_ACCOUNT_ACCOUNT_H
#define PACELINE_ACCOUNT_ACCOUNT_H

#include "base/error.h"
#include "base/option.h"
#include "record/record.h"
#include "record/scores.h"

#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_POINTS_MAX 2048 /* of one course */
#define ACCOUNT_PHASES_MAX 32
#define ACCOUNT_REASON_MAX 256

enum account_state {
	ACCOUNT_AWAY,     /* not known: not begun, left, or no supervisor ran */
	ACCOUNT_STARTING, /* the first process of a run of trainctl */
	ACCOUNT_UP,
	ACCOUNT_DOWN,
	ACCOUNT_AGAIN /* starting again after an end */
};

/* A time span of one state, or one phase. */
struct account_span {
	double from, to;
	int what;
};

struct account_spans {
	struct account_span *span; /* in order of time; the last one goes on */
	size_t count, room;
};

/* What a node had done from the start of the log until `at`. */
struct account_point {
	double at; /* when it reported last */
	double batches, samples;
	double steps; /* of batches: each has as many as gradients are summed in it */
	double time;                /* of its batches, without waiting for others */
	double compute, comm, wait; /* NAN: not in this log */
};

/* What a worker has measured of its device (meter/device.h). speed 0: nothing. */
struct account_device {
	char type[OPTION_ID_MAX];
	double launch, speed;
	uint64_t saturation, max;
};

struct account_node {
	char id[OPTION_ID_MAX], role[16];
	char host[OPTION_ID_MAX]; /* where it ran last; "": all run on one */
	uint64_t restarts;
	struct account_spans spans; /* states */
	struct account_point *point;
	size_t points, room;
	uint64_t size; /* of its last batch */
	uint64_t stale; /* batches that were dropped, too stale or too late */
	struct account_device device;
	double busy;   /* share of the time that its batches took; NAN: not known */
	struct account_intake *intake;
};

/* The course of the loss. */
struct account_row {
	double at;
	double loss;    /* mean since the row before; NAN: none */
	double samples; /* samples that count by then */
	double weight;  /* samples since the row before */
};

enum account_kind {
	ACCOUNT_ACTION,
	ACCOUNT_REFUSED,
	ACCOUNT_RESTART, /* a node that is ready again */
	ACCOUNT_ROLLBACK,
	ACCOUNT_STOOD,   /* nothing was committed, by no node's fault */
	ACCOUNT_GOES_ON, /* a run of trainctl after another */
	ACCOUNT_CHECKPOINT
};

#define ACCOUNT_NOBODY ((size_t)-1)

/* Something that happened at one moment. */
struct account_mark {
	enum account_kind kind;
	double at;
	size_t node;    /* ACCOUNT_NOBODY: of no node */
	char what[40];  /* of an action: its kind; of a restart: why */
	char *by;       /* who decided; shared by marks, NULL: nobody */
	char *reason;   /* NULL: none */
	double size;    /* samples of a batch that it sets; NAN: none. Of all accumulation steps. */
	double seconds; /* of a restart: until ready; of a checkpoint: the stall; STOOD; else NAN */
	double written; /* of a checkpoint: seconds until it was; NAN: not known */
	double down;    /* of a restart: without a process that serves */
	int by_standby; /* of a restart: its standby took over, and nobody went back */
};

/* A change of how many nodes there are, or of which size, by a brain (run/brain.h). */
struct account_plan {
	double at;
	char reason[64], method[32];
	struct {
		uint64_t count, cores;
	} had[2], has[2]; /* workers, servers */
	char id[OPTION_ID_MAX], what[16]; /* of single nodes the first; "": none */
	uint64_t nodes;                   /* how many of them */
	double before, expected;          /* samples a second; NAN: not known */
	double after;                     /* as measured last, before the next change; NAN: never */
	double confidence;
	double took, cost; /* seconds; of training that it cost; NAN: it was not done */
};

/* What a trainer measures of its model. [0]: the last one, [1]: the least, [2]: the greatest. */
#define ACCOUNT_REPORTED_MAX 16
struct account_reported {
	char name[33];
	double value[3];
	uint64_t iteration[3];
};

/* Keys that a server gave away because it had more to do than the others (run/rebalance.h). */
struct account_rebalance {
	double at;
	char id[OPTION_ID_MAX], reason[32];
	double before, after; /* what the busiest has to do, by the mean of all */
	double bytes, stall;  /* moved; seconds that workers waited at most */
};

/* What went over a host's link (run/network.h), where its rate was known. [0]: out, [1]: in. */
struct account_link {
	char host[OPTION_ID_MAX];
	struct {
		double bytes, seconds; /* at the link's rate */
		double cost;           /* longer than at the median link's */
	} way[2];
};

/* A change of nodes: another number or other sizes, a step after an end for memory, a spare's new
 * place, another host. */
struct account_turn {
	double at;
	char *line; /* the log's record */
};

struct account_phase {
	char name[32];
	double seconds;
};

struct account {
	/* How stale gradients were: units, of half of the pushes, of 95 % and of all at most; and how
	 * many were dropped for it. Half and 95 % are of the last lead's pushes: each one counts anew.
	 * Not known where there is a barrier. */
	uint64_t delay[3], stale;
	int delay_known, leads; /* leads: how many began anew */
	/* As the last run of trainctl says. */
	char job[OPTION_ID_MAX], solution[256], sync[16];
	char fabric[16]; /* plain | mlfabric; "": it makes no difference */
	uint64_t workers, servers, replicas, batch, shard; /* samples; 0: it does not say */
	/* As it ended. state: done, stopped, failed, or unfinished. */
	char state[16], samples[24], jct[32], failed[OPTION_ID_MAX];
	double score[SCORES]; /* NAN: none */
	char *error;         /* why it failed, in words; NULL: it did not */
	double first_at, at; /* of the log's first and last record */
	double total;        /* samples of all epochs; 0: not known */
	uint64_t epochs;
	uint64_t runs, decisions, actions, refused, skipped, restarts, rollbacks, checkpoints;
	uint64_t repeated; /* samples that trainers of one's own trained again, in all runs */
	uint64_t rounds, plans_refused; /* asked of a brain; not carried out */
	struct account_plan *plan;
	size_t plans, plans_room;
	struct account_reported reported[ACCOUNT_REPORTED_MAX];
	size_t reported_count;
	struct account_rebalance *rebalance;
	size_t rebalances, rebalances_room;
	struct account_link *link;
	size_t links, links_room;
	double link_bytes, link_seconds; /* of all links, at the median link's rate */
	double fabric_saves[2];          /* seconds (run/saves.h): would save; by mlfabric: saved */
	struct account_turn *turn; /* in the order of the log */
	size_t turns, turns_room;
	uint64_t scaled, ooms, spares; /* among them: carried out, steps taken, places taken */
	struct account_phase phase[ACCOUNT_PHASES_MAX];
	size_t phases;
	struct account_spans phase_spans; /* what: which phase */
	struct account_node *node;        /* in order of first appearance */
	size_t nodes, nodes_room;
	struct account_row *row;
	size_t rows, rows_room;
	struct account_mark *mark; /* in the order of the log */
	size_t marks, marks_room;
	struct account_reader *reader;
};

/* Called for each decision, refusal and restart when it is read, with a record (`decided`,
 * `refused`, `restarted`); tell may be NULL. */
typedef void account_tell_fn(const char *line, void *arg);

int account_new(struct account **out, account_tell_fn *tell, void *arg, struct error *err);
void account_free(struct account *a); /* NULL is fine */

/* -1: out of memory. Unknown types and fields are ignored. */
int account_take(struct account *a, const struct record *r, struct error *err);
/* The log ends here: closes what still goes on. */
void account_end(struct account *a);

/* Seconds of all phases; seconds of the phases before a time: how long the job had run by then. */
double account_seconds(const struct account *a);
double account_seconds_by(const struct account *a, double at);
/* The time at which the job had run for so long. */
double account_at(const struct account *a, double seconds);
/* Seconds of a node in a state, all together; or between two times. */
double account_state_seconds(const struct account_node *n, enum account_state state);
double account_overlap(const struct account_spans *s, int what, double from, double to);
/* For how long a node was up between two times: all but what the log says that it was not. */
double account_up(const struct account_node *n, double from, double to);
/* What a node did between two times: at an even speed between two points, while it was up. */
struct account_point account_between(const struct account_node *n, double from, double to);
/* Its seconds in collectives with other trainers: communication outside the time of the batches (a
 * worker's communication is inside that time). */
double account_collective(const struct account_point *did);
/* Its seconds in batches for getting their rows. */
double account_rows(const struct account_point *did);
int account_is_worker(const struct account_node *n);
int account_is_server(const struct account_node *n); /* or a replica */
/* Whether phase p of the account is the one in which workers train. */
int account_is_training(const struct account *a, int phase);

#endif
