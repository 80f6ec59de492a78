/*
 * rule_pace: our own solution.  It weighs what an action is expected to save over the rest of the
 * job against what the action costs, both in seconds of the job's time, and takes what pays.
 * Beliefs about nodes, and how long their trouble is expected to last: rule_pace_model.h.
 *
 * iteration: z = max over workers of t_i(B_i), plus the slowest server's time; seconds.  With b
 *     backup workers the b slowest don't count.
 * left: samples-left/rate (info records), or samples-left/B*z; seconds.  Without samples-left the
 *     job is taken to be in its middle.
 *
 * split: min z by t_i, sum B_i = B.  Saves left*(1 - z_split/z), costs nothing, so it is done when
 *     it gains GAIN_MIN of an iteration, or when the sizes don't sum to B.
 * restart of a worker: z_cured is the split's z when it is as fast as the median of its kind.
 *     Saves helps*lasts*(1 - z_cured/z_split): `lasts` is how long its trouble is expected to go
 *     on, helps = 1/(1 + (1 + its restarts)^2): each before did not help, as it is slow still.
 *     Costs (restart-worker + pending + z)*B_i/B: the others go on meanwhile, so what is lost is
 *     its share, and one batch that is computed again. Where a restart stops all workers (info
 *     restart-all) it is lost whole.
 * restart of a server: z gets shorter by what it takes beyond the next slowest.  Costs
 *     restart-server, in which all wait (while the new one pends, the old one serves on).
 * Either must save MARGIN times its cost, as it is the action whose outcome is least sure
 *     (MARGIN_LONG times for the first restart of one that is persistent by AntDT's rule).  There
 *     is no need to wait for the long window: a young trouble has a small `lasts`.  One restart a
 *     role in a decision; a node that was restarted must be up for the long window before the
 *     next.  When the time of a restart is not known, only what AntDT-ND would restart is.
 * leave out: a worker that takes longer for the least batch (one sample, or least=) than the others
 *     for all the rest gets that, and is left behind by one more backup worker.
 * spikes: if iterations last longer (B/rate) than the steady time of any worker, while averages
 *     stand still, single spikes make them late: one backup worker, when that saves SPIKE_MARGIN
 *     times the n-th part of the work, which it drops.
 *
 * Trainers that keep the parameters themselves (info restart-all) have no backup workers, because
 * the model of a rank has already learnt what the rank trained.
 *
 * Under ASP nobody waits, so only restarts are left: a worker's part in the speed of all takes z's
 * place.
 */
#include "solve/rules.h"

#include "base/reals.h"
#include "solve/rule_pace_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAIN_MIN 0.01     /* of an iteration: less is noise */
#define MARGIN 5.0        /* savings over costs of a restart */
#define MARGIN_LONG 2.0   /* of the first one, when AntDT-ND would restart it, too */
#define LOOK_AT 8         /* nodes of a role whose restart is worked out */
#define LEFT_OUT_MIN 1.05 /* its delay over the iteration of the others */
#define LEFT_OUT_PART 4   /* at most every fourth worker */
#define SPIKE_PART 0.7    /* of what iterations are late by, one backup worker saves about that */
#define SPIKE_MARGIN 2.0  /* savings over costs of a backup worker against spikes */
#define STEADY 0.1        /* averages of both windows differ by less */
#define SLOW_NOW 1.2      /* over the median */

struct pace {
	const struct snapshot *s;
	const struct solution_options *o;
	struct voice v;
	struct crew workers, servers;
	struct pace_node *worker, *server;
	struct batch_worker *w; /* the split */
	unsigned char *out;     /* left out by a backup worker */
	uint64_t batch, backup; /* samples; in force */
	size_t outs;
	int spiky;                             /* a backup worker is there against spikes */
	double z, z_split;                     /* seconds, workers only */
	double serving, serving_next;          /* the slowest server and the one behind it */
	double left;                           /* seconds */
	const struct snapshot_node *restarted; /* a worker, in this decision */
	char why[ACTION_REASON_MAX];           /* the best that did not pay */
};

