/* See store_move.h. Dense parameters are copied at once to where they will belong, outside of the
 * range that is in force. Rows go into the table at once; nobody asks for them yet. */
#include "param/store_move.h"

#include "base/grow.h"
#include "base/least.h"
#include "param/store_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define BLOCK_OVERHEAD 256 /* bytes of a block's record, at most */
#define HEAD_OVERHEAD 1024 /* bytes of the first record and the notes, at most */
#define FIND_GROUP 256
#define BUCKET_ROWS 256
#define BUCKET_SHIFT_MIN 12 /* of 32 bits: 2^20 buckets at most */
/* The buckets are made anew when there are so many times as many rows. */
#define PLACES_GROWTH 8

/* ---- giving ---- */

struct store_share store_share_of(const struct store *s, const struct map *map, uint32_t to)
{
	uint32_t i = s->part;
	struct store_share share = {
		.dense_begin = most(s->map.dense_begin[i], map->dense_begin[to]),
		.dense_end = least(s->map.dense_begin[i + 1], map->dense_begin[to + 1]),
		.key_begin = most(s->map.key_begin[i], map->key_begin[to]),
		.key_end = least(s->map.key_begin[i + 1], map->key_begin[to + 1]),
	};

	if (share.dense_end <= share.dense_begin)
		share.dense_begin = share.dense_end = 0;
	if (share.key_end <= share.key_begin || !s->table)
		share.key_begin = share.key_end = 0;
	return share;
}

int store_share_is_empty(const struct store_share *share)
{
	return share->dense_begin == share->dense_end && share->key_begin == share->key_end;
}

/* ---- rows by their places ---- */

/* The keys of rows, in buckets by the high bits of their places. When rows are removed, their keys
 * leave it. table_remove() fills gaps from the end of the table; so all rows must have been looked
 * at before, and then new rows are behind those. */
struct places {
	size_t looked; /* how many of the table's rows were looked at */
	size_t most;   /* with more rows than this, buckets are too full */
	unsigned shift;
	struct bucket {
		uint32_t *key;
		size_t count, room;
	} bucket[];
};

static size_t bucket_count(const struct places *p)
{
	return (size_t)(MAP_PLACES >> p->shift);
}

void store_forget_places(struct store *s)
{
	for (size_t i = 0; s->places && i < bucket_count(s->places); i++)
		free(s->places->bucket[i].key);
	free(s->places);
	s->places = NULL;
}

/* Makes as many buckets as the number of this part's rows needs. */
static int make_places(struct store *s, struct error *err)
{
	uint64_t own = s->map.key_begin[s->part + 1] - s->map.key_begin[s->part];
	uint64_t rows = BUCKET_ROWS + store_row_count(s);
	unsigned shift = 31;

	while (shift > BUCKET_SHIFT_MIN && (own >> shift) * BUCKET_ROWS < rows)
		shift--;
	s->places = calloc(1, sizeof *s->places +
				      (size_t)(MAP_PLACES >> shift) * sizeof(struct bucket));
	if (!s->places)
		return error_set(err, ERROR_OS, "rows", "out of memory");
	s->places->shift = shift;
	s->places->most = PLACES_GROWTH * rows;
	return 0;
}

int store_learn_places(struct store *s, size_t most_rows, struct error *err)
{
	size_t count = store_row_count(s);

	if (s->places && count > s->places->most && s->places->shift > BUCKET_SHIFT_MIN)
		store_forget_places(s);
	if (!s->places && make_places(s, err) != 0)
		return -1;
	struct places *p = s->places;
	size_t n = count - p->looked > most_rows ? p->looked + most_rows : count;
	for (; p->looked < n; p->looked++) {
		uint32_t key = table_key(table_at(s->table, p->looked));
		struct bucket *b = &p->bucket[map_place(key) >> p->shift];
		if (GROW(b->key, b->room, b->count + 1) != 0)
			return error_set(err, ERROR_OS, "rows", "out of memory");
		b->key[b->count++] = key;
	}
	return n == count;
}

/* Removes the keys of a range of places. */
static void leave_places(struct places *p, uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin >> p->shift; begin < end && i <= (end - 1) >> p->shift; i++) {
		struct bucket *b = &p->bucket[i];
		size_t kept = 0;
		for (size_t k = 0; k < b->count; k++) {
			uint64_t place = map_place(b->key[k]);
			if (place < begin || place >= end)
				b->key[kept++] = b->key[k];
		}
		b->count = kept;
		if (kept == 0) {
			free(b->key);
			*b = (struct bucket){0};
		}
	}
}

