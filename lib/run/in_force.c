/* in_force: see in_force.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in force ---- */

#define EACH_FORCED(f, force) \
	for (struct sup_forced *f = (force)->first, *f##_next; f && (f##_next = f->hh.next, 1); \
	     f = f##_next)

static struct sup_forced *in_force_find(const struct sup_in_force *force, enum action_kind kind,
					const char *id, char key[sizeof force->first->key])
{
	struct sup_forced *f;
	snprintf(key, sizeof force->first->key, "%d %s", (int)kind,
		 kind == ACTION_BACKUP_WORKERS ? "" : id);
	HASH_FIND_STR(force->first, key, f);
	return f;
}

const struct action *sup_in_force_find(const struct supervisor *s, enum action_kind kind,
				       const char *id)
{
	char key[sizeof s->in_force.first->key];
	const struct sup_forced *f = in_force_find(&s->in_force, kind, id, key);
	return f ? &f->action : NULL;
}

static void in_force_drop(struct sup_in_force *f, struct sup_forced *have)
{
	HASH_DEL(f->first, have);
	free(have);
	f->count--;
}

/* Of each kind (and id) the last action is in force. */
static int in_force_put(struct sup_in_force *f, const struct action *a)
{
	char key[sizeof f->first->key];
	struct sup_forced *have = in_force_find(f, a->kind, a->id, key);
	if (have) {
		have->action = *a;
		return 0;
	}
	have = calloc(1, sizeof *have);
	if (!have)
		return -1;
	memcpy(have->key, key, sizeof have->key);
	have->action = *a;
	HASH_ADD_STR(f->first, key, have);
	if (hash_lacks(have)) {
		free(have);
		return -1;
	}
	f->count++;
	return 0;
}

uint64_t sup_lead_life(const struct supervisor *s)
{
	const struct sup_node *lead = sup_lead(s);
	/* A standby that leads now does not know it. */
	return lead && (lead->role == &role_lead || strcmp(s->job->standby, "on") == 0)
		       ? lead->now.life
		       : 0;
}

void sup_in_force_take(struct supervisor *s, const char *lines)
{
	struct record_walk walk = record_walk(lines, strlen(lines));
	struct record r;
	struct action a;
	int got;
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END)
		if (got == RECORD_ONE && action_parse(&a, &r, NULL) == 0)
			in_force_put(&s->in_force, &a);
	s->in_force.incarnation = s->recover.incarnation;
	s->in_force.life = sup_lead_life(s);
	sup_in_force_changed(s);
}

void sup_in_force_drop(struct supervisor *s, const char *id)
{
	struct sup_in_force *f = &s->in_force;
	static const enum action_kind kinds[] = {ACTION_ADJUST_BS, ACTION_ADJUST_LR};
	char key[sizeof f->first->key];
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct sup_forced *have = in_force_find(f, kinds[i], id, key);
		if (have) {
			in_force_drop(f, have);
			sup_in_force_changed(s);
		}
	}
}

