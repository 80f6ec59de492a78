/* balance_log: see balance_log.h. One table of lists is written and read. */
#include "solve/balance_log.h"

#include "base/grow.h"
#include "base/log.h"
#include "base/number.h"
#include "base/option.h"
#include "monitor/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 480  /* bytes of a list: with a last item, all of them fit a record */
#define NUMBER_MAX 40 /* bytes of a number as text */
#define VALUE_MAX 1e18

/* In the order in which they are written, behind sizes=. */
static const struct {
	const char *key;
	size_t at; /* in a member */
	int whole; /* an uint64_t there, not a double */
} lists[] = {
	{"speeds", offsetof(struct balance_member, speed), 0},
	{"times", offsetof(struct balance_member, time), 0},
	{"counts", offsetof(struct balance_member, count), 1},
	{"mems", offsetof(struct balance_member, mem), 0},
	{"mosts", offsetof(struct balance_member, most), 1},
	{"had", offsetof(struct balance_member, size), 1},
};
#define LISTS (sizeof lists / sizeof *lists)
#define LISTS_WITHOUT_HAD (LISTS - 1)

static double list_value(const struct balance_member *m, size_t k)
{
	const void *field = (const char *)m + lists[k].at;
	return lists[k].whole ? (double)*(const uint64_t *)field : *(const double *)field;
}

static void list_set(struct balance_member *m, size_t k, double value)
{
	void *field = (char *)m + lists[k].at;
	if (lists[k].whole)
		*(uint64_t *)field = (uint64_t)value;
	else
		*(double *)field = value;
}

/* ---- writing ---- */

struct list {
	char text[LIST_MAX + OPTION_ID_MAX + 2 * NUMBER_MAX];
	size_t len;
	int any;
};

static void balance_log_add_text(struct list *l, const char *text)
{
	size_t len = strlen(text);
	memcpy(l->text + l->len, text, len + 1);
	l->len += len;
}

static void balance_log_add_size(struct list *l, const struct balance_member *m, int first)
{
	char number[NUMBER_MAX];
	if (!first)
		balance_log_add_text(l, ",");
	balance_log_add_text(l, m->worker);
	balance_log_add_text(l, ":");
	number_format_u64(m->size, number);
	balance_log_add_text(l, number);
}

/* Nine digits, as many as a worker's own message has. */
static void balance_log_add_number(struct list *l, double value, int first)
{
	char text[NUMBER_MAX];
	if (!first)
		balance_log_add_text(l, ",");
	if (!(value > 0.0))
		return;
	snprintf(text, sizeof text, "%.9g", value);
	balance_log_add_text(l, text);
	l->any = 1;
}

/* The state of a member before the round. If a speed is known, the count is not used. */
static void add_numbers(struct list *list, struct balance_member m, uint64_t had, int first)
{
	m.size = had;
	if (m.speed > 0.0)
		m.count = 0;
	for (size_t k = 0; k < LISTS; k++)
		balance_log_add_number(&list[k], list_value(&m, k), first);
}

/* Writes members from this one on, as many as fit into a record; returns the next one. */
static size_t put_some(uint64_t iteration, const struct balance_member *m, size_t from, size_t n,
		       const uint64_t *had, double us, balance_log_put_fn *put, void *arg)
{
	struct list sizes = {0}, list[LISTS] = {0};
	int full = 0;
	size_t i;
	for (i = from; i < n && !full; i++) {
		balance_log_add_size(&sizes, &m[i], i == from);
		add_numbers(list, m[i], had ? had[i] : 0, i == from);
		full = sizes.len >= LIST_MAX;
		for (size_t k = 0; k < LISTS; k++)
			full |= list[k].len >= LIST_MAX;
	}
	struct record_out *o = RECORD("balance", F("iteration", iteration));
	if (from) /* an iteration may have two rounds, if all members leave before it is over and
		   * others come */
		record_add_u64(o, "from", from);
	record_add_brief(o, "time-us", rint(us * 10.0) / 10.0);
	record_add(o, "sizes", sizes.text);
	for (size_t k = 0; k < (had ? LISTS : LISTS_WITHOUT_HAD); k++)
		record_add(o, lists[k].key, list[k].any ? list[k].text : "");
	put(o, arg);
	return i;
}

