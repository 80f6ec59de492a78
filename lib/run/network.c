/* network: see network.h. */
#include "run/network.h"

#include "run/sup.h"

#include "base/clock.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_SECONDS 30.0

/* ---- what a link cost ---- */

static int network_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

double network_median(const struct network_link *const *link, size_t count)
{
	double *rate = calloc(count + 1, sizeof *rate), median = NAN;
	size_t known = 0;
	for (size_t i = 0; rate && i < count; i++) {
		rate[known] = fmax(link[i]->out.rate, link[i]->in.rate);
		if (!isnan(rate[known]))
			known++;
	}
	if (known >= 2) {
		qsort(rate, known, sizeof *rate, network_compare);
		median = (rate[(known - 1) / 2] + rate[known / 2]) / 2;
	}
	free(rate);
	return median;
}

double network_cost(const struct network_side *side, double median)
{
	double cost = (double)side->since / side->rate - (double)side->since / median;
	return !side->is_least && cost > 0 ? cost : 0; /* not NAN, either */
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
		xfer_level(m, count);
		(void)xfer_shares(m, count, 1, &round, NULL); /* no memory: it stays a ring */
	}
	free(m);
	return round.is_ring ? 0 : round.ring - round.seconds;
}

/* ---- the fabric's answers ---- */

/* A new fabric counts anew. */
static void take_bytes(const struct record *r, const char *key, uint64_t *bytes, uint64_t *since,
		       int is_same_world)
{
	uint64_t before = is_same_world ? *bytes : 0;
	*bytes = 0;
	record_u64_opt(r, key, 0, UINT64_MAX, bytes, NULL);
	*since += *bytes > before ? *bytes - before : 0;
}

/* A new fabric does not know yet what the one before has measured. */
static void take_side(const struct record *r, const char *way, const char *bytes,
		      struct network_side *side, int is_same_world)
{
	char key[16];
	double age = NAN;
	take_bytes(r, bytes, &side->bytes, &side->since, is_same_world);
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
	char *text = NULL, line[RECORD_LINE_MAX];
	FILE *out = open_memstream(&text, bytes);
	struct record_out o;
	if (!out)
		return NULL;
	EACH_HOST (h, s, 0) {
		record_begin(&o, line, sizeof line, "link");
		record_add(&o, "host", h->name);
		if (h->network.world != 0) {
			network_put_rate(&o, "out", &h->network.out);
			network_put_rate(&o, "in", &h->network.in);
		}
		record_print(out, &o);
	}
	network_put_nodes(out, s, &role_server);
	network_put_nodes(out, s, &role_worker);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Now and not at the next record of the log: by then a link may not be known. */
static void network_count_ring(struct supervisor *s)
{
	const struct network_link **link = calloc(s->hosts.count + 1, sizeof *link);
	uint64_t world = sup_fabric(s)->now.life + 1;
	size_t count = 0, slowest;
	EACH_HOST (h, s, 0)
		if (link && h->network.world == world && h->network.summed > 0)
			link[count++] = &h->network;
	double cost = network_ring_cost(link, count, &slowest);
	EACH_HOST (h, s, 0) {
		struct network_link *l = &h->network;
		if (count > 0 && l == link[slowest])
			l->ring_cost += cost * (double)l->summed_since;
		l->summed_since = 0;
	}
	free(link);
}

static void network_on_links(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_node *lead = sup_lead(s);
	size_t bytes = 0;
	network_count_ring(s);
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

void sup_network_log(struct supervisor *s)
{
	const struct network_link **link = calloc(s->hosts.count + 1, sizeof *link);
	size_t count = 0;
	if (!link)
		return;
	EACH_HOST (h, s, 0)
		if (h->network.world != 0)
			link[count++] = &h->network;
	double median = network_median(link, count);
	free(link);
	s->network.logged_at = clock_mono();
	if (isnan(median))
		return;
	EACH_HOST (h, s, 0) {
		struct network_link *l = &h->network;
		if (l->out.since == 0 && l->in.since == 0)
			continue;
		sup_log(s,
			RECORD("link", F("host", h->name), F_BRIEF("out", l->out.rate),
			       F_BRIEF("in", l->in.rate), F_BRIEF("median", median),
			       F("sent-bytes", l->out.since), F("received-bytes", l->in.since),
			       F_SECONDS("out-cost", network_cost(&l->out, median)),
			       F_SECONDS("in-cost", network_cost(&l->in, median)),
			       l->ring_cost > 0 ? F_SECONDS("ring-cost", l->ring_cost) : F_NONE));
		l->out.since = l->in.since = 0;
		l->ring_cost = 0;
	}
}
