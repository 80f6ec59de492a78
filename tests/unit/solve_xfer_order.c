/* xfer_net, xfer_order: cases with known answers, and random ones against the rules as they are
 * written. */
#include "rounds.h"
#include "xfer_case.h"

#define MAX 9

static const char *const why[] = {"sent", "overdue", "rival", "nopath"};

static int64_t end_of(const struct xfer_update *u, size_t i)
{
	return u[i].there;
}

struct known {
	const char *name, *hosts;
	const char *updates; /* HOST:MB<DEADLINE, the last host is the server */
	const char *want;    /* UPDATE@MS as they commit, UPDATE!why */
};

static const struct known known[] = {
	{"a slow one with a deadline is dropped", "1.25/12.5 12.5 12.5", "0:12.5<1 1:12.5<5",
	 "1@1000 0!rival"},
	{"shortest first", "1250 1250 1250 1250", "0:300 1:100 2:200", "1@80 2@240 0@480"},
	{"equal times: fewer bytes, then the lower number", "1250 625/1250 1250 1250",
	 "0:100 1:50 2:100", "1@80 0@120 2@200"},
	{"deadlines before size", "1250 1250 1250 1250", "0:100 1:300<1 2:200<2",
	 "1@240 2@400 0@480"},
	{"two for one position", "1250 1250 1250 1250", "0:100<1 1:80<1 2:200",
	 "1@64 2@224 0!overdue"},
	{"two by position 2 leave no room for a shorter one", "1250 1250 1250 1250 1250",
	 "0:50 1:60<4 2:200<2 3:100<2", "3@80 2@240 0@280 1@328"},
	{"a drop takes no position", "125/1250 1250 1250 1250", "0:100<1 1:100<2 2:100<2",
	 "1@80 2@160 0!rival"},
	{"the last one has no rival", "125/1250 1250 1250", "0:100<2 1:100<1", "1@80 0@880"},
	{"no path, and one on the server's host", "0/1250 1250 1250", "0:100 1:100 2:100",
	 "2@0 1@80 0!nopath"},
	{"rates that change", "6@0,3@2000,4@4000/1250 1250", "0:30", "0@7000"},
	{"what one leaves the next one takes", "500/1250 500/1250 500/1250 1250",
	 "0:100 1:100 2:100", "0@200 1@200 2@300"},
	{"too late at once", "1250 1250 1250 1250", "0:10<0 1:100<3", "1@80 0!overdue"},
	/* Ours. */
	{"of those without room the largest goes, not the one in the way",
	 "100/1000 50/1000 1000 1000", "0:100<2 1:100<2 2:100", "2@100 0@1100 1!rival"},
	{"ports without a limit", "- 100 -", "0:100 1:100", "0@0 1@1000"},
};

static size_t updates_of(const char *text, size_t server, struct xfer_update *u,
			 struct xfer_part *part)
{
	size_t n = 0;
	while (*text) {
		char *end;
		u[n] = (struct xfer_update){.host = strtoul(text, &end, 10),
					    .part = &part[n],
					    .parts = 1,
					    .deadline = XFER_NO_DEADLINE,
					    .count = 1};
		part[n] = (struct xfer_part){.to = server, .bytes = million(strtod(end + 1, &end))};
		if (*end == '<')
			u[n].deadline = strtoul(end + 1, &end, 10);
		text = end + strspn(end, " ");
		n++;
	}
	return n;
}

static void known_answers(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		struct xfer_net net = case_net(known[k].hosts);
		struct xfer_update u[MAX];
		struct xfer_part part[MAX];
		size_t order[MAX], sent, n = updates_of(known[k].updates, net.hosts - 1, u, part);
		char got[200] = "";
		assert_int_equal(xfer_order(&net, u, n, 0, order, &sent, NULL), 0);
		for (size_t i = 0; i < n; i++) {
			size_t len = strlen(got);
			if (i < sent)
				snprintf(got + len, sizeof got - len, " %zu@%.9g", order[i],
					 (double)end_of(u, order[i]) / 1e6);
			else
				snprintf(got + len, sizeof got - len, " %zu!%s", order[i],
					 why[u[order[i]].fate]);
		}
		if (strcmp(got + 1, known[k].want) != 0)
			fail_msg("%s: %s, not %s", known[k].name, got + 1, known[k].want);
		xfer_net_clear(&net);
	}
}

/* ---- the rules as they are written ---- */

struct plain {
	struct slow slow;
	const struct xfer_update *u;
	size_t n;
	int is_gone[MAX];
	enum xfer_fate fate[MAX];
	int64_t there[MAX];
	size_t order[MAX], sent, drop[MAX], drops;
	uint64_t position, wide;
};

