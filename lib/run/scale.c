/* scale: see scale.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS 1.0
#define FAILURES_MAX 3 /* in a row, of a node that joins */
#define WAY_TRIES_MAX 3
#define CHANGE_MAX (UINT64_MAX / 2) /* a greater number in a file is none */

struct sup_scale_ask {
	struct sup_scale_ask *next;
	struct supervisor *sup;
	struct sup_sizes want; /* 0: as many as there are */
	unsigned char *hosts;  /* a byte each; NULL: as they are */
	unsigned tries;        /* to make way for other hosts */
	char reason[SCALE_REASON_MAX];
	struct request *rq; /* NULL: nobody waits */
};

/* ---- how many there may be ---- */

static int keeps_batch(const struct supervisor *s)
{
	return strcmp(s->job->batch_scaling, "none") == 0;
}

uint64_t sup_scale_workers_most(const struct supervisor *s)
{
	uint64_t most = job_workers_most(), enough = job_batch_workers(s->job);
	return keeps_batch(s) && enough < most ? enough : most;
}

static uint64_t workers_of(const struct supervisor *s)
{
	return s->scale.now.workers;
}

uint64_t sup_scale_batch(const struct supervisor *s)
{
	double factor = (double)workers_of(s) / (double)s->job->workers;
	return keeps_batch(s) ? s->job->batch
			      : (uint64_t)llround((double)s->job->batch * factor);
}

/* By which each worker's learning rate is multiplied. */
static double rate_factor(const struct supervisor *s)
{
	double factor = (double)workers_of(s) / (double)s->job->workers;
	if (keeps_batch(s))
		return 1;
	return strcmp(s->job->batch_scaling, "sqrt") == 0 ? sqrt(factor) : factor;
}

int sup_scale_refuse(struct sup_scale_refusal *why, const char *code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why->text, sizeof why->text, fmt, ap);
	va_end(ap);
	why->code = code;
	return -1;
}

static int check_workers(const struct supervisor *s, uint64_t workers, struct sup_scale_refusal *why)
{
	const struct job *job = s->job;
	uint64_t most = sup_scale_workers_most(s);
	char least[JOB_LEAST_MAX];
	if (job_is_local(job))
		return sup_scale_refuse(why, "partitions",
			      "PARTITIONS=local: each worker has a file of its own, so there are as "
			      "many as files");
	if (job_has_foreign_parameters(job))
		return sup_scale_refuse(why, "trainers",
			      "TRAINER_KIND=%s: trainers have parameters, and know how many they "
			      "are; `trainctl stop`, which saves, then the same with WORKERS=%llu: a "
			      "new trainer begins with what the first one has saved",
			      job->trainer_kind, (unsigned long long)workers);
	if (workers <= most)
		return 0;
	if (workers > job_workers_most())
		return sup_scale_refuse(why, "no-room", "a job has %llu workers at most",
			      (unsigned long long)job_workers_most());
	return sup_scale_refuse(why, "no-room",
		      "BATCH=%llu is less than %s for each of %llu workers; "
		      "BATCH=scaling:linear lets it grow with them",
		      (unsigned long long)job->batch, job_least_words(job, least),
		      (unsigned long long)workers);
}

static int check_servers(const struct supervisor *s, uint64_t servers, struct sup_scale_refusal *why)
{
	if (job_is_allreduce(s->job) || job_is_foreign(s->job))
		return sup_scale_refuse(why, "no-servers", "this job has no parameter servers: %s",
			      job_is_foreign(s->job) ? "its trainers are your own"
						     : "with SYNC=allreduce replicas have all");
	if (servers > job_servers_most())
		return sup_scale_refuse(why, "no-room", "a job has %llu servers at most",
			      (unsigned long long)job_servers_most());
	return 0;
}

static int check_hosts(const struct supervisor *s, struct sup_scale_refusal *why)
{
	if (job_is_local(s->job))
		return sup_scale_refuse(why, "partitions",
					"PARTITIONS=local: the rows of a worker are on its host");
	if (job_has_foreign_parameters(s->job))
		return sup_scale_refuse(why, "trainers",
					"TRAINER_KIND=%s: trainers have parameters; stop the job, change "
					"HOSTS, and run it again",
					s->job->trainer_kind);
	if (s->more.count > 0)
		return sup_scale_refuse(why, "more-hosts",
					"LAUNCHER=more:%llu: Slurm gives this job hosts as it needs them",
					(unsigned long long)s->job->more_hosts);
	return 0;
}

