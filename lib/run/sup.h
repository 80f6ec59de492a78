/*
 * sup: what the files of the supervisor share; nobody else includes it.
 *
 * The supervisor is level-triggered: callbacks only note what happened and kick; then the step of
 * the phase looks at what is so and does the next thing that is missing.  The same steps serve a
 * first start, an adoption after kill -9, and a rollback.
 */
#ifndef PACELINE_RUN_SUP_H
#define PACELINE_RUN_SUP_H

#include "base/log.h"
#include "proc/child.h"
#include "job/deadline.h"
#include "run/heavy.h"
#include "proc/parent.h"
#include "proc/policy.h"
#include "run/supervisor.h"
#include "solve/solution.h"
#include "record/recordlog.h"
#include "wire/peer.h"
#include "wire/server.h"

#include <event2/event.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum sup_role { ROLE_SHARDD, ROLE_MONITOR, ROLE_SERVER, ROLE_WORKER };

enum sup_phase {
	PHASE_SERVICES,  /* shardd and the monitor; what is there already */
	PHASE_ROLLBACK,  /* all servers off, shardd loads the cut's queue */
	PHASE_SERVERS,   /* servers start and answer */
	PHASE_FIRST_CUT, /* so that there always is a cut to go back to */
	PHASE_RUNNING,
	PHASE_WINDING, /* workers end early */
	PHASE_LAST_CUT,
	PHASE_FINISHING, /* workers leave by themselves */
	PHASE_STOPPING,  /* everything off */
	PHASE_SCORING,
	PHASE_OVER,
	PHASES
};

enum sup_goal {
	GOAL_DONE,  /* all samples */
	GOAL_EARLY, /* enough: MAX_TIME, PATIENCE */
	GOAL_STOP,  /* a person wants it to stop; it goes on another day */
	GOAL_FAIL
};

enum mend_step { MEND_ASK, MEND_ASKED, MEND_FENCE, MEND_FENCED, MEND_FAIL, MEND_FAILED };

struct supervisor;

/* One connection to a daemon for one purpose: held-back answers keep no others waiting. */
struct link {
	struct supervisor *sup;
	struct sup_node *node;
	struct peer *peer;
	void (*up)(struct link *link, const struct record *greeting);
};

struct sup_request { /* a client that waits: for a checkpoint, a restart, the end */
	struct sup_request *next;
	struct request *rq;
};

/* One process of a node, with its parent. */
struct sup_process {
	struct sup_node *node;
	int runs; /* as far as we know */
	uint64_t life;
	pid_t parent, pid; /* 0: not known (yet) */
	uint64_t parent_start, start;
	int orphan;   /* its parent is gone: the node itself is watched */
	int forced;   /* it was killed and has not ended: its parent was killed, too */
	int doomed;   /* killed, or as good as */
	double since; /* clock_mono() of the launch */
	int fd;       /* what is watched */
	struct event *watch;
};

/* What others say of a worker (sup_pulse.c). */
struct sup_seen {
	uint64_t round; /* of questions, in which the lead told of it */
	int member, owes, pushes_known;
	int partly; /* it was adopted: of the batch in its hand only the rest is watched */
	uint64_t member_generation, pushes, samples, size; /* the lead */
	uint64_t generation, asks;                         /* shardd */
	char last[512];                                    /* the lead's record; "": none */
};

/* Why a node is given up. */
struct sup_silence {
	enum pulse_section section;
	double seconds, limit;
	char state[64], wchan[64]; /* of its first thread, as the kernel says */
};

