/*
 * The messages between the hosts of an epoch. Every epoch that a host opens has its own number, its
 * life. Messages name the lives of both sides, so nothing of one epoch is taken for another's,
 * whatever numbers clients give.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>

enum message_kind {
	MESSAGE_OPEN = 1, /* I have opened this */
	MESSAGE_LEAVE,    /* I am out of it, and why (SUM_OK: nobody misses anything of me) */
	MESSAGE_OFFER,    /* a piece is ready */
	MESSAGE_DATA,     /* a piece that is short */
	MESSAGE_GRANT     /* send it, by this tag */
};

struct message {
	uint8_t kind, piece, why, zero;
	uint32_t tag;
	uint32_t bucket, chunk;
	uint64_t from_life, to_life;
	uint64_t bytes;
	uint32_t width, reserved;
};

struct message_open {
	struct message head;
	uint64_t epoch, iteration, floats, hosts_check;
};

#define DATA_MAX (SUM_MESSAGE_MAX - sizeof(struct message))

static const struct piece_way *const way_of[PIECE_KINDS] = {
	[PIECE_PARTIAL] = &ring_way,
	[PIECE_FINAL] = &ring_way,
	[PIECE_ROWS] = &rows_way,
	[PIECE_MERGED] = &rows_way,
};

static void count_sent(struct epoch *e, size_t bytes)
{
	e->wire_bytes += bytes;
	e->sum->wire_bytes += bytes;
}

static void wire_tell(struct epoch *e, size_t to, const void *head, size_t head_bytes,
		      const void *data, size_t bytes)
{
	const struct sum_link *l = &e->sum->link;

	l->tell(l->carrier, e->member[to].rank, head, head_bytes, data, bytes);
	count_sent(e, head_bytes + bytes);
}

static void wire_tell_all(struct epoch *e, const void *head, size_t bytes)
{
	for (size_t i = 0; i < e->hosts; i++) {
		if (i != e->self)
			wire_tell(e, i, head, bytes, NULL, 0);
	}
}

void wire_tell_open(struct epoch *e)
{
	struct message_open m = {.head = {.kind = MESSAGE_OPEN, .from_life = e->life},
				 .epoch = e->epoch,
				 .iteration = e->iteration,
				 .floats = e->floats,
				 .hosts_check = e->hosts_check};

	wire_tell_all(e, &m, sizeof m);
}

void wire_tell_leave(struct epoch *e)
{
	struct message m = {.kind = MESSAGE_LEAVE,
			    .from_life = e->life,
			    .why = (uint8_t)(e->done ? SUM_OK : e->failed)};

	wire_tell_all(e, &m, sizeof m);
}

static struct message message_about(const struct epoch *e, size_t to, struct piece p, uint8_t kind)
{
	return (struct message){.kind = kind,
				.piece = (uint8_t)p.kind,
				.bucket = p.bucket,
				.chunk = p.chunk,
				.from_life = e->life,
				.to_life = e->member[to].life};
}

/* ---- the other hosts' epochs ---- */

void wire_meet(struct epoch *e, size_t member)
{
	struct member *m = &e->member[member];
	const struct host *h = &e->sum->host[m->rank];
	const char *name = epoch_host(e, member);

	if (m->life || e->failed || h->epoch < e->epoch)
		return;
	if (h->life == 0 && !(h->left && h->epoch == e->epoch)) /* it has none */
		return;
	if (h->epoch > e->epoch)
		epoch_fail(e, SUM_STALE, "%s is at epoch %llu already", name,
			   (unsigned long long)h->epoch);
	else if (h->left)
		epoch_fail(e, SUM_LOST, "%s left it before its end", name);
	else if (h->hosts_check != e->hosts_check)
		epoch_fail(e, SUM_DIFFERS, "%s named other hosts for epoch %llu", name,
			   (unsigned long long)e->epoch);
	else if (h->iteration != e->iteration)
		epoch_fail(e, SUM_DIFFERS, "%s named iteration %llu, this host %llu", name,
			   (unsigned long long)h->iteration, (unsigned long long)e->iteration);
	else if (h->floats != e->floats)
		epoch_fail(e, SUM_DIFFERS, "%s named %llu dense floats, this host %llu", name,
			   (unsigned long long)h->floats, (unsigned long long)e->floats);
	if (e->failed)
		return;
	m->life = h->life;
	ring_met(e, member);
	rows_met(e, member);
}

static int wire_member_of(const struct epoch *e, unsigned rank, size_t *member)
{
	for (size_t i = 0; e && i < e->hosts; i++) {
		if (e->member[i].rank == rank) {
			*member = i;
			return 1;
		}
	}
	return 0;
}

static void wire_on_open(struct sum *s, unsigned rank, const struct message_open *m)
{
	size_t member;

	s->host[rank] =
		(struct host){m->head.from_life, m->epoch, m->iteration, m->floats, m->hosts_check, 0};
	if (wire_member_of(s->open, rank, &member))
		wire_meet(s->open, member);
}

