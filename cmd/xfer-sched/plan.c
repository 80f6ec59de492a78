/* plan: from a state to a schedule. */
#include "cmd/xfer-sched.h"

#include "base/grow.h"
#include "cmd/cmd.h"

#define MEMBERS_BYTES 3000 /* of one record; what is left of a line is enough for the rest */
#define SEGMENTS_LEAST 64

struct event { /* a line that has a time */
	struct xfer_hop hop;
	size_t seq;
	char id[OPTION_ID_MAX];
	size_t from, to;
	int64_t commit; /* -1: this hop ends elsewhere */
	int is_replica;
};

/* An item is an update, or those of one host that are summed there. */
struct plan {
	struct sched_state *s;
	struct xfer_update *u; /* updates that are not committed */
	struct xfer_part *part;
	size_t *row; /* their rows in the state */
	size_t count;
	struct xfer_update *item;
	struct xfer_part *item_part;
	size_t *into;           /* by update: its item */
	size_t *first, *member; /* by item: where its updates begin in member[] */
	size_t items;
	char (*name)[OPTION_ID_MAX]; /* by item */
	size_t *order, *way, sent;
	size_t *last; /* by way: the position of its last member */
	struct xfer_course course;
	struct xfer_part *sum_part;
	int64_t *dense; /* by server */
	size_t sums;    /* named so far */
	struct event *event;
	size_t events, event_room;
	size_t *punted, punts;
	size_t above;
};

/* A time in seconds, without what is 0 at the end; out holds 32 bytes. */
static const char *sched_seconds(int64_t ns, char *out)
{
	int len = snprintf(out, 32, "%lld.%09lld", (long long)(ns / XFER_SECOND),
			   (long long)(ns % XFER_SECOND));
	while (len > 0 && out[len - 1] == '0')
		len--;
	len -= out[len - 1] == '.';
	out[len] = '\0';
	return out;
}

static int plan_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

static int plan_event(struct plan *p, const char *id, size_t from, size_t to,
		      const struct xfer_hop *hop, int64_t commit, struct error *err)
{
	if (GROW(p->event, p->event_room, p->events + 1) != 0)
		return plan_memory(err);
	struct event *e = &p->event[p->events];
	*e = (struct event){
		.hop = *hop, .seq = p->events, .from = from, .to = to, .commit = commit};
	snprintf(e->id, sizeof e->id, "%s", id);
	p->events++;
	return 0;
}

/* ---- updates to the server ---- */

static int plan_prepare(struct plan *p, struct error *err)
{
	struct sched_state *s = p->s;
	size_t n = s->updates.count + 1, k = s->aggregators + 1, parts = s->servers;
	p->u = calloc(n, sizeof *p->u);
	p->part = calloc(n * (parts + 1), sizeof *p->part);
	p->row = calloc(n, sizeof *p->row);
	p->item = calloc(n, sizeof *p->item);
	p->item_part = calloc(n * (parts + 1), sizeof *p->item_part);
	p->into = calloc(n, sizeof *p->into);
	p->first = calloc(n + 1, sizeof *p->first);
	p->member = calloc(n, sizeof *p->member);
	p->name = calloc(n, sizeof *p->name);
	p->order = calloc(n, sizeof *p->order);
	p->way = calloc(n, sizeof *p->way);
	p->last = calloc(k, sizeof *p->last);
	p->course.hop = calloc(n, sizeof *p->course.hop);
	p->course.commit = calloc(n, sizeof *p->course.commit);
	p->course.sum = calloc(k, sizeof *p->course.sum);
	p->sum_part = calloc(k * (parts + 1), sizeof *p->sum_part);
	p->dense = calloc(parts + 1, sizeof *p->dense);
	p->punted = calloc(n, sizeof *p->punted);
	if (!p->u || !p->part || !p->row || !p->item || !p->item_part || !p->into || !p->name ||
	    !p->first || !p->member || !p->order || !p->way || !p->last || !p->course.hop ||
	    !p->course.commit || !p->course.sum || !p->sum_part || !p->dense || !p->punted)
		return plan_memory(err);
	for (size_t i = 0; i < s->aggregators; i++)
		p->course.sum[i].part = p->sum_part + i * parts;
	for (size_t i = 0; i < parts; i++)
		p->dense[i] = s->server[i].dense;
	for (size_t i = 0; i < s->updates.count; i++) {
		const struct sched_update *u = &s->update[i];
		if (u->is_committed)
			continue;
		p->row[p->count] = i;
		p->u[p->count++] = (struct xfer_update){.host = u->host,
							.part = &p->part[i * parts],
							.parts = parts,
							.ready = u->ready,
							.deadline = u->deadline,
							.count = 1};
	}
	/* A part that an update does not name has no bytes. */
	for (size_t i = 0; i < s->updates.count * parts; i++)
		p->part[i].to = s->server[i % parts].host;
	for (size_t i = 0; i < s->parts; i++)
		p->part[s->part[i].update * parts + s->part[i].server].bytes = s->part[i].bytes;
	return 0;
}

