/*
 * stream_write: see stream.h.  It also has what both writer and reader need to know of the form.
 * It may run in a forked child, on arrays that are shared copy-on-write: it never changes its
 * input, and needs memory for one block only.
 */
#include "param/layout.h"
#include "param/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Values of a block that is taken at once: it stays in the reader's cache until it has been
 * checked. */
#define LIVE_VALUES (1u << 16)

/* A block of a stream that is kept. Any thread encodes it; it is put in its turn. */
struct kept {
	size_t section, count;
	const void *values; /* the caller's */
	uint32_t low, high; /* of keys: their least and greatest place */
	uint32_t plane[PLANES];
	size_t bytes;
	uint64_t sum;
	size_t bad; /* the first value that is not finite; count: none */
	uint8_t *encoded;
};

struct stream_writer {
	struct stream_sink sink;
	struct stream_shape shape;
	uint64_t total[STREAM_SECTIONS_MAX]; /* values written */
	size_t notes;
	size_t block_values;
	/* For a stream that is kept: `next` are blocks to be encoded; those before them are `ready`
	 * to be put. */
	size_t room; /* of each list */
	struct planes_coder **coder; /* [room] */
	struct kept *next, *ready;   /* [room] */
	size_t nexts, readies;
	int failed;
	struct error why;
};

/* ---- the form ---- */

void stream_section_name(const struct stream_shape *s, size_t section,
			 char out[STREAM_SECTION_NAME_MAX])
{
	size_t keys = stream_keys_section(s);

	if (section == 0)
		snprintf(out, STREAM_SECTION_NAME_MAX, "dense");
	else if (section < keys)
		snprintf(out, STREAM_SECTION_NAME_MAX, "dense.s%u", (unsigned)(section - 1) & 15);
	else if (section == keys)
		snprintf(out, STREAM_SECTION_NAME_MAX, "rows.keys");
	else if (section == keys + 1)
		snprintf(out, STREAM_SECTION_NAME_MAX, "rows");
	else
		snprintf(out, STREAM_SECTION_NAME_MAX, "rows.s%u",
			 (unsigned)(section - keys - 2) & 15);
}

int stream_shape_check(const struct stream_shape *s, struct error *err)
{
	if (s->parts == 0 || s->parts > MAP_PARTS_MAX || s->part >= s->parts)
		return error_set(err, ERROR_DATA, NULL, "part %u of %u is out of range", s->part,
				 s->parts);
	if (s->dense_begin > LAYOUT_DENSE_MAX || s->dense_count > LAYOUT_DENSE_MAX ||
	    s->dense_begin + s->dense_count > LAYOUT_DENSE_MAX)
		return error_set(err, ERROR_DATA, NULL, "dense range is out of range");
	if (s->width > LAYOUT_WIDTH_MAX)
		return error_set(err, ERROR_DATA, NULL, "width %u is out of range", s->width);
	if (s->partial && s->all_rows < s->rows)
		return error_set(err, ERROR_DATA, NULL, "more rows than all rows");
	if (s->dense_slots > STREAM_SLOTS_MAX || s->row_slots > STREAM_SLOTS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d slots", STREAM_SLOTS_MAX);
	return 0;
}

/* A float is not finite if all bits of its exponent are 1. */
static int is_finite(const uint8_t *value)
{
	uint32_t bits;

	memcpy(&bits, value, sizeof bits);
	return (bits & 0x7f800000u) != 0x7f800000u;
}

size_t stream_not_finite(const void *values, size_t count)
{
	const uint8_t *at = values;
	size_t bad = 0;

	for (size_t i = 0; i < count; i++)
		bad += !is_finite(at + 4 * i);
	for (size_t i = 0; bad > 0 && i < count; i++) {
		if (!is_finite(at + 4 * i))
			return i;
	}
	return count;
}

size_t stream_block_rows(const struct stream_shape *s)
{
	return PLANES_VALUES_MAX / s->width;
}

/* ---- writing ---- */

static int put_first(struct stream_writer *w, struct error *err)
{
	const struct stream_shape *s = &w->shape;

	return w->sink.put(w->sink.owner,
			   RECORD("part", F("version", s->partial ? 2 : 1), F("part", s->part),
				  F("parts", s->parts), F("dense-begin", s->dense_begin),
				  F("dense", s->dense_count), F("dense-slots", s->dense_slots),
				  F("width", s->width), F("row-slots", s->row_slots),
				  F("rows", s->rows),
				  s->partial ? F("all-rows", s->all_rows) : F_NONE),
			   NULL, 0, err);
}

/* Two blocks for each thread: then one that is late does not hold up all others. */
static int make_lists(struct stream_writer *w)
{
	unsigned threads = team_threads(w->sink.team);

	w->room = threads > 1 ? 2 * (size_t)threads : 1;
	w->coder = calloc(w->room, sizeof *w->coder);
	w->next = calloc(w->room, sizeof *w->next);
	w->ready = calloc(w->room, sizeof *w->ready);
	if (!w->coder || !w->next || !w->ready)
		return -1;
	for (size_t i = 0; i < w->room; i++) {
		w->coder[i] = planes_coder_new(w->sink.level);
		w->next[i].encoded = malloc(PLANES_BYTES_MAX);
		w->ready[i].encoded = malloc(PLANES_BYTES_MAX);
		if (!w->coder[i] || !w->next[i].encoded || !w->ready[i].encoded)
			return -1;
	}
	return 0;
}

int stream_begin(struct stream_writer **out, const struct stream_sink *sink,
		 const struct stream_shape *shape, struct error *err)
{
	if (stream_shape_check(shape, err) != 0)
		return -1;
	struct stream_writer *w = calloc(1, sizeof *w);
	if (w)
		w->sink = *sink;
	if (!w || (sink->at && make_lists(w) != 0)) {
		stream_writer_free(w);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	w->shape = *shape;
	w->block_values = sink->at ? PLANES_VALUES_MAX : LIVE_VALUES;
	if (put_first(w, err) != 0) {
		stream_writer_free(w);
		return -1;
	}
	*out = w;
	return 0;
}

void stream_writer_free(struct stream_writer *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->room; i++) {
		if (w->coder)
			planes_coder_free(w->coder[i]);
		if (w->next)
			free(w->next[i].encoded);
		if (w->ready)
			free(w->ready[i].encoded);
	}
	free(w->coder);
	free(w->next);
	free(w->ready);
	free(w);
}

int stream_note(struct stream_writer *w, const char *key, const char *value, struct error *err)
{
	if (w->notes == STREAM_NOTES_MAX)
		return error_set(err, ERROR_SOFTWARE, NULL, "more than %d notes", STREAM_NOTES_MAX);
	if (strlen(key) >= STREAM_NOTE_MAX || strlen(value) >= STREAM_NOTE_MAX)
		return error_set(err, ERROR_SOFTWARE, NULL, "note '%.40s' is too long", key);
	w->notes++;
	return w->sink.put(w->sink.owner, RECORD("note", F("key", key), F("value", value)), NULL, 0,
			   err);
}

static void find_places(const uint32_t *keys, size_t count, uint32_t *low, uint32_t *high)
{
	*low = UINT32_MAX;
	*high = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t place = map_place(keys[i]);
		*low = place < *low ? place : *low;
		*high = place > *high ? place : *high;
	}
}

