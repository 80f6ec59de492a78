/*
 * planes: a block of 4-byte values as four byte planes, and back.
 *
 * Plane p holds byte p (least significant first) of every value.  Its encoded length tells its
 * coding: as many bytes as values: stored; a single one (of several values): all bytes are that one;
 * anything between: raw deflate.
 *
 * The level says how much time a plane may take: 0 stores all that is not one byte; 1 uses Huffman
 * codes only, which is most of what parameters give; 2 to 9 are zlib's levels, for planes in which
 * strings repeat.  What is decoded does not depend on it.
 */
#ifndef PACELINE_PARAM_PLANES_H
#define PACELINE_PARAM_PLANES_H

#include <stddef.h>
#include <stdint.h>

#define PLANES 4
#define PLANES_VALUES_MAX (1u << 18)
#define PLANES_BYTES_MAX (PLANES_VALUES_MAX * 4)
#define PLANES_LEVEL 1 /* where nobody says another one */
#define PLANES_LEVEL_MAX 9

struct planes_coder;

/* One coder serves one direction at a time and one thread. NULL: no memory. */
struct planes_coder *planes_coder_new(int level); /* decoding does not look at it */
void planes_coder_free(struct planes_coder *c); /* NULL is fine */

/* values[count] (1..PLANES_VALUES_MAX) into out[PLANES_BYTES_MAX]; plane_bytes tells the lengths of
 * the planes, which lie one behind the other. Returns their sum. Never fails: what can't be
 * deflated is stored. */
size_t planes_encode(struct planes_coder *c, const void *values, size_t count, uint8_t *out,
		     uint32_t plane_bytes[PLANES]);

/* The other way: values[count] from in. -1 when the planes don't decode to count bytes each; the
 * lengths may be anything, as long as in holds their sum. */
int planes_decode(struct planes_coder *c, const uint8_t *in, const uint32_t plane_bytes[PLANES],
		  size_t count, void *values);

#endif
