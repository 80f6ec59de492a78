/*
 * Actions: lines that the supervisor gives and that workers get with the answer that closes the
 * next unit, so that under BSP all obey from the same iteration on.  Those that last (batch sizes,
 * learning rates, backup workers) are kept for whoever joins later.  A worker gets the sizes and
 * rates that name it, and all other lines: a decision for n workers is n lines to send, not n times
 * n.
 *
 * The lead itself obeys backup-workers and the weights of adjust-lr.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_line(const struct gate *g, const struct record *r, struct error *err)
{
	const char *kind, *id;
	uint64_t count;
	double scale;

	if (!record_is(r, "action"))
		return error_set(err, ERROR_DATA, "act", "%.64s is no action", r->type);
	if (record_text(r, "kind", &kind, err) != 0)
		return -1;
	if (strcmp(kind, "backup-workers") == 0) {
		if (record_u64(r, "count", 0, GATE_WORKERS_MAX, &count, err) != 0)
			return -1;
		return count > 0 && g->options.foreign
			       ? error_set(err, ERROR_DATA, "act",
					   "no backup workers: members have the parameters, and none "
					   "can be left out of an iteration")
			       : 0;
	}
	if (strcmp(kind, "adjust-lr") == 0)
		return record_id(r, "id", &id, err) != 0
			       ? -1
			       : record_real(r, "scale", 0.0, 1e9, &scale, err);
	if (strcmp(kind, "adjust-bs") == 0 && g->options.balance)
		return error_set(err, ERROR_NOPERM, "act", "sizes are set at every barrier");
	if (strcmp(kind, "adjust-bs") == 0)
		return record_id(r, "id", &id, err) != 0 ||
				       record_u64(r, "size", 1, UINT64_MAX, &count, err) != 0
			       ? -1
			       : record_u64_opt(r, "accum", 1, UINT64_MAX, &count, err);
	return 0; /* kill-restart, none, and what later versions know */
}

/* Whom a line is for; "": everybody. */
static const char *whose(const struct record *r)
{
	const char *kind = record_get(r, "kind"), *id = record_get(r, "id");
	int is_own = kind && (strcmp(kind, "adjust-lr") == 0 || strcmp(kind, "adjust-bs") == 0);

	return is_own && id ? id : "";
}

/* Calls fn for every line; -1 at the first bad one. */
static int each_line(const char *lines, size_t len,
		     void (*fn)(struct gate *g, const struct record *r, const char *line,
				size_t line_len),
		     struct gate *g, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	int rc = r ? 0 : error_set(err, ERROR_OS, "act", "out of memory");

	struct record_walk walk = record_walk(lines, len);
	int got = RECORD_END;
	while (rc == 0 && (got = record_next(&walk, r, err)) == RECORD_ONE) {
		rc = check_line(g, r, err);
		if (rc == 0 && fn)
			fn(g, r, walk.line, walk.len);
	}
	free(r);
	return got == RECORD_END ? rc : -1;
}

struct force *acts_force(const struct gate *g, const char *kind, const char *id, char *key)
{
	struct force *f;

	snprintf(key, FORCE_KEY_MAX, "%.30s %s", kind, id);
	HASH_FIND_STR(g->force, key, f);
	return f;
}

static void read_sizes(struct force *f, const struct record *r)
{
	f->size = f->batch = 0;
	f->accum = 1;
	record_u64_opt(r, "size", 0, UINT64_MAX, &f->size, NULL);
	record_u64_opt(r, "accum", 0, UINT64_MAX, &f->accum, NULL);
	record_u64_opt(r, "batch", 0, UINT64_MAX, &f->batch, NULL);
}

