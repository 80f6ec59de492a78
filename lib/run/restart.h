/*
 * restart: restarts a worker or a server by intention, because it is slow: never more often than
 * the guard (solve/restart_guard.h) allows, and never a node that is not up.  The time of such restarts
 * is measured here, so that a solution can compare their cost with their use.
 *
 * A worker is killed, fenced and started again at once.  A trainer that has parameters is killed
 * just after a checkpoint, so that little is trained again.  A live server gives its part to its
 * next process without a rollback.  The two processes do that between themselves (`take-over`,
 * `taken`: ps-server(8)); this module starts the next one and watches both.  The first to end shows
 * the result:
 * - the old one, with 0: it has handed over, and the next one is the node now;
 * - the next one: the old one goes on as if nothing had happened;
 * - the old one, with another status: the next one is killed, and all servers roll back;
 * - neither for too long: the next one is killed first, so that the old one goes on if it can.
 * If nobody saw the end of the old one, it may have handed over: the next one knows, and ends with
 * 69 if not.
 *
 * With SERVERS=standby:on a server that is up always has a next process: a standby (ps-server(8)).
 * It takes over when a signal kills the old one, unless it ends first, with 69 if it can't.  Before
 * a hand-over it is killed.
 *
 * A server that is to run on another host (scale --hosts) gets a standby there, whatever SERVERS says,
 * and is killed when that has all.
 *
 * If the job has several hosts, a standby runs on another one than its server, and also takes over
 * when the server's host is lost.  It can't see that by itself: it gets SIGUSR1, as soon as the
 * fabric brings the server's socket to its host.
 */
#ifndef PACELINE_RUN_RESTART_H
#define PACELINE_RUN_RESTART_H

#include "run/node_process.h"
#include "solve/restart_guard.h"
#include "run/verbs.h"

struct role;

/* Of a node. */
struct sup_restart {
	struct restart_past past;
	double from;             /* clock_mono(): the restart under way began; 0: none */
	int wanted;              /* a hand-over, which waits for its turn (turn.h) */
	double save_until;       /* clock_mono(): it waits for a checkpoint until then; 0: no */
	uint64_t saves_before;   /* checkpoints made and failed before that one */
	struct sup_process next; /* the process that takes over */
	int stands;              /* `next` is a standby */
	double stand_from;       /* clock_mono(): the next standby is not started before */
	int stood;               /* standbys in a row that ended early, up to a limit */
	double stood_at;         /* clock_mono(): the server knew of its standby last */
	int tells;               /* `now` was a standby on another host, and is to be told */
	double told_at;          /* clock_mono(): it was told last */
	struct timer *timer;     /* for the end of `next`, which was killed */
	struct question question; /* whether its standby may replace it */
	struct sup_waiters waiters;
	/* how often, and the time in all from launch (or kill) until the node was ready */
	uint64_t launches, restarts;
	double launch_sum, restart_sum; /* seconds */
};

int sup_restart_init(struct sup_node *n); /* -1: out of memory */
void sup_restart_release(struct sup_node *n);

/* NULL: the restart is under way; otherwise why it is refused, as a word. */
const char *sup_restart(struct sup_node *n, int force, const char *reason);
/* The same on another host; its own is avoided (hosts.h). */
const char *sup_restart_elsewhere(struct sup_node *n, int force, const char *reason);
/* Puts such a word into a sentence, for people. */
const char *sup_restart_why(const char *word);
void sup_restart_step(struct supervisor *s); /* starts hand-overs that are wanted */
void sup_standbys_step(struct supervisor *s); /* starts standbys that are missing */
void sup_standbys_tell(struct supervisor *s); /* tells those that take over */
/* Whether its standby runs on another host, or is about to. */
int sup_restart_has_far(const struct sup_node *n);
/* Whether its next process takes over now. */
int sup_restart_hands_over(const struct sup_node *n);
/* Mean seconds; NAN: not known yet. */
double sup_restart_seconds(const struct supervisor *s, const struct role *role);
/* As an earlier supervisor kept it. */
void sup_restart_past(struct sup_node *n, struct restart_past past);

/* ---- told by others ---- */
void sup_restart_ready(struct sup_node *n); /* it is there (again) */
void sup_restart_failed(struct sup_node *n, const char *why);
void sup_restart_goes_on(struct sup_node *n); /* a hand-over, found under way */
void sup_restart_found(struct sup_node *n);   /* n->now alone */
/* n->now has ended while its next process runs. */
void sup_restart_old_ended(struct sup_node *n, const struct node_end *end);
void sup_restart_kill_next(struct sup_node *n);

#endif