static uint64_t more_than(uint64_t want, uint64_t now)
{
	return want > now ? want - now : 0;
}

static int check_files(const struct supervisor *s, const struct sup_sizes *want,
		       struct sup_scale_refusal *why)
{
	const struct sup_sizes more = {.workers = more_than(want->workers, s->scale.now.workers),
				       .servers = more_than(want->servers, s->scale.now.servers)};
	struct error err;
	if ((more.workers == 0 && more.servers == 0) || sup_may_open_files(s, &more, &err) == 0)
		return 0;
	return sup_scale_refuse(why, "no-room", "%s: %s", err.place, err.text);
}

static int check(const struct supervisor *s, const struct sup_sizes *want,
		 const unsigned char *hosts, struct sup_scale_refusal *why)
{
	if (s->phases.goal != GOAL_DONE || s->phases.now >= PHASE_FINISHING)
		return sup_scale_refuse(why, "over", "the job ends");
	if (hosts && check_hosts(s, why) != 0)
		return -1;
	if (want->servers > 0 && check_servers(s, want->servers, why) != 0)
		return -1;
	if (want->workers > 0 && want->workers != s->scale.now.workers &&
	    check_workers(s, want->workers, why) != 0)
		return -1;
	return check_files(s, want, why);
}

/* ---- the file ---- */

static void scale_path(const struct supervisor *s, char *out)
{
	dirs_state(&s->dirs, "scale", out);
}

/* Hosts that the file names, of a job file that had the same ones. NULL: it names none. */
static unsigned char *hosts_of(struct supervisor *s, const struct record *r, const char *key)
{
	const char *names = record_get(r, key);
	uint64_t sum = 0;
	unsigned char *hosts = NULL;
	struct sup_scale_refusal why;
	if (!names || record_u64_opt(r, "job-hosts", 0, UINT64_MAX, &sum, NULL) != 0)
		return NULL;
	if (sum == sup_scale_hosts_sum(s) && sup_scale_hosts_parse(s, names, &hosts, &why) == 0)
		return hosts;
	sup_note(s, "scale", "HOSTS are others since the job was scaled to %s: they hold", names);
	return NULL;
}

static void take_hosts(struct supervisor *s, const struct record *r)
{
	unsigned char *hosts = hosts_of(s, r, "hosts");
	if (hosts)
		sup_scale_hosts_take(s, hosts, s->scale.under_way);
	free(hosts);
}

/* What was to come after the change that is under way. */
static void take_wish(struct supervisor *s, const struct record *r)
{
	unsigned char *hosts = hosts_of(s, r, "then-hosts");
	struct sup_scale_ask *ask = hosts ? calloc(1, sizeof *ask) : NULL;
	if (!ask) {
		free(hosts);
		return;
	}
	ask->sup = s;
	ask->hosts = hosts;
	record_u64_opt(r, "then-workers", 0, job_workers_most(), &ask->want.workers, NULL);
	record_u64_opt(r, "then-servers", 0, job_servers_most(), &ask->want.servers, NULL);
	snprintf(ask->reason, sizeof ask->reason, "asked for");
	s->scale.first = s->scale.wish = ask;
}

