/*
 * part_read: part files, read and checked (part.h).  The file may be anything: every offset is
 * checked before it is used.  The memory that is needed grows with the file's index, never with a
 * number in it.
 */
#include "ckpt/part.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/least.h"
#include "base/number.h"
#include "base/team.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
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

/* Memory with which one thread reads and decodes. Each piece is made when it is needed, as long as
 * the longest block of the file: a short file should not cost a megabyte of fresh memory. */
struct work {
	void *values[STREAM_SECTIONS_MAX]; /* of the blocks of a group */
	uint8_t *encoded;
	struct planes_coder *coder;
};

struct part_reader {
	char *path;
	struct team *team;
	struct work *work; /* [works] */
	size_t works;
	int fd;
	struct stream_reader *stream;
	size_t blocks, longest_bytes; /* longest_bytes: of a block, encoded or decoded */
	struct section section[STREAM_SECTIONS_MAX];
	uint64_t blocks_begin, blocks_end; /* the blocks fill this range of the file */
};

/* ---- the index ---- */

/* *end: where the block before it ended. Blocks leave no gap, so no byte goes unchecked. */
static int part_read_take_block(struct part_reader *p, const struct record *r,
				const struct stream_block *b, uint64_t *end, struct error *err)
{
	struct section *s = &p->section[b->section];
	uint64_t at;

	if (record_u64(r, "at", *end, *end, &at, err) != 0)
		return -1;
	if (b->raw) /* fine on a socket; on a disk, damage would not be noticed */
		return error_set(err, ERROR_DATA, NULL, "a block without planes= and sum=");
	if (stream_block_bytes(b) > p->blocks_end - at)
		return error_set(err, ERROR_DATA, NULL, "a block without room");
	if (GROW(s->block, s->room, s->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->block[s->count++] = (struct block){*b, at, p->blocks++};
	p->longest_bytes = (size_t)most(p->longest_bytes, sizeof(float) * b->count);
	/* A damaged block may be longer. */
	p->longest_bytes = (size_t)most(p->longest_bytes, stream_block_bytes(b));
	*end += stream_block_bytes(b);
	return 0;
}

/* Checks that the sections have all that the first line promises, and that those of rows fit each
 * other. */
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
		if (kind < 0 ||
		    (kind == STREAM_BLOCK && part_read_take_block(p, r, &b, &end, err) != 0))
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

/* Reads where the index begins, from the last line. */
static int read_last_line(struct part_reader *p, char end[PART_END_BYTES + 1], uint64_t size,
			  uint64_t *at, struct error *err)
{
	char again[PART_END_BYTES + 1];

	if (size < PART_END_BYTES)
		return error_set(err, ERROR_DATA, p->path, "is cut off, or no part file");
	if (fs_pread_all(p->fd, end, PART_END_BYTES, size - PART_END_BYTES, p->path, err) != 0)
		return -1;
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

static int part_read_all(struct part_reader *p, struct error *err)
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
	else if ((p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		error_errno(err, 0, path, "can't be read");
	else
		result = part_read_all(p, err);
	if (result != 0)
		part_close(p);
	else
		*out = p;
	return result;
}

static void free_works(struct part_reader *p)
{
	for (size_t i = 0; i < p->works; i++) {
		for (size_t k = 0; k < STREAM_SECTIONS_MAX; k++)
			free(p->work[i].values[k]);
		free(p->work[i].encoded);
		planes_coder_free(p->work[i].coder);
	}
	free(p->work);
	p->work = NULL;
	p->works = 0;
}

void part_close(struct part_reader *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free_works(p);
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

/* The error for a block: what is wrong, and where. */
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

static void *made(const struct part_reader *p, void **buffer)
{
	if (!*buffer)
		*buffer = malloc(p->longest_bytes);
	return *buffer;
}

/* Decodes the k-th block of a group into *values; if that is NULL, into the thread's own memory. */
static int decode(const struct part_reader *p, struct work *w, const struct block *b, size_t k,
		  void **values, struct error *err)
{
	if (!w->coder)
		w->coder = planes_coder_new(PLANES_LEVEL);
	if (!*values)
		*values = made(p, &w->values[k]);
	if (!w->coder || !*values || !made(p, (void **)&w->encoded))
		return error_set(err, ERROR_OS, p->path, "out of memory");
	if (fs_pread_all(p->fd, w->encoded, (size_t)stream_block_bytes(&b->stream), b->at, p->path,
			 err) != 0)
		return -1;
	return stream_decode(p->stream, w->coder, &b->stream, w->encoded, *values, err);
}

/* ---- several threads ---- */

#define AHEAD 8 /* so many groups are read ahead while others are decoded */

/* Dense blocks in a group: two are as long as a huge page, and only one thread should have to clear
 * it. */
#define SIDE_BY_SIDE 2

/* Blocks that belong together: from `number` on, one of each of `sections` sections, or `blocks` of
 * one. */
struct group {
	uint32_t section, sections, blocks;
	size_t number;
};

/* A pass over some blocks of a part. Any thread decodes the next group. When all groups before it
 * have been taken, the thread gives it to the taker. So groups come in order, one at a time. */
struct pass {
	struct part_reader *part;
	const struct stream_taker *taker; /* NULL: verify only; bad() is called for damage */
	part_bad_fn *bad;
	void *arg;
	int found;
	struct group *group;
	size_t count, room;

	pthread_mutex_t lock;
	pthread_cond_t taken;
	size_t next; /* to be taken */
	size_t advised;
	struct work *idle[TEAM_THREADS_MAX];
	size_t idles;
	int failed;
	struct error why;
};

void part_share(struct part_reader *p, struct team *team)
{
	p->team = team;
}

static int part_read_add_group(struct pass *s, size_t section, size_t sections, size_t number,
			       struct error *err)
{
	struct group *last = s->count ? &s->group[s->count - 1] : NULL;

	if (s->taker && last && sections == 1 && last->section == section && last->sections == 1 &&
	    last->blocks < SIDE_BY_SIDE && last->number + last->blocks == number) {
		last->blocks++;
		return 0;
	}
	if (GROW(s->group, s->room, s->count + 1) != 0)
		return error_set(err, ERROR_OS, s->part->path, "out of memory");
	s->group[s->count++] = (struct group){.section = (uint32_t)section,
					      .sections = (uint32_t)sections,
					      .blocks = 1,
					      .number = number};
	return 0;
}

static size_t block_count(const struct group *g)
{
	return (size_t)g->sections * g->blocks;
}

static const struct block *block_of(const struct pass *s, const struct group *g, size_t k)
{
	size_t across = g->sections > 1 ? k : 0;

	return &s->part->section[g->section + across].block[g->number + (k - across)];
}

/* Advice only: a thread that waits for the disk decodes nothing. */
static void read_ahead(struct pass *s, size_t from, size_t to)
{
	for (; from < to; from++) {
		const struct group *g = &s->group[from];
		for (size_t k = 0; k < block_count(g); k++) {
			const struct block *b = block_of(s, g, k);
			(void)posix_fadvise(s->part->fd, (off_t)b->at,
					    (off_t)stream_block_bytes(&b->stream),
					    POSIX_FADV_WILLNEED);
		}
	}
}

static int decode_group(struct pass *s, const struct group *g, struct work *w, void **values,
			struct error *err)
{
	struct error why = {0};

	for (size_t k = 0; k < block_count(g); k++) {
		const struct block *b = block_of(s, g, k);
		if (decode(s->part, w, b, k, &values[k], &why) != 0) {
			name_block(s->part, b, &why, err);
			return -1;
		}
	}
	return 0;
}

static int part_read_take_group(struct pass *s, const struct group *g, void **values,
				struct error *err)
{
	struct error why = {0};

	for (size_t k = 0; k < block_count(g); k++) {
		const struct block *b = block_of(s, g, k);
		if (stream_take(s->part->stream, &b->stream, values[k], s->taker, &why) != 0) {
			name_block(s->part, b, &why, err);
			return -1;
		}
	}
	return 0;
}

/* Takes a group; no other thread is here. */
static void finish_group(struct pass *s, const struct group *g, void **values, struct error *why)
{
	if (s->taker && !why->code)
		(void)part_read_take_group(s, g, values, why);
	if (!s->taker && why->code) {
		s->bad(why->place, why->text, s->arg);
		s->found++;
	}
}

static void do_group(size_t number, void *pass)
{
	struct pass *s = pass;
	const struct group *g = &s->group[number];
	void *values[STREAM_SECTIONS_MAX] = {NULL};
	struct error why = {0};

	pthread_mutex_lock(&s->lock);
	if (s->failed) {
		pthread_mutex_unlock(&s->lock);
		return;
	}
	struct work *w = s->idle[--s->idles];
	size_t advised = s->advised, ahead = number + AHEAD < s->count ? number + AHEAD : s->count;
	s->advised = ahead > advised ? ahead : advised;
	for (size_t k = 0; s->taker && k < block_count(g); k++)
		values[k] = stream_place(s->part->stream, &block_of(s, g, k)->stream, s->taker);
	pthread_mutex_unlock(&s->lock);

	read_ahead(s, advised, ahead);
	(void)decode_group(s, g, w, values, &why);

	pthread_mutex_lock(&s->lock);
	while (s->next != number && !s->failed)
		pthread_cond_wait(&s->taken, &s->lock);
	if (!s->failed) {
		pthread_mutex_unlock(&s->lock);
		finish_group(s, g, values, &why);
		pthread_mutex_lock(&s->lock);
		s->next = number + 1;
		if (why.code && s->taker) {
			s->failed = 1;
			s->why = why;
		}
	}
	s->idle[s->idles++] = w;
	pthread_cond_broadcast(&s->taken);
	pthread_mutex_unlock(&s->lock);
}

static int make_works(struct part_reader *p, struct error *err)
{
	size_t threads = team_threads(p->team);

	if (threads <= p->works)
		return 0;
	free_works(p);
	p->work = calloc(threads, sizeof *p->work);
	if (!p->work)
		return error_set(err, ERROR_OS, p->path, "out of memory");
	p->works = threads;
	return 0;
}

static int part_read_run(struct pass *s, struct error *err)
{
	if (make_works(s->part, err) != 0)
		return -1;
	for (size_t i = 0; i < s->part->works; i++)
		s->idle[s->idles++] = &s->part->work[i];
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->taken, NULL);
	team_run(s->part->team, s->count, do_group, s);
	pthread_cond_destroy(&s->taken);
	pthread_mutex_destroy(&s->lock);
	if (s->failed && err)
		*err = s->why;
	return s->failed ? -1 : 0;
}

/* ---- what is wanted ---- */

static int part_read_add_dense(struct pass *s, size_t section, const struct part_want *want,
			       struct error *err)
{
	const struct part_reader *p = s->part;
	uint64_t begin = stream_get_shape(p->stream)->dense_begin;

	for (size_t i = 0; i < p->section[section].count; i++) {
		const struct block *b = &p->section[section].block[i];
		uint64_t first = begin + b->stream.first;
		if (first < want->dense_end && first + b->stream.count > want->dense_begin &&
		    part_read_add_group(s, section, 1, i, err) != 0)
			return -1;
	}
	return 0;
}

static int add_wanted(struct pass *s, const struct part_want *want, struct error *err)
{
	const struct part_reader *p = s->part;
	const struct stream_shape *shape = stream_get_shape(p->stream);
	size_t keys = stream_keys_section(shape), end = stream_wanted_end(shape, s->taker);

	for (size_t i = 0; i < (s->taker->slots ? keys : 1); i++) {
		if (part_read_add_dense(s, i, want, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < p->section[keys].count; i++) {
		const struct stream_block *k = &p->section[keys].block[i].stream;
		if (k->low < want->place_end && k->high >= want->place_begin &&
		    part_read_add_group(s, keys, end - keys, i, err) != 0)
			return -1;
	}
	return 0;
}

int part_read(struct part_reader *p, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err)
{
	struct pass s = {.part = p, .taker = taker};
	int result = add_wanted(&s, want, err) == 0 ? part_read_run(&s, err) : -1;

	free(s.group);
	return result;
}

int part_verify(struct part_reader *p, part_bad_fn *bad, void *arg)
{
	struct pass s = {.part = p, .bad = bad, .arg = arg};
	struct error why = {0};
	int result = 0;

	for (size_t i = 0; result == 0 && i < STREAM_SECTIONS_MAX; i++)
		for (size_t b = 0; result == 0 && b < p->section[i].count; b++)
			result = part_read_add_group(&s, i, 1, b, &why);
	if (result != 0 || part_read_run(&s, &why) != 0) {
		bad(why.place, why.text, arg);
		s.found++;
	}
	free(s.group);
	return s.found;
}
