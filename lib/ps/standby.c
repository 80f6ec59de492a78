/* A part and its standby: see standby.h. */
#include "ps/standby.h"

#include "base/clock.h"
#include "base/log.h"
#include "lead/order.h"
#include "param/store_move.h"
#include "ps/behind.h"
#include "ps/keepers.h"
#include "ps/lag.h"
#include "ps/merge.h"
#include "ps/move.h"
#include "ps/ring.h"
#include "ps/warm.h"
#include "record/record.h"
#include "wire/call.h"
#include "wire/mapping.h"
#include "wire/timer.h"

#include <event2/event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOCKET_BYTES 4096
#define NAME_BYTES 64
#define FIELDS_BYTES 96
#define PAUSE_SECONDS 20.0  /* longest time in which the standby takes nothing of the copy */
#define COME_SECONDS 60.0   /* longest time from the end of the copy until it serves */
#define ANSWER_SECONDS 10.0 /* longest time in which it does not answer; training waits for it */
#define AGAIN_SECONDS 0.005 /* between two looks whether the part has let its name go */
#define GONE_SECONDS 30.0   /* how long a part may take to end */
#define LOOK_SECONDS 0.25   /* between two looks whether a part on another host is there */
#define GREET_SECONDS 1.0   /* how long it may take to greet then */
/* How much may be waiting for a standby, beyond the size of the part. */
#define BACKLOG_BYTES ((uint64_t)256 << 20)
/* The shared memory has room for so many gradients, and so much for rows. What finds no room goes
 * by the socket, and so do small pushes. */
#define SHARED_PUSHES 4
#define SHARED_BYTES ((size_t)4 << 20)
#define SHARED_LEAST ((size_t)16 << 10)
#define SHARED_ALIGN 64

/* ---- at the part ---- */

/* A request for it. */
struct repeat {
	struct repeat *next;
	struct ps_standby *standby;
	char *text; /* a buffer (buffers.h); NULL: it is written */
	size_t len;
	size_t from, shared; /* where its gradient is in the shared memory; shared 0: it is not */
};

/* An answer that waits for it. */
struct owed {
	struct owed *next;
	struct request *rq; /* NULL: its client has gone */
	/* or of an order of the lead in this process; done NULL: it is not */
	struct order_answer answer;
	uint64_t number; /* of the requests for the standby that must be answered before */
	char fields[FIELDS_BYTES];
};

struct ps_standby {
	struct ps *ps;
	struct request *rq; /* `follow`, open as long as it follows; NULL: it has gone */
	struct connection *connection;
	pid_t pid; /* 0: not known */
	char socket[SOCKET_BYTES], name[NAME_BYTES]; /* name "": it is on another host */
	struct fork_child *child; /* sends the copy; NULL: it is there */
	struct peer *peer;        /* NULL: not yet */
	struct timer *absent;     /* then it is waited for no longer */
	int in_force;
	uint64_t sent, answered;
	double since; /* clock_mono(): it has owed an answer since then, and given none */
	struct repeat *first, **end; /* not sent yet */
	uint64_t bytes;              /* sent or not, and not answered */
	struct mapping *memory;      /* shared with it; NULL: not yet */
	struct mapping *offered;     /* the same, until it has taken it */
	int memory_fd;               /* then; -1: none */
	struct ring ring;            /* what of it is in use */
	struct owed *owed, **owed_end;
	struct buffers *merges; /* for differences, which are large, and far apart */
	struct warm *warm;      /* of the first one's memory */
	struct warm *warm_push; /* of the first push's, in what is shared */
	struct lag lag;  /* what it lacks */
	int due;         /* a worker is gone, or has no room, that keeps what it lacks */
	uint64_t told;   /* bytes that were sent to it */
	uint64_t spared; /* bytes of gradients that were not */
};

static void repeat_free(void *repeat)
{
	struct repeat *r = repeat;

	buffer_give(r->text);
	free(r);
}

