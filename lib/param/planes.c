/*
 * planes: see planes.h.  Bytes to bytes; it must never know what the values mean or where they go.
 *
 * Deflating a plane only to find out that it does not shrink costs 10 ms per MiB.  Counting its
 * bytes costs a tenth of a millisecond and tells the same: a Huffman code comes within a few per
 * cent of the entropy of single bytes.
 */
#include "param/planes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define SAMPLE_SLICES 16
#define SAMPLE_SLICE_BYTES 1024
/* A plane that shrinks to no less than this fraction is not worth the time of inflating. */
#define WORTH 0.95
/* So much of a plane is deflated to see whether strings repeat. If they do not, looking for them
 * takes ten times as long, and the strings that are found by chance make the plane longer. */
#define PROBE_BYTES (1u << 13)
#define STRINGS_WORTH 0.97 /* of what Huffman codes alone would give */

/* Ways to deflate a plane: Huffman codes only, or strings as well. */
enum way { BY_BYTES, BY_STRINGS, WAYS };

struct planes_coder {
	int level, deflates[WAYS], inflates; /* deflates, inflates: whether those below are ready */
	z_stream deflater[WAYS], inflater;
	uint8_t planes[PLANES_BYTES_MAX];
};

struct planes_coder *planes_coder_new(int level)
{
	struct planes_coder *c = malloc(sizeof *c);
	if (!c)
		return NULL;
	c->level = level;
	c->deflates[BY_BYTES] = c->deflates[BY_STRINGS] = c->inflates = 0;
	memset(c->deflater, 0, sizeof c->deflater);
	memset(&c->inflater, 0, sizeof c->inflater);
	return c;
}

void planes_coder_free(struct planes_coder *c)
{
	if (!c)
		return;
	for (int way = 0; way < WAYS; way++)
		if (c->deflates[way])
			deflateEnd(&c->deflater[way]);
	if (c->inflates)
		inflateEnd(&c->inflater);
	free(c);
}

/* A direction is made ready when it is first used: most coders go one way only. */
static int ready_to_deflate(struct planes_coder *c, enum way way)
{
	z_stream *z = &c->deflater[way];
	int strings = way == BY_STRINGS;
	if (!c->deflates[way])
		c->deflates[way] = deflateInit2(z, strings ? c->level : 1, Z_DEFLATED, -MAX_WBITS, 9,
						strings ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY) == Z_OK;
	return c->deflates[way] && deflateReset(z) == Z_OK;
}

static int ready_to_inflate(struct planes_coder *c)
{
	if (!c->inflates)
		c->inflates = inflateInit2(&c->inflater, -MAX_WBITS) == Z_OK;
	return c->inflates && inflateReset(&c->inflater) == Z_OK;
}

/* Separate loops over whole arrays: the compiler turns them into byte shuffles. */
static void planes_split(const uint8_t *restrict values, size_t count, uint8_t *restrict planes)
{
	uint8_t *restrict p0 = planes, *restrict p1 = planes + count;
	uint8_t *restrict p2 = planes + 2 * count, *restrict p3 = planes + 3 * count;
	for (size_t i = 0; i < count; i++) {
		p0[i] = values[4 * i];
		p1[i] = values[4 * i + 1];
		p2[i] = values[4 * i + 2];
		p3[i] = values[4 * i + 3];
	}
}

static void planes_join(const uint8_t *restrict p0, const uint8_t *restrict p1,
			const uint8_t *restrict p2, const uint8_t *restrict p3, size_t count,
			uint8_t *restrict values)
{
	for (size_t i = 0; i < count; i++) {
		values[4 * i] = p0[i];
		values[4 * i + 1] = p1[i];
		values[4 * i + 2] = p2[i];
		values[4 * i + 3] = p3[i];
	}
}

/* How many bits a byte of the plane needs (0..8), estimated from a sample. */
static double sampled_entropy(const uint8_t *plane, size_t count)
{
	uint32_t seen[256] = {0};
	size_t total = 0, slices = SAMPLE_SLICES, slice = SAMPLE_SLICE_BYTES;
	if (count <= slices * slice) {
		slices = 1;
		slice = count;
	}
	for (size_t s = 0; s < slices; s++) {
		const uint8_t *from = plane + s * (count / slices);
		for (size_t i = 0; i < slice; i++)
			seen[from[i]]++;
		total += slice;
	}
	double bits = 0;
	for (int b = 0; b < 256; b++)
		if (seen[b])
			bits -= seen[b] * log2((double)seen[b] / (double)total);
	return bits / (double)total;
}

