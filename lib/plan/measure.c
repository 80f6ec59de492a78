/* measure: see measure.h. */
#include "plan/measure.h"

#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_A_CHANGE 12.0   /* rounds in the time of BRAIN every */
#define ROUND_SECONDS_MIN 0.5  /* but a round takes as long at least, */
#define ROUND_SECONDS_MAX 10.0 /* and as long at most */
#define BATCHES_MIN 4.0        /* each worker trains as many in a round */

static double measure_known(double value)
{
	return snapshot_known(value) ? value : 0;
}

double measure_seconds(double every)
{
	return fmin(fmax(every / ROUNDS_A_CHANGE, ROUND_SECONDS_MIN), ROUND_SECONDS_MAX);
}

int measure_add(struct measure *m, enum plan_role role, const char *id, const struct snapshot_node *now)
{
	if (GROW(m->node, m->room, m->count + 1) != 0)
		return -1;
	struct measure_node *k = &m->node[m->count++];
	*k = (struct measure_node){.role = role,
				   .now = now,
				   .batches = now->total.batches,
				   .time = measure_known(now->total.time),
				   .compute = measure_known(now->total.compute),
				   .comm = measure_known(now->total.comm),
				   .wait = measure_known(now->total.wait),
				   .samples = (double)now->samples,
				   .last = now->last};
	snprintf(k->id, sizeof k->id, "%s", id);
	return 0;
}

int measure_counts_anew(const struct measure *m)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct measure_node *k = &m->node[i];
		if (k->now->total.batches < k->batches || (double)k->now->samples < k->samples)
			return 1;
	}
	return 0;
}

void measure_sample(struct measure *m)
{
	for (size_t i = 0; i < m->count; i++) {
		struct measure_node *k = &m->node[i];
		if (snapshot_known(k->now->own_cpu)) {
			k->cpu += k->now->own_cpu;
			k->throttled += measure_known(k->now->throttled);
			k->seen++;
		}
		if (snapshot_known(k->now->own_mem) && k->now->own_mem > k->bytes)
			k->bytes = k->now->own_mem;
	}
}

int measure_is_enough(const struct measure *m)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct measure_node *k = &m->node[i];
		if (k->now->total.batches - k->batches < BATCHES_MIN || k->now->last <= k->last ||
		    k->seen == 0 || (k->role == PLAN_WORKER && (double)k->now->samples <= k->samples))
			return 0;
	}
	return 1;
}

/* ---- a round, as text ---- */

/* What workers and servers did, as parts of the time of one step of one worker. */
struct measured {
	double rate; /* steps a second, of all workers */
	double io, compute, update;
};

double measure_rate(const struct measure *m, uint64_t batch)
{
	double rate = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct measure_node *k = &m->node[i];
		if (k->role == PLAN_WORKER)
			rate += ((double)k->now->samples - k->samples) / (k->now->last - k->last) / (double)batch;
	}
	return rate;
}

/* Seconds in which a node was at work. A server measures what it computes, by its processor time: while a
 * quota keeps it from its cores, others wait for it all the same. */
static double measure_time(const struct measure_node *k)
{
	double time = measure_known(k->now->total.time) - k->time;
	if (k->role == PLAN_SERVER && k->seen > 0)
		time = fmax(time, (k->now->last - k->last) * k->throttled / (double)k->seen);
	return time;
}

/* Busy times are shares of a second. Under bsp all workers wait for the servers' update of the
 * whole batch. Otherwise a worker waits for its own update, and waits longer when the servers are
 * busier. */
static struct measured measure_parts(const struct measure *m, const struct measure_job *job)
{
	struct measured out = {.rate = measure_rate(m, job->batch)};
	double workers = 0, compute = 0, talk = 0, busy = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct measure_node *k = &m->node[i];
		const struct snapshot_node *now = k->now;
		double seconds = now->last - k->last;
		if (k->role == PLAN_SERVER) {
			busy = fmax(busy, fmin(measure_time(k) / seconds, 1));
			continue;
		}
		compute += (measure_known(now->total.compute) - k->compute) / seconds;
		talk += (measure_known(now->total.comm) - k->comm + measure_known(now->total.wait) - k->wait) /
			seconds;
		workers++;
	}
	double step = workers / out.rate;
	out.compute = fmin(compute / out.rate, step);
	if (strcmp(job->sync, "bsp") == 0) {
		out.update = busy * step;
	} else {
		double own = busy * step / workers;
		out.update = own + busy * fmax(talk / out.rate - own, 0);
	}
	out.update = fmin(out.update, step - out.compute);
	out.io = step - out.compute - out.update;
	return out;
}

static void measure_put_job(const struct measure *m, const struct measure_job *job, FILE *out)
{
	struct measured p = measure_parts(m, job);
	/* Under bsp there is no samples=: more workers share the same batch, and cost no
	 * convergence. changed= is always there, and 0 if nothing has changed yet: the filter gets
	 * old rounds again, and without it would take its own answer to one of them for a change
	 * that was made. */
	record_print(out, RECORD("job", F("batch", job->batch), F_BRIEF("steps-per-second", p.rate),
				 F_BRIEF("io-time", p.io), F_BRIEF("compute-time", p.compute),
				 F_BRIEF("update-time", p.update),
				 strcmp(job->sync, "bsp") != 0 ? F("samples", job->samples) : F_NONE,
				 F("left", job->samples > job->done ? job->samples - job->done : 0),
				 F_SECONDS("at", job->at),
				 F_SECONDS("changed", isnan(job->changed) ? 0 : job->changed),
				 job->may_rebalance ? F("rebalance", 1) : F_NONE));
}

static void measure_put_node(const struct measure_node *k, uint64_t batch, FILE *out)
{
	double time = measure_time(k);
	double per = k->role == PLAN_WORKER ? ((double)k->now->samples - k->samples) / (double)batch
					    : k->now->total.batches - k->batches;
	record_print(out, RECORD("node", F("role", plan_role_name(k->role)), F("id", (const char *)k->id),
				 F_BRIEF("cores", k->cores), F_BRIEF("used", k->cpu / (double)k->seen),
				 k->memory > 0 ? F("mem-bytes", k->memory) : F_NONE,
				 k->bytes > 0 ? F("used-bytes", (uint64_t)k->bytes) : F_NONE,
				 time > 0 ? F_BRIEF("time", time / per) : F_NONE));
}

char *measure_text(const struct measure *m, const struct measure_job *job, size_t *len)
{
	char *text = NULL;
	FILE *out = grow_stream(&text, len);
	if (!out)
		return NULL;
	measure_put_job(m, job, out);
	for (size_t i = 0; i < m->count; i++)
		measure_put_node(&m->node[i], job->batch, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

void measure_free(struct measure *m)
{
	free(m->node);
	*m = (struct measure){0};
}
