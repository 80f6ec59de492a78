/*
 * fabric-table2: a fluid simulation of Table 2 of MLfabric.  30 workers on 15 hosts train a model
 * of 100 MB; a batch takes 100 ms, and with a chance of r % it takes s times as long (C1: 10, 2;
 * C2: 10, 4; C3: 4, 2).  Every 5 s each port of a host gets another rate: 1, 2.5, 3.3, 5 or 10
 * Gbit/s, with the probabilities of N1, N2, N3.  A server, where there is one, has a host of its
 * own with 10 Gbit/s. Nothing has a latency, and nobody waits for a core.
 *
 * Designs:
 *   ring     a ring of the workers at wire speed, then the next batch
 *   overlap  the same, with one round in flight while the next batch is computed
 *   plain    one server, each update by itself; it is answered with the model
 *   a30, a60 MLfabric-A: schedules of lib/solve, at most this delay; sums of a host, up to four
 *            aggregators, the model through distributors
 *   s        shares by rate (xfer_share.h), which follow the rates within a round; synchronous
 *   r        the same with one round in flight
 *   cut      the same; who would let the ports idle is cut, and begins anew
 * The scheduler of a30 and a60 knows the rates of now, without lag, and not those to come.
 *
 *   fabric-table2 SEEDS SECONDS: a record for each cell: ms for 30 committed updates
 */
#include "base/random.h"
#include "solve/xfer_group.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 30
#define HOSTS 15
#define SERVER HOSTS
#define AGGREGATORS 4
#define BYTES INT64_C(100000000)
#define COMPUTE 0.1 /* s */
#define EPOCH 5.0   /* s with the same rates */
#define EPOCHS_MAX 100

static const struct compute {
	const char *name;
	double chance, times;
} computes[] = {{"C1", 0.10, 2}, {"C2", 0.10, 4}, {"C3", 0.04, 2}};

static const double gbits[] = {1, 2.5, 3.3, 5, 10};
static const struct network {
	const char *name;
	double chance[5];
} networks[] = {
	{"N1", {0, 0, 0, 0.1, 0.9}}, {"N2", {0, 0.1, 0.1, 0.1, 0.7}}, {"N3", {0.5, 0, 0, 0, 0.5}}};
static const double paper[3][3] = {{1.74, 1.23, 1.42}, {2.96, 2.00, 2.32}, {1.90, 1.33, 1.42}};

static const struct compute *compute;
static double until;                                          /* seconds that are simulated */
static int64_t rate[EPOCHS_MAX + 1][HOSTS + 1][2];            /* bytes/s; out, in */
static double shared[EPOCHS_MAX + 1], ringed[EPOCHS_MAX + 1]; /* seconds of a round */
static uint64_t seed;

struct result {
	double committed, dropped; /* updates */
};

