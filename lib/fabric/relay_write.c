/* relay_write: bytes from the other end of a conversation, on their way into this end's socket. */
#include "fabric/relay_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PIECES_MAX 32 /* of one write */
/* What the other side sends in its last turn may be more than its window: a message, and a line. */
#define KEPT_MAX ((size_t)2 * CONVERSATION_WINDOW)

static void free_piece(struct piece *p)
{
	if (p->is_chunk && !p->is_here && !p->lacks)
		p->conversation = NULL; /* it goes when its chunk is there */
	else
		free(p);
}

static struct piece *pop(struct conversation *c)
{
	struct piece *p = c->first;
	c->first = p->next;
	if (!c->first)
		c->last = NULL;
	c->kept -= p->end - p->begin;
	c->relay->counts.kept_bytes -= p->end - p->begin;
	return p;
}

void conversation_drop_pieces(struct conversation *c)
{
	while (c->first)
		free_piece(pop(c));
}

static struct piece *relay_write_push(struct conversation *c, const char *data, size_t bytes)
{
	struct piece *p = malloc(sizeof *p + bytes);
	if (!p)
		return NULL;
	*p = (struct piece){.end = bytes, .conversation = c};
	if (bytes > 0)
		memcpy(p->data, data, bytes);
	if (c->last)
		c->last->next = p;
	else
		c->first = p;
	c->last = p;
	c->kept += bytes;
	c->relay->counts.kept_bytes += bytes;
	return p;
}

/* Nobody reads here any more. Count what comes as read, so that the other side can end. If it is only that the
 * kernel had no memory, who reads here would wait for the rest. */
static void relay_write_go_deaf(struct conversation *c)
{
	if (c->fd >= 0)
		(void)shutdown(c->fd, SHUT_WR);
	c->taken += c->kept;
	conversation_drop_pieces(c);
	c->deaf = 1;
	c->blocked = 0;
}

static void count_written(struct conversation *c, size_t n)
{
	c->taken += n;
	c->kept -= n;
	c->relay->counts.kept_bytes -= n;
	while (n > 0) {
		struct piece *p = c->first;
		size_t part = p->end - p->begin;
		if (part > n)
			part = n;
		p->begin += part;
		p->passes = 0;
		n -= part;
		if (p->begin == p->end)
			free_piece(pop(c));
	}
}

/* The pieces at the front that fit into one write. */
static size_t relay_write_gather(const struct conversation *c, struct iovec *vector)
{
	size_t count = 0;
	for (struct piece *p = c->first; p && count < PIECES_MAX; p = p->next) {
		if (p->is_chunk || (p->passes && count > 0))
			break;
		vector[count++] = (struct iovec){p->data + p->begin, p->end - p->begin};
	}
	return count;
}

static void write_pieces(struct conversation *c)
{
	struct iovec vector[PIECES_MAX];
	while (c->first && !c->blocked && !c->deaf) {
		if (c->first->is_chunk) {
			if (c->first->lacks && c->gone) { /* nobody is there to send it */
				relay_write_go_deaf(c);
				return;
			}
			if (!c->first->is_here)
				return;
			free_piece(pop(c));
			continue;
		}
		size_t count = relay_write_gather(c, vector);
		ssize_t n = transport_write(c->fd, vector, count,
					    c->first->passes ? c->mirror_fd : -1);
		if (n == TRANSPORT_LOST)
			relay_write_go_deaf(c);
		else if (n == TRANSPORT_LATER)
			c->blocked = 1;
		else
			count_written(c, (size_t)n);
	}
}

/* Reports read bytes in larger pieces: a short request and its answer need no report. */
static void tell_taken(struct conversation *c)
{
	if (c->taken < CONVERSATION_WINDOW / 4)
		return;
	struct head credit = {.kind = KIND_CREDIT, .bytes = c->taken};
	c->taken = 0;
	if (link_tell(c, credit, NULL, 0) != 0)
		conversation_leave(c);
}

void conversation_write(struct conversation *c)
{
	if (c->fd < 0)
		return;
	write_pieces(c);
	tell_taken(c);
	if (c->is_over)
		return;
	if (!c->first && c->shut && !c->deaf && !c->was_shut) {
		c->was_shut = 1;
		(void)shutdown(c->fd, SHUT_WR);
	}
	if (!c->first && (c->gone || (c->shut && c->said_end)))
		conversation_end(c);
	else
		conversation_watch(c);
}

