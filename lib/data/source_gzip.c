/*
 * source_gzip: members of gzip behind one another, as one text (source.h).  An access point in the
 * middle of a member is a block boundary with the 32 KiB of text before it, as zlib's
 * examples/zran.c keeps it.
 */
#include "data/source_internal.h"

#include <stdlib.h>

#include <zlib.h>

#define WINDOW_MAX 32768
#define TRAILER 8 /* CRC-32 and length behind each member */

enum state {
	BETWEEN, /* a member may begin here, or the file ends */
	MEMBER,  /* zlib reads header, blocks and trailer */
	RAW      /* entered at an access point: zlib reads blocks only, and we skip the trailer */
};

struct gzip {
	z_stream z;
	enum state state;
};

static int gzip_matches(const unsigned char *head, size_t len)
{
	return len >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

static int open_gzip(struct source *s, struct error *err)
{
	struct gzip *g = calloc(1, sizeof *g);
	/* 31: gzip header and trailer, the largest window. */
	if (!g || inflateInit2(&g->z, 31) != Z_OK) {
		free(g);
		return source_no_memory(s, err);
	}
	s->unpack = g;
	return 0;
}

static void close_gzip(struct source *s)
{
	struct gzip *g = s->unpack;
	inflateEnd(&g->z);
	free(g);
}

/* Behind a member: another one, zero padding up to the end, or the end. */
static int next_member(struct source *s, struct gzip *g, struct error *err)
{
	if (source_want_input(s, 2, err) != 0)
		return -1;
	if (gzip_matches(s->input + s->in_begin, s->in_end - s->in_begin)) {
		if (inflateReset2(&g->z, 31) != Z_OK)
			return source_damaged(s, err, "inflateReset2");
		g->state = MEMBER;
		return source_begin_unit(s, err);
	}
	for (;;) {
		while (s->in_begin < s->in_end && s->input[s->in_begin] == 0)
			s->in_begin++;
		if (s->in_begin < s->in_end)
			return source_damaged(s, err, "bytes behind the last member that are no gzip");
		if (s->in_eof)
			break;
		if (source_fill_input(s, err) != 0)
			return -1;
	}
	s->done = 1;
	return 0;
}

static int skip_trailer(struct source *s, struct error *err)
{
	if (source_want_input(s, TRAILER, err) != 0)
		return -1;
	if (s->in_end - s->in_begin < TRAILER) {
		s->in_begin = s->in_end;
		return source_truncated(s, err);
	}
	s->in_begin += TRAILER;
	return 0;
}

/* At a block boundary: an access point when the last one is far enough back. */
static int maybe_point(struct source *s, struct gzip *g, struct error *err)
{
	/* 128: between two blocks; 64: the last block is over, nothing of it follows. */
	if (!(g->z.data_type & 128) || (g->z.data_type & 64) || s->out_at - s->last_point < *s->span)
		return 0;
	unsigned char window[WINDOW_MAX];
	uInt len = 0;
	if (inflateGetDictionary(&g->z, window, &len) != Z_OK || len == 0)
		return 0;
	struct source_point p = {.out = s->out_at,
				 .in = source_consumed(s),
				 .bits = (uint32_t)(g->z.data_type & 7)};
	s->last_point = s->out_at;
	return s->point(&p, window, len, s->point_arg, err);
}

/* One call of inflate(); *got bytes of text. */
static int inflate_some(struct source *s, struct gzip *g, void *data, size_t max, size_t *got,
			struct error *err)
{
	*got = 0;
	if (!s->pending && source_want_input(s, 1, err) != 0)
		return -1;
	g->z.next_in = s->input + s->in_begin;
	g->z.avail_in = (uInt)(s->in_end - s->in_begin);
	g->z.next_out = data;
	g->z.avail_out = max > 1u << 30 ? 1u << 30 : (uInt)max;
	uInt room = g->z.avail_out;
	int rc = inflate(&g->z, s->point ? Z_BLOCK : Z_NO_FLUSH);
	s->in_begin = s->in_end - g->z.avail_in;
	*got = room - g->z.avail_out;
	s->out_at += *got;
	s->pending = g->z.avail_out == 0;
	switch (rc) {
	case Z_STREAM_END:
		if (g->state == RAW && skip_trailer(s, err) != 0)
			return -1;
		g->state = BETWEEN;
		return 0;
	case Z_OK:
		return s->point ? maybe_point(s, g, err) : 0;
	case Z_BUF_ERROR:
		if (s->in_eof && s->in_begin == s->in_end && *got == 0)
			return source_truncated(s, err);
		/* zlib has used its input and needs more. */
		return s->in_begin == s->in_end ? source_fill_input(s, err) : 0;
	case Z_MEM_ERROR:
		return source_no_memory(s, err);
	default:
		return source_damaged(s, err, g->z.msg ? g->z.msg : "inflate");
	}
}

static int read_gzip(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	struct gzip *g = s->unpack;
	*got = 0;
	while (*got == 0 && !s->done)
		if (g->state == BETWEEN ? next_member(s, g, err) != 0
					: inflate_some(s, g, data, max, got, err) != 0)
			return -1;
	return 0;
}

static int seek_gzip(struct source *s, const struct source_point *p, const void *window,
		     size_t window_len, struct error *err)
{
	struct gzip *g = s->unpack;
	if (p->window_len == 0) {
		g->state = BETWEEN;
		return 0;
	}
	if (inflateReset2(&g->z, -15) != Z_OK)
		return source_damaged(s, err, "inflateReset2");
	if (p->bits) {
		source_jump(s, p->in - 1, p->out);
		if (source_want_input(s, 1, err) != 0)
			return -1;
		if (s->in_begin == s->in_end)
			return source_truncated(s, err);
		int byte = s->input[s->in_begin++];
		if (inflatePrime(&g->z, (int)p->bits, byte >> (8 - p->bits)) != Z_OK)
			return source_damaged(s, err, "inflatePrime");
	}
	if (inflateSetDictionary(&g->z, window, (uInt)window_len) != Z_OK)
		return source_damaged(s, err, "inflateSetDictionary");
	g->state = RAW;
	return 0;
}

int source_pack_window(const void *window, size_t len, unsigned char **out, size_t *out_len)
{
	uLongf packed = compressBound((uLong)len);
	*out = malloc(packed);
	if (!*out)
		return -1;
	if (compress2(*out, &packed, window, (uLong)len, 4) != Z_OK) {
		free(*out);
		return -1;
	}
	*out_len = packed;
	return 0;
}

int source_unpack_window(const void *packed, size_t len, unsigned char **out, size_t *out_len)
{
	uLongf text = WINDOW_MAX;
	*out = malloc(text);
	if (!*out)
		return -1;
	if (uncompress(*out, &text, packed, (uLong)len) != Z_OK) {
		free(*out);
		return -1;
	}
	*out_len = text;
	return 0;
}

const struct source_codec source_gzip = {.name = "gzip",
					 .matches = gzip_matches,
					 .open = open_gzip,
					 .close = close_gzip,
					 .read = read_gzip,
					 .seek = seek_gzip};
