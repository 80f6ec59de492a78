/*
 * The gate's effects carried out, and what its peers say.  The gate decides; this sends.  Nothing
 * is repeated here but what the gate asks for again.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_SECONDS 30.0      /* then the connection to shardd is made anew and asked again */
#define SETTLE_AGAIN_SECONDS 0.5 /* after shardd had no room for its journal */
#define EXPECT_SECONDS 10        /* for workers that are expected, from the first one on */
#define LINE_ROOM 512            /* of a payload line: an id and four numbers */

/* ---- ends ---- */

void lead_break(struct lead *l, const struct error *err)
{
	if (!l->broken)
		l->error = *err;
	l->broken = 1;
	server_stop(l->server);
}

int lead_breakf(struct lead *l, int code, const char *place, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	struct error err = {0};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	error_set(&err, code, place, "%s", text);
	lead_break(l, &err);
	return -1;
}

const struct error *lead_broken(const struct lead *l)
{
	return l->broken ? &l->error : NULL;
}

/* ---- requests that wait ---- */

static void on_cancel(struct request *rq, void *arg)
{
	struct pending *p = arg;

	(void)rq;
	HASH_DEL(p->lead->pendings, p);
	free(p);
}

uint64_t lead_defer(struct lead *l, struct request *rq)
{
	struct pending *p = calloc(1, sizeof *p);

	if (!p) {
		request_err(rq, "no-memory", NULL);
		return 0;
	}
	p->token = ++l->token;
	p->lead = l;
	p->rq = rq;
	HASH_ADD(hh, l->pendings, token, sizeof p->token, p);
	request_defer(rq, on_cancel, p);
	return p->token;
}

struct request *lead_take(struct lead *l, uint64_t token)
{
	struct pending *p;
	struct request *rq;

	HASH_FIND(hh, l->pendings, &token, sizeof token, p);
	if (!p)
		return NULL;
	rq = p->rq;
	HASH_DEL(l->pendings, p);
	free(p);
	return rq;
}

static void answer(struct lead *l, const struct gate_effect *e)
{
	struct request *rq = lead_take(l, e->token);

	if (!e->ok && l->cut.busy && e->token == l->cut.token)
		lead_cut_refused(l);
	if (!rq)
		return;
	if (!e->ok) {
		request_err(rq, e->code, "%s", e->fields);
		return;
	}
	if (e->actions)
		request_put(rq, e->actions, strlen(e->actions));
	request_ok(rq, "%s", e->fields);
}

/* ---- shardd ---- */

static void again_later(struct lead *l)
{
	struct timeval t = clock_timeval(SETTLE_AGAIN_SECONDS);

	event_add(l->again, &t);
}

static void on_again(evutil_socket_t fd, short what, void *lead)
{
	struct lead *l = lead;

	(void)fd;
	(void)what;
	if (peer_is_up(l->shards))
		gate_shards(l->gate, 1);
	lead_pump(l);
}

static void names_put(struct lead *l, struct names *names, const char *worker)
{
	if (names->count == names->max) {
		size_t max = names->max ? names->max * 2 : 16;
		void *more = realloc(names->name, max * sizeof *names->name);
		if (!more) {
			lead_breakf(l, ERROR_OS, "names", "no memory");
			return;
		}
		names->name = more;
		names->max = max;
	}
	snprintf(names->name[names->count++], OPTION_ID_MAX, "%s", worker);
}

/* The worker= of a record of this type. */
static void names_add(struct lead *l, struct names *names, const struct record *r, const char *type)
{
	const char *worker = record_get(r, "worker");

	if (record_is(r, type) && worker)
		names_put(l, names, worker);
}

/* As the gate wants them, and said with the reason; to be freed. NULL: no memory, and the lead is
 * broken. */
static const char **names_list(struct lead *l, const struct names *names, const char *why)
{
	const char **list = calloc(names->count + 1, sizeof *list);

	if (!list) {
		lead_breakf(l, ERROR_OS, "names", "no memory");
		return NULL;
	}
	for (size_t i = 0; i < names->count; i++) {
		list[i] = names->name[i];
		if ((i == 0 || strcmp(list[i], list[i - 1]) != 0) && ps_tell(++l->refusals))
			log_say(LOG_LEVEL_WARNING, "%s: %s: it is refused", list[i], why);
	}
	return list;
}

