/*
 * relay_far: a group with members on several hosts (relay_sum.c).  The sum of those of one host
 * goes to the host that the lead has named, is added to the sum there, and then its members send
 * their rows only, with the number of the whole sum.
 *
 * Such a sum travels as a conversation without sockets: a carrier where it comes from, a guest
 * where it is added.  The guest's host answers SUMMED or GONE.  If the guest goes, the members of
 * the carrier are sent as they are; if the carrier goes, the others wait for it for a while.  A
 * server commits whole sums only, so that whatever is lost on the way, nothing is in the model
 * twice.
 */
#include "fabric/relay_internal.h"

#include "base/clock.h"
#include "wire/timer.h"

#include <stdlib.h>
#include <string.h>

int relay_far_carry(struct conversation *lead)
{
	struct relay *relay = lead->relay;
	struct far far = {lead->socket, lead->group, lead->members, lead->here, lead->dense_bytes};
	struct conversation *carrier = conversation_new(
		relay, (unsigned)lead->at, world_rank(relay->options.world), ++relay->last_number);
	if (!carrier)
		return -1;
	carrier->is_sum = 1;
	if (link_tell(carrier, (struct head){.kind = KIND_SUM}, &far, sizeof far) != 0) {
		conversation_end(carrier);
		return -1;
	}
	for (struct conversation *c = relay->parked; c; c = c->park_next) {
		if (c->sum_lead != lead)
			continue;
		c->sum_lead = NULL;
		c->carrier = carrier;
	}
	carrier->sum = lead->sum;
	lead->sum = NULL;
	lead->sum_room = 0;
	carrier->sum_bytes = carrier->bulk_bytes = lead->dense_bytes;
	link_bulk(carrier);
	timer_set(relay->sum, 0); /* another group may be complete */
	return 0;
}

void relay_far_summed(struct conversation *carrier, uint64_t number)
{
	if (!carrier->is_sum || !carrier->is_near)
		return;
	for (struct conversation *c = carrier->relay->parked, *next; c; c = next) {
		next = c->park_next;
		if (c->carrier != carrier)
			continue;
		c->carrier = NULL;
		relay_sum_unpark(c);
		relay_sum_send(c, 0, number);
	}
	conversation_end(carrier);
}

/* ---- guests ---- */

void relay_far_open(struct relay *relay, unsigned rank, const struct head *h, const void *data,
		    size_t bytes)
{
	struct far far;
	struct conversation *c = conversation_new(relay, rank, h->origin, h->number);
	if (!c || bytes != sizeof far) {
		struct head gone = {.kind = KIND_GONE, .origin = h->origin, .number = h->number};
		(void)link_say(&relay->link[rank], &gone, NULL, 0);
		if (c)
			conversation_end(c);
		return;
	}
	memcpy(&far, data, sizeof far);
	c->is_sum = 1;
	c->socket = far.socket;
	c->group = far.group;
	c->members = far.members;
	c->here = far.here;
	c->dense_bytes = far.dense_bytes;
	c->parked_until = clock_mono() + FAR_SECONDS;
	c->park_next = relay->guests;
	relay->guests = c;
	if (mapping_make(&c->mapping, &c->mirror_fd, far.dense_bytes, NULL) != 0) {
		conversation_leave(c);
		return;
	}
	c->link->mirrors++;
	if (!timer_is_set(relay->unpark))
		timer_set(relay->unpark, FAR_SECONDS);
}

static int far_is_same(const struct conversation *c, const struct conversation *guest)
{
	return c->socket == guest->socket && c->group == guest->group &&
	       c->members == guest->members && c->dense_bytes == guest->dense_bytes;
}

int relay_far_is_mate(const struct conversation *c, const struct conversation *guest)
{
	return c->at >= 0 && (unsigned)c->at == world_rank(c->relay->options.world) &&
	       far_is_same(c, guest) && guest->came == guest->dense_bytes;
}

/* As long as something comes, all of its sum wait. */
void relay_far_came(struct conversation *guest)
{
	struct relay *relay = guest->relay;
	double until = clock_mono() + FAR_SECONDS;
	for (struct conversation *c = relay->parked; c; c = c->park_next)
		if (far_is_same(c, guest))
			c->parked_until = until;
	for (struct conversation *c = relay->guests; c; c = c->park_next)
		if (far_is_same(c, guest))
			c->parked_until = until;
	if (guest->came == guest->dense_bytes)
		timer_set(relay->sum, 0);
}

void relay_far_on_time(struct relay *relay, double now)
{
	for (struct conversation *c = relay->guests, *next; c; c = next) {
		next = c->park_next;
		if (c->parked_until <= now && !c->sum_lead)
			conversation_leave(c);
	}
}

/* ---- ends ---- */

/* A carrier's members go as they are, soon: here may be the end of the relay. */
void relay_far_forget(struct conversation *c)
{
	struct relay *relay = c->relay;
	for (struct conversation **at = &relay->guests; *at; at = &(*at)->park_next) {
		if (*at == c) {
			*at = c->park_next;
			break;
		}
	}
	for (struct conversation *m = relay->parked; m; m = m->park_next) {
		if (m->carrier != c)
			continue;
		m->carrier = NULL;
		m->parked_until = clock_mono();
		timer_set(relay->unpark, 0);
	}
}
