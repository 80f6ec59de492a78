/* standstill: see standstill.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/human.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_SECONDS 2.0 /* as view.c: a silence is no news before */
#define LOG_SECONDS 5.0
#define SLOW_LINK (1.0 / 3) /* of the median rate */

const char *sup_who(const struct sup_node *n, char out[SUP_WHO_MAX])
{
	int far = n->sup->hosts.count > 1;
	snprintf(out, SUP_WHO_MAX, "%.*s%s%.*s", OPTION_ID_MAX, n->id, far ? " on " : "",
		 OPTION_ID_MAX, far ? n->place.host : "");
	return out;
}

int sup_waits_for_others(const struct sup_node *n)
{
	const struct sup_seen *seen = &n->watch.seen;
	int sums = job_kind(n->sup->job)->sums || sup_first(n->sup, &role_replica);
	return sup_node_runs(n) && (seen->waits || (sums && seen->member && !seen->owes));
}

static int standstill_owes(const struct sup_node *n)
{
	return sup_node_runs(n) && n->watch.seen.member && n->watch.seen.owes;
}

/* Of those whose push is awaited, the one that is silent for longest. */
static const struct sup_node *standstill_last(const struct supervisor *s)
{
	const struct sup_node *last = NULL;
	EACH_OF (n, s, sup_trainers(s))
		if (standstill_owes(n) &&
		    (!last || n->watch.pulse.silent > last->watch.pulse.silent))
			last = n;
	return last;
}

/* A host that does not answer, or the fabric, or a daemon. */
static int standstill_is_outside(struct supervisor *s)
{
	char *out = s->standstill.why;
	size_t max = sizeof s->standstill.why;
	char time[HUMAN_MAX], who[SUP_WHO_MAX];
	const struct sup_node *fabric = sup_fabric(s), *silent = NULL;
	EACH_HOST (h, s, s->hosts.first)
		if (s->hosts.count > 1 && h->state == HOST_LOST && h->use == HOST_USED) {
			snprintf(out, max, "%s, or the link to it, has not answered for %s",
				 h->place->host, human_wait(clock_mono() - h->since, time));
			return 1;
		}
	if (fabric && fabric->stage != STAGE_OFF && !sup_fabric_is_there(s)) {
		snprintf(out, max, "the hosts are being connected anew");
		return 1;
	}
	EACH_NODE (n, s)
		if (n->role->ready == READY_ANSWERS && sup_node_runs(n) && n->role != &role_fabric &&
		    n != sup_monitor(s) && n->watch.pulse.silent >= SHOWN_SECONDS &&
		    (!silent || n->watch.pulse.silent > silent->watch.pulse.silent))
			silent = n;
	if (!silent)
		return 0;
	s->standstill.is_stopped = silent->watch.motion.stopped > 0;
	int is_heard = sup_host_of(silent)->heard > clock_mono() - silent->watch.pulse.silent;
	snprintf(out, max, "%s%s has not answered for %s%s", sup_who(silent, who),
		 s->standstill.is_stopped ? ", which is stopped,"
		 : silent->at != 0 && !is_heard ? ", or the way to it (the link, fabricd there),"
						 : "",
		 human_wait(silent->watch.pulse.silent, time),
		 silent->at != 0 && is_heard ? ", though its host has" : "");
	return 1;
}

/* The host whose link is much slower than the median one; NULL: none is, as far as is known. */
static const struct sup_host *standstill_link(const struct supervisor *s, double *rate)
{
	const struct network_link **all = calloc(s->hosts.count, sizeof *all);
	const struct sup_host *slowest = NULL;
	size_t count = 0;
	*rate = INFINITY;
	if (!all)
		return NULL;
	EACH_HOST (h, s, s->hosts.first) {
		double known = fmax(h->network.out.rate, h->network.in.rate);
		if (!h->network.world)
			continue;
		all[count++] = &h->network;
		if (known < *rate) {
			*rate = known;
			slowest = h;
		}
	}
	int is_slow = *rate < SLOW_LINK * network_median(all, count);
	free(all);
	return is_slow ? slowest : NULL;
}

