/*
 * stream: the form in which the parameters of one part move: into a file of a checkpoint, or to
 * another process.  Everything that moves parameters writes and reads this form, with the same
 * checks.
 *
 * A stream is records, in this order; values follow a block:
 *
 *     part version=1 part=0 parts=2 dense-begin=0 dense=5 dense-slots=1 width=2 row-slots=1 rows=2
 *     note key=steps value=12
 *     block section=dense count=5 planes=5,5,5,3 sum=...
 *     block section=rows.keys count=2 low=7 high=9 planes=2,2,2,1 sum=...
 *
 * The sections `dense` and `dense.s0`, `dense.s1`, ... (optimiser slots) hold the part's range of
 * the flat vector, in order.  The sections `rows.keys`, `rows` and `rows.s0`, ... hold its rows, in
 * any order.  They come in groups: one block of each of these sections, in this order, with the
 * same rows.
 *
 * A block holds at most PLANES_VALUES_MAX values of 4 bytes, little-endian.  They are either planes
 * (planes.h), and sum= is XXH3 of the planes' bytes; or, without planes= and sum=, the plain
 * values.  The plain form is for values that do not leave memory: they need no checksum, and a
 * hand-over of 100 MB would spend a third of its time on it. low= and high= are the least and
 * greatest place (map.h) of a block's keys, so that a reader of a file can skip blocks of which it
 * wants no row.  Older files have neither them nor rows=.
 *
 * A part of a checkpoint may have only some of its rows, because the others are as in an older
 * checkpoint.  Then it is of version 2, and all-rows= in its first record says how many rows both
 * have together.
 *
 * A sink decides where records and values go, a source where values come from: a file has its
 * records at its end (ckpt/part.h); a conversation sends each record before its values
 * (ps/handover.c).
 *
 * The values of all sections but rows.keys are finite; a value that is not finite is neither
 * written nor accepted.
 */
#ifndef PACELINE_PARAM_STREAM_H
#define PACELINE_PARAM_STREAM_H

#include "base/error.h"
#include "base/team.h"
#include "param/map.h"
#include "param/planes.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define STREAM_SLOTS_MAX 4 /* optimiser slots beside the parameters */
#define STREAM_NOTES_MAX 32
#define STREAM_NOTE_MAX 256 /* bytes of a key or value, NUL included */
#define STREAM_SECTIONS_MAX (3 + 2 * STREAM_SLOTS_MAX)
#define STREAM_SECTION_NAME_MAX 16
#define STREAM_ROWS_UNKNOWN UINT64_MAX

/* What a stream holds. */
struct stream_shape {
	uint32_t part, parts; /* this is part i of n */
	uint64_t dense_begin; /* the range of the flat vector */
	uint64_t dense_count;
	uint64_t rows;        /* STREAM_ROWS_UNKNOWN: read from an older file */
	int partial;          /* it has only rows that changed; the others are in an older one */
	uint64_t all_rows;    /* used only with partial */
	uint32_t dense_slots; /* optimiser slots of the dense range: dense.s0, ... */
	uint32_t width;       /* floats a row; 0: no rows */
	uint32_t row_slots;   /* optimiser slots of rows (each width floats a row): rows.s0, ... */
};

/* Sections have numbers. These are: the one of rows.keys, and how many there are. */
static inline size_t stream_keys_section(const struct stream_shape *s)
{
	return 1 + s->dense_slots;
}

static inline size_t stream_section_count(const struct stream_shape *s)
{
	return 1 + s->dense_slots + (s->width ? 2 + s->row_slots : 0);
}

/* The name of a section by its number: "dense", "rows.s0", ... */
void stream_section_name(const struct stream_shape *s, size_t section,
			 char out[STREAM_SECTION_NAME_MAX]);
/* ERROR_DATA: a number is out of range, or two do not fit together. */
int stream_shape_check(const struct stream_shape *s, struct error *err);

/* The first of values[count] (floats; need not be aligned) that is not finite; count: all are. */
size_t stream_not_finite(const void *values, size_t count);

/* ---- writing ---- */

struct stream_sink {
	/* Takes a record, and its values; bytes 0: it has none. The record is not ended yet
	 * (record_end()), so the sink may add fields. */
	int (*put)(void *owner, struct record_out *r, const void *values, size_t bytes,
		   struct error *err);
	void *owner;
	/* For a stream that is kept: the place where the next values will be; their record says it
	 * (at=). Then values are given as planes, and rows in the order of their places. NULL: the
	 * reader takes the stream at once; values are given as and where they lie. */
	const uint64_t *at;
	/* With at only: how much time compression may take (planes.h), and who shares the work
	 * (NULL: the caller alone). One of the team's threads may call put(), but never two at
	 * once. */
	int level;
	struct team *team;
};

struct stream_writer;

/* Begins a stream: writes the first record. The sink is copied. w is to be freed. */
int stream_begin(struct stream_writer **out, const struct stream_sink *sink,
		 const struct stream_shape *shape, struct error *err);
void stream_writer_free(struct stream_writer *w); /* NULL is fine */

/* Writes a note: a small fact about this part's state that is no array (an optimiser's name, a step
 * counter), under a key of [a-z][a-z0-9-]*. Notes come before the first block. */
int stream_note(struct stream_writer *w, const char *key, const char *value, struct error *err);

