/*
 * snapshot: see snapshot.h. Records in, a struct out; it must never judge what the numbers mean,
 * that is for solutions.
 */
#include "solve/snapshot.h"

#include "base/grow.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX (1ull << 53) /* what a double holds exactly */

void snapshot_init(struct snapshot *s)
{
	*s = (struct snapshot){0};
}

void snapshot_clear(struct snapshot *s)
{
	free(s->node);
	free(s->info);
	snapshot_init(s);
}

/* The monitor writes an empty value where nothing was measured; a key left out means the same. */
static int real_or_nan(const struct record *r, const char *key, double *out, struct error *err)
{
	const char *value = record_get(r, key);
	*out = NAN;
	if (!value || !value[0])
		return 0;
	return record_real(r, key, 0, 1e18, out, err);
}

static int count_or_zero(const struct record *r, const char *key, uint64_t max, uint64_t *out,
			 struct error *err)
{
	const char *value = record_get(r, key);
	*out = 0;
	if (!value || !value[0])
		return 0;
	return record_u64(r, key, 0, max, out, err);
}

static int add_job(struct snapshot *s, const struct record *r, struct error *err)
{
	if (s->has_job)
		return error_set(err, ERROR_DATA, NULL, "a second job record: one snapshot only");
	if (record_real(r, "at", 0, 1e12, &s->at, err) != 0 ||
	    record_u64(r, "workers", 0, COUNT_MAX, &s->workers, err) != 0 ||
	    record_u64(r, "servers", 0, COUNT_MAX, &s->servers, err) != 0 ||
	    record_real(r, "short", 0, 1e12, &s->window_short, err) != 0 ||
	    record_real(r, "long", 0, 1e12, &s->window_long, err) != 0 ||
	    count_or_zero(r, "iter", COUNT_MAX, &s->iter, err) != 0)
		return -1;
	s->has_job = 1;
	s->job_line = s->line;
	return 0;
}

/* A measured number may be a real; half a sample does not count. */
static int samples_or_zero(const struct record *r, const char *key, uint64_t *out,
			   struct error *err)
{
	const char *value = record_get(r, key);
	double samples = 0;
	*out = 0;
	if (!value || !value[0])
		return 0;
	if (record_real(r, key, 0, (double)NODE_SIZE_MAX, &samples, err) != 0)
		return -1;
	*out = (uint64_t)samples;
	return 0;
}

static int parse_device(struct snapshot_node *n, const struct record *r, struct error *err)
{
	const char *type = record_get(r, "type");
	if (type && strlen(type) >= sizeof n->type)
		return error_set(err, ERROR_DATA, NULL, "type=: longer than %zu bytes",
				 sizeof n->type - 1);
	memset(n->type, 0, sizeof n->type);
	if (type)
		memcpy(n->type, type, strlen(type));
	return real_or_nan(r, "launch", &n->launch, err) != 0 ||
			       real_or_nan(r, "device-speed", &n->device_speed, err) != 0 ||
			       samples_or_zero(r, "saturation", &n->saturation, err) != 0 ||
			       samples_or_zero(r, "max", &n->max, err) != 0 ||
			       real_or_nan(r, "cpu", &n->cpu, err) != 0 ||
			       real_or_nan(r, "mem", &n->mem, err) != 0
		       ? -1
		       : 0;
}

