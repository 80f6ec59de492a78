/*
 * xfer_case: networks and updates of a test in a line, and a second way to send: every transfer is
 * a list of pieces, and what a port has free is what is left of its rate by all of them.  Slow, and
 * without any of the library's arithmetic.
 *
 * Hosts: `OUT/IN OUT/IN ...` in MB/s, one number for both, `-` without a limit, `6@0,3@2000` for a
 * rate that changes (at milliseconds).
 */
#ifndef PACELINE_TESTS_XFER_CASE_H
#define PACELINE_TESTS_XFER_CASE_H

#include "base/random.h"
#include "solve/xfer_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline int64_t million(double x)
{
	return (int64_t)(x * 1e6 + 0.5);
}

static inline const char *case_port(struct xfer_port *p, const char *text)
{
	char *end;
	if (*text == '-')
		return text + 1;
	for (;;) {
		double rate = strtod(text, &end), at = *end == '@' ? strtod(end + 1, &end) : 0;
		assert_int_equal(xfer_port_from(p, million(at), million(rate), NULL), 0);
		if (*end != ',')
			return end;
		text = end + 1;
	}
}

static inline struct xfer_net case_net(const char *text)
{
	struct xfer_net net = {0};
	while (*text) {
		assert_int_equal(xfer_net_add(&net, NULL), 0);
		struct xfer_host *h = &net.host[net.hosts - 1];
		const char *in = text;
		text = case_port(&h->out, text);
		text = case_port(&h->in, *text == '/' ? text + 1 : in);
		text += strspn(text, " ");
	}
	return net;
}

/* ---- the slow way ---- */

struct piece {
	size_t from, to;
	int64_t start, end, rate;
};

struct slow {
	const struct xfer_net *net; /* before anything was sent */
	struct piece *piece;
	size_t pieces, room;
};

static inline int64_t slow_base(const struct xfer_port *p, int64_t at)
{
	int64_t rate = XFER_RATE_MAX;
	for (size_t i = 0; i < p->count && p->step[i].at <= at; i++)
		rate = p->step[i].rate;
	return rate;
}

/* What is free at a time. */
static inline int64_t slow_free(const struct slow *s, size_t host, int is_in, int64_t at)
{
	const struct xfer_host *h = &s->net->host[host];
	const struct xfer_port *p = is_in ? &h->in : &h->out;
	int64_t rate = slow_base(p, at);
	for (size_t i = 0; i < s->pieces && p->count; i++) {
		const struct piece *q = &s->piece[i];
		if ((is_in ? q->to : q->from) == host && q->start <= at && at < q->end)
			rate -= q->rate;
	}
	assert_true(rate >= 0); /* no port is over its rate */
	return rate;
}

/* The next time at which anything changes anywhere. */
static inline int64_t slow_next(const struct slow *s, int64_t at)
{
	int64_t next = XFER_NEVER;
	for (size_t i = 0; i < 2 * s->net->hosts; i++) {
		const struct xfer_host *h = &s->net->host[i / 2];
		const struct xfer_port *p = i % 2 ? &h->in : &h->out;
		for (size_t k = 0; k < p->count; k++)
			if (p->step[k].at > at && p->step[k].at < next)
				next = p->step[k].at;
	}
	for (size_t i = 0; i < s->pieces; i++) {
		const int64_t time[] = {s->piece[i].start, s->piece[i].end};
		for (size_t k = 0; k < 2; k++)
			if (time[k] > at && time[k] < next)
				next = time[k];
	}
	return next;
}

/* Sends; returns when all is there. What was sent is the last pieces. */
static inline int64_t slow_send(struct slow *s, size_t from, size_t to, int64_t bytes,
				int64_t ready)
{
	size_t before = s->pieces;
	xfer_wide left = (xfer_wide)bytes * XFER_SECOND;
	int64_t at = ready;
	if (from == to || (!s->net->host[from].out.count && !s->net->host[to].in.count))
		return ready;
	while (left > 0) {
		int64_t out = slow_free(s, from, 0, at), in = slow_free(s, to, 1, at);
		int64_t rate = out < in ? out : in, next = slow_next(s, at), end = next;
		if (rate > 0 && (next == XFER_NEVER || (next - at) * (xfer_wide)rate >= left))
			end = at + (int64_t)((left + rate - 1) / rate);
		if (end == XFER_NEVER || end > XFER_TIME_MAX) {
			s->pieces = before;
			return XFER_NEVER;
		}
		if (s->pieces == s->room) {
			s->room = 2 * s->room + 16;
			s->piece = realloc(s->piece, s->room * sizeof *s->piece);
			assert_non_null(s->piece);
		}
		if (rate > 0)
			s->piece[s->pieces++] = (struct piece){from, to, at, end, rate};
		left -= (end - at) * (xfer_wide)rate;
		at = end;
	}
	return at;
}

/* The network has free what all pieces leave. */
static inline void slow_compare(const struct slow *s, const struct xfer_net *after)
{
	for (int64_t at = 0; at != XFER_NEVER; at = slow_next(s, at))
		for (size_t i = 0; i < after->hosts; i++) {
			assert_true(xfer_port_rate(&after->host[i].out, at) ==
				    slow_free(s, i, 0, at));
			assert_true(xfer_port_rate(&after->host[i].in, at) ==
				    slow_free(s, i, 1, at));
		}
}

static inline int64_t random_below(uint64_t *seed, int64_t n)
{
	return (int64_t)(random_next(seed) % (uint64_t)n);
}

/* A port with rates that often are the same, change, or are 0. */
static inline void random_port(struct xfer_port *p, uint64_t *seed)
{
	int64_t changes = random_below(seed, 8) ? 1 : 1 + random_below(seed, 3);
	if (random_below(seed, 20) == 0)
		return;
	for (int64_t i = 0; i < changes; i++) {
		int64_t rate = random_below(seed, 12) ? million((double)(1 + random_below(seed, 4)))
						      : random_below(seed, 3);
		assert_int_equal(xfer_port_from(p, i * 700000000, rate, NULL), 0);
	}
}

#endif