static int64_t plain_send(struct plain *p, size_t i)
{
	const struct xfer_update *u = &p->u[i];
	size_t before = p->slow.pieces;
	int64_t there = u->ready;
	for (size_t k = 0; k < u->parts; k++) {
		int64_t end =
			slow_send(&p->slow, u->host, u->part[k].to, u->part[k].bytes, u->ready);
		there = end > there ? end : there;
	}
	if (there == XFER_NEVER)
		p->slow.pieces = before;
	return there;
}

static int64_t plain_ask(struct plain *p, size_t i)
{
	size_t before = p->slow.pieces;
	int64_t there = plain_send(p, i);
	p->slow.pieces = before;
	return there;
}

static int plain_is_smaller(struct plain *p, size_t a, size_t b)
{
	int64_t x = plain_ask(p, a), y = plain_ask(p, b);
	int64_t s = xfer_bytes(&p->u[a]), t = xfer_bytes(&p->u[b]);
	return x != y ? x < y : s != t ? s < t : a < b;
}

/* Of those whose deadline is in (after, by]. `after` is a position that is taken: they need room.
 */
static size_t plain_choose(struct plain *p, uint64_t after, uint64_t by, int want_most)
{
	size_t best = MAX;
	for (size_t i = 0; i < p->n; i++) {
		uint64_t deadline = p->u[i].deadline;
		if (p->is_gone[i] || deadline > by || deadline < p->u[i].count ||
		    deadline - p->u[i].count < after)
			continue;
		if (best == MAX || plain_is_smaller(p, i, best) != want_most)
			best = i;
	}
	return best;
}

static void plain_drop(struct plain *p, size_t i, enum xfer_fate fate)
{
	p->is_gone[i] = 1;
	p->fate[i] = fate;
	p->drop[p->drops++] = i;
}

/* D; XFER_NO_DEADLINE: none. */
static uint64_t plain_full(const struct plain *p)
{
	uint64_t full = XFER_NO_DEADLINE, total = 0;
	for (size_t i = 0; i < p->n; i++)
		total += p->u[i].count;
	for (size_t i = 0; i < p->n; i++) {
		uint64_t d = p->u[i].deadline, sum = 0;
		for (size_t k = 0; k < p->n; k++)
			sum += !p->is_gone[k] && p->u[k].deadline <= d ? p->u[k].count : 0;
		/* One that all together can't miss leaves room for everybody. */
		if (p->wide > 1 && d >= total)
			continue;
		if (!p->is_gone[i] && d < full && sum + p->position + p->wide > d)
			full = d;
	}
	return full;
}

static int plain_overdue(struct plain *p)
{
	size_t found = MAX;
	/* In the order of the last start. */
	for (size_t i = 0; i < p->n; i++) {
		const struct xfer_update *u = &p->u[i];
		if (p->is_gone[i] ||
		    (u->deadline >= u->count && u->deadline - u->count >= p->position))
			continue;
		uint64_t start = u->deadline < u->count ? 0 : u->deadline - u->count + 1;
		const struct xfer_update *v = &p->u[found == MAX ? i : found];
		uint64_t best = v->deadline < v->count ? 0 : v->deadline - v->count + 1;
		if (found == MAX || start < best)
			found = i;
	}
	if (found == MAX)
		return 0;
	plain_drop(p, found, XFER_OVERDUE);
	return 1;
}

static void plain_order(struct plain *p, uint64_t margin)
{
	for (size_t i = 0; i < p->n; i++)
		p->wide = p->u[i].count > p->wide ? p->u[i].count : p->wide;
	while (p->sent + p->drops < p->n) {
		if (plain_overdue(p))
			continue;
		uint64_t d = plain_full(p);
		size_t g = plain_choose(p, 0, d, 0);
		size_t before = p->slow.pieces;
		int64_t there = plain_send(p, g);
		if (there == XFER_NEVER) {
			plain_drop(p, g, XFER_NOPATH);
			continue;
		}
		p->is_gone[g] = 1;
		size_t rival = plain_choose(p, p->position + p->u[g].count, UINT64_MAX, 0);
		if (d != XFER_NO_DEADLINE && rival != MAX &&
		    (xfer_wide)there * 100 >
			    (xfer_wide)plain_ask(p, rival) * (100 + (xfer_wide)margin)) {
			p->slow.pieces = before;
			p->is_gone[g] = 0;
			size_t largest = plain_choose(p, 0, d, 1);
			plain_drop(p, largest,
				   plain_ask(p, largest) == XFER_NEVER ? XFER_NOPATH : XFER_RIVAL);
			continue;
		}
		p->there[g] = there;
		p->position += p->u[g].count;
		assert_true(p->position <= p->u[g].deadline);
		p->order[p->sent++] = g;
	}
}

