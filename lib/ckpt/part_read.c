/*
 * part_read: part files, read and checked (part.h).  The file may be anything: every offset is checked
 * before it is used, and memory needed is in proportion to the file's index, never to a number in
 * it.
 */
#include "ckpt/part.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct block {
	struct stream_block stream;
	uint64_t at; /* offset in the file */
	size_t number; /* in the file, from 0 */
};

/* The blocks of a section, in the order of their values. */
struct section {
	struct block *block;
	size_t count, room;
};

struct part_reader {
	char *path;
	int fd;
	struct stream_reader *stream;
	size_t blocks;
	struct section section[STREAM_SECTIONS_MAX];
	uint64_t blocks_begin, blocks_end; /* the blocks fill this range of the file */
	uint64_t at;                       /* where the source reads next */
};

/* ---- the index ---- */

/* end: where the block before it ended; blocks leave no gap, so that no byte goes unchecked. */
static int take_block(struct part_reader *p, const struct record *r, const struct stream_block *b,
		      uint64_t *end, struct error *err)
{
	struct section *s = &p->section[b->section];
	uint64_t at;

	if (record_u64(r, "at", *end, *end, &at, err) != 0)
		return -1;
	if (b->raw) /* fine on a socket; on a disk nothing would notice that it is damaged */
		return error_set(err, ERROR_DATA, NULL, "a block without planes= and sum=");
	if (stream_block_bytes(b) > p->blocks_end - at)
		return error_set(err, ERROR_DATA, NULL, "a block without room");
	if (GROW(s->block, s->room, s->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->block[s->count++] = (struct block){*b, at, p->blocks++};
	*end += stream_block_bytes(b);
	return 0;
}

/* Whether the sections hold what the first line promises, and those of rows go together. */
static int check_sections(const struct part_reader *p, struct error *err)
{
	const struct stream_shape *shape = stream_get_shape(p->stream);
	size_t keys = stream_keys_section(shape);
	char name[STREAM_SECTION_NAME_MAX];

	if (stream_complete(p->stream, err) != 0)
		return error_wrap(err, p->path);
	for (size_t i = keys + 1; i < stream_section_count(shape); i++) {
		const struct section *k = &p->section[keys], *v = &p->section[i];
		int fits = k->count == v->count;
		for (size_t b = 0; fits && b < k->count; b++)
			fits = (uint64_t)k->block[b].stream.count * shape->width ==
			       v->block[b].stream.count;
		stream_section_name(shape, i, name);
		if (!fits)
			return error_set(err, ERROR_DATA, p->path,
					 "the blocks of %s and rows.keys differ", name);
	}
	return 0;
}

static int take_index(struct part_reader *p, const char *index, size_t len, struct error *err)
{
	struct record_walk walk = record_walk(index, len);
	struct record *r = malloc(sizeof *r);
	struct stream_block b;
	uint64_t end = p->blocks_begin;
	int got = r ? RECORD_ONE : error_set(err, ERROR_OS, NULL, "out of memory");

	while (got == RECORD_ONE) {
		got = record_next(&walk, r, err);
		int kind = got == RECORD_ONE ? stream_record(p->stream, r, &b, err) : STREAM_OTHER;
		if (kind < 0 || (kind == STREAM_BLOCK && take_block(p, r, &b, &end, err) != 0))
			got = -1;
	}
	free(r);
	if (got != RECORD_END) {
		char place[64];
		snprintf(place, sizeof place, "index line %" PRIu64, walk.number);
		error_wrap(err, place);
		return error_wrap(err, p->path);
	}
	if (end != p->blocks_end)
		return error_set(err, ERROR_DATA, p->path, "blocks and index don't meet");
	return check_sections(p, err);
}

/* ---- opening ---- */

/* The first line, its newline included, into line[RECORD_LINE_MAX]; *len is its length. */
static int read_first_line(struct part_reader *p, char *line, uint64_t size, size_t *len,
			   struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct stream_block b;
	size_t n = size < RECORD_LINE_MAX ? (size_t)size : RECORD_LINE_MAX;
	int result = r ? fs_pread_all(p->fd, line, n, 0, p->path, err)
		       : error_set(err, ERROR_OS, p->path, "out of memory");

	if (result == 0) {
		char *newline = memchr(line, '\n', n);
		*len = newline ? (size_t)(newline - line) + 1 : 0;
		if (!newline || record_parse(r, line, *len - 1, err) != 0 || !record_is(r, "part"))
			result = error_set(err, ERROR_DATA, p->path, "is no part file");
		else if (stream_record(p->stream, r, &b, err) < 0)
			result = error_wrap(err, p->path);
	}
	free(r);
	return result;
}

/* Where the index begins, from the last line. */
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

static int read_all(struct part_reader *p, struct error *err)
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
	    read_first_line(p, line, size, &line_len, err) != 0)
		return -1;
	p->blocks_begin = line_len;
	p->blocks_end = at;
	if (at < p->blocks_begin)
		return error_set(err, ERROR_DATA, p->path, "its index begins too early");
	size_t index_len = (size_t)(size - PART_END_BYTES - at);
	char *index = malloc(index_len + 1);
	if (!index)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	int result = fs_pread_all(p->fd, index, index_len, at, p->path, err);
	if (result == 0)
		result = check_index_sum(p, line, line_len, index, index_len, end, err);
	if (result == 0)
		result = take_index(p, index, index_len, err);
	free(index);
	return result;
}