/* ---- times ---- */

static uint64_t pace_most_of(const struct pace *p, size_t i)
{
	uint64_t max = p->workers.node[i]->max;
	return max ? max : BATCH_SIZE_MAX;
}

static uint64_t pace_least_of(const struct pace *p, size_t i)
{
	return batch_least(p->o->least, pace_most_of(p, i));
}

/* Divides B by the beliefs; workers that are left out get the least. Returns the time of the
 * slowest of the others, or NAN. */
static double pace_share(struct pace *p, size_t cured)
{
	uint64_t outs = 0;
	size_t n = 0;
	double z = 0;
	for (size_t i = 0; i < p->workers.count; i++) {
		const struct pace_node *b = &p->worker[i];
		if (p->out[i]) {
			outs += pace_least_of(p, i);
			continue;
		}
		double slope = i == cured ? b->cured_slope : b->slope;
		double fixed = i == cured ? 0 : b->time - b->size * slope;
		p->w[n++] = (struct batch_worker){.speed = 1 / slope,
						  .fixed = fmax(fixed, 0),
						  .min = pace_least_of(p, i),
						  .max = pace_most_of(p, i),
						  .count = 1};
	}
	if (outs > p->batch || batch_share(p->w, n, p->batch - outs, NULL) != 0)
		return NAN;
	for (size_t i = 0; i < n; i++)
		z = fmax(z, batch_time(&p->w[i]));
	/* The n results are at the front of the array: move each to its worker's place, the last
	 * one first. */
	for (size_t i = p->workers.count; i-- > 0;) {
		if (p->out[i])
			p->w[i] = (struct batch_worker){.size = pace_least_of(p, i)};
		else
			p->w[i] = p->w[--n];
	}
	return z;
}

/* Seconds of an iteration as sizes are: the slowest but those that backup workers leave behind. */
static double iteration_now(const struct pace *p, double *scratch)
{
	for (size_t i = 0; i < p->workers.count; i++) {
		uint64_t size = p->workers.node[i]->size;
		scratch[i] = pace_time(&p->worker[i],
				       size ? (double)size
					    : (double)p->batch / (double)p->workers.count);
	}
	uint64_t backup = p->backup < p->workers.count ? p->backup : p->workers.count - 1;
	reals_sort(scratch, p->workers.count);
	return scratch[p->workers.count - 1 - backup];
}

static void find_serving(struct pace *p)
{
	for (size_t i = 0; i < p->servers.count; i++) {
		double t = p->server[i].time;
		if (!snapshot_known(t))
			continue;
		p->serving_next = fmax(p->serving_next, fmin(t, p->serving));
		p->serving = fmax(p->serving, t);
	}
}

static double find_left(const struct pace *p, double z)
{
	double samples = snapshot_info_real(p->s, "samples-left");
	double rate = snapshot_info_real(p->s, "rate");
	if (isnan(samples)) {
		samples = 0;
		for (size_t i = 0; i < p->s->node_count; i++)
			if (p->s->node[i].role == NODE_WORKER)
				samples += (double)p->s->node[i].samples;
	}
	return snapshot_known(rate) ? samples / rate : samples / (double)p->batch * z;
}

/* ---- restarts ---- */

struct offer {
	size_t index;
	double saves, costs; /* seconds; costs is NAN when nobody knows */
};

static double helps(const struct snapshot_node *n)
{
	double before = (double)n->restarts + 1;
	return 1 / (1 + before * before);
}

static int may_restart(const struct pace *p, const struct snapshot_node *n)
{
	return n->meant < p->o->limit && (n->restarts == 0 || n->up >= p->s->window_long);
}

/* Whether AntDT-ND would restart it. */
static int slow_for_long(const struct pace *p, const struct crew *c, size_t i)
{
	return c->node[i]->up >= p->s->window_long &&
	       crew_is_slow(crew_ratio(c, i, CREW_LONG), p->o->lambda);
}

