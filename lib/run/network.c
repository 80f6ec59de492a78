/* network: see network.h. */
#include "run/network.h"

#include "run/sup.h"

#include "base/clock.h"
#include "base/reals.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_SECONDS 30.0
#define SLOW_SHARE 0.75 /* of the median rate; equal links may be measured as different */
#define HUB_SHARE 0.7 /* of what others send; in a ring of three each host gets half of that */

/* ---- what a link cost ---- */

double network_median(const struct network_link *const *link, size_t count)
{
	double *rate = calloc(count + 1, sizeof *rate), median = NAN;
	size_t known = 0;
	for (size_t i = 0; rate && i < count; i++) {
		rate[known] = fmax(link[i]->out.rate, link[i]->in.rate);
		if (!isnan(rate[known]))
			known++;
	}
	if (known >= 2)
		median = reals_median(rate, known);
	free(rate);
	return median;
}

static const struct network_side *network_side(const struct network_link *link, int is_out)
{
	return is_out ? &link->out : &link->in;
}

double network_part(const struct network_link *const *link, size_t count, size_t i, int is_out)
{
	size_t hub = 0, others = 0;
	double sum = 0;
	for (size_t k = 1; k < count; k++)
		if (network_side(link[k], !is_out)->bytes > network_side(link[hub], !is_out)->bytes)
			hub = k;
	const struct network_side *port = network_side(link[hub], !is_out);
	for (size_t k = 0; k < count; k++) {
		uint64_t bytes = k == hub ? 0 : network_side(link[k], is_out)->bytes;
		sum += (double)bytes;
		others += bytes > 0;
	}
	if (i == hub || (double)port->bytes < HUB_SHARE * sum)
		return INFINITY;
	return port->rate / (double)others / 2; /* connections do not share evenly */
}

void network_count(struct network_side *side, double median)
{
	double bytes = (double)side->now;
	if (side->rate > 0 && median > 0) { /* not NAN, either */
		side->timed += side->now;
		side->seconds += bytes / side->rate;
		side->at_median += bytes / median;
		if (!side->is_least &&
		    side->rate + side->error < fmin(SLOW_SHARE * median, side->part))
			side->cost += bytes / side->rate - bytes / median;
	}
	side->since += side->now;
	side->now = 0;
}

double network_ring_cost(const struct network_link *const *link, size_t count, size_t *slowest)
{
	struct xfer_member *m = calloc(count + 1, sizeof *m);
	struct xfer_round round = {.is_ring = 1};
	int is_known = m && count > 0, is_least = 0;
	*slowest = 0;
	for (size_t i = 0; is_known && i < count; i++) {
		const struct network_side *out = &link[i]->out, *in = &link[i]->in;
		const struct network_side *side =
			isnan(in->rate) || out->rate > in->rate ? out : in;
		m[i] = (struct xfer_member){.rate = side->rate, .works = 1};
		is_known = side->rate > 0; /* not NAN, either */
		if (i > 0 && m[i].rate >= m[*slowest].rate)
			continue;
		*slowest = i;
		is_least = side->is_least != 0;
	}
	if (is_known && !is_least) {
		const struct network_link *l = link[*slowest];
		if (!l->out.is_least && !l->in.is_least)
			m[*slowest].rate = fmin(l->out.rate, l->in.rate);
		xfer_level(m, count);
		(void)xfer_shares(m, count, 1, &round, NULL); /* no memory: it stays a ring */
	}
	free(m);
	return round.is_ring ? 0 : round.ring - round.seconds;
}

/* ---- the fabric's answers ---- */

/* A new fabric counts anew. */
static void take_bytes(const struct record *r, const char *key, uint64_t *bytes, uint64_t *now,
		       int is_same_world)
{
	uint64_t before = is_same_world ? *bytes : 0;
	*bytes = 0;
	record_u64_opt(r, key, 0, UINT64_MAX, bytes, NULL);
	*now += *bytes > before ? *bytes - before : 0;
}

