/*
 * relay_sum: pushes of one group (lead/gate_grants.c) from several workers of this host to one
 * server on another: one sum of their dense gradients goes over the network.
 *
 * A push waits for the others of its group, for a while.  When all are here, the first one gets the
 * sum, and the others keep their rows only.  All of them say the number of this sum, so that the
 * server sees whether it has all of it; the lead commits all or none.
 *
 * One sum is made at a time, a piece in each turn of the loop, so that no other conversation waits
 * for more than a piece.
 */
#include "fabric/relay_internal.h"

#include "base/clock.h"
#include "param/opt.h"
#include "wire/timer.h"

#include <stdlib.h>
#include <string.h>

#define PARK_SECONDS 1.0
#define MEMBERS_MAX 1024
#define LINE_MORE 128 /* bytes that a line gets */
#define PIECE_FLOATS ((size_t)256 * 1024)

static void unpark(struct conversation *c)
{
	struct conversation **at = &c->relay->parked;
	while (*at != c)
		at = &(*at)->park_next;
	*at = c->park_next;
	c->parked_until = 0;
}

/* The others of its sum wait on, as if it had not come. */
void relay_sum_forget(struct conversation *c)
{
	struct relay *relay = c->relay;
	if (c->sum_lead) {
		relay->summing = NULL;
		for (struct conversation *other = relay->parked; other; other = other->park_next)
			other->sum_lead = NULL;
		timer_set(relay->sum, 0); /* another group may be complete */
	}
	if (c->parked_until > 0)
		unpark(c);
}

/* The line says what is sent: nothing dense, unless it `leads`. -1: out of memory. */
static int sum_line(struct conversation *c, int leads, uint64_t number)
{
	struct record *r = &c->relay->record;
	if (record_parse(r, c->line, c->line_len - 1, NULL) != 0)
		return -1;
	struct record_out *o = RECORD(r->type, F("sum", number), F("sum-of", c->members));
	for (size_t i = 0; i < r->count; i++) {
		const char *key = r->field[i].key;
		if (leads || (strcmp(key, "dense") != 0 && strncmp(key, "map-", 4) != 0))
			record_add(o, key, r->field[i].value);
	}
	if (!leads) {
		record_add_u64(o, "dense", 0);
		if (c->bulk_bytes > 0) {
			record_add_u64(o, "map-offset-bytes", c->bulk_offset);
			record_add_u64(o, "map-bytes", c->bulk_bytes);
		}
	}
	size_t len = record_end(o, NULL);
	char *own = malloc(len);
	if (!own)
		return -1;
	memcpy(own, o->data, len);
	free(c->line);
	c->line = own;
	c->line_len = len;
	return 0;
}

static void send_parked(struct conversation *c)
{
	if (c->bulk_bytes > 0)
		link_bulk(c);
	else
		conversation_resume_later(c);
}

static const float *relay_sum_of(const struct conversation *c)
{
	return (const float *)(const void *)(c->mapping->base + c->bulk_offset);
}

static int is_mate(const struct conversation *c, const struct conversation *other)
{
	return c->link == other->link && c->socket == other->socket && c->group == other->group &&
	       c->members == other->members && c->dense_bytes == other->dense_bytes;
}

static uint64_t new_number(struct relay *relay)
{
	struct {
		uint64_t rank, count;
		double at;
	} seed = {world_rank(relay->options.world), ++relay->sums, clock_epoch()};
	uint64_t number = XXH3_64bits(&seed, sizeof seed);
	return number ? number : 1;
}

/* What follows in the payload must begin at a place for chunks, a multiple of 8. */
static size_t sum_bytes_of(const struct conversation *c)
{
	size_t bytes = (c->dense_bytes + 7) / 8 * 8;
	return bytes < c->bulk_bytes ? bytes : c->bulk_bytes;
}

/* 0: one of them can't be applied, and the server is to say whose. */
static int relay_sum_piece(struct conversation *lead, size_t at, size_t floats)
{
	float *sum = lead->sum + at;
	memcpy(sum, relay_sum_of(lead) + at, floats * sizeof *sum);
	for (const struct conversation *c = lead->relay->parked; c; c = c->park_next) {
		if (c == lead || c->sum_lead != lead)
			continue;
		const float *from = relay_sum_of(c) + at;
		for (size_t i = 0; i < floats; i++)
			sum[i] += from[i];
	}
	return opt_bad_gradient(sum, floats) == floats;
}

