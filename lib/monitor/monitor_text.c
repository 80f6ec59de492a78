/* monitor_text: a monitor as records: snapshot and history. It reads the monitor and changes
 * nothing. */
#include "monitor/monitor.h"
#include "monitor/monitor_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double monitor_text_divide(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

struct aggregate *monitor_aggregate(const struct monitor *m, double now)
{
	const double length[MONITOR_WINDOWS] = {m->window_short, m->window_long};
	double sum[NODE_ROLES][MONITOR_WINDOWS] = {{0}}, count[NODE_ROLES][MONITOR_WINDOWS] = {{0}};
	struct aggregate *all = calloc(m->node_count + 1, sizeof *all);
	if (!all)
		return NULL;
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		for (int k = 0; k < MONITOR_WINDOWS; k++) {
			struct window_sum s = window_since(&n->window, now - length[k]);
			all[i].mean[k] = monitor_text_divide(s.seconds, (double)s.count);
			all[i].speed[k] = monitor_text_divide(s.samples, s.seconds);
			if (s.count) {
				sum[n->role][k] += all[i].mean[k];
				count[n->role][k]++;
			}
		}
	}
	for (size_t i = 0; i < m->node_count; i++)
		for (int k = 0; k < MONITOR_WINDOWS; k++) {
			enum node_role role = m->node[i]->role;
			all[i].ratio[k] = monitor_text_divide(
				all[i].mean[k], monitor_text_divide(sum[role][k], count[role][k]));
		}
	return all;
}

double monitor_up(const struct node *n, double now)
{
	return n->state == NODE_UP && now > n->ready_at ? now - n->ready_at : 0;
}

double monitor_age(const struct info *info, double now)
{
	return now > info->at ? now - info->at : 0;
}

uint64_t monitor_iter(const struct monitor *m)
{
	uint64_t up = 0, all = 0;
	int any = 0;
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		all = n->iter > all ? n->iter : all;
		if (n->state == NODE_UP) {
			up = n->iter > up ? n->iter : up;
			any = 1;
		}
	}
	return any ? up : all;
}

static void monitor_text_put_record(struct record_out *o, monitor_put_fn *put, void *arg)
{
	size_t len = record_end(o, NULL);
	put(o->data, len, arg);
}

static void monitor_text_put_job(const struct monitor *m, double now, monitor_put_fn *put,
				 void *arg)
{
	uint64_t count[NODE_ROLES] = {0};
	for (size_t i = 0; i < m->node_count; i++)
		count[m->node[i]->role] += !m->node[i]->has_left;
	monitor_text_put_record(
		RECORD("job", F_SECONDS("at", now), F("iter", monitor_iter(m)),
		       F("workers", count[NODE_WORKER]), F("servers", count[NODE_SERVER]),
		       F_REAL("short", m->window_short), F_REAL("long", m->window_long)),
		put, arg);
}

double monitor_last_speed(const struct node *n)
{
	return n->last.count ? monitor_text_divide((double)n->last.size, n->last.time) : NAN;
}

double monitor_last_accum(const struct node *n)
{
	return n->last.accum ? (double)n->last.accum : NAN;
}

double monitor_last_more(const struct node *n, enum report_more what)
{
	return n->last.count ? n->last.more[what] : NAN;
}

static void put_last(struct record_out *o, const struct node *n)
{
	record_add_brief(o, "accum", monitor_last_accum(n));
	if (n->last.count)
		record_add_seconds(o, "last", n->last.at);
	else
		record_add(o, "last", "");
	record_add_brief(o, "speed-last", monitor_last_speed(n));
}

static void monitor_text_put_device(struct record_out *o, const struct device *d)
{
	record_add(o, "type", d->type);
	record_add_brief(o, "launch", d->known ? d->launch : NAN);
	record_add_brief(o, "device-speed", d->known ? d->speed : NAN);
	if (d->known) {
		record_add_u64(o, "saturation", d->saturation);
		record_add_u64(o, "max", d->max);
	} else {
		record_add(o, "saturation", "");
		record_add(o, "max", "");
	}
}

