/*
 * part: one server's share of a checkpoint, as a file (paceline-checkpoint(5)).
 *
 * A part file is a first line, blocks, an index of records and a last line of fixed length.  A block
 * holds up to PART_BLOCK_BYTES of one section's 4-byte values, split into four byte planes; a plane
 * is stored as it is, as a single byte when all its bytes are the same, or deflated without matches
 * (Z_HUFFMAN_ONLY) where that gains.  Measured on weights: the plane of sign and exponent shrinks
 * about three times, mantissa planes never do, so a plane's histogram decides and mantissas cost no
 * time.  Each block has an XXH3 checksum, the index has one, the whole file another (it goes into
 * MANIFEST).
 *
 * Sections: `dense` and `dense.s0`, `dense.s1`, ... (optimiser slots) hold the range
 * [begin, begin+count) of the flat vector; `rows.keys`, `rows` and `rows.s0`, ... hold rows in any
 * order, block by block the same rows in all of them.
 *
 * Values are little-endian, as in memory.
 */
#ifndef PACELINE_CKPT_PART_H
#define PACELINE_CKPT_PART_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define PART_BLOCK_BYTES (1u << 20) /* values before encoding */
#define PART_SLOTS_MAX 4            /* optimiser slots beside the parameters */

/* ---- writing, in one pass; for a forked child as well ---- */

struct part_writer;

/* What the part will hold. */
struct part_shape {
	uint32_t part, parts;  /* this is part i of n */
	uint64_t dense_begin;  /* the range of the flat vector */
	uint64_t dense_count;
	uint32_t dense_slots;  /* optimiser slots of the dense range: dense.s0, ... */
	uint32_t width;        /* floats a row; 0: no rows */
	uint32_t row_slots;    /* optimiser slots of rows (each width floats a row): rows.s0, ... */
};

/* path is made (0600) and must not exist yet. */
int part_create(struct part_writer **out, const char *path, const struct part_shape *shape,
		struct error *err);

/* A small fact about this part's state that is no array (an optimiser's name, a step counter):
 * kept under a key of [a-z][a-z0-9-]*, at most 32 of them. */
int part_note(struct part_writer *w, const char *key, const char *value, struct error *err);

/* The next values of the dense range: slot -1 for the parameters, 0.. for an optimiser slot.  In any
 * number of pieces; each slot must have got dense_count values in the end. */
int part_dense(struct part_writer *w, int slot, const float *values, uint64_t count,
	       struct error *err);

/* Some more rows, in any order, no key twice over all pieces: keys[rows], values[rows][width], and
 * slots[s] the s-th slot's [rows][width] (slots may be NULL when there is none). */
int part_rows(struct part_writer *w, uint64_t rows, const uint32_t *keys, const float *values,
	      const float *const *slots, struct error *err);

/* Writes what is left, fsyncs, closes; *bytes and *sum are for MANIFEST. w is gone in any case; after
 * a failure the file is removed. */
int part_finish(struct part_writer *w, uint64_t *bytes, uint64_t *sum, struct error *err);
/* Gives up: the file is removed. NULL is fine. */
void part_abandon(struct part_writer *w);

/* ---- reading ---- */

struct part_reader;

/* Reads and checks the first line, the index and the last line. */
int part_open(struct part_reader **out, const char *path, struct error *err);
void part_close(struct part_reader *p); /* NULL is fine */

const struct part_shape *part_get_shape(const struct part_reader *p);
const char *part_get_note(const struct part_reader *p, const char *key); /* or NULL */
/* Key and value of the i-th note; NULL behind the last. */
const char *part_note_at(const struct part_reader *p, size_t i, const char **value);
uint64_t part_row_count(const struct part_reader *p);

/* Elements begin..begin+count-1 of the flat vector, all inside this part's range. slot as above.
 * A damaged block: ERROR_DATA, its place names file and block. */
int part_read_dense(struct part_reader *p, int slot, uint64_t begin, uint64_t count, float *out,
		    struct error *err);

/* Rows, a block at a time. -1 from the callback ends the walk and is handed on. */
typedef int part_rows_fn(uint64_t rows, const uint32_t *keys, const float *values,
			 const float *const *slots, void *arg, struct error *err);
int part_each_rows(struct part_reader *p, part_rows_fn *fn, void *arg, struct error *err);

/* Reads every block and checks it. bad(place, text) is called for each damaged one; returns how many
 * there were, or -1 when the file can't be read. */
typedef void part_bad_fn(const char *place, const char *text, void *arg);
int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg, struct error *err);

#endif
