/*
 * The lead and its replicas: a connection to each, what the gate orders, what they answer.  Nothing
 * is said again here: when a connection goes, so does what was asked on it; when it comes back, the
 * replica says where it is, and the gate decides.
 */
#include "lead/lead_replicas.h"

#include "base/log.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_SECONDS 0.2 /* until a sum that broke off with its fabric is ordered anew */
#define SUM_TRIES 5 /* if there is no room, or hosts differ; the pause doubles each time */
#define LATE_SECONDS 2.0  /* from the last push until replicas are told which the lead has */
#define RENEW_SECONDS 1.0 /* until a replica that refused an order is connected again */
#define FILL_AGAIN_SECONDS 1.0 /* after a fill that failed; doubles each time, up to: */
#define FILL_AGAIN_MAX 60.0
#define FILL_SECONDS 30.0 /* when nothing has come for so long, a fill has failed: */
#define FILL_SILENT_MAX 600.0 /* then the pause doubles up to this, as each try delays a commit */
#define DOOR_SECONDS 5.0  /* from a join until a worker is refused whose replica is not in force */
#define LOOK_SECONDS 1.0
#define ALONE_SECONDS 30.0 /* the lead ends after so long without a replica in force, */
#define FIRST_SECONDS 600.0 /* and at the start: they may have to read a checkpoint */

/* An order, from its sending until its answer. */
struct told {
	struct one *one;
	enum order_kind kind;
	uint64_t round;
	int failed; /* the answer names members whose pushes could not be summed */
};

/* ---- connections ---- */

static void lead_replicas_on_up(struct peer *p, const struct record *greeting, void *one);
static void lead_replicas_on_down(struct peer *p, void *one);

static int connect_one(struct one *o)
{
	struct peer_options options = {.path = o->path,
				       .up = lead_replicas_on_up,
				       .down = lead_replicas_on_down,
				       .owner = o};

	o->peer = peer_new(server_base(o->lead->server), &options);
	return o->peer ? 0
		       : lead_breakf(o->lead, ERROR_OS, o->path, "out of memory");
}

/* Its connection is made anew, in the next turn of the loop: this call may come from it. */
static void lead_replicas_drop(struct one *o)
{
	timer_set(o->renew, 0);
}

/* Forgets what was asked of it. */
static void lead_replicas_forget(struct one *o)
{
	timer_stop(o->limit);
	timer_stop(o->failed);
	timer_stop(o->look);
	o->filling = 0;
	if (o->lead->replicas->cut.one == o)
		lead_replica_cut_over(o->lead, NULL);
}

static void on_renew(void *one)
{
	struct one *o = one;

	if (o->lead->broken)
		return;
	if (!o->peer) {
		connect_one(o);
		return;
	}
	struct peer *p = o->peer;
	o->peer = NULL;
	peer_free(p);
	lead_replicas_forget(o);
	timer_set(o->renew, RENEW_SECONDS);
	gate_replica_gone(o->lead->gate, o->index);
	lead_pump(o->lead);
}

static void lead_replicas_on_down(struct peer *p, void *one)
{
	struct one *o = one;

	(void)p;
	lead_replicas_forget(o);
	log_say(LOG_LEVEL_WARNING, "%s: connection lost", o->path);
	gate_replica_gone(o->lead->gate, o->index);
	lead_pump(o->lead);
}

/* Reads where a replica is. -1: it is not the one that it should be, and the lead is broken, or
 * waits for another one. */
