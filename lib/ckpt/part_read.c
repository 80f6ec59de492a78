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

/* A block that one thread reads and decodes, and that is given to the taker in its turn. */
struct work {
	const struct block *block;
	void *values; /* where the taker wants them, or: */
	void *own;    /* PLANES_BYTES_MAX, made when needed */
	uint8_t *encoded;
	struct planes_coder *coder;
	struct error why; /* code 0: it is whole */
};

struct part_reader {
	char *path;
	struct team *team;
	struct work *next, *ready; /* [room]: are decoded, while those before them are taken */
	size_t room, nexts, readies;
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

static void free_works(struct work *w, size_t room)
{
	for (size_t i = 0; w && i < room; i++) {
		free(w[i].own);
		free(w[i].encoded);
		planes_coder_free(w[i].coder);
	}
	free(w);
}

void part_close(struct part_reader *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free_works(p->next, p->room);
	free_works(p->ready, p->room);
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

/* What is wrong with a block, and where it is. */
static void name_block(const struct part_reader *p, const struct block *b, const struct error *why,
		       struct error *err)
{
	char name[STREAM_SECTION_NAME_MAX];

	if (!err)
		return;
	stream_section_name(stream_get_shape(p->stream), b->stream.section, name);
	*err = *why;
	if (strcmp(why->place, name) == 0 || strcmp(why->place, p->path) == 0)
		snprintf(err->place, sizeof err->place, "%.440s: block %zu (%s)", p->path, b->number,
			 name);
}

static int read_block(struct part_reader *p, const struct block *b, const struct stream_taker *taker,
		      struct error *err)
{
	const struct stream_source source = {read_bytes, p};
	struct error why = {0};

	p->at = b->at;
	if (stream_read(p->stream, &b->stream, &source, taker, &why) == 0)
		return 0;
	name_block(p, b, &why, err);
	return -1;
}

/* ---- blocks by several threads ---- */

void part_share(struct part_reader *p, struct team *team)
{
	p->team = team;
}

/* At least for a group of rows, which is decoded and taken as one. */
static int make_works(struct part_reader *p, struct error *err)
{
	unsigned threads = team_threads(p->team);
	size_t group = 2 + stream_get_shape(p->stream)->row_slots;
	size_t room = threads == 1 ? 1 : 2 * (size_t)threads > group ? 2 * (size_t)threads : group;

	if (room <= p->room)
		return 0;
	free_works(p->next, p->room);
	free_works(p->ready, p->room);
	p->room = 0;
	p->next = calloc(room, sizeof *p->next);
	p->ready = calloc(room, sizeof *p->ready);
	if (!p->next || !p->ready)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	p->room = room;
	return 0;
}

static void *made(void **buffer)
{
	if (!*buffer)
		*buffer = malloc(PLANES_BYTES_MAX);
	return *buffer;
}

static int decode(const struct part_reader *p, struct work *w, struct error *err)
{
	const struct stream_block *b = &w->block->stream;

	if (!w->coder)
		w->coder = planes_coder_new(PLANES_LEVEL);
	if (!w->values)
		w->values = made(&w->own);
	if (!w->coder || !w->values || !made((void **)&w->encoded))
		return error_set(err, ERROR_OS, p->path, "out of memory");
	if (fs_pread_all(p->fd, w->encoded, (size_t)stream_block_bytes(b), w->block->at, p->path,
			 err) != 0)
		return -1;
	return stream_decode(p->stream, w->coder, b, w->encoded, w->values, err);
}

struct turn {
	struct part_reader *part;
	const struct stream_taker *taker;
	struct error why; /* of who takes */
};

/* Piece 0 gives what is ready to the taker; each other one decodes a block. */
static void do_piece(size_t piece, void *turn)
{
	struct turn *t = turn;
	struct part_reader *p = t->part;
	struct error why = {0};

	if (piece > 0) {
		struct work *w = &p->next[piece - 1];
		w->why = (struct error){0};
		if (decode(p, w, &why) != 0)
			name_block(p, w->block, &why, &w->why);
		return;
	}
	for (size_t i = 0; i < p->readies && !t->why.code; i++) {
		struct work *w = &p->ready[i];
		if (w->why.code)
			t->why = w->why;
		else if (stream_take(p->stream, &w->block->stream, w->values, t->taker, &why) != 0)
			name_block(p, w->block, &why, &t->why);
	}
}

static int turn(struct part_reader *p, const struct stream_taker *taker, struct error *err)
{
	struct turn t = {.part = p, .taker = taker};
	struct work *decoded = p->next;

	team_run(p->team, 1 + p->nexts, do_piece, &t);
	p->next = p->ready;
	p->ready = decoded;
	p->readies = p->nexts;
	p->nexts = 0;
	if (!t.why.code)
		return 0;
	p->readies = 0;
	if (err)
		*err = t.why;
	return -1;
}

/* A group of blocks that belong together. */
static int add_group(struct part_reader *p, struct block *const *b, size_t n,
		     const struct stream_taker *taker, struct error *err)
{
	if (team_threads(p->team) == 1) {
		for (size_t i = 0; i < n; i++)
			if (read_block(p, b[i], taker, err) != 0)
				return -1;
		return 0;
	}
	if (make_works(p, err) != 0 || (p->nexts + n > p->room && turn(p, taker, err) != 0))
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct work *w = &p->next[p->nexts++];
		w->block = b[i];
		w->values = stream_place(p->stream, &b[i]->stream, taker);
	}
	return 0;
}

static int finish(struct part_reader *p, const struct stream_taker *taker, struct error *err)
{
	if (p->nexts && turn(p, taker, err) != 0)
		return -1;
	return p->readies ? turn(p, taker, err) : 0;
}

/* ---- what is wanted ---- */

static int read_dense(struct part_reader *p, const struct section *s, const struct part_want *want,
		      const struct stream_taker *taker, struct error *err)
{
	uint64_t begin = stream_get_shape(p->stream)->dense_begin;

	for (size_t i = 0; i < s->count; i++) {
		struct block *b = &s->block[i];
		uint64_t first = begin + b->stream.first;
		if (first < want->dense_end && first + b->stream.count > want->dense_begin &&
		    add_group(p, &b, 1, taker, err) != 0)
			return -1;
	}
	return 0;
}

static int read_wanted(struct part_reader *p, const struct part_want *want,
		       const struct stream_taker *taker, struct error *err)
{
	const struct stream_shape *shape = stream_get_shape(p->stream);
	size_t keys = stream_keys_section(shape), end = stream_wanted_end(shape, taker);
	struct block *group[STREAM_SECTIONS_MAX];

	for (size_t i = 0; i < (taker->slots ? keys : 1); i++) {
		if (read_dense(p, &p->section[i], want, taker, err) != 0)
			return -1;
	}
	for (size_t b = 0; b < p->section[keys].count; b++) {
		const struct stream_block *k = &p->section[keys].block[b].stream;
		if (k->low >= want->place_end || k->high < want->place_begin)
			continue;
		for (size_t i = keys; i < end; i++)
			group[i - keys] = &p->section[i].block[b];
		if (add_group(p, group, end - keys, taker, err) != 0)
			return -1;
	}
	return finish(p, taker, err);
}

int part_read(struct part_reader *p, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err)
{
	int result = read_wanted(p, want, taker, err);

	p->nexts = p->readies = 0; /* after a failure */
	return result;
}

/* One after the other, so that damage is told in the order of the file; several are read at once. */
struct checks {
	struct part_reader *part;
	const struct section *section;
	size_t first, count;
	struct work *work; /* [room] */
};

static void check_piece(size_t piece, void *checks)
{
	struct checks *c = checks;
	struct work *w = &c->work[piece];
	struct error why = {0};

	w->block = &c->section->block[c->first + piece];
	w->values = NULL;
	w->why = (struct error){0};
	if (decode(c->part, w, &why) != 0)
		name_block(c->part, w->block, &why, &w->why);
}

static int verify_section(struct part_reader *p, const struct section *s, part_bad_fn *bad, void *arg)
{
	struct checks c = {.part = p, .section = s, .work = p->next};
	int found = 0;

	for (; c.first < s->count; c.first += c.count) {
		c.count = s->count - c.first < p->room ? s->count - c.first : p->room;
		team_run(p->team, c.count, check_piece, &c);
		for (size_t i = 0; i < c.count; i++)
			if (c.work[i].why.code) {
				bad(c.work[i].why.place, c.work[i].why.text, arg);
				found++;
			}
	}
	return found;
}

int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg)
{
	struct error err = {0};
	int found = 0;

	if (make_works(p, &err) != 0) {
		bad(err.place, err.text, arg);
		return 1;
	}
	for (size_t i = 0; i < STREAM_SECTIONS_MAX; i++)
		found += verify_section(p, &p->section[i], bad, arg);
	return found;
}
