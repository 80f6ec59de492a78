/*
 * scan: what of a journal's bytes can be believed (paceline-journal(5), RECOVERY).
 *
 * Lines are written in batches, each followed by one fdatasync; a batch begins with a SCAN_MARK
 * line.  Behind the last line are zeros, written earlier.  So a crash can leave only this: the
 * last batch is missing, ends in the middle of a line, or has holes of zeros where whole sectors
 * did not reach the disk.  That is a torn tail: nobody was told of it, so it is dropped.  Anything
 * else, and anything in front of a later batch, is damage, and refused.
 *
 * Except behind a line that says so itself (SCAN_LOOSE): nobody waited for the disk there, and the
 * machine was started again since.  Then the lines count up to the first one that is not whole.
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
	SCAN_PARTIAL = 1, /* needs the next line: half a group is torn, too */
	SCAN_LOOSE = 2    /* anything may be missing behind it */
};

struct scan {
	size_t end;        /* bytes that stay */
	uint32_t chain;    /* sum of the last line that stays */
	uint64_t lines;    /* that stay */
	size_t torn;       /* bytes behind end, without the zeros at the tail: to be overwritten */
	int lacks_newline; /* the last line is whole except for that */
	int is_loose;      /* the last line that stays was SCAN_LOOSE */
};

/* Gives each line, without its sum, to `line`, which returns the bits; -1: refused (err's place is
 * set to place:line). data is from the beginning of the file that place names. -1: ERROR_DATA at
 * place:line, or what `line` said. */
int scan_lines(const char *data, size_t size, const char *place,
	       int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
	       struct scan *out, struct error *err);

#endif
