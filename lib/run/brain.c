/* brain: see brain.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/grow.h"
#include "plan/history.h"
#include "proc/child.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define CHANGE_SECONDS 600.0     /* a change counts as done then, however far it came */

/* ---- sizes ---- */

static const struct role *role_of(enum plan_role role)
{
	return role == PLAN_WORKER ? &role_worker : &role_server;
}

static uint64_t brain_count_of(const struct supervisor *s, enum plan_role role)
{
	return sup_count(s, role_of(role));
}

/* Where the job file gives no cores, all are shared out evenly. */
static void first_sizes(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	const double cores[PLAN_ROLES] = {s->job->worker_cores, s->job->server_cores};
	const uint64_t bytes[PLAN_ROLES] = {s->job->worker_memory, s->job->server_memory};
	uint64_t nodes = sup_scale_workers(s) + sup_scale_servers(s);
	uint64_t each = brain_limits_share(&b->limits, nodes);
	for (int i = 0; i < PLAN_ROLES; i++) {
		uint64_t given = cores[i] < 1 ? 0 : (uint64_t)cores[i];
		if (b->size[i].cores == 0)
			b->size[i].cores = given > 0 ? given : each;
		if (b->size[i].bytes == 0)
			b->size[i].bytes = bytes[i];
	}
}

/* A brain plans whole cores; parts of a core stay as the job file says. */
void sup_brain_size(struct sup_node *n)
{
	const struct sup_brain *b = &n->sup->brain;
	if (!job_has_brain(n->sup->job) || !sup_node_is_off(n))
		return;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (n->role == role_of((enum plan_role)i) && b->size[i].cores > 0)
			sup_node_sized(n, (double)b->size[i].cores, b->size[i].bytes);
}

/* ---- measuring ---- */

static int is_settled_node(const struct sup_node *n)
{
	const struct snapshot_node *m = sup_measured(n);
	return n->stage == STAGE_READY && !n->restart.wanted && n->restart.from == 0 && m &&
	       m->state == NODE_UP && m->size > 0 && snapshot_known(m->total.batches) &&
	       snapshot_known(m->last);
}

static int is_settled(const struct supervisor *s)
{
	if (!sup_turn_may_begin(s, TURN_PLAN) || s->progress.all_done)
		return 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i))
			if (!is_settled_node(n))
				return 0;
	return 1;
}

/* A number for the present set of processes: if it differs, the set is another one. */
static uint64_t which_nodes(const struct supervisor *s)
{
	uint64_t sum = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			char text[OPTION_ID_MAX + 32];
			snprintf(text, sizeof text, "%s.%llu ", n->id,
				 (unsigned long long)n->lives);
			sum = XXH3_64bits_withSeed(text, strlen(text), sum);
		}
	return sum;
}

static void brain_begin_round(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	b->measure.count = 0;
	b->since = clock_mono();
	b->nodes = which_nodes(s);
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i))
			if (measure_add(&b->measure, (enum plan_role)i, n->id, sup_measured(n)) != 0) {
				b->since = 0; /* tried again */
				return;
			}
}

/* What is known of the nodes now. They are in the order of brain_begin_round(), and their processes
 * are the same. */
static void brain_look(struct supervisor *s)
{
	struct measure_node *k = s->brain.measure.node;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			k->now = sup_measured(n);
			k->cores = n->cores;
			k->memory = n->memory;
			k++;
		}
}

/* Whether these are still the nodes of the round; then they are looked at. */
static int brain_is_same(struct supervisor *s)
{
	if (which_nodes(s) != s->brain.nodes)
		return 0;
	brain_look(s);
	return !measure_counts_anew(&s->brain.measure);
}

/* The caller frees it. NULL: out of memory. */
static char *round_text(const struct supervisor *s, size_t *len)
{
	const struct measure_job job = {.batch = s->job->batch,
					.sync = s->job->sync,
					.samples = s->options.samples * s->job->epochs,
					.done = s->progress.stat.samples_done,
					.at = clock_epoch(),
					.changed = s->brain.past.changed,
					.may_rebalance = sup_rebalance_is_offered(s)};
	return measure_text(&s->brain.measure, &job, len);
}

