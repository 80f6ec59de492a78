/*
 * xfer_order: see xfer_order.h.
 *
 * Of the updates of one source (the same host, ready at the same time, for the same servers) the
 * one with the fewest bytes is there first.  So each source shows only its smallest update, found
 * by a tree over its updates as their deadlines grow.  What a source's smallest one would take is
 * kept: later it takes as long or longer, since ports only fill.  Nor can it begin before the
 * server's port has something free, nor be there before that port has let as much through.  So most
 * sources need not be asked again.
 *
 * `slack` is a tree over the deadlines: how many positions up to each one are left for others.
 */
#include "solve/xfer_order.h"

#include "base/reals.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY SIZE_MAX

struct source {
	size_t first, count; /* its rows: updates sorted by deadline */
	size_t least;        /* the smallest of those that are open; NOBODY: none is */
	int64_t soonest;     /* none of its updates is there before that, */
	int64_t takes;       /* or begins to arrive less than that before: 0 if not known, */
	int64_t ready;       /* nor before that, */
	size_t to;           /* at this host */
};

struct ordering {
	struct xfer_net *net;
	struct xfer_update *u;
	size_t n;
	uint64_t wide;  /* the largest count */
	int64_t *bytes; /* by update */
	struct source *source;
	size_t sources;
	size_t *open; /* sources that have updates left, in any order */
	size_t opens;
	int64_t *soonest; /* of each of these: source_soonest() */
	size_t *row;    /* updates, source by source, sorted by deadline */
	size_t *row_of; /* by update */
	size_t *source_of;
	size_t *least, *most; /* trees of the sources: the smallest and the largest update */
	char *is_open;        /* by update: neither sent nor dropped */
	uint64_t *deadline;   /* different ones, growing, of those that can matter */
	size_t *open_at;      /* how many open updates have it */
	size_t deadlines;
	int64_t *slack, *slack_add; /* tree; deadlines whose updates are gone have a huge slack */
	size_t *due;                /* updates as they become overdue */
	size_t due_next;
	uint64_t position; /* taken so far */
	size_t *order, sent, dropped;
};

uint64_t xfer_deadline(uint64_t version, uint64_t now, uint64_t delay_max)
{
	uint64_t last;
	if (__builtin_add_overflow(version, delay_max, &last) || last == UINT64_MAX)
		return XFER_NO_DEADLINE;
	return last + 1 > now ? last + 1 - now : 0;
}

int64_t xfer_bytes(const struct xfer_update *u)
{
	int64_t sum = 0;
	for (size_t i = 0; i < u->parts; i++)
		if (__builtin_add_overflow(sum, u->part[i].bytes, &sum))
			return INT64_MAX;
	return sum;
}

int xfer_send_parts(struct xfer_net *net, const struct xfer_update *u, int64_t *there,
		    struct error *err)
{
	if (u->parts == 1) {
		int sent = xfer_send(net, u->host, u->part->to, u->part->bytes, u->ready,
				     &u->part->hop, err);
		*there = u->part->hop.end;
		return sent;
	}
	size_t outer = xfer_begin(net);
	*there = u->ready;
	for (size_t i = 0; i < u->parts && *there != XFER_NEVER; i++) {
		struct xfer_part *p = &u->part[i];
		if (xfer_send(net, u->host, p->to, p->bytes, u->ready, &p->hop, err) != 0)
			return -1;
		*there = p->hop.end > *there ? p->hop.end : *there;
	}
	if (*there == XFER_NEVER)
		xfer_undo(net, outer);
	else
		xfer_keep(net, outer);
	return 0;
}

/* When it would be there. */
static int order_ask(struct ordering *o, size_t i, int64_t *there, struct error *err)
{
	struct xfer_update *u = &o->u[i];
	if (u->parts == 1) {
		*there = xfer_end(o->net, u->host, u->part->to, u->part->bytes, u->ready);
		return 0;
	}
	size_t outer = xfer_begin(o->net);
	if (xfer_send_parts(o->net, u, there, err) != 0)
		return -1;
	xfer_undo(o->net, outer);
	return 0;
}

