/*
 * part_read: part files, read and checked (part.h).  The file may be anything: every length, count
 * and offset is checked before it is used, and memory needed is in proportion to the file's index,
 * never to a number in it.
 */
#include "ckpt/part_format.h"

#include "base/fs.h"
#include "base/number.h"
#include "base/search.h"
#include "param/layout.h"
#include "record/record.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define NONE UINT32_MAX

struct block {
	uint64_t at;      /* offset in the file */
	uint64_t sum;
	uint64_t first;   /* number of its first value in the section */
	uint32_t count;   /* values */
	uint32_t plane[BLOCK_PLANES];
	uint32_t number;  /* in the file, from 0 */
	uint32_t section;
};

struct section {
	char name[PART_SECTION_NAME_MAX];
	struct block *block;
	size_t count, room;
	uint64_t total; /* values */
	uint32_t loaded; /* block whose values are in `values`, or NONE */
	uint8_t *values; /* BLOCK_BYTES_MAX, made when needed */
};

struct note {
	char key[PART_NOTE_VALUE_MAX], value[PART_NOTE_VALUE_MAX];
};

struct part_reader {
	char *path;
	int fd;
	struct part_shape shape;
	size_t section_count;
	struct section section[PART_SECTIONS_MAX];
	uint64_t blocks_begin, blocks_end; /* the blocks fill this range of the file */
	uint32_t blocks;
	size_t notes;
	struct note note[PART_NOTES_MAX];
	struct block_coder *coder;
	uint8_t encoded[BLOCK_BYTES_MAX];
};

static int take_u32(const struct record *r, const char *key, uint64_t max, uint32_t *out,
		    struct error *err)
{
	uint64_t value;
	if (record_u64(r, key, 0, max, &value, err) != 0)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

static int take_shape(struct part_reader *p, const struct record *r, struct error *err)
{
	struct part_shape *s = &p->shape;
	uint64_t version;
	if (!record_is(r, "part"))
		return error_set(err, ERROR_DATA, NULL, "is no part file");
	if (record_u64(r, "version", PART_VERSION, PART_VERSION, &version, err) != 0 ||
	    take_u32(r, "part", PART_PARTS_MAX, &s->part, err) != 0 ||
	    take_u32(r, "parts", PART_PARTS_MAX, &s->parts, err) != 0 ||
	    record_u64(r, "dense-begin", 0, LAYOUT_DENSE_MAX, &s->dense_begin, err) != 0 ||
	    record_u64(r, "dense", 0, LAYOUT_DENSE_MAX, &s->dense_count, err) != 0 ||
	    take_u32(r, "dense-slots", PART_SLOTS_MAX, &s->dense_slots, err) != 0 ||
	    take_u32(r, "width", LAYOUT_WIDTH_MAX, &s->width, err) != 0 ||
	    take_u32(r, "row-slots", PART_SLOTS_MAX, &s->row_slots, err) != 0)
		return -1;
	if (part_check_shape(s, err) != 0)
		return -1;
	p->section_count = part_section_count(s);
	for (size_t i = 0; i < p->section_count; i++) {
		part_section_name(s, i, p->section[i].name);
		p->section[i].loaded = NONE;
	}
	return 0;
}

/* "a,b,c,d" */
static int take_planes(const struct record *r, uint32_t plane[BLOCK_PLANES], struct error *err)
{
	const char *text;
	if (record_text(r, "planes", &text, err) != 0)
		return -1;
	for (int i = 0; i < BLOCK_PLANES; i++) {
		uint64_t value;
		size_t len = strcspn(text, ",");
		if (number_u64_span(text, len, &value) != 0 || value > BLOCK_VALUES_MAX ||
		    (text[len] == ',') != (i < BLOCK_PLANES - 1))
			return error_set(err, ERROR_DATA, NULL, "planes=: four lengths expected");
		plane[i] = (uint32_t)value;
		text += len + 1;
	}
	return 0;
}

static int take_sum(const struct record *r, uint64_t *out, struct error *err)
{
	const char *text;
	char *end;
	if (record_text(r, "sum", &text, err) != 0)
		return -1;
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return error_set(err, ERROR_DATA, NULL, "sum=: '%.40s' is no checksum", text);
	*out = strtoull(text, &end, 16);
	return 0;
}

static int find_section(const struct part_reader *p, const char *name)
{
	for (size_t i = 0; i < p->section_count; i++)
		if (strcmp(p->section[i].name, name) == 0)
			return (int)i;
	return -1;
}

static uint64_t encoded_bytes(const struct block *b)
{
	return (uint64_t)b->plane[0] + b->plane[1] + b->plane[2] + b->plane[3];
}

/* end: where the block before it ended; blocks leave no gap, so that no byte goes unchecked. */
static int take_block(struct part_reader *p, const struct record *r, uint64_t *end,
		      struct error *err)
{
	struct block b = {0};
	const char *name;
	if (record_text(r, "section", &name, err) != 0 ||
	    record_u64(r, "at", *end, *end, &b.at, err) != 0 ||
	    take_u32(r, "count", BLOCK_VALUES_MAX, &b.count, err) != 0 ||
	    take_planes(r, b.plane, err) != 0 || take_sum(r, &b.sum, err) != 0)
		return -1;
	int section = find_section(p, name);
	if (section < 0)
		return error_set(err, ERROR_DATA, NULL, "section=: '%.80s' is unknown", name);
	struct section *s = &p->section[section];
	if (b.count == 0 || encoded_bytes(&b) > p->blocks_end - *end)
		return error_set(err, ERROR_DATA, NULL, "a block without values or room");
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		struct block *larger = realloc(s->block, room * sizeof *larger);
		if (!larger)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		s->block = larger;
		s->room = room;
	}
	b.first = s->total;
	b.number = p->blocks++;
	b.section = (uint32_t)section;
	s->total += b.count;
	s->block[s->count++] = b;
	*end += encoded_bytes(&b);
	return 0;
}

