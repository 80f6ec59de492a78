/*
 * The gate on its way to another process: its state as lines of records, and back.
 *
 *     gate open= applied= number= settling= unit= backup= finished= ...
 *     worker worker= state= generation= ...            each id ever seen, in their order
 *     push list=held|sent|waiting worker= sequence= ...   in order of arrival
 *     ranges list=ID:BEGIN:LENGTH,...                  of the push above, a few a line
 *     act list=pending|published|force bytes=N         and N bytes of action lines
 *
 * What is not here: requests that wait (their clients ask again), who is connected, a cut, and what
 * members have pushed in all (whoever compares it sees that it begins anew).
 * A new field of the gate's state belongs here as well, and in tests/unit/lead_random.c.
 */
#include "lead/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_A_LINE 16
#define LINE_ROOM 2048

/* ---- saving ---- */

static void put(FILE *out, struct record_out *o)
{
	size_t len = record_end(o, NULL);

	fwrite(o->data, 1, len, out);
}

static void save_head(const struct gate *g, FILE *out)
{
	char line[LINE_ROOM];
	struct record_out o;

	record_begin(&o, line, sizeof line, "gate");
	record_add_u64(&o, "open", g->open);
	record_add_u64(&o, "applied", g->applied);
	record_add_u64(&o, "number", g->number);
	record_add_u64(&o, "settling", g->settling ? 1 : 0);
	record_add_u64(&o, "holding", g->holding ? 1 : 0);
	record_add_u64(&o, "settled", g->settled);
	record_add_u64(&o, "largest", g->largest);
	record_add_u64(&o, "unit", g->unit ? 1 : 0);
	record_add_u64(&o, "backup", g->backup);
	record_add_u64(&o, "finished", g->finished ? 1 : 0);
	record_add_u64(&o, "acts", g->acts_base);
	record_add_u64(&o, "act-number", g->act_number);
	record_add_u64(&o, "act-iteration", g->act_iteration);
	record_add_u64(&o, "expect", g->expect);
	put(out, &o);
}

static void save_worker(const struct worker *w, FILE *out)
{
	char line[LINE_ROOM];
	struct record_out o;

	record_begin(&o, line, sizeof line, "worker");
	record_add(&o, "worker", w->id);
	record_add(&o, "state", worker_state_name[w->state]);
	record_add_u64(&o, "generation", w->generation);
	record_add_u64(&o, "newest", w->newest);
	record_add_u64(&o, "fenced", w->fenced);
	record_add_u64(&o, "fencing", w->fence_tokens ? 1 : 0);
	record_add_u64(&o, "throw", w->throw_upto);
	record_add_u64(&o, "done", w->done ? 1 : 0);
	record_add_u64(&o, "done-generation", w->done_generation);
	record_add_u64(&o, "done-sequence", w->done_sequence);
	record_add_u64(&o, "done-dropped", w->done_dropped ? 1 : 0);
	record_add_u64(&o, "clock", w->clock);
	record_add_real(&o, "scale", w->scale);
	record_add_u64(&o, "acts-seen", w->acts_seen);
	record_add_real(&o, "speed", w->speed);
	record_add_real(&o, "time", w->time);
	record_add_real(&o, "mem", w->mem);
	record_add_u64(&o, "count", w->count);
	record_add_u64(&o, "most", w->most);
	record_add_u64(&o, "size", w->size);
	record_add_u64(&o, "size-told", w->size_told ? 1 : 0);
	put(out, &o);
}

static void save_ranges(const struct push *p, FILE *out)
{
	char line[LINE_ROOM], text[RANGES_A_LINE * 64];
	struct record_out o;

	for (size_t i = 0; i < p->ranges;) {
		size_t len = 0;
		for (size_t n = 0; n < RANGES_A_LINE && i < p->ranges; n++, i++)
			len += (size_t)snprintf(text + len, sizeof text - len, "%s%llu:%llu:%llu",
						n ? "," : "", (unsigned long long)p->range[i].id,
						(unsigned long long)p->range[i].begin,
						(unsigned long long)p->range[i].length);
		record_begin(&o, line, sizeof line, "ranges");
		record_add(&o, "list", text);
		put(out, &o);
	}
}

static void save_push(const struct push *p, const char *list, FILE *out)
{
	char line[LINE_ROOM];
	struct record_out o;

	record_begin(&o, line, sizeof line, "push");
	record_add(&o, "list", list);
	record_add(&o, "worker", p->worker->id);
	record_add_u64(&o, "generation", p->generation);
	record_add_u64(&o, "sequence", p->sequence);
	record_add_u64(&o, "iteration", p->iteration);
	record_add_u64(&o, "count", p->count);
	record_add_u64(&o, "skipped", p->skipped);
	record_add_u64(&o, "size", p->size);
	record_add_real(&o, "loss", p->loss);
	record_add_real(&o, "scale", p->scale);
	record_add_u64(&o, "late", p->late ? 1 : 0);
	record_add_u64(&o, "refused", p->refused);
	put(out, &o);
	save_ranges(p, out);
}

