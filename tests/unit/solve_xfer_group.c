/* xfer_group: cases with known answers, and random ones against the rules as they are written. */
#include "rounds.h"
#include "solve/xfer_group.h"
#include "xfer_case.h"

#define MAX 16

struct known {
	const char *name, *hosts;
	const char
		*from; /* the hosts of updates of 100 MB, in order; the server is the last host */
	const char *aggregators; /* their hosts */
	double dense;            /* MB */
	int64_t sum_rate;        /* bytes/s */
	const char *as;          /* n and k, or "": the best */
	const char *want;        /* n k: way@MS of each */
};

#define NINE "1250 1250 1250 1250 1250 1250 1250/900 1250 1250"
#define FIVE "1250 1250 1250 1250 1250"

static const struct known known[] = {
	{"three direct ones", NINE, "0 1 2 3 4 5", "6 7", 100, 0, "3 2",
	 "0@80 0@160 0@240 1@320 1@320 2@400"},
	{"the best", NINE, "0 1 2 3 4 5", "6 7", 100, 0, "", "0@80 0@160 1@240 2@320 2@320 2@320"},
	{"the first group is not bounded", NINE, "0 1 2 3 4 5", "6 7", 100, 0, "0 2",
	 "1@746.666672 1@746.666672 1@746.666672 1@746.666672 1@746.666672 1@746.666672"},
	{"sparse", NINE, "0 1 2 3 4 5", "6 7", 200, 0, "3 2", "0@80 0@160 0@240 1@400 1@400 2@480"},
	{"sparse, the best", NINE, "0 1 2 3 4 5", "6 7", 200, 0, "",
	 "0@80 0@160 1@240 2@400 2@400 2@400"},
	{"summing takes time", NINE, "0 1 2 3 4 5", "6 7", 100, 10000000000, "3 2",
	 "0@80 0@160 0@240 1@320 1@320 2@400"},
	{"summing takes time, the best", NINE, "0 1 2 3 4 5", "6 7", 100, 10000000000, "",
	 "0@80 0@160 1@240 2@330 2@330 2@330"},
	{"no aggregator", NINE, "0 1 2 3 4 5", "", 100, 0, "",
	 "0@80 0@160 0@240 0@320 0@400 0@480"},
	{"a member on the aggregator's host", FIVE, "0 1 2 3", "2", 100, 0, "2 1",
	 "0@80 0@160 1@240 1@240"},
	{"the fewest direct ones", FIVE, "0 1 2 3", "2", 100, 0, "", "0@80 1@240 1@240 1@240"},
	{"the last one takes all the rest", "1250 1250 1250 1250 100 1250", "0 1 2 3", "0 4", 100,
	 0, "1 2", "0@80 1@160 2@3000 2@3000"},
	{"a slow aggregator is not used", "1250 1250 1250 1250 100 1250", "0 1 2 3", "0 4", 100, 0,
	 "", "0@80 0@160 1@240 1@240"},
	{"a late first member", "1250 125/1250 1250 1250 1250", "0 1 2", "2 3", 100, 0, "1 2",
	 "0@80 1@880 1@880"},
	{"the fewest aggregators, and commits in order", "1250 125/1250 1250 1250 1250", "0 1 2",
	 "2 3", 100, 0, "", "0@80 0@880 0@880"},
};

static void known_answers(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof known / sizeof *known; c++) {
		const struct known *w = &known[c];
		struct xfer_net net = case_net(w->hosts);
		struct xfer_update u[MAX];
		struct xfer_part part[MAX];
		struct xfer_aggregator agg[MAX];
		struct xfer_hop hop[MAX];
		struct xfer_sum sum[MAX];
		struct xfer_part summed[MAX];
		int64_t dense = million(w->dense);
		size_t order[MAX], way[MAX] = {0}, n = 0, k = 0, direct, used;
		int64_t commit[MAX];
		xfer_wide cost;
		char got[400] = "", *end;
		for (const char *at = w->from; *at; at = end, n++) {
			part[n] = (struct xfer_part){.to = net.hosts - 1, .bytes = million(100)};
			u[n] = (struct xfer_update){.host = strtoul(at, &end, 10),
						    .part = &part[n],
						    .parts = 1,
						    .deadline = XFER_NO_DEADLINE,
						    .count = 1};
			order[n] = n;
		}
		for (const char *at = w->aggregators; *at; at = end, k++)
			agg[k] = (struct xfer_aggregator){.host = strtoul(at, &end, 10),
							  .sum_rate = w->sum_rate};
		struct xfer_batch b = {.net = &net,
				       .u = u,
				       .order = order,
				       .count = n,
				       .aggregator = agg,
				       .aggregators = k,
				       .dense = &dense};
		for (size_t a = 0; a < MAX; a++)
			sum[a].part = &summed[a];
		struct xfer_course course = {.hop = hop, .commit = commit, .sum = sum};
		if (sscanf(w->as, "%zu %zu", &direct, &used) == 2)
			assert_int_equal(xfer_group_as(&b, direct, used, way, &cost, NULL), 0);
		else
			assert_int_equal(xfer_group(&b, way, NULL), 0);
		assert_int_equal(xfer_carry(&b, way, &course, &cost, NULL), 0);
		for (size_t i = 0; i < n; i++)
			snprintf(got + strlen(got), sizeof got - strlen(got), " %zu@%.9g", way[i],
				 (double)commit[i] / 1e6);
		if (strcmp(got + 1, w->want) != 0)
			fail_msg("%s: %s, not %s", w->name, got + 1, w->want);
		xfer_net_clear(&net);
	}
}