static void settle_ok(struct lead *l)
{
	struct settling *s = &l->settling;
	const char **name = names_list(l, &s->fenced, "not all rows of its push are in its hand");

	if (!name)
		return;
	s->answers++;
	s->seconds += clock_mono() - s->sent;
	gate_settled(l->gate, s->number, name, s->fenced.count);
	free(name);
}

static void settle_err(struct lead *l, const struct record *r)
{
	const char *code = record_get(r, "code");
	uint64_t number = l->settling.number;

	code = code ? code : "";
	if (strcmp(code, "fenced") == 0) {
		gate_settle_refused(l->gate, number, GATE_REFUSED_INCARNATION);
		return;
	}
	if (strcmp(code, "journal") == 0 || strcmp(code, "memory") == 0 ||
	    strcmp(code, "no-memory") == 0 || strcmp(code, "slow") == 0) {
		/* What shardd has no room for now it has later. */
		log_say(LOG_LEVEL_ERROR, "%s: settle %llu: %s: %s", l->options.shards,
			(unsigned long long)number, code, r->text ? r->text : "");
		gate_settle_refused(l->gate, number, GATE_REFUSED_NOW);
		again_later(l);
		return;
	}
	/* No line of a settle makes it fail: somebody else settles in this incarnation, or that is no
	 * shardd. What is in its journal is not what is in the model. */
	lead_breakf(l, ERROR_TEMPFAIL, l->options.shards, "settle %llu: %s: %s",
		    (unsigned long long)number, code, r->text ? r->text : "");
}