/* Deflates a plane into out (room for count bytes). Returns the length, or 0 if this gains
 * nothing. */
static size_t squeeze(struct planes_coder *c, enum way way, const uint8_t *plane, size_t count,
		      uint8_t *out)
{
	z_stream *z = &c->deflater[way];
	if (!ready_to_deflate(c, way))
		return 0;
	z->next_in = (Bytef *)(size_t)plane;
	z->avail_in = (uInt)count;
	z->next_out = out;
	z->avail_out = (uInt)(count - 1);
	if (deflate(z, Z_FINISH) != Z_STREAM_END)
		return 0;
	size_t len = count - 1 - z->avail_out;
	return len > 1 ? len : 0; /* a length of 1 means that all bytes are alike */
}

/* Whether strings repeat so much that it is worth looking for them. bits: what a byte needs
 * without. */
static int repeats(struct planes_coder *c, double bits, const uint8_t *plane, size_t count,
		   uint8_t *out)
{
	double bytes = bits / 8 < 1 ? bits / 8 : 1;
	if (c->level < 2)
		return 0;
	if (count <= 2 * PROBE_BYTES)
		return 1;
	size_t len = squeeze(c, BY_STRINGS, plane + count / 2, PROBE_BYTES, out);
	return len > 0 && (double)len < STRINGS_WORTH * bytes * PROBE_BYTES;
}

/* Deflates the plane both ways if it is not clear which is shorter, and takes the shorter one. */
static size_t deflate_plane(struct planes_coder *c, double bits, const uint8_t *plane, size_t count,
			    uint8_t *out)
{
	size_t len = 0;
	if (c->level == 0)
		return 0;
	if (repeats(c, bits, plane, count, out))
		len = squeeze(c, BY_STRINGS, plane, count, out);
	if (bits >= 8 * WORTH || (len > 0 && (double)len < bits / 8 * (double)count))
		return len;
	return squeeze(c, BY_BYTES, plane, count, out);
}

static uint32_t encode_plane(struct planes_coder *c, const uint8_t *plane, size_t count,
			     uint8_t *out)
{
	if (count > 1) {
		double bits = sampled_entropy(plane, count);
		if (bits == 0 && memcmp(plane, plane + 1, count - 1) == 0) {
			*out = *plane;
			return 1;
		}
		size_t len = deflate_plane(c, bits, plane, count, out);
		if (len)
			return (uint32_t)len;
	}
	memcpy(out, plane, count);
	return (uint32_t)count;
}

size_t planes_encode(struct planes_coder *c, const void *values, size_t count, uint8_t *out,
		    uint32_t plane_bytes[PLANES])
{
	size_t len = 0;
	planes_split(values, count, c->planes);
	for (size_t p = 0; p < PLANES; p++) {
		plane_bytes[p] = encode_plane(c, c->planes + p * count, count, out + len);
		len += plane_bytes[p];
	}
	return len;
}

/* Returns where the decoded plane lies: as it came, or in room[count]. NULL: it does not decode. */
static const uint8_t *decode_plane(struct planes_coder *c, const uint8_t *in, size_t len,
				   size_t count, uint8_t *room)
{
	z_stream *z = &c->inflater;
	if (len == count)
		return in;
	if (len == 1) {
		memset(room, *in, count);
		return room;
	}
	if (len == 0 || len > count || !ready_to_inflate(c))
		return NULL;
	z->next_in = (Bytef *)(size_t)in;
	z->avail_in = (uInt)len;
	z->next_out = room;
	z->avail_out = (uInt)count;
	if (inflate(z, Z_FINISH) != Z_STREAM_END || z->avail_in != 0 || z->avail_out != 0)
		return NULL;
	return room;
}

int planes_decode(struct planes_coder *c, const uint8_t *in, const uint32_t plane_bytes[PLANES],
		  size_t count, void *values)
{
	const uint8_t *plane[PLANES];
	for (size_t p = 0; p < PLANES; p++) {
		plane[p] = decode_plane(c, in, plane_bytes[p], count, c->planes + p * count);
		if (!plane[p])
			return -1;
		in += plane_bytes[p];
	}
	planes_join(plane[0], plane[1], plane[2], plane[3], count, values);
	return 0;
}