static int take(struct supervisor *s, const struct record *r, struct error *err)
{
	struct sup_scale *c = &s->scale;
	uint64_t workers, servers;
	const char *reason = record_get(r, "reason");
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
	c->servers.ever = ever != 0;
	if (c->under_way && !moved && c->now.servers != c->from.servers)
		c->servers.step = SCALE_LOOK;
	snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
	take_hosts(s, r);
	if (workers == s->job->workers && servers == s->job->servers) {
		take_wish(s, r);
		return 0;
	}
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

/* BATCH scaling may be another than when it was scaled. */
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

int sup_scale_read(struct supervisor *s, struct error *err)
{
	char path[DIRS_PATH_MAX], why[256], *text;
	struct record r;
	s->scale.now = s->scale.from = (struct sup_sizes){s->job->workers, s->job->servers};
	scale_path(s, path);
	if (fs_read_file(path, RECORD_LINE_MAX, &text, NULL, err) != 0)
		return err->code == ERROR_NOINPUT ? 0 : -1;
	s->scale.is_kept = 1;
	int result = record_first(&r, text, strlen(text), err);
	if (result == 0)
		result = take(s, &r, err);
	free(text);
	if (result == 0) {
		fit_batch(s);
		return 0;
	}
	snprintf(why, sizeof why, "%.200s", err->text);
	return error_set(err, err->code, path,
			 "%s; without this file the job goes on from its last checkpoint, with WORKERS "
			 "and SERVERS of the job file",
			 why);
}

static void add_hosts(const struct supervisor *s, struct record_out *o,
		      const unsigned char *hosts)
{
	char text[SCALE_HOSTS_MAX];
	const struct sup_scale_ask *wish = s->scale.wish;
	sup_scale_hosts_text(s, hosts, text);
	if (text[0] || wish)
		record_add_u64(o, "job-hosts", sup_scale_hosts_sum(s));
	if (text[0])
		record_add(o, "hosts", text);
	if (!wish)
		return;
	sup_scale_hosts_text(s, wish->hosts, text);
	record_add(o, "then-hosts", text);
	record_add_u64(o, "then-workers", wish->want.workers);
	record_add_u64(o, "then-servers", wish->want.servers);
}

/* moved: servers are as wanted. hosts: NULL: as they are. */
static int keep(struct supervisor *s, const struct sup_sizes *now, const struct sup_sizes *from,
		int moved, const unsigned char *hosts, const char *reason)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "scale");
	record_add_u64(&o, "job-workers", s->job->workers);
	record_add_u64(&o, "job-servers", s->job->servers);
	record_add_u64(&o, "workers", now->workers);
	record_add_u64(&o, "servers", now->servers);
	if (from) {
		record_add_u64(&o, "from-workers", from->workers);
		record_add_u64(&o, "from-servers", from->servers);
		record_add_u64(&o, "moved", moved != 0);
	}
	record_add_u64(&o, "maps", s->scale.servers.ever || (from && from->servers != now->servers));
	record_add_u64(&o, "rebalances", s->rebalance.done);
	record_add_u64(&o, "change", s->scale.change);
	add_hosts(s, &o, hosts);
	record_add(&o, "reason", reason);
	return sup_keep(s, KEPT_SCALE, line, record_end(&o, NULL));
}

int sup_scale_keep(struct supervisor *s, int under_way)
{
	return keep(s, &s->scale.now, under_way ? &s->scale.from : NULL,
		    s->scale.servers.step == SCALE_OVER, NULL, s->scale.reason);
}

/* ---- those who ask ---- */

static void forget(struct sup_scale_ask *ask)
{
	struct supervisor *s = ask->sup;
	for (struct sup_scale_ask **p = &s->scale.first; *p; p = &(*p)->next)
		if (*p == ask) {
			*p = ask->next;
			break;
		}
	if (s->scale.asked == ask)
		s->scale.asked = NULL;
	if (s->scale.wish == ask)
		s->scale.wish = NULL;
	free(ask->hosts);
	free(ask);
}

/* Who asked has gone: what was asked for is done all the same. */
static void cancelled(struct request *rq, void *arg)
{
	struct sup_scale_ask *ask = arg;
	(void)rq;
	ask->rq = NULL;
}

static void log_refused(struct supervisor *s, const struct sup_sizes *want,
			const unsigned char *hosts, const char *reason,
			const struct sup_scale_refusal *why)
{
	char text[SCALE_HOSTS_MAX];
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "scale-refused");
	if (want->workers > 0)
		record_add_u64(&o, "workers", want->workers);
	if (want->servers > 0)
		record_add_u64(&o, "servers", want->servers);
	if (hosts) {
		sup_scale_hosts_text(s, hosts, text);
		record_add(&o, "hosts", text);
	}
	record_add(&o, "code", why->code);
	record_add(&o, "reason", reason);
	sup_log(s, &o);
}

int sup_scale_want(struct supervisor *s, uint64_t workers, uint64_t servers, const char *reason,
		   struct request *rq)
{
	return sup_scale_want_hosts(s, workers, servers, NULL, reason, rq);
}

int sup_scale_want_hosts(struct supervisor *s, uint64_t workers, uint64_t servers, const char *names,
			 const char *reason, struct request *rq)
{
	struct sup_sizes want = {workers, servers};
	struct sup_scale_refusal why;
	unsigned char *hosts = NULL;
	struct sup_scale_ask **end = &s->scale.first;
	if ((names && sup_scale_hosts_parse(s, names, &hosts, &why) != 0) ||
	    check(s, &want, hosts, &why) != 0) {
		log_refused(s, &want, hosts, reason, &why);
		free(hosts);
		if (rq)
			request_err(rq, why.code, "%s", why.text);
		return -1;
	}
	struct sup_scale_ask *ask = calloc(1, sizeof *ask);
	if (!ask) {
		free(hosts);
		if (rq)
			request_err(rq, "no-memory", "out of memory");
		return -1;
	}
	*ask = (struct sup_scale_ask){.sup = s, .want = want, .hosts = hosts, .rq = rq};
	snprintf(ask->reason, sizeof ask->reason, "%s", reason);
	while (*end)
		end = &(*end)->next;
	*end = ask;
	if (rq)
		request_defer(rq, cancelled, ask);
	sup_kick(s);
	return 0;
}