static void owed_gone(struct request *rq, void *owed)
{
	(void)rq;
	((struct owed *)owed)->rq = NULL;
}

/* Gives the answers that the standby has made possible; with `all`, all. */
static void standby_release(struct ps_standby *s, int all)
{
	struct owed *o;

	while ((o = s->owed) && (all || o->number <= s->answered)) {
		s->owed = o->next;
		if (!s->owed)
			s->owed_end = &s->owed;
		if (o->rq)
			request_ok(o->rq, "%s", o->fields);
		if (o->answer.done)
			o->answer.done(o->answer.part, &(struct order_result){.code = NULL},
				       o->answer.arg);
		free(o);
	}
}

static void standby_free(struct ps_standby *s)
{
	struct repeat *r;

	fork_stop(s->child);
	peer_free(s->peer);
	timer_free(s->absent);
	warm_end(s->warm_push);
	if (s->memory_fd >= 0)
		close(s->memory_fd);
	mapping_release(s->memory);
	mapping_release(s->offered);
	lag_free(&s->lag);
	store_end_changes(s->ps->store);
	while ((r = s->first)) {
		s->first = r->next;
		repeat_free(r);
	}
	warm_end(s->warm);
	buffers_free(s->merges);
	free(s);
}

void standby_drop(struct ps *p, const char *why)
{
	struct ps_standby *s = p->standby;
	struct error err = {0};

	if (!s)
		return;
	p->standby = NULL;
	/* Who is answered now must not meet the standby later. (On another host: the lead sees it.) */
	if (s->in_force && s->name[0] && server_name_heir(p->server, NULL, &err) != 0) {
		ps_break(p, &err);
	} else {
		log_say(LOG_LEVEL_WARNING, "at iteration %llu: no standby any more: %s",
			(unsigned long long)p->applied, why ? why : "it has gone");
		standby_release(s, 1);
	}
	if (s->rq) { /* by this it ends, too */
		request_defer(s->rq, NULL, NULL);
		connection_close(s->connection);
	}
	while (s->owed) { /* the part ends */
		struct owed *o = s->owed;
		s->owed = o->next;
		if (o->rq)
			request_defer(o->rq, NULL, NULL);
		free(o);
	}
	standby_free(s);
}

/* If it is stopped, it would never end, and no other one could begin. */
static void standby_give_up(struct ps_standby *s, const char *why)
{
	if (s->rq && s->pid > 0)
		kill(s->pid, SIGKILL);
	standby_drop(s->ps, why);
}

static void standby_on_absent(void *standby)
{
	standby_give_up(standby, "it has its copy, and does not come");
}

void standby_stat(const struct ps *p, struct record_out *o)
{
	const struct ps_standby *s = p->standby;

	if (!s)
		return;
	record_add(o, "standby", s->in_force ? "in-force" : s->peer ? "follows" : "copies");
	if (s->peer && peer_is_up(s->peer) && s->answered < s->sent)
		record_add_seconds(o, "standby-silent", clock_mono() - s->since);
	record_add_u64(o, "standby-bytes", s->told);
	if (!p->options.divergence)
		return;
	record_add_u64(o, "standby-lacks", s->lag.count);
	record_add_u64(o, "standby-spared-bytes", s->spared);
	record_add_u64(o, "kept-bytes", lag_bytes(&s->lag));
}

/* ---- what it is told ---- */

static void standby_look(struct ps_standby *s)
{
	struct ps *p = s->ps;
	struct error err = {0};

	standby_release(s, 0);
	if (s->in_force || !peer_is_up(s->peer) || s->answered != s->sent)
		return;
	if (s->name[0] && server_name_heir(p->server, s->name, &err) != 0) {
		standby_drop(p, err.text);
		return;
	}
	s->in_force = 1;
	request_put_record(s->rq, RECORD_BARE("in-force"));
	log_say(LOG_LEVEL_INFO, "at iteration %llu: %s is the standby",
		(unsigned long long)p->applied, s->name[0] ? s->name : "a process of another host");
}

