/* scale_wish: the queue of those who want the job to be scaled, what they may want, and which
 * change comes next; see scale.h. */
#include "run/sup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what may be wished ---- */

int sup_scale_refuse(struct sup_scale_refusal *why, const char *code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why->text, sizeof why->text, fmt, ap);
	va_end(ap);
	why->code = code;
	return -1;
}

static int check_workers(const struct supervisor *s, uint64_t workers,
			 struct sup_scale_refusal *why)
{
	const struct job *job = s->job;
	uint64_t most = sup_scale_workers_most(s);
	char least[JOB_LEAST_MAX];
	if (job_is_local(job))
		return sup_scale_refuse(
			why, "partitions",
			"PARTITIONS=local: each worker has a file of its own, so there are as "
			"many as files");
	if (job_kind(job)->workers_stay)
		return sup_scale_refuse(why, "trainers", job_kind(job)->workers_stay,
					(unsigned long long)workers);
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

static int check_servers(const struct supervisor *s, uint64_t servers,
			 struct sup_scale_refusal *why)
{
	if (job_kind(s->job)->servers_stay)
		return sup_scale_refuse(why, "no-servers", "this job has no parameter servers: %s",
					job_kind(s->job)->servers_stay);
	if (servers > job_servers_most())
		return sup_scale_refuse(why, "no-room", "a job has %llu servers at most",
					(unsigned long long)job_servers_most());
	return 0;
}

static int scale_wish_check_hosts(const struct supervisor *s, struct sup_scale_refusal *why)
{
	if (job_is_local(s->job))
		return sup_scale_refuse(why, "partitions",
					"PARTITIONS=local: the rows of a worker are on its host");
	if (job_kind(s->job)->hosts_stay)
		return sup_scale_refuse(why, "trainers", "%s", job_kind(s->job)->hosts_stay);
	if (s->more.count > 0)
		return sup_scale_refuse(
			why, "more-hosts",
			"LAUNCHER=more:%llu: Slurm gives this job hosts as it needs them",
			(unsigned long long)s->job->more_hosts);
	return 0;
}

static uint64_t scale_wish_more_than(uint64_t want, uint64_t now)
{
	return want > now ? want - now : 0;
}

static int check_files(const struct supervisor *s, const struct sup_sizes *want,
		       struct sup_scale_refusal *why)
{
	const struct sup_sizes more = {
		.workers = scale_wish_more_than(want->workers, s->scale.now.workers),
		.servers = scale_wish_more_than(want->servers, s->scale.now.servers)};
	struct error err;
	if ((more.workers == 0 && more.servers == 0) || sup_may_open_files(s, &more, &err) == 0)
		return 0;
	return sup_scale_refuse(why, "no-room", "%s: %s", err.place, err.text);
}

int sup_scale_check(const struct supervisor *s, const struct sup_wish *w,
		    struct sup_scale_refusal *why)
{
	const struct sup_sizes *want = &w->want;
	if (s->phases.goal != GOAL_DONE || s->phases.now >= PHASE_FINISHING)
		return sup_scale_refuse(why, "over", "the job ends");
	if (w->hosts && scale_wish_check_hosts(s, why) != 0)
		return -1;
	if (want->servers > 0 && check_servers(s, want->servers, why) != 0)
		return -1;
	if (want->workers > 0 && want->workers != s->scale.now.workers &&
	    check_workers(s, want->workers, why) != 0)
		return -1;
	return check_files(s, want, why);
}

/* ---- the queue ---- */

struct sup_wish *sup_wish_add(struct supervisor *s, const struct sup_sizes *want,
			      const char *reason)
{
	struct sup_wish **end = &s->scale.wishes, *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	*w = (struct sup_wish){.sup = s, .want = *want};
	snprintf(w->reason, sizeof w->reason, "%s", reason);
	while (*end)
		end = &(*end)->next;
	return *end = w;
}

struct request *sup_wish_drop(struct sup_wish *w)
{
	struct supervisor *s = w->sup;
	struct request *rq = w->rq;
	struct sup_wish **at = &s->scale.wishes;
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (s->scale.carried == w)
		s->scale.carried = NULL;
	free(w->hosts);
	free(w);
	return rq;
}

void sup_wish_refuse(struct sup_wish *w, const struct sup_scale_refusal *why)
{
	struct supervisor *s = w->sup;
	char hosts[SCALE_HOSTS_MAX];
	if (w->hosts)
		sup_scale_hosts_text(s, w->hosts, hosts);
	sup_log(s, RECORD("scale-refused",
			  w->want.workers > 0 ? F("workers", w->want.workers) : F_NONE,
			  w->want.servers > 0 ? F("servers", w->want.servers) : F_NONE,
			  w->hosts ? F("hosts", hosts) : F_NONE, F("code", why->code),
			  F("reason", w->reason)));
	struct request *rq = sup_wish_drop(w);
	if (rq)
		request_err(rq, why->code, "%s", why->text);
}

/* The client that asked has gone: what it asked for is done all the same. */
static void scale_wish_cancelled(struct request *rq, void *arg)
{
	struct sup_wish *w = arg;
	(void)rq;
	w->rq = NULL;
}

int sup_scale_want(struct supervisor *s, uint64_t workers, uint64_t servers, const char *reason,
		   struct request *rq)
{
	return sup_scale_want_hosts(s, workers, servers, NULL, reason, rq) ? 0 : -1;
}

struct sup_wish *sup_scale_want_hosts(struct supervisor *s, uint64_t workers, uint64_t servers,
				      const char *names, const char *reason, struct request *rq)
{
	struct sup_scale_refusal why;
	struct sup_wish *w = sup_wish_add(s, &(struct sup_sizes){workers, servers}, reason);
	if (!w) {
		if (rq)
			request_err(rq, "no-memory", "out of memory");
		return NULL;
	}
	w->rq = rq;
	if ((names && sup_scale_hosts_parse(s, names, &w->hosts, &why) != 0) ||
	    sup_scale_check(s, w, &why) != 0) {
		sup_wish_refuse(w, &why);
		return NULL;
	}
	if (rq)
		request_defer(rq, scale_wish_cancelled, w);
	sup_kick(s);
	return w;
}

uint64_t sup_scale_servers_wanted(const struct supervisor *s)
{
	uint64_t most = 0;
	for (const struct sup_wish *w = s->scale.wishes; w; w = w->next)
		if (w->want.servers > most)
			most = w->want.servers;
	return most;
}

void sup_scale_over(struct supervisor *s)
{
	while (s->scale.wishes) {
		struct request *rq = sup_wish_drop(s->scale.wishes);
		if (rq)
			request_err(rq, "over", "the job has ended");
	}
}