/* Keeps the last line of each kind and id. */
static void keep_force(struct gate *g, const struct record *r, const char *kind, const char *id,
		       const char *line, size_t len)
{
	char key[FORCE_KEY_MAX];
	struct force *f;
	char *copy = malloc(len + 2);

	if (!copy) {
		g->failed = 1;
		return;
	}
	memcpy(copy, line, len);
	memcpy(copy + len, "\n", 2);
	f = acts_force(g, kind, id, key);
	if (f) {
		free(f->line);
		f->line = copy;
		read_sizes(f, r);
		return;
	}
	f = calloc(1, sizeof *f);
	if (!f || HASH_COUNT(g->force) >= g->options.workers_max) {
		g->failed |= !f;
		free(f);
		free(copy);
		return;
	}
	memcpy(f->key, key, sizeof key);
	f->line = copy;
	read_sizes(f, r);
	HASH_ADD_STR(g->force, key, f);
	if (hash_lacks(f)) {
		g->failed = 1;
		free(f);
		free(copy);
	}
}

void acts_keep(struct gate *g, const struct record *r, const char *line, size_t len)
{
	const char *kind = record_get(r, "kind"), *id = record_get(r, "id");

	g->sizes_given |= strcmp(kind, "adjust-bs") == 0 && record_get(r, "batch");
	if (strcmp(kind, "backup-workers") == 0)
		keep_force(g, r, kind, "", line, len);
	else if (strcmp(kind, "adjust-lr") == 0 || strcmp(kind, "adjust-bs") == 0)
		keep_force(g, r, kind, id, line, len);
}

static void acts_obey(struct gate *g, const struct record *r, const char *line, size_t len)
{
	const char *kind = record_get(r, "kind");
	double scale = 1.0;

	if (strcmp(kind, "backup-workers") == 0) {
		record_u64(r, "count", 0, GATE_WORKERS_MAX, &g->backup, NULL);
	} else if (strcmp(kind, "adjust-lr") == 0) {
		struct worker *w = worker_get(g, record_get(r, "id"));
		record_real(r, "scale", 0.0, 1e9, &scale, NULL);
		if (w)
			w->scale = scale;
	}
	acts_keep(g, r, line, len);
}

static void act_free(struct act *a)
{
	free(a->lines);
	free(a->line);
}

/* Drops the actions that all members have seen. */
static void trim(struct gate *g)
{
	uint64_t least = g->acts_base + g->acts;
	size_t gone;

	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE && w->acts_seen < least)
			least = w->acts_seen;
	}
	gone = (size_t)(least - g->acts_base);
	for (size_t i = 0; i < gone; i++)
		act_free(&g->act[i]);
	memmove(g->act, g->act + gone, (g->acts - gone) * sizeof *g->act);
	g->acts -= gone;
	g->acts_base = least;
}

