/*
 * See move.h.  A giver answers `give` when all its receivers have what they get, so the lead need
 * not ask them.  A receiver takes only what comes for the attempt that it has prepared: what a slow
 * giver sends later is refused.
 */
#include "ps/move.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "param/store_move.h"
#include "record/record.h"
#include "wire/mapping.h"
#include "wire/timer.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define FIND_ROWS 4096        /* looked at in one turn of the loop: others want to be served */
#define WARM_BYTES ((size_t)1 << 20) /* asked for at once: other calls for memory wait meanwhile */
#define NICER 10
#define SPARE_SECONDS 1.0     /* memory is kept so long for the next piece */
#define SPARE_PART 8          /* an eighth more room, for rows that are made meanwhile */
#define SPARE_BYTES 65536
#define MAP_TEXT_MAX (1u << 20)

/* Where a share is written. */
struct text {
	char *at;
	size_t len, room;
	int is_ours; /* it is private, and may grow */
};

struct receiver {
	struct ps_move *move;
	struct peer *peer;
	struct store_share share;
	size_t looked; /* how many rows were looked at */
	char socket[ORDER_SOCKET_MAX];
	struct mapping *memory; /* memory shared with it; NULL: the share is sent */
	int memory_fd;
	int ready, done;
};

/* A share that comes before the order to give. It waits: units that the giver has applied may not
 * have been ordered here yet. */
struct early_share {
	struct ps_move *move;
	struct request *rq;
	struct early_share *next;
};

struct ps_move {
	struct ps *ps;
	uint64_t attempt;
	struct map map;
	uint32_t part; /* of map */
	struct store_incoming in;
	struct receiver *to;
	struct timer *find; /* for the next turn of looking for rows */
	size_t count, ready, done;
	struct early_share *early;
	size_t earlies;

	/* Memory that is written while everybody waits is cleared before, by a thread. Clearing
	 * takes up to 5 ms a MB (in a guest whose host clears it as well), and the loop could serve
	 * nobody meanwhile. */
	pthread_t thread;
	int warms, warm_fd; /* the thread runs; it writes to warm_fd at its end */
	struct event *warmed;
	atomic_int stop;
	int warm;
	int given; /* giving has begun: a lead that comes back may order it again */
	uint64_t bytes;
	struct order_answer answer; /* for the order prepare, then give; done NULL: nobody waits */
};

/* ---- answers ---- */

static void move_answer(struct ps_move *m, struct order_result *result)
{
	struct order_answer a = m->answer;

	result->attempt = m->attempt;
	m->answer.done = NULL;
	if (a.done)
		a.done(a.part, result, a.arg);
}

