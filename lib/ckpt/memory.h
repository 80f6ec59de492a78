/*
 * memory: a part of the last cut, once more, in memory: not compressed, so that a server that is started
 * again on the same host need neither read the disk nor inflate.
 *
 * It is a part file without a name, sealed, that a process beside the server holds (base/keep.h),
 * with a link to it in a directory; or, if there is no such process, a file in that directory,
 * which should then be in memory (tmpfs).  The link's name says which file of which checkpoint it
 * stands for: part-I.SUM, with the checksum that MANIFEST has of that file.  So it is never taken
 * for another, and a reader that finds none reads the disk.  There is one of each part: a new one
 * takes the place of the one before.
 */
#ifndef PACELINE_CKPT_MEMORY_H
#define PACELINE_CKPT_MEMORY_H

#include "ckpt/ckpt.h"

/* Writes it; sum is that of the part's file. keeper: the socket of the process that will hold it;
 * -1: none. Those of other cuts of this part are removed first. A failure leaves nothing of it.
 * None of these functions writes or removes anything in a directory that others may have made
 * (fs_is_ours). */
int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, int keeper, struct error *err);
/* Removes those of this part. */
void ckpt_memory_forget(const char *dir, uint32_t part);
/* Removes those of all parts. */
void ckpt_memory_forget_all(const char *dir);
/* Parts of c that are in dir are read from there; how many. */
uint32_t ckpt_memory_use(struct ckpt *c, const char *dir);

#endif