int part_open(struct part_reader **out, const char *path, struct error *err)
{
	struct part_reader *p = calloc(1, sizeof *p);
	int result = -1;

	if (p) {
		p->fd = -1;
		p->path = strdup(path);
		p->stream = stream_reader_new();
	}
	if (!p || !p->path || !p->stream)
		error_set(err, ERROR_OS, path, "out of memory");
	else if ((p->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		error_errno(err, 0, path, "can't be read");
	else
		result = read_all(p, err);
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
	for (size_t i = 0; i < STREAM_SECTIONS_MAX; i++)
		free(p->section[i].block);
	stream_reader_free(p->stream);
	free(p->path);
	free(p);
}

const struct stream_reader *part_stream(const struct part_reader *p)
{
	return p->stream;
}

uint64_t part_row_count(const struct part_reader *p)
{
	const struct stream_shape *shape = stream_get_shape(p->stream);

	return shape->width ? stream_total(p->stream, stream_keys_section(shape)) : 0;
}

/* ---- blocks ---- */

static int read_bytes(void *part, void *to, size_t bytes, struct error *err)
{
	struct part_reader *p = part;
	uint64_t at = p->at;

	p->at += bytes;
	return fs_pread_all(p->fd, to, bytes, at, p->path, err);
}

/* taker NULL: only checks it. */
static int read_block(struct part_reader *p, const struct block *b, const struct stream_taker *taker,
		      struct error *err)
{
	const struct stream_source source = {read_bytes, p};
	char name[STREAM_SECTION_NAME_MAX];
	struct error why = {0};

	p->at = b->at;
	if ((taker ? stream_read(p->stream, &b->stream, &source, taker, &why)
		   : stream_check(p->stream, &b->stream, &source, &why)) == 0)
		return 0;
	if (err) {
		stream_section_name(stream_get_shape(p->stream), b->stream.section, name);
		*err = why;
		if (strcmp(why.place, name) == 0 || strcmp(why.place, p->path) == 0)
			snprintf(err->place, sizeof err->place, "%.440s: block %zu (%s)", p->path,
				 b->number, name);
	}
	return -1;
}

static int read_dense(struct part_reader *p, const struct section *s, const struct part_want *want,
		      const struct stream_taker *taker, struct error *err)
{
	uint64_t begin = stream_get_shape(p->stream)->dense_begin;

	for (size_t i = 0; i < s->count; i++) {
		uint64_t first = begin + s->block[i].stream.first;
		if (first < want->dense_end &&
		    first + s->block[i].stream.count > want->dense_begin &&
		    read_block(p, &s->block[i], taker, err) != 0)
			return -1;
	}
	return 0;
}

int part_read(struct part_reader *p, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err)
{
	const struct stream_shape *shape = stream_get_shape(p->stream);
	size_t keys = stream_keys_section(shape);
	size_t end = stream_wanted_end(shape, taker);

	for (size_t i = 0; i < (taker->slots ? keys : 1); i++) {
		if (read_dense(p, &p->section[i], want, taker, err) != 0)
			return -1;
	}
	for (size_t b = 0; b < p->section[keys].count; b++) {
		const struct stream_block *k = &p->section[keys].block[b].stream;
		if (k->low >= want->place_end || k->high < want->place_begin)
			continue;
		for (size_t i = keys; i < end; i++) {
			if (read_block(p, &p->section[i].block[b], taker, err) != 0)
				return -1;
		}
	}
	return 0;
}

int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg)
{
	int found = 0;

	for (size_t i = 0; i < STREAM_SECTIONS_MAX; i++) {
		for (size_t b = 0; b < p->section[i].count; b++) {
			struct error damage = {0};
			if (read_block(p, &p->section[i].block[b], NULL, &damage) != 0) {
				bad(damage.place, damage.text, arg);
				found++;
			}
		}
	}
	return found;
}
