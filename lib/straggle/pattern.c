/*
 * pattern: from the words of a pattern to what schedule.c computes with.  The words become a
 * record, so that their grammar and their numbers are read as everywhere.
 */
#include "straggle/schedule_internal.h"

#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX 1e9
#define SLOWDOWN_MAX 1000.0

enum {
	DELAYS = PATTERN_TRANSIENT | PATTERN_PERSISTENT | PATTERN_SERVER,
	SPANS = DELAYS | PATTERN_DEVICE,
	FILES = 32,    /* with drag files only */
	PROCESSES = 64 /* with processes only */
};

static const struct {
	const char *name;
	enum pattern_kind kind;
} kinds[] = {{"transient", PATTERN_TRANSIENT},
	     {"persistent", PATTERN_PERSISTENT},
	     {"server", PATTERN_SERVER},
	     {"device", PATTERN_DEVICE},
	     {"replay", PATTERN_REPLAY}};

static const struct {
	const char *name;
	int kinds;
} keys[] = {{"intensity", DELAYS | FILES},
	    {"sleep", DELAYS | FILES},
	    {"slowdown", DELAYS | PROCESSES},
	    {"on", PATTERN_TRANSIENT},
	    {"every", PATTERN_TRANSIENT},
	    {"p", PATTERN_TRANSIENT},
	    {"from", SPANS},
	    {"until", SPANS},
	    {"life", SPANS | FILES},
	    {"nodes", SPANS | PATTERN_REPLAY},
	    {"count", SPANS},
	    {"fraction", SPANS},
	    {"speed", PATTERN_DEVICE},
	    {"factor", PATTERN_DEVICE},
	    {"launch", PATTERN_DEVICE},
	    {"saturation", PATTERN_DEVICE},
	    {"memory", PATTERN_DEVICE},
	    {"type", PATTERN_DEVICE},
	    {"file", PATTERN_REPLAY},
	    {"unit", PATTERN_REPLAY | FILES},
	    {"own", PATTERN_REPLAY | FILES},
	    {"batch", PATTERN_REPLAY | FILES},
	    {"step", PATTERN_REPLAY | FILES}};

void pattern_free(struct pattern *p)
{
	free(p->chosen);
	free(p->place);
	free(p->speed);
	trace_free(&p->trace);
}

/* ---- words ---- */

static int pattern_read_kind(const struct schedule *s, struct pattern *p, const char *name,
			     struct error *err)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			p->kind = kinds[i].kind;
	if (!p->kind)
		return error_set(
			err, ERROR_USAGE, NULL,
			"'%.80s' is no pattern: transient, persistent, server, device, replay",
			name);
	if (s->options.processes && (p->kind & (PATTERN_SERVER | PATTERN_DEVICE)))
		return error_set(err, ERROR_USAGE, name, "needs drag files, not processes");
	return 0;
}

static int pattern_check_key(const struct schedule *s, const struct pattern *p, const char *key,
			     struct error *err)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (strcmp(keys[i].name, key) != 0 || !(keys[i].kinds & (int)p->kind))
			continue;
		if (keys[i].kinds & (s->options.processes ? FILES : PROCESSES))
			return error_set(err, ERROR_USAGE, NULL, "%s= is for %s", key,
					 s->options.processes ? "drag files" : "processes");
		return 0;
	}
	return error_set(err, ERROR_USAGE, NULL, "this pattern has no key %.80s=", key);
}

static int pattern_read_words(const struct schedule *s, struct pattern *p, char *const *words,
			      size_t count, struct record *r, struct error *err)
{
	char key[80];
	struct record_out *o = RECORD_BARE(words[0]);
	for (size_t i = 1; i < count; i++) {
		size_t n = strcspn(words[i], "=");
		if (n == 0 || n >= sizeof key || words[i][n] != '=')
			return error_set(err, ERROR_USAGE, NULL, "'%.80s' is no key=value",
					 words[i]);
		memcpy(key, words[i], n);
		key[n] = '\0';
		if (pattern_check_key(s, p, key, err) != 0)
			return -1;
		record_add(o, key, words[i] + n + 1);
	}
	size_t len = record_end(o, NULL);
	if (len == 0)
		return error_set(err, ERROR_USAGE, NULL, "more than %d bytes of words",
				 RECORD_LINE_MAX);
	return record_parse(r, o->data, len - 1, err);
}

/* ---- which nodes ---- */

static int pattern_choose(const struct schedule *s, struct pattern *p, size_t node,
			  struct error *err)
{
	if (p->place[node])
		return error_set(err, ERROR_USAGE, "nodes=", "%s appears twice",
				 s->options.node[node]);
	p->chosen[p->count++] = node;
	p->place[node] = p->count;
	return 0;
}

static int choose_named(const struct schedule *s, struct pattern *p, const char *list,
			struct error *err)
{
	while (*list) {
		size_t n = strcspn(list, ","), node = 0;
		while (node < s->nodes && (strlen(s->options.node[node]) != n ||
					   memcmp(s->options.node[node], list, n) != 0))
			node++;
		if (node == s->nodes)
			return error_set(err, ERROR_USAGE, "nodes=", "'%.*s' is none of the nodes",
					 (int)(n < 80 ? n : 80), list);
		if (pattern_choose(s, p, node, err) != 0)
			return -1;
		list += n + (list[n] == ',');
	}
	return p->count ? 0 : error_set(err, ERROR_USAGE, "nodes=", "is empty");
}