static void move_refuse(const struct order *o, const struct order_answer *a, const char *code,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void move_refuse(const struct order *o, const struct order_answer *a, const char *code,
			const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	struct order_result result = {.code = code, .text = text, .attempt = o->attempt};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	a->done(a->part, &result, a->arg);
}

static void move_fail(struct ps_move *m, const char *who, const char *why)
{
	char text[ERROR_TEXT_MAX];
	struct order_result result = {.code = "move", .text = text};

	snprintf(text, sizeof text, "%.200s: %.290s", who, why);
	move_answer(m, &result);
}

static void stop_warming(struct ps_move *m)
{
	if (m->warms) {
		atomic_store(&m->stop, 1);
		pthread_join(m->thread, NULL);
	}
	m->warms = 0;
}

static void let_spare_go(void *ps)
{
	struct ps *p = ps;

	timer_free(p->spare_end);
	p->spare_end = NULL;
	if (p->spare)
		close(p->spare_fd);
	mapping_release(p->spare);
	p->spare = NULL;
}

/* Keeps the memory that a receiver has read for the next piece. New memory would have to be
 * cleared, which costs more than all else. */
static void keep_memory(struct receiver *r)
{
	struct ps *p = r->move->ps;

	if (!r->memory || !r->done)
		return;
	let_spare_go(p);
	p->spare = r->memory;
	p->spare_fd = r->memory_fd;
	r->memory = NULL;
	r->memory_fd = -1;
	p->spare_end = timer_new(server_base(p->server), let_spare_go, p);
	if (p->spare_end)
		timer_set(p->spare_end, SPARE_SECONDS);
	else
		let_spare_go(p);
}

static void receiver_end(struct receiver *r)
{
	struct peer *peer = r->peer;

	keep_memory(r);
	r->peer = NULL; /* nobody needs what comes now */
	peer_free(peer);
	store_share_free(&r->share);
	mapping_release(r->memory);
	if (r->memory_fd >= 0)
		close(r->memory_fd);
}

static struct request *early_next(struct ps_move *m)
{
	struct early_share *e = m->early;
	struct request *rq = e->rq;

	m->early = e->next;
	m->earlies--;
	free(e);
	return rq;
}

static void refuse_stale(struct request *rq, uint64_t attempt)
{
	request_err(rq, "stale", "attempt %llu is not prepared here", (unsigned long long)attempt);
}

/* Frees the attempt, but does not undo what came. */
static void move_end_all(struct ps *p)
{
	struct ps_move *m = p->move;

	p->move = NULL;
	if (!m)
		return;
	stop_warming(m);
	for (size_t i = 0; i < m->count; i++)
		receiver_end(&m->to[i]);
	while (m->early)
		refuse_stale(early_next(m), m->attempt);
	timer_free(m->find);
	if (m->warmed)
		event_free(m->warmed);
	if (m->warm_fd >= 0)
		close(m->warm_fd);
	store_incoming_free(&m->in);
	free(m->to);
	free(m);
}

struct rows {
	const struct store *store; /* NULL: rows are named, else found */
};

static void name_or_find(const struct rows *r, float *const *row, size_t n)
{
	float **own = (float **)(uintptr_t)row; /* of a staged push or a pull: allocated here */

	if (r->store)
		store_find_rows(r->store, own, n);
	else
		store_name_rows(own, n);
}

static int of_worker(const char *worker, uint64_t thrown, const struct staged *first, void *rows,
		     struct error *err)
{
	(void)worker;
	(void)thrown;
	(void)err;
	for (const struct staged *s = first; s; s = s->next)
		name_or_find(rows, s->push.row, s->push.rows);
	return 0;
}

/* Names or finds all rows to which something here has pointers. */
static void all_rows(struct ps *p, struct rows r)
{
	(void)stage_each(p->stage, of_worker, &r, NULL);
	for (struct ps_wait *w = p->waits; w; w = w->next) {
		if (w->push)
			name_or_find(&r, w->push->push.row, w->push->push.rows);
		else
			name_or_find(&r, w->row, (size_t)w->pull.rows);
	}
}

/* Removes what came, with its rows. Other rows that were made since then may move; pushes that are
 * staged for them stay. */
static void move_undo(struct ps *p, struct ps_move *m)
{
	int moves = m->in.rows > 0;

	if (moves)
		all_rows(p, (struct rows){NULL});
	store_incoming_undo(&m->in);
	if (moves)
		all_rows(p, (struct rows){p->store});
}

static void end_attempt(struct ps *p)
{
	struct ps_move *m = p->move;

	if (!m)
		return;
	stop_warming(m);
	move_undo(p, m);
	move_end_all(p);
}

void move_stop(struct ps *p)
{
	end_attempt(p);
	let_spare_go(p);
}

int move_is_busy(const struct ps *p)
{
	return p->move != NULL;
}

/* ---- the map ---- */

/* Reads the map of an order. A part that is not in it gets an empty share: as if it were behind all
 * others. */
static int read_map(const struct ps *p, const struct order *o, struct map *map, uint32_t *part,
		    struct error *err)
{
	const struct map *now = store_map(p->store);
	uint64_t dense = now->dense_begin[now->parts];

	if (o->servers == 0 || o->servers >= MAP_PARTS_MAX)
		return error_set(err, ERROR_DATA, NULL, "a map of %zu parts", o->servers);
	map->version = o->version;
	map->parts = *part = (uint32_t)o->servers;
	for (uint32_t i = 0; i < map->parts; i++) {
		map->dense_begin[i] = o->server[i].dense_begin;
		map->key_begin[i] = o->server[i].key_begin;
		if (strcmp(o->server[i].id, p->options.id) == 0)
			*part = i;
	}
	map->dense_begin[map->parts] = dense;
	map->key_begin[map->parts] = MAP_PLACES;
	if (!map_is_whole(map, dense))
		return error_set(err, ERROR_DATA, NULL, "a map with gaps");
	if (*part == map->parts) {
		map->parts++;
		map->dense_begin[map->parts] = dense;
		map->key_begin[map->parts] = MAP_PLACES;
	}
	return 0;
}

static void move_refuse_map(const struct ps *p, struct request *rq)
{
	request_err_record(rq,
			   RECORD("err", F("code", "map"), F("map", store_map(p->store)->version)),
			   "this part goes by that map: ask the lead for `parts`");
}

int move_check_map(struct ps *p, struct request *rq)
{
	uint64_t version = 1;
	struct error err;

	if (record_u64_opt(request_record(rq), "map", 0, UINT64_MAX, &version, &err) != 0) {
		request_bad(rq, &err);
		return 0;
	}
	if (version == store_map(p->store)->version)
		return 1;
	move_refuse_map(p, rq);
	return 0;
}

/* ---- prepare ---- */

static void look_if_ready(struct ps_move *m)
{
	struct order_result result = {.code = NULL};

	if (m->warm && m->ready == m->count)
		move_answer(m, &result);
}

static void move_is_ready(struct receiver *r)
{
	if (r->ready)
		return;
	r->ready = 1;
	r->move->ready++;
	look_if_ready(r->move);
}

static void move_on_mapped(const struct record *record, int closing, void *receiver)
{
	struct receiver *r = receiver;

	if (!r->peer || !record || !closing)
		return;
	if (!record_is(record, "ok")) { /* it is on another host: the share is sent */
		mapping_release(r->memory);
		r->memory = NULL;
	}
	move_is_ready(r);
}

static void move_on_up(struct peer *peer, const struct record *greeting, void *receiver)
{
	struct receiver *r = receiver;

	(void)greeting;
	if (r->ready)
		return; /* it came back: `give` will find that it is no longer the same */
	if (!r->memory) {
		move_is_ready(r);
		return;
	}
	struct record_out *o = RECORD("map", F("bytes", r->memory->bytes));
	(void)peer_send_with(peer, o->data, record_end(o, NULL), r->memory_fd, move_on_mapped, r);
}

static void move_on_down(struct peer *peer, void *receiver)
{
	struct receiver *r = receiver;

	(void)peer;
	if (r->peer)
		move_fail(r->move, r->socket, "connection lost");
}

static void add_receiver(struct ps_move *m, const struct order_server *server,
			 const struct store_share *share)
{
	struct receiver *r = &m->to[m->count];

	*r = (struct receiver){.move = m, .share = *share, .memory_fd = -1};
	m->count++;
	memcpy(r->socket, server->socket, sizeof r->socket);
}

/* A part that joins gets something from part 0 in any case: the number of steps. */
static int find_receivers(struct ps_move *m, const struct order *o, struct error *err)
{
	struct store *s = m->ps->store;

	m->to = calloc(o->servers, sizeof *m->to);
	if (!m->to)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (uint32_t i = 0; i < o->servers; i++) {
		struct store_share share = store_share_of(s, &m->map, i);
		if (i == m->part ||
		    (store_share_is_empty(&share) && !(store_part(s) == 0 && o->server[i].joins)))
			continue;
		add_receiver(m, &o->server[i], &share);
	}
	return 0;
}

static int connect_all(struct ps_move *m, struct error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		struct receiver *r = &m->to[i];
		struct peer_options options = {.path = r->socket,
					       .up = move_on_up,
					       .down = move_on_down,
					       .owner = r,
					       .output_bytes_max = UINT32_MAX,
					       .answer_seconds = 0};
		r->peer = peer_new(server_base(m->ps->server), &options);
		if (!r->peer)
			return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	return 0;
}

/* Makes shared memory for what is known now, and some more. Without memory, the share is sent. */
static void move_make_memory(struct receiver *r)
{
	struct ps *p = r->move->ps;
	size_t bytes = store_share_bytes(p->store, &r->share);
	struct error ignored;

	bytes += bytes / SPARE_PART + SPARE_BYTES;
	if (!p->spare || p->spare->bytes < bytes) {
		(void)mapping_make(&r->memory, &r->memory_fd, bytes, &ignored);
		return;
	}
	r->memory = p->spare;
	r->memory_fd = p->spare_fd;
	p->spare = NULL;
	let_spare_go(p);
}

/* Advice only. */
static void warm(struct ps_move *m, struct receiver *r)
{
	size_t n = WARM_BYTES;

	for (size_t at = 0; r->memory && at < r->memory->bytes && !atomic_load(&m->stop); at += n) {
		n = r->memory->bytes - at < n ? r->memory->bytes - at : n;
		(void)madvise((char *)r->memory->base + at, n, MADV_POPULATE_WRITE);
	}
}

static void warm_all(struct ps_move *m)
{
	uint64_t one = 1;

	while (!atomic_load(&m->stop) && !store_incoming_warm(&m->in, WARM_BYTES))
		;
	for (size_t i = 0; i < m->count; i++)
		warm(m, &m->to[i]);
	if (write(m->warm_fd, &one, sizeof one) < 0)
		abort(); /* the counter can't be full */
}

static void *warm_beside(void *move)
{
	/* Threads that serve come first. But this is not the lowest priority: somebody may wait for
	 * this thread. */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICER);
	warm_all(move);
	return NULL;
}