/* Writes the next values of the dense range; slot -1: the parameters, 0..: an optimiser slot. It
 * may be called with pieces of any length; in the end each slot has got dense_count values. The
 * values may change when it returns. */
int stream_dense(struct stream_writer *w, int slot, const float *values, uint64_t count,
		 struct error *err);

/* Writes some more rows: keys[rows], values[rows][width], and the s-th slot as
 * slots[s][rows][width] (NULL if there are no slots). No key may come twice in all calls. The
 * arrays may change when it returns. */
int stream_rows(struct stream_writer *w, size_t rows, const uint32_t *keys, const float *values,
		const float *const *slots, struct error *err);
size_t stream_block_rows(const struct stream_shape *s); /* of a block of each section */
/* How many rows give work to all threads of the team, when they come in one call. */
size_t stream_batch_rows(const struct stream_writer *w);

/* Writes the last blocks. ERROR_SOFTWARE: something that the shape promises is missing. The writer
 * is to be freed all the same. */
int stream_end(struct stream_writer *w, struct error *err);

/* ---- reading ---- */

struct stream_block {
	uint32_t section;
	uint32_t count;         /* values */
	uint64_t first;         /* number of its first value in the section */
	int raw;                /* no planes and no sum */
	uint32_t plane[PLANES]; /* lengths */
	uint64_t sum;
	uint64_t low, high;     /* places of rows.keys: least and greatest, if known */
};

static inline uint64_t stream_block_bytes(const struct stream_block *b)
{
	if (b->raw)
		return 4 * (uint64_t)b->count;
	return (uint64_t)b->plane[0] + b->plane[1] + b->plane[2] + b->plane[3];
}

/* Gives the next bytes of a block. */
struct stream_source {
	int (*read)(void *owner, void *to, size_t bytes, struct error *err);
	void *owner;
};

/* Gets what is read, after it was checked. If a function returns -1, the reading ends and returns
 * -1. */
struct stream_taker {
	/* Optional (the pointer may be NULL): the place to which these elements of the dense range
	 * are read, before they are checked; NULL: not straight to where they belong. dense() is
	 * called for them all the same. */
	float *(*place)(void *owner, int slot, uint64_t begin, size_t count);
	/* Elements begin..begin+count-1 of the flat vector; slot as in stream_dense(). */
	int (*dense)(void *owner, int slot, uint64_t begin, size_t count, const float *values,
		     struct error *err);
	int (*rows)(void *owner, size_t rows, const uint32_t *keys, const float *values,
		    const float *const *slots, struct error *err);
	void *owner;
	int slots; /* optimiser slots are wanted; otherwise they are skipped */
	int keys_only; /* of rows only the keys are wanted: rows() gets no values */
};

/* The taker wants those sections of rows that are before this one. */
static inline size_t stream_wanted_end(const struct stream_shape *s, const struct stream_taker *t)
{
	if (t->keys_only)
		return stream_keys_section(s) + 1;
	return t->slots ? stream_section_count(s) : stream_keys_section(s) + 2;
}

struct stream_reader;

struct stream_reader *stream_reader_new(void); /* NULL: no memory */
void stream_reader_free(struct stream_reader *s); /* NULL is fine */

/* Takes a record of a stream. STREAM_BLOCK: *b is filled, and its values have to be read next.
 * STREAM_OTHER: the record is no part of a stream. ERROR_DATA: the record is wrong, or comes before
 * the first one. */
enum stream_record { STREAM_HEAD, STREAM_BLOCK, STREAM_OTHER };
int stream_record(struct stream_reader *s, const struct record *r, struct stream_block *b,
		  struct error *err);
/* Whether the blocks that have come hold all that the first record promises; if not: ERROR_DATA. */
int stream_complete(const struct stream_reader *s, struct error *err);

/* After the first record. */
const struct stream_shape *stream_get_shape(const struct stream_reader *s);
/* How many values the blocks of a section have had so far. */
uint64_t stream_total(const struct stream_reader *s, size_t section);
const char *stream_get_note(const struct stream_reader *s, const char *key); /* or NULL */
/* Key and value of the i-th note; NULL behind the last. */
const char *stream_note_at(const struct stream_reader *s, size_t i, const char **value);

/* Reads the values of a block, checks them and gives them to the taker. A group of rows is given
 * when its last wanted section has been read. The place of an error is the name of the section. */
int stream_read(struct stream_reader *s, const struct stream_block *b,
		const struct stream_source *source, const struct stream_taker *taker,
		struct error *err);
/* The same in two steps, for blocks with planes. First stream_decode() decodes and checks the
 * values of a block into values[count]; several threads may do this at once, each with a coder of
 * its own. */
int stream_decode(const struct stream_reader *s, struct planes_coder *c, const struct stream_block *b,
		  const void *encoded, void *values, struct error *err);
/* Then stream_take() gives the values to the taker, block by block in their order. The caller keeps
 * the values of rows until those of the last section of their group have been given. */
int stream_take(struct stream_reader *s, const struct stream_block *b, const void *values,
		const struct stream_taker *taker, struct error *err);
/* Where the taker wants the values of a block; NULL: anywhere. */
void *stream_place(const struct stream_reader *s, const struct stream_block *b,
		   const struct stream_taker *taker);

#endif