/* Not later than that, now or when the ports have less: each part as if it went alone.  (With all
 * of them a busy port for one part may leave more to another, so that all are there sooner.) */
static int64_t order_soonest(const struct ordering *o, size_t i, int64_t there)
{
	const struct xfer_update *u = &o->u[i];
	int64_t soonest = 0;
	if (u->parts == 1)
		return there;
	for (size_t k = 0; k < u->parts; k++) {
		int64_t end = xfer_end(o->net, u->host, u->part[k].to, u->part[k].bytes, u->ready);
		soonest = end > soonest ? end : soonest;
	}
	return soonest;
}

/* Whether a, there at x, is before b, there at y. */
static int is_before(const struct ordering *o, size_t a, int64_t x, size_t b, int64_t y)
{
	if (x != y)
		return x < y;
	if (o->bytes[a] != o->bytes[b])
		return o->bytes[a] < o->bytes[b];
	return a < b;
}

/* Of two of one source, either may be NOBODY. */
static size_t order_smaller(const struct ordering *o, size_t a, size_t b)
{
	if (a == NOBODY || b == NOBODY)
		return a == NOBODY ? b : a;
	return is_before(o, a, 0, b, 0) ? a : b;
}

static size_t order_larger(const struct ordering *o, size_t a, size_t b)
{
	if (a == NOBODY || b == NOBODY)
		return a == NOBODY ? b : a;
	return is_before(o, a, 0, b, 0) ? b : a;
}

/* ---- the trees of a source: leaves at [count, 2 count), the parent of i is i/2 ---- */

static void source_set(struct ordering *o, size_t i, size_t value)
{
	struct source *s = &o->source[o->source_of[i]];
	size_t *least = o->least + 2 * s->first, *most = o->most + 2 * s->first;
	size_t at = s->count + o->row_of[i] - s->first;
	least[at] = most[at] = value;
	while ((at /= 2) > 0) {
		least[at] = order_smaller(o, least[2 * at], least[2 * at + 1]);
		most[at] = order_larger(o, most[2 * at], most[2 * at + 1]);
	}
	s->least = least[1];
}

/* The smallest, or the largest, of the source's rows [from, to). */
static size_t source_find(const struct ordering *o, const struct source *s, size_t from, size_t to,
			  int want_most)
{
	const size_t *tree = (want_most ? o->most : o->least) + 2 * s->first;
	size_t found = NOBODY;
	for (from += s->count, to += s->count; from < to; from /= 2, to /= 2) {
		size_t left = from % 2 ? tree[from++] : NOBODY;
		size_t right = to % 2 ? tree[--to] : NOBODY;
		found = want_most ? order_larger(o, found, order_larger(o, left, right))
				  : order_smaller(o, found, order_smaller(o, left, right));
	}
	return found;
}

/* How many of the source's rows have a deadline up to this one. */
static size_t source_rows_by(const struct ordering *o, const struct source *s, uint64_t deadline)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (o->u[o->row[s->first + middle]].deadline <= deadline)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How long its smallest update takes at least: at its host's best rate. */
static void source_takes(const struct ordering *o, struct source *s)
{
	const struct xfer_update *u = &o->u[o->row[s->first]];
	const struct xfer_port *out = &o->net->host[u->host].out;
	int64_t best = out->count ? 1 : XFER_RATE_MAX;
	if (u->parts != 1 || u->part->to == u->host)
		return;
	for (size_t i = 0; i < out->count; i++)
		best = out->step[i].rate > best ? out->step[i].rate : best;
	xfer_wide ns = (xfer_wide)o->bytes[s->least] * XFER_SECOND / best;
	s->takes = ns < XFER_TIME_MAX ? (int64_t)ns : XFER_TIME_MAX;
	s->ready = u->ready;
	s->to = u->part->to;
}

/* None of its updates is there before that. */
static int64_t source_soonest(const struct ordering *o, const struct source *s)
{
	if (s->takes == 0)
		return s->soonest;
	const struct xfer_port *in = &o->net->host[s->to].in;
	int64_t begin = s->ready;
	for (size_t i = 0; i + 1 < in->count && in->step[i].rate == 0; i++)
		if (in->step[i + 1].at > begin)
			begin = in->step[i + 1].at;
	return begin + s->takes > s->soonest ? begin + s->takes : s->soonest;
}

