/*
 * part: a stream of parameters (param/stream.h) as a file of a checkpoint (paceline-checkpoint(5)).
 *
 * The file has the stream's first record, the values of all blocks without gaps, and the other
 * records as an index, in which each block says where its bytes are (at=).  A last line of fixed
 * length says where the index begins, so that a reader finds it from the end:
 *
 *     part version=1 part=0 parts=2 dense-begin=0 dense=5 dense-slots=1 width=2 row-slots=1 rows=2\n
 *     (values)
 *     note key=steps value=12\n
 *     block section=dense at=93 count=5 planes=5,5,5,3 sum=...\n
 *     end index=00000000000000000104 sum=...\n
 *
 * The sum of the last line covers the first line and everything from the index up to its own
 * digits.  Each block has a sum of its own, and MANIFEST has one of the whole file.
 */
#ifndef PACELINE_CKPT_PART_H
#define PACELINE_CKPT_PART_H

#include "base/error.h"
#include "param/stream.h"

#include <stddef.h>
#include <stdint.h>

#define PART_END_FORMAT "end index=%020" PRIu64 " sum="
#define PART_END_PREFIX_BYTES (10 + 20 + 5)
#define PART_END_BYTES (PART_END_PREFIX_BYTES + 16 + 1)

/* ---- writing: in one pass; a forked child may do it ---- */

struct part_writer;

/* Makes the file (mode 0600); it must not exist yet. */
int part_create(struct part_writer **out, const char *path, struct error *err);
/* The same into an open, empty file. A failure does not remove it. name is for messages; the caller
 * closes fd. */
int part_create_in(struct part_writer **out, int fd, const char *name, struct error *err);
/* Sets how much time compression may take (param/planes.h; PLANES_LEVEL without this call), and who
 * shares the work (NULL: the caller alone). Call it before the stream is begun. */
void part_compress(struct part_writer *w, int level, struct team *team);
/* The sink for the stream; valid as long as w. */
const struct stream_sink *part_sink(struct part_writer *w);
/* Call it after a whole stream: writes what is left, calls fsync and closes. *bytes and *sum are
 * for MANIFEST. w is freed in any case; after a failure the file is removed. */
int part_finish(struct part_writer *w, uint64_t *bytes, uint64_t *sum, struct error *err);
/* Gives up: removes the file and frees w. NULL is fine. */
void part_abandon(struct part_writer *w);

/* ---- reading ---- */

struct part_reader;

/* Reads and checks the first line, the index and the last line. */
int part_open(struct part_reader **out, const char *path, struct error *err);
void part_close(struct part_reader *p); /* NULL is fine */

/* Sets who shares the work of reading; NULL: the caller alone, as at first. */
void part_share(struct part_reader *p, struct team *team);

/* Its shape and notes. */
const struct stream_reader *part_stream(const struct part_reader *p);
uint64_t part_row_count(const struct part_reader *p);

/* What is wanted of a checkpoint: elements of the flat vector, and rows whose keys have these
 * places. Both ranges end before their end. */
struct part_want {
	uint64_t dense_begin, dense_end;
	uint64_t place_begin, place_end;
};

/* Gives the taker each block that has something of what is wanted; other blocks are not read. Any
 * of the threads that share the work may call the taker, but never two at once. ERROR_DATA: a block
 * is damaged; the error's place names the file and the block. */
int part_read(struct part_reader *p, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err);

/* Reads and checks all blocks. bad(place, text) is called for each damaged one. Returns how many
 * there were. */
typedef void part_bad_fn(const char *place, const char *text, void *arg);
int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg);

#endif
