/*
 * watchdog: whether the nodes move, seen from outside.  Every daemon is asked something cheap once
 * a second, on a connection of its own, and owes the answer.  The answers of shardd and of the lead
 * tell of workers, too: one that was answered owes its next push, one that is no member owes its
 * next step, and one that waits for others owes nothing.  How long a silence may be is a pure
 * function (monitor/pulse.h).
 *
 * A node that is silent for longer is given up.  What the kernel knows of it is kept in its log
 * first, as nobody can ask it any more; then SIGKILL, which a stopped process obeys, too; from
 * there on it is a death like any other.
 *
 * What a node does before its first batch, or answer, may take long: it reads a large file, replays a
 * journal.  Nobody sees progress but the kernel: so its processes are looked at.  One that is stopped
 * need not be waited for longer than a batch; neither need a worker of ours that uses no processor time
 * at all and waits for no disk, while another worker has trained.
 *
 * One that is stopped (SIGSTOP, a debugger) is found sooner, whatever it is at: the kernel shows it
 * in /proc.
 *
 * Trainers of the user's own that write a checkpoint may take as long as one may take at all, and so
 * may those that wait for them in a collective of their own: the lead says who was told and has not
 * answered. So it says who pauses: for that the trainer itself has named the limit.
 *
 * Such a trainer is looked at by its agent, who is beside it (agent(1)): nobody takes the agent's state for
 * it. While one waits in a collective and another one does not, the first owes nothing. Before one is
 * given up, all agents are asked to write down what their trainers are at. One is given up at a time, as
 * all go back with it; where nobody knows which one the others wait for, no host is blamed.
 *
 * While a daemon is silent that workers talk to, their silence says nothing: nobody is killed for
 * waiting.  So the daemon is found first, and whoever hung beside it afterwards.
 */
#ifndef PACELINE_RUN_WATCHDOG_H
#define PACELINE_RUN_WATCHDOG_H

#include "monitor/pulse.h"
#include "proc/inspect.h"
#include "run/talk.h"

#include <stdint.h>

struct sup_process;

/* Why a node is given up. */
struct sup_silence {
	enum pulse_section section;
	double seconds, limit;
	char state[64], wchan[64]; /* of its first thread, as the kernel says */
};

/* What others say of a worker. */
struct sup_seen {
	uint64_t round; /* of questions, in which the lead told of it */
	int member, owes, pushes_known;
	int partly; /* it was adopted: of the batch in its hand only the rest is watched */
	uint64_t member_generation, pushes, samples, size; /* the lead */
	uint64_t generation, asks;                         /* shardd */
	char last[1024];                                    /* the lead's record; "": none */
	int waits;     /* a trainer: in a collective, for others */
	int stopped;   /* its process is */
	double pauses; /* seconds that it may; 0: it does not */
	char state[64], wchan[64]; /* of its process; "": nobody has asked */
	int serves; /* a replica: it has the parameters, as it says; an adopted one until it does */
};

/* Of a node. */
struct sup_watched {
	struct pulse pulse;
	struct pulse next; /* of its next process, that takes over */
	struct question question;
	struct sup_seen seen;
	struct inspect_motion motion; /* while it is silent; */
	struct inspect_motion next_motion; /* of its next process; */
	double looked, next_looked;   /* seconds since the last look at it, */
	double others;                /* for which another worker has trained */
	int worked;  /* a worker: this process has done a batch */
	double stopped; /* a trainer: seconds for which it has been stopped */
	double asked;   /* seconds since its agent was asked what it sees; 0: it was not */
	int cutting; /* a daemon: a checkpoint was cut when it was heard of last */
};

struct sup_watchdog {
	struct pulse_rules rules;
	struct pulse_rules saving; /* of trainers of the user's own while one of them saves */
	int saves, saves_now;      /* one saves, in the last round, in this one */
	int pauses, pauses_now;    /* the same of those that pause */
	int gives_up;              /* a trainer is given up; all go back */
	double at, asked; /* clock_mono() */
	uint64_t round;
	/* of this tick: */
	int looks;                    /* processes of nodes that start are looked at; then, */
	struct inspect_groups groups; /* once somebody needs them, all there are */
	size_t trained;               /* workers that have */
};

int sup_watch_init(struct supervisor *s, struct error *err);
void sup_watch_begin(struct sup_node *n, int adopted); /* another process */
void sup_watch_ready(struct sup_node *n);
void sup_watch_next(struct sup_node *n); /* its next process is to take over */
void sup_watch_tick(struct supervisor *s);
/* What it is at: a section, "wait" (for others), or "" when it does not run. */
const char *sup_watch_section(const struct sup_node *n);

#endif
