/*
 * pulse: whether a node lives but does not move (SIGSTOP, hung storage, a host that is gone): what
 * it owes, how long it has been silent while it owed, and how long it may be silent.
 *
 * Pure: the caller watches from outside and reports in ticks what it saw; the time that the caller
 * itself slept does not count.  A sign of life is progress that others can see (a push, an answer),
 * not a heartbeat from a thread: when storage hangs, that thread goes on.  A node that waits for
 * others owes nothing.
 */
#ifndef PACELINE_MONITOR_PULSE_H
#define PACELINE_MONITOR_PULSE_H

#include "base/error.h"

#include <stdint.h>

/* What a node is doing. */
enum pulse_section {
	PULSE_START,      /* from its launch to its first batch, or to its first answer */
	PULSE_BATCH,      /* a worker: from its release to its push */
	PULSE_EXCHANGE,   /* a daemon: an answer; a worker: the way between shardd and the lead */
	PULSE_CHECKPOINT, /* a daemon: an answer while a checkpoint is cut */
	PULSE_HANDOVER,   /* a server: until its next process has all */
	PULSE_PAUSE,      /* a trainer that has said that it pauses: until that is over */
	PULSE_SECTIONS
};
const char *pulse_section_name(enum pulse_section section);

/* A node may be silent for the greatest of: `least` of the section, PULSE_TIMES the time that it
 * usually takes for as much work, and PULSE_LONGEST times the longest time that it took lately. So
 * a node that becomes ten times slower than before is not given up. If the seconds of a section are
 * fixed, the node's past does not count; INFINITY: never given up. */
#define PULSE_TIMES 20.0
#define PULSE_LONGEST 3.0
#define PULSE_TICK_MAX 1.0 /* seconds; in a longer tick the watcher itself slept */

struct pulse_rules {
	double least[PULSE_SECTIONS]; /* seconds */
	int fixed[PULSE_SECTIONS];
};

/* Reads HUNG: "" changes nothing; else words separated by commas, in any order, each
 * SECTION:SECONDS or SECONDS (for batch, exchange and, if it is more, checkpoint). A word for one
 * section wins there. In place of seconds there may be `never` (or 0), or `auto` (as it was);
 * without a section these are for all sections. -1: ERROR_CONFIG. */
int pulse_rules_parse(struct pulse_rules *rules, const char *text, struct error *err);

struct pulse {
	double silent;  /* seconds without a sign of life, while one was owed */
	double busy;    /* the same, since work was done last */
	double usual;   /* seconds for a unit of work; 0: not known */
	double longest; /* seconds of one piece of work; fades */
	int begun;      /* this process has done some work */
};

/* What it owes begins only now. */
void pulse_rest(struct pulse *p);
/* A new process: it keeps the past of the node, and has done nothing yet. */
void pulse_begin(struct pulse *p);
/* So many seconds have passed; owes: it is the node's turn. */
void pulse_tick(struct pulse *p, double seconds, int owes);
/* A sign of life without work done. */
void pulse_sign(struct pulse *p);
/* Work was done, but only its end was watched: it does not tell how long such work takes. */
void pulse_resume(struct pulse *p);
/* Work was done: so many units (samples, answers), at least one. */
void pulse_work(struct pulse *p, uint64_t units);
/* Seconds that a node may be silent while it works on so many units. */
double pulse_limit(const struct pulse *p, const struct pulse_rules *rules,
		   enum pulse_section section, uint64_t units);
int pulse_hung(const struct pulse *p, const struct pulse_rules *rules, enum pulse_section section,
	       uint64_t units);

#endif
