/*
 * fabric-table2: a fluid simulation of Table 2 of MLfabric.  30 workers on 15 hosts train a model
 * of 100 MB; a batch takes 100 ms (lda: 180), and with a chance of r % it takes s times as long
 * (C1: 10, 2; C2: 10, 4; C3: 4, 2).  Every 5 s each port of a host gets another rate: 1, 2.5, 3.3,
 * 5 or 10 Gbit/s, with the probabilities of N1, N2, N3.  A server, where there is one, has a host
 * of its own with 10 Gbit/s. Nothing has a latency, and nobody waits for a core.
 *
 * Designs:
 *   ring     a ring of the workers at wire speed, then the next batch
 *   overlap  the same, with one round in flight while the next batch is computed
 *   tree     a binary tree of the hosts instead of the ring, in small segments: sums go up while
 *            those before come down
 *   plain    one server, each update by itself; it is answered with the model
 *   a30, a60 MLfabric-A: schedules of lib/solve, at most this delay; sums of a host, up to four
 *            aggregators, the model through distributors
 *   s        shares by rate (xfer_share.h), which follow the rates within a round; synchronous
 *   r        the same with one round in flight
 *   cut      the same; who would let the ports idle is cut, and begins anew
 * The scheduler of a30 and a60 knows the rates of now, and not those to come; so do the shares.
 * Only the records of name=fabric-table2-lag have a lag.
 *
 * Those of name=fabric-table2-slow count messages between hosts: an update, a sum of some, a model;
 * with shares a part of one, each as large. A port is slow while it has the network's least rate.
 *
 * Those of name=fabric-table2-safe are of a30, where the server may die (fabric-table2-safe.h).
 *
 *   fabric-table2 SEEDS[@FIRST] SECONDS: a record for each cell: ms for 30 committed updates; and
 *       what it costs that the server may die
 *   fabric-table2 SEEDS SECONDS DATA MODEL ROWS TARGET TRAIN TEST [C1|C2|C3]: a record for each
 *       cell and design, until a real model has the loss TARGET (fabric-table2-loss.h); an update
 *       has so many rows. One more for each cell has the best of s, r and cut. lda: C1 and N1 only
 *   ... TEST - <PUSHES: the same for pushes that were measured (train_said())
 */
#include "fabric-table2-loss.h"
#include "fabric-table2-safe.h"

#include "base/grow.h"
#include "base/random.h"
#include "solve/xfer_group.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH 5.0 /* s with the same rates */
#define EPOCHS_MAX 200
#define SEEDS_MAX 8
/* Learning rates that are tried for each design: the least one, and sqrt(2) times the last. */
#define LR_LEAST 0.03125
#define LRS 11

static const struct compute {
	const char *name;
	double chance, times;
} computes[] = {{"C1", 0.10, 2}, {"C2", 0.10, 4}, {"C3", 0.04, 2}};

static const double gbits[] = {1, 2.5, 3.3, 5, 10};
static const struct network {
	const char *name;
	double chance[5];
} networks[] = {{"N1", {0, 0, 0, 0.1, 0.9}},
		{"N2", {0, 0.1, 0.1, 0.1, 0.7}},
		{"N3", {0.5, 0, 0, 0, 0.5}},
		{"skewed", {0.2, 0, 0, 0, 0.8}}}; /* 7.1, of the monitor's lag */
static const double paper[3][3] = {{1.74, 1.23, 1.42}, {2.96, 2.00, 2.32}, {1.90, 1.33, 1.42}};
static const double paper_lda = 182.0 / 139; /* 7.1, a30 */

static const struct compute *compute;
static double until;       /* seconds that are simulated */
static double usual = 0.1; /* s that a batch takes */
static size_t first;       /* seed */
static double lag;         /* s until schedules and shares know of other rates */
static int64_t rate[EPOCHS_MAX + 1][REPLICA + 1][2]; /* bytes/s; out, in */
static int64_t slow;                                 /* the least rate of the network */
static uint64_t seed;

struct messages {
	double sums, to_slow;  /* updates and sums; those to a host that receives slowly */
	double all, over_slow; /* with models; those from or to a slow port */
};

struct round { /* in each epoch */
	double seconds;
	struct messages sent;
};
static struct round shared[EPOCHS_MAX + 1], ringed[EPOCHS_MAX + 1], treed[EPOCHS_MAX + 1];
static double late[EPOCHS_MAX + 1]; /* seconds of one with the shares of the epoch before */

struct result {
	struct loss_push *push; /* those that are committed */
	size_t committed, room, dropped;
	struct messages sent;
};

static double batch_seconds(void)
{
	return usual * (random_uniform(&seed) < compute->chance ? compute->times : 1);
}