uint64_t sup_scale_servers_wanted(const struct supervisor *s)
{
	uint64_t most = 0;
	for (const struct sup_scale_ask *ask = s->scale.first; ask; ask = ask->next)
		if (ask->want.servers > most)
			most = ask->want.servers;
	return most;
}

void sup_scale_over(struct supervisor *s)
{
	while (s->scale.first) {
		struct sup_scale_ask *ask = s->scale.first;
		struct request *rq = ask->rq;
		forget(ask);
		if (rq)
			request_err(rq, "over", "the job has ended");
	}
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

static void leave(struct sup_node *n)
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
		if (n->number >= s->scale.now.workers)
			leave(n);
	EACH_OF (n, s, &role_server)
		n->leaving = n->number >= s->scale.now.servers;
}

/* Joiners are those that there were not before. */
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

/* It is there, or it is not to be waited for: its host comes later, or there is nothing left for it.
 * One that fails is tried again, or the change is given up. */
static int has_joined(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	return n->stage == STAGE_READY || sup_host_is_awaited(n) ||
	       s->progress.all_done || !sup_trainer_is_needed(n) ||
	       clock_mono() - s->scale.began >= deadline_seconds(DEADLINE_SCALE);
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
	sup_force_drop(n->sup, n->id);
	sup_roster_leave(n);
	n->number = n->made_number; /* should it come back */
}