static int where_is(const struct one *o, const struct record *r, struct gate_replica *at)
{
	struct lead *l = o->lead;
	const char *state = record_get(r, "state"), *part = record_get(r, "part");
	uint64_t incarnation = 0, sums = 0;
	char own[64];
	struct error err = {0};

	snprintf(own, sizeof own, "%zu/%zu", o->index, l->options.replica_count);
	if (!state || !part || strcmp(part, own) != 0)
		return lead_breakf(l, ERROR_CONFIG, o->path, "is %s%.40s, not replica %s",
				   state ? "" : "part ", part ? part : "nothing", own);
	*at = (struct gate_replica){.serving = strcmp(state, "serving") == 0,
				    .filling = strcmp(state, "filling") == 0};
	if (record_u64(r, "iteration", 0, UINT64_MAX - 1, &at->iteration, &err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0 ||
	    record_u64_opt(r, "round", 0, UINT64_MAX, &at->round, &err) != 0 ||
	    record_u64_opt(r, "sums", 0, 1, &sums, &err) != 0)
		return lead_breakf(l, ERROR_CONFIG, o->path, "%s", err.text);
	if ((sums != 0) != (l->options.sums != 0))
		return lead_breakf(l, ERROR_CONFIG, o->path, "%s --sums, unlike the lead",
				   sums ? "was started with" : "was not started with");
	if (incarnation == l->options.gate.incarnation)
		return 0;
	log_say(LOG_LEVEL_WARNING, "%s is of incarnation %llu, not %llu: it is not asked", o->path,
		(unsigned long long)incarnation,
		(unsigned long long)l->options.gate.incarnation);
	return -1;
}

static void lead_replicas_on_stat(const struct record *r, int closing, void *one)
{
	struct one *o = one;
	struct gate_replica at;

	if (!r || closing || o->lead->broken || where_is(o, r, &at) != 0)
		return;
	if (o->filling || gate_in_force(o->lead->gate, o->index))
		return; /* asked before it was told to be filled: that will say where it is */
	if (at.filling)
		timer_set(o->look, LOOK_SECONDS);
	snprintf(o->boot, sizeof o->boot, "%s", record_get(r, "boot") ? record_get(r, "boot") : "");
	gate_replica(o->lead->gate, o->index, &at);
	lead_pump(o->lead);
}

static void lead_replicas_on_up(struct peer *p, const struct record *greeting, void *one)
{
	(void)greeting;
	(void)peer_send(p, "stat\n", 5, NULL, 0, lead_replicas_on_stat, one);
}

static void lead_replicas_on_look(void *one)
{
	struct one *o = one;

	if (o->peer && !o->filling && !gate_in_force(o->lead->gate, o->index))
		(void)peer_send(o->peer, "stat\n", 5, NULL, 0, lead_replicas_on_stat, o);
}

void lead_replicas_ask(struct lead *l, const char *name)
{
	for (size_t i = 0; i < l->replicas->count; i++) {
		if (strcmp(l->replicas->one[i].name, name) == 0)
			lead_replicas_on_look(&l->replicas->one[i]);
	}
}

/* ---- answers ---- */

static const char *code_of(const struct record *r)
{
	const char *code = record_get(r, "code");

	return code ? code : "?";
}

static int is_code(const struct record *r, const char *code)
{
	return strcmp(code_of(r), code) == 0;
}

/* It lacks what the gate thinks it has: it is connected anew, and asked where it is. */
static void lead_replicas_refused(struct one *o, const char *what, const struct record *r)
{
	log_say(LOG_LEVEL_WARNING, "%s: %s: %s: %s", o->path, what, code_of(r),
		r->text ? r->text : "");
	lead_replicas_drop(o);
}

static void lead_replicas_on_again(void *lead)
{
	struct lead *l = lead;

	gate_sum_again(l->gate, l->replicas->again_round);
	lead_pump(l);
}

/* A sum for which there was no room, or about which hosts disagree, is ordered again, but not for
 * ever. Returns the seconds until then; 0: the lead is broken. */
static double try_again(struct told *t, const struct record *r)
{
	struct lead *l = t->one->lead;
	struct replicas *all = l->replicas;
	uint64_t iteration = gate_iteration(l->gate);
	int is_room = is_code(r, "room");

	if (t->round > all->failed_round) {
		all->failures = all->failed_iteration == iteration ? all->failures + 1 : 1;
		all->failed_iteration = iteration;
		all->failed_round = t->round;
	}
	if (all->failures <= SUM_TRIES)
		return AGAIN_SECONDS * (double)(UINT64_C(1) << (all->failures - 1));
	lead_breakf(l, is_room ? ERROR_OS : ERROR_CONFIG, t->one->path,
		    "the sum of iteration %llu %s: %s%s", (unsigned long long)iteration,
		    is_room ? "has no room" : "is not the same on all hosts",
		    r->text ? r->text : code_of(r),
		    is_room ? ": smaller batches, or more memory, are needed" : "");
	return 0.0;
}

/* A sum broke off, with its fabric or alone: it is ordered again. */
static void sum_broke(struct told *t, const struct record *r)
{
	struct lead *l = t->one->lead;
	struct replicas *all = l->replicas;
	double seconds = AGAIN_SECONDS;

	if (log_is_worth(++l->sums_broken))
		log_say(LOG_LEVEL_WARNING, "%s: sum: %s: %s: it is made again", t->one->path,
			code_of(r), r->text ? r->text : "");
	if (t->round < all->again_round)
		return; /* of an older sum: answers of replicas cross each other */
	if (is_code(r, "room") || is_code(r, "differs"))
		seconds = try_again(t, r);
	if (l->broken)
		return;
	all->again_round = t->round;
	timer_set(all->again, seconds);
}

static void sum_answered(struct told *t, const struct record *r)
{
	struct lead *l = t->one->lead;
	uint64_t sum = 0;

	if (record_is(r, "ok")) {
		(void)record_u64_opt(r, "sum", 0, UINT64_MAX, &sum, NULL);
		if (!t->failed)
			gate_summed(l->gate, t->one->index, t->round, sum);
	} else if (is_code(r, "fabric") || is_code(r, "lost") || is_code(r, "room") ||
		   is_code(r, "differs")) {
		sum_broke(t, r);
	} else if (!is_code(r, "stale"))
		lead_replicas_refused(t->one, "sum", r);
	else if (t->round == gate_round(l->gate))
		lead_breakf(l, ERROR_TEMPFAIL, t->one->path, "it takes orders from another lead: "
							     "%s",
			    r->text ? r->text : "");
}

/* Not all of this sum is finite. */
static void sum_is_bad(struct lead *l, const char *worker, const char *why)
{
	gate_sum_is_bad(l->gate);
	if (!log_is_worth(++l->diverged))
		return;
	struct record_out *o = RECORD("bad", F("worker", worker),
				      F("iteration", gate_iteration(l->gate)));
	size_t len = record_end(o, why);
	watchers_say(l->watchers, o->data, len);
}

/* A line of the answer to a sum: about a member. */
static void sum_says(struct told *t, const struct record *r)
{
	struct lead *l = t->one->lead;
	const char *worker;
	uint64_t generation, sequence, count;
	struct error ignored;

	if (record_id(r, "worker", &worker, &ignored) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX, &generation, &ignored) != 0)
		return;
	if (record_is(r, "summed")) {
		if (record_u64(r, "sequence", 0, UINT64_MAX, &sequence, &ignored) == 0 &&
		    record_u64(r, "count", 0, ORDER_COUNT_MAX, &count, &ignored) == 0)
			gate_summed_of(l->gate, t->one->index, t->round, worker, generation,
				       sequence, count);
		if (r->text && t->round == gate_round(l->gate))
			sum_is_bad(l, worker, r->text);
	} else if (record_is(r, "refused")) {
		t->failed = 1;
		gate_refused(l->gate, t->round, worker, generation,
			     r->text ? r->text : "its replica does not have its push");
	} else if (record_is(r, "diverged")) {
		const char *why = r->text ? r->text : "its gradient is not finite";
		t->failed = 1;
		if (log_is_worth(++l->diverged))
			log_say(LOG_LEVEL_WARNING, "a push of %s is refused: %s; %llu so far",
				worker, why, (unsigned long long)l->diverged);
		gate_diverged(l->gate, t->round, worker, generation, why);
	}
}

