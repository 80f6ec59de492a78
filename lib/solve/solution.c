/*
 * solution: see solution.h. The table of built-in solutions, and the action record.
 * Nothing here may keep state between two decisions.
 */
#include "solve/solution.h"

#include "base/number.h"
#include "solve/crew.h"
#include "solve/rules.h"
#include "solve/say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_word[] = {"none", "adjust-bs", "backup-workers", "kill-restart",
					"adjust-lr"};
#define KINDS (sizeof kind_word / sizeof *kind_word)

const char *action_kind_name(enum action_kind kind)
{
	return kind_word[kind];
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
		return record_u64_opt(r, "accum", 1, 1u << 20, &a->accum, err) != 0
			       ? -1
			       : record_u64_opt(r, "batch", 0, 1ull << 53, &a->batch, err);
	case ACTION_BACKUP_WORKERS:
		return record_u64(r, "count", 0, 1u << 20, &a->count, err);
	case ACTION_KILL_RESTART:
		return node_role_in(r, &a->role, err) != 0 || parse_id(a, r, err) != 0 ? -1 : 0;
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
		if (a->batch)
			record_add_u64(&o, "batch", a->batch);
		break;
	case ACTION_BACKUP_WORKERS:
		record_add_u64(&o, "count", a->count);
		break;
	case ACTION_KILL_RESTART:
		record_add(&o, "role", node_role_name(a->role));
		record_add(&o, "id", a->id);
		break;
	case ACTION_ADJUST_LR:
		record_add(&o, "id", a->id);
		record_add_real(&o, "scale", a->scale);
		break;
	}
	if (a->reason[0] || a->kind == ACTION_KILL_RESTART)
		record_add(&o, "reason", a->reason);
	return record_end(&o, NULL);
}

enum solution_sync solution_sync(const struct solution_options *o, const struct snapshot *s)
{
	enum solution_sync sync = o->sync;
	const char *said = snapshot_info_text(s, "sync");
	if (sync == SYNC_UNSAID && (!said || solution_sync_of(said, &sync) != 0))
		sync = SYNC_BSP;
	return sync;
}

uint64_t solution_batch(const struct solution_options *o, const struct snapshot *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; o->batch == 0 && i < s->node_count; i++)
		if (s->node[i].role == NODE_WORKER)
			sum += s->node[i].size;
	return o->batch ? o->batch : sum;
}

double solution_pending(const struct snapshot *s)
{
	return snapshot_info_age(s, "pending") > SOLUTION_PENDING_AGE_MAX
		       ? NAN
		       : snapshot_info_real(s, "pending");
}

int solution_leaves_behind(const struct solution_options *o, const struct snapshot *s)
{
	return solution_sync(o, s) == SYNC_BSP && !(snapshot_info_real(s, "restart-all") > 0) &&
	       !(snapshot_info_real(s, "backup-workers") < 0);
}

int solution_busy(const struct solution_options *o, const struct snapshot *s)
{
	return solution_pending(s) >= o->pending; /* not for NAN */
}

static const struct solution table[] = {
	{"none", "changes nothing", rule_none, 0},
	{"even", "the same batch for every worker that is up or starting", rule_even, 0},
	{"backup:N", "every iteration ends without its N slowest workers", rule_backup, 0},
	{"lb-bsp", "sizes by the newest speeds, at every decision", rule_lb_bsp, 1},
	{"lb-bsp-gpu", "finds sizes by trying, a step an iteration; only at the barriers of a job",
	 rule_lb_bsp_gpu, 0},
	{"antdt-nd", "sizes for nodes that are slow for a while, a restart for those that stay "
		     "slow",
	 rule_antdt_nd, 1},
	{"antdt-dd", "sizes and accumulation steps for devices of several types, once", rule_antdt_dd, 1},
	{"pace", "actions that save more than they cost over the rest of the job", rule_pace, 1},
	{NULL, NULL, NULL, 0},
};

/* A name that ends in ":N" stands for all that have a number there. */
static int solution_matches(const char *row, const char *name, uint64_t *number)
{
	const char *colon = strchr(row, ':');
	size_t len = colon ? (size_t)(colon - row) + 1 : 0;
	if (!colon)
		return strcmp(row, name) == 0;
	return strncmp(row, name, len) == 0 &&
	       number_u64(name + len, 0, 1u << 20, number, NULL, NULL) == 0;
}

const struct solution *solution_table(void)
{
	return table;
}

const struct solution *solution_find(const char *name)
{
	uint64_t number;
	for (const struct solution *row = table; row->name; row++)
		if (solution_matches(row->name, name, &number))
			return row;
	return NULL;
}

void solution_options_name(struct solution_options *o, const char *name)
{
	for (const struct solution *row = table; row->name; row++)
		if (strchr(row->name, ':') && solution_matches(row->name, name, &o->number))
			return;
}

int solution_decide(const struct solution *solution, const struct snapshot *s,
		    const struct solution_options *o, action_fn *take, void *arg, struct error *err)
{
	if (snapshot_check(s, err) != 0)
		return -1;
	double seconds;
	const struct snapshot_node *silent = crew_silent(s, &seconds);
	if (silent && solution->measures && solution_sync(o, s) != SYNC_ASP) {
		struct voice v = {.take = take, .arg = arg, .err = err};
		return say_none(&v,
				"%s has reported nothing for %.3g s: decisions wait until it "
				"reports again or is hung",
				silent->id, seconds);
	}
	return solution->decide(s, o, take, arg, err);
}
