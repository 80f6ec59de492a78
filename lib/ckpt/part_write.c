/*
 * part_write: part files, written in one pass (part.h).  It runs in a forked child of a server, on
 * arrays that are shared copy-on-write, so it must never change what it is given nor need memory in
 * proportion to it: one block a section, and the index.
 */
#include "ckpt/part_format.h"

#include "base/fs.h"
#include "param/layout.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct section {
	char name[PART_SECTION_NAME_MAX];
	uint8_t *pending;    /* values not yet in a block; made when needed */
	uint64_t pending_count;
	uint64_t block_values; /* in a full block */
	uint64_t total;      /* values given */
};

struct part_writer {
	char *path;
	int fd;
	struct part_shape shape;
	size_t section_count;
	struct section section[PART_SECTIONS_MAX];
	size_t notes;
	uint64_t offset;
	XXH3_state_t *file_sum, *index_sum;
	char *index;
	size_t index_len, index_room;
	struct block_coder *coder;
	uint8_t encoded[BLOCK_BYTES_MAX];
};

void part_section_name(const struct part_shape *s, size_t section,
		       char out[PART_SECTION_NAME_MAX])
{
	size_t keys = part_keys_section(s);
	if (section == 0)
		snprintf(out, PART_SECTION_NAME_MAX, "dense");
	else if (section < keys)
		snprintf(out, PART_SECTION_NAME_MAX, "dense.s%u", (unsigned)(section - 1) & 15);
	else if (section == keys)
		snprintf(out, PART_SECTION_NAME_MAX, "rows.keys");
	else if (section == keys + 1)
		snprintf(out, PART_SECTION_NAME_MAX, "rows");
	else
		snprintf(out, PART_SECTION_NAME_MAX, "rows.s%u",
			 (unsigned)(section - keys - 2) & 15);
}

int part_check_shape(const struct part_shape *s, struct error *err)
{
	if (s->parts == 0 || s->parts > PART_PARTS_MAX || s->part >= s->parts)
		return error_set(err, ERROR_DATA, NULL, "part %u of %u is out of range", s->part,
				 s->parts);
	if (s->dense_begin > LAYOUT_DENSE_MAX || s->dense_count > LAYOUT_DENSE_MAX ||
	    s->dense_begin + s->dense_count > LAYOUT_DENSE_MAX)
		return error_set(err, ERROR_DATA, NULL, "dense range is out of range");
	if (s->width > LAYOUT_WIDTH_MAX)
		return error_set(err, ERROR_DATA, NULL, "width %u is out of range", s->width);
	if (s->dense_slots > PART_SLOTS_MAX || s->row_slots > PART_SLOTS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d slots", PART_SLOTS_MAX);
	return 0;
}

/* By its bits: all ones in the exponent. */
static int is_finite(const uint8_t *value)
{
	uint32_t bits;
	memcpy(&bits, value, sizeof bits);
	return (bits & 0x7f800000u) != 0x7f800000u;
}

size_t part_not_finite(const void *values, size_t count)
{
	const uint8_t *at = values;
	size_t bad = 0;
	for (size_t i = 0; i < count; i++)
		bad += !is_finite(at + 4 * i);
	for (size_t i = 0; bad > 0 && i < count; i++)
		if (!is_finite(at + 4 * i))
			return i;
	return count;
}

/* Bytes at the end of the file, summed on their way. */
static int append(struct part_writer *w, const void *data, size_t len, struct error *err)
{
	if (fs_write_all(w->fd, data, len, w->path, err) != 0)
		return -1;
	XXH3_64bits_update(w->file_sum, data, len);
	w->offset += len;
	return 0;
}

static int append_index(struct part_writer *w, const char *line, size_t len, struct error *err)
{
	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, w->path, "an index line is too long");
	if (w->index_room - w->index_len < len) {
		size_t room = w->index_room ? w->index_room * 2 : 65536;
		char *larger = realloc(w->index, room);
		if (!larger)
			return error_set(err, ERROR_OS, w->path, "out of memory");
		w->index = larger;
		w->index_room = room;
	}
	memcpy(w->index + w->index_len, line, len);
	w->index_len += len;
	return 0;
}

