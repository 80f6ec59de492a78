/*
 * Sums over hosts: several hosts in one process, joined by a network that delivers in any order it
 * likes (messages from one host to another keep theirs).  Whatever the order, the result is the
 * plain sum, with the same bits everywhere; what died reads and writes nothing any more.  All of it
 * by the ring, by shares with links of any rates, and by the faster of both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "fabric/rowlist.h"
#include "fabric/sum.h"
#include "tests/unit/rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX 5
#define WIDTH 16

/* ---- the network ---- */

struct message {
	struct message *next;
	size_t bytes;
	char data[];
};

/* One end of a bulk transfer. */
struct bulk {
	struct bulk *next;
	unsigned from, to, tag;
	void *data;
	size_t bytes;
	void (*sent)(void *arg);
	void (*came)(void *arg, size_t bytes);
	void *arg;
};

struct port {
	unsigned rank;
};

static struct sum *host[HOSTS_MAX];
static struct port port[HOSTS_MAX];
static unsigned hosts;
static struct message *first[HOSTS_MAX][HOSTS_MAX], **last[HOSTS_MAX][HOSTS_MAX];
static struct bulk *sends, *receives;
static uint64_t seed;
static unsigned slow; /* what this host says takes long, what it sends does not; HOSTS_MAX: none */
static int nonsense;  /* the network says things that no host has said */
static enum sum_way way;
static double rate_of[HOSTS_MAX]; /* of each host's link; 0: any */
static double in_of[HOSTS_MAX];   /* if it differs: into the host */
static int is_followed = 1;       /* hosts look again at any time, and may find other rates */
static int is_least[HOSTS_MAX];   /* that is a lower bound */
static unsigned without_rows;     /* a bit for each host that says so when it opens a round */
static unsigned may_get; /* a bit for each answer that is fine, besides SUM_OK */

static uint64_t any(uint64_t n)
{
	return random_next(&seed) % n;
}

static void *must(void *memory)
{
	assert_non_null(memory);
	return memory;
}

static const char *name_of(void *carrier, unsigned rank)
{
	static const char *const name[] = {"h0", "h1", "h2", "h3", "h4"};

	(void)carrier;
	return name[rank];
}

static void tell(void *carrier, unsigned rank, const void *head, size_t head_bytes,
		 const void *data, size_t bytes)
{
	unsigned self = ((struct port *)carrier)->rank;
	struct message *m = must(malloc(sizeof *m + head_bytes + bytes));

	assert_true(head_bytes + bytes <= SUM_MESSAGE_MAX);
	m->next = NULL;
	m->bytes = head_bytes + bytes;
	memcpy(m->data, head, head_bytes);
	if (bytes)
		memcpy(m->data + head_bytes, data, bytes);
	*last[self][rank] = m;
	last[self][rank] = &m->next;
}

static void begin_bulk(struct bulk **list, struct bulk b)
{
	struct bulk *n = must(malloc(sizeof *n));

	for (struct bulk *i = *list; i && !nonsense; i = i->next)
		assert_false(i->from == b.from && i->to == b.to && i->tag == b.tag);
	*n = b;
	n->next = *list;
	*list = n;
}

static void send(void *carrier, unsigned rank, unsigned tag, const void *data, size_t bytes,
		 void (*done)(void *arg), void *arg)
{
	unsigned self = ((struct port *)carrier)->rank;

	begin_bulk(&sends, (struct bulk){.from = self,
					 .to = rank,
					 .tag = tag,
					 .data = (void *)(uintptr_t)data,
					 .bytes = bytes,
					 .sent = done,
					 .arg = arg});
}

static void receive(void *carrier, unsigned rank, unsigned tag, void *into, size_t bytes,
		    void (*done)(void *arg, size_t came), void *arg)
{
	unsigned self = ((struct port *)carrier)->rank;

	begin_bulk(&receives, (struct bulk){.from = rank,
					    .to = self,
					    .tag = tag,
					    .data = into,
					    .bytes = bytes,
					    .came = done,
					    .arg = arg});
}

/* Unknown, a lower bound or a rate. */
static struct sum_rate any_rate(unsigned self)
{
	if (rate_of[self] > 0)
		return (struct sum_rate){.rate = rate_of[self], .is_least = is_least[self]};
	return any(4) == 0 ? (struct sum_rate){0}
			   : (struct sum_rate){.rate = (double)(1 + any(1000)) * 1e6,
					       .is_least = any(3) == 0};
}

static void tell_rates(void *carrier, struct sum_rates *rates)
{
	unsigned self = ((struct port *)carrier)->rank;

	*rates = (struct sum_rates){any_rate(self), any_rate(self)};
	if (in_of[self] > 0)
		rates->in.rate = in_of[self];
}

static void start(unsigned n, uint64_t with_seed)
{
	struct error err;

	hosts = n;
	seed = with_seed;
	slow = HOSTS_MAX;
	for (unsigned i = 0; i < n; i++) {
		port[i].rank = i;
		for (unsigned to = 0; to < n; to++)
			last[i][to] = &first[i][to];
		struct sum_link link = {&port[i], i,    n,       name_of,
					tell,     send, receive, way, tell_rates};
		assert_int_equal(sum_new(&host[i], &link, &err), 0);
	}
}

static int deliver_message(unsigned from, unsigned to)
{
	struct message *m = first[from][to];

	if (!m)
		return 0;
	first[from][to] = m->next;
	if (!m->next)
		last[from][to] = &first[from][to];
	sum_message(host[to], from, m->data, m->bytes);
	free(m);
	return 1;
}

static struct bulk *take_out(struct bulk **at)
{
	struct bulk *b = *at;

