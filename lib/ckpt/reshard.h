/*
 * reshard: a checkpoint once more, for another number of servers.  Servers can read any checkpoint
 * whatever its parts are; one that has as many parts as servers is read faster, and each of its
 * parts can lie with the server that wants it.
 */
#ifndef PACELINE_CKPT_RESHARD_H
#define PACELINE_CKPT_RESHARD_H

#include "ckpt/ckpt.h"

/* Makes the directory of a checkpoint that is to be written. It must be empty or not exist; what is
 * left of one whose maker was killed is removed. ERROR_CANTCREAT; ERROR_TEMPFAIL: another process
 * makes it. *making: for ckpt_made_dir(), which ends this: if result is not 0, it removes out and
 * returns -1. */
int ckpt_make_dir(const char *out, int *making, struct error *err);
int ckpt_made_dir(const char *out, int making, int result, struct error *err);

/* Writes c's parameters, slots and notes as `parts` (1..MAP_PARTS_MAX) even parts to the new
 * directory out, and all its other files as they are; level: of compression. On failure out is
 * removed. */
int ckpt_reshard(struct ckpt *c, const char *out, uint32_t parts, int level, struct error *err);

#endif
