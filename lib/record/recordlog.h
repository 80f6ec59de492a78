/*
 * recordlog: a file to which records are appended, whole lines only.
 *
 * Lines are gathered and written together.  When a write fails (disk full), what was written of
 * the batch is cut off again and the batch is dropped and counted, so that the file always ends
 * with a whole line and can be read while the owner goes on.
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
	int is_told;    /* that some were */
};

/* Opens for appending, mode 0600 when made. A torn last line, left by a power cut, is
 * cut off. */
int recordlog_open(struct recordlog *log, const char *path, struct error *err);
/* The same path again, for rotation: what is gathered goes to the old file. On failure the old file
 * stays in use. */
int recordlog_reopen(struct recordlog *log, struct error *err);
void recordlog_close(struct recordlog *log);

/* One line with its newline; counted as lost when there is no memory for it. */
void recordlog_add(struct recordlog *log, const char *line, size_t len);
/* -1 for the first failure of a row of them only: the owner says so once. */
int recordlog_flush(struct recordlog *log, struct error *err);

#endif