/* ---- the rules as they are written ---- */

struct random_case {
	struct xfer_net net, before;
	struct xfer_update u[MAX];
	struct xfer_part part[2 * MAX]; /* of up to two parts */
	int64_t dense[2];
	struct xfer_aggregator agg[3];
	size_t order[MAX];
	struct xfer_batch b;
};

static void random_make(struct random_case *r, size_t updates, uint64_t *seed)
{
	size_t hosts = 3 + (size_t)random_below(seed, 4), n = updates, sent;
	int has_deadlines = random_below(seed, 3) == 0, is_simple = random_below(seed, 2) == 0;
	size_t parts = 1 + (random_below(seed, 3) == 0);
	*r = (struct random_case){
		.dense = {random_below(seed, 3) * 1000000, random_below(seed, 3) * 1000000}};
	uint64_t again = *seed;
	for (size_t i = 0; i < 2 * hosts; i++) {
		struct xfer_net *to = i < hosts ? &r->net : &r->before;
		*seed = i == hosts ? again : *seed;
		assert_int_equal(xfer_net_add(to, NULL), 0);
		random_port(&to->host[to->hosts - 1].out, seed);
		random_port(&to->host[to->hosts - 1].in, seed);
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t p = 0; p < parts; p++)
			r->part[parts * i + p] = (struct xfer_part){
				.to = hosts - 1 - p,
				.bytes = million(
					is_simple ? 1
						  : 1 - (double)p + (double)random_below(seed, 3))};
		r->u[i] = (struct xfer_update){
			.host = (size_t)random_below(seed, (int64_t)hosts),
			.part = &r->part[parts * i],
			.parts = parts,
			.count = 1 + (random_below(seed, 6) == 0),
			.ready = random_below(seed, 4) ? 0 : 300000000,
			.deadline = has_deadlines ? 1 + (uint64_t)random_below(seed, 12)
						  : XFER_NO_DEADLINE};
	}
	r->b = (struct xfer_batch){.net = &r->net,
				   .u = r->u,
				   .order = r->order,
				   .aggregator = r->agg,
				   .aggregators = (size_t)random_below(seed, 4),
				   .dense = r->dense,
				   .goal = random_below(seed, 2) ? XFER_ALL : XFER_EACH};
	for (size_t a = 0; a < r->b.aggregators; a++)
		r->agg[a] =
			(struct xfer_aggregator){.host = (size_t)random_below(seed, (int64_t)hosts),
						 .sum_rate = random_below(seed, 2) * 7000000};
	size_t outer = xfer_begin(&r->net);
	assert_int_equal(xfer_order(&r->net, r->u, n, 0, r->order, &sent, NULL), 0);
	xfer_undo(&r->net, outer);
	r->b.count = sent;
}

static void random_clear(struct random_case *r)
{
	xfer_net_clear(&r->net);
	xfer_net_clear(&r->before);
}

static int64_t plain_sum_time(const struct xfer_aggregator *a, int64_t bytes)
{
	return a->sum_rate
		       ? (int64_t)(((xfer_wide)bytes * XFER_SECOND + a->sum_rate - 1) / a->sum_rate)
		       : 0;
}

static int64_t max_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* All parts, one after the other; the last one counts. */
static int64_t plain_send(struct slow *slow, size_t from, const struct xfer_part *part,
			  size_t parts, int64_t ready)
{
	int64_t last = ready;
	for (size_t p = 0; p < parts && last != XFER_NEVER; p++)
		last = max_of(last, slow_send(slow, from, part[p].to, part[p].bytes, ready));
	return last;
}

