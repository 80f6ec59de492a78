/* What the input says: the job, what things cost, the nodes and their patterns. */
#include "sim/sim_internal.h"

#include "base/grow.h"
#include "base/near.h"
#include "base/number.h"
#include "base/pool.h"
#include "job/deadline.h"
#include "lead/late.h"
#include "record/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB(name, what, member) FIELD(name, what, sim_job, member), .is_optional = 1
static const struct field job_fields[] = {
	{JOB("job", ID_COPY, id)},
	{FIELD("workers", U64, sim_job, workers), .min = 1},
	{FIELD("samples", U64, sim_job, samples), .min = 1},
	{FIELD("batch", U64, sim_job, batch), .min = 1},
	{JOB("servers", U64, servers), .none = 1},
	{JOB("most-workers", U64, worker_places)},
	{JOB("most-servers", U64, server_places)},
	{JOB("hosts", U64, hosts), .none = 1, .min = 1},
	{JOB("shard", U64, shard), .none = 0},
	{JOB("epochs", U64, epochs), .none = 1, .min = 1},
	{JOB("ahead", U64, ahead), .none = 4, .min = 1},
	{JOB("report", U64, report), .none = 10, .min = 1},
	{JOB("backup", U64, backup)},
	{JOB("delay", U64, delay), .none = SIM_NO_DELAY, .min = 1},
	{JOB("late", REAL, late)},
	{JOB("bytes", REAL, bytes)},
	{JOB("every", REAL, every)},
	{JOB("short", REAL, window_short)},
	{JOB("long", REAL, window_long)},
	{JOB("checkpoint", REAL, checkpoint)},
	{JOB("restart-window", REAL, restart_window)},
	{JOB("restart-cooldown", REAL, restart_cooldown)},
	{JOB("restart-limit", U64, restart_limit), .none = 3},
	{JOB("restarts", U64, restarts), .none = 10},
	{JOB("profile", FLAG, profile)},
	{JOB("load", FLAG, load)},
	{0}};

#define COST(name, member) {FIELD(name, REAL, sim_cost, member), .is_optional = 1}
static const struct field cost_fields[] = {
	COST("rows", rows), COST("pull", pull), COST("push", push), COST("message", message),
	COST("sum", sum), COST("commit", commit), COST("apply", apply), COST("batch", batch),
	COST("sample", sample), COST("start", start), COST("stagger", stagger), COST("save", save),
	COST("start-server", start_server), COST("hand-over", hand_over), COST("pending", pending),
	COST("pending-more", pending_more), {0}};

#define BRAIN(name, what, member) FIELD(name, what, sim_brain, member), .is_optional = 1
static const struct field brain_fields[] = {
	{FIELD("cores", U64, sim_brain, limits.cores), .min = 2},
	{FIELD("node-cores", U64, sim_brain, limits.node_cores), .min = 1},
	{BRAIN("every", REAL, limits.every)},
	{BRAIN("gain", REAL, limits.gain)},
	{BRAIN("limit", U64, limit), .none = 20},
	{BRAIN("worker-cores", U64, first[PLAN_WORKER])},
	{BRAIN("server-cores", U64, first[PLAN_SERVER])},
	{BRAIN("worker-most", REAL, most[PLAN_WORKER])},
	{BRAIN("server-most", REAL, most[PLAN_SERVER])},
	{BRAIN("memory", U64, limits.bytes)},
	{BRAIN("node-memory", U64, limits.node_bytes)},
	{BRAIN("worker-bytes", REAL, uses[PLAN_WORKER])},
	{BRAIN("server-bytes", REAL, uses[PLAN_SERVER])},
	{0}};