static void result_add(struct result *r, size_t worker, double pulled, double committed)
{
	if (committed >= until)
		return;
	if (GROW(r->push, r->room, r->committed + 1) != 0)
		abort();
	r->push[r->committed++] = (struct loss_push){pulled, committed, worker};
}

static size_t epoch_of(double at)
{
	size_t e = (size_t)(at / EPOCH);
	return e < EPOCHS_MAX ? e : EPOCHS_MAX;
}

static int64_t draw(const struct network *n)
{
	double x = random_uniform(&seed);
	size_t i = 0;
	while (i < 4 && x >= n->chance[i])
		x -= n->chance[i++];
	return (int64_t)(gbits[i] * 1.25e8);
}

static int64_t smaller(const int64_t two[2])
{
	return two[0] < two[1] ? two[0] : two[1];
}

enum carried { SUM, MODEL };

static void count_message(struct messages *m, enum carried what, size_t from, size_t to, size_t e,
			  double weight)
{
	int to_slow = rate[e][to][1] == slow, over_slow = to_slow || rate[e][from][0] == slow;
	m->all += weight;
	m->over_slow += over_slow ? weight : 0;
	m->sums += what == SUM ? weight : 0;
	m->to_slow += what == SUM && to_slow ? weight : 0;
}

static void count_hop(struct messages *m, enum carried what, size_t from, size_t to,
		      const struct xfer_hop *hop)
{
	if (from != to)
		count_message(m, what, from, to, epoch_of((double)hop->start * 1e-9), 1);
}

static void messages_add(struct messages *m, const struct messages *other, double times)
{
	m->sums += other->sums * times;
	m->to_slow += other->to_slow * times;
	m->all += other->all * times;
	m->over_slow += other->over_slow * times;
}

/* Both halves of a round: the sums, and what is made of them. */
static void count_both(struct round *r, size_t from, size_t to, size_t e, double weight)
{
	count_message(&r->sent, SUM, from, to, e, weight);
	count_message(&r->sent, MODEL, to, from, e, weight);
}

static void count_rounds(const struct xfer_member *m, int is_ring, size_t e)
{
	shared[e].sent = ringed[e].sent = treed[e].sent = (struct messages){0};
	for (size_t h = 0; h < HOSTS; h++) {
		count_message(&ringed[e].sent, SUM, h, (h + 1) % HOSTS, e, 1);
		count_message(&ringed[e].sent, MODEL, h, (h + 1) % HOSTS, e, 1);
		if (h > 0)
			count_both(&treed[e], h, (h - 1) / 2, e, 1);
		for (size_t i = 0; i < HOSTS; i++)
			if (i != h)
				count_both(&shared[e], i, h, e, m[h].share);
	}
	if (is_ring)
		shared[e].sent = ringed[e].sent;
}

/* A round whose shares are for other rates. */
static double old_seconds(const struct xfer_member *m, int64_t now[][2])
{
	double seconds = 0;
	for (size_t h = 0; h < HOSTS; h++)
		seconds = fmax(seconds, (1 + (HOSTS - 2) * m[h].share) * (double)BYTES /
						(double)smaller(now[h]));
	return seconds;
}

static void make_rates(const struct network *n)
{
	struct xfer_member m[HOSTS];
	struct xfer_round round = {0};
	size_t least_rate = 0;
	while (n->chance[least_rate] == 0)
		least_rate++;
	slow = (int64_t)(gbits[least_rate] * 1.25e8);
	for (size_t e = 0; e <= EPOCHS_MAX; e++) {
		int64_t least = INT64_MAX;
		treed[e].seconds = 0;
		for (size_t h = 0; h < HOSTS; h++)
			for (size_t way = 0; way < 2; way++)
				rate[e][h][way] = draw(n);
		int was_ring = round.is_ring;
		if (e > 0)
			late[e] = old_seconds(m, rate[e]);
		for (size_t h = 0; h < HOSTS; h++) {
			m[h] = (struct xfer_member){.rate = (double)smaller(rate[e][h]),
						    .works = 1};
			least = smaller(rate[e][h]) < least ? smaller(rate[e][h]) : least;
			/* Its parent and up to two children; both ways are as much. */
			double links = (h > 0) + (2 * h + 1 < HOSTS) + (2 * h + 2 < HOSTS);
			treed[e].seconds =
				fmax(treed[e].seconds, links * (double)BYTES / m[h].rate);
		}
		for (size_t h = SERVER; h <= REPLICA; h++)
			rate[e][h][0] = rate[e][h][1] = 1250000000;
		if (xfer_shares(m, HOSTS, (double)BYTES, &round, NULL) != 0)
			abort();
		shared[e].seconds = round.is_ring ? round.ring : round.seconds;
		if (e == 0 || was_ring)
			late[e] = e == 0 ? shared[e].seconds : round.ring;
		ringed[e].seconds = 2.0 * (WORKERS - 1) / WORKERS * (double)BYTES / (double)least;
		count_rounds(m, round.is_ring, e);
	}
}