static void save_lines(const char *list, const char *lines, size_t len, FILE *out)
{
	char line[LINE_ROOM];
	struct record_out o;

	record_begin(&o, line, sizeof line, "act");
	record_add(&o, "list", list);
	record_add_u64(&o, "bytes", len);
	put(out, &o);
	fwrite(lines, 1, len, out);
}

int gate_save(const struct gate *g, char **text, size_t *len, struct error *err)
{
	FILE *out;

	if (g->cut != CUT_NONE || g->effect_next < g->effects || g->quit)
		return error_set(err, ERROR_TEMPFAIL, "gate", "%s",
				 g->quit ? "it is at its end"
				 : g->cut != CUT_NONE ? "a cut is being made"
						      : "effects are waiting");
	out = open_memstream(text, len);
	if (!out)
		return error_set(err, ERROR_OS, "gate", "out of memory");
	save_head(g, out);
	for (const struct worker *w = g->workers; w; w = w->hh.next)
		save_worker(w, out);
	for (const struct push *p = g->sent.first; p; p = p->next)
		save_push(p, "sent", out);
	for (const struct push *p = g->held.first; p; p = p->next)
		save_push(p, "held", out);
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->waiting)
			save_push(w->waiting, "waiting", out);
	}
	for (size_t i = 0; i < g->acts; i++)
		save_lines("published", g->act[i].lines, g->act[i].len, out);
	if (g->pending)
		save_lines("pending", g->pending, g->pending_len, out);
	for (const struct force *f = g->force; f; f = f->hh.next)
		save_lines("force", f->line, strlen(f->line), out);
	int bad = ferror(out);
	if (fclose(out) != 0 || bad) {
		free(*text);
		*text = NULL;
		return error_set(err, ERROR_OS, "gate", "out of memory");
	}
	return 0;
}

/* ---- loading ---- */

struct load {
	struct gate *g;
	struct record_walk text;
	struct push *push;    /* the last one: ranges follow */
	struct record record;
};

static int load_head(struct load *l, struct error *err)
{
	struct gate *g = l->g;
	const struct record *r = &l->record;
	uint64_t settling, holding = 0, unit, finished;

	if (record_u64(r, "open", 0, UINT64_MAX, &g->open, err) != 0 ||
	    record_u64(r, "applied", 0, UINT64_MAX, &g->applied, err) != 0 ||
	    record_u64(r, "number", 0, UINT64_MAX, &g->number, err) != 0 ||
	    record_u64(r, "settling", 0, 1, &settling, err) != 0 ||
	    record_u64_opt(r, "holding", 0, settling, &holding, err) != 0 ||
	    record_u64_opt(r, "settled", 0, UINT64_MAX, &g->settled, err) != 0 ||
	    record_u64_opt(r, "largest", 0, UINT64_MAX, &g->largest, err) != 0 ||
	    record_u64(r, "unit", 0, 1, &unit, err) != 0 ||
	    record_u64(r, "backup", 0, UINT64_MAX, &g->backup, err) != 0 ||
	    record_u64(r, "finished", 0, 1, &finished, err) != 0 ||
	    record_u64(r, "acts", 0, UINT64_MAX, &g->acts_base, err) != 0 ||
	    record_u64(r, "act-number", 0, UINT64_MAX, &g->act_number, err) != 0 ||
	    record_u64(r, "act-iteration", 0, UINT64_MAX, &g->act_iteration, err) != 0 ||
	    record_u64_opt(r, "expect", 0, UINT64_MAX, &g->expect, err) != 0)
		return -1;
	g->settling = g->unanswered = (int)settling;
	g->holding = (int)holding;
	g->unit = (int)unit;
	g->finished = (int)finished;
	return 0;
}

static int load_state(const char *text, enum worker_state *state, struct error *err)
{
	for (int i = 0; i < WORKER_STATES; i++) {
		if (strcmp(text, worker_state_name[i]) == 0) {
			*state = (enum worker_state)i;
			return 0;
		}
	}
	return error_set(err, ERROR_DATA, NULL, "state=%.40s", text);
}