/* The updates of each item, in the order of the input. */
static void plan_members(struct plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		p->first[p->into[i] + 2]++;
	for (size_t i = 2; i <= p->items; i++)
		p->first[i] += p->first[i - 1];
	for (size_t i = 0; i < p->count; i++)
		p->member[p->first[p->into[i] + 1]++] = i;
}

/* Sums at the source. */
static int plan_items(struct plan *p, struct error *err)
{
	const struct sched_state *s = p->s;
	p->items = xfer_sum_hosts(p->u, p->count, p->dense, p->item, p->item_part, p->into, err);
	if (p->items == SIZE_MAX)
		return -1;
	plan_members(p);
	for (size_t i = 0; i < p->count; i++) {
		char *name = p->name[p->into[i]];
		if (p->item[p->into[i]].count == 1)
			snprintf(name, OPTION_ID_MAX, "%s", idset_get(&s->updates, p->row[i]));
		else if (!*name)
			snprintf(name, OPTION_ID_MAX, "a%zu", ++p->sums);
	}
	return 0;
}

static struct xfer_drift plan_drift(const struct sched_state *s)
{
	const struct sched_options *o = s->options;
	return (struct xfer_drift){.momentum = o->counts_updates ? 0 : o->momentum,
				   .history = o->counts_updates ? 0 : s->history,
				   .most = o->divergence_max};
}

/* Norms of what the replica lacks and of the items that are sent; returns how many are committed.
 */
static size_t plan_norms(const struct plan *p, double *norm)
{
	const struct sched_state *s = p->s;
	size_t ahead = 0;
	for (size_t i = 0; i < s->updates.count; i++)
		if (s->update[i].is_committed)
			norm[ahead++] = s->update[i].norm;
	for (size_t i = 0; i < p->sent; i++)
		for (size_t k = p->first[p->order[i]]; k < p->first[p->order[i] + 1]; k++)
			norm[ahead + i] += s->update[p->row[p->member[k]]].norm;
	return ahead;
}

/* With a bound of divergence a sum must not be too large. */
static int plan_limits(struct plan *p, size_t **limit, struct error *err)
{
	const struct sched_state *s = p->s;
	size_t n = s->updates.count + 1;
	*limit = NULL;
	if (!s->has_replica || !s->options->has_divergence)
		return 0;
	double *norm = calloc(n, sizeof *norm);
	size_t *all = calloc(n, sizeof *all);
	if (!norm || !all) {
		free(norm);
		free(all);
		return plan_memory(err);
	}
	struct xfer_drift d = plan_drift(s);
	size_t ahead = plan_norms(p, norm);
	xfer_gate_limits(&d, norm, ahead + p->sent, all);
	memmove(all, all + ahead, p->sent * sizeof *all);
	for (size_t i = 0; i < p->sent; i++)
		all[i] -= ahead;
	free(norm);
	*limit = all;
	return 0;
}

