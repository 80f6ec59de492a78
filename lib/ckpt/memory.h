/*
 * memory: a part of the last cut, once more, in memory: not compressed, so that a server that is started
 * again on the same host need neither read the disk nor inflate.
 *
 * It is a part file in a directory that lies in memory (tmpfs) and that outlives the server.  Its name says which file of which checkpoint it is instead of: part-I.SUM, with the
 * checksum that MANIFEST has of that one.  So it is never taken for another, and whoever finds none
 * reads the disk.  There is one of each part: a new one takes the place of the one before.
 */
#ifndef PACELINE_CKPT_MEMORY_H
#define PACELINE_CKPT_MEMORY_H

#include "ckpt/ckpt.h"

/* Writes it; sum is that of the part's file. Those of other cuts of this part go first. Nothing is left
 * of it after a failure. */
int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, struct error *err);
/* Those of this part go. */
void ckpt_memory_forget(const char *dir, uint32_t part);
/* Parts of c that are in dir are read from there; how many. */
uint32_t ckpt_memory_use(struct ckpt *c, const char *dir);

#endif
