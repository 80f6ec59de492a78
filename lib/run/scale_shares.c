/* scale_shares: the batch of a job that is scaled, and each worker's share of it; see scale.h. */
#include "run/sup.h"

#include "base/grow.h"
#include "solve/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keeps_batch(const struct supervisor *s)
{
	return strcmp(s->job->batch_scaling, "none") == 0;
}

uint64_t sup_scale_workers_most(const struct supervisor *s)
{
	uint64_t most = job_workers_most(), enough = job_batch_workers(s->job);
	return keeps_batch(s) && enough < most ? enough : most;
}

static double growth(const struct supervisor *s)
{
	return (double)s->scale.now.workers / (double)s->job->workers;
}

uint64_t sup_scale_batch(const struct supervisor *s)
{
	return keeps_batch(s) ? s->job->batch
			      : (uint64_t)llround((double)s->job->batch * growth(s));
}

double sup_scale_rate_factor(const struct supervisor *s)
{
	if (keeps_batch(s))
		return 1;
	return strcmp(s->job->batch_scaling, "sqrt") == 0 ? sqrt(growth(s)) : growth(s);
}

/* ---- of each worker ---- */

static void set_size(struct supervisor *s, struct decision *list, const struct sup_node *n,
		     uint64_t samples)
{
	const struct action *a = sup_in_force_find(s, ACTION_ADJUST_BS, n->id);
	uint64_t accum = a && a->accum * s->job->options.least <= samples ? a->accum : 1;
	struct action set = {.kind = ACTION_ADJUST_BS, .size = samples / accum, .accum = accum};
	snprintf(set.id, sizeof set.id, "%s", n->id);
	snprintf(set.reason, sizeof set.reason, "scaled");
	decision_add(list, &set, 0, NULL);
}

static double scale_shares_weight(const struct supervisor *s, const struct sup_node *n)
{
	const struct action *a =
		n->joining_share ? NULL : sup_in_force_find(s, ACTION_ADJUST_BS, n->id);
	return a ? (double)(a->size * a->accum) : NAN;
}

static int add_sizes(struct supervisor *s, struct decision *list, struct error *err)
{
	size_t count = sup_count(s, sup_trainers(s)), i = 0;
	double *weight = calloc(count + 1, sizeof *weight);
	uint64_t *size = calloc(count + 1, sizeof *size);
	int result = weight && size ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	EACH_OF (n, s, sup_trainers(s))
		if (result == 0)
			weight[i++] = scale_shares_weight(s, n);
	if (result == 0)
		batch_scaled(weight, count, sup_scale_batch(s), s->job->options.least, size);
	i = 0;
	EACH_OF (n, s, sup_trainers(s))
		if (result == 0)
			set_size(s, list, n, size[i++]);
	free(weight);
	free(size);
	return result;
}

/* Counts of documents have no rate. */
static void add_rates(struct supervisor *s, struct decision *list)
{
	if (job_has_documents(s->job))
		return;
	EACH_OF (n, s, sup_trainers(s)) {
		struct action set = {.kind = ACTION_ADJUST_LR, .scale = sup_scale_rate_factor(s)};
		snprintf(set.id, sizeof set.id, "%s", n->id);
		snprintf(set.reason, sizeof set.reason, "scaled");
		decision_add(list, &set, 0, NULL);
	}
}

/* There are fewer backup workers than workers, so that each barrier waits for at least one. */
static void add_backup(struct supervisor *s, struct decision *list)
{
	const struct action *a = sup_in_force_find(s, ACTION_BACKUP_WORKERS, "");
	if (!a || a->count < s->scale.now.workers)
		return;
	struct action set = {.kind = ACTION_BACKUP_WORKERS, .count = s->scale.now.workers - 1};
	snprintf(set.reason, sizeof set.reason, "scaled");
	decision_add(list, &set, 0, NULL);
}

/* No sizes where they are set at every barrier: whoever sets them knows the members. */
void sup_scale_share(struct supervisor *s)
{
	struct decision list = {0};
	struct error err;
	int result = 0;
	if (!sup_lead(s))
		return;
	add_backup(s, &list);
	if (!job_balance(s->job))
		result = add_sizes(s, &list, &err);
	if (!keeps_batch(s))
		add_rates(s, &list);
	EACH_OF (n, s, sup_trainers(s))
		n->joining_share = 0;
	if (result == 0 && list.count > 0)
		result = sup_actions_carry(s, &list, "scale", NULL, &err);
	if (result < 0)
		sup_note(s, "warning", "workers do not get their shares: %s", err.text);
	decision_free(&list);
}

void sup_scale_put_rates(struct supervisor *s)
{
	struct decision list = {0};
	char line[RECORD_LINE_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	add_rates(s, &list);
	for (size_t i = 0; out && i < list.count; i++) {
		action_format(&list.item[i], line, sizeof line);
		fputs(line, out);
	}
	if (out && fclose(out) == 0)
		sup_in_force_take(s, text);
	free(text);
	decision_free(&list);
}