static int pays(const struct pace *p, const struct crew *c, const struct offer *offer)
{
	if (isnan(offer->costs))
		return offer->saves > 0 && slow_for_long(p, c, offer->index);
	int sure = c->node[offer->index]->restarts == 0 && slow_for_long(p, c, offer->index);
	return offer->saves > offer->costs * (sure ? MARGIN_LONG : MARGIN);
}

static double restart_seconds(const struct pace *p, const char *name)
{
	double seconds = snapshot_info_real(p->s, name);
	return seconds >= 0 ? seconds : NAN;
}

/* The fraction of the work that is lost while a worker with this share is restarted. */
static double pace_lost(const struct pace *p, double part)
{
	return snapshot_info_real(p->s, "restart-all") > 0 ? 1 : part;
}

/* Savings of a worker's restart under ASP: its part in the speed of all. */
static void offer_asp(const struct pace *p, struct offer *offer, double seconds)
{
	const struct pace_node *b = &p->worker[offer->index];
	double speed = 0;
	for (size_t i = 0; i < p->workers.count; i++)
		if (p->worker[i].size > 0)
			speed += p->worker[i].size / p->worker[i].time;
	double own = b->size / b->time, cured = 1 / b->cured_slope;
	offer->saves *= (cured - own) / (speed - own + cured);
	offer->costs = (seconds + b->time) * pace_lost(p, own / speed);
}

static void offer_bsp(struct pace *p, struct offer *offer, double seconds)
{
	size_t i = offer->index;
	double size = (double)p->w[i].size;
	unsigned char out = p->out[i];
	double before = p->z_split + p->serving;
	p->out[i] = 0;
	p->outs -= out;
	double cured = pace_share(p, i) + p->serving;
	p->out[i] = out;
	p->outs += out;
	pace_share(p, p->workers.count);
	offer->saves *= cured < before ? 1 - cured / before : 0;
	offer->costs = (seconds + before) * pace_lost(p, size / (double)p->batch);
}

static struct offer offer_worker(struct pace *p, size_t i, int asp)
{
	struct offer offer = {.index = i};
	double seconds = restart_seconds(p, "restart-worker");
	double pending = solution_pending(p->s);
	offer.saves = helps(p->workers.node[i]) * pace_lasts(&p->worker[i], p->left);
	seconds += pending > 0 ? pending : 0;
	if (asp)
		offer_asp(p, &offer, seconds);
	else
		offer_bsp(p, &offer, seconds);
	return offer;
}

static struct offer offer_server(struct pace *p, size_t i)
{
	const struct pace_node *b = &p->server[i];
	struct offer offer = {.index = i};
	double gain = fmin(p->serving - p->serving_next, b->trouble);
	offer.saves = helps(p->servers.node[i]) * pace_lasts(b, p->left) * gain /
		      (p->z_split + p->serving);
	if (b->time < p->serving)
		offer.saves = 0;
	offer.costs = restart_seconds(p, "restart-server");
	return offer;
}

static void explain(char *out, const struct snapshot_node *n, const struct pace_node *b,
		    const struct offer *offer)
{
	char costs[64];
	if (isnan(offer->costs))
		snprintf(costs, sizeof costs, "its cost is not known");
	else
		snprintf(costs, sizeof costs, "costs %.3g s", offer->costs);
	say_reason(out,
		   "pace: %s takes %.4g s a batch, %.4g s more than the median, for about %.3g s "
		   "now, restarts %llu; a restart saves %.3g s, %s",
		   n->id, b->time, b->trouble, b->age, (unsigned long long)n->restarts,
		   offer->saves, costs);
}

/* What a restart could save at most, up to a factor: to look at the likeliest first. */
static double likely(const struct pace *p, const struct snapshot_node *n, const struct pace_node *b)
{
	double may = may_restart(p, n) && !solution_busy(p->o, p->s) ? 1 : 1e-9;
	return b->trouble > 0 ? may * helps(n) * pace_lasts(b, p->left) * b->trouble : -1;
}

/* The likeliest node behind the one given, in an order that has no ties; c->count: there is none.
 */