static void on_fill_failed(void *one)
{
	struct one *o = one;

	gate_fill_again(o->lead->gate, o->index);
	lead_pump(o->lead);
}

static void fill_later(struct one *o, double most)
{
	o->filling = 0;
	o->pause = o->pause > 0.0 ? 2.0 * o->pause : FILL_AGAIN_SECONDS;
	o->pause = o->pause < most ? o->pause : most;
	timer_set(o->failed, o->pause);
	gate_fill_failed(o->lead->gate, o->index);
}

static void on_fill_limit(void *one)
{
	struct one *o = one;

	o->pause = o->pause > FILL_SECONDS ? o->pause : FILL_SECONDS;
	fill_later(o, FILL_SILENT_MAX);
	log_say(LOG_LEVEL_ERROR,
		"nothing has come to %s for %.0f s: the others go on without it, and it is filled "
		"again in %.0f s",
		o->path, FILL_SECONDS, o->pause);
	lead_pump(o->lead);
}

static void fill_answered(struct told *t, const struct record *r)
{
	struct one *o = t->one;
	uint64_t iteration = 0;

	if (o->filling != t->round)
		return; /* the others have gone on without it, or it is filled again */
	timer_stop(o->limit);
	o->filling = 0;
	if (record_is(r, "ok") &&
	    record_u64(r, "iteration", 0, UINT64_MAX - 1, &iteration, NULL) == 0 &&
	    iteration == gate_iteration(o->lead->gate)) {
		o->pause = 0.0;
		gate_filled(o->lead->gate, o->index);
		return;
	}
	if (record_is(r, "ok"))
		log_say(LOG_LEVEL_WARNING, "%s was filled at iteration %llu, not %llu", o->path,
			(unsigned long long)iteration,
			(unsigned long long)gate_iteration(o->lead->gate));
	else
		log_say(LOG_LEVEL_WARNING, "%s could not be filled: %s: %s", o->path, code_of(r),
			r->text ? r->text : "");
	fill_later(o, FILL_AGAIN_MAX);
}

