/* metrics_page: see metrics_page.h. A page is made of families: all samples of a metric stand
 * together. */
#include "run/metrics_page.h"
#include "run/sup.h"

#include "base/clock.h"
#include "base/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A node, and what the monitor has of it (NULL: nothing). */
struct seen {
	const struct sup_node *node;
	const struct snapshot_node *measured;
};

struct page_source {
	const struct supervisor *s;
	struct metrics_page *page;
	double now; /* clock_mono() */
	struct seen *seen;
	size_t count;
};

/* ---- of the job ---- */

static void page_put(const struct page_source *l, double value, const char *name, const char *label)
{
	metrics_put(l->page, value,
		    (const struct metrics_label[]){
			    {"job_name", l->s->job->name}, {name, label}, {0}});
}

static void page_put_job(const struct page_source *l, enum metric which, double value)
{
	metrics_begin(l->page, which);
	page_put(l, value, NULL, NULL);
}

static void put_info(const struct page_source *l)
{
	const struct job *j = l->s->job;
	metrics_begin(l->page, METRIC_JOB_INFO);
	metrics_put(l->page, 1,
		    (const struct metrics_label[]){{"job_name", j->name},
						   {"model", j->model},
						   {"optimizer", j->optimizer},
						   {"sync", j->sync},
						   {"solution", j->solution},
						   {"version", PACELINE_VERSION},
						   {0}});
}

/* A job counts as failed as soon as the failure is known. */
static const char *page_state_of(const struct supervisor *s)
{
	if (s->phases.goal == GOAL_FAIL)
		return "failed";
	if (s->metrics.ended == 0)
		return "running";
	return s->phases.goal == GOAL_STOP ? "stopped" : "done";
}

static void put_states(const struct page_source *l)
{
	static const char *const state[] = {"running", "done", "stopped", "failed"};
	metrics_begin(l->page, METRIC_JOB_STATE);
	for (size_t i = 0; i < sizeof state / sizeof *state; i++)
		page_put(l, strcmp(page_state_of(l->s), state[i]) == 0, "state", state[i]);
	metrics_begin(l->page, METRIC_JOB_PHASE);
	for (int i = 0; i < PHASES; i++)
		page_put(l, (int)l->s->phases.now == i, "phase", sup_phase_name((enum sup_phase)i));
}

/* The monitor's number is newer than the last row's. After its restart it may know none. */
static double page_iteration(const struct supervisor *s)
{
	const struct snapshot *now = &s->progress.snapshot.now;
	return (double)(now->iter > 0 ? now->iter : s->progress.row.iteration);
}

static void put_course(const struct page_source *l)
{
	const struct supervisor *s = l->s;
	const struct sup_stat *stat = &s->progress.stat;
	const struct run_row *row = &s->progress.row;
	int runs = s->metrics.ended == 0;
	double rate = sup_rate(s);
	page_put_job(l, METRIC_JOB_EPOCH, stat->known ? (double)row->epoch : NAN);
	page_put_job(l, METRIC_JOB_EPOCHS, (double)s->job->epochs);
	page_put_job(l, METRIC_JOB_ITERATION, page_iteration(s));
	page_put_job(l, METRIC_JOB_SAMPLES_DONE, stat->known ? (double)stat->samples_done : NAN);
	page_put_job(l, METRIC_JOB_SAMPLES, (double)(s->options.samples * s->job->epochs));
	page_put_job(l, METRIC_JOB_BAD_ROWS, (double)s->options.bad_rows);
	page_put_job(l, METRIC_JOB_LOSS, row->loss);
	metrics_begin(l->page, METRIC_JOB_REPORTED);
	for (size_t i = 0; i < s->progress.reported.count; i++)
		page_put(l, s->progress.reported.item[i].value, "name", s->progress.reported.item[i].name);
	page_put_job(l, METRIC_JOB_SPEED, runs ? rate : NAN);
	page_put_job(l, METRIC_JOB_ETA, runs && rate > 0 ? row->eta : NAN);
	for (int i = 0; i < SCORES; i++)
		page_put_job(l, (enum metric)(METRIC_JOB_AUC + i), s->score.value[i]);
	page_put_job(l, METRIC_JOB_MEMBERS, runs ? (double)row->members : NAN);
}