struct choice {
	uint64_t draw;
	size_t node;
};

static int choice_by_node(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int choice_by_draw(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	return x->draw != y->draw ? (x->draw < y->draw ? -1 : 1) : choice_by_node(a, b);
}

/* Those with the smallest draws: one more wanted adds a node and changes none. */
static int choose_drawn(const struct schedule *s, struct pattern *p, size_t first, size_t nodes,
			size_t count, struct error *err)
{
	struct choice *choice = calloc(nodes + 1, sizeof *choice);
	int result = 0;
	if (!choice)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", nodes);
	for (size_t i = 0; i < nodes; i++)
		choice[i] = (struct choice){schedule_draw(s, DRAW_CHOICE, p->number, first + i, 0),
					    first + i};
	if (count < nodes) {
		qsort(choice, nodes, sizeof *choice, choice_by_draw);
		qsort(choice, count, sizeof *choice, choice_by_node);
	}
	for (size_t i = 0; i < count && result == 0; i++)
		result = pattern_choose(s, p, choice[i].node, err);
	free(choice);
	return result;
}

static int choose_nodes(const struct schedule *s, struct pattern *p, const struct record *r,
			struct error *err)
{
	const char *named = record_get(r, "nodes");
	int server = p->kind == PATTERN_SERVER;
	size_t first = server ? s->options.workers : 0;
	size_t nodes = server ? s->options.servers : s->options.workers;
	uint64_t count = p->kind == PATTERN_PERSISTENT || server ? 1 : nodes;
	double fraction = -1;
	p->chosen = calloc(s->nodes + 1, sizeof *p->chosen);
	p->place = calloc(s->nodes + 1, sizeof *p->place);
	if (!p->chosen || !p->place)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", s->nodes);
	if ((named != NULL) + (record_get(r, "count") != NULL) + (record_get(r, "fraction") != NULL) >
	    1)
		return error_set(err, ERROR_USAGE, NULL, "one of nodes=, count=, fraction=");
	if (p->kind == PATTERN_REPLAY && !named) { /* a trace may name any node */
		first = 0;
		nodes = count = s->nodes;
	}
	if (named)
		return choose_named(s, p, named, err);
	if (nodes == 0)
		return error_set(err, ERROR_USAGE, NULL, "needs %s",
				 server ? "--servers, or nodes=" : "--nodes, or nodes=");
	if (record_u64_opt(r, "count", 0, nodes, &count, err) != 0 ||
	    record_real_opt(r, "fraction", 0, 1, &fraction, err) != 0)
		return -1;
	if (fraction >= 0)
		count = (uint64_t)llround(fraction * (double)nodes);
	return choose_drawn(s, p, first, nodes, (size_t)count, err);
}

/* ---- numbers ---- */

static int read_times(const struct schedule *s, struct pattern *p, const struct record *r,
		      struct error *err)
{
	double scale = s->options.scale;
	uint64_t life = 0;
	p->until = INFINITY;
	p->on = 900;
	p->every = 1800;
	p->p = 0.3;
	p->life = p->kind & (PATTERN_PERSISTENT | PATTERN_SERVER) ? s->options.life
								   : SCHEDULE_EVERY_LIFE;
	if (record_real_opt(r, "from", 0, TIME_MAX, &p->from, err) != 0 ||
	    record_real_opt(r, "until", 0, TIME_MAX, &p->until, err) != 0 ||
	    record_real_opt(r, "on", 0, TIME_MAX, &p->on, err) != 0 ||
	    record_real_opt(r, "every", 0, TIME_MAX, &p->every, err) != 0 ||
	    record_real_opt(r, "p", 0, 1, &p->p, err) != 0 ||
	    record_u64_opt(r, "life", 0, 1000000000, &life, err) != 0)
		return -1;
	if (record_get(r, "life"))
		p->life = (int64_t)life;
	if (p->until <= p->from)
		return error_set(err, ERROR_USAGE, NULL, "until=%g is not after from=%g", p->until,
				 p->from);
	p->from *= scale;
	p->until *= scale;
	p->on *= scale;
	p->every *= scale;
	if (p->kind == PATTERN_TRANSIENT && p->every < SCHEDULE_STEP_MIN)
		return error_set(err, ERROR_USAGE, NULL,
				 "every= is %g s with this scale, less than %g s", p->every,
				 SCHEDULE_STEP_MIN);
	return 0;
}

static int read_delay(const struct schedule *s, struct pattern *p, const struct record *r,
		      struct error *err)
{
	double intensity = s->options.intensity;
	double sleep = p->kind == PATTERN_TRANSIENT ? 1.5 : 4;
	p->slowdown = 1;
	if (!(p->kind & DELAYS))
		return 0;
	if (s->options.processes)
		return record_real(r, "slowdown", 1, SLOWDOWN_MAX, &p->slowdown, err);
	if (record_real_opt(r, "intensity", 0, 1e6, &intensity, err) != 0 ||
	    record_real_opt(r, "sleep", 0, DRAG_SECONDS_MAX, &sleep, err) != 0)
		return -1;
	p->delay = sleep * intensity * s->options.delay_scale;
	if (p->delay > DRAG_SECONDS_MAX)
		return error_set(err, ERROR_USAGE, NULL, "a delay of %g s is more than %g s",
				 p->delay, DRAG_SECONDS_MAX);
	return 0;
}

/* One value for all chosen nodes or one for each; speed[i] is multiplied by it. */
static int read_values(struct pattern *p, const char *list, const char *key, struct error *err)
{
	size_t values = 1;
	double value = 1;
	for (const char *c = list; *c; c++)
		values += *c == ',';
	if (values != 1 && values != p->count)
		return error_set(err, ERROR_USAGE, NULL, "%s= has %zu values for %zu nodes", key,
				 values, p->count);
	for (size_t i = 0; i < p->count; i++) {
		char word[64];
		size_t n = strcspn(list, ",");
		if (i < values) {
			if (n >= sizeof word)
				return error_set(err, ERROR_USAGE, NULL, "%s=: '%.40s...'", key,
						 list);
			memcpy(word, list, n);
			word[n] = '\0';
			if (number_real(word, 1e-9, DRAG_SPEED_MAX, &value, key, err) != 0)
				return -1;
			list += n + (list[n] == ',');
		}
		p->speed[i] *= value;
	}
	return 0;
}

static int read_device(struct pattern *p, const struct record *r, struct error *err)
{
	/* a drag record without its speed reads launch=, saturation=, memory=, type= as ever */
	struct record_out *o = RECORD_BARE("drag");
	if (record_get(r, "speed"))
		record_add(o, "speed", "1");
	else if (record_get(r, "factor"))
		return error_set(err, ERROR_USAGE, NULL, "factor= without speed=");
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->field[i].key, "launch") == 0 ||
		    strcmp(r->field[i].key, "saturation") == 0 ||
		    strcmp(r->field[i].key, "memory") == 0 || strcmp(r->field[i].key, "type") == 0)
			record_add(o, r->field[i].key, r->field[i].value);
	size_t len = record_end(o, NULL);
	if (drag_parse(o->data, len, &p->device, err) != 0)
		return -1;
	p->device.speed = 0;
	if (!record_get(r, "speed"))
		return p->device.memory || p->device.type[0]
			       ? 0
			       : error_set(err, ERROR_USAGE, NULL, "speed= is missing");
	p->speed = calloc(p->count + 1, sizeof *p->speed);
	if (!p->speed)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", p->count);
	for (size_t i = 0; i < p->count; i++)
		p->speed[i] = 1;
	const char *factor = record_get(r, "factor");
	if (read_values(p, record_get(r, "speed"), "speed", err) != 0)
		return -1;
	return factor ? read_values(p, factor, "factor", err) : 0;
}

