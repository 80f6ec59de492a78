/* relay_link: sends messages, and payloads in chunks, to one other host. */
#include "fabric/relay_internal.h"

#include "base/grow.h"
#include "base/log.h"

#include <stdlib.h>

/* ---- lists of those that wait ---- */

static struct conversation *pop_waiting(struct link *l)
{
	struct conversation *c = l->waiting.first;
	l->waiting.first = c->link_next;
	if (!l->waiting.first)
		l->waiting.last = NULL;
	c->waits_link = 0;
	return c;
}

static struct conversation *pop_bulk(struct link *l)
{
	struct conversation *c = l->bulk.first;
	l->bulk.first = c->bulk_next;
	if (!l->bulk.first)
		l->bulk.last = NULL;
	c->waits_bulk = 0;
	return c;
}

static void push_bulk(struct conversation *c)
{
	struct queue *q = &c->link->bulk;
	if (c->waits_bulk)
		return;
	conversation_hold(c);
	c->waits_bulk = 1;
	c->bulk_next = NULL;
	if (q->last)
		q->last->bulk_next = c;
	else
		q->first = c;
	q->last = c;
}

void link_wait(struct conversation *c)
{
	struct queue *q = &c->link->waiting;
	if (c->waits_link)
		return;
	conversation_hold(c);
	c->waits_link = 1;
	c->link_next = NULL;
	if (q->last)
		q->last->link_next = c;
	else
		q->first = c;
	q->last = c;
}

/* ---- messages ---- */

int link_say(struct link *l, const struct head *head, const void *data, size_t bytes)
{
	if (world_tell(l->relay->options.world, l->rank, WORLD_RELAY, head, sizeof *head, data,
		       bytes) != 0)
		return -1;
	l->flying += sizeof *head + bytes;
	return 0;
}

int link_tell(struct conversation *c, struct head head, const void *data, size_t bytes)
{
	head.origin = c->origin;
	head.number = c->number;
	return link_say(c->link, &head, data, bytes);
}

int link_is_full(const struct link *l)
{
	return l->flying >= LINK_WINDOW;
}

void link_heard(struct link *l, size_t bytes)
{
	l->looked += bytes;
	if (l->looked < LINK_ACK)
		return;
	struct head head = {.kind = KIND_ACK, .bytes = l->looked};
	if (world_tell(l->relay->options.world, l->rank, WORLD_RELAY, &head, sizeof head, NULL,
		       0) == 0)
		l->looked = 0; /* else with the next one */
}

void link_acked(struct link *l, size_t bytes)
{
	l->flying -= bytes < l->flying ? bytes : l->flying;
	while (!link_is_full(l) && l->waiting.first) {
		struct conversation *c = pop_waiting(l);
		conversation_resume_later(c);
		conversation_release(c);
	}
}

/* ---- payloads ---- */

static void link_pump(struct link *l);

static void on_chunk_sent(void *conversation)
{
	struct conversation *c = conversation;
	struct link *l = c->link;
	l->chunks--;
	c->flying--;
	conversation_release(c);
	if (!l->relay->stopped)
		link_pump(l);
}

/* c is held, so the memory stays until the chunk is sent. Its head goes first: then the other side
 * receives it where it belongs. With the last one goes the line that names them, unless what has come
 * behind that line can't go with it. */
static int send_chunk(struct conversation *c, uint64_t offset, size_t bytes, int is_last)
{
	struct link *l = c->link;
	struct head head = {.kind = KIND_CHUNK, .offset = offset, .bytes = bytes};
	const char *from = offset - c->sum_at < c->sum_bytes
				   ? (const char *)c->sum + (offset - c->sum_at)
				   : c->mapping->base + offset + c->shift;
	head.tag = l->tag;
	if (link_tell(c, head, c->line, is_last ? c->line_len : 0) != 0 ||
	    world_send_bulk(l->relay->options.world, l->rank, WORLD_RELAY, head.tag, from, bytes,
			    on_chunk_sent, c) != 0)
		return -1;
	if (is_last)
		conversation_said_line(c);
	conversation_hold(c);
	c->flying++;
	l->chunks++;
	l->tag = (l->tag + 1) & WORLD_TAG_MAX;
	l->relay->counts.payload_bytes += bytes;
	return 0;
}

static int is_hash(const struct conversation *c, size_t i, XXH128_hash_t hash)
{
	return i < c->hashes && XXH128_isEqual(c->hash[i], hash);
}

/* Another client on the same host to which a payload that begins like this one was sent, or is
 * being sent; one that copies itself may not have it yet, and so only if there is no other. */
