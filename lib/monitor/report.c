/* report: what a monitor has to say (see monitor.h). It reads the monitor and changes nothing. */
#include "monitor/monitor.h"
#include "monitor/monitor_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

enum { SHORT, LONG, WINDOWS };

/* Aggregates of one node; NAN where its window is empty. */
struct aggregate {
	double mean[WINDOWS], speed[WINDOWS], ratio[WINDOWS];
};

static double divide(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

/* One aggregate a node, in their order; NULL: out of memory. To be freed by the caller. */
static struct aggregate *aggregate(const struct monitor *m, double now)
{
	const double length[WINDOWS] = {m->window_short, m->window_long};
	double sum[NODE_ROLES][WINDOWS] = {{0}}, count[NODE_ROLES][WINDOWS] = {{0}};
	struct aggregate *all = calloc(m->node_count + 1, sizeof *all);
	if (!all)
		return NULL;
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		for (int k = 0; k < WINDOWS; k++) {
			struct window_sum s = window_since(&n->window, now - length[k]);
			all[i].mean[k] = divide(s.seconds, (double)s.count);
			all[i].speed[k] = divide(s.samples, s.seconds);
			if (s.count) {
				sum[n->role][k] += all[i].mean[k];
				count[n->role][k]++;
			}
		}
	}
	for (size_t i = 0; i < m->node_count; i++)
		for (int k = 0; k < WINDOWS; k++) {
			enum node_role role = m->node[i]->role;
			all[i].ratio[k] =
				divide(all[i].mean[k], divide(sum[role][k], count[role][k]));
		}
	return all;
}

static double seconds_up(const struct node *n, double now)
{
	return n->state == NODE_UP && now > n->ready_at ? now - n->ready_at : 0;
}

static double age_of(const struct info *info, double now)
{
	return now > info->at ? now - info->at : 0;
}

/* The furthest of those that work; when none does, of all: after a rollback a dead node's number
 * must not stand. */
static uint64_t job_iter(const struct monitor *m)
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

static void put_record(struct record_out *o, monitor_put_fn *put, void *arg)
{
	size_t len = record_end(o, NULL);
	put(o->data, len, arg);
}

static void put_job(const struct monitor *m, double now, monitor_put_fn *put, void *arg)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint64_t count[NODE_ROLES] = {0};
	for (size_t i = 0; i < m->node_count; i++)
		count[m->node[i]->role]++;
	record_begin(&o, line, sizeof line, "job");
	record_add_seconds(&o, "at", now);
	record_add_u64(&o, "iter", job_iter(m));
	record_add_u64(&o, "workers", count[NODE_WORKER]);
	record_add_u64(&o, "servers", count[NODE_SERVER]);
	record_add_real(&o, "short", m->window_short);
	record_add_real(&o, "long", m->window_long);
	put_record(&o, put, arg);
}

/* ---- what only the last report says; NAN: nothing ---- */

static double last_time(const struct node *n)
{
	return n->last.count ? n->last.time : NAN;
}

static double last_speed(const struct node *n)
{
	return n->last.count ? divide((double)n->last.size, n->last.time) : NAN;
}

static double last_accum(const struct node *n)
{
	return n->last.accum ? (double)n->last.accum : NAN;
}

static double last_more(const struct node *n, enum report_more what)
{
	return n->last.count ? n->last.more[what] : NAN;
}

static void put_last(struct record_out *o, const struct node *n)
{
	record_add_brief(o, "accum", last_accum(n));
	if (n->last.count)
		record_add_seconds(o, "last", n->last.at);
	else
		record_add(o, "last", "");
	record_add_brief(o, "speed-last", last_speed(n));
}

static void put_device(struct record_out *o, const struct device *d)
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

static void put_node(const struct node *n, const struct aggregate *a, double now,
		     monitor_put_fn *put, void *arg)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "node");
	record_add(&o, "role", node_role_name(n->role));
	record_add(&o, "id", n->id);
	record_add(&o, "state", node_state_name(n->state));
	record_add_u64(&o, "size", n->size);
	record_add_brief(&o, "short", a->mean[SHORT]);
	record_add_brief(&o, "long", a->mean[LONG]);
	record_add_brief(&o, "speed-short", a->speed[SHORT]);
	record_add_brief(&o, "speed-long", a->speed[LONG]);
	record_add_brief(&o, "ratio-short", a->ratio[SHORT]);
	record_add_brief(&o, "ratio-long", a->ratio[LONG]);
	record_add_u64(&o, "samples", n->samples);
	record_add_u64(&o, "restarts", n->restarts);
	record_add_u64(&o, "meant", n->meant);
	record_add_seconds(&o, "up", seconds_up(n, now));
	put_last(&o, n);
	put_device(&o, &n->device);
	record_add_brief(&o, "cpu", last_more(n, REPORT_CPU));
	record_add_brief(&o, "mem", last_more(n, REPORT_MEM));
	put_record(&o, put, arg);
}

