/*
 * Whether the dense vector of a round goes by shares or by the ring, and how many segments each
 * host owns (solve/xfer_share.h): the first host's decision, by what hosts said of their links.
 *
 * It is the ring where that would not take longer, as segments cost more, each by itself, than the
 * ring's chunks, and as long as nothing was measured of some link.  But a ring shows only how fast
 * its slowest link is: the others wait for that one, so of them a lower bound is known, or how fast
 * the slow one is.  Then some sums are made by shares all the same, to learn whether others are
 * faster.
 */
#include "fabric/sum_internal.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdlib.h>

#define WINDOW_SECONDS 0.04            /* of an owner's link are asked for at once, */
#define WINDOW_LEAST ((size_t)1 << 20) /* and so many bytes in any case */
/* A vector of at most so many floats goes by the ring: to hear from the first host would take too
 * much of its time. */
#define RING_FLOATS (UINT64_C(1) << 16)
#define SEGMENT_SECONDS 1e-4 /* that a segment costs by itself, on busy hosts */
#define RATES_DIFFER 0.5     /* of the fastest is much slower */
#define RING_PART 0.95       /* of a ring's time is what shares must be better than */
/* A ring can't react to a link that falls. So a sum that takes longer goes by shares even where
 * that costs a little: only so much of a ring's time. */
#define LONG_SECONDS 1.0
#define LONG_PART 1.03
/* A sum by shares to learn rates comes behind so many by the ring, the next one behind twice as
 * many, and so on, so many times: all of them together may cost little. */
#define LOOK_BEHIND UINT64_C(4)
#define LOOK_DOUBLED 3
#define AWAY_PART 0.5 /* of its segments a host gives away if it should own fewer */
/* A host gives segments away below this part of the fastest host's rate over all others: its port
 * may only have had one link in use. */
#define LINK_PART 0.75

/* All others send to an owner together. What finds no room in front of its link is lost, and sent
 * again only after a pause: so it asks for no more than the link carries in a short time. Nor for
 * more than the slowest of the others sends in that time to all owners: what it has to send stands
 * in front of its words, also those by which it asks for sums. */
size_t plan_begun(const struct round *rd, const uint32_t *count)
{
	double bytes = (double)(rd->unit_floats * sizeof(float)), owners = 0;
	double in = rd->sum->host[rd->sum->link.rank].rates.in.rate * WINDOW_SECONDS;
	double most = fmin(fmax(in, WINDOW_LEAST), WINDOW_BYTES) / (double)(rd->hosts - 1);

	for (size_t i = 0; i < rd->hosts; i++)
		owners += count[i] > 0;
	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rate *out = &rd->sum->host[rd->member[i].rank].rates.out;
		if (i != rd->self && out->rate > 0)
			most = fmin(most, out->rate * WINDOW_SECONDS / owners);
	}
	return (size_t)fmax(most / bytes, 1);
}

/* Two hosts' ring is the same, whatever their links. */
int shares_are_thought_of(const struct round *rd)
{
	enum sum_way way = rd->sum->link.way;

	return rd->hosts > 2 && ((way == SUM_BY_SHARES && rd->floats > 0) ||
				 (way == SUM_BY_RATE && rd->floats > RING_FLOATS));
}

/* A rate that is a lower bound counts as no less than the fastest one that is known. */
static double side_rate(const struct sum_rate *r, double fastest)
{
	return r->rate > 0 && (!r->is_least || r->rate > fastest) ? r->rate : fastest;
}

/* What hosts said when they opened rounds, the others' maybe in the last one. */
static void shares_members(const struct round *rd, struct xfer_member *m)
{
	double fastest = 0, least = 0;

	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		if (r->out.rate > fastest && !r->out.is_least)
			fastest = r->out.rate;
		if (r->in.rate > fastest && !r->in.is_least)
			fastest = r->in.rate;
		least = fmax(least, fmax(r->out.rate, r->in.rate));
	}
	fastest = fastest > 0 ? fastest : least;
	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		double rate = fmin(side_rate(&r->out, fastest), side_rate(&r->in, fastest));
		m[i] = (struct xfer_member){.rate = fastest > 0 ? rate : 1, .works = 1};
	}
	xfer_level(m, rd->hosts);
}

