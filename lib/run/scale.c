/* scale: see scale.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RETRY_SECONDS 1.0
#define LOOK_SECONDS 0.1 /* between looks whether something was trained */
#define FAILURES_MAX 3 /* in a row, of a node that joins */
#define CHANGE_MAX (UINT64_MAX / 2) /* a greater number in a file is none */

/* ---- what is kept of it ---- */

/* The hosts that the line names. NULL: it names none, or HOSTS was another when it was written. */
static unsigned char *hosts_of(struct supervisor *s, const struct record *r)
{
	const char *names = record_get(r, "hosts");
	uint64_t sum = 0;
	unsigned char *hosts = NULL;
	struct sup_scale_refusal why;
	if (!names || record_u64_opt(r, "job-hosts", 0, UINT64_MAX, &sum, NULL) != 0)
		return NULL;
	if (sum == sup_scale_hosts_sum(s) && sup_scale_hosts_parse(s, names, &hosts, &why) == 0)
		return hosts;
	sup_note(s, "scale", "HOSTS has changed since the job was scaled to %s: HOSTS holds", names);
	return NULL;
}

static void take_hosts(struct supervisor *s, const struct record *r)
{
	unsigned char *hosts = hosts_of(s, r);
	if (hosts)
		sup_scale_hosts_take(s, hosts, s->scale.under_way);
	free(hosts);
}

static int scale_take(struct supervisor *s, const struct record *r, struct error *err)
{
	struct sup_scale *c = &s->scale;
	uint64_t workers, servers;
	const char *reason = record_get(r, "reason");
	c->is_kept = 1;
	if (record_u64(r, "job-workers", 1, UINT64_MAX, &workers, err) != 0 ||
	    record_u64(r, "job-servers", 0, UINT64_MAX, &servers, err) != 0 ||
	    record_u64(r, "workers", 1, job_workers_most(), &c->now.workers, err) != 0 ||
	    record_u64(r, "servers", 1, job_servers_most(), &c->now.servers, err) != 0)
		return -1;
	c->from = c->now;
	c->under_way = record_get(r, "from-workers") != NULL;
	if (c->under_way &&
	    (record_u64(r, "from-workers", 1, job_workers_most(), &c->from.workers, err) != 0 ||
	     record_u64(r, "from-servers", 1, job_servers_most(), &c->from.servers, err) != 0))
		return -1;
	uint64_t ever = 0, moved = 0;
	record_u64_opt(r, "maps", 0, 1, &ever, NULL);
	record_u64_opt(r, "moved", 0, 1, &moved, NULL);
	record_u64_opt(r, "rebalances", 0, UINT64_MAX, &s->rebalance.done, NULL);
	record_u64_opt(r, "change", 0, CHANGE_MAX, &c->change, NULL);
	c->servers.maps_moved = ever != 0;
	if (c->under_way && !moved && c->now.servers != c->from.servers)
		c->servers.step = SCALE_LOOK;
	snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
	take_hosts(s, r);
	if (workers == s->job->workers && servers == s->job->servers)
		return 0;
	sup_note(s, "scale",
		 "WORKERS=%llu and SERVERS=%llu of the job file have changed since the job was scaled "
		 "to %llu and %llu: they hold",
		 (unsigned long long)s->job->workers, (unsigned long long)s->job->servers,
		 (unsigned long long)c->now.workers, (unsigned long long)c->now.servers);
	c->now = c->from = (struct sup_sizes){s->job->workers, s->job->servers};
	c->under_way = 0;
	c->servers.step = SCALE_OVER;
	return 0;
}

/* BATCH and its scaling may have changed in the job file since the job was scaled. */
static void fit_batch(struct supervisor *s)
{
	struct sup_scale *c = &s->scale;
	uint64_t most = sup_scale_workers_most(s);
	char least[JOB_LEAST_MAX];
	if (c->now.workers > most)
		sup_note(s, "scale",
			 "BATCH=%llu is less than %s for each of the %llu workers to which the "
			 "job was scaled, and BATCH scaling is none: there are %llu",
			 (unsigned long long)s->job->batch, job_least_words(s->job, least),
			 (unsigned long long)c->now.workers,
			 (unsigned long long)most);
	c->now.workers = c->now.workers < most ? c->now.workers : most;
	c->from.workers = c->from.workers < most ? c->from.workers : most;
}

