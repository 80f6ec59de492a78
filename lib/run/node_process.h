/*
 * node_process: one process of a node: launched through its parent or found running, watched,
 * signalled.  This module only says that a process has ended; what that means is its owner's
 * business.  Every process has a record file, so it makes no difference which supervisor started
 * it.
 *
 * Each id has two locks, ID.lock and ID.heir.lock; each parent holds one while it lives.  So no id
 * runs twice, except for a server that hands over to its next process.
 */
#ifndef PACELINE_RUN_NODE_PROCESS_H
#define PACELINE_RUN_NODE_PROCESS_H

#include "base/error.h"
#include "proc/parent.h"

#include <stdint.h>
#include <sys/types.h>

struct event;
struct sup_node;
struct supervisor;

struct sup_process {
	struct sup_node *node;
	void (*ended)(struct sup_node *n, const struct node_end *end);
	int runs; /* as far as we know */
	uint64_t life;
	pid_t parent, pid; /* 0: not known (yet) */
	uint64_t parent_start, start;
	int orphan;    /* its parent is gone: we watch the node itself */
	int forced;    /* it was killed and has not ended: its parent was killed, too */
	int doomed;    /* killed, or as good as */
	double since;  /* clock_mono() of the launch */
	double missed; /* clock_mono(): the first signal that has not reached it; 0: none */
	int fd;        /* what is watched */
	struct event *watch;
};

/* ended is called after each end of it; then p is free for another process. */
void sup_process_init(struct sup_process *p, struct sup_node *n,
		      void (*ended)(struct sup_node *n, const struct node_end *end));
void sup_process_release(struct sup_process *p); /* no longer watched */
/* Starts life n->lives. take_over: another process of this id may run, and this one takes over from
 * it. */
int sup_process_launch(struct sup_process *p, int take_over, struct error *err);
/* p becomes what `from` was; then `from` is free. */
void sup_process_move(struct sup_process *p, struct sup_process *from);
/* Its pid, if its parent has said it by now. */
pid_t sup_process_pid(struct sup_process *p);
/* 0: signalled; 1: there is no process; -1: its pid is not known yet, because its parent is about
 * to start it. Ask again after SUP_SOON_SECONDS. */
#define SUP_SOON_SECONDS 0.02
int sup_process_signal(struct sup_process *p, int signal);
/* Whether it was signalled DEADLINE_GONE seconds ago, or more, and should have ended by now. */
int sup_process_is_late(const struct sup_process *p);
/* Forces the end of one that is late. First its parent is killed, which may be what hangs; then the
 * process is left to itself, as if it had ended unseen. 0: it has ended. */
int sup_process_force(struct sup_process *p);

/* A node of this id may have lived before: counting of its lives goes on. */
void sup_recall_lives(struct sup_node *n);
/* Adopts the processes of an earlier supervisor that still run: finds them by their records and
 * treats them as if they were started here. Returns how many, or -1. If none runs, the records are
 * of an earlier run, and lives are counted anew. */
int sup_adopt(struct supervisor *s, struct error *err);

#endif