/* 1: some are still there. */
static int let_go(struct supervisor *s)
{
	int there = 0;
	for (struct sup_node *n = sup_first(s, sup_trainers(s)), *next; n; n = next) {
		next = sup_next_of(n);
		if (!n->leaving)
			continue;
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

/* Somebody waits for so few workers that it goes in any case. */
static int is_to_leave(const struct sup_node *n)
{
	const struct sup_scale *c = &n->sup->scale;
	for (const struct sup_scale_ask *ask = c->first; ask; ask = ask->next)
		if (ask != c->asked && ask->want.workers > 0 && ask->want.workers <= n->number)
			return 1;
	return 0;
}

/* A worker of an earlier change, for which nobody waited to the end: the job goes on with those
 * before it. */
static int gives_up_late(struct sup_node *n, const char *why)
{
	struct supervisor *s = n->sup;
	char reason[SCALE_REASON_MAX];
	snprintf(reason, sizeof reason, "%s does not start: %.100s", n->id, why);
	if (!is_to_leave(n) && sup_scale_want(s, n->number, 0, reason, NULL) != 0)
		return 0;
	sup_note(s, "warning", "%s: %s; it is not tried again; `trainctl logs %s` says more", n->id,
		 why, n->id);
	leave(n);
	return 1;
}

int sup_scale_gives_up(struct sup_node *n, const char *why)
{
	struct supervisor *s = n->sup;
	if (!n->joining)
		return 0;
	if (n->role != &role_server &&
	    (!s->scale.under_way || n->number < s->scale.from.workers))
		return gives_up_late(n, why);
	if (!s->scale.under_way)
		return 0;
	snprintf(s->scale.why, sizeof s->scale.why, "%s: %s", n->id, why);
	sup_note(s, "warning", "not scaled: %s; `trainctl logs %s` says more", s->scale.why, n->id);
	if (n->role == &role_server) { /* it may have a part by now: the lead knows */
		sup_scale_servers_fail(s);
		return 1;
	}
	s->scale.now.workers = s->scale.from.workers;
	mark_leaving(s); /* also those that are up already */
	return 1;
}

/* ---- shares ---- */

static void set_size(struct supervisor *s, struct sup_actions *list, const struct sup_node *n,
		     uint64_t samples)
{
	const struct action *a = sup_force_find(s, ACTION_ADJUST_BS, n->id);
	uint64_t accum = a && a->accum * s->job->options.least <= samples ? a->accum : 1;
	struct action set = {.kind = ACTION_ADJUST_BS, .size = samples / accum, .accum = accum};
	snprintf(set.id, sizeof set.id, "%s", n->id);
	snprintf(set.reason, sizeof set.reason, "scaled");
	sup_actions_add(list, &set, 0, NULL);
}

static double weight(const struct supervisor *s, const struct sup_node *n)
{
	const struct action *a =
		n->joining_share ? NULL : sup_force_find(s, ACTION_ADJUST_BS, n->id);
	return a ? (double)(a->size * a->accum) : NAN;
}

/* As they were to each other, where somebody had decided on that; new ones get the mean. */
static void add_sizes(struct supervisor *s, struct sup_actions *list)
{
	double known = 0, mean = 1, sum = 0, at = 0;
	size_t count = 0;
	EACH_OF (n, s, sup_trainers(s)) {
		double w = weight(s, n);
		known += isnan(w) ? 0 : w;
		count += isnan(w) ? 0 : 1;
	}
	if (count > 0)
		mean = known / (double)count;
	sum = known + mean * (double)(sup_count(s, sup_trainers(s)) - count);
	double batch = (double)sup_scale_batch(s), least = (double)s->job->options.least;
	EACH_OF (n, s, sup_trainers(s)) {
		double w = weight(s, n), before = floor(at / sum * batch + 0.5);
		at += isnan(w) ? mean : w;
		double size = floor(at / sum * batch + 0.5) - before;
		set_size(s, list, n, (uint64_t)fmax(size, least));
	}
}

static void add_rates(struct supervisor *s, struct sup_actions *list)
{
	EACH_OF (n, s, sup_trainers(s)) {
		struct action set = {.kind = ACTION_ADJUST_LR, .scale = rate_factor(s)};
		snprintf(set.id, sizeof set.id, "%s", n->id);
		snprintf(set.reason, sizeof set.reason, "scaled");
		sup_actions_add(list, &set, 0, NULL);
	}
}

/* At least one is waited for at each barrier. */
static void add_backup(struct supervisor *s, struct sup_actions *list)
{
	const struct action *a = sup_force_find(s, ACTION_BACKUP_WORKERS, "");
	if (!a || a->count < s->scale.now.workers)
		return;
	struct action set = {.kind = ACTION_BACKUP_WORKERS, .count = s->scale.now.workers - 1};
	snprintf(set.reason, sizeof set.reason, "scaled");
	sup_actions_add(list, &set, 0, NULL);
}

/* Where somebody sets sizes at every barrier he knows who is there. */
static void share(struct supervisor *s)
{
	struct sup_actions list = {0};
	struct error err;
	if (!sup_lead(s))
		return;
	add_backup(s, &list);
	if (!job_balance(s->job))
		add_sizes(s, &list);
	if (!keeps_batch(s))
		add_rates(s, &list);
	EACH_OF (n, s, sup_trainers(s))
		n->joining_share = 0;
	if (list.count > 0 && sup_actions_carry(s, &list, "scale", NULL, &err) < 0)
		sup_note(s, "warning", "workers are not told their shares: %s", err.text);
	sup_actions_free(&list);
}

/* ---- a change ---- */

/* number: the change's; 0: it has none, and the record no change=. */
static void add_change(const struct supervisor *s, struct record_out *o, uint64_t number)
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
	char line[RECORD_LINE_MAX];
	struct record_out o;
	const struct sup_sizes *from = &s->scale.from, *now = &s->scale.now;
	if (from->workers != now->workers)
		log_say(LOG_LEVEL_INFO, "from %llu to %llu workers: %s",
			(unsigned long long)from->workers, (unsigned long long)now->workers,
			reason);
	if (from->servers != now->servers)
		log_say(LOG_LEVEL_INFO, "from %llu to %llu servers: %s",
			(unsigned long long)from->servers, (unsigned long long)now->servers,
			reason);
	record_begin(&o, line, sizeof line, "scale");
	add_change(s, &o, number);
	record_add(&o, "reason", reason);
	sup_log(s, &o);
}

static void answer_ok(struct supervisor *s, struct request *rq, double seconds)
{
	char text[SCALE_HOSTS_MAX];
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint64_t joining = 0;
	EACH_OF (n, s, sup_trainers(s))
		joining += n->joining != 0;
	record_begin(&o, line, sizeof line, "ok");
	record_add_u64(&o, "workers", s->scale.now.workers);
	record_add_u64(&o, "servers", s->scale.now.servers);
	sup_scale_hosts_text(s, NULL, text);
	if (text[0])
		record_add(&o, "hosts", text);
	if (joining > 0)
		record_add_u64(&o, "joining", joining);
	record_add_seconds(&o, "seconds", seconds);
	if (seconds > 0 && s->scale.servers.bytes > 0) {
		record_add_u64(&o, "moved-bytes", s->scale.servers.bytes);
		record_add_seconds(&o, "stall", s->scale.servers.stall);
	}
	request_ok_record(rq, &o);
}

static void log_done(struct supervisor *s, uint64_t number, double seconds, const char *reason)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "scaled");
	add_change(s, &o, number);
	record_add_u64(&o, "batch", sup_scale_batch(s));
	record_add_real(&o, "lr-factor", rate_factor(s));
	record_add_seconds(&o, "seconds", seconds);
	if (s->scale.servers.bytes > 0)
		record_add_u64(&o, "moved-bytes", s->scale.servers.bytes);
	if (s->scale.servers.bytes > 0)
		record_add_seconds(&o, "stall", s->scale.servers.stall);
	record_add(&o, "reason", reason);
	if (s->scale.why[0])
		record_add(&o, "failed", s->scale.why);
	sup_log(s, &o);
}

