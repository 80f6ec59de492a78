/* output: see output.h. Knows sockets only as a place to write to; must never block. */
#include "wire/output.h"

#include "wire/transport.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_ROOM 4032    /* a pooled chunk with its head is a little under a page */
#define POOL_MAX 256       /* free chunks kept: 1 MiB */
#define PIECES_MAX 64      /* of one write */
#define TURN_MAX (4 * 1024 * 1024) /* bytes, before others have their turn */

struct chunk {
	struct chunk *next;
	const char *data; /* own, or borrowed */
	size_t begin, end, room;
	void (*release)(void *arg);
	void *arg;
	int borrowed;
	int pass; /* a descriptor of its own that goes with the first byte, or -1 */
	char own[];
};

static struct chunk *chunk_new(struct chunk_pool *pool, size_t room)
{
	struct chunk *k = NULL;
	if (room == CHUNK_ROOM && pool->free) {
		k = pool->free;
		pool->free = k->next;
		pool->count--;
	} else if (room <= SIZE_MAX - sizeof *k) {
		k = malloc(sizeof *k + room);
	}
	if (!k)
		return NULL;
	k->next = NULL;
	k->data = k->own;
	k->begin = k->end = 0;
	k->room = room;
	k->release = NULL;
	k->borrowed = 0;
	k->pass = -1;
	return k;
}

static void chunk_free(struct chunk *k, struct chunk_pool *pool)
{
	if (k->release)
		k->release(k->arg);
	if (k->pass >= 0)
		close(k->pass);
	if (k->room == CHUNK_ROOM && pool->count < POOL_MAX) {
		k->next = pool->free;
		pool->free = k;
		pool->count++;
	} else {
		free(k);
	}
}

void chunk_pool_clear(struct chunk_pool *pool)
{
	while (pool->free) {
		struct chunk *k = pool->free;
		pool->free = k->next;
		free(k);
	}
	pool->count = 0;
}

static void output_append(struct output *o, struct chunk *k)
{
	if (o->last)
		o->last->next = k;
	else
		o->first = k;
	o->last = k;
}

char *output_reserve(struct output *o, struct chunk_pool *pool, size_t len)
{
	struct chunk *k = o->last;
	if (!k || k->borrowed || k->room - k->end < len) {
		k = chunk_new(pool, len > CHUNK_ROOM ? len : CHUNK_ROOM);
		if (!k)
			return NULL;
		output_append(o, k);
	}
	return k->own + k->end;
}

void output_commit(struct output *o, size_t used)
{
	o->last->end += used;
	o->bytes += used;
	o->copied += used;
}

int output_put(struct output *o, struct chunk_pool *pool, const void *data, size_t len)
{
	if (len == 0)
		return 0;
	char *to = output_reserve(o, pool, len);
	if (!to)
		return -1;
	memcpy(to, data, len);
	output_commit(o, len);
	return 0;
}

int output_put_with(struct output *o, struct chunk_pool *pool, const void *data, size_t len,
		    int pass)
{
	struct chunk *k = chunk_new(pool, len > CHUNK_ROOM ? len : CHUNK_ROOM);
	if (!k)
		return -1;
	k->pass = fcntl(pass, F_DUPFD_CLOEXEC, 0);
	if (k->pass < 0) {
		chunk_free(k, pool);
		return -1;
	}
	output_append(o, k);
	memcpy(k->own, data, len);
	output_commit(o, len);
	return 0;
}

int output_put_ref(struct output *o, struct chunk_pool *pool, const void *data, size_t len,
		   void (*release)(void *arg), void *arg)
{
	struct chunk *k = len ? chunk_new(pool, 0) : NULL;
	if (!k) {
		if (release)
			release(arg);
		return len ? -1 : 0;
	}
	k->data = data;
	k->end = len;
	k->release = release;
	k->arg = arg;
	k->borrowed = 1;
	output_append(o, k);
	o->bytes += len;
	return 0;
}

void output_move(struct output *to, struct output *from, struct chunk_pool *pool)
{
	/* A short answer is added to the last chunk: writev gets fewer pieces. */
	struct chunk *k = from->first;
	if (k && !k->next && !k->borrowed && k->pass < 0 && to->last && !to->last->borrowed &&
	    to->last->room - to->last->end >= k->end - k->begin) {
		(void)output_put(to, pool, k->data + k->begin, k->end - k->begin);
		output_clear(from, pool);
		return;
	}
	if (k) {
		output_append(to, k);
		to->last = from->last;
		to->bytes += from->bytes;
		to->copied += from->copied;
	}
	*from = (struct output){0};
}

void output_clear(struct output *o, struct chunk_pool *pool)
{
	while (o->first) {
		struct chunk *k = o->first;
		o->first = k->next;
		chunk_free(k, pool);
	}
	*o = (struct output){0};
}

/* Removes n written bytes from the front. */
static void output_advance(struct output *o, struct chunk_pool *pool, size_t n)
{
	o->bytes -= n;
	while (o->first) {
		struct chunk *k = o->first;
		size_t have = k->end - k->begin, taken = n < have ? n : have;
		k->begin += taken;
		n -= taken;
		if (!k->borrowed)
			o->copied -= taken;
		if (taken < have)
			return;
		o->first = k->next;
		if (!o->first)
			o->last = NULL;
		chunk_free(k, pool);
	}
}

int output_write(struct output *o, struct chunk_pool *pool, int fd)
{
	for (size_t written = 0; o->bytes > 0;) {
		if (written >= TURN_MAX)
			return OUTPUT_BLOCKED;
		struct iovec piece[PIECES_MAX];
		size_t count = 0;
		/* A descriptor is sent with the first piece of a write, so the write must end
		 * before a later piece that has one. */
		for (struct chunk *k = o->first; k && count < PIECES_MAX; k = k->next) {
			if (count > 0 && k->pass >= 0)
				break;
			piece[count++] = (struct iovec){(char *)(uintptr_t)k->data + k->begin,
							k->end - k->begin};
		}
		ssize_t n = transport_write(fd, piece, count, o->first->pass);
		if (n <= 0)
			return n == TRANSPORT_LATER ? OUTPUT_BLOCKED : -1;
		if (o->first->pass >= 0)
			close(o->first->pass);
		o->first->pass = -1;
		written += (size_t)n;
		output_advance(o, pool, (size_t)n);
	}
	/* Frees space that was reserved and never used. */
	if (o->first)
		output_clear(o, pool);
	return OUTPUT_DONE;
}