static size_t next_likely(const struct pace *p, const struct crew *c, const struct pace_node *node,
			  size_t before)
{
	size_t best = c->count;
	double limit = before < c->count ? likely(p, c->node[before], &node[before]) : INFINITY;
	double most = -1;
	for (size_t i = 0; i < c->count; i++) {
		double value = likely(p, c->node[i], &node[i]);
		if (value < 0 || value > limit ||
		    (value == limit && before < c->count && i <= before))
			continue;
		if (value > most) {
			best = i;
			most = value;
		}
	}
	return best;
}

/* The best restart of a role, when it pays. */
static int pace_restart(struct pace *p, const struct crew *c, const struct pace_node *node, int asp)
{
	struct offer best = {.index = c->count, .saves = 0};
	char reason[ACTION_REASON_MAX];
	size_t i = next_likely(p, c, node, c->count);
	for (int looked = 0; looked < LOOK_AT && i < c->count; looked++) {
		const struct snapshot_node *n = c->node[i];
		struct offer offer =
			n->role == NODE_SERVER ? offer_server(p, i) : offer_worker(p, i, asp);
		int may = may_restart(p, n) && !solution_busy(p->o, p->s) && pays(p, c, &offer);
		explain(reason, n, &node[i], &offer);
		if (may && offer.saves > best.saves)
			best = offer;
		else if (!may && !p->why[0])
			memcpy(p->why, reason, sizeof p->why);
		i = next_likely(p, c, node, i);
	}
	if (best.index == c->count)
		return 0;
	explain(reason, c->node[best.index], &node[best.index], &best);
	if (c == &p->workers)
		p->restarted = c->node[best.index];
	return say_restart(&p->v, c->node[best.index], reason);
}

/* ---- sizes ---- */

/* Leaves out workers whose delay alone is longer than the iteration of the others. */
static void pace_leave_out(struct pace *p)
{
	p->z_split = pace_share(p, p->workers.count);
	while (solution_leaves_behind(p->o, p->s) &&
	       (p->outs + 1) * LEFT_OUT_PART <= p->workers.count) {
		size_t worst = p->workers.count;
		double delay = 0;
		for (size_t i = 0; i < p->workers.count; i++) {
			double own = pace_time(&p->worker[i], (double)pace_least_of(p, i));
			if (!p->out[i] && own > delay) {
				worst = i;
				delay = own;
			}
		}
		if (worst == p->workers.count)
			break;
		p->out[worst] = 1;
		p->outs++;
		double z = pace_share(p, p->workers.count);
		if (z * LEFT_OUT_MIN < delay) {
			p->z_split = z;
			continue;
		}
		p->out[worst] = 0;
		p->outs--;
		pace_share(p, p->workers.count);
		break;
	}
}

/*
 * A backup worker in force that is not there for a worker left out (one that has the least, or is
 * to get it) is there against spikes: then a single report proves nothing, and beliefs start anew
 * without it.
 */
static int heed_spikes(struct pace *p)
{
	uint64_t leasts = 0;
	for (size_t i = 0; i < p->workers.count; i++)
		leasts += p->workers.node[i]->size == pace_least_of(p, i);
	p->spiky = p->backup > p->outs && p->backup > leasts;
	if (!p->spiky)
		return 0;
	free(p->worker);
	p->worker = pace_model(&p->workers, p->s, 1, p->v.err);
	memset(p->out, 0, p->workers.count);
	p->outs = 0;
	if (!p->worker)
		return -1;
	pace_leave_out(p);
	return 0;
}