static int acts_by_id(const void *a, const void *b)
{
	const struct act_line *x = a, *y = b;
	int order = strcmp(x->id, y->id);

	return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static int index_lines(struct act *a)
{
	struct record *r = malloc(sizeof *r);
	struct record_walk walk = record_walk(a->lines, a->len);
	size_t room = 0;
	int rc = r ? 0 : -1;

	while (rc == 0 && record_next(&walk, r, NULL) == RECORD_ONE) {
		rc = GROW(a->line, room, a->count + 1);
		if (rc != 0)
			break;
		struct act_line *line = &a->line[a->count++];
		snprintf(line->id, sizeof line->id, "%s", whose(r));
		line->at = (size_t)(walk.line - a->lines);
		line->len = walk.len + 1;
	}
	free(r);
	if (rc == 0 && a->count > 0)
		qsort(a->line, a->count, sizeof *a->line, acts_by_id);
	return rc;
}

/* Adds lines behind those that are published. */
int acts_add(struct gate *g, char *lines, size_t len)
{
	struct act a = {.lines = lines, .len = len};

	if (GROW(g->act, g->acts_max, g->acts + 1) != 0 || index_lines(&a) != 0) {
		free(a.line);
		g->failed = 1;
		return -1;
	}
	g->act[g->acts++] = a;
	return 0;
}

/* The first line of id, or where it would stand. */
static size_t acts_first_of(const struct act *a, const char *id)
{
	size_t low = 0, high = a->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(a->line[middle].id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The bytes of the lines of id, which are copied to out, if that is not NULL. */
static size_t take_lines(const struct act *a, const char *id, char *out)
{
	size_t len = 0;

	for (size_t i = acts_first_of(a, id); i < a->count && strcmp(a->line[i].id, id) == 0; i++) {
		if (out)
			memcpy(out + len, a->lines + a->line[i].at, a->line[i].len);
		len += a->line[i].len;
	}
	return len;
}

/* The unit that closes now carries what is pending. */
void acts_publish(struct gate *g)
{
	if (!g->pending)
		return;
	if (g->acts)
		trim(g);
	if (acts_add(g, g->pending, g->pending_len) != 0)
		return;
	each_line(g->pending, g->pending_len, acts_obey, g, NULL);
	g->pending = NULL;
	g->pending_len = 0;
}

char *acts_unseen(struct gate *g, struct worker *w)
{
	uint64_t end = g->acts_base + g->acts;
	size_t from, len = 0;
	char *out;

	if (w->state != WORKER_ACTIVE || !acts_wait(g, w))
		return NULL;
	from = w->acts_seen > g->acts_base ? (size_t)(w->acts_seen - g->acts_base) : 0;
	w->acts_seen = end;
	for (size_t i = from; i < g->acts; i++)
		len += take_lines(&g->act[i], "", NULL) + take_lines(&g->act[i], w->id, NULL);
	if (len == 0)
		return NULL;
	out = malloc(len + 1);
	if (!out) {
		g->failed = 1;
		return NULL;
	}
	len = 0;
	for (size_t i = from; i < g->acts; i++) {
		len += take_lines(&g->act[i], "", out + len);
		len += take_lines(&g->act[i], w->id, out + len);
	}
	out[len] = '\0';
	return out;
}

char *acts_in_force(struct gate *g, const struct worker *w)
{
	char key[FORCE_KEY_MAX];
	const struct force *of[] = {acts_force(g, "backup-workers", "", key),
				    acts_force(g, "adjust-bs", w->id, key),
				    acts_force(g, "adjust-lr", w->id, key)};
	size_t len = 0;
	char *out;

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		len += of[i] ? strlen(of[i]->line) : 0;
	if (len == 0)
		return NULL;
	out = malloc(len + 1);
	if (!out) {
		g->failed = 1;
		return NULL;
	}
	char *end = out;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		end = of[i] ? stpcpy(end, of[i]->line) : end;
	return out;
}

int gate_act(struct gate *g, const char *lines, size_t len, uint64_t number, uint64_t token,
	     struct error *err)
{
	char *more;
	uint64_t from;

	if (number && number == g->act_number) {
		effect_ok(g, token, NULL, "iteration=%llu repeated=1",
			  (unsigned long long)g->act_iteration);
		return 0;
	}
	if (each_line(lines, len, NULL, g, err) != 0)
		return -1;
	if (g->pending_len + len > g->options.actions_max)
		return error_set(err, ERROR_DATA, "act", "more than %zu bytes of actions wait",
				 g->options.actions_max);
	more = realloc(g->pending, g->pending_len + len + 1);
	if (!more)
		return error_set(err, ERROR_OS, "act", "out of memory");
	memcpy(more + g->pending_len, lines, len);
	g->pending = more;
	g->pending_len += len;
	more[g->pending_len] = '\0';
	from = g->options.sync == GATE_BSP ? g->open : g->applied;
	g->act_number = number;
	g->act_iteration = g->active ? from + 1 : from;
	effect_ok(g, token, NULL, "iteration=%llu", (unsigned long long)g->act_iteration);
	units_step(g);
	return 0;
}

void acts_free(struct gate *g)
{
	struct force *f, *next;

	HASH_ITER(hh, g->force, f, next)
	{
		HASH_DEL(g->force, f);
		free(f->line);
		free(f);
	}
	for (size_t i = 0; i < g->acts; i++)
		act_free(&g->act[i]);
	free(g->act);
	free(g->pending);
}
