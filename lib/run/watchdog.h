/*
 * watchdog: finds nodes that hang, from outside.  Once a second every daemon is asked a cheap
 * question, on a connection of its own, and owes the answer.  The answers of shardd and the lead
 * also tell about workers: a worker that got its answer owes its next push, one that is no member
 * owes its next step, and one that waits for others owes nothing.  A pure function says how long a
 * silence may be (monitor/pulse.h).
 *
 * A node that is silent for longer is given up.  First its log gets what the kernel knows about it,
 * because the node can't be asked any more; then it gets SIGKILL, which ends a stopped process,
 * too.  From there on it is a death like any other.
 *
 * The time before a node's first batch, or answer, may be long: it reads a large file, or replays a
 * journal.  Only the kernel sees progress then, so the processes of the node are looked at.  A
 * stopped process is given no more time than a batch; nor is a worker of the kit that uses no
 * processor time at all and waits for no disk, while another worker has trained.
 *
 * A stopped process (SIGSTOP, a debugger) is found sooner, whatever it was doing: the kernel shows
 * it in /proc.
 *
 * A user's trainer that writes a checkpoint may take the longest time that a checkpoint may take,
 * and so may trainers that wait for it in a collective of their own: the lead says who was told to
 * save and has not answered.  The lead also says who pauses; the trainer itself has named the limit
 * of a pause.
 *
 * The agent, which runs beside its trainer, says what the trainer does (agent(1)): the agent's own
 * state is never taken for the trainer's.  A trainer that waits in a collective owes nothing while
 * another one is not in it.  Before a trainer is given up, all agents are asked to write down what
 * their trainers are doing.  One trainer is given up at a time, because all go back with it.  If it
 * is not known for which one the others wait, no host is blamed.
 *
 * While a daemon that workers talk to is silent, or waits for its standby, the silence of workers
 * says nothing: nobody is killed for waiting.  So the daemon or the standby is found first, and
 * other nodes that hang are found afterwards.
 */
#ifndef PACELINE_RUN_WATCHDOG_H
#define PACELINE_RUN_WATCHDOG_H

#include "monitor/pulse.h"
#include "proc/inspect.h"
#include "run/said.h"
#include "run/supervisor.h"
#include "run/talk.h"

#include <stdint.h>

struct sup_process;

/* Why a node is given up. */
struct sup_silence {
	enum pulse_section section;
	double seconds, limit;
	char state[64], wchan[64]; /* of its first thread, as the kernel says */
	char in[SAID_MAX]; /* what its main thread was doing, as its stacks say; "": nobody knows */
	char waiting[96];  /* who waited for it, as "w0, w2"; "": nobody did, as far as is known */
};

/* What others say of a worker. */
struct sup_seen {
	uint64_t round; /* the last round of questions in which the lead named it */
	int member, owes, pushes_known;
	int partly; /* it was adopted in the middle of a batch, whose time says nothing */
	uint64_t member_generation, iteration, pushes, samples, size; /* the lead */
	uint64_t generation, asks;                         /* shardd */
	char last[1024]; /* the lead's last record of it; "": none */
	struct run_delays delays;
	int waits;     /* a trainer: it waits for others, in a collective */
	int stopped;   /* its process is stopped */
	double pauses; /* seconds that it may pause; 0: it does not */
	char state[64], wchan[64]; /* of its process; "": not known */
	int serves; /* a replica: it has the parameters, as it says; assumed if it was adopted */
	double said; /* clock_mono(): when it said so, or that it has none */
	char standby[16]; /* a server: what it says of its standby; "": nothing */
	double standby_silent; /* seconds that this has owed it an answer */
};

/* Of a node. */
struct sup_watched {
	struct pulse pulse;
	struct pulse next; /* of its next process, which takes over */
	struct question question;
	struct sup_seen seen;
	struct inspect_motion motion; /* of its process while it is silent */
	struct inspect_motion next_motion; /* the same of its next process */
	double looked, next_looked;   /* seconds since the last look at these */
	double others;                /* seconds for which another worker has trained */
	int worked;  /* a worker: this process has done a batch */
	double stopped; /* a trainer: seconds for which it has been stopped */
	double asked;   /* seconds since its agent was asked what it sees; 0: not asked */
	int cutting; /* a daemon: a checkpoint was being cut when it was last heard of */
};

struct sup_watchdog {
	struct pulse_rules rules;
	struct pulse_rules saving; /* of users' trainers while one of them saves */
	int saves, saves_now;      /* a trainer saves: in the last round, in this one */
	int pauses, pauses_now;    /* a trainer pauses: the same */
	int gives_up;              /* a trainer was given up; all go back */
	double at, asked; /* clock_mono() */
	uint64_t round;
	/* of this tick: */
	int looks;                    /* processes are looked at */
	struct inspect_groups groups; /* all that there are, read once somebody needs them */
	size_t trained;               /* workers that have trained a batch */
};

int sup_watch_init(struct supervisor *s, struct error *err);
void sup_watch_begin(struct sup_node *n, int adopted); /* another process */
void sup_watch_ready(struct sup_node *n);
void sup_watch_next(struct sup_node *n); /* its next process will take over */
void sup_watch_tick(struct supervisor *s);
/* What it is doing: a section, "wait" (for others), or "" when it does not run. */
const char *sup_watch_section(const struct sup_node *n);

#endif