static double batch_seconds(void)
{
	return COMPUTE * (random_uniform(&seed) < compute->chance ? compute->times : 1);
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

static void make_rates(const struct network *n)
{
	for (size_t e = 0; e <= EPOCHS_MAX; e++) {
		struct xfer_member m[HOSTS];
		struct xfer_round round;
		int64_t least = INT64_MAX;
		for (size_t h = 0; h < HOSTS; h++) {
			for (size_t way = 0; way < 2; way++)
				rate[e][h][way] = draw(n);
			m[h] = (struct xfer_member){.rate = (double)smaller(rate[e][h]),
						    .works = 1};
			least = smaller(rate[e][h]) < least ? smaller(rate[e][h]) : least;
		}
		rate[e][SERVER][0] = rate[e][SERVER][1] = 1250000000;
		if (xfer_shares(m, HOSTS, (double)BYTES, &round, NULL) != 0)
			abort();
		shared[e] = round.is_ring ? round.ring : round.seconds;
		ringed[e] = 2.0 * (WORKERS - 1) / WORKERS * (double)BYTES / (double)least;
	}
}

/* ---- rounds ---- */

/* When a round is over that begins at `at`: in each epoch it goes on at that one's speed. */
static double round_end(const double *seconds, double at)
{
	for (double left = 1;;) {
		size_t e = epoch_of(at);
		double end = e < EPOCHS_MAX ? (double)(e + 1) * EPOCH : INFINITY;
		if (at + left * seconds[e] <= end)
			return at + left * seconds[e];
		left -= (end - at) / seconds[e];
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
static struct result rounds(const double *seconds, int in_flight, int cuts)
{
	struct member m[WORKERS];
	struct result result = {0};
	double end = 0; /* of the round before */
	for (size_t i = 0; i < WORKERS; i++)
		m[i] = (struct member){.ready = batch_seconds()};
	while (end < until) {
		double open = end;
		int is_late[WORKERS];
		size_t late = 0;
		for (size_t i = 0; i < WORKERS; i++) {
			double by = fmax(end, m[i].start + 1.5 * COMPUTE);
			is_late[i] = cuts && !m[i].was_cut && m[i].ready > by;
			late += is_late[i] != 0;
			open = fmax(open, is_late[i] ? by : m[i].ready);
		}
		double over = round_end(seconds, open);
		for (size_t i = 0; i < WORKERS; i++) {
			/* Who is cut takes the model of the round before and begins at once. */
			double by = fmax(end, m[i].start + 1.5 * COMPUTE);
			m[i].start = is_late[i] ? by : in_flight ? fmax(m[i].ready, end) : over;
			m[i].was_cut = is_late[i];
			m[i].ready = m[i].start + batch_seconds();
		}
		result.committed += over < until ? (double)(WORKERS - late) : 0;
		result.dropped += (double)late;
		end = over;
	}
	return result;
}

/* ---- one server ---- */

enum doing { COMPUTES, PUSHES, WAITS /* for the model */ };

struct worker {
	enum doing doing;
	double since; /* it computes until then; it has been ready, or waits, since then */
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
	for (size_t h = 0; h <= SERVER; h++) {
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

/* What the scheduler believes: what is planned stays, and the rates of now are for ever. */
static void believe_port(struct xfer_port *to, const struct xfer_port *from, double at, size_t host,
			 size_t way)
{
	int64_t now = ns_of(at), base = rate[epoch_of(at)][host][way], last = -1;
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

static struct xfer_net believe(const struct serving *s, double at)
{
	struct xfer_net net = {0};
	for (size_t h = 0; h <= SERVER; h++) {
		must(xfer_net_add(&net, NULL));
		believe_port(&net.host[h].out, &s->net.host[h].out, at, h, 0);
		believe_port(&net.host[h].in, &s->net.host[h].in, at, h, 1);
	}
	return net;
}

static void commit_at(struct serving *s, double at, uint64_t count)
{
	s->commit[s->commits++] = (struct commit){at, count};
	if (at < until)
		s->result.committed += (double)count;
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
	struct xfer_course course = {.hop = hop, .commit = commit, .sum = sums};
	xfer_wide cost;
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
	struct xfer_net net = believe(s, now);
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
	must(xfer_group(&b, way, NULL));
	xfer_net_clear(&net);
	for (size_t i = 0; i < items; i++)
		sum[i].ready = ns_of(now);
	b.net = &s->net;
	must(xfer_carry(&b, way, &course, &cost, NULL));
	must(cost == XFER_NO_COST); /* every delay is within the bound */
	for (size_t i = 0; i < items; i++) {
		double at = i < sent ? (double)commit[i] * 1e-9 : now;
		for (size_t k = 0; k < n; k++)
			if (into[k] == order[i]) {
				s->w[of[k]].doing = WAITS;
				s->w[of[k]].since = at;
				s->result.dropped += i >= sent;
			}
		if (i >= sent)
			continue;
		commit_at(s, at, sum[order[i]].count);
		s->scheduled += sum[order[i]].count;
		s->in_free = fmax(s->in_free, at);
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
	struct xfer_net net = believe(s, now);
	size_t k = xfer_best_hosts(&net, SERVER, AGGREGATORS, agg);
	must(xfer_distribute(&net, SERVER, BYTES, agg, k, copy, n, &count, NULL));
	xfer_net_clear(&net);
	there[SERVER] = now;
	for (size_t i = 0; i < count; i++) {
		struct xfer_hop hop;
		must(xfer_send(&s->net, copy[i].from, copy[i].to, BYTES, ns_of(there[copy[i].from]),
			       &hop, NULL));
		there[copy[i].to] = (double)hop.end * 1e-9;
		if (copy[i].from == SERVER)
			s->out_free = fmax(s->out_free, (double)hop.end * 1e-9);
	}
	for (size_t i = 0; i < WORKERS; i++)
		if (s->w[i].doing == WAITS && s->w[i].since <= now)
			s->w[i] = (struct worker){COMPUTES, there[i / 2] + batch_seconds(),
						  s->version};
}

/* One update by itself, and the model back. */
static void push_alone(struct serving *s, struct worker *w, double now)
{
	struct xfer_hop push, pull;
	size_t host = (size_t)(w - s->w) / 2;
	if (w->doing == PUSHES) {
		must(xfer_send(&s->net, host, SERVER, BYTES, ns_of(now), &push, NULL));
		*w = (struct worker){WAITS, (double)push.end * 1e-9, 0};
		s->result.committed += w->since < until;
		return;
	}
	must(xfer_send(&s->net, SERVER, host, BYTES, ns_of(now), &pull, NULL));
	*w = (struct worker){COMPUTES, (double)pull.end * 1e-9 + batch_seconds(), 0};
}

/* delay 0: plainly. */
static struct result serve(uint64_t delay)
{
	struct serving s;
	serving_begin(&s);
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
	return s.result;
}

/* ---- all designs ---- */

enum { RING, OVERLAP, PLAIN, A30, A60, S, R, CUT, DESIGNS };
static const char *const names[] = {"ring", "overlap", "plain", "a30", "a60", "s", "r", "cut"};

static struct result simulate(size_t design)
{
	switch (design) {
	case RING:
		return rounds(ringed, 0, 0);
	case OVERLAP:
		return rounds(ringed, 1, 0);
	case PLAIN:
		return serve(0);
	case A30:
		return serve(30);
	case A60:
		return serve(60);
	case S:
		return rounds(shared, 0, 0);
	case R:
		return rounds(shared, 1, 0);
	default:
		return rounds(shared, 1, 1);
	}
}

int main(int argc, char **argv)
{
	size_t seeds = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	until = argc == 3 ? strtod(argv[2], NULL) : 0;
	if (seeds == 0 || !(until > 0) || until > EPOCHS_MAX * EPOCH)
		return 64;
	for (size_t c = 0; c < 3; c++)
		for (size_t n = 0; n < 3; n++) {
			struct result all[DESIGNS] = {{0}};
			double ms[DESIGNS];
			compute = &computes[c];
			for (size_t run = 0; run < seeds; run++) {
				seed = 1000 * run + 10 * n;
				make_rates(&networks[n]);
				for (size_t d = 0; d < DESIGNS; d++) {
					struct result one = simulate(d);
					all[d].committed += one.committed;
					all[d].dropped += one.dropped;
				}
			}
			printf("bench name=fabric-table2 compute=%s network=%s", compute->name,
			       networks[n].name);
			for (size_t d = 0; d < DESIGNS; d++) {
				ms[d] = 30e3 * until * (double)seeds / all[d].committed;
				printf(" %s-ms=%.0f", names[d], ms[d]);
			}
			for (size_t d = 0; d < DESIGNS; d++)
				if (all[d].dropped > 0)
					printf(" %s-dropped=%.3f", names[d],
					       all[d].dropped /
						       (all[d].dropped + all[d].committed));
			printf(" s-ratio=%.2f ratio=%.2f paper=%.2f of-paper=%.2f\n",
			       ms[RING] / ms[S], ms[RING] / ms[CUT], paper[c][n],
			       ms[RING] / ms[CUT] / paper[c][n]);
		}
	return 0;
}