int sup_scale_take(struct supervisor *s, const struct record *r, struct error *err)
{
	if (scale_take(s, r, err) != 0)
		return -1;
	fit_batch(s);
	return 0;
}

static void add_hosts(const struct supervisor *s, struct record_out *o,
		      const unsigned char *hosts)
{
	char text[SCALE_HOSTS_MAX];
	sup_scale_hosts_text(s, hosts, text);
	if (!text[0])
		return;
	record_add_u64(o, "job-hosts", sup_scale_hosts_sum(s));
	record_add(o, "hosts", text);
}

/* moved: servers are as wanted. hosts NULL: those that are used. */
static int scale_keep(struct supervisor *s, const struct sup_sizes *now,
		      const struct sup_sizes *from, int moved, const unsigned char *hosts,
		      const char *reason)
{
	uint64_t maps = s->scale.servers.maps_moved || (from && from->servers != now->servers);
	struct record_out *o =
		RECORD("scale", F("job-workers", s->job->workers), F("job-servers", s->job->servers),
		       F("workers", now->workers), F("servers", now->servers),
		       from ? F("from-workers", from->workers) : F_NONE,
		       from ? F("from-servers", from->servers) : F_NONE,
		       from ? F("moved", moved != 0) : F_NONE, F("maps", maps),
		       F("rebalances", s->rebalance.done), F("change", s->scale.change));
	add_hosts(s, o, hosts);
	record_add(o, "reason", reason);
	size_t len = record_end(o, NULL);
	return sup_keep(s, KEPT_SCALE, o->data, len);
}

int sup_scale_keep(struct supervisor *s, int under_way)
{
	return scale_keep(s, &s->scale.now, under_way ? &s->scale.from : NULL,
			  s->scale.servers.step == SCALE_OVER, NULL, s->scale.reason);
}

/* ---- nodes ---- */

const char *sup_scale_word(const struct sup_node *n)
{
	if (n->leaving)
		return "leaving";
	return n->joining ? "joining" : NULL;
}

int sup_scale_fences(const struct sup_node *n)
{
	return n->leaving && !n->fenced && n->stage == STAGE_OFF;
}

void sup_scale_fenced(struct sup_node *n)
{
	n->fenced = 1;
}

static void scale_leave(struct sup_node *n)
{
	n->leaving = 1;
	n->joining = n->fenced = 0;
	sup_fence_begin(n);
}

static void mark_leaving(struct supervisor *s)
{
	if (s->job->hot_spares > 0)
		sup_spares_settle(s, s->scale.now.workers);
	EACH_OF (n, s, sup_trainers(s))
		if (n->number >= s->scale.now.workers + sup_scale_hosts_more(s) && !n->leaving)
			scale_leave(n);
	EACH_OF (n, s, &role_server)
		n->leaving = n->number >= s->scale.now.servers;
}

/* Adds nodes until there are as many as wanted; these join. */
static int add_joining(struct supervisor *s, const struct role *role, uint64_t wanted,
		       struct error *err)
{
	while (sup_count(s, role) < wanted) {
		struct sup_node *n = sup_roster_add(s, role, err);
		if (!n)
			return -1;
		n->joining = 1;
	}
	return 0;
}

int sup_scale_is_late(const struct supervisor *s)
{
	return clock_mono() - s->scale.began >= deadline_seconds(DEADLINE_SCALE);
}

/* Whether it is up, or is not waited for: its host comes later, or there is nothing left for it to
 * do, or it takes too long. One that fails is tried again, or the change is given up. */
static int has_joined(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	return n->stage == STAGE_READY || sup_host_is_awaited(n) ||
	       s->progress.all_done || !sup_trainer_is_needed(n) ||
	       sup_scale_is_late(s);
}

