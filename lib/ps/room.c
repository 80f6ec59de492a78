/* See room.h.  Those that wait are a list, the last one given back first: the others grow old. */
#include "ps/room.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAD 64 /* bytes before the memory, which keep it aligned */
#define HUGE_BYTES ((size_t)2 << 20)

struct room {
	struct rooms *rooms;
	struct room *next;
	size_t bytes;
	uint64_t given; /* when, in takes */
};

_Static_assert(sizeof(struct room) <= HEAD, "the head of a room");

struct rooms {
	struct room *idle;
	size_t count;
	uint64_t takes;
};

struct rooms *rooms_new(void)
{
	return calloc(1, sizeof(struct rooms));
}

void rooms_free(struct rooms *r)
{
	if (!r)
		return;
	while (r->idle) {
		struct room *room = r->idle;
		r->idle = room->next;
		free(room);
	}
	free(r);
}

size_t rooms_idle(const struct rooms *r)
{
	return r->count;
}

/* One that is large enough, and not so large that it would be wasted. */
static int suits(const struct room *room, size_t bytes)
{
	return room->bytes >= bytes && room->bytes / 2 <= bytes;
}

/* Takes the first that suits from the list, and frees those that are too old. */
static struct room *find(struct rooms *r, size_t bytes)
{
	struct room **at = &r->idle, *room, *found = NULL;

	while ((room = *at)) {
		int old = r->takes - room->given > ROOMS_IDLE_TAKES;
		if (!old && (found || !suits(room, bytes))) {
			at = &room->next;
			continue;
		}
		*at = room->next;
		r->count--;
		if (!found && suits(room, bytes))
			found = room;
		else
			free(room);
	}
	return found;
}

void *room_take(struct rooms *r, size_t bytes)
{
	struct room *room;
	void *fresh;
	size_t all;

	r->takes++;
	room = find(r, bytes);
	if (!room) {
		if (__builtin_add_overflow(bytes, (size_t)HEAD, &all) ||
		    posix_memalign(&fresh, bytes < HUGE_BYTES ? HEAD : HUGE_BYTES, all) != 0)
			return NULL;
		room = fresh;
		/* Advice only: without huge pages it is slower, not wrong. */
		if (bytes >= HUGE_BYTES)
			(void)madvise(room, all, MADV_HUGEPAGE);
		room->rooms = r;
		room->bytes = bytes;
	}
	return (char *)room + HEAD;
}

void room_give(void *memory)
{
	struct room *room = memory ? (struct room *)(void *)((char *)memory - HEAD) : NULL;

	if (!room)
		return;
	room->given = room->rooms->takes;
	room->next = room->rooms->idle;
	room->rooms->idle = room;
	room->rooms->count++;
}