void balance_log_round(uint64_t iteration, const struct balance_member *m, size_t n,
		       const uint64_t *had, double us, balance_log_put_fn *put, void *arg)
{
	for (size_t i = 0; i < n;)
		i = put_some(iteration, m, i, n, had, us, put, arg);
}

/* ---- deciding again ---- */

struct replay_member {
	struct balance_member is;
	char id[OPTION_ID_MAX];
	uint64_t line; /* of which record of its round, from 0 */
};

struct balance_replay {
	const char *method; /* a method instead of the recorded one; or NULL */
	balance_replay_fn *say;
	void *arg;
	struct balance *balance;
	uint64_t iteration, rounds, failed;
	/* The round that is being read: one record or several. */
	struct replay_member *member;
	size_t count, room;
	uint64_t lines;
	struct balance_member *round; /* the same in a row, as balance_round() wants them */
	size_t round_room;
};

int balance_replay_new(struct balance_replay **out, const char *method, balance_replay_fn *say,
		       void *arg, struct error *err)
{
	struct balance_replay *b = calloc(1, sizeof *b);
	if (!b)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	b->method = method;
	b->say = say;
	b->arg = arg;
	*out = b;
	return 0;
}

void balance_replay_free(struct balance_replay *b)
{
	if (!b)
		return;
	balance_free(b->balance);
	free(b->member);
	free(b->round);
	free(b);
}

uint64_t balance_replay_rounds(const struct balance_replay *b, uint64_t *failed)
{
	*failed = b->failed;
	return b->rounds;
}

/* The next item of a list, which may be empty; *at behind its comma. */
static size_t next_item(const char **at, const char **item)
{
	size_t len = strcspn(*at, ",");
	*item = *at;
	*at += len + ((*at)[len] == ',');
	return len;
}

static int take_ids(struct balance_replay *b, const struct record *r, struct error *err)
{
	const char *at, *item;
	if (record_text(r, "sizes", &at, err) != 0)
		return -1;
	while (*at) {
		size_t len = next_item(&at, &item);
		const char *colon = memchr(item, ':', len);
		struct replay_member m = {.line = b->lines};
		if (colon && colon - item < OPTION_ID_MAX)
			memcpy(m.id, item, (size_t)(colon - item));
		if (!option_id_ok(m.id))
			return error_set(err, ERROR_DATA, NULL, "sizes=: '%.*s' is not ID:SIZE",
					 (int)(len < 40 ? len : 40), item);
		if (GROW(b->member, b->room, b->count + 1) != 0)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		b->member[b->count++] = m;
	}
	b->lines++;
	return 0;
}

static int take_list(struct balance_replay *b, const struct record *r, size_t k, size_t first,
		     struct error *err)
{
	const char *at = record_get(r, lists[k].key), *item;
	for (size_t i = first; at && i < b->count; i++) {
		size_t len = next_item(&at, &item);
		double value = 0;
		if (len > 0 && (number_real_span(item, len, &value) != 0 ||
				!(value >= 0 && value <= VALUE_MAX)))
			return error_set(err, ERROR_DATA, NULL, "%s=: '%.*s' is no such number",
					 lists[k].key, (int)(len < 40 ? len : 40), item);
		list_set(&b->member[i].is, k, value);
	}
	return at && *at ? error_set(err, ERROR_DATA, NULL, "%s=: longer than sizes=", lists[k].key)
			 : 0;
}

static int balance_log_take_round(struct balance_replay *b, const struct record *r,
				  struct error *err)
{
	size_t first = b->count;
	if (take_ids(b, r, err) != 0)
		return -1;
	for (size_t k = 0; k < LISTS; k++)
		if (take_list(b, r, k, first, err) != 0)
			return -1;
	return 0;
}

