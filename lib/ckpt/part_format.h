/*
 * part_format: what the writer and the reader of part files both have to know.  Private to the room.
 *
 *     part version=1 part=0 parts=2 dense-begin=0 dense=5 dense-slots=1 width=2 row-slots=1\n
 *     (blocks, one behind the other)
 *     note key=step value=12\n
 *     block section=dense at=86 count=5 planes=5,5,5,3 sum=...\n
 *     end index=00000000000000000104 sum=...\n
 *
 * A section's blocks stand in the index in the order of their values.  The last line has a fixed
 * length, so that a reader finds it from the end; its sum covers the first line and everything from
 * the index on up to its own digits.
 */
#ifndef PACELINE_CKPT_PART_FORMAT_H
#define PACELINE_CKPT_PART_FORMAT_H

#include "ckpt/block.h"
#include "ckpt/part.h"

#include <inttypes.h>

#define PART_VERSION 1
#define PART_PARTS_MAX 1024
#define PART_NOTES_MAX 32
#define PART_NOTE_VALUE_MAX 256

/* dense, its slots, rows.keys, rows, their slots. */
#define PART_SECTIONS_MAX (3 + 2 * PART_SLOTS_MAX)
#define PART_SECTION_NAME_MAX 16

#define PART_END_FORMAT "end index=%020" PRIu64 " sum="
#define PART_END_PREFIX_BYTES (10 + 20 + 5)
#define PART_END_BYTES (PART_END_PREFIX_BYTES + 16 + 1)

/* Numbers of the sections that a shape has, in file order. */
static inline size_t part_dense_section(int slot)
{
	return (size_t)(slot + 1);
}

static inline size_t part_keys_section(const struct part_shape *s)
{
	return 1 + s->dense_slots;
}

static inline size_t part_rows_section(const struct part_shape *s, int slot)
{
	return part_keys_section(s) + 2 + (size_t)slot;
}

static inline size_t part_section_count(const struct part_shape *s)
{
	return 1 + s->dense_slots + (s->width ? 2 + s->row_slots : 0);
}

/* Values a row in this section (dense: 1). */
static inline uint64_t part_section_width(const struct part_shape *s, size_t section)
{
	return section > part_keys_section(s) ? s->width : 1;
}

/* The first of values[count] (floats) that is not finite; count: none. part_write.c */
size_t part_not_finite(const void *values, size_t count);

/* Rows in a full block. */
static inline uint64_t part_block_rows(const struct part_shape *s)
{
	return BLOCK_VALUES_MAX / s->width;
}

void part_section_name(const struct part_shape *s, size_t section,
		       char out[PART_SECTION_NAME_MAX]);
int part_check_shape(const struct part_shape *s, struct error *err);

#endif
