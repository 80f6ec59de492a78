/*
 * part: a stream of parameters (param/stream.h) as a file of a checkpoint (paceline-checkpoint(5)).
 *
 * The stream's first record, the values of all blocks one behind the other, the other records as an
 * index, in which a block says where its bytes are, and a last line of fixed length, so that a
 * reader finds the index from the end:
 *
 *     part version=1 part=0 parts=2 dense-begin=0 dense=5 dense-slots=1 width=2 row-slots=1 rows=2\n
 *     (values)
 *     note key=steps value=12\n
 *     block section=dense at=93 count=5 planes=5,5,5,3 sum=...\n
 *     end index=00000000000000000104 sum=...\n
 *
 * The last line's sum covers the first line and everything from the index on up to its own digits;
 * each block has one of its own, and the whole file one in MANIFEST.
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

/* ---- writing, in one pass; for a forked child as well ---- */

struct part_writer;

/* path is made (0600) and must not exist yet. */
int part_create(struct part_writer **out, const char *path, struct error *err);
/* The same into an open file, empty, which stays as it is after a failure; name is for messages. fd
 * stays the caller's. */
int part_create_in(struct part_writer **out, int fd, const char *name, struct error *err);
/* How much time compression may take (param/planes.h; PLANES_LEVEL without this), and who shares the
 * work, NULL: the caller alone. Before the stream is begun. */
void part_compress(struct part_writer *w, int level, struct team *team);
/* Where the stream goes; as long as w. */
const struct stream_sink *part_sink(struct part_writer *w);
/* After a whole stream: writes what is left, fsyncs, closes; *bytes and *sum are for MANIFEST. w is
 * gone in any case; after a failure the file is removed. */
int part_finish(struct part_writer *w, uint64_t *bytes, uint64_t *sum, struct error *err);
/* Gives up: the file is removed. NULL is fine. */
void part_abandon(struct part_writer *w);

/* ---- reading ---- */

struct part_reader;

/* Reads and checks the first line, the index and the last line. */
int part_open(struct part_reader **out, const char *path, struct error *err);
void part_close(struct part_reader *p); /* NULL is fine */

/* Who shares the work of reading; NULL, as at first: the caller alone. */
void part_share(struct part_reader *p, struct team *team);

/* Its shape and notes. */
const struct stream_reader *part_stream(const struct part_reader *p);
uint64_t part_row_count(const struct part_reader *p);

/* What is wanted of a checkpoint: elements of the flat vector, and rows whose keys are at these
 * places. */
struct part_want {
	uint64_t dense_begin, dense_end;
	uint64_t place_begin, place_end;
};

/* Gives the taker every block in which something of it is; the other blocks are not read. It may be
 * called by any of the threads that share the work, never by two at once. A damaged block: ERROR_DATA,
 * its place names file and block. */
int part_read(struct part_reader *p, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err);

/* Reads every block and checks it. bad(place, text) is called for each damaged one; returns how many
 * there were. */
typedef void part_bad_fn(const char *place, const char *text, void *arg);
int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg);

#endif
