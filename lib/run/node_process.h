/*
 * node_process: one process of a node: launched through its parent or found running, watched,
 * signalled.  This module only says that a process has ended; its owner decides what that means.
 * Every process has a record file, so it makes no difference which supervisor started it.
 *
 * Each id has two locks, ID.lock and ID.heir.lock.  Each parent holds one while it lives.  So no id
 * runs twice, except for a server that hands over to its next process.  On another host, where one
 * that was given up may live on, the far end has two locks for the same, and ends who has them
 * (proc/alone.h).
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
	size_t at; /* index of its host, also after its end */
	uint64_t life;
	pid_t parent, pid; /* 0: not known, or not yet */
	uint64_t parent_start, start;
	int found;     /* it ran before this supervisor did */
	int orphan;    /* its parent has ended: we watch the process itself */
	int forced;    /* sup_process_force() has killed its parent */
	int doomed;    /* it was killed, or will be as soon as its pid is known */
	double since;  /* clock_mono() of the launch */
	double missed; /* clock_mono(): the first signal that has not reached it; 0: none */
	int fd;        /* of the process that is watched: its parent, or itself */
	struct event *watch;
};

/* ended is called after each end of a process of p; then p is free for another one. */
void sup_process_init(struct sup_process *p, struct sup_node *n,
		      void (*ended)(struct sup_node *n, const struct node_end *end));
void sup_process_release(struct sup_process *p); /* no longer watched */
/* Starts the next life of the node on host `at`. take_over: another process of this id may run, and
 * this one takes over from it. */
int sup_process_launch(struct sup_process *p, size_t at, int take_over, struct error *err);
/* p becomes what `from` was, on its host; then `from` is free. */
void sup_process_move(struct sup_process *p, struct sup_process *from);
/* Its pid; 0: its parent has not said it yet. */
pid_t sup_process_pid(struct sup_process *p);
/* 0: signalled; 1: there is no process; -1: its pid is not known yet, because its parent is about
 * to start it. Ask again after SUP_SOON_SECONDS. */
#define SUP_SOON_SECONDS 0.02
int sup_process_signal(struct sup_process *p, int signal);
/* Whether it should have ended by now: it got SIGKILL, or its pid is not known yet, DEADLINE_GONE
 * seconds after the first signal. */
int sup_process_is_late(const struct sup_process *p);
/* Forces the end of one that is late. The first call kills its parent, which may be what hangs. The
 * next one leaves the process alone, and it counts as ended. Returns 0 if it has ended. */
int sup_process_force(struct sup_process *p);

/* A node of this id may have lived before: its lives are counted on from there. */
void sup_recall_lives(struct sup_node *n);
/* Adopts the processes of an earlier supervisor that still run: finds them by their records and
 * treats them as if they were started here. Returns how many, or -1. If none runs, the records are
 * of an earlier run, and lives are counted anew. */
int sup_adopt(struct supervisor *s, struct error *err);

#endif