/* ---- rounds ---- */

/* When a round is over that begins at `at`: in each epoch it goes on at that one's speed. */
static double round_end(const struct round *round, double at, struct messages *sent)
{
	for (double left = 1;;) {
		size_t e = epoch_of(at);
		double begin = (double)e * EPOCH, end = e < EPOCHS_MAX ? begin + EPOCH : INFINITY;
		double speed = round[e].seconds;
		if (round == shared && at < begin + lag) {
			speed = late[e];
			end = begin + lag;
		}
		double part = fmin(left, (end - at) / speed);
		messages_add(sent, &round[e].sent, part);
		if (part == left)
			return at + left * speed;
		left -= part;
		at = end;
	}
}

/* The last batch of a worker: ready, and whether it was cut before. */
struct member {
	double start, ready;
	int was_cut;
};

/* in_flight: a worker begins its next batch when its last one is ready and the round before that is
 * over; otherwise all wait for the end of the round. */
static struct result rounds(const struct round *round, int in_flight, int cuts)
{
	struct member m[WORKERS];
	struct result result = {0};
	double end = 0; /* of the round before */
	for (size_t i = 0; i < WORKERS; i++)
		m[i] = (struct member){.ready = batch_seconds()};
	while (end < until) {
		double open = end;
		int is_late[WORKERS];
		for (size_t i = 0; i < WORKERS; i++) {
			double by = fmax(end, m[i].start + 1.5 * usual);
			is_late[i] = cuts && !m[i].was_cut && m[i].ready > by;
			result.dropped += is_late[i] != 0;
			open = fmax(open, is_late[i] ? by : m[i].ready);
		}
		double over = round_end(round, open, &result.sent);
		for (size_t i = 0; i < WORKERS; i++) {
			/* Who is cut takes the model of the round before and begins at once. */
			double by = fmax(end, m[i].start + 1.5 * usual);
			if (!is_late[i])
				result_add(&result, i, m[i].start, over);
			m[i].start = is_late[i] ? by : in_flight ? fmax(m[i].ready, end) : over;
			m[i].was_cut = is_late[i];
			m[i].ready = m[i].start + batch_seconds();
		}
		end = over;
	}
	return result;
}

/* ---- one server ---- */

enum doing { COMPUTES, PUSHES, WAITS /* for the model */ };

struct worker {
	enum doing doing;
	double since; /* it computes until then; it has been ready, or waits, since then */
	double pulled;
	uint64_t version;
};

struct commit {
	double at;
	uint64_t count;
};

struct serving {
	struct xfer_net net; /* what the ports really have */
	struct worker w[WORKERS];
	struct commit commit[4 * WORKERS]; /* those to come */
	size_t commits;
	uint64_t version, scheduled; /* of the model now; with all that is scheduled */
	double in_free, out_free;    /* of the server */
	struct safe safe;
	struct result result;
};

static void must(int result)
{
	if (result != 0)
		abort();
}

static int64_t ns_of(double s)
{
	return (int64_t)(s * 1e9);
}

static void serving_begin(struct serving *s)
{
	*s = (struct serving){.in_free = 0};
	for (size_t h = 0; h <= REPLICA; h++) {
		must(xfer_net_add(&s->net, NULL));
		for (size_t e = 0; e <= EPOCHS_MAX; e++) {
			must(xfer_port_from(&s->net.host[h].out, ns_of((double)e * EPOCH),
					    rate[e][h][0], NULL));
			must(xfer_port_from(&s->net.host[h].in, ns_of((double)e * EPOCH),
					    rate[e][h][1], NULL));
		}
	}
	for (size_t i = 0; i < WORKERS; i++)
		s->w[i].since = batch_seconds();
}

/* What the scheduler believes: what is planned stays, and the rates that it knows are for ever. */
static void believe_port(struct xfer_port *to, const struct xfer_port *from, double at, size_t host,
			 size_t way)
{
	int64_t now = ns_of(at), base = rate[epoch_of(fmax(at - lag, 0))][host][way], last = -1;
	size_t i = from->count;
	while (i > 0 && from->step[i - 1].at > now)
		i--;
	for (i = i ? i - 1 : 0; i < from->count; i++) {
		int64_t begin = from->step[i].at > now ? from->step[i].at : now;
		int64_t taken =
			rate[epoch_of((double)begin * 1e-9)][host][way] - from->step[i].rate;
		int64_t left = base > taken ? base - taken : 0;
		if (left == last)
			continue;
		must(xfer_port_from(to, begin - now, left, NULL));
		last = left;
	}
}

