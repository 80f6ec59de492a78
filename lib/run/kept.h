/*
 * kept: the small files of a job's state that a supervisor writes while it serves.  The text wanted
 * for each is kept here, and a thread writes one file after the other, because a disk may take
 * long, or hang.  If a text changes again before it was written, only the last one is written.
 */
#ifndef PACELINE_RUN_KEPT_H
#define PACELINE_RUN_KEPT_H

#include <stddef.h>
#include <stdint.h>

struct aside;
struct supervisor;

enum kept_file {
	KEPT_INTENT,
	KEPT_REPEATED,
	KEPT_SCALE,
	KEPT_FORCE,
	KEPT_SPENT,
	KEPT_FILES
};

struct sup_kept {
	struct {
		char *text; /* NULL: no file */
		size_t len;
		int wanted, durable;
		uint64_t serial; /* of the text that is wanted */
	} file[KEPT_FILES];
	struct aside *writing; /* NULL: nothing is */
	double again;          /* clock_mono(): after a failure */
};

/* The file shall have this text from now on; NULL: it shall be gone. 0: so it is on the disk. -1:
 * not yet, and a kick follows: a caller that needs it on disk first asks again, with the same
 * text. */
int sup_keep(struct supervisor *s, enum kept_file file, const char *text, size_t len);
/* Writes what waits, and what is in force if that has changed. */
void sup_kept_step(struct supervisor *s);
/* Waits for the last write, but not for ever. */
void sup_kept_end(struct supervisor *s);
void sup_kept_free(struct supervisor *s);

#endif
