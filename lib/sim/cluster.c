/* What the input says: the job, what things cost, the nodes and their patterns. */
#include "sim/sim_internal.h"

#include "base/grow.h"
#include "record/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB(name, what, member) FIELD(name, what, sim_job, member), .is_optional = 1
static const struct field job_fields[] = {
	{JOB("job", ID, id)},
	{JOB("solution", ID, solution)},
	{FIELD("workers", U64, sim_job, workers), .min = 1},
	{FIELD("samples", U64, sim_job, samples), .min = 1},
	{FIELD("batch", U64, sim_job, batch), .min = 1},
	{JOB("hosts", U64, hosts), .none = 1, .min = 1},
	{JOB("shard", U64, shard), .none = 0},
	{JOB("epochs", U64, epochs), .none = 1, .min = 1},
	{JOB("ahead", U64, ahead), .none = 4, .min = 1},
	{JOB("report", U64, report), .none = 10, .min = 1},
	{JOB("backup", U64, backup)},
	{JOB("every", REAL, every)},
	{JOB("short", REAL, window_short)},
	{JOB("long", REAL, window_long)},
	{JOB("checkpoint", REAL, checkpoint)},
	{JOB("restart-window", REAL, restart_window)},
	{JOB("restart-cooldown", REAL, restart_cooldown)},
	{JOB("restart-limit", U64, restart_limit), .none = 3},
	{0}};

#define COST(name, member) {FIELD(name, REAL, sim_cost, member), .is_optional = 1}
static const struct field cost_fields[] = {
	COST("rows", rows), COST("pull", pull), COST("push", push), COST("message", message),
	COST("sum", sum), COST("commit", commit), COST("apply", apply), COST("batch", batch), COST("sample", sample),
	COST("start", start), COST("save", save), {0}};

static int add_job(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_job *j = &s->job;
	uint64_t servers = 1;
	const char *sync = record_get(r, "sync");
	if (s->has_job)
		return error_set(err, ERROR_DATA, NULL, "a second job");
	*j = (struct sim_job){.every = 10, .window_short = 60, .window_long = 600,
			      .restart_window = 600, .restart_cooldown = 60};
	if (fields_read(job_fields, r, j, err) != 0 ||
	    record_u64_opt(r, "servers", 0, 4096, &servers, err) != 0)
		return -1;
	j->servers = servers;
	snprintf(j->id_text, sizeof j->id_text, "%s", j->id ? j->id : "sim");
	snprintf(j->sync_text, sizeof j->sync_text, "%s", sync ? sync : "bsp");
	snprintf(j->solution_text, sizeof j->solution_text, "%s", j->solution ? j->solution : "none");
	j->id = j->solution = NULL;
	if (strcmp(j->sync_text, "allreduce") == 0)
		j->servers = 0;
	if (j->workers > SIM_NODES_MAX)
		return error_set(err, ERROR_DATA, NULL, "workers=%llu: at most %d",
				 (unsigned long long)j->workers, SIM_NODES_MAX);
	if (j->batch < j->workers)
		return error_set(err, ERROR_DATA, NULL,
				 "batch=%llu is less than a sample for each of %llu workers",
				 (unsigned long long)j->batch, (unsigned long long)j->workers);
	s->has_job = 1;
	return 0;
}