static void put_shards(const struct page_source *l)
{
	const struct sup_stat *stat = &l->s->progress.stat;
	metrics_begin(l->page, METRIC_JOB_SHARDS);
	if (!stat->known)
		return;
	page_put(l, (double)stat->todo, "state", "todo");
	page_put(l, (double)stat->doing, "state", "doing");
	page_put(l, (double)stat->done, "state", "done");
	page_put(l, (double)stat->held, "state", "held");
}

static void put_checkpoints(const struct page_source *l)
{
	const struct sup_checkpoints *c = &l->s->checkpoint;
	int known = c->latest[0] && c->latest_at > 0;
	double age = clock_epoch() - c->latest_at;
	page_put_job(l, METRIC_JOB_CHECKPOINT_TIME, known ? c->latest_at : NAN);
	page_put_job(l, METRIC_JOB_CHECKPOINT_AGE, known ? fmax(age, 0) : NAN);
	page_put_job(l, METRIC_JOB_CHECKPOINT_ITERATION, known ? (double)c->latest_iteration : NAN);
	page_put_job(l, METRIC_JOB_CHECKPOINTS, (double)c->made);
	page_put_job(l, METRIC_JOB_CHECKPOINT_FAILURES, (double)c->failed);
}

static void put_actions(const struct page_source *l, enum metric which, const uint64_t *count)
{
	metrics_begin(l->page, which);
	for (int i = 0; i < ACTION_KINDS; i++)
		if (i != ACTION_NONE)
			page_put(l, (double)count[i], "kind",
				 action_kind_name((enum action_kind)i));
}

static void put_sizes(const struct page_source *l)
{
	const struct supervisor *s = l->s;
	int has_servers = job_kind(s->job)->holds == HOLD_SERVERS;
	page_put_job(l, METRIC_JOB_SCALED, (double)s->scale.changes_done);
	page_put_job(l, METRIC_JOB_BRAIN_CHANGES, (double)s->brain.past.changes);
	page_put_job(l, METRIC_JOB_OOM_STEPS, (double)s->roster.oom_steps);
	page_put_job(l, METRIC_JOB_SPARES_USED, (double)s->roster.spares_used);
	metrics_begin(l->page, METRIC_JOB_NODES_WANTED);
	page_put(l, (double)s->scale.now.workers, "role", "worker");
	if (has_servers)
		page_put(l, (double)s->scale.now.servers, "role", "server");
}

static void put_interventions(const struct page_source *l)
{
	const struct supervisor *s = l->s;
	page_put_job(l, METRIC_JOB_RESTARTS, (double)sup_all_restarts(s));
	page_put_job(l, METRIC_JOB_ROLLBACKS, (double)s->recover.rollbacks);
	page_put_job(l, METRIC_JOB_REBALANCES, (double)s->rebalance.moved);
	put_sizes(l);
	page_put_job(l, METRIC_JOB_DECISIONS, (double)s->decide.asked);
	page_put_job(l, METRIC_JOB_DECISIONS_SKIPPED, (double)s->decide.skipped);
	put_actions(l, METRIC_JOB_ACTIONS, s->actions.carried);
	put_actions(l, METRIC_JOB_ACTIONS_REFUSED, s->actions.refused);
}

/* ---- of its hosts' links ---- */

static double link_value(const struct page_source *l, const struct network_side *side, enum metric which)
{
	switch (which) {
	case METRIC_HOST_RATE:
		return side->rate;
	case METRIC_HOST_ERROR:
		return side->error;
	case METRIC_HOST_FREE:
		return side->free;
	default:
		return l->now - side->at;
	}
}

static void put_links(const struct page_source *l, enum metric which)
{
	static const char *const direction[] = {"out", "in"};
	metrics_begin(l->page, which);
	EACH_HOST (h, l->s, 0) {
		const struct network_side *side[] = {&h->network.out, &h->network.in};
		for (int i = 0; h->network.world != 0 && i < 2; i++)
			metrics_put(l->page, link_value(l, side[i], which),
				    (const struct metrics_label[]){{"job_name", l->s->job->name},
								   {"host", h->name},
								   {"direction", direction[i]},
								   {0}});
	}
}