/* Once for each way in which it may end, however often the file can't be written after it. */
static void log_end(struct supervisor *s)
{
	enum scale_logged end = s->scale.why[0] ? SCALE_LOGGED_FAILED : SCALE_LOGGED;
	if (s->scale.logged == end)
		return;
	log_done(s, s->scale.change, clock_mono() - s->scale.began, s->scale.reason);
	s->scale.logged = end;
}

static void done(struct supervisor *s)
{
	struct sup_scale_ask *ask = s->scale.asked;
	struct request *rq = ask ? ask->rq : NULL;
	double seconds = clock_mono() - s->scale.began;
	if (!s->scale.why[0])
		s->scale.carried++;
	if (rq && s->scale.why[0])
		request_err(rq, "not-scaled", "%s", s->scale.why);
	else if (rq)
		answer_ok(s, rq, seconds);
	if (ask)
		forget(ask);
	if (s->scale.now.servers != s->scale.from.servers)
		sup_rebalance_soon(s);
	sup_scale_hosts_end(s);
	s->scale.under_way = s->scale.shared = 0;
	s->scale.from = s->scale.now;
}

static void fail(struct supervisor *s, const char *text)
{
	sup_fail(s, ERROR_OS, "nodes can't be added: %s", text);
}

int sup_scale_add_servers(struct supervisor *s)
{
	struct error err;
	while (sup_count(s, &role_server) < s->scale.now.servers)
		if (!sup_roster_add(s, &role_server, &err)) {
			fail(s, err.text);
			return -1;
		}
	return 0;
}

/* Their turn comes later, and finds it done. */
int sup_scale_take_servers(struct supervisor *s)
{
	const struct sup_scale_ask *last = NULL;
	struct sup_scale_refusal why;
	for (const struct sup_scale_ask *ask = s->scale.first; ask; ask = ask->next)
		if (ask != s->scale.asked && ask->want.servers > 0 &&
		    check(s, &ask->want, ask->hosts, &why) == 0)
			last = ask;
	if (!last || last->want.servers == s->scale.now.servers)
		return 0;
	struct sup_sizes from = s->scale.from;
	s->scale.from = s->scale.now;
	s->scale.now.servers = last->want.servers;
	s->scale.servers.ever = 1;
	s->scale.servers.bytes = 0;
	log_begun(s, 0, last->reason);
	log_done(s, 0, 0, last->reason);
	s->scale.from = s->scale.under_way ? from : s->scale.now;
	return 1;
}

static void start(struct supervisor *s)
{
	struct error err;
	s->scale.began = clock_mono();
	s->scale.changes++;
	mark_leaving(s);
	if (add_joining(s, sup_trainers(s), s->scale.now.workers, &err) != 0 ||
	    (s->scale.now.servers != s->scale.from.servers &&
	     add_joining(s, &role_server, s->scale.now.servers, &err) != 0)) {
		fail(s, err.text);
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
	int has_begun, is_done; /* the one that the file names; is_done: and did not fail */
};

static void look_at(const struct record *r, uint64_t number, struct log_seen *seen)
{
	int begins = record_is(r, "scale"), ends = record_is(r, "scaled");
	uint64_t n = 0;
	if ((!begins && !ends) || record_u64_opt(r, "change", 1, CHANGE_MAX, &n, NULL) != 0)
		return;
	seen->last = n > seen->last ? n : seen->last;
	seen->has_begun |= begins && n == number;
	seen->is_done |= ends && n == number && !record_get(r, "failed");
}

/* A log that is not there, or can't be read, has nothing; lines that are no records are passed over. */
static void look_into(const char *path, uint64_t number, struct log_seen *seen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), got;
	struct record_reader *in = fd >= 0 ? record_reader_new(fd, path) : NULL;
	struct record r;
	struct error err;
	if (in)
		record_reader_of_log(in);
	while (in && (got = record_read(in, &r, &err)) != RECORD_END) {
		if (got == RECORD_ONE)
			look_at(&r, number, seen);
		else if (got < 0 && err.code != ERROR_DATA)
			break;
	}
	record_reader_free(in);
	if (fd >= 0)
		close(fd);
}

