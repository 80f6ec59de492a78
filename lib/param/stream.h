/*
 * stream: the parameters of one part on their way: into a file of a checkpoint, to the next process
 * of a server.  Everything that moves parameters writes and reads this form, with the same checks.
 *
 * A stream is records, in this order; values follow a block:
 *
 *     part version=1 part=0 parts=2 dense-begin=0 dense=5 dense-slots=1 width=2 row-slots=1 rows=2
 *     note key=steps value=12
 *     block section=dense count=5 planes=5,5,5,3 sum=...
 *     block section=rows.keys count=2 low=7 high=9 planes=2,2,2,1 sum=...
 *
 * Sections: `dense` and `dense.s0`, `dense.s1`, ... (optimiser slots) hold the part's range of the
 * flat vector in order; `rows.keys`, `rows` and `rows.s0`, ... hold its rows in any order, block by
 * block the same rows in all of them, one block of each in this order.  A block holds at most
 * PLANES_VALUES_MAX values of 4 bytes, little-endian: as planes (planes.h) with sum=, XXH3 of their
 * bytes, or, where it has neither, as they lie: what does not leave memory needs no checksum, and a
 * hand-over of 100 MB would spend a third of its time on it.  low= and high= are the least and
 * greatest place (map.h) of a block's keys, so that a reader of a file can pass over blocks that
 * hold none of its own; older files don't have them, nor rows=.
 *
 * A part of a checkpoint that has some of its rows only, because the others are as in an older one,
 * is of version 2: its first record has all-rows=, how many there are of both.
 *
 * Where records and values go and come from is a sink's and a source's business: a file keeps its
 * records at its end (ckpt/part.h), a conversation sends each before its values (ps/handover.c).
 *
 * The values of all sections but rows.keys are finite; others are neither written nor read.
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
	uint64_t rows;        /* or STREAM_ROWS_UNKNOWN, when read from an older file */
	int partial;          /* rows that are as before are missing: there are all_rows of both */
	uint64_t all_rows;    /* looked at with partial only */
	uint32_t dense_slots; /* optimiser slots of the dense range: dense.s0, ... */
	uint32_t width;       /* floats a row; 0: no rows */
	uint32_t row_slots;   /* optimiser slots of rows (each width floats a row): rows.s0, ... */
};

/* Numbers of the sections that a shape has. */
static inline size_t stream_keys_section(const struct stream_shape *s)
{
	return 1 + s->dense_slots;
}

static inline size_t stream_section_count(const struct stream_shape *s)
{
	return 1 + s->dense_slots + (s->width ? 2 + s->row_slots : 0);
}

void stream_section_name(const struct stream_shape *s, size_t section,
			 char out[STREAM_SECTION_NAME_MAX]);
int stream_shape_check(const struct stream_shape *s, struct error *err);

/* The first of values[count] (floats) that is not finite; count: none. */
size_t stream_not_finite(const void *values, size_t count);

/* ---- writing ---- */

struct stream_sink {
	/* Takes a record that is not ended yet (record_end()), so that the sink may add to it;
	 * bytes 0: it has no values. */
	int (*put)(void *owner, struct record_out *r, const void *values, size_t bytes,
		   struct error *err);
	void *owner;
	/* Of a stream that is kept: where the next values will be, which their record says. Values are
	 * given as planes, and rows in the order of their places. NULL: it is taken at once; values are
	 * given as and where they lie. */
	const uint64_t *at;
	/* With at: how much time compression may take (planes.h), and who shares the work; NULL: the
	 * caller alone. put() may be called by one of its threads, never by two at once. */
	int level;
	struct team *team;
};

struct stream_writer;

/* Writes the first record. The sink is copied. */
int stream_begin(struct stream_writer **out, const struct stream_sink *sink,
		 const struct stream_shape *shape, struct error *err);
void stream_writer_free(struct stream_writer *w); /* NULL is fine */

/* A small fact about this part's state that is no array (an optimiser's name, a step counter), under
 * a key of [a-z][a-z0-9-]*. Before the first block. */
int stream_note(struct stream_writer *w, const char *key, const char *value, struct error *err);

/* The next values of the dense range: slot -1 for the parameters, 0.. for an optimiser slot. In any
 * number of pieces; each slot must have got dense_count values in the end. */
int stream_dense(struct stream_writer *w, int slot, const float *values, uint64_t count,
		 struct error *err);

/* Some more rows, no key twice over all pieces: keys[rows], values[rows][width], and slots[s] the
 * s-th slot's [rows][width] (slots may be NULL when there is none). */