static void standby_on_answer(const struct record *r, int closing, void *repeat)
{
	struct repeat *q = repeat;
	struct ps_standby *s = q->standby;
	const char *worker;
	uint64_t generation, sequence, reached = 0;

	if (!r) { /* lost: standby_on_down() follows, or it is being freed */
		repeat_free(q);
		return;
	}
	if (!closing) {
		/* A hold: what is missing here, too, is no difference. */
		if (record_is(r, "missing") && record_id(r, "worker", &worker, NULL) == 0 &&
		    record_u64(r, "generation", 0, UINT64_MAX, &generation, NULL) == 0 &&
		    record_u64(r, "sequence", 0, UINT64_MAX, &sequence, NULL) == 0 &&
		    stage_find(s->ps->stage, worker, generation, sequence))
			standby_drop(s->ps, "it lacks a push");
		return;
	}
	s->answered++;
	s->since = clock_mono();
	s->bytes -= q->len;
	if (q->shared) /* answers come in the order of requests */
		ring_give(&s->ring, q->from, q->shared);
	repeat_free(q);
	if (record_u64_opt(r, "reached", 0, UINT64_MAX, &reached, NULL) == 0)
		lag_reached(&s->lag, reached);
	if (record_is(r, "ok"))
		standby_look(s);
	else
		standby_drop(s->ps, r->text ? r->text : "it refuses a request");
}

static void standby_written(void *repeat)
{
	struct repeat *r = repeat;

	buffer_give(r->text);
	r->text = NULL;
}

static void standby_send(struct ps_standby *s)
{
	struct repeat *r;

	while ((r = s->first)) {
		s->first = r->next;
		if (!s->first)
			s->end = &s->first;
		if (peer_send_ref(s->peer, r->text, r->len, standby_written, r, standby_on_answer,
				  r) == 0)
			continue;
		repeat_free(r);
		standby_give_up(s, "it does not read");
		return;
	}
}

/* shared: bytes in the shared memory, at from, that belong to it. */
static void standby_add(struct ps_standby *s, char *text, size_t len, size_t from, size_t shared)
{
	struct ps *p = s->ps;
	struct repeat *r = text ? malloc(sizeof *r) : NULL;

	if (!r) {
		buffer_give(text);
		standby_drop(p, "out of memory");
		return;
	}
	*r = (struct repeat){
		.standby = s, .text = text, .len = len, .from = from, .shared = shared};
	*s->end = r;
	s->end = &r->next;
	if (s->answered == s->sent++)
		s->since = clock_mono();
	s->bytes += len;
	s->told += len + shared;
	if (s->bytes > BACKLOG_BYTES + store_dense_bytes(p->store) + store_row_bytes(p->store))
		standby_give_up(p->standby, "it does not keep up");
	else if (s->peer && peer_is_up(s->peer))
		standby_send(s);
}

/* Whether the standby may do with the name of this push: its worker keeps the gradients. A worker
 * beside a part whose standby is on another host may die together with the part. Gradients that
 * were summed on the way would be other sums when they come again. */
static int standby_may_lack(const struct ps *p, const struct staged *s)
{
	return p->options.divergence && s->kept && !s->sum && (s->push.dense || s->push.rows) &&
	       keepers_has(p, s->worker, s->generation, !p->standby->name[0]);
}