	*at = b->next;
	return b;
}

static struct bulk **other_end(const struct bulk *send)
{
	struct bulk **r = &receives;

	while (*r && ((*r)->from != send->from || (*r)->to != send->to || (*r)->tag != send->tag))
		r = &(*r)->next;
	return r;
}

/* One of the transfers that both sides have begun. */
static int deliver_bulk(void)
{
	size_t both = 0, skip;
	struct bulk **s, **r;

	for (s = &sends; *s; s = &(*s)->next)
		both += *other_end(*s) != NULL;
	if (both == 0)
		return 0;
	skip = (size_t)any(both);
	for (s = &sends; !*(r = other_end(*s)) || skip--; s = &(*s)->next)
		;
	struct bulk *send = take_out(s), *receive = take_out(r);
	assert_true(send->bytes <= receive->bytes);
	memcpy(receive->data, send->data, send->bytes);
	int sender_first = any(2) == 0;
	if (sender_first)
		send->sent(send->arg);
	receive->came(receive->arg, send->bytes);
	if (!sender_first)
		send->sent(send->arg);
	free(send);
	free(receive);
	return 1;
}

/* Whether anything happened. */
static int step(void)
{
	unsigned pairs = hosts * hosts, at = (unsigned)any(pairs);

	if (is_followed && any(8) == 0)
		sum_follow(host[any(hosts)]);
	if (any(3) == 0 && deliver_bulk())
		return 1;
	for (unsigned i = 0; i < pairs; i++, at = (at + 1) % pairs) {
		if (at / hosts != slow && deliver_message(at / hosts, at % hosts))
			return 1;
	}
	if (deliver_bulk())
		return 1;
	for (unsigned to = 0; to < hosts; to++) {
		if (slow < hosts && deliver_message(slow, to))
			return 1;
	}
	return 0;
}

static void quiet(void)
{
	struct sum_counts c;

	while (step())
		;
	if (nonsense)
		return;
	assert_null(sends);
	assert_null(receives);
	for (unsigned i = 0; i < hosts; i++) {
		sum_count(host[i], &c);
		assert_int_equal(c.under_way, 0);
	}
}

static void stop(void)
{
	quiet();
	for (unsigned i = 0; i < hosts; i++)
		sum_free(host[i]);
}

/* ---- the clients ---- */

/* Whether it worked. */
static int ok(enum sum_code code)
{
	if (code != SUM_OK)
		assert_true(may_get >> code & 1);
	return code == SUM_OK;
}

struct client {
	float *dense, *own; /* the vector; what it was at first */
	size_t floats;
	uint32_t width;
	void *rows, *out;
	size_t row_count, out_bytes;
	size_t *part; /* begin of each, and the end */
	size_t parts, said;
	int opened, waited, dropped, released, rows_released;
	enum sum_code code;
	char why[ERROR_TEXT_MAX];
	struct sum_result result;
};

static struct client client[HOSTS_MAX];

static void on_opened(void *arg, enum sum_code code, const char *why, const struct sum_result *r)
{
	struct client *c = arg;

	(void)r, (void)why;
	c->opened++;
	c->code = code;
}

/* Every SUM_OK is the sum of all. Without the sanitizers, which would take a third of their time for
 * this loop, and have nothing to find in it. */
__attribute__((no_sanitize("address", "undefined"))) static void is_whole(const struct client *c)
{
	for (size_t f = 0; f < c->floats; f++) {
		double sum = 0;
		for (unsigned i = 0; i < hosts; i++)
			sum += (double)client[i].own[f];
		if (fabs(sum - (double)c->dense[f]) > 1e-5)
			fail_msg("float %zu: %g, not %g", f, (double)c->dense[f], sum);
	}
}

static void on_waited(void *arg, enum sum_code code, const char *why, const struct sum_result *r)
{
	struct client *c = arg;

	c->waited++;
	c->code = code;
	snprintf(c->why, sizeof c->why, "%s", why ? why : "");
	if (code == SUM_OK) {
		c->result = *r;
		is_whole(c); /* now: the others may have died in between */
	} else
		assert_null(r);
}

static void on_dropped(void *arg, enum sum_code code, const char *why, const struct sum_result *r)
{
	(void)why, (void)r;
	assert_int_equal(code, SUM_OK);
	((struct client *)arg)->dropped++;
}

static void on_release(void *arg)
{
	((struct client *)arg)->released++;
}

static void on_rows_release(void *arg)
{
	((struct client *)arg)->rows_released++;
}

static enum sum_code open_as(unsigned i, uint64_t round, uint64_t iteration, unsigned ranks)
{
	unsigned rank[HOSTS_MAX];
	struct client *c = &client[i];
	struct error err;
	unsigned n = 0;

	for (unsigned r = 0; r < hosts; r++) {
		if (ranks >> r & 1)
			rank[n++] = r;
	}
	for (unsigned r = n; r > 1; r--) { /* the order says nothing */
		unsigned other = (unsigned)any(r), keep = rank[r - 1];
		rank[r - 1] = rank[other];
		rank[other] = keep;
	}
	c->opened = 0;
	c->said = 0;
	struct sum_round_options o = {.client = c,
				      .round = round,
				      .iteration = iteration,
				      .rank = rank,
				      .ranks = n,
				      .dense = c->dense,
				      .floats = c->floats,
				      .no_rows = without_rows >> i & 1,
				      .release = on_release,
				      .arg = c};
	enum sum_code code = sum_open(host[i], &o, on_opened, c, &err);
	c->waited = c->dropped = 0; /* what was waited for before is answered by now */
	return code;
}

