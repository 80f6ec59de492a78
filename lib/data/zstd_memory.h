/*
 * zstd_memory: what a decoder of zstd remembers from block to block besides the text, so that reading
 * may begin in the middle of a frame.
 *
 * libzstd neither shows nor takes this state, but it takes dictionaries, which hold exactly that:
 * three offsets, the tables of codes, and text that matches may copy from.  So each block is looked
 * at as it goes by (its sequences are decoded, its text is not), and at a boundary a dictionary is
 * made of what is remembered; a frame header of our own and the blocks that follow are then a frame
 * that libzstd reads with that dictionary.  The format is RFC 8878.
 *
 * Private to lib/data/source_zstd.c.
 */
#ifndef PACELINE_DATA_ZSTD_MEMORY_H
#define PACELINE_DATA_ZSTD_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define ZSTD_MEMORY_SLACK 8            /* readable bytes behind every block */
#define ZSTD_MEMORY_TABLES_BYTES 512   /* of a dictionary, besides its text, at most */

/* Codes of literal lengths, offsets, match lengths, in the order of a block's header. */
enum zstd_code { ZSTD_LITERALS, ZSTD_OFFSETS, ZSTD_MATCHES, ZSTD_CODES };

struct zstd_table {
	unsigned log; /* bits of a state; 0: one symbol only */
	unsigned char symbol[512], bits[512];
	uint16_t base[512];
	unsigned char text[96]; /* as it stood in the block */
	size_t text_len;        /* 0: it had none (predefined, one symbol only, none yet) */
};

struct zstd_memory {
	uint32_t offset[3]; /* the last ones, repeated by number */
	struct zstd_table table[ZSTD_CODES];
	int known[ZSTD_CODES]; /* there is a table to repeat */
	unsigned char tree[130]; /* the Huffman tree of literals as it stood in the block */
	size_t tree_len;         /* 0: none yet */
};

/* As at the start of a frame. */
void zstd_memory_reset(struct zstd_memory *m);
/* After a compressed block, without its header of 3 bytes. -1: it is damaged, or not understood;
 * then nothing that m holds is right any more. */
int zstd_memory_take(struct zstd_memory *m, const unsigned char *block, size_t len);
/* Whether reading may begin before this compressed block with a dictionary: no table is repeated, now
 * or later, that a dictionary can't hold. */
int zstd_memory_may_begin(const struct zstd_memory *m, const unsigned char *block, size_t len);
/* What stands in a dictionary before its text, into out (ZSTD_MEMORY_TABLES_BYTES): its length; 0: the
 * text is shorter than an offset reaches. */
size_t zstd_memory_dictionary(const struct zstd_memory *m, size_t text_len, unsigned char *out);

#endif