static int add_key(uint32_t **key, size_t *count, size_t *room, uint32_t one, struct error *err)
{
	if (GROW(*key, *room, *count + 1) != 0)
		return error_set(err, ERROR_OS, "rows", "out of memory");
	(*key)[(*count)++] = one;
	return 0;
}

static int store_move_take_learnt(const struct places *p, struct store_share *share,
				  struct error *err)
{
	uint64_t begin = share->key_begin, end = share->key_end;

	for (uint64_t i = begin >> p->shift; i <= (end - 1) >> p->shift; i++) {
		const struct bucket *b = &p->bucket[i];
		for (size_t k = 0; k < b->count; k++)
			if (map_place(b->key[k]) - begin < end - begin &&
			    add_key(&share->key, &share->rows, &share->room, b->key[k], err) != 0)
				return -1;
	}
	return 0;
}

int store_share_find(const struct store *s, struct store_share *share, size_t *at, size_t most_rows,
		     struct error *err)
{
	uint64_t begin = share->key_begin, places = share->key_end - begin;
	size_t n = store_row_count(s);

	if (places == 0)
		*at = n;
	if (*at == 0 && places > 0 && s->places) {
		if (store_move_take_learnt(s->places, share, err) != 0)
			return -1;
		*at = s->places->looked;
	}
	if (n - *at > most_rows)
		n = *at + most_rows;
	for (; *at < n; ++*at) {
		uint32_t key = table_key(table_at(s->table, *at));
		if (map_place(key) - begin < places &&
		    add_key(&share->key, &share->rows, &share->room, key, err) != 0)
			return -1;
	}
	return 0;
}

size_t store_share_bytes(const struct store *s, const struct store_share *share)
{
	size_t dense = (size_t)(share->dense_end - share->dense_begin) * (1 + s->slots);
	size_t rows = share->rows * (1 + s->width * (1 + s->row_slots));

	/* Only the last blocks of each section are shorter than 4096 values. */
	return HEAD_OVERHEAD + (dense + rows) * sizeof(float) +
	       BLOCK_OVERHEAD * ((dense + rows) / 4096 + 2 * STREAM_SECTIONS_MAX);
}

int store_share_write(const struct store *s, const struct store_share *share,
		      const struct stream_sink *sink, struct error *err)
{
	const struct store_some some = {
		.dense_begin = share->dense_begin,
		.dense_count = share->dense_end - share->dense_begin,
		.rows = share->rows,
		.key = share->key,
	};

	return store_write_some(s, &some, sink, err);
}

void store_share_free(struct store_share *share)
{
	free(share->key);
	share->key = NULL;
	share->rows = share->room = 0;
}

/* ---- what comes ---- */

int store_incoming_begin(struct store_incoming *in, struct store *s, const struct map *map,
			 uint32_t part, struct error *err)
{
	uint64_t begin = map->dense_begin[part], end = map->dense_begin[part + 1];
	uint64_t have_begin = s->dense_begin, have_end = have_begin + s->dense_count;

	in->store = s;
	in->map = *map;
	in->part = part;
	in->rows = 0;
	in->warm = 0;
	in->new_begin[0] = in->new_begin[1] = begin;
	in->new_end[0] = in->new_end[1] = end;
	/* Only what is new: pages in use are not touched. */
	if (have_begin == have_end) {
		in->new_begin[1] = end;
	} else {
		in->new_end[0] = least(end, have_begin);
		in->new_begin[1] = most(begin, have_end);
	}
	for (int i = 0; i < 2; i++) {
		if (store_open_room(s, in->new_begin[i], in->new_end[i], err) != 0) {
			for (; i < 2; i++)
				in->new_end[i] = in->new_begin[i]; /* nothing to close there */
			return -1;
		}
	}
	return 0;
}

int store_incoming_warm(struct store_incoming *in, size_t bytes)
{
	uint64_t elements = bytes / (sizeof(float) * (1 + in->store->slots)) + 1, before = 0;

	for (int i = 0; i < 2; i++) {
		uint64_t begin = in->new_begin[i], end = most(begin, in->new_end[i]), count = end - begin;
		if (in->warm < before + count) {
			uint64_t from = begin + (in->warm - before);
			uint64_t to = least(end, from + elements);
			store_warm(in->store, from, to);
			in->warm += to - from;
			return 0;
		}
		before += count;
	}
	return 1;
}

/* Whether these elements will be ours, and are not yet. */
static int dense_comes(const struct store_incoming *in, uint64_t begin, uint64_t end)
{
	const struct store *s = in->store;
	uint64_t have_end = s->dense_begin + s->dense_count;

	return begin >= in->map.dense_begin[in->part] &&
	       end <= in->map.dense_begin[in->part + 1] &&
	       (s->dense_count == 0 || end <= s->dense_begin || begin >= have_end);
}

