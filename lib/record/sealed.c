/* sealed: see sealed.h. Text and sums only; what the lines mean is queue's business, where they lie
 * is journal's. */
#include "record/sealed.h"

#include "base/grow.h"
#include "base/number.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES (1u << 20)

static uint32_t sum_of(const char *line, size_t len, uint32_t chain)
{
	return (uint32_t)XXH3_64bits_withSeed(line, len, chain);
}

int lines_said(const char *line, size_t len, uint32_t *sum)
{
	if (len < LINES_SUM_BYTES || memcmp(line + len - LINES_SUM_BYTES, " sum=", 5) != 0)
		return -1;
	uint32_t value = 0;
	for (size_t i = len - 8; i < len; i++) {
		char c = line[i];
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint32_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint32_t)(c - 'a' + 10);
		else
			return -1;
	}
	*sum = value;
	return 0;
}

int lines_valid(const char *line, size_t len, uint32_t chain, size_t *content, uint32_t *sum)
{
	if (len >= LINES_MAX || lines_said(line, len, sum) != 0)
		return 0;
	*content = len - LINES_SUM_BYTES;
	return sum_of(line, *content, chain) == *sum;
}

int lines_reserve(struct lines_out *o, size_t bytes)
{
	return GROW(o->data, o->room, o->len + bytes);
}

void lines_add(struct lines_out *o, const char *line, size_t len)
{
	if (o->errnum)
		return;
	if (lines_reserve(o, len + LINES_SUM_BYTES + 1) != 0) {
		o->errnum = ENOMEM;
		return;
	}
	o->chain = sum_of(line, len, o->chain);
	char *to = o->data + o->len;
	memcpy(to, line, len);
	memcpy(to + len, " sum=", 5);
	for (int i = 0; i < 8; i++)
		to[len + 5 + (size_t)i] = "0123456789abcdef"[o->chain >> (28 - 4 * i) & 15];
	to[len + LINES_SUM_BYTES] = '\n';
	o->len += len + LINES_SUM_BYTES + 1;
	if (o->fd >= 0 && o->len >= FLUSH_BYTES)
		lines_flush(o);
}

int lines_flush(struct lines_out *o)
{
	size_t at = 0;
	while (!o->errnum && at < o->len) {
		ssize_t n = write(o->fd, o->data + at, o->len - at);
		if (n < 0 && errno != EINTR)
			o->errnum = errno;
		else if (n > 0)
			at += (size_t)n;
	}
	o->written += at;
	o->len = 0;
	return o->errnum ? -1 : 0;
}

void lines_free(struct lines_out *o)
{
	free(o->data);
	*o = (struct lines_out){.fd = -1};
}

static void add(struct line *l, const char *text, size_t len)
{
	assert(l->len + len + LINES_SUM_BYTES + 1 < LINES_MAX);
	memcpy(l->data + l->len, text, len);
	l->len += len;
}

void line_begin(struct line *l, const char *type)
{
	l->len = 0;
	add(l, type, strlen(type));
}

static void add_key(struct line *l, const char *key)
{
	add(l, " ", 1);
	add(l, key, strlen(key));
	add(l, "=", 1);
}

void line_text(struct line *l, const char *key, const char *value)
{
	add_key(l, key);
	add(l, value, strlen(value));
}

void line_u64(struct line *l, const char *key, uint64_t value)
{
	char digits[32];
	add_key(l, key);
	add(l, digits, number_format_u64(value, digits));
}

double lines_milliseconds(double value)
{
	return (double)(uint64_t)(value * 1e3) / 1e3;
}

void line_seconds(struct line *l, const char *key, double value)
{
	char digits[32], fraction[4] = ".000";
	uint64_t ms = (uint64_t)(value * 1e3 + 0.5);
	add_key(l, key);
	add(l, digits, number_format_u64(ms / 1000, digits));
	for (int i = 3; i > 0; i--, ms /= 10)
		fraction[i] = (char)('0' + ms % 10);
	add(l, fraction, sizeof fraction);
}

void line_real(struct line *l, const char *key, double value)
{
	char digits[32];
	add_key(l, key);
	add(l, digits, number_format_real(value, digits));
}