/* ---- deadlines ---- */

/* More than any count of updates, and far from an overflow. */
#define SLACK_NONE (INT64_MAX / 4)

static void slack_add(struct ordering *o, size_t node, size_t low, size_t high, size_t from,
		      size_t to, int64_t more)
{
	if (from >= high || to <= low)
		return;
	if (from <= low && high <= to) {
		o->slack[node] += more;
		o->slack_add[node] += more;
		return;
	}
	size_t middle = low + (high - low) / 2;
	slack_add(o, 2 * node, low, middle, from, to, more);
	slack_add(o, 2 * node + 1, middle, high, from, to, more);
	int64_t a = o->slack[2 * node], b = o->slack[2 * node + 1];
	o->slack[node] = (a < b ? a : b) + o->slack_add[node];
}

/* The first deadline whose slack is less than `bound`; o->deadlines: none. */
static size_t slack_find(const struct ordering *o, int64_t bound)
{
	size_t node = 1, low = 0, high = o->deadlines;
	if (high == 0 || o->slack[1] >= bound)
		return o->deadlines;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		bound -= o->slack_add[node];
		if (o->slack[2 * node] < bound) {
			node = 2 * node;
			high = middle;
		} else {
			node = 2 * node + 1;
			low = middle;
		}
	}
	return low;
}

static size_t deadline_find(const struct ordering *o, uint64_t deadline)
{
	size_t low = 0, high = o->deadlines;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (o->deadline[middle] < deadline)
			low = middle + 1;
		else
			high = middle;
	}
	return low < o->deadlines && o->deadline[low] == deadline ? low : o->deadlines;
}

/* An update comes, or goes. */
static void deadline_count(struct ordering *o, size_t i, int coming)
{
	size_t at = deadline_find(o, o->u[i].deadline);
	int64_t count = (int64_t)o->u[i].count;
	if (at == o->deadlines)
		return;
	slack_add(o, 1, 0, o->deadlines, at, o->deadlines, coming ? -count : count);
	if (!coming)
		o->open_at[at]--;
	if (o->open_at[at] == 0) /* it matters from now on, or no more */
		slack_add(o, 1, 0, o->deadlines, at, at + 1, coming ? -SLACK_NONE : SLACK_NONE);
	if (coming)
		o->open_at[at]++;
}

/* The last position at which it could begin, counted from 1; 0: none. */
static uint64_t last_start(const struct xfer_update *u)
{
	return u->deadline < u->count ? 0 : u->deadline - u->count + 1;
}

/* ---- sorting ---- */

struct sort_key {
	const struct xfer_update *u;
	size_t i;
};

static int compare_size(size_t a, size_t b)
{
	return a < b ? -1 : a > b;
}

/* Updates of one part are compared by it, others only with their equals. */
static int compare_sources(const struct xfer_update *a, const struct xfer_update *b)
{
	int diff = compare_size(a->host, b->host);
	if (diff == 0 && a->ready != b->ready)
		diff = a->ready < b->ready ? -1 : 1;
	if (diff == 0)
		diff = compare_size(a->parts, b->parts);
	for (size_t i = 0; diff == 0 && i < a->parts; i++) {
		diff = compare_size(a->part[i].to, b->part[i].to);
		if (diff == 0 && a->parts > 1)
			diff = compare_size((size_t)a->part[i].bytes, (size_t)b->part[i].bytes);
	}
	return diff;
}

static int compare_rows(const void *x, const void *y)
{
	const struct sort_key *a = x, *b = y;
	int diff = compare_sources(a->u, b->u);
	if (diff == 0 && a->u->deadline != b->u->deadline)
		diff = a->u->deadline < b->u->deadline ? -1 : 1;
	return diff ? diff : compare_size(a->i, b->i);
}

static int compare_due(const void *x, const void *y)
{
	const struct sort_key *a = x, *b = y;
	uint64_t p = last_start(a->u), q = last_start(b->u);
	return p != q ? (p < q ? -1 : 1) : compare_size(a->i, b->i);
}