/* The cost of n direct ones and k aggregators; XFER_NO_COST. */
static xfer_wide plain_group(const struct random_case *r, size_t n, size_t k, size_t *way)
{
	const struct xfer_batch *b = &r->b;
	struct slow slow = {.net = &r->before};
	const struct xfer_update *u0 = &r->u[0];
	size_t i = 0, parts = r->u[0].parts;
	uint64_t position = 0;
	int64_t t = 0;
	xfer_wide sum = 0;
	int is_possible = 1;
	for (; i < n; i++) {
		const struct xfer_update *u = &r->u[b->order[i]];
		int64_t end = plain_send(&slow, u->host, u->part, parts, u->ready);
		is_possible &= end != XFER_NEVER;
		t = max_of(t, end);
		position += u->count;
		sum += (xfer_wide)t * u->count;
		way[i] = 0;
	}
	for (size_t a = 0; a < k && i < b->count && is_possible; a++) {
		struct xfer_part all[2] = {u0->part[0], u0->part[parts - 1]};
		int64_t done = 0, bound = t;
		all[0].bytes = all[1].bytes = 0;
		uint64_t count = 0, by = UINT64_MAX;
		size_t members = 0;
		for (; i < b->count && is_possible; i++, members++) {
			const struct xfer_update *u = &r->u[b->order[i]];
			uint64_t least = u->deadline < by ? u->deadline : by;
			size_t before = slow.pieces;
			int is_free = a + 1 == k || (a == 0 && n == 0);
			int64_t bytes = u->part[0].bytes + (parts > 1 ? u->part[1].bytes : 0);
			int64_t end =
				slow_send(&slow, u->host, b->aggregator[a].host, bytes, u->ready);
			int64_t summed = end == XFER_NEVER
						 ? end
						 : max_of(end, done) +
							   plain_sum_time(&b->aggregator[a], bytes);
			if (members > 0 &&
			    (position + count + u->count > least ||
			     (end == XFER_NEVER && a + 1 < k) || (!is_free && summed > bound))) {
				slow.pieces = before;
				break;
			}
			is_possible = end != XFER_NEVER;
			bound = max_of(bound, summed);
			done = summed;
			for (size_t p = 0; p < parts; p++)
				all[p].bytes += u->part[p].bytes;
			count += u->count;
			by = least;
			way[i] = a + 1;
		}
		if (!is_possible)
			break;
		for (size_t p = 0; p < parts; p++)
			if (r->dense[p] && all[p].bytes > r->dense[p])
				all[p].bytes = r->dense[p];
		int64_t end = plain_send(&slow, b->aggregator[a].host, all, parts, done);
		is_possible = end != XFER_NEVER;
		t = max_of(t, end);
		position += count;
		sum += (xfer_wide)t * count;
	}
	free(slow.piece);
	if (!is_possible || i < b->count)
		return XFER_NO_COST;
	return b->goal == XFER_ALL ? t : sum;
}

static xfer_wide plain_best(const struct random_case *r, size_t *best_way)
{
	xfer_wide best = XFER_NO_COST;
	size_t way[MAX] = {0};
	for (size_t k = 0; k <= r->b.aggregators; k++)
		for (size_t n = k ? 0 : r->b.count; n <= r->b.count; n++) {
			xfer_wide cost = plain_group(r, n, k, way);
			if (cost >= best)
				continue;
			best = cost;
			memcpy(best_way, way, sizeof way);
		}
	return best;
}

static xfer_wide carried(const struct random_case *r, const size_t *way)
{
	struct xfer_hop hop[MAX];
	struct xfer_sum sum[MAX];
	struct xfer_part part[2 * MAX];
	int64_t commit[MAX];
	struct xfer_course course = {.hop = hop, .commit = commit, .sum = sum};
	xfer_wide cost;
	for (size_t a = 0; a < MAX; a++)
		sum[a].part = &part[2 * a];
	size_t outer = xfer_begin(r->b.net);
	assert_int_equal(xfer_carry(&r->b, way, &course, &cost, NULL), 0);
	xfer_undo(r->b.net, outer);
	return cost;
}

