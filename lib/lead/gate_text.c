/*
 * The gate on its way to another process: its state as lines of records, and back.
 *
 *     gate open= applied= number= settling= unit= backup= finished= ...
 *     worker worker= state= generation= ...            each id ever seen, in their order
 *     push list=held|sent|waiting worker= sequence= ...   in order of arrival
 *     ranges list=ID:BEGIN:LENGTH,...                  of the push above, a few a line
 *     act list=pending|published|force bytes=N         and N bytes of action lines
 *
 * What is not here: requests that wait (their clients ask again), who is connected, who is idle (until
 * he joins again), a cut, and what members have pushed in all (whoever compares it sees that it
 * begins anew).
 * A new field of the gate's state belongs here as well, and in tests/unit/lead_random.c.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"
#include "record/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_A_LINE 16
#define LINE_ROOM 2048

/* ---- the numbers ---- */

static const struct field head_fields[] = {
	{FIELD("open", U64, gate, open)},
	{FIELD("applied", U64, gate, applied)},
	{FIELD("number", U64, gate, number)},
	{FIELD("settling", FLAG, gate, settling)},
	{FIELD("holding", FLAG, gate, holding), .is_optional = 1},
	{FIELD("settled", U64, gate, settled), .is_optional = 1},
	{FIELD("largest", U64, gate, largest), .is_optional = 1},
	{FIELD("unit", FLAG, gate, unit)},
	{FIELD("group", FLAG, gate, is_group), .is_optional = 1},
	{FIELD("round", U64, gate, round), .is_optional = 1},
	{FIELD("backup", U64, gate, backup)},
	{FIELD("finished", FLAG, gate, finished)},
	{FIELD("acts", U64, gate, acts_base)},
	{FIELD("act-number", U64, gate, act_number)},
	{FIELD("act-iteration", U64, gate, act_iteration)},
	{FIELD("expect", U64, gate, expect), .is_optional = 1},
	{.key = NULL},
};

/* A lead of an earlier version says fewer of them: the others are not known. */
static const struct field worker_fields[] = {
	{FIELD("state", NAME, worker, state), .names = worker_state_name},
	{FIELD("generation", U64, worker, generation)},
	{FIELD("newest", U64, worker, newest)},
	{FIELD("fenced", U64, worker, fenced)},
	{FIELD("throw", U64, worker, throw_upto)},
	{FIELD("done", FLAG, worker, done)},
	{FIELD("done-generation", U64, worker, done_generation)},
	{FIELD("done-sequence", U64, worker, done_sequence)},
	{FIELD("done-dropped", FLAG, worker, done_dropped)},
	{FIELD("clock", U64, worker, clock)},
	{FIELD("scale", NUMBER, worker, scale)},
	{FIELD("acts-seen", U64, worker, acts_seen)},
	{FIELD("speed", NUMBER, worker, speed), .is_optional = 1},
	{FIELD("time", NUMBER, worker, time), .is_optional = 1},
	{FIELD("mem", NUMBER, worker, mem), .is_optional = 1},
	{FIELD("count", U64, worker, count), .is_optional = 1},
	{FIELD("most", U64, worker, most), .is_optional = 1},
	{FIELD("size", U64, worker, size), .is_optional = 1},
	{FIELD("size-told", FLAG, worker, size_told), .is_optional = 1},
	{.key = NULL},
};

static const struct field push_fields[] = {
	{FIELD("generation", U64, push, generation)},
	{FIELD("sequence", U64, push, sequence)},
	{FIELD("iteration", U64, push, iteration)},
	{FIELD("count", U64, push, count)},
	{FIELD("size", U64, push, size), .is_optional = 1},
	{FIELD("pulled", U64, push, pulled)},
	{FIELD("loss", NUMBER, push, loss)},
	{FIELD("scale", NUMBER, push, scale)},
	{.key = NULL},
};

/* ---- saving ---- */

static void save_head(const struct gate *g, FILE *out)
{
	struct record_out *o = RECORD_BARE("gate");
	fields_write(head_fields, o, g);
	record_print(out, o);
}

static void save_worker(const struct worker *w, FILE *out)
{
	struct record_out *o = RECORD("worker", F("worker", w->id));
	fields_write(worker_fields, o, w);
	record_add_u64(o, "fencing", w->fence_tokens ? 1 : 0);
	record_print(out, o);
}

static void save_ranges(const struct push *p, FILE *out)
{
	char text[RANGES_A_LINE * 64];

	for (size_t i = 0; i < p->ranges;) {
		size_t len = 0;
		for (size_t n = 0; n < RANGES_A_LINE && i < p->ranges; n++, i++)
			len += (size_t)snprintf(text + len, sizeof text - len, "%s%llu:%llu:%llu",
						n ? "," : "", (unsigned long long)push_ranges(p)[i].id,
						(unsigned long long)push_ranges(p)[i].begin,
						(unsigned long long)push_ranges(p)[i].length);
		record_print(out, RECORD("ranges", F("list", text)));
	}
}

/* A group that is not sent yet is given up. */
static void save_push(const struct push *push, const char *list, FILE *out)
{
	struct record_out *o = RECORD("push", F("list", list), F("worker", push->worker->id));
	fields_write(push_fields, o, push);
	record_add_u64(o, "late", push->late || (push->group && push == worker_held(push->worker)));
	record_add_u64(o, "stale", push->stale);
	record_add_u64(o, "refused", push->refused);
	record_print(out, o);
	save_ranges(push, out);
}

static void save_lines(const char *list, const char *lines, size_t len, FILE *out)
{
	record_print(out, RECORD("act", F("list", list), F("bytes", len)));
	fwrite(lines, 1, len, out);
}

