/* zstd_memory: see zstd_memory.h. Numbers in brackets are sections of RFC 8878. */
#include "data/zstd_memory.h"

#include <string.h>

/* How sequences are coded (3.1.1.3.2.1). */
enum mode { MODE_PREDEFINED, MODE_ONE, MODE_TABLE, MODE_REPEAT };

enum { SYMBOLS_MAX = 53, LOG_MIN = 5 };

static const struct {
	unsigned log_max, symbols;
	unsigned log; /* of the predefined distribution (3.1.1.3.2.2) */
	signed char count[SYMBOLS_MAX];
} codes[ZSTD_CODES] = {
	{9, 36, 6, {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1,	 2,  2,
		    2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}},
	{8, 32, 5, {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1,
		    1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}},
	{9, 53, 6, {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1,  1,	 1,  1,
		    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,	 1,  1,
		    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}}};

/* Bits behind a code of a literal length, of a match length (3.1.1.3.2.1.1). */
static const unsigned char literal_bits[36] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,
					       0, 0, 0, 0, 1, 1, 1, 1, 2, 2,  3,  3,
					       4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const unsigned char match_bits[53] = {0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0,
					     0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0,
					     0, 0, 0, 0, 1, 1, 1, 1,  2,  2,  3,  3,  4,  4,
					     5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static unsigned highest_bit(unsigned x)
{
	return 31 - (unsigned)__builtin_clz(x);
}

/* ---- tables ---- */

/* From how often each symbol occurs in 2^log states; -1: less than once (4.1.1). */
static void build_table(struct zstd_table *t, unsigned log, const signed short *count,
			unsigned symbols)
{
	/* volatile: clang 14 takes the last loop for one whose rounds do not depend on each other. */
	volatile unsigned next[SYMBOLS_MAX];
	unsigned size = 1u << log, high = size - 1, at = 0;
	unsigned step = (size >> 1) + (size >> 3) + 3;
	t->log = log;
	for (unsigned s = 0; s < symbols; s++) {
		next[s] = count[s] < 0 ? 1 : (unsigned)count[s];
		if (count[s] < 0)
			t->symbol[high--] = (unsigned char)s;
	}
	for (unsigned s = 0; s < symbols; s++)
		for (int i = 0; i < count[s]; i++) {
			t->symbol[at] = (unsigned char)s;
			do
				at = (at + step) & (size - 1);
			while (at > high);
		}
	for (unsigned i = 0; i < size; i++) {
		unsigned n = next[t->symbol[i]], bits = log - highest_bit(n);
		next[t->symbol[i]] = n + 1;
		t->bits[i] = (unsigned char)bits;
		t->base[i] = (uint16_t)((n << bits) - size);
	}
}

/* Bits of a text from its start on, the lowest of a byte first. Behind its end they are 0. */
struct forward {
	const unsigned char *data;
	size_t len, at; /* bits */
};

static unsigned look(const struct forward *f, unsigned bits)
{
	uint32_t word = 0;
	size_t first = f->at / 8;
	for (unsigned i = 0; i < sizeof word && first + i < f->len; i++)
		word |= (uint32_t)f->data[first + i] << (8 * i);
	return word >> f->at % 8 & ((1u << bits) - 1);
}

static unsigned take_bits(struct forward *f, unsigned bits)
{
	unsigned x = look(f, bits);
	f->at += bits;
	return x;
}

/* A count of 0 is followed by how many more there are (4.1.1). */
static int take_zeros(struct forward *f, signed short *count, unsigned *symbol, unsigned symbols)
{
	unsigned more;
	do {
		more = take_bits(f, 2);
		if (*symbol + more > symbols)
			return -1;
		for (unsigned i = 0; i < more; i++)
			count[(*symbol)++] = 0;
	} while (more == 3);
	return 0;
}

/* The description of a table; *used bytes of text. */
static int read_table(struct zstd_table *t, enum zstd_code code, const unsigned char *text,
		      size_t len, size_t *used)
{
	struct forward f = {text, len, 0};
	signed short count[SYMBOLS_MAX + 3] = {0};
	unsigned symbol = 0, symbols = codes[code].symbols, log = take_bits(&f, 4) + LOG_MIN;
	if (log > codes[code].log_max)
		return -1;
	int left = (1 << log) + 1, threshold = 1 << log;
	unsigned bits = log + 1;
	while (left > 1) {
		if (symbol >= symbols)
			return -1;
		/* Small values take a bit less. */
		int small = 2 * threshold - 1 - left, x = (int)look(&f, bits);
		if ((x & (threshold - 1)) < small) {
			x &= threshold - 1;
			f.at += bits - 1;
		} else {
			if (x >= threshold)
				x -= small;
			f.at += bits;
		}
		x--;
		left -= x < 0 ? -x : x;
		count[symbol++] = (signed short)x;
		if (x == 0 && take_zeros(&f, count, &symbol, symbols) != 0)
			return -1;
		while (left < threshold) {
			bits--;
			threshold >>= 1;
		}
	}
	*used = (f.at + 7) / 8;
	if (left != 1 || *used > len || *used > sizeof t->text)
		return -1;
	build_table(t, log, count, symbol);
	memcpy(t->text, text, *used);
	t->text_len = *used;
	return 0;
}

static void predefined_table(struct zstd_table *t, enum zstd_code code)
{
	signed short count[SYMBOLS_MAX];
	for (unsigned i = 0; i < SYMBOLS_MAX; i++)
		count[i] = codes[code].count[i];
	build_table(t, codes[code].log, count, codes[code].symbols);
	t->text_len = 0;
}

/* ---- a block ---- */

struct block {
	const unsigned char *tree;
	size_t tree_len;        /* 0: the block brings none */
	uint32_t sequences;
	enum mode mode[ZSTD_CODES];
	const unsigned char *rest; /* tables, then the bits of sequences */
	size_t rest_len;
};

/* The literals (3.1.1.3.1): only the tree is of interest. */
static int split_literals(struct block *b, const unsigned char *p, size_t len, size_t *used)
{
	if (len < 3)
		return -1;
	unsigned type = p[0] & 3, form = p[0] >> 2 & 3;
	uint64_t word = 0;
	memcpy(&word, p, len < 5 ? len : 5);
	b->tree_len = 0;
	if (type < 2) {
		size_t header = form == 1 ? 2 : form == 3 ? 3 : 1;
		size_t size = form == 1	  ? word >> 4 & 0xfff
			      : form == 3 ? word >> 4 & 0xfffff
					  : p[0] >> 3;
		*used = header + (type == 0 ? size : 1);
		return *used <= len ? 0 : -1;
	}
	static const unsigned char headers[] = {3, 3, 4, 5}, bits[] = {10, 10, 14, 18};
	size_t header = headers[form];
	size_t size = word >> (4 + bits[form]) & ((1u << bits[form]) - 1);
	*used = header + size;
	if (*used > len || size == 0)
		return -1;
	if (type == 3)
		return 0;
	b->tree = p + header;
	b->tree_len = b->tree[0] < 128 ? 1u + b->tree[0] : 1u + (b->tree[0] - 127u + 1) / 2;
	return b->tree_len <= size ? 0 : -1;
}

static int split_block(struct block *b, const unsigned char *p, size_t len)
{
	size_t used;
	if (split_literals(b, p, len, &used) != 0)
		return -1;
	p += used;
	len -= used;
	if (len == 0)
		return -1;
	/* 3.1.1.3.2.1 */
	size_t header = p[0] < 128 ? 1 : p[0] < 255 ? 2 : 3;
	if (len < header)
		return -1;
	b->sequences = header == 1   ? p[0]
		       : header == 2 ? (uint32_t)(p[0] - 128) << 8 | p[1]
				     : (uint32_t)(p[1] | p[2] << 8) + 0x7f00;
	if (b->sequences == 0)
		return 0;
	if (len < header + 1 || (p[header] & 3))
		return -1;
	for (int i = 0; i < ZSTD_CODES; i++)
		b->mode[i] = (enum mode)(p[header] >> (6 - 2 * i) & 3);
	b->rest = p + header + 1;
	b->rest_len = len - header - 1;
	return 0;
}

static int take_table(struct zstd_memory *m, enum zstd_code code, struct block *b)
{
	struct zstd_table *t = &m->table[code];
	size_t used = 0;
	switch (b->mode[code]) {
	case MODE_REPEAT:
		return m->known[code] ? 0 : -1;
	case MODE_PREDEFINED:
		predefined_table(t, code);
		break;
	case MODE_ONE:
		if (b->rest_len == 0 || b->rest[0] >= codes[code].symbols)
			return -1;
		*t = (struct zstd_table){.symbol = {b->rest[0]}};
		used = 1;
		break;
	case MODE_TABLE:
		if (read_table(t, code, b->rest, b->rest_len, &used) != 0)
			return -1;
		break;
	}
	m->known[code] = 1;
	b->rest += used;
	b->rest_len -= used;
	return 0;
}

/* ---- sequences ---- */

/* Bits from the end of a text to its start. */
struct backward {
	const unsigned char *data;
	size_t left; /* bits */
	int over;    /* more were taken than there are */
};

static int begin_backward(struct backward *b, const unsigned char *data, size_t len)
{
	if (len == 0 || data[len - 1] == 0)
		return -1;
	/* The highest bit set only marks the end. */
	*b = (struct backward){data, (len - 1) * 8 + highest_bit(data[len - 1]), 0};
	return 0;
}

static uint32_t take_back(struct backward *b, unsigned bits)
{
	uint64_t word;
	if (bits > b->left) {
		b->over = 1;
		return 0;
	}
	b->left -= bits;
	memcpy(&word, b->data + b->left / 8, sizeof word);
	return (uint32_t)(word >> b->left % 8 & ((UINT64_C(1) << bits) - 1));
}

static unsigned next_state(const struct zstd_table *t, unsigned state, struct backward *b)
{
	return t->base[state] + take_back(b, t->bits[state]);
}

/* 3.1.1.5: value 1 to 3 repeats one of the last offsets. */
static void take_offset(uint32_t offset[3], uint32_t value, int no_literals)
{
	uint32_t now, index = value - 1 + (uint32_t)no_literals;
	if (value > 3) {
		now = value - 3;
		index = 2;
	} else if (index == 3) {
		now = offset[0] - 1;
		index = 2;
	} else {
		now = offset[index];
	}
	if (index == 2)
		offset[2] = offset[1];
	if (index >= 1)
		offset[1] = offset[0];
	offset[0] = now;
}

static int take_sequences(struct zstd_memory *m, const struct block *block)
{
	const struct zstd_table *literals = &m->table[ZSTD_LITERALS],
				*offsets = &m->table[ZSTD_OFFSETS],
				*matches = &m->table[ZSTD_MATCHES];
	struct backward b;
	if (begin_backward(&b, block->rest, block->rest_len) != 0)
		return -1;
	unsigned literal = take_back(&b, literals->log), offset = take_back(&b, offsets->log),
		 match = take_back(&b, matches->log);
	for (uint32_t i = 0; i < block->sequences && !b.over; i++) {
		unsigned code = offsets->symbol[offset];
		take_offset(m->offset, (1u << code) + take_back(&b, code),
			    literals->symbol[literal] == 0);
		take_back(&b, match_bits[matches->symbol[match]]);
		take_back(&b, literal_bits[literals->symbol[literal]]);
		if (i + 1 == block->sequences)
			break;
		literal = next_state(literals, literal, &b);
		match = next_state(matches, match, &b);
		offset = next_state(offsets, offset, &b);
	}
	return b.over || b.left != 0 ? -1 : 0;
}

/* ---- the whole ---- */

void zstd_memory_reset(struct zstd_memory *m)
{
	memset(m, 0, sizeof *m);
	m->offset[0] = 1;
	m->offset[1] = 4;
	m->offset[2] = 8;
}

int zstd_memory_take(struct zstd_memory *m, const unsigned char *data, size_t len)
{
	struct block b;
	if (split_block(&b, data, len) != 0 || b.tree_len > sizeof m->tree)
		return -1;
	if (b.tree_len > 0) {
		memcpy(m->tree, b.tree, b.tree_len);
		m->tree_len = b.tree_len;
	}
	if (b.sequences == 0)
		return 0;
	for (int i = 0; i < ZSTD_CODES; i++)
		if (take_table(m, (enum zstd_code)i, &b) != 0)
			return -1;
	return take_sequences(m, &b);
}

int zstd_memory_may_begin(const struct zstd_memory *m, const unsigned char *data, size_t len)
{
	struct block b;
	if (split_block(&b, data, len) != 0)
		return 0;
	for (int i = 0; i < ZSTD_CODES; i++)
		if (m->known[i] && m->table[i].text_len == 0 &&
		    (b.sequences == 0 || b.mode[i] == MODE_REPEAT))
			return 0;
	return 1;
}

static unsigned char *put(unsigned char *out, const void *data, size_t len)
{
	memcpy(out, data, len);
	return out + len;
}

static unsigned char *put32(unsigned char *out, uint32_t x)
{
	for (unsigned i = 0; i < 4; i++)
		*out++ = (unsigned char)(x >> (8 * i));
	return out;
}

size_t zstd_memory_dictionary(const struct zstd_memory *m, size_t text_len, unsigned char *out)
{
	/* Two symbols, each in half of the states: in place of what no block will repeat. */
	static const unsigned char tree[] = {0x80, 0x10}, table[] = {0x10, 0x3f};
	static const enum zstd_code order[] = {ZSTD_OFFSETS, ZSTD_MATCHES, ZSTD_LITERALS};
	unsigned char *p = put32(out, 0xec30a437);
	p = put32(p, 1); /* its id, which no frame names */
	p = m->tree_len ? put(p, m->tree, m->tree_len) : put(p, tree, sizeof tree);
	for (int i = 0; i < ZSTD_CODES; i++) {
		const struct zstd_table *t = &m->table[order[i]];
		p = t->text_len ? put(p, t->text, t->text_len) : put(p, table, sizeof table);
	}
	for (int i = 0; i < 3; i++) {
		if (m->offset[i] == 0 || m->offset[i] > text_len)
			return 0;
		p = put32(p, m->offset[i]);
	}
	return (size_t)(p - out);
}