/* What a lead of an earlier version does not tell is not known. */
static int load_numbers(const struct record *r, struct worker *w, struct error *err)
{
	uint64_t told = 0;

	if (record_real_opt(r, "speed", 0.0, 1e300, &w->speed, err) != 0 ||
	    record_real_opt(r, "time", 0.0, 1e300, &w->time, err) != 0 ||
	    record_real_opt(r, "mem", 0.0, 1.0, &w->mem, err) != 0 ||
	    record_u64_opt(r, "count", 0, UINT64_MAX, &w->count, err) != 0 ||
	    record_u64_opt(r, "most", 0, UINT64_MAX, &w->most, err) != 0 ||
	    record_u64_opt(r, "size", 0, UINT64_MAX, &w->size, err) != 0 ||
	    record_u64_opt(r, "size-told", 0, 1, &told, err) != 0)
		return -1;
	w->size_told = (int)told;
	return 0;
}

static int load_worker(struct load *l, struct error *err)
{
	const struct record *r = &l->record;
	const char *id, *state;
	uint64_t fencing, done, dropped;
	struct worker *w;

	if (record_id(r, "worker", &id, err) != 0 || record_text(r, "state", &state, err) != 0)
		return -1;
	w = worker_get(l->g, id);
	if (!w)
		return error_set(err, ERROR_OS, NULL, "no room for worker %s", id);
	if (load_state(state, &w->state, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &w->generation, err) != 0 ||
	    record_u64(r, "newest", 0, UINT64_MAX, &w->newest, err) != 0 ||
	    record_u64(r, "fenced", 0, UINT64_MAX, &w->fenced, err) != 0 ||
	    record_u64(r, "fencing", 0, 1, &fencing, err) != 0 ||
	    record_u64(r, "throw", 0, UINT64_MAX, &w->throw_upto, err) != 0 ||
	    record_u64(r, "done", 0, 1, &done, err) != 0 ||
	    record_u64(r, "done-generation", 0, UINT64_MAX, &w->done_generation, err) != 0 ||
	    record_u64(r, "done-sequence", 0, UINT64_MAX, &w->done_sequence, err) != 0 ||
	    record_u64(r, "done-dropped", 0, 1, &dropped, err) != 0 ||
	    record_u64(r, "clock", 0, UINT64_MAX, &w->clock, err) != 0 ||
	    record_real(r, "scale", 0.0, 1e9, &w->scale, err) != 0 ||
	    record_u64(r, "acts-seen", 0, UINT64_MAX, &w->acts_seen, err) != 0 ||
	    load_numbers(r, w, err) != 0)
		return -1;
	w->done = (int)done;
	w->done_dropped = (int)dropped;
	w->fence_tokens = fencing; /* carried out when the settle is answered; nobody is told */
	l->g->active += w->state == WORKER_ACTIVE;
	return 0;
}

/* Into its list; -1 when its worker has one there already. */
static int place_push(struct load *l, struct push *p, const char *list, struct error *err)
{
	struct gate *g = l->g;
	struct worker *w = p->worker;
	struct push **at = strcmp(list, "held") == 0      ? &w->held
			   : strcmp(list, "sent") == 0    ? &w->sent
			   : strcmp(list, "waiting") == 0 ? &w->waiting
							  : NULL;

	if (!at || *at)
		return error_set(err, ERROR_DATA, NULL, "list=%.40s of %s", list, w->id);
	*at = p;
	if (at == &w->held) {
		pushes_add(&g->held, p);
		g->late += p->late ? 1 : 0;
	} else if (at == &w->sent)
		pushes_add(&g->sent, p);
	return 0;
}

static int load_push(struct load *l, struct error *err)
{
	const struct record *r = &l->record;
	const char *id, *list;
	uint64_t late, refused;
	struct push *p = calloc(1, sizeof *p);

	if (!p)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (record_id(r, "worker", &id, err) != 0 || record_text(r, "list", &list, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &p->generation, err) != 0 ||
	    record_u64(r, "sequence", 0, UINT64_MAX, &p->sequence, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &p->iteration, err) != 0 ||
	    record_u64(r, "count", 0, UINT64_MAX, &p->count, err) != 0 ||
	    record_u64_opt(r, "skipped", 0, UINT64_MAX, &p->skipped, err) != 0 ||
	    record_u64_opt(r, "size", 0, UINT64_MAX, &p->size, err) != 0 ||
	    record_real(r, "loss", -1e300, 1e300, &p->loss, err) != 0 ||
	    record_real(r, "scale", 0.0, 1e9, &p->scale, err) != 0 ||
	    record_u64(r, "late", 0, 1, &late, err) != 0 ||
	    record_u64(r, "refused", 0, REFUSED_KINDS - 1, &refused, err) != 0)
		goto failed;
	p->late = (int)late;
	p->refused = (enum refused)refused;
	HASH_FIND_STR(l->g->workers, id, p->worker);
	if (!p->worker) {
		error_set(err, ERROR_DATA, NULL, "a push of %s, who is not here", id);
		goto failed;
	}
	if (place_push(l, p, list, err) != 0)
		goto failed;
	l->push = p;
	return 0;
failed:
	push_free(p);
	return -1;
}

