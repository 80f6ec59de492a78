/* See buffers.h. Idle buffers are in a list, the one that was given back last first: so the others
 * grow old. */
#include "ps/buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAD 64 /* bytes before the memory: a multiple of its alignment */
#define HUGE_BYTES ((size_t)2 << 20)

struct buffer {
	struct buffers *buffers;
	struct buffer *next;
	size_t bytes;
	uint64_t given; /* number of takes when it was given back */
};

_Static_assert(sizeof(struct buffer) <= HEAD, "the head of a buffer");

struct buffers {
	struct buffer *idle;
	size_t count;
	uint64_t takes;
};

struct buffers *buffers_new(void)
{
	return calloc(1, sizeof(struct buffers));
}

void buffers_free(struct buffers *r)
{
	if (!r)
		return;
	while (r->idle) {
		struct buffer *buffer = r->idle;
		r->idle = buffer->next;
		free(buffer);
	}
	free(r);
}

size_t buffers_idle(const struct buffers *r)
{
	return r->count;
}

/* Whether the buffer is large enough, and not so large that it would be wasted. */
static int suits(const struct buffer *buffer, size_t bytes)
{
	return buffer->bytes >= bytes && buffer->bytes / 2 <= bytes;
}

/* Takes the first that suits from the list, and frees those that are too old. */
static struct buffer *buffers_find(struct buffers *r, size_t bytes)
{
	struct buffer **at = &r->idle, *buffer, *found = NULL;

	while ((buffer = *at)) {
		int old = r->takes - buffer->given > BUFFERS_IDLE_TAKES;
		if (!old && (found || !suits(buffer, bytes))) {
			at = &buffer->next;
			continue;
		}
		*at = buffer->next;
		r->count--;
		if (!found && suits(buffer, bytes))
			found = buffer;
		else
			free(buffer);
	}
	return found;
}

void *buffer_take(struct buffers *r, size_t bytes)
{
	struct buffer *buffer;
	void *fresh;

	r->takes++;
	buffer = buffers_find(r, bytes);
	if (!buffer) {
		if (bytes > SIZE_MAX / 2)
			return NULL;
		bytes += bytes / 16; /* for the next ones, which may have some rows more */
		if (posix_memalign(&fresh, bytes < HUGE_BYTES ? HEAD : HUGE_BYTES, HEAD + bytes) != 0)
			return NULL;
		buffer = fresh;
		/* Advice only: without huge pages it is slower, not wrong. */
		if (bytes >= HUGE_BYTES)
			(void)madvise(buffer, HEAD + bytes, MADV_HUGEPAGE);
		buffer->buffers = r;
		buffer->bytes = bytes;
	}
	return (char *)buffer + HEAD;
}

void buffer_give(void *memory)
{
	struct buffer *buffer = memory ? (struct buffer *)(void *)((char *)memory - HEAD) : NULL;

	if (!buffer)
		return;
	buffer->given = buffer->buffers->takes;
	buffer->next = buffer->buffers->idle;
	buffer->buffers->idle = buffer;
	buffer->buffers->count++;
}