static struct xfer_net believe(const struct serving *s, double at, size_t last)
{
	struct xfer_net net = {0};
	for (size_t h = 0; h <= last; h++) {
		must(xfer_net_add(&net, NULL));
		believe_port(&net.host[h].out, &s->net.host[h].out, at, h, 0);
		believe_port(&net.host[h].in, &s->net.host[h].in, at, h, 1);
	}
	return net;
}

static void commit_at(struct serving *s, double at, uint64_t count)
{
	s->commit[s->commits++] = (struct commit){at, count};
}

static void commits_pass(struct serving *s, double now)
{
	for (size_t i = 0; i < s->commits;)
		if (s->commit[i].at <= now) {
			s->version += s->commit[i].count;
			s->commit[i] = s->commit[--s->commits];
		} else
			i++;
}

/* What is committed as one: a group, or an update that goes directly. of[i]: the unit of position
 * i. member[k], into[k]: an update's worker and its place in b->u. */
static size_t units_of(const struct xfer_batch *b, const size_t *way,
		       const struct xfer_course *course, const size_t *member, const size_t *into,
		       size_t members, struct safe_unit *unit, size_t *of)
{
	size_t n = 0;
	for (size_t i = 0; i < b->count; i++) {
		const struct xfer_update *u = &b->u[b->order[i]];
		size_t w = way[i];
		if (w == 0 || i == 0 || w != way[i - 1])
			unit[n++] = (struct safe_unit){
				.from = w ? b->aggregator[w - 1].host : u->host,
				.ready = (double)(w ? course->sum[w - 1].summed : u->ready) * 1e-9,
				.there = (double)course->commit[i] * 1e-9};
		of[i] = n - 1;
		for (size_t k = 0; k < members; k++)
			if (into[k] == b->order[i])
				unit[n - 1].worker[unit[n - 1].count++] = member[k];
	}
	return n;
}

static void count_batch(struct messages *m, const struct xfer_batch *b, const size_t *way,
			const struct xfer_course *course)
{
	for (size_t i = 0; i < b->count; i++) {
		const struct xfer_update *u = &b->u[b->order[i]];
		size_t w = way[i], by = w ? b->aggregator[w - 1].host : SERVER;
		count_hop(m, SUM, u->host, by, w ? &course->hop[i] : &u->part->hop);
		if (w && (i == 0 || w != way[i - 1]))
			count_hop(m, SUM, by, SERVER, &course->sum[w - 1].part->hop);
	}
}

/* All updates that are ready: dropped, or sent directly or through aggregators. */
static void push_batch(struct serving *s, double now, uint64_t delay)
{
	struct xfer_update u[WORKERS], sum[WORKERS];
	struct xfer_part part[WORKERS], summed[WORKERS];
	struct xfer_aggregator agg[AGGREGATORS];
	struct xfer_hop hop[WORKERS];
	struct xfer_sum sums[AGGREGATORS];
	struct xfer_part sum_part[AGGREGATORS];
	int64_t commit[WORKERS];
	size_t of[WORKERS], into[WORKERS], order[WORKERS], way[WORKERS], n = 0, sent;
	size_t unit_of[WORKERS], counts[WORKERS], limit[WORKERS];
	struct safe_unit unit[WORKERS];
	struct xfer_course course = {.hop = hop, .commit = commit, .sum = sums};
	xfer_wide cost;
	int sums_go_twice = s->safe.provision->safety == SAFE_SUMS;
	for (size_t i = 0; i < WORKERS; i++) {
		if (s->w[i].doing != PUSHES || s->w[i].since > now)
			continue;
		part[n] = (struct xfer_part){.to = SERVER, .bytes = BYTES};
		u[n] = (struct xfer_update){
			.host = i / 2,
			.part = &part[n],
			.parts = 1,
			.deadline = xfer_deadline(s->w[i].version, s->scheduled, delay),
			.count = 1};
		of[n++] = i;
	}
	for (size_t a = 0; a < AGGREGATORS; a++)
		sums[a].part = &sum_part[a];
	struct xfer_net net = believe(s, now, SERVER);
	size_t items = xfer_sum_hosts(u, n, &(const int64_t){BYTES}, sum, summed, into, NULL);
	size_t outer = xfer_begin(&net);
	must(xfer_order(&net, sum, items, 0, order, &sent, NULL));
	xfer_undo(&net, outer);
	struct xfer_batch b = {.net = &net,
			       .u = sum,
			       .order = order,
			       .count = sent,
			       .aggregator = agg,
			       .aggregators = xfer_best_hosts(&net, SERVER, AGGREGATORS, agg),
			       .dense = &(const int64_t){BYTES},
			       .goal = XFER_EACH};
	for (size_t i = 0; i < sent; i++)
		counts[i] = (size_t)sum[order[i]].count;
	if (sums_go_twice) {
		safe_limits(&s->safe, counts, sent, limit);
		b.limit = limit;
	}
	must(xfer_group(&b, way, NULL));
	xfer_net_clear(&net);
	for (size_t i = 0; i < items; i++)
		sum[i].ready = ns_of(now);
	b.net = &s->net;
	must(xfer_carry(&b, way, &course, &cost, NULL));
	count_batch(&s->result.sent, &b, way, &course);
	must(cost == XFER_NO_COST); /* every delay is within the bound */
	struct xfer_net known = sums_go_twice ? believe(s, now, REPLICA) : (struct xfer_net){0};
	size_t units = units_of(&b, way, &course, of, into, n, unit, unit_of);
	safe_commit(&s->safe, &s->net, &known, now, unit, units);
	xfer_net_clear(&known);
	for (size_t i = 0; i < items; i++) {
		double at = i < sent ? unit[unit_of[i]].committed : now;
		for (size_t k = 0; k < n; k++)
			if (into[k] == order[i]) {
				s->w[of[k]].doing = WAITS;
				s->w[of[k]].since = at;
				if (i < sent)
					result_add(&s->result, of[k], s->w[of[k]].pulled, at);
				else
					s->result.dropped++;
			}
		if (i >= sent)
			continue;
		commit_at(s, at, sum[order[i]].count);
		s->scheduled += sum[order[i]].count;
		s->in_free = fmax(s->in_free, (double)commit[i] * 1e-9);
	}
}