/* The push as its worker said it, with the keys that its rows have. */
void standby_push(struct ps *p, struct staged *s)
{
	const struct store_push *q = &s->push;
	size_t dense, keys, rows, bulk, len, from = 0, shared;
	char *text, *at;

	if (!p->standby)
		return;
	s->kept = standby_may_lack(p, s);
	dense = q->dense ? store_dense_count(p->store) * sizeof(float) : 0;
	keys = q->rows * sizeof(uint32_t);
	rows = q->rows * store_width(p->store) * sizeof(float);
	struct record_out *o =
		RECORD("push", F("worker", s->worker), F("generation", s->generation),
		       F("incarnation", p->options.incarnation), F("sequence", s->sequence),
		       F("iteration", s->iteration), F("count", q->count), F("size", q->size));
	if (s->sum) {
		record_add_u64(o, "sum", s->sum);
		record_add_u64(o, "sum-of", s->sum_of);
	}
	record_add_u64(o, "dense", q->dense ? 1 : 0);
	record_add_u64(o, "rows", q->rows);
	record_add_u64(o, "map", store_map(p->store)->version);
	bulk = s->kept ? 0 : dense + keys + rows;
	if (s->kept) {
		record_add_u64(o, "kept", 1);
		p->standby->spared += dense + keys + rows;
	}
	shared = (bulk + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
	if (!p->standby->memory || bulk < SHARED_LEAST ||
	    !ring_take(&p->standby->ring, shared, &from))
		shared = 0;
	if (shared) {
		record_add_u64(o, "map-offset-bytes", from);
		record_add_u64(o, "map-bytes", bulk);
	} else if (bulk)
		record_add_u64(o, "bytes", bulk);
	len = record_end(o, NULL);
	text = buffer_take(p->buffers, len + (shared ? 0 : bulk));
	if (text) {
		memcpy(text, o->data, len);
		at = shared ? mapping_at(p->standby->memory, from, bulk) : text + len;
		if (bulk && dense)
			memcpy(at, q->dense, dense);
		for (size_t i = 0; bulk && i < q->rows; i++) {
			uint32_t key = table_key(q->row[i]);
			memcpy(at + dense + i * sizeof key, &key, sizeof key);
		}
		if (bulk && rows)
			memcpy(at + dense + keys, q->row_gradient, rows);
	}
	standby_add(p->standby, text, len + (shared ? 0 : bulk), from, shared);
}

/* ---- how far it may be behind ---- */

static void standby_merge(struct ps *p)
{
	struct ps_standby *s = p->standby;
	struct error err = {0};
	size_t len;
	char *text = merge_write(p, s->merges, &len, &err);

	if (!text) {
		standby_drop(p, err.text);
		return;
	}
	s->due = 0;
	lag_merge(&s->lag, p->applied);
	standby_add(s, text, len, 0, 0);
}

/* The pushes of an apply that is about to be carried out. */
static void standby_note(struct ps *p, const struct order *o)
{
	struct ps_standby *s = p->standby;
	size_t row = sizeof(uint32_t) + store_width(p->store) * sizeof(float);
	const struct order_push *pushes = o->held ? p->held : o->push;
	size_t n = o->held ? p->helds : o->pushes;
	struct error err = {0};
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct order_push *q = &pushes[i];
		const struct staged *g =
			stage_find(p->stage, q->worker, q->generation, q->sequence);
		struct lag_push push = {.unit = o->iteration + q->unit + 1,
					.generation = q->generation,
					.sequence = q->sequence,
					.kept = g && g->kept};
		snprintf(push.worker, sizeof push.worker, "%s", q->worker);
		if (push.kept)
			push.bytes =
				(g->push.dense ? store_dense_count(p->store) * sizeof(float) : 0) +
				g->push.rows * row;
		s->due |= push.kept && !keepers_has(p, q->worker, q->generation, !s->name[0]);
		rc = lag_add(&s->lag, &push, &err);
		s->due |= g && g->full && lag_binds(&s->lag, q->worker, q->generation);
	}
	if (rc != 0)
		standby_drop(p, err.text);
}

/* Before an order is repeated to it. A hold is answered behind the difference that goes first, and
 * what it names is applied after that answer. */