static int load_ranges(struct load *l, struct error *err)
{
	struct gate_range range[GATE_RANGES_MAX], *more;
	struct push *p = l->push;
	const char *text;
	size_t n;

	if (!p)
		return error_set(err, ERROR_DATA, NULL, "ranges of no push");
	if (record_text(&l->record, "list", &text, err) != 0 ||
	    gate_ranges_parse(text, range, &n, err) != 0)
		return -1;
	more = realloc(p->range, (p->ranges + n) * sizeof *more + 1);
	if (!more)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(more + p->ranges, range, n * sizeof *more);
	p->range = more;
	p->ranges += n;
	return 0;
}

/* One line of a kind that lasts. */
static int load_force(struct load *l, const char *lines, size_t len, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	int rc = r ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");

	if (rc == 0)
		rc = record_parse(r, lines, len - 1, err);
	if (rc == 0 && !record_get(r, "kind"))
		rc = error_set(err, ERROR_DATA, NULL, "an action without a kind");
	if (rc == 0 && !record_get(r, "id") && strcmp(record_get(r, "kind"), "backup-workers") != 0)
		rc = error_set(err, ERROR_DATA, NULL, "an action without an id");
	if (rc == 0)
		acts_keep(l->g, r, lines, len - 1);
	free(r);
	return rc;
}

static int load_lines(struct load *l, struct error *err)
{
	struct gate *g = l->g;
	const char *list, *lines = l->text.at;
	uint64_t len;
	char *copy;

	if (record_text(&l->record, "list", &list, err) != 0 ||
	    record_u64(&l->record, "bytes", 1, (uint64_t)(l->text.end - l->text.at), &len, err) != 0)
		return -1;
	l->text.at += len;
	if (lines[len - 1] != '\n')
		return error_set(err, ERROR_DATA, NULL, "the last line has no end");
	if (strcmp(list, "force") == 0)
		return load_force(l, lines, len, err);
	copy = malloc(len + 1);
	if (!copy)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(copy, lines, len);
	copy[len] = '\0';
	if (strcmp(list, "published") == 0 && acts_add(g, copy, len) == 0)
		return 0;
	if (strcmp(list, "pending") == 0 && !g->pending) {
		g->pending = copy;
		g->pending_len = len;
		return 0;
	}
	free(copy);
	return error_set(err, ERROR_DATA, NULL, "list=%.40s", list);
}

static int load_line(struct load *l, struct error *err)
{
	static const struct {
		const char *type;
		int (*load)(struct load *l, struct error *err);
	} table[] = {{"gate", load_head},
		     {"worker", load_worker},
		     {"push", load_push},
		     {"ranges", load_ranges},
		     {"act", load_lines}};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (record_is(&l->record, table[i].type))
			return table[i].load(l, err);
	}
	return error_set(err, ERROR_DATA, NULL, "%.64s is not known", l->record.type);
}

/* What no gate that was saved can be. */
static int check(const struct gate *g, struct error *err)
{
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->acts_seen > g->acts_base + g->acts)
			return error_set(err, ERROR_DATA, "gate", "%s has seen acts to come", w->id);
		if (w->state == WORKER_ACTIVE && w->acts_seen < g->acts_base)
			return error_set(err, ERROR_DATA, "gate", "acts for %s are gone", w->id);
	}
	if ((g->settling != 0) != (g->sent.count > 0) ||
	    g->settled >= g->sent.count + (g->settling ? 0 : 1))
		return error_set(err, ERROR_DATA, "gate",
				 "settling=%d settled=%llu with %zu pushes", g->settling,
				 (unsigned long long)g->settled, g->sent.count);
	return 0;
}

int gate_load(struct gate *g, const char *text, size_t len, struct error *err)
{
	struct load *l = malloc(sizeof *l);
	char place[40];
	int got;

	if (!l)
		return error_set(err, ERROR_OS, "gate", "out of memory");
	*l = (struct load){.g = g, .text = record_walk(text, len)};
	while ((got = record_next(&l->text, &l->record, err)) == RECORD_ONE &&
	       load_line(l, err) == 0)
		;
	snprintf(place, sizeof place, "gate:%llu", (unsigned long long)l->text.number);
	free(l);
	if (got != RECORD_END)
		return error_wrap(err, place);
	if (g->failed)
		return error_set(err, ERROR_OS, "gate", "out of memory");
	return check(g, err);
}