static int read_trace(const struct schedule *s, struct pattern *p, const struct record *r,
		      struct error *err)
{
	struct trace_options o = {.path = record_get(r, "file"), .unit = 1};
	if (!o.path)
		return error_set(err, ERROR_USAGE, NULL, "file= is missing");
	if (record_real_opt(r, "unit", 1e-12, 1e12, &o.unit, err) != 0 ||
	    record_real_opt(r, "own", 0, DRAG_SECONDS_MAX, &o.own, err) != 0 ||
	    record_real_opt(r, "batch", 0, 1e15, &o.batch, err) != 0 ||
	    record_real_opt(r, "step", SCHEDULE_STEP_MIN, TIME_MAX, &o.step, err) != 0)
		return -1;
	if (o.own > 0 && o.batch > 0)
		return error_set(err, ERROR_USAGE, NULL, "own= is for delays, batch= for speeds");
	return trace_read(&p->trace, s, p, &o, err);
}

/* What was said on the command line is a mistake in usage; a file's is one in its data. */
static int as_usage(const struct pattern *p, const char *name, struct error *err)
{
	if (err->code == ERROR_DATA && !(p->kind == PATTERN_REPLAY && err->place[0]))
		err->code = ERROR_USAGE;
	return err->code == ERROR_USAGE && p->kind ? error_wrap(err, name) : -1;
}

int pattern_parse(struct schedule *s, struct pattern *p, char *const *words, size_t count,
		  struct error *err)
{
	struct record r;
	if (pattern_read_kind(s, p, words[0], err) != 0)
		return -1;
	if (pattern_read_words(s, p, words, count, &r, err) != 0 ||
	    choose_nodes(s, p, &r, err) != 0 || read_times(s, p, &r, err) != 0 ||
	    read_delay(s, p, &r, err) != 0 ||
	    (p->kind == PATTERN_DEVICE && read_device(p, &r, err) != 0) ||
	    (p->kind == PATTERN_REPLAY && read_trace(s, p, &r, err) != 0))
		return as_usage(p, words[0], err);
	return 0;
}
