/*
 * scan: what of a journal's bytes can be believed (paceline-journal(5), RECOVERY).
 *
 * Lines are written in batches, each followed by one fdatasync; a batch begins with a SCAN_MARK
 * line.  Behind the last line are zeros, put there before.  So a crash can leave only this: the
 * last batch is missing, ends in the middle of a line, or has holes of zeros where whole sectors
 * did not reach the disk.  That is a torn tail: nobody was told of it, it is dropped.  Anything
 * else, and anything in front of a later batch, is damage, and refused.
 *
 * Unless the lines say so themselves (SCAN_LOOSE): behind such a line nobody waited for the disk,
 * and the machine was started anew since.  Then what is whole counts, up to the first line that is
 * not.
 */
#ifndef PACELINE_SHARD_SCAN_H
#define PACELINE_SHARD_SCAN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SCAN_MARK "time" /* type of the first line of every batch */

/* What a line is taken for; bits. */
enum {
	SCAN_TAKEN = 0,
	SCAN_PARTIAL = 1, /* only what follows completes it: half a group is torn, too */
	SCAN_LOOSE = 2    /* anything may be missing behind it */
};

struct scan {
	size_t end;        /* bytes that stay */
	uint32_t chain;    /* sum of the last line that stays */
	uint64_t lines;    /* that stay */
	size_t torn;       /* bytes behind end that are no zeros' tail: to be overwritten */
	int lacks_newline; /* the last line is whole but for that */
	int is_loose;      /* the last line that stays was SCAN_LOOSE */
};

/* Gives each line, without its sum, to `line`, which says what it is taken for; -1: refused (err's
 * place is set to place:line). data begins the file that place names. -1: ERROR_DATA at place:line,
 * or what `line` said. */
int scan_lines(const char *data, size_t size, const char *place,
	       int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
	       struct scan *out, struct error *err);

#endif