static double brain_rate(const struct supervisor *s)
{
	return measure_rate(&s->brain.measure, s->job->batch);
}

/* ---- the log ---- */

static void brain_put_line(const char *line, size_t len, void *supervisor)
{
	sup_log_text(supervisor, line, len);
}

static void log_lines(struct supervisor *s, const char *text, size_t len)
{
	want_lines(text, len, brain_put_line, s);
}

static void log_asked(struct supervisor *s, const char *text, size_t len)
{
	struct record_out *o = RECORD("brain-asked", F("brain", s->job->brain));
	brain_limits_add(o, &s->brain.limits);
	sup_log(s, o);
	log_lines(s, text, len);
}

static void brain_sizes(const struct supervisor *s, struct plan_role_size size[PLAN_ROLES])
{
	for (int i = 0; i < PLAN_ROLES; i++) {
		size[i] = s->brain.size[i];
		size[i].count = brain_count_of(s, (enum plan_role)i);
	}
}

static void brain_add_known(const struct supervisor *s, struct record_out *o)
{
	struct plan_role_size size[PLAN_ROLES];
	brain_sizes(s, size);
	want_add_known(o, size, &s->brain.past);
}

void sup_brain_log_known(struct supervisor *s)
{
	const char *text;
	size_t len;
	if (!job_has_brain(s->job))
		return;
	for (size_t i = 0; (text = rounds_at(&s->brain.rounds, i, &len)); i++) {
		sup_log(s, RECORD_BARE("brain-known"));
		log_lines(s, text, len);
	}
	sup_brain_log_sizes(s);
}

/* ---- the end of a round ---- */

static void brain_done(struct supervisor *s, struct record_out *o)
{
	sup_log(s, o);
	s->brain.under_way = 0;
	brain_begin_round(s);
}

static void brain_skip(struct supervisor *s, const char *why)
{
	struct sup_brain *b = &s->brain;
	if (b->failed++ == 0 || strcmp(why, b->fails) != 0)
		sup_note(s, "warning", "brain %s: %s; skipped", s->job->brain, why);
	snprintf(b->fails, sizeof b->fails, "%s", why);
	brain_done(s, RECORD("brain-done", F("skipped", 1)));
}

static void brain_well(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	if (b->failed > 0)
		sup_note(s, "brain", "brain %s works again: %llu %s failed", s->job->brain,
			 (unsigned long long)b->failed, b->failed == 1 ? "round" : "rounds");
	b->failed = 0;
}

/* ---- carrying out ---- */

static struct want_rules brain_rules(const struct supervisor *s)
{
	const struct job *job = s->job;
	return (struct want_rules){.most = {sup_scale_workers_most(s), job_servers_most()},
				   .cores = s->brain.limits.cores,
				   .node_cores = s->brain.limits.node_cores,
				   .limits_memory = job->memory || job->node_memory || job->worker_memory ||
						    job->server_memory};
}

static void brain_log_done(struct supervisor *s, const struct answer *a, const struct want *w,
			   const char *refused)
{
	struct record_out *o = RECORD_BARE("brain-done");
	want_add_done(o, a, w, refused, brain_rate(s), s->job->batch);
	brain_done(s, o);
}

static void brain_tell(struct supervisor *s, const struct answer *a, const struct want *w)
{
	struct sup_brain *b = &s->brain;
	want_text(w, a, b->last, sizeof b->last);
	b->last_at = clock_mono();
	sup_note(s, "brain", "%s", b->last);
}

/* Gives a worker a smaller batch, where there is no more memory. */
static int make_smaller(struct supervisor *s, struct sup_node *n, const struct answer_node *k,
			struct error *err)
{
	struct action action = {.kind = ACTION_ADJUST_BS, .role = NODE_WORKER, .accum = 1};
	struct decision list = {0};
	action.size = sup_share(n) * k->batch / s->job->batch;
	if (action.size < s->job->options.least)
		action.size = s->job->options.least;
	snprintf(action.id, sizeof action.id, "%s", n->id);
	snprintf(action.reason, sizeof action.reason, "brain: %s", k->reason);
	int result = decision_add(&list, &action, 0, err);
	if (result == 0)
		result = sup_actions_carry(s, &list, "brain", NULL, err) < 0 ? -1 : 0;
	decision_free(&list);
	return result;
}