static float *store_move_place_dense(void *incoming, int slot, uint64_t begin, size_t count)
{
	struct store_incoming *in = incoming;
	struct store *s = in->store;

	if (!dense_comes(in, begin, begin + count))
		return NULL;
	return store_dense_at(s, slot, begin);
}

static int store_move_take_dense(void *incoming, int slot, uint64_t begin, size_t count,
				 const float *values, struct error *err)
{
	struct store_incoming *in = incoming;
	float *to = store_move_place_dense(in, slot, begin, count);

	if (!to)
		return error_set(err, ERROR_DATA, NULL, "dense parameters that are not ours");
	if (to != values)
		memcpy(to, values, count * sizeof *values);
	if (slot >= 0 && opt_bad_slot(&in->store->opt, (size_t)slot, to, count) < count)
		return error_set(err, ERROR_DATA, NULL, "a slot that can't be");
	return 0;
}

static int key_comes(const struct store_incoming *in, uint32_t key)
{
	const struct store *s = in->store;
	uint64_t place = map_place(key), begin = s->map.key_begin[s->part];
	uint64_t bound = s->layout.table.rows;

	return (bound == 0 || key < bound) && place >= in->map.key_begin[in->part] &&
	       place < in->map.key_begin[in->part + 1] &&
	       place - begin >= s->map.key_begin[s->part + 1] - begin;
}

static int store_move_take_rows(void *incoming, size_t rows, const uint32_t *keys,
				const float *values, const float *const *slots, struct error *err)
{
	struct store_incoming *in = incoming;
	struct store *s = in->store;
	float **row = malloc((rows + 1) * sizeof *row);
	int rc = row ? 0 : error_set(err, ERROR_OS, "rows", "out of memory");

	for (size_t i = 0; rc == 0 && i < rows; i++) {
		if (!key_comes(in, keys[i]))
			rc = error_set(err, ERROR_DATA, NULL, "key %u is not ours", keys[i]);
		else
			rc = add_key(&in->key, &in->rows, &in->room, keys[i], err);
	}
	if (rc == 0) {
		s->bare = 1;
		rc = table_rows(s->table, keys, rows, row, err);
		s->bare = 0;
	}
	if (rc == 0)
		rc = store_put_rows(s, rows, NULL, row, values, slots, err);
	free(row);
	return rc;
}

/* Checks that the stream has the same model, the same optimiser, and as many steps. A store that
 * has made no steps takes over their number. */
static int store_move_expect(struct store_incoming *in, const struct stream_reader *from,
			     struct error *err)
{
	struct store *s = in->store;
	const char *optimizer = stream_get_note(from, "optimizer");
	uint64_t steps = s->steps;
	int same;

	if (store_expect(s, from, &same, err) != 0)
		return -1;
	if (!same)
		return error_set(err, ERROR_CONFIG, NULL, "it has another --optimizer (%.40s)",
				 optimizer ? optimizer : "none");
	if (s->map.version == 0 || steps == s->steps)
		return 0;
	uint64_t its = s->steps;
	s->steps = steps;
	return error_set(err, ERROR_DATA, NULL, "it has made %llu steps, this part %llu",
			 (unsigned long long)its, (unsigned long long)steps);
}

/* State of the reading of a stream. */
struct reading {
	const char *at, *end;
	int expected;
};

static int store_move_read_bytes(void *reading, void *to, size_t bytes, struct error *err)
{
	struct reading *r = reading;

	if ((size_t)(r->end - r->at) < bytes)
		return error_set(err, ERROR_DATA, NULL, "it ends within a block");
	memcpy(to, r->at, bytes);
	r->at += bytes;
	return 0;
}

/* Reads the next line, from a copy: another process may change the original. */
static int store_move_read_line(struct reading *r, struct record *record, struct error *err)
{
	char line[RECORD_LINE_MAX];
	size_t len = (size_t)(r->end - r->at), most_len = len < sizeof line ? len : sizeof line;

	memcpy(line, r->at, most_len);
	const char *end = memchr(line, '\n', most_len);
	if (!end)
		return error_set(err, ERROR_DATA, NULL, "a line without an end");
	r->at += end - line + 1;
	return record_parse(record, line, (size_t)(end - line), err);
}

static int store_move_take_record(struct store_incoming *in, struct stream_reader *stream,
				  struct reading *r, const struct record *record, struct error *err)
{
	const struct stream_source source = {store_move_read_bytes, r};
	const struct stream_taker taker = {.place = store_move_place_dense,
					   .dense = store_move_take_dense,
					   .rows = store_move_take_rows,
					   .owner = in,
					   .slots = 1};
	struct stream_block block;
	int kind = stream_record(stream, record, &block, err);

