/* sim: see sim.h. Here is the loop. */
#include "sim/sim_internal.h"

#include "base/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sim_new(struct sim **out, const struct sim_options *options, struct error *err)
{
	struct sim *s = calloc(1, sizeof *s);
	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->options = *options;
	s->options.until = fmin(options->until, SIM_SECONDS_MAX);
	s->first_at = s->last_at = -1;
	*out = s;
	return 0;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	gate_free(s->gate);
	queue_free(s->queue);
	monitor_free(s->monitor);
	balance_free(s->balance);
	events_free(&s->events);
	cluster_free(s);
	resources_free(s);
	announce_free(s);
	back_free(s);
	wave_free(s);
	free(s->range);
	free(s->member);
	free(s);
}

void sim_fail(struct sim *s, const struct error *err)
{
	if (!s->failed)
		s->err = *err;
	s->failed = 1;
}

void sim_fail_memory(struct sim *s)
{
	struct error err;
	error_set(&err, ERROR_OS, NULL, "out of memory");
	sim_fail(s, &err);
}

void sim_plan_as(struct sim *s, double at, enum event_kind kind, uint32_t number, uint32_t life)
{
	s->moves += kind < EVENT_ASK;
	if (events_add(&s->events, (struct event){.at = at > s->now ? at : s->now, .node = number, .kind = kind & 31,
						  .life = life & 0x7ffffff}) != 0)
		sim_fail_memory(s);
}

void sim_plan(struct sim *s, double at, enum event_kind kind, const struct sim_node *n)
{
	sim_plan_as(s, at, kind, n ? (uint32_t)(n - s->node) : 0, n ? n->life : 0);
}

void sim_log_text(struct sim *s, const char *line, size_t len)
{
	struct error err;
	if (s->options.is_brief || !s->options.put || s->failed)
		return;
	if (s->options.put(line, len, s->options.arg, &err) != 0)
		sim_fail(s, &err);
}

void sim_log(struct sim *s, struct record_out *o)
{
	if (s->options.is_brief || !s->options.put)
		return;
	record_add_seconds(o, "at", SIM_EPOCH + s->now);
	size_t len = record_end(o, NULL);
	sim_log_text(s, o->data, len);
}

void sim_note(struct sim *s, const char *type, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (strcmp(type, "brain") != 0)
		log_say(LOG_LEVEL_INFO, "%s", text);
	struct record_out *o = RECORD_BARE(type);
	record_add_seconds(o, "at", SIM_EPOCH + s->now);
	size_t len = record_end(o, text);
	sim_log_text(s, o->data, len);
}

/* Ids are w0, w1, ..., ps0, ps1, ... */
struct sim_node *sim_find(struct sim *s, const char *id)
{
	size_t from = id[0] == 'p' && id[1] == 's' ? 2 : 1;
	size_t first = from == 2 ? s->workers : 0, count = from == 2 ? s->places - s->workers : s->workers;
	char *end;
	if (id[0] != (from == 2 ? 'p' : 'w') || id[from] < '0' || id[from] > '9')
		return NULL;
	unsigned long long i = strtoull(id + from, &end, 10);
	return *end == '\0' && i < count && strcmp(s->node[first + i].id, id) == 0
		       ? &s->node[first + i] : NULL;
}

int sim_has(const struct sim *s, const struct sim_node *n)
{
	size_t i = (size_t)(n - s->node);
	return n->role == NODE_WORKER ? i < s->job.workers : i < s->nodes;
}

static void sim_begin(struct sim *s)
{
	const struct sim_job *j = &s->job;
	sim_log(s, RECORD("begin", F("job", (const char *)j->id), F("workers", j->workers),
			  F("servers", j->servers), F("replicas", 0), F("batch", j->batch),
			  F("shard", j->shard), F("sync", (const char *)j->sync),
			  F("solution", (const char *)j->solution)));
	if (resources_is_there(s)) {
		struct record_out *o = RECORD_BARE("brain-known");
		resources_log_known(s, o);
		sim_log(s, o);
	}
	for (size_t i = s->workers; i < s->nodes; i++) {
		control_event(s, &s->node[i], "start");
		control_event(s, &s->node[i], "ready");
	}
	sim_log(s, RECORD("phase", F("name", "running")));
	back_cut(s); /* a job has a checkpoint at its beginning */
	back_saved(s);
	s->to_come = (size_t)s->job.workers;
	if (s->cost.stagger > 0 && !s->balance) /* the first of them does not wait for the others */
		gate_begin(s->gate);
	for (size_t i = 0; i < s->job.workers; i++)
		control_start(s, &s->node[i], "start", s->cost.stagger * (double)i);
}

/* With a hundred thousand nodes most of the time is spent waiting for memory. So what events to come
 * will touch is fetched while others are handled: first the node, then what it points to. */
#define SIM_AHEAD 8
static int sim_is_of_node(const struct event *e)
{
	return e->kind >= EVENT_START && e->kind <= EVENT_ASK;
}

/* What belongs to the node of this event elsewhere, in three steps; the third one is just before it happens. */
static void sim_fetch_of_node(const struct sim *s, const struct event *e, int step)
{
	if (e->kind != EVENT_PUSHED && e->kind != EVENT_NEXT)
		return;
	const struct sim_node *n = &s->node[e->node];
	if (e->kind == EVENT_NEXT && sim_asks_soon(s, n))
		queue_fetch(s->queue, n->row_seat, 3 - step);
	else if (e->kind == EVENT_PUSHED && step > 1)
		gate_fetch(s->gate, n->seat, step == 3);
}

