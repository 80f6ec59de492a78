/*
 * source_zstd: frames of zstd behind one another, as one text (source.h).  Frames that are to be
 * skipped, as pzstd(1) writes them, hold no text.
 *
 * Reading may begin at any frame, and inside of one before a compressed block, with a dictionary that
 * holds what the blocks from there on need (zstd_memory.h).  An access point inside has in `bits`
 * twice the logarithm of the frame's window, and one more where a checksum follows its last block.
 * A caller that keeps such a point must verify it first, as index.c does: libzstd can't tell a
 * wrong dictionary from a right one.
 */
#include "data/source_internal.h"
#include "data/zstd_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#define MAGIC_BYTES 4
#define HEADER_BYTES_MAX 18 /* of a frame */
#define BLOCK_HEADER 3
#define BLOCK_MAX (1u << 17)
#define CHECKSUM 4
/* Larger windows would make an index as large as the data. */
#define WINDOW_LOG_MAX 23
#define SPAN_WINDOWS 16 /* windows of text between two access points, at least */

enum state {
	BETWEEN, /* a frame may begin here, or the file ends */
	FRAME,
	TAIL /* entered inside: libzstd knows of no checksum behind the last block */
};

/* A frame whose blocks are looked at as they go by. */
struct look {
	int on;
	struct zstd_memory memory;
	unsigned window_log;
	int checksum;
	size_t feed;         /* bytes up to the next boundary */
	unsigned char *text; /* ring of the last bytes of text, 2^window_log of them */
	size_t room;
	uint64_t text_bytes; /* of the frame so far */
};

struct zstd {
	ZSTD_DCtx *context;
	enum state state;
	int checksum; /* TAIL: one follows */
	size_t wanted; /* bytes that libzstd takes next: it is given no more, so that damage has a place */
	struct look look;
};

static int matches(const unsigned char *head, size_t len)
{
	static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd}, skipped[] = {0x2a, 0x4d, 0x18};
	if (len < MAGIC_BYTES)
		return 0;
	return memcmp(head, frame, sizeof frame) == 0 ||
	       (head[0] >> 4 == 5 && memcmp(head + 1, skipped, sizeof skipped) == 0);
}

static int open_zstd(struct source *s, struct error *err)
{
	struct zstd *z = calloc(1, sizeof *z);
	if (z)
		z->context = ZSTD_createDCtx();
	if (!z || !z->context) {
		free(z);
		return source_no_memory(s, err);
	}
	s->unpack = z;
	return 0;
}

static void close_zstd(struct source *s)
{
	struct zstd *z = s->unpack;
	ZSTD_freeDCtx(z->context);
	free(z->look.text);
	free(z);
}

static int refuse(const struct source *s, size_t code, struct error *err)
{
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_memory_allocation:
		return source_no_memory(s, err);
	case ZSTD_error_frameParameter_windowTooLarge:
		return error_set(err, ERROR_DATA, s->name,
				 "its zstd frames need a window of more than 128 MiB (zstd --long=28 or "
				 "more); compress it anew with less");
	case ZSTD_error_dictionary_wrong:
		return error_set(err, ERROR_DATA, s->name,
				 "was compressed with a dictionary (zstd -D), which is not here; compress "
				 "it anew without");
	default:
		return source_damaged(s, err, ZSTD_getErrorName(code));
	}
}

/* ---- looking at blocks ---- */

static size_t there(const struct source *s)
{
	return s->in_end - s->in_begin;
}

/* The header of a frame (RFC 8878, 3.1.1.1): its length and its window; 0: none, or of no use. */
static size_t read_header(const unsigned char *p, size_t len, uint64_t *window, int *checksum)
{
	static const size_t id_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
	if (len < MAGIC_BYTES + 2 || p[0] != 0x28)
		return 0;
	unsigned flags = p[MAGIC_BYTES], single = flags >> 5 & 1;
	size_t size = flags >> 6 ? size_bytes[flags >> 6] : single;
	size_t at = MAGIC_BYTES + 1;
	if (!single) {
		uint64_t base = UINT64_C(1) << (10 + (p[at] >> 3));
		*window = base + base / 8 * (p[at] & 7);
		at++;
	}
	at += id_bytes[flags & 3];
	if (at + size > len)
		return 0;
	if (single) {
		*window = size == 2 ? 256 : 0;
		for (size_t i = 0; i < size; i++)
			*window += (uint64_t)p[at + i] << (8 * i);
	}
	*checksum = flags >> 2 & 1;
	return at + size;
}

