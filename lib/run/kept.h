/*
 * kept: what a job's next supervisor has to know, in one file, STATE/kept.  Its lines are sealed
 * (record/sealed.h), each for itself, for this job: the seed is made of its name.  The first word
 * says whose the line is.
 *
 *     time        how long the job has run (job/spent.h)
 *     scale       how many nodes there are (scale.h)
 *     intent      a rollback that is under way (recover.h)
 *     repeated    samples that were trained again (trainers.h)
 *     enough      it was enough for a trainer, and which checkpoint is the last one (phase.h)
 *     any other   what is in force (in_force.h)
 *
 * A thread writes the whole file, because a disk may take long, or hang.  What changes meanwhile is
 * written after that, together.
 */
#ifndef PACELINE_RUN_KEPT_H
#define PACELINE_RUN_KEPT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct aside;
struct supervisor;

enum kept_type {
	KEPT_TIME,
	KEPT_SCALE,
	KEPT_INTENT,
	KEPT_REPEATED,
	KEPT_ENOUGH,
	KEPT_IN_FORCE,
	KEPT_TYPES
};

struct sup_kept {
	struct {
		char *text; /* its lines, without checksums */
		size_t len, room;
		uint64_t serial; /* of its last change */
	} of[KEPT_TYPES];
	uint64_t serial, durable; /* of the last change; of the last one on the disk */
	struct aside *writing;    /* NULL: nothing is */
	double retry_at;          /* clock_mono(): after a failure, not before */
	char why[ERROR_TEXT_MAX]; /* why the job waits until it can be written; "": it does not */
};

/* Each line of these types goes to its owner, once. A damaged one is an error, in FILE:LINE. */
int sup_kept_read(struct supervisor *s, enum kept_type first, enum kept_type last,
		  struct error *err);
/* The lines of a type are these from now on; NULL: none. Returns 0 if they are on the disk already.
 * -1: not yet, and a kick follows; a caller that needs them on the disk first calls this again,
 * with the same text. */
int sup_keep(struct supervisor *s, enum kept_type type, const char *text, size_t len);
/* Writes what waits, and what is in force if that has changed. */
void sup_kept_step(struct supervisor *s);
/* Waits for the last write, but not for ever. */
void sup_kept_end(struct supervisor *s);
void sup_kept_free(struct supervisor *s);

#endif
