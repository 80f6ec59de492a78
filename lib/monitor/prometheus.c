/* prometheus: what a monitor knows in Prometheus's text exposition format 0.0.4. It reads the
 * monitor and changes nothing. */
#include "monitor/monitor.h"
#include "monitor/monitor_internal.h"

#include "base/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page {
	const struct monitor *m;
	const struct aggregate *all;
	double now;
	monitor_put_fn *put;
	void *arg;
};

static void __attribute__((format(printf, 2, 3)))
put_line(const struct page *p, const char *fmt, ...)
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

static void put_head(const struct page *p, const char *name, const char *type, const char *help)
{
	put_line(p, "# HELP paceline_%s %s\n# TYPE paceline_%s %s\n", name, help, name, type);
}

/* One metric of each node; those of which nothing is known are left out. */
static void each_node(const struct page *p, const char *name, const char *type, const char *help,
		      double (*value)(const struct node *n, double now))
{
	put_head(p, name, type, help);
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		double x = value(n, p->now);
		char number[32];
		if (isnan(x))
			continue;
		number_format_real(x, number);
		put_line(p, "paceline_%s{role=\"%s\",id=\"%s\"} %s\n", name,
			 node_role_name(n->role), n->id, number);
	}
}

/* One metric of each node and window; empty windows are left out. */
static void each_window(const struct page *p, const char *name, const char *help, size_t offset)
{
	static const char *const window[MONITOR_WINDOWS] = {"short", "long"};
	put_head(p, name, "gauge", help);
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		for (int k = 0; k < MONITOR_WINDOWS; k++) {
			double value;
			memcpy(&value, (const char *)&p->all[i] + offset + (size_t)k * sizeof value,
			       sizeof value);
			if (!isnan(value))
				put_line(p,
					 "paceline_%s{role=\"%s\",id=\"%s\",window=\"%s\"} %.9g\n",
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
	return monitor_last_accum(n);
}

static double node_last(const struct node *n, double now)
{
	(void)now;
	return n->last.count ? n->last.time : NAN;
}

static double node_speed_last(const struct node *n, double now)
{
	(void)now;
	return monitor_last_speed(n);
}

/* What the last report says besides, by its key. */
static void each_more(const struct page *p)
{
	put_head(p, "node_last", "gauge", "What the last report of the node says.");
	for (size_t i = 0; i < p->m->node_count; i++) {
		const struct node *n = p->m->node[i];
		for (int k = 0; k < REPORT_MORES; k++)
			if (!isnan(monitor_last_more(n, (enum report_more)k)))
				put_line(p,
					 "paceline_node_last{role=\"%s\",id=\"%s\",key=\"%s\"} "
					 "%.9g\n",
					 node_role_name(n->role), n->id, report_more_key[k],
					 n->last.more[k]);
	}
}

static void each_device(const struct page *p)
{
	put_head(p, "node_device", "gauge", "What the node measured about its device.");
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
				put_line(p,
					 "paceline_node_device{role=\"%s\",id=\"%s\",type=\"%s\","
					 "key=\"%s\"} %.9g\n",
					 node_role_name(n->role), n->id, d->type, row[k].key,
					 row[k].value);
	}
}

/* Only values that are numbers can be samples of a metric. */
static void each_info(const struct page *p)
{
	put_head(p, "info_value", "gauge", "Value of an info record.");
	for (size_t i = 0; i < p->m->info_count; i++) {
		double value;
		if (number_real(p->m->info[i].value, -1e300, 1e300, &value, NULL, NULL) == 0)
			put_line(p, "paceline_info_value{name=\"%s\"} %.17g\n", p->m->info[i].name,
				 value);
	}
	put_head(p, "info_age_seconds", "gauge", "Seconds since the info record.");
	for (size_t i = 0; i < p->m->info_count; i++)
		put_line(p, "paceline_info_age_seconds{name=\"%s\"} %.6f\n", p->m->info[i].name,
			 monitor_age(&p->m->info[i], p->now));
}

int monitor_prometheus(const struct monitor *m, double now, monitor_put_fn *put, void *arg,
		       struct error *err)
{
	struct aggregate *all = monitor_aggregate(m, now);
	if (!all)
		return error_set(err, ERROR_OS, NULL, "out of memory for a page");
	const struct page p = {m, all, now, put, arg};
	put_head(&p, "job_iteration", "gauge", "Furthest iteration reported.");
	put_line(&p, "paceline_job_iteration %llu\n", (unsigned long long)monitor_iter(m));
	each_node(&p, "node_up", "gauge", "1 when the node is ready or reporting.", node_is_up);
	each_node(&p, "node_up_seconds", "gauge", "Seconds since ready.", monitor_up);
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
	each_node(&p, "node_last_bpt_seconds", "gauge", "Batch processing time, as last reported.",
		  node_last);
	each_node(&p, "node_last_speed_samples_per_second", "gauge",
		  "Samples over seconds, as last reported.", node_speed_last);
	each_more(&p);
	each_device(&p);
	each_info(&p);
	free(all);
	return 0;
}