	if (kind == STREAM_OTHER)
		return error_set(err, ERROR_DATA, NULL, "%.64s is none of a stream's",
				 record->type);
	if (kind != STREAM_BLOCK)
		return kind < 0 ? -1 : 0;
	if (!r->expected && store_move_expect(in, stream, err) != 0)
		return -1;
	r->expected = 1;
	return stream_read(stream, &block, &source, &taker, err);
}

int store_incoming_take(struct store_incoming *in, const char *text, size_t bytes,
			struct error *err)
{
	struct stream_reader *stream = stream_reader_new();
	struct record *record = malloc(sizeof *record);
	struct reading r = {.at = text, .end = text + bytes};
	int rc = stream && record ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");

	while (rc == 0 && r.at < r.end) {
		rc = store_move_read_line(&r, record, err);
		if (rc == 0)
			rc = store_move_take_record(in, stream, &r, record, err);
	}
	if (rc == 0)
		rc = stream_complete(stream, err);
	if (rc == 0 && !r.expected)
		rc = store_move_expect(in, stream, err);
	free(record);
	stream_reader_free(stream);
	return rc;
}

void store_incoming_free(struct store_incoming *in)
{
	free(in->key);
	in->key = NULL;
	in->rows = in->room = 0;
}

/* ---- the map ---- */

/* Gives back the pages of elements that are no longer ours, so that a limit (RLIMIT_DATA) does not
 * count them either. If that fails, memory is wasted, no more. */
static void close_room(struct store *s, uint64_t begin, uint64_t end)
{
	for (size_t k = 0; begin < end && k <= s->slots; k++) {
		float *first = store_dense_at(s, (int)k - 1, begin);
		uintptr_t at = ((uintptr_t)first + PAGE - 1) / PAGE * PAGE;
		uintptr_t stop = (uintptr_t)(first + (end - begin)) / PAGE * PAGE;
		if (at >= stop)
			continue;
		(void)madvise((void *)at, stop - at, MADV_DONTNEED);
		(void)mprotect((void *)at, stop - at, PROT_NONE);
	}
}

void store_incoming_undo(struct store_incoming *in)
{
	if (!in->store)
		return;
	if (in->store->table && in->rows) {
		store_forget_places(in->store);
		table_remove(in->store->table, in->key, in->rows);
	}
	in->rows = 0;
	for (int i = 0; i < 2; i++)
		close_room(in->store, in->new_begin[i], in->new_end[i]);
}

/* Removes the rows that were given; the places that are known stay known. */
static void remove_given(struct store *s, const struct store_share *given)
{
	if (given->rows == 0)
		return;
	if (s->places && store_learn_places(s, SIZE_MAX, NULL) != 1)
		store_forget_places(s);
	table_remove(s->table, given->key, given->rows);
	if (!s->places)
		return;
	leave_places(s->places, given->key_begin, given->key_end);
	s->places->looked = store_row_count(s);
}

void store_adopt(struct store *s, const struct map *map, uint32_t part,
		 const struct store_share *given, size_t count)
{
	uint64_t had_begin = s->dense_begin, had_end = had_begin + s->dense_count;

	s->map = *map;
	s->part = part;
	s->dense_begin = map->dense_begin[part];
	s->dense_count = (size_t)(map->dense_begin[part + 1] - map->dense_begin[part]);
	if (s->room)
		s->dense = s->room + (s->dense_count ? s->dense_begin - s->room_begin : 0);
	store_cut_segments(s);
	close_room(s, had_begin, least(had_end, s->dense_begin));
	close_room(s, most(had_begin, s->dense_begin + s->dense_count), had_end);
	for (size_t i = 0; s->table && i < count; i++)
		remove_given(s, &given[i]);
}

void store_name_rows(float **row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		row[i] = (float *)(uintptr_t)table_key(row[i]);
}

void store_find_rows(const struct store *s, float **row, size_t n)
{
	uint32_t key[FIND_GROUP];

	for (size_t at = 0, len; at < n; at += len) {
		len = n - at < FIND_GROUP ? n - at : FIND_GROUP;
		for (size_t i = 0; i < len; i++)
			key[i] = (uint32_t)(uintptr_t)row[at + i];
		table_look(s->table, key, len, row + at);
	}
}

uint64_t store_dense_bytes(const struct store *s)
{
	return (uint64_t)s->dense_count * (1 + s->slots) * sizeof(float);
}

uint64_t store_row_bytes(const struct store *s)
{
	return store_row_count(s) * store_one_row_bytes(s);
}