static int cluster_read_job(struct sim_job *j, const struct record *r, struct error *err)
{
	const char *sync = record_get(r, "sync"), *solution = record_get(r, "solution"),
		   *predict = record_get(r, "predict");
	if (fields_read(job_fields, r, j, err) != 0)
		return -1;
	if (!*j->id)
		snprintf(j->id, sizeof j->id, "sim");
	snprintf(j->sync, sizeof j->sync, "%.30s", sync ? sync : "bsp");
	snprintf(j->solution, sizeof j->solution, "%s", solution ? solution : "none");
	j->profile |= strcmp(j->solution, "antdt-dd") == 0;
	j->predicts = predict && strcmp(predict, "none") != 0;
	if (j->predicts && predict_model_of(predict, &j->predict) != 0)
		return error_set(err, ERROR_DATA, NULL, "predict=%.40s: none|" PREDICT_CHOICES, predict);
	return 0;
}

/* By their keys of `trainctl solve -o`. */
static int cluster_read_options(struct sim_job *j, const struct record *r, struct error *err)
{
	const struct solution_option *row;
	struct error what;
	solution_options_init(&j->options);
	for (size_t i = 0; (row = solution_option(i)); i++) {
		const char *value = record_get(r, row->key);
		if (value && solution_option_set(row, &j->options, value, &what) != 0)
			return error_set(err, ERROR_DATA, NULL, "%s=%.40s: %.200s", row->key, value, what.text);
	}
	j->options.limit = j->restart_limit;
	return 0;
}

static int cluster_read_hung(struct sim *s, const struct record *r, struct error *err)
{
	const char *hung = record_get(r, "hung");
	struct error what;
	if (deadline_rules(&s->hung, hung ? hung : "", &what) != 0)
		return error_set(err, ERROR_DATA, NULL, "hung=%.40s: %.200s", hung, what.text);
	return 0;
}

/* FABRIC, and where a bound of the delay means something here. */
static int cluster_read_fabric(struct sim_job *j, const struct record *r, struct error *err)
{
	const char *fabric = record_get(r, "fabric");
	j->by_links = fabric && strcmp(fabric, "mlfabric") == 0;
	if (fabric && !j->by_links && strcmp(fabric, "plain") != 0)
		return error_set(err, ERROR_DATA, NULL, "fabric=%.40s: plain or mlfabric", fabric);
	j->overlaps = strcmp(j->sync, "allreduce") == 0 && j->delay == 1;
	if (j->delay != SIM_NO_DELAY && strncmp(j->sync, "ssp", 3) != 0 && strcmp(j->sync, "asp") != 0 && !j->overlaps)
		return error_set(err, ERROR_DATA, NULL, "delay=: only with sync=ssp:N and asp, or 1 with allreduce");
	if (j->late > 0 && (!j->overlaps || j->late < 1 || j->late > LATE_TIMES_MAX))
		return error_set(err, ERROR_DATA, NULL, "late=: 1 to %g, with sync=allreduce delay=1", LATE_TIMES_MAX);
	return 0;
}

/* Whether the batch grows with the workers: that sqrt is another learning rate makes no difference here. */
static int cluster_read_scaling(struct sim_job *j, const struct record *r, struct error *err)
{
	const char *scaling = record_get(r, "scaling");
	if (!scaling || strcmp(scaling, "none") == 0)
		return 0;
	j->grows = 1;
	if (strcmp(scaling, "linear") != 0 && strcmp(scaling, "sqrt") != 0)
		return error_set(err, ERROR_DATA, NULL, "scaling=%.40s: none, linear or sqrt", scaling);
	if (balance_is(j->solution))
		return error_set(err, ERROR_DATA, NULL, "scaling=%.40s: not with solution=%.40s", scaling, j->solution);
	return 0;
}

static int cluster_over(const char *key, uint64_t value, uint64_t max, struct error *err)
{
	if (value <= max)
		return 0;
	return error_set(err, ERROR_DATA, NULL, "%s=%llu: at most %llu", key,
			 (unsigned long long)value, (unsigned long long)max);
}