/* Says it once, because a brain asks for the same in every round. */
static void brain_tell_once(struct supervisor *s, const char *text)
{
	if (strcmp(text, s->brain.node_told) == 0)
		return;
	snprintf(s->brain.node_told, sizeof s->brain.node_told, "%s", text);
	sup_note(s, "warning", "brain: %s", text);
}

static void tell_node(struct sup_node *n, const char *why)
{
	char text[sizeof n->sup->brain.node_told];
	snprintf(text, sizeof text, "%s is not started anew: %.150s", n->id, why);
	brain_tell_once(n->sup, text);
}

/* Restarts it on another host. A server can only hand over to a process on its own host, and there
 * may be no other host: then it is restarted where it is, which may help as well. */
static const char *brain_migrate(struct sup_node *n, const char *reason)
{
	const char *why = sup_restart_elsewhere(n, 0, reason);
	int stays = why && (strcmp(why, "hands-over") == 0 || strcmp(why, "no-host") == 0);
	return stays ? sup_restart(n, 0, reason) : why;
}

/* Returns whether something was done. What can't be done is said. */
static int change_node(struct supervisor *s, const struct answer_node *k)
{
	struct sup_node *n = sup_find_of(s, role_of(k->role), k->id);
	char reason[ANSWER_WORD_MAX + 16];
	struct error err;
	const char *why = NULL;
	snprintf(reason, sizeof reason, "brain: %s", k->reason);
	if (!n) {
		char text[OPTION_ID_MAX + 32];
		snprintf(text, sizeof text, "there is no %s %s", plan_role_name(k->role), k->id);
		brain_tell_once(s, text);
		return 0;
	}
	if (k->what == PLAN_REBALANCE) {
		if (sup_rebalance_want(s, k->reason, NULL) == 0)
			return 1;
		brain_tell_once(s, "servers can't divide their parameters anew now");
	} else if (k->batch > 0 && k->role == PLAN_WORKER) {
		if (make_smaller(s, n, k, &err) == 0)
			return 1;
		why = err.text;
	} else if (k->what == PLAN_REPLACE && strcmp(k->reason, "hot") == 0 &&
		   sup_rebalance_helps(n)) {
		return 1;
	} else if ((why = want_node_refusal(k, n->cores, n->memory, s->brain.limits.node_cores))) {
		; /* it is told */
	} else if (k->what == PLAN_REPLACE) {
		why = sup_node_resize(n, k->cores > 0 ? (double)k->cores : n->cores,
				      k->bytes > 0 ? k->bytes : n->memory, reason);
		why = why ? sup_restart_why(why) : NULL;
	} else {
		why = brain_migrate(n, reason);
		why = why ? sup_restart_why(why) : NULL;
	}
	if (why)
		tell_node(n, why);
	return why == NULL;
}

static void begin_change(struct supervisor *s, const struct answer *a, const struct want *w)
{
	struct sup_brain *b = &s->brain;
	b->only_shares = !w->counts && !w->sizes;
	for (size_t i = 0; i < a->count; i++)
		b->only_shares &= a->node[i].what == PLAN_REBALANCE;
	b->changing = 1;
	b->began = clock_mono();
	b->before = brain_rate(s) * (double)s->job->batch;
	b->samples = s->progress.stat.samples_done;
	sup_kick(s);
}

/* Returns whether anything was done. */
static int resize_one(struct sup_node *n, const struct plan_role_size *to, const char *reason)
{
	if ((double)to->cores == n->cores && to->bytes == n->memory)
		return 0;
	const char *why = sup_node_resize(n, (double)to->cores, to->bytes, reason);
	if (why)
		tell_node(n, sup_restart_why(why));
	return why == NULL;
}

/* Returns whether anything was done. */
static int brain_resize(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	int some = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i))
			if (b->resizing >> i & 1)
				some |= resize_one(n, &b->size[i], b->reason);
	b->resizing = 0;
	sup_in_force_changed(s);
	return some;
}