static void standby_gate(struct ps *p, const struct order *o)
{
	if (o->kind == ORDER_HOLD &&
	    lag_is_full(&p->standby->lag, p->options.divergence, o->pushes))
		standby_merge(p);
	else if (o->kind == ORDER_APPLY && o->iteration == p->applied)
		standby_note(p, o);
}

void standby_applied(struct ps *p)
{
	struct ps_standby *s = p->standby;

	if (!s || !p->options.divergence || p->broken)
		return;
	if (s->due || lag_is_due(&s->lag, p->options.divergence, merge_is_large(p)))
		standby_merge(p);
	else if (lag_ahead(&s->lag) == 0) /* it makes these changes itself */
		store_begin_changes(p->store);
}

void standby_lost_keeper(struct ps *p, const char *worker, uint64_t generation)
{
	struct ps_standby *s;
	struct staged *g;

	/* What is staged, and not in the parameters, goes by itself. */
	while (p->standby && (g = stage_find_kept(p->stage, worker, generation))) {
		g->kept = 0;
		standby_push(p, g);
	}
	s = p->standby;

	if (s && lag_first(&s->lag, worker, generation, UINT64_MAX) != UINT64_MAX)
		standby_merge(p);
}

void standby_staged(struct ps *p, struct request *rq, const char *worker, uint64_t generation,
		    uint64_t sequence)
{
	if (behind_lacks(p)) { /* this process needs them, if it has not got them yet */
		standby_ok(p, rq, "staged=1 keep=0");
		return;
	}
	if (!p->standby || !p->options.divergence) {
		standby_ok(p, rq, "staged=1");
		return;
	}
	uint64_t first = stage_first_kept(p->stage, worker, generation, sequence + 1);
	first = lag_first(&p->standby->lag, worker, generation, first);
	standby_ok(p, rq, "staged=1 keep=%llu", (unsigned long long)first);
}

void standby_order(struct ps *p, const struct order *o)
{
	size_t head, bytes;
	char *text, *written;

	if (p->standby && p->options.divergence)
		standby_gate(p, o);
	if (!p->standby)
		return;
	written = order_write(o, &head, &bytes);
	text = written ? buffer_take(p->buffers, head + bytes) : NULL;
	if (text)
		memcpy(text, written, head + bytes);
	free(written);
	standby_add(p->standby, text, text ? head + bytes : 0, 0, 0);
}

/* An answer that waits for the standby; NULL: it need not. */
static struct owed *owed_new(struct ps *p)
{
	struct ps_standby *s = p->standby;
	struct owed *o;

	/* As long as it is being filled, nobody waits for it. */
	if (!s || !s->peer || !peer_is_up(s->peer) || s->answered == s->sent)
		return NULL;
	o = calloc(1, sizeof *o);
	if (!o) {
		standby_drop(p, "out of memory");
		return NULL;
	}
	o->number = s->sent;
	*s->owed_end = o;
	s->owed_end = &o->next;
	return o;
}

void standby_ok(struct ps *p, struct request *rq, const char *fmt, ...)
{
	struct owed *o = owed_new(p);
	char fields[FIELDS_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fields, sizeof fields, fmt, ap);
	va_end(ap);
	if (!o) {
		request_ok(rq, "%s", fields);
		return;
	}
	o->rq = rq;
	memcpy(o->fields, fields, sizeof fields);
	request_defer(rq, owed_gone, o);
}

void standby_done(struct ps *p, const struct order_answer *a)
{
	struct owed *o = owed_new(p);

	if (o)
		o->answer = *a;
	else
		a->done(a->part, &(struct order_result){.code = NULL}, a->arg);
}

/* ---- how it comes ---- */

static void standby_on_mapped(const struct record *r, int closing, void *standby)
{
	struct ps_standby *s = standby;

	if (!r || !closing)
		return; /* it is lost, or is being freed */
	close(s->memory_fd);
	s->memory_fd = -1;
	s->memory = s->offered;
	s->ring.size = s->memory->bytes;
	s->offered = NULL;
	if (!record_is(r, "ok"))
		standby_drop(s->ps, r->text ? r->text : "it can't share memory");
}

