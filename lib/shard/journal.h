/*
 * journal: keeps a queue's lines, so that they survive a crash (paceline-journal(5)).
 *
 * A journal is a directory with one file, journal.NNNNNN.  The file has the state as it was when
 * the file was begun, and then every change since.  Behind the last line it is filled with zeros
 * that were written earlier.  So a line has its place on the disk before it exists, fdatasync has
 * no size to update, and a file that lost its end is known by its missing zeros.
 *
 * A file that has grown long is replaced by one with the next number.  A forked child writes its
 * state from a copy, so that nobody waits.  Each start replaces the file, too, because what was
 * read may be only in the kernel's memory.
 *
 * Lines are buffered until journal_commit() or journal_write().  No answer about them may be sent
 * before.
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
	JOURNAL_OFF     /* commits write, and do not wait for the disk */
};

/* Gives every line of the state to `line`. */
typedef void journal_state_fn(void *owner, void (*line)(void *arg, const char *line, size_t len),
			      void *arg);

/* Makes dir if it is missing, and locks it (ERROR_TEMPFAIL: it is locked already). Removes files
 * that a crash left half written. long_bytes: see journal_is_long(). */
int journal_open(struct journal **out, const char *dir, enum journal_sync sync, uint64_t long_bytes,
		 struct error *err);
void journal_close(struct journal *j); /* NULL is fine; it does not commit */
/* Whether there is a file to be replayed. */
int journal_exists(const struct journal *j);
const char *journal_path(const struct journal *j); /* of the file */

/* Gives each line of the newest file to `line`, as scan_lines() does. Skips a torn tail, with a
 * message. ERROR_DATA: the file is damaged. The file stays as it is, and nothing may be added to
 * it, as its lines may be only in the kernel's memory: the caller must go on with journal_begin()
 * or journal_keep(). */
int journal_replay(struct journal *j,
		   int (*line)(void *arg, const char *line, size_t len, struct error *err),
		   void *arg, struct error *err);
/* The same for a journal that another process may have in use: changes nothing. ERROR_NOINPUT: there
 * is none. It may fail because the owner replaces the file, or writes while it is read: try again. */
int journal_read(const char *dir,
		 int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
		 struct error *err);
/* For when there is no room for a new file: the replayed file stays in use. It is written again in
 * place, which needs no room, and synced. */
int journal_keep(struct journal *j, struct error *err);
/* For when the newest file can't be used: adds the name of an older whole file to err's text. */
void journal_name_older(struct journal *j, struct error *err);

/* Begins a new file with this state. It replaces all older ones durably; buffered lines are
 * dropped. -1: the old file stays in use, unless journal_is_broken(). */
int journal_begin(struct journal *j, journal_state_fn *state, void *owner, struct error *err);

/* Reserves room for lines of so many bytes, sums included. -1: there is no room, and nothing has
 * changed, unless journal_is_broken(). */
int journal_reserve(struct journal *j, size_t bytes, struct error *err);
/* Adds a line, for which room was reserved. */
void journal_add(struct journal *j, const char *line, size_t len);
/* Whether lines wait for journal_commit() or journal_write(). */
int journal_is_pending(const struct journal *j);
/* Puts all lines on the disk, those of journal_write(), too. -1: journal_is_broken() from then
 * on. */
int journal_commit(struct journal *j, struct error *err);
/* Gives all lines to the kernel: they survive this process, but not the machine. -1: as above. */
int journal_write(struct journal *j, struct error *err);
/* Whether it is unknown what is on the disk. Then nothing may be acknowledged any more: the owner
 * must exit with status 74, and the next replay decides. */
int journal_is_broken(const struct journal *j);

/* Whether the changes are longer than long_bytes of journal_open(), and longer than the state. */
int journal_is_long(const struct journal *j);
/* Begins to replace the file: a child writes the state, and *fd becomes readable when it is done.
 * There is only one at a time. */
int journal_compact(struct journal *j, journal_state_fn *state, void *owner, int *fd,
		    struct error *err);
/* Ends the replacement and closes *fd. -1: the old file stays in use, unless
 * journal_is_broken(). */
int journal_compact_end(struct journal *j, struct error *err);

/* Enough for a change's line (except a settle's) and its SCAN_MARK. */
#define JOURNAL_LINE_BYTES 256

#endif