/* All have pushed, and all that could add it up answers. */
static void standstill_sum(const struct supervisor *s, char *out, size_t max)
{
	char time[HUMAN_MAX], rate[HUMAN_MAX];
	double least;
	if (s->hosts.count < 2)
		return;
	const struct sup_host *slowest = standstill_link(s, &least);
	int len = snprintf(out, max, "the sum of iteration %llu is on its way between the hosts for %s",
			   (unsigned long long)s->standstill.iteration,
			   human_wait(clock_mono() - s->standstill.since, time));
	if (slowest && len > 0 && (size_t)len < max)
		snprintf(out + len, max - (size_t)len, "; %s has a slow link (%s/s)",
			 slowest->place->host, human_bytes(least, rate));
}

/* The iteration in which it stood has been committed. */
static void standstill_over(struct supervisor *s)
{
	struct sup_standstill *w = &s->standstill;
	char time[HUMAN_MAX];
	double seconds = clock_mono() - w->since;
	if (!w->told[0])
		return;
	log_say(LOG_LEVEL_INFO, "training goes on; iteration %llu stood still for %s",
		(unsigned long long)w->iteration, human_wait(seconds, time));
	sup_log(s, RECORD("stood", F("iteration", w->iteration), F_SECONDS("seconds", seconds),
			  F("why", (const char *)w->told)));
	w->told[0] = '\0';
	w->told_stopped = 0;
}

static void standstill_tell(struct supervisor *s)
{
	struct sup_standstill *w = &s->standstill;
	if (!w->told[0])
		sup_note(s, "waits", "iteration %llu stands still: %s",
			 (unsigned long long)w->iteration, w->why);
	else if ((w->told_stopped && !w->is_stopped) || (s->hosts.count > 1 && !sup_fabric_is_there(s)))
		return;
	memcpy(w->told, w->why, sizeof w->told); /* more may be known by now */
	w->told_stopped = w->is_stopped;
}

void sup_standstill_tick(struct supervisor *s)
{
	struct sup_standstill *w = &s->standstill;
	uint64_t iteration = 0;
	int members = 0, waiting = 0;
	EACH_OF (n, s, sup_trainers(s)) {
		int is_member = sup_node_runs(n) && n->watch.seen.member;
		members += is_member;
		waiting += is_member && sup_waits_for_others(n);
		if (n->watch.seen.member && n->watch.seen.iteration > iteration)
			iteration = n->watch.seen.iteration;
	}
	if (s->phases.now != PHASE_RUNNING || !sup_first(s, &role_replica)) {
		/* Before we have heard of the next one, all was trained. */
		if (s->phases.now == PHASE_LAST_CUT && s->phases.goal == GOAL_DONE)
			standstill_over(s);
		*w = (struct sup_standstill){0};
		return;
	}
	if (members > 0 && (iteration != w->iteration || w->since == 0)) {
		standstill_over(s);
		w->iteration = iteration;
		w->since = clock_mono();
	}
	w->why[0] = '\0';
	w->is_stopped = 0;
	if (w->since > 0 && clock_mono() - w->since >= SHOWN_SECONDS &&
	    !standstill_is_outside(s) && waiting == members && members > 0)
		standstill_sum(s, w->why, sizeof w->why);
	if (w->why[0] && clock_mono() - w->since >= LOG_SECONDS)
		standstill_tell(s);
}

void sup_standstill_of(const struct sup_node *n, char *out, size_t max)
{
	const struct sup_standstill *w = &n->sup->standstill;
	const struct sup_node *last = standstill_last(n->sup);
	char who[SUP_WHO_MAX];
	out[0] = '\0';
	if (w->since == 0 || clock_mono() - w->since < SHOWN_SECONDS || n->role != sup_trainers(n->sup))
		return;
	if (n->watch.seen.stopped && standstill_owes(n))
		snprintf(out, max, "is stopped");
	else if (!sup_waits_for_others(n))
		return;
	else if (w->why[0])
		snprintf(out, max, "waits: %s", w->why);
	else if (last && last->watch.pulse.silent >= SHOWN_SECONDS)
		snprintf(out, max, "waits for %s in the sum of iteration %llu", sup_who(last, who),
			 (unsigned long long)w->iteration);
}
