/*
 * schedule: which node is slowed down when, and by how much: the straggler patterns of the papers
 * (AntDT section VII, after FlexRR), as a pure function of time and seed.
 *
 * A pattern is a name and key=value words (straggle(1)).  Several may be in force on one node:
 * delays add up, slowdowns multiply, and of two devices (speed) the later one counts.
 *
 * Times are seconds from the start.  Nothing is remembered between calls, so that a schedule can
 * be asked for any moment, and the same seed gives the same schedule whatever the end.
 */
#ifndef PACELINE_STRAGGLE_SCHEDULE_H
#define PACELINE_STRAGGLE_SCHEDULE_H

#include "base/error.h"
#include "record/drag.h"

#include <stddef.h>
#include <stdint.h>

#define SCHEDULE_EVERY_LIFE (-1)
#define SCHEDULE_STEP_MIN 0.001 /* seconds: a pattern does not repeat itself faster */

struct schedule;

struct schedule_options {
	uint64_t seed;
	double scale;       /* times of the patterns are multiplied by it */
	double delay_scale; /* and delays by this */
	double intensity;   /* of patterns that say none */
	int64_t life;       /* of persistent ones that say none; SCHEDULE_EVERY_LIFE */
	int processes;      /* patterns say slowdown=, a factor, instead of delays */
	const char *const *node; /* ids, the caller's: first the workers */
	size_t workers, servers;
};

/* What is in force on a node: a drag record (on, and all of it may be 0), or with processes a
 * factor from 1 up. */
struct schedule_state {
	int on;
	double slowdown;
	struct drag drag;
};

/* A node, for every life or for one: what a drag file is for. A slot of one life holds what is for
 * every life, too, because a node reads one file only. */
struct schedule_slot {
	const char *id;
	int64_t life;
	size_t node;
};

int schedule_new(struct schedule **out, const struct schedule_options *options,
		 struct error *err);
void schedule_free(struct schedule *s); /* NULL is fine */

/* words[0] is the pattern's name, the others are its key=value. ERROR_USAGE names the word;
 * ERROR_DATA "file:line" of a trace. */
int schedule_add(struct schedule *s, char *const *words, size_t count, struct error *err);
/* How many of words belong to the first pattern. */
size_t schedule_words(char *const *words, size_t count);

/* Only slots that some pattern has to do with. */
size_t schedule_slots(const struct schedule *s);
const struct schedule_slot *schedule_slot(const struct schedule *s, size_t slot);

void schedule_at(const struct schedule *s, size_t slot, double t, struct schedule_state *out);
/* The first moment after t at which anything may change; INFINITY: none. */
double schedule_next(const struct schedule *s, double t);
/* Whether it goes on changing for ever. */
int schedule_endless(const struct schedule *s);

/* Whether two states say the same. */
int schedule_same(const struct schedule_state *a, const struct schedule_state *b);

#endif