/* Something has come: the fill goes on, if slowly. */
static void fill_goes_on(const struct told *t)
{
	struct one *o = t->one;

	if (o->filling == t->round)
		timer_set(o->limit, FILL_SECONDS);
}

static void lead_replicas_answered(struct told *t, const struct record *r)
{
	switch (t->kind) {
	case ORDER_SUM:
		sum_answered(t, r);
		break;
	case ORDER_APPLY:
		if (!record_is(r, "ok"))
			lead_replicas_refused(t->one, "apply", r);
		lead_replica_cut_ask(t->one->lead);
		break;
	case ORDER_FILL:
		fill_answered(t, r);
		break;
	default:
		break;
	}
}

static void lead_replicas_on_answer(const struct record *r, int closing, void *told)
{
	struct told *t = told;
	struct lead *l = t->one->lead;

	if (r && !closing && !l->broken) {
		if (t->kind == ORDER_SUM)
			sum_says(t, r);
		else if (t->kind == ORDER_FILL)
			fill_goes_on(t);
		lead_pump(l);
	}
	if (!closing)
		return;
	t->one->steps -= t->kind == ORDER_APPLY;
	if (r && !l->broken)
		lead_replicas_answered(t, r);
	free(t);
	if (r)
		lead_pump(l);
}

/* ---- orders ---- */

static void send_order(struct one *o, const struct order *order, const char *text, size_t head,
		       size_t bytes)
{
	struct told *t = malloc(sizeof *t);

	if (!t) {
		lead_breakf(o->lead, ERROR_OS, o->path, "out of memory");
		return;
	}
	*t = (struct told){.one = o, .kind = order->kind, .round = order->round};
	if (o->peer && peer_send(o->peer, text, head, bytes ? text + head : NULL, bytes,
				 lead_replicas_on_answer, t) == 0) {
		if (order->kind == ORDER_APPLY) {
			o->steps++;
			peer_flush(o->peer);
		}
		return;
	}
	if (o->peer && peer_is_up(o->peer)) {
		log_say(LOG_LEVEL_WARNING, "%s does not read what it is sent", o->path);
		lead_replicas_drop(o);
	}
	free(t);
}

/* Gives it to these replicas; to NULL: to all in force. */
static void lead_replicas_give(struct lead *l, struct order *order, const size_t *to, size_t tos)
{
	struct replicas *all = l->replicas;
	size_t head, bytes;
	char *text;

	order->incarnation = l->options.gate.incarnation;
	text = order_write(order, &head, &bytes);
	if (!text) {
		lead_breakf(l, ERROR_OS, "replicas", "out of memory");
		return;
	}
	for (size_t i = 0; i < (to ? tos : all->count); i++) {
		size_t one = to ? to[i] : i;
		if (to || gate_in_force(l->gate, one))
			send_order(&all->one[one], order, text, head, bytes);
	}
	free(text);
}