/* 1: some are awaited. */
static int wait_for_joiners(struct supervisor *s)
{
	int awaited = 0;
	EACH_OF (n, s, sup_trainers(s)) {
		if (n->joining && n->stage == STAGE_READY)
			n->joining = 0;
		awaited |= n->joining && !has_joined(n);
	}
	if (awaited)
		sup_kick_after(s, RETRY_SECONDS);
	return awaited;
}

void sup_scale_leave(struct sup_node *n)
{
	sup_event(n, "left", NULL);
	sup_in_force_drop(n->sup, n->id);
	sup_roster_leave(n);
	n->number = n->made_number; /* with which it is found if it comes back */
}

/* Nothing was trained since the change began: so somebody may stand still, which is not found at once. */
static int scale_stands(struct supervisor *s)
{
	double now = clock_mono(), began = clock_epoch() - (now - s->scale.began);
	if (s->progress.all_done || !(s->progress.stat.last_at < began))
		return 0;
	sup_kick_after(s, LOOK_SECONDS);
	if (now - s->scale.looked >= LOOK_SECONDS) {
		s->scale.looked = now;
		sup_ask_stat(s);
	}
	return 1;
}

/* What was trained may be its alone: who stays is a member, too, by what the lead says now. That a rank
 * has died is seen there first. */
static int scale_is_alone(const struct sup_node *n)
{
	EACH_OF (other, n->sup, n->role)
		if (other != n && !other->leaving && sup_is_member(other))
			return 0;
	sup_ask_members(n->sup);
	return !n->sup->progress.all_done;
}

int sup_scale_holds(const struct sup_node *n)
{
	struct supervisor *s = n->sup;
	return job_kind(s->job)->sums && n->role == &role_agent && !sup_scale_is_late(s) &&
	       (sup_trainer_is_last(n) || scale_stands(s) || scale_is_alone(n));
}

/* 1: some are still there. */
static int scale_let_go(struct supervisor *s)
{
	int there = 0;
	for (struct sup_node *n = sup_first(s, sup_trainers(s)), *next; n; n = next) {
		next = sup_next_of(n);
		if (!n->leaving)
			continue;
		if (n->stage == STAGE_READY && sup_scale_holds(n)) {
			sup_kick_after(s, RETRY_SECONDS);
			there = 1;
			continue;
		}
		sup_node_stop(n, SIGTERM);
		struct sup_node *dropped =
			sup_node_is_off(n) && n->fenced ? sup_spare_drops(n) : NULL;
		if (!dropped) {
			there = 1;
			continue;
		}
		sup_scale_leave(dropped);
		if (dropped != n)
			return 1; /* the order is another one now */
	}
	return there;
}

int sup_scale_is_tried(const struct sup_node *n)
{
	return n->joining && n->in_a_row < FAILURES_MAX;
}

/* Whether something is still to be begun for it. */
static int wish_waits(const struct sup_wish *w)
{
	return w != w->sup->scale.carried;
}

/* Whether somebody waits for so few workers that it leaves in any case. */
static int is_to_leave(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	for (const struct sup_wish *w = s->scale.wishes; w; w = w->next)
		if (wish_waits(w) && w->want.workers > 0 && w->want.workers <= n->number)
			return 1;
	return 0;
}

/* A worker that was to join in an earlier change, which has ended without it: the job goes on with
 * the workers before it. */
static int give_up_late(struct sup_node *n, const char *why)
{
	struct supervisor *s = n->sup;
	char reason[SCALE_REASON_MAX];
	snprintf(reason, sizeof reason, "%s does not start: %.100s", n->id, why);
	if (!is_to_leave(n) && sup_scale_want(s, n->number, 0, reason, NULL) != 0)
		return 0;
	sup_note(s, "warning", "%s: %s; it is not tried again; `trainctl logs %s` says more", n->id,
		 why, n->id);
	scale_leave(n);
	return 1;
}

