/* network: see network.h. */
#include "run/network.h"

#include "run/sup.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/reals.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_SECONDS 30.0
#define ESTIMATE_SECONDS 10.0
#define SLOW_SHARE 0.75          /* of the median rate; equal links may be measured as different */
#define SUMMED_LEAST (16 * 1024) /* bytes: fabricd sums no less */
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
	side->lately.bytes += bytes;
	if (side->rate > 0 && !side->is_least)
		side->lately.busy += bytes / side->rate;
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

void network_bound(struct network_side *side, double seconds)
{
	if (side->seconds <= seconds)
		return;
	side->cost = fmax(0, side->cost - (side->seconds - seconds));
	side->seconds = seconds;
}

void network_round(const struct network_link *const *link, size_t count, struct xfer_round *round)
{
	struct xfer_member *m = calloc(count + 1, sizeof *m);
	int is_known = m && count > 0, is_least = 0;
	size_t slowest = 0;
	*round = (struct xfer_round){.is_ring = 1};
	for (size_t i = 0; is_known && i < count; i++) {
		const struct network_side *out = &link[i]->out, *in = &link[i]->in;
		const struct network_side *side =
			isnan(in->rate) || out->rate > in->rate ? out : in;
		m[i] = (struct xfer_member){.rate = side->rate, .works = 1};
		is_known = side->rate > 0; /* not NAN, either */
		if (i > 0 && m[i].rate >= m[slowest].rate)
			continue;
		slowest = i;
		is_least = side->is_least != 0;
	}
	if (is_known && !is_least) {
		const struct network_link *l = link[slowest];
		if (!l->out.is_least && !l->in.is_least)
			m[slowest].rate = fmin(l->out.rate, l->in.rate);
		xfer_level(m, count);
		(void)xfer_shares(m, count, 1, round, NULL); /* no memory: it stays a ring */
	}
	free(m);
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
		if (link->world == 0) /* an earlier trainctl may have counted this */
			link->out.now = link->in.now = link->summed_since = 0;
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
	FILE *out = grow_stream(&text, bytes);
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

static void network_count_round(struct supervisor *s, const struct network_link **link,
				size_t known)
{
	uint64_t world = sup_fabric(s)->now.life + 1;
	struct xfer_round round;
	size_t count = 0;
	for (size_t i = 0; i < known; i++)
		if (link[i]->world == world && link[i]->summed > 0)
			link[count++] = link[i];
	network_round(link, count, &round);
	if (count > 0 && !round.is_ring) {
		double bytes = (double)link[0]->summed_since; /* all hosts sum the same vectors */
		s->network.lately.ring += round.ring * bytes;
		s->network.lately.shares += round.seconds * bytes;
		s->network.lately.sums += bytes;
	}
	EACH_HOST (h, s, 0)
		h->network.summed_since = 0;
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
	if (link && sup_first(s, &role_replica))
		network_count_round(s, link, known);
	free(link);
}

/* ---- what mlfabric saves ---- */

static int network_sums(const struct supervisor *s)
{
	return job_kind(s->job)->holds == HOLD_REPLICAS && s->hosts.count - s->hosts.first >= 3;
}

static int network_is_saved(const struct supervisor *s)
{
	return network_sums(s) ? strcmp(job_rounds(s->job), "rate") == 0 : job_by_links(s->job);
}

/* What the workers of each host have done since the last estimate. -1: one of them counts anew, or
 * is gone, or elsewhere now. */
static int network_work(struct supervisor *s, struct saves_host *host)
{
	int result = 0;
	EACH_OF (n, s, &role_server)
		host[n->at].servers++;
	EACH_OF (n, s, sup_trainers(s)) {
		const struct snapshot_node *m = sup_measured(n);
		struct saves_host *h = &host[n->at];
		if (!m || !(m->total.batches > 0))
			continue;
		h->workers++;
		h->batches += m->total.batches;
		h->time += m->total.time + m->total.wait;
		h->comm += m->total.comm;
		h->wait += m->total.wait;
	}
	for (size_t i = 0; i < s->hosts.count; i++) {
		struct network_link *l = &s->hosts.host[i].network;
		struct saves_host *h = &host[i], then = l->then;
		l->then = *h;
		h->batches -= then.batches;
		h->time -= then.time;
		h->comm -= then.comm;
		h->wait -= then.wait;
		h->added = (double)l->summed_since;
		h->out = l->out.lately;
		h->in = l->in.lately;
		l->out.lately = l->in.lately = (struct saves_way){0};
		l->summed_since = 0;
		result = h->workers < then.workers || h->batches < 0 ? -1 : result;
	}
	return result;
}

/* Under bsp nothing is saved. */
static void network_estimate(struct supervisor *s)
{
	struct sup_network *w = &s->network;
	struct saves_host *host = calloc(s->hosts.count + 1, sizeof *host);
	uint64_t dense = 0, servers = sup_count(s, &role_server);
	struct saves_job *job = &w->lately;
	double now = clock_mono();
	job->seconds = now - w->estimated_at;
	if (host && network_work(s, host) == 0 && hosts_dense_bytes(&s->dirs, &dense, NULL) == 0 &&
	    dense > 0) {
		job->dense = dense >= SUMMED_LEAST * servers ? (double)dense : 0;
		job->sums /= (double)dense;
		job->is_behind = job_overlaps(s->job);
		job->is_saved = network_is_saved(s);
		if (job->sums > 0)
			w->saved += saves_sums(job, host, s->hosts.count);
		else if (servers > 0 && !job_has_barrier(s->job))
			w->saved += saves_servers(job, host, s->hosts.count);
	}
	*job = (struct saves_job){0};
	w->estimated_at = now;
	free(host);
}

static void network_on_links(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_node *lead = sup_lead(s);
	size_t bytes = 0;
	network_count_all(s);
	if (clock_mono() - s->network.estimated_at >= ESTIMATE_SECONDS)
		network_estimate(s);
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

const char *sup_network_fabric(const struct supervisor *s)
{
	if (!sup_fabric(s) || !(network_sums(s) || job_bounds_delay(s->job)))
		return NULL;
	return network_is_saved(s) ? "mlfabric" : "plain";
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
	double now = clock_mono(), seconds = now - s->network.logged_at;
	s->network.logged_at = now;
	network_estimate(s);
	double saved = s->network.saved - s->network.logged; /* of the job: with the first host's */
	EACH_HOST (h, s, 0) {
		struct network_link *l = &h->network;
		network_bound(&l->out, seconds);
		network_bound(&l->in, seconds);
		double at_median = l->out.at_median + l->in.at_median;
		if (!(at_median > 0))
			continue;
		double median = (double)(l->out.timed + l->in.timed) / at_median;
		sup_log(s,
			RECORD("link", F("host", h->name), F_BRIEF("out", network_mean(&l->out)),
			       F_BRIEF("in", network_mean(&l->in)), F_BRIEF("median", median),
			       F("sent-bytes", l->out.since), F("received-bytes", l->in.since),
			       F_SECONDS("out-cost", l->out.cost), F_SECONDS("in-cost", l->in.cost),
			       saved > 0 ? F_SECONDS("fabric-saves", saved) : F_NONE));
		s->network.logged += saved;
		saved = 0;
		network_forget(&l->out);
		network_forget(&l->in);
	}
}
