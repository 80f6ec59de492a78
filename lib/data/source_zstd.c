/*
 * source_zstd: frames of zstd behind one another, as one text (source.h).  Frames that are to be
 * skipped, as pzstd(1) writes them, hold no text.  Reading may begin at any frame, but not inside of
 * one: libzstd has no function for that.
 */
#include "data/source_internal.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#define MAGIC_BYTES 4

enum state {
	BETWEEN, /* a frame may begin here, or the file ends */
	FRAME
};

struct zstd {
	ZSTD_DCtx *context;
	enum state state;
	size_t wanted; /* bytes that libzstd takes next: it gets no more, so that damage has a known
		        * place */
};

static int zstd_matches(const unsigned char *head, size_t len)
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
	free(z);
}

static int zstd_refuse(const struct source *s, size_t code, struct error *err)
{
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_memory_allocation:
		return source_no_memory(s, err);
	case ZSTD_error_frameParameter_windowTooLarge:
		return error_set(err, ERROR_DATA, s->name,
				 "its zstd frames need a window of more than 128 MiB (zstd "
				 "--long=28 or more); compress it again with a smaller window");
	case ZSTD_error_dictionary_wrong:
		return error_set(err, ERROR_DATA, s->name,
				 "was compressed with a dictionary (zstd -D), which Paceline does "
				 "not have; compress it again without one");
	default:
		return source_damaged(s, err, ZSTD_getErrorName(code));
	}
}

static size_t there(const struct source *s)
{
	return s->in_end - s->in_begin;
}

static int next_frame(struct source *s, struct zstd *z, struct error *err)
{
	if (source_want_input(s, MAGIC_BYTES, err) != 0)
		return -1;
	if (s->in_begin == s->in_end) {
		s->done = 1;
		return 0;
	}
	if (!zstd_matches(s->input + s->in_begin, there(s)))
		return source_damaged(s, err, "bytes behind the last frame that are no zstd");
	(void)ZSTD_DCtx_reset(z->context, ZSTD_reset_session_only);
	z->state = FRAME;
	z->wanted = MAGIC_BYTES + 1;
	return source_begin_unit(s, err);
}

/* One call of libzstd; *got bytes of text. */
static int unpack_some(struct source *s, struct zstd *z, void *data, size_t max, size_t *got,
		       struct error *err)
{
	if (!s->pending && source_want_input(s, 1, err) != 0)
		return -1;
	ZSTD_inBuffer in = {s->input + s->in_begin, there(s) < z->wanted ? there(s) : z->wanted, 0};
	ZSTD_outBuffer out = {data, max, 0};
	size_t left = ZSTD_decompressStream(z->context, &out, &in);
	if (ZSTD_isError(left))
		return zstd_refuse(s, left, err);
	s->in_begin += in.pos;
	s->out_at += out.pos;
	s->pending = out.pos == out.size;
	*got = out.pos;
	z->wanted = left;
	if (left == 0) {
		z->state = BETWEEN;
		s->pending = 0;
	} else if (in.pos == 0 && out.pos == 0 && there(s) == 0 && s->in_eof)
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

static int seek_zstd(struct source *s, const struct source_point *p, const void *window,
		     size_t window_len, struct error *err)
{
	struct zstd *z = s->unpack;
	(void)window;
	(void)window_len;
	if (p->window_len > 0)
		return source_damaged(s, err, "an access point of the index inside of a frame");
	z->state = BETWEEN;
	return 0;
}

const struct source_codec source_zstd = {.name = "zstd",
					 .matches = zstd_matches,
					 .open = open_zstd,
					 .close = close_zstd,
					 .read = read_zstd,
					 .seek = seek_zstd};
