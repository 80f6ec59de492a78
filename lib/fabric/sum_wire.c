/*
 * The messages between the hosts of a round. Every round that a host opens has its own number, its
 * life. Messages name the lives of both sides, so nothing of one round is taken for another's,
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
	MESSAGE_GRANT,    /* send it, by this tag */
	MESSAGE_PLAN,     /* how many segments each host owns; from the first host */
	MESSAGE_OWNER     /* a segment has another owner: its turn, in tag its place in the round */
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
	uint64_t round, iteration, floats, hosts_check, no_rows;
	struct sum_rates rates;
};

#define DATA_MAX (SUM_MESSAGE_MAX - sizeof(struct message))

static const struct piece_way *const way_of[PIECE_KINDS] = {
	[PIECE_PARTIAL] = &ring_way, [PIECE_FINAL] = &ring_way,   [PIECE_ROWS] = &rows_way,
	[PIECE_MERGED] = &rows_way,  [PIECE_SHARE] = &shares_way, [PIECE_SUM] = &shares_way,
};

static void count_sent(struct round *rd, size_t bytes)
{
	rd->wire_bytes += bytes;
	rd->sum->wire_bytes += bytes;
}

static void wire_tell(struct round *rd, size_t to, const void *head, size_t head_bytes,
		      const void *data, size_t bytes)
{
	const struct sum_link *l = &rd->sum->link;

	l->tell(l->carrier, rd->member[to].rank, head, head_bytes, data, bytes);
	count_sent(rd, head_bytes + bytes);
}

static void wire_tell_all(struct round *rd, const void *head, size_t bytes)
{
	for (size_t i = 0; i < rd->hosts; i++) {
		if (i != rd->self)
			wire_tell(rd, i, head, bytes, NULL, 0);
	}
}

void wire_tell_open(struct round *rd)
{
	struct message_open m = {.head = {.kind = MESSAGE_OPEN, .from_life = rd->life},
				 .round = rd->round,
				 .iteration = rd->iteration,
				 .floats = rd->floats,
				 .hosts_check = rd->hosts_check,
				 .no_rows = rd->no_rows != 0};

	m.rates = rd->sum->host[rd->member[rd->self].rank].rates;
	wire_tell_all(rd, &m, sizeof m);
}

void wire_tell_plan(struct round *rd, size_t to, const uint32_t *count)
{
	struct message m = {.kind = MESSAGE_PLAN,
			    .from_life = rd->life,
			    .to_life = rd->member[to].life,
			    .bytes = rd->hosts * sizeof *count};

	wire_tell(rd, to, &m, sizeof m, count, (size_t)m.bytes);
}

void wire_tell_owner(struct round *rd, size_t to, uint32_t segment, uint32_t turn, size_t owner)
{
	struct message m = {.kind = MESSAGE_OWNER,
			    .tag = (uint32_t)owner,
			    .bucket = segment,
			    .chunk = turn,
			    .from_life = rd->life,
			    .to_life = rd->member[to].life};

	wire_tell(rd, to, &m, sizeof m, NULL, 0);
}

void wire_tell_leave(struct round *rd)
{
	struct message m = {.kind = MESSAGE_LEAVE,
			    .from_life = rd->life,
			    .why = (uint8_t)(rd->done ? SUM_OK : rd->failed)};

	wire_tell_all(rd, &m, sizeof m);
}

static struct message message_about(const struct round *rd, size_t to, struct piece p, uint8_t kind)
{
	return (struct message){.kind = kind,
				.piece = (uint8_t)p.kind,
				.bucket = p.bucket,
				.chunk = p.chunk,
				.from_life = rd->life,
				.to_life = rd->member[to].life};
}

/* ---- the other hosts' rounds ---- */