static void order_sort(struct ordering *o, struct sort_key *key)
{
	for (size_t i = 0; i < o->n; i++)
		key[i] = (struct sort_key){.u = &o->u[i], .i = i};
	qsort(key, o->n, sizeof *key, compare_due);
	for (size_t i = 0; i < o->n; i++)
		o->due[i] = key[i].i;
	qsort(key, o->n, sizeof *key, compare_rows);
	for (size_t i = 0; i < o->n; i++) {
		size_t u = key[i].i;
		if (i == 0 || compare_sources(key[i - 1].u, key[i].u) != 0)
			o->source[o->sources++] = (struct source){.first = i};
		o->source[o->sources - 1].count++;
		o->row[i] = u;
		o->row_of[u] = i;
		o->source_of[u] = o->sources - 1;
	}
}

/* Deadlines that all updates together can't reach hinder nobody. */
static void order_deadlines(struct ordering *o)
{
	uint64_t total = 0;
	size_t count = 0;
	for (size_t i = 0; i < o->n; i++)
		total += o->u[i].count;
	for (size_t i = 0; i < o->n; i++)
		if (o->u[i].deadline < total)
			o->deadline[count++] = o->u[i].deadline;
	u64_sort(o->deadline, count);
	for (size_t i = 0; i < count; i++)
		if (o->deadlines == 0 || o->deadline[o->deadlines - 1] != o->deadline[i])
			o->deadline[o->deadlines++] = o->deadline[i];
	for (size_t i = 0; i < o->deadlines; i++)
		slack_add(o, 1, 0, o->deadlines, i, i + 1, SLACK_NONE + (int64_t)o->deadline[i]);
}

static void order_free(struct ordering *o)
{
	free(o->bytes);
	free(o->source);
	free(o->open);
	free(o->soonest);
	free(o->row);
	free(o->row_of);
	free(o->source_of);
	free(o->least);
	free(o->most);
	free(o->is_open);
	free(o->deadline);
	free(o->open_at);
	free(o->slack);
	free(o->slack_add);
	free(o->due);
}

static int order_prepare(struct ordering *o, struct error *err)
{
	size_t n = o->n ? o->n : 1;
	struct sort_key *key = calloc(n, sizeof *key);
	o->bytes = calloc(n, sizeof *o->bytes);
	o->source = calloc(n, sizeof *o->source);
	o->open = calloc(n, sizeof *o->open);
	o->soonest = calloc(n, sizeof *o->soonest);
	o->row = calloc(n, sizeof *o->row);
	o->row_of = calloc(n, sizeof *o->row_of);
	o->source_of = calloc(n, sizeof *o->source_of);
	o->least = calloc(n, 2 * sizeof *o->least);
	o->most = calloc(n, 2 * sizeof *o->most);
	o->is_open = calloc(n, 1);
	o->deadline = calloc(n, sizeof *o->deadline);
	o->open_at = calloc(n, sizeof *o->open_at);
	o->slack = calloc(n, 4 * sizeof *o->slack);
	o->slack_add = calloc(n, 4 * sizeof *o->slack_add);
	o->due = calloc(n, sizeof *o->due);
	if (!key || !o->bytes || !o->source || !o->open || !o->soonest || !o->row || !o->row_of ||
	    !o->source_of || !o->least || !o->most || !o->is_open || !o->deadline || !o->open_at ||
	    !o->slack || !o->slack_add || !o->due) {
		free(key);
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu updates", o->n);
	}
	order_sort(o, key);
	free(key);
	order_deadlines(o);
	memset(o->least, 0xff, n * 2 * sizeof *o->least); /* NOBODY */
	memset(o->most, 0xff, n * 2 * sizeof *o->most);
	for (size_t i = 0; i < o->n; i++) {
		o->bytes[i] = xfer_bytes(&o->u[i]);
		o->is_open[i] = 1;
		o->wide = o->u[i].count > o->wide ? o->u[i].count : o->wide;
		deadline_count(o, i, 1);
	}
	for (size_t i = 0; i < o->n; i++)
		source_set(o, i, i);
	for (size_t k = 0; k < o->sources; k++) {
		source_takes(o, &o->source[k]);
		o->open[o->opens++] = k;
	}
	return 0;
}

