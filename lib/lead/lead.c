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
#define LINE_ROOM 512            /* of a line of a settle: an id and four numbers */

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

struct request *lead_undefer(struct lead *l, uint64_t token)
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
	struct request *rq = lead_undefer(l, e->token);

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
		if ((i == 0 || strcmp(list[i], list[i - 1]) != 0) && log_is_worth(++l->refusals))
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

/*
 * boot= says that all who apply this unit live in this boot. If shardd does, too, it need not wait for
 * the disk: what takes its journal's last lines takes the parameters, and both go back to a checkpoint.
 * Each sample is used (what was lost is given out again, behind that checkpoint) and none is twice in
 * the model (it went back with the queue); what is acknowledged is on disk as long as anything is
 * left that was told so.
 */
static void settle(struct lead *l, const struct gate_effect *e)
{
	const char *boot = lead_parts_boot(l->parts);
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
	if (boot[0])
		record_add(&o, "boot", boot);
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

/* ---- the parts ---- */

static void on_missing(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
		       void *lead)
{
	struct lead *l = lead;

	(void)part;
	(void)generation;
	(void)sequence;
	names_put(l, &l->holding.missing, worker);
}

static void one_holds(struct lead *l)
{
	const char **missing;

	if (l->broken || --l->holding.asked > 0)
		return;
	missing = names_list(l, &l->holding.missing, "a server does not have its part of its push");
	if (missing)
		gate_held(l->gate, missing, l->holding.missing.count);
	free(missing);
	lead_pump(l);
}

static void on_held(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;

	if (result->code && !l->broken)
		lead_breakf(l, ERROR_TEMPFAIL, lead_parts_name(l->parts, part), "hold: %s",
			    result->text);
	one_holds(l);
}

static void hold(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_HOLD, .push = e->push, .pushes = e->pushes};
	struct order_answer answer = {.missing = on_missing, .done = on_held, .arg = l};

	l->holding.missing.count = 0;
	l->holding.asked = lead_parts_count(l->parts) + 1; /* and this function */
	lead_parts_give(l->parts, &order, &answer);
	one_holds(l);
}

static void apply(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_APPLY,
			      .iteration = e->iteration,
			      .units = e->units,
			      .push = e->push,
			      .pushes = e->pushes};

	lead_parts_give(l->parts, &order, NULL);
	if (!l->broken)
		lead_rows(l, e->iteration + e->units, e->samples, e->loss);
}

static void throw_away(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_THROW,
			      .worker = e->worker,
			      .generation = e->generation,
			      .sequence = e->sequence,
			      .one = e->kind == GATE_DROP};

	lead_parts_give(l->parts, &order, NULL);
}

static uint64_t iteration(void *lead)
{
	return gate_iteration(((struct lead *)lead)->gate);
}

static void on_ready(int all, void *lead)
{
	struct lead *l = lead;

	gate_servers(l->gate, all);
	lead_pump(l);
}

static void on_broken(const struct error *err, void *lead)
{
	lead_break(lead, err);
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
		case GATE_DROP:
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
	struct lead_parts_options parts = {.here = options->here,
				      .sockets = options->servers,
				      .count = options->server_count,
				      .incarnation = options->gate.incarnation,
				      .iteration = iteration,
				      .ready = on_ready,
				      .broken = on_broken,
				      .owner = l};

	if (!l)
		return error_set(err, ERROR_OS, "lead", "out of memory");
	l->options = *options;
	l->started = clock_mono();
	l->started_at = options->gate.iteration;
	l->options.gate.commit = options->shards != NULL;
	l->sizes.fd = -1;
	if (lead_parts_new(&l->parts, &parts, err) != 0 || lead_sizes_new(l, err) != 0 ||
	    gate_new(&l->gate, &l->options.gate, err) != 0)
		goto failed;
	l->cut.part = calloc(lead_parts_count(l->parts) + 1, sizeof *l->cut.part);
	if (!l->cut.part) {
		error_set(err, ERROR_OS, "lead", "out of memory");
		goto failed;
	}
	gate_servers(l->gate, lead_parts_ready(l->parts));
	*out = l;
	return 0;
failed:
	lead_free(l);
	return -1;
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
	return lead_parts_start(l->parts, base, err);
}

void lead_stop(struct lead *l)
{
	if (!l)
		return;
	l->broken = 1; /* peers tell their open requests now: nothing is to follow from it */
	lead_parts_stop(l->parts);
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
	lead_parts_free(l->parts);
	lead_sizes_free(l);
	free(l->cut.part);
	free(l->settling.fenced.name);
	free(l->holding.missing.name);
	free(l);
}
