/*
 * balances: sizes that a lead set at its barriers, decided again on what its log says
 * (lib/lead/lead_sizes.c writes it, see ps-server(8)). What comes out is such a log.
 */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/number.h"
#include "solve/balance.h"
#include "monitor/node.h"
#include "record/record.h"

#include <stdlib.h>

#define VALUE_MAX 1e18

struct balances {
	const char *method; /* instead of the one of then; NULL */
	struct balance *balance;
	uint64_t iteration, rounds, failed;
	/* The round that is being read: one record or several. */
	struct balance_member *member;
	char (*id)[OPTION_ID_MAX];
	size_t count, room;
	uint64_t *line; /* of which record, counted from 0, each member is */
	uint64_t lines;
};

int balances_new(struct balances **out, const char *method, struct error *err)
{
	struct balances *b = calloc(1, sizeof *b);
	if (!b)
		return error_set(err, ERROR_OS, "", "out of memory");
	b->method = method;
	*out = b;
	return 0;
}

void balances_free(struct balances *b)
{
	if (!b)
		return;
	balance_free(b->balance);
	free(b->member);
	free(b->id);
	free(b->line);
	free(b);
}

uint64_t balances_count(const struct balances *b, uint64_t *failed)
{
	*failed = b->failed;
	return b->rounds;
}

static int reserve(struct balances *b, struct error *err)
{
	size_t room = b->room ? b->room * 2 : 64;
	if (b->count < b->room)
		return 0;
	void *member = realloc(b->member, room * sizeof *b->member);
	b->member = member ? member : b->member;
	void *id = realloc(b->id, room * sizeof *b->id);
	b->id = id ? id : b->id;
	void *line = realloc(b->line, room * sizeof *b->line);
	b->line = line ? line : b->line;
	if (!member || !id || !line)
		return error_set(err, ERROR_OS, "", "out of memory");
	b->room = room;
	return 0;
}

/* ---- lists ---- */

/* The next item of a list, which may be empty; *at behind its comma. */
static size_t next_item(const char **at, const char **item)
{
	size_t len = strcspn(*at, ",");
	*item = *at;
	*at += len + ((*at)[len] == ',');
	return len;
}

static int take_ids(struct balances *b, const struct record *r, struct error *err)
{
	const char *at, *item;
	if (record_text(r, "sizes", &at, err) != 0)
		return -1;
	while (*at) {
		size_t len = next_item(&at, &item);
		const char *colon = memchr(item, ':', len);
		size_t id = colon ? (size_t)(colon - item) : len;
		if (reserve(b, err) != 0)
			return -1;
		if (!colon || id == 0 || id >= OPTION_ID_MAX)
			return error_set(err, ERROR_DATA, NULL, "sizes=: '%.*s' is not ID:SIZE",
					 (int)(len < 40 ? len : 40), item);
		memcpy(b->id[b->count], item, id);
		b->id[b->count][id] = '\0';
		b->member[b->count] = (struct balance_member){0};
		b->line[b->count++] = b->lines;
	}
	b->lines++;
	return 0;
}

/* The other lists, in the order of the members. One that is empty says nothing of any. */
static const struct {
	const char *key;
	size_t at; /* in a member */
	int whole; /* an uint64_t there, not a double */
} lists[] = {
	{"speeds", offsetof(struct balance_member, speed), 0},
	{"times", offsetof(struct balance_member, time), 0},
	{"mems", offsetof(struct balance_member, mem), 0},
	{"counts", offsetof(struct balance_member, count), 1},
	{"mosts", offsetof(struct balance_member, most), 1},
	{"had", offsetof(struct balance_member, size), 1},
};

