/* rule_simple: none, even, backup:N, lb-bsp and lb-bsp-gpu. See rules.h. */
#include "solve/rules.h"

#include "solve/crew.h"

#include <stdlib.h>

int rule_none(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	(void)s;
	(void)o;
	return say_none(&v, "solution none");
}

static int give_even(struct voice *v, const struct crew *c, uint64_t global)
{
	char reason[ACTION_REASON_MAX];
	size_t same = 0;
	struct batch_worker *w = calloc(c->count, sizeof *w);
	if (!w)
		return error_set(v->err, ERROR_OS, NULL, "out of memory for %zu workers", c->count);
	for (size_t i = 0; i < c->count; i++)
		w[i] = (struct batch_worker){
			.speed = 1, .min = 1, .max = BATCH_SIZE_MAX, .count = 1};
	int result = batch_even(w, c->count, global, NULL, v->err);
	for (size_t i = 0; i < c->count; i++)
		same += c->node[i]->size == w[i].size;
	say_reason(reason, "even: %llu over %zu workers", (unsigned long long)global, c->count);
	if (result == 0)
		result = same == c->count ? say_none(v, "even: sizes are even already")
					  : crew_say_sizes(c, w, reason, v);
	free(w);
	return result;
}

int rule_even(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	struct crew c;
	int result;
	uint64_t global = solution_batch(o, s);
	if (crew_gather(&c, s, NODE_WORKER, 1, err) != 0)
		return -1;
	if (c.count == 0)
		result = say_none(&v, "even: no worker is up or starting");
	else if (global == 0)
		result = say_none(&v, "even: no size reported yet and no batch= given");
	else if (global / c.count < o->least)
		result = say_none(&v,
				  "even: %llu samples can't be split over %zu workers, %llu each "
				  "at least",
				  (unsigned long long)global, c.count,
				  (unsigned long long)o->least);
	else
		result = give_even(&v, &c, global);
	crew_free(&c);
	return result;
}

int rule_backup(const struct snapshot *s, const struct solution_options *o, action_fn *take,
		void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	struct crew c;
	char reason[ACTION_REASON_MAX];
	double in_force = snapshot_info_real(s, "backup-workers");
	if (solution_sync(o, s) != SYNC_BSP)
		return say_none(&v, "backup: only BSP has a barrier at which a worker can be left "
				    "out");
	if (!solution_leaves_behind(o, s))
		return say_none(&v, "backup: no trainer that has the parameters can be left out of an "
				    "iteration");
	if (crew_gather(&c, s, NODE_WORKER, 0, err) != 0)
		return -1;
	size_t up = c.count;
	crew_free(&c);
	if (up == 0)
		return say_none(&v, "backup: no worker is up");
	uint64_t count = o->number < up ? o->number : up - 1;
	if (in_force == (double)count)
		return say_none(&v, "backup: %llu in force already", (unsigned long long)count);
	say_reason(reason, "backup: iterations end when %llu of %zu workers have finished%s",
		   (unsigned long long)(up - count), up,
		   count < o->number ? ", because one must be left" : "");
	return say_backup(&v, count, reason);
}

/* One report is enough: memoryless, as Eq. 3 of LB-BSP is without its predictor. */
static double newest(const struct snapshot_node *n)
{
	return snapshot_known(n->speed_last)    ? n->speed_last
	       : snapshot_known(n->speed_short) ? n->speed_short
						: n->speed_long;
}

int rule_lb_bsp(const struct snapshot *s, const struct solution_options *o, action_fn *take,
		void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	struct crew c;
	struct split split = {0};
	char why[ACTION_REASON_MAX];
	if (solution_sync(o, s) == SYNC_ASP)
		return say_none(&v, "lb-bsp: under ASP workers do not wait for each other, so "
				    "sizes do not matter");
	if (crew_gather(&c, s, NODE_WORKER, 0, err) != 0)
		return -1;
	double *speed = calloc(c.count + 1, sizeof *speed);
	int result = speed ? 0 : error_set(err, ERROR_OS, NULL, "out of memory for speeds");
	for (size_t i = 0; result == 0 && i < c.count; i++)
		speed[i] = newest(c.node[i]);
	if (result == 0)
		result = crew_split(&split, &c, speed, solution_batch(o, s), o->least, why, err);
	if (result == 1)
		result = say_none(&v, "lb-bsp: %s", why);
	else if (result == 0 && !split.changes)
		result = say_none(&v, "lb-bsp: sizes fit the newest speeds");
	else if (result == 0) {
		say_reason(
			why,
			"lb-bsp: by the newest speeds the slowest takes %.4g s instead of %.4g s",
			split.after, split.before);
		result = crew_say_sizes(&c, split.w, why, &v);
	}
	free(speed);
	free(split.w);
	crew_free(&c);
	return result;
}

int rule_lb_bsp_gpu(const struct snapshot *s, const struct solution_options *o, action_fn *take,
		    void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	(void)s;
	(void)o;
	return say_none(&v, "lb-bsp-gpu: decides at every barrier of a job, not on a snapshot");
}
