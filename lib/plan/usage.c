/* usage: see usage.h. */
#include "plan/usage.h"

#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 1e9
#define AT_MAX 1e12
#define RATE_MAX 1e12
#define SAMPLES_MAX 1e18

const char *plan_role_name(enum plan_role role)
{
	return role == PLAN_SERVER ? "server" : "worker";
}

static const char *const stages[] = {"auto", "sample", "optimize", "adjust"};

int plan_stage_of(const char *name, enum plan_stage *out)
{
	for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
		if (strcmp(name, stages[i]) == 0) {
			*out = (enum plan_stage)i;
			return 0;
		}
	return -1;
}

static int take_stage(struct usage *u, const struct record *r, struct error *err)
{
	const char *name = record_get(r, "stage");
	u->has_stage = name != NULL;
	if (name && plan_stage_of(name, &u->stage) != 0)
		return error_set(err, ERROR_DATA, NULL, "stage=: '%.40s' is none of " PLAN_STAGES,
				 name);
	return 0;
}

static int usage_take_name(const struct record *r, const char *key, char *to, size_t room,
			   struct error *err)
{
	const char *value = record_get(r, key);
	to[0] = '\0';
	if (!value)
		return 0;
	if (strlen(value) >= room)
		return error_set(err, ERROR_DATA, NULL, "%s= is longer than %zu bytes", key,
				 room - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

int plan_take_names(struct plan_names *n, const struct record *r, struct error *err)
{
	if (usage_take_name(r, "user", n->user, sizeof n->user, err) != 0 ||
	    usage_take_name(r, "data", n->data, sizeof n->data, err) != 0)
		return -1;
	return usage_take_name(r, "model", n->model, sizeof n->model, err);
}

static int take_phases(struct usage *u, const struct record *r, struct error *err)
{
	u->io = u->compute = u->update = NAN;
	if (record_real_opt(r, "io-time", 0, SECONDS_MAX, &u->io, err) != 0 ||
	    record_real_opt(r, "compute-time", 0, SECONDS_MAX, &u->compute, err) != 0 ||
	    record_real_opt(r, "update-time", 0, SECONDS_MAX, &u->update, err) != 0)
		return -1;
	int said = !isnan(u->io) + !isnan(u->compute) + !isnan(u->update);
	if (said != 0 && said != 3)
		return error_set(err, ERROR_DATA, NULL,
				 "io-time=, compute-time= and update-time= go together: say all "
				 "three or none");
	return 0;
}

int usage_take_job(struct usage *u, const struct record *r, struct error *err)
{
	if (u->has_job)
		return error_set(err, ERROR_DATA, NULL,
				 "a second job record in one round; an empty line ends a round");
	uint64_t rebalance = 0;
	u->rate = 0;
	u->samples = u->left = u->at = u->changed = NAN;
	if (record_u64(r, "batch", 1, 1ull << 53, &u->batch, err) != 0 ||
	    record_real_opt(r, "steps-per-second", 0, RATE_MAX, &u->rate, err) != 0 ||
	    record_real_opt(r, "samples", 0, SAMPLES_MAX, &u->samples, err) != 0 ||
	    record_real_opt(r, "left", 0, SAMPLES_MAX, &u->left, err) != 0 ||
	    record_real_opt(r, "at", 0, AT_MAX, &u->at, err) != 0 ||
	    record_real_opt(r, "changed", 0, AT_MAX, &u->changed, err) != 0 ||
	    record_u64_opt(r, "rebalance", 0, 1, &rebalance, err) != 0 ||
	    plan_take_names(&u->names, r, err) != 0 || take_stage(u, r, err) != 0 ||
	    take_phases(u, r, err) != 0)
		return -1;
	u->can_rebalance = rebalance != 0;
	u->has_job = 1;
	return 0;
}

static int usage_parse_node(struct usage_node *n, const struct record *r, struct error *err)
{
	const char *role, *id;
	uint64_t oom = 0;
	*n = (struct usage_node){.time = NAN};
	if (record_text(r, "role", &role, err) != 0 || record_id(r, "id", &id, err) != 0 ||
	    record_real(r, "cores", 0.01, PLAN_CORES_MAX, &n->cores, err) != 0 ||
	    record_real_opt(r, "used", 0, PLAN_CORES_MAX, &n->used, err) != 0 ||
	    record_u64_opt(r, "mem-bytes", 0, PLAN_BYTES_MAX, &n->bytes, err) != 0 ||
	    record_u64_opt(r, "used-bytes", 0, PLAN_BYTES_MAX, &n->used_bytes, err) != 0 ||
	    record_real_opt(r, "time", 1e-9, SECONDS_MAX, &n->time, err) != 0 ||
	    record_u64_opt(r, "oom", 0, 1, &oom, err) != 0)
		return -1;
	if (strcmp(role, "worker") == 0)
		n->role = PLAN_WORKER;
	else if (strcmp(role, "server") == 0)
		n->role = PLAN_SERVER;
	else
		return error_set(err, ERROR_DATA, NULL,
				 "role=: '%.40s' is neither worker nor server", role);
	snprintf(n->id, sizeof n->id, "%s", id);
	n->oom = (int)oom;
	return 0;
}

int usage_take_node(struct usage *u, const struct record *r, struct error *err)
{
	struct usage_node n;
	if (usage_parse_node(&n, r, err) != 0)
		return -1;
	if (GROW(u->node, u->room, u->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a node");
	int added = idset_add(&u->ids[n.role], n.id, err);
	if (added == 0)
		return error_set(err, ERROR_DATA, NULL, "%s id=%s appears twice in one round",
				 plan_role_name(n.role), n.id);
	if (added < 0)
		return -1;
	struct usage_role *role = &u->role[n.role];
	role->count++;
	role->cores += n.cores;
	role->used += n.used;
	if (n.bytes > role->bytes)
		role->bytes = n.bytes;
	if (n.used_bytes > role->used_bytes)
		role->used_bytes = n.used_bytes;
	if (role->used_bytes_sum < PLAN_BYTES_MAX)
		role->used_bytes_sum += n.used_bytes;
	u->node[u->count++] = n;
	return 0;
}

void usage_begin(struct usage *u)
{
	u->has_job = 0;
	u->count = 0;
	memset(u->role, 0, sizeof u->role);
	for (int i = 0; i < PLAN_ROLES; i++)
		idset_clear(&u->ids[i]);
}

void usage_clear(struct usage *u)
{
	usage_begin(u);
	free(u->node);
	*u = (struct usage){0};
}