static int take_note(struct part_reader *p, const struct record *r, struct error *err)
{
	const char *key, *value;
	if (record_text(r, "key", &key, err) != 0 || record_text(r, "value", &value, err) != 0)
		return -1;
	if (p->notes == PART_NOTES_MAX || strlen(key) >= PART_NOTE_VALUE_MAX ||
	    strlen(value) >= PART_NOTE_VALUE_MAX)
		return error_set(err, ERROR_DATA, NULL, "too many notes, or a too long one");
	struct note *n = &p->note[p->notes++];
	memcpy(n->key, key, strlen(key) + 1);
	memcpy(n->value, value, strlen(value) + 1);
	return 0;
}

/* Whether the sections hold what the first line promises. */
static int check_sections(const struct part_reader *p, struct error *err)
{
	const struct part_shape *s = &p->shape;
	size_t keys = part_keys_section(s);
	for (size_t i = 0; i < keys; i++)
		if (p->section[i].total != s->dense_count)
			return error_set(err, ERROR_DATA, p->path, "%s holds %" PRIu64
					 " values in place of %" PRIu64, p->section[i].name,
					 p->section[i].total, s->dense_count);
	for (size_t i = keys + 1; i < p->section_count; i++) {
		const struct section *k = &p->section[keys], *v = &p->section[i];
		int fits = k->count == v->count;
		for (size_t b = 0; fits && b < k->count; b++)
			fits = (uint64_t)k->block[b].count * s->width == v->block[b].count;
		if (!fits)
			return error_set(err, ERROR_DATA, p->path,
					 "the blocks of %s and rows.keys differ", v->name);
	}
	return 0;
}

static int take_index(struct part_reader *p, struct record *r, const char *index, size_t len,
		      struct error *err)
{
	uint64_t end = p->blocks_begin;
	char place[64];
	for (size_t i = 0, line = 1; i < len; line++) {
		const char *newline = memchr(index + i, '\n', len - i);
		size_t n = newline ? (size_t)(newline - index) - i : len - i;
		int result = newline ? record_parse(r, index + i, n, err)
				     : error_set(err, ERROR_DATA, NULL, "no newline at its end");
		if (result == 0 && record_is(r, "block"))
			result = take_block(p, r, &end, err);
		else if (result == 0 && record_is(r, "note"))
			result = take_note(p, r, err);
		if (result != 0) {
			snprintf(place, sizeof place, "index line %zu", line);
			error_wrap(err, place);
			return error_wrap(err, p->path);
		}
		i += n + 1;
	}
	if (end != p->blocks_end)
		return error_set(err, ERROR_DATA, p->path, "blocks and index don't meet");
	return check_sections(p, err);
}

/* The first line, without its newline; *len is its length. */
static int read_first_line(struct part_reader *p, struct record *r, char *line, uint64_t size,
			   size_t *len, struct error *err)
{
	size_t n = size < RECORD_LINE_MAX ? (size_t)size : RECORD_LINE_MAX;
	if (fs_pread_all(p->fd, line, n, 0, p->path, err) != 0)
		return -1;
	char *newline = memchr(line, '\n', n);
	if (!newline)
		return error_set(err, ERROR_DATA, p->path, "is no part file");
	*len = (size_t)(newline - line);
	if (record_parse(r, line, *len, err) != 0 || take_shape(p, r, err) != 0)
		return error_wrap(err, p->path);
	return 0;
}

