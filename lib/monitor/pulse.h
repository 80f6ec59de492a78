/*
 * pulse: whether a node lives and does not move (SIGSTOP, hung storage, a host that is gone): what
 * it owes, for how long it has shown nothing of it, and how long it may.
 *
 * Pure: the caller watches from outside and says in ticks what he saw; his own sleep counts for
 * nobody.  A sign of life is progress that others can see (a push, an answer), never a thread that
 * beats: where storage hangs that one beats on.  A node that waits for others owes nothing.
 */
#ifndef PACELINE_MONITOR_PULSE_H
#define PACELINE_MONITOR_PULSE_H

#include "base/error.h"

#include <stdint.h>

/* What a node is at. */
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

/* The longest a node may be silent is the greatest of `least` of the section, PULSE_TIMES what it
 * usually takes for as much, and PULSE_LONGEST times the longest that it has taken lately.  So one
 * that becomes ten times slower than it was is not hit. Where the seconds are fixed its past does
 * not count; INFINITY: never. */
#define PULSE_TIMES 20.0
#define PULSE_LONGEST 3.0
#define PULSE_TICK_MAX 1.0 /* seconds; longer than that it was the watcher who slept */

struct pulse_rules {
	double least[PULSE_SECTIONS]; /* seconds */
	int fixed[PULSE_SECTIONS];
};

/* HUNG: "" leaves all as it is; else words separated by commas, each SECTION:SECONDS, SECONDS (of
 * batch, exchange and, where that is more, checkpoint), in any order: what is said of one section
 * holds there. In place of seconds stand `never` (or 0) and `auto`, which is what it was; alone they
 * are of all sections. ERROR_CONFIG. */
int pulse_rules_parse(struct pulse_rules *rules, const char *text, struct error *err);

struct pulse {
	double silent;  /* seconds without a sign of life, while one was owed */
	double busy;    /* the same, since work was done last */
	double usual;   /* seconds for a unit of work; 0: no past */
	double longest; /* seconds of one piece of work; fades */
	int begun;      /* this process has done some work */
};

/* A new process: it has its past, and has done nothing yet. */
void pulse_begin(struct pulse *p);
/* So many seconds went by; owes: it is the node's turn. */
void pulse_tick(struct pulse *p, double seconds, int owes);
/* A sign of life without work done. */
void pulse_sign(struct pulse *p);
/* Work was done of which only the end was watched: it tells nothing of how long such work takes. */
void pulse_resume(struct pulse *p);
/* Work was done: so many units (samples, answers), at least one. */
void pulse_work(struct pulse *p, uint64_t units);
/* Seconds that it may be silent, when it is at so many units. */
double pulse_limit(const struct pulse *p, const struct pulse_rules *rules,
		   enum pulse_section section, uint64_t units);
int pulse_hung(const struct pulse *p, const struct pulse_rules *rules, enum pulse_section section,
	       uint64_t units);

#endif
