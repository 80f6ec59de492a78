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

#define ROUNDS_A_CHANGE 12.0     /* rounds in the time of BRAIN every */
#define ROUND_SECONDS_MIN 0.5    /* but a round takes as long at least, */
#define ROUND_SECONDS_MAX 10.0   /* and as long at most */
#define BATCHES_MIN 4.0          /* each worker trains as many in a round */
#define COST_SECONDS 2.0         /* assumed of a change, before one was measured */
#define CHANGE_SECONDS 600.0     /* a change counts as done then, however far it came */
#define BYTES_MIN (128ull << 20) /* the least for a node: even an idle program needs some */
#define ANSWER_TYPES "brain-" /* what an answer's types begin with in the log */

struct brain_node {
	char id[OPTION_ID_MAX];
	double batches, time, compute, comm, wait, samples, last; /* as the round began */
	double cpu;   /* the sum of the samples since then, */
	size_t seen;  /* and their number */
	double bytes; /* the most that it used in one; 0: not known */
};

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
	uint64_t each = nodes > 0 ? b->limits.cores / nodes : 1;
	each = each > b->limits.node_cores ? b->limits.node_cores : each;
	for (int i = 0; i < PLAN_ROLES; i++) {
		uint64_t given = cores[i] < 1 ? 0 : (uint64_t)cores[i];
		if (b->size[i].cores == 0)
			b->size[i].cores = given > 0 ? given : each > 0 ? each : 1;
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

static double zero_if_unknown(double value)
{
	return snapshot_known(value) ? value : 0;
}

static void brain_begin_round(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	b->count = 0;
	b->since = clock_mono();
	b->nodes = which_nodes(s);
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			const struct snapshot_node *m = sup_measured(n);
			if (GROW(b->node, b->room, b->count + 1) != 0) {
				b->since = 0; /* tried again */
				return;
			}
			struct brain_node *k = &b->node[b->count++];
			*k = (struct brain_node){.batches = m->total.batches,
						 .time = zero_if_unknown(m->total.time),
						 .compute = zero_if_unknown(m->total.compute),
						 .comm = zero_if_unknown(m->total.comm),
						 .wait = zero_if_unknown(m->total.wait),
						 .samples = (double)m->samples,
						 .last = m->last};
			snprintf(k->id, sizeof k->id, "%s", n->id);
		}
}

/* Whether the monitor was started anew, and counts from 0 again. The nodes are in the order of
 * brain_begin_round(). */
static int counts_anew(const struct supervisor *s)
{
	const struct brain_node *k = s->brain.node;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			const struct snapshot_node *m = sup_measured(n);
			if (m->total.batches < k->batches || (double)m->samples < k->samples)
				return 1;
			k++;
		}
	return 0;
}

/* Adds what each node uses now. The nodes are in the order of brain_begin_round(), and their
 * processes are the same. */
static void brain_sample(struct supervisor *s)
{
	struct brain_node *k = s->brain.node;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			const struct snapshot_node *m = sup_measured(n);
			if (snapshot_known(m->own_cpu)) {
				k->cpu += m->own_cpu;
				k->seen++;
			}
			if (snapshot_known(m->own_mem) && m->own_mem > k->bytes)
				k->bytes = m->own_mem;
			k++;
		}
}

static double round_seconds(const struct supervisor *s)
{
	double seconds = s->job->plan_every / ROUNDS_A_CHANGE;
	return fmin(fmax(seconds, ROUND_SECONDS_MIN), ROUND_SECONDS_MAX);
}

static int is_measured(const struct supervisor *s)
{
	const struct brain_node *k = s->brain.node;
	if (clock_mono() - s->brain.since < round_seconds(s))
		return 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i)) {
			const struct snapshot_node *m = sup_measured(n);
			if (m->total.batches - k->batches < BATCHES_MIN || m->last <= k->last ||
			    k->seen == 0 ||
			    (n->role == &role_worker && (double)m->samples <= k->samples))
				return 0;
			k++;
		}
	return 1;
}

/* ---- a round, as text ---- */