/* At the start of a frame, which is looked at if its window is not too large. */
static int begin_look(struct source *s, struct zstd *z, struct error *err)
{
	struct look *l = &z->look;
	uint64_t window;
	l->on = 0;
	if (!s->point)
		return 0;
	if (source_want_input(s, HEADER_BYTES_MAX, err) != 0)
		return -1;
	size_t header = read_header(s->input + s->in_begin, there(s), &window, &l->checksum);
	l->window_log = 10;
	while (header && l->window_log <= WINDOW_LOG_MAX && window >> l->window_log > 1)
		l->window_log++;
	if (header && window > UINT64_C(1) << l->window_log)
		l->window_log++;
	if (!header || l->window_log > WINDOW_LOG_MAX)
		return 0;
	size_t room = (size_t)1 << l->window_log;
	if (room > l->room) {
		free(l->text);
		l->room = 0;
		l->text = malloc(room);
		if (!l->text)
			return source_no_memory(s, err);
		l->room = room;
	}
	zstd_memory_reset(&l->memory);
	l->text_bytes = 0;
	l->feed = header;
	l->on = 1;
	return 0;
}

static void keep_text(struct look *l, const char *data, size_t len)
{
	size_t room = (size_t)1 << l->window_log;
	l->text_bytes += len;
	if (len > room) {
		data += len - room;
		len = room;
	}
	size_t at = (size_t)((l->text_bytes - len) & (room - 1));
	size_t first = len < room - at ? len : room - at;
	memcpy(l->text + at, data, first);
	memcpy(l->text, data + first, len - first);
}

/* An access point before a compressed block. */
static int make_point(struct source *s, const struct look *l, struct error *err)
{
	size_t room = (size_t)1 << l->window_log;
	size_t len = l->text_bytes < room ? (size_t)l->text_bytes : room;
	unsigned char *window = malloc(ZSTD_MEMORY_TABLES_BYTES + len);
	if (!window)
		return source_no_memory(s, err);
	size_t tables = zstd_memory_dictionary(&l->memory, len, window);
	if (tables == 0) {
		free(window);
		return 0;
	}
	size_t at = (size_t)((l->text_bytes - len) & (room - 1));
	size_t first = len < room - at ? len : room - at;
	memcpy(window + tables, l->text + at, first);
	memcpy(window + tables + first, l->text, len - first);
	struct source_point p = {.out = s->out_at,
				 .in = source_consumed(s),
				 .bits = l->window_log * 2 + (uint32_t)l->checksum};
	s->last_point = s->out_at;
	int result = s->point(&p, window, tables + len, s->point_arg, err);
	free(window);
	return result;
}

static int far_enough(const struct source *s, const struct look *l)
{
	uint64_t least = (uint64_t)SPAN_WINDOWS << l->window_log;
	uint64_t span = *s->span > least ? *s->span : least;
	return l->text_bytes > 0 && s->out_at - s->last_point >= span;
}

/* All text of the blocks before was given: on to the next one. */
static int look_at_block(struct source *s, struct look *l, struct error *err)
{
	if (source_want_input(s, BLOCK_HEADER, err) != 0)
		return -1;
	const unsigned char *p = s->input + s->in_begin;
	if (there(s) < BLOCK_HEADER)
		return l->on = 0;
	uint32_t header = (uint32_t)(p[0] | p[1] << 8 | p[2] << 16), type = header >> 1 & 3;
	size_t size = type == 1 ? 1 : header >> 3;
	/* What is not right is for libzstd to refuse. */
	if (type == 3 || size > BLOCK_MAX)
		return l->on = 0;
	if (source_want_input(s, BLOCK_HEADER + size, err) != 0)
		return -1;
	if (there(s) < BLOCK_HEADER + size)
		return l->on = 0;
	p = s->input + s->in_begin + BLOCK_HEADER;
	l->feed = BLOCK_HEADER + size + (header & 1 && l->checksum ? CHECKSUM : 0);
	if (type != 2)
		return 0;
	if (far_enough(s, l) && zstd_memory_may_begin(&l->memory, p, size) &&
	    make_point(s, l, err) != 0)
		return -1;
	if (zstd_memory_take(&l->memory, p, size) != 0)
		l->on = 0;
	return 0;
}

/* ---- reading ---- */

static int next_frame(struct source *s, struct zstd *z, struct error *err)
{
	if (source_want_input(s, MAGIC_BYTES, err) != 0)
		return -1;
	if (s->in_begin == s->in_end) {
		s->done = 1;
		return 0;
	}
	if (!matches(s->input + s->in_begin, there(s)))
		return source_damaged(s, err, "bytes behind the last frame that are no zstd");
	/* The dictionary of the place where reading began is not for this frame. */
	(void)ZSTD_DCtx_reset(z->context, ZSTD_reset_session_and_parameters);
	z->state = FRAME;
	z->wanted = MAGIC_BYTES + 1;
	if (source_begin_unit(s, err) != 0)
		return -1;
	return begin_look(s, z, err);
}

