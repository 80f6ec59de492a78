/*
 * See part_remote.h.  A server that is not where it must be lacks what is committed: only a
 * rollback helps.
 */
#include "lead/part_remote.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/peer.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COME_BACK_SECONDS 5 /* for a server that was asked for a cut */
/* A pending order is given again after this fraction of the time that it has taken so far. */
#define AGAIN_PART 0.125
#define AGAIN_SECONDS_MIN 0.002
#define AGAIN_SECONDS_MAX 0.25

/* An order, from its giving until its answer. */
struct told {
	struct told *next;
	enum order_kind kind;
	uint64_t iteration, units; /* of an apply; units 0: none */
	uint64_t attempt;          /* of a move */
	double began;
	struct order_answer answer;
	struct told_text *text;
};

struct part_remote {
	struct part_remote_options options;
	struct peer *peer;
	char boot[BOOT_ID_MAX];    /* which run of its machine it lives in */
	int leaves;                /* part_remote_leave() */
	int ready;                 /* connected, and in the state that the lead knows */
	struct told *first, **end; /* unanswered, in sequence */
	struct timer *overdue;     /* a cut that was asked waits for it to come back */
	struct told *pending;      /* orders that were answered so */
	struct timer *again;       /* then they are given again */
	char id[OPTION_ID_MAX];
	char wrong[ERROR_TEXT_MAX]; /* with one that joins; "": nothing */
	char path[];
};

/* ---- texts ---- */

struct told_text *told_text_new(char *text, size_t head, size_t bytes)
{
	struct told_text *t = malloc(sizeof *t);

	if (t)
		*t = (struct told_text){
			.holders = 1, .head = head, .bytes = bytes, .text = text};
	else
		free(text);
	return t;
}

static struct told_text *told_text_hold(struct told_text *t)
{
	t->holders++;
	return t;
}

void told_text_release(void *text)
{
	struct told_text *t = text;

	if (!t || --t->holders > 0)
		return;
	free(t->text);
	free(t);
}

/* ---- what is not answered ---- */

static void told_append(struct part_remote *r, struct told *t)
{
	t->next = NULL;
	*r->end = t;
	r->end = &t->next;
}

static struct told *told_add(struct part_remote *r, struct told_text *text)
{
	struct told *t = malloc(sizeof *t);

	if (!t)
		return NULL;
	*t = (struct told){.text = told_text_hold(text),
			   .began = clock_mono(),
			   .answer = {.done = r->options.committed,
				      .arg = r->options.owner,
				      .part = r->options.part}};
	told_append(r, t);
	return t;
}

static void told_free(struct told *t)
{
	told_text_release(t->text);
	free(t);
}

/* Takes the first out. */
static struct told *told_take(struct part_remote *r)
{
	struct told *t = r->first;

	r->first = t->next;
	if (!r->first)
		r->end = &r->first;
	return t;
}

/* Data of an answer: only a hold has some. */
static void missing(const struct told *t, const struct record *r)
{
	const char *worker;
	uint64_t generation, sequence;
	struct error ignored;

	if (t->answer.missing && record_is(r, "missing") &&
	    record_id(r, "worker", &worker, &ignored) == 0 &&
	    record_u64(r, "generation", 0, UINT64_MAX, &generation, &ignored) == 0 &&
	    record_u64(r, "sequence", 0, UINT64_MAX, &sequence, &ignored) == 0)
		t->answer.missing(t->answer.part, worker, generation, sequence, t->answer.arg);
}