static int put_first_line(struct part_writer *w, struct error *err)
{
	const struct part_shape *s = &w->shape;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "part");
	record_add_u64(&o, "version", PART_VERSION);
	record_add_u64(&o, "part", s->part);
	record_add_u64(&o, "parts", s->parts);
	record_add_u64(&o, "dense-begin", s->dense_begin);
	record_add_u64(&o, "dense", s->dense_count);
	record_add_u64(&o, "dense-slots", s->dense_slots);
	record_add_u64(&o, "width", s->width);
	record_add_u64(&o, "row-slots", s->row_slots);
	size_t len = record_end(&o, NULL);
	XXH3_64bits_update(w->index_sum, line, len);
	return append(w, line, len, err);
}

int part_create(struct part_writer **out, const char *path, const struct part_shape *shape,
		struct error *err)
{
	if (part_check_shape(shape, err) != 0)
		return error_wrap(err, path);
	struct part_writer *w = calloc(1, sizeof *w);
	if (!w)
		return error_set(err, ERROR_OS, path, "out of memory");
	w->fd = -1;
	w->shape = *shape;
	w->path = strdup(path);
	w->file_sum = XXH3_createState();
	w->index_sum = XXH3_createState();
	w->coder = block_coder_new();
	if (!w->path || !w->file_sum || !w->index_sum || !w->coder) {
		error_set(err, ERROR_OS, path, "out of memory");
		part_abandon(w);
		return -1;
	}
	XXH3_64bits_reset(w->file_sum);
	XXH3_64bits_reset(w->index_sum);
	w->section_count = part_section_count(shape);
	for (size_t i = 0; i < w->section_count; i++) {
		struct section *s = &w->section[i];
		part_section_name(shape, i, s->name);
		s->block_values = i < part_keys_section(shape)
					  ? BLOCK_VALUES_MAX
					  : part_block_rows(shape) * part_section_width(shape, i);
	}
	w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w->fd < 0)
		error_errno(err, ERROR_CANTCREAT, path, "can't be made");
	if (w->fd < 0 || put_first_line(w, err) != 0) {
		part_abandon(w);
		return -1;
	}
	*out = w;
	return 0;
}

int part_note(struct part_writer *w, const char *key, const char *value, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (w->notes == PART_NOTES_MAX)
		return error_set(err, ERROR_SOFTWARE, w->path, "more than %d notes",
				 PART_NOTES_MAX);
	if (strlen(key) >= PART_NOTE_VALUE_MAX || strlen(value) >= PART_NOTE_VALUE_MAX)
		return error_set(err, ERROR_SOFTWARE, w->path, "note '%.40s' is too long", key);
	w->notes++;
	record_begin(&o, line, sizeof line, "note");
	record_add(&o, "key", key);
	record_add(&o, "value", value);
	return append_index(w, line, record_end(&o, NULL), err);
}

static int put_block(struct part_writer *w, const struct section *s, const void *values,
		     uint64_t count, struct error *err)
{
	uint32_t plane[BLOCK_PLANES];
	size_t bad = s == &w->section[part_keys_section(&w->shape)]
			     ? (size_t)count
			     : part_not_finite(values, (size_t)count);
	if (bad < count)
		return error_set(err, ERROR_SOFTWARE, w->path, "a value of %s is not finite",
				 s->name);
	size_t len = block_encode(w->coder, values, (size_t)count, w->encoded, plane);
	char line[RECORD_LINE_MAX], text[64];
	struct record_out o;
	record_begin(&o, line, sizeof line, "block");
	record_add(&o, "section", s->name);
	record_add_u64(&o, "at", w->offset);
	record_add_u64(&o, "count", count);
	snprintf(text, sizeof text, "%u,%u,%u,%u", plane[0], plane[1], plane[2], plane[3]);
	record_add(&o, "planes", text);
	snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits(w->encoded, len));
	record_add(&o, "sum", text);
	if (append_index(w, line, record_end(&o, NULL), err) != 0)
		return -1;
	return append(w, w->encoded, len, err);
}

static int flush_section(struct part_writer *w, struct section *s, struct error *err)
{
	if (s->pending_count == 0)
		return 0;
	uint64_t count = s->pending_count;
	s->pending_count = 0;
	return put_block(w, s, s->pending, count, err);
}