static int pace_balance(struct pace *p)
{
	uint64_t sum = 0;
	int changes = 0, missing = 0;
	char reason[ACTION_REASON_MAX];
	for (size_t i = 0; i < p->workers.count; i++) {
		uint64_t size = p->workers.node[i]->size;
		sum += size;
		missing |= size == 0;
		changes |= size != p->w[i].size;
	}
	int sums = missing || sum == p->batch;
	double now = p->z + p->serving, after = p->z_split + p->serving;
	double saves = p->left * (1 - after / now);
	double gain = p->spiky ? STEADY : GAIN_MIN;
	if (!changes || (sums && p->z_split > p->z * (1 - gain)))
		return 0;
	if (sums)
		say_reason(reason,
			   "pace: an iteration lasts %.4g s, with these sizes %.4g s: saves %.3g s "
			   "of %.4g s, costs nothing",
			   now, after, saves, p->left);
	else
		say_reason(reason,
			   "pace: the sizes of the workers that are up sum to %llu, not to %llu; "
			   "with new sizes an iteration lasts %.4g s",
			   (unsigned long long)sum, (unsigned long long)p->batch, after);
	return crew_say_sizes(&p->workers, p->w, reason, &p->v);
}

/* ---- backup workers ---- */

/* Seconds of the last report's batch. */
static double last_time(const struct snapshot_node *n)
{
	return n->size && snapshot_known(n->speed_last) ? (double)n->size / n->speed_last
							: n->mean_short;
}

static double per_sample_now(const struct snapshot_node *n)
{
	return 1 / (snapshot_known(n->speed_last) ? n->speed_last : n->speed_short);
}

/* Seconds by which iterations are late beyond what anybody takes that is slow in the last report
 * and the short window alike; 0 when averages move. */
static double late_by(const struct pace *p)
{
	double rate = snapshot_info_real(p->s, "rate"), last = 0, now = 0, before = 0, slowest = 0;
	for (size_t i = 0; i < p->workers.count; i++) {
		const struct snapshot_node *n = p->workers.node[i];
		if (!snapshot_known(n->mean_short) || !snapshot_known(n->mean_long) ||
		    n->up < p->s->window_long)
			return 0;
		last += last_time(n);
		now += n->mean_short;
		before += n->mean_long;
		if (!p->out[i])
			slowest = fmax(slowest, fmin(n->mean_short, last_time(n)));
	}
	if (!snapshot_known(rate) || fabs(now / before - 1) > STEADY || last < now * (1 - STEADY))
		return 0;
	return (double)p->batch / rate - slowest - p->serving;
}

/* Whether the backup worker in force still has spikes to work against. Take the workers that are
 * not slow now, and add up the seconds per sample by which their long window is above today's
 * median: the sum must be more than twice the cost of the backup worker. */
static int spikes_go_on(const struct pace *p)
{
	double spikes = 0;
	size_t count = 0;
	double *last = calloc(p->workers.count + 1, sizeof *last);
	if (!last)
		return 0;
	for (size_t i = 0; i < p->workers.count; i++)
		if (snapshot_known(per_sample_now(p->workers.node[i])) && !p->out[i])
			last[count++] = per_sample_now(p->workers.node[i]);
	double median = pace_median(last, count);
	free(last);
	for (size_t i = 0; i < p->workers.count; i++) {
		const struct snapshot_node *n = p->workers.node[i];
		if (snapshot_known(n->speed_long) && !p->out[i] &&
		    per_sample_now(n) < median * SLOW_NOW)
			spikes += 1 / n->speed_long - median;
	}
	return spikes > 2 * median / (double)count;
}

static int back_up(struct pace *p)
{
	double n = (double)p->workers.count, z = p->z_split + p->serving;
	uint64_t outs = p->outs;
	char reason[ACTION_REASON_MAX];
	for (size_t i = 0; i < p->workers.count; i++)
		outs -= p->out[i] && p->workers.node[i] == p->restarted;
	uint64_t count = outs;
	double late = late_by(p), gains = SPIKE_PART * late;
	if (n > 2 && p->spiky && spikes_go_on(p))
		count++;
	else if (n > 2 && !p->spiky && gains > SPIKE_MARGIN * z / n)
		count++;
	if (count == p->backup)
		return 0;
	if (count > outs)
		say_reason(
			reason,
			"pace: iterations take %.3g s longer than the slowest worker does on "
			"average: one backup worker saves %.3g s, and costs %.3g s, of each",
			late, gains, z / n);
	else if (count > 0)
		say_reason(reason,
			   "pace: %llu workers have a delay longer than the %.4g s that the others "
			   "take; they get the least batch, and no worker waits for them: saves "
			   "%.3g s",
			   (unsigned long long)count, z, p->left * (1 - z / (p->z + p->serving)));
	else
		say_reason(reason, "pace: backup workers no longer pay");
	return say_backup(&p->v, count, reason);
}

