/*
 * When pushes that are announced go over the network: in MLfabric's order (solve/xfer_order.h), by
 * the rates of the hosts' links as the supervisor says them (`links`).  A link without a known rate
 * is not limited; so without any rates all go at once, in the order in which they came.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "record/record.h"
#include "solve/xfer_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 25 /* rates are estimates: percent by which a push may be later than its rival */

struct schedule_host {
	char name[256];
	double out, in; /* bytes/s; 0: not known */
};

struct schedule_node {
	char id[OPTION_ID_MAX];
	size_t host;
};

/* As `links` said it last. */
struct schedule {
	struct schedule_host *host;
	struct schedule_node *worker, *server; /* servers in the order of the parts */
	size_t hosts, workers, servers;
};

static void schedule_free(struct schedule *s)
{
	if (!s)
		return;
	free(s->host);
	free(s->worker);
	free(s->server);
	free(s);
}

void lead_schedule_free(struct lead *l)
{
	schedule_free(l->schedule);
	l->schedule = NULL;
}

size_t lead_schedule_links(const struct lead *l)
{
	return l->schedule ? l->schedule->hosts : 0;
}

/* ---- links ---- */

static int schedule_link(struct schedule *s, const struct record *r, struct error *err)
{
	struct schedule_host *h = &s->host[s->hosts];
	const char *name;

	if (record_text(r, "host", &name, err) != 0 ||
	    record_real_opt(r, "out", 0.0, (double)XFER_RATE_MAX, &h->out, err) != 0 ||
	    record_real_opt(r, "in", 0.0, (double)XFER_RATE_MAX, &h->in, err) != 0)
		return -1;
	snprintf(h->name, sizeof h->name, "%s", name);
	s->hosts++;
	return 0;
}