/* What workers and servers did, as parts of the time of one step of one worker. A step is the time
 * that a worker needs for the job's BATCH, whatever its own batches are, so that configurations
 * compare. */
struct measured {
	double rate; /* steps a second, of all workers */
	double io, compute, update;
};

/* Busy times are shares of a second. Under bsp all workers wait for the servers' update of the
 * whole batch. Otherwise a worker waits for its own update, and waits longer when the servers are
 * busier. */
static struct measured brain_measure(const struct supervisor *s)
{
	struct measured out = {0};
	const struct brain_node *k = s->brain.node;
	double batch = (double)s->job->batch, workers = 0, compute = 0, talk = 0, busy = 0;
	EACH_OF (n, s, &role_worker) {
		const struct snapshot_node *m = sup_measured(n);
		double seconds = m->last - k->last;
		out.rate += ((double)m->samples - k->samples) / seconds / batch;
		compute += (zero_if_unknown(m->total.compute) - k->compute) / seconds;
		talk += (zero_if_unknown(m->total.comm) - k->comm +
			 zero_if_unknown(m->total.wait) - k->wait) /
			seconds;
		workers++;
		k++;
	}
	EACH_OF (n, s, &role_server) {
		const struct snapshot_node *m = sup_measured(n);
		double share = (zero_if_unknown(m->total.time) - k->time) / (m->last - k->last);
		busy = fmax(busy, fmin(share, 1));
		k++;
	}
	double step = workers / out.rate;
	out.compute = fmin(compute / out.rate, step);
	if (strcmp(s->job->sync, "bsp") == 0) {
		out.update = busy * step;
	} else {
		double own = busy * step / workers;
		out.update = own + busy * fmax(talk / out.rate - own, 0);
	}
	out.update = fmin(out.update, step - out.compute);
	out.io = step - out.compute - out.update;
	return out;
}

static void brain_put_job(const struct supervisor *s, FILE *out)
{
	struct measured m = brain_measure(s);
	const struct sup_brain *b = &s->brain;
	uint64_t all = s->options.samples * s->job->epochs, done = s->progress.stat.samples_done;
	/* Under bsp there is no samples=: more workers share the same batch, and cost no
	 * convergence. changed= is always there, and 0 if nothing has changed yet: the filter gets
	 * old rounds again, and without it would take its own answer to one of them for a change
	 * that was made. */
	record_print(out,
		     RECORD("job", F("batch", s->job->batch), F_BRIEF("steps-per-second", m.rate),
			    F_BRIEF("io-time", m.io), F_BRIEF("compute-time", m.compute),
			    F_BRIEF("update-time", m.update),
			    strcmp(s->job->sync, "bsp") != 0 ? F("samples", all) : F_NONE,
			    F("left", all > done ? all - done : 0), F_SECONDS("at", clock_epoch()),
			    F_SECONDS("changed", isnan(b->changed) ? 0 : b->changed),
			    sup_rebalance_is_offered(s) ? F("rebalance", 1) : F_NONE));
}

static void brain_put_node(const struct sup_node *n, enum plan_role role,
			   const struct brain_node *k, FILE *out)
{
	const struct supervisor *s = n->sup;
	const struct snapshot_node *m = sup_measured(n);
	double time = zero_if_unknown(m->total.time) - k->time;
	double per = role == PLAN_WORKER
			     ? ((double)m->samples - k->samples) / (double)s->job->batch
			     : m->total.batches - k->batches;
	record_print(out,
		     RECORD("node", F("role", plan_role_name(role)), F("id", n->id),
			    F_BRIEF("cores", n->cores), F_BRIEF("used", k->cpu / (double)k->seen),
			    n->memory > 0 ? F("mem-bytes", n->memory) : F_NONE,
			    k->bytes > 0 ? F("used-bytes", (uint64_t)k->bytes) : F_NONE,
			    time > 0 ? F_BRIEF("time", time / per) : F_NONE));
}