static struct log_seen look_at_logs(const struct supervisor *s)
{
	char path[DIRS_PATH_MAX];
	struct log_seen seen = {0};
	dirs_state(&s->dirs, "job.log.1", path);
	look_into(path, s->scale.change, &seen);
	look_into(s->log.path, s->scale.change, &seen);
	return seen;
}

/* What is wanted, before anything is done. The file may have been removed, and the log not. */
static int keep_begin(struct supervisor *s, const struct sup_sizes *now, const unsigned char *hosts,
		      const char *reason)
{
	uint64_t before = s->scale.change;
	s->scale.change = 1 + (before > 0 ? before : look_at_logs(s).last);
	if (keep(s, now, &s->scale.now, 0, hosts, reason) == 0)
		return 0;
	s->scale.change = before;
	s->scale.is_ahead = 1; /* it is being written */
	return -1;
}

/* ask: NULL: it makes way for what is asked for next. */
static void begin(struct supervisor *s, struct sup_scale_ask *ask, const struct sup_sizes *now,
		  const unsigned char *hosts, const char *reason)
{
	s->scale.from = s->scale.now;
	s->scale.now = *now;
	s->scale.asked = ask;
	s->scale.under_way = 1;
	s->scale.is_ahead = 0;
	s->scale.logged = SCALE_NOT_LOGGED;
	s->scale.why[0] = '\0';
	snprintf(s->scale.reason, sizeof s->scale.reason, "%s", reason);
	if (hosts)
		sup_scale_hosts_begin(s, hosts);
	log_begun(s, s->scale.change, s->scale.reason);
	start(s);
}

static void refuse_next(struct supervisor *s, struct sup_scale_ask *ask,
			const struct sup_scale_refusal *why)
{
	struct request *rq = ask->rq;
	int in_file = s->scale.wish == ask;
	sup_scale_hosts_forget(s); /* the next one asks again */
	log_refused(s, &ask->want, ask->hosts, ask->reason, why);
	forget(ask);
	if (in_file)
		sup_scale_keep(s, 0);
	if (rq)
		request_err(rq, why->code, "%s", why->text);
}

/* Servers that are to be on another host give what they have to those before them. 0: none are. */
static int make_way(struct supervisor *s, struct sup_scale_ask *ask)
{
	struct sup_sizes now = s->scale.now;
	struct sup_scale_refusal why;
	if (!sup_first(s, &role_server))
		return 0;
	uint64_t stay = sup_scale_hosts_stay(s, ask->hosts);
	if (ask->want.servers > 0 && ask->want.servers < stay)
		stay = ask->want.servers;
	if (stay >= now.servers)
		return 0;
	if (ask->tries == WAY_TRIES_MAX) {
		sup_scale_refuse(&why, "not-scaled", "servers do not leave their hosts: %.400s",
				 s->scale.why[0] ? s->scale.why : "all went back meanwhile");
		refuse_next(s, ask, &why);
		return 1;
	}
	if (ask->want.servers == 0)
		ask->want.servers = now.servers;
	now.servers = stay;
	s->scale.wish = ask;
	if (keep_begin(s, &now, NULL, ask->reason) != 0)
		s->scale.wish = NULL;
	else {
		ask->tries++;
		begin(s, NULL, &now, NULL, ask->reason);
		sup_scale_hosts_forget(s); /* it takes its time */
	}
	return 1;
}