/* Where the index begins, from the last line; *sum points to its 16 digits in end. */
static int read_last_line(struct part_reader *p, char end[PART_END_BYTES + 1], uint64_t size,
			  uint64_t *at, struct error *err)
{
	char again[PART_END_BYTES + 1];
	if (size < PART_END_BYTES ||
	    fs_pread_all(p->fd, end, PART_END_BYTES, size - PART_END_BYTES, p->path, err) != 0)
		return error_set(err, ERROR_DATA, p->path, "is cut off, or no part file");
	end[PART_END_BYTES] = '\0';
	int ok = number_u64_span(end + 10, 20, at) == 0;
	snprintf(again, sizeof again, PART_END_FORMAT, ok ? *at : 0);
	if (!ok || memcmp(end, again, PART_END_PREFIX_BYTES) != 0 ||
	    end[PART_END_BYTES - 1] != '\n' || *at > size - PART_END_BYTES)
		return error_set(err, ERROR_DATA, p->path,
				 "its last line is damaged, or it is cut off");
	return 0;
}

/* line: the first one, with its newline. */
static int check_index_sum(const struct part_reader *p, const char *line, size_t line_len,
			   const char *index, size_t index_len, const char *end, struct error *err)
{
	char digits[17];
	XXH3_state_t *sum = XXH3_createState();
	if (!sum)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	XXH3_64bits_reset(sum);
	XXH3_64bits_update(sum, line, line_len);
	XXH3_64bits_update(sum, index, index_len);
	XXH3_64bits_update(sum, end, PART_END_PREFIX_BYTES);
	snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(sum));
	XXH3_freeState(sum);
	if (memcmp(digits, end + PART_END_PREFIX_BYTES, 16) != 0)
		return error_set(err, ERROR_DATA, p->path, "its first line or index is damaged");
	return 0;
}

static int read_all(struct part_reader *p, struct record *r, struct error *err)
{
	char line[RECORD_LINE_MAX], end[PART_END_BYTES + 1];
	struct stat st;
	uint64_t at;
	size_t line_len = 0;
	if (fstat(p->fd, &st) != 0)
		return error_errno(err, 0, p->path, "can't be looked at");
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_DATA, p->path, "is no regular file");
	uint64_t size = (uint64_t)st.st_size;
	if (read_last_line(p, end, size, &at, err) != 0 ||
	    read_first_line(p, r, line, size, &line_len, err) != 0)
		return -1;
	p->blocks_begin = line_len + 1;
	p->blocks_end = at;
	if (at < p->blocks_begin)
		return error_set(err, ERROR_DATA, p->path, "its index begins too early");
	size_t index_len = (size_t)(size - PART_END_BYTES - at);
	char *index = malloc(index_len + 1);
	if (!index)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	int result = fs_pread_all(p->fd, index, index_len, at, p->path, err);
	if (result == 0)
		result = check_index_sum(p, line, line_len + 1, index, index_len, end, err);
	if (result == 0)
		result = take_index(p, r, index, index_len, err);
	free(index);
	return result;
}