static void open_all(uint64_t round)
{
	for (unsigned i = 0; i < hosts; i++)
		assert_int_equal(open_as(i, round, 1, (1u << hosts) - 1), SUM_OK);
}

static float any_float(void)
{
	return (float)((double)any(2000001) / 1e6 - 1.0);
}

static void make_dense(unsigned i, size_t floats)
{
	struct client *c = &client[i];

	c->floats = floats;
	c->dense = must(malloc((floats + 1) * sizeof(float)));
	c->own = must(malloc((floats + 1) * sizeof(float)));
	for (size_t f = 0; f < floats; f++)
		c->own[f] = any_float();
	memcpy(c->dense, c->own, floats * sizeof(float));
}

/* How rows of hosts lie to each other. */
enum keys { KEYS_DISJOINT, KEYS_EQUAL, KEYS_OVERLAP, KEYS_NONE };

static void make_rows(unsigned i, enum keys keys, size_t count)
{
	struct client *c = &client[i];
	uint32_t key = 0;

	if (keys == KEYS_NONE || (keys == KEYS_OVERLAP && any(4) == 0))
		count = 0;
	c->width = count ? WIDTH : 0;
	c->row_count = count;
	c->rows = must(malloc(rowlist_bytes(count, WIDTH) + 1));
	for (size_t r = 0; r < count; r++) {
		uint32_t *to = c->rows;
		if (keys == KEYS_OVERLAP)
			key += 1 + (uint32_t)any(3);
		else
			key = (uint32_t)(keys == KEYS_DISJOINT ? r * hosts + i : r) * 1000003u %
				      7u +
			      (uint32_t)(keys == KEYS_DISJOINT ? r * hosts + i : r) * 7u;
		to[r] = key;
	}
	struct rowlist list = rowlist_at(c->rows, count);
	for (size_t f = 0; f < count * WIDTH; f++)
		((float *)(uintptr_t)list.row)[f] = any_float();
	c->out_bytes = rowlist_bytes(HOSTS_MAX * (count + 4096), WIDTH);
	c->out = must(malloc(c->out_bytes));
}

/* The vector in parts of any length. */
static void make_parts(unsigned i)
{
	struct client *c = &client[i];
	size_t most = 1 + (size_t)any(40);

	c->part = must(malloc((most + 1) * 2 * sizeof *c->part));
	c->parts = 0;
	for (size_t at = 0; at < c->floats; c->parts++) {
		size_t rest = c->floats - at, length = 1 + (size_t)any(rest);
		if (c->parts + 1 == most)
			length = rest;
		c->part[2 * c->parts] = at;
		c->part[2 * c->parts + 1] = length;
		at += length;
	}
	for (size_t n = c->parts; n > 1; n--) {
		size_t other = (size_t)any(n), keep[2];
		memcpy(keep, c->part + 2 * (n - 1), sizeof keep);
		memcpy(c->part + 2 * (n - 1), c->part + 2 * other, sizeof keep);
		memcpy(c->part + 2 * other, keep, sizeof keep);
	}
}

static void make_clients(size_t floats, enum keys keys, size_t rows)
{
	memset(client, 0, sizeof client);
	for (unsigned i = 0; i < hosts; i++) {
		make_dense(i, floats);
		make_rows(i, keys, rows);
		make_parts(i);
	}
}

static void free_clients(void)
{
	for (unsigned i = 0; i < HOSTS_MAX; i++) {
		free(client[i].dense);
		free(client[i].own);
		free(client[i].rows);
		free(client[i].out);
		free(client[i].part);
	}
}

static void say_rows(unsigned i, uint64_t round)
{
	struct client *c = &client[i];
	struct error err;
	enum sum_code code;
	struct sum_rows rows = {.rows = c->rows,
				.count = c->row_count,
				.width = c->width,
				.out = c->out,
				.out_bytes = c->out_bytes,
				.release = on_rows_release,
				.arg = c};

	code = sum_rows(host[i], c, round, &rows, &err);
	if (without_rows >> i & 1)
		assert_int_equal(code, SUM_BAD);
	else
		(void)ok(code);
}

/* The next thing that a client has to say of the round; 0: all is said. */
static int say(unsigned i, uint64_t round)
{
	struct client *c = &client[i];
	struct error err;

	if (!c->opened)
		return 1;
	if (c->said < c->parts) {
		size_t *part = c->part + 2 * c->said;
		(void)ok(sum_part(host[i], c, round, part[0], part[1], &err));
	} else if (c->said == c->parts && c->out) {
		say_rows(i, round);
	} else if (c->said <= c->parts + 1) {
		enum sum_code code = sum_wait(host[i], c, round, 1, on_waited, c, &err);
		if (!ok(code))
			on_waited(c, code, err.text, NULL);
	} else {
		return 0;
	}
	c->said++;
	return 1;
}

static void say_all(uint64_t round)
{
	unsigned busy = hosts;

	while (busy) {
		busy = 0;
		for (unsigned i = 0; i < hosts; i++)
			busy += any(3) == 0 ? (unsigned)say(i, round) : 1;
		for (uint64_t n = any(20); n > 0 && step(); n--)
			;
	}
	quiet();
}

/* ---- what has to come out ---- */

static void check_dense(void)
{
	is_whole(&client[0]);
	for (unsigned i = 1; i < hosts; i++)
		assert_memory_equal(client[i].dense, client[0].dense,
				    client[0].floats * sizeof(float));
}