/* The caller frees it. NULL: out of memory. */
static char *round_text(const struct supervisor *s, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	const struct brain_node *k = s->brain.node;
	if (!out)
		return NULL;
	brain_put_job(s, out);
	for (int i = 0; i < PLAN_ROLES; i++)
		EACH_OF (n, s, role_of((enum plan_role)i))
			brain_put_node(n, (enum plan_role)i, k++, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- the log ---- */

/* Logs the records of a round or an answer, with ANSWER_TYPES in front of their types: a job's log
 * has job and node records that mean something else. */
static void log_lines(struct supervisor *s, const char *text, size_t len)
{
	struct record_walk walk = record_walk(text, len);
	struct record r;
	int got;
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END) {
		char type[64];
		if (got != RECORD_ONE)
			continue;
		snprintf(type, sizeof type, ANSWER_TYPES "%.50s", r.type);
		struct record_out *o = RECORD_BARE(type);
		record_add_fields(o, &r, NULL);
		size_t bytes = record_end(o, NULL);
		if (bytes > 0)
			sup_log_text(s, o->data, bytes);
	}
}

static void log_asked(struct supervisor *s, const char *text, size_t len)
{
	struct record_out *o = RECORD("brain-asked", F("brain", s->job->brain));
	brain_limits_add(o, &s->brain.limits);
	sup_log(s, o);
	log_lines(s, text, len);
}

static void brain_add_size(struct record_out *o, const char *prefix, enum plan_role role,
			   const struct plan_role_size *size)
{
	char key[64];
	snprintf(key, sizeof key, "%s%ss", prefix, plan_role_name(role));
	record_add_u64(o, key, size->count);
	snprintf(key, sizeof key, "%s%s-cores", prefix, plan_role_name(role));
	record_add_u64(o, key, size->cores);
}

static void brain_add_known(const struct supervisor *s, struct record_out *o)
{
	const struct sup_brain *b = &s->brain;
	for (int i = 0; i < PLAN_ROLES; i++) {
		struct plan_role_size size = b->size[i];
		size.count = brain_count_of(s, (enum plan_role)i);
		brain_add_size(o, "", (enum plan_role)i, &size);
	}
	record_add_u64(o, "changes", b->changes);
	record_add_seconds(o, "changed", b->changed);
	record_add_seconds(o, "cost-sum", b->cost_sum);
	record_add_u64(o, "costs", b->costs);
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

/* What an answer asks for, and what there is now. */
struct want {
	struct plan_role_size role[PLAN_ROLES], now[PLAN_ROLES];
	int counts, sizes; /* whether those of any role change */
};

/* Memory of a node. If the job does not limit it, a plan does not limit it either: the most that
 * was in use says little about later use. */
static uint64_t brain_bytes_of(const struct supervisor *s, const struct plan_role_size *planned,
			       const struct plan_role_size *now)
{
	const struct job *job = s->job;
	int is_limited =
		job->memory || job->node_memory || job->worker_memory || job->server_memory;
	if (!is_limited || planned->bytes == 0)
		return now->bytes;
	return planned->bytes > BYTES_MIN ? planned->bytes : BYTES_MIN;
}

static void want_of(const struct supervisor *s, const struct answer *a, struct want *w)
{
	const uint64_t most[PLAN_ROLES] = {sup_scale_workers_most(s), job_servers_most()};
	*w = (struct want){0};
	for (int i = 0; i < PLAN_ROLES; i++) {
		w->now[i] = s->brain.size[i];
		w->now[i].count = brain_count_of(s, (enum plan_role)i);
		w->role[i] = a->plans[i] ? a->role[i] : w->now[i];
		if (w->role[i].count > most[i])
			w->role[i].count = most[i];
		w->role[i].bytes = brain_bytes_of(s, &w->role[i], &w->now[i]);
		w->counts |= w->role[i].count != w->now[i].count;
		w->sizes |= w->role[i].cores != w->now[i].cores;
	}
}

static uint64_t brain_cores_of(const struct plan_role_size role[PLAN_ROLES])
{
	uint64_t sum = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		sum += role[i].count * role[i].cores;
	return sum;
}

/* Whether it wants more cores than BRAIN allows. As many as the nodes have now are fine, because a
 * job may begin with more. */
static int is_beyond(const struct supervisor *s, const struct want *w, char *why, size_t max)
{
	const struct brain_limits *l = &s->brain.limits;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (w->role[i].cores > l->node_cores && w->role[i].cores > w->now[i].cores) {
			snprintf(why, max,
				 "it plans %llu cores for a %s, and BRAIN node-cores is %llu",
				 (unsigned long long)w->role[i].cores,
				 plan_role_name((enum plan_role)i),
				 (unsigned long long)l->node_cores);
			return 1;
		}
	if (brain_cores_of(w->role) <= l->cores ||
	    brain_cores_of(w->role) <= brain_cores_of(w->now))
		return 0;
	snprintf(why, max, "it plans %llu cores in all, and BRAIN cores is %llu",
		 (unsigned long long)brain_cores_of(w->role), (unsigned long long)l->cores);
	return 1;
}

/* "24 workers of 3 cores, 8 servers of 16". */
static void words_of(const struct plan_role_size role[PLAN_ROLES], char *out, size_t max)
{
	const struct plan_role_size *w = &role[PLAN_WORKER], *p = &role[PLAN_SERVER];
	snprintf(out, max, "%llu worker%s of %llu core%s, %llu server%s of %llu",
		 (unsigned long long)w->count, w->count == 1 ? "" : "s",
		 (unsigned long long)w->cores, w->cores == 1 ? "" : "s",
		 (unsigned long long)p->count, p->count == 1 ? "" : "s",
		 (unsigned long long)p->cores);
}

static void brain_log_done(struct supervisor *s, const struct answer *a, const struct want *w,
			   const char *refused)
{
	int changes = answer_changes(a);
	struct record_out *o = RECORD("brain-done", F("change", changes && !refused ? "yes" : "no"),
				      F("reason", a->reason), F("method", a->method),
				      refused ? F("refused", refused) : F_NONE);
	for (int i = 0; changes && i < PLAN_ROLES; i++) {
		brain_add_size(o, "had-", (enum plan_role)i, &w->now[i]);
		brain_add_size(o, "", (enum plan_role)i, &w->role[i]);
	}
	if (changes && a->count > 0) {
		record_add(o, "id", a->node[0].id);
		record_add(o, "what", plan_what_name(a->node[0].what));
		record_add_u64(o, "nodes", a->count);
	}
	record_add_brief(o, "now", brain_measure(s).rate * (double)s->job->batch);
	record_add_brief(o, "expected", a->expected * (double)s->job->batch);
	record_add_brief(o, "confidence", a->confidence);
	brain_done(s, o);
}

static void brain_tell(struct supervisor *s, const struct answer *a, const struct want *w)
{
	static const char *const whats[] = {"another process for", "another machine for",
					    "parameters shared out anew, because of"};
	struct sup_brain *b = &s->brain;
	char text[160];
	if (w->counts || w->sizes) {
		words_of(w->role, text, sizeof text);
		snprintf(b->last, sizeof b->last, "%s: %s", text, a->reason);
	} else {
		snprintf(b->last, sizeof b->last, "%s %s: %s",
			 whats[a->node[0].what], a->node[0].id, a->node[0].reason);
	}
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
	} else if (k->what == PLAN_REPLACE && k->cores > s->brain.limits.node_cores &&
		   (double)k->cores > n->cores) {
		why = "BRAIN node-cores are fewer";
	} else if (k->what == PLAN_REPLACE && (k->cores == 0 || (double)k->cores == n->cores) &&
		   (k->bytes == 0 || k->bytes == n->memory)) {
		why = "it has as much already";
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
	b->before = brain_measure(s).rate * (double)s->job->batch;
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

/* Every brain has to wait for BRAIN every, unless nodes need more memory. */
static int brain_is_too_early(const struct supervisor *s, const struct answer *a)
{
	return clock_within(s->brain.changed, clock_epoch(), s->job->plan_every) &&
	       strcmp(a->reason, "oom") != 0;
}

/* Carries out what can be done. Returns NULL if something was done; else why nothing can be done
 * now, as a word. */
static const char *brain_change(struct supervisor *s, const struct answer *a, const struct want *w)
{
	char *reason = s->brain.reason;
	int some = 0;
	if (s->brain.changes >= s->job->plan_limit) {
		if (!s->brain.limit_told++ && s->job->plan_limit > 0)
			sup_note(s, "brain", "BRAIN=limit:%llu: nothing is changed any more",
				 (unsigned long long)s->job->plan_limit);
		return "limit";
	}
	if ((w->counts || w->sizes) && brain_is_too_early(s, a))
		return "every";
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
	struct want w;
	char why[160];
	log_lines(s, text, len);
	if (s->phases.now != PHASE_RUNNING || !is_settled(s) || which_nodes(s) != s->brain.nodes ||
	    counts_anew(s)) { /* no fault of the brain's */
		brain_well(s);
		sup_log(s, RECORD("brain-done", F("skipped", 1)));
		s->brain.under_way = 0;
		s->brain.since = 0;
		return;
	}
	want_of(s, a, &w);
	if (is_beyond(s, &w, why, sizeof why)) {
		brain_skip(s, why);
		return;
	}
	brain_well(s);
	if (!answer_changes(a) || !(w.counts || w.sizes || a->count > 0)) {
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
	const struct sup_brain *b = &s->brain;
	double start = sup_restart_seconds(s, &role_worker);
	if (b->costs > 0)
		return b->cost_sum / (double)b->costs;
	return isnan(start) ? COST_SECONDS : start;
}

static void end_change(struct supervisor *s)
{
	struct sup_brain *b = &s->brain;
	double took = clock_mono() - b->began, cost = NAN;
	uint64_t done_now = s->progress.stat.samples_done;
	if (b->before > 0 && done_now >= b->samples)
		cost = fmax(took - (double)(done_now - b->samples) / b->before, 0);
	b->changing = 0;
	/* A change that found the parameters even has moved nothing, and does not count. */
	if (!b->only_shares || !s->rebalance.is_even)
		b->changes++;
	b->changed = clock_epoch();
	b->since = 0;
	if (!isnan(cost)) {
		b->cost_sum += cost;
		b->costs++;
	}
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
	if (b->since == 0 || which_nodes(s) != b->nodes || counts_anew(s)) {
		brain_begin_round(s);
		return;
	}
	brain_sample(s);
	if (!is_measured(s))
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
	record_u64_opt(r, "changes", 0, UINT64_MAX, &b->changes, NULL);
	record_u64_opt(r, "costs", 0, UINT64_MAX, &b->costs, NULL);
	record_real_opt(r, "cost-sum", 0, 1e12, &b->cost_sum, NULL);
	record_real_opt(r, "changed", 0, 1e12, &b->changed, NULL);
	record_u64_opt(r, "worker-cores", 1, PLAN_CORES_MAX, &b->size[PLAN_WORKER].cores, NULL);
	record_u64_opt(r, "server-cores", 1, PLAN_CORES_MAX, &b->size[PLAN_SERVER].cores, NULL);
}

static void brain_take_record(struct supervisor *s, struct reading *p, const struct record *r)
{
	static const char *const types[] = {"job", "node"};
	for (size_t i = 0; p->out && i < 2; i++) {
		char type[16];
		snprintf(type, sizeof type, ANSWER_TYPES "%s", types[i]);
		if (!record_is(r, type))
			continue;
		struct record_out *o = RECORD_BARE(types[i]);
		record_add_fields(o, r, NULL);
		record_print(p->out, o);
		return;
	}
	brain_end_reading(s, p);
	if (record_is(r, "brain-asked") || record_is(r, "brain-known"))
		p->out = open_memstream(&p->text, &p->len);
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
	b->changed = NAN;
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
	struct record_out *o = RECORD_BARE("finished");
	brain_likeness_add(o, s->job);
	for (int i = 0; i < PLAN_ROLES; i++) {
		struct plan_role_size size = s->brain.size[i];
		size.count = brain_count_of(s, (enum plan_role)i);
		brain_add_size(o, "", (enum plan_role)i, &size);
	}
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
	free(s->brain.node);
	s->brain.node = NULL;
}
