/*
 * saved_files: what a trainer has written for a checkpoint, put on the disk, measured and summed.  A
 * thread does that, because a disk may take long, and the trainer goes on meanwhile.
 */
#ifndef PACELINE_AGENT_SAVED_FILES_H
#define PACELINE_AGENT_SAVED_FILES_H

#include "base/error.h"
#include "ckpt/ckpt.h"

#include <stddef.h>

struct saved_files;

/* path: a file, or a directory with all that is below it; relative to dir, which is in the
 * checkpoint's directory cut. -1: path does not exist. */
int saved_files_start(struct saved_files **out, const char *cut, const char *dir, const char *path,
		      struct error *err);
/* Readable when it is done. */
int saved_files_fd(const struct saved_files *s);
/* Call when the descriptor is readable; frees s. Gives the name of what was saved, as in MANIFEST,
 * and lines `file name= bytes= sum=`, which the caller frees. */
int saved_files_take(struct saved_files *s, char name[CKPT_FILE_NAME_MAX], char **lines, size_t *len,
		     struct error *err);
/* The result is not needed any more: the thread goes on alone, and ends with the process at the
 * latest. NULL is fine. */
void saved_files_abandon(struct saved_files *s);

#endif
