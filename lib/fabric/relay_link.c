/* relay_link: sends messages, and payloads in chunks, to one other host. */
#include "fabric/relay_internal.h"

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
	conversation_release(c);
	if (!l->relay->stopped)
		link_pump(l);
}

/* c is held, so the memory stays until the chunk is sent. */
static int send_chunk(struct conversation *c)
{
	struct link *l = c->link;
	size_t bytes = c->bulk_bytes < CHUNK_BYTES ? (size_t)c->bulk_bytes : CHUNK_BYTES;
	struct head head = {.kind = KIND_CHUNK, .offset = c->bulk_offset, .bytes = bytes};
	head.tag = l->tag;
	if (world_send_bulk(l->relay->options.world, l->rank, WORLD_RELAY, head.tag,
			    c->mapping->base + c->bulk_offset, bytes, on_chunk_sent, c) != 0)
		return -1;
	conversation_hold(c);
	l->chunks++;
	l->tag = (l->tag + 1) & WORLD_TAG_MAX;
	c->bulk_offset += bytes;
	c->bulk_bytes -= bytes;
	l->relay->counts.payload_bytes += bytes;
	return link_tell(c, head, NULL, 0);
}

static void link_pump(struct link *l)
{
	while (l->chunks < CHUNKS_MAX && l->bulk.first) {
		struct conversation *c = pop_bulk(l);
		if (!c->is_over) {
			if (send_chunk(c) != 0)
				conversation_leave(c);
			else if (c->bulk_bytes > 0)
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
