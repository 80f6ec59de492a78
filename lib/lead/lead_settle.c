/*
 * The lead and shardd: a settle is said until it is answered, under its number; what shardd has no
 * room for now is asked again soon.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/number.h"
#include "wire/call.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_SECONDS 30.0      /* then the connection to shardd is made anew and asked again */
#define SETTLE_AGAIN_SECONDS 0.5 /* after shardd had no room for its journal */
#define TERM_SECONDS 600.0       /* that shardd may be away when a lead of parts begins */
#define SETTLE_BYTES_MAX (16u << 20) /* shardd takes no more */
#define LINE_ROOM 512            /* of a line of a settle: an id and four numbers */

static void take_term(struct lead *l);

static void again_later(struct lead *l)
{
	timer_set(l->again, SETTLE_AGAIN_SECONDS);
}

static void lead_settle_on_again(void *lead)
{
	struct lead *l = lead;

	if (peer_is_up(l->shards) && l->replicas && !l->term)
		take_term(l);
	else if (peer_is_up(l->shards))
		gate_shards(l->gate, 1);
	lead_pump(l);
}

void lead_names_put(struct lead *l, struct names *names, const char *worker)
{
	if (GROW(names->name, names->max, names->count + 1) != 0) {
		lead_breakf(l, ERROR_OS, "names", "out of memory");
		return;
	}
	snprintf(names->name[names->count++], OPTION_ID_MAX, "%s", worker);
}

/* The worker= of a record of this type. */
static void names_add(struct lead *l, struct names *names, const struct record *r, const char *type)
{
	const char *worker = record_get(r, "worker");

	if (record_is(r, type) && worker)
		lead_names_put(l, names, worker);
}