void sup_brain_print(const struct supervisor *s, FILE *out)
{
	const struct sup_brain *b = &s->brain;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (b->resizing >> i & 1)
			record_print(out, RECORD("resizing",
						 F("role", plan_role_name((enum plan_role)i)),
						 F("cores", b->size[i].cores),
						 F("memory", b->size[i].bytes),
						 F("reason", b->reason)));
}

int sup_brain_restore(struct supervisor *s, const struct record *r, struct error *err)
{
	struct sup_brain *b = &s->brain;
	struct plan_role_size to;
	const char *role, *reason;
	if (record_text(r, "role", &role, err) != 0 ||
	    record_text(r, "reason", &reason, err) != 0 ||
	    record_u64(r, "cores", 0, UINT32_MAX, &to.cores, err) != 0 ||
	    record_u64(r, "memory", 0, UINT64_MAX, &to.bytes, err) != 0)
		return -1;
	if (!job_has_brain(s->job))
		return 0;
	for (int i = 0; i < PLAN_ROLES; i++) {
		if (strcmp(role, plan_role_name((enum plan_role)i)) != 0)
			continue;
		b->size[i].cores = to.cores;
		b->size[i].bytes = to.bytes;
		b->resizing |= 1u << i;
	}
	snprintf(b->reason, sizeof b->reason, "%s", reason);
	b->changing = 1;
	b->began = clock_mono();
	return 0;
}

static int brain_is_too_early(const struct supervisor *s)
{
	return clock_within(s->brain.past.changed, clock_epoch(), s->job->plan_every);
}

/* Carries out what can be done. Returns NULL if something was done; else why nothing can be done
 * now, as a word. */
static const char *brain_change(struct supervisor *s, const struct answer *a, const struct want *w)
{
	char *reason = s->brain.reason;
	int some = 0;
	int is_spent = s->brain.past.changes >= s->job->plan_limit;
	const char *refused = want_refusal(w, a, is_spent, brain_is_too_early(s));
	if (is_spent && !s->brain.limit_told++ && s->job->plan_limit > 0)
		sup_note(s, "brain", "BRAIN=limit:%llu: nothing is changed any more",
			 (unsigned long long)s->job->plan_limit);
	if (refused)
		return refused;
	snprintf(reason, sizeof s->brain.reason, "brain: %s", a->reason);
	if (w->counts && sup_scale_want(s, w->role[PLAN_WORKER].count, w->role[PLAN_SERVER].count,
					reason, NULL) != 0)
		return "scale";
	some |= w->counts;
	s->brain.resizing = 0;
	for (int i = 0; i < PLAN_ROLES; i++) {
		if (w->role[i].cores != w->now[i].cores)
			s->brain.resizing |= 1u << i;
		s->brain.size[i] = w->role[i];
	}
	sup_in_force_changed(s);
	if (!w->counts)
		some |= brain_resize(s);
	for (size_t i = 0; i < a->count; i++)
		some |= change_node(s, &a->node[i]);
	return some ? NULL : "nodes";
}

static void brain_carry(struct supervisor *s, const char *text, size_t len, const struct answer *a)
{
	struct want_rules rules = brain_rules(s);
	struct plan_role_size now[PLAN_ROLES];
	struct want w;
	char why[160];
	log_lines(s, text, len);
	if (s->phases.now != PHASE_RUNNING || !is_settled(s) || !brain_is_same(s)) { /* no fault of the brain's */
		brain_well(s);
		sup_log(s, RECORD("brain-done", F("skipped", 1)));
		s->brain.under_way = 0;
		s->brain.since = 0;
		return;
	}
	brain_sizes(s, now);
	want_of(&w, a, now, &rules);
	if (want_is_beyond(&w, &rules, why, sizeof why)) {
		brain_skip(s, why);
		return;
	}
	brain_well(s);
	if (!want_anything(&w, a)) {
		brain_log_done(s, a, &w, answer_changes(a) ? "same" : NULL);
		return;
	}
	const char *refused = brain_change(s, a, &w);
	if (!refused) {
		begin_change(s, a, &w);
		brain_tell(s, a, &w);
	}
	brain_log_done(s, a, &w, refused);
}

/* ---- a change, until it is done ---- */

