/* turns: see turns.h. */
#include "lead/turns.h"

#include "base/option.h"
#include "record/record.h"
#include "solve/xfer_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 25 /* rates are estimates: percent by which a push may be later than its rival */
#define SEEN_STAYS 0.99          /* from one `links` to the next */
#define SUMMED_LEAST (16 * 1024) /* bytes: fabricd sums no less */
#define AGGREGATORS 4            /* so many hosts are tried, the fastest */

struct turns_host {
	char name[256];
	double out, in; /* bytes/s; 0: not known */
	double seen;    /* of both and those before them the largest; it fades */
};

struct turns_node {
	char id[OPTION_ID_MAX];
	size_t host;
};

struct turns {
	struct turns_host *host;
	struct turns_node *worker, *server; /* by id; in the order of the parts */
	size_t hosts, workers, servers;
};

void turns_free(struct turns *s)
{
	if (!s)
		return;
	free(s->host);
	free(s->worker);
	free(s->server);
	free(s);
}

size_t turns_links(const struct turns *s)
{
	return s ? s->hosts : 0;
}

/* ---- links ---- */

static int turns_link(struct turns *s, const struct record *r, struct error *err)
{
	struct turns_host *h = &s->host[s->hosts];
	const char *name;

	if (record_text(r, "host", &name, err) != 0 ||
	    record_real_opt(r, "out", 0.0, (double)XFER_RATE_MAX, &h->out, err) != 0 ||
	    record_real_opt(r, "in", 0.0, (double)XFER_RATE_MAX, &h->in, err) != 0)
		return -1;
	snprintf(h->name, sizeof h->name, "%s", name);
	s->hosts++;
	return 0;
}

static int turns_node(struct turns *s, const struct record *r, struct error *err)
{
	int is_worker = record_is(r, "worker");
	struct turns_node *n = is_worker ? &s->worker[s->workers] : &s->server[s->servers];
	const char *id, *host;

	if (record_id(r, "id", &id, err) != 0 || record_text(r, "host", &host, err) != 0)
		return -1;
	for (n->host = 0; n->host < s->hosts; n->host++) {
		if (strcmp(s->host[n->host].name, host) == 0)
			break;
	}
	if (n->host == s->hosts)
		return error_set(err, ERROR_DATA, NULL, "there is no link of host %.64s", host);
	snprintf(n->id, sizeof n->id, "%s", id);
	*(is_worker ? &s->workers : &s->servers) += 1;
	return 0;
}

static int turns_line(struct turns *s, const struct record *r, struct error *err)
{
	if (record_is(r, "link"))
		return turns_link(s, r, err);
	if (record_is(r, "worker") || record_is(r, "server"))
		return turns_node(s, r, err);
	return error_set(err, ERROR_DATA, NULL, "%.64s is not known", r->type);
}

static void turns_remember(struct turns *s, const struct turns *old)
{
	for (size_t i = 0; i < s->hosts; i++) {
		struct turns_host *h = &s->host[i];
		h->seen = h->out > h->in ? h->out : h->in;
		for (size_t k = 0; old && k < old->hosts; k++) {
			if (strcmp(old->host[k].name, h->name) == 0 &&
			    old->host[k].seen * SEEN_STAYS > h->seen)
				h->seen = old->host[k].seen * SEEN_STAYS;
		}
	}
}

static int turns_compare(const void *a, const void *b)
{
	return strcmp(((const struct turns_node *)a)->id, ((const struct turns_node *)b)->id);
}

int turns_read(struct turns **out, const char *text, size_t len, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct record_walk walk = record_walk(text, len);
	size_t lines = 1;
	int got = -1;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	struct turns *s = calloc(1, sizeof *s);
	if (s) {
		s->host = calloc(lines, sizeof *s->host);
		s->worker = calloc(lines, sizeof *s->worker);
		s->server = calloc(lines, sizeof *s->server);
	}
	if (!r || !s || !s->host || !s->worker || !s->server)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else {
		while ((got = record_next(&walk, r, err)) == RECORD_ONE &&
		       turns_line(s, r, err) == 0)
			;
	}
	free(r);
	if (got != RECORD_END) {
		turns_free(s);
		return -1;
	}
	qsort(s->worker, s->workers, sizeof *s->worker, turns_compare);
	turns_remember(s, *out);
	turns_free(*out);
	*out = s;
	return 0;
}