/* Without shared memory all goes by the socket. Training waits for the first push that goes into
 * it, so this one's memory is made ready. */
static void standby_make_shared(struct ps_standby *s)
{
	size_t push = store_dense_count(s->ps->store) * sizeof(float);
	struct error ignored;

	if (mapping_make(&s->offered, &s->memory_fd, SHARED_BYTES + SHARED_PUSHES * push,
			 &ignored) == 0)
		s->warm_push = warm_begin(s->offered->base, push);
}

static void standby_share(struct ps_standby *s)
{
	if (!s->offered)
		return;
	struct record_out *o = RECORD("map", F("bytes", s->offered->bytes));
	if (peer_send_with(s->peer, o->data, record_end(o, NULL), s->memory_fd, standby_on_mapped,
			   s) != 0)
		log_say(LOG_LEVEL_WARNING, "no memory is shared with the standby");
}

static void standby_on_up(struct peer *peer, const struct record *greeting, void *standby)
{
	struct ps_standby *s = standby;
	struct ps *p = s->ps;

	(void)peer;
	(void)greeting;
	timer_stop(s->absent);
	standby_share(s);
	standby_send(s);
	if (p->standby)
		standby_look(s);
}

static void standby_on_down(struct peer *peer, void *standby)
{
	(void)peer;
	standby_give_up(standby, "it has gone, or does not answer");
}

static void standby_on_copied(const struct fork_result *forked, void *standby)
{
	struct ps_standby *s = standby;
	struct ps *p = s->ps;
	struct peer_options options = {.path = s->socket,
				       .up = standby_on_up,
				       .down = standby_on_down,
				       .owner = s,
				       .answer_seconds = ANSWER_SECONDS,
				       .output_bytes_max = SIZE_MAX};

	s->child = NULL;
	if (!forked->ok) {
		standby_give_up(s, forked->why);
		return;
	}
	request_put_record(s->rq, RECORD_BARE("copied"));
	s->peer = peer_new(server_base(p->server), &options);
	s->absent = timer_new(server_base(p->server), standby_on_absent, s);
	if (s->peer && s->absent)
		timer_set(s->absent, COME_SECONDS);
	else
		standby_drop(p, "out of memory");
}

static int standby_write_copy(void *ps, int fd, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	struct call *c;

	*bytes = *sum = 0;
	if (call_adopt(&c, fd, "copy", PAUSE_SECONDS, err) != 0)
		return -1;
	int rc = ps_give_copy(ps, c, err);
	call_close(c);
	return rc;
}

static void standby_gone(struct request *rq, void *standby)
{
	struct ps_standby *s = standby;

	(void)rq;
	s->rq = NULL;
	standby_drop(s->ps, NULL);
}

/* From here on differences go. Training waits for each, so the first one's memory is made ready. */
static void standby_begin_merges(struct ps_standby *s)
{
	struct ps *p = s->ps;

	store_begin_changes(p->store);
	size_t bytes = merge_room(p);
	char *first = buffer_take(s->merges, bytes);
	s->warm = warm_begin(first, bytes);
	buffer_give(first);
}

static int standby_new(struct ps *p, struct request *rq, struct error *err)
{
	struct ps_standby *s = calloc(1, sizeof *s);
	const char *socket, *name = record_get(request_record(rq), "name");
	uint64_t pid = 0;

	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->ps = p;
	s->memory_fd = -1;
	s->connection = request_connection(rq);
	s->end = &s->first;
	s->owed_end = &s->owed;
	s->merges = buffers_new();
	int rc = s->merges ? record_text(request_record(rq), "socket", &socket, err)
			   : error_set(err, ERROR_OS, NULL, "out of memory");
	if (rc != 0 || record_u64_opt(request_record(rq), "pid", 1, INT32_MAX, &pid, err) != 0) {
		buffers_free(s->merges);
		free(s);
		return -1;
	}
	/* Through a relay it would be another process. */
	if ((pid_t)pid == connection_pid(s->connection))
		s->pid = (pid_t)pid;
	snprintf(s->socket, sizeof s->socket, "%s", socket);
	snprintf(s->name, sizeof s->name, "%s", name ? name : "");
	p->standby = s;
	return 0;
}

