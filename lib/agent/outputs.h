/*
 * outputs: a directory with one file for each shard: what its command printed.  A file gets its
 * name only when the command has succeeded and the file is on the disk.  So files with a name are
 * whole, and each shard that is done has its file, even after a power cut.
 *
 * The name is EPOCH-BEGIN, both padded with zeros to a fixed width, so that names sort by epoch and
 * row.  A file that still grows is called .EPOCH-BEGIN.N.ID; outputs_open() removes those that an
 * earlier life of this id left.
 *
 * A thread waits for the disk, for all files together that became ready meanwhile.
 */
#ifndef PACELINE_AGENT_OUTPUTS_H
#define PACELINE_AGENT_OUTPUTS_H

#include "work/shards.h"

#include <stddef.h>
#include <stdint.h>

struct outputs;

/* epochs, samples: the largest numbers in names. Makes dir if it is not there. */
int outputs_open(struct outputs **out, const char *dir, const char *id, uint64_t epochs,
		 uint64_t samples, struct error *err);
/* Waits for what was kept. NULL is fine. */
void outputs_free(struct outputs *o);

/* A file that is written; all zero but for fd, which is -1: none. */
struct output {
	int fd;
	uint64_t id, epoch, begin, number; /* number: counts the files that this process began */
};

int outputs_begin(struct outputs *o, const struct piece *piece, struct output *out,
		  struct error *err);
/* Removes a file that is being written. */
void outputs_drop(struct outputs *o, struct output *out);
/* Gives it its name once it is on the disk; outputs_next() says when that is done. */
int outputs_keep(struct outputs *o, struct output *out, struct error *err);
/* Whether the disk is full, so that the last output may be missing. */
int outputs_is_full(const struct outputs *o);

int outputs_fd(const struct outputs *o); /* readable when there may be a next */
size_t outputs_waiting(const struct outputs *o); /* kept, and not yet returned by outputs_next() */
/* 1: the file of this shard has its name; 0: none for now; -1: one could not be written. */
int outputs_next(struct outputs *o, uint64_t *id, struct error *err);

#endif