/* ---- a schedule ---- */

/* Everything that a schedule needs, in one piece. */
struct plan {
	struct xfer_net net;
	struct xfer_update *update;
	struct xfer_part *part;
	size_t *order, *of; /* of: the offer of an update */
	size_t updates, parts;
	/* Of each server: bytes of an update, which no sum exceeds; 0: its updates are not summed.
	 */
	int64_t *whole;
	size_t aggregator; /* host + 1; 0: there is none */
};

static size_t turns_host_of_worker(const struct turns *s, const char *id)
{
	size_t low = 0, high = s->workers;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int diff = strcmp(id, s->worker[middle].id);
		if (diff == 0)
			return s->worker[middle].host;
		low = diff > 0 ? middle + 1 : low;
		high = diff < 0 ? middle : high;
	}
	return s->hosts; /* one without limits */
}

/* The host of an offer whose parameters are elsewhere, some of them: from 1 on; else 0. */
static size_t turns_host_for_sums(const struct turns *s, const struct gate_offer *o)
{
	size_t host = turns_host_of_worker(s, o->worker);

	for (size_t i = 0; host < s->hosts && i < s->servers && i < o->sizes; i++) {
		if (s->server[i].host != host)
			return host + 1;
	}
	return 0;
}

static int turns_has_server(const struct turns *s, size_t host)
{
	for (size_t i = 0; i < s->servers; i++) {
		if (s->server[i].host == host)
			return 1;
	}
	return 0;
}

static int turns_plan_hosts(struct plan *p, const struct turns *s, int is_even, struct error *err)
{
	for (size_t i = 0; i <= s->hosts; i++) {
		if (xfer_net_add(&p->net, err) != 0)
			return -1;
		struct xfer_host *h = &p->net.host[i];
		if (i == s->hosts)
			break;
		double in = s->host[i].in, out = s->host[i].out;
		if (is_even && !turns_has_server(s, i))
			in = out = s->host[i].seen;
		if ((out >= 1.0 && xfer_port_from(&h->out, 0, (int64_t)out, err) != 0) ||
		    (in >= 1.0 && xfer_port_from(&h->in, 0, (int64_t)in, err) != 0))
			return -1;
	}
	return 0;
}