static void wire_on_leave(struct sum *s, unsigned rank, const struct message *m)
{
	struct epoch *e = s->open;
	size_t member;

	if (s->host[rank].life == m->from_life)
		s->host[rank] = (struct host){.epoch = s->host[rank].epoch, .left = m->why != SUM_OK};
	if (m->why == SUM_OK || !wire_member_of(e, rank, &member) ||
	    e->member[member].life != m->from_life)
		return;
	const char *name = epoch_host(e, member);
	if (m->why == SUM_STALE)
		epoch_fail(e, SUM_STALE, "%s went on to a newer epoch", name);
	else if (m->why == SUM_DIFFERS)
		epoch_fail(e, SUM_DIFFERS, "%s says that hosts named different things", name);
	else
		epoch_fail(e, SUM_LOST, "%s left it before its end (%s)", name,
			   sum_code_name(m->why));
}

/* ---- sending ---- */

void wire_offer(struct epoch *e, size_t to, struct piece p)
{
	const struct piece_way *way = way_of[p.kind];
	uint8_t *state = way->out(e, to, p);
	size_t bytes;

	if (!state || *state != PIECE_NOT_YET || e->failed || !e->member[to].life)
		return;
	const void *data = way->data(e, to, p, &bytes);
	if (!data)
		return;
	struct message m =
		message_about(e, to, p, bytes <= DATA_MAX ? MESSAGE_DATA : MESSAGE_OFFER);
	m.bytes = bytes;
	m.width = way == &rows_way && bytes ? e->width : 0;
	if (m.kind == MESSAGE_OFFER) {
		*state = PIECE_OFFERED;
		wire_tell(e, to, &m, sizeof m, NULL, 0);
		return;
	}
	*state = PIECE_DONE;
	wire_tell(e, to, &m, sizeof m, data, bytes);
	epoch_one_less(e);
}

struct sending {
	struct epoch *epoch;
	size_t to;
	struct piece piece;
};

static void wire_sent(void *arg)
{
	struct sending *g = arg;
	struct epoch *e = g->epoch;
	struct sum *s = e->sum;

	e->under_way--;
	if (!e->failed && !e->retired) {
		*way_of[g->piece.kind]->out(e, g->to, g->piece) = PIECE_DONE;
		epoch_one_less(e);
	}
	free(g);
	sum_turn(s);
}

static void nothing_sent(void *arg)
{
	(void)arg;
}

/* The other side keeps room until something comes, so it always gets an answer. */
static void on_grant(struct sum *s, unsigned rank, const struct message *m)
{
	const struct sum_link *l = &s->link;
	struct epoch *e = s->open;
	struct piece p = {m->piece, m->bucket, m->chunk};
	struct sending *g = NULL;
	const void *data = NULL;
	uint8_t *state;
	size_t to, bytes = 0;

	if (e && !e->failed && e->life == m->to_life && wire_member_of(e, rank, &to) &&
	    (state = way_of[p.kind]->out(e, to, p)) != NULL && *state == PIECE_OFFERED) {
		data = way_of[p.kind]->data(e, to, p, &bytes);
		g = malloc(sizeof *g);
		if (!g)
			epoch_fail(e, SUM_ROOM, "out of memory");
	}
	if (!data || !g) {
		l->send(l->carrier, rank, m->tag, "", 0, nothing_sent, NULL);
		return;
	}
	*g = (struct sending){e, to, p};
	*state = PIECE_MOVING;
	e->under_way++;
	count_sent(e, bytes);
	l->send(l->carrier, rank, m->tag, data, bytes, wire_sent, g);
}

/* ---- receiving ---- */

static void lost_sense(struct epoch *e, size_t from)
{
	epoch_fail(e, SUM_LOST, "%s sent a message that does not belong there",
		   epoch_host(e, from));
}

/* The place of a piece that another host has for this one; NULL: of no epoch that lives here. */
static uint8_t *incoming(struct sum *s, unsigned rank, const struct message *m, size_t *from)
{
	struct epoch *e = s->open;
	struct piece p = {m->piece, m->bucket, m->chunk};
	size_t bytes = (size_t)m->bytes, unit;

	if (!e || e->failed || e->life != m->to_life || !wire_member_of(e, rank, from) ||
	    e->member[*from].life != m->from_life)
		return NULL;
	uint8_t *state = way_of[p.kind]->in(e, *from, p, &bytes);
	if (!state || *state != PIECE_NOT_YET || bytes != m->bytes || bytes > SUM_PIECE_MAX) {
		lost_sense(e, *from);
		return NULL;
	}
	if (way_of[p.kind] == &rows_way && bytes) {
		unit = rowlist_bytes(1, m->width);
		if (m->width == 0 || bytes % unit != 0) {
			lost_sense(e, *from);
			return NULL;
		}
		if (rows_agree(e, *from, m->width) != 0)
			return NULL;
	}
	return state;
}