void wire_meet(struct round *rd, size_t member)
{
	struct member *m = &rd->member[member];
	const struct host *h = &rd->sum->host[m->rank];
	const char *name = round_host(rd, member);

	if (m->life || rd->failed || h->round < rd->round)
		return;
	if (h->life == 0 && !(h->left && h->round == rd->round)) /* it has none */
		return;
	if (h->round > rd->round)
		round_fail(rd, SUM_STALE, "%s is at round %llu already", name,
			   (unsigned long long)h->round);
	else if (h->left)
		round_fail(rd, SUM_LOST, "%s left it before its end", name);
	else if (h->hosts_check != rd->hosts_check)
		round_fail(rd, SUM_DIFFERS, "%s named other hosts for round %llu", name,
			   (unsigned long long)rd->round);
	else if (h->iteration != rd->iteration)
		round_fail(rd, SUM_DIFFERS, "%s named iteration %llu, this host %llu", name,
			   (unsigned long long)h->iteration, (unsigned long long)rd->iteration);
	else if (h->floats != rd->floats)
		round_fail(rd, SUM_DIFFERS, "%s named %llu dense floats, this host %llu", name,
			   (unsigned long long)h->floats, (unsigned long long)rd->floats);
	else if (h->no_rows != (rd->no_rows != 0))
		round_fail(rd, SUM_DIFFERS, "%s says that there are %srows, unlike this host", name,
			   h->no_rows ? "no " : "");
	if (rd->failed)
		return;
	m->life = h->life;
	if (rd->tells_ring)
		wire_tell_plan(rd, member, (uint32_t[SUM_HOSTS_MAX]){0});
	rd->way->met(rd, member);
	rows_met(rd, member);
}

static int wire_member_of(const struct round *rd, unsigned rank, size_t *member)
{
	for (size_t i = 0; rd && i < rd->hosts; i++) {
		if (rd->member[i].rank == rank) {
			*member = i;
			return 1;
		}
	}
	return 0;
}

static void wire_on_open(struct sum *s, unsigned rank, const struct message_open *m)
{
	size_t member;

	s->host[rank] = (struct host){.life = m->head.from_life,
				      .round = m->round,
				      .iteration = m->iteration,
				      .floats = m->floats,
				      .hosts_check = m->hosts_check,
				      .rates = m->rates,
				      .no_rows = m->no_rows != 0};
	if (wire_member_of(s->open, rank, &member))
		wire_meet(s->open, member);
}

static void wire_on_leave(struct sum *s, unsigned rank, const struct message *m)
{
	struct round *rd = s->open;
	size_t member;

	if (s->host[rank].life == m->from_life)
		s->host[rank] = (struct host){.round = s->host[rank].round,
					      .rates = s->host[rank].rates,
					      .left = m->why != SUM_OK};
	if (m->why == SUM_OK || !wire_member_of(rd, rank, &member) ||
	    rd->member[member].life != m->from_life)
		return;
	const char *name = round_host(rd, member);
	if (m->why == SUM_STALE)
		round_fail(rd, SUM_STALE, "%s went on to a newer round", name);
	else if (m->why == SUM_DIFFERS)
		round_fail(rd, SUM_DIFFERS, "%s says that hosts named different things", name);
	else
		round_fail(rd, SUM_LOST, "%s left it before its end (%s)", name,
			   sum_code_name(m->why));
}

/* ---- sending ---- */

int wire_is_short(size_t bytes)
{
	return bytes <= DATA_MAX;
}

struct sending {
	struct round *round;
	size_t to;
	struct piece piece;
};

static void wire_sent(void *arg)
{
	struct sending *g = arg;
	struct round *rd = g->round;
	struct sum *s = rd->sum;

	rd->under_way--;
	if (!rd->failed && !rd->retired) {
		*way_of[g->piece.kind]->out(rd, g->to, g->piece) = PIECE_DONE;
		round_one_less(rd);
	}
	free(g);
	sum_turn(s);
}

/* There is room for it there, and it is ready here. -1: no memory, and the round has failed. */
static int wire_send(struct round *rd, size_t to, struct piece p, uint8_t *state, unsigned tag,
		     const void *data, size_t bytes)
{
	const struct sum_link *l = &rd->sum->link;
	struct sending *g = malloc(sizeof *g);

	if (!g) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return -1;
	}
	*g = (struct sending){rd, to, p};
	*state = PIECE_MOVING;
	rd->under_way++;
	count_sent(rd, bytes);
	l->send(l->carrier, rd->member[to].rank, tag, data, bytes, wire_sent, g);
	return 0;
}

static void nothing_sent(void *arg)
{
	(void)arg;
}

void wire_send_nothing(struct round *rd, size_t to, uint8_t state)
{
	const struct sum_link *l = &rd->sum->link;

	l->send(l->carrier, rd->member[to].rank, (unsigned)(state - PIECE_GIVEN), "", 0, nothing_sent,
		NULL);
}

static int is_given_ahead(const struct round *rd, struct piece p)
{
	return rd->gives_ahead && way_of[p.kind] == &ring_way;
}

