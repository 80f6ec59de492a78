/* crew: see crew.h. */
#include "solve/crew.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_SECONDS 10.0
#define SILENT_BATCHES 4.0 /* of the slowest */
#define OWED_SECONDS 5.0   /* seconds without a sign of life from a node that owes one */

static double crew_speed(const struct snapshot_node *n, enum crew_window window)
{
	return window == CREW_SHORT ? n->speed_short : n->speed_long;
}

static double mean_per_sample(const struct crew *c, enum crew_window window)
{
	double sum = 0, count = 0;
	for (size_t i = 0; i < c->count; i++) {
		double speed = crew_speed(c->node[i], window);
		if (snapshot_known(speed)) {
			sum += 1 / speed;
			count++;
		}
	}
	return count > 0 ? sum / count : NAN;
}

/* Seconds without a report after which a node counts as silent. At a barrier all workers report as
 * often as the slowest. */
static double silence(const struct snapshot *s)
{
	double slowest = 0;
	for (size_t i = 0; i < s->node_count; i++) {
		const struct snapshot_node *n = &s->node[i];
		const double time[] = {
			n->mean_short, n->mean_long,
			snapshot_known(n->speed_last) ? (double)n->size / n->speed_last : 0};
		for (size_t k = 0; n->state == NODE_UP && k < sizeof time / sizeof *time; k++)
			if (snapshot_known(time[k]))
				slowest = fmax(slowest, time[k]);
	}
	return fmax(SILENT_SECONDS, SILENT_BATCHES * slowest);
}

static double silent_for(const struct snapshot *s, const struct snapshot_node *n)
{
	return n->state == NODE_UP && snapshot_known(n->last) ? s->at - n->last : 0;
}

/* If nothing watches which nodes owe a sign of life, all do. */
static int crew_owes(const struct snapshot_node *n)
{
	return !(n->silent < OWED_SECONDS);
}

const struct snapshot_node *crew_silent(const struct snapshot *s, double *seconds)
{
	const struct snapshot_node *longest = NULL;
	*seconds = silence(s);
	for (size_t i = 0; i < s->node_count; i++)
		if (crew_owes(&s->node[i]) && silent_for(s, &s->node[i]) > *seconds) {
			longest = &s->node[i];
			*seconds = silent_for(s, longest);
		}
	return longest;
}

int crew_gather(struct crew *c, const struct snapshot *s, enum node_role role, int starting,
		struct error *err)
{
	*c = (struct crew){0};
	c->node = reallocarray(NULL, s->node_count + 1, sizeof *c->node);
	if (!c->node)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", s->node_count);
	double most = silence(s);
	for (size_t i = 0; i < s->node_count; i++) {
		const struct snapshot_node *n = &s->node[i];
		int up = n->state == NODE_UP && (starting || silent_for(s, n) <= most);
		if (n->role == role && (up || (starting && n->state == NODE_STARTING)))
			c->node[c->count++] = n;
	}
	c->per_sample[CREW_SHORT] = mean_per_sample(c, CREW_SHORT);
	c->per_sample[CREW_LONG] = mean_per_sample(c, CREW_LONG);
	return 0;
}

void crew_free(struct crew *c)
{
	free(c->node);
	*c = (struct crew){0};
}

double crew_ratio(const struct crew *c, size_t i, enum crew_window window)
{
	const struct snapshot_node *n = c->node[i];
	double speed = crew_speed(n, window);
	if (n->role == NODE_WORKER && snapshot_known(speed))
		return 1 / speed / c->per_sample[window];
	return window == CREW_SHORT ? n->ratio_short : n->ratio_long;
}

int crew_is_slow(double ratio, double lambda)
{
	return ratio * (1 + 1e-9) >= lambda;
}

/* ---- a split ---- */

static double mean_speed(const double *speed, size_t n)
{
	double sum = 0, count = 0;
	for (size_t i = 0; i < n; i++)
		if (snapshot_known(speed[i])) {
			sum += speed[i];
			count++;
		}
	return count > 0 ? sum / count : NAN;
}

/* Compares the reported sizes with those of the split. */
static void compare_sizes(struct split *s, const struct crew *c, uint64_t batch)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0;
	int missing = 0;
	s->before = s->after = 0;
	s->changes = 0;
	for (size_t i = 0; i < c->count; i++) {
		uint64_t size = c->node[i]->size;
		double before = s->w[i].fixed + (double)size / s->w[i].speed;
		double after = batch_time(&s->w[i]);
		missing |= size == 0;
		sum += size;
		least = size < least ? size : least;
		most = size > most ? size : most;
		s->before = before > s->before ? before : s->before;
		s->after = after > s->after ? after : s->after;
		s->changes |= size != s->w[i].size;
	}
	s->sums = missing || sum == batch;
	s->uneven = !missing && most - least > 1;
}

int crew_split(struct split *s, const struct crew *c, const double *speed, uint64_t batch,
	       uint64_t least, char *why, struct error *err)
{
	struct error local;
	double mean = mean_speed(speed, c->count);
	*s = (struct split){0};
	if (c->count == 0)
		return say_reason(why, "no worker is up"), 1;
	if (batch == 0)
		return say_reason(why, "no size reported yet and no batch= given"), 1;
	if (!snapshot_known(mean))
		return say_reason(why, "no speed reported yet"), 1;
	s->w = calloc(c->count, sizeof *s->w);
	if (!s->w)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", c->count);
	for (size_t i = 0; i < c->count; i++) {
		uint64_t max = c->node[i]->max ? c->node[i]->max : BATCH_SIZE_MAX;
		s->w[i] = (struct batch_worker){.speed = snapshot_known(speed[i]) ? speed[i] : mean,
						.min = batch_least(least, max),
						.max = max,
						.count = 1};
	}
	if (batch_share(s->w, c->count, batch, &local) == 0) {
		compare_sizes(s, c, batch);
		return 0;
	}
	if (local.code != ERROR_DATA) {
		*err = local;
		return -1;
	}
	return say_reason(why, "%s", local.text), 1;
}

int crew_say_sizes(const struct crew *c, const struct batch_worker *w, const char *reason,
		   struct voice *v)
{
	struct action a = {.kind = ACTION_ADJUST_BS, .accum = 1};
	say_reason(a.reason, "%s", reason);
	for (size_t i = 0; i < c->count; i++) {
		memcpy(a.id, c->node[i]->id, sizeof a.id);
		a.size = w[i].size;
		if (say_action(v, &a) != 0)
			return -1;
	}
	return 0;
}
