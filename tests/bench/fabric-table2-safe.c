#include "fabric-table2-safe.h"

#include "base/grow.h"
#include "solve/xfer_gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A checkpoint of BYTES: 96 minutes for one behind every 30 of 240,000 updates (7.3). */
#define WRITES 0.72
#define DEATHS 200
#define UPDATES_MAX 4096 /* that a replica lacks */

static void safe_must(int result)
{
	if (result != 0)
		abort();
}

static int64_t safe_ns(double s)
{
	return (int64_t)(s * 1e9);
}

static double safe_send(struct xfer_net *net, size_t from, size_t to, int64_t bytes, double ready)
{
	struct xfer_hop hop;
	safe_must(xfer_send(net, from, to, bytes, safe_ns(ready), &hop, NULL));
	return (double)hop.end * 1e-9;
}

static void add_copies(struct safe *s, const struct safe_unit *u, double safe)
{
	if (GROW(s->copy, s->room, s->copies + u->count) != 0)
		abort();
	for (size_t i = 0; i < u->count; i++)
		s->copy[s->copies++] =
			(struct safe_copy){u->worker[i], s->units, u->committed, safe};
	s->units++;
	s->last = u->committed;
	s->ahead += u->count;
}

/* All that are committed so far are safe at this time. */
static void all_are_safe(struct safe *s, double at)
{
	for (; s->safes < s->copies; s->safes++)
		s->copy[s->safes].safe = at;
	s->ahead = 0;
}

/* ---- a server that sends what has changed ---- */

static void send_difference(struct safe *s, struct xfer_net *net, double at)
{
	s->busy = safe_send(net, SERVER, REPLICA, 2 * BYTES, at);
	s->bytes += 2 * BYTES;
	all_are_safe(s, s->busy);
}

static size_t most_kept(const struct safe *s)
{
	size_t kept[WORKERS] = {0}, most = 0;
	for (size_t i = s->safes; i < s->copies; i++) {
		size_t n = ++kept[s->copy[i].worker];
		most = n > most ? n : most;
	}
	return most;
}

static void commit_merged(struct safe *s, struct xfer_net *net, struct safe_unit *u)
{
	const struct provision *p = s->provision;
	double at = fmax(fmax(u->there, s->last), s->busy);
	if (s->ahead > 0 && s->ahead + u->count > p->bound) {
		send_difference(s, net, at);
		at = s->busy;
	}
	u->committed = at;
	add_copies(s, u, INFINITY);
	if (s->ahead >= p->bound - p->bound / 2 || (p->keeps && most_kept(s) >= p->keeps))
		send_difference(s, net, at);
}

/* ---- workers that send what it lacks ---- */

void safe_limits(const struct safe *s, const size_t *count, size_t n, size_t *limit)
{
	const struct xfer_drift d = {.most = (double)s->provision->bound};
	double norm[WORKERS];
	for (size_t i = 0; i < n; i++)
		norm[i] = (double)count[i];
	xfer_gate_limits(&d, norm, n, limit);
}

/* The first `n` updates that it lacks, summed on their way; returns when it has them. */
static double send_sums(struct safe *s, struct xfer_net *net, struct xfer_net *believed, double now,
			const size_t *worker, size_t n)
{
	static struct xfer_update u[UPDATES_MAX], sum[UPDATES_MAX];
	static struct xfer_part part[UPDATES_MAX], summed[UPDATES_MAX];
	static size_t into[UPDATES_MAX];
	struct xfer_aggregator agg[AGGREGATORS + 1];
	struct xfer_hop hop[WORKERS];
	struct xfer_sum sums[AGGREGATORS];
	struct xfer_part sum_part[AGGREGATORS];
	int64_t commit[WORKERS], last = 0;
	size_t order[WORKERS], way[WORKERS], k = 0;
	struct xfer_course course = {.hop = hop, .commit = commit, .sum = sums};
	xfer_wide cost;
	if (n > UPDATES_MAX)
		abort();
	for (size_t i = 0; i < n; i++) {
		part[i] = (struct xfer_part){.to = REPLICA, .bytes = BYTES};
		u[i] = (struct xfer_update){.host = worker[i] / 2,
					    .part = &part[i],
					    .parts = 1,
					    .deadline = XFER_NO_DEADLINE,
					    .count = 1};
	}
	size_t items = xfer_sum_hosts(u, n, &(const int64_t){BYTES}, sum, summed, into, NULL);
	for (size_t i = 0; i < items; i++)
		order[i] = i;
	for (size_t a = 0; a < AGGREGATORS; a++)
		sums[a].part = &sum_part[a];
	size_t best = xfer_best_hosts(believed, REPLICA, AGGREGATORS + 1, agg);
	for (size_t a = 0; a < best; a++)
		if (agg[a].host != SERVER && k < AGGREGATORS)
			agg[k++] = agg[a];
	struct xfer_batch b = {.net = believed,
			       .u = sum,
			       .order = order,
			       .count = items,
			       .aggregator = agg,
			       .aggregators = k,
			       .dense = &(const int64_t){BYTES},
			       .goal = XFER_ALL};
	safe_must(xfer_group(&b, way, NULL));
	for (size_t i = 0; i < items; i++)
		sum[i].ready = safe_ns(now);
	b.net = net;
	safe_must(xfer_carry(&b, way, &course, &cost, NULL));
	int seen[AGGREGATORS + 1] = {0};
	for (size_t i = 0; i < items; i++) {
		last = commit[i] > last ? commit[i] : last;
		s->bytes += way[i] == 0 || !seen[way[i]]++ ? BYTES : 0;
	}
	return (double)last * 1e-9;
}