void sim_fetch_ahead(const struct sim *s, const struct event *e, size_t count)
{
	if (count <= 4 * SIM_AHEAD)
		return;
	const struct event *far = &e[4 * SIM_AHEAD];
	if (far->kind == EVENT_PUSHED)
		sim_fetch(&s->node[far->node], SIM_LINES_PUSH);
	else if (sim_is_of_node(far))
		sim_fetch(&s->node[far->node], SIM_LINES_NEXT);
	sim_fetch_of_node(s, &e[3 * SIM_AHEAD], 1);
	sim_fetch_of_node(s, &e[2 * SIM_AHEAD], 2);
	sim_fetch_of_node(s, &e[SIM_AHEAD], 3);
}

static void sim_handle(struct sim *s, const struct event *e)
{
	struct sim_node *n = &s->node[e->node];
	if (sim_is_of_node(e) && (e->life != n->life || worker_is_held_up(s, n, e)))
		return;
	switch ((enum event_kind)e->kind) {
	case EVENT_HAPPENS:
		control_happens(s, e->node);
		return;
	case EVENT_HUNG:
		if (e->life == n->life)
			hung_look(s, n);
		return;
	case EVENT_CLOCK:
		announce_clock_is_due(s);
		return;
	case EVENT_LINKS:
		announce_links_changed(s);
		return;
	case EVENT_SETTLED:
		leading_settled(s);
		return;
	case EVENT_SUMMED:
		leading_summed(s, e->node);
		return;
	case EVENT_BEGIN:
		gate_begin(s->gate);
		leading_obey(s);
		return;
	case EVENT_SERIES:
		control_series(s);
		return;
	case EVENT_BRAIN:
		resources_look_at_job(s);
		return;
	case EVENT_LOOK:
		control_look(s);
		return;
	case EVENT_SAVE:
		gate_cut(s->gate, SIM_NODES_MAX + 1);
		leading_obey(s);
		return;
	case EVENT_SAVED: /* the next one is due so long after it */
		back_saved(s);
		gate_cut_over(s->gate);
		leading_obey(s);
		sim_plan(s, s->now + s->job.checkpoint, EVENT_SAVE, NULL);
		return;
	case EVENT_START:
		if (n->role == NODE_SERVER)
			control_server_started(s, n);
		else
			worker_start(s, n);
		return;
	case EVENT_NEXT:
		worker_next(s, n);
		return;
	case EVENT_ASK:
		worker_asks_again(s, n);
		return;
	case EVENT_PULLED:
		worker_pulled(s, n);
		return;
	case EVENT_COMPUTED:
		worker_computed(s, n, s->now);
		return;
	case EVENT_ANNOUNCED:
		worker_announces(s, n);
		return;
	case EVENT_PUSHED:
		worker_pushed(s, n);
		return;
	}
}

static void sim_end(struct sim *s, struct sim_result *result)
{
	s->result.is_done = queue_is_over(s->queue);
	s->result.time = s->now;
	s->result.jct = s->last_at >= 0 ? s->last_at - s->first_at : 0;
	*result = s->result;
	if (!s->options.is_brief)
		control_series(s);
	s->options.is_brief = 0; /* this is what it is for */
	struct record_out *o = RECORD("summary", F("job", (const char *)s->job.id),
				      F("state", result->is_done ? "done" : result->has_failed ? "failed" : "stopped"),
				      F_SECONDS("jct", result->jct), F_SECONDS("time", result->time),
				      F("samples", result->samples), F("iterations", result->iterations),
				      F("restarts", result->restarts));
	if (s->job.delay != SIM_NO_DELAY)
		delay_put(o, gate_delays(s->gate));
	sim_log(s, o);
}

static int sim_is_stopped(const struct sim *s)
{
	return s->options.stop && *s->options.stop;
}

/* At that time nothing can happen any more: nobody has moved for so long that who asks for rows has asked, a
 * checkpoint is written, and a solution, if there is one, has seen empty windows and could restart a node. */
static int sim_is_stuck(const struct sim *s, double at)
{
	const struct sim_job *j = &s->job;
	if (s->moves > 0)
		return 0;
	double patience = 2 + s->cost.save;
	if (strcmp(j->solution, "none") != 0)
		patience += fmax(j->window_long, j->restart_window) + j->restart_cooldown + 2 * j->every;
	return at > s->moved_at + patience;
}

int sim_run(struct sim *s, struct sim_result *result, struct error *err)
{
	struct event e;
	int got = 0;
	if (cluster_ready(s, err) != 0)
		return -1;
	sim_begin(s);
	while (!s->failed && !s->result.has_failed && !queue_is_over(s->queue) && !sim_is_stopped(s) &&
	       (got = events_take(&s->events, &e)) > 0) {
		if (e.at > s->options.until) {
			s->now = s->options.until;
			break;
		}
		if (sim_is_stuck(s, e.at))
			break;
		if (e.kind < EVENT_ASK) {
			s->moves--;
			s->moved_at = e.at;
		}
		s->now = e.at;
		size_t count;
		const struct event *next = events_to_come(&s->events, &count);
		sim_fetch_ahead(s, next, count);
		sim_handle(s, &e);
	}
	if (got < 0)
		sim_fail_memory(s);
	if (!s->failed)
		sim_end(s, result);
	if (s->failed)
		*err = s->err;
	return s->failed ? -1 : 0;
}
