/*
 * stream_read: see stream.h.  The input may be anything: every length and count is checked before
 * it is used.  Memory is needed for one block of each section, whatever number the input contains.
 */
#include "param/stream.h"

#include "base/number.h"
#include "param/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct note {
	char key[STREAM_NOTE_MAX], value[STREAM_NOTE_MAX];
};

/* The values of a block are kept until the next block of its kind comes. There is one kind for all
 * dense sections, and one for each section of rows. */
#define KINDS (STREAM_SLOTS_MAX + 3)

struct stream_reader {
	int begun;
	struct stream_shape shape;
	size_t notes;
	struct note note[STREAM_NOTES_MAX];
	uint64_t total[STREAM_SECTIONS_MAX]; /* values of the blocks so far */
	struct planes_coder *coder;
	uint8_t *encoded; /* this and values[] are made when they are needed */
	void *values[KINDS];
	const void *group[KINDS]; /* values of a group of rows, in our memory or the caller's */
	size_t row_block; /* rows in the last block of keys; 0: no group has begun */
	size_t row_next;  /* the section that must come next in the group */
};

struct stream_reader *stream_reader_new(void)
{
	struct stream_reader *s = calloc(1, sizeof *s);

	if (s && !(s->coder = planes_coder_new(PLANES_LEVEL))) {
		free(s);
		return NULL;
	}
	return s;
}

void stream_reader_free(struct stream_reader *s)
{
	if (!s)
		return;
	planes_coder_free(s->coder);
	free(s->encoded);
	for (size_t i = 0; i < KINDS; i++)
		free(s->values[i]);
	free(s);
}

const struct stream_shape *stream_get_shape(const struct stream_reader *s)
{
	return &s->shape;
}

uint64_t stream_total(const struct stream_reader *s, size_t section)
{
	return s->total[section];
}

const char *stream_get_note(const struct stream_reader *s, const char *key)
{
	for (size_t i = 0; i < s->notes; i++) {
		if (strcmp(s->note[i].key, key) == 0)
			return s->note[i].value;
	}
	return NULL;
}

const char *stream_note_at(const struct stream_reader *s, size_t i, const char **value)
{
	if (i >= s->notes)
		return NULL;
	*value = s->note[i].value;
	return s->note[i].key;
}

/* ---- records ---- */

static int take_u32(const struct record *r, const char *key, uint64_t max, uint32_t *out,
		    struct error *err)
{
	uint64_t value;

	if (record_u64(r, key, 0, max, &value, err) != 0)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

static int take_shape(struct stream_reader *s, const struct record *r, struct error *err)
{
	struct stream_shape *shape = &s->shape;
	uint64_t version;

	shape->rows = STREAM_ROWS_UNKNOWN;
	if (record_u64(r, "version", 1, 2, &version, err) != 0 ||
	    (version == 2 && record_u64(r, "all-rows", 0, UINT32_MAX, &shape->all_rows, err) != 0) ||
	    take_u32(r, "part", MAP_PARTS_MAX, &shape->part, err) != 0 ||
	    take_u32(r, "parts", MAP_PARTS_MAX, &shape->parts, err) != 0 ||
	    record_u64(r, "dense-begin", 0, LAYOUT_DENSE_MAX, &shape->dense_begin, err) != 0 ||
	    record_u64(r, "dense", 0, LAYOUT_DENSE_MAX, &shape->dense_count, err) != 0 ||
	    record_u64_opt(r, "rows", 0, UINT32_MAX, &shape->rows, err) != 0 ||
	    take_u32(r, "dense-slots", STREAM_SLOTS_MAX, &shape->dense_slots, err) != 0 ||
	    take_u32(r, "width", LAYOUT_WIDTH_MAX, &shape->width, err) != 0 ||
	    take_u32(r, "row-slots", STREAM_SLOTS_MAX, &shape->row_slots, err) != 0)
		return -1;
	shape->partial = version == 2;
	s->begun = 1;
	return stream_shape_check(shape, err);
}

static int take_note(struct stream_reader *s, const struct record *r, struct error *err)
{
	const char *key, *value;

	if (record_text(r, "key", &key, err) != 0 || record_text(r, "value", &value, err) != 0)
		return -1;
	if (s->notes == STREAM_NOTES_MAX || strlen(key) >= STREAM_NOTE_MAX ||
	    strlen(value) >= STREAM_NOTE_MAX)
		return error_set(err, ERROR_DATA, NULL, "too many notes, or a too long one");
	struct note *n = &s->note[s->notes++];
	memcpy(n->key, key, strlen(key) + 1);
	memcpy(n->value, value, strlen(value) + 1);
	return 0;
}

/* "a,b,c,d" */
static int take_planes(const struct record *r, struct stream_block *b, struct error *err)
{
	const char *text = record_get(r, "planes");

	b->raw = !text;
	for (int i = 0; text && i < PLANES; i++) {
		uint64_t value;
		size_t len = strcspn(text, ",");
		if (number_u64_span(text, len, &value) != 0 || value > PLANES_VALUES_MAX ||
		    (text[len] == ',') != (i < PLANES - 1))
			return error_set(err, ERROR_DATA, NULL, "planes=: four lengths expected");
		b->plane[i] = (uint32_t)value;
		text += len + 1;
	}
	return 0;
}

static int take_sum(const struct record *r, uint64_t *out, struct error *err)
{
	const char *text;

	if (record_text(r, "sum", &text, err) != 0)
		return -1;
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return error_set(err, ERROR_DATA, NULL, "sum=: '%.40s' is no checksum", text);
	*out = strtoull(text, NULL, 16);
	return 0;
}

static int find_section(const struct stream_shape *shape, const char *name, uint32_t *section)
{
	char own[STREAM_SECTION_NAME_MAX];

	for (size_t i = 0; i < stream_section_count(shape); i++) {
		stream_section_name(shape, i, own);
		if (strcmp(own, name) == 0) {
			*section = (uint32_t)i;
			return 0;
		}
	}
	return -1;
}

static int stream_read_take_block(struct stream_reader *s, const struct record *r,
				  struct stream_block *b, struct error *err)
{
	const char *name;