static void on_settle(const struct record *r, int closing, const void *payload, size_t bytes,
		      void *lead)
{
	struct lead *l = lead;

	(void)payload;
	(void)bytes;
	if (!r)
		return; /* on_shards_down() follows */
	if (!closing) {
		names_add(l, &l->settling.fenced, r, "fenced");
		return;
	}
	if (record_is(r, "ok"))
		settle_ok(l);
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

static void settle(struct lead *l, const struct gate_effect *e)
{
	char head[256], *text = malloc(e->lines * LINE_ROOM);
	struct record_out o;
	size_t len = 0;

	if (!text) {
		lead_breakf(l, ERROR_OS, "settle", "no memory");
		return;
	}
	for (size_t i = 0; i < e->lines; i++)
		len += settle_line(text + len, &e->line[i]);
	record_begin(&o, head, sizeof head, "settle");
	record_add_u64(&o, "number", e->number);
	record_add_u64(&o, "iteration", e->iteration);
	record_add_u64(&o, "incarnation", l->options.gate.incarnation);
	record_add_u64(&o, "bytes", len);
	size_t head_len = record_end(&o, NULL);
	l->settling.number = e->number;
	l->settling.fenced.count = 0;
	l->settling.sent = clock_mono();
	if (peer_send(l->shards, head, head_len, text, len, on_settle, l) != 0) {
		gate_settle_refused(l->gate, e->number, GATE_REFUSED_NOW);
		again_later(l);
	}
	free(text);
}

static void on_shards_up(struct peer *p, const struct record *r, void *lead)
{
	struct lead *l = lead;

	(void)p;
	(void)r;
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

/* ---- holding and applying ---- */

static size_t part_line(char *out, const struct gate_part *part)
{
	struct record_out o;

	record_begin(&o, out, LINE_ROOM, "part");
	record_add(&o, "worker", part->worker);
	record_add_u64(&o, "generation", part->generation);
	record_add_u64(&o, "sequence", part->sequence);
	record_add_u64(&o, "unit", part->unit);
	record_add_u64(&o, "count", part->count);
	record_add_u64(&o, "size", part->size);
	if (part->scale < 1.0 || part->scale > 1.0)
		record_add_real(&o, "scale", part->scale);
	return record_end(&o, NULL);
}

/* The parts as lines, to be freed. NULL: no memory, and the lead is broken. */
static char *part_lines(struct lead *l, const struct gate_effect *e, size_t *len)
{
	char *text = malloc(e->parts * LINE_ROOM + 1);

	*len = 0;
	if (!text) {
		lead_breakf(l, ERROR_OS, "parts", "no memory");
		return NULL;
	}
	for (size_t i = 0; i < e->parts; i++)
		*len += part_line(text + *len, &e->part[i]);
	return text;
}

/* The parts as this server's own room takes them; -1: no memory, and the lead is broken. */
static int own_parts(struct lead *l, const struct gate_effect *e)
{
	if (e->parts > l->part_max) {
		free(l->part);
		l->part = calloc(e->parts, sizeof *l->part);
		l->part_max = l->part ? e->parts : 0;
	}
	if (e->parts && !l->part)
		return lead_breakf(l, ERROR_OS, "apply", "no memory");
	for (size_t i = 0; i < e->parts; i++)
		l->part[i] = (struct ps_part){.worker = e->part[i].worker,
					      .generation = e->part[i].generation,
					      .sequence = e->part[i].sequence,
					      .unit = e->part[i].unit,
					      .count = e->part[i].count,
					      .size = e->part[i].size,
					      .scale = e->part[i].scale};
	return 0;
}

static void held(struct lead *l)
{
	const char **missing = names_list(l, &l->holding.missing,
					  "a server does not have its part of its push");

	if (missing)
		gate_held(l->gate, missing, l->holding.missing.count);
	free(missing);
}

static void on_hold(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct other *o = arg;
	struct lead *l = o->lead;

	(void)payload;
	(void)bytes;
	if (!r || l->broken)
		return;
	if (!closing) {
		names_add(l, &l->holding.missing, r, "missing");
		return;
	}
	if (!record_is(r, "ok"))
		lead_breakf(l, ERROR_TEMPFAIL, o->path, "hold: %s", r->text ? r->text : "");
	else if (--l->holding.asked == 0)
		held(l);
	lead_pump(l);
}

static void own_lacks(const struct ps_part *part, void *lead)
{
	struct lead *l = lead;

	names_put(l, &l->holding.missing, part->worker);
}

static void hold(struct lead *l, const struct gate_effect *e)
{
	char head[256], *text;
	struct record_out o;
	size_t len;

	l->holding.missing.count = 0;
	l->holding.asked = l->others;
	if (own_parts(l, e) != 0)
		return;
	(void)ps_hold(l->ps, l->part, e->parts, own_lacks, l);
	if (l->others == 0) {
		held(l);
		return;
	}
	text = part_lines(l, e, &len);
	if (!text)
		return;
	record_begin(&o, head, sizeof head, "hold");
	record_add_u64(&o, "incarnation", l->options.gate.incarnation);
	record_add_u64(&o, "bytes", len);
	size_t head_len = record_end(&o, NULL);
	for (size_t i = 0; i < l->others && !l->broken; i++)
		(void)other_ask(&l->other[i], head, head_len, text, len, 0, on_hold, &l->other[i]);
	free(text);
}

static int apply_others(struct lead *l, const struct gate_effect *e)
{
	char head[256], *text;
	struct record_out o;
	size_t len;

	if (l->others == 0)
		return 0;
	text = part_lines(l, e, &len);
	if (!text)
		return -1;
	record_begin(&o, head, sizeof head, "apply");
	record_add_u64(&o, "incarnation", l->options.gate.incarnation);
	record_add_u64(&o, "iteration", e->iteration);
	record_add_u64(&o, "units", e->units);
	if (len)
		record_add_u64(&o, "bytes", len);
	size_t head_len = record_end(&o, NULL);
	int rc = others_tell(l, e->iteration, e->units, head, head_len, len ? text : NULL, len);
	free(text);
	others_flush(l);
	return rc;
}

static void apply(struct lead *l, const struct gate_effect *e)
{
	struct error err = {0};
	size_t missing = 0;

	if (own_parts(l, e) != 0)
		return;
	/* The others first, and at once: they work while this part does. */
	if (apply_others(l, e) != 0)
		return;
	if (ps_apply(l->ps, e->units, l->part, e->parts, &missing, &err) != 0)
		lead_break(l, &err);
	else if (missing)
		lead_breakf(l, ERROR_SOFTWARE, "apply", "%zu parts are not staged here", missing);
	else
		lead_rows(l, e->samples, e->loss);
}

static void throw_away(struct lead *l, const struct gate_effect *e)
{
	char head[256];
	struct record_out o;

	ps_throw(l->ps, e->worker, e->generation);
	record_begin(&o, head, sizeof head, "throw");
	record_add_u64(&o, "incarnation", l->options.gate.incarnation);
	record_add(&o, "worker", e->worker);
	record_add_u64(&o, "generation", e->generation);
	size_t len = record_end(&o, NULL);
	(void)others_tell(l, 0, 0, head, len, NULL, 0);
}

/* ---- effects ---- */

void lead_pump(struct lead *l)
{
	const struct gate_effect *e;

	if (l->pumping)
		return;
	l->pumping = 1;
	while (!l->broken && (e = gate_next(l->gate))) {
		switch (e->kind) {
		case GATE_ANSWER:
			answer(l, e);
			break;
		case GATE_HOLD:
			hold(l, e);
			break;
		case GATE_SETTLE:
			settle(l, e);
			break;
		case GATE_APPLY:
			apply(l, e);
			break;
		case GATE_UNSTAGE:
			ps_push_drop(l->ps, e->worker, e->generation, e->sequence);
			break;
		case GATE_THROW:
			throw_away(l, e);
			break;
		case GATE_SAVE:
			lead_cut_save(l);
			break;
		case GATE_CUT:
			lead_cut_fork(l, e->iteration);
			break;
		case GATE_QUIT:
			lead_breakf(l, ERROR_TEMPFAIL, l->options.shards,
				    "incarnation %llu is not in force any more",
				    (unsigned long long)l->options.gate.incarnation);
			break;
		}
	}
	l->pumping = 0;
	if (gate_failed(l->gate))
		lead_breakf(l, ERROR_OS, "gate", "no memory");
}

/* ---- making ---- */

int lead_new(struct lead **out, const struct lead_options *options, struct error *err)
{
	struct lead *l = calloc(1, sizeof *l);

	if (!l)
		return error_set(err, ERROR_OS, "lead", "no memory");
	l->options = *options;
	l->ps = options->ps;
	l->others = options->server_count;
	l->started = clock_mono();
	l->started_at = options->gate.iteration;
	l->options.gate.commit = options->shards != NULL;
	l->other = calloc(l->others + 1, sizeof *l->other);
	others_new(l);
	l->cut.part = calloc(l->others + 1, sizeof *l->cut.part);
	l->sizes.fd = -1;
	if (!l->other || !l->cut.part) {
		lead_free(l);
		return error_set(err, ERROR_OS, "lead", "no memory");
	}
	if (lead_sizes_new(l, err) != 0 || gate_new(&l->gate, &l->options.gate, err) != 0) {
		lead_free(l);
		return -1;
	}
	gate_servers(l->gate, l->others == 0);
	lead_hand_new(l);
	*out = l;
	return 0;
}

static void on_begin(evutil_socket_t fd, short what, void *lead)
{
	struct lead *l = lead;

	(void)fd;
	(void)what;
	gate_begin(l->gate);
	lead_pump(l);
}

void lead_expect(struct lead *l)
{
	struct timeval t = {.tv_sec = EXPECT_SECONDS};

	if (l->options.gate.expect && !l->expecting)
		event_add(l->begin, &t);
	l->expecting = 1;
}

int lead_start(struct lead *l, struct server *server, struct error *err)
{
	struct event_base *base = server_base(server);
	struct peer_options shards = {.path = l->options.shards,
				      .up = on_shards_up,
				      .down = on_shards_down,
				      .owner = l,
				      .answer_seconds = SETTLE_SECONDS};

	l->server = server;
	l->again = event_new(base, -1, 0, on_again, l);
	l->begin = evtimer_new(base, on_begin, l);
	if (!l->again || !l->begin || lead_hand_start(l, base) != 0 ||
	    lead_silent_start(l, base) != 0)
		return error_set(err, ERROR_OS, "lead", "no memory");
	if (l->options.shards && !(l->shards = peer_new(base, &shards)))
		return error_set(err, ERROR_OS, l->options.shards, "no memory");
	return others_start(l, base, err);
}

void lead_stop(struct lead *l)
{
	if (!l)
		return;
	l->broken = 1; /* peers tell their open requests now: nothing is to follow from it */
	others_stop(l);
	if (l->shards)
		peer_free(l->shards);
	if (l->again)
		event_free(l->again);
	if (l->begin)
		event_free(l->begin);
	if (l->absent)
		event_free(l->absent);
	lead_silent_stop(l);
}

void lead_free(struct lead *l)
{
	if (!l)
		return;
	if (l->cut.busy)
		lead_cut_refused(l);
	gate_free(l->gate);
	others_free(l);
	lead_sizes_free(l);
	free(l->cut.part);
	free(l->settling.fenced.name);
	free(l->holding.missing.name);
	free(l->part);
	free(l);
}