int sup_scale_gives_up(struct sup_node *n, const char *why)
{
	struct supervisor *s = n->sup;
	if (!n->joining)
		return 0;
	if (n->role != &role_server &&
	    (!s->scale.under_way || n->number < s->scale.from.workers))
		return give_up_late(n, why);
	if (!s->scale.under_way)
		return 0;
	uint64_t is_for_move = sup_scale_hosts_more(s);
	snprintf(s->scale.why, sizeof s->scale.why, "%s: %s", n->id, why);
	sup_note(s, "warning", "not scaled: %s; `trainctl logs %s` says more", s->scale.why, n->id);
	if (n->role == &role_server) { /* it may have a part by now: the lead knows */
		sup_scale_servers_fail(s);
		return 1;
	}
	if (is_for_move)
		sup_scale_hosts_stay(s);
	s->scale.now.workers = s->scale.from.workers;
	mark_leaving(s); /* also those that are up already */
	return 1;
}

/* ---- a change ---- */

/* number: the change's; 0: it has none, and the record no change=. */
static void scale_add_change(const struct supervisor *s, struct record_out *o, uint64_t number)
{
	record_add_u64(o, "workers", s->scale.now.workers);
	record_add_u64(o, "servers", s->scale.now.servers);
	record_add_u64(o, "from-workers", s->scale.from.workers);
	record_add_u64(o, "from-servers", s->scale.from.servers);
	if (s->scale.hosts.from) {
		char text[SCALE_HOSTS_MAX];
		sup_scale_hosts_text(s, NULL, text);
		record_add(o, "hosts", text[0] ? text : "all");
		record_add(o, "from-hosts", s->scale.hosts.from[0] ? s->scale.hosts.from : "all");
	}
	if (number > 0)
		record_add_u64(o, "change", number);
}

static void log_begun(struct supervisor *s, uint64_t number, const char *reason)
{
	const struct sup_sizes *from = &s->scale.from, *now = &s->scale.now;
	if (from->workers != now->workers)
		log_say(LOG_LEVEL_INFO, "from %llu to %llu workers: %s",
			(unsigned long long)from->workers, (unsigned long long)now->workers,
			reason);
	if (from->servers != now->servers)
		log_say(LOG_LEVEL_INFO, "from %llu to %llu servers: %s",
			(unsigned long long)from->servers, (unsigned long long)now->servers,
			reason);
	struct record_out *o = RECORD_BARE("scale");
	scale_add_change(s, o, number);
	record_add(o, "reason", reason);
	sup_log(s, o);
}

static void scale_answer_ok(struct supervisor *s, struct request *rq, double seconds)
{
	char hosts[SCALE_HOSTS_MAX];
	const struct sup_scale_servers *servers = &s->scale.servers;
	int moved = seconds > 0 && servers->bytes > 0;
	uint64_t joining = 0;
	EACH_OF (n, s, sup_trainers(s))
		joining += n->joining != 0;
	sup_scale_hosts_text(s, NULL, hosts);
	request_ok_record(rq, RECORD("ok", F("workers", s->scale.now.workers),
				     F("servers", s->scale.now.servers),
				     hosts[0] ? F("hosts", hosts) : F_NONE,
				     joining > 0 ? F("joining", joining) : F_NONE,
				     F_SECONDS("seconds", seconds),
				     moved ? F("moved-bytes", servers->bytes) : F_NONE,
				     moved ? F_SECONDS("stall", servers->stall) : F_NONE));
}

static void scale_log_done(struct supervisor *s, uint64_t number, double seconds,
			   const char *reason)
{
	struct record_out *o = RECORD_BARE("scaled");
	scale_add_change(s, o, number);
	record_add_u64(o, "batch", sup_scale_batch(s));
	record_add_real(o, "lr-factor", sup_scale_rate_factor(s));
	record_add_seconds(o, "seconds", seconds);
	if (s->scale.servers.bytes > 0) {
		record_add_u64(o, "moved-bytes", s->scale.servers.bytes);
		record_add_seconds(o, "stall", s->scale.servers.stall);
	}
	record_add(o, "reason", reason);
	if (s->scale.why[0])
		record_add(o, "failed", s->scale.why);
	sup_log(s, o);
}