char *sup_in_force_lines(const struct supervisor *s)
{
	char line[RECORD_LINE_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = s->in_force.count > 0 ? grow_stream(&text, &len) : NULL;
	if (!out)
		return NULL;
	EACH_FORCED (f, &s->in_force) {
		action_format(&f->action, line, sizeof line);
		fputs(line, out);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- its lines ---- */

static void print_hosts(const struct supervisor *s, FILE *out)
{
	for (size_t i = 0; i < s->hosts.count; i++) {
		const struct sup_host *h = &s->hosts.host[i];
		int is_avoided = sup_host_is_avoided(h);
		int leaves_by = h->use == HOST_LEAVES && h->leave_by > 0;
		if (h->state == HOST_NONE || (i == 0 && !is_avoided && !leaves_by))
			continue;
		struct record_out *o = RECORD(
			"host", F("name", h->place->host), F("gone", h->state == HOST_GONE),
			F("world", h->in_world),
			is_avoided ? F_SECONDS("avoided", clock_epoch() + h->avoided - clock_mono())
				   : F_NONE,
			leaves_by
				? F_SECONDS("leave-by", clock_epoch() + h->leave_by - clock_mono())
				: F_NONE);
		if (sup_is_more_host(h))
			sup_more_print(h, o);
		record_print(out, o);
	}
	EACH_NODE (n, s) {
		if (n->at == n->home)
			continue;
		record_print(out, RECORD("placed", F("id", n->id), F("host", n->place.host)));
	}
}

/* Whether it may use something else than the job says. *first is what the job says. */
static int is_sized(const struct sup_node *n, struct limits *first)
{
	*first = n->role->limits ? n->role->limits(n->sup->job) : (struct limits){0};
	return n->cores != first->cores || n->memory != first->memory;
}

static int has_sizes(const struct supervisor *s)
{
	struct limits first;
	EACH_NODE (n, s)
		if (is_sized(n, &first) || n->oom.steps > 0)
			return 1;
	return 0;
}

static void in_force_print_sizes(const struct supervisor *s, FILE *out)
{
	EACH_NODE (n, s) {
		struct limits first;
		if (!is_sized(n, &first))
			continue;
		record_print(out, RECORD("size", F("id", n->id), F_REAL("cores", n->cores),
					 F("memory", n->memory), F_REAL("job-cores", first.cores),
					 F("job-memory", first.memory)));
	}
}

static void print_steps(const struct supervisor *s, FILE *out)
{
	EACH_NODE (n, s) {
		if (n->oom.steps == 0)
			continue;
		record_print(out, RECORD("oom", F("id", n->id), F("steps", n->oom.steps)));
	}
}

static void in_force_print(const struct supervisor *s, FILE *out)
{
	char *lines = sup_in_force_lines(s);
	record_print(out, RECORD("force", F("incarnation", s->in_force.incarnation),
				 F("life", s->in_force.life),
				 F("batch", s->job->batch)));
	fputs(lines ? lines : "", out);
	free(lines);
	print_hosts(s, out);
	sup_spares_print(s, out);
	in_force_print_sizes(s, out);
	print_steps(s, out);
	sup_brain_print(s, out);
	EACH_NODE (n, s) {
		if (n->restart.past.count == 0)
			continue;
		record_print(out, RECORD("heavy", F("id", n->id), F("count", n->restart.past.count),
					 F_SECONDS("at", n->restart.past.last)));
	}
}

void sup_in_force_changed(struct supervisor *s)
{
	s->in_force.changed = 1;
	sup_kick(s);
}

/* If it can't be kept, the job goes on: only a supervisor after a crash would miss it. */
void sup_in_force_flush(struct supervisor *s)
{
	char *text = NULL;
	size_t len = 0;
	if (!s->in_force.changed)
		return;
	FILE *out = grow_stream(&text, &len);
	if (out)
		in_force_print(s, out);
	if (!out || fclose(out) != 0)
		sup_note(s, "warning", "what is in force is not kept: out of memory");
	else
		sup_keep(s, KEPT_IN_FORCE, text, len);
	s->in_force.changed = 0;
	free(text);
}

/* ---- taking its lines: a host or a node that is no longer in the job is ignored ---- */

static int take_lead(struct supervisor *s, const struct record *r, struct error *err)
{
	s->in_force.batch = s->job->batch;
	if (record_u64(r, "incarnation", 0, UINT64_MAX, &s->in_force.incarnation, err) != 0 ||
	    record_u64_opt(r, "life", 0, UINT64_MAX, &s->in_force.life, err) != 0 ||
	    record_u64_opt(r, "batch", 0, UINT64_MAX, &s->in_force.batch, err) != 0)
		return -1;
	return 0;
}

static int in_force_take_action(struct supervisor *s, const struct record *r, struct error *err)
{
	struct action a;
	if (action_parse(&a, r, err) != 0)
		return -1;
	if (a.kind == ACTION_ADJUST_BS && (job_balance(s->job) || s->in_force.batch != s->job->batch))
		return 0; /* an earlier SOLUTION's, or of another BATCH */
	if (a.kind == ACTION_BACKUP_WORKERS && !job_kind(s->job)->backup)
		return 0; /* this kind of job has none */
	return in_force_put(&s->in_force, &a) == 0
		       ? 0
		       : error_set(err, ERROR_OS, NULL, "out of memory");
}

static int take_host(struct supervisor *s, const struct record *r, struct error *err)
{
	const char *name;
	uint64_t gone, world;
	double avoided = 0, leave_by = 0; /* clock_epoch(): until then */
	if (record_get(r, "more") && sup_more_take(s, r, err) != 0)
		return -1;
	if (record_text(r, "name", &name, err) != 0 ||
	    record_u64(r, "gone", 0, 1, &gone, err) != 0 ||
	    record_u64(r, "world", 0, UINT64_MAX, &world, err) != 0 ||
	    record_real_opt(r, "avoided", 0, 1e300, &avoided, err) != 0 ||
	    record_real_opt(r, "leave-by", 0, 1e300, &leave_by, err) != 0)
		return -1;
	sup_host_restore(s, name, (int)gone, world, avoided - clock_epoch(),
			 leave_by > 0 ? leave_by - clock_epoch() : INFINITY);
	return 0;
}

static int take_placed(struct sup_node *n, const struct record *r, struct error *err)
{
	const char *host;
	if (record_text(r, "host", &host, err) != 0)
		return -1;
	sup_host_placed(n, host);
	return 0;
}

static int in_force_take_place(struct sup_node *n, const struct record *r, struct error *err)
{
	uint64_t is_spare, number;
	if (record_u64(r, "spare", 0, 1, &is_spare, err) != 0 ||
	    record_u64(r, "number", 0, UINT32_MAX, &number, err) != 0)
		return -1;
	sup_spare_restore(n, (int)is_spare, (uint32_t)number);
	return 0;
}

static int take_size(struct sup_node *n, const struct record *r, struct error *err)
{
	struct limits first;
	double cores;
	uint64_t memory;
	if (record_real(r, "cores", 0, 1e9, &cores, err) != 0 ||
	    record_u64(r, "memory", 0, UINT64_MAX, &memory, err) != 0 ||
	    record_real(r, "job-cores", 0, 1e9, &first.cores, err) != 0 ||
	    record_u64(r, "job-memory", 0, UINT64_MAX, &first.memory, err) != 0)
		return -1;
	/* If the job file was changed since, the job file wins. */
	if (first.cores == n->cores && first.memory == n->memory)
		sup_node_sized(n, cores, memory);
	return 0;
}

static int in_force_take_steps(struct sup_node *n, const struct record *r, struct error *err)
{
	return record_u64(r, "steps", 0, UINT64_MAX, &n->oom.steps, err);
}

static int take_restarts(struct sup_node *n, const struct record *r, struct error *err)
{
	struct restart_past past;
	if (record_u64(r, "count", 0, UINT64_MAX, &past.count, err) != 0 ||
	    record_real(r, "at", 0, 1e300, &past.last, err) != 0)
		return -1;
	sup_restart_past(n, past);
	return 0;
}

int sup_in_force_restore(struct supervisor *s, const struct record *r, struct error *err)
{
	static const struct {
		const char *type;
		int (*take)(struct supervisor *s, const struct record *r, struct error *err);
		int (*take_of)(struct sup_node *n, const struct record *r, struct error *err);
	} lines[] = {{"force", take_lead, NULL},
		     {"action", in_force_take_action, NULL},
		     {"host", take_host, NULL},
		     {"placed", NULL, take_placed},
		     {"place", NULL, in_force_take_place},
		     {"size", NULL, take_size},
		     {"oom", NULL, in_force_take_steps},
		     {"heavy", NULL, take_restarts},
		     {"resizing", sup_brain_restore, NULL}};
	size_t i = 0;
	const char *id;
	while (i < sizeof lines / sizeof *lines && !record_is(r, lines[i].type))
		i++;
	if (i == sizeof lines / sizeof *lines)
		return 0;
	if (lines[i].take)
		return lines[i].take(s, r, err);
	if (record_id(r, "id", &id, err) != 0)
		return -1;
	struct sup_node *n = sup_find(s, id);
	return n ? lines[i].take_of(n, r, err) : 0;
}

void sup_in_force_forget(struct supervisor *s)
{
	s->in_force.changed = 0;
	sup_keep(s, KEPT_IN_FORCE, NULL, 0);
	EACH_FORCED (f, &s->in_force)
		in_force_drop(&s->in_force, f);
	s->in_force.incarnation = s->in_force.life = 0;
	sup_spares_forget(s);
	EACH_NODE (n, s)
		sup_restart_past(n, (struct restart_past){0});
	if (has_sizes(s) || s->brain.resizing)
		sup_in_force_changed(s);
}

void sup_in_force_free(struct supervisor *s)
{
	EACH_FORCED (f, &s->in_force)
		in_force_drop(&s->in_force, f);
	s->in_force = (struct sup_in_force){0};
}