	*b = (struct stream_block){.high = UINT32_MAX};
	if (record_text(r, "section", &name, err) != 0 ||
	    take_u32(r, "count", PLANES_VALUES_MAX, &b->count, err) != 0 ||
	    record_u64_opt(r, "low", 0, UINT32_MAX, &b->low, err) != 0 ||
	    record_u64_opt(r, "high", b->low, UINT32_MAX, &b->high, err) != 0 ||
	    take_planes(r, b, err) != 0 || (!b->raw && take_sum(r, &b->sum, err) != 0))
		return -1;
	if (find_section(&s->shape, name, &b->section) != 0)
		return error_set(err, ERROR_DATA, NULL, "section=: '%.80s' is unknown", name);
	if (b->count == 0)
		return error_set(err, ERROR_DATA, NULL, "a block without values");
	b->first = s->total[b->section];
	s->total[b->section] += b->count;
	return 0;
}

int stream_record(struct stream_reader *s, const struct record *r, struct stream_block *b,
		  struct error *err)
{
	int first = record_is(r, "part"), block = record_is(r, "block");

	if (!first && !block && !record_is(r, "note"))
		return STREAM_OTHER;
	if (first == s->begun)
		return error_set(err, ERROR_DATA, NULL, "%s where it can't stand", r->type);
	if (block)
		return stream_read_take_block(s, r, b, err) == 0 ? STREAM_BLOCK : -1;
	return (first ? take_shape(s, r, err) : take_note(s, r, err)) == 0 ? STREAM_HEAD : -1;
}

static int check_total(const struct stream_reader *s, size_t section, uint64_t want,
		       struct error *err)
{
	char name[STREAM_SECTION_NAME_MAX];

