/* verbs: see verbs.h. */
#include "run/show.h"
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- those who wait ---- */

struct sup_waiter {
	struct sup_waiter *next;
	struct request *rq;
};

static void verbs_forget(struct sup_waiters *waiters, struct request *rq)
{
	for (struct sup_waiter **p = &waiters->first; *p; p = &(*p)->next)
		if ((*p)->rq == rq) {
			struct sup_waiter *gone = *p;
			*p = gone->next;
			free(gone);
			return;
		}
}

static void verbs_cancelled(struct request *rq, void *arg)
{
	struct supervisor *s = arg;
	verbs_forget(&s->checkpoint.waiters, rq);
	verbs_forget(&s->clients.stop, rq);
	verbs_forget(&s->clients.watch, rq);
	EACH_NODE (n, s)
		verbs_forget(&n->restart.waiters, rq);
}

static void wait_in(struct supervisor *s, struct sup_waiters *waiters, struct request *rq)
{
	struct sup_waiter *waiter = calloc(1, sizeof *waiter);
	if (!waiter) {
		request_err(rq, "no-memory", "out of memory");
		return;
	}
	waiter->rq = rq;
	waiter->next = waiters->first;
	waiters->first = waiter;
	request_defer(rq, verbs_cancelled, s);
	sup_kick(s);
}

struct request *sup_wait_take(struct sup_waiters *waiters)
{
	struct sup_waiter *first = waiters->first;
	struct request *rq = first->rq;
	waiters->first = first->next;
	free(first);
	return rq;
}

void sup_answer_all(struct supervisor *s)
{
	sup_checkpoint_answer(s, 0);
	sup_actions_over(s);
	sup_turns_over(s);
	EACH_NODE (n, s)
		sup_restart_failed(n, "the job is over");
	while (s->clients.watch.first)
		request_ok(sup_wait_take(&s->clients.watch), NULL);
	while (s->clients.stop.first) {
		request_ok_record(sup_wait_take(&s->clients.stop),
				  RECORD("ok", F("checkpoint", s->checkpoint.latest)));
	}
}

void sup_answer_watchers(struct supervisor *s, const struct run_row *row)
{
	for (struct sup_waiter *w = s->clients.watch.first; w; w = w->next) {
		struct record_out *o = RECORD_BARE("row");
		show_fields(o, row);
		request_put_record(w->rq, o);
	}
}

/* ---- status ---- */

static const char *goal_word(const struct supervisor *s)
{
	static const char *const word[] = {"done", "early", "stop", "fail"};
	return word[s->phases.goal];
}

/* Where metrics can be read; a port by its number. */
static void add_metrics(const struct supervisor *s, struct record_out *o)
{
	char text[1024] = "";
	size_t at = 0;
	for (size_t i = 0; i < s->metrics.places; i++) {
		const struct sup_metrics_place *p = &s->metrics.place[i];
		if (p->is_open && at < sizeof text)
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "",
					       p->http_name[0] ? p->http_name : p->name);
	}
	record_add(o, "metrics", text);
}

