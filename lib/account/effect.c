/* effect: see effect.h. */
#include "account/effect.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_SECONDS 1.0   /* actions at most so many seconds apart count as one */
#define CLOSE_BATCHES 4.0   /* or so many batches */
#define BEFORE_SECONDS 10.0 /* seconds of the past that are compared, or */
#define BEFORE_PART 0.02    /* this fraction of the time in which workers train, if it is more */

/* ---- time in which workers train ---- */

static double training(const struct account *a, double from, double to)
{
	double sum = 0;
	for (size_t i = 0; i < a->phases; i++)
		if (account_is_training(a, (int)i))
			sum += account_overlap(&a->phase_spans, (int)i, from, to);
	return sum;
}

static double speed(const struct account *a, double from, double to)
{
	double samples = 0, seconds = training(a, from, to);
	for (size_t i = 0; i < a->nodes; i++)
		if (account_is_worker(&a->node[i]))
			samples += account_between(&a->node[i], from, to).samples;
	return seconds > 0 && samples > 0 ? samples / seconds : NAN;
}

/* When the first worker had begun. */
static double beginning(const struct account *a)
{
	double first = INFINITY;
	for (size_t i = 0; i < a->nodes; i++)
		if (account_is_worker(&a->node[i]) && a->node[i].points > 0)
			first = fmin(first, a->node[i].point[0].at);
	return isinf(first) ? a->first_at : first;
}

static double batch_seconds(const struct account *a)
{
	double batches = 0, seconds = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (!account_is_worker(n) || n->points < 2)
			continue;
		batches += n->point[n->points - 1].batches - n->point[0].batches;
		seconds += n->point[n->points - 1].at - n->point[0].at;
	}
	return batches > 0 ? seconds / batches : 0;
}

/* ---- effects ---- */

/* Whether the action changes anything; in_force: the settings of each node. */
static int changes(const struct account_mark *m, double *in_force)
{
	if (m->kind != ACCOUNT_ACTION)
		return 0;
	if (strcmp(m->what, "adjust-bs") != 0 || m->node == ACCOUNT_NOBODY)
		return 1;
	int other = in_force[m->node] != m->size;
	in_force[m->node] = m->size;
	return other;
}

static void effect_add_mark(const struct account *a, struct effect *e, size_t mark)
{
	const struct account_mark *m = &a->mark[mark];
	e->last = m->at;
	e->mark_last = mark;
	if (strcmp(m->what, "adjust-bs") == 0)
		e->sizes++;
	else if (strcmp(m->what, "kill-restart") == 0) {
		if (e->restarts++ == 0)
			e->mark = mark;
	} else
		e->others++;
}

static void effect_measure(const struct account *a, struct effect *list, size_t count)
{
	double end = a->at, begin = beginning(a), all = training(a, begin, end);
	double past = fmax(BEFORE_SECONDS, BEFORE_PART * all);
	for (size_t i = 0; i < count; i++) {
		struct effect *e = &list[i];
		e->until = i + 1 < count ? list[i + 1].from : end;
		double since = i > 0 ? list[i - 1].last : begin;
		e->before = speed(a, fmax(since, e->from - past), e->from);
		e->after = speed(a, e->from, e->until);
		e->saved = training(a, e->from, e->until) * (e->after / e->before - 1);
	}
}

int effect_list(const struct account *a, struct effect **out, size_t *count, struct error *err)
{
	struct effect *list = NULL;
	size_t n = 0, room = 0;
	double near = fmax(CLOSE_SECONDS, CLOSE_BATCHES * batch_seconds(a));
	double *in_force = calloc(a->nodes + 1, sizeof *in_force);
	int failed = !in_force;
	for (size_t i = 0; i < a->marks && !failed; i++) {
		const struct account_mark *m = &a->mark[i];
		if (!changes(m, in_force))
			continue;
		if (n == 0 || m->at > list[n - 1].last + near) {
			failed = GROW(list, room, n + 1) != 0;
			if (failed)
				break;
			list[n++] = (struct effect){.from = m->at, .mark_first = i, .mark = i};
		}
		effect_add_mark(a, &list[n - 1], i);
	}
	free(in_force);
	if (failed) {
		free(list);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	effect_measure(a, list, n);
	*out = list;
	*count = n;
	return 0;
}
