/* saves: see saves.h. */
#include "run/saves.h"

#include <math.h>

#define OFF 1.5  /* what rates say of a sum is wrong by that at most; else it waits for others */
#define OWN 0.75 /* of a fair part of the servers' links: with less a host's own limits it */
#define CREW 0.5 /* of what workers' hosts send or receive: then they sum for each other */
#define STEPS 50

struct hub {
	struct saves_host all; /* of workers elsewhere; busy: of the servers' links the busiest */
	double far, groups;    /* hosts of these; groups that would be left of their pushes */
};

static double saves_rate(const struct saves_way *way)
{
	return way->busy > 0 ? way->bytes / way->busy : 0;
}

static struct hub saves_hub(const struct saves_host *host, size_t hosts)
{
	struct saves_host all = {0};
	double fast = 0, takes = 0, far = 0;
	for (size_t i = 0; i < hosts; i++) {
		const struct saves_host *h = &host[i];
		if (h->servers > 0) {
			all.out.busy = fmax(all.out.busy, h->in.busy);
			all.in.busy = fmax(all.in.busy, h->out.busy);
			takes = fmax(takes, saves_rate(&h->in));
			continue;
		}
		all.workers += h->workers;
		all.batches += h->batches;
		all.added += h->added;
		all.out.bytes += h->out.bytes;
		all.in.bytes += h->in.bytes;
		fast = fmax(fast, fmax(saves_rate(&h->out), saves_rate(&h->in)));
		far += h->workers > 0;
	}
	return (struct hub){all, far, takes < CREW * fast ? 2 : fmax(2, far)};
}

/* Whether a host's own link limits it, and not that of the servers. */
static int saves_is_own(const struct saves_way *own, const struct saves_way *hub, double far)
{
	return own->busy > 0 && !(hub->busy > 0 && saves_rate(own) >= OWN * saves_rate(hub) / far);
}

/* Seconds of a batch of this host with the other FABRIC, if it takes `now`. */
static double saves_batch(const struct saves_job *job, const struct saves_host *h,
			  const struct hub *hub, double now)
{
	int is_own = saves_is_own(&h->out, &hub->all.out, hub->far);
	const struct saves_host *c = is_own ? h : &hub->all;
	const struct saves_host *from =
		saves_is_own(&h->in, &hub->all.in, hub->far) ? h : &hub->all;
	double each = fmin(c->out.busy, job->seconds) / c->batches, n = (double)c->workers;
	double alone = job->is_saved ? each * (1 + c->added / c->out.bytes) : each;
	double least = fmax(now - h->comm / h->batches, 0) + alone + from->in.busy / from->batches;
	double left = fmin(n, is_own ? 2 : hub->groups), then = now;
	double dense = fmin(1, job->dense * c->batches / c->out.bytes);
	double fewer = job->is_saved ? n * (alone - each) : (n - left) * each * dense;
	if (!job->is_saved)
		return now - fmin(1, n * each / now) * fmin(fmax(now - least, 0), fewer);
	for (int i = 0; i < STEPS; i++)
		then = now + fmin(1, n * alone / then) * fmin(fmax(then - least, 0), fewer);
	return then;
}

double saves_servers(const struct saves_job *job, const struct saves_host *host, size_t hosts)
{
	const struct hub hub = saves_hub(host, hosts);
	double span = 0, all = 0, other = 0;
	for (size_t i = 0; i < hosts; i++) {
		const struct saves_host *h = &host[i];
		double now = h->time / h->batches, then = now;
		if (!(h->batches > 0) || !(now > 0)) /* NAN, too */
			continue;
		if (h->servers == 0 && h->comm > 0 && h->out.bytes > 0 && hub.all.batches > 0)
			then = saves_batch(job, h, &hub, now);
		span = fmax(span, h->time / (double)h->workers);
		all += h->batches;
		other += h->batches * now / then;
	}
	return other > 0 ? fmin(span, job->seconds) * fabs(1 - all / other) : 0;
}

double saves_sums(const struct saves_job *job, const struct saves_host *host, size_t hosts)
{
	double wait = INFINITY, lasted = 0, ring = job->ring, shares = job->shares;
	for (size_t i = 0; i < hosts; i++) {
		double each = host[i].wait / host[i].batches * job->sums;
		if (!(each >= 0 && each < wait)) /* NAN, too */
			continue;
		wait = each;
		lasted = host[i].time / host[i].batches * job->sums;
	}
	if (isinf(wait))
		return 0;
	double behind = job->is_behind ? lasted - wait : 0;
	if (!job->is_saved)
		return fmin(wait, fmax(0, fmin(fmax(wait + behind, ring), OFF * ring) - shares));
	/* A batch lasts at least as long as its sum: else the rates are too low, for a ring, too. */
	double part = fmin(1, OFF * lasted / shares);
	double took = fmin(fmax(wait + behind, part * shares / OFF), part * shares);
	return fmax(0, part * ring - fmax(behind, took));
}
