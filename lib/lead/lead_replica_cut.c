/*
 * A cut of replicas: one that is in force writes all parameters.  It is asked when it has made the
 * steps that it was told, and says at once when it has forked; the gate settles nothing in between.
 */
#include "lead/lead_replicas.h"

#include "wire/timer.h"

#include <stdlib.h>

#define CUT_SECONDS 30.0 /* until the one that was asked has forked */

void lead_replica_cut_over(struct lead *l, const struct record *r)
{
	struct cutter *c = &l->replicas->cut;
	struct order_answer a = c->answer;
	struct peer *p = c->peer;
	char *text = c->text;
	struct order_result result = {.text = r && r->text ? r->text : "connection lost"};
	struct error err = {0};

	if (!a.done)
		return;
	c->answer = (struct order_answer){.done = NULL};
	c->one = NULL;
	c->peer = NULL;
	c->text = NULL;
	timer_stop(c->limit);
	if (!r)
		result.code = "lost";
	else if (!record_is(r, "ok"))
		result.code = record_get(r, "code") ? record_get(r, "code") : "?";
	else if (record_u64(r, "bytes", 0, UINT64_MAX, &result.bytes, &err) != 0 ||
		 record_u64(r, "sum", 0, UINT64_MAX, &result.sum, &err) != 0 ||
		 record_real_opt(r, "stall", 0.0, 1e9, &result.stall, &err) != 0) {
		result.code = "bad-answer";
		result.text = err.text;
	}
	a.done(a.part, &result, a.arg);
	free(text);
	peer_free(p);
}

static void on_cut_answer(const struct record *r, int closing, void *lead)
{
	struct lead *l = lead;

	if (l->broken)
		return;
	if (r && !closing && record_is(r, "forked")) {
		timer_stop(l->replicas->cut.limit);
		gate_cut_forked(l->gate);
	}
	if (closing)
		lead_replica_cut_over(l, r);
	lead_pump(l);
}

static void on_cut_up(struct peer *p, const struct record *greeting, void *lead)
{
	const struct cutter *c = &((struct lead *)lead)->replicas->cut;

	(void)greeting;
	(void)peer_send(p, c->text, c->head, NULL, 0, on_cut_answer, lead);
}

static void on_cut_limit(void *lead)
{
	lead_replica_cut_over(lead, NULL);
	lead_pump(lead);
}

void lead_replica_cut_ask(struct lead *l)
{
	struct cutter *c = &l->replicas->cut;
	struct peer_options options = {.up = on_cut_up, .owner = l};

	if (!c->answer.done || c->peer || c->one->steps)
		return;
	options.path = c->one->path;
	c->peer = peer_new(server_base(l->server), &options);
	if (!c->peer)
		lead_replica_cut_over(l, NULL);
}

void lead_replicas_cut(struct lead *l, struct order *order, const struct order_answer *a)
{
	struct replicas *all = l->replicas;
	struct cutter *c = &all->cut;
	size_t i = 0, bytes;

	while (i + 1 < all->count && !gate_in_force(l->gate, i))
		i++;
	order->incarnation = l->options.gate.incarnation;
	c->answer = *a;
	c->answer.part = 0;
	c->one = &all->one[i];
	c->text = order_write(order, &c->head, &bytes);
	timer_set(c->limit, CUT_SECONDS);
	if (!c->text || !gate_in_force(l->gate, i))
		lead_replica_cut_over(l, NULL);
	else
		lead_replica_cut_ask(l);
}

int lead_replica_cut_start(struct lead *l, struct event_base *base)
{
	l->replicas->cut.limit = timer_new(base, on_cut_limit, l);
	return l->replicas->cut.limit ? 0 : -1;
}

void lead_replica_cut_stop(struct lead *l)
{
	struct cutter *c = &l->replicas->cut;

	peer_free(c->peer);
	free(c->text);
	timer_free(c->limit);
}
