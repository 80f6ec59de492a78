/* rules: see rules.h. Pure: a rule must never look at anything but its snapshot and options. */
#include "solve/rules.h"

#include "solve/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int give_none(action_fn *take, void *arg, const char *reason, struct error *err)
{
	struct action a = {.kind = ACTION_NONE};
	snprintf(a.reason, sizeof a.reason, "%s", reason);
	return take(&a, arg, err);
}

int rule_none(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	(void)s;
	(void)o;
	return give_none(take, arg, "solution none", err);
}

/* A dead worker's share must not shrink the global batch, so every worker's last size counts,
 * whatever its state. 0: nobody has reported a size yet. */
static uint64_t global_batch(const struct snapshot *s, const struct solution_options *o)
{
	uint64_t sum = 0;
	for (size_t i = 0; o->batch == 0 && i < s->node_count; i++)
		if (s->node[i].role == NODE_WORKER)
			sum += s->node[i].size;
	return o->batch ? o->batch : sum;
}

static int takes_part(const struct snapshot_node *n)
{
	return n->role == NODE_WORKER && (n->state == NODE_UP || n->state == NODE_STARTING);
}

static int give_even(const struct snapshot *s, const struct batch_worker *w, uint64_t global,
		     size_t count, action_fn *take, void *arg, struct error *err)
{
	struct action a = {.kind = ACTION_ADJUST_BS, .accum = 1};
	snprintf(a.reason, sizeof a.reason, "even: %llu over %zu workers",
		 (unsigned long long)global, count);
	for (size_t i = 0, k = 0; i < s->node_count; i++) {
		if (!takes_part(&s->node[i]))
			continue;
		memcpy(a.id, s->node[i].id, sizeof a.id);
		a.size = w[k++].size;
		if (take(&a, arg, err) != 0)
			return -1;
	}
	return 0;
}

int rule_even(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	size_t count = 0, same = 0;
	uint64_t global = global_batch(s, o);
	for (size_t i = 0; i < s->node_count; i++)
		count += (size_t)takes_part(&s->node[i]);
	if (count == 0)
		return give_none(take, arg, "even: no worker is up or starting", err);
	if (global == 0)
		return give_none(take, arg, "even: no size reported yet and no batch= given", err);
	struct batch_worker *w = calloc(count, sizeof *w);
	if (!w)
		return error_set(err, ERROR_OS, NULL, "no memory for %zu workers", count);
	for (size_t i = 0; i < count; i++)
		w[i] = (struct batch_worker){
			.speed = 1, .min = 1, .max = BATCH_SIZE_MAX, .count = 1};
	int result = batch_even(w, count, global, NULL, err);
	for (size_t i = 0, k = 0; result == 0 && i < s->node_count; i++)
		if (takes_part(&s->node[i]))
			same += s->node[i].size == w[k++].size;
	if (result == 0 && same == count)
		result = give_none(take, arg, "even: sizes are even already", err);
	else if (result == 0)
		result = give_even(s, w, global, count, take, arg, err);
	free(w);
	return result;
}