/* It is made, or can't be. */
static void sum_give(struct conversation *lead, int is_good)
{
	struct relay *relay = lead->relay;
	uint64_t number = new_number(relay);
	relay->summing = NULL;
	for (struct conversation *c = relay->parked, *next; c; c = next) {
		next = c->park_next;
		if (c->sum_lead != lead)
			continue;
		unpark(c);
		c->sum_lead = NULL;
		if (is_good && c == lead) {
			c->sum_at = c->bulk_offset;
			c->sum_bytes = sum_bytes_of(c);
		} else if (is_good) {
			c->shift = c->dense_bytes;
			c->bulk_bytes -= c->dense_bytes;
			relay->counts.added_bytes += c->dense_bytes;
		}
		if (is_good && sum_line(c, c == lead, number) != 0)
			conversation_leave(c);
		else
			send_parked(c);
	}
}

/* Its group is here. What follows the gradient in its last 8 bytes goes with the sum. */
static void sum_begin(struct conversation *lead)
{
	struct relay *relay = lead->relay;
	size_t floats = lead->dense_bytes / sizeof(float);
	memcpy(lead->sum + floats, relay_sum_of(lead) + floats,
	       sum_bytes_of(lead) - lead->dense_bytes);
	for (struct conversation *c = relay->parked; c; c = c->park_next)
		c->sum_lead = is_mate(c, lead) ? lead : NULL;
	relay->summing = lead;
	relay->summed = 0;
}

static int all_mates_here(const struct conversation *c)
{
	size_t here = 0;
	for (const struct conversation *o = c->relay->parked; o; o = o->park_next)
		here += (size_t)is_mate(c, o);
	return here == c->members;
}

/* Of a group that is here, the one that came last; NULL: none is. */
static struct conversation *sum_next(const struct relay *relay)
{
	struct conversation *c = relay->parked;
	while (c && !all_mates_here(c))
		c = c->park_next;
	return c;
}

void relay_sum_step(void *owner)
{
	struct relay *relay = owner;
	struct conversation *lead = relay->summing;
	if (!lead && (lead = sum_next(relay)) != NULL)
		sum_begin(lead);
	if (!lead)
		return;
	size_t floats = lead->dense_bytes / sizeof(float) - relay->summed;
	size_t piece = floats < PIECE_FLOATS ? floats : PIECE_FLOATS;
	int is_good = relay_sum_piece(lead, relay->summed, piece);
	relay->summed += piece;
	if (!is_good || piece == floats)
		sum_give(lead, is_good);
	timer_set(relay->sum, 0);
}

static int sum_reserve(struct conversation *c)
{
	if (c->sum_room >= c->dense_bytes + 8)
		return 0;
	free(c->sum);
	c->sum = malloc(c->dense_bytes + 8);
	c->sum_room = c->sum ? c->dense_bytes + 8 : 0;
	return c->sum ? 0 : -1;
}

int relay_sum_park(struct conversation *c, const char *line, size_t len, uint64_t offset,
		   uint64_t bytes)
{
	struct relay *relay = c->relay;
	const struct record *r = &relay->record;
	uint64_t dense = 0;
	if (!c->is_near || c->flying || len + LINE_MORE > RECORD_LINE_MAX || !record_is(r, "push") ||
	    record_u64(r, "group", 1, UINT64_MAX, &c->group, NULL) != 0 ||
	    record_u64(r, "members", 2, MEMBERS_MAX, &c->members, NULL) != 0 ||
	    record_u64(r, "dense-bytes", SMALL_BYTES, bytes, &c->dense_bytes, NULL) != 0 ||
	    record_u64(r, "dense", 1, 1, &dense, NULL) != 0 ||
	    c->dense_bytes % sizeof(float) != 0 || sum_reserve(c) != 0)
		return 0;
	if (conversation_keep_line(c, line, len) != 0)
		return 0;
	c->bulk_offset = c->bulk_at = offset;
	c->bulk_bytes = bytes;
	c->sum_bytes = c->shift = 0;
	c->parked_until = clock_mono() + PARK_SECONDS;
	c->park_next = relay->parked;
	relay->parked = c;
	if (!timer_is_set(relay->unpark))
		timer_set(relay->unpark, PARK_SECONDS);
	if (!relay->summing && all_mates_here(c))
		relay_sum_step(relay);
	return 1;
}

void relay_sum_on_time(void *owner)
{
	struct relay *relay = owner;
	double now = clock_mono();
	for (struct conversation *c = relay->parked, *next; c; c = next) {
		next = c->park_next;
		if (c->parked_until > now || c->sum_lead)
			continue;
		unpark(c);
		send_parked(c);
	}
	if (relay->parked)
		timer_set(relay->unpark, PARK_SECONDS / 4);
}