/* Logs the end of a change, once as done and once as failed at most: this is called again as long
 * as the file can't be written. */
static void log_end(struct supervisor *s)
{
	enum scale_logged end = s->scale.why[0] ? SCALE_LOGGED_FAILED : SCALE_LOGGED;
	if (s->scale.logged == end)
		return;
	scale_log_done(s, s->scale.change, clock_mono() - s->scale.began, s->scale.reason);
	s->scale.logged = end;
}

static void scale_done(struct supervisor *s)
{
	struct sup_wish *w = s->scale.carried;
	struct request *rq = w ? sup_wish_drop(w) : NULL;
	double seconds = clock_mono() - s->scale.began;
	if (!s->scale.why[0])
		s->scale.changes_done++;
	if (rq && s->scale.why[0])
		request_err(rq, "not-scaled", "%s", s->scale.why);
	else if (rq)
		scale_answer_ok(s, rq, seconds);
	if (s->scale.now.servers != s->scale.from.servers)
		sup_rebalance_soon(s);
	sup_scale_hosts_end(s);
	s->scale.under_way = s->scale.shared = 0;
	s->scale.from = s->scale.now;
}

static void scale_fail(struct supervisor *s, const char *text)
{
	sup_fail(s, ERROR_OS, "nodes can't be added: %s", text);
}

int sup_scale_add_servers(struct supervisor *s)
{
	struct error err;
	while (sup_count(s, &role_server) < s->scale.now.servers)
		if (!sup_roster_add(s, &role_server, &err)) {
			scale_fail(s, err.text);
			return -1;
		}
	return 0;
}

/* When the turn of these wishes comes, nothing is left to do. */
int sup_scale_take_servers(struct supervisor *s)
{
	const struct sup_wish *last = NULL;
	struct sup_scale_refusal why;
	for (const struct sup_wish *w = s->scale.wishes; w; w = w->next)
		if (wish_waits(w) && w->want.servers > 0 && sup_scale_check(s, w, &why) == 0)
			last = w;
	if (!last || last->want.servers == s->scale.now.servers)
		return 0;
	struct sup_sizes from = s->scale.from;
	s->scale.from = s->scale.now;
	s->scale.now.servers = last->want.servers;
	s->scale.servers.maps_moved = 1;
	s->scale.servers.bytes = 0;
	log_begun(s, 0, last->reason);
	scale_log_done(s, 0, 0, last->reason);
	s->scale.from = s->scale.under_way ? from : s->scale.now;
	return 1;
}

static void scale_start(struct supervisor *s)
{
	struct error err;
	s->scale.began = clock_mono();
	s->scale.changes++;
	mark_leaving(s);
	if (add_joining(s, sup_trainers(s), s->scale.now.workers + sup_scale_hosts_more(s), &err) != 0 ||
	    (s->scale.now.servers != s->scale.from.servers &&
	     add_joining(s, &role_server, s->scale.now.servers, &err) != 0)) {
		scale_fail(s, err.text);
		return;
	}
	sup_scale_servers_begin(s, 1);
	EACH_OF (n, s, sup_trainers(s))
		n->joining_share = n->joining;
	sup_kick(s);
}

/* What the log has of changes. */
struct log_seen {
	uint64_t last;		/* the highest number */
	int has_begun, is_done; /* of the change that the file names; is_done: it did not fail */
};

static void scale_take_logged(const struct record *r, uint64_t number, struct log_seen *seen)
{
	int begins = record_is(r, "scale"), ends = record_is(r, "scaled");
	uint64_t n = 0;
	if ((!begins && !ends) || record_u64_opt(r, "change", 1, CHANGE_MAX, &n, NULL) != 0)
		return;
	seen->last = n > seen->last ? n : seen->last;
	seen->has_begun |= begins && n == number;
	seen->is_done |= ends && n == number && !record_get(r, "failed");
}

/* A log that is not there, or can't be read, has nothing; lines that are no records are passed
 * over. */