static void check_rows(void)
{
	size_t count = (size_t)client[0].result.rows, at[HOSTS_MAX] = {0}, found = 0;
	struct rowlist sum = rowlist_at(client[0].out, count), list[HOSTS_MAX];

	for (unsigned i = 0; i < hosts; i++) {
		list[i] = rowlist_at(client[i].rows, client[i].row_count);
		found += list[i].count;
	}
	for (size_t r = 0; r < count; r++) {
		double plain[WIDTH] = {0};
		assert_true(r == 0 || sum.key[r] > sum.key[r - 1]);
		for (unsigned i = 0; i < hosts; i++) {
			if (at[i] == list[i].count || list[i].key[at[i]] != sum.key[r])
				continue;
			for (size_t f = 0; f < WIDTH; f++)
				plain[f] += (double)list[i].row[at[i] * WIDTH + f];
			at[i]++;
			found--;
		}
		for (size_t f = 0; f < WIDTH; f++)
			assert_true(fabs(plain[f] - (double)sum.row[r * WIDTH + f]) < 1e-5);
	}
	assert_int_equal(found, 0);
	for (unsigned i = 1; i < hosts; i++) {
		assert_int_equal(client[i].result.rows, count);
		assert_memory_equal(client[i].out, client[0].out, rowlist_bytes(count, WIDTH));
	}
}

static void check_all(void)
{
	for (unsigned i = 0; i < hosts; i++) {
		assert_int_equal(client[i].waited, 1);
		if (client[i].code != SUM_OK)
			fail_msg("host %u: %s", i, client[i].why);
		assert_int_equal(client[i].result.check, client[0].result.check);
	}
	check_dense();
	check_rows();
}

/* A sum of all hosts, which gets what they had at first. */
static void sum_again(uint64_t round)
{
	for (unsigned i = 0; i < hosts; i++)
		memcpy(client[i].dense, client[i].own, client[i].floats * sizeof(float));
	open_all(round);
	say_all(round);
	check_all();
}

static void whole_sum(unsigned n, size_t floats, enum keys keys, size_t rows, uint64_t with_seed)
{
	start(n, with_seed);
	make_clients(floats, keys, rows);
	without_rows = keys == KEYS_NONE && any(2) ? UINT32_MAX : 0;
	open_all(7);
	say_all(7);
	check_all();
	stop();
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(client[i].released, 1);
		assert_int_equal(client[i].rows_released, !without_rows);
	}
	without_rows = 0;
	free_clients();
}

/* ---- the tests ---- */

/* Sums of each kind. */
static const struct {
	size_t floats;
	enum keys first, last;
	size_t rows;
	int more; /* seeds, besides one */
} kinds[] = {
	{0, KEYS_NONE, KEYS_NONE, 0, 19},
	{1, KEYS_NONE, KEYS_NONE, 0, 19},
	{7, KEYS_NONE, KEYS_NONE, 0, 19},
	{1023, KEYS_NONE, KEYS_NONE, 0, 19},
	{1025, KEYS_NONE, KEYS_NONE, 0, 19},
	{5000, KEYS_NONE, KEYS_NONE, 0, 19},
	{40000, KEYS_NONE, KEYS_NONE, 0, 19},
	{1000000, KEYS_OVERLAP, KEYS_OVERLAP, 100, 0},
	{1u << 20, KEYS_OVERLAP, KEYS_OVERLAP, 100, 0},
	{(3u << 20) + 4711, KEYS_OVERLAP, KEYS_OVERLAP, 100, 0},
	{10, KEYS_DISJOINT, KEYS_OVERLAP, 1, 4},
	{10, KEYS_DISJOINT, KEYS_OVERLAP, 3, 4},
	{10, KEYS_DISJOINT, KEYS_OVERLAP, 50, 4},
	{10, KEYS_DISJOINT, KEYS_OVERLAP, 3000, 4},
};

static void vectors_and_rows_of_all_kinds(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= HOSTS_MAX; n++)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
			for (enum keys keys = kinds[i].first; keys <= kinds[i].last; keys++)
				for (uint64_t s = 0; s < 1 + (uint64_t)ROUNDS(kinds[i].more); s++)
					whole_sum(n, kinds[i].floats, keys, kinds[i].rows,
						  1000 * n + 17 * i + s);
}

/* Never the table, and of the touched rows little more than once: each goes to its owner, and its
 * sum to the other hosts. */
static void rows_are_what_travels(void **state)
{
	(void)state;
	start(3, 5);
	make_clients(0, KEYS_OVERLAP, 20000);
	open_all(1);
	say_all(1);
	check_all();
	for (unsigned i = 0; i < hosts; i++) {
		double bytes = (double)client[i].result.wire_bytes;
		double own = (double)rowlist_bytes(client[i].row_count, WIDTH);
		double touched = (double)rowlist_bytes(client[i].result.rows, WIDTH);
		assert_true(bytes < 1.03 * 2 / 3 * (own + touched));
	}
	stop();
	free_clients();
}

/* Each host sends 2 (n-1)/n of the vector, and next to nothing else. With shares that are equal,
 * too.
 */
static void a_ring_sends_what_it_must(void **state)
{
	(void)state;
	is_followed = 0;
	start(3, 5);
	make_clients(3u << 20, KEYS_NONE, 0);
	open_all(1);
	say_all(1);
	check_all();
	for (unsigned i = 0; i < hosts; i++) {
		double bound = 4.0 / 3.0 * (double)client[i].floats * sizeof(float);
		assert_true((double)client[i].result.wire_bytes < 1.01 * bound);
	}
	is_followed = 1;
	stop();
	free_clients();
}

static double owned(unsigned i)
{
	struct sum_counts c;

	sum_count(host[i], &c);
	return c.owned;
}

/* A host with a slow link sums nothing, and sends the vector once; one that is at least half as
 * fast as the fastest sums as much as all. Whoever sums has the same bits. */