static void on_warmed(evutil_socket_t fd, short what, void *move)
{
	struct ps_move *m = move;
	struct error err = {0};

	(void)fd;
	(void)what;
	stop_warming(m);
	m->warm = 1;
	if (connect_all(m, &err) != 0)
		move_fail(m, m->ps->options.id, err.text);
	else
		look_if_ready(m);
}

static int start_warming(struct ps_move *m, struct error *err)
{
	for (size_t i = 0; i < m->count; i++)
		move_make_memory(&m->to[i]);
	m->warm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	m->warmed = m->warm_fd < 0 ? NULL
				   : event_new(server_base(m->ps->server), m->warm_fd, EV_READ,
					       on_warmed, m);
	if (!m->warmed || event_add(m->warmed, NULL) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	m->warms = thread_start(&m->thread, warm_beside, m) == 0;
	if (!m->warms)
		warm_all(m);
	return 0;
}

/* Whether the places of all rows are known, if somebody gets rows; 0: the next turn goes on. */
static int know_places(struct ps_move *m, struct error *err)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->to[i].share.key_begin < m->to[i].share.key_end)
			return store_learn_places(m->ps->store, FIND_ROWS, err);
	return 1;
}

/* One turn: looks at the next rows, for one receiver. When all were looked at, makes memory for all
 * that comes and goes; after that, receivers are connected to. */