int stream_rows(struct stream_writer *w, size_t rows, const uint32_t *keys, const float *values,
		const float *const *slots, struct error *err);
size_t stream_block_rows(const struct stream_shape *s); /* that fit a block of each section */
/* Rows that give work to all who share it, when they come in one call. */
size_t stream_batch_rows(const struct stream_writer *w);

/* The last blocks go to the sink. Whether all that the shape promises was written. */
int stream_end(struct stream_writer *w, struct error *err);

/* ---- reading ---- */

struct stream_block {
	uint32_t section;
	uint32_t count;         /* values */
	uint64_t first;         /* number of its first value in the section */
	int raw;                /* no planes and no sum */
	uint32_t plane[PLANES]; /* lengths */
	uint64_t sum;
	uint64_t low, high;     /* places of rows.keys; all of them when the block does not say */
};

static inline uint64_t stream_block_bytes(const struct stream_block *b)
{
	if (b->raw)
		return 4 * (uint64_t)b->count;
	return (uint64_t)b->plane[0] + b->plane[1] + b->plane[2] + b->plane[3];
}

/* The next bytes of a block. */
struct stream_source {
	int (*read)(void *owner, void *to, size_t bytes, struct error *err);
	void *owner;
};

/* Gets what is read, once it is checked. -1 ends the reading and is handed on. */
struct stream_taker {
	/* Optional: where these elements of the dense range shall be read to, before they are checked;
	 * NULL: not straight to where they belong. dense() gets them all the same. */
	float *(*place)(void *owner, int slot, uint64_t begin, size_t count);
	/* Elements begin..begin+count-1 of the flat vector. slot as above. */
	int (*dense)(void *owner, int slot, uint64_t begin, size_t count, const float *values,
		     struct error *err);
	int (*rows)(void *owner, size_t rows, const uint32_t *keys, const float *values,
		    const float *const *slots, struct error *err);
	void *owner;
	int slots; /* optimiser slots are wanted; otherwise they are passed over */
	int keys_only; /* of rows: rows() gets no values, and they are not read */
};

/* Sections of rows that a taker wants are those before this one. */
static inline size_t stream_wanted_end(const struct stream_shape *s, const struct stream_taker *t)
{
	if (t->keys_only)
		return stream_keys_section(s) + 1;
	return t->slots ? stream_section_count(s) : stream_keys_section(s) + 2;
}

struct stream_reader;

struct stream_reader *stream_reader_new(void); /* NULL: no memory */
void stream_reader_free(struct stream_reader *s); /* NULL is fine */

/* A record of a stream. STREAM_BLOCK: *b is filled, its values are to be read next. STREAM_OTHER: it
 * is none of a stream's. ERROR_DATA: it is wrong, or not the first. */
enum stream_record { STREAM_HEAD, STREAM_BLOCK, STREAM_OTHER };
int stream_record(struct stream_reader *s, const struct record *r, struct stream_block *b,
		  struct error *err);
/* Whether the blocks hold what the first record promises. */
int stream_complete(const struct stream_reader *s, struct error *err);

/* After the first record. */
const struct stream_shape *stream_get_shape(const struct stream_reader *s);
uint64_t stream_total(const struct stream_reader *s, size_t section); /* values of its blocks */
const char *stream_get_note(const struct stream_reader *s, const char *key); /* or NULL */
/* Key and value of the i-th note; NULL behind the last. */
const char *stream_note_at(const struct stream_reader *s, size_t i, const char **value);

/* Reads and checks the values of a block and gives them to the taker: those of rows when the last
 * section that is wanted has been read. The place of an error is the section. */
int stream_read(struct stream_reader *s, const struct stream_block *b,
		const struct stream_source *source, const struct stream_taker *taker,
		struct error *err);
/* The same in two steps, the first of which several threads may do at once, each with a coder, for
 * blocks with planes: values[count] of what was read, checked; */
int stream_decode(const struct stream_reader *s, struct planes_coder *c, const struct stream_block *b,
		  const void *encoded, void *values, struct error *err);
/* and what is decoded to the taker, block by block in their order. Values of rows stay where they are
 * until those of the last section of their group have come. */
int stream_take(struct stream_reader *s, const struct stream_block *b, const void *values,
		const struct stream_taker *taker, struct error *err);
/* Where the taker wants them; NULL: anywhere. */
void *stream_place(const struct stream_reader *s, const struct stream_block *b,
		   const struct stream_taker *taker);

#endif
