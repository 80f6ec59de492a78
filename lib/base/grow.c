#include "base/grow.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4

int grow_array(void *array_at, size_t *room, size_t count, size_t item_bytes)
{
	size_t more = *room, bytes;
	void *array;
	if (count <= *room)
		return 0;
	if (__builtin_mul_overflow(more, 2, &more) || more < count)
		more = count;
	if (more < FIRST_ROOM)
		more = FIRST_ROOM;
	if (__builtin_mul_overflow(more, item_bytes, &bytes))
		return -1;
	/* The caller's pointer has a type of its own, and may not be read as a void *. */
	memcpy(&array, array_at, sizeof array);
	array = realloc(array, bytes);
	if (!array)
		return -1;
	memcpy(array_at, &array, sizeof array);
	*room = more;
	return 0;
}

struct grow_printed {
	char **text;
	size_t *len, room;
	int failed;
	char buffer[BUFSIZ]; /* of stdio, which would not say either that it got none */
};

static ssize_t grow_write(void *printed, const char *data, size_t n)
{
	struct grow_printed *p = printed;
	if (p->failed || n > SIZE_MAX - *p->len - 1 ||
	    GROW(*p->text, p->room, *p->len + n + 1) != 0) {
		p->failed = 1; /* nothing more: it would have a hole */
		errno = ENOMEM;
		return 0;
	}
	memcpy(*p->text + *p->len, data, n);
	*p->len += n;
	(*p->text)[*p->len] = '\0';
	return (ssize_t)n;
}

static int grow_close(void *printed)
{
	struct grow_printed *p = printed;
	int failed = p->failed;
	free(p);
	return failed ? EOF : 0;
}

FILE *grow_stream(char **text, size_t *len)
{
	struct grow_printed *p = malloc(sizeof *p);
	FILE *out = NULL;
	*len = 0;
	*text = calloc(1, FIRST_ROOM);
	if (p && *text)
		out = fopencookie(p, "w",
				  (cookie_io_functions_t){.write = grow_write, .close = grow_close});
	if (!out) {
		free(p);
		free(*text);
		*text = NULL;
		return NULL;
	}
	p->text = text;
	p->len = len;
	p->room = FIRST_ROOM;
	p->failed = 0;
	setvbuf(out, p->buffer, _IOFBF, sizeof p->buffer);
	return out;
}