static void verbs_put_job(struct supervisor *s, struct request *rq)
{
	struct record_out *o =
		RECORD("job", F("name", s->job->name), F("state", sup_phase_name(s->phases.now)),
		       F("goal", goal_word(s)));
	struct run_row row = s->progress.row;
	row.total = s->options.samples * s->job->epochs;
	row.epochs = s->job->epochs;
	if (s->progress.stat.known)
		row.samples = s->progress.stat.samples_done;
	show_fields(o, &row);
	sup_waits(s, row.waits, sizeof row.waits);
	record_add(o, "why", row.waits);
	record_add_u64(o, "shards-done", s->progress.stat.shards_done);
	record_add_u64(o, "shards", s->progress.stat.shards);
	record_add_u64(o, "held", s->progress.stat.held);
	record_add_u64(o, "incarnation", s->recover.incarnation);
	record_add_u64(o, "restarts", sup_all_restarts(s));
	if (job_kind(s->job)->cut == CUT_SAVED)
		record_add_u64(o, "repeated", s->trainers.repeated);
	if (s->trainers.failure[0]) {
		record_add(o, "failure", s->trainers.failure);
		record_add_seconds(o, "failure-age", clock_mono() - s->trainers.failure_at);
	}
	record_add(o, "checkpoint", s->checkpoint.latest);
	if (s->checkpoint.in_memory)
		record_add_u64(o, "checkpoint-in-memory", s->checkpoint.in_memory);
	record_add_seconds(o, "up", clock_mono() - s->phases.started);
	if (sup_network_fabric(s)) {
		record_add(o, "fabric", sup_network_fabric(s));
		record_add_seconds(o, "fabric-saves", s->network.saved);
	}
	if (s->progress.reported.count > 0) {
		char reported[SUP_REPORTED_TEXT];
		sup_reported_text(&s->progress.reported, reported);
		record_add(o, "reported", reported);
		record_add_seconds(o, "reported-age", clock_mono() - s->progress.reported.at);
	}
	record_add(o, "decision", s->actions.last);
	record_add_seconds(o, "decision-age",
			   s->actions.last_at > 0 ? clock_mono() - s->actions.last_at : NAN);
	if (job_has_brain(s->job)) {
		record_add(o, "brain", s->brain.last);
		record_add_seconds(o, "brain-age",
				   s->brain.last_at > 0 ? clock_mono() - s->brain.last_at : NAN);
		record_add_u64(o, "brain-changes", s->brain.past.changes);
	}
	add_metrics(s, o);
	record_add(o, "run-dir", s->dirs.run);
	record_add(o, "state-dir", s->dirs.state);
	request_put_record(rq, o);
}

static void verbs_put_node(struct sup_node *n, const struct why *workers, struct request *rq)
{
	const struct snapshot_node *m = sup_measured(n);
	const struct supervisor *s = n->sup;
	pid_t pid = n->stage != STAGE_OFF ? sup_process_pid(&n->now) : n->now.pid;
	const char *change = sup_scale_word(n), *section = sup_watch_section(n);
	char why[WHY_MAX] = "", stands_still[RUN_WAITS_MAX];
	int stands = n->role == &role_server && strcmp(s->job->standby, "on") == 0;
	const char *standby = sup_link_up(&n->watch_link) ? n->watch.seen.standby : "";
	if (m)
		why_slow(workers, m, why);
	sup_standstill_of(n, stands_still, sizeof stands_still);
	/* Never pid=0: kill(1) takes that for a whole group. */
	const struct run_delays *d = &n->watch.seen.delays;
	request_put_record(
		rq,
		RECORD("node", F("role", n->role->name), F("id", n->id),
		       F("state", change ? change : stage_name(n->stage)),
		       pid > 0 ? F("pid", (uint64_t)pid) : F("pid", ""), F("restarts", n->restarts),
		       F_REAL("size", m ? (double)m->size : NAN),
		       F_SECONDS("time", m ? m->mean_short : NAN),
		       F_REAL("speed", m ? m->speed_short : NAN),
		       F_REAL("ratio", m ? m->ratio_short : NAN),
		       F_REAL("accum", m && m->accum ? (double)m->accum : NAN),
		       F("why", stands_still[0] ? stands_still : why),
		       F("told", n->last_action.what),
		       F_SECONDS("told-age",
				 n->last_action.what[0] ? clock_mono() - n->last_action.at : NAN),
		       F("section", section),
		       F_SECONDS("silent", section[0] ? n->watch.pulse.silent : NAN),
		       F("host", n->place.host), F_REAL("cores", n->cores > 0 ? n->cores : NAN),
		       n->memory > 0 ? F("memory", n->memory) : F("memory", ""),
		       stands ? F("standby", standby) : F_NONE,
		       stands && n->restart.stands
			       ? F("standby-host", s->hosts.host[n->restart.next.at].place->host)
			       : F_NONE,
		       d->known ? F("delay", d->middle) : F_NONE,
		       d->known ? F("delay-95", d->most_95) : F_NONE,
		       d->known ? F("delay-most", d->most) : F_NONE,
		       d->known ? F("stale", d->stale) : F_NONE));
}