void lead_sum(struct lead *l, const struct gate_effect *e)
{
	char names[RECORD_LINE_MAX / 2];
	size_t len = 0;
	struct order order = {.kind = ORDER_SUM,
			      .round = e->round,
			      .iteration = e->iteration,
			      .check = e->check,
			      .member = e->member,
			      .members = e->members,
			      .replicas = names};

	for (size_t i = 0; i < e->tos && len < sizeof names; i++)
		len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i ? "," : "",
					l->replicas->one[e->to[i]].name);
	lead_replicas_give(l, &order, e->to, e->tos);
}

void lead_hold(struct lead *l, const struct gate_effect *e)
{
	struct order order = {
		.kind = ORDER_HOLD, .round = e->round, .push = e->push, .pushes = e->pushes};

	lead_replicas_give(l, &order, e->to, e->tos);
}

void lead_step(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_APPLY,
			      .iteration = e->iteration,
			      .units = 1,
			      .round = e->round,
			      .divisor = (double)e->divisor,
			      .samples = e->samples};

	lead_replicas_give(l, &order, e->to, e->tos);
}

void lead_fill(struct lead *l, const struct gate_effect *e)
{
	struct one *o = &l->replicas->one[e->replica];
	struct order order = {.kind = ORDER_FILL,
			      .round = e->round,
			      .from = l->replicas->one[e->from].path,
			      .iteration = e->iteration};

	log_say(LOG_LEVEL_INFO, "%s is filled from %s, at iteration %llu", o->path, order.from,
		(unsigned long long)e->iteration);
	timer_set(o->limit, FILL_SECONDS);
	timer_stop(o->look); /* what it says now is about this fill */
	o->filling = e->round;
	lead_replicas_give(l, &order, &e->replica, 1);
}

void lead_replicas_throw(struct lead *l, struct order *order)
{
	lead_replicas_give(l, order, NULL, 0);
}

/* ---- who is in force ---- */

const char *lead_replicas_boot(const struct lead *l)
{
	const char *boot = "";

	for (size_t i = 0; i < l->replicas->count; i++) {
		const struct one *o = &l->replicas->one[i];
		if (!gate_in_force(l->gate, i))
			continue;
		if (strcmp(o->boot, l->boot) != 0)
			return "";
		boot = l->boot;
	}
	return boot;
}

void lead_replicas_names(const struct lead *l, char *out, size_t max)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < l->replicas->count && len < max; i++) {
		if (gate_in_force(l->gate, i))
			len += (size_t)snprintf(out + len, max - len, "%s%s", len ? "," : "",
						l->replicas->one[i].name);
	}
}

static void on_door(void *lead)
{
	struct lead *l = lead;

	if (gate_turn_away(l->gate))
		lead_replicas_wait(l);
	lead_pump(l);
}

void lead_replicas_wait(struct lead *l)
{
	if (l->replicas && !timer_is_set(l->replicas->door))
		timer_set(l->replicas->door, DOOR_SECONDS);
}

static void lead_replicas_on_late(void *lead)
{
	struct lead *l = lead;

	gate_sum_late(l->gate);
	lead_pump(l);
}

/* The timer runs once for each round whose members have all pushed. */
static void look_late(struct lead *l)
{
	struct replicas *all = l->replicas;
	uint64_t due = gate_sum_due(l->gate);

	if (due == all->late_round)
		return;
	all->late_round = due;
	if (due)
		timer_set(all->late, LATE_SECONDS);
	else
		timer_stop(all->late);
}

static void count_member(const struct gate_member *member, void *count)
{
	(void)member;
	++*(size_t *)count;
}