const char **lead_names_list(struct lead *l, const struct names *names, const char *why)
{
	const char **list = calloc(names->count + 1, sizeof *list);

	if (!list) {
		lead_breakf(l, ERROR_OS, "names", "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < names->count; i++) {
		list[i] = names->name[i];
		if ((i == 0 || strcmp(list[i], list[i - 1]) != 0) && log_is_worth(++l->refusals))
			log_say(LOG_LEVEL_WARNING, "%s: %s: it is refused", list[i], why);
	}
	return list;
}

static void settle_ok(struct lead *l, const struct record *r)
{
	struct settling *s = &l->settling;
	const char **name =
		lead_names_list(l, &s->fenced, "not all rows of its push are in its hand");

	if (!name)
		return;
	s->answers++;
	s->seconds += clock_mono() - s->sent;
	(void)record_u64_opt(r, "samples-done", 0, UINT64_MAX, &s->done, NULL);
	gate_settled(l->gate, s->number, name, s->fenced.count);
	free(name);
}

static void settle_err(struct lead *l, const struct record *r)
{
	const char *code = record_get(r, "code");
	uint64_t number = l->settling.number;

	code = code ? code : "";
	if (strcmp(code, "fenced") == 0) {
		if (l->term && r->text)
			snprintf(l->settling.why, sizeof l->settling.why, "%s", r->text);
		gate_settle_refused(l->gate, number, GATE_REFUSED_INCARNATION);
		return;
	}
	if (strcmp(code, "journal") == 0 || strcmp(code, "memory") == 0 ||
	    strcmp(code, "no-memory") == 0 || strcmp(code, "slow") == 0) {
		/* There is no room for it in shardd now: it is asked again. */
		log_say(LOG_LEVEL_ERROR, "%s: settle %llu: %s: %s", l->options.shards,
			(unsigned long long)number, code, r->text ? r->text : "");
		gate_settle_refused(l->gate, number, GATE_REFUSED_NOW);
		again_later(l);
		return;
	}
	/* A settle does not fail for what its lines say. So somebody else settles in this
	 * incarnation, or this is no shardd: its journal does not say what is in the model. */
	lead_breakf(l, ERROR_TEMPFAIL, l->options.shards, "settle %llu: %s: %s",
		    (unsigned long long)number, code, r->text ? r->text : "");
}

static void on_settle(const struct record *r, int closing, void *lead)
{
	struct lead *l = lead;

	if (!r)
		return; /* on_shards_down() follows */
	if (!closing) {
		names_add(l, &l->settling.fenced, r, "fenced");
		return;
	}
	if (record_is(r, "ok"))
		settle_ok(l, r);
	else
		settle_err(l, r);
	lead_pump(l);
}

static size_t settle_line(char *out, const struct gate_line *line)
{
	struct record_out o;

	record_begin(&o, out, LINE_ROOM, line->back ? "back" : "apply");
	record_add(&o, "worker", line->worker);
	record_add_u64(&o, "generation", line->generation);
	record_add_u64(&o, "id", line->range.id);
	record_add_u64(&o, "begin", line->range.begin);
	record_add_u64(&o, "length", line->range.length);
	return record_end(&o, NULL);
}

/*
 * boot= says that all who apply this unit live in this boot of the machine. If shardd does, too, it
 * need not wait for the disk: a crash that takes the last lines of its journal also takes the
 * parameters, and both go back to a checkpoint. So each sample is used (what was lost is handed out
 * again after that checkpoint), and none is twice in the model (it went back with the queue). And
 * what shardd has acknowledged is there as long as anybody lives who was told so.
 */
void lead_settle(struct lead *l, const struct gate_effect *e)
{
	const char *boot = l->options.gate.foreign ? lead_trainers_boot(l)
			   : l->replicas	   ? lead_replicas_boot(l)
						   : lead_parts_boot(l->parts);
	char *text = malloc(e->lines * LINE_ROOM + 1);
	size_t len = 0;

	if (!text) {
		lead_breakf(l, ERROR_OS, "settle", "out of memory");
		return;
	}
	for (size_t i = 0; i < e->lines; i++)
		len += settle_line(text + len, &e->line[i]);
	if (len > SETTLE_BYTES_MAX) {
		lead_breakf(l, ERROR_DATA, l->options.shards,
			    "iteration %llu has %zu ranges of rows, more than shardd takes at "
			    "once: give shards more batches (BATCH shard)",
			    (unsigned long long)e->iteration, e->lines);
		free(text);
		return;
	}
	struct record_out *o = RECORD(
		"settle", F("number", e->number), F("iteration", e->iteration),
		F("incarnation", l->options.gate.incarnation), boot[0] ? F("boot", boot) : F_NONE,
		l->term ? F("term", l->term) : F_NONE, e->whole ? F("whole", 1) : F_NONE);
	if (e->whole && l->term) {
		char note[OPTION_ID_MAX];
		int n = snprintf(note, sizeof note, "%llu-%llu-%llu", (unsigned long long)e->round,
				 (unsigned long long)e->divisor, (unsigned long long)e->samples);
		if (e->beginning) /* it was numbered so long before the round */
			snprintf(note + n, sizeof note - (size_t)n, "-%llu",
				 (unsigned long long)(e->round - e->beginning));
		record_add(o, "note", note);
	}
	record_add_u64(o, "bytes", len);
	size_t head_len = record_end(o, NULL);
	l->settling.number = e->number;
	l->settling.fenced.count = 0;
	l->settling.sent = clock_mono();
	if (peer_send(l->shards, o->data, head_len, text, len, on_settle, l) != 0) {
		gate_settle_refused(l->gate, e->number, GATE_REFUSED_NOW);
		again_later(l);
	}
	free(text);
}

/* ---- the term of a lead that another one may follow ---- */

/* What this file wrote as the note of the last unit. */
static int read_commit(const struct record *r, struct gate_commit *last, struct error *err)
{
	const char *note = record_get(r, "note"), *at = note;
	uint64_t before = 0, *number[] = {&last->round, &last->divisor, &last->samples, &before};
	size_t numbers = 0;

	if (record_u64(r, "iteration", 1, UINT64_MAX - 1, &last->iteration, err) != 0)
		return -1;
	for (int more = 1; at && more; numbers++) {
		size_t len = strcspn(at, "-");
		if (numbers == 4 || number_u64_span(at, len, number[numbers]) != 0)
			at = NULL;
		else {
			more = at[len] == '-';
			at += len + (size_t)more;
		}
	}
	last->beginning = before ? last->round - before : 0;
	return at && numbers >= 3 && (!before || before < last->round)
		  ? 0
		  : error_set(err, ERROR_DATA, NULL, "note=%.64s is not the note of a lead",
			      note ? note : "");
}

/* last->iteration 0: nothing was committed. */
static int read_term(const struct record *r, uint64_t *term, struct gate_commit *last,
		     struct error *err)
{
	*last = (struct gate_commit){0};
	return record_u64(r, "term", 1, UINT32_MAX, term, err) != 0 ||
			       (record_get(r, "note") && read_commit(r, last, err) != 0)
		       ? -1
		       : 0;
}

static void on_term(const struct record *r, int closing, void *lead)
{
	struct lead *l = lead;
	struct gate_commit last;
	struct error err = {0};

	if (!r || !closing || l->broken || l->term)
		return; /* lost: asked again when shardd is back */
	if (!record_is(r, "ok")) {
		const char *code = record_get(r, "code");
		if (code && strcmp(code, "journal") == 0)
			again_later(l);
		else
			lead_breakf(l, ERROR_TEMPFAIL, l->options.shards, "term: %s: %s",
				    code ? code : "?", r->text ? r->text : "");
		return;
	}
	if (read_term(r, &l->term, &last, &err) != 0) {
		lead_breakf(l, ERROR_DATA, l->options.shards, "term: %s", err.text);
		return;
	}
	(void)record_u64_opt(r, "samples-done", 0, UINT64_MAX, &l->settling.done, NULL);
	gate_term(l->gate, l->term, last.iteration ? &last : NULL);
	gate_shards(l->gate, 1);
	lead_pump(l);
}

static void take_term(struct lead *l)
{
	struct record_out *o = RECORD("term", F("incarnation", l->options.gate.incarnation));
	timer_stop(l->again);
	if (peer_send(l->shards, o->data, record_end(o, NULL), NULL, 0, on_term, l) != 0)
		again_later(l);
}

/* 1: to be asked again. */
static int ask_term_once(const char *shards, double seconds, struct record_out *request,
			 struct record *r, struct error *err)
{
	struct call *c = NULL;
	int rc = call_open(&c, shards, seconds, SETTLE_SECONDS, err);

	if (rc == 0)
		rc = call_record(c, request, NULL, 0, err);
	if (rc == 0)
		rc = call_receive(c, r, err);
	call_close(c);
	if (rc != 0)
		return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL ? 1 : -1;
	if (record_is(r, "ok"))
		return 0;
	const char *code = record_get(r, "code");
	error_set(err, ERROR_TEMPFAIL, shards, "term: %s: %s", code ? code : "?",
		  r->text ? r->text : "");
	return code && strcmp(code, "journal") == 0 ? 1 : -1;
}

int lead_term_ask(const char *shards, uint64_t incarnation, uint64_t *term,
		  struct gate_commit *last, struct error *err)
{
	double until = clock_mono() + TERM_SECONDS;
	struct record *r = malloc(sizeof *r);
	int rc = r ? 1 : error_set(err, ERROR_OS, shards, "out of memory");

	while (rc > 0 && clock_mono() < until) {
		rc = ask_term_once(shards, until - clock_mono(),
				   RECORD("term", F("incarnation", incarnation)), r, err);
		if (rc > 0)
			clock_sleep(SETTLE_AGAIN_SECONDS);
	}
	if (rc == 0)
		rc = read_term(r, term, last, err);
	free(r);
	return rc == 0 ? 0 : -1;
}

static void on_shards_up(struct peer *p, const struct record *r, void *lead)
{
	struct lead *l = lead;

	(void)p;
	(void)r;
	if (l->replicas && !l->term)
		take_term(l);
	else
		gate_shards(l->gate, 1);
	lead_pump(l);
}

static void on_shards_down(struct peer *p, void *lead)
{
	struct lead *l = lead;

	(void)p;
	log_say(LOG_LEVEL_WARNING, "%s: connection lost; settlements wait", l->options.shards);
	gate_shards(l->gate, 0);
	lead_pump(l);
}

int lead_settle_start(struct lead *l, struct event_base *base, struct error *err)
{
	struct peer_options shards = {.path = l->options.shards,
				      .up = on_shards_up,
				      .down = on_shards_down,
				      .owner = l,
				      .answer_seconds = SETTLE_SECONDS};

	l->again = timer_new(base, lead_settle_on_again, l);
	if (l->options.shards)
		l->shards = peer_new(base, &shards);
	if (!l->again || (l->options.shards && !l->shards))
		return error_set(err, ERROR_OS, l->options.shards, "out of memory");
	if (l->replicas && !l->shards) { /* nobody counts terms, but the clock grows, too */
		l->term = (uint64_t)clock_epoch() & UINT32_MAX;
		gate_term(l->gate, l->term, NULL);
	}
	return 0;
}

void lead_settle_stop(struct lead *l)
{
	if (l->shards)
		peer_free(l->shards);
	timer_free(l->again);
}