/* A record for each host, if there are several. */
static void put_hosts(struct supervisor *s, struct request *rq)
{
	EACH_HOST (h, s, 0) {
		if (s->hosts.count == 1 || h->state == HOST_NONE)
			continue;
		struct record_out *o =
			RECORD("host", F("name", h->place->host), F("state", sup_host_word(h)),
			       F("launcher", h->place->launcher->name), F("cores", h->place->cores),
			       F("sees-state", !h->place->apart));
		sup_network_add(o, &h->network);
		request_put_record(rq, o);
	}
}

static void do_status(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	struct why workers;
	why_gather(&workers, &s->progress.snapshot.now, NODE_WORKER);
	verbs_put_job(s, rq);
	put_hosts(s, rq);
	EACH_NODE (n, s)
		if (!sup_host_is_done_without(n))
			verbs_put_node(n, &workers, rq);
	request_ok(rq, NULL);
}

/* ---- the others ---- */

static void do_stop(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	sup_finish_early(s, GOAL_STOP, "asked to stop");
	wait_in(s, &s->clients.stop, rq);
}

static void do_checkpoint(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	if (!sup_lead(s)) {
		request_err(rq, "no-checkpoints",
			    "TRAINER_KIND=%s has nothing to save: finished shards stay finished",
			    s->job->trainer_kind);
		return;
	}
	if (s->phases.now > PHASE_LAST_CUT) {
		request_err(rq, "over", "the job has made its last checkpoint: %s",
			    s->checkpoint.latest);
		return;
	}
	wait_in(s, &s->checkpoint.waiters, rq);
}

static void no_such_node(const struct supervisor *s, struct request *rq)
{
	const char *id = record_get(request_record(rq), "id");
	char there[200] = "";
	size_t at = 0;
	EACH_NODE (n, s)
		if (at < sizeof there)
			at += (size_t)snprintf(there + at, sizeof there - at, " %s", n->id);
	request_err(rq, "unknown-node", "there is no node '%.64s'; there are:%s%s", id ? id : "",
		    there, at < sizeof there ? "" : "...");
}

static void do_kill(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	struct sup_node *n = sup_find(s, record_get(request_record(rq), "id"));
	if (!n) {
		no_such_node(s, rq);
		return;
	}
	sup_node_kill(n);
	request_ok(rq, NULL);
}