static void add_if_said(struct record_out *o, const char *key, double value)
{
	if (!isnan(value))
		record_add_brief(o, key, value);
}

static void put_totals(struct record_out *o, const struct totals *t)
{
	record_add_u64(o, "batches", t->batches);
	record_add_seconds(o, "time-sum", t->time);
	record_add_seconds(o, "compute-sum", t->compute);
	record_add_seconds(o, "comm-sum", t->comm);
	record_add_seconds(o, "wait-sum", t->wait);
}

static void monitor_text_put_node(const struct node *n, const struct aggregate *a, double now,
				  monitor_put_fn *put, void *arg)
{
	struct record_out *o = RECORD("node", F("role", node_role_name(n->role)), F("id", n->id),
				      F("state", node_state_name(n->state)), F("size", n->size),
				      F_BRIEF("short", a->mean[MONITOR_SHORT]),
				      F_BRIEF("long", a->mean[MONITOR_LONG]),
				      F_BRIEF("speed-short", a->speed[MONITOR_SHORT]),
				      F_BRIEF("speed-long", a->speed[MONITOR_LONG]),
				      F_BRIEF("ratio-short", a->ratio[MONITOR_SHORT]),
				      F_BRIEF("ratio-long", a->ratio[MONITOR_LONG]),
				      F("samples", n->samples), F("restarts", n->restarts),
				      F("meant", n->meant), F_SECONDS("up", monitor_up(n, now)));
	put_last(o, n);
	monitor_text_put_device(o, &n->device);
	record_add_brief(o, "cpu", monitor_last_more(n, REPORT_CPU));
	record_add_brief(o, "mem", monitor_last_more(n, REPORT_MEM));
	put_totals(o, &n->total);
	for (int k = 0; k < REPORT_MORES; k++)
		if (k != REPORT_CPU && k != REPORT_MEM)
			add_if_said(o, report_more_key[k],
				    monitor_last_more(n, (enum report_more)k));
	monitor_text_put_record(o, put, arg);
}

int monitor_snapshot(const struct monitor *m, double now, monitor_put_fn *put, void *arg,
		     struct error *err)
{
	struct aggregate *all = monitor_aggregate(m, now);
	if (!all)
		return error_set(err, ERROR_OS, NULL, "out of memory for a snapshot");
	monitor_text_put_job(m, now, put, arg);
	for (size_t i = 0; i < m->node_count; i++)
		if (!m->node[i]->has_left)
			monitor_text_put_node(m->node[i], &all[i], now, put, arg);
	free(all);
	for (size_t i = 0; i < m->info_count; i++) {
		monitor_text_put_record(RECORD("info", F("name", m->info[i].name),
					       F("value", m->info[i].value),
					       F_SECONDS("age", monitor_age(&m->info[i], now))),
					put, arg);
	}
	return 0;
}

static void put_history(const struct node *n, uint64_t max, uint64_t last, monitor_put_fn *put,
			void *arg)
{
	uint64_t kept = n->reports < max ? n->reports : max;
	for (uint64_t i = n->reports - (last < kept ? last : kept); i < n->reports; i++) {
		const struct report *p = &n->history[i % max];
		struct record_out *o =
			RECORD("bpt", F("role", node_role_name(n->role)), F("id", n->id),
			       F("iter", p->iter), F_BRIEF("time", p->time), F("size", p->size),
			       F_SECONDS("at", p->at), p->accum ? F("accum", p->accum) : F_NONE,
			       p->count > 1 ? F("count", p->count) : F_NONE);
		for (int k = 0; k < REPORT_MORES; k++)
			add_if_said(o, report_more_key[k], p->more[k]);
		monitor_text_put_record(o, put, arg);
	}
}

int monitor_history(const struct monitor *m, enum node_role role, const char *id, uint64_t last,
		    monitor_put_fn *put, void *arg)
{
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		if (n->role == role && strcmp(n->id, id) == 0) {
			put_history(n, m->history_max, last, put, arg);
			return 0;
		}
	}
	return -1;
}