static int end_frame(struct source *s, struct zstd *z, struct error *err)
{
	size_t tail = z->state == TAIL && z->checksum ? CHECKSUM : 0;
	z->state = BETWEEN;
	s->pending = 0;
	if (source_want_input(s, tail, err) != 0)
		return -1;
	if (there(s) < tail) {
		s->in_begin = s->in_end;
		return source_truncated(s, err);
	}
	s->in_begin += tail;
	return 0;
}

/* One call of libzstd; *got bytes of text. */
static int unpack_some(struct source *s, struct zstd *z, void *data, size_t max, size_t *got,
		       struct error *err)
{
	struct look *l = &z->look;
	if (l->on && l->feed == 0 && !s->pending && look_at_block(s, l, err) != 0)
		return -1;
	if (!s->pending && source_want_input(s, 1, err) != 0)
		return -1;
	size_t most = l->on ? l->feed : z->wanted;
	ZSTD_inBuffer in = {s->input + s->in_begin, there(s) < most ? there(s) : most, 0};
	ZSTD_outBuffer out = {data, max, 0};
	size_t left = ZSTD_decompressStream(z->context, &out, &in);
	if (ZSTD_isError(left))
		return refuse(s, left, err);
	s->in_begin += in.pos;
	s->out_at += out.pos;
	s->pending = out.pos == out.size;
	*got = out.pos;
	z->wanted = left;
	if (l->on) {
		keep_text(l, data, out.pos);
		l->feed -= in.pos;
	}
	if (left == 0)
		return end_frame(s, z, err);
	if (in.pos == 0 && out.pos == 0 && there(s) == 0 && s->in_eof)
		return source_truncated(s, err);
	return 0;
}

static int read_zstd(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	struct zstd *z = s->unpack;
	*got = 0;
	while (*got == 0 && !s->done)
		if (z->state == BETWEEN ? next_frame(s, z, err) != 0
					: unpack_some(s, z, data, max, got, err) != 0)
			return -1;
	return 0;
}

/* ---- beginning inside ---- */

static int seek_zstd(struct source *s, const struct source_point *p, const void *window,
		     size_t window_len, struct error *err)
{
	struct zstd *z = s->unpack;
	z->look.on = 0;
	z->state = BETWEEN;
	if (p->window_len == 0)
		return 0;
	unsigned log = p->bits / 2;
	if (log < 10 || log > WINDOW_LOG_MAX)
		return source_damaged(s, err, "a window of the index");
	/* No size, no checksum, no dictionary's id; the window. */
	unsigned char header[] = {0x28, 0xb5, 0x2f, 0xfd, 0, (unsigned char)((log - 10) << 3)};
	ZSTD_inBuffer in = {header, sizeof header, 0};
	ZSTD_outBuffer out = {header, 0, 0};
	(void)ZSTD_DCtx_reset(z->context, ZSTD_reset_session_and_parameters);
	/* libzstd says of a dictionary with errors, too, that memory is gone. */
	if (ZSTD_isError(ZSTD_DCtx_loadDictionary(z->context, window, window_len)))
		return source_damaged(s, err,
				      "a window of the index is no dictionary, or too large for memory");
	size_t code = ZSTD_decompressStream(z->context, &out, &in);
	if (ZSTD_isError(code))
		return refuse(s, code, err);
	z->state = TAIL;
	z->checksum = p->bits & 1;
	z->wanted = code;
	return 0;
}

static int pack_window(const void *window, size_t len, unsigned char **out, size_t *out_len)
{
	size_t room = ZSTD_compressBound(len);
	*out = malloc(room);
	if (!*out)
		return -1;
	*out_len = ZSTD_compress(*out, room, window, len, 3);
	if (!ZSTD_isError(*out_len))
		return 0;
	free(*out);
	return -1;
}

static int unpack_window(const void *packed, size_t len, unsigned char **out, size_t *out_len)
{
	unsigned long long size = ZSTD_getFrameContentSize(packed, len);
	if (size > ((unsigned long long)1 << WINDOW_LOG_MAX) + ZSTD_MEMORY_TABLES_BYTES)
		return -1;
	*out = malloc((size_t)size + 1);
	if (!*out)
		return -1;
	*out_len = ZSTD_decompress(*out, (size_t)size, packed, len);
	if (*out_len == size)
		return 0;
	free(*out);
	return -1;
}

const struct source_codec source_zstd = {.name = "zstd",
					 .matches = matches,
					 .open = open_zstd,
					 .close = close_zstd,
					 .read = read_zstd,
					 .seek = seek_zstd,
					 .pack = pack_window,
					 .unpack = unpack_window};