/* Where its time went, in its last report and in all, and how busy its machine was. */
static int parse_load(struct snapshot_node *n, const struct record *r, struct error *err)
{
	const struct {
		const char *key;
		double *at;
	} numbers[] = {{"compute", &n->compute},
		       {"comm", &n->comm},
		       {"wait", &n->wait},
		       {"psi-cpu", &n->psi_cpu},
		       {"psi-mem", &n->psi_mem},
		       {"throttled", &n->throttled},
		       {"own-cpu", &n->own_cpu},
		       {"own-mem", &n->own_mem},
		       {"batches", &n->total.batches},
		       {"time-sum", &n->total.time},
		       {"compute-sum", &n->total.compute},
		       {"comm-sum", &n->total.comm},
		       {"wait-sum", &n->total.wait}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (real_or_nan(r, numbers[i].key, numbers[i].at, err) != 0)
			return -1;
	return 0;
}

static int snapshot_parse_node(struct snapshot_node *n, const struct record *r, struct error *err)
{
	const char *id, *state;
	if (node_name_in(r, &n->role, &id, err) != 0 ||
	    record_text(r, "state", &state, err) != 0)
		return -1;
	if (node_state_of(state, &n->state) != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "state=: '%.80s' is none of starting|up|hung|down", state);
	memcpy(n->id, id, strlen(id) + 1);
	if (count_or_zero(r, "size", NODE_SIZE_MAX, &n->size, err) != 0 ||
	    real_or_nan(r, "short", &n->mean_short, err) != 0 ||
	    real_or_nan(r, "long", &n->mean_long, err) != 0 ||
	    real_or_nan(r, "speed-short", &n->speed_short, err) != 0 ||
	    real_or_nan(r, "speed-long", &n->speed_long, err) != 0 ||
	    real_or_nan(r, "ratio-short", &n->ratio_short, err) != 0 ||
	    real_or_nan(r, "ratio-long", &n->ratio_long, err) != 0 ||
	    count_or_zero(r, "samples", COUNT_MAX, &n->samples, err) != 0 ||
	    count_or_zero(r, "restarts", COUNT_MAX, &n->restarts, err) != 0 ||
	    real_or_nan(r, "up", &n->up, err) != 0 ||
	    count_or_zero(r, "accum", COUNT_MAX, &n->accum, err) != 0 ||
	    real_or_nan(r, "last", &n->last, err) != 0 ||
	    real_or_nan(r, "silent", &n->silent, err) != 0 ||
	    real_or_nan(r, "speed-last", &n->speed_last, err) != 0 || parse_device(n, r, err) != 0 ||
	    parse_load(n, r, err) != 0)
		return -1;
	if (isnan(n->up))
		n->up = 0;
	n->meant = n->restarts;
	return record_u64_opt(r, "meant", 0, COUNT_MAX, &n->meant, err);
}

static int parse_info(struct snapshot_info *info, const struct record *r, struct error *err)
{
	const char *name, *value;
	if (record_id(r, "name", &name, err) != 0 || record_text(r, "value", &value, err) != 0 ||
	    real_or_nan(r, "age", &info->age, err) != 0)
		return -1;
	if (strlen(value) >= sizeof info->value)
		return error_set(err, ERROR_DATA, NULL, "value=: longer than %zu bytes",
				 sizeof info->value - 1);
	memcpy(info->name, name, strlen(name) + 1);
	memcpy(info->value, value, strlen(value) + 1);
	return 0;
}

int snapshot_add(struct snapshot *s, const struct record *r, struct error *err)
{
	if (record_is(r, "job"))
		return add_job(s, r, err);
	if (record_is(r, "node")) {
		if (GROW(s->node, s->node_room, s->node_count + 1) != 0)
			return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes",
					 s->node_count);
		if (snapshot_parse_node(&s->node[s->node_count], r, err) != 0)
			return -1;
		s->node[s->node_count].line = s->line;
		s->node_count++;
	} else if (record_is(r, "info")) {
		if (GROW(s->info, s->info_room, s->info_count + 1) != 0)
			return error_set(err, ERROR_OS, NULL, "out of memory for %zu infos",
					 s->info_count);
		if (parse_info(&s->info[s->info_count], r, err) != 0)
			return -1;
		s->info[s->info_count].line = s->line;
		s->info_count++;
	}
	return 0;
}

static int snapshot_compare_names(const struct snapshot_node *p, const struct snapshot_node *q)
{
	return p->role != q->role ? (p->role < q->role ? -1 : 1) : strcmp(p->id, q->id);
}

static int compare_nodes(const void *a, const void *b)
{
	const struct snapshot_node *p = *(const struct snapshot_node *const *)a;
	const struct snapshot_node *q = *(const struct snapshot_node *const *)b;
	int order = snapshot_compare_names(p, q);
	return order != 0 ? order : (p->line > q->line) - (p->line < q->line);
}