static int plan_ways(struct plan *p, struct error *err)
{
	struct sched_state *s = p->s;
	const struct sched_options *o = s->options;
	struct xfer_batch b = {.net = &s->net,
			       .u = p->item,
			       .order = p->order,
			       .count = p->sent,
			       .aggregator = s->aggregator,
			       .aggregators = s->aggregators,
			       .dense = p->dense,
			       .goal = strcmp(o->mode, "async") == 0 ? XFER_EACH : XFER_ALL};
	size_t *limit;
	xfer_wide cost;
	if (plan_limits(p, &limit, err) != 0)
		return -1;
	b.limit = limit;
	int result = xfer_group(&b, p->way, err);
	if (result == 0 && !limit && strcmp(o->method, "local") == 0)
		result = xfer_local(&b, p->way, err);
	if (result == 0)
		result = xfer_carry(&b, p->way, &p->course, &cost, err);
	free(limit);
	return result;
}

static int plan_order(struct plan *p, struct error *err)
{
	struct sched_state *s = p->s;
	/* If nobody sums for others, the order is the schedule. */
	int is_final = s->aggregators == 0 && strcmp(s->options->method, "local") != 0;
	size_t outer = is_final ? 0 : xfer_begin(&s->net);
	if (xfer_order(&s->net, p->item, p->items, s->options->margin, p->order, &p->sent, err) !=
	    0)
		return -1;
	if (!is_final) {
		xfer_undo(&s->net, outer);
		return plan_ways(p, err);
	}
	int64_t t = 0;
	for (size_t i = 0; i < p->sent; i++) {
		int64_t there = p->item[p->order[i]].there;
		t = there > t ? there : t;
		p->course.commit[i] = t;
	}
	return 0;
}

/* ---- the replica ---- */

/* Sends it all steps, or none; ack[i]: when it has i + 1. */
static int plan_copies(struct plan *p, int is_due, size_t ahead, int64_t *ack, struct error *err)
{
	struct sched_state *s = p->s;
	size_t step = 0, row = 0;
	for (; step < ahead + p->sent; step++) {
		const char *id;
		size_t host;
		int64_t bytes = 0, ready = 0;
		if (step < ahead) {
			while (!s->update[row].is_committed)
				row++;
			id = idset_get(&s->updates, row);
			host = s->update[row].host;
			for (size_t i = row * s->servers; i < (row + 1) * s->servers; i++)
				bytes += p->part[i].bytes;
			row++;
		} else {
			size_t item = p->order[step - ahead];
			id = p->name[item];
			host = p->item[item].host;
			bytes = xfer_bytes(&p->item[item]);
			ready = p->item[item].ready;
		}
		if (!is_due) {
			p->punted[p->punts++] = step < ahead ? row - 1 : SIZE_MAX - (step - ahead);
			continue;
		}
		struct xfer_hop hop;
		if (xfer_send(&s->net, host, s->replica, bytes, ready, &hop, err) != 0)
			return -1;
		if (hop.end == XFER_NEVER)
			return error_set(err, ERROR_DATA, "stdin",
					 "no path from %s to the replica for update %s, which the "
					 "bound needs there",
					 idset_get(&s->hosts, host), id);
		ack[step] = step > 0 && ack[step - 1] > hop.end ? ack[step - 1] : hop.end;
		if (plan_event(p, id, host, s->replica, &hop, -1, err) != 0)
			return -1;
		p->event[p->events - 1].is_replica = 1;
	}
	return 0;
}

/* Commits wait for what the replica must have by then. */
static void plan_hold(struct plan *p, const struct xfer_gate *gate, const int64_t *ack)
{
	int64_t t = 0;
	for (size_t i = 0, end; i < p->sent; i = end) {
		end = i + 1;
		while (p->way[i] && end < p->sent && p->way[end] == p->way[i])
			end++;
		size_t needs = gate[end - 1].replica;
		int64_t at = p->course.commit[i];
		at = needs > 0 && ack[needs - 1] > at ? ack[needs - 1] : at;
		t = at > t ? at : t;
		for (size_t k = i; k < end; k++)
			p->course.commit[k] = t;
	}
}

