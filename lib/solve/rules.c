/* rules: see rules.h. Pure: a rule must never look at anything but its snapshot and options. */
#include "solve/rules.h"

#include "solve/rule_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rule_none(const struct snapshot *s, const struct solution_options *o, action_fn *take,
	      void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	(void)s;
	(void)o;
	return say_none(&v, "solution none");
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
	struct voice v = {.take = take, .arg = arg, .err = err};
	size_t count = 0, same = 0;
	uint64_t global = global_batch(s, o);
	for (size_t i = 0; i < s->node_count; i++)
		count += (size_t)takes_part(&s->node[i]);
	if (count == 0)
		return say_none(&v, "even: no worker is up or starting");
	if (global == 0)
		return say_none(&v, "even: no size reported yet and no batch= given");
	if (global < count)
		return say_none(&v, "even: %llu samples can't be split over %zu workers",
				(unsigned long long)global, count);
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
		result = say_none(&v, "even: sizes are even already");
	else if (result == 0)
		result = give_even(s, w, global, count, take, arg, err);
	free(w);
	return result;
}