static void begin_block(struct record_out *o, char *line, const struct stream_writer *w,
			size_t section)
{
	char name[STREAM_SECTION_NAME_MAX];

	stream_section_name(&w->shape, section, name);
	record_begin(o, line, RECORD_LINE_MAX, "block");
	record_add(o, "section", name);
	if (w->sink.at)
		record_add_u64(o, "at", *w->sink.at);
}

/* Puts a block into a stream that is taken at once, as the values lie. */
static int put_live(struct stream_writer *w, size_t section, const void *values, size_t count,
		    struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint32_t low, high;

	begin_block(&o, line, w, section);
	record_add_u64(&o, "count", count);
	if (section == stream_keys_section(&w->shape)) {
		find_places(values, count, &low, &high);
		record_add_u64(&o, "low", low);
		record_add_u64(&o, "high", high);
	}
	return w->sink.put(w->sink.owner, &o, values, 4 * count, err);
}

static int put_kept(struct stream_writer *w, const struct kept *k, struct error *err)
{
	char line[RECORD_LINE_MAX], text[64];
	struct record_out o;

	begin_block(&o, line, w, k->section);
	record_add_u64(&o, "count", k->count);
	if (k->section == stream_keys_section(&w->shape)) {
		record_add_u64(&o, "low", k->low);
		record_add_u64(&o, "high", k->high);
	}
	snprintf(text, sizeof text, "%u,%u,%u,%u", k->plane[0], k->plane[1], k->plane[2],
		 k->plane[3]);
	record_add(&o, "planes", text);
	snprintf(text, sizeof text, "%016" PRIx64, k->sum);
	record_add(&o, "sum", text);
	return w->sink.put(w->sink.owner, &o, k->encoded, k->bytes, err);
}

static void encode(struct stream_writer *w, struct kept *k, struct planes_coder *coder)
{
	int keys = k->section == stream_keys_section(&w->shape);

	/* Only in a stream that is kept. In one that is taken at once, the reader checks the values
	 * while they still exist here. */
	k->bad = keys ? k->count : stream_not_finite(k->values, k->count);
	if (k->bad < k->count)
		return;
	if (keys)
		find_places(k->values, k->count, &k->low, &k->high);
	k->bytes = planes_encode(coder, k->values, k->count, k->encoded, k->plane);
	k->sum = XXH3_64bits(k->encoded, k->bytes);
}

