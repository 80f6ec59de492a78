/*
 * planes: a block of 4-byte values as four byte planes, and back.
 *
 * Plane p holds byte p (least significant first) of every value.  Its encoded length says how it is
 * encoded.  If it is the number of values, the plane is stored as it is.  If it is 1 (and there are
 * several values), all bytes of the plane are that one.  A length in between means raw deflate.
 *
 * The level says how much time a plane may take.  0 stores every plane whose bytes differ.  1 uses
 * Huffman codes only; with parameters they give most of what can be gained.  2 to 9 are zlib's
 * levels, for planes in which strings repeat.  Decoding does not depend on the level.
 */
#ifndef PACELINE_PARAM_PLANES_H
#define PACELINE_PARAM_PLANES_H

#include <stddef.h>
#include <stdint.h>

#define PLANES 4
#define PLANES_VALUES_MAX (1u << 18)
#define PLANES_BYTES_MAX (PLANES_VALUES_MAX * 4)
#define PLANES_LEVEL 1 /* the default */
#define PLANES_LEVEL_MAX 9

struct planes_coder;

/* One coder serves one direction at a time and one thread. Decoding does not use the level. NULL:
 * no memory. */
struct planes_coder *planes_coder_new(int level);
void planes_coder_free(struct planes_coder *c); /* NULL is fine */

/* Encodes values[count] (count is 1..PLANES_VALUES_MAX) into out[PLANES_BYTES_MAX]. plane_bytes
 * gets the lengths of the planes, which follow each other without gaps. Returns their sum. It never
 * fails: a plane that can't be deflated is stored. */
size_t planes_encode(struct planes_coder *c, const void *values, size_t count, uint8_t *out,
		     uint32_t plane_bytes[PLANES]);

/* Decodes values[count] from in. -1: some plane does not decode to count bytes. The lengths may be
 * anything, as long as `in` holds their sum. */
int planes_decode(struct planes_coder *c, const uint8_t *in, const uint32_t plane_bytes[PLANES],
		  size_t count, void *values);

#endif
