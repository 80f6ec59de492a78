/* sums: see sums.h. */
#include "fabric/sums.h"

#include "fabric/links.h"
#include "fabric/rowlist.h"
#include "fabric/sum.h"
#include "fabric/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct sums {
	struct world *world;
	const struct links *links;
	enum sum_way way;
	struct sum *sum; /* NULL: not in a world */
	void (*broken)(void *owner);
	void *owner;
};

/* ---- the world ---- */

static const char *sums_host(void *sums, unsigned rank)
{
	return world_host(((struct sums *)sums)->world, rank);
}

static void sums_tell(void *sums, unsigned rank, const void *head, size_t head_bytes,
		      const void *data, size_t bytes)
{
	struct sums *s = sums;

	if (world_tell(s->world, rank, WORLD_SUM, head, head_bytes, data, bytes) != 0)
		s->broken(s->owner);
}

static void sums_send(void *sums, unsigned rank, unsigned tag, const void *data, size_t bytes,
		      void (*done)(void *arg), void *arg)
{
	struct sums *s = sums;

	if (world_send_bulk(s->world, rank, WORLD_SUM, tag, data, bytes, done, arg) != 0)
		s->broken(s->owner);
}

static void sums_receive(void *sums, unsigned rank, unsigned tag, void *into, size_t bytes,
			 void (*done)(void *arg, size_t came), void *arg)
{
	struct sums *s = sums;

	if (world_receive_some(s->world, rank, WORLD_SUM, tag, into, bytes, done, arg) != 0)
		s->broken(s->owner);
}

static void sums_rates(void *sums, struct sum_rates *rates)
{
	links_own(((struct sums *)sums)->links, rates);
}

static void sums_on_message(unsigned rank, const void *data, size_t bytes, void *sums)
{
	sum_message(((struct sums *)sums)->sum, rank, data, bytes);
}

/* ---- answers ---- */

static void sums_cancelled(struct request *rq, void *sums)
{
	struct sums *s = sums;

	if (s->sum)
		sum_forget(s->sum, rq);
}

static void sums_refuse(struct request *rq, enum sum_code code, const struct error *err)
{
	request_err(rq, sum_code_name(code), "%s", err->text);
}

static void answer_plain(void *rq, enum sum_code code, const char *why, const struct sum_result *r)
{
	(void)r;
	if (code == SUM_OK)
		request_ok(rq, NULL);
	else
		request_err(rq, sum_code_name(code), "%s", why);
}

static void answer_sum(void *rq, enum sum_code code, const char *why, const struct sum_result *r)
{
	if (code == SUM_OK)
		request_ok(rq, "rows=%" PRIu64 " wire-bytes=%" PRIu64, r->rows, r->wire_bytes);
	else
		request_err(rq, sum_code_name(code), "%s", why);
}

static void answer_checked(void *rq, enum sum_code code, const char *why,
			   const struct sum_result *r)
{
	if (code == SUM_OK)
		request_ok(rq, "rows=%" PRIu64 " wire-bytes=%" PRIu64 " sum=%" PRIu64, r->rows,
			   r->wire_bytes, r->check);
	else
		answer_sum(rq, code, why, r);
}

static void sums_release(void *payload)
{
	payload_release(payload);
}

/* ---- sum-open ---- */

/* h0,h1,h2 as ranks; the code of what is wrong with it. */
static enum sum_code read_hosts(struct sums *s, const char *text, unsigned *rank, size_t *ranks,
				struct error *err)
{
	*ranks = 0;
	for (const char *at = text; *at;) {
		char name[WORLD_HOST_MAX];
		size_t len = strcspn(at, ",");
		int found = -1;
		if (len < sizeof name) {
			memcpy(name, at, len);
			name[len] = '\0';
			found = world_find(s->world, name);
		}
		if (found < 0) {
			error_set(err, ERROR_UNAVAILABLE, NULL, "hosts: %.*s is not in this world",
				  (int)len, at);
			return SUM_LOST;
		}
		if (*ranks == SUM_HOSTS_MAX) {
			error_set(err, ERROR_DATA, NULL, "hosts: more than %d", SUM_HOSTS_MAX);
			return SUM_BAD;
		}
		rank[(*ranks)++] = (unsigned)found;
		at += len + (at[len] == ',');
	}
	return SUM_OK;
}

static int read_open(const struct record *r, struct sum_round_options *o, uint64_t *offset,
		     const char **hosts, struct error *err)
{
	uint64_t rows = 1;

	if (record_u64(r, "round", 0, UINT64_MAX, &o->round, err) != 0 ||
	    record_u64_opt(r, "rows", 0, 1, &rows, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &o->iteration, err) != 0 ||
	    record_text(r, "hosts", hosts, err) != 0 ||
	    record_u64(r, "dense", 0, SIZE_MAX / 16, &o->floats, err) != 0)
		return -1;
	o->no_rows = !rows;
	return o->floats ? record_u64(r, "dense-offset", 0, SIZE_MAX, offset, err) : 0;
}