/* Divides members into records as the lead did. */
static void print_round(const struct balance_replay *b, FILE *out)
{
	const unsigned long long iteration = b->iteration;
	for (size_t i = 0; i < b->count; i++) {
		if (i > 0 && b->member[i].line == b->member[i - 1].line) {
			fputc(',', out);
		} else {
			fprintf(out, "%sbalance iteration=%llu", i > 0 ? "\n" : "", iteration);
			if (i > 0)
				fprintf(out, " from=%zu", i);
			fputs(" sizes=", out);
		}
		fprintf(out, "%s:%llu", b->round[i].worker, (unsigned long long)b->round[i].size);
	}
	fputc('\n', out);
	for (size_t i = 0; i < b->count; i++)
		if (b->round[i].warn)
			fprintf(out, "warn id=%s reason=remove-straggler iteration=%llu\n",
				b->round[i].worker, iteration);
}

static int say_round(const struct balance_replay *b, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	if (out)
		print_round(b, out);
	int failed = !out || fclose(out) != 0;
	if (!failed)
		b->say(text, len, b->arg);
	free(text);
	return failed ? error_set(err, ERROR_OS, NULL, "out of memory") : 0;
}

int balance_replay_end(struct balance_replay *b, struct error *err)
{
	struct error why = {0};
	int result = 0;
	if (b->count == 0)
		return 0;
	if (!b->balance)
		return error_set(err, ERROR_DATA, NULL, "sizes, and no balancing record before");
	if (GROW(b->round, b->round_room, b->count) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < b->count; i++) { /* ids have stopped moving */
		b->round[i] = b->member[i].is;
		b->round[i].worker = b->member[i].id;
	}
	b->rounds++;
	if (balance_round(b->balance, b->round, b->count, &why) != 0) {
		b->failed++;
		log_say(LOG_LEVEL_WARNING, "iteration %llu: %s", (unsigned long long)b->iteration,
			why.text);
	} else {
		result = say_round(b, err);
	}
	b->count = 0;
	b->lines = 0;
	return result;
}

static int take_method(struct balance_replay *b, const struct record *r, struct error *err)
{
	const char *method;
	uint64_t batch, least = 1;
	if (balance_replay_end(b, err) != 0 || record_text(r, "method", &method, err) != 0 ||
	    record_u64(r, "batch", 1, UINT64_MAX, &batch, err) != 0 ||
	    record_u64_opt(r, "least", 1, NODE_BATCH_MAX, &least, err) != 0)
		return -1;
	if (b->method && !balance_is(b->method))
		return error_set(err, ERROR_USAGE, b->method, "is none of " BALANCE_METHODS);
	if (!balance_is(method))
		return error_set(err, ERROR_DATA, NULL,
				 "method=: '%.40s' is none of " BALANCE_METHODS, method);
	method = b->method ? b->method : method;
	balance_free(b->balance);
	b->balance = NULL;
	struct record_out *o = RECORD("balancing", F("method", method), F("batch", batch),
				      record_get(r, "least") ? F("least", least) : F_NONE);
	b->say(o->data, record_end(o, NULL), b->arg);
	return balance_new(&b->balance, method, batch, least, err);
}

int balance_replay_record(struct balance_replay *b, const struct record *r, struct error *err)
{
	uint64_t iteration, from = 0;
	if (record_is(r, "balancing"))
		return take_method(b, r, err);
	if (!record_is(r, "balance"))
		return 0;
	if (record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    (record_get(r, "from") && record_u64(r, "from", 1, UINT64_MAX, &from, err) != 0) ||
	    (from == 0 && balance_replay_end(b, err) != 0))
		return -1;
	if (from != b->count || (from && iteration != b->iteration))
		return error_set(err, ERROR_DATA, NULL, "from=: the record before does not have so "
							"many");
	b->iteration = iteration;
	return balance_log_take_round(b, r, err);
}
