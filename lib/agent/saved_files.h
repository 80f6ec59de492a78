/*
 * saved_files: what a trainer has written for a checkpoint, put on the disk, measured and summed.  A
 * thread does that, because a disk may take long, and the trainer goes on meanwhile.
 *
 * A trainer may also write one file into memory, which is faster than any disk.  The thread copies
 * it to the disk, and gets memory for the next time: to write into memory that is there already
 * takes a third of the time.  What was written is held by another process once it is a
 * checkpoint (ckpt/memory.h); until then that one still holds the one before.
 */
#ifndef PACELINE_AGENT_SAVED_FILES_H
#define PACELINE_AGENT_SAVED_FILES_H

#include "base/error.h"
#include "ckpt/ckpt.h"

#include <stddef.h>
#include <stdint.h>

struct saved_files;

/* Where a checkpoint is also kept in memory; dir NULL: nowhere. The strings stay for ever. */
struct saved_memory {
	const char *dir, *worker; /* as ckpt_memory_keep() takes them */
	int keeper;
	const char *load_root; /* as load_new() takes it */
};

/* path: a file, or a directory with all that is below it; relative to dir, which is in the
 * checkpoint's directory cut. memory: a descriptor of what is to be the file path, which is taken
 * over; -1: the trainer has written path. path NULL: nothing is put on the disk, the memory is only
 * to be held; -1: there is none, only some for the next time is wanted. next: bytes of that.
 * -1: path does not exist. */
int saved_files_start(struct saved_files **out, const char *cut, const char *dir, const char *path,
		      int memory, uint64_t next, const struct saved_memory *kept,
		      struct error *err);
/* Whether this machine has memory left for two more states of so many bytes. */
int saved_files_fit(const char *load_root, uint64_t bytes);
/* Readable when it is done. */
int saved_files_fd(const struct saved_files *s);
struct saved_state {
	int fd; /* a file of memory; -1: none */
	uint64_t sum;
};

/* Call when the descriptor is readable; frees s. Gives the name of what was saved, as in MANIFEST,
 * and lines `file name= bytes= sum=`, `held bytes= sum=`, which the caller frees; what is to be held,
 * and memory for the next time, or -1. */
int saved_files_take(struct saved_files *s, char name[CKPT_FILE_NAME_MAX], char **lines, size_t *len,
		     struct saved_state *held, int *memory, struct error *err);
/* The result is not needed any more: the thread goes on alone, and ends with the process at the
 * latest. NULL is fine. */
void saved_files_abandon(struct saved_files *s);

#endif
