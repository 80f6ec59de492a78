/*
 * node: the life of a node: how it is started, stopped and killed, and what follows when its
 * process ends.
 *
 * A table says which stage follows which (stage.h); a column of the table of roles says what a
 * death requires (role.h).  struct sup_node also has what other modules keep about a node; only its
 * owner writes each part.
 */
#ifndef PACELINE_RUN_NODE_H
#define PACELINE_RUN_NODE_H

#include "base/hash.h"
#include "base/option.h"
#include "run/action.h"
#include "run/node_process.h"
#include "run/oom.h"
#include "run/recover.h"
#include "run/restart.h"
#include "run/role.h"
#include "run/said.h"
#include "run/spare.h"
#include "proc/again.h"
#include "run/stage.h"
#include "run/talk.h"
#include "run/watchdog.h"

struct sup_node {
	struct supervisor *sup;
	struct sup_node *next; /* roster; and by its id: */
	UT_hash_handle hh;
	size_t measured_at; /* progress: its place in the snapshot; for sup_measured() only */
	const struct role *role;
	uint32_t number; /* within its role */
	const struct role *made_as; /* spare: its role at first, and its number then */
	uint32_t made_number;
	char id[OPTION_ID_MAX];
	size_t home, at; /* indexes of hosts (hosts.h): where it belongs, and where it runs */
	struct node_place place;
	double cores;    /* limit for its next process; 0: none (sup_node_resize()) */
	uint64_t memory; /* bytes; likewise */
	enum node_stage stage;
	struct sup_process now;      /* the one that runs, or ran last */
	uint64_t lives;              /* processes started so far: the next life's number */
	off_t log_begin;             /* where the log of its latest process begins */
	uint64_t in_a_row, restarts; /* failures since it did well; starts after the first */
	uint64_t uncounted; /* starts that are no restarts: it changed its host, or came back */
	int end_wanted;     /* by us, so that it is no failure of its own */
	int stop_signal;
	struct timer *timer;
	struct node_end end;
	int end_unsure; /* phase: all was trained, and nobody saw its end */
	char said[SAID_MAX]; /* a trainer, the lead: what it printed about its end; "": nothing */
	double ready_at;              /* clock_mono(); 0: this process is not ready yet */
	double member_at;             /* clock_mono(): asked then, the lead said that it is a member */
	struct link link, watch_link; /* talk; the second one is for the watchdog */
	struct sup_watched watch;     /* watchdog */
	struct sup_restart restart;   /* restart */
	struct sup_fence fence;       /* recover */
	struct sup_last_action last_action; /* action */
	struct sup_oom oom;           /* oom */
	uint64_t warned;              /* progress: its lives when the lead warned of it */
	struct sup_spare spare;       /* spare */
	int joining, leaving, fenced; /* scale */
	int has_part;                 /* scale: the server has a part, as the lead said last */
	int joining_share;            /* scale: it has no share of its own yet */
	uint64_t trials;              /* trainers: ends in a row that may be another one's fault */
};

/* The new node is off, and in no roster. NULL: err. */
struct sup_node *sup_node_new(struct supervisor *s, const struct role *role, uint32_t number,
			      struct error *err);
void sup_node_free(struct sup_node *n);

int sup_node_is_off(const struct sup_node *n);
/* Whether its process runs, and was neither told to end nor killed. */
int sup_node_runs(const struct sup_node *n);

/* Launches it when it is off and may be launched now. */
void sup_node_want(struct sup_node *n);
/* It is to be off from now on. signal 0: it will leave by itself. */
void sup_node_stop(struct sup_node *n, int signal);
/* Ends it with SIGKILL; it comes back, and this is no failure of its own. */
void sup_node_kill(struct sup_node *n);
/* The same with this signal. signal 0: it was told to end already. */
void sup_node_renew(struct sup_node *n, int signal);
/* It has ended in a way that would only be repeated: the job fails, or does without it. */
void sup_node_failed(struct sup_node *n);
/* Ends it with SIGKILL, as a failure of its own. */
void sup_node_give_up(struct sup_node *n);
/* Gives it other limits, which are kept for the next supervisor, too. If it runs, it is restarted
 * with them: a server hands over, and a worker's batch in hand goes to others. If the limits are
 * the old ones, nothing is done. Returns NULL, or why it is not restarted now (sup_restart_why()):
 * then the limits hold from its next process on. */
const char *sup_node_resize(struct sup_node *n, double cores, uint64_t memory, const char *reason);
/* Sets its limits, and does nothing else. */
void sup_node_sized(struct sup_node *n, double cores, uint64_t memory);
struct limits sup_node_limits(const struct sup_node *n, size_t at); /* on this host */
void sup_stop_all(struct supervisor *s, const struct role *role, int signal);

/* ---- other modules say what has happened ---- */
/* Its daemon greets, or the lead has it as a member. incarnation: a server says it; 0: not said. */
void sup_node_answers(struct sup_node *n, uint64_t incarnation);
void sup_node_ended(struct sup_node *n, const struct node_end *end);
/* A process that was killed leaves its socket behind. If it is not started again, nobody else
 * removes it. more: what is behind its name. */
void sup_node_remove_socket(const struct sup_process *p, const char *more);
void sup_node_joins(struct sup_node *n);    /* it was a spare, and has a worker's place now */
void sup_node_fenced(struct sup_node *n);   /* what its death left elsewhere is removed */
void sup_node_replaced(struct sup_node *n); /* its next process has taken over, and is n->now */
void sup_node_found(struct sup_node *n);    /* n->now runs already */
/* It ended while no supervisor was there. */
void sup_node_missed_end(struct sup_node *n, const struct node_end *end);
void sup_node_lived(struct sup_node *n, uint64_t lives);
uint64_t sup_node_next_life(struct sup_node *n);

enum end_class sup_node_class(const struct sup_node *n, const struct node_end *end);

#endif