int gate_save(const struct gate *g, char **text, size_t *len, struct error *err)
{
	FILE *out;

	if (g->cut != CUT_NONE || g->queue_next < g->queued || g->quit)
		return error_set(err, ERROR_TEMPFAIL, "gate", "%s",
				 g->quit              ? "it is at its end"
				 : g->cut != CUT_NONE ? "a cut is being made"
						      : "effects are waiting");
	out = grow_stream(text, len);
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
	if (fclose(out) != 0) {
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
	struct push *push; /* the last one: ranges follow */
	struct record record;
};

static int load_head(struct load *l, struct error *err)
{
	if (fields_read(head_fields, &l->record, l->g, err) != 0)
		return -1;
	l->g->unanswered = l->g->settling;
	return 0;
}

static int load_worker(struct load *l, struct error *err)
{
	const struct record *r = &l->record;
	const char *id;
	uint64_t fencing;
	struct worker *w;

	if (record_id(r, "worker", &id, err) != 0)
		return -1;
	HASH_FIND_STR(l->g->workers, id, w);
	if (w)
		return error_set(err, ERROR_DATA, NULL, "worker %s is here twice", id);
	w = worker_get(l->g, id);
	if (!w)
		return error_set(err, ERROR_OS, NULL, "no room for worker %s", id);
	if (fields_read(worker_fields, r, w, err) != 0 ||
	    record_u64(r, "fencing", 0, 1, &fencing, err) != 0)
		return -1;
	if (w->speed < 0.0 || w->time < 0.0 || w->mem < 0.0 || w->mem > 1.0 || w->scale < 0.0)
		return error_set(err, ERROR_DATA, NULL, "a number of %s can't be", id);
	w->fence_tokens = (uint32_t)fencing; /* carried out when the settle is answered; nobody is told */
	l->g->active += w->state == WORKER_ACTIVE;
	l->g->joining += w->state == WORKER_JOINING;
	return 0;
}

/* Puts it into its list; -1 when its worker has one there already. */
static int place_push(struct load *l, struct push *p, const char *list, struct error *err)
{
	struct gate *g = l->g;
	struct worker *w = p->worker;

	if (strcmp(list, "held") == 0 && !worker_held(w)) {
		pushes_hold(g, p);
		g->late += p->late ? 1 : 0;
	} else if (strcmp(list, "sent") == 0 && !worker_sent(w)) {
		*(w->push ? &w->older : &w->push) = p;
		p->is_sent = 1;
		pushes_add(&g->sent, p);
	} else if (strcmp(list, "waiting") == 0 && !w->waiting)
		w->waiting = p;
	else
		return error_set(err, ERROR_DATA, NULL, "list=%.40s of %s", list, w->id);
	return 0;
}

static int load_push(struct load *l, struct error *err)
{
	const struct record *r = &l->record;
	const char *id, *list;
	uint64_t late, stale, refused;
	struct push *p = push_new(l->g, 0);

	if (!p)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (record_id(r, "worker", &id, err) != 0 || record_text(r, "list", &list, err) != 0 ||
	    fields_read(push_fields, r, p, err) != 0 || record_u64(r, "late", 0, 1, &late, err) != 0 ||
	    record_u64(r, "stale", 0, 1, &stale, err) != 0 ||
	    record_u64(r, "refused", 0, REFUSED_KINDS - 1, &refused, err) != 0)
		goto failed;
	p->late = (unsigned char)late;
	p->stale = (unsigned char)stale;
	p->refused = refused & 15;
	l->g->says_pulled |= p->pulled != GATE_PULLED_UNKNOWN;
	p->worker = worker_find(l->g, id);
	if (!p->worker) {
		error_set(err, ERROR_DATA, NULL, "a push of %s, who is not here", id);
		goto failed;
	}
	p->seat = (uint32_t)p->worker->seat;
	if (place_push(l, p, list, err) != 0)
		goto failed;
	l->push = p;
	return 0;
failed:
	push_free(l->g, p);
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
	if (p->ranges + n > GATE_RANGES_MAX)
		return error_set(err, ERROR_DATA, NULL, "a push of more than %d ranges", GATE_RANGES_MAX);
	more = malloc((p->ranges + n) * sizeof *more + 1);
	if (!more)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(more, push_ranges(p), p->ranges * sizeof *more);
	memcpy(more + p->ranges, range, n * sizeof *more);
	if (p->ranges > PUSH_FEW)
		free(p->range.many);
	p->ranges = (unsigned char)(p->ranges + n);
	if (p->ranges > PUSH_FEW) {
		p->range.many = more;
		return 0;
	}
	memcpy(p->range.few, more, p->ranges * sizeof *more);
	free(more);
	return 0;
}

/* One action that is in force. */
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
	    record_u64(&l->record, "bytes", 1, (uint64_t)(l->text.end - lines), &len, err) != 0)
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

/* -1: no gate that was saved can be like this. */
static int gate_text_check(const struct gate *g, struct error *err)
{
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->acts_seen > g->acts_base + g->acts)
			return error_set(err, ERROR_DATA, "gate", "%s has seen acts to come",
					 w->id);
		if (w->state == WORKER_ACTIVE && w->acts_seen < g->acts_base)
			return error_set(err, ERROR_DATA, "gate", "acts for %s are gone", w->id);
	}
	int is_empty =
		g->settling && g->round && g->unit; /* all its pushes may have been refused */
	if (((g->settling != 0) != (g->sent.count > 0) && !is_empty) ||
	    (g->holding && !g->settling) ||
	    g->settled >= g->sent.count + (g->settling && !is_empty ? 0 : 1))
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
	return gate_text_check(g, err);
}
