/*
 * source: the bytes of a data file, plain, gzip or zstd, in order or from any offset.
 *
 * Offsets are those of the text (uncompressed).  gzip and zstd are known by their first bytes.
 * Several members (gzip) or frames (zstd) behind one another are one stream; zero padding behind the
 * last member is left out.  Random access needs the access points collected by a whole pass
 * (source_collect): starts of members and frames, and boundaries of blocks inside of members, with the
 * text before them that the blocks behind need: the window.
 *
 * A source belongs to one thread at a time.
 */
#ifndef PACELINE_DATA_SOURCE_H
#define PACELINE_DATA_SOURCE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SOURCE_PACKED_MAX (UINT64_C(64) << 20) /* bytes of a window as an index keeps it */
#define SOURCE_BITS_MAX 7

struct source;

enum source_packing { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD };

const char *source_packing_name(enum source_packing packing); /* none, gzip, zstd */
int source_packing_find(const char *name); /* -1: none of them */

/* What tells whether a file is still the one it was. */
struct source_identity {
	uint64_t bytes; /* on disk */
	uint64_t mtime_ns;
	uint64_t head_bytes, head_sum; /* XXH3_64bits of the first head_bytes, 64 KiB at most */
};

/* A place in a packed file where reading may begin. window_len 0: the start of a member or frame. */
struct source_point {
	uint64_t out;   /* offset in the text */
	uint64_t in;    /* byte of the file that follows; the last `bits` of the byte before count too */
	uint32_t bits;  /* gzip: 0..7; zstd: 0 */
	uint32_t window_len; /* length of the packed window; 0: none is needed */
	uint64_t window_sum; /* XXH3_64bits of those bytes */
};

/* A regular file; anything else is ERROR_NOINPUT, saying what it is and what to do. */
int source_open(struct source **out, const char *path, struct error *err);
/* A descriptor that is read from where it stands; it stays the caller's. name is for places. */
int source_open_fd(struct source **out, int fd, const char *name, struct error *err);
void source_close(struct source *s); /* NULL is fine */

const char *source_name(const struct source *s);
enum source_packing source_packing(const struct source *s);
/* The descriptor of a plain regular file, for splice(2) and the like, from source_offset() on; skip
 * the bytes taken that way with source_seek(). -1: there is none. */
int source_plain_fd(const struct source *s);
/* Of a regular file; reads its head. */
int source_identify(struct source *s, struct source_identity *out, struct error *err);
/* ERROR_DATA when size or time of the open file are not those of id any more. */
int source_check_unchanged(struct source *s, const struct source_identity *id, struct error *err);

/* Up to max bytes; *got == 0 means the end. Damaged or truncated packing: ERROR_DATA, place is
 * the file, the text names the byte of the file. */
int source_read(struct source *s, void *data, size_t max, size_t *got, struct error *err);
/* At its start: ERROR_DATA if the first bytes are those of a file that holds no rows of text
 * (Parquet, xz, UTF-16, ...), saying what it is and how to get rows from it. */
int source_check_text(const struct source *s, struct error *err);
/* Whether source_read() would return without waiting for the descriptor. */
int source_ready(struct source *s);
uint64_t source_offset(const struct source *s);   /* in the text */
uint64_t source_consumed(const struct source *s); /* of the file's bytes on disk, roughly */

/* From now on, from the start of the file: `point` is called for the start of a member or frame, and
 * for a block boundary, now and then (at least *span bytes of text after the last; the callee may make
 * *span larger). window is what is needed of the text before it, window_len bytes, none for a start. -1 ends the
 * reading with its error. */
typedef int source_point_fn(const struct source_point *p, const void *window, size_t window_len,
			    void *arg, struct error *err);
void source_collect(struct source *s, uint64_t *span, source_point_fn *point, void *arg);

/* To an offset of a plain file. */
int source_seek(struct source *s, uint64_t offset, struct error *err);
/* To an access point of a packed file, with its window (NULL where none is needed). */
int source_seek_point(struct source *s, const struct source_point *p, const void *window,
		      size_t window_len, struct error *err);
/* A window as an index keeps it, and back; *out is to be freed. -1: out of memory, or damaged. */
int source_pack_window(const void *window, size_t len, unsigned char **out, size_t *out_len);
int source_unpack_window(const void *packed, size_t len, unsigned char **out, size_t *out_len);
/* Reads and drops bytes of the text up to offset, which must not be behind. */
int source_skip_to(struct source *s, uint64_t offset, struct error *err);

#endif