static void shares_follow_rates(void **state)
{
	float *first_sum = NULL;

	(void)state;
	is_followed = 0;
	for (unsigned is_slow = 0; way == SUM_BY_SHARES && is_slow < 2; is_slow++) {
		for (unsigned i = 0; i < 4; i++)
			rate_of[i] = i == 1 ? 6e7 : 1e8 + i * 1e6;
		if (is_slow)
			rate_of[2] = 1e7;
		start(4, 6);
		make_clients(1u << 20, KEYS_NONE, 0);
		/* The first host hears in one round what it goes by in the next one. */
		for (uint64_t round = 1; round <= 2; round++) {
			sum_again(round);
			for (unsigned i = 0; i < hosts; i++)
				assert_true(fabs(owned(i) - (round == 1 || !is_slow ? 0.25
							     : i == 2               ? 0
								      : 1 / 3.0)) < 0.02);
		}
		if (is_slow)
			assert_true((double)client[2].result.wire_bytes <
				    1.02 * (double)client[2].floats * sizeof(float));
		if (is_slow)
			assert_memory_equal(client[0].dense, first_sum,
					    client[0].floats * sizeof(float));
		else
			first_sum = memcpy(must(malloc(client[0].floats * sizeof(float))),
					   client[0].dense, client[0].floats * sizeof(float));
		stop();
		free_clients();
	}
	free(first_sum);
	is_followed = 1;
	memset(rate_of, 0, sizeof rate_of);
}

/* What an owner has not asked for goes to others when its link becomes slower; the sum has the same
 * bits. */
static void other_owners_in_a_round(void **state)
{
	float *first_sum = NULL;

	(void)state;
	is_followed = 0;
	for (unsigned falls = 0; way == SUM_BY_SHARES && falls < 2; falls++) {
		start(4, 6);
		seed = 8;
		make_clients(1u << 20, KEYS_NONE, 0);
		for (unsigned i = 0; i < 4; i++)
			rate_of[i] = 1e8;
		for (uint64_t round = 1; round <= 2; round++) {
			for (unsigned i = 0; i < hosts; i++)
				memcpy(client[i].dense, client[i].own,
				       client[i].floats * sizeof(float));
			open_all(round);
			if (round == 2) {
				/* Host 3 has nothing ready yet. */
				slow = 3;
				for (unsigned i = 0; i < 3; i++)
					while (!client[i].opened || say(i, round))
						(void)step();
				quiet();
				if (falls)
					rate_of[2] = 1e7;
				sum_follow(host[2]);
				assert_true(falls ? owned(2) == 0 : fabs(owned(2) - 0.25) < 0.02);
				quiet();
				/* Beside it another host seems slow, too. */
				double kept = owned(1);
				if (falls)
					rate_of[1] = 1e7;
				sum_follow(host[1]);
				assert_true(owned(1) == kept);
				rate_of[1] = 1e8;
				slow = HOSTS_MAX;
			}
			say_all(round);
			check_all();
		}
		double all = 0;
		for (unsigned i = 0; i < hosts; i++)
			all += owned(i);
		assert_true(fabs(all - 1) < 1e-9);
		if (falls) {
			assert_true((double)client[2].result.wire_bytes <
				    1.02 * (double)client[2].floats * sizeof(float));
			assert_memory_equal(client[0].dense, first_sum,
					    client[0].floats * sizeof(float));
		} else {
			first_sum = memcpy(must(malloc(client[0].floats * sizeof(float))),
					   client[0].dense, client[0].floats * sizeof(float));
		}
		stop();
		free_clients();
	}
	free(first_sum);
	is_followed = 1;
	memset(rate_of, 0, sizeof rate_of);
}

/* Whichever way, so that a job repeats what it did before, whatever its links were like. */
static void the_same_bits_by_any_way(void **state)
{
	static float *first_sum;
	size_t bytes = (size_t)3000000 * sizeof(float);

	(void)state;
	start(4, 8);
	seed = 8; /* the same data, whatever was asked of it before */
	make_clients(3000000, KEYS_NONE, 0);
	open_all(1);
	say_all(1);
	check_all();
	if (!first_sum)
		first_sum = memcpy(must(malloc(bytes)), client[0].dense, bytes);
	else
		assert_memory_equal(client[0].dense, first_sum, bytes);
	stop();
	free_clients();
	if (way == SUM_BY_RATE)
		free(first_sum);
}

/* Sums by the ring, of `rounds`. */
static uint64_t by_ring(uint64_t rounds, const double rates[4])
{
	struct sum_counts c;

	memcpy(rate_of, rates, 4 * sizeof *rates);
	start(4, 7);
	make_clients(1u << 19, KEYS_NONE, 0);
	for (uint64_t round = 1; round <= rounds; round++)
		sum_again(round);
	sum_count(host[3], &c);
	stop();
	free_clients();
	memset(rate_of, 0, sizeof rate_of);
	return c.by_ring;
}

/* All alike: the ring. One host slow: shares, but not where segments cost more than they save. In
 * the first sum the first host knows its own link alone. */