static void scale_read_log(const char *path, uint64_t number, struct log_seen *seen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), got;
	struct record_reader *in = fd >= 0 ? record_reader_new(fd, path) : NULL;
	struct record r;
	struct error err;
	if (in)
		record_reader_of_log(in);
	while (in && (got = record_read(in, &r, &err)) != RECORD_END) {
		if (got == RECORD_ONE)
			scale_take_logged(&r, number, seen);
		else if (got < 0 && err.code != ERROR_DATA)
			break;
	}
	record_reader_free(in);
	if (fd >= 0)
		close(fd);
}

static struct log_seen scale_read_logs(const struct supervisor *s)
{
	char path[DIRS_PATH_MAX];
	struct log_seen seen = {0};
	dirs_state(&s->dirs, "job.log.1", path);
	scale_read_log(path, s->scale.change, &seen);
	scale_read_log(s->log.path, s->scale.change, &seen);
	return seen;
}

/* Writes down what is wanted, before anything is done. If no number of a change is known, it is
 * taken from the log: the file may have been removed, and the log not. */
static int keep_begin(struct supervisor *s, const struct sup_sizes *to, const unsigned char *hosts,
		      const char *reason)
{
	uint64_t before = s->scale.change;
	s->scale.change = 1 + (before > 0 ? before : scale_read_logs(s).last);
	if (scale_keep(s, to, &s->scale.now, 0, hosts, reason) == 0)
		return 0;
	s->scale.change = before;
	s->scale.file_is_ahead = 1; /* it is being written */
	return -1;
}

/* Begins a change for this wish. */
static void scale_begin(struct supervisor *s, struct sup_wish *w, const struct sup_sizes *to)
{
	const unsigned char *hosts = w->hosts;
	if (hosts && !sup_scale_hosts_differ(s, hosts))
		hosts = NULL;
	if (keep_begin(s, to, hosts, w->reason) != 0)
		return;
	s->scale.carried = w;
	s->scale.from = s->scale.now;
	s->scale.now = *to;
	s->scale.under_way = 1;
	s->scale.file_is_ahead = 0;
	s->scale.logged = SCALE_NOT_LOGGED;
	s->scale.why[0] = '\0';
	snprintf(s->scale.reason, sizeof s->scale.reason, "%s", w->reason);
	if (hosts)
		sup_scale_hosts_begin(s, hosts);
	log_begun(s, s->scale.change, s->scale.reason);
	scale_start(s);
}

static int scale_refuse(struct sup_wish *w, const struct sup_scale_refusal *why)
{
	sup_scale_hosts_forget(w->sup); /* the next one asks again */
	sup_wish_refuse(w, why);
	return 1;
}

/* Begins what the first in the queue wants. 1: it was answered, and the next one may begin. */
static int scale_begin_first(struct supervisor *s)
{
	struct sup_wish *w = s->scale.wishes;
	struct sup_scale_refusal why;
	struct sup_sizes to;
	struct request *rq;
	int asked = sup_scale_check(s, w, &why);
	int others = asked == 0 && w->hosts && sup_scale_hosts_differ(s, w->hosts);
	if (others)
		asked = sup_scale_hosts_ask(s, w->hosts, &why);
	if (asked != 0)
		return asked < 0 ? scale_refuse(w, &why) : 0;
	to = (struct sup_sizes){w->want.workers > 0 ? w->want.workers : s->scale.now.workers,
				w->want.servers > 0 ? w->want.servers : s->scale.now.servers};
	if (!others && to.workers == s->scale.now.workers && to.servers == s->scale.now.servers) {
		if ((rq = sup_wish_drop(w)))
			scale_answer_ok(s, rq, 0);
		return 1;
	}
	if (!sup_turn_may_begin(s, TURN_SCALE)) {
		sup_scale_hosts_late(s);
		return 0;
	}
	scale_begin(s, w, &to);
	return 0;
}

/* A step further with what is under way. Servers that leave do so before others change hosts; those
 * that come do so after it. */