struct sup_node {
	struct supervisor *sup;
	enum sup_role role;
	uint32_t index; /* within its role */
	char id[OPTION_ID_MAX];
	enum node_stage stage;
	struct sup_process now;      /* that runs, or ran last */
	struct sup_process heir;     /* a server's next process, taking over (sup_heir.c) */
	uint64_t lives;              /* processes started so far: the next life's number */
	uint64_t in_a_row, restarts; /* failures since it last did well; processes but the first */
	int asked;                   /* its end was asked for: no failure of its own */
	int hand_over;               /* wanted: waits until no checkpoint is being made */
	int stop_signal;
	struct event *timer, *deadline, *heir_deadline;
	enum mend_step mend;
	uint64_t generation;
	struct node_end end;
	struct link link; /* shardd, monitor, servers: answers when it is ready */
	/* whether it moves */
	struct pulse pulse;
	struct link asking; /* the same; on it is asked nothing else */
	int questioned;     /* and not answered */
	struct sup_seen seen;
	double ready_at; /* clock_mono(); 0: this process was not, yet */
	int worked;      /* a worker: this process has done a batch */
	int cutting;     /* a daemon: a checkpoint was cut when it was heard of last */
	/* restarts by intention */
	struct heavy_past heavy;
	double restart_from; /* clock_mono() of the one under way; 0: none */
	struct sup_request *restart_waiters;
	/* the last action about it, for people */
	char told[64];
	double told_at; /* clock_mono() */
	uint64_t warned; /* its lives when it was said that the job is faster without it */
};

/* How long a role takes from launch or kill until it is ready. */
struct sup_duration {
	uint64_t launches, restarts;
	double launch_sum, restart_sum; /* seconds */
};

struct sup_act; /* actions on their way to the lead (sup_act.c) */

/* What is in force at the lead and must outlive it (sup_standing.c). */
struct sup_force {
	struct action *action;
	size_t count, room;
	uint64_t incarnation; /* of the lead that has them */
};

/* samples-done over the last seconds. */
#define SUP_RATE_POINTS 16
struct sup_rate {
	struct {
		double at; /* clock_mono() */
		uint64_t samples;
	} point[SUP_RATE_POINTS];
	size_t count;
};

/* What shardd said last. */
struct sup_stat {
	int known;
	uint64_t epoch, epochs, todo, doing, done, held, shards, shards_done, samples_done;
	uint64_t samples_repeated, incarnation;
	double first_at, last_at; /* NAN: none yet */
};

/* Rows in the hand of a client that is no node here (sup_stray.c). */
struct sup_stray {
	uint64_t samples; /* in the model, since that second of clock_mono() */
	double since;
	int asked, is_member;
	char id[OPTION_ID_MAX], behind[OPTION_ID_MAX]; /* who is asked about, and was before */
};

struct supervisor {
	struct supervisor_options options;
	const struct job *job;
	struct place place;
	struct server *server;
	struct event_base *base;
	enum sup_phase phase;
	enum sup_goal goal;
	struct event *kick, *tick, *periodic, *retry, *on_hangup;
	double started, retry_at; /* clock_mono() */
	double time_before;       /* seconds of the job's earlier starts */
	double time_kept;         /* clock_mono(): written last */
	int time_failed;
	struct recordlog log;
	char log_path[PLACE_MAX];
	size_t node_count;
	struct sup_node *node; /* shardd, monitor, servers, workers */
	struct sup_node *shardd, *monitor, *servers, *workers;
	struct pulse_rules hung;
	double pulse_at, pulse_asked; /* clock_mono() */
	uint64_t pulse_round;
	struct link shardd_wait, lead_cut, lead_act, lead_watch; /* nodes' own links beside these */
	/* rollback */
	int intent;          /* the file is there */
	uint64_t rollbacks;  /* because a server failed, since a checkpoint went beyond the last */
	uint64_t cut_iteration; /* of the last checkpoint; 0: not known */
	char cut[PLACE_MAX]; /* what servers restore; "": none */
	int chosen;  /* which cut, or that there is none to choose */
	int had_cut; /* before it was looked for */
	int stat_asked, load_asked, loaded;
	uint64_t incarnation;
	double not_before; /* clock_mono(): backoff of the servers */
	/* checkpoints */
	char making[PLACE_MAX], latest[PLACE_MAX];
	int cut_pending, cut_done;
	unsigned cut_failures;
	uint64_t cut_samples; /* in the model when the one under way was asked for, at least */
	double cut_at, cut_again; /* clock_mono(): last one; not before */
	struct sup_request *checkpoint_waiters, *stop_waiters, *watchers;
	/* the end */
	int wait_pending, all_done, last_asked, last_known, finish_asked;
	double finish_at; /* clock_mono(): workers were told */
	char held[1024];  /* ids of held shards */
	int fail_status;
	const struct sup_node *failed; /* whose end that status is; NULL: no node's */
	struct node_end failed_end;
	int interrupted; /* SIGINT or SIGTERM */
	int by_request;  /* `stop` */
	/* what is known of the course */
	struct sup_stat stat;
	struct sup_stray stray;
	struct run_row row;
	double row_at;        /* at= of the last row */
	uint64_t row_samples; /* of the lead at the last row */
	int row_waits;        /* for shardd's count */
	int tick_snapshot, tick_members;
	unsigned ticks;
	struct snapshot snapshot, filling;
	int snapshot_bad;
	struct sup_rate rate;
	struct sup_duration duration[ROLE_WORKER + 1];
	/* decisions */
	double decide_at;
	int decided_once, deciding;
	uint64_t solution_failed;  /* rounds in a row */
	char solution_fails[1024]; /* why the last of them did */
	char info_wrong[SNAPSHOT_VALUE_MAX]; /* what was to be a number, and was told of */
	char last_decision[512]; /* for people */
	double last_decision_at; /* clock_mono(); 0: none yet */
	struct sup_act *acts;    /* in the order given */
	uint64_t act_number;
	struct sup_force force;
	char *decide_text;
	size_t decide_bytes, decide_room;
	struct child *solver;
	/* scores */
	struct child *scorer;
	double score_at;
	int scored;       /* of the end */
	int score_status; /* why it failed then, as an exit status */
	double auc, logloss, best_auc;
	uint64_t without_gain;
	char score_of[PLACE_MAX];
};

