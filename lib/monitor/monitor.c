/*
 * monitor: see monitor.h. Records in. It must never judge a node: who is slow, and what to do about
 * it, is for solutions.
 */
#include "monitor/monitor.h"

#include "monitor/monitor_internal.h"

#include "base/fetch.h"
#include "base/grow.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT_MAX 1e11     /* seconds since 1970; the year 5138 */
#define SECONDS_MAX 1e9 /* of one batch */

#define MORE_KEY(name, key, max) key,
#define MORE_MAX(name, key, max) max,
const char *const report_more_key[REPORT_MORES] = {REPORT_MORE(MORE_KEY)};
static const double more_max[REPORT_MORES] = {REPORT_MORE(MORE_MAX)};

enum event_kind {
	EVENT_START,
	EVENT_READY,
	EVENT_EXIT,
	EVENT_HUNG,
	EVENT_KILL,
	EVENT_RESTART,
	EVENT_LEFT
};
#define EVENT_KINDS 7

static const char *const event_word[EVENT_KINDS] = {"start", "ready", "exit",
						    "hung",  "kill",  "restart", "left"};

/* State x event -> state. Senders are many and messages get lost, so every pair means something:
 * the event is believed. Only a process known to be over can't be hung. */
static const enum node_state next_state[4][EVENT_KINDS] = {
	/* start, ready, exit, hung, kill, restart, left */
	[NODE_STARTING] = {NODE_STARTING, NODE_UP, NODE_DOWN, NODE_HUNG, NODE_DOWN, NODE_STARTING, NODE_DOWN},
	[NODE_UP] = {NODE_STARTING, NODE_UP, NODE_DOWN, NODE_HUNG, NODE_DOWN, NODE_STARTING, NODE_DOWN},
	[NODE_HUNG] = {NODE_STARTING, NODE_UP, NODE_DOWN, NODE_HUNG, NODE_DOWN, NODE_STARTING, NODE_DOWN},
	[NODE_DOWN] = {NODE_STARTING, NODE_UP, NODE_DOWN, NODE_DOWN, NODE_DOWN, NODE_STARTING, NODE_DOWN},
};

int monitor_new(struct monitor **out, double window_short, double window_long, struct error *err)
{
	if (!(window_short > 0 && window_short <= window_long))
		return error_set(err, ERROR_USAGE, NULL,
				 "windows: short %g must be above 0 and at most long %g",
				 window_short, window_long);
	struct monitor *m = calloc(1, sizeof *m);
	if (!m)
		return error_set(err, ERROR_OS, NULL, "out of memory for a monitor");
	m->nodes = (struct pool){.bytes = sizeof(struct node)};
	m->windows = (struct pool)WINDOW_POOL;
	m->window_short = window_short;
	m->window_long = window_long;
	monitor_limit(m, MONITOR_NODES_MAX, MONITOR_HISTORY_MAX);
	*out = m;
	return 0;
}

void monitor_limit(struct monitor *m, size_t nodes, size_t history)
{
	m->nodes_max = nodes;
	m->history_max = history;
}

static void monitor_free_node(struct monitor *m, struct node *n)
{
	window_clear(&n->window);
	free(n->history);
	pool_give(&m->nodes, n);
}

void monitor_free(struct monitor *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->node_count; i++)
		monitor_free_node(m, m->node[i]);
	free(m->node);
	pool_free(&m->nodes);
	pool_free(&m->windows);
	free(m);
}

double monitor_latest(const struct monitor *m)
{
	return m->latest;
}

static int is_at(const struct monitor *m, size_t place, enum node_role role, const char *id)
{
	return place < m->node_count && m->node[place]->role == role &&
	       strcmp(m->node[place]->id, id) == 0;
}