static void the_faster_way_is_taken(void **state)
{
	(void)state;
	if (way != SUM_BY_RATE)
		return;
	assert_int_equal(by_ring(3, (double[]){1e8, 1e8, 1e8, 1e8}), 3);
	assert_int_equal(by_ring(3, (double[]){1e8, 1e8, 1e8, 1e7}), 1);
	assert_int_equal(by_ring(3, (double[]){1e10, 1e10, 1e10, 1e9}), 3);
	/* A sum that takes seconds goes by shares in any case, in which a link may fall. */
	assert_int_equal(by_ring(3, (double[]){1e6, 1e6, 1e6, 1e6}), 1);
	/* A ring tells only how fast its slowest link is. Shares show whether the others are faster:
	 * behind 4 sums by the ring, behind 8, 16, 32, and 32 again. */
	for (unsigned i = 0; i < 3; i++)
		is_least[i] = 1;
	assert_int_equal(by_ring(4, (double[]){1e7, 1e7, 1e7, 1e7}), 4);
	assert_int_equal(by_ring(18, (double[]){1e7, 1e7, 1e7, 1e7}), 16);
	assert_int_equal(by_ring(64 + 33, (double[]){1e7, 1e7, 1e7, 1e7}), 60 + 32);
	is_least[3] = 1; /* nothing ever waited for a link */
	assert_int_equal(by_ring(3, (double[]){1e7, 1e7, 1e7, 1e7}), 3);
	memset(is_least, 0, sizeof is_least);
	/* Who sends to a slow host alone, or gets from it, may be much faster. */
	in_of[0] = in_of[1] = 1e8;
	assert_int_equal(by_ring(5, (double[]){1e7, 1e7, 1e7, 1e7}), 4);
	memset(in_of, 0, sizeof in_of);
}

/* Sums that follow each other in the same memory. */
static void one_after_the_other(void **state)
{
	(void)state;
	start(3, 11);
	make_clients(2000000, KEYS_OVERLAP, 500);
	for (uint64_t round = 1; round <= 4; round++)
		sum_again(round);
	struct sum_counts c;
	sum_count(host[0], &c);
	assert_int_equal(c.done, 4);
	assert_int_equal(c.died, 0);
	stop();
	free_clients();
}

/* At any moment a host goes on to a newer round, drops it, or its client goes. Everybody is told,
 * memory is let go once, and the next round has nothing of it. */
static void torn_round(uint64_t with_seed, unsigned how, size_t floats, size_t rows)
{
	struct error err;

	start(2 + (unsigned)(with_seed % 3), with_seed);
	make_clients(floats, KEYS_OVERLAP, rows);
	open_all(1);
	for (uint64_t n = any(30 * hosts); n > 0; n--) {
		(void)say((unsigned)any(hosts), 1);
		for (uint64_t i = any(6); i > 0; i--)
			(void)step();
	}
	if (any(2))
		for (unsigned i = 0; i < hosts; i++) /* near its end */
			while (client[i].opened && say(i, 1))
				;
	for (uint64_t n = any(60); n > 0; n--)
		(void)step();
	unsigned one = (unsigned)any(hosts);
	if (any(2))
		slow = one;
	if (how == 0)
		(void)sum_drop(host[one], &client[one], 1, on_dropped, &client[one], &err);
	else if (how == 1)
		sum_client_gone(host[one], &client[one]);
	/* The next one begins while the old one is still on its way. */
	int opened[HOSTS_MAX] = {0};
	for (unsigned left = hosts; left > 0;) {
		unsigned i = (unsigned)any(hosts);
		for (uint64_t n = any(8); n > 0; n--)
			(void)step();
		if (opened[i])
			continue;
		int released = client[i].released;
		assert_int_equal(open_as(i, 2, 2, (1u << hosts) - 1), SUM_OK);
		opened[i] = 1;
		left--;
		while (!client[i].opened)
			assert_true(step());
		/* Opened: the memory is ours, and nothing of the old one comes into it any more. */
		assert_true(client[i].released >= (how && i == one ? released : 1));
		memcpy(client[i].dense, client[i].own, client[i].floats * sizeof(float));
	}
	say_all(2);
	check_all();
	stop();
	free_clients();
}

static void torn_at_any_moment(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < (rounds_part() > 5 ? 5 : 15); s++)
		torn_round(s, (unsigned)(s % 3), 1500000, 2000);
	for (uint64_t s = 0; s < (uint64_t)ROUNDS(400); s++)
		torn_round(s, (unsigned)(s % 3), s % 4 ? 40000 : 300000, 10);
}

static void dead_for_others(void **state)
{
	struct error err;

	(void)state;
	start(3, 3);
	make_clients(1000, KEYS_NONE, 0);
	/* A client goes in the middle: the others' waits end, naming the host. */
	open_all(1);
	say(0, 1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sum_wait(host[i], &client[i], 1, 0, on_waited, &client[i], &err),
				 SUM_OK);
	quiet();
	assert_int_equal(client[0].waited, 0);
	sum_client_gone(host[2], &client[2]);
	quiet();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(client[i].waited, 1);
		assert_int_equal(client[i].code, SUM_LOST);
		/* It is h2, or who heard it from h2 before. */
		assert_non_null(strstr(client[i].why, " left it before its end"));
		/* Whatever is said of it gets the same. */
		assert_int_equal(sum_part(host[i], &client[i], 1, 999, 1, &err), SUM_LOST);
	}
	/* A newer round at one host ends the old one at the others. */
	open_all(2);
	assert_int_equal(sum_wait(host[0], &client[0], 2, 0, on_waited, &client[0], &err), SUM_OK);
	quiet();
	assert_int_equal(open_as(1, 3, 1, 7), SUM_OK);
	quiet();
	assert_int_equal(client[0].waited, 1);
	assert_int_equal(client[0].code, SUM_STALE);
	/* One that another host has left before it was opened here. */
	assert_int_equal(open_as(2, 4, 1, 7), SUM_OK);
	quiet();
	sum_client_gone(host[2], &client[2]);
	quiet();
	assert_int_equal(open_as(1, 4, 1, 7), SUM_OK);
	assert_int_equal(sum_wait(host[1], &client[1], 4, 0, on_waited, &client[1], &err),
			 SUM_LOST);
	/* But a newer one that it has left is nobody's. */
	assert_int_equal(open_as(2, 9, 1, 7), SUM_OK);
	quiet();
	sum_client_gone(host[2], &client[2]);
	quiet();
	assert_int_equal(open_as(1, 5, 1, 7), SUM_OK);
	assert_int_equal(open_as(2, 5, 1, 7), SUM_OK);
	assert_int_equal(sum_wait(host[1], &client[1], 5, 0, on_waited, &client[1], &err), SUM_OK);
	quiet();
	assert_int_equal(client[1].waited, 0);
	/* One that is opened at an older round than another host is at. */
	assert_int_equal(sum_drop(host[0], &client[0], 2, on_dropped, &client[0], &err), SUM_OK);
	quiet();
	assert_int_equal(open_as(0, 2, 1, 7), SUM_OK);
	assert_int_equal(sum_wait(host[0], &client[0], 2, 0, on_waited, &client[0], &err),
			 SUM_STALE);
	stop();
	free_clients();
}