/* ---- supervisor.c ---- */
void sup_kick(struct supervisor *s);
void sup_kick_after(struct supervisor *s, double seconds);
void sup_enter(struct supervisor *s, enum sup_phase phase);
/* The job ends as failed with this status; why is for people and the log. Once; later calls do
 * nothing. */
void sup_fail(struct supervisor *s, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Before that: it is this node's end. */
void sup_failed_by(const struct sup_node *n);
void sup_finish_early(struct supervisor *s, enum sup_goal goal, const char *reason);
const char *sup_phase_name(enum sup_phase phase);

/* ---- sup_log.c ---- */
int sup_log_open(struct supervisor *s, struct error *err);
/* goes_on: the same run, in a new file. */
void sup_log_begin(struct supervisor *s, int goes_on);
/* Begins a new file when this one is large. Between two records of any kind. */
void sup_log_bound(struct supervisor *s);
/* Whole lines, as they are. */
void sup_log_text(struct supervisor *s, const char *lines, size_t len);
/* A record into STATE/job.log; at= is added. o was begun by the caller. */
void sup_log(struct supervisor *s, struct record_out *o);
/* A record of one word with a text, for people and for the log. */
void sup_note(struct supervisor *s, const char *type, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* status= or signal= of an end; nothing of one that nobody saw. */
void sup_add_end(struct record_out *o, const struct node_end *end);
/* To the log and to the monitor: event role= id= kind= ... */
void sup_event(struct supervisor *s, const struct sup_node *n, const char *kind,
	       const struct node_end *end);
/* Of an heir only the log is told. */
void sup_event_lost(struct supervisor *s, const struct sup_process *p,
		    const struct sup_silence *silence);

/* ---- sup_process.c ---- */
void sup_process_init(struct sup_process *p, struct sup_node *n);
void sup_process_release(struct sup_process *p); /* no longer watched */
void sup_process_path(const struct sup_node *n, uint64_t life, char *out);
int sup_process_read(const struct sup_process *p, struct node_record *r);
/* Starts life n->lives; lives are counted on. Another process of this id may run only when this one
 * is to take over from it. */
int sup_process_launch(struct sup_process *p, int take_over, struct error *err);
/* One that runs already, by its record. */
void sup_process_adopt(struct sup_process *p, const struct node_record *r);
/* p becomes what `from` was; `from` is free. */
void sup_process_move(struct sup_process *p, struct sup_process *from);
/* 0: signalled; 1: there is nobody; -1: not known yet who it is: its parent is just about to start
 * it. Ask again after SUP_SOON_SECONDS. */
#define SUP_SOON_SECONDS 0.02
int sup_process_signal(struct sup_process *p, int signal);
/* It was killed and has not ended. First its parent is killed, which may be what hangs; then the
 * process is left to itself: as if it had ended, unseen. 0: it has ended since. */
int sup_process_force(struct sup_process *p);
/* How many parents hold a lock of this id; -1: err. */
int sup_process_locks(const struct sup_node *n, struct error *err);

/* ---- sup_nodes.c ---- */
int sup_nodes_new(struct supervisor *s, struct error *err);
void sup_nodes_free(struct supervisor *s);
void sup_node_event(struct sup_node *n, enum node_event event);
void sup_node_ended(struct sup_node *n, const struct node_end *end);
void sup_node_want(struct sup_node *n);             /* launches it when it is off */
void sup_node_stop(struct sup_node *n, int signal); /* 0: it will go by itself */
void sup_node_kill(struct sup_node *n);             /* it comes back: not a failure of its own */
void sup_node_expect(struct sup_node *n, int adopted); /* its process is new here */
void sup_node_give_up(struct sup_node *n);          /* SIGKILL, as a failure of its own */
int sup_nodes_off(const struct sup_node *first, size_t count);
void sup_arm(struct event *timer, double seconds);
struct sup_node *sup_node_find(struct supervisor *s, const char *id);
const char *sup_role_name(enum sup_role role);

/* ---- sup_pulse.c ---- */
void sup_pulse_begin(struct sup_node *n, int adopted); /* another process */
void sup_pulse_tick(struct supervisor *s);
/* What it is at: a section, "wait" (for others), or "" when it does not run. */
const char *sup_pulse_section(const struct sup_node *n);

/* ---- sup_lost.c ---- */
/* Gives up a node that is silent; what is known of it is kept first. */
void sup_lost(struct sup_node *n, struct sup_silence *silence);
/* The words only: of a process of it that is killed by the caller. */
void sup_lost_words(struct sup_node *n, struct sup_process *p, struct sup_silence *silence);

/* ---- sup_adopt.c ---- */
/* What runs of an earlier supervisor; returns how many nodes, or -1. */
int sup_nodes_adopt(struct supervisor *s, struct error *err);

/* ---- sup_heir.c ---- */
int sup_heir_new(struct sup_node *n, struct error *err);
void sup_heir_step(struct supervisor *s); /* starts hand-overs that are wanted */
int sup_heir_any(const struct supervisor *s);
void sup_heir_watch(struct sup_node *n); /* one that was adopted: its deadline starts */
void sup_heir_ended(struct sup_node *n, const struct node_end *end);
void sup_heir_old_ended(struct sup_node *n, const struct node_end *end);
void sup_heir_kill(struct sup_node *n);

/* ---- sup_restart.c ---- */
/* Restart of a live worker or server by intention. The reason it is refused, as a word, or NULL:
 * it is under way. */
const char *sup_restart(struct sup_node *n, int force, const char *reason);
/* Such a word in a sentence, for people. */
const char *sup_restart_why(const char *word);
void sup_restart_ready(struct sup_node *n); /* it is there (again) */
void sup_restart_failed(struct sup_node *n, const char *why);
/* Mean seconds; NAN: not known yet. */
double sup_restart_seconds(const struct supervisor *s, enum sup_role role);

/* ---- sup_act.c ---- */
/* What was decided by `who`, as text (action lines) or as structs; rq (may be NULL) is answered.
 * All or nothing where a line is bad: -1, and err names the line. The number of actions. */
struct sup_actions {
	struct action *item;
	size_t *line; /* of the text, from 1; 0: there was none */
	size_t count, room;
};
int sup_actions_add(struct sup_actions *list, const struct action *a, size_t line,
		    struct error *err);
int sup_actions_parse(struct sup_actions *list, const char *text, size_t len, struct error *err);
void sup_actions_free(struct sup_actions *list);
int sup_actions_carry(struct supervisor *s, const struct sup_actions *list, const char *who,
		      struct request *rq, struct error *err);
void sup_acts_up(struct link *link, const struct record *greeting); /* the lead is there */
void sup_acts_tick(struct supervisor *s);
void sup_acts_free(struct supervisor *s);

/* ---- sup_standing.c ---- */
int sup_standing_read(struct supervisor *s, struct error *err);
void sup_standing_write(struct supervisor *s);
void sup_standing_forget(struct supervisor *s);
/* Takes over what a lead has acknowledged. */
void sup_force_take(struct supervisor *s, const char *lines);
/* The lines of all that is in force, to be freed; NULL: none, or no memory. */
char *sup_force_lines(const struct supervisor *s);
const struct action *sup_force_find(const struct supervisor *s, enum action_kind kind,
				    const char *id);

/* ---- sup_words.c ---- */
void sup_node_log_path(const struct sup_node *n, char *out);
void sup_log_rotate(const struct sup_node *n);
void sup_logs_rotate(struct supervisor *s);
void sup_last_words(const struct sup_node *n);

/* ---- sup_command.c ---- */
/* The argument vector of a node's process; one block, to be freed. NULL: err says why. */
char **sup_command(struct sup_node *n, uint64_t life, int take_over, struct error *err);
void sup_socket(const struct supervisor *s, const char *id, char *out);

/* ---- sup_links.c ---- */
void sup_link_close(struct link *link);
int sup_link_up(const struct link *link);
int sup_link_send(struct link *link, struct record_out *o, const void *payload, size_t bytes,
		  peer_reply_fn *reply, void *arg);
void sup_links_servers(struct supervisor *s);
void sup_links_close(struct sup_node *n); /* both of a node */
void sup_link_again(struct sup_node *server); /* its process is another one now */
void sup_links_services(struct supervisor *s);

/* ---- sup_stray.c ---- */
void sup_stray_tick(struct supervisor *s);

/* ---- sup_mend.c ---- */
void sup_mend_step(struct sup_node *worker);

/* ---- sup_rollback.c ---- */
void sup_rollback_begin(struct supervisor *s, const char *reason);
void sup_rollback_step(struct supervisor *s);
int sup_intent_read(struct supervisor *s, struct error *err);
/* The intent is fulfilled. */
void sup_intent_remove(struct supervisor *s);

/* ---- sup_cut.c ---- */
int sup_cut_find(struct supervisor *s, struct error *err); /* latest complete one into s->latest */
void sup_cut_start(struct supervisor *s);
void sup_cut_periodic(struct supervisor *s);

/* ---- sup_course.c ---- */
void sup_ask_stat(struct supervisor *s);
void sup_ask_last(struct supervisor *s);
void sup_wait_done(struct supervisor *s);
void sup_ask_members(struct supervisor *s);
/* Samples per second, over the last seconds; NAN: not known yet. */
double sup_rate(const struct supervisor *s);
void sup_course_tick(struct supervisor *s);
void sup_watch_up(struct link *link, const struct record *greeting);

/* ---- sup_decide.c ---- */
void sup_decide_periodic(struct supervisor *s);
/* More often than that: until every worker has reported once. */
void sup_decide_first(struct supervisor *s);
void sup_decide_free(struct supervisor *s);

/* ---- sup_score.c ---- */
/* Scores TEST with a checkpoint; last: it is the one of the end. */
void sup_score_start(struct supervisor *s, const char *checkpoint, int last);
void sup_score_periodic(struct supervisor *s);

/* ---- sup_verbs.c ---- */
extern const struct verb sup_verbs[];
extern const size_t sup_verb_count;
struct request *sup_wait_take(struct sup_request **list);
void sup_answer_checkpoints(struct supervisor *s, int ok);
void sup_answer_stops(struct supervisor *s);
void sup_answer_watchers(struct supervisor *s, const struct run_row *row);

#endif