/* Of what is committed so far. */
static size_t replica_lacks(const struct safe *s, double at)
{
	size_t n = 0;
	while (n < s->copies && s->copy[s->copies - 1 - n].safe > at)
		n++;
	return n;
}

static void commit_sums(struct safe *s, struct xfer_net *net, struct xfer_net *believed, double now,
			struct safe_unit *unit, size_t n)
{
	static size_t worker[UPDATES_MAX];
	const size_t bound = s->provision->bound;
	double before = s->busy; /* then it has all that was sent before */
	size_t updates = 0;
	for (size_t i = s->safes; i < s->copies; i++)
		worker[updates++] = s->copy[i].worker;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < unit[i].count; k++)
			worker[updates++] = unit[i].worker[k];
	int is_due = 2 * updates > bound; /* xfer_gate.h */
	if (is_due) {
		s->busy = fmax(before, send_sums(s, net, believed, now, worker, updates));
		all_are_safe(s, s->busy);
	}
	for (size_t i = 0; i < n; i++) {
		double at = fmax(unit[i].there, s->last);
		if (replica_lacks(s, at) + unit[i].count > bound)
			at = fmax(at, before);
		if (replica_lacks(s, at) + unit[i].count > bound)
			at = fmax(at, s->busy);
		unit[i].committed = at;
		add_copies(s, &unit[i], INFINITY);
		if (is_due)
			all_are_safe(s, fmax(s->busy, at));
	}
}

/* ---- checkpoints ---- */

static void commit_saved(struct safe *s, struct safe_unit *u)
{
	const struct provision *p = s->provision;
	u->committed = fmax(fmax(u->there, s->last), p->safety == SAFE_STANDS ? s->busy : 0);
	add_copies(s, u, INFINITY);
	if (s->ahead < p->bound || u->committed < s->busy)
		return;
	s->busy = u->committed + WRITES;
	all_are_safe(s, s->busy);
	if (p->safety == SAFE_STANDS) {
		s->stands = u->committed;
		s->stands_until = s->busy;
	}
}

/* ---- all of them ---- */

static void commit_unit(struct safe *s, struct xfer_net *net, struct safe_unit *u)
{
	double at = u->there;
	switch (s->provision->safety) {
	case SAFE_MERGED:
		commit_merged(s, net, u);
		return;
	case SAFE_STANDS:
	case SAFE_FORKS:
		commit_saved(s, u);
		return;
	case SAFE_EACH:
		at = fmax(at, safe_send(net, u->from, REPLICA, BYTES, u->ready));
		s->bytes += BYTES;
		break;
	case SAFE_CHAIN:
		at = safe_send(net, SERVER, REPLICA, BYTES, at);
		s->bytes += BYTES;
		break;
	default:
		break;
	}
	u->committed = fmax(at, s->last);
	add_copies(s, u, s->provision->safety == SAFE_NOT ? INFINITY : u->committed);
}

void safe_commit(struct safe *s, struct xfer_net *net, struct xfer_net *believed, double now,
		 struct safe_unit *unit, size_t n)
{
	if (s->provision->safety == SAFE_SUMS) {
		commit_sums(s, net, believed, now, unit, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		commit_unit(s, net, &unit[i]);
}

static double fetch_seconds(const struct safe *s, size_t from, size_t to, double at,
			    void (*rates)(struct xfer_net *net, double at))
{
	struct xfer_net net = {0};
	double end = 0;
	rates(&net, at);
	for (size_t i = from; i < to; i++)
		end = fmax(end, safe_send(&net, s->copy[i].worker / 2, REPLICA, BYTES, 0));
	xfer_net_clear(&net);
	return end;
}

struct safe_deaths safe_die(const struct safe *s, double until,
			    void (*rates)(struct xfer_net *net, double at))
{
	const enum safety safety = s->provision->safety;
	struct safe_deaths d = {0};
	size_t committed = 0, safe = 0;
	for (size_t n = 0; n < DEATHS; n++) {
		double at = until * (0.1 + 0.9 * (double)n / DEATHS);
		size_t kept[WORKERS] = {0};
		while (committed < s->copies && s->copy[committed].committed <= at)
			committed++;
		while (safe < committed && s->copy[safe].safe <= at)
			safe++;
		double lost = (double)(committed - safe), seconds = 0;
		if (safety == SAFE_MERGED)
			seconds = fetch_seconds(s, safe, committed, at, rates);
		else if (safety == SAFE_STANDS || safety == SAFE_FORKS)
			seconds = WRITES;
		for (size_t i = safe; i < committed; i++)
			d.kept_most = fmax(d.kept_most, (double)++kept[s->copy[i].worker]);
		d.lost += lost / DEATHS;
		d.lost_most = fmax(d.lost_most, lost);
		d.seconds += seconds / DEATHS;
		d.seconds_most = fmax(d.seconds_most, seconds);
	}
	return d;
}