static void hosts_that_differ(void **state)
{
	struct error err;

	(void)state;
	for (int what = 0; what < 5; what++) {
		start(3, 3);
		without_rows = what == 4 ? 2 : 0;
		make_clients(1000, KEYS_NONE, 0);
		if (what == 1)
			client[1].floats = 999;
		for (unsigned i = 0; i < hosts; i++)
			assert_int_equal(open_as(i, 1, what == 2 && i == 1 ? 8 : 1,
						 what == 3 && i == 1 ? 3 : 7),
					 SUM_OK);
		for (unsigned i = 0; i < hosts; i++)
			(void)sum_wait(host[i], &client[i], 1, 0, on_waited, &client[i], &err);
		quiet();
		for (unsigned i = 0; i < hosts; i++) {
			assert_int_equal(client[i].waited, what ? 1 : 0);
			assert_true(!what || client[i].code == SUM_DIFFERS);
		}
		without_rows = 0;
		stop();
		free_clients();
	}
	/* Rows of another width. */
	start(3, 3);
	make_clients(0, KEYS_EQUAL, 10);
	client[1].width = WIDTH / 2;
	may_get = 1u << SUM_DIFFERS;
	open_all(1);
	say_all(1);
	for (unsigned i = 0; i < hosts; i++) {
		assert_int_equal(client[i].waited, 1);
		assert_int_equal(client[i].code, SUM_DIFFERS);
	}
	may_get = 0;
	stop();
	free_clients();
}

static void confused_clients(void **state)
{
	struct error err;
	struct client other;
	uint32_t bad[4] = {5, 5, 0, 0};

	(void)state;
	start(2, 3);
	make_clients(100, KEYS_EQUAL, 10);
	open_all(4);
	struct sum *s = host[0];
	struct client *c = &client[0];
	assert_int_equal(sum_part(s, c, 4, 10, 20, &err), SUM_OK);
	assert_int_equal(sum_part(s, c, 4, 29, 2, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 0, 100, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 9, 2, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 101, 0, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 90, 11, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 90, UINT64_MAX, &err), SUM_BAD);
	assert_int_equal(sum_part(s, c, 4, 50, 0, &err), SUM_OK);
	assert_int_equal(sum_part(s, &other, 4, 50, 1, &err), SUM_BUSY);
	assert_int_equal(sum_part(s, c, 3, 50, 1, &err), SUM_STALE);
	assert_int_equal(sum_part(s, c, 5, 50, 1, &err), SUM_STALE);
	assert_int_equal(open_as(0, 4, 1, 3), SUM_BUSY);
	assert_int_equal(open_as(0, 3, 1, 3), SUM_STALE);
	assert_int_equal(open_as(0, 5, 1, 2), SUM_BAD);
	c->opened = 1;
	/* Keys that do not ascend, widths that can't be. */
	struct sum_rows rows = {.rows = bad, .count = 2, .width = 1, .out = c->out};
	assert_int_equal(sum_rows(s, c, 4, &rows, &err), SUM_BAD);
	assert_non_null(strstr(err.text, "ascend"));
	rows.width = 0;
	assert_int_equal(sum_rows(s, c, 4, &rows, &err), SUM_BAD);
	rows.width = 4;
	rows.count = UINT64_MAX;
	assert_int_equal(sum_rows(s, c, 4, &rows, &err), SUM_BAD);
	rows = (struct sum_rows){.out = c->dense + 99, .out_bytes = 8};
	assert_int_equal(sum_rows(s, c, 4, &rows, &err), SUM_BAD);
	say_rows(0, 4);
	assert_int_equal(sum_rows(s, c, 4, &rows, &err), SUM_BAD);
	/* None of that has done any harm. */
	assert_int_equal(sum_part(s, c, 4, 0, 10, &err), SUM_OK);
	assert_int_equal(sum_part(s, c, 4, 30, 70, &err), SUM_OK);
	assert_int_equal(sum_wait(s, c, 4, 1, on_waited, c, &err), SUM_OK);
	assert_int_equal(sum_wait(s, c, 4, 1, on_waited, c, &err), SUM_BUSY);
	assert_int_equal(sum_part(host[1], &client[1], 4, 0, 100, &err), SUM_OK);
	say_rows(1, 4);
	assert_int_equal(sum_wait(host[1], &client[1], 4, 1, on_waited, &client[1], &err), SUM_OK);
	quiet();
	check_all();
	/* Again: the same answer. */
	struct sum_result once = c->result;
	assert_int_equal(sum_wait(s, c, 4, 1, on_waited, c, &err), SUM_OK);
	assert_int_equal(c->waited, 2);
	assert_int_equal(c->result.check, once.check);
	assert_int_equal(sum_drop(s, &other, 4, on_dropped, c, &err), SUM_BUSY);
	assert_int_equal(sum_drop(s, c, 4, on_dropped, c, &err), SUM_OK);
	quiet();
	assert_int_equal(c->dropped, 1);
	assert_int_equal(sum_drop(s, c, 4, on_dropped, c, &err), SUM_STALE);
	stop();
	free_clients();
}