/* The model to all that wait for it, once to each host. */
static void model_batch(struct serving *s, double now)
{
	struct xfer_copy copy[HOSTS + AGGREGATORS];
	struct xfer_aggregator agg[AGGREGATORS];
	double there[HOSTS + 1] = {0};
	int wants[HOSTS] = {0};
	size_t n = 0, count;
	commits_pass(s, now);
	for (size_t i = 0; i < WORKERS; i++)
		wants[i / 2] |= s->w[i].doing == WAITS && s->w[i].since <= now;
	for (size_t h = 0; h < HOSTS; h++)
		if (wants[h])
			copy[n++] = (struct xfer_copy){.to = h};
	struct xfer_net net = believe(s, now, SERVER);
	size_t k = xfer_best_hosts(&net, SERVER, AGGREGATORS, agg);
	must(xfer_distribute(&net, SERVER, BYTES, agg, k, copy, n, &count, NULL));
	xfer_net_clear(&net);
	there[SERVER] = now;
	for (size_t i = 0; i < count; i++) {
		struct xfer_hop hop;
		must(xfer_send(&s->net, copy[i].from, copy[i].to, BYTES, ns_of(there[copy[i].from]),
			       &hop, NULL));
		count_hop(&s->result.sent, MODEL, copy[i].from, copy[i].to, &hop);
		there[copy[i].to] = (double)hop.end * 1e-9;
		if (copy[i].from == SERVER)
			s->out_free = fmax(s->out_free, (double)hop.end * 1e-9);
	}
	for (size_t i = 0; i < WORKERS; i++)
		if (s->w[i].doing == WAITS && s->w[i].since <= now)
			s->w[i] = (struct worker){COMPUTES, there[i / 2] + batch_seconds(), now,
						  s->version};
}

/* One update by itself, and the model back. */
static void push_alone(struct serving *s, struct worker *w, double now)
{
	struct xfer_hop push, pull;
	size_t host = (size_t)(w - s->w) / 2;
	if (w->doing == PUSHES) {
		must(xfer_send(&s->net, host, SERVER, BYTES, ns_of(now), &push, NULL));
		count_hop(&s->result.sent, SUM, host, SERVER, &push);
		result_add(&s->result, (size_t)(w - s->w), w->pulled, (double)push.end * 1e-9);
		*w = (struct worker){WAITS, (double)push.end * 1e-9, 0, 0};
		return;
	}
	must(xfer_send(&s->net, SERVER, host, BYTES, ns_of(now), &pull, NULL));
	count_hop(&s->result.sent, MODEL, SERVER, host, &pull);
	*w = (struct worker){COMPUTES, (double)pull.end * 1e-9 + batch_seconds(), now, 0};
}

/* delay 0: plainly. safe: what became of that, which the caller frees; NULL: nothing is done. */
static struct result serve(uint64_t delay, struct safe *safe)
{
	static const struct provision none = {.name = "none"};
	struct serving s;
	serving_begin(&s);
	s.safe.provision = safe ? safe->provision : &none;
	for (;;) {
		struct worker *next = NULL;
		double now = INFINITY;
		for (size_t i = 0; i < WORKERS; i++) {
			struct worker *w = &s.w[i];
			double at = w->since;
			if (delay && w->doing == PUSHES)
				at = fmax(at, s.in_free);
			if (delay && w->doing == WAITS)
				at = fmax(at, s.out_free);
			if (w->doing == WAITS && at >= s.safe.stands)
				at = fmax(at, s.safe.stands_until);
			if (at < now) {
				now = at;
				next = w;
			}
		}
		if (now >= until)
			break;
		if (next->doing == COMPUTES)
			next->doing = PUSHES;
		else if (!delay)
			push_alone(&s, next, now);
		else if (next->doing == PUSHES)
			push_batch(&s, now, delay);
		else
			model_batch(&s, now);
	}
	xfer_net_clear(&s.net);
	if (safe)
		*safe = s.safe;
	else
		free(s.safe.copy);
	return s.result;
}