static void result_read(struct order_result *result, const struct record *r, struct error *err)
{
	uint64_t pending = 0;

	*result = (struct order_result){.text = r->text ? r->text : ""};
	if (!record_is(r, "ok"))
		result->code = record_get(r, "code") ? record_get(r, "code") : "?";
	else if (record_u64_opt(r, "pending", 0, 1, &pending, err) != 0 ||
		 record_u64_opt(r, "bytes", 0, UINT64_MAX, &result->bytes, err) != 0 ||
		 record_u64_opt(r, "sum", 0, UINT64_MAX, &result->sum, err) != 0 ||
		 record_real_opt(r, "stall", 0.0, 1e9, &result->stall, err) != 0 ||
		 record_real_opt(r, "element", 0.0, 1e18, &result->element, err) != 0 ||
		 record_real_opt(r, "units", 0.0, 1e18, &result->heat_units, err) != 0 ||
		 record_u64_opt(r, "dense-bytes", 0, UINT64_MAX, &result->dense_bytes, err) != 0 ||
		 record_u64_opt(r, "row-bytes", 0, UINT64_MAX, &result->row_bytes, err) != 0) {
		result->code = "bad-answer";
		result->text = err->text;
	}
	result->pending = (int)pending;
	result->heat = record_get(r, "heat");
}

static void ask_later(struct part_remote *r, struct told *t)
{
	double seconds = (clock_mono() - t->began) * AGAIN_PART;

	seconds = seconds > AGAIN_SECONDS_MIN ? seconds : AGAIN_SECONDS_MIN;
	t->next = r->pending;
	r->pending = t;
	timer_set(r->again, seconds < AGAIN_SECONDS_MAX ? seconds : AGAIN_SECONDS_MAX);
}

static void part_remote_on_answer(const struct record *record, int closing, void *remote)
{
	struct part_remote *r = remote;
	struct order_result result;
	struct error err = {0};

	/* The connection is lost: all orders are kept until the server is back. */
	if (!record || !r->first)
		return;
	if (!closing) {
		missing(r->first, record);
		return;
	}
	struct told *t = told_take(r);
	result_read(&result, record, &err);
	result.attempt = t->attempt;
	if (result.pending) {
		ask_later(r, t);
		return;
	}
	t->answer.done(t->answer.part, &result, t->answer.arg);
	told_free(t);
}

static void send_told(struct part_remote *r, const struct told *t)
{
	struct error err = {0};

	if (peer_send_ref(r->peer, t->text->text, t->text->head + t->text->bytes, told_text_release,
			  told_text_hold(t->text), part_remote_on_answer, r) == 0 ||
	    !peer_is_up(r->peer))
		return; /* not connected: it goes when the connection comes */
	error_set(&err, ERROR_TEMPFAIL, r->options.path, "does not read what it is sent");
	r->options.broken(&err, r->options.owner);
}

/* Gives what is pending again. While the server is away that waits: part_remote_on_stat() sends all
 * it was told, on_overdue() ends cuts. */
static void part_remote_on_again(void *remote)
{
	struct part_remote *r = remote;
	struct told *t;

	while ((t = r->pending)) {
		r->pending = t->next;
		told_append(r, t);
		if (r->ready)
			send_told(r, t);
	}
}

int part_remote_obey(struct part_remote *r, const struct order *o, struct told_text *text,
		     const struct order_answer *a)
{
	struct told *t = told_add(r, text);

	if (!t)
		return -1;
	t->kind = o->kind;
	t->attempt = o->attempt;
	t->iteration = o->iteration;
	t->units = o->kind == ORDER_APPLY ? o->units : 0;
	t->answer = *a;
	if (r->ready)
		send_told(r, t);
	else if (o->kind == ORDER_CUT)
		timer_set(r->overdue, COME_BACK_SECONDS);
	return 0;
}

void part_remote_flush(struct part_remote *r)
{
	peer_flush(r->peer);
}

/* It has not come back: whoever waits for its cut is told, and it is not asked again. */
static void on_overdue(void *remote)
{
	struct order_result lost = {.code = "lost", .text = "connection lost"};
	struct part_remote *r = remote;
	struct told **at = &r->first, *t, *gone = NULL;

	part_remote_on_again(r); /* pending cuts, too */
	while ((t = *at)) {
		if (t->kind != ORDER_CUT) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = gone;
		gone = t;
	}
	r->end = at;
	while ((t = gone)) {
		gone = t->next;
		t->answer.done(t->answer.part, &lost, t->answer.arg);
		told_free(t);
	}
}

