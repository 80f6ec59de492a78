/* want: see want.h. */
#include "plan/want.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COST_SECONDS 2.0         /* assumed of a change, before one was measured */
#define BYTES_MIN (128ull << 20) /* the least for a node: even an idle program needs some */

/* The most that was in use says little about later use. */
static uint64_t want_bytes(const struct plan_role_size *planned, const struct plan_role_size *now,
			   int limits_memory)
{
	if (!limits_memory || planned->bytes == 0)
		return now->bytes;
	return planned->bytes > BYTES_MIN ? planned->bytes : BYTES_MIN;
}

void want_of(struct want *w, const struct answer *a, const struct plan_role_size now[PLAN_ROLES],
	     const struct want_rules *rules)
{
	*w = (struct want){0};
	for (int i = 0; i < PLAN_ROLES; i++) {
		w->now[i] = now[i];
		w->role[i] = a->plans[i] ? a->role[i] : now[i];
		if (w->role[i].count > rules->most[i])
			w->role[i].count = rules->most[i];
		w->role[i].bytes = want_bytes(&w->role[i], &now[i], rules->limits_memory);
		w->counts |= w->role[i].count != now[i].count;
		w->sizes |= w->role[i].cores != now[i].cores;
	}
}

static uint64_t want_cores(const struct plan_role_size role[PLAN_ROLES])
{
	uint64_t sum = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		sum += role[i].count * role[i].cores;
	return sum;
}

/* As many as the nodes have now are fine, because a job may begin with more. */
int want_is_beyond(const struct want *w, const struct want_rules *rules, char *why, size_t max)
{
	for (int i = 0; i < PLAN_ROLES; i++)
		if (w->role[i].cores > rules->node_cores && w->role[i].cores > w->now[i].cores) {
			snprintf(why, max, "it plans %llu cores for a %s, and BRAIN node-cores is %llu",
				 (unsigned long long)w->role[i].cores, plan_role_name((enum plan_role)i),
				 (unsigned long long)rules->node_cores);
			return 1;
		}
	if (want_cores(w->role) <= rules->cores || want_cores(w->role) <= want_cores(w->now))
		return 0;
	snprintf(why, max, "it plans %llu cores in all, and BRAIN cores is %llu",
		 (unsigned long long)want_cores(w->role), (unsigned long long)rules->cores);
	return 1;
}

int want_anything(const struct want *w, const struct answer *a)
{
	return answer_changes(a) && (w->counts || w->sizes || a->count > 0);
}

/* Every brain has to wait for BRAIN every, unless nodes need more memory. */
const char *want_refusal(const struct want *w, const struct answer *a, int is_spent, int is_too_early)
{
	if (is_spent)
		return "limit";
	if ((w->counts || w->sizes) && is_too_early && strcmp(a->reason, "oom") != 0)
		return "every";
	return NULL;
}

const char *want_node_refusal(const struct answer_node *k, double cores, uint64_t memory, uint64_t node_cores)
{
	if (k->what != PLAN_REPLACE)
		return NULL;
	if (k->cores > node_cores && (double)k->cores > cores)
		return "BRAIN node-cores are fewer";
	if ((k->cores == 0 || (double)k->cores == cores) && (k->bytes == 0 || k->bytes == memory))
		return "it has as much already";
	return NULL;
}

double want_changed(struct want_past *past, double took, double samples, double before, double now)
{
	double cost = before > 0 && samples >= 0 ? fmax(took - samples / before, 0) : NAN;
	past->changes++;
	past->changed = now;
	if (!isnan(cost)) {
		past->cost_sum += cost;
		past->costs++;
	}
	return cost;
}

double want_cost_of_change(const struct want_past *past, double start)
{
	if (past->costs > 0)
		return past->cost_sum / (double)past->costs;
	return isnan(start) ? COST_SECONDS : start;
}

void want_text(const struct want *w, const struct answer *a, char *out, size_t max)
{
	static const char *const whats[] = {"another process for", "another machine for",
					    "parameters shared out anew, because of"};
	const struct plan_role_size *n = &w->role[PLAN_WORKER], *p = &w->role[PLAN_SERVER];
	if (w->counts || w->sizes)
		snprintf(out, max, "%llu worker%s of %llu core%s, %llu server%s of %llu: %s",
			 (unsigned long long)n->count, n->count == 1 ? "" : "s",
			 (unsigned long long)n->cores, n->cores == 1 ? "" : "s",
			 (unsigned long long)p->count, p->count == 1 ? "" : "s",
			 (unsigned long long)p->cores, a->reason);
	else
		snprintf(out, max, "%s %s: %s", whats[a->node[0].what], a->node[0].id, a->node[0].reason);
}

/* ---- the log ---- */

void want_lines(const char *text, size_t len, void (*put)(const char *line, size_t len, void *arg), void *arg)
{
	struct record_walk walk = record_walk(text, len);
	struct record r;
	int got;
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END) {
		char type[64];
		if (got != RECORD_ONE)
			continue;
		snprintf(type, sizeof type, WANT_TYPES "%.50s", r.type);
		struct record_out *o = RECORD_BARE(type);
		record_add_fields(o, &r, NULL);
		size_t bytes = record_end(o, NULL);
		if (bytes > 0)
			put(o->data, bytes, arg);
	}
}

void want_add_size(struct record_out *o, const char *prefix, enum plan_role role,
		   const struct plan_role_size *size)
{
	char key[64];
	snprintf(key, sizeof key, "%s%ss", prefix, plan_role_name(role));
	record_add_u64(o, key, size->count);
	snprintf(key, sizeof key, "%s%s-cores", prefix, plan_role_name(role));
	record_add_u64(o, key, size->cores);
}

void want_add_known(struct record_out *o, const struct plan_role_size now[PLAN_ROLES],
		    const struct want_past *past)
{
	for (int i = 0; i < PLAN_ROLES; i++)
		want_add_size(o, "", (enum plan_role)i, &now[i]);
	record_add_u64(o, "changes", past->changes);
	record_add_seconds(o, "changed", past->changed);
	record_add_seconds(o, "cost-sum", past->cost_sum);
	record_add_u64(o, "costs", past->costs);
}

void want_add_done(struct record_out *o, const struct answer *a, const struct want *w, const char *refused,
		   double rate, uint64_t batch)
{
	int changes = answer_changes(a);
	record_add(o, "change", changes && !refused ? "yes" : "no");
	record_add(o, "reason", a->reason);
	record_add(o, "method", a->method);
	if (refused)
		record_add(o, "refused", refused);
	for (int i = 0; changes && i < PLAN_ROLES; i++) {
		want_add_size(o, "had-", (enum plan_role)i, &w->now[i]);
		want_add_size(o, "", (enum plan_role)i, &w->role[i]);
	}
	if (changes && a->count > 0) {
		record_add(o, "id", a->node[0].id);
		record_add(o, "what", plan_what_name(a->node[0].what));
		record_add_u64(o, "nodes", a->count);
	}
	record_add_brief(o, "now", rate * (double)batch);
	record_add_brief(o, "expected", a->expected * (double)batch);
	record_add_brief(o, "confidence", a->confidence);
}