static int plan_replica(struct plan *p, struct error *err)
{
	const struct sched_state *s = p->s;
	size_t n = s->updates.count + 1;
	double *norm = calloc(n, sizeof *norm);
	int64_t *ack = calloc(n, sizeof *ack);
	struct xfer_gate *gate = calloc(n, sizeof *gate);
	int result = norm && ack && gate ? 0 : plan_memory(err);
	if (result == 0) {
		struct xfer_drift d = plan_drift(s);
		size_t ahead = plan_norms(p, norm), steps = ahead + p->sent;
		int is_due = 1;
		if (s->options->has_divergence) {
			p->above = xfer_gates(&d, norm, steps, ahead, gate);
			is_due = xfer_gate_is_due(&d, norm, steps);
		}
		result = plan_copies(p, is_due, ahead, ack, err);
		if (result == 0)
			plan_hold(p, gate + ahead, ack);
	}
	free(norm);
	free(ack);
	free(gate);
	return result;
}

/* ---- what is written ---- */

/* A group has as many records as its members need. */
static void tell_group(const struct plan *p, const char *id, size_t host, size_t item, size_t way)
{
	char members[MEMBERS_BYTES + OPTION_ID_MAX + 2];
	size_t len = 0, n = way ? p->sent : p->first[item + 1];
	for (size_t i = way ? 0 : p->first[item]; i <= n; i++) {
		const char *name = NULL;
		if (i < n && way && p->way[i] == way)
			name = p->name[p->order[i]];
		else if (i < n && !way)
			name = idset_get(&p->s->updates, p->row[p->member[i]]);
		if (name)
			len += (size_t)snprintf(members + len, sizeof members - len, "%s%s",
						len ? "," : "", name);
		if (len > 0 && (len > MEMBERS_BYTES || i == n)) {
			record_print(stdout, RECORD("group", F("id", id),
						    F("aggregator", idset_get(&p->s->hosts, host)),
						    F("members", members)));
			len = 0;
		}
	}
}

static void tell_drops(const struct plan *p)
{
	static const char *const why[] = {
		[XFER_OVERDUE] = "overdue", [XFER_RIVAL] = "rival", [XFER_NOPATH] = "nopath"};
	for (size_t i = p->sent; i < p->items; i++) {
		size_t item = p->order[i];
		for (size_t k = p->first[item]; k < p->first[item + 1]; k++)
			record_print(stdout, RECORD("drop",
						    F("id", idset_get(&p->s->updates,
								      p->row[p->member[k]])),
						    F("reason", why[p->item[item].fate])));
	}
}

/* What goes to the servers. A part without bytes is not told, if others have some. */
static int tell_parts(struct plan *p, const char *id, size_t from, const struct xfer_part *part,
		      int64_t commit, struct error *err)
{
	size_t parts = p->s->servers;
	int has_bytes = 0;
	for (size_t k = 0; k < parts; k++)
		has_bytes |= part[k].bytes > 0;
	for (size_t k = 0; k < parts; k++)
		if ((part[k].bytes > 0 || !has_bytes) &&
		    plan_event(p, id, from, part[k].to, &part[k].hop, commit, err) != 0)
			return -1;
	return 0;
}

/* Groups are told, and their hops become events. */
static int tell_ways(struct plan *p, size_t *groups, struct error *err)
{
	const struct sched_state *s = p->s;
	for (size_t i = 0; i < p->sent; i++)
		if (p->item[p->order[i]].count > 1) {
			tell_group(p, p->name[p->order[i]], p->item[p->order[i]].host, p->order[i],
				   0);
			++*groups;
		}
	for (size_t i = 0; i < p->sent; i++)
		p->last[p->way[i]] = i;
	for (size_t i = 0; i < p->sent; i++) {
		const struct xfer_update *u = &p->item[p->order[i]];
		size_t way = p->way[i], to = way ? s->aggregator[way - 1].host : 0;
		const char *name = p->name[p->order[i]];
		if (way ? plan_event(p, name, u->host, to, &p->course.hop[i], -1, err) != 0
			: tell_parts(p, name, u->host, u->part, p->course.commit[i], err) != 0)
			return -1;
		if (way == 0 || p->last[way] != i)
			continue;
		char id[OPTION_ID_MAX];
		snprintf(id, sizeof id, "a%zu", ++p->sums);
		tell_group(p, id, to, 0, way);
		++*groups;
		if (tell_parts(p, id, to, p->course.sum[way - 1].part, p->course.commit[i], err) !=
		    0)
			return -1;
	}
	return 0;
}