/* " (line 3)", or nothing where lines are not known. */
static const char *snapshot_at_line(uint64_t line, char text[40])
{
	text[0] = '\0';
	if (line > 0)
		snprintf(text, 40, " (line %llu)", (unsigned long long)line);
	return text;
}

/* As a monitor puts them; then none is there twice. */
static int snapshot_is_in_order(const struct snapshot *s)
{
	for (size_t i = 1; i < s->node_count; i++) {
		const struct snapshot_node *p = &s->node[i - 1], *q = &s->node[i];
		if (p->role > q->role || (p->role == q->role && node_id_compare(p->id, q->id) >= 0))
			return 0;
	}
	return 1;
}

static int snapshot_check_twice(const struct snapshot *s, struct error *err)
{
	if (snapshot_is_in_order(s))
		return 0;
	const struct snapshot_node **sorted = reallocarray(NULL, s->node_count + 1, sizeof *sorted);
	if (!sorted)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", s->node_count);
	for (size_t i = 0; i < s->node_count; i++)
		sorted[i] = &s->node[i];
	qsort(sorted, s->node_count, sizeof *sorted, compare_nodes);
	int result = 0;
	for (size_t i = 1; i < s->node_count && result == 0; i++)
		if (snapshot_compare_names(sorted[i - 1], sorted[i]) == 0) {
			char line[40];
			result = error_set(err, ERROR_DATA, NULL,
					   "snapshot: node role=%s id=%s appears twice%s",
					   node_role_name(sorted[i]->role), sorted[i]->id,
					   snapshot_at_line(sorted[i]->line, line));
		}
	free(sorted);
	return result;
}

int snapshot_check(const struct snapshot *s, struct error *err)
{
	if (!s->has_job)
		return error_set(err, ERROR_DATA, NULL, "snapshot: no job record");
	uint64_t count[NODE_ROLES] = {0};
	for (size_t i = 0; i < s->node_count; i++)
		count[s->node[i].role]++;
	char line[40];
	if (count[NODE_WORKER] != s->workers || count[NODE_SERVER] != s->servers)
		return error_set(err, ERROR_DATA, NULL,
				 "snapshot: job%s says workers=%llu servers=%llu, but there are "
				 "%llu and %llu node records",
				 snapshot_at_line(s->job_line, line),
				 (unsigned long long)s->workers, (unsigned long long)s->servers,
				 (unsigned long long)count[NODE_WORKER],
				 (unsigned long long)count[NODE_SERVER]);
	return snapshot_check_twice(s, err);
}

int snapshot_known(double measured)
{
	return isfinite(measured) && measured > 0;
}

static const struct snapshot_info *find_info(const struct snapshot *s, const char *name)
{
	for (size_t i = 0; i < s->info_count; i++)
		if (strcmp(s->info[i].name, name) == 0)
			return &s->info[i];
	return NULL;
}

const char *snapshot_info_text(const struct snapshot *s, const char *name)
{
	const struct snapshot_info *info = find_info(s, name);
	return info ? info->value : NULL;
}

double snapshot_info_age(const struct snapshot *s, const char *name)
{
	const struct snapshot_info *info = find_info(s, name);
	return info ? info->age : NAN;
}

double snapshot_info_real(const struct snapshot *s, const char *name)
{
	const char *text = snapshot_info_text(s, name);
	double value;
	if (!text || number_real(text, -1e300, 1e300, &value, NULL, NULL) != 0)
		return NAN;
	return value;
}

const struct snapshot_info *snapshot_info_wrong(const struct snapshot *s, size_t *at)
{
	static const char *const numbers[] = {"samples-left",   "rate",           "backup-workers",
					      "restart-worker", "restart-server", "restart-all",
					      "pending"};
	for (; *at < s->info_count; (*at)++)
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			if (strcmp(s->info[*at].name, numbers[i]) == 0 &&
			    isnan(snapshot_info_real(s, numbers[i])))
				return &s->info[(*at)++];
	return NULL;
}