/* ---- coming and going ---- */

/* The lowest iteration at which it may be: the lead's, less what it has not answered. */
static uint64_t least_iteration(const struct part_remote *r)
{
	for (const struct told *t = r->first; t; t = t->next) {
		if (t->units)
			return t->iteration;
	}
	return r->options.iteration(r->options.owner);
}

static int is_told_of_a_map(const struct part_remote *r)
{
	for (const struct told *t = r->first; t; t = t->next) {
		if (t->kind == ORDER_ADOPT)
			return 1;
	}
	return 0;
}

/* One that joins has no part yet, and is of this incarnation. */
static int check_joins(const struct part_remote *r, const struct record *stat, struct error *err)
{
	uint64_t incarnation = 0;
	const char *joins = record_get(stat, "join");

	if (!joins || strcmp(joins, "1") != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "it was not started with --join, or has had a part since");
	if (record_u64(stat, "incarnation", 0, UINT64_MAX, &incarnation, err) != 0)
		return -1;
	if (incarnation == r->options.incarnation)
		return 0;
	return error_set(err, ERROR_CONFIG, NULL, "it is of incarnation %llu, not %llu",
			 (unsigned long long)incarnation,
			 (unsigned long long)r->options.incarnation);
}

static int check_where(const struct part_remote *r, const struct record *stat, struct error *err)
{
	uint64_t iteration = 0, incarnation = 0, committed = r->options.iteration(r->options.owner);
	char part[32];

	snprintf(part, sizeof part, "%u/%zu", r->options.part, r->options.parts);
	const char *is = record_get(stat, "part");
	uint64_t map = 1;
	if (record_u64_opt(stat, "map", 0, UINT64_MAX, &map, err) != 0)
		return -1;
	if (map != r->options.map(r->options.owner) && !is_told_of_a_map(r))
		return error_set(err, ERROR_TEMPFAIL, r->options.path,
				 "goes by map %llu, the lead by %llu", (unsigned long long)map,
				 (unsigned long long)r->options.map(r->options.owner));
	if ((!is || strcmp(is, part) != 0) && map == r->options.map(r->options.owner))
		return error_set(err, ERROR_CONFIG, r->options.path, "is part %s, not %s",
				 is ? is : "?", part);
	if (record_u64(stat, "iteration", 0, UINT64_MAX, &iteration, NULL) == 0 &&
	    record_u64(stat, "incarnation", 0, UINT64_MAX, &incarnation, NULL) == 0 &&
	    iteration >= least_iteration(r) && iteration <= committed &&
	    incarnation == r->options.incarnation)
		return 0;
	return error_set(err, ERROR_TEMPFAIL, r->options.path,
			 "is at iteration %llu of incarnation %llu, the lead at %llu of %llu",
			 (unsigned long long)iteration, (unsigned long long)incarnation,
			 (unsigned long long)committed, (unsigned long long)r->options.incarnation);
}

static void part_remote_on_stat(const struct record *record, int closing, void *remote)
{
	struct part_remote *r = remote;
	struct error err = {0};

	if (!record || closing || r->leaves)
		return;
	if (r->options.joins && check_joins(r, record, &err) != 0) {
		snprintf(r->wrong, sizeof r->wrong, "%s", err.text);
		r->options.changed(r->options.owner);
		return;
	}
	if (!r->options.joins && check_where(r, record, &err) != 0) {
		r->options.broken(&err, r->options.owner);
		return;
	}
	snprintf(r->boot, sizeof r->boot, "%s",
		 record_get(record, "boot") ? record_get(record, "boot") : "");
	snprintf(r->id, sizeof r->id, "%s",
		 record_get(record, "id") ? record_get(record, "id") : "");
	r->ready = 1;
	timer_stop(r->overdue);
	for (const struct told *t = r->first; t; t = t->next)
		send_told(r, t);
	r->options.changed(r->options.owner);
}