static void on_alone(void *lead)
{
	struct lead *l = lead;

	if (gate_is_settling(l->gate)) { /* where they are is looked at when shardd has answered */
		timer_set(l->replicas->alone, ALONE_SECONDS);
		return;
	}
	lead_breakf(l, ERROR_TEMPFAIL, "replicas",
		    "none of %zu replicas can go on at iteration %llu: a rollback is needed",
		    l->replicas->count, (unsigned long long)gate_iteration(l->gate));
}

int lead_replicas_are(const struct lead *l)
{
	return !l->replicas || l->replicas->in > 0;
}

/* A replica is in force now: workers who joined before may have waited for that. */
static void begin_all(struct lead *l)
{
	size_t waiting = 0;

	if (gate_members(l->gate, count_member, &waiting) != 0 || waiting)
		lead_expect(l);
}

void lead_replicas_look(struct lead *l)
{
	struct replicas *all = l->replicas;
	size_t in = 0;

	look_late(l);
	for (size_t i = 0; i < all->count; i++) {
		struct one *o = &all->one[i];
		int is = gate_in_force(l->gate, i);
		in += is ? 1 : 0;
		if (is != o->in)
			log_say(LOG_LEVEL_INFO, "%s is %s at iteration %llu", o->path,
				is ? "in force" : "out",
				(unsigned long long)gate_iteration(l->gate));
		o->in = is;
	}
	if (in == all->in)
		return;
	if (in)
		timer_stop(all->alone);
	else if (!l->options.sums) /* else nothing is lost by waiting */
		timer_set(all->alone, ALONE_SECONDS);
	all->in = in;
	if (in)
		begin_all(l);
}

/* ---- making ---- */

int lead_replicas_new(struct lead *l, struct error *err)
{
	struct replicas *all;

	if (l->options.replica_count == 0)
		return 0;
	all = l->replicas = calloc(1, sizeof *all);
	if (all)
		all->one = calloc(l->options.replica_count, sizeof *all->one);
	if (!all || !all->one)
		return error_set(err, ERROR_OS, "replicas", "out of memory");
	all->count = l->options.replica_count;
	for (size_t i = 0; i < all->count; i++) {
		struct one *o = &all->one[i];
		o->lead = l;
		o->index = i;
		o->path = l->options.replicas[i];
		snprintf(o->name, sizeof o->name, "r%zu", i);
	}
	return 0;
}

int lead_replicas_start(struct lead *l, struct event_base *base)
{
	struct replicas *all = l->replicas;

	if (!all)
		return 0;
	all->again = timer_new(base, lead_replicas_on_again, l);
	all->alone = timer_new(base, on_alone, l);
	all->late = timer_new(base, lead_replicas_on_late, l);
	all->door = timer_new(base, on_door, l);
	if (!all->again || !all->alone || !all->late || !all->door ||
	    lead_replica_cut_start(l, base) != 0)
		return -1;
	if (!l->options.sums)
		timer_set(all->alone, FIRST_SECONDS);
	for (size_t i = 0; i < all->count; i++) {
		struct one *o = &all->one[i];
		o->renew = timer_new(base, on_renew, o);
		o->limit = timer_new(base, on_fill_limit, o);
		o->failed = timer_new(base, on_fill_failed, o);
		o->look = timer_new(base, lead_replicas_on_look, o);
		if (!o->renew || !o->limit || !o->failed || !o->look || connect_one(o) != 0)
			return -1;
	}
	return 0;
}

void lead_replicas_stop(struct lead *l)
{
	struct replicas *all = l->replicas;

	for (size_t i = 0; all && i < all->count; i++) {
		struct one *o = &all->one[i];
		struct timer *timer[] = {o->renew, o->limit, o->failed, o->look};
		peer_free(o->peer);
		o->peer = NULL;
		for (size_t k = 0; k < sizeof timer / sizeof *timer; k++)
			timer_free(timer[k]);
	}
	if (!all)
		return;
	lead_replica_cut_stop(l);
	struct timer *timer[] = {all->again, all->alone, all->late, all->door};
	for (size_t k = 0; k < sizeof timer / sizeof *timer; k++)
		timer_free(timer[k]);
}

void lead_replicas_free(struct lead *l)
{
	if (l->replicas)
		free(l->replicas->one);
	free(l->replicas);
}
