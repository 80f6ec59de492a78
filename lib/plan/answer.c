/* answer: see answer.h. */
#include "plan/answer.h"

#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_empty(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", line[i]))
			return 0;
	return 1;
}

const char *answer_last(const char *output, size_t bytes, size_t *len)
{
	const char *end = output + bytes, *first = output, *last = output;
	int ended = 1; /* the next line that is not empty begins a round */
	for (const char *line = output; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *next = newline ? newline + 1 : end;
		int empty = is_empty(line, (size_t)(next - line));
		if (!empty && ended)
			first = line;
		if (!empty)
			last = next;
		ended = empty;
		line = next;
	}
	*len = last > first ? (size_t)(last - first) : 0;
	return first;
}

static int answer_take_role(const struct record *r, enum plan_role *role, struct error *err)
{
	const char *name;
	if (record_text(r, "role", &name, err) != 0)
		return -1;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (strcmp(name, plan_role_name((enum plan_role)i)) == 0) {
			*role = (enum plan_role)i;
			return 0;
		}
	return error_set(err, ERROR_DATA, NULL, "role=: '%.40s' is neither worker nor server",
			 name);
}

static void answer_take_word(const struct record *r, const char *key, char *out, size_t max)
{
	const char *value = record_get(r, key);
	snprintf(out, max, "%s", value ? value : "");
}

static int answer_take_plan(struct answer *a, const struct record *r, struct error *err)
{
	struct plan_role_size size = {0};
	enum plan_role role = PLAN_WORKER;
	if (answer_take_role(r, &role, err) != 0 ||
	    record_u64(r, "count", 1, PLAN_CORES_MAX, &size.count, err) != 0 ||
	    record_u64(r, "cores", 1, PLAN_CORES_MAX, &size.cores, err) != 0 ||
	    record_u64_opt(r, "mem-bytes", 0, PLAN_BYTES_MAX, &size.bytes, err) != 0)
		return -1;
	if (a->plans[role])
		return error_set(err, ERROR_DATA, NULL, "a second plan for role=%s",
				 plan_role_name(role));
	a->plans[role] = 1;
	a->role[role] = size;
	return 0;
}

static int answer_take_node(struct answer *a, const struct record *r, enum plan_what what,
			    struct error *err)
{
	struct answer_node n = {.what = what};
	const char *id;
	if (answer_take_role(r, &n.role, err) != 0 || record_id(r, "id", &id, err) != 0 ||
	    record_u64_opt(r, "cores", 1, PLAN_CORES_MAX, &n.cores, err) != 0 ||
	    record_u64_opt(r, "mem-bytes", 1, PLAN_BYTES_MAX, &n.bytes, err) != 0 ||
	    record_u64_opt(r, "batch", 1, 1ull << 53, &n.batch, err) != 0)
		return -1;
	if (what == PLAN_REBALANCE && n.role != PLAN_SERVER)
		return error_set(err, ERROR_DATA, NULL, "rebalance: only servers have parameters");
	snprintf(n.id, sizeof n.id, "%s", id);
	answer_take_word(r, "reason", n.reason, sizeof n.reason);
	if (GROW(a->node, a->room, a->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for an answer");
	a->node[a->count++] = n;
	return 0;
}

static int answer_take_decision(struct answer *a, const struct record *r, struct error *err)
{
	answer_take_word(r, "reason", a->reason, sizeof a->reason);
	answer_take_word(r, "method", a->method, sizeof a->method);
	answer_take_word(r, "data", a->data, sizeof a->data);
	if (record_real_opt(r, "expected", 0, 1e300, &a->expected, err) != 0 ||
	    record_real_opt(r, "confidence", 0, 1, &a->confidence, err) != 0)
		return -1;
	return 0;
}

static int answer_take(struct answer *a, const struct record *r, struct error *err)
{
	if (record_is(r, "fit"))
		return 0;
	if (record_is(r, "plan"))
		return answer_take_plan(a, r, err);
	if (record_is(r, "replace"))
		return answer_take_node(a, r, PLAN_REPLACE, err);
	if (record_is(r, "migrate"))
		return answer_take_node(a, r, PLAN_MIGRATE, err);
	if (record_is(r, "rebalance"))
		return answer_take_node(a, r, PLAN_REBALANCE, err);
	if (record_is(r, "decision"))
		return answer_take_decision(a, r, err);
	return error_set(err, ERROR_DATA, NULL,
			 "'%.40s' is none of fit, plan, replace, migrate, rebalance, decision", r->type);
}

int answer_parse(struct answer *a, const char *text, size_t len, struct error *err)
{
	struct record_walk walk = record_walk(text, len);
	struct record r;
	int got;
	char why[sizeof err->text];
	answer_clear(a);
	while ((got = record_next(&walk, &r, err)) == RECORD_ONE)
		if (answer_take(a, &r, err) != 0)
			break;
	if (got == RECORD_END)
		return 0;
	memcpy(why, err->text, sizeof why);
	return error_set(err, err->code, NULL, "line %llu: %.900s", (unsigned long long)walk.number,
			 why);
}

void answer_clear(struct answer *a)
{
	free(a->node);
	*a = (struct answer){.expected = NAN, .confidence = NAN};
}

int answer_changes(const struct answer *a)
{
	return a->count > 0 || a->plans[PLAN_WORKER] || a->plans[PLAN_SERVER];
}
