/*
 * reshard: a copy of a checkpoint with another number of parts.  Servers can read a checkpoint with
 * any number of parts.  But if it has one part for each server, it is read faster, and each part
 * can be on the host of its server.
 */
#ifndef PACELINE_CKPT_RESHARD_H
#define PACELINE_CKPT_RESHARD_H

#include "ckpt/ckpt.h"

/* Makes the directory of a checkpoint that is to be written. It must be empty or not exist; the
 * remains of a maker that was killed are removed. ERROR_CANTCREAT: it can't be made.
 * ERROR_TEMPFAIL: another process is making it. *making is for ckpt_made_dir(), which ends this: if
 * result is not 0, it removes out and returns -1. */
int ckpt_make_dir(const char *out, int *making, struct error *err);
int ckpt_made_dir(const char *out, int making, int result, struct error *err);

/* Writes c's parameters, slots and notes as `parts` (1..MAP_PARTS_MAX) parts of even shares to the
 * new directory out, and copies all its other files. level: of compression. If it fails, out is
 * removed. */
int ckpt_reshard(struct ckpt *c, const char *out, uint32_t parts, int level, struct error *err);

#endif