void wire_offer(struct round *rd, size_t to, struct piece p)
{
	const struct piece_way *way = way_of[p.kind];
	uint8_t *state = way->out(rd, to, p);
	size_t bytes;

	if (!state || (*state != PIECE_NOT_YET && *state < PIECE_GIVEN) || rd->failed ||
	    !rd->member[to].life)
		return;
	const void *data = way->data(rd, to, p, &bytes);
	if (!data)
		return;
	if (*state >= PIECE_GIVEN) {
		wire_send(rd, to, p, state, *state - PIECE_GIVEN, data, bytes);
		return;
	}
	struct message m =
		message_about(rd, to, p, wire_is_short(bytes) ? MESSAGE_DATA : MESSAGE_OFFER);
	m.bytes = bytes;
	m.width = way == &rows_way && bytes ? rd->width : 0;
	if (m.kind == MESSAGE_OFFER) {
		*state = PIECE_OFFERED;
		if (!is_given_ahead(rd, p))
			wire_tell(rd, to, &m, sizeof m, NULL, 0);
		return;
	}
	*state = PIECE_DONE;
	wire_tell(rd, to, &m, sizeof m, data, bytes);
	round_one_less(rd);
}

/* The other side keeps room until something comes, so it always gets an answer. */
static void on_grant(struct sum *s, unsigned rank, const struct message *m)
{
	const struct sum_link *l = &s->link;
	struct round *rd = s->open;
	struct piece p = {m->piece, m->bucket, m->chunk};
	const void *data;
	uint8_t *state = NULL;
	size_t to, bytes = 0;

	if (rd && !rd->failed && rd->life == m->to_life && wire_member_of(rd, rank, &to))
		state = way_of[p.kind]->out(rd, to, p);
	if (state && *state == PIECE_NOT_YET && is_given_ahead(rd, p) && m->tag < RECEIVES_MAX) {
		*state = (uint8_t)(PIECE_GIVEN + m->tag);
		return;
	}
	if (state && *state == PIECE_OFFERED &&
	    (data = way_of[p.kind]->data(rd, to, p, &bytes)) != NULL &&
	    wire_send(rd, to, p, state, m->tag, data, bytes) == 0)
		return;
	l->send(l->carrier, rank, m->tag, "", 0, nothing_sent, NULL);
}

/* ---- receiving ---- */

static void lost_sense(struct round *rd, size_t from)
{
	round_fail(rd, SUM_LOST, "%s sent a message that does not belong there",
		   round_host(rd, from));
}

/* The open round that a host speaks of; NULL: it is another one, or has failed. */
static struct round *spoken_of(struct sum *s, unsigned rank, const struct message *m, size_t *from)
{
	struct round *rd = s->open;

	return rd && !rd->failed && rd->life == m->to_life && wire_member_of(rd, rank, from) &&
			       rd->member[*from].life == m->from_life
		       ? rd
		       : NULL;
}

/* The place of a piece that another host has for this one; NULL: of no round that lives here. */
static uint8_t *incoming(struct sum *s, unsigned rank, const struct message *m, size_t *from)
{
	struct round *rd = spoken_of(s, rank, m, from);
	struct piece p = {m->piece, m->bucket, m->chunk};
	size_t bytes = (size_t)m->bytes, unit;

	if (!rd)
		return NULL;
	uint8_t *state = way_of[p.kind]->in(rd, *from, p, &bytes);
	if (!state || *state != PIECE_NOT_YET || bytes != m->bytes || bytes > SUM_PIECE_MAX) {
		lost_sense(rd, *from);
		return NULL;
	}
	if (way_of[p.kind] == &rows_way && bytes) {
		unit = rowlist_bytes(1, m->width);
		if (m->width == 0 || bytes % unit != 0) {
			lost_sense(rd, *from);
			return NULL;
		}
		if (rows_agree(rd, *from, m->width) != 0)
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
	if (is_given_ahead(s->open, p)) { /* it has been asked for, and would come twice */
		lost_sense(s->open, from);
		return;
	}
	*state = PIECE_OFFERED;
	way_of[p.kind]->offered(s->open, from, p, (size_t)m->bytes);
}

void wire_want(struct round *rd, size_t from, struct piece p, size_t bytes)
{
	struct sum *s = rd->sum;
	if (rd->failed) /* its offers are forgotten */
		return;
	struct offer *o = malloc(sizeof *o);
	if (!o) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return;
	}
	*o = (struct offer){NULL, rd, from, p, bytes};
	*s->last_offer = o;
	s->last_offer = &o->next;
	s->offers++;
}

