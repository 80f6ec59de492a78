/*
 * kept_file: the pushes that a worker keeps for one part, in a file of memory that outlives it.
 *
 * The file is in a directory of the worker's host, which should be in memory (tmpfs).  Its owner
 * holds a lock on it as long as it lives; a file without a lock is of a worker that has died, and
 * any process of the same user may adopt it.  Without a directory it is a file without a name,
 * which goes with its worker.
 *
 * It begins with a record, `kept-file`, that says whose it is; then a table says where the pushes
 * are, each the request `kept` with its payload.  A push is in the table when it is whole, and only
 * then the part hears of it.  The room of what is not needed any more is used again, and given back
 * with the file.
 */
#ifndef PACELINE_WORK_KEPT_FILE_H
#define PACELINE_WORK_KEPT_FILE_H

#include "base/error.h"
#include "base/option.h"

#include <stddef.h>
#include <stdint.h>

struct kept_file;

#define KEPT_FILE_PART_MAX 512
#define KEPT_FILE_MAX ((size_t)256 << 20) /* bytes of pushes */

struct kept_owner {
	char part[KEPT_FILE_PART_MAX]; /* its socket */
	char worker[OPTION_ID_MAX];
	uint64_t generation, incarnation;
};

/* dir NULL: without a name. */
int kept_file_new(struct kept_file **out, const struct kept_owner *owner, const char *dir,
		  struct error *err);
/* A file of a worker that has died and that kept pushes for this part: 1; 0: there is none, or it
 * is being adopted already. One that is damaged is removed, and the log says so. */
int kept_file_adopt(struct kept_file **out, const char *dir, const char *part);
/* needless: the file goes; else another process may adopt it. NULL is fine. */
void kept_file_close(struct kept_file *f, int needless);

const struct kept_owner *kept_file_owner(const struct kept_file *f);
size_t kept_file_bytes(struct kept_file *f); /* 0: nothing is kept; NULL is fine */
/* line[len): a request up to the fields that say where its payload is. -1: there is no room. */
int kept_file_add(struct kept_file *f, const char *line, size_t len, uint64_t sequence,
		  const void *payload, size_t bytes, struct error *err);
/* Those below this sequence go. */
void kept_file_until(struct kept_file *f, uint64_t sequence);

/* The first push from this sequence on: request and payload; text is the caller's. 0: there is
 * none; -1: err. */
struct kept_push {
	uint64_t sequence;
	size_t head, bytes;
	char *text;
};
int kept_file_get(struct kept_file *f, uint64_t sequence, struct kept_push *out, struct error *err);

#endif