void standby_on_follow(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct fork_job job = {.work = standby_write_copy,
			       .owner = p,
			       .name = "a copy for the standby",
			       .keep = connection_fd(request_connection(rq))};
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (p->more.give && !p->options.followed) {
		request_err(rq, "lead", "a part with the lead has a standby only with --followed");
	} else if (p->standby || p->heir || move_is_busy(p) || behind_lacks(p) ||
		   store_map(p->store)->version == 0) {
		request_err(rq, "busy", "%s",
			    p->standby        ? "it has a standby"
			    : behind_lacks(p) ? "it lacks gradients, which are on their way"
					      : "the part goes elsewhere now");
	} else if (!request_is_alone(rq)) { /* the child writes to the connection */
		request_err(rq, "busy", "ask when all before it is answered");
	} else if (standby_new(p, rq, &err) != 0) {
		request_bad(rq, &err);
	} else if (ps_fork(p, &p->standby->child, &job, standby_on_copied, p->standby, &err) != 0) {
		standby_free(p->standby);
		p->standby = NULL;
		request_err(rq, "no-memory", "%s", err.text);
	} else {
		p->standby->rq = rq;
		standby_make_shared(p->standby);
		if (p->options.divergence)
			standby_begin_merges(p->standby);
		request_defer(rq, standby_gone, p->standby);
	}
}

/* ---- at the standby ---- */

struct standing {
	struct server *server;
	struct call *part;
	struct record *word; /* from the part */
	struct event *came, *told;
	struct timer *again;
	const char *path, *name; /* name NULL: the part is on another host */
	double until;
	int in_force; /* as the part said */
	int is_gone;  /* the connection has ended */
	int is_told;  /* the part has died, as somebody says who must know */
	int is_over;  /* the part is ours, or there is an error */
	struct warm *warm; /* of the memory of differences */
	struct error error;
};

static void standby_over(struct standing *s)
{
	s->is_over = 1;
	server_stop(s->server);
}

/* A connection between hosts may also end because the network between them begins anew. */
static int standby_is_there(const char *path)
{
	struct call *c = NULL;
	struct error ignored;
	int is_there = call_open(&c, path, 0.0, GREET_SECONDS, &ignored) == 0;

	call_close(c);
	return is_there;
}

static void standby_look_far(struct standing *s)
{
	if (s->is_told && !s->in_force)
		error_set(&s->error, ERROR_UNAVAILABLE, s->path,
			  "the server has died before this process had everything");
	else if (!s->is_told && standby_is_there(s->path))
		error_set(&s->error, ERROR_UNAVAILABLE, s->path, "the server goes on without us");
	else if (!s->is_told) {
		timer_set(s->again, LOOK_SECONDS);
		return;
	}
	standby_over(s);
}

static void standby_on_again(void *standing)
{
	struct standing *s = standing;

	s->error = (struct error){0};
	if (!s->name) {
		standby_look_far(s);
		return;
	}
	if (server_inherit(s->path, s->name, &s->error) != 0 && s->error.code == ERROR_TEMPFAIL &&
	    clock_mono() < s->until)
		timer_set(s->again, AGAIN_SECONDS);
	else
		standby_over(s);
}