/* ---- of its nodes ---- */

/* The monitor's order differs from the roster's, but neighbours are neighbours in both. */
static int find_measured(struct page_source *l)
{
	const struct snapshot *now = &l->s->progress.snapshot.now;
	size_t count = 0, at = 0;
	EACH_NODE (n, l->s)
		count++;
	l->seen = calloc(count + 1, sizeof *l->seen);
	if (!l->seen)
		return -1;
	EACH_NODE (n, l->s) {
		if (sup_host_is_done_without(n))
			continue;
		struct seen *seen = &l->seen[l->count++];
		seen->node = n;
		for (size_t i = 0; i < now->node_count && !seen->measured; i++, at++) {
			at %= now->node_count;
			if (strcmp(now->node[at].id, n->id) == 0)
				seen->measured = &now->node[at];
		}
	}
	return 0;
}

static void page_put_node(const struct page_source *l, const struct seen *seen, double value,
			  const char *name, const char *label)
{
	metrics_put(l->page, value,
		    (const struct metrics_label[]){{"job_name", l->s->job->name},
						   {"role", seen->node->role->name},
						   {"id", seen->node->id},
						   {name, label},
						   {0}});
}

static void page_each_node(const struct page_source *l, enum metric which,
			   double (*value)(const struct page_source *l, const struct sup_node *n))
{
	metrics_begin(l->page, which);
	for (size_t i = 0; i < l->count; i++)
		page_put_node(l, &l->seen[i], value(l, l->seen[i].node), NULL, NULL);
}

static double page_is_up(const struct page_source *l, const struct sup_node *n)
{
	(void)l;
	return n->stage == STAGE_READY;
}

static double up_time(const struct page_source *l, const struct sup_node *n)
{
	return n->stage == STAGE_READY && n->ready_at > 0 ? l->now - n->ready_at : 0;
}

static double page_restarts(const struct page_source *l, const struct sup_node *n)
{
	(void)l;
	return (double)n->restarts;
}

static double page_silent(const struct page_source *l, const struct sup_node *n)
{
	(void)l;
	return sup_watch_section(n)[0] ? n->watch.pulse.silent : NAN;
}

static void put_stages(const struct page_source *l)
{
	metrics_begin(l->page, METRIC_NODE_STAGE);
	for (size_t i = 0; i < l->count; i++)
		for (int k = 0; k < STAGES; k++)
			page_put_node(l, &l->seen[i], (int)l->seen[i].node->stage == k, "stage",
				      stage_name((enum node_stage)k));
}

/* What the monitor has of each node that it knows. */
static void each_measured(const struct page_source *l, enum metric which,
			  double (*value)(const struct snapshot_node *m))
{
	metrics_begin(l->page, which);
	for (size_t i = 0; i < l->count; i++)
		if (l->seen[i].measured)
			page_put_node(l, &l->seen[i], value(l->seen[i].measured), NULL, NULL);
}

static double page_size_of(const struct snapshot_node *m)
{
	return m->size ? (double)m->size : NAN;
}

static double accum_of(const struct snapshot_node *m)
{
	return m->accum ? (double)m->accum : NAN;
}

static double batches_of(const struct snapshot_node *m)
{
	return m->total.batches;
}

static double page_samples_of(const struct snapshot_node *m)
{
	return (double)m->samples;
}

/* speed_last is the size of a batch over its time. */
static double busy_of(const struct snapshot_node *m)
{
	double time = (double)m->size / m->speed_last;
	return time + m->wait > 0 ? time / (time + m->wait) : NAN;
}

static double cpu_of(const struct snapshot_node *m)
{
	return m->cpu;
}

static double mem_of(const struct snapshot_node *m)
{
	return m->mem;
}

static void page_each_window(const struct page_source *l, enum metric which, size_t shorter,
			     size_t longer)
{
	metrics_begin(l->page, which);
	for (size_t i = 0; i < l->count; i++) {
		const char *m = (const char *)l->seen[i].measured;
		double value[2];
		if (!m)
			continue;
		memcpy(&value[0], m + shorter, sizeof *value);
		memcpy(&value[1], m + longer, sizeof *value);
		page_put_node(l, &l->seen[i], value[0], "window", "short");
		page_put_node(l, &l->seen[i], value[1], "window", "long");
	}
}

