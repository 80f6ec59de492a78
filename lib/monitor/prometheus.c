/* prometheus: the contents of a monitor as a page of metrics. It only reads the monitor. */
#include "monitor/metrics.h"
#include "monitor/monitor.h"
#include "monitor/monitor_internal.h"

#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct look {
	const struct monitor *m;
	const struct aggregate *all;
	double now;
	struct metrics_page *page;
};

static void prometheus_put_node(const struct look *l, const struct node *n, double value,
				const char *name, const char *label)
{
	if (n->has_left)
		return;
	metrics_put(l->page, value,
		    (const struct metrics_label[]){{"role", node_role_name(n->role)},
						   {"id", n->id},
						   {name, label},
						   {0}});
}

/* One metric of each node; unknown values are left out. */
static void prometheus_each_node(const struct look *l, enum metric which,
				 double (*value)(const struct node *n, double now))
{
	metrics_begin(l->page, which);
	for (size_t i = 0; i < l->m->node_count; i++)
		prometheus_put_node(l, l->m->node[i], value(l->m->node[i], l->now), NULL, NULL);
}

/* One metric of each node and window; empty windows are left out. */
static void prometheus_each_window(const struct look *l, enum metric which, size_t offset)
{
	static const char *const window[MONITOR_WINDOWS] = {"short", "long"};
	metrics_begin(l->page, which);
	for (size_t i = 0; i < l->m->node_count; i++)
		for (int k = 0; k < MONITOR_WINDOWS; k++) {
			double value;
			memcpy(&value, (const char *)&l->all[i] + offset + (size_t)k * sizeof value,
			       sizeof value);
			prometheus_put_node(l, l->m->node[i], value, "window", window[k]);
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
static void each_more(const struct look *l)
{
	metrics_begin(l->page, METRIC_NODE_LAST);
	for (size_t i = 0; i < l->m->node_count; i++)
		for (int k = 0; k < REPORT_MORES; k++)
			prometheus_put_node(l, l->m->node[i],
					    monitor_last_more(l->m->node[i], (enum report_more)k),
					    "key", report_more_key[k]);
}

static void each_device(const struct look *l)
{
	metrics_begin(l->page, METRIC_NODE_DEVICE);
	for (size_t i = 0; i < l->m->node_count; i++) {
		const struct node *n = l->m->node[i];
		const struct device *d = &n->device;
		const struct {
			const char *key;
			double value;
		} row[] = {{"launch", d->launch},
			   {"speed", d->speed},
			   {"saturation", (double)d->saturation},
			   {"max", (double)d->max}};
		for (size_t k = 0; d->known && !n->has_left && k < sizeof row / sizeof *row; k++)
			metrics_put(l->page, row[k].value,
				    (const struct metrics_label[]){
					    {"role", node_role_name(n->role)},
					    {"id", n->id},
					    {"type", d->type},
					    {"key", row[k].key},
					    {0}});
	}
}

/* Only values that are numbers can be samples of a metric. */
static void each_info(const struct look *l)
{
	const struct info *info = l->m->info;
	metrics_begin(l->page, METRIC_INFO);
	for (size_t i = 0; i < l->m->info_count; i++) {
		double value = NAN;
		number_real(info[i].value, -1e300, 1e300, &value, NULL, NULL);
		metrics_put(l->page, value,
			    (const struct metrics_label[]){{"name", info[i].name}, {0}});
	}
	metrics_begin(l->page, METRIC_INFO_AGE);
	for (size_t i = 0; i < l->m->info_count; i++)
		metrics_put(l->page, monitor_age(&info[i], l->now),
			    (const struct metrics_label[]){{"name", info[i].name}, {0}});
}

int monitor_prometheus(const struct monitor *m, double now, struct metrics_page *page,
		       struct error *err)
{
	struct aggregate *all = monitor_aggregate(m, now);
	if (!all)
		return error_set(err, ERROR_OS, NULL, "out of memory for a page of metrics");
	const struct look look = {m, all, now, page}, *l = &look;
	metrics_begin(page, METRIC_JOB_ITERATION);
	metrics_put(page, (double)monitor_iter(m), NULL);
	prometheus_each_node(l, METRIC_NODE_UP, node_is_up);
	prometheus_each_node(l, METRIC_NODE_UP_TIME, monitor_up);
	prometheus_each_node(l, METRIC_NODE_BATCH, node_size);
	prometheus_each_node(l, METRIC_NODE_SAMPLES, node_samples);
	prometheus_each_node(l, METRIC_NODE_RESTARTS, node_restarts);
	prometheus_each_window(l, METRIC_NODE_BPT, offsetof(struct aggregate, mean));
	prometheus_each_window(l, METRIC_NODE_SPEED, offsetof(struct aggregate, speed));
	prometheus_each_window(l, METRIC_NODE_BPT_RATIO, offsetof(struct aggregate, ratio));
	prometheus_each_node(l, METRIC_NODE_ACCUM, node_accum);
	prometheus_each_node(l, METRIC_NODE_LAST_BPT, node_last);
	prometheus_each_node(l, METRIC_NODE_LAST_SPEED, node_speed_last);
	each_more(l);
	each_device(l);
	each_info(l);
	metrics_begin(page, METRIC_PAGE_TIME);
	metrics_put(page, now, NULL);
	free(all);
	return metrics_end(page, err);
}
