/*
 * memory: a part of the last cut, once more, in memory: not compressed, so that a server that is started
 * again on the same host need neither read the disk nor inflate.
 *
 * It is a part file without a name, sealed, that a process beside the server holds (base/keep.h), with a
 * link to it in a directory; or, where nobody is there to hold it, a file in that directory, which
 * should lie in memory then (tmpfs). The link's name says which file of which checkpoint it is instead
 * of: part-I.SUM, with the checksum that MANIFEST has of that one.  So it is never taken for another,
 * and whoever finds none reads the disk.  There is one of each part: a new one takes the place of the
 * one before.
 */
#ifndef PACELINE_CKPT_MEMORY_H
#define PACELINE_CKPT_MEMORY_H

#include "ckpt/ckpt.h"

/* Writes it; sum is that of the part's file. keeper: the socket of who is to hold it; -1: nobody. Those
 * of other cuts of this part go first. Nothing is left of it after a failure. In a directory that others
 * may have made (fs_is_ours) nothing is written, and nothing removed, by none of these. */
int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, int keeper, struct error *err);
/* Those of this part go. */
void ckpt_memory_forget(const char *dir, uint32_t part);
/* Those of all parts go. */
void ckpt_memory_forget_all(const char *dir);
/* Parts of c that are in dir are read from there; how many. */
uint32_t ckpt_memory_use(struct ckpt *c, const char *dir);

#endif