static int cluster_check_job(const struct sim_job *j, struct error *err)
{
	uint64_t hosts = j->workers < GATE_REPLICAS_MAX ? j->workers : GATE_REPLICAS_MAX;
	if (cluster_over("workers", j->workers, SIM_NODES_MAX, err) != 0 ||
	    cluster_over("servers", j->servers, SIM_SERVERS_MAX, err) != 0 ||
	    cluster_over("most-workers", j->worker_places, SIM_NODES_MAX, err) != 0 ||
	    cluster_over("most-servers", j->server_places, SIM_SERVERS_MAX, err) != 0 ||
	    cluster_over("hosts", j->hosts, hosts, err) != 0 ||
	    cluster_over("batch", j->batch, j->workers * NODE_BATCH_MAX, err) != 0 ||
	    cluster_over("backup", j->backup, j->workers - 1, err) != 0 ||
	    cluster_over("ahead", j->ahead, SIM_AHEAD_MAX, err) != 0)
		return -1;
	if (j->batch < j->workers)
		return error_set(err, ERROR_DATA, NULL,
				 "batch=%llu is less than a sample for each of %llu workers",
				 (unsigned long long)j->batch, (unsigned long long)j->workers);
	if (!(j->every >= SIM_EVERY_MIN))
		return error_set(err, ERROR_DATA, NULL, "every=%g: at least %g", j->every, SIM_EVERY_MIN);
	if (j->checkpoint > 0 && j->checkpoint < SIM_EVERY_MIN)
		return error_set(err, ERROR_DATA, NULL, "checkpoint=%g: 0, or at least %g", j->checkpoint,
				 SIM_EVERY_MIN);
	return 0;
}

static void cluster_make_node(struct sim *s, size_t i)
{
	struct sim_node *n = &s->node[i];
	uint64_t share = s->job.batch / s->job.workers;
	n->pace = 1;
	n->owes = n->ready_at = -1;
	overlap_forget(n);
	n->host = i < s->workers ? (uint32_t)(i % s->first_workers * s->job.hosts / s->first_workers) : SIM_NO_HOST;
	n->has_come = i >= s->job.workers; /* the lead does not expect it at the beginning */
	n->role = i < s->workers ? NODE_WORKER : NODE_SERVER;
	snprintf(n->id, sizeof n->id, "%s%zu", i < s->workers ? "w" : "ps",
		 i < s->workers ? i : i - s->workers);
	actions_start(&n->actions, n->id, share + (i < s->job.batch % s->job.workers));
	tally_start(&n->tally, 0);
	s->id[i] = n->id;
}

static int cluster_make_nodes(struct sim *s, struct error *err)
{
	struct sim_job *j = &s->job;
	j->worker_places = j->worker_places > j->workers ? j->worker_places : j->workers;
	j->server_places = j->server_places > j->servers && j->servers > 0 ? j->server_places : j->servers;
	s->first_workers = j->workers;
	s->first_servers = j->servers;
	s->chance = s->options.seed;
	s->reports = (struct tally_rules){j->report, fmin(0.5, j->every / 2)};
	s->workers = (size_t)j->worker_places;
	s->nodes = s->workers + (size_t)j->servers;
	s->places = s->workers + (size_t)j->server_places;
	/* The nodes come last: cluster_free() takes what is there for made. */
	if (!(s->id = malloc(s->places * sizeof *s->id)) ||
	    !(s->row_seat = calloc(s->places, sizeof *s->row_seat)) ||
	    !(s->host = calloc((size_t)j->hosts, sizeof *s->host)) ||
	    !(s->node = pool_array(s->places * sizeof *s->node)))
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", s->places);
	for (size_t i = 0; i < s->places; i++)
		cluster_make_node(s, i);
	struct schedule_options options = {.seed = s->options.seed, .scale = 1, .delay_scale = 1,
					   .intensity = NAN, .life = SCHEDULE_EVERY_LIFE,
					   .node = s->id, .workers = s->workers,
					   .servers = s->places - s->workers};
	return schedule_new(&s->schedule, &options, err);
}