int monitor_snapshot(const struct monitor *m, double now, monitor_put_fn *put, void *arg,
		     struct error *err)
{
	struct aggregate *all = aggregate(m, now);
	if (!all)
		return error_set(err, ERROR_OS, NULL, "out of memory for a snapshot");
	put_job(m, now, put, arg);
	for (size_t i = 0; i < m->node_count; i++)
		put_node(m->node[i], &all[i], now, put, arg);
	free(all);
	for (size_t i = 0; i < m->info_count; i++) {
		char line[RECORD_LINE_MAX];
		struct record_out o;
		record_begin(&o, line, sizeof line, "info");
		record_add(&o, "name", m->info[i].name);
		record_add(&o, "value", m->info[i].value);
		record_add_seconds(&o, "age", age_of(&m->info[i], now));
		put_record(&o, put, arg);
	}
	return 0;
}

static void add_if_said(struct record_out *o, const char *key, double value)
{
	if (!isnan(value))
		record_add_brief(o, key, value);
}

static void put_history(const struct node *n, uint64_t last, monitor_put_fn *put, void *arg)
{
	uint64_t kept = n->reports < MONITOR_HISTORY_MAX ? n->reports : MONITOR_HISTORY_MAX;
	for (uint64_t i = n->reports - (last < kept ? last : kept); i < n->reports; i++) {
		const struct report *p = &n->history[i % MONITOR_HISTORY_MAX];
		char line[RECORD_LINE_MAX];
		struct record_out o;
		record_begin(&o, line, sizeof line, "bpt");
		record_add(&o, "role", node_role_name(n->role));
		record_add(&o, "id", n->id);
		record_add_u64(&o, "iter", p->iter);
		record_add_brief(&o, "time", p->time);
		record_add_u64(&o, "size", p->size);
		record_add_seconds(&o, "at", p->at);
		if (p->accum)
			record_add_u64(&o, "accum", p->accum);
		if (p->count > 1)
			record_add_u64(&o, "count", p->count);
		for (int k = 0; k < REPORT_MORES; k++)
			add_if_said(&o, report_more_key[k], p->more[k]);
		put_record(&o, put, arg);
	}
}

int monitor_history(const struct monitor *m, enum node_role role, const char *id, uint64_t last,
		    monitor_put_fn *put, void *arg)
{
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		if (n->role == role && strcmp(n->id, id) == 0) {
			put_history(n, last, put, arg);
			return 0;
		}
	}
	return -1;
}

/* ---- Prometheus ---- */

struct page {
	const struct monitor *m;
	const struct aggregate *all;
	double now;
	monitor_put_fn *put;
	void *arg;
};

static void __attribute__((format(printf, 2, 3))) say(const struct page *p, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	/* Ids and names are 64 bytes of plain letters, so a line always fits. */
	if (n > 0 && (size_t)n < sizeof line)
		p->put(line, (size_t)n, p->arg);
}

static void head(const struct page *p, const char *name, const char *type, const char *help)
{
	say(p, "# HELP paceline_%s %s\n# TYPE paceline_%s %s\n", name, help, name, type);
}

/* One metric of each node; those of which nothing is known are left out. */
static void each_node(const struct page *p, const char *name, const char *type, const char *help,
		      double (*value)(const struct node *n, double now))
{
	head(p, name, type, help);
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		double x = value(n, p->now);
		char number[32];
		if (isnan(x))
			continue;
		number_format_real(x, number);
		say(p, "paceline_%s{role=\"%s\",id=\"%s\"} %s\n", name, node_role_name(n->role),
		    n->id, number);
	}
}

/* One metric of each node and window; empty windows are left out. */
static void each_window(const struct page *p, const char *name, const char *help, size_t offset)
{
	static const char *const window[WINDOWS] = {"short", "long"};
	head(p, name, "gauge", help);
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		for (int k = 0; k < WINDOWS; k++) {
			double value;
			memcpy(&value, (const char *)&p->all[i] + offset + (size_t)k * sizeof value,
			       sizeof value);
			if (!isnan(value))
				say(p, "paceline_%s{role=\"%s\",id=\"%s\",window=\"%s\"} %.9g\n",
				    name, node_role_name(n->role), n->id, window[k], value);
		}
	}
}