/* ---- all designs ---- */

enum { RING, OVERLAP, TREE, PLAIN, A30, A60, S, R, CUT, DESIGNS };
static const char *const names[] = {"ring", "overlap", "tree", "plain", "a30",
				    "a60",  "s",       "r",    "cut"};

static struct result simulate(size_t design)
{
	switch (design) {
	case RING:
		return rounds(ringed, 0, 0);
	case OVERLAP:
		return rounds(ringed, 1, 0);
	case TREE:
		return rounds(treed, 0, 0);
	case PLAIN:
		return serve(0, NULL);
	case A30:
		return serve(30, NULL);
	case A60:
		return serve(60, NULL);
	case S:
		return rounds(shared, 0, 0);
	case R:
		return rounds(shared, 1, 0);
	default:
		return rounds(shared, 1, 1);
	}
}

/* All seeds of a design in a cell. */
struct cell {
	struct result of[SEEDS_MAX];
	double committed, dropped, ms;
	struct messages sent;
};

static void simulate_cell(struct cell all[DESIGNS], size_t c, size_t n, size_t seeds)
{
	for (size_t d = 0; d < DESIGNS; d++)
		for (size_t run = 0; run < seeds; run++)
			free(all[d].of[run].push);
	compute = &computes[c];
	memset(all, 0, DESIGNS * sizeof *all);
	for (size_t run = 0; run < seeds; run++) {
		seed = 1000 * (first + run) + 10 * n;
		make_rates(&networks[n]);
		for (size_t d = 0; d < DESIGNS; d++) {
			all[d].of[run] = simulate(d);
			all[d].committed += (double)all[d].of[run].committed;
			all[d].dropped += (double)all[d].of[run].dropped;
			messages_add(&all[d].sent, &all[d].of[run].sent, 1);
		}
	}
	for (size_t d = 0; d < DESIGNS; d++)
		all[d].ms = 30e3 * until * (double)seeds / all[d].committed;
}

static void print_cell(const struct cell all[DESIGNS], size_t c, size_t n)
{
	printf("bench name=fabric-table2 compute=%s network=%s", computes[c].name,
	       networks[n].name);
	for (size_t d = 0; d < DESIGNS; d++)
		printf(" %s-ms=%.0f", names[d], all[d].ms);
	for (size_t d = 0; d < DESIGNS; d++)
		if (all[d].dropped > 0)
			printf(" %s-dropped=%.3f", names[d],
			       all[d].dropped / (all[d].dropped + all[d].committed));
	printf(" s-ratio=%.2f ratio=%.2f paper=%.2f of-paper=%.2f\n", all[RING].ms / all[S].ms,
	       all[RING].ms / all[CUT].ms, paper[c][n], all[RING].ms / all[CUT].ms / paper[c][n]);
}

static void print_slow(const struct cell all[DESIGNS], size_t c, size_t n)
{
	printf("bench name=fabric-table2-slow compute=%s network=%s", computes[c].name,
	       networks[n].name);
	for (size_t d = 0; d < DESIGNS; d++)
		printf(" %s=%.1f %s-any=%.1f", names[d],
		       100 * all[d].sent.to_slow / all[d].sent.sums, names[d],
		       100 * all[d].sent.over_slow / all[d].sent.all);
	printf("\n");
}

/* ---- a model ---- */

struct task {
	const char *data, *model, *rows;
	double target;
	int is_lda;
};

/* Means over the seeds with the learning rate that is best for this design. */
static struct loss_end best_training(struct cell *cell, size_t design, size_t seeds,
				     const struct task *task, double *lr)
{
	/* The best of the cell before: what is slower is soon given up. */
	static int first[DESIGNS] = {5, 5, 5, 4, 4, 4, 5, 5, 5};
	struct loss_end best = {.seconds = INFINITY, .updates = INFINITY};
	struct loss_training t = {.target = task->target};
	int begin = first[design], lrs = task->is_lda ? 0 : LRS;
	for (int k = -1; k < lrs; k++) {
		struct loss_end sum = {0};
		if (k == begin)
			continue;
		t.lr = LR_LEAST * pow(2, 0.5 * (k < 0 ? begin : k));
		for (size_t run = 0; run < seeds && sum.seconds < best.seconds; run++) {
			t.seed = run + 1;
			t.within = fmin(until, best.seconds - sum.seconds);
			struct loss_end end =
				loss_train(cell->of[run].push, cell->of[run].committed, &t);
			sum.seconds += end.seconds;
			sum.updates += end.updates;
			sum.delay += end.delay;
			sum.most = fmax(sum.most, end.most);
		}
		if (sum.seconds >= best.seconds)
			continue;
		best = sum;
		*lr = t.lr;
		first[design] = k < 0 ? begin : k;
	}
	best.seconds /= (double)seeds;
	best.updates /= (double)seeds;
	best.delay /= (double)seeds;
	return best;
}

