/*
 * memory: a copy of a part of the last cut, in memory and not compressed.  A server that is started
 * again on the same host then needs neither to read the disk nor to inflate.
 *
 * It is a part file without a name, sealed, that a process beside the server holds (base/keep.h); a
 * link in a directory leads to it.  If there is no such process, it is a file in that directory,
 * which should then be in memory (tmpfs).  The name of the link or file is part-I.SUM, with the
 * checksum that MANIFEST has of the part's file.  So it is never mistaken for another one, and a
 * reader that finds none reads the disk.  There is one copy of each part: a new one replaces the
 * old one.
 *
 * What a trainer has saved as one file (agent(1)) is kept in the same way, as state-WORKER.SUM.  As it
 * is the same file, it is read before it is used.
 */
#ifndef PACELINE_CKPT_MEMORY_H
#define PACELINE_CKPT_MEMORY_H

#include "ckpt/ckpt.h"

#define CKPT_MEMORY_STATE "paceline-state" /* the name of a file of memory that has a trainer's state */

/* Writes the copy. sum: checksum of the part's file. keeper: socket of the process that will hold
 * it; -1: there is none. Copies of other cuts of this part are removed first. If it fails, nothing
 * is left. None of these functions writes or removes anything in a directory that somebody else may
 * have made (fs_is_ours()). */
int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, int keeper, struct error *err);
/* Removes the copies of this part. */
void ckpt_memory_forget(const char *dir, uint32_t part);
/* Removes the copies of all parts and states, and what workers kept there. */
void ckpt_memory_forget_all(const char *dir);
/* From now on parts of c that have a copy in dir are read from there. Returns how many. */
uint32_t ckpt_memory_use(struct ckpt *c, const char *dir);

/* Has keeper hold fd, a file of memory of that name with what this worker's trainer has saved, in place
 * of what it holds. sum: of the file. fd stays the caller's. */
int ckpt_memory_keep(const char *dir, const char *worker, uint64_t sum, int fd, int keeper,
		     struct error *err);
/* A descriptor of what is held for this worker, if it is of this length and sum; else -1. */
int ckpt_memory_find(const char *dir, const char *worker, uint64_t bytes, uint64_t sum);

#endif