static void random_cases(void **state)
{
	uint64_t seed = 20;
	size_t fates[4] = {0};
	(void)state;
	for (int round = 0; round < ROUNDS(10000); round++) {
		struct xfer_net net = {0}, before = {0};
		struct xfer_update u[MAX];
		struct xfer_part part[MAX][2];
		size_t hosts = 2 + (size_t)random_below(&seed, 4), order[MAX], sent;
		size_t n = 1 + (size_t)random_below(&seed, MAX);
		int has_parts = random_below(&seed, 4) == 0,
		    has_counts = random_below(&seed, 4) == 0;
		int has_ready = random_below(&seed, 3) == 0, has_many = random_below(&seed, 3) == 0;
		uint64_t margin = random_below(&seed, 3) ? 0 : 25, again = seed;
		for (size_t i = 0; i < 2 * hosts; i++) {
			struct xfer_net *to = i < hosts ? &net : &before;
			seed = i == hosts ? again : seed;
			assert_int_equal(xfer_net_add(to, NULL), 0);
			random_port(&to->host[to->hosts - 1].out, &seed);
			random_port(&to->host[to->hosts - 1].in, &seed);
		}
		for (size_t i = 0; i < n; i++) {
			u[i] = (struct xfer_update){
				.host = (size_t)random_below(&seed, (int64_t)hosts),
				.part = part[i],
				.parts = has_parts ? 2 : 1,
				.count = has_counts ? 1 + (uint64_t)random_below(&seed, 3) : 1,
				.deadline = has_many || random_below(&seed, 2)
						    ? (uint64_t)random_below(&seed, MAX)
						    : XFER_NO_DEADLINE,
				.ready = has_ready ? random_below(&seed, 3) * 300000000 : 0};
			for (size_t k = 0; k < 2; k++)
				part[i][k] = (struct xfer_part){
					.to = hosts - 1 - k,
					.bytes = million((double)random_below(&seed, 4)) +
						 random_below(&seed, 2)};
		}
		struct plain p = {.slow = {.net = &before}, .u = u, .n = n};
		plain_order(&p, margin);
		assert_int_equal(xfer_order(&net, u, n, margin, order, &sent, NULL), 0);
		assert_int_equal(sent, p.sent);
		for (size_t i = 0; i < n; i++) {
			size_t want = i < sent ? p.order[i] : p.drop[i - sent];
			assert_int_equal(order[i], want);
			assert_int_equal(u[want].fate, p.fate[want]);
			if (i < sent)
				assert_true(u[want].there == p.there[want]);
			fates[u[want].fate]++;
		}
		slow_compare(&p.slow, &net);
		free(p.slow.piece);
		xfer_net_clear(&net);
		xfer_net_clear(&before);
	}
	for (size_t i = 0; i < 4; i++)
		assert_true(fates[i] > 0);
}

static void deadlines_by_version(void **state)
{
	(void)state;
	assert_int_equal(xfer_deadline(5, 5, 0), 1);  /* the newest model: one position, no delay */
	assert_int_equal(xfer_deadline(3, 10, 8), 2); /* delays 7, 8 */
	assert_int_equal(xfer_deadline(1, 10, 8), 0);
	assert_true(xfer_deadline(1, 0, UINT64_MAX) == XFER_NO_DEADLINE);
}

/* What is undone is as it was, however deep. */
static void undone(void **state)
{
	struct xfer_net net = case_net("10 20 5@0,50@100");
	struct xfer_hop hop;
	size_t outer = xfer_begin(&net), inner;
	(void)state;
	assert_int_equal(xfer_send(&net, 0, 2, million(3), 0, &hop, NULL), 0);
	assert_true(hop.start == 0 && hop.end == million(350));
	inner = xfer_begin(&net);
	assert_int_equal(xfer_send(&net, 1, 2, million(9), 0, &hop, NULL), 0);
	assert_true(hop.start == million(100) && hop.end == million(550));
	xfer_undo(&net, inner);
	assert_true(xfer_end(&net, 1, 2, million(9), 0) == million(550));
	inner = xfer_begin(&net);
	assert_int_equal(xfer_send(&net, 1, 2, million(9), 0, &hop, NULL), 0);
	xfer_keep(&net, inner);
	xfer_undo(&net, outer);
	assert_int_equal(net.host[2].in.count, 2);
	assert_true(xfer_end(&net, 0, 2, million(3), 0) == million(350));
	assert_true(xfer_port_rate(&net.host[2].in, million(99)) == million(5));
	assert_int_equal(net.open, 0);
	xfer_net_clear(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(random_cases),
		cmocka_unit_test(deadlines_by_version),
		cmocka_unit_test(undone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