/* The place of the node, or where it would be inserted. */
static size_t monitor_place_of(const struct monitor *m, enum node_role role, const char *id)
{
	size_t low = 0, high = m->node_count;
	if (is_at(m, m->place + 1, role, id))
		return m->place + 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct node *n = m->node[middle];
		int order =
			n->role != role ? (n->role < role ? -1 : 1) : node_id_compare(n->id, id);
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A full table drops the node that has been gone for longest. */
static int forget_one(struct monitor *m)
{
	size_t oldest = m->node_count;
	for (size_t i = 0; i < m->node_count; i++) {
		const struct node *n = m->node[i];
		if (n->state != NODE_DOWN && n->state != NODE_HUNG)
			continue;
		if (oldest == m->node_count || n->seen_at < m->node[oldest]->seen_at)
			oldest = i;
	}
	if (oldest == m->node_count)
		return -1;
	monitor_free_node(m, m->node[oldest]);
	m->node_count--;
	memmove(m->node + oldest, m->node + oldest + 1, (m->node_count - oldest) * sizeof *m->node);
	return 0;
}

/* Finds the node by name, maybe at this place, or adds it. */
static struct node *node_of(struct monitor *m, enum node_role role, const char *id, size_t place,
			    struct error *err)
{
	size_t i = is_at(m, place, role, id) ? place : monitor_place_of(m, role, id);
	m->place = i;
	if (is_at(m, i, role, id))
		return m->node[i];
	if (m->node_count == m->nodes_max) {
		if (forget_one(m) != 0) {
			error_set(err, ERROR_TEMPFAIL, NULL, "more than %zu nodes", m->nodes_max);
			return NULL;
		}
		i = monitor_place_of(m, role, id);
	}
	struct node *n = GROW(m->node, m->node_room, m->node_count + 1) == 0 ? pool_take(&m->nodes) : NULL;
	if (!n) {
		error_set(err, ERROR_OS, NULL, "out of memory for a node");
		return NULL;
	}
	*n = (struct node){.role = role};
	memcpy(n->id, id, strlen(id) + 1);
	n->since = n->ended_at = -INFINITY;
	n->ready_at = NAN;
	n->total.compute = n->total.comm = n->total.wait = NAN;
	window_init(&n->window, &m->windows);
	memmove(m->node + i + 1, m->node + i, (m->node_count - i) * sizeof *m->node);
	m->node[i] = n;
	m->node_count++;
	return n;
}

void monitor_fetch(const struct monitor *m, size_t place, int steps)
{
	if (place >= m->node_count)
		return;
	const struct node *const *n = (const struct node *const *)&m->node[place];
	if (steps == 2)
		fetch_ahead(n, 1);
	else if (steps == 1)
		fetch_ahead(*n, offsetof(struct node, device));
	else
		window_fetch(&(*n)->window);
}

static int parse_report(struct report *p, const struct record *r, struct error *err)
{
	if (record_u64(r, "iter", 0, MONITOR_SAMPLES_MAX, &p->iter, err) != 0 ||
	    record_real(r, "time", 0, SECONDS_MAX, &p->time, err) != 0 ||
	    record_u64(r, "size", 0, NODE_SIZE_MAX, &p->size, err) != 0 ||
	    record_u64_opt(r, "count", 1, MONITOR_COUNT_MAX, &p->count, err) != 0 ||
	    record_u64_opt(r, "accum", 1, NODE_SIZE_MAX, &p->accum, err) != 0)
		return -1;
	for (int i = 0; i < REPORT_MORES; i++) {
		p->more[i] = NAN;
		if (record_real_opt(r, report_more_key[i], 0, more_max[i], &p->more[i], err) != 0)
			return -1;
	}
	return 0;
}

/* A report says that the process lives, unless it was sent before the process's end. */
static void believe_report(struct node *n, double at)
{
	if (n->state == NODE_UP || at < n->since)
		return;
	if ((n->state == NODE_DOWN || n->state == NODE_HUNG) && at <= n->ended_at)
		return;
	n->state = NODE_UP;
	n->was_started = 1;
	if (isnan(n->ready_at))
		n->ready_at = at;
}

static void add_seconds(double *total, double mean, uint64_t count)
{
	if (!isnan(mean))
		*total = (isnan(*total) ? 0 : *total) + mean * (double)count;
}

static void add_totals(struct totals *t, const struct report *p)
{
	t->batches += p->count;
	if (t->batches > MONITOR_SAMPLES_MAX)
		t->batches = MONITOR_SAMPLES_MAX;
	add_seconds(&t->time, p->time, p->count);
	add_seconds(&t->compute, p->more[REPORT_COMPUTE], p->count);
	add_seconds(&t->comm, p->more[REPORT_COMM], p->count);
	add_seconds(&t->wait, p->more[REPORT_WAIT], p->count);
}

/* With the report's time; the monitor's own is the caller's. */
static int monitor_take_report(struct monitor *m, struct node *n, const struct report *p, double now,
		       struct error *err)
{
	if (n->has_left) /* its last report came late */
		return 0;
	size_t kept = n->reports < m->history_max ? (size_t)n->reports + 1 : m->history_max;
	if (GROW(n->history, n->history_room, kept) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a history");
	struct window_sum what = {p->count, p->time * (double)p->count,
				  (double)p->size * (double)p->count};
	if (p->at >= n->since && window_add(&n->window, p->at, &what, now, m->window_short,
					    m->window_long, err) != 0)
		return -1;
	believe_report(n, p->at);
	if (kept > 0) /* it is a ring only when it has grown to its size */
		n->history[n->reports % m->history_max] = *p;
	n->reports++;
	if (p->at >= n->since && (n->last.count == 0 || p->at >= n->last.at))
		n->last = *p;
	/* can't overflow: 2^53 + 2^60 */
	n->samples += p->size * p->count;
	if (n->samples > MONITOR_SAMPLES_MAX)
		n->samples = MONITOR_SAMPLES_MAX;
	add_totals(&n->total, p);
	n->iter = p->iter;
	n->size = p->size;
	n->seen_at = p->at;
	return 0;
}

int monitor_report(struct monitor *m, enum node_role role, const char *id, size_t place,
		   const struct report *p, double now, struct error *err)
{
	struct node *n = node_of(m, role, id, place, err);
	if (!n || monitor_take_report(m, n, p, now, err) != 0)
		return -1;
	m->latest = fmax(m->latest, p->at);
	return 0;
}

static int add_bpt(struct monitor *m, const struct record *r, double at, double now,
		   struct error *err)
{
	struct report p = {.at = at, .count = 1};
	enum node_role role;
	const char *id;
	if (node_name_in(r, &role, &id, err) != 0 || parse_report(&p, r, err) != 0)
		return -1;
	return monitor_report(m, role, id, SIZE_MAX, &p, now, err);
}

/* Measurements of a device hold until the node sends new ones: a new process may run elsewhere, and
 * then sends them. */
static int add_device(struct monitor *m, const struct record *r, double at, struct error *err)
{
	struct device d = {.known = 1, .launch = NAN};
	enum node_role role;
	const char *id, *type;
	if (node_name_in(r, &role, &id, err) != 0 || record_id(r, "type", &type, err) != 0 ||
	    record_real_opt(r, "launch", 0, SECONDS_MAX, &d.launch, err) != 0 ||
	    record_real(r, "speed", 0, 1e15, &d.speed, err) != 0 ||
	    record_u64(r, "saturation", 1, NODE_SIZE_MAX, &d.saturation, err) != 0 ||
	    record_u64(r, "max", 1, NODE_SIZE_MAX, &d.max, err) != 0)
		return -1;
	struct node *n = node_of(m, role, id, SIZE_MAX, err);
	if (!n)
		return -1;
	memcpy(d.type, type, strlen(type) + 1);
	n->device = d;
	n->seen_at = at;
	return 0;
}

static int parse_event(const struct record *r, enum event_kind *kind, struct error *err)
{
	const char *word, *class = record_get(r, "class");
	uint64_t number;
	if (record_text(r, "kind", &word, err) != 0 ||
	    record_u64_opt(r, "status", 0, 255, &number, err) != 0 ||
	    record_u64_opt(r, "signal", 0, 255, &number, err) != 0)
		return -1;
	if (class && strcmp(class, "clean") != 0 && strcmp(class, "retryable") != 0 &&
	    strcmp(class, "unretryable") != 0 && strcmp(class, "oom") != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "class=: '%.80s' is none of clean|retryable|unretryable|oom", class);
	for (int k = 0; k < EVENT_KINDS; k++)
		if (strcmp(event_word[k], word) == 0) {
			*kind = (enum event_kind)k;
			return 0;
		}
	return error_set(err, ERROR_DATA, NULL,
			 "kind=: '%.80s' is none of start|ready|exit|hung|kill|restart|left", word);
}

/* A new process: nothing measured before is about it. A restart that is both announced and followed
 * by its start counts once; a second start without announcement is a restart too. */
static void begin_process(struct node *n, enum event_kind kind, double at)
{
	if (kind == EVENT_RESTART || (n->was_started && !n->restart_announced && !n->has_left))
		n->restarts++;
	n->has_left = 0;
	n->restart_announced = kind == EVENT_RESTART;
	n->was_started = 1;
	n->since = at;
	n->ready_at = NAN;
	n->last = (struct report){0};
	window_clear(&n->window);
}

static int add_event(struct monitor *m, const struct record *r, double at, struct error *err)
{
	enum event_kind kind = EVENT_START;
	enum node_role role;
	const char *id;
	uint64_t meant = 0;
	if (node_name_in(r, &role, &id, err) != 0 || parse_event(r, &kind, err) != 0 ||
	    record_u64_opt(r, "meant", 0, 1, &meant, err) != 0)
		return -1;
	struct node *n = node_of(m, role, id, SIZE_MAX, err);
	if (!n)
		return -1;
	n->state = next_state[n->state][kind];
	n->seen_at = at;
	n->meant += kind == EVENT_RESTART ? meant : 0;
	if (kind == EVENT_START || kind == EVENT_RESTART) {
		begin_process(n, kind, at);
	} else if (kind == EVENT_READY) {
		n->was_started = 1;
		n->restart_announced = 0;
		n->ready_at = at;
	} else {
		n->was_started = 1;
		n->ended_at = at;
		n->has_left = kind == EVENT_LEFT;
		if (n->has_left)
			window_clear(&n->window);
		if (n->state == NODE_DOWN)
			n->ready_at = NAN;
	}
	return 0;
}

static int add_info(struct monitor *m, const struct record *r, double at, struct error *err)
{
	const char *name, *value;
	if (record_id(r, "name", &name, err) != 0 || record_text(r, "value", &value, err) != 0)
		return -1;
	if (strlen(value) >= MONITOR_VALUE_MAX)
		return error_set(err, ERROR_DATA, NULL, "value=: longer than %d bytes",
				 MONITOR_VALUE_MAX - 1);
	size_t i = 0;
	while (i < m->info_count && strcmp(m->info[i].name, name) != 0)
		i++;
	if (i == MONITOR_INFOS_MAX)
		return error_set(err, ERROR_TEMPFAIL, NULL, "more than %d infos",
				 MONITOR_INFOS_MAX);
	if (i == m->info_count)
		m->info_count++;
	struct info *info = &m->info[i];
	memcpy(info->name, name, strlen(name) + 1);
	memcpy(info->value, value, strlen(value) + 1);
	info->at = at;
	return 0;
}

/* The time of a record: its at=, but never later than now. */
static int monitor_time_of(const struct monitor *m, const struct record *r, double behind,
			   double *now, double *at, struct error *err)
{
	*at = *now;
	if (record_real_opt(r, "at", 0, AT_MAX, at, err) != 0)
		return -1;
	if (record_get(r, "at"))
		*at = fmax(*at + behind, 0);
	if (isnan(*at))
		return error_set(err, ERROR_DATA, NULL, "%.64s: at= is missing", r->type);
	if (isnan(*now))
		*now = *at > m->latest ? *at : m->latest;
	if (*at > *now)
		*at = *now;
	return 0;
}

int monitor_add(struct monitor *m, const struct record *r, double now, double *at,
		struct error *err)
{
	return monitor_add_from(m, r, now, 0, at, err);
}

int monitor_add_from(struct monitor *m, const struct record *r, double now, double behind,
		     double *at_out, struct error *err)
{
	int is_bpt = record_is(r, "bpt"), is_event = record_is(r, "event");
	int is_device = record_is(r, "device");
	if (!is_bpt && !is_event && !is_device && !record_is(r, "info"))
		return MONITOR_UNKNOWN;
	double at;
	if (monitor_time_of(m, r, behind, &now, &at, err) != 0)
		return -1;
	int result = is_bpt      ? add_bpt(m, r, at, now, err)
		     : is_event  ? add_event(m, r, at, err)
		     : is_device ? add_device(m, r, at, err)
				 : add_info(m, r, at, err);
	if (result != 0)
		return -1;
	if (at > m->latest)
		m->latest = at;
	if (at_out)
		*at_out = at;
	return MONITOR_TAKEN;
}
