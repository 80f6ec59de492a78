/*
 * solution: a decision as a pure function, snapshot in, actions out (AntDT V-E: a solution is made
 * of actions).
 *
 * No clock, no socket, no state between calls: the same snapshot and options give the same
 * actions, so a log can be replayed.  An executable in place of a built-in speaks the same records:
 * snapshot on stdin, actions on stdout, each KEY=VALUE an argument; action_parse() reads what it
 * says, and the caller runs it (running is an effect and does not belong here).
 *
 *     struct snapshot s;
 *     snapshot_init(&s);
 *     while (record) snapshot_add(&s, record, err);
 *     solution_options_init(&options);
 *     solution_options_name(&options, name);
 *     solution_decide(solution_find(name), &s, &options, take_action, arg, err);
 */
#ifndef PACELINE_SOLVE_SOLUTION_H
#define PACELINE_SOLVE_SOLUTION_H

#include "base/error.h"
#include "record/record.h"
#include "solve/options.h"
#include "solve/snapshot.h"

#include <stdint.h>

enum action_kind {
	ACTION_NONE,
	ACTION_ADJUST_BS,      /* id, size (samples), accum: global, same iteration for all */
	ACTION_BACKUP_WORKERS, /* count: close an iteration without its slowest `count` */
	ACTION_KILL_RESTART,   /* role, id: one node */
	ACTION_ADJUST_LR       /* id, scale */
};
#define ACTION_KINDS (ACTION_ADJUST_LR + 1)

#define ACTION_REASON_MAX 256
/* Of one decision as lines, and of what is in force: a size and a rate for each of 1,024 workers, with
 * reasons, and more. */
#define ACTIONS_BYTES_MAX (1u << 20)

struct action {
	enum action_kind kind;
	enum node_role role;
	char id[OPTION_ID_MAX];
	uint64_t size, accum;
	uint64_t batch; /* of which all sizes are parts, also when workers come and go; 0: not said */
	uint64_t count;
	double scale;
	char reason[ACTION_REASON_MAX]; /* for people */
};

const char *action_kind_name(enum action_kind kind);
/* An `action` record to a struct; unknown kinds and bad values are ERROR_DATA without a place. */
int action_parse(struct action *a, const struct record *r, struct error *err);
/* The record with its newline (RECORD_LINE_MAX is always enough); returns its length. */
size_t action_format(const struct action *a, char *out, size_t out_max);

/* Takes the number of a name that has one ("backup:2") into o->number; others change nothing. */
void solution_options_name(struct solution_options *o, const char *name);

/* ---- what holds for a decision, by its options and the snapshot ---- */

/* Never SYNC_UNSAID. */
enum solution_sync solution_sync(const struct solution_options *o, const struct snapshot *s);
/* Global batch: batch=, else the sum of all workers' last sizes, whatever their state: a dead
 * worker's share must not shrink it. 0: nobody has reported a size yet. */
uint64_t solution_batch(const struct solution_options *o, const struct snapshot *s);
/* How long a job waits for the cluster, as another program reports; NAN if none does, or if its
 * last report is old: a program that died must not make the cluster busy for ever. */
#define SOLUTION_PENDING_AGE_MAX 300.0 /* seconds: five rounds of cron */
double solution_pending(const struct snapshot *s);
/* Whether an iteration may end without its slowest workers: there is a barrier, and what they trained
 * is not yet in their own parameters (info restart-all, or backup-workers below 0). */
int solution_leaves_behind(const struct solution_options *o, const struct snapshot *s);
/* The cluster is: no node may be restarted now. */
int solution_busy(const struct solution_options *o, const struct snapshot *s);

/* Takes one action; a is valid during the call only. -1 (with err) ends the decision. */
typedef int action_fn(const struct action *a, void *arg, struct error *err);

typedef int solution_fn(const struct snapshot *s, const struct solution_options *o, action_fn *take,
			void *arg, struct error *err);

struct solution {
	const char *name;
	const char *about; /* one line */
	solution_fn *decide;
	int measures; /* goes by what nodes report */
};

/* A built-in one, or NULL. The row "backup:N" is that of every number. */
const struct solution *solution_find(const char *name);
/* All of them; ends with a row whose name is NULL. */
const struct solution *solution_table(void);

/* Checks the snapshot, then decides; at least one action is given (`none` when there is nothing to
 * do). A snapshot that can't be decided on is ERROR_DATA, saying what is wrong. */
int solution_decide(const struct solution *solution, const struct snapshot *s,
		    const struct solution_options *o, action_fn *take, void *arg,
		    struct error *err);

#endif
