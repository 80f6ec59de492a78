/*
 * outputs: a directory with one file a shard: what its command printed.  A file has its name only
 * when the command has succeeded and the file is on the disk; so what is there is whole, and a shard
 * that is done has its file, also after a power cut.
 *
 * The name is EPOCH-BEGIN, each padded with zeros to one width, so that the order of names is that of
 * epochs and rows.  Files that grow are called .EPOCH-BEGIN.N.ID; those that a former life of this id
 * left are removed by outputs_open().
 *
 * A thread waits for the disk, for all files together that are ready meanwhile.
 */
#ifndef PACELINE_AGENT_OUTPUTS_H
#define PACELINE_AGENT_OUTPUTS_H

#include "work/shards.h"

#include <stddef.h>
#include <stdint.h>

struct outputs;

/* epochs, samples: how large the numbers in names can be. dir is made if it is not there. */
int outputs_open(struct outputs **out, const char *dir, const char *id, uint64_t epochs,
		 uint64_t samples, struct error *err);
/* Waits for what was kept. NULL is fine. */
void outputs_free(struct outputs *o);

/* A file that is written; all zero but for fd, which is -1: none. */
struct output {
	int fd;
	uint64_t id, epoch, begin, number; /* number: which of all that this process began */
};

int outputs_begin(struct outputs *o, const struct piece *piece, struct output *out,
		  struct error *err);
/* As if it had never been. */
void outputs_drop(struct outputs *o, struct output *out);
/* Gives it its name, once it is on the disk: outputs_next() tells. */
int outputs_keep(struct outputs *o, struct output *out, struct error *err);
/* Whether the disk is full, so that what was printed last may be missing. */
int outputs_is_full(const struct outputs *o);

int outputs_fd(const struct outputs *o); /* readable when there may be a next */
size_t outputs_waiting(const struct outputs *o); /* kept, and not told by next */
/* 1: the file of this shard has its name; 0: none for now; -1: one could not be written. */
int outputs_next(struct outputs *o, uint64_t *id, struct error *err);

#endif