void wire_forget_offers(struct round *rd)
{
	struct sum *s = rd->sum;
	struct offer **at = &s->first_offer;

	while (*at) {
		struct offer *o = *at;
		if (o->round != rd) {
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
	struct round *rd = it.round;
	struct sum *s = it.sum;

	r->round = NULL;
	s->receiving -= it.bytes;
	rd->under_way--;
	/* Fewer bytes came: that host's round has died meanwhile, which the host also reports. */
	if (rd->failed || rd->retired || came != it.bytes)
		block_give(s, it.block);
	else
		way_of[it.piece.kind]->take(rd, it.from, it.piece, it.block ? it.block->data : NULL,
					    it.bytes, it.block);
	sum_turn(s);
}

static struct receive *free_receive(struct sum *s)
{
	for (size_t i = 0; i < RECEIVES_MAX; i++) {
		if (!s->receive[i].round)
			return &s->receive[i];
	}
	return NULL;
}

static void grant(struct sum *s, struct receive *r, const struct offer *o)
{
	const struct piece_way *way = way_of[o->piece.kind];
	const struct sum_link *l = &s->link;
	struct round *rd = o->round;
	struct block *block = NULL;
	void *place = way->place(rd, o->piece);

	if (!place) {
		block = block_take(s, o->bytes);
		if (!block) {
			round_fail(rd, SUM_ROOM, "out of memory");
			return;
		}
		place = block->data;
	}
	unsigned tag = (unsigned)(r - s->receive);
	*r = (struct receive){s, rd, o->from, o->bytes, o->piece, block};
	*way->in(rd, o->from, o->piece, &r->bytes) = PIECE_MOVING;
	s->receiving += o->bytes;
	rd->under_way++;
	l->receive(l->carrier, rd->member[o->from].rank, tag, place, o->bytes, received, r);
	struct message m = message_about(rd, o->from, o->piece, MESSAGE_GRANT);
	m.tag = tag;
	wire_tell(rd, o->from, &m, sizeof m, NULL, 0);
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

static void on_plan(struct sum *s, unsigned rank, const struct message *m, const void *data,
		    size_t bytes)
{
	size_t from;
	struct round *rd = spoken_of(s, rank, m, &from);

	if (!rd)
		return;
	if (!rd->shares || from != 0 || bytes != rd->hosts * sizeof(uint32_t)) {
		lost_sense(rd, from);
		return;
	}
	memcpy(s->aligned, data, bytes);
	if (shares_plan(rd, (const uint32_t *)(const void *)s->aligned) != 0)
		lost_sense(rd, from);
}

static void on_owner(struct sum *s, unsigned rank, const struct message *m, const void *data,
		     size_t bytes)
{
	size_t from;
	struct round *rd = spoken_of(s, rank, m, &from);

	if (!rd)
		return;
	if (!rd->shares)
		lost_sense(rd, from);
	else if (!shares_keep_early(rd, rank, data, bytes) &&
		 shares_owner(rd, m->bucket, m->chunk, m->tag) != 0)
		lost_sense(rd, from);
}

/* ---- all of them ---- */

/* A piece of the vector before this host knows who owns what. */
static int wire_is_early(struct sum *s, unsigned rank, const struct message *m, const void *data,
			 size_t bytes)
{
	struct round *rd = s->open;
	struct piece p = {m->piece, m->bucket, m->chunk};

	return rd && rd->shares && !rd->failed && rd->life == m->to_life &&
	       way_of[m->piece] != &rows_way && shares_defer(rd, rank, p, data, bytes);
}

void wire_take(struct sum *s, unsigned rank, const void *data, size_t bytes)
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
		if (wire_is_early(s, rank, &m.head, data, bytes))
			break;
		on_offer(s, rank, &m.head);
		break;
	case MESSAGE_DATA:
		if (wire_is_early(s, rank, &m.head, data, bytes))
			break;
		wire_on_data(s, rank, &m.head, (const char *)data + sizeof m.head,
			     bytes - sizeof m.head);
		break;
	case MESSAGE_GRANT:
		on_grant(s, rank, &m.head);
		break;
	case MESSAGE_OWNER:
		on_owner(s, rank, &m.head, data, bytes);
		break;
	case MESSAGE_PLAN:
		on_plan(s, rank, &m.head, (const char *)data + sizeof m.head,
			bytes - sizeof m.head);
		break;
	default:
		break;
	}
}

void sum_message(struct sum *s, unsigned rank, const void *data, size_t bytes)
{
	wire_take(s, rank, data, bytes);
	sum_turn(s);
}