/* The connection has ended: because the part has, or because it goes on without us. */
static void standby_on_came(evutil_socket_t fd, short what, void *standing)
{
	struct standing *s = standing;
	struct error err = {0};

	(void)fd;
	(void)what;
	if (call_receive_within(s->part, s->word, 0, &err) == 0) {
		s->in_force |= record_is(s->word, "in-force");
		return;
	}
	if (err.code == ERROR_TEMPFAIL)
		return; /* a word that is not whole yet */
	event_del(s->came);
	s->is_gone = 1;
	s->until = clock_mono() + GONE_SECONDS;
	timer_set(s->again, 0);
}

/* As long as the connection is there, the part may be, too. */
static void standby_on_told(evutil_socket_t number, short what, void *standing)
{
	struct standing *s = standing;

	(void)number;
	(void)what;
	s->is_told = 1;
	if (s->is_gone)
		timer_set(s->again, 0);
}

static int standby_serve(struct ps *p, struct standing *s, const char *socket, struct error *err)
{
	char greeting[128];
	struct server_options options = {.path = socket,
					 .role = "ps-server",
					 .greeting_fields = greeting,
					 .verbs = ps_led_verbs,
					 .verb_count = ps_led_verb_count,
					 .owner = p};

	snprintf(greeting, sizeof greeting, "id=%s standby=1 incarnation=%llu", p->options.id,
		 (unsigned long long)p->options.incarnation);
	if (server_new(&s->server, &options, err) != 0)
		return -1;
	p->server = s->server;
	p->stands_by = 1;
	if (p->options.divergence) {
		size_t room = merge_room(p) / 16 * 17; /* they may have more rows then */
		s->warm = warm_begin(server_expect(s->server, room), room);
	}
	s->came = event_new(server_base(s->server), call_fd(s->part), EV_READ | EV_PERSIST,
			    standby_on_came, s);
	s->again = timer_new(server_base(s->server), standby_on_again, s);
	if (!s->name)
		s->told = evsignal_new(server_base(s->server), SIGUSR1, standby_on_told, s);
	if (!s->came || !s->again || event_add(s->came, NULL) != 0 ||
	    (!s->name && (!s->told || event_add(s->told, NULL) != 0)))
		return error_set(err, ERROR_OS, socket, "out of memory");
	if (call_buffered(s->part))
		event_active(s->came, EV_READ, 0);
	if (ps_waits_start(p, err) != 0)
		return -1;
	return server_run(s->server, NULL, 0, err);
}

int ps_stand_by(struct ps *p, const char *path, int is_far, struct error *err)
{
	char socket[SOCKET_BYTES], name[NAME_BYTES];
	struct standing s = {.path = path, .name = is_far ? NULL : name};
	const char *drag = p->drag.path;
	int rc = -1;

	snprintf(socket, sizeof socket, "%.4000s.standby", path);
	snprintf(name, sizeof name, "%ld-%.6f", (long)getpid(), clock_epoch());
	p->drag.path = NULL; /* the part is slow already */
	s.word = malloc(sizeof *s.word);
	if (!s.word)
		error_set(err, ERROR_OS, path, "out of memory");
	else if (standby_take(p, path, socket, s.name, &s.part, err) == 0)
		rc = standby_serve(p, &s, socket, err);
	if (rc == 0 && ps_broken(p)) {
		*err = *ps_broken(p);
		rc = -1;
	} else if (rc == 0 && s.error.code) {
		*err = s.error;
		rc = -1;
	} else if (rc == 0)
		rc = s.is_over ? 0 : 1;
	if (s.came)
		event_free(s.came);
	if (s.told)
		event_free(s.told);
	timer_free(s.again);
	warm_end(s.warm);
	ps_waits_stop(p);
	if (s.server)
		server_free(s.server);
	p->server = NULL;
	p->stands_by = 0;
	call_close(s.part);
	free(s.word);
	p->drag.path = drag;
	p->reached[p->applied % PS_REACHED] = clock_mono();
	if (rc == 0)
		log_say(LOG_LEVEL_INFO, "the part of a process that has died, at iteration %llu",
			(unsigned long long)p->applied);
	return rc;
}