/* What is known of a host's link before anything was measured is nothing, not that it is fast. */
static int is_any_new(const struct round *rd)
{
	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		if (r->out.rate <= 0 || r->in.rate <= 0)
			return 1;
	}
	return 0;
}

/* Of some links only a lower bound is known; or some are much slower than others, but maybe only
 * beside one that is: who sends to a slow host alone, or gets from it, looks as slow. */
static int is_unclear(const struct round *rd)
{
	double slowest = INFINITY, fastest = 0;
	size_t bounds = 0;

	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		slowest = fmin(slowest, fmin(r->out.rate, r->in.rate));
		fastest = fmax(fastest, fmax(r->out.rate, r->in.rate));
		bounds += (size_t)(r->out.is_least + r->in.is_least);
	}
	return (bounds > 0 && bounds < 2 * rd->hosts) || slowest < RATES_DIFFER * fastest;
}

/* Whether a sum by shares, which may take longer, is worth what it may show: that all but the
 * slowest host are much faster. */
static int is_worth_a_look(const struct round *rd, const struct xfer_round *p, double cost)
{
	struct sum *s = rd->sum;
	double least = p->ring * (double)rd->hosts / (2.0 * (double)(rd->hosts - 1));

	if (!is_unclear(rd) || least + cost >= RING_PART * p->ring)
		return 0;
	if (s->rings < LOOK_BEHIND << (s->looked < LOOK_DOUBLED ? s->looked : LOOK_DOUBLED))
		return 0;
	s->looked++;
	s->rings = 0;
	return 1;
}

static int is_by_ring(const struct round *rd, const struct xfer_round *p)
{
	double cost = SEGMENT_SECONDS * rd->units;
	double most = p->ring * (p->ring < LONG_SECONDS ? RING_PART : LONG_PART);

	if (rd->sum->link.way == SUM_BY_SHARES ||
	    (!is_any_new(rd) &&
	     (p->seconds + cost < most || is_worth_a_look(rd, p, cost))))
		return 0;
	rd->sum->rings++;
	return 1;
}

int plan_shares(const struct round *rd, uint32_t *count)
{
	struct xfer_member *m = calloc(rd->hosts, sizeof *m);
	size_t *owner = calloc(rd->units + 1, sizeof *owner);
	struct xfer_round predicted;
	struct error err;
	int result = -1;

	if (!m || !owner)
		goto out;
	shares_members(rd, m);
	if (xfer_shares(m, rd->hosts, (double)rd->floats * sizeof(float), &predicted, &err) != 0)
		goto out;
	if (xfer_owners(m, rd->hosts, owner, rd->units, &err) != 0)
		goto out;
	int is_ring = is_by_ring(rd, &predicted);
	for (size_t i = 0; i < rd->units && !is_ring; i++)
		count[owner[i]]++;
	result = 0;
out:
	free(m);
	free(owner);
	return result;
}

uint32_t plan_away(const struct round *rd, uint32_t own, uint32_t may, uint32_t *count)
{
	struct sum_rates *self = &rd->sum->host[rd->sum->link.rank].rates;
	struct xfer_member *m = calloc(rd->hosts, sizeof *m);
	size_t *owner = calloc((size_t)may + 1, sizeof *owner);
	struct xfer_round round;
	struct error err;
	uint32_t away = 0;

	if (!m || !owner)
		goto out;
	rd->sum->link.rates(rd->sum->link.carrier, self);
	shares_members(rd, m);
	if (xfer_shares(m, rd->hosts, (double)rd->floats * sizeof(float), &round, &err) != 0)
		goto out;
	double fastest = 0;
	for (size_t i = 0; i < rd->hosts; i++)
		fastest = fmax(fastest, m[i].rate);
	if (m[rd->self].rate * (double)(rd->hosts - 1) >= LINK_PART * fastest)
		goto out;
	double others = 1 - m[rd->self].share, should = m[rd->self].share * rd->units;
	if (should >= AWAY_PART * own || others <= 0)
		goto out;
	for (size_t i = 0; i < rd->hosts; i++)
		m[i].share = i == rd->self ? 0 : m[i].share / others;
	away = (uint32_t)(may * (1 - should / own));
	if (xfer_owners(m, rd->hosts, owner, away, &err) != 0)
		away = 0;
	for (uint32_t i = 0; i < away; i++)
		count[owner[i]]++;
out:
	free(m);
	free(owner);
	return away;
}