static void train_cell(struct cell all[DESIGNS], size_t c, size_t n, size_t seeds,
		       const struct task *task)
{
	char of[256];
	size_t best = S;
	double ratio[DESIGNS], ring = INFINITY;
	snprintf(of, sizeof of, "data=%s model=%s rows=%s compute=%s network=%s", task->data,
		 task->model, task->rows, computes[c].name, networks[n].name);
	for (size_t d = 0; d < DESIGNS; d++) {
		double lr = NAN;
		struct loss_end end = best_training(&all[d], d, seeds, task, &lr);
		if (d == RING)
			ring = end.seconds;
		ratio[d] = ring / end.seconds;
		if (d > S && ratio[d] > ratio[best])
			best = d;
		printf("bench name=fabric-table2-loss %s design=%s ms=%.0f", of, names[d],
		       all[d].ms);
		if (isinf(end.seconds))
			printf(" reached=no\n");
		else if (!task->is_lda)
			printf(" lr=%.3g", lr);
		if (!isinf(end.seconds))
			printf(" delay=%.0f delay-most=%.0f updates=%.0f seconds=%.1f "
			       "ms-ratio=%.2f ratio=%.2f\n",
			       end.delay, end.most, end.updates, end.seconds,
			       all[RING].ms / all[d].ms, ratio[d]);
	}
	double published = task->is_lda ? paper_lda : paper[c][n];
	printf("bench name=fabric-table2-best %s design=%s ratio=%.2f over-overlap=%.2f "
	       "over-a30=%.2f paper=%.2f of-paper=%.2f\n",
	       of, names[best], ratio[best], ratio[best] / ratio[OVERLAP], ratio[best] / ratio[A30],
	       published, ratio[best] / published);
	fflush(stdout);
}

/* What it costs to know of other rates 2 s late instead of 0.2 s (7.1). */
static void print_lag(struct cell all[DESIGNS], size_t n, size_t seeds)
{
	double soon[DESIGNS];
	lag = 0.2;
	simulate_cell(all, 0, n, seeds);
	for (size_t d = 0; d < DESIGNS; d++)
		soon[d] = all[d].ms;
	lag = 2;
	simulate_cell(all, 0, n, seeds);
	printf("bench name=fabric-table2-lag compute=C1 network=%s", networks[n].name);
	for (size_t d = A30; d < DESIGNS; d++)
		printf(" %s-percent=%.1f", names[d], 100 * (all[d].ms / soon[d] - 1));
	printf("\n");
	lag = 0;
}

/* ---- a server that may die ---- */

static void rates_of(struct xfer_net *net, double at)
{
	for (size_t h = 0; h <= REPLICA; h++) {
		must(xfer_net_add(net, NULL));
		must(xfer_port_from(&net->host[h].out, 0, rate[epoch_of(at)][h][0], NULL));
		must(xfer_port_from(&net->host[h].in, 0, rate[epoch_of(at)][h][1], NULL));
	}
}

/* All seeds. ms: of 30 updates without a provision. */
static double provide(const struct provision *p, size_t n, size_t seeds, double ms)
{
	double committed = 0, bytes = 0;
	struct safe_deaths all = {0};
	for (size_t run = 0; run < seeds; run++) {
		struct safe safe = {.provision = p};
		seed = 1000 * (first + run) + 10 * n;
		make_rates(&networks[n]);
		struct result r = serve(30, &safe);
		struct safe_deaths d = safe_die(&safe, until, rates_of);
		committed += (double)r.committed;
		bytes += safe.bytes;
		all.lost += d.lost / (double)seeds;
		all.seconds += d.seconds / (double)seeds;
		all.lost_most = fmax(all.lost_most, d.lost_most);
		all.seconds_most = fmax(all.seconds_most, d.seconds_most);
		all.kept_most = fmax(all.kept_most, d.kept_most);
		free(r.push);
		free(safe.copy);
	}
	double own = 30e3 * until * (double)seeds / committed;
	if (p->safety == SAFE_NOT)
		return own;
	printf("bench name=fabric-table2-safe compute=C1 network=%s way=%s", networks[n].name,
	       p->name);
	if (p->bound)
		printf(" bound=%zu", p->bound);
	if (p->keeps)
		printf(" keeps=%zu", p->keeps);
	printf(" ms=%.0f longer-percent=%.1f mb-per-update=%.1f", own, 100 * (own / ms - 1),
	       bytes * 1e-6 / committed);
	if (bytes > 0)
		printf(" less=%.2f", (double)BYTES * committed / bytes);
	if (p->safety == SAFE_MERGED) {
		printf(" lost=0 kept=%.0f kept-most=%.0f by-worker=%.0f", all.lost, all.lost_most,
		       all.kept_most);
	} else {
		printf(" lost=%.0f lost-most=%.0f", all.lost, all.lost_most);
		all.seconds += all.lost * ms / 30e3;
		all.seconds_most += all.lost_most * ms / 30e3;
	}
	printf(" seconds=%.2f seconds-most=%.2f\n", all.seconds, all.seconds_most);
	return own;
}