static double cost_of_a_change(const struct supervisor *s)
{
	return want_cost_of_change(&s->brain.past, sup_restart_seconds(s, &role_worker));
}

static void end_change(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	double took = clock_mono() - b->began;
	double cost = want_changed(&b->past, took, (double)s->progress.stat.samples_done - (double)b->samples,
				   b->before, clock_epoch());
	b->changing = 0;
	/* A change that found the parameters even has moved nothing, and does not count. */
	b->past.changes -= b->only_shares && s->rebalance.is_even;
	b->since = 0;
	struct record_out *o = RECORD_BARE("brain-changed");
	brain_add_known(s, o);
	record_add_seconds(o, "took", took);
	record_add_seconds(o, "cost", cost);
	sup_log(s, o);
}

void sup_brain_step(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	int is_over = 1;
	if (!b->changing)
		return;
	if (b->resizing && !sup_turn_is_due(s, TURN_SCALE))
		brain_resize(s);
	is_over = sup_turn_may_begin(s, TURN_PLAN);
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i))
			is_over &= n->stage == STAGE_READY && !n->restart.wanted &&
				   n->restart.from == 0;
	if (is_over || clock_mono() - b->began > CHANGE_SECONDS)
		end_change(s);
}

/* ---- asking ---- */

static void on_answered(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	struct answer answer = {0};
	struct error err;
	char text[CHILD_WHY_MAX];
	size_t len;
	s->brain.filter = NULL;
	const char *why = child_failure(e, text);
	const char *last = answer_last(e->output, e->bytes, &len);
	if (why)
		brain_skip(s, why);
	else if (answer_parse(&answer, last, len, &err) != 0)
		brain_skip(s, err.text);
	else
		brain_carry(s, last, len, &answer);
	answer_clear(&answer);
}

static int brain_ask(struct supervisor *s, struct error *err)
{
	struct sup_brain *b = &s->brain;
	struct argv words = {0};
	size_t len, bytes;
	char *round = round_text(s, &len), *all = NULL;
	int result = round ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0) {
		log_asked(s, round, len);
		result = rounds_add(&b->rounds, round, len, err);
	}
	if (result == 0 && !(all = rounds_text(&b->rounds, &bytes)))
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0)
		result = brain_words(&words, s->job->brain, &b->limits, s->options.search_path,
				     err);
	if (result == 0) {
		const struct child_options options = {.called = "brain",
						      .input = all,
						      .input_bytes = bytes,
						      .seconds =
							      deadline_seconds(DEADLINE_SOLUTION),
						      .output_bytes_max = BRAIN_OUTPUT_BYTES_MAX,
						      .done = on_answered,
						      .arg = s};
		result = child_ask(&b->filter, s->base, &words, options, err);
	}
	free(round);
	free(all);
	return result;
}

void sup_brain(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	struct error err;
	if (!job_has_brain(s->job) || s->phases.now != PHASE_RUNNING || b->under_way || b->changing)
		return;
	if (!is_settled(s)) {
		b->since = 0;
		return;
	}
	if (b->since == 0 || !brain_is_same(s)) {
		brain_begin_round(s);
		return;
	}
	measure_sample(&b->measure);
	if (clock_mono() - b->since < measure_seconds(s->job->plan_every) || !measure_is_enough(&b->measure))
		return;
	b->under_way = 1;
	b->limits.cost = cost_of_a_change(s);
	if (brain_ask(s, &err) != 0)
		brain_skip(s, err.text);
}

/* ---- what an earlier supervisor knew ---- */

/* The lines of a round, until another record comes. */
struct reading {
	FILE *out; /* NULL: none is being read */
	char *text;
	size_t len;
};

static void brain_end_reading(struct supervisor *s, struct reading *p)
{
	if (!p->out)
		return;
	if (fclose(p->out) == 0 && p->len > 0)
		rounds_add(&s->brain.rounds, p->text, p->len, NULL);
	free(p->text);
	*p = (struct reading){0};
}