static int add_node(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_drag d = {0};
	const char *id;
	if (record_id(r, "id", &id, err) != 0 ||
	    record_real_opt(r, "at", 0, 1e12, &d.at, err) != 0 || drag_fields(r, &d.drag, err) != 0)
		return -1;
	if (GROW(s->drag, s->drag_room, s->drags + 1) != 0 ||
	    GROW(s->drag_id, s->drag_id_room, s->drags + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	snprintf(s->drag_id[s->drags], OPTION_ID_MAX, "%s", id);
	d.node = (uint32_t)s->drags; /* its name, for now */
	s->drag[s->drags++] = d;
	return 0;
}

static int add_event(struct sim *s, const struct record *r, struct error *err)
{
	static const char *const kinds[] = {"kill", "join", "leave", "stop", "go-on", NULL};
	struct sim_happening h = {0};
	const char *kind, *id;
	if (record_text(r, "kind", &kind, err) != 0 || record_id(r, "id", &id, err) != 0 ||
	    record_real(r, "at", 0, 1e12, &h.at, err) != 0)
		return -1;
	while (kinds[h.kind] && strcmp(kinds[h.kind], kind) != 0)
		h.kind++;
	if (!kinds[h.kind])
		return error_set(err, ERROR_DATA, NULL, "kind=%.40s: kill, join, leave, stop or go-on",
				 kind);
	snprintf(h.id, sizeof h.id, "%s", id);
	if (GROW(s->happening, s->happening_room, s->happenings + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->happening[s->happenings++] = h;
	return 0;
}

static const char *const pattern_names[] = {"transient", "persistent", "server", "device", "replay",
					    NULL};

static int is_pattern(const struct record *r)
{
	for (size_t i = 0; pattern_names[i]; i++)
		if (record_is(r, pattern_names[i]))
			return 1;
	return 0;
}

/* The words are kept until the nodes are known: NAME, then KEY=VALUE each, behind one another. */
static int add_pattern(struct sim *s, const struct record *r, struct error *err)
{
	char *words;
	size_t len = strlen(r->type) + 2, at;
	for (size_t i = 0; i < r->count; i++)
		len += strlen(r->field[i].key) + strlen(r->field[i].value) + 2;
	if (GROW(s->pattern, s->pattern_room, s->patterns + 1) != 0 || !(words = calloc(1, len)))
		return error_set(err, ERROR_OS, NULL, "out of memory");
	at = (size_t)sprintf(words, "%s", r->type) + 1;
	for (size_t i = 0; i < r->count; i++)
		at += (size_t)sprintf(words + at, "%s=%s", r->field[i].key, r->field[i].value) + 1;
	s->pattern[s->patterns++] = words;
	return 0;
}

int sim_add(struct sim *s, const struct record *r, struct error *err)
{
	if (record_is(r, "job"))
		return add_job(s, r, err);
	if (record_is(r, "cost"))
		return fields_read(cost_fields, r, &s->cost, err);
	if (record_is(r, "node"))
		return add_node(s, r, err);
	if (record_is(r, "event"))
		return add_event(s, r, err);
	return is_pattern(r) ? add_pattern(s, r, err) : 1;
}

/* ---- all is known ---- */

static int drag_order(const void *a, const void *b)
{
	const struct sim_drag *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int cluster_drags(struct sim *s, struct error *err)
{
	for (size_t i = 0; i < s->drags; i++) {
		struct sim_node *n = sim_find(s, s->drag_id[s->drag[i].node]);
		if (!n)
			return error_set(err, ERROR_DATA, NULL, "node id=%s: the job has no such node",
					 s->drag_id[s->drag[i].node]);
		s->drag[i].node = (uint32_t)(n - s->node);
	}
	if (s->drags > 0)
		qsort(s->drag, s->drags, sizeof *s->drag, drag_order);
	for (size_t i = 0; i < s->drags; i++) {
		struct sim_node *n = &s->node[s->drag[i].node];
		if (n->drags++ == 0)
			n->drag = &s->drag[i];
	}
	return 0;
}

static int cluster_pattern(struct sim *s, char *text, struct error *err)
{
	char *word[64];
	size_t words = 0;
	for (char *at = text; *at; at += strlen(at) + 1) {
		if (words == sizeof word / sizeof *word)
			return error_set(err, ERROR_DATA, NULL, "%s: too many words", text);
		word[words++] = at;
	}
	return schedule_add(s->schedule, word, words, err);
}

static int cluster_patterns(struct sim *s, struct error *err)
{
	const char **ids = malloc(s->nodes * sizeof *ids);
	struct schedule_options options = {.seed = s->options.seed, .scale = 1, .delay_scale = 1,
					   .intensity = NAN, .life = SCHEDULE_EVERY_LIFE,
					   .node = ids, .workers = s->workers,
					   .servers = s->nodes - s->workers};
	if (!ids)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < s->nodes; i++)
		ids[i] = s->node[i].id;
	int result = schedule_new(&s->schedule, &options, err);
	for (size_t i = 0; result == 0 && i < s->patterns; i++)
		if ((result = cluster_pattern(s, s->pattern[i], err)) != 0 && err->code == ERROR_USAGE)
			err->code = ERROR_DATA;
	free(ids);
	for (size_t i = 0; result == 0 && i < schedule_slots(s->schedule); i++) {
		const struct schedule_slot *slot = schedule_slot(s->schedule, i);
		struct sim_node *n = &s->node[slot->node];
		if (slot->life == SCHEDULE_EVERY_LIFE)
			n->slot = i + 1;
		else {
			n->life_slot = i + 1;
			n->slot_life = (uint32_t)slot->life;
		}
	}
	return result;
}

static int cluster_nodes(struct sim *s, struct error *err)
{
	s->workers = (size_t)s->job.workers;
	s->nodes = s->workers + (size_t)s->job.servers;
	if (!(s->node = calloc(s->nodes, sizeof *s->node)))
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < s->nodes; i++) {
		struct sim_node *n = &s->node[i];
		n->role = i < s->workers ? NODE_WORKER : NODE_SERVER;
		snprintf(n->id, sizeof n->id, "%s%zu", i < s->workers ? "w" : "ps",
			 i < s->workers ? i : i - s->workers);
		uint64_t share = s->job.batch / s->job.workers;
		n->size = n->new_size = share + (i < s->job.batch % s->job.workers);
		n->accum = n->new_accum = 1;
		n->restarted = -INFINITY;
		tally_start(&n->tally, s->job.report, fmin(0.5, s->job.every / 2), 0);
	}
	return 0;
}

int cluster_ready(struct sim *s, struct error *err)
{
	if (!s->has_job)
		return error_set(err, ERROR_DATA, NULL, "no job record");
	if (cluster_nodes(s, err) != 0 || cluster_drags(s, err) != 0 || cluster_patterns(s, err) != 0)
		return -1;
	for (size_t i = 0; i < s->happenings; i++) {
		struct sim_node *n = sim_find(s, s->happening[i].id);
		if (!n)
			return error_set(err, ERROR_DATA, NULL,
					 "event id=%s: the job has no such node", s->happening[i].id);
		if (events_add(&s->events, s->happening[i].at, EVENT_HAPPENS, (uint32_t)i, 0) != 0)
			return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	return 0;
}

void cluster_free(struct sim *s)
{
	for (size_t i = 0; i < s->patterns; i++)
		free(s->pattern[i]);
	for (size_t i = 0; i < s->nodes; i++)
		free(s->node[i].held);
	free(s->pattern);
	free(s->node);
	free(s->drag);
	free(s->drag_id);
	free(s->happening);
	schedule_free(s->schedule);
}

/* Time only goes on, so the place in a node's own list does, too. */
struct drag cluster_drag(struct sim *s, struct sim_node *n)
{
	struct drag d = {0};
	size_t slot = n->life_slot && n->slot_life == n->life ? n->life_slot : n->slot;
	while (n->drag_at < n->drags && n->drag[n->drag_at].at <= s->now)
		n->drag_at++;
	if (n->drag_at > 0)
		d = n->drag[n->drag_at - 1].drag;
	if (slot == 0)
		return d;
	struct schedule_state state;
	schedule_at(s->schedule, slot - 1, s->now, &state);
	if (state.drag.speed > 0) {
		double delay = d.delay;
		d = state.drag;
		d.delay += delay;
	} else
		d.delay += state.drag.delay;
	return d;
}