static void no_room_for_rows(void **state)
{
	(void)state;
	start(2, 8);
	make_clients(0, KEYS_DISJOINT, 100);
	client[0].out_bytes = rowlist_bytes(199, WIDTH);
	may_get = 1u << SUM_LOST | 1u << SUM_ROOM;
	open_all(1);
	say_all(1);
	may_get = 0;
	assert_int_equal(client[0].code, SUM_ROOM);
	assert_non_null(strstr(client[0].why, "200 rows"));
	stop();
	free_clients();
}

/* A host whose client says nothing costs the others no memory. */
static void silent_host(void **state)
{
	struct sum_counts c;

	(void)state;
	start(3, 21);
	make_clients(8u << 20, KEYS_EQUAL, 5000);
	open_all(1);
	for (unsigned i = 0; i < 2; i++) {
		while (!client[i].opened)
			(void)step();
		while (say(i, 1))
			;
	}
	quiet();
	for (unsigned i = 0; i < hosts; i++) {
		sum_count(host[i], &c);
		assert_true(c.memory_bytes < 16u << 20);
	}
	open_all(2);
	stop();
	free_clients();
}

/* Messages of nobody, of nothing. */
static void junk_from_the_wire(void **state)
{
	char junk[200];

	(void)state;
	start(3, 22);
	nonsense = 1;
	make_clients(1000, KEYS_EQUAL, 50);
	open_all(1);
	quiet();
	for (int n = 0; n < ROUNDS(20000); n++) {
		for (size_t i = 0; i < sizeof junk; i++)
			junk[i] = (char)any(n % 2 ? 256 : 6);
		sum_message(host[0], (unsigned)any(4), junk, (size_t)any(sizeof junk));
	}
	stop();
	nonsense = 0;
	while (sends)
		free(take_out(&sends));
	while (receives)
		free(take_out(&receives));
	free_clients();
}

/* What a message begins with. */
struct strange {
	uint8_t kind, piece, why, zero;
	uint32_t tag, bucket, chunk;
	uint64_t from_life, to_life, bytes;
	uint32_t width, reserved;
};

/* Says it as if the last of n hosts had: the sum ends, and that host is named. */
static void belongs_there_not(unsigned n, struct strange *m, size_t bytes)
{
	char why[64];
	unsigned from = n - 1;

	start(n, 23);
	make_clients(n == 2 ? 0 : 3000, KEYS_EQUAL, 50);
	open_all(1);
	memcpy(&m->to_life, first[0][from]->data + offsetof(struct strange, from_life),
	       sizeof m->to_life);
	memcpy(&m->from_life, first[from][0]->data + offsetof(struct strange, from_life),
	       sizeof m->from_life);
	quiet();
	sum_message(host[0], from, m, bytes);
	struct sum_counts c;
	sum_count(host[0], &c);
	assert_int_equal(c.died, 1); /* at once */
	may_get = 1u << SUM_LOST;
	while (say(0, 1))
		;
	quiet();
	assert_int_equal(client[0].code, SUM_LOST);
	snprintf(why, sizeof why, "h%u sent a message that does not belong there", from);
	assert_non_null(strstr(client[0].why, why));
	may_get = 0;
	stop();
	free_clients();
}

static void messages_that_do_not_belong_there(void **state)
{
	/* As long as a world carries, and true but for its length. */
	struct {
		struct strange head;
		char rows[722 * (4 + 4 * WIDTH)];
	} rows = {.head = {.kind = 4, .piece = 2, .bytes = sizeof rows.rows, .width = WIDTH}};
	/* Of a host that sums by another way than this one. */
	struct strange piece = {.kind = 3, .piece = way == SUM_BY_SHARES ? 0 : 4, .bucket = 1};

	/* An offer of what the ring sends unasked. */
	struct strange offer = {.kind = 3, .piece = 0, .chunk = 1, .bytes = 1024 * sizeof(float)};

	(void)state;
	belongs_there_not(2, &rows.head, sizeof rows);
	belongs_there_not(3, &piece, sizeof piece);
	if (way != SUM_BY_SHARES)
		belongs_there_not(3, &offer, sizeof offer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_and_rows_of_all_kinds),
		cmocka_unit_test(rows_are_what_travels),
		cmocka_unit_test(a_ring_sends_what_it_must),
		cmocka_unit_test(shares_follow_rates),
		cmocka_unit_test(other_owners_in_a_round),
		cmocka_unit_test(the_same_bits_by_any_way),
		cmocka_unit_test(the_faster_way_is_taken),
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(torn_at_any_moment),
		cmocka_unit_test(dead_for_others),
		cmocka_unit_test(hosts_that_differ),
		cmocka_unit_test(confused_clients),
		cmocka_unit_test(no_room_for_rows),
		cmocka_unit_test(silent_host),
		cmocka_unit_test(junk_from_the_wire),
		cmocka_unit_test(messages_that_do_not_belong_there),
	};

	int failed = cmocka_run_group_tests_name("ring", tests, NULL, NULL);
	way = SUM_BY_SHARES;
	failed += cmocka_run_group_tests_name("shares", tests, NULL, NULL);
	way = SUM_BY_RATE;
	return failed + cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
