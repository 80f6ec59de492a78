/* sealed: see sealed.h. Text and sums only; what the lines mean is queue's business, where they lie
 * is journal's. */
#include "record/sealed.h"

#include "base/grow.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES (1u << 20)

static uint32_t sum_of(const char *line, size_t len, uint32_t chain)
{
	return (uint32_t)XXH3_64bits_withSeed(line, len, chain);
}

int sealed_said(const char *line, size_t len, uint32_t *sum)
{
	if (len < SEALED_SUM_BYTES || memcmp(line + len - SEALED_SUM_BYTES, " sum=", 5) != 0)
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

int sealed_valid(const char *line, size_t len, uint32_t chain, size_t *content, uint32_t *sum)
{
	if (len >= SEALED_MAX || sealed_said(line, len, sum) != 0)
		return 0;
	*content = len - SEALED_SUM_BYTES;
	return sum_of(line, *content, chain) == *sum;
}

uint32_t sealed_seed(const char *name)
{
	return sum_of(name, strlen(name), 0);
}

size_t sealed_alone(const char *line, size_t len, uint32_t seed)
{
	uint32_t sum;
	if (sealed_said(line, len, &sum) != 0)
		return len;
	return sum_of(line, len - SEALED_SUM_BYTES, seed) == sum ? len - SEALED_SUM_BYTES : 0;
}

int sealed_reserve(struct sealed_out *o, size_t bytes)
{
	return GROW(o->data, o->room, o->len + bytes);
}

void sealed_add(struct sealed_out *o, const char *line, size_t len)
{
	if (o->errnum)
		return;
	if (sealed_reserve(o, len + SEALED_SUM_BYTES + 1) != 0) {
		o->errnum = ENOMEM;
		return;
	}
	o->chain = sum_of(line, len, o->chain);
	char *to = o->data + o->len;
	memcpy(to, line, len);
	memcpy(to + len, " sum=", 5);
	for (int i = 0; i < 8; i++)
		to[len + 5 + (size_t)i] = "0123456789abcdef"[o->chain >> (28 - 4 * i) & 15];
	to[len + SEALED_SUM_BYTES] = '\n';
	o->len += len + SEALED_SUM_BYTES + 1;
	if (o->fd >= 0 && o->len >= FLUSH_BYTES)
		sealed_flush(o);
}

int sealed_flush(struct sealed_out *o)
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

void sealed_free(struct sealed_out *o)
{
	free(o->data);
	*o = (struct sealed_out){.fd = -1};
}