/* ---- choosing ---- */

/* Sent or dropped: it takes part no more. */
static void order_close(struct ordering *o, size_t i)
{
	o->is_open[i] = 0;
	source_set(o, i, NOBODY);
	deadline_count(o, i, 0);
}

static void order_drop(struct ordering *o, size_t i, enum xfer_fate why)
{
	if (o->is_open[i])
		order_close(o, i);
	o->u[i].fate = why;
	o->u[i].there = XFER_NEVER;
	o->order[o->n - ++o->dropped] = i; /* turned round at the end */
}

struct choice {
	size_t i;
	int64_t there;
};

/* What a host could receive by a time, if all sent to it: kept for the host and time asked last. */
struct order_room {
	size_t to;
	int64_t until, bytes;
};

/* Whether the source's smallest update could be there by then, as far as its server's port goes. */
static int order_has_room(const struct ordering *o, const struct source *s, int64_t until,
			  struct order_room *room)
{
	if (s->takes == 0 || until == XFER_NEVER)
		return 1;
	if (room->to != s->to || room->until != until) {
		xfer_wide all = xfer_port_until(&o->net->host[s->to].in, until) / XFER_SECOND;
		*room = (struct order_room){.to = s->to,
					    .until = until,
					    .bytes = all < INT64_MAX ? (int64_t)all : INT64_MAX};
	}
	return o->bytes[s->least] <= room->bytes;
}

/* Puts the source first whose updates may be there soonest, as it leaves the fewest others to be
 * asked. */
static void order_look(struct ordering *o)
{
	size_t first = 0;
	for (size_t k = 0; k < o->opens; k++) {
		const struct source *s = &o->source[o->open[k]];
		if (s->least == NOBODY) {
			o->open[k--] = o->open[--o->opens];
			continue;
		}
		o->soonest[k] = source_soonest(o, s);
		first = o->soonest[k] < o->soonest[first] ? k : first;
	}
	size_t at = o->open[0];
	int64_t soonest = o->soonest[0];
	o->open[0] = o->open[first];
	o->soonest[0] = o->soonest[first];
	o->open[first] = at;
	o->soonest[first] = soonest;
}

/* The smallest, or the largest, of those with a deadline up to this one. */
static int order_choose(struct ordering *o, uint64_t deadline, int want_most, struct choice *best,
			struct error *err)
{
	struct order_room room = {.to = NOBODY};
	*best = (struct choice){.i = NOBODY, .there = XFER_NEVER};
	if (!want_most)
		order_look(o);
	for (size_t k = 0; k < o->opens; k++) {
		if (!want_most && o->soonest[k] > best->there)
			continue;
		struct source *s = &o->source[o->open[k]];
		if (s->least == NOBODY ||
		    (!want_most && best->i != NOBODY &&
		     (!order_has_room(o, s, best->there, &room) ||
		      !is_before(o, s->least, o->soonest[k], best->i, best->there))))
			continue;
		int is_all = deadline == XFER_NO_DEADLINE;
		size_t rows = is_all ? s->count : source_rows_by(o, s, deadline);
		size_t i = source_find(o, s, 0, rows, want_most);
		int64_t there;
		if (i == NOBODY)
			continue;
		if (order_ask(o, i, &there, err) != 0)
			return -1;
		if (is_all && !want_most)
			s->soonest = order_soonest(o, i, there);
		if (best->i == NOBODY || is_before(o, i, there, best->i, best->there) != want_most)
			*best = (struct choice){.i = i, .there = there};
	}
	return 0;
}

/* The smallest of the source's updates that may begin later than `position`. */
static size_t source_later(const struct ordering *o, const struct source *s, uint64_t position)
{
	size_t from = source_rows_by(o, s, position), found = NOBODY;
	if (o->wide == 1)
		return source_find(o, s, from, s->count, 0);
	for (size_t at = from; at < s->count; at++) {
		size_t i = o->row[s->first + at];
		if (o->is_open[i] && last_start(&o->u[i]) > position)
			found = order_smaller(o, found, i);
	}
	return found;
}