static int schedule_node(struct schedule *s, const struct record *r, struct error *err)
{
	int is_worker = record_is(r, "worker");
	struct schedule_node *n = is_worker ? &s->worker[s->workers] : &s->server[s->servers];
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

static int schedule_line(struct schedule *s, const struct record *r, struct error *err)
{
	if (record_is(r, "link"))
		return schedule_link(s, r, err);
	if (record_is(r, "worker") || record_is(r, "server"))
		return schedule_node(s, r, err);
	return error_set(err, ERROR_DATA, NULL, "%.64s is not known", r->type);
}

/* What makes no sense changes nothing. */
static int schedule_read(struct lead *l, const char *text, size_t len, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct record_walk walk = record_walk(text, len);
	size_t lines = 1;
	int got = -1;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	struct schedule *s = calloc(1, sizeof *s);
	if (s) {
		s->host = calloc(lines, sizeof *s->host);
		s->worker = calloc(lines, sizeof *s->worker);
		s->server = calloc(lines, sizeof *s->server);
	}
	if (!r || !s || !s->host || !s->worker || !s->server)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else {
		while ((got = record_next(&walk, r, err)) == RECORD_ONE &&
		       schedule_line(s, r, err) == 0)
			;
	}
	free(r);
	if (got != RECORD_END) {
		schedule_free(s);
		return -1;
	}
	lead_schedule_free(l);
	l->schedule = s;
	return 0;
}

void lead_on_links(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct payload *payload = request_payload(rq);
	size_t len = payload ? payload_bytes(payload) : 0;
	char *text = malloc(len + 1); /* a copy: mapped memory could change */
	struct error err = {0};

	if (!text) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	if (len)
		memcpy(text, payload_data(payload), len);
	if (schedule_read(l, text, len, &err) == 0) {
		lead_clock(l);
		gate_reschedule(l->gate);
		request_ok(rq, NULL);
	} else
		request_bad(rq, &err);
	free(text);
	lead_pump(l);
}

/* ---- a schedule ---- */

/* Everything that a schedule needs, in one piece. */
struct plan {
	struct xfer_net net;
	struct xfer_update *update;
	struct xfer_part *part;
	size_t *order, *of; /* of: the offer of an update */
	size_t updates, parts;
};

static size_t host_of_worker(const struct schedule *s, const char *id)
{
	for (size_t i = 0; i < s->workers; i++) {
		if (strcmp(s->worker[i].id, id) == 0)
			return s->worker[i].host;
	}
	return s->hosts; /* one without limits */
}

/* The host of an offer whose parameters are elsewhere, some of them: from 1 on; else 0. */
static size_t host_for_sums(const struct schedule *s, const struct gate_offer *o)
{
	size_t host = host_of_worker(s, o->worker);

	for (size_t i = 0; host < s->hosts && i < s->servers && i < o->sizes; i++) {
		if (s->server[i].host != host)
			return host + 1;
	}
	return 0;
}

static int plan_hosts(struct plan *p, const struct schedule *s, struct error *err)
{
	for (size_t i = 0; i <= s->hosts; i++) {
		if (xfer_net_add(&p->net, err) != 0)
			return -1;
		struct xfer_host *h = &p->net.host[i];
		if (i == s->hosts)
			break;
		if ((s->host[i].out >= 1.0 &&
		     xfer_port_from(&h->out, 0, (int64_t)s->host[i].out, err) != 0) ||
		    (s->host[i].in >= 1.0 &&
		     xfer_port_from(&h->in, 0, (int64_t)s->host[i].in, err) != 0))
			return -1;
	}
	return 0;
}

/* What is left of an offer, as an update. Parts that nobody knows are on hosts without limits. */
static struct xfer_update *plan_update(struct plan *p, const struct schedule *s,
				       const struct gate_offer *o)
{
	struct xfer_update *u = &p->update[p->updates];

	*u = (struct xfer_update){.host = host_of_worker(s, o->worker),
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

int lead_schedule_new(struct lead *l, struct error *err)
{
	return l->options.schedule_log
		       ? recordlog_open(&l->schedule_log, l->options.schedule_log, err)
		       : 0;
}

static const char *log_host(const struct schedule *s, size_t host)
{
	return host < s->hosts ? s->host[host].name : "unknown";
}

/* The whole time in ns, as seconds. */
static const char *log_seconds(int64_t ns, char out[40])
{
	snprintf(out, 40, "%lld.%09lld", (long long)(ns / XFER_SECOND),
		 (long long)(ns % XFER_SECOND));
	return out;
}

/* A line for each step from which on a port has another rate; the first one has both. */
static void log_port(FILE *out, const char *host, const char *way, const struct xfer_port *p)
{
	char at[40];

	for (size_t i = 1; i < p->count; i++)
		record_print(out, RECORD("link", F("host", host), F(way, (uint64_t)p->step[i].rate),
					 F("at", log_seconds(p->step[i].at, at))));
}

/* Whether any update comes from the host without limits, or goes there. */
static int log_needs_unknown(const struct plan *p, const struct schedule *s)
{
	for (size_t i = 0; i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		if (u->host == s->hosts || u->parts > s->servers)
			return 1;
	}
	return 0;
}

static void log_links(FILE *out, const struct plan *p, const struct schedule *s)
{
	size_t hosts = s->hosts + (size_t)log_needs_unknown(p, s);

	for (size_t i = 0; i < hosts; i++) {
		const struct xfer_host *h = &p->net.host[i];
		const char *host = log_host(s, i);
		record_print(out,
			     RECORD("link", F("host", host),
				    h->out.count ? F("out", (uint64_t)h->out.step[0].rate) : F_NONE,
				    h->in.count ? F("in", (uint64_t)h->in.step[0].rate) : F_NONE));
		log_port(out, host, "out", &h->out);
		log_port(out, host, "in", &h->in);
	}
}

/* The network before the order is made, with what is on its way. */
static void schedule_log_state(FILE *out, const struct plan *p, const struct schedule *s,
			       const struct gate_offer *o)
{
	size_t parts = 0;

	record_print(out, RECORD("schedule", F_SECONDS("at", clock_epoch()),
				 F("margin", (uint64_t)MARGIN)));
	log_links(out, p, s);
	for (size_t i = 0; i < p->updates; i++)
		parts = p->update[i].parts > parts ? p->update[i].parts : parts;
	for (size_t i = 0; i < parts; i++)
		record_print(out, RECORD("server",
					 F("host", log_host(s, i < s->servers ? s->server[i].host
									      : s->hosts)),
					 F("version", (uint64_t)0), F("part", (uint64_t)i)));
	for (size_t i = 0; i < p->updates; i++) {
		const struct xfer_update *u = &p->update[i];
		for (size_t k = 0; k < u->parts; k++)
			record_print(out, RECORD("update", F("id", o[p->of[i]].worker),
						 F("host", log_host(s, u->host)),
						 F("deadline", u->deadline < UINT32_MAX
								       ? u->deadline
								       : (uint64_t)UINT32_MAX),
						 F("part", (uint64_t)k),
						 F("bytes", (uint64_t)u->part[k].bytes)));
	}
}

/* Only a schedule by which something happens now. */
static void log_write(struct lead *l, const struct gate_offer *o, size_t n, const char *text,
		      size_t len)
{
	int is_of_use = 0;

	for (size_t i = 0; i < n; i++)
		is_of_use |= !o[i].is_on_its_way && (o[i].is_late || o[i].start == 0);
	if (!is_of_use)
		return;
	recordlog_add(&l->schedule_log, text, len);
	lead_log_write(&l->schedule_log);
}

/* ---- making one ---- */

static int plan_make(struct plan *p, const struct schedule *s, struct gate_offer *o, size_t n,
		     FILE *log, struct error *err)
{
	size_t sent;

	if (plan_hosts(p, s, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) { /* what is on its way is not disturbed */
		if (o[i].is_on_its_way && o[i].sizes &&
		    xfer_send_parts(&p->net, plan_update(p, s, &o[i]), &o[i].there, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < n; i++) {
		if (o[i].is_on_its_way || !o[i].sizes)
			continue;
		(void)plan_update(p, s, &o[i]);
		p->of[p->updates++] = i;
		p->parts += o[i].sizes;
	}
	if (log)
		schedule_log_state(log, p, s, o);
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
	return 0;
}

int lead_schedule(struct gate_offer *o, size_t n, void *lead)
{
	struct lead *l = lead;
	struct plan p = {0};
	struct error err = {0};
	char *text = NULL;
	size_t parts = 1, len = 0;
	FILE *log;
	int rc = -1;

	if (!l->schedule)
		return -1;
	for (size_t i = 0; i < n; i++) {
		parts += o[i].sizes;
		o[i].host = host_for_sums(l->schedule, &o[i]);
	}
	p.update = calloc(n + 1, sizeof *p.update);
	p.part = calloc(parts, sizeof *p.part);
	p.order = calloc(2 * (n + 1), sizeof *p.order);
	p.of = p.order ? p.order + n + 1 : NULL;
	log = l->schedule_log.fd >= 0 ? open_memstream(&text, &len) : NULL;
	if (p.update && p.part && p.order)
		rc = plan_make(&p, l->schedule, o, n, log, &err);
	if (log && fclose(log) == 0 && rc == 0)
		log_write(l, o, n, text, len);
	free(text);
	free(p.update);
	free(p.part);
	free(p.order);
	xfer_net_clear(&p.net);
	return rc;
}