/* 1: it was answered, and the next one may begin. */
static int next(struct supervisor *s)
{
	struct sup_scale_ask *ask = s->scale.first;
	struct sup_scale_refusal why;
	struct sup_sizes now = s->scale.now;
	struct request *rq = ask->rq;
	int asked = check(s, &ask->want, ask->hosts, &why);
	int others = asked == 0 && ask->hosts && sup_scale_hosts_differ(s, ask->hosts);
	if (others)
		asked = sup_scale_hosts_ask(s, ask->hosts, &why);
	if (asked != 0) {
		if (asked < 0)
			refuse_next(s, ask, &why);
		return asked < 0;
	}
	now.workers = ask->want.workers > 0 ? ask->want.workers : now.workers;
	now.servers = ask->want.servers > 0 ? ask->want.servers : now.servers;
	if (now.workers == s->scale.now.workers && now.servers == s->scale.now.servers && !others) {
		forget(ask);
		if (rq)
			answer_ok(s, rq, 0);
		return 1;
	}
	if (!sup_turn_may_begin(s, TURN_SCALE))
		return 0;
	if (others && make_way(s, ask))
		return !s->scale.under_way && s->scale.first != ask;
	struct sup_scale_ask *wish = s->scale.wish;
	s->scale.wish = NULL;
	if (keep_begin(s, &now, others ? ask->hosts : NULL, ask->reason) == 0)
		begin(s, ask, &now, others ? ask->hosts : NULL, ask->reason);
	else
		s->scale.wish = wish;
	return 0;
}

/* A step further with what is under way. */
static void go_on(struct supervisor *s)
{
	int there = let_go(s), awaited = wait_for_joiners(s), hosts = sup_scale_hosts_step(s);
	if (there || awaited || hosts)
		return;
	if (!s->scale.shared && s->scale.now.workers != s->scale.from.workers)
		share(s);
	s->scale.shared = 1;
	if (sup_scale_servers_step(s))
		return;
	log_end(s); /* before the file: who comes after us looks there only while it is under way */
	if (sup_scale_keep(s, 0) != 0)
		return;
	done(s);
	sup_kick(s);
}

void sup_scale_step(struct supervisor *s)
{
	wait_for_joiners(s); /* of an earlier change, too */
	if (s->scale.under_way)
		go_on(s);
	else if (s->scale.hosts.under_way && !sup_scale_hosts_step(s))
		sup_scale_hosts_end(s); /* of a supervisor before us; the rest is as in the job file */
	while (!s->scale.under_way && s->scale.first && next(s))
		;
	if (s->scale.is_ahead && !s->scale.under_way && !s->scale.first) {
		s->scale.is_ahead = 0; /* it was refused meanwhile */
		sup_scale_keep(s, 0);
	}
}

void sup_scale_free(struct supervisor *s)
{
	while (s->scale.first)
		forget(s->scale.first);
	sup_scale_hosts_end(s);
}

uint64_t sup_scale_workers(const struct supervisor *s)
{
	const struct sup_scale *c = &s->scale;
	return c->from.workers > c->now.workers ? c->from.workers : c->now.workers;
}

uint64_t sup_scale_servers(const struct supervisor *s)
{
	const struct sup_scale *c = &s->scale;
	return c->from.servers > c->now.servers ? c->from.servers : c->now.servers;
}

/* Lines for a lead that knows nothing yet. Nothing ran, so nothing is in force. */
static void put_rates(struct supervisor *s)
{
	struct sup_actions list = {0};
	char line[RECORD_LINE_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	add_rates(s, &list);
	for (size_t i = 0; out && i < list.count; i++) {
		action_format(&list.item[i], line, sizeof line);
		fputs(line, out);
	}
	if (out && fclose(out) == 0)
		sup_force_take(s, text);
	free(text);
	sup_actions_free(&list);
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

/* Who was killed may have written it down already: each change is in the log once. */
static void log_goes_on(struct supervisor *s)
{
	if (!s->scale.under_way || s->scale.change == 0)
		return;
	struct log_seen seen = look_at_logs(s);
	s->scale.logged = seen.is_done ? SCALE_LOGGED : SCALE_NOT_LOGGED;
	if (!seen.has_begun)
		log_begun(s, s->scale.change, s->scale.reason);
}

void sup_scale_begin(struct supervisor *s)
{
	const struct sup_sizes *now = &s->scale.now;
	int without_servers = job_is_allreduce(s->job) || job_is_foreign(s->job);
	log_goes_on(s);
	if (without_servers && now->workers != s->job->workers)
		sup_note(s, "scale", "goes on with WORKERS=%llu, as it was scaled; the job file has %llu",
			 (unsigned long long)now->workers, (unsigned long long)s->job->workers);
	else if (now->workers != s->job->workers || now->servers != s->job->servers)
		sup_note(s, "scale",
			 "goes on with %llu workers and %llu servers, as it was scaled; the job file "
			 "has %llu and %llu",
			 (unsigned long long)now->workers, (unsigned long long)now->servers,
			 (unsigned long long)s->job->workers, (unsigned long long)s->job->servers);
	if (rate_factor(s) != 1 && s->force.count == 0 && sup_lead(s))
		put_rates(s);
}