/* Whether one that may come later than `position` would be there so much before `there` that who
 * takes until then stands in its way. */
static int order_has_rival(struct ordering *o, uint64_t position, int64_t there, uint64_t margin,
			   int *has, struct error *err)
{
	/* there > other (100 + margin)/100 */
	xfer_wide percent = 100 + (xfer_wide)margin;
	int64_t latest = there > 0 ? (int64_t)(((xfer_wide)there * 100 - 1) / percent) : -1;
	*has = 0;
	for (size_t k = 0; k < o->opens && !*has; k++) {
		const struct source *s = &o->source[o->open[k]];
		int64_t other;
		size_t i = s->least != NOBODY && source_soonest(o, s) <= latest
				   ? source_later(o, s, position)
				   : NOBODY;
		if (i == NOBODY)
			continue;
		if (order_ask(o, i, &other, err) != 0)
			return -1;
		*has = other <= latest;
	}
	return 0;
}

/* The next one: sent, or somebody dropped. D: XFER_NO_DEADLINE if there is none. */
static int order_next(struct ordering *o, uint64_t d, uint64_t margin, struct error *err)
{
	struct choice c;
	int has_rival = 0;
	if (order_choose(o, d, 0, &c, err) != 0)
		return -1;
	struct xfer_update *u = &o->u[c.i];
	if (c.there == XFER_NEVER) {
		order_drop(o, c.i, XFER_NOPATH);
		return 0;
	}
	int is_sure = d == XFER_NO_DEADLINE;
	size_t outer = is_sure ? 0 : xfer_begin(o->net);
	if (xfer_send_parts(o->net, u, &u->there, err) != 0)
		return -1;
	order_close(o, c.i);
	if (!is_sure &&
	    order_has_rival(o, o->position + u->count, u->there, margin, &has_rival, err) != 0)
		return -1;
	if (!has_rival) {
		if (!is_sure)
			xfer_keep(o->net, outer);
		u->fate = XFER_SENT;
		o->order[o->sent++] = c.i;
		o->position += u->count;
		return 0;
	}
	xfer_undo(o->net, outer);
	struct choice largest;
	if (order_choose(o, d, 1, &largest, err) != 0)
		return -1;
	if (largest.i == NOBODY || is_before(o, largest.i, largest.there, c.i, c.there))
		largest = c;
	if (largest.i != c.i) { /* it stays in the choice */
		o->is_open[c.i] = 1;
		source_set(o, c.i, c.i);
		deadline_count(o, c.i, 1);
	}
	order_drop(o, largest.i, largest.there == XFER_NEVER ? XFER_NOPATH : XFER_RIVAL);
	return 0;
}

static int order_all(struct ordering *o, uint64_t margin, struct error *err)
{
	while (o->sent + o->dropped < o->n) {
		size_t due = o->due_next < o->n ? o->due[o->due_next] : NOBODY;
		if (due != NOBODY && (!o->is_open[due] || last_start(&o->u[due]) <= o->position)) {
			o->due_next++;
			if (o->is_open[due])
				order_drop(o, due, XFER_OVERDUE);
			continue;
		}
		size_t at = slack_find(o, (int64_t)(o->position + o->wide));
		uint64_t d = at < o->deadlines ? o->deadline[at] : XFER_NO_DEADLINE;
		if (order_next(o, d, margin, err) != 0)
			return -1;
	}
	return 0;
}

int xfer_order(struct xfer_net *net, struct xfer_update *u, size_t n, uint64_t margin,
	       size_t *order, size_t *sent, struct error *err)
{
	struct ordering o = {.net = net, .u = u, .n = n, .order = order};
	int result = order_prepare(&o, err);
	if (result == 0)
		result = order_all(&o, margin, err);
	for (size_t a = o.sent, b = n; a + 1 < b; a++, b--) {
		size_t i = order[a];
		order[a] = order[b - 1];
		order[b - 1] = i;
	}
	*sent = o.sent;
	order_free(&o);
	return result;
}