static int cluster_add_job(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_job *j = &s->job;
	if (s->nodes > 0)
		return error_set(err, ERROR_DATA, NULL, "a second job");
	*j = (struct sim_job){.every = 10, .window_short = 60, .window_long = 600,
			      .restart_window = 600, .restart_cooldown = 60};
	if (cluster_read_job(j, r, err) != 0 || cluster_read_options(j, r, err) != 0 ||
	    cluster_read_fabric(j, r, err) != 0 || cluster_read_scaling(j, r, err) != 0 ||
	    cluster_read_hung(s, r, err) != 0)
		return -1;
	if (strcmp(j->sync, "allreduce") == 0)
		j->servers = 0;
	if (s->options.solution)
		snprintf(j->solution, sizeof j->solution, "%s", s->options.solution);
	j->predicts &= strcmp(j->solution, "lb-bsp") == 0;
	if (cluster_check_job(j, err) != 0 || cluster_make_nodes(s, err) != 0)
		return -1;
	if (leading_ready(s, err) == 0 && control_ready(s, err) == 0)
		return 0;
	if (err->code != ERROR_OS)
		err->code = ERROR_DATA;
	return -1;
}

static int cluster_add_cost(struct sim *s, const struct record *r, struct error *err)
{
	return fields_read(cost_fields, r, &s->cost, err);
}

/* The limits that the file does not name are those of a job. */
static int cluster_add_brain(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_brain *b = &s->brain, read = {.limits = {.gain = 0.05, .every = 60}};
	const char *program = record_get(r, "program");
	if (resources_is_there(s))
		return error_set(err, ERROR_DATA, NULL, "a second brain");
	if (s->job.servers == 0)
		return error_set(err, ERROR_DATA, NULL, "a brain divides cores between workers and servers: there are none");
	snprintf(read.program, sizeof read.program, "%s", program ? program : BRAIN_ON);
	if (!brain_is_known(read.program) || strcmp(read.program, BRAIN_OFF) == 0)
		return error_set(err, ERROR_DATA, NULL, "program=%.200s: neither on nor an executable", read.program);
	if (fields_read(brain_fields, r, &read, err) != 0)
		return -1;
	const uint64_t cores[] = {read.limits.cores, read.limits.node_cores, read.first[PLAN_WORKER],
				  read.first[PLAN_SERVER]};
	for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
		if (cores[i] > PLAN_CORES_MAX)
			return error_set(err, ERROR_DATA, NULL, "%llu cores: at most %d",
					 (unsigned long long)cores[i], PLAN_CORES_MAX);
	if (read.limits.bytes > PLAN_BYTES_MAX || read.limits.node_bytes > PLAN_BYTES_MAX)
		return error_set(err, ERROR_DATA, NULL, "memory: at most %llu bytes", (unsigned long long)PLAN_BYTES_MAX);
	struct job job = {.cores = read.limits.cores, .node_cores = read.limits.node_cores,
			  .memory = read.limits.bytes, .node_memory = read.limits.node_bytes,
			  .plan_gain = read.limits.gain, .plan_every = read.limits.every};
	read.limits = brain_limits_of(&job, NULL);
	*b = read;
	return 0;
}

static struct sim_node *cluster_node(struct sim *s, const struct record *r, struct error *err)
{
	const char *id;
	if (record_id(r, "id", &id, err) != 0)
		return NULL;
	struct sim_node *n = sim_find(s, id);
	if (!n)
		error_set(err, ERROR_DATA, NULL, "id=%s: the job has no such node", id);
	return n;
}

static int cluster_read_from(struct sim *s, const struct record *r, struct sim_from *from,
			     struct error *err)
{
	const struct sim_node *n = cluster_node(s, r, err);
	if (!n)
		return -1;
	from->node = (uint32_t)(n - s->node);
	return record_real_opt(r, "at", 0, SIM_SECONDS_MAX, &from->at, err);
}

/* h0, h1, ..., as many as the job has. NULL: there is none of that name. */
static struct sim_line *cluster_host(struct sim *s, const char *id)
{
	uint64_t i;
	return id[0] == 'h' && (id[1] != '0' || !id[2]) && number_u64(id + 1, 0, s->job.hosts - 1, &i, NULL, NULL) == 0
		       ? &s->host[i] : NULL;
}