static void print_safe(size_t n, size_t seeds)
{
	static const struct provision provisions[] = {
		{"none", SAFE_NOT, 0, 0},
		{"each", SAFE_EACH, 0, 0},
		{"chain", SAFE_CHAIN, 0, 0},
		{"merged", SAFE_MERGED, 8, 0},
		{"merged", SAFE_MERGED, 30, 0},
		{"merged", SAFE_MERGED, 120, 0},
		{"merged", SAFE_MERGED, 600, 0},
		{"merged", SAFE_MERGED, 600, 2},
		{"sums", SAFE_SUMS, 8, 0},
		{"sums", SAFE_SUMS, 30, 0},
		{"sums", SAFE_SUMS, 120, 0},
		{"sums", SAFE_SUMS, 600, 0},
		{"checkpoint", SAFE_STANDS, 30, 0},
		{"checkpoint", SAFE_STANDS, 600, 0},
		{"forked-checkpoint", SAFE_FORKS, 30, 0},
		{"forked-checkpoint", SAFE_FORKS, 600, 0},
	};
	double ms = 0;
	compute = &computes[0];
	for (size_t i = 0; i < sizeof provisions / sizeof *provisions; i++) {
		double own = provide(&provisions[i], n, seeds, ms);
		ms = i == 0 ? own : ms;
	}
}

/* Pushes that were measured, a line for each: its worker, when it got the model, and when it was
 * committed. Prints the updates and seconds until the loss, and the learning rate. */
static int train_said(size_t seeds, const struct task *task)
{
	static struct cell cell;
	struct loss_push *push = NULL, p;
	size_t count = 0, room = 0;
	double lr = NAN;
	while (scanf("%zu %lf %lf", &p.worker, &p.pulled, &p.committed) == 3) {
		must(GROW(push, room, count + 1));
		push[count++] = p;
	}
	for (size_t run = 0; run < seeds; run++)
		cell.of[run] = (struct result){.push = push, .committed = count};
	struct loss_end end = best_training(&cell, OVERLAP, seeds, task, &lr);
	printf("%.0f %.2f %.3g\n", end.updates, end.seconds, lr);
	free(push);
	return 0;
}

int main(int argc, char **argv)
{
	static struct cell all[DESIGNS];
	char *end = NULL;
	size_t seeds = argc > 2 ? strtoul(argv[1], &end, 10) : 0;
	first = end && *end == '@' ? strtoul(end + 1, NULL, 10) : 0;
	until = argc > 2 ? strtod(argv[2], NULL) : 0;
	if ((argc != 3 && argc != 9 && argc != 10) || seeds == 0 || seeds > SEEDS_MAX ||
	    !(until > 0) || until > EPOCHS_MAX * EPOCH)
		return 64;
	struct task task = {0};
	if (argc > 3) {
		task = (struct task){argv[3], argv[4], argv[5], strtod(argv[6], NULL),
				     strcmp(argv[4], "lda") == 0};
		loss_open(task.model, strtoul(task.rows, NULL, 10), argv[7], argv[8]);
	}
	if (argc == 10 && strcmp(argv[9], "-") == 0)
		return train_said(seeds, &task);
	if (task.is_lda)
		usual = 0.18;
	for (size_t c = 0; c < (task.is_lda ? 1 : 3); c++)
		for (size_t n = 0; n < (task.is_lda ? 1 : 3); n++) {
			if (argc == 10 && strcmp(argv[9], computes[c].name) != 0)
				continue;
			simulate_cell(all, c, n, seeds);
			if (argc == 3) {
				print_cell(all, c, n);
				print_slow(all, c, n);
			} else
				train_cell(all, c, n, seeds, &task);
		}
	if (argc == 3) {
		print_lag(all, 1, seeds);
		print_lag(all, 3, seeds);
		for (size_t n = 0; n < 3; n++)
			print_safe(n, seeds);
	}
	return 0;
}