static void take_known(struct supervisor *s, const struct record *r)
{
	struct sup_brain *b = &s->brain;
	record_u64_opt(r, "changes", 0, UINT64_MAX, &b->past.changes, NULL);
	record_u64_opt(r, "costs", 0, UINT64_MAX, &b->past.costs, NULL);
	record_real_opt(r, "cost-sum", 0, 1e12, &b->past.cost_sum, NULL);
	record_real_opt(r, "changed", 0, 1e12, &b->past.changed, NULL);
	record_u64_opt(r, "worker-cores", 1, PLAN_CORES_MAX, &b->size[PLAN_WORKER].cores, NULL);
	record_u64_opt(r, "server-cores", 1, PLAN_CORES_MAX, &b->size[PLAN_SERVER].cores, NULL);
}

static void brain_take_record(struct supervisor *s, struct reading *p, const struct record *r)
{
	static const char *const types[] = {"job", "node"};
	for (size_t i = 0; p->out && i < 2; i++) {
		char type[16];
		snprintf(type, sizeof type, WANT_TYPES "%s", types[i]);
		if (!record_is(r, type))
			continue;
		struct record_out *o = RECORD_BARE(types[i]);
		record_add_fields(o, r, NULL);
		record_print(p->out, o);
		return;
	}
	brain_end_reading(s, p);
	if (record_is(r, "brain-asked") || record_is(r, "brain-known"))
		p->out = grow_stream(&p->text, &p->len);
	if (record_is(r, "brain-changed") || record_is(r, "brain-known"))
		take_known(s, r);
}

/* What can't be read is left out: a brain learns again. */
static void brain_read_log(struct supervisor *s)
{
	struct reading reading = {0};
	struct error err;
	struct record *r = malloc(sizeof *r); /* large */
	int fd = open(s->log.path, O_RDONLY | O_CLOEXEC);
	struct record_reader *in = fd >= 0 ? record_reader_new(fd, s->log.path) : NULL;
	if (in && r) {
		record_reader_of_log(in);
		int got;
		while ((got = record_read(in, r, &err)) != RECORD_END && got >= 0)
			if (got == RECORD_ONE)
				brain_take_record(s, &reading, r);
		brain_end_reading(s, &reading);
	}
	record_reader_free(in);
	free(r);
	if (fd >= 0)
		close(fd);
}

/* ---- beginning and end ---- */

void sup_brain_log_sizes(struct supervisor *s)
{
	if (!job_has_brain(s->job))
		return;
	struct record_out *o = RECORD_BARE("brain-known");
	brain_add_known(s, o);
	sup_log(s, o);
}

int sup_brain_init(struct supervisor *s, struct error *err)
{
	struct sup_brain *b = &s->brain;
	b->past.changed = NAN;
	if (!job_has_brain(s->job))
		return 0;
	b->limits = brain_limits_of(s->job, s->options.hosts);
	brain_read_log(s);
	first_sizes(s);
	/* If its program is not there, that is an error now, and not in the first round. */
	struct argv words = {0};
	int result = brain_words(&words, s->job->brain, &b->limits, s->options.search_path, err);
	argv_free(&words);
	return result;
}

void sup_brain_finished(struct supervisor *s)
{
	struct error err;
	const struct sup_stat *stat = &s->progress.stat;
	double seconds = stat->last_at - stat->first_at;
	if (!s->options.history || job_kind(s->job)->servers_stay)
		return;
	if (!job_has_brain(s->job)) {
		s->brain.limits = brain_limits_of(s->job, s->options.hosts);
		first_sizes(s);
	}
	struct plan_role_size size[PLAN_ROLES];
	struct record_out *o = RECORD_BARE("finished");
	brain_likeness_add(o, s->job);
	brain_sizes(s, size);
	for (int i = 0; i < PLAN_ROLES; i++)
		want_add_size(o, "", (enum plan_role)i, &size[i]);
	if (seconds > 0)
		record_add_brief(o, "steps-per-second",
				 (double)stat->samples_done / seconds / (double)s->job->batch);
	record_add_seconds(o, "at", clock_epoch());
	record_add(o, "job", s->job->name);
	size_t len = record_end(o, NULL);
	if (len > 0 && history_append(s->options.history, o->data, len, &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
}

void sup_brain_free(struct supervisor *s)
{
	child_free(s->brain.filter);
	s->brain.filter = NULL;
	rounds_clear(&s->brain.rounds);
	measure_free(&s->brain.measure);
}
