#include "record/framer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void framer_lend(struct framer *f, char *data, size_t room)
{
	size_t left = framer_left(f);
	assert(left <= room);
	if (left > 0)
		memcpy(data, f->data + f->begin, left);
	f->data = data;
	f->room = room;
	f->begin = 0;
	f->end = left;
}

int framer_return(struct framer *f)
{
	size_t left = framer_left(f);
	if (left == 0) {
		free(f->kept);
		f->kept = NULL;
		f->kept_room = 0;
	} else if (left > f->kept_room) {
		char *kept = realloc(f->kept, left);
		if (!kept)
			return -1;
		f->kept = kept;
		f->kept_room = left;
	}
	if (left > 0)
		memcpy(f->kept, f->data + f->begin, left);
	f->data = f->kept;
	f->room = f->kept_room;
	f->begin = 0;
	f->end = left;
	return 0;
}

void framer_clear(struct framer *f)
{
	free(f->kept);
	*f = (struct framer){0};
}

size_t framer_pieces(struct framer *f, void *to, size_t bytes, struct iovec piece[2])
{
	size_t count = 0, left = framer_left(f);
	/* Unread bytes are moved to the front only when the room behind them gets small. */
	if (left == 0 || f->room - f->end < f->room / 16) {
		if (left > 0 && f->begin > 0)
			memmove(f->data, f->data + f->begin, left);
		f->begin = 0;
		f->end = left;
	}
	f->direct = left > 0 ? 0 : f->due < bytes ? (size_t)f->due : bytes;
	if (f->direct > 0)
		piece[count++] = (struct iovec){to, f->direct};
	if (f->end < f->room)
		piece[count++] = (struct iovec){f->data + f->end, f->room - f->end};
	return count;
}

void framer_came(struct framer *f, size_t n)
{
	size_t direct = n < f->direct ? n : f->direct;
	f->due -= direct;
	f->end += n - direct;
	f->direct = 0;
}

enum framer_found framer_line(struct framer *f, size_t max, const char **line, size_t *len)
{
	size_t left = framer_left(f);
	const char *at = left > 0 ? f->data + f->begin : NULL;
	const char *newline = left > 0 ? memchr(at, '\n', left < max ? left : max) : NULL;
	if (!newline)
		return left < max ? FRAMER_MORE : FRAMER_LONG;
	*line = at;
	*len = (size_t)(newline - at);
	f->begin += *len + 1;
	return FRAMER_LINE;
}

int framer_has_line(const struct framer *f)
{
	return framer_left(f) > 0 && memchr(f->data + f->begin, '\n', framer_left(f)) != NULL;
}

size_t framer_take(struct framer *f, void *to, size_t bytes)
{
	size_t taken = framer_left(f);
	if (taken > bytes)
		taken = bytes;
	if (taken > f->due)
		taken = (size_t)f->due;
	if (to && taken > 0)
		memcpy(to, f->data + f->begin, taken);
	f->begin += taken;
	f->due -= taken;
	return taken;
}