void conversation_take(struct conversation *c, const char *data, size_t bytes, int passes)
{
	if (c->kept + bytes > KEPT_MAX) {
		conversation_leave(c);
		return;
	}
	if (c->deaf) {
		c->taken += bytes;
		tell_taken(c);
		return;
	}
	ssize_t n = 0;
	if (!c->first && !c->blocked && c->fd >= 0) {
		struct iovec piece = {(char *)(uintptr_t)data, bytes};
		n = transport_write(c->fd, &piece, 1, passes ? c->mirror_fd : -1);
	}
	if (n == TRANSPORT_LOST) {
		c->taken += bytes;
		relay_write_go_deaf(c);
	} else {
		c->taken += (size_t)n;
		if ((size_t)n < bytes) {
			c->blocked = c->fd >= 0 && (c->blocked || !c->first);
			struct piece *p = relay_write_push(c, data + n, bytes - (size_t)n);
			if (!p) {
				conversation_leave(c);
				return;
			}
			p->passes = passes && n == 0;
		}
	}
	tell_taken(c);
	if (!c->is_over)
		conversation_watch(c);
}

/* The bytes are looked at where they lie: what is not the same must be sent. */
static void copy_now(struct piece *p, struct conversation *from)
{
	struct conversation *c = p->conversation;
	const void *source = from ? mapping_at(from->mapping, p->copy.offset, p->bytes) : NULL;
	void *into = mapping_at(c->mapping, p->offset, p->bytes);
	struct head lack = {.kind = KIND_LACK, .offset = p->offset, .bytes = p->bytes};
	if (source && into) {
		memcpy(into, source, (size_t)p->bytes);
		p->is_here = XXH128_isEqual(XXH3_128bits(into, (size_t)p->bytes), p->copy.hash);
	}
	p->lacks = !p->is_here;
	if (p->is_here || c->gone)
		conversation_write(c);
	else if (link_tell(c, lack, NULL, 0) != 0)
		conversation_leave(c);
}

static void copy_all(struct conversation *from)
{
	struct piece *p, *next = from->copies;
	from->copies = NULL;
	while ((p = next) != NULL) {
		struct conversation *c = p->held;
		next = p->copy_next;
		if (p->conversation == NULL)
			free(p);
		else
			copy_now(p, from);
		conversation_release(c);
	}
}

void conversation_take_copy(struct conversation *c, const struct head *h, const struct copy *copy)
{
	struct conversation *from = relay_find(c->relay, c->origin, copy->number);
	struct piece *p;
	if (c->deaf)
		return;
	p = relay_write_push(c, NULL, 0);
	if (!p) {
		conversation_leave(c);
		return;
	}
	p->is_chunk = 1;
	p->offset = h->offset;
	p->bytes = h->bytes;
	p->copy = *copy;
	if (!from || from->coming == 0) {
		copy_now(p, from);
		return;
	}
	conversation_hold(c);
	p->held = c;
	p->copy_next = from->copies;
	from->copies = p;
}

static void on_chunk_here(void *piece)
{
	struct piece *p = piece;
	struct conversation *c = p->held;
	uint64_t bytes = p->bytes;
	int is_wanted = p->conversation != NULL;
	p->is_here = 1;
	if (!is_wanted)
		free(p);
	else
		conversation_write(c);
	if (is_wanted && c->is_sum) {
		c->came += bytes;
		relay_far_came(c);
	}
	if (--c->coming == 0)
		copy_all(c);
	conversation_release(c);
}

/* The place that waits for this chunk, because it could not be copied. */
static struct piece *find_lacking(const struct conversation *c, const struct head *h)
{
	struct piece *p = c->first;
	while (p && !(p->lacks && p->offset == h->offset && p->bytes == h->bytes))
		p = p->next;
	return p;
}

/* A sum comes in full chunks, one behind the other, so that nobody waits for it without an end. */
static int is_next_of_sum(const struct conversation *c, const struct head *h)
{
	uint64_t left = c->dense_bytes - c->named;
	return left > 0 && h->offset == c->named &&
	       h->bytes == (left < CHUNK_BYTES ? left : CHUNK_BYTES);
}

void conversation_take_chunk(struct conversation *c, const struct head *h)
{
	struct link *l = c->link;
	if (c->is_sum && !is_next_of_sum(c, h)) {
		link_swallow(l, h->tag, (size_t)h->bytes);
		conversation_leave(c);
		return;
	}
	c->named += h->bytes;
	void *into = mapping_at(c->mapping, h->offset, h->bytes);
	struct piece *p = find_lacking(c, h);
	if (!p && into && !c->deaf)
		p = relay_write_push(c, NULL, 0);
	if (!p) {
		link_swallow(l, h->tag, (size_t)h->bytes);
		if (into && !c->deaf) /* the line that names it must not be passed on */
			conversation_leave(c);
		return;
	}
	p->is_chunk = 1;
	p->bytes = h->bytes;
	p->lacks = 0;
	p->held = c;
	conversation_hold(c);
	c->coming++;
	if (world_receive_bulk(l->relay->options.world, l->rank, WORLD_RELAY, h->tag, into,
			       (size_t)h->bytes, on_chunk_here, p) == 0)
		return;
	c->coming--;
	p->is_here = 1;
	link_swallow(l, h->tag, (size_t)h->bytes);
	conversation_leave(c);
	conversation_release(c);
}