/* ---- deciding ---- */

static int decide_bsp(struct pace *p)
{
	double *scratch = calloc(p->workers.count, sizeof *scratch);
	if (!scratch)
		return error_set(p->v.err, ERROR_OS, NULL, "out of memory for times");
	pace_leave_out(p);
	if (heed_spikes(p) != 0) {
		free(scratch);
		return -1;
	}
	p->z = iteration_now(p, scratch);
	p->left = find_left(p, p->z + p->serving);
	int result = isnan(p->z_split)
			     ? say_none(&p->v,
					"pace: %llu samples can't be split over %zu workers, %llu "
					"each at least",
					(unsigned long long)p->batch, p->workers.count,
					(unsigned long long)p->o->least)
			     : pace_balance(p);
	if (result == 0)
		result = pace_restart(p, &p->workers, p->worker, 0);
	if (result == 0)
		result = pace_restart(p, &p->servers, p->server, 0);
	if (result == 0 && solution_leaves_behind(p->o, p->s) && !isnan(p->z_split))
		result = back_up(p);
	free(scratch);
	return result;
}

/* z is here the time of a worker's mean batch. */
static int decide_asp(struct pace *p)
{
	double count = 0;
	for (size_t i = 0; i < p->workers.count; i++)
		if (snapshot_known(p->worker[i].time)) {
			p->z_split += p->worker[i].time;
			count++;
		}
	p->z_split = count > 0 ? p->z_split / count : NAN;
	p->left = find_left(p, p->z_split + p->serving);
	int result = pace_restart(p, &p->workers, p->worker, 1);
	return result == 0 ? pace_restart(p, &p->servers, p->server, 1) : result;
}

static uint64_t backup_in_force(const struct snapshot *s)
{
	double in_force = snapshot_info_real(s, "backup-workers");
	return in_force > 0 ? (uint64_t)in_force : 0;
}

static int anything_known(const struct pace *p)
{
	for (size_t i = 0; i < p->workers.count; i++)
		if (snapshot_known(p->worker[i].time))
			return 1;
	return 0;
}

static int pace_decide(struct pace *p)
{
	p->batch = solution_batch(p->o, p->s);
	if (p->workers.count == 0)
		return say_none(&p->v, "pace: no worker is up");
	if (p->batch == 0 || !anything_known(p))
		return say_none(&p->v, "pace: no worker has reported yet");
	find_serving(p);
	int result = solution_sync(p->o, p->s) == SYNC_ASP ? decide_asp(p) : decide_bsp(p);
	if (result == 0 && p->v.given == 0)
		result = say_none(&p->v, "%s", p->why[0] ? p->why : "pace: no worker is slow");
	return result;
}

int rule_pace(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	struct pace p = {.s = s, .o = o, .v = {.take = take, .arg = arg, .err = err}};
	int result = crew_gather(&p.workers, s, NODE_WORKER, 0, err);
	if (result == 0)
		result = crew_gather(&p.servers, s, NODE_SERVER, 0, err);
	if (result == 0) {
		p.backup = backup_in_force(s);
		p.worker = pace_model(&p.workers, s, 0, err);
		p.server = p.worker ? pace_model(&p.servers, s, 0, err) : NULL;
		p.w = calloc(p.workers.count + 1, sizeof *p.w);
		p.out = calloc(p.workers.count + 1, 1);
		result = !p.worker || !p.server ? -1
			 : p.w && p.out
				 ? pace_decide(&p)
				 : error_set(err, ERROR_OS, NULL, "out of memory for a split");
	}
	free(p.worker);
	free(p.server);
	free(p.w);
	free(p.out);
	crew_free(&p.workers);
	crew_free(&p.servers);
	return result;
}
