/*
 * scan: finds out which bytes of a journal can be believed (paceline-journal(5), RECOVERY).
 *
 * Lines are written in batches, with one fdatasync after each; a batch begins with a SCAN_MARK
 * line.  Behind the last line are zeros that were written earlier.  So a crash can leave only this:
 * the last batch is missing, ends in the middle of a line, or has holes of zeros, where whole
 * sectors did not reach the disk.  That is a torn tail.  Nobody was told of it, so it is dropped.
 * Everything else is damage and refused, and so is a bad line that has a later batch behind it.
 *
 * There is one exception: the lines behind a SCAN_LOOSE line, if the machine was started again
 * since.  Nobody waited for the disk there, so the lines count up to the first one that is not
 * whole.
 */
#ifndef PACELINE_SHARD_SCAN_H
#define PACELINE_SHARD_SCAN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SCAN_MARK "time" /* type of the first line of every batch */

/* What a line means for the scan; bits. */
enum {
	SCAN_TAKEN = 0,
	SCAN_PARTIAL = 1, /* needs the next line; half a group is torn, too */
	SCAN_LOOSE = 2    /* behind it anything may be missing */
};

struct scan {
	size_t end;        /* bytes that stay */
	uint32_t chain;    /* sum of the last line that stays */
	uint64_t lines;    /* lines that stay */
	size_t torn;       /* bytes behind end, without the zeros at the tail; to be overwritten */
	int lacks_newline; /* the last line lacks only its newline */
	int is_loose;      /* the last line that stays was SCAN_LOOSE */
};

/* Gives each line, without its sum, to `line`. That returns the bits above, or -1: it refuses the
 * line (err's place becomes place:line). data begins where the file begins; place is the file's
 * name. -1: ERROR_DATA at place:line, or the error of `line`. */
int scan_lines(const char *data, size_t size, const char *place,
	       int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
	       struct scan *out, struct error *err);

#endif