static void do_kill_restart(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	const struct record *r = request_record(rq);
	struct sup_node *n = sup_find(s, record_get(r, "id"));
	uint64_t force = 0, elsewhere = 0;
	struct error err;
	if (record_u64_opt(r, "force", 0, 1, &force, &err) != 0 ||
	    record_u64_opt(r, "elsewhere", 0, 1, &elsewhere, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!n) {
		no_such_node(s, rq);
		return;
	}
	const char *refused = elsewhere ? sup_restart_elsewhere(n, (int)force, "is to leave it")
					: sup_restart(n, (int)force, "asked for");
	if (refused)
		request_err(rq, refused, "%s is not restarted now: %s", n->id,
			    sup_restart_why(refused));
	else
		wait_in(s, &n->restart.waiters, rq);
}

static void do_apply(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	struct payload *payload = request_payload(rq);
	struct decision list = {0};
	struct error err;
	size_t bytes = payload ? payload_bytes(payload) : 0;
	char *text = malloc(bytes + 1); /* mapped memory could change while it is read */
	if (!text) {
		request_err(rq, "no-memory", "out of memory");
		return;
	}
	if (payload)
		memcpy(text, payload_data(payload), bytes);
	if (!sup_lead(s))
		request_err(rq, "no-iterations",
			    "TRAINER_KIND=%s has no iterations in which actions could hold",
			    s->job->trainer_kind);
	else if (s->phases.now != PHASE_RUNNING)
		request_err(rq, "not-running", "the job is in phase %s",
			    sup_phase_name(s->phases.now));
	else if (decision_parse(&list, text, bytes, &err) != 0 ||
		 sup_actions_carry(s, &list, "apply", rq, &err) < 0)
		request_err(rq, "bad-actions", "%s", err.text);
	decision_free(&list);
	free(text);
}

static void do_spare(struct request *rq, void *owner)
{
	struct sup_node *n = sup_find(owner, record_get(request_record(rq), "id"));
	if (n && (sup_node_is_spare(n) || n->role == sup_trainers(n->sup)))
		sup_spare_asks(n, rq);
	else
		no_such_node(owner, rq);
}

/* What is not given stays as it is. */
static int verbs_take_sizes(const struct record *r, uint64_t *workers, uint64_t *servers,
			    struct error *err)
{
	*workers = *servers = 0;
	if (record_u64_opt(r, "workers", 0, UINT64_MAX, workers, err) != 0 ||
	    record_u64_opt(r, "servers", 0, UINT64_MAX, servers, err) != 0)
		return -1;
	if (!record_get(r, "workers") && !record_get(r, "servers") && !record_get(r, "hosts"))
		return error_set(err, ERROR_DATA, NULL, "workers=, servers= or hosts= is missing");
	if ((record_get(r, "workers") && *workers == 0) || (record_get(r, "servers") && *servers == 0))
		return error_set(err, ERROR_DATA, NULL,
				 "a job needs at least one worker, and one server if it has "
				 "servers; `trainctl stop` ends it");
	return 0;
}

static void do_scale(struct request *rq, void *owner)
{
	uint64_t workers, servers;
	struct error err;
	if (verbs_take_sizes(request_record(rq), &workers, &servers, &err) != 0)
		request_err(rq, "bad-scale", "%s", err.text);
	else
		sup_scale_want_hosts(owner, workers, servers,
				     record_get(request_record(rq), "hosts"), "asked for", rq);
}

/* A host that is to be left, or a worker that is to leave its host. */
static void do_drain(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	const char *id;
	double within = 0;
	struct error err;
	if (record_text(request_record(rq), "id", &id, &err) != 0 ||
	    record_real_opt(request_record(rq), "within", 0, 1e9, &within, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	struct sup_node *n = sup_find(s, id);
	if (!n) {
		if (sup_scale_drain(s, id, within, rq) != 0)
			request_err(rq, "unknown-node", "'%.64s' is neither a host nor a node of this job", id);
		return;
	}
	const char *refused = sup_restart_elsewhere(n, 1, "is to leave it");
	if (refused)
		request_err(rq, refused, "%s can't leave its host: %s", n->id, sup_restart_why(refused));
	else
		wait_in(s, &n->restart.waiters, rq);
}

static void do_rebalance(struct request *rq, void *owner)
{
	sup_rebalance_want(owner, "asked for", rq);
}

static void do_watch(struct request *rq, void *owner)
{
	struct supervisor *s = owner;
	wait_in(s, &s->clients.watch, rq);
}

const struct verb sup_verbs[] = {
	{"status", "", "", do_status, 0, "a job record, then a node each"},
	{"stop", "", "", do_stop, 0, "checkpoint, then stop; answered when all has ended"},
	{"checkpoint", "", "", do_checkpoint, 0, "answered with path= when it is complete"},
	{"kill", "id", "", do_kill, 0, "SIGKILL to a node, which is started again"},
	{"kill-restart", "id", "force elsewhere", do_kill_restart, 0,
	 "restart of a live worker or server; answered when it is there again"},
	{"apply", "", "", do_apply, SUPERVISOR_ACTIONS_MAX,
	 "payload: action lines, all or none; answered with the iteration they hold from"},
	{"spare", "id", "", do_spare, 0,
	 "by a worker that stands ready: answered with batch= when it has a place"},
	{"scale", "", "workers servers hosts", do_scale, 0,
	 "so many nodes from now on, on these hosts; answered when it is done"},
	{"drain", "id", "within", do_drain, 0,
	 "a host goes: its nodes leave it, and are killed there after within= seconds"},
	{"rebalance", "", "", do_rebalance, 0,
	 "servers divide their parameters anew; answered when this is done"},
	{"watch", "", "", do_watch, 0, "a row record each time, until the client closes"},
};
const size_t sup_verb_count = sizeof sup_verbs / sizeof *sup_verbs;