/* rows is the rest of the time of a batch; the parts are rounded, so it may be slightly below 0. */
static void page_put_times(const struct page_source *l)
{
	metrics_begin(l->page, METRIC_NODE_TIME);
	for (size_t i = 0; i < l->count; i++) {
		const struct snapshot_node *m = l->seen[i].measured;
		if (!m)
			continue;
		double rows = m->total.time - m->total.compute - m->total.comm;
		page_put_node(l, &l->seen[i], m->total.compute, "activity", "compute");
		page_put_node(l, &l->seen[i], m->total.comm, "activity", "comm");
		page_put_node(l, &l->seen[i], isnan(rows) ? NAN : fmax(rows, 0), "activity",
			      "rows");
		page_put_node(l, &l->seen[i], m->total.wait, "activity", "wait");
	}
}

static void page_put_delays(const struct page_source *l)
{
	static const char *const of[] = {"0.5", "0.95", "1"};
	metrics_begin(l->page, METRIC_NODE_DELAY);
	for (size_t i = 0; i < l->count; i++) {
		const struct run_delays *d = &l->seen[i].node->watch.seen.delays;
		const uint64_t most[] = {d->middle, d->most_95, d->most};
		for (size_t k = 0; d->known && k < 3; k++)
			page_put_node(l, &l->seen[i], (double)most[k], "quantile", of[k]);
	}
	metrics_begin(l->page, METRIC_NODE_STALE);
	for (size_t i = 0; i < l->count; i++) {
		const struct run_delays *d = &l->seen[i].node->watch.seen.delays;
		if (d->known)
			page_put_node(l, &l->seen[i], (double)d->stale, NULL, NULL);
	}
}

#define OF(field) offsetof(struct snapshot_node, field)

static void page_put_nodes(const struct page_source *l)
{
	page_each_node(l, METRIC_NODE_UP, page_is_up);
	page_each_node(l, METRIC_NODE_UP_TIME, up_time);
	put_stages(l);
	page_each_node(l, METRIC_NODE_RESTARTS, page_restarts);
	page_each_node(l, METRIC_NODE_SILENT, page_silent);
	page_put_delays(l);
	page_each_window(l, METRIC_NODE_BPT, OF(mean_short), OF(mean_long));
	page_each_window(l, METRIC_NODE_BPT_RATIO, OF(ratio_short), OF(ratio_long));
	page_each_window(l, METRIC_NODE_SPEED, OF(speed_short), OF(speed_long));
	each_measured(l, METRIC_NODE_BATCH, page_size_of);
	each_measured(l, METRIC_NODE_ACCUM, accum_of);
	each_measured(l, METRIC_NODE_BATCHES, batches_of);
	each_measured(l, METRIC_NODE_SAMPLES, page_samples_of);
	page_put_times(l);
	each_measured(l, METRIC_NODE_BUSY, busy_of);
	each_measured(l, METRIC_NODE_CPU, cpu_of);
	each_measured(l, METRIC_NODE_MEMORY, mem_of);
}

/* ---- the page ---- */

int sup_metrics_page(const struct supervisor *s, struct metrics_page *page, struct error *err)
{
	struct page_source l = {.s = s, .page = page, .now = clock_mono()};
	metrics_clear(page);
	put_info(&l);
	put_states(&l);
	page_put_job(&l, METRIC_JOB_START, s->metrics.began);
	page_put_job(&l, METRIC_JOB_END, s->metrics.ended > 0 ? s->metrics.ended : NAN);
	put_course(&l);
	put_shards(&l);
	put_checkpoints(&l);
	put_interventions(&l);
	if (s->metrics.ended == 0) {
		if (find_measured(&l) != 0)
			return error_set(err, ERROR_OS, NULL,
					 "out of memory for a page of metrics");
		page_put_nodes(&l);
		free(l.seen);
		for (enum metric which = METRIC_HOST_RATE; which <= METRIC_HOST_AGE; which++)
			if (s->hosts.count > 1)
				put_links(&l, which);
	}
	page_put_job(&l, METRIC_PAGE_TIME, clock_wall());
	return metrics_end(page, err);
}
