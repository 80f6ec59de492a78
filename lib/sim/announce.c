/* Pushes that are announced before they are sent, where the delay is bounded and there are several hosts: the
 * lead says whose turn it is (lead/gate.h), by the links' rates with FABRIC=mlfabric (lead/turns.h). */
#include "sim/sim_internal.h"

#include "base/grow.h"
#include "lead/turns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define CLOCK_STEP INT64_C(1000000) /* ns: a process wakes no more often, and turns that move by less would never end */

/* ---- links, as the lead knows them ---- */

static void announce_put(FILE *out, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	fwrite(o->data, 1, len, out);
}

static void announce_put_link(const struct sim *s, FILE *out, const char *host, const struct sim_line *l, double *next)
{
	double rate = fmin(network_rate(l, s->now, next), 9e15);
	announce_put(out, RECORD("link", F("host", host), F_REAL("out", rate), F_REAL("in", rate)));
}

static void announce_host_name(const struct sim_node *n, char name[OPTION_ID_MAX])
{
	if (n->host == SIM_NO_HOST)
		snprintf(name, OPTION_ID_MAX, "%s", n->id);
	else
		snprintf(name, OPTION_ID_MAX, "h%u", n->host);
}

/* Of hosts, and of servers that are on one of their own. */
static void announce_put_links(const struct sim *s, FILE *out, double *next)
{
	char name[OPTION_ID_MAX];
	for (size_t i = 0; i < s->job.hosts; i++) {
		snprintf(name, sizeof name, "h%zu", i);
		announce_put_link(s, out, name, &s->host[i], next);
	}
	for (size_t i = s->workers; i < s->nodes; i++)
		if (s->node[i].host == SIM_NO_HOST)
			announce_put_link(s, out, s->node[i].id, &s->node[i].line, next);
	for (size_t i = 0; i < s->nodes; i++) {
		const struct sim_node *n = &s->node[i];
		announce_host_name(n, name);
		announce_put(out, RECORD(n->role == NODE_WORKER ? "worker" : "server", F("id", (const char *)n->id),
					 F("host", (const char *)name)));
	}
}

static int announce_know(struct sim *s, struct error *err)
{
	struct sim_announce *a = &s->announce;
	char *text = NULL;
	size_t len = 0;
	double next = INFINITY;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	announce_put_links(s, out, &next);
	int result = fclose(out) == 0 ? turns_read(&a->turns, text, len, err)
				      : error_set(err, ERROR_OS, NULL, "out of memory");
	free(text);
	a->known_until = next;
	a->known_servers = s->job.servers;
	if (isfinite(next))
		sim_plan(s, next, EVENT_LINKS, NULL);
	return result;
}

static int64_t announce_dense(size_t part, const void *sim)
{
	const struct sim *s = sim;
	(void)part;
	return (int64_t)(s->job.bytes / (double)s->job.servers);
}

static int announce_schedule(struct gate_offer *offer, size_t offers, void *sim)
{
	struct sim *s = sim;
	const struct turns_dense dense = {(size_t)s->job.servers, announce_dense, s};
	struct error err;
	if ((s->now >= s->announce.known_until || s->job.servers != s->announce.known_servers) &&
	    announce_know(s, &err) != 0) {
		sim_fail(s, &err);
		return -1;
	}
	return turns_schedule(s->announce.turns, &dense, offer, offers, NULL, 0, &err);
}

static const char *announce_host(size_t host, void *sim)
{
	return turns_host(((struct sim *)sim)->announce.turns, host);
}

void announce_options(struct sim *s, struct gate_options *o)
{
	const struct sim_job *j = &s->job;
	o->bounds_delay = j->delay != SIM_NO_DELAY && !j->overlaps;
	o->delay_max = j->delay;
	s->announce.is_on = o->announces = o->bounds_delay && j->hosts > 1;
	s->announce.is_timed = o->announces || j->late > 0;
	s->announce.known_until = 0;
	s->announce.due = INT64_MAX;
	if (!j->by_links || !s->announce.is_on)
		return;
	o->schedule = announce_schedule;
	o->host_name = announce_host;
	o->schedule_arg = s;
}

void announce_free(struct sim *s)
{
	turns_free(s->announce.turns);
	free(s->announce.part);
	free(s->announce.group.node);
}

/* ---- its time ---- */

void announce_clock(struct sim *s)
{
	struct sim_announce *a = &s->announce;
	if (!a->is_timed)
		return;
	int64_t now = (int64_t)(s->now * NS), next;
	if (now < a->ns)
		now = a->ns;
	a->ns = now;
	next = gate_clock(s->gate, now);
	if (next >= a->due || next <= now) /* what is due and does not happen waits for a settle or a cut */
		return;
	a->due = next > now + CLOCK_STEP ? next : now + CLOCK_STEP;
	sim_plan_as(s, (double)a->due / NS, EVENT_CLOCK, 0, 0);
}

/* A time in seconds may be less than in nanoseconds, as it was rounded. */
void announce_clock_is_due(struct sim *s)
{
	struct sim_announce *a = &s->announce;
	if ((double)a->due / NS <= s->now) {
		a->ns = a->due > a->ns ? a->due : a->ns;
		a->due = INT64_MAX;
	}
	leading_obey(s);
}

void announce_links_changed(struct sim *s)
{
	announce_clock(s);
	gate_reschedule(s->gate);
	leading_obey(s);
}

/* ---- an announcement ---- */

void announce_push(struct sim *s, const struct gate_who *who, struct gate_push *push)
{
	struct sim_announce *a = &s->announce;
	size_t parts = (size_t)s->job.servers;
	if (GROW(a->part, a->part_room, parts) != 0) {
		sim_fail_memory(s);
		return;
	}
	for (size_t i = 0; i < parts; i++)
		a->part[i] = (uint64_t)(s->job.bytes / (double)parts);
	push->part = a->part;
	push->parts = parts;
	announce_clock(s);
	gate_announce(s->gate, who, push);
}

/* ---- grants ---- */

static uint64_t announce_field(const char *fields, const char *key)
{
	const char *at = strstr(fields, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* All of the group, which was granted at once. Those of one host are summed there; where one host sums for all,
 * the others' sums go there first. */
static double announce_carry(struct sim *s, uint32_t at)
{
	const struct sim_group *g = &s->announce.group;
	double from = s->now + s->cost.message, summed = from;
	const struct sim_node *sender = g->node[0];
	for (size_t i = 0; i < g->count && at != SIM_NO_HOST; i++) {
		size_t k = 0;
		while (g->node[k]->host != g->node[i]->host)
			k++;
		if (g->node[i]->host == at)
			sender = g->node[i];
		else if (k == i)
			summed = fmax(summed, network_hop(s, g->node[i]->host, at, from));
	}
	return network_exchange(s, sender, summed);
}

void announce_granted(struct sim *s, struct sim_node *n, const char *fields)
{
	struct sim_group *g = &s->announce.group;
	const char *at = strstr(fields, " at=h");
	uint64_t members = announce_field(fields, " members=");
	n->group = announce_field(fields, " group=");
	hung_owes(s, n, s->now);
	if (g->count == 0 || g->number != n->group || n->group == 0)
		g->count = 0;
	if (GROW(g->node, g->room, g->count + 1) != 0) {
		sim_fail_memory(s);
		return;
	}
	g->number = n->group;
	g->node[g->count++] = n;
	if (g->count < members)
		return;
	double end = announce_carry(s, at ? (uint32_t)strtoul(at + 5, NULL, 10) : SIM_NO_HOST);
	for (size_t i = 0; i < g->count; i++)
		worker_sent(s, g->node[i], end);
	g->count = 0;
}