static int turns_plan_new(struct plan *p, size_t offers, size_t parts, struct error *err)
{
	p->update = calloc(offers + 1, sizeof *p->update);
	p->part = calloc(parts + 1, sizeof *p->part);
	p->order = calloc(2 * (offers + 1), sizeof *p->order);
	p->of = p->order ? p->order + offers + 1 : NULL;
	p->whole = calloc(parts + 1, sizeof *p->whole);
	if (p->update && p->part && p->order && p->whole)
		return 0;
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

static void turns_plan_free(struct plan *p)
{
	free(p->update);
	free(p->part);
	free(p->order);
	free(p->whole);
	xfer_net_clear(&p->net);
}

/* What is left of an offer, as an update. Parts that nobody knows are on hosts without limits. */
static struct xfer_update *turns_plan_update(struct plan *p, const struct turns *s,
				       const struct gate_offer *o)
{
	struct xfer_update *u = &p->update[p->updates];

	*u = (struct xfer_update){.host = turns_host_of_worker(s, o->worker),
				  .part = &p->part[p->parts],
				  .parts = o->sizes,
				  .deadline = o->deadline,
				  .count = 1};
	for (size_t i = 0; i < o->sizes; i++)
		u->part[i] = (struct xfer_part){.to = i < s->servers ? s->server[i].host : s->hosts,
						.bytes = (int64_t)(o->left * (double)o->size[i])};
	return u;
}

/* ---- the log: what xfer-sched(1) needs to come to the same schedule ---- */

const char *turns_host(const struct turns *s, size_t host)
{
	return s && host > 0 && host <= s->hosts ? s->host[host - 1].name : "-";
}

static const char *turns_log_host(const struct turns *s, size_t host)
{
	return host < s->hosts ? s->host[host].name : "unknown";
}

/* The whole time in ns, as seconds. */
static const char *turns_log_seconds(int64_t ns, char out[40])
{
	snprintf(out, 40, "%lld.%09lld", (long long)(ns / XFER_SECOND),
		 (long long)(ns % XFER_SECOND));
	return out;
}

/* A line for each step from which on a port has another rate; the first one has both. */
static void turns_log_port(FILE *out, const char *host, const char *way, const struct xfer_port *p)
{
	char at[40];

	for (size_t i = 1; i < p->count; i++)
		record_print(out, RECORD("link", F("host", host), F(way, (uint64_t)p->step[i].rate),
					 F("at", turns_log_seconds(p->step[i].at, at))));
}

/* Whether any update comes from the host without limits, or goes there. */
static int turns_log_needs_unknown(const struct plan *p, const struct turns *s)
{
	for (size_t i = 0; i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		if (u->host == s->hosts || u->parts > s->servers)
			return 1;
	}
	return 0;
}

static void turns_log_links(FILE *out, const struct plan *p, const struct turns *s)
{
	size_t hosts = s->hosts + (size_t)turns_log_needs_unknown(p, s);

	for (size_t i = 0; i < hosts; i++) {
		const struct xfer_host *h = &p->net.host[i];
		const char *host = turns_log_host(s, i);
		record_print(out,
			     RECORD("link", F("host", host),
				    h->out.count ? F("out", (uint64_t)h->out.step[0].rate) : F_NONE,
				    h->in.count ? F("in", (uint64_t)h->in.step[0].rate) : F_NONE));
		turns_log_port(out, host, "out", &h->out);
		turns_log_port(out, host, "in", &h->in);
	}
}

/* The network before the order is made, with what is on its way. */
static void turns_log_state(FILE *out, const struct plan *p, const struct turns *s,
			       const struct gate_offer *o, double at)
{
	size_t parts = 0;

	record_print(out, RECORD("schedule", F_SECONDS("at", at),
				 F("margin", (uint64_t)MARGIN)));
	turns_log_links(out, p, s);
	for (size_t i = 0; i < p->updates; i++)
		parts = p->update[i].parts > parts ? p->update[i].parts : parts;
	for (size_t i = 0; i < parts; i++)
		record_print(out, RECORD("server",
					 F("host", turns_log_host(s, i < s->servers ? s->server[i].host
									      : s->hosts)),
					 F("version", (uint64_t)0), F("part", (uint64_t)i),
					 p->aggregator && p->whole[i] > 0
						 ? F("bytes", (uint64_t)p->whole[i])
						 : F_NONE));
	if (p->aggregator)
		record_print(out, RECORD("aggregator", F("host", turns_log_host(s, p->aggregator - 1))));
	for (size_t i = 0; i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		for (size_t k = 0; k < u->parts; k++)
			record_print(out, RECORD("update", F("id", o[p->of[i]].worker),
						 F("host", turns_log_host(s, u->host)),
						 F("deadline", u->deadline < UINT32_MAX
								       ? u->deadline
								       : (uint64_t)UINT32_MAX),
						 F("part", (uint64_t)k),
						 F("bytes", (uint64_t)u->part[k].bytes)));
	}
}

/* ---- groups with members on several hosts ---- */

/* Pushes that are waiting, those of one host as one, and the best way that was found. */
struct crews {
	struct xfer_batch batch;
	struct xfer_update *item;
	struct xfer_part *part, *sum_part;
	size_t *into, *order, *way, *best;
	struct xfer_course course;
	struct xfer_sum sum;
	size_t items;
};

/* Only where most of an update is dense is it summed. */
static void turns_crews_whole(struct plan *p, const struct turns_dense *whole)
{
	size_t parts = p->updates ? p->update->parts : 0;

	for (size_t k = 0; k < parts && k < whole->parts; k++) {
		int64_t dense = whole->bytes(k, whole->arg);
		for (size_t i = 0; i < p->updates; i++) {
			if (p->update[i].part[k].bytes > p->whole[k])
				p->whole[k] = p->update[i].part[k].bytes;
		}
		if (dense < SUMMED_LEAST || 2 * dense < p->whole[k])
			p->whole[k] = 0;
	}
}

static int turns_crews_new(struct crews *c, struct plan *p, struct error *err)
{
	size_t n = p->updates + 1, parts = p->update->parts;

	c->item = calloc(n, sizeof *c->item);
	c->part = calloc(n * parts, sizeof *c->part);
	c->sum_part = calloc(parts, sizeof *c->sum_part);
	c->into = calloc(4 * n, sizeof *c->into);
	c->course.hop = calloc(n, sizeof *c->course.hop);
	c->course.commit = calloc(n, sizeof *c->course.commit);
	if (!c->item || !c->part || !c->sum_part || !c->into || !c->course.hop || !c->course.commit)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	c->order = c->into + n;
	c->way = c->order + n;
	c->best = c->way + n;
	c->course.sum = &c->sum;
	c->sum.part = c->sum_part;
	return 0;
}

static void turns_crews_free(struct crews *c)
{
	free(c->item);
	free(c->part);
	free(c->sum_part);
	free(c->into);
	free(c->course.hop);
	free(c->course.commit);
}

/* Whether this aggregator has a push of its own, and one of another host, in the group. */
static int turns_crews_is_one(const struct crews *c, size_t host)
{
	int own = 0, others = 0;

	for (size_t i = 0; i < c->batch.count; i++) {
		if (!c->way[i])
			continue;
		own |= c->item[c->order[i]].host == host;
		others |= c->item[c->order[i]].host != host;
	}
	return own && others;
}

/* The hosts of the crews without parameters, the fastest first; returns how many. To try all of
 * them would take the time of so many schedules, and those that are as fast are as good. */
static size_t turns_crews_fastest(const struct crews *c, const struct turns *s,
			    size_t host[AGGREGATORS])
{
	size_t count = 0;

	for (size_t i = 0; i < c->items; i++) {
		size_t here = c->item[i].host, at = count, k = 0;
		while (k < count && host[k] != here)
			k++;
		if (k < count || here == s->hosts || turns_has_server(s, here))
			continue;
		while (at > 0 && s->host[host[at - 1]].seen < s->host[here].seen)
			at--;
		if (at == AGGREGATORS)
			continue;
		count += count < AGGREGATORS;
		memmove(&host[at + 1], &host[at], (count - 1 - at) * sizeof *host);
		host[at] = here;
	}
	return count;
}

/* The best aggregator, and the way with it in c->best. */
static int turns_crews_look(struct crews *c, struct plan *p, const struct turns *s, struct error *err)
{
	xfer_wide least, cost;
	size_t host[AGGREGATORS], hosts = turns_crews_fastest(c, s, host);

	if (xfer_group_as(&c->batch, c->batch.count, 0, c->way, &least, err) != 0)
		return -1;
	if (least == XFER_NO_COST)
		return 0;
	least = least * 100 / (100 + MARGIN);
	for (size_t i = 0; i < hosts; i++) {
		struct xfer_aggregator aggregator = {.host = host[i]};
		size_t direct = 0;
		c->batch.aggregator = &aggregator;
		c->batch.aggregators = 1;
		if (xfer_group(&c->batch, c->way, err) != 0)
			return -1;
		if (!turns_crews_is_one(c, aggregator.host))
			continue;
		while (c->way[direct] == 0)
			direct++;
		if (xfer_group_as(&c->batch, direct, 1, c->way, &cost, err) != 0)
			return -1;
		if (cost >= least)
			continue;
		least = cost;
		memcpy(c->best, c->way, c->batch.count * sizeof *c->best);
		p->aggregator = aggregator.host + 1;
	}
	return 0;
}

/* All of the group are granted when the first of them can go. */
static int turns_crews_take(struct crews *c, struct plan *p, struct gate_offer *o, struct error *err)
{
	const struct xfer_aggregator aggregator = {.host = p->aggregator - 1};
	int64_t start = INT64_MAX, there = 0;
	xfer_wide cost;

	c->batch.aggregator = &aggregator;
	c->batch.aggregators = 1;
	if (xfer_carry(&c->batch, c->best, &c->course, &cost, err) != 0)
		return -1;
	for (size_t i = 0; i < c->batch.count; i++) {
		if (!c->best[i])
			continue;
		if (c->item[c->order[i]].host != aggregator.host && c->course.hop[i].start < start)
			start = c->course.hop[i].start;
		there = c->course.commit[i];
	}
	for (size_t i = 0; i < c->batch.count; i++)
		c->way[c->order[i]] = c->best[i];
	for (size_t k = 0; k < p->updates; k++) {
		if (!c->way[c->into[k]])
			continue;
		o[p->of[k]].crew = p->aggregator;
		o[p->of[k]].start = start;
		o[p->of[k]].there = there;
	}
	return 0;
}

/* ns of an update from its host to the fastest other one that has workers and no parameters; -1:
 * there is none. None is faster than its own port, mostly the first is as fast. */
static int64_t turns_crews_hop(const struct plan *p, const struct turns *s,
			 const struct xfer_update *u, const char *takes)
{
	int64_t hop = INT64_MAX, least = xfer_port_end(&p->net.host[u->host].in, xfer_bytes(u), 0);

	for (size_t host = 0; host < s->hosts && hop > least; host++) {
		int64_t end = takes[host] && host != u->host
				      ? xfer_end(&p->net, host, u->host, xfer_bytes(u), 0)
				      : INT64_MAX;
		hop = end < hop ? end : hop;
	}
	return hop == INT64_MAX ? -1 : hop;
}

/* Of one update that goes alone: that, and how long it takes to its servers.  Updates of one host
 * that are as large have the same. */
static int turns_crews_hops(struct plan *p, const struct turns *s, struct gate_offer *o,
		      struct error *err)
{
	char *takes = calloc(s->hosts + 1, 1);
	size_t *last = calloc(s->hosts + 1, sizeof *last); /* of a host, + 1 */
	struct plan alone = {0};
	int rc = takes && last ? turns_plan_hosts(&alone, s, 1, err)
			       : error_set(err, ERROR_OS, NULL, "out of memory");

	for (size_t k = 0; rc == 0 && k < s->workers; k++)
		takes[s->worker[k].host] = !turns_has_server(s, s->worker[k].host);
	for (size_t i = 0; rc == 0 && i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		struct gate_offer *offer = &o[p->of[i]];
		size_t like = last[u->host];
		last[u->host] = i + 1;
		if (like && xfer_bytes(&p->update[like - 1]) == xfer_bytes(u)) {
			offer->hop = o[p->of[like - 1]].hop;
			offer->alone = o[p->of[like - 1]].alone;
			continue;
		}
		size_t outer = xfer_begin(&alone.net);
		rc = xfer_send_parts(&alone.net, &p->update[i], &offer->alone, err);
		xfer_undo(&alone.net, outer);
		offer->hop = u->host < s->hosts && takes[u->host] ? turns_crews_hop(p, s, u, takes) : -1;
	}
	xfer_net_clear(&alone.net);
	free(takes);
	free(last);
	return rc;
}

static int turns_crews_best(struct plan *p, const struct turns *s, struct gate_offer *o,
		      struct error *err)
{
	struct crews c = {.batch = {.net = &p->net, .dense = p->whole, .goal = XFER_EACH}};
	int rc = turns_crews_new(&c, p, err);
	size_t outer = xfer_begin(&p->net);

	if (rc == 0) {
		c.items = xfer_sum_hosts(p->update, p->updates, p->whole, c.item, c.part, c.into,
					 err);
		rc = c.items == SIZE_MAX ? -1 : 0;
	}
	if (rc == 0)
		rc = xfer_order(&p->net, c.item, c.items, MARGIN, c.order, &c.batch.count, err);
	xfer_undo(&p->net, outer);
	outer = xfer_begin(&p->net);
	c.batch.u = c.item;
	c.batch.order = c.order;
	if (rc == 0 && c.items > 1 && c.batch.count == c.items)
		rc = turns_crews_look(&c, p, s, err);
	if (rc == 0 && p->aggregator)
		rc = turns_crews_take(&c, p, o, err);
	xfer_undo(&p->net, outer);
	turns_crews_free(&c);
	return rc;
}

/* Where updates have the same parts, and some of them are summed. */
static int turns_crews_plan(struct plan *p, const struct turns *s,
		      const struct turns_dense *dense, struct gate_offer *o, struct error *err)
{
	int64_t most = 0;

	if (p->updates == 0)
		return 0;
	for (size_t i = 0; i < p->updates; i++) {
		if (p->update[i].parts != p->update->parts || p->update[i].parts != s->servers)
			return 0;
	}
	turns_crews_whole(p, dense);
	for (size_t k = 0; k < s->servers; k++)
		most = p->whole[k] > most ? p->whole[k] : most;
	if (most == 0)
		return 0;
	if (turns_crews_hops(p, s, o, err) != 0)
		return -1;
	return p->updates > 1 ? turns_crews_best(p, s, o, err) : 0;
}

/* ---- making one ---- */

/* The network, what is on its way, and what waits. */
static int turns_plan_state(struct plan *p, const struct turns *s, struct gate_offer *o, size_t n,
		      int is_even, struct error *err)
{
	if (turns_plan_hosts(p, s, is_even, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) { /* what is on its way is not disturbed */
		if (o[i].is_on_its_way && o[i].sizes &&
		    xfer_send_parts(&p->net, turns_plan_update(p, s, &o[i]), &o[i].there, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < n; i++) {
		if (o[i].is_on_its_way || !o[i].sizes)
			continue;
		(void)turns_plan_update(p, s, &o[i]);
		p->of[p->updates++] = i;
		p->parts += o[i].sizes;
	}
	return 0;
}

static int turns_plan_make(struct plan *p, const struct turns *s, struct gate_offer *o, size_t n,
		     struct error *err)
{
	size_t sent;

	if (turns_plan_state(p, s, o, n, 0, err) != 0)
		return -1;
	size_t outer = xfer_begin(&p->net);
	if (xfer_order(&p->net, p->update, p->updates, MARGIN, p->order, &sent, err) != 0)
		return -1;
	for (size_t i = 0; i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		struct gate_offer *offer = &o[p->of[i]];
		offer->is_late = u->fate == XFER_OVERDUE || u->fate == XFER_RIVAL;
		offer->start = INT64_MAX;
		for (size_t k = 0; k < u->parts; k++) {
			if (u->part[k].hop.start < offer->start)
				offer->start = u->part[k].hop.start;
		}
		offer->there = u->there;
		if (u->fate == XFER_NOPATH) /* of what is measured as 0, nothing is known */
			offer->start = offer->there = 0;
	}
	xfer_undo(&p->net, outer);
	return 0;
}

int turns_schedule(const struct turns *s, const struct turns_dense *dense, struct gate_offer *o, size_t n,
		   FILE *log, double at, struct error *err)
{
	struct plan p = {0}, crews = {0};
	size_t parts = 0;
	int rc = -1;

	for (size_t i = 0; i < n; i++) {
		parts += o[i].sizes;
		o[i].host = turns_host_for_sums(s, &o[i]);
		o[i].crew = 0;
		o[i].hop = -1;
	}
	if (turns_plan_new(&p, n, parts, err) == 0)
		rc = turns_plan_make(&p, s, o, n, err);
	if (rc == 0 && dense->parts > 0 && turns_plan_new(&crews, n, parts, err) == 0 &&
	    turns_plan_state(&crews, s, o, n, 1, err) == 0)
		rc = turns_crews_plan(&crews, s, dense, o, err);
	if (log && rc == 0)
		turns_log_state(log, crews.aggregator ? &crews : &p, s, o, at);
	turns_plan_free(&p);
	turns_plan_free(&crews);
	return rc;
}
