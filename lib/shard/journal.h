/*
 * journal: where a queue's lines survive a crash (paceline-journal(5)).
 *
 * A directory with one file, journal.NNNNNN: the state as it was when the file was begun, then
 * every change since.  Behind the last line the file is filled with zeros that were written
 * earlier: a line has its place on the disk before it exists, fdatasync has no sizes to update, and
 * a file that lost its end is known by its missing zeros.  A file that has grown long is
 * replaced by one with the next number; the child that writes its beginning works on a copy (fork),
 * so that nobody waits.  Each start replaces it, too: what was read may be in memory only.
 *
 * Lines are buffered until journal_commit(), or journal_write().  No answer may leave before that.
 */
#ifndef PACELINE_SHARD_JOURNAL_H
#define PACELINE_SHARD_JOURNAL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct journal;

enum journal_sync {
	JOURNAL_ALWAYS, /* the owner commits after each request */
	JOURNAL_GROUP,  /* the owner commits before it answers many */
	JOURNAL_OFF     /* commits write, but do not wait for the disk */
};

/* Gives every line of the state to `line`. */
typedef void journal_state_fn(void *owner, void (*line)(void *arg, const char *line, size_t len),
			      void *arg);

/* Makes dir when missing and locks it (ERROR_TEMPFAIL: it is locked already). Removes half-written
 * files of a crash. long_bytes: see journal_is_long(). */
int journal_open(struct journal **out, const char *dir, enum journal_sync sync, uint64_t long_bytes,
		 struct error *err);
void journal_close(struct journal *j); /* NULL is fine. Commits nothing. */
/* Whether there is one to be replayed. */
int journal_exists(const struct journal *j);
const char *journal_path(const struct journal *j); /* of the file */

/* Gives each line of the newest file to `line`, as scan_lines() does; skips a torn tail, with a
 * message. ERROR_DATA: damage. The file stays as it is, and nothing may be added to it: its lines
 * may be in the kernel's memory only, so the caller must go on with journal_begin() or
 * journal_keep(). */
int journal_replay(struct journal *j,
		   int (*line)(void *arg, const char *line, size_t len, struct error *err),
		   void *arg, struct error *err);
/* When there is no room for a new file: the replayed one stays in use. It is written again in
 * place, which needs no room, and synced. */
int journal_keep(struct journal *j, struct error *err);
/* When the newest file can't be used: adds the name of an older whole file to err's text. */
void journal_name_older(struct journal *j, struct error *err);

/* A new file with this state replaces all older ones, durably, without the buffered lines. -1: the
 * old one stays in use, unless journal_is_broken(). */
int journal_begin(struct journal *j, journal_state_fn *state, void *owner, struct error *err);

/* Room for lines of so many bytes, sums included; -1: there is none, and nothing changed, unless
 * journal_is_broken(). */
int journal_reserve(struct journal *j, size_t bytes, struct error *err);
/* A line for which room was reserved. */
void journal_add(struct journal *j, const char *line, size_t len);
/* Whether lines wait for journal_commit() or journal_write(). */
int journal_is_pending(const struct journal *j);
/* All lines are on disk, those of journal_write(), too. -1: journal_is_broken() from then on. */
int journal_commit(struct journal *j, struct error *err);
/* All lines are the kernel's: they survive this process, not the machine. -1: as above. */
int journal_write(struct journal *j, struct error *err);
/* Nobody knows what is on the disk: nothing may be acknowledged any more, the owner must end with
 * 74 and let replay decide. */
int journal_is_broken(const struct journal *j);

/* Whether the changes are longer than journal_open()'s long_bytes, and outweigh the state. */
int journal_is_long(const struct journal *j);
/* Begins to replace the file: a child writes state; *fd becomes readable when it has. One at a
 * time. */
int journal_compact(struct journal *j, journal_state_fn *state, void *owner, int *fd,
		    struct error *err);
/* Ends it. -1: the old file stays in use, unless journal_is_broken(). *fd is closed. */
int journal_compact_end(struct journal *j, struct error *err);

#define JOURNAL_LINE_BYTES 256 /* enough for any line of a change but a settle's, and its mark */

#endif
