/* xfer_net: see xfer_net.h. */
#include "solve/xfer_net.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

struct xfer_saved {
	size_t port;       /* twice the host's number, + 1 for `in` */
	size_t old, count; /* its steps */
	size_t saved;
};

/* A port beside a time: its rate there, and when that ends. */
struct cursor {
	const struct xfer_step *step, *end;
	int64_t rate, next;
};

void xfer_net_clear(struct xfer_net *net)
{
	for (size_t i = 0; i < net->hosts; i++) {
		free(net->host[i].out.step);
		free(net->host[i].in.step);
	}
	free(net->host);
	free(net->saved);
	free(net->old);
	free(net->scratch);
	*net = (struct xfer_net){0};
}

int xfer_net_add(struct xfer_net *net, struct error *err)
{
	if (GROW(net->host, net->room, net->hosts + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a host");
	net->host[net->hosts++] = (struct xfer_host){0};
	return 0;
}

int xfer_port_from(struct xfer_port *p, int64_t at, int64_t rate, struct error *err)
{
	if (p->count > 0 && at <= p->step[p->count - 1].at)
		return error_set(err, ERROR_DATA, NULL, "a rate from a time that is not later");
	if (GROW(p->step, p->room, p->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a rate");
	p->step[p->count] = (struct xfer_step){.at = p->count ? at : 0, .rate = rate};
	p->count++;
	return 0;
}

static void cursor_show(struct cursor *c)
{
	c->rate = c->step->rate;
	c->next = c->step + 1 < c->end ? c->step[1].at : XFER_NEVER;
}

static struct cursor cursor_at(const struct xfer_port *p, int64_t at)
{
	struct cursor c = {.rate = XFER_RATE_MAX, .next = XFER_NEVER};
	if (p->count == 0)
		return c;
	c.step = p->step;
	for (size_t left = p->count, half; left > 1;
	     left -= half) { /* without a jump that is guessed */
		half = left / 2;
		c.step += c.step[half].at <= at ? half : 0;
	}
	c.end = p->step + p->count;
	cursor_show(&c);
	return c;
}

static void cursor_pass(struct cursor *c, int64_t at)
{
	if (c->next > at)
		return;
	c->step++;
	cursor_show(c);
}

int64_t xfer_port_rate(const struct xfer_port *p, int64_t at)
{
	return cursor_at(p, at).rate;
}

static int64_t net_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ceil(need/rate); 64 bits are enough for most, and ten times as fast. */
static int64_t ticks_of(xfer_wide need, int64_t rate)
{
	if (need <= INT64_MAX)
		return ((int64_t)need - 1) / rate + 1;
	xfer_wide ticks = (need - 1) / rate + 1;
	return ticks > XFER_TIME_MAX ? XFER_TIME_MAX + 1 : (int64_t)ticks;
}

/* The hop through two ports. */
static struct xfer_hop hop_through(const struct xfer_port *out, const struct xfer_port *in,
				   int64_t bytes, int64_t ready)
{
	struct xfer_hop hop = {.start = ready, .end = ready};
	if (bytes == 0 || (out->count == 0 && in->count == 0))
		return hop;
	xfer_wide need = (xfer_wide)bytes * XFER_SECOND;
	struct cursor a = cursor_at(out, ready), b = cursor_at(in, ready);
	int is_sending = 0;
	hop.end = XFER_NEVER;
	for (int64_t at = ready;;) {
		int64_t rate = net_least(a.rate, b.rate), next = net_least(a.next, b.next);
		if (rate == 0) { /* over all of the other port's steps at once */
			next = a.rate > 0                      ? b.next
			       : b.rate > 0 || a.next > b.next ? a.next
							       : b.next;
			if (next == XFER_NEVER)
				return hop;
			at = next;
			a = cursor_at(out, at);
			b = cursor_at(in, at);
			continue;
		}
		if (!is_sending)
			hop.start = at;
		is_sending = 1;
		xfer_wide sent = (xfer_wide)rate * (next - at);
		if (next == XFER_NEVER || sent >= need) {
			int64_t end = at + ticks_of(need, rate);
			hop.end = end > XFER_TIME_MAX ? XFER_NEVER : end;
			return hop;
		}
		need -= sent;
		at = next;
		cursor_pass(&a, at);
		cursor_pass(&b, at);
	}
}

struct xfer_hop xfer_ask(const struct xfer_net *net, size_t from, size_t to, int64_t bytes,
			 int64_t ready)
{
	if (from == to)
		return (struct xfer_hop){.start = ready, .end = ready};
	return hop_through(&net->host[from].out, &net->host[to].in, bytes, ready);
}

int64_t xfer_end(const struct xfer_net *net, size_t from, size_t to, int64_t bytes, int64_t ready)
{
	return xfer_ask(net, from, to, bytes, ready).end;
}

int64_t xfer_port_end(const struct xfer_port *p, int64_t bytes, int64_t ready)
{
	static const struct xfer_port unlimited;
	return hop_through(p, &unlimited, bytes, ready).end;
}

xfer_wide xfer_port_until(const struct xfer_port *p, int64_t until)
{
	xfer_wide sum = p->count ? 0 : XFER_ANY;
	for (size_t i = 0; i < p->count && p->step[i].at < until; i++) {
		int64_t next = i + 1 < p->count ? net_least(p->step[i + 1].at, until) : until;
		sum += (xfer_wide)p->step[i].rate * (next - p->step[i].at);
	}
	return sum < XFER_ANY ? sum : XFER_ANY;
}

/* ---- taking, and giving back ---- */

static struct xfer_port *net_port(const struct xfer_net *net, size_t number)
{
	struct xfer_host *h = &net->host[number / 2];
	return number % 2 ? &h->in : &h->out;
}

/* Keeps the port as it is, unless it was kept since the last begin. */
static int port_save(struct xfer_net *net, size_t number, struct error *err)
{
	struct xfer_port *p = net_port(net, number);
	if (net->open == 0 || p->saved >= net->open)
		return 0;
	if (GROW(net->saved, net->saved_room, net->saves + 1) != 0 ||
	    GROW(net->old, net->old_room, net->olds + p->count) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a port");
	net->saved[net->saves++] = (struct xfer_saved){
		.port = number, .old = net->olds, .count = p->count, .saved = p->saved};
	memcpy(net->old + net->olds, p->step, p->count * sizeof *p->step);
	net->olds += p->count;
	p->saved = net->saves;
	return 0;
}

/* net->open: the number of the first save since the last begin, + 1. */
size_t xfer_begin(struct xfer_net *net)
{
	size_t outer = net->open;
	net->open = net->saves + 1;
	return outer;
}

void xfer_undo(struct xfer_net *net, size_t outer)
{
	while (net->saves >= net->open) {
		const struct xfer_saved *s = &net->saved[--net->saves];
		struct xfer_port *p = net_port(net, s->port);
		/* Its array never shrinks, so there is room. */
		memcpy(p->step, net->old + s->old, s->count * sizeof *p->step);
		p->count = s->count;
		p->saved = s->saved;
		net->olds = s->old;
	}
	net->open = outer;
}

/* A port that the outer one keeps already needs no second copy. */
void xfer_keep(struct xfer_net *net, size_t outer)
{
	size_t kept = net->open - 1;
	size_t olds = kept < net->saves ? net->saved[kept].old : net->olds;
	for (size_t i = kept; i < net->saves; i++) {
		struct xfer_saved s = net->saved[i];
		if (outer == 0 || s.saved >= outer) {
			net_port(net, s.port)->saved = outer == 0 ? 0 : s.saved;
			continue;
		}
		memmove(net->old + olds, net->old + s.old, s.count * sizeof *net->old);
		s.old = olds;
		olds += s.count;
		net->saved[kept++] = s;
		net_port(net, s.port)->saved = kept;
	}
	net->saves = kept;
	net->olds = olds;
	net->open = outer;
}

/* What becomes of a port while a hop goes through it. */
struct cut {
	struct cursor cursor;
	size_t from, count; /* so many new steps, from that one on */
	struct xfer_step *step;
	int64_t last;
};

static struct cut cut_begin(const struct xfer_port *p, int64_t at, struct xfer_step *step)
{
	struct cut c = {.cursor = cursor_at(p, at), .step = step, .last = -1};
	if (p->count > 0)
		c.from = (size_t)(c.cursor.step - p->step) + (c.cursor.step->at < at);
	if (c.from > 0)
		c.last = p->step[c.from - 1].rate;
	return c;
}

static void cut_put(struct cut *c, int64_t at, int64_t rate)
{
	if (rate == c->last)
		return;
	c->last = rate;
	c->step[c->count++] = (struct xfer_step){.at = at, .rate = rate};
}

/* Puts the steps there, up to the cursor's. */
static int cut_set(struct xfer_net *net, size_t number, const struct cut *c, struct error *err)
{
	struct xfer_port *p = net_port(net, number);
	if (p->count == 0)
		return 0; /* unlimited: it stays so */
	size_t to = (size_t)(c->cursor.step - p->step) + 1;
	if (port_save(net, number, err) != 0)
		return -1;
	if (GROW(p->step, p->room, p->count + c->count) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a port");
	memmove(p->step + c->from + c->count, p->step + to, (p->count - to) * sizeof *p->step);
	memcpy(p->step + c->from, c->step, c->count * sizeof *p->step);
	p->count = p->count - (to - c->from) + c->count;
	return 0;
}

int xfer_take(struct xfer_net *net, size_t from, size_t to, const struct xfer_hop *hop,
	      struct error *err)
{
	const struct xfer_port *out = &net->host[from].out, *in = &net->host[to].in;
	if (from == to || hop->end == hop->start)
		return 0;
	/* Each has no more steps than both have, and where the hop starts and ends. */
	size_t most = out->count + in->count + 2;
	if (GROW(net->scratch, net->scratch_room, 2 * most) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a port");
	struct cut a = cut_begin(out, hop->start, net->scratch);
	struct cut b = cut_begin(in, hop->start, net->scratch + most);
	for (int64_t at = hop->start; at < hop->end; at = net_least(a.cursor.next, b.cursor.next)) {
		cursor_pass(&a.cursor, at);
		cursor_pass(&b.cursor, at);
		int64_t rate = net_least(a.cursor.rate, b.cursor.rate);
		cut_put(&a, at, a.cursor.rate - rate);
		cut_put(&b, at, b.cursor.rate - rate);
	}
	cursor_pass(&a.cursor, hop->end);
	cursor_pass(&b.cursor, hop->end);
	cut_put(&a, hop->end, a.cursor.rate);
	cut_put(&b, hop->end, b.cursor.rate);
	if (cut_set(net, 2 * from, &a, err) != 0)
		return -1;
	return cut_set(net, 2 * to + 1, &b, err);
}

int xfer_send(struct xfer_net *net, size_t from, size_t to, int64_t bytes, int64_t ready,
	      struct xfer_hop *hop, struct error *err)
{
	*hop = xfer_ask(net, from, to, bytes, ready);
	return hop->end == XFER_NEVER ? 0 : xfer_take(net, from, to, hop, err);
}