static void random_cases(void **state)
{
	uint64_t seed = 7;
	size_t grouped = 0;
	(void)state;
	for (int round = 0; round < ROUNDS(4000); round++) {
		struct random_case r;
		size_t way[MAX] = {0}, want[MAX] = {0};
		random_make(&r, 1 + (size_t)random_below(&seed, 8), &seed);
		xfer_wide best = plain_best(&r, want);
		assert_int_equal(xfer_group(&r.b, way, NULL), 0);
		for (size_t i = 0; i < r.b.count; i++) {
			assert_int_equal(way[i], want[i]);
			grouped += way[i] > 0;
		}
		if (r.b.count > 0)
			assert_true(carried(&r, way) == best);
		random_clear(&r);
	}
	assert_true(grouped > 0);
}

/* Every order and every way of it. */
static xfer_wide optimum(struct random_case *r, size_t from)
{
	size_t n = r->b.count, way[MAX] = {0};
	xfer_wide best = XFER_NO_COST;
	if (from == n) {
		for (;;) {
			size_t i = 0;
			xfer_wide cost = carried(r, way);
			best = cost < best ? cost : best;
			while (i < n && way[i] == r->b.aggregators)
				way[i++] = 0;
			if (i == n)
				return best;
			way[i]++;
		}
	}
	for (size_t i = from; i < n; i++) {
		size_t a = r->order[from], b = r->order[i];
		r->order[from] = b;
		r->order[i] = a;
		xfer_wide cost = optimum(r, from + 1);
		best = cost < best ? cost : best;
		r->order[from] = a;
		r->order[i] = b;
	}
	return best;
}

/* Never worse than where it begins, and nearly always as good as can be. */
static void searched(void **state)
{
	uint64_t seed = 3;
	size_t best = 0, rounds = 0;
	(void)state;
	for (int round = 0; round < ROUNDS(100); round++) {
		struct random_case r;
		size_t way[MAX] = {0};
		random_make(&r, 5, &seed);
		assert_int_equal(xfer_group(&r.b, way, NULL), 0);
		xfer_wide plan = carried(&r, way), least = r.b.count ? optimum(&r, 0) : 0;
		assert_int_equal(xfer_local(&r.b, way, NULL), 0);
		xfer_wide cost = r.b.count ? carried(&r, way) : 0;
		assert_true(cost <= plan && cost >= least);
		best += cost == least;
		rounds++;
		random_clear(&r);
	}
	assert_true(rounds - best <= 1 + rounds / 10); /* under sanitizers there are five rounds */
}

/* With many updates n is found by bisection, and is nearly as good as the best of all. */
static void many(void **state)
{
	enum { COUNT = XFER_EXACT_MAX + 40, HOSTS = 12 };
	static struct xfer_update u[COUNT];
	static struct xfer_part part[COUNT];
	static size_t order[COUNT], way[COUNT];
	static struct xfer_hop hop[COUNT];
	static int64_t commit[COUNT];
	struct xfer_aggregator agg[] = {{.host = 0}, {.host = 1}};
	struct xfer_part summed[2];
	struct xfer_sum sum[2] = {{.part = &summed[0]}, {.part = &summed[1]}};
	const int64_t dense = million(9);
	struct xfer_net net = {0};
	uint64_t seed = 5;
	(void)state;
	for (size_t i = 0; i < HOSTS; i++) {
		assert_int_equal(xfer_net_add(&net, NULL), 0);
		assert_int_equal(xfer_port_from(&net.host[i].in, 0, million(1000), NULL), 0);
		assert_int_equal(xfer_port_from(&net.host[i].out, 0, million(1000), NULL), 0);
	}
	for (size_t i = 0; i < COUNT; i++) {
		order[i] = i;
		part[i] = (struct xfer_part){.to = HOSTS - 1,
					     .bytes = million(1 + (double)random_below(&seed, 9))};
		u[i] = (struct xfer_update){.host = 2 + i % (HOSTS - 3),
					    .part = &part[i],
					    .parts = 1,
					    .deadline = XFER_NO_DEADLINE,
					    .count = 1};
	}
	struct xfer_batch b = {.net = &net,
			       .u = u,
			       .order = order,
			       .count = COUNT,
			       .aggregator = agg,
			       .aggregators = 2,
			       .dense = &dense};
	struct xfer_course course = {.hop = hop, .commit = commit, .sum = sum};
	xfer_wide best = XFER_NO_COST, cost;
	for (size_t n = 0; n <= COUNT; n += 4)
		for (size_t k = 1; k <= 2; k++) {
			assert_int_equal(xfer_group_as(&b, n, k, way, &cost, NULL), 0);
			best = cost < best ? cost : best;
		}
	assert_int_equal(xfer_group(&b, way, NULL), 0);
	assert_int_equal(xfer_carry(&b, way, &course, &cost, NULL), 0);
	assert_true(cost * 100 <= best * 102);
	xfer_net_clear(&net);
}