static int hold_dense(struct request *rq, struct sum_round_options *o, uint64_t offset,
		      struct error *err)
{
	uint64_t bytes = o->floats * sizeof(float);
	struct payload *held;

	if (o->floats == 0)
		return 0;
	o->dense = request_mapped(rq, offset, bytes);
	held = request_hold_mapped(rq, offset, bytes);
	if (!o->dense || !held) {
		payload_release(held);
		return error_set(err, ERROR_DATA, NULL,
				 "dense=%" PRIu64 " dense-offset=%" PRIu64
				 " is not inside the memory that was mapped, or not aligned to 8",
				 o->floats, offset);
	}
	o->release = sums_release;
	o->arg = held;
	return 0;
}

static void sums_on_open(struct request *rq, void *sums)
{
	struct sums *s = sums;
	struct error err;
	unsigned rank[SUM_HOSTS_MAX];
	struct sum_round_options o = {.client = request_connection(rq), .rank = rank};
	uint64_t offset = 0;
	const char *hosts;

	if (!s->sum) {
		request_err(rq, "lost", "this host is in no world");
		return;
	}
	if (read_open(request_record(rq), &o, &offset, &hosts, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	enum sum_code code = read_hosts(s, hosts, rank, &o.ranks, &err);
	if (code == SUM_OK && hold_dense(rq, &o, offset, &err) != 0)
		code = SUM_BAD;
	request_defer(rq, sums_cancelled, s);
	if (code == SUM_OK) {
		code = sum_open(s->sum, &o, answer_plain, rq, &err);
		if (code != SUM_OK)
			payload_release(o.arg);
	}
	if (code != SUM_OK)
		sums_refuse(rq, code, &err);
}

/* ---- what is said of a round ---- */

/* 0: it was refused. */
static int read_round(struct sums *s, struct request *rq, uint64_t *round)
{
	struct error err;

	if (!s->sum) {
		request_err(rq, "lost", "this host is in no world");
		return 0;
	}
	if (record_u64(request_record(rq), "round", 0, UINT64_MAX, round, &err) == 0)
		return 1;
	request_bad(rq, &err);
	return 0;
}

static void end_at_once(struct request *rq, enum sum_code code, const struct error *err)
{
	if (code == SUM_OK)
		request_ok(rq, NULL);
	else
		sums_refuse(rq, code, err);
}

static void sums_on_part(struct request *rq, void *sums)
{
	struct sums *s = sums;
	const struct record *r = request_record(rq);
	struct error err;
	uint64_t round, begin, length;

	if (!read_round(s, rq, &round))
		return;
	if (record_u64(r, "begin", 0, UINT64_MAX, &begin, &err) != 0 ||
	    record_u64(r, "length", 0, UINT64_MAX, &length, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	end_at_once(rq, sum_part(s->sum, request_connection(rq), round, begin, length, &err), &err);
}

static int sums_read_rows(struct request *rq, struct sum_rows *rows, struct error *err)
{
	const struct record *r = request_record(rq);
	uint64_t width = 0, offset = 0, out_offset = 0, bytes;

	if (record_u64(r, "rows", 0, UINT32_MAX, &rows->count, err) != 0 ||
	    record_u64(r, "out-bytes", 0, SIZE_MAX, &rows->out_bytes, err) != 0 ||
	    (rows->count && (record_u64(r, "width", 1, UINT16_MAX, &width, err) != 0 ||
			     record_u64(r, "offset", 0, SIZE_MAX, &offset, err) != 0)) ||
	    (rows->out_bytes && record_u64(r, "out-offset", 0, SIZE_MAX, &out_offset, err) != 0))
		return -1;
	rows->width = (uint32_t)width;
	bytes = rowlist_bytes(rows->count, rows->width);
	rows->rows = rows->count ? request_mapped(rq, offset, bytes) : NULL;
	if (rows->count && !rows->rows)
		return error_set(err, ERROR_DATA, NULL,
				 "rows=%" PRIu64 " width=%" PRIu64 " offset=%" PRIu64
				 " is not inside the memory that was mapped, or not aligned to 8",
				 rows->count, width, offset);
	if (rows->out_bytes == 0)
		return 0;
	rows->out = request_mapped(rq, out_offset, rows->out_bytes);
	rows->arg = request_hold_mapped(rq, out_offset, rows->out_bytes);
	rows->release = sums_release;
	if (rows->out && rows->arg)
		return 0;
	payload_release(rows->arg);
	return error_set(err, ERROR_DATA, NULL,
			 "out-offset=%" PRIu64 " out-bytes=%" PRIu64
			 " is not inside the memory that was mapped, or not aligned to 8",
			 out_offset, rows->out_bytes);
}

static void sums_on_rows(struct request *rq, void *sums)
{
	struct sums *s = sums;
	struct error err;
	struct sum_rows rows = {0};
	uint64_t round;

	if (!read_round(s, rq, &round))
		return;
	if (sums_read_rows(rq, &rows, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	enum sum_code code = sum_rows(s->sum, request_connection(rq), round, &rows, &err);
	if (code != SUM_OK)
		payload_release(rows.arg);
	end_at_once(rq, code, &err);
}

static void on_wait(struct request *rq, void *sums)
{
	struct sums *s = sums;
	struct error err;
	uint64_t round, check = 0;

	if (!read_round(s, rq, &round))
		return;
	if (record_u64_opt(request_record(rq), "check", 0, 1, &check, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	request_defer(rq, sums_cancelled, s);
	enum sum_code code = sum_wait(s->sum, request_connection(rq), round, (int)check,
				      check ? answer_checked : answer_sum, rq, &err);
	if (code != SUM_OK)
		sums_refuse(rq, code, &err);
}

static void on_drop(struct request *rq, void *sums)
{
	struct sums *s = sums;
	struct error err;
	uint64_t round;

	if (!read_round(s, rq, &round))
		return;
	request_defer(rq, sums_cancelled, s);
	enum sum_code code =
		sum_drop(s->sum, request_connection(rq), round, answer_plain, rq, &err);
	if (code != SUM_OK)
		sums_refuse(rq, code, &err);
}

const struct verb sums_verbs[SUMS_VERBS] = {
	{"sum-open", "round iteration hosts dense", "dense-offset rows", sums_on_open, 0,
	 "begins a sum of these hosts, in the mapped memory"},
	{"sum-part", "round begin length", "", sums_on_part, 0,
	 "these floats hold this host's own sum now"},
	{"sum-rows", "round rows out-bytes", "width offset out-offset", sums_on_rows, 0,
	 "all rows of this host, and where their sums go"},
	{"sum-wait", "round", "check", on_wait, 0, "answered when the sum of all hosts is here"},
	{"sum-drop", "round", "", on_drop, 0, "ends a sum; answered when its memory is free"},
};

/* ---- life ---- */

int sums_new(struct sums **out, void (*broken)(void *owner), void *owner, struct error *err)
{
	struct sums *s = calloc(1, sizeof *s);

	if (!s)
		return error_set(err, ERROR_OS, "sums", "out of memory");
	s->broken = broken;
	s->owner = owner;
	*out = s;
	return 0;
}

int sums_enter(struct sums *s, struct world *w, const struct links *links, enum sum_way way,
	       struct error *err)
{
	struct sum_link link = {.carrier = s,
				.rank = world_rank(w),
				.size = world_size(w),
				.host = sums_host,
				.tell = sums_tell,
				.send = sums_send,
				.receive = sums_receive,
				.way = way,
				.rates = sums_rates};

	s->world = w;
	s->links = links;
	s->way = way;
	if (sum_new(&s->sum, &link, err) != 0)
		return -1;
	world_on(w, WORLD_SUM, sums_on_message, s);
	return 0;
}

void sums_leave(struct sums *s)
{
	if (!s)
		return;
	sum_free(s->sum);
	s->sum = NULL;
	s->world = NULL;
}

void sums_free(struct sums *s)
{
	sums_leave(s);
	free(s);
}

void sums_closed(struct sums *s, struct connection *c)
{
	if (s->sum)
		sum_client_gone(s->sum, c);
}

void sums_follow(struct sums *s)
{
	if (s->sum)
		sum_follow(s->sum);
}

uint64_t sums_bytes(const struct sums *s)
{
	struct sum_counts n = {0};

	if (s->sum)
		sum_count(s->sum, &n);
	return n.dense_bytes;
}

void sums_stat(const struct sums *s, struct record_out *o)
{
	struct sum_counts n = {0};

	if (s->sum)
		sum_count(s->sum, &n);
	if (n.open)
		record_add_u64(o, "sum-round", n.round);
	record_add_u64(o, "sums-opened", n.opened);
	record_add_u64(o, "sums-done", n.done);
	record_add_u64(o, "sums-died", n.died);
	record_add_u64(o, "sums-sent-bytes", n.wire_bytes);
	if (s->way != SUM_BY_RING) {
		record_add_brief(o, "sums-owned", n.owned);
		record_add_u64(o, "sums-by-ring", n.by_ring);
	}
	record_add_u64(o, "sums-under-way", n.under_way);
	record_add_u64(o, "sums-memory-bytes", n.memory_bytes);
}