static void wire_on_data(struct sum *s, unsigned rank, const struct message *m, const void *data,
			 size_t bytes)
{
	size_t from;
	uint8_t *state = incoming(s, rank, m, &from);

	if (!state)
		return;
	/* A message of the world has more room than one of sums. */
	if (bytes != m->bytes || bytes > DATA_MAX) {
		lost_sense(s->open, from);
		return;
	}
	*state = PIECE_MOVING;
	memcpy(s->aligned, data, bytes);
	way_of[m->piece]->take(s->open, from, (struct piece){m->piece, m->bucket, m->chunk},
			       s->aligned, bytes, NULL);
}

static void on_offer(struct sum *s, unsigned rank, const struct message *m)
{
	struct piece p = {m->piece, m->bucket, m->chunk};
	size_t from;
	uint8_t *state = incoming(s, rank, m, &from);

	if (!state)
		return;
	*state = PIECE_OFFERED;
	if (way_of[p.kind]->wanted(s->open, p))
		wire_want(s->open, from, p, (size_t)m->bytes);
}

void wire_want(struct epoch *e, size_t from, struct piece p, size_t bytes)
{
	struct sum *s = e->sum;
	if (e->failed) /* its offers are forgotten */
		return;
	struct offer *o = malloc(sizeof *o);
	if (!o) {
		epoch_fail(e, SUM_ROOM, "out of memory");
		return;
	}
	*o = (struct offer){NULL, e, from, p, bytes};
	*s->last_offer = o;
	s->last_offer = &o->next;
	s->offers++;
}

void wire_forget_offers(struct epoch *e)
{
	struct sum *s = e->sum;
	struct offer **at = &s->first_offer;

	while (*at) {
		struct offer *o = *at;
		if (o->epoch != e) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		s->offers--;
		free(o);
	}
	s->last_offer = at;
}

static void received(void *arg, size_t came)
{
	struct receive *r = arg;
	struct receive it = *r;
	struct epoch *e = it.epoch;
	struct sum *s = it.sum;

	r->epoch = NULL;
	s->receiving -= it.bytes;
	e->under_way--;
	/* Fewer bytes came: that host's epoch has died meanwhile, which the host also reports. */
	if (e->failed || e->retired || came != it.bytes)
		block_give(s, it.block);
	else
		way_of[it.piece.kind]->take(e, it.from, it.piece, it.block ? it.block->data : NULL,
					    it.bytes, it.block);
	sum_turn(s);
}

static struct receive *free_receive(struct sum *s)
{
	for (size_t i = 0; i < RECEIVES_MAX; i++) {
		if (!s->receive[i].epoch)
			return &s->receive[i];
	}
	return NULL;
}

static void grant(struct sum *s, struct receive *r, const struct offer *o)
{
	const struct piece_way *way = way_of[o->piece.kind];
	const struct sum_link *l = &s->link;
	struct epoch *e = o->epoch;
	struct block *block = NULL;
	void *place = way->place(e, o->piece);

	if (!place) {
		block = block_take(s, o->bytes);
		if (!block) {
			epoch_fail(e, SUM_ROOM, "out of memory");
			return;
		}
		place = block->data;
	}
	unsigned tag = (unsigned)(r - s->receive);
	*r = (struct receive){s, e, o->from, o->bytes, o->piece, block};
	*way->in(e, o->from, o->piece, &r->bytes) = PIECE_MOVING;
	s->receiving += o->bytes;
	e->under_way++;
	l->receive(l->carrier, e->member[o->from].rank, tag, place, o->bytes, received, r);
	struct message m = message_about(e, o->from, o->piece, MESSAGE_GRANT);
	m.tag = tag;
	wire_tell(e, o->from, &m, sizeof m, NULL, 0);
}

void wire_pump(struct sum *s)
{
	while (s->first_offer) {
		struct offer *o = s->first_offer;
		struct receive *r = free_receive(s);
		if (!r || (s->receiving && s->receiving + o->bytes > WINDOW_BYTES))
			return;
		s->first_offer = o->next;
		if (!s->first_offer)
			s->last_offer = &s->first_offer;
		s->offers--;
		grant(s, r, o);
		free(o);
	}
}

/* ---- all of them ---- */

void sum_message(struct sum *s, unsigned rank, const void *data, size_t bytes)
{
	struct message_open m;

	if (bytes < sizeof m.head || rank >= s->link.size)
		return;
	memcpy(&m.head, data, sizeof m.head);
	if (m.head.piece >= PIECE_KINDS)
		return;
	switch (m.head.kind) {
	case MESSAGE_OPEN:
		if (bytes != sizeof m)
			return;
		memcpy(&m, data, sizeof m);
		wire_on_open(s, rank, &m);
		break;
	case MESSAGE_LEAVE:
		wire_on_leave(s, rank, &m.head);
		break;
	case MESSAGE_OFFER:
		on_offer(s, rank, &m.head);
		break;
	case MESSAGE_DATA:
		wire_on_data(s, rank, &m.head, (const char *)data + sizeof m.head,
			     bytes - sizeof m.head);
		break;
	case MESSAGE_GRANT:
		on_grant(s, rank, &m.head);
		break;
	default:
		return;
	}
	sum_turn(s);
}