/* Piece 0 puts the blocks that are ready; each other piece encodes one block. */
static void do_piece(size_t piece, void *writer)
{
	struct stream_writer *w = writer;

	if (piece > 0) {
		encode(w, &w->next[piece - 1], w->coder[piece - 1]);
		return;
	}
	for (size_t i = 0; i < w->readies && !w->failed; i++)
		w->failed = put_kept(w, &w->ready[i], &w->why) != 0;
}

/* Puts the blocks that are encoded, and encodes the next ones. Then the caller's values are no
 * longer needed. */
static int stream_write_turn(struct stream_writer *w, struct error *err)
{
	char name[STREAM_SECTION_NAME_MAX];
	struct kept *encoded = w->next;
	int alone = team_threads(w->sink.team) == 1;

	w->why = (struct error){0};
	team_run(w->sink.team, 1 + w->nexts, do_piece, w);
	w->next = w->ready;
	w->ready = encoded;
	w->readies = w->nexts;
	w->nexts = 0;
	for (size_t i = 0; i < w->readies && !w->failed; i++)
		if (encoded[i].bad < encoded[i].count) {
			stream_section_name(&w->shape, encoded[i].section, name);
			w->failed = 1;
			error_set(&w->why, ERROR_SOFTWARE, NULL, "a value of %s is not finite", name);
		}
	/* A thread that is alone puts its blocks itself. */
	if (alone && w->readies && !w->failed)
		do_piece(0, w);
	if (alone)
		w->readies = 0;
	if (w->failed && err)
		*err = w->why;
	return w->failed ? -1 : 0;
}

static int put_block(struct stream_writer *w, size_t section, const void *values, size_t count,
		     struct error *err)
{
	w->total[section] += count;
	if (!w->sink.at)
		return put_live(w, section, values, count, err);
	struct kept *k = &w->next[w->nexts++];
	k->section = section;
	k->values = values;
	k->count = count;
	return w->nexts == w->room ? stream_write_turn(w, err) : 0;
}

/* After this the caller's values may change. */
static int stream_write_release(struct stream_writer *w, struct error *err)
{
	return w->nexts ? stream_write_turn(w, err) : 0;
}

size_t stream_batch_rows(const struct stream_writer *w)
{
	size_t sections = 1 + w->shape.row_slots, batches = w->room > 1 ? w->room / sections : 1;

	return stream_block_rows(&w->shape) * (batches ? batches : 1);
}

int stream_dense(struct stream_writer *w, int slot, const float *values, uint64_t count,
		 struct error *err)
{
	size_t section = (size_t)(slot + 1);

	if (slot < -1 || slot >= (int)w->shape.dense_slots)
		return error_set(err, ERROR_SOFTWARE, NULL, "no dense slot %d", slot);
	if (count > w->shape.dense_count - w->total[section])
		return error_set(err, ERROR_SOFTWARE, NULL, "too many values for dense slot %d", slot);
	while (count > 0) {
		size_t n = count < w->block_values ? (size_t)count : w->block_values;
		if (put_block(w, section, values, n, err) != 0)
			return -1;
		values += n;
		count -= n;
	}
	return stream_write_release(w, err);
}

int stream_rows(struct stream_writer *w, size_t rows, const uint32_t *keys, const float *values,
		const float *const *slots, struct error *err)
{
	size_t section = stream_keys_section(&w->shape), width = w->shape.width;
	size_t most;

	if (width == 0 || rows > w->shape.rows - w->total[section])
		return error_set(err, ERROR_SOFTWARE, NULL, "too many rows");
	most = w->block_values > width ? w->block_values / width : 1;
	for (size_t at = 0, n; at < rows; at += n) {
		n = rows - at < most ? rows - at : most;
		if (put_block(w, section, keys + at, n, err) != 0 ||
		    put_block(w, section + 1, values + at * width, n * width, err) != 0)
			return -1;
		for (size_t k = 0; k < w->shape.row_slots; k++) {
			if (put_block(w, section + 2 + k, slots[k] + at * width, n * width, err) != 0)
				return -1;
		}
	}
	return stream_write_release(w, err);
}

int stream_end(struct stream_writer *w, struct error *err)
{
	const struct stream_shape *s = &w->shape;

	if (w->readies && stream_write_turn(w, err) != 0)
		return -1;
	for (size_t i = 0; i < stream_keys_section(s); i++) {
		if (w->total[i] != s->dense_count)
			return error_set(err, ERROR_SOFTWARE, NULL, "too few values for dense slot %d",
					 (int)i - 1);
	}
	if (w->total[stream_keys_section(s)] != s->rows)
		return error_set(err, ERROR_SOFTWARE, NULL, "too few rows");
	return 0;
}