static void sums_at_the_source(void **state)
{
	/* host, MB, deadline */
	static const double in[][3] = {{0, 5, 9}, {1, 5, 9}, {0, 6, 1},
				       {0, 7, 3}, {2, 2, 9}, {2, 3, 9}};
	struct xfer_update u[6], sum[6];
	struct xfer_part part[6], summed[6];
	const int64_t dense = million(8), none = 0;
	size_t into[6];
	(void)state;
	for (size_t i = 0; i < 6; i++) {
		part[i] = (struct xfer_part){.to = 3, .bytes = million(in[i][1])};
		u[i] = (struct xfer_update){.host = (size_t)in[i][0],
					    .part = &part[i],
					    .parts = 1,
					    .deadline = (uint64_t)in[i][2],
					    .count = 1};
	}
	/* 2 must commit alone; 4 and 5 would not be fewer bytes. */
	assert_int_equal(xfer_sum_hosts(u, 6, &dense, sum, summed, into, NULL), 5);
	const size_t want[] = {0, 1, 2, 0, 3, 4};
	assert_memory_equal(into, want, sizeof want);
	assert_int_equal(sum[0].count, 2);
	assert_int_equal(sum[0].deadline, 3);
	assert_int_equal(sum[0].part->bytes, million(8));
	assert_int_equal(sum[2].count, 1);
	assert_int_equal(xfer_sum_hosts(u, 6, &none, sum, summed, into, NULL), 6);
}

static void the_best_hosts(void **state)
{
	struct xfer_net net = case_net("10 20/5 30 - 30/0 10 99");
	struct xfer_aggregator agg[4];
	(void)state;
	assert_int_equal(xfer_best_hosts(&net, 6, 4, agg), 4);
	const size_t want[] = {3, 2, 0, 5};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(agg[i].host, want[i]);
	assert_int_equal(xfer_best_hosts(&net, 3, 1, agg), 1);
	assert_int_equal(agg[0].host, 6);
	xfer_net_clear(&net);
}

/* Eight hosts get a model of 100 MB from the last one: through two distributors sooner than one
 * after the other; the last group's copy goes first; each host gets one. */
static void copies_of_a_model(void **state)
{
	struct xfer_net net = case_net("1000 1000 1000 1000 1000 1000 1000 1000 1000 1000 1000");
	struct xfer_aggregator distributor[] = {{.host = 3}, {.host = 9}};
	struct xfer_copy copy[10];
	size_t count, got[11] = {0};
	int64_t there[11] = {0}, last = 0;
	(void)state;
	for (size_t i = 0; i < 8; i++)
		copy[i] = (struct xfer_copy){.to = i};
	assert_int_equal(
		xfer_distribute(&net, 10, million(100), distributor, 2, copy, 8, &count, NULL), 0);
	assert_int_equal(copy[0].from, 10);
	for (size_t i = 0; i < count; i++) {
		got[copy[i].to]++;
		assert_true(copy[i].from == 10 || copy[i].hop.start >= there[copy[i].from]);
		assert_true(copy[i].from == 10 || there[copy[i].from] > 0);
		there[copy[i].to] = copy[i].hop.end;
		last = copy[i].hop.end > last ? copy[i].hop.end : last;
	}
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(got[i], 1);
	assert_true(got[9] <= 1 && got[8] == 0 && got[10] == 0);
	assert_true(copy[0].to == 3 || copy[0].to == 9);
	assert_int_equal(last, million(400)); /* 800 without */
	xfer_net_clear(&net);
	/* Who has no path is named, the others get theirs. */
	net = case_net("10 10/0 10");
	copy[0].to = 1;
	copy[1].to = 0;
	assert_int_equal(xfer_distribute(&net, 2, million(1), NULL, 0, copy, 2, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_true(copy[0].to == 0 && copy[0].hop.end == million(100));
	assert_true(copy[1].to == 1 && copy[1].hop.end == XFER_NEVER);
	xfer_net_clear(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),      cmocka_unit_test(random_cases),
		cmocka_unit_test(searched),           cmocka_unit_test(many),
		cmocka_unit_test(sums_at_the_source), cmocka_unit_test(the_best_hosts),
		cmocka_unit_test(copies_of_a_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