/* Whole blocks go from the caller's array; only what is left over is copied. */
static int put_values(struct part_writer *w, size_t section, const void *values, uint64_t count,
		      struct error *err)
{
	struct section *s = &w->section[section];
	const uint8_t *from = values;
	s->total += count;
	while (count > 0) {
		if (s->pending_count == 0 && count >= s->block_values) {
			if (put_block(w, s, from, s->block_values, err) != 0)
				return -1;
			from += 4 * s->block_values;
			count -= s->block_values;
			continue;
		}
		if (!s->pending && !(s->pending = malloc(BLOCK_BYTES_MAX)))
			return error_set(err, ERROR_OS, w->path, "out of memory");
		uint64_t room = s->block_values - s->pending_count;
		uint64_t here = count < room ? count : room;
		memcpy(s->pending + 4 * s->pending_count, from, 4 * (size_t)here);
		s->pending_count += here;
		from += 4 * here;
		count -= here;
		if (s->pending_count == s->block_values && flush_section(w, s, err) != 0)
			return -1;
	}
	return 0;
}

int part_dense(struct part_writer *w, int slot, const float *values, uint64_t count,
	       struct error *err)
{
	if (slot < -1 || slot >= (int)w->shape.dense_slots)
		return error_set(err, ERROR_SOFTWARE, w->path, "no dense slot %d", slot);
	size_t section = part_dense_section(slot);
	if (count > w->shape.dense_count - w->section[section].total)
		return error_set(err, ERROR_SOFTWARE, w->path, "too many values for %s",
				 w->section[section].name);
	return put_values(w, section, values, count, err);
}

int part_rows(struct part_writer *w, uint64_t rows, const uint32_t *keys, const float *values,
	      const float *const *slots, struct error *err)
{
	const struct part_shape *s = &w->shape;
	if (s->width == 0)
		return error_set(err, ERROR_SOFTWARE, w->path, "rows for a part without rows");
	if (put_values(w, part_keys_section(s), keys, rows, err) != 0 ||
	    put_values(w, part_rows_section(s, -1), values, rows * s->width, err) != 0)
		return -1;
	for (int slot = 0; slot < (int)s->row_slots; slot++)
		if (put_values(w, part_rows_section(s, slot), slots[slot], rows * s->width, err) !=
		    0)
			return -1;
	return 0;
}

/* The index and the last line behind the blocks. */
static int put_index(struct part_writer *w, struct error *err)
{
	char end[PART_END_BYTES + 1];
	uint64_t at = w->offset;
	XXH3_64bits_update(w->index_sum, w->index, w->index_len);
	snprintf(end, sizeof end, PART_END_FORMAT, at);
	XXH3_64bits_update(w->index_sum, end, PART_END_PREFIX_BYTES);
	snprintf(end + PART_END_PREFIX_BYTES, sizeof end - PART_END_PREFIX_BYTES,
		 "%016" PRIx64 "\n", (uint64_t)XXH3_64bits_digest(w->index_sum));
	if (w->index_len && append(w, w->index, w->index_len, err) != 0)
		return -1;
	return append(w, end, PART_END_BYTES, err);
}

static int finish(struct part_writer *w, struct error *err)
{
	for (size_t i = 0; i < w->section_count; i++)
		if (flush_section(w, &w->section[i], err) != 0)
			return -1;
	for (int slot = -1; slot < (int)w->shape.dense_slots; slot++)
		if (w->section[part_dense_section(slot)].total != w->shape.dense_count)
			return error_set(err, ERROR_SOFTWARE, w->path, "too few values for %s",
					 w->section[part_dense_section(slot)].name);
	if (put_index(w, err) != 0)
		return -1;
	if (fsync(w->fd) != 0)
		return error_errno(err, ERROR_IO, w->path, "fsync");
	int fd = w->fd;
	w->fd = -1;
	if (close(fd) != 0) {
		error_errno(err, ERROR_IO, w->path, "close");
		unlink(w->path);
		return -1;
	}
	return 0;
}

int part_finish(struct part_writer *w, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	int result = finish(w, err);
	if (result == 0) {
		*bytes = w->offset;
		*sum = XXH3_64bits_digest(w->file_sum);
	}
	part_abandon(w);
	return result;
}

void part_abandon(struct part_writer *w)
{
	if (!w)
		return;
	/* An open descriptor here means that the file was not finished. */
	if (w->fd >= 0) {
		close(w->fd);
		unlink(w->path);
	}
	for (size_t i = 0; i < PART_SECTIONS_MAX; i++)
		free(w->section[i].pending);
	XXH3_freeState(w->file_sum);
	XXH3_freeState(w->index_sum);
	block_coder_free(w->coder);
	free(w->index);
	free(w->path);
	free(w);
}
