/*
 * Whether the dense vector of a round goes by shares or by the ring, and how many segments each host
 * owns (solve/xfer_share.h): the first host's decision, by what hosts said of their links.
 *
 * It is the ring where that would not take longer, as segments cost more, each by itself, than the
 * ring's chunks.  But a ring shows only how fast its slowest link is: the others wait for that one,
 * so of them only a lower bound is known.  Then some sums are made by shares all the same, to learn
 * whether others are faster.
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
#define RING_PART 0.95       /* of a ring's time is what shares must be better than */
/* Sums by shares to learn rates: behind the first few sums, so many in a row; then one of so many.
 */
#define LOOK_BEHIND 2
#define LOOKS 16
#define LOOK_EVERY 32

/* All others send to an owner together. What finds no room in front of its link is lost, and sent
 * again only after a pause: so it asks for no more than the link carries in a short time. */
size_t shares_window(const struct sum_rate *in)
{
	double most = in->rate * WINDOW_SECONDS;

	return (size_t)fmin(fmax(most, WINDOW_LEAST), WINDOW_BYTES);
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
	double fastest = 0;

	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		if (r->out.rate > fastest && !r->out.is_least)
			fastest = r->out.rate;
		if (r->in.rate > fastest && !r->in.is_least)
			fastest = r->in.rate;
	}
	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		double rate = fmin(side_rate(&r->out, fastest), side_rate(&r->in, fastest));
		m[i] = (struct xfer_member){.rate = fastest > 0 ? rate : 1, .works = 1};
	}
	xfer_level(m, rd->hosts);
}

/* Something is known of links, but not of all. */
static int is_unclear(const struct round *rd)
{
	size_t known = 0, not_known = 0;

	for (size_t i = 0; i < rd->hosts; i++) {
		const struct sum_rates *r = &rd->sum->host[rd->member[i].rank].rates;
		const struct sum_rate *side[] = {&r->out, &r->in};
		for (size_t k = 0; k < 2; k++)
			*(side[k]->rate > 0 && !side[k]->is_least ? &known : &not_known) += 1;
	}
	return known > 0 && not_known > 0;
}

/* Whether a sum by shares, which may take longer, is worth what it may show: that all but the
 * slowest host are much faster. */
static int is_worth_a_look(const struct round *rd, const struct xfer_round *p, double cost)
{
	struct sum *s = rd->sum;
	double least = p->ring * (double)rd->hosts / (2.0 * (double)(rd->hosts - 1));

	if (!is_unclear(rd) || least + cost >= RING_PART * p->ring)
		return 0;
	if (s->rings < (s->looked == 0 ? LOOK_BEHIND : s->looked < LOOKS ? 0 : LOOK_EVERY - 1))
		return 0;
	s->looked++;
	s->rings = 0;
	return 1;
}

static int is_by_ring(const struct round *rd, const struct xfer_round *p)
{
	double cost = SEGMENT_SECONDS * rd->units;

	if (rd->sum->link.way == SUM_BY_SHARES || p->seconds + cost < RING_PART * p->ring ||
	    is_worth_a_look(rd, p, cost))
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