static int compare_events(const void *x, const void *y)
{
	const struct event *a = x, *b = y;
	if (a->hop.start != b->hop.start)
		return a->hop.start < b->hop.start ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void tell_events(struct plan *p)
{
	char start[32], end[32], commit[32];
	if (p->events)
		qsort(p->event, p->events, sizeof *p->event, compare_events);
	for (size_t i = 0; i < p->events; i++) {
		const struct event *e = &p->event[i];
		sched_seconds(e->hop.start, start);
		sched_seconds(e->hop.end, end);
		if (e->is_replica)
			record_print(stdout, RECORD("replica", F("id", e->id), F("start", start),
						    F("end", end)));
		else
			record_print(stdout,
				     RECORD("send", F("id", e->id),
					    F("from", idset_get(&p->s->hosts, e->from)),
					    F("to", idset_get(&p->s->hosts, e->to)),
					    F("start", start), F("end", end),
					    e->commit >= 0
						    ? F("commit", sched_seconds(e->commit, commit))
						    : F_NONE));
	}
}

static void tell_punts(const struct plan *p)
{
	for (size_t i = 0; i < p->punts; i++) {
		size_t step = p->punted[i];
		const char *id = step < p->s->updates.count ? idset_get(&p->s->updates, step)
							    : p->name[p->order[SIZE_MAX - step]];
		record_print(stdout, RECORD("punt", F("id", id)));
	}
}

static void tell_plan(const struct plan *p, size_t groups)
{
	char end[32], mean[32];
	uint64_t sent = 0, count = 0;
	int64_t last = 0;
	xfer_wide sum = 0;
	for (size_t i = 0; i < p->items; i++) {
		count = p->item[p->order[i]].count;
		if (i >= p->sent)
			continue;
		sent += count;
		sum += (xfer_wide)count * p->course.commit[i];
		last = p->course.commit[i] > last ? p->course.commit[i] : last;
	}
	record_print(stdout,
		     RECORD("plan", F("end", sched_seconds(last, end)),
			    F("mean", sched_seconds(sent ? (int64_t)(sum / sent) : 0, mean)),
			    F("sent", sent), F("dropped", p->count - sent), F("groups", groups),
			    p->above ? F("above", p->above) : F_NONE));
}

/* ---- models ---- */

static int plan_model(struct plan *p, const struct sched_model *m, struct error *err)
{
	struct sched_state *s = p->s;
	size_t n = 0, count = 0;
	struct xfer_copy *copy = calloc(s->net.hosts + s->distributors + 1, sizeof *copy);
	if (!copy)
		return plan_memory(err);
	for (size_t i = 0; i < s->net.hosts; i++)
		if (m->to[i])
			copy[n++].to = i;
	int result = xfer_distribute(&s->net, m->host, m->bytes, s->distributor, s->distributors,
				     copy, n, &count, err);
	for (size_t i = 0; i < count && result == 0; i++) {
		if (copy[i].hop.end != XFER_NEVER)
			result = plan_event(p, "model", copy[i].from, copy[i].to, &copy[i].hop, -1,
					    err);
		else
			record_print(stdout, RECORD("drop", F("id", "model"),
						    F("to", idset_get(&s->hosts, copy[i].to)),
						    F("reason", "nopath")));
	}
	free(copy);
	return result;
}

static void plan_free(struct plan *p)
{
	free(p->u);
	free(p->part);
	free(p->row);
	free(p->item);
	free(p->item_part);
	free(p->into);
	free(p->first);
	free(p->member);
	free(p->name);
	free(p->order);
	free(p->way);
	free(p->last);
	free(p->course.hop);
	free(p->course.commit);
	free(p->course.sum);
	free(p->sum_part);
	free(p->dense);
	free(p->punted);
	free(p->event);
}

/* --aggregators K: K of those that are said, else the K with the best links. */
static int plan_aggregators(struct sched_state *s, struct error *err)
{
	const struct sched_options *o = s->options;
	size_t k = o->aggregators < s->net.hosts ? (size_t)o->aggregators : s->net.hosts;
	if (!o->has_aggregators || s->servers == 0)
		return 0;
	if (s->aggregators > 0) {
		s->aggregators = k < s->aggregators ? k : s->aggregators;
		return 0;
	}
	if (GROW(s->aggregator, s->aggregator_room, k + s->servers + 1) != 0)
		return plan_memory(err);
	/* No server sums for others. */
	size_t best = xfer_best_hosts(&s->net, s->server[0].host, k + s->servers, s->aggregator);
	for (size_t i = 0; i < best && s->aggregators < k; i++) {
		size_t v = 0;
		while (v < s->servers && s->server[v].host != s->aggregator[i].host)
			v++;
		if (v == s->servers)
			s->aggregator[s->aggregators++] = s->aggregator[i];
	}
	return 0;
}

int sched_plan(struct sched_state *s, struct error *err)
{
	struct plan p = {.s = s};
	size_t groups = 0;
	int result = plan_aggregators(s, err);
	if (result == 0)
		result = plan_prepare(&p, err);
	if (result == 0)
		result = plan_items(&p, err);
	if (result == 0 && p.items > 0)
		result = plan_order(&p, err);
	if (result == 0 && s->has_replica)
		result = plan_replica(&p, err);
	if (result == 0) {
		tell_drops(&p);
		result = tell_ways(&p, &groups, err);
	}
	for (size_t i = 0; i < s->models && result == 0; i++)
		result = plan_model(&p, &s->model[i], err);
	if (result == 0) {
		tell_events(&p);
		tell_punts(&p);
		tell_plan(&p, groups);
	}
	plan_free(&p);
	return result;
}

/* ---- rounds ---- */

static void tell_round(const struct sched_state *s, const struct xfer_member *m, const size_t *host,
		       size_t n, const size_t *owner, size_t segments,
		       const struct xfer_round *round)
{
	record_print(stdout, RECORD("round", F("method", round->is_ring ? "ring" : "rate"),
				    F_BRIEF("end", round->seconds), F_BRIEF("ring", round->ring)));
	for (size_t i = 0; i < n; i++)
		record_print(stdout, RECORD("share", F("host", idset_get(&s->hosts, host[i])),
					    F_REAL("part", m[i].share)));
	for (size_t i = 0; i < segments; i++)
		record_print(stdout, RECORD("owner", F("segment", i),
					    F("host", idset_get(&s->hosts, host[owner[i]]))));
}

int sched_round(struct sched_state *s, struct error *err)
{
	size_t hosts = s->net.hosts, n = 0, works = 0;
	size_t segments = 4 * hosts > SEGMENTS_LEAST ? 4 * hosts : SEGMENTS_LEAST;
	if (s->models != 1)
		return error_set(err, ERROR_DATA, "stdin",
				 "a round needs one model record, for its bytes=; there are %zu",
				 s->models);
	struct xfer_member *m = calloc(hosts + 1, sizeof *m);
	size_t *host = calloc(hosts + 1, sizeof *host);
	size_t *owner = calloc(segments, sizeof *owner);
	int result = m && host && owner ? 0 : plan_memory(err);
	for (size_t i = 0; i < hosts && result == 0; i++) {
		int64_t in = xfer_port_rate(&s->net.host[i].in, 0);
		int64_t out = xfer_port_rate(&s->net.host[i].out, 0);
		m[n] = (struct xfer_member){.rate = (double)(in < out ? in : out)};
		for (size_t k = 0; k < s->updates.count; k++)
			m[n].works |= s->update[k].host == i;
		if (m[n].works && m[n].rate <= 0)
			result = error_set(err, ERROR_DATA, "stdin",
					   "host %s has updates, but no rate now",
					   idset_get(&s->hosts, i));
		works += m[n].works != 0;
		host[n] = i;
		n += m[n].rate > 0;
	}
	if (result == 0 && works == 0)
		result = error_set(err, ERROR_DATA, "stdin", "a round without an update");
	struct xfer_round round;
	if (result == 0)
		result = xfer_shares(m, n, (double)s->model[0].bytes, &round, err);
	if (result == 0)
		result = xfer_owners(m, n, owner, segments, err);
	if (result == 0)
		tell_round(s, m, host, n, owner, segments, &round);
	free(m);
	free(host);
	free(owner);
	return result;
}