static int take_list(struct balances *b, const struct record *r, size_t k, size_t first,
		     struct error *err)
{
	const char *at = record_get(r, lists[k].key), *item;
	for (size_t i = first; at && i < b->count; i++) {
		size_t len = next_item(&at, &item);
		char *field = (char *)&b->member[i] + lists[k].at;
		double value = 0;
		if (len > 0 && (number_real_span(item, len, &value) != 0 ||
				!(value >= 0 && value <= VALUE_MAX)))
			return error_set(err, ERROR_DATA, NULL, "%s=: '%.*s' is no such number",
					 lists[k].key, (int)(len < 40 ? len : 40), item);
		if (lists[k].whole)
			*(uint64_t *)(void *)field = (uint64_t)value;
		else
			*(double *)(void *)field = value;
	}
	return at && *at ? error_set(err, ERROR_DATA, NULL, "%s=: longer than sizes=", lists[k].key)
			 : 0;
}

static int take_round(struct balances *b, const struct record *r, struct error *err)
{
	size_t first = b->count;
	if (take_ids(b, r, err) != 0)
		return -1;
	for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
		if (take_list(b, r, k, first, err) != 0)
			return -1;
	return 0;
}

/* ---- rounds ---- */

static void put_sizes(const struct balances *b)
{
	for (size_t i = 0; i < b->count; i++) {
		int first = i == 0 || b->line[i] != b->line[i - 1];
		if (first)
			printf("%sbalance iteration=%llu", i == 0 ? "" : "\n",
			       (unsigned long long)b->iteration);
		if (first && i > 0)
			printf(" from=%zu", i);
		if (first)
			printf(" sizes=");
		printf("%s%s:%llu", first ? "" : ",", b->id[i],
		       (unsigned long long)b->member[i].size);
	}
	putchar('\n');
	for (size_t i = 0; i < b->count; i++)
		if (b->member[i].warn)
			printf("warn id=%s reason=remove-straggler iteration=%llu\n", b->id[i],
			       (unsigned long long)b->iteration);
}

int balances_end(struct balances *b, struct error *err)
{
	struct error why = {0};
	size_t n = b->count;
	if (n == 0)
		return 0;
	if (!b->balance)
		return error_set(err, ERROR_DATA, NULL, "sizes, and no balancing record before");
	for (size_t i = 0; i < n; i++) /* ids have stopped moving */
		b->member[i].worker = b->id[i];
	b->rounds++;
	if (balance_round(b->balance, b->member, n, &why) != 0) {
		b->failed++;
		fprintf(stderr, PROGRAM ": iteration %llu: %s\n", (unsigned long long)b->iteration,
			why.text);
	} else {
		put_sizes(b);
	}
	b->count = 0;
	b->lines = 0;
	return 0;
}

static int begin(struct balances *b, const struct record *r, struct error *err)
{
	const char *method;
	uint64_t batch;
	if (balances_end(b, err) != 0 || record_text(r, "method", &method, err) != 0 ||
	    record_u64(r, "batch", 1, UINT64_MAX, &batch, err) != 0)
		return -1;
	if (b->method && !balance_is(b->method))
		return error_set(err, ERROR_USAGE, b->method, "is none of " BALANCE_METHODS);
	if (!balance_is(method))
		return error_set(err, ERROR_DATA, NULL,
				 "method=: '%.40s' is none of " BALANCE_METHODS, method);
	method = b->method ? b->method : method;
	balance_free(b->balance);
	b->balance = NULL;
	printf("balancing method=%s batch=%llu\n", method, (unsigned long long)batch);
	return balance_new(&b->balance, method, batch, err);
}

int balances_record(struct balances *b, const struct record *r, struct error *err)
{
	uint64_t iteration, from = 0;
	if (record_is(r, "balancing"))
		return begin(b, r, err);
	if (!record_is(r, "balance"))
		return 0;
	if (record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    (record_get(r, "from") && record_u64(r, "from", 1, UINT64_MAX, &from, err) != 0) ||
	    (from == 0 && balances_end(b, err) != 0))
		return -1;
	if (from != b->count || (from && iteration != b->iteration))
		return error_set(err, ERROR_DATA, NULL, "from=: the record before has not so many");
	b->iteration = iteration;
	return take_round(b, r, err);
}