static void on_find(void *move)
{
	struct ps_move *m = move;
	const struct store *s = m->ps->store;
	struct error err = {0};
	size_t i = 0;
	int known = know_places(m, &err);

	if (known <= 0) {
		if (known < 0)
			move_fail(m, m->ps->options.id, err.text);
		else
			timer_set(m->find, 0);
		return;
	}
	while (i < m->count && m->to[i].looked == store_row_count(s))
		i++;
	if (i < m->count &&
	    store_share_find(s, &m->to[i].share, &m->to[i].looked, FIND_ROWS, &err) != 0)
		move_fail(m, m->to[i].socket, err.text);
	else if (i < m->count)
		timer_set(m->find, 0);
	else if (start_warming(m, &err) != 0)
		move_fail(m, m->ps->options.id, err.text);
}

static int move_prepare_shares(struct ps *p, struct ps_move *m, const struct order *o,
			       struct error *err)
{
	if (read_map(p, o, &m->map, &m->part, err) != 0 || find_receivers(m, o, err) != 0 ||
	    store_incoming_begin(&m->in, p->store, &m->map, m->part, err) != 0)
		return -1;
	m->find = timer_new(server_base(p->server), on_find, m);
	if (!m->find)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	timer_set(m->find, 0);
	return 0;
}