static void scale_go_on(struct supervisor *s)
{
	if (s->scale.now.servers < s->scale.from.servers && sup_scale_servers_step(s))
		return;
	if (s->scale.hosts.moved)
		mark_leaving(s); /* the worker that was there for the move only */
	int there = scale_let_go(s), awaited = wait_for_joiners(s), hosts = sup_scale_hosts_step(s);
	if (there || awaited || hosts)
		return;
	if (!s->scale.shared && s->scale.now.workers != s->scale.from.workers)
		sup_scale_share(s);
	s->scale.shared = 1;
	if (sup_scale_servers_step(s))
		return;
	/* Before the file: the next supervisor only looks into the log if the file has a change
	 * that is under way. */
	log_end(s);
	if (sup_scale_keep(s, 0) != 0)
		return;
	scale_done(s);
	sup_kick(s);
}

void sup_scale_step(struct supervisor *s)
{
	wait_for_joiners(s); /* of an earlier change, too */
	if (s->scale.under_way)
		scale_go_on(s);
	else if (s->scale.hosts.under_way && !sup_scale_hosts_step(s))
		sup_scale_hosts_end(s); /* begun by an earlier supervisor */
	while (!s->scale.under_way && s->scale.wishes && scale_begin_first(s))
		;
	if (s->scale.file_is_ahead && !s->scale.under_way && !s->scale.wishes) {
		s->scale.file_is_ahead = 0; /* it was refused meanwhile */
		sup_scale_keep(s, 0);
	}
}

void sup_scale_free(struct supervisor *s)
{
	while (s->scale.wishes)
		sup_wish_drop(s->scale.wishes);
	sup_scale_hosts_end(s);
}

uint64_t sup_scale_workers(const struct supervisor *s)
{
	const struct sup_scale *c = &s->scale;
	uint64_t now = c->now.workers + sup_scale_hosts_more(s);
	return c->from.workers > now ? c->from.workers : now;
}

uint64_t sup_scale_servers(const struct supervisor *s)
{
	const struct sup_scale *c = &s->scale;
	return c->from.servers > c->now.servers ? c->from.servers : c->now.servers;
}

void sup_scale_mark(struct supervisor *s)
{
	if (!s->scale.under_way)
		return;
	s->scale.began = clock_mono();
	mark_leaving(s);
	EACH_OF (n, s, sup_trainers(s))
		n->joining = n->joining_share = n->number >= s->scale.from.workers && !n->leaving;
	EACH_OF (n, s, &role_server)
		n->joining = s->scale.servers.step != SCALE_OVER &&
			     n->number >= s->scale.from.servers && !n->leaving;
	if (s->scale.servers.step != SCALE_OVER)
		sup_scale_servers_begin(s, 0);
}

/* The supervisor that was killed may have logged the change already: each one is in the log
 * once. */
static void log_adopted(struct supervisor *s)
{
	if (!s->scale.under_way || s->scale.change == 0)
		return;
	struct log_seen seen = scale_read_logs(s);
	s->scale.logged = seen.is_done ? SCALE_LOGGED : SCALE_NOT_LOGGED;
	if (!seen.has_begun)
		log_begun(s, s->scale.change, s->scale.reason);
}

void sup_scale_begin(struct supervisor *s)
{
	const struct sup_sizes *now = &s->scale.now;
	log_adopted(s);
	if (job_kind(s->job)->servers_stay && now->workers != s->job->workers)
		sup_note(s, "scale", "goes on with WORKERS=%llu, as it was scaled; the job file has %llu",
			 (unsigned long long)now->workers, (unsigned long long)s->job->workers);
	else if (now->workers != s->job->workers || now->servers != s->job->servers)
		sup_note(s, "scale",
			 "goes on with %llu workers and %llu servers, as it was scaled; the job file "
			 "has %llu and %llu",
			 (unsigned long long)now->workers, (unsigned long long)now->servers,
			 (unsigned long long)s->job->workers, (unsigned long long)s->job->servers);
	if (sup_scale_rate_factor(s) != 1 && s->in_force.count == 0 && sup_lead(s))
		sup_scale_put_rates(s);
}