static int cluster_read_host(struct sim *s, const struct record *r, uint32_t node, struct error *err)
{
	const char *id = record_get(r, "host");
	const struct sim_line *host = id ? cluster_host(s, id) : NULL;
	if (id && !host)
		return error_set(err, ERROR_DATA, NULL, "host=%.40s: the job has no such host", id);
	if (host)
		s->node[node].host = (uint32_t)(host - s->host);
	return 0;
}

static int cluster_add_node(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_drag d = {0};
	if (cluster_read_from(s, r, &d.from, err) != 0 || drag_fields(r, &d.drag, err) != 0 ||
	    cluster_read_host(s, r, d.from.node, err) != 0)
		return -1;
	if (GROW(s->drag, s->drag_room, s->drags + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	d.from.number = (uint32_t)s->drags;
	s->drag[s->drags++] = d;
	return 0;
}

static int cluster_add_link(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_link l = {0};
	const char *id = record_get(r, "id");
	const struct sim_line *host = id ? cluster_host(s, id) : NULL;
	if ((host ? record_real_opt(r, "at", 0, SIM_SECONDS_MAX, &l.from.at, err)
		  : cluster_read_from(s, r, &l.from, err)) != 0)
		return -1;
	if (host)
		l.from.node = (uint32_t)(s->places + (size_t)(host - s->host));
	if (record_real(r, "rate", 1e-3, 1e15, &l.rate, err) != 0)
		return -1;
	if (GROW(s->link, s->link_room, s->links + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	l.from.number = (uint32_t)s->links;
	s->link[s->links++] = l;
	return 0;
}

static int cluster_add_happening(struct sim *s, const struct sim_happening *h, double at, struct error *err)
{
	if (GROW(s->happening, s->happening_room, s->happenings + 1) != 0 ||
	    events_add(&s->events, (struct event){.at = at, .kind = EVENT_HAPPENS, .node = (uint32_t)s->happenings}) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->moves++;
	s->happening[s->happenings++] = *h;
	return 0;
}

static int cluster_add_scale(struct sim *s, const struct record *r, struct error *err)
{
	struct sim_happening h = {.kind = HAPPENS_SCALE};
	double at;
	if (record_u64(r, "workers", 1, scale_workers_most(s), &h.workers, err) != 0 ||
	    record_u64_opt(r, "servers", 1, s->job.server_places, &h.servers, err) != 0 ||
	    record_real(r, "at", 0, SIM_SECONDS_MAX, &at, err) != 0)
		return -1;
	return cluster_add_happening(s, &h, at, err);
}

static int cluster_add_event(struct sim *s, const struct record *r, struct error *err)
{
	static const char *const kinds[] = {"kill", "join", "leave", "stop", "go-on", "restart", NULL};
	struct sim_happening h = {0};
	const char *kind;
	double at;
	const struct sim_node *n = cluster_node(s, r, err);
	if (!n || record_text(r, "kind", &kind, err) != 0 ||
	    record_real(r, "at", 0, SIM_SECONDS_MAX, &at, err) != 0)
		return -1;
	while (kinds[h.kind] && strcmp(kinds[h.kind], kind) != 0)
		h.kind++;
	if (!kinds[h.kind])
		return error_set(err, ERROR_DATA, NULL, "kind=%.40s: kill, join, leave, stop, go-on or restart", kind);
	if (n->role != NODE_WORKER && h.kind != HAPPENS_RESTART && h.kind != HAPPENS_KILL)
		return error_set(err, ERROR_DATA, NULL, "id=%s: only workers come and go", n->id);
	s->back.is_possible |= n->role != NODE_WORKER && h.kind == HAPPENS_KILL;
	h.node = (uint32_t)(n - s->node);
	return cluster_add_happening(s, &h, at, err);
}

/* As straggle(1) has it on its command line: a name and KEY=VALUE words. */
static int cluster_add_pattern(struct sim *s, const struct record *r, struct error *err)
{
	char text[RECORD_LINE_MAX + 1], *word[RECORD_FIELDS_MAX + 1];
	size_t at = 0;
	word[0] = text;
	at += (size_t)snprintf(text, sizeof text, "%s", r->type) + 1;
	for (size_t i = 0; i < r->count; i++) {
		word[i + 1] = text + at;
		at += (size_t)snprintf(text + at, sizeof text - at, "%s=%s", r->field[i].key,
				       r->field[i].value) + 1;
	}
	int result = schedule_add(s->schedule, word, r->count + 1, err);
	if (result != 0 && err->code != ERROR_OS)
		err->code = ERROR_DATA;
	return result;
}

/* Keys that no table of fields has; a pattern refuses what it does not know itself. */
static const char *const job_keys[] = {"sync", "solution", "predict", "hung", "fabric", "scaling", NULL},
			 *const no_keys[] = {NULL}, *const brain_keys[] = {"program", NULL},
			 *const node_keys[] = {"id", "host", "at", "delay", "speed", "launch", "saturation", "memory", "type",
					       "cores", NULL},
			 *const link_keys[] = {"id", "rate", "at", NULL},
			 *const event_keys[] = {"id", "kind", "at", NULL},
			 *const scale_keys[] = {"workers", "servers", "at", NULL};

static const struct cluster_record {
	const char *type;
	int (*add)(struct sim *s, const struct record *r, struct error *err);
	const char *const *key; /* NULL: a pattern */
	const struct field *field; /* more keys; NULL: none */
} cluster_records[] = {{"job", cluster_add_job, job_keys, job_fields},
		       {"cost", cluster_add_cost, no_keys, cost_fields},
		       {"brain", cluster_add_brain, brain_keys, brain_fields},
		       {"node", cluster_add_node, node_keys, NULL},
		       {"link", cluster_add_link, link_keys, NULL},
		       {"event", cluster_add_event, event_keys, NULL},
		       {"scale", cluster_add_scale, scale_keys, NULL},
		       {"transient", cluster_add_pattern, NULL, NULL},
		       {"persistent", cluster_add_pattern, NULL, NULL},
		       {"server", cluster_add_pattern, NULL, NULL},
		       {"device", cluster_add_pattern, NULL, NULL},
		       {"replay", cluster_add_pattern, NULL, NULL},
		       {0}};

static int cluster_is_key(const struct cluster_record *kind, const char *key, struct near *near)
{
	const struct solution_option *option;
	for (size_t i = 0; kind->key[i]; i++)
		near_look(near, key, kind->key[i]);
	for (const struct field *f = kind->field; f && f->key; f++)
		near_look(near, key, f->key);
	for (size_t i = 0; kind->field == job_fields && (option = solution_option(i)); i++)
		near_look(near, key, option->key);
	return near->word && strcmp(near->word, key) == 0;
}

/* A mistyped cost would cost nothing. */
static int cluster_check_keys(const struct cluster_record *kind, const struct record *r, struct error *err)
{
	for (size_t i = 0; kind->key && i < r->count; i++) {
		const char *key = r->field[i].key;
		struct near near = {0};
		if (cluster_is_key(kind, key, &near))
			continue;
		return near_enough(&near, key)
			       ? error_set(err, ERROR_DATA, NULL, "%s has no key %.40s=; the nearest is %s=", r->type, key, near.word)
			       : error_set(err, ERROR_DATA, NULL, "%s has no key %.40s=", r->type, key);
	}
	return 0;
}

int sim_add(struct sim *s, const struct record *r, struct error *err)
{
	const struct cluster_record *kind = cluster_records;
	while (kind->type && !record_is(r, kind->type))
		kind++;
	if (!kind->type)
		return 1;
	if (s->nodes == 0 && kind->add != cluster_add_job)
		return error_set(err, ERROR_DATA, NULL, "%.40s: a job record must come first", r->type);
	return cluster_check_keys(kind, r, err) == 0 ? kind->add(s, r, err) : -1;
}

/* ---- all is known ---- */

/* Each of the records begins with it. Of two for one time the later one holds, and is behind the other. */
static int cluster_order(const void *a, const void *b)
{
	const struct sim_from *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Each node gets its own records, in their order. */
static void cluster_share_out(struct sim *s)
{
	if (s->drags > 0)
		qsort(s->drag, s->drags, sizeof *s->drag, cluster_order);
	if (s->links > 0)
		qsort(s->link, s->links, sizeof *s->link, cluster_order);
	for (size_t i = 0; i < s->drags; i++) {
		struct sim_node *n = &s->node[s->drag[i].from.node];
		if (n->drags++ == 0)
			n->drag = &s->drag[i];
	}
	for (size_t i = 0; i < s->links; i++) {
		struct sim_line *l = network_line(s, s->link[i].from.node);
		if (l->links++ == 0)
			l->link = &s->link[i];
	}
}

static void cluster_slots(struct sim *s)
{
	for (size_t i = 0; i < schedule_slots(s->schedule); i++) {
		const struct schedule_slot *slot = schedule_slot(s->schedule, i);
		struct sim_node *n = &s->node[slot->node];
		if (slot->life == SCHEDULE_EVERY_LIFE)
			n->slot = (uint32_t)i + 1;
		else {
			n->life_slot = (uint32_t)i + 1;
			n->slot_life = (uint32_t)slot->life;
		}
	}
}

int cluster_ready(struct sim *s, struct error *err)
{
	if (s->nodes == 0)
		return error_set(err, ERROR_DATA, NULL, "no job record");
	cluster_share_out(s);
	cluster_slots(s);
	return resources_ready(s, err);
}

void cluster_free(struct sim *s)
{
	for (size_t i = 0; i < s->places && s->node; i++) {
		free(s->node[i].many);
		free(s->node[i].announced);
		predictor_free(s->node[i].speed);
	}
	free(s->node);
	free(s->id);
	free(s->row_seat);
	free(s->drag);
	free(s->link);
	free(s->host);
	free(s->happening);
	schedule_free(s->schedule);
}

/* Patterns change at few moments; in between, what they say of a node is kept, unless it is a device. */
static uint32_t cluster_turn(struct sim *s)
{
	if (s->now >= s->turn_ends) {
		s->turn++;
		s->turn_ends = schedule_next(s->schedule, s->now);
	}
	return s->turn;
}

int cluster_stays(struct sim *s, double until)
{
	cluster_turn(s);
	return s->turn_ends > until;
}

static void cluster_add_patterns(struct sim *s, struct sim_node *n, uint32_t slot, struct drag *d)
{
	struct schedule_state state;
	schedule_at(s->schedule, slot - 1, s->now, &state);
	n->turn = state.drag.speed > 0 ? 0 : s->turn;
	n->turn_slot = slot;
	n->turn_delay = state.drag.delay;
	if (state.drag.speed > 0) {
		double delay = d->delay;
		*d = state.drag;
		d->delay += delay;
	} else
		d->delay += state.drag.delay;
}

const struct drag cluster_no_drag;

/* Time only goes on, so the place in a node's own list does, too. */
static const struct drag *cluster_own_drag(const struct sim *s, struct sim_node *n)
{
	while (n->drag_at < n->drags && n->drag[n->drag_at].from.at <= s->now)
		n->drag_at++;
	return n->drag_at > 0 ? &n->drag[n->drag_at - 1].drag : &cluster_no_drag;
}

/* Most nodes have no drags of their own, and need not be looked at for their place in them. */
const struct drag *cluster_look_at_drags(struct sim *s, struct sim_node *n)
{
	uint32_t slot = n->life_slot && n->slot_life == n->life ? n->life_slot : n->slot;
	const struct drag *own = n->drags > 0 ? cluster_own_drag(s, n) : &cluster_no_drag;
	if (slot == 0)
		return own;
	int is_told = n->turn == cluster_turn(s) && n->turn_slot == slot;
	if (is_told && !(n->turn_delay > 0))
		return own;
	s->dragged = *own;
	if (is_told)
		s->dragged.delay += n->turn_delay;
	else
		cluster_add_patterns(s, n, slot, &s->dragged);
	return &s->dragged;
}
