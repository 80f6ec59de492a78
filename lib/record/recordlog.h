/*
 * recordlog: a file to which records are appended, whole lines only.
 *
 * Lines are gathered and written together.  If a write fails (disk full), the part that was written
 * is cut off again, and the gathered lines are dropped and counted.  So the file always ends with a
 * whole line, and can be read while the owner goes on.
 */
#ifndef PACELINE_RECORD_RECORDLOG_H
#define PACELINE_RECORD_RECORDLOG_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct recordlog {
	const char *path; /* borrowed */
	int fd;           /* -1: not open */
	char *data;
	size_t len, room;
	uint64_t lines; /* in data */
	uint64_t lost;  /* lines dropped since the last successful write */
	int is_told;    /* the owner was told that lines were lost, */
	int is_stuck;   /* or that no new file can begin */
};

#define RECORDLOG_BYTES_MAX (64 << 20)

/* Opens for appending, mode 0600 when made. A torn last line, left by a power cut, is
 * cut off. */
int recordlog_open(struct recordlog *log, const char *path, struct error *err);
/* Opens the same path again, for rotation: gathered lines go to the old file. On failure the old
 * file stays in use. */
int recordlog_reopen(struct recordlog *log, struct error *err);
void recordlog_close(struct recordlog *log);

/* Adds one line with its newline; it counts as lost when there is no memory for it. */
void recordlog_add(struct recordlog *log, const char *line, size_t len);
/* -1 only for the first of several failures in a row, so that the owner reports it once. */
int recordlog_flush(struct recordlog *log, struct error *err);
/* A file of 64 MiB becomes PATH.1, in place of the one before; one that somebody has moved away or
 * removed (logrotate(8)) is left. 1: a new one has begun. -1: the old one goes on growing; only for
 * the first of several failures in a row. */
int recordlog_turn(struct recordlog *log, struct error *err);

#endif
