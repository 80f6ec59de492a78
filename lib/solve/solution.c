/*
 * solution: see solution.h. The table of built-in solutions, their options, and the action record.
 * Nothing here may keep state between two decisions.
 */
#include "solve/solution.h"

#include "base/number.h"
#include "solve/rules.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_word[] = {"none", "adjust-bs", "backup-workers", "kill-restart",
					"adjust-lr"};
#define KINDS (sizeof kind_word / sizeof *kind_word)

const char *action_kind_name(enum action_kind kind)
{
	return kind_word[kind];
}

static int parse_role(struct action *a, const struct record *r, struct error *err)
{
	const char *role;
	if (record_text(r, "role", &role, err) != 0)
		return -1;
	if (node_role_of(role, &a->role) != 0)
		return error_set(err, ERROR_DATA, NULL, "role=: '%.80s' is none of worker|server",
				 role);
	return 0;
}

static int parse_id(struct action *a, const struct record *r, struct error *err)
{
	const char *id;
	if (record_id(r, "id", &id, err) != 0)
		return -1;
	memcpy(a->id, id, strlen(id) + 1);
	return 0;
}

static int parse_fields(struct action *a, const struct record *r, struct error *err)
{
	switch (a->kind) {
	case ACTION_NONE:
		return 0;
	case ACTION_ADJUST_BS:
		a->accum = 1;
		if (parse_id(a, r, err) != 0 ||
		    record_u64(r, "size", 0, 1ull << 53, &a->size, err) != 0)
			return -1;
		return record_u64_opt(r, "accum", 1, 1u << 20, &a->accum, err);
	case ACTION_BACKUP_WORKERS:
		return record_u64(r, "count", 0, 1u << 20, &a->count, err);
	case ACTION_KILL_RESTART:
		return parse_role(a, r, err) != 0 || parse_id(a, r, err) != 0 ? -1 : 0;
	case ACTION_ADJUST_LR:
		if (parse_id(a, r, err) != 0)
			return -1;
		return record_real(r, "scale", 0, 1e6, &a->scale, err);
	}
	return error_set(err, ERROR_SOFTWARE, NULL, "unknown kind of action %d", (int)a->kind);
}

int action_parse(struct action *a, const struct record *r, struct error *err)
{
	*a = (struct action){0};
	const char *kind;
	if (!record_is(r, "action"))
		return error_set(err, ERROR_DATA, NULL, "'%.64s' is no action record", r->type);
	if (record_text(r, "kind", &kind, err) != 0)
		return -1;
	size_t k = 0;
	while (k < KINDS && strcmp(kind_word[k], kind) != 0)
		k++;
	if (k == KINDS)
		return error_set(err, ERROR_DATA, NULL,
				 "kind=: '%.80s' is none of none|adjust-bs|backup-workers|"
				 "kill-restart|adjust-lr",
				 kind);
	a->kind = (enum action_kind)k;
	const char *reason = record_get(r, "reason");
	if (!reason)
		reason = r->text ? r->text : "";
	snprintf(a->reason, sizeof a->reason, "%s", reason);
	return parse_fields(a, r, err);
}

size_t action_format(const struct action *a, char *out, size_t out_max)
{
	struct record_out o;
	record_begin(&o, out, out_max, "action");
	record_add(&o, "kind", kind_word[a->kind]);
	switch (a->kind) {
	case ACTION_NONE:
		break;
	case ACTION_ADJUST_BS:
		record_add(&o, "id", a->id);
		record_add_u64(&o, "size", a->size);
		record_add_u64(&o, "accum", a->accum ? a->accum : 1);
		break;
	case ACTION_BACKUP_WORKERS:
		record_add_u64(&o, "count", a->count);
		break;
	case ACTION_KILL_RESTART:
		record_add(&o, "role", node_role_name(a->role));
		record_add(&o, "id", a->id);
		record_add(&o, "reason", a->reason);
		return record_end(&o, NULL);
	case ACTION_ADJUST_LR:
		record_add(&o, "id", a->id);
		record_add_real(&o, "scale", a->scale);
		break;
	}
	return record_end(&o, a->reason);
}

int solution_options_set(struct solution_options *o, const char *assignment, struct error *err)
{
	const char *equals = strchr(assignment, '=');
	if (!equals)
		return error_set(err, ERROR_USAGE, assignment, "is not KEY=VALUE");
	size_t len = (size_t)(equals - assignment);
	char what[32];
	snprintf(what, sizeof what, "%.*s", (int)(len < 24 ? len : 24), assignment);
	if (strcmp(what, "batch") == 0)
		return number_u64(equals + 1, 1, 1ull << 53, &o->batch, what, err);
	if (strcmp(what, "lambda") == 0)
		return number_real(equals + 1, 1, 1e9, &o->lambda, what, err);
	if (strcmp(what, "pending") == 0)
		return number_real(equals + 1, 0, 1e9, &o->pending, what, err);
	return error_set(err, ERROR_USAGE, what,
			 "is no option of a solution: batch, lambda, "
			 "pending");
}

static const struct solution table[] = {
	{"none", "changes nothing", rule_none},
	{"even", "the same batch for every worker that is up or starting", rule_even},
	{NULL, NULL, NULL},
};

const struct solution *solution_table(void)
{
	return table;
}

const struct solution *solution_find(const char *name)
{
	for (const struct solution *row = table; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

int solution_decide(const struct solution *solution, const struct snapshot *s,
		    const struct solution_options *o, action_fn *take, void *arg, struct error *err)
{
	if (snapshot_check(s, err) != 0)
		return -1;
	return solution->decide(s, o, take, arg, err);
}