void move_prepare(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct ps_move *m;
	struct error err = {0};

	/* A repeated order: the attempt has ended, or is prepared. */
	if (o->attempt <= p->attempt) {
		move_refuse(o, a, "move", "attempt %llu is over", (unsigned long long)o->attempt);
		return;
	}
	if (p->move)
		move_fail(p->move, p->options.id, "another attempt follows");
	end_attempt(p);
	p->attempt = o->attempt;
	m = calloc(1, sizeof *m);
	if (!m) {
		move_refuse(o, a, "no-memory", "out of memory");
		return;
	}
	m->ps = p;
	m->attempt = o->attempt;
	m->warm_fd = -1;
	p->move = m;
	if (move_prepare_shares(p, m, o, &err) != 0) {
		end_attempt(p);
		move_refuse(o, a, "move", "%s", err.text);
		return;
	}
	m->answer = *a; /* given when memory is there and receivers are connected */
}

/* ---- give ---- */

static int move_put_text(void *text, struct record_out *r, const void *values, size_t bytes,
			 struct error *err)
{
	struct text *t = text;
	size_t len = record_end(r, NULL);

	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, NULL, "a record longer than a line");
	if (t->room - t->len < len + bytes) {
		size_t room = t->len + len + bytes + t->room;
		char *more = t->is_ours ? realloc(t->at, room) : NULL;
		if (!more)
			return error_set(err, ERROR_OS, NULL, "no room for a share");
		t->at = more;
		t->room = room;
	}
	memcpy(t->at + t->len, r->data, len);
	if (bytes)
		memcpy(t->at + t->len + len, values, bytes);
	t->len += len + bytes;
	return 0;
}

static void on_accepted(const struct record *record, int closing, void *receiver)
{
	struct receiver *r = receiver;
	struct ps_move *m = r->move;
	struct order_result result = {.code = NULL};

	if (!r->peer || !record || !closing)
		return; /* lost: move_on_down() follows */
	if (!record_is(record, "ok")) {
		move_fail(m, r->socket, record->text ? record->text : "refused");
		return;
	}
	m->done += r->done ? 0 : 1;
	r->done = 1;
	result.bytes = m->bytes;
	if (m->done == m->count)
		move_answer(m, &result);
}