	if (s->total[section] == want)
		return 0;
	stream_section_name(&s->shape, section, name);
	return error_set(err, ERROR_DATA, NULL, "%s holds %" PRIu64 " values in place of %" PRIu64,
			 name, s->total[section], want);
}

int stream_complete(const struct stream_reader *s, struct error *err)
{
	const struct stream_shape *shape = &s->shape;
	size_t keys = stream_keys_section(shape);

	if (!s->begun)
		return error_set(err, ERROR_DATA, NULL, "there are no parameters");
	for (size_t i = 0; i < keys; i++) {
		if (check_total(s, i, shape->dense_count, err) != 0)
			return -1;
	}
	if (shape->width == 0)
		return 0;
	if (shape->rows != STREAM_ROWS_UNKNOWN && check_total(s, keys, shape->rows, err) != 0)
		return -1;
	for (size_t i = keys + 1; i < stream_section_count(shape); i++) {
		if (check_total(s, i, s->total[keys] * shape->width, err) != 0)
			return -1;
	}
	return 0;
}

/* ---- values ---- */

static void *stream_read_room(void **buffer)
{
	if (!*buffer)
		*buffer = malloc(PLANES_BYTES_MAX);
	return *buffer;
}

static int stream_read_check_places(const struct stream_block *b, const uint32_t *keys,
				    const char *name, struct error *err)
{
	for (size_t i = 0; i < b->count; i++) {
		uint32_t place = map_place(keys[i]);
		if (place < b->low || place > b->high)
			return error_set(err, ERROR_DATA, name, "key %u is not in the block's range",
					 keys[i]);
	}
	return 0;
}

/* Checks the values of a block. */
static int check_values(const struct stream_reader *s, const struct stream_block *b,
			const void *values, const char *name, struct error *err)
{
	if (b->section == stream_keys_section(&s->shape))
		return stream_read_check_places(b, values, name, err);
	/* No matter who wrote it: one such value would make all others bad in the next step. */
	size_t bad = stream_not_finite(values, b->count);
	if (bad < b->count)
		return error_set(err, ERROR_DATA, name, "value %" PRIu64 " of %s is not finite",
				 b->first + bad, name);
	return 0;
}

int stream_decode(const struct stream_reader *s, struct planes_coder *c, const struct stream_block *b,
		  const void *encoded, void *values, struct error *err)
{
	char name[STREAM_SECTION_NAME_MAX];

	stream_section_name(&s->shape, b->section, name);
	if (XXH3_64bits(encoded, (size_t)stream_block_bytes(b)) != b->sum)
		return error_set(err, ERROR_DATA, name, "is damaged: its checksum differs");
	if (planes_decode(c, encoded, b->plane, b->count, values) != 0)
		return error_set(err, ERROR_DATA, name, "is damaged: it can't be decoded");
	return check_values(s, b, values, name, err);
}

/* Reads and decodes the values of a block. */
static int stream_read_load(struct stream_reader *s, const struct stream_block *b, void *values,
			    const struct stream_source *source, struct error *err)
{
	size_t len = (size_t)stream_block_bytes(b);
	char name[STREAM_SECTION_NAME_MAX];
	void *encoded = b->raw ? values : stream_read_room((void **)&s->encoded);

	stream_section_name(&s->shape, b->section, name);
	if (!values || !encoded)
		return error_set(err, ERROR_OS, name, "out of memory");
	if (source->read(source->owner, encoded, len, err) != 0)
		return -1;
	return b->raw ? check_values(s, b, values, name, err)
		      : stream_decode(s, s->coder, b, encoded, values, err);
}

/* The blocks of a group of rows come in order, its keys first. */
static int expect_rows(struct stream_reader *s, const struct stream_block *b, struct error *err)
{
	size_t keys = stream_keys_section(&s->shape);
	int first = b->section == keys && s->row_block == 0;
	int next = s->row_block && b->section == s->row_next &&
		   b->count == (uint64_t)s->row_block * s->shape.width;
	char name[STREAM_SECTION_NAME_MAX];

	stream_section_name(&s->shape, b->section, name);
	if (!first && !next)
		return error_set(err, ERROR_DATA, name, "its blocks and those of rows.keys differ");
	if (first)
		s->row_block = b->count;
	s->row_next = b->section + 1;
	return 0;
}

/* Whether the taker does not want this section. */
static int is_passed_over(const struct stream_reader *s, const struct stream_block *b,
			  const struct stream_taker *taker)
{
	size_t keys = stream_keys_section(&s->shape);

	if (b->section < keys)
		return b->section > 0 && !taker->slots;
	return b->section >= stream_wanted_end(&s->shape, taker);
}

void *stream_place(const struct stream_reader *s, const struct stream_block *b,
		   const struct stream_taker *taker)
{
	if (b->section >= stream_keys_section(&s->shape) || !taker->place ||
	    b->first + b->count > s->shape.dense_count)
		return NULL;
	return taker->place(taker->owner, (int)b->section - 1, s->shape.dense_begin + b->first,
			    b->count);
}

static int stream_read_take_dense(struct stream_reader *s, const struct stream_block *b,
				  const float *values, const struct stream_taker *taker,
				  struct error *err)
{
	if (b->first + b->count > s->shape.dense_count)
		return error_set(err, ERROR_DATA, "dense", "has too many values");
	return taker->dense(taker->owner, (int)b->section - 1, s->shape.dense_begin + b->first,
			    b->count, values, err);
}

/* Gives a group of rows to the taker, after its last section. */
static int stream_read_take_rows(struct stream_reader *s, const struct stream_taker *taker,
				 struct error *err)
{
	const float *slots[STREAM_SLOTS_MAX];
	size_t rows = s->row_block;

	s->row_block = 0;
	if (taker->keys_only)
		return taker->rows(taker->owner, rows, s->group[0], NULL, NULL, err);
	for (size_t k = 0; taker->slots && k < s->shape.row_slots; k++)
		slots[k] = s->group[2 + k];
	return taker->rows(taker->owner, rows, s->group[0], s->group[1], slots, err);
}

int stream_take(struct stream_reader *s, const struct stream_block *b, const void *values,
		const struct stream_taker *taker, struct error *err)
{
	size_t keys = stream_keys_section(&s->shape);

	if (is_passed_over(s, b, taker))
		return 0;
	if (b->section < keys)
		return stream_read_take_dense(s, b, values, taker, err);
	if (expect_rows(s, b, err) != 0) {
		s->row_block = 0;
		return -1;
	}
	s->group[b->section - keys] = values;
	return s->row_next < stream_wanted_end(&s->shape, taker)
		       ? 0
		       : stream_read_take_rows(s, taker, err);
}

int stream_read(struct stream_reader *s, const struct stream_block *b,
		const struct stream_source *source, const struct stream_taker *taker,
		struct error *err)
{
	size_t keys = stream_keys_section(&s->shape);
	void *values = stream_place(s, b, taker);

	if (is_passed_over(s, b, taker))
		return 0;
	if (!values)
		values =
			stream_read_room(&s->values[b->section < keys ? 0 : 1 + b->section - keys]);
	if (stream_read_load(s, b, values, source, err) != 0) {
		s->row_block = 0;
		return -1;
	}
	return stream_take(s, b, values, taker, err);
}