/* A new fabric does not know yet what the one before has measured. */
static void take_side(const struct record *r, const char *way, const char *bytes,
		      struct network_side *side, int is_same_world)
{
	char key[16];
	double age = NAN;
	take_bytes(r, bytes, &side->bytes, &side->now, is_same_world);
	snprintf(key, sizeof key, "%s-age", way);
	record_real_opt(r, key, 0, 1e300, &age, NULL);
	if (isnan(age))
		return;
	side->at = clock_mono() - age;
	side->rate = side->error = side->free = NAN;
	record_real_opt(r, way, 0, 1e300, &side->rate, NULL);
	snprintf(key, sizeof key, "%s-error", way);
	record_real_opt(r, key, 0, 1e300, &side->error, NULL);
	snprintf(key, sizeof key, "%s-free", way);
	record_real_opt(r, key, 0, 1e300, &side->free, NULL);
	snprintf(key, sizeof key, "%s-least", way);
	record_u64_opt(r, key, 0, 1, &side->is_least, NULL);
}

static void is_unknown(struct network_side *side)
{
	side->rate = side->error = side->free = side->at = NAN;
}

static void network_on_host(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	const char *name = record_is(r, "host") ? record_get(r, "host") : NULL;
	uint64_t world = sup_fabric(s)->now.life + 1;
	EACH_HOST (h, s, 0) {
		struct network_link *link = &h->network;
		if (!name || strcmp(h->name, name) != 0)
			continue;
		const char *why = record_get(r, "unmeasured");
		if (link->world == 0) {
			is_unknown(&link->out);
			is_unknown(&link->in);
		}
		take_side(r, "out", "sent-bytes", &link->out, link->world == world);
		take_side(r, "in", "received-bytes", &link->in, link->world == world);
		take_bytes(r, "summed-bytes", &link->summed, &link->summed_since,
			   link->world == world);
		snprintf(link->unmeasured, sizeof link->unmeasured, "%s", why ? why : "");
		link->world = world;
	}
}

/* ---- what the lead needs ---- */

/* A lower bound says that a link was not busy: then its rate is not known. */
static void network_put_rate(struct record_out *o, const char *way, const struct network_side *side)
{
	if (!side->is_least && side->rate > 0) /* not NAN, either */
		record_add_brief(o, way, side->rate);
}

static void network_put_nodes(FILE *out, struct supervisor *s, const struct role *role)
{
	EACH_OF (n, s, role)
		record_print(out, RECORD(role->name, F("id", n->id),
					 F("host", s->hosts.host[n->at].name)));
}