int part_open(struct part_reader **out, const char *path, struct error *err)
{
	struct part_reader *p = calloc(1, sizeof *p);
	struct record *r = malloc(sizeof *r);
	int result = -1;
	if (p) {
		p->fd = -1;
		p->path = strdup(path);
		p->coder = block_coder_new();
	}
	if (!p || !r || !p->path || !p->coder)
		error_set(err, ERROR_OS, path, "out of memory");
	else if ((p->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		error_errno(err, 0, path, "can't be read");
	else
		result = read_all(p, r, err);
	free(r);
	if (result != 0)
		part_close(p);
	else
		*out = p;
	return result;
}

void part_close(struct part_reader *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	for (size_t i = 0; i < PART_SECTIONS_MAX; i++) {
		free(p->section[i].block);
		free(p->section[i].values);
	}
	block_coder_free(p->coder);
	free(p->path);
	free(p);
}

const struct part_shape *part_get_shape(const struct part_reader *p)
{
	return &p->shape;
}

const char *part_get_note(const struct part_reader *p, const char *key)
{
	for (size_t i = 0; i < p->notes; i++)
		if (strcmp(p->note[i].key, key) == 0)
			return p->note[i].value;
	return NULL;
}

const char *part_note_at(const struct part_reader *p, size_t i, const char **value)
{
	if (i >= p->notes)
		return NULL;
	*value = p->note[i].value;
	return p->note[i].key;
}

uint64_t part_row_count(const struct part_reader *p)
{
	return p->shape.width ? p->section[part_keys_section(&p->shape)].total : 0;
}

static void block_place(const struct part_reader *p, const struct block *b, char *out, size_t max)
{
	snprintf(out, max, "%.440s: block %u (%s)", p->path, b->number, p->section[b->section].name);
}

/* The block's values into out[count]. */
static int load(struct part_reader *p, const struct block *b, void *out, struct error *err)
{
	char place[ERROR_PLACE_MAX];
	size_t len = (size_t)encoded_bytes(b);
	block_place(p, b, place, sizeof place);
	if (fs_pread_all(p->fd, p->encoded, len, b->at, place, err) != 0)
		return -1;
	if (XXH3_64bits(p->encoded, len) != b->sum)
		return error_set(err, ERROR_DATA, place, "is damaged: its checksum differs");
	if (block_decode(p->coder, p->encoded, b->plane, b->count, out) != 0)
		return error_set(err, ERROR_DATA, place, "is damaged: it can't be decoded");
	/* Whoever wrote it: one such value would make all others so, a step later. */
	size_t bad = b->section == part_keys_section(&p->shape) ? b->count
								: part_not_finite(out, b->count);
	if (bad < b->count)
		return error_set(err, ERROR_DATA, place, "value %" PRIu64 " of %s is not finite",
				 b->first + bad, p->section[b->section].name);
	return 0;
}

/* The values of block i of a section, kept until another one of the section is asked for. */
static const void *section_block(struct part_reader *p, struct section *s, size_t i,
				 struct error *err)
{
	if (!s->values && !(s->values = malloc(BLOCK_BYTES_MAX))) {
		error_set(err, ERROR_OS, p->path, "out of memory");
		return NULL;
	}
	if (s->loaded != (uint32_t)i) {
		s->loaded = NONE;
		if (load(p, &s->block[i], s->values, err) != 0)
			return NULL;
		s->loaded = (uint32_t)i;
	}
	return s->values;
}

/* The block that holds value number `value` (below the section's total). */
static size_t block_of(const struct section *s, uint64_t value)
{
	return search_last(&s->block->first, sizeof *s->block, s->count, value);
}

int part_read_dense(struct part_reader *p, int slot, uint64_t begin, uint64_t count, float *out,
		    struct error *err)
{
	const struct part_shape *shape = &p->shape;
	if (slot < -1 || slot >= (int)shape->dense_slots)
		return error_set(err, ERROR_DATA, p->path, "there is no dense slot %d", slot);
	if (begin < shape->dense_begin || begin - shape->dense_begin > shape->dense_count ||
	    count > shape->dense_count - (begin - shape->dense_begin))
		return error_set(err, ERROR_SOFTWARE, p->path, "range outside of the part");
	struct section *s = &p->section[part_dense_section(slot)];
	uint64_t value = begin - shape->dense_begin;
	while (count > 0) {
		size_t i = block_of(s, value);
		const struct block *b = &s->block[i];
		uint64_t inside = value - b->first;
		uint64_t here = b->count - inside < count ? b->count - inside : count;
		if (here == b->count && s->loaded != (uint32_t)i) {
			if (load(p, b, out, err) != 0)
				return -1;
		} else {
			const float *values = section_block(p, s, i, err);
			if (!values)
				return -1;
			memcpy(out, values + inside, (size_t)here * sizeof *out);
		}
		out += here;
		value += here;
		count -= here;
	}
	return 0;
}

int part_each_rows(struct part_reader *p, part_rows_fn *fn, void *arg, struct error *err)
{
	const struct part_shape *shape = &p->shape;
	if (shape->width == 0)
		return 0;
	struct section *keys = &p->section[part_keys_section(shape)];
	for (size_t i = 0; i < keys->count; i++) {
		const float *slots[PART_SLOTS_MAX] = {NULL};
		const uint32_t *k = section_block(p, keys, i, err);
		const float *values = k ? section_block(p, &p->section[part_rows_section(shape, -1)],
							i, err)
					: NULL;
		int whole = k && values;
		for (int slot = 0; whole && slot < (int)shape->row_slots; slot++) {
			slots[slot] = section_block(p, &p->section[part_rows_section(shape, slot)],
						    i, err);
			whole = slots[slot] != NULL;
		}
		if (!whole || fn(keys->block[i].count, k, values, slots, arg, err) != 0)
			return -1;
	}
	return 0;
}

int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg, struct error *err)
{
	int found = 0;
	uint8_t *values = malloc(BLOCK_BYTES_MAX);
	if (!values)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	for (size_t i = 0; i < p->section_count; i++) {
		for (size_t b = 0; b < p->section[i].count; b++) {
			struct error damage = {0};
			if (load(p, &p->section[i].block[b], values, &damage) != 0) {
				bad(damage.place, damage.text, arg);
				found++;
			}
		}
	}
	free(values);
	return found;
}