static void part_remote_on_up(struct peer *p, const struct record *greeting, void *remote)
{
	(void)greeting;
	(void)peer_send(p, "stat\n", 5, NULL, 0, part_remote_on_stat, remote);
}

static void part_remote_on_down(struct peer *p, void *remote)
{
	struct part_remote *r = remote;

	(void)p;
	r->ready = 0;
	if (r->leaves) {
		part_remote_stop(r);
		return;
	}
	log_say(LOG_LEVEL_WARNING, "%s: connection lost; units wait", r->options.path);
	timer_set(r->overdue, COME_BACK_SECONDS);
	r->options.changed(r->options.owner);
}

const char *part_remote_boot(const struct part_remote *r)
{
	return r->boot;
}

const char *part_remote_path(const struct part_remote *r)
{
	return r->path;
}

const char *part_remote_id(const struct part_remote *r)
{
	return r->id;
}

const char *part_remote_wrong(const struct part_remote *r)
{
	return r->wrong[0] ? r->wrong : NULL;
}

void part_remote_place(struct part_remote *r, uint32_t part, size_t parts)
{
	r->options.part = part;
	r->options.parts = parts;
	r->options.joins = 0;
}

void part_remote_leave(struct part_remote *r)
{
	r->leaves = 1;
}

int part_remote_is_idle(const struct part_remote *r)
{
	return r->first == NULL && r->pending == NULL;
}

int part_remote_ready(const struct part_remote *r)
{
	return r->ready;
}

struct part_remote *part_remote_new(const struct part_remote_options *options)
{
	size_t len = strlen(options->path) + 1;
	struct part_remote *r = calloc(1, sizeof *r + len);

	if (!r)
		return NULL;
	r->options = *options;
	memcpy(r->path, options->path, len);
	r->options.path = r->path;
	r->end = &r->first;
	return r;
}

int part_remote_start(struct part_remote *r, struct event_base *base)
{
	struct peer_options options = {.path = r->options.path,
				       .up = part_remote_on_up,
				       .down = part_remote_on_down,
				       .owner = r};

	r->overdue = timer_new(base, on_overdue, r);
	r->again = timer_new(base, part_remote_on_again, r);
	r->peer = r->overdue && r->again ? peer_new(base, &options) : NULL;
	return r->peer ? 0 : -1;
}

void part_remote_stop(struct part_remote *r)
{
	if (r->peer)
		peer_free(r->peer);
	timer_free(r->overdue);
	timer_free(r->again);
	r->peer = NULL;
	r->overdue = r->again = NULL;
}

void part_remote_free(struct part_remote *r)
{
	struct told *t;

	while (r && r->first)
		told_free(told_take(r));
	while (r && (t = r->pending)) {
		r->pending = t->next;
		told_free(t);
	}
	free(r);
}

/* ---- handing over ---- */

int part_remote_owed(const struct part_remote *r, lead_parts_owed_fn *fn, void *arg,
		     struct error *err)
{
	for (const struct told *t = r->first; t; t = t->next) {
		if (t->kind != ORDER_APPLY &&
		    t->kind != ORDER_THROW) /* the next lead gives the others by itself */
			continue;
		if (fn(r->options.part, t->iteration, t->units, t->text->text, t->text->head,
		       t->text->bytes, arg, err) != 0)
			return -1;
	}
	return 0;
}

int part_remote_owe(struct part_remote *r, uint64_t iteration, uint64_t units,
		    struct told_text *text)
{
	struct told *t = told_add(r, text);

	if (!t)
		return -1;
	t->kind = units ? ORDER_APPLY : ORDER_THROW;
	t->iteration = iteration;
	t->units = units;
	return 0;
}