static double node_is_up(const struct node *n, double now)
{
	(void)now;
	return n->state == NODE_UP;
}

static double node_size(const struct node *n, double now)
{
	(void)now;
	return (double)n->size;
}

static double node_samples(const struct node *n, double now)
{
	(void)now;
	return (double)n->samples;
}

static double node_restarts(const struct node *n, double now)
{
	(void)now;
	return (double)n->restarts;
}

static double node_accum(const struct node *n, double now)
{
	(void)now;
	return last_accum(n);
}

static double node_last(const struct node *n, double now)
{
	(void)now;
	return last_time(n);
}

static double node_speed_last(const struct node *n, double now)
{
	(void)now;
	return last_speed(n);
}

/* What the last report says besides, by its key. */
static void each_more(const struct page *p)
{
	head(p, "node_last", "gauge", "What the last report of the node says.");
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		for (int k = 0; k < REPORT_MORES; k++)
			if (!isnan(last_more(n, (enum report_more)k)))
				say(p, "paceline_node_last{role=\"%s\",id=\"%s\",key=\"%s\"} %.9g\n",
				    node_role_name(n->role), n->id, report_more_key[k],
				    n->last.more[k]);
	}
}

static void each_device(const struct page *p)
{
	head(p, "node_device", "gauge", "What the node measured about its device.");
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		const struct device *d = &n->device;
		const struct {
			const char *key;
			double value;
		} row[] = {{"launch", d->launch},
			   {"speed", d->speed},
			   {"saturation", (double)d->saturation},
			   {"max", (double)d->max}};
		for (size_t k = 0; d->known && k < sizeof row / sizeof *row; k++)
			if (!isnan(row[k].value))
				say(p,
				    "paceline_node_device{role=\"%s\",id=\"%s\",type=\"%s\","
				    "key=\"%s\"} %.9g\n",
				    node_role_name(n->role), n->id, d->type, row[k].key,
				    row[k].value);
	}
}

/* Only values that are numbers can be samples of a metric. */
static void each_info(const struct page *p)
{
	head(p, "info_value", "gauge", "Value of an info record.");
	for (size_t i = 0; i < p->m->info_count; i++) {
		double value;
		if (number_real(p->m->info[i].value, -1e300, 1e300, &value, NULL, NULL) == 0)
			say(p, "paceline_info_value{name=\"%s\"} %.17g\n", p->m->info[i].name,
			    value);
	}
	head(p, "info_age_seconds", "gauge", "Seconds since the info record.");
	for (size_t i = 0; i < p->m->info_count; i++)
		say(p, "paceline_info_age_seconds{name=\"%s\"} %.6f\n", p->m->info[i].name,
		    age_of(&p->m->info[i], p->now));
}

int monitor_prometheus(const struct monitor *m, double now, monitor_put_fn *put, void *arg,
		       struct error *err)
{
	struct aggregate *all = aggregate(m, now);
	if (!all)
		return error_set(err, ERROR_OS, NULL, "out of memory for a page");
	const struct page p = {m, all, now, put, arg};
	head(&p, "job_iteration", "gauge", "Furthest iteration reported.");
	say(&p, "paceline_job_iteration %llu\n", (unsigned long long)job_iter(m));
	each_node(&p, "node_up", "gauge", "1 when the node is ready or reporting.", node_is_up);
	each_node(&p, "node_up_seconds", "gauge", "Seconds since ready.", seconds_up);
	each_node(&p, "node_batch_samples", "gauge", "Last batch size reported.", node_size);
	each_node(&p, "node_samples_total", "counter", "Samples reported.", node_samples);
	each_node(&p, "node_restarts_total", "counter", "Restarts of the node.", node_restarts);
	each_window(&p, "node_bpt_seconds", "Mean batch processing time.",
		    offsetof(struct aggregate, mean));
	each_window(&p, "node_speed_samples_per_second", "Samples over seconds of the window.",
		    offsetof(struct aggregate, speed));
	each_window(&p, "node_bpt_ratio", "Mean over the mean of all of its role.",
		    offsetof(struct aggregate, ratio));
	each_node(&p, "node_accum_steps", "gauge", "Accumulation steps in a batch.", node_accum);
	each_node(&p, "node_last_bpt_seconds", "gauge",
		  "Batch processing time, as last reported.", node_last);
	each_node(&p, "node_last_speed_samples_per_second", "gauge",
		  "Samples over seconds, as last reported.", node_speed_last);
	each_more(&p);
	each_device(&p);
	each_info(&p);
	free(all);
	return 0;
}