/* Writes a share into the shared memory if it fits; otherwise into private memory. */
static int write_share(struct receiver *r, struct text *text, struct error *err)
{
	const struct store *s = r->move->ps->store;
	const struct stream_sink sink = {.put = move_put_text, .owner = text};

	if (store_share_find(s, &r->share, &r->looked, SIZE_MAX, err) != 0)
		return -1;
	if (r->memory && store_share_bytes(s, &r->share) <= r->memory->bytes) {
		*text = (struct text){.at = r->memory->base, .room = r->memory->bytes};
	} else {
		*text = (struct text){.room = store_share_bytes(s, &r->share), .is_ours = 1};
		text->at = malloc(text->room);
		if (!text->at)
			return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	return store_share_write(s, &r->share, &sink, err);
}

static int send_share(struct receiver *r, const struct text *text, struct error *err)
{
	struct ps_move *m = r->move;

	m->bytes += text->len;
	struct record_out *o =
		RECORD("accept", F("incarnation", m->ps->options.incarnation),
		       F("attempt", m->attempt), !text->is_ours ? F("map-offset-bytes", 0) : F_NONE,
		       F(text->is_ours ? "bytes" : "map-bytes", text->len));
	if (peer_send(r->peer, o->data, record_end(o, NULL), text->is_ours ? text->at : NULL,
		      text->is_ours ? text->len : 0, on_accepted, r) != 0)
		return error_set(err, ERROR_UNAVAILABLE, NULL, "connection lost");
	peer_flush(r->peer);
	return 0;
}

/* Gives a share. The peer copies what it sends, so private memory is freed at once. */
static int move_give_share(struct receiver *r, struct error *err)
{
	struct text text = {.at = NULL};
	int rc;

	if (!peer_is_up(r->peer))
		return error_set(err, ERROR_UNAVAILABLE, NULL, "connection lost");
	rc = write_share(r, &text, err);
	if (rc == 0)
		rc = send_share(r, &text, err);
	if (text.is_ours)
		free(text.at);
	return rc;
}

static void accept_share(struct ps_move *m, struct request *rq)
{
	struct payload *payload = request_payload(rq);
	struct error err = {0};

	if (store_incoming_take(&m->in, payload_data(payload), payload_bytes(payload), &err) == 0) {
		request_ok(rq, NULL);
		return;
	}
	log_say(LOG_LEVEL_WARNING, "parameters of another part are refused: %s", err.text);
	request_err(rq, "accept", "%s", err.text);
}

static void giver_gone(struct request *rq, void *early)
{
	struct early_share *e = early, **at = &e->move->early;

	(void)rq;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	e->move->earlies--;
	free(e);
}

static void accept_later(struct ps_move *m, struct request *rq)
{
	struct early_share *e = m->earlies < m->map.parts ? malloc(sizeof *e) : NULL;

	if (!e) {
		request_err(rq, "no-memory", "for a share that waits");
		return;
	}
	*e = (struct early_share){m, rq, m->early};
	m->early = e;
	m->earlies++;
	request_defer(rq, giver_gone, e);
}

void move_give(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct ps_move *m = p->move;
	struct order_result result = {.code = NULL};
	struct error err = {0};

	if (!m || m->attempt != o->attempt || m->given || !m->warm || m->ready < m->count) {
		move_refuse(o, a, "move", "attempt %llu is not prepared here",
			    (unsigned long long)o->attempt);
		return;
	}
	m->answer = *a;
	m->given = 1;
	for (size_t i = 0; i < m->count; i++) {
		if (move_give_share(&m->to[i], &err) != 0) {
			move_fail(m, m->to[i].socket,
				  err.text); /* the answer may end the attempt */
			return;
		}
	}
	while (m->early)
		accept_share(m, early_next(m));
	if (m->count == 0)
		move_answer(m, &result);
}

void move_on_accept(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct ps_move *m = p->move;
	uint64_t attempt;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_u64(request_record(rq), "attempt", 1, UINT64_MAX, &attempt, &err) != 0) {
		request_bad(rq, &err);
	} else if (!m || m->attempt != attempt) {
		refuse_stale(rq, attempt);
	} else if (!request_payload(rq)) {
		request_err(rq, "bad-request", "a payload is wanted");
	} else if (!m->given) {
		accept_later(m, rq);
	} else {
		accept_share(m, rq);
	}
}

/* ---- the end ---- */

/* What was said under the old map is no longer valid: workers that wait pull again, and push
 * again. */
static void move_forget(struct ps *p)
{
	while (p->waits) {
		struct request *rq = ps_wait_take(p);
		move_refuse_map(p, rq);
	}
	stage_drop_all(p->stage);
}

static void move_adopt_map(struct ps *p, uint64_t iteration)
{
	struct ps_move *m = p->move;
	struct store_share *given = calloc(m->count + 1, sizeof *given);
	uint32_t had = store_map(p->store)->parts;

	if (!given) {
		struct error err;
		error_set(&err, ERROR_OS, "move", "out of memory");
		ps_break(p, &err);
		return;
	}
	/* Rows that a pull has made since then are given, too: the receiver gives them the same
	 * initial values. */
	for (size_t i = 0; i < m->count; i++) {
		struct receiver *r = &m->to[i];
		(void)store_share_find(p->store, &r->share, &r->looked, SIZE_MAX, NULL);
		given[i] = r->share;
	}
	p->applied = iteration;
	p->reached[p->applied % PS_REACHED] = clock_mono();
	store_adopt(p->store, &m->map, m->part, given, m->count);
	free(given);
	p->options.part = m->part;
	p->options.parts = m->map.parts;
	ps_heat_anew(p);
	move_forget(p);
	if (had != m->map.parts)
		log_say(LOG_LEVEL_INFO, "map %llu: part %u of %u, at iteration %llu",
			(unsigned long long)m->map.version, m->part, m->map.parts,
			(unsigned long long)iteration);
	move_end_all(p);
	if (p->more.adopted)
		p->more.adopted(p->more.adopted_owner);
}