static uint64_t find_like(const struct conversation *c, XXH128_hash_t hash)
{
	const struct conversation *other;
	uint64_t like = 0;
	for (size_t at = 0; (other = u64map_next(&c->relay->all, &at)) != NULL;) {
		if (other == c || other->link != c->link || other->is_near ||
		    !is_hash(other, 0, hash))
			continue;
		like = other->number;
		if (!other->like)
			break;
	}
	return like;
}

/* Parameters often go to several workers of a host: if the next chunk is already in the memory of
 * another one, it is copied there. Looks at an answer only, and fills in the place. */
static int is_there(struct conversation *c, size_t bytes, struct copy *copy)
{
	size_t i = (size_t)((c->bulk_offset - c->bulk_at) / CHUNK_BYTES);
	if (c->is_near || c->link->mirrors < 2)
		return 0;
	copy->hash = XXH3_128bits(c->mapping->base + c->bulk_offset, bytes);
	if (i == 0)
		c->like = find_like(c, copy->hash);
	if (c->hashes == i && GROW(c->hash, c->hash_room, i + 1) == 0)
		c->hash[c->hashes++] = copy->hash;
	const struct conversation *like = c->like ? relay_find(c->relay, c->origin, c->like) : NULL;
	if (!like || !is_hash(like, i, copy->hash))
		return 0;
	copy->number = like->number;
	copy->offset = like->bulk_at + i * CHUNK_BYTES;
	return 1;
}

/* The next chunk of c's payload: sends it, or says where it is. */
static int next_chunk(struct conversation *c)
{
	size_t bytes = c->bulk_bytes < CHUNK_BYTES ? (size_t)c->bulk_bytes : CHUNK_BYTES;
	uint64_t offset = c->bulk_offset;
	struct head head = {.kind = KIND_COPY, .offset = offset, .bytes = bytes};
	struct copy copy;
	if (c->lack_bytes > 0) {
		bytes = c->lack_bytes < CHUNK_BYTES ? (size_t)c->lack_bytes : CHUNK_BYTES;
		offset = c->lack_offset;
		c->lack_offset += bytes;
		c->lack_bytes -= bytes;
		return send_chunk(c, offset, bytes, 0);
	}
	if (offset - c->sum_at < c->sum_bytes && bytes > c->sum_at + c->sum_bytes - offset)
		bytes = (size_t)(c->sum_at + c->sum_bytes - offset);
	int there = is_there(c, bytes, &copy);
	c->bulk_offset += bytes;
	c->bulk_bytes -= bytes;
	if (!there)
		return send_chunk(c, offset, bytes,
				  c->bulk_bytes == 0 && conversation_keep_rest(c));
	c->relay->counts.copied_bytes += bytes;
	return link_tell(c, head, &copy, sizeof copy);
}

static void link_pump(struct link *l)
{
	while (l->chunks < CHUNKS_MAX && l->bulk.first) {
		struct conversation *c = pop_bulk(l);
		if (!c->is_over) {
			if (next_chunk(c) != 0)
				conversation_leave(c);
			else if (c->bulk_bytes > 0 || c->lack_bytes > 0)
				push_bulk(c);
			else
				conversation_resume_later(c);
		}
		conversation_release(c);
	}
}

void link_bulk(struct conversation *c)
{
	push_bulk(c);
	link_pump(c->link);
}

/* A client that goes may leave many to be sent, one behind the other. Each is sent as it was said
 * to be there: behind the last piece of a payload, which may be short, comes no other. */
void link_lacked(struct conversation *c, uint64_t offset, uint64_t bytes)
{
	int more = c->lack_bytes > 0 && offset == c->lack_offset + c->lack_bytes &&
		   c->lack_bytes % CHUNK_BYTES == 0;
	if (!mapping_at(c->mapping, offset, bytes) ||
	    (c->lack_bytes > 0 && !more && send_chunk(c, offset, (size_t)bytes, 0) != 0)) {
		conversation_leave(c);
		return;
	}
	c->relay->counts.copied_bytes -= bytes; /* it was none */
	if (c->lack_bytes == 0)
		c->lack_offset = offset;
	if (c->lack_bytes == 0 || more)
		c->lack_bytes += bytes;
	link_bulk(c);
}

void link_swallow(struct link *l, unsigned tag, size_t bytes)
{
	void *nowhere = malloc(bytes ? bytes : 1);
	if (!nowhere || world_receive_bulk(l->relay->options.world, l->rank, WORLD_RELAY, tag,
					   nowhere, bytes, free, nowhere) != 0) {
		/* The chunk counts for its sender as one of the few that may be on their way. */
		log_say(LOG_LEVEL_ERROR, "relay: out of memory for a chunk without a reader");
		free(nowhere);
	}
}
