/*
 * relay_sum: pushes of one group (lead/gate_grants.c) from several workers of this host to one
 * server on another: one sum of their dense gradients goes over the network.
 *
 * A push waits for the others of its group, for a while.  When all are here, the first one gets the
 * sum, and the others keep their rows only.  All of them say the number of this sum, so that the
 * server sees whether it has all of it; the lead commits all or none.
 *
 * A group may have members on several hosts.  Then each host sums its own, and the host that the
 * lead has named adds those sums to its own (relay_far.c): one of its members gets the sum of all.
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

void relay_sum_unpark(struct conversation *c)
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
		for (struct conversation *other = relay->guests; other; other = other->park_next)
			other->sum_lead = NULL;
		timer_set(relay->sum, 0); /* another group may be complete */
	}
	if (c->is_sum)
		relay_far_forget(c);
	else if (c->parked_until > 0)
		relay_sum_unpark(c);
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

/* What follows in the payload must begin at a place for chunks, a multiple of 8. */
static size_t sum_bytes_of(const struct conversation *c)
{
	size_t bytes = (c->dense_bytes + 7) / 8 * 8;
	return bytes < c->bulk_bytes ? bytes : c->bulk_bytes;
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

void relay_sum_send(struct conversation *c, int leads, uint64_t number)
{
	if (leads) {
		c->sum_at = c->bulk_offset;
		c->sum_bytes = sum_bytes_of(c);
	} else {
		c->shift = c->dense_bytes;
		c->bulk_bytes -= c->dense_bytes;
		c->relay->counts.added_bytes += c->dense_bytes;
	}
	if (sum_line(c, leads, number) != 0)
		conversation_leave(c);
	else
		send_parked(c);
}

static int is_mate(const struct conversation *c, const struct conversation *other)
{
	return !other->carrier && c->link == other->link && c->socket == other->socket &&
	       c->group == other->group && c->members == other->members &&
	       c->dense_bytes == other->dense_bytes;
}

/* Another host sums all. */
static int sum_is_far(const struct conversation *c)
{
	return c->at >= 0 && (unsigned)c->at != world_rank(c->relay->options.world);
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

static void sum_add(float *sum, const float *from, size_t floats)
{
	for (size_t i = 0; i < floats; i++)
		sum[i] += from[i];
}

/* 0: one of them can't be applied, and the server is to say whose. */
static int relay_sum_piece(struct conversation *lead, size_t at, size_t floats)
{
	float *sum = lead->sum + at;
	memcpy(sum, relay_sum_of(lead) + at, floats * sizeof *sum);
	for (const struct conversation *c = lead->relay->parked; c; c = c->park_next) {
		if (c != lead && c->sum_lead == lead)
			sum_add(sum, relay_sum_of(c) + at, floats);
	}
	for (const struct conversation *c = lead->relay->guests; c; c = c->park_next) {
		if (c->sum_lead == lead)
			sum_add(sum, relay_sum_of(c) + at, floats);
	}
	return opt_bad_gradient(sum, floats) == floats;
}

/* It is made, or can't be. */
static void sum_give(struct conversation *lead, int is_good)
{
	struct relay *relay = lead->relay;
	uint64_t number = new_number(relay);
	relay->summing = NULL;
	if (is_good && sum_is_far(lead) && relay_far_carry(lead) == 0)
		return;
	is_good = is_good && !sum_is_far(lead);
	for (struct conversation *c = relay->parked, *next; c; c = next) {
		next = c->park_next;
		if (c->sum_lead != lead)
			continue;
		relay_sum_unpark(c);
		c->sum_lead = NULL;
		if (is_good)
			relay_sum_send(c, c == lead, number);
		else
			send_parked(c);
	}
	for (struct conversation *c = relay->guests, *next; c; c = next) {
		struct head summed = {.kind = KIND_SUMMED, .offset = number};
		next = c->park_next;
		if (c->sum_lead != lead)
			continue;
		c->sum_lead = NULL;
		if (is_good && link_tell(c, summed, NULL, 0) == 0)
			conversation_end(c);
		else
			conversation_leave(c);
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
		c->sum_lead = is_mate(lead, c) ? lead : NULL;
	for (struct conversation *c = relay->guests; c; c = c->park_next)
		c->sum_lead = relay_far_is_mate(lead, c) ? lead : NULL;
	relay->summing = lead;
	relay->summed = 0;
}

static int all_mates_here(const struct conversation *c)
{
	uint64_t here = 0;
	for (const struct conversation *o = c->relay->parked; o; o = o->park_next)
		here += (uint64_t)is_mate(c, o);
	for (const struct conversation *o = c->relay->guests; o; o = o->park_next)
		here += relay_far_is_mate(c, o) ? o->here : 0;
	return !c->carrier && here == (sum_is_far(c) ? c->here : c->members);
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

/* Where the group is summed: on the host that the lead has named. If that is the server's, or none
 * of the world, its members on this host are a group of their own. 0: a number makes no sense, or
 * there is nothing to sum. */
static int sum_where(struct conversation *c, const struct record *r)
{
	const char *at = record_get(r, "at");
	c->at = at ? world_find(c->relay->options.world, at) : -1;
	c->here = c->members;
	if (record_u64_opt(r, "here", 1, c->members, &c->here, NULL) != 0)
		return 0;
	if (c->at < 0 || (unsigned)c->at == c->link->rank) {
		c->at = -1;
		c->members = c->here;
	}
	return c->members > 1;
}

int relay_sum_park(struct conversation *c, const char *line, size_t len, uint64_t offset,
		   uint64_t bytes)
{
	struct relay *relay = c->relay;
	const struct record *r = &relay->record;
	uint64_t dense = 0;
	if (!c->is_near || c->flying || len + LINE_MORE > RECORD_LINE_MAX ||
	    !record_is(r, "push") || record_u64(r, "group", 1, UINT64_MAX, &c->group, NULL) != 0 ||
	    record_u64(r, "members", 2, MEMBERS_MAX, &c->members, NULL) != 0 ||
	    record_u64(r, "dense-bytes", SMALL_BYTES, bytes, &c->dense_bytes, NULL) != 0 ||
	    record_u64(r, "dense", 1, 1, &dense, NULL) != 0 ||
	    c->dense_bytes % sizeof(float) != 0 || !sum_where(c, r) || sum_reserve(c) != 0)
		return 0;
	if (conversation_keep_line(c, line, len) != 0)
		return 0;
	c->bulk_offset = c->bulk_at = offset;
	c->bulk_bytes = bytes;
	c->sum_bytes = c->shift = 0;
	c->parked_until = clock_mono() + (c->at < 0 ? PARK_SECONDS : FAR_SECONDS);
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
		if (c->parked_until > now || c->sum_lead || c->carrier)
			continue;
		relay_sum_unpark(c);
		send_parked(c);
	}
	relay_far_on_time(relay, now);
	if (relay->parked || relay->guests)
		timer_set(relay->unpark, PARK_SECONDS / 4);
}