void move_adopt(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct order_result result = {.iteration = p->applied, .attempt = o->attempt};
	uint64_t version = store_map(p->store)->version;

	if (version == o->version) {
		result.repeated = 1;
		a->done(a->part, &result, a->arg);
		return;
	}
	if (!p->move || p->move->attempt != o->attempt || version > o->version) {
		move_refuse(o, a, "order",
			    "map %llu is in force here, and attempt %llu not prepared",
			    (unsigned long long)version, (unsigned long long)o->attempt);
		return;
	}
	if (version != 0 && o->iteration != p->applied) {
		move_refuse(o, a, "order", "%llu units are applied here, not %llu",
			    (unsigned long long)p->applied, (unsigned long long)o->iteration);
		return;
	}
	move_adopt_map(p, o->iteration);
	a->done(a->part, &result, a->arg);
}

void move_cancel(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct order_result result = {.attempt = o->attempt};

	if (p->attempt < o->attempt)
		p->attempt = o->attempt; /* its prepare will be refused */
	if (p->move && p->move->attempt <= o->attempt) {
		move_fail(p->move, p->options.id, "the attempt is over");
		end_attempt(p);
	}
	a->done(a->part, &result, a->arg);
}

/* ---- handing over ---- */

int move_give_map(const struct ps *p, struct call *c, struct error *err)
{
	const struct map *map = store_map(p->store);
	char *text = malloc((size_t)map->parts * 64 + 1);
	size_t len = 0;

	if (!text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (uint32_t i = 0; i < map->parts; i++)
		len += (size_t)snprintf(text + len, 64, "%llu %llu\n",
					(unsigned long long)map->dense_begin[i],
					(unsigned long long)map->key_begin[i]);
	int rc = call_record(
		c,
		RECORD("map", F("version", map->version), F("parts", map->parts), F("bytes", len)),
		text, len, err);
	free(text);
	return rc;
}

static int parse_map(struct map *map, char *text, struct error *err)
{
	char *at = text, *stop;

	for (uint32_t i = 0; i < map->parts; i++) {
		map->dense_begin[i] = strtoull(at, &stop, 10);
		if (stop == at || *stop != ' ')
			return error_set(err, ERROR_DATA, NULL, "a map that can't be read");
		at = stop + 1;
		map->key_begin[i] = strtoull(at, &stop, 10);
		if (stop == at || *stop != '\n')
			return error_set(err, ERROR_DATA, NULL, "a map that can't be read");
		at = stop + 1;
	}
	return 0;
}

int move_take_map(struct ps *p, const struct record *r, struct call *c, struct error *err)
{
	const struct map *now = store_map(p->store);
	uint64_t dense = now->dense_begin[now->parts], parts, bytes;
	struct map map = {0};
	char *text;
	int rc;

	if (record_u64(r, "version", 0, UINT64_MAX, &map.version, err) != 0 ||
	    record_u64(r, "parts", 1, MAP_PARTS_MAX, &parts, err) != 0 ||
	    record_u64(r, "bytes", 1, MAP_TEXT_MAX, &bytes, err) != 0)
		return -1;
	map.parts = (uint32_t)parts;
	text = malloc((size_t)bytes + 1);
	if (!text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	rc = call_bytes(c, text, (size_t)bytes, err);
	text[bytes] = '\0';
	if (rc == 0)
		rc = parse_map(&map, text, err);
	free(text);
	map.dense_begin[parts] = dense;
	map.key_begin[parts] = MAP_PLACES;
	if (rc != 0)
		return -1;
	if (!map_is_whole(&map, dense) || p->options.part >= parts)
		return error_set(err, ERROR_CONFIG, NULL, "has a map of another model");
	struct store_incoming in = {0};
	if (store_incoming_begin(&in, p->store, &map, p->options.part, err) != 0)
		return -1;
	store_adopt(p->store, &map, p->options.part, NULL, 0);
	heat_place(&p->heat, map.key_begin[p->options.part],
		   map.key_begin[p->options.part + 1] - map.key_begin[p->options.part]);
	return 0;
}