/* The rates of the links, and who is where. */
static char *network_make(struct supervisor *s, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	if (!out)
		return NULL;
	EACH_HOST (h, s, 0) {
		struct record_out *o = RECORD("link", F("host", h->name));
		if (h->network.world != 0) {
			network_put_rate(o, "out", &h->network.out);
			network_put_rate(o, "in", &h->network.in);
		}
		record_print(out, o);
	}
	network_put_nodes(out, s, &role_server);
	network_put_nodes(out, s, &role_worker);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* What is known of all hosts; NULL: no memory. */
static const struct network_link **known_links(struct supervisor *s, size_t *count)
{
	const struct network_link **link = calloc(s->hosts.count + 1, sizeof *link);
	*count = 0;
	EACH_HOST (h, s, 0)
		if (link && h->network.world != 0)
			link[(*count)++] = &h->network;
	return link;
}

static void network_count_ring(struct supervisor *s, const struct network_link **link, size_t known)
{
	uint64_t world = sup_fabric(s)->now.life + 1;
	size_t count = 0, slowest;
	for (size_t i = 0; i < known; i++)
		if (link[i]->world == world && link[i]->summed > 0)
			link[count++] = link[i];
	double cost = network_ring_cost(link, count, &slowest);
	EACH_HOST (h, s, 0) {
		struct network_link *l = &h->network;
		if (count > 0 && l == link[slowest]) {
			l->ring_cost += cost * (double)l->summed_since;
			s->network.ring_cost += cost * (double)l->summed_since;
		}
		l->summed_since = 0;
	}
}

static void network_count_all(struct supervisor *s)
{
	size_t known;
	const struct network_link **link = known_links(s, &known);
	double median = network_median(link, known);
	size_t i = 0;
	EACH_HOST (h, s, 0) {
		if (!link || h->network.world == 0)
			continue;
		h->network.out.part = network_part(link, known, i, 1);
		h->network.in.part = network_part(link, known, i++, 0);
	}
	EACH_HOST (h, s, 0) {
		network_count(&h->network.out, median);
		network_count(&h->network.in, median);
	}
	if (link)
		network_count_ring(s, link, known);
	free(link);
}

static void network_on_links(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_node *lead = sup_lead(s);
	size_t bytes = 0;
	network_count_all(s);
	if (!job_by_links(s->job))
		return;
	char *text = sup_answer_ok(r) && lead && sup_link_up(&lead->link) ? network_make(s, &bytes)
									   : NULL;
	if (text)
		sup_ask_with(&s->network.told, &lead->link, RECORD("links", F("bytes", bytes)),
			     text, bytes, NULL, s);
	free(text);
}

void sup_network_tick(struct supervisor *s)
{
	struct sup_node *fabric = sup_fabric(s);
	if (!fabric || fabric->stage != STAGE_READY || !sup_link_up(&fabric->link))
		return;
	sup_ask(&s->network.question, &fabric->link, RECORD_BARE("links"), network_on_host,
		network_on_links, s);
	if (clock_mono() - s->network.logged_at >= LOG_SECONDS)
		sup_network_log(s);
}

/* ---- telling ---- */

static void network_add_side(struct record_out *o, const char *way, const struct network_side *side)
{
	char key[16];
	record_add_brief(o, way, side->rate);
	snprintf(key, sizeof key, "%s-error", way);
	record_add_brief(o, key, side->error);
	snprintf(key, sizeof key, "%s-least", way);
	record_add_u64(o, key, side->is_least);
	snprintf(key, sizeof key, "%s-free", way);
	record_add_brief(o, key, side->free);
	snprintf(key, sizeof key, "%s-age", way);
	record_add_seconds(o, key, clock_mono() - side->at);
}

void sup_network_add(struct record_out *o, const struct network_link *link)
{
	if (link->world == 0)
		return;
	network_add_side(o, "out", &link->out);
	network_add_side(o, "in", &link->in);
	if (link->unmeasured[0])
		record_add(o, "unmeasured", link->unmeasured);
}

/* As trainctl says when it begins where it makes none (cmd/trainctl/begin.c). */
void sup_network_add_fabric(struct record_out *o, const struct supervisor *s)
{
	int sums = job_kind(s->job)->holds == HOLD_REPLICAS && s->hosts.count - s->hosts.first >= 3;
	if (!sup_fabric(s) || !(sums || job_bounds_delay(s->job)))
		return;
	record_add(o, "fabric", s->job->fabric);
	if (sums)
		record_add_seconds(o, "fabric-saves", s->network.ring_cost);
}

/* The mean of what it had while it carried something. */
static double network_mean(const struct network_side *side)
{
	return side->timed > 0 ? (double)side->timed / side->seconds : side->rate;
}

static void network_forget(struct network_side *side)
{
	side->since = side->timed = 0;
	side->seconds = side->at_median = side->cost = 0;
}

void sup_network_log(struct supervisor *s)
{
	s->network.logged_at = clock_mono();
	EACH_HOST (h, s, 0) {
		struct network_link *l = &h->network;
		double at_median = l->out.at_median + l->in.at_median;
		if (!(at_median > 0))
			continue;
		double median = (double)(l->out.timed + l->in.timed) / at_median;
		sup_log(s,
			RECORD("link", F("host", h->name), F_BRIEF("out", network_mean(&l->out)),
			       F_BRIEF("in", network_mean(&l->in)), F_BRIEF("median", median),
			       F("sent-bytes", l->out.since), F("received-bytes", l->in.since),
			       F_SECONDS("out-cost", l->out.cost), F_SECONDS("in-cost", l->in.cost),
			       l->ring_cost > 0 ? F_SECONDS("ring-cost", l->ring_cost) : F_NONE));
		network_forget(&l->out);
		network_forget(&l->in);
		l->ring_cost = 0;
	}
}
