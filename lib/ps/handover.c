/*
 * Hands over a live server to another process, between two events of a program with one thread.
 *
 * When all answers are written and no cut is being made, the old server sends everything to its
 * heir.  It listens to nobody else until the heir says `taken`, and then it ends at once.  So two
 * processes never serve at the same time.  Clients repeat what was not answered; the heir answers
 * it, as it has the same name and incarnation.  If the heir ends first, nothing changes.
 */
#include "ps/behind.h"

#include "base/clock.h"
#include "base/log.h"
#include "ps/incoming.h"
#include "ps/move.h"
#include "ps/standby.h"
#include "wire/call.h"
#include "wire/timer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIET_SECONDS 5.0     /* how long clients may take to read their answers */
#define AGAIN_SECONDS 0.01    /* between attempts, while it is not possible yet */
#define PAUSE_SECONDS 20.0    /* longest time in which the heir takes or says nothing */
#define ANSWER_SECONDS 1800.0 /* how long the old one may take: a slow unit, a cut being written */
#define BEHIND_SECONDS 60.0   /* how long a standby waits for a part that lacks gradients itself */
#define GONE_SECONDS 60.0     /* how long the old one may take to end, once it said so */

void ps_set_more(struct ps *p, const struct ps_more *more)
{
	p->more = *more;
}

/* ---- giving ---- */

static int give_head(const struct ps *p, struct call *c, struct error *err)
{
	char part[32];

	snprintf(part, sizeof part, "%u/%u", p->options.part, p->options.parts);
	struct record_out *r = RECORD(
		"state", F("part", part), F("incarnation", p->options.incarnation),
		F("iteration", p->applied), F("bsp", p->options.bsp ? 1 : 0), F("pulls", p->pulls),
		F("pushes", p->pushes), F("diverged", p->diverged), F("bounded", p->bounded));
	heat_save(&p->heat, r);
	return call_record(c, r, NULL, 0, err);
}

/* Keys are taken from the rows: those in a worker's memory may have changed by now, or be gone. */
static int give_push(const struct ps *p, const struct staged *s, struct call *c, struct error *err)
{
	const struct store_push *q = &s->push;
	size_t dense = q->dense ? store_dense_count(p->store) * sizeof(float) : 0;
	size_t rows = q->rows * store_width(p->store) * sizeof(float);
	uint32_t *key = malloc((q->rows + 1) * sizeof *key);
	int rc;

	if (!key)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < q->rows; i++)
		key[i] = table_key(q->row[i]);
	rc = call_record(c,
			 RECORD("staged", F("worker", s->worker), F("generation", s->generation),
				F("sequence", s->sequence), F("iteration", s->iteration),
				F("count", q->count), F("size", q->size),
				F("held", s->held ? 1 : 0), F("sum", s->sum),
				F("sum-of", s->sum_of), F("dense", q->dense ? 1 : 0),
				F("rows", q->rows),
				F("bytes", dense + q->rows * sizeof *key + rows)),
			 q->dense, dense, err);
	if (rc == 0 && rows)
		rc = call_send(c, (const char *)key, q->rows * sizeof *key, q->row_gradient, rows,
			       err);
	free(key);
	return rc;
}

struct giving {
	const struct ps *ps;
	struct call *call;
};

static int give_worker(const char *worker, uint64_t thrown, const struct staged *first, void *arg,
		       struct error *err)
{
	struct giving *g = arg;
	if (thrown && call_record(g->call,
				  RECORD("thrown", F("worker", worker), F("generation", thrown)),
				  NULL, 0, err) != 0)
		return -1;
	for (const struct staged *s = first; s; s = s->next) {
		if (give_push(g->ps, s, g->call, err) != 0)
			return -1;
	}
	return 0;
}

static int handover_say(struct call *c, const char *line, struct error *err)
{
	return call_send(c, line, strlen(line), NULL, 0, err);
}

/* What a lead can have applied by its round. */
static int give_held(const struct ps *p, struct call *c, struct error *err)
{
	struct order o = {.kind = ORDER_HOLD,
			  .incarnation = p->options.incarnation,
			  .round = p->held_round,
			  .push = p->held,
			  .pushes = p->helds};
	size_t head, bytes;
	char *text = p->held_round ? order_write(&o, &head, &bytes) : NULL;
	int rc = 0;

	if (text)
		rc = call_send(c, text, head, text + head, bytes, err);
	else if (p->held_round)
		rc = error_set(err, ERROR_OS, NULL, "out of memory");
	free(text);
	return rc;
}

int ps_give_copy(const struct ps *p, struct call *c, struct error *err)
{
	struct giving g = {p, c};

	if (give_head(p, c, err) != 0 ||
	    (store_map(p->store)->version != 1 && move_give_map(p, c, err) != 0) ||
	    outgoing_write(p->store, c, err) != 0)
		return -1;
	return stage_each(p->stage, give_worker, &g, err) == 0 ? give_held(p, c, err) : -1;
}

static int give_all(const struct ps *p, struct call *c, struct error *err)
{
	if (ps_give_copy(p, c, err) != 0 || ps_give_cut(p, c, err) != 0)
		return -1;
	if (p->more.give && p->more.give(p->more.owner, c, err) != 0)
		return -1;
	return handover_say(c, "ok\n", err);
}

/* 0: the heir has everything, and knows that we know. */
static int handover_converse(const struct ps *p, struct call *c, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	int rc = r ? give_all(p, c, err) : error_set(err, ERROR_OS, "heir", "out of memory");

	if (rc == 0)
		rc = call_receive(c, r, err);
	if (rc == 0 && !record_is(r, "taken"))
		rc = error_set(err, ERROR_DATA, "heir", "says '%.40s', not taken", r->type);
	free(r);
	/* With this answer, the part belongs to the heir. */
	return rc == 0 ? handover_say(c, "ok\n", err) : -1;
}

static void hand_later(struct ps *p)
{
	timer_set(p->hand, AGAIN_SECONDS);
}

static void on_hand(void *ps)
{
	struct ps *p = ps;
	struct error err = {0};
	double start = clock_mono();

	if (!p->heir || p->broken)
		return;
	if (p->fork || behind_lacks(p) || move_is_busy(p) ||
	    (p->more.ready && !p->more.ready(p->more.owner)) ||
	    server_quiet(p->server, QUIET_SECONDS) != 0) {
		hand_later(p);
		return;
	}
	struct connection *c = request_connection(p->heir);
	int fd = fcntl(connection_fd(c), F_DUPFD_CLOEXEC, 0);
	struct call *heir = NULL;
	standby_drop(p, "the part is handed over");
	if (fd < 0)
		error_errno(&err, ERROR_OS, "heir", "dup");
	else if (call_adopt(&heir, fd, "heir", PAUSE_SECONDS, &err) != 0)
		close(fd);
	if (heir && handover_converse(p, heir, &err) == 0) {
		p->handed = heir;
		log_say(LOG_LEVEL_INFO, "handed over to process %ld at iteration %llu in %.3f s",
			(long)connection_pid(c), (unsigned long long)p->applied,
			clock_mono() - start);
		server_abandon(p->server);
		return;
	}
	call_close(heir);
	log_say(LOG_LEVEL_WARNING, "not handed over, training goes on: %s: %s", err.place,
		err.text);
	connection_close(c);
}

static void heir_gone(struct request *rq, void *ps)
{
	struct ps *p = ps;

	(void)rq;
	p->heir = NULL;
	if (p->hand)
		timer_stop(p->hand);
}

void ps_on_take_over(struct request *rq, void *ps)
{
	struct ps *p = ps;

	if (!ps_in_force(p, rq))
		return;
	if (p->heir) {
		request_err(rq, "busy", "another heir is here");
		return;
	}
	p->heir = rq;
	request_defer(rq, heir_gone, p);
	hand_later(p);
}

void ps_on_taken(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct connection *c = request_connection(rq);

	/* An heir that says it too early would not say it again, and everybody would wait. */
	if (p->heir && request_connection(p->heir) == c)
		connection_close(c);
	request_err(rq, "bad-request", "nothing was given to you");
}

int ps_handover_start(struct ps *p, struct error *err)
{
	p->hand = timer_new(server_base(p->server), on_hand, p);
	return p->hand ? 0 : error_set(err, ERROR_OS, "ps", "out of memory");
}

void ps_handover_stop(struct ps *p)
{
	timer_free(p->hand);
	p->hand = NULL;
}

/* ---- taking ---- */

static int handover_take_head(struct ps *p, const struct record *r, struct error *err)
{
	char mine[32];
	const char *part;
	uint64_t incarnation, bsp;

	snprintf(mine, sizeof mine, "%u/%u", p->options.part, p->options.parts);
	if (record_text(r, "part", &part, err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &p->applied, err) != 0 ||
	    record_u64(r, "bsp", 0, 1, &bsp, err) != 0 ||
	    record_u64(r, "pulls", 0, UINT64_MAX, &p->pulls, err) != 0 ||
	    record_u64(r, "pushes", 0, UINT64_MAX, &p->pushes, err) != 0 ||
	    record_u64_opt(r, "diverged", 0, UINT64_MAX, &p->diverged, err) != 0 ||
	    record_u64_opt(r, "bounded", 0, UINT64_MAX, &p->bounded, err) != 0 ||
	    heat_load(&p->heat, r, err) != 0)
		return -1;
	if (strcmp(part, mine) != 0)
		return error_set(err, ERROR_CONFIG, NULL, "is part %.40s, not %s", part, mine);
	if (bsp != (uint64_t)(p->options.bsp != 0))
		return error_set(err, ERROR_CONFIG, NULL, "has another --sync");
	return 0;
}

static int take_thrown(struct ps *p, const struct record *r, struct error *err)
{
	const char *worker;
	uint64_t generation;

	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &generation, err) != 0)
		return -1;
	stage_throw(p->stage, worker, generation);
	return 0;
}

static int take_push(struct ps *p, const struct record *r, struct call *c, struct error *err)
{
	struct staged *s = calloc(1, sizeof *s);
	uint64_t dense, rows, bytes, held = 0;

	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (ps_push_fields(r, s, &dense, &rows, err) != 0 ||
	    record_u64_opt(r, "held", 0, 1, &held, err) != 0 ||
	    record_u64(r, "bytes", 0, PART_PAYLOAD_BYTES_MAX, &bytes, err) != 0)
		goto failed;
	s->held = (int)held;
	s->buffer = buffer_take(p->buffers, (size_t)bytes);
	if (!s->buffer) {
		error_set(err, ERROR_OS, NULL, "out of memory for a push");
		goto failed;
	}
	if (call_bytes(c, s->buffer, (size_t)bytes, err) != 0 ||
	    ps_push_find(p, s, s->buffer, (size_t)bytes, dense, rows, err) != 0)
		goto failed;
	ps_push_judge(p, s);
	if (s->diverged) {
		error_set(err, ERROR_DATA, s->worker, "%s", s->why);
		goto failed;
	}
	if (stage_restore(p->stage, s, err) == 0)
		return 0;
failed:
	staged_free(s);
	return -1;
}

static int take_held(struct ps *p, const struct record *r, struct call *c, struct error *err)
{
	uint64_t bytes;
	struct order o = {.push = NULL};
	char *text = NULL;
	int rc = -1;

	if (record_u64(r, "bytes", 1, ORDER_BYTES_MAX, &bytes, err) != 0)
		return -1;
	text = malloc((size_t)bytes);
	if (!text)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else if (call_bytes(c, text, (size_t)bytes, err) == 0 &&
		 order_read(&o, r, text, (size_t)bytes, err) == 0)
		rc = ps_keep_held(p, &o, err);
	order_clear(&o);
	free(text);
	return rc;
}

/* State of the taking. */
struct taking {
	struct ps *ps;
	struct incoming in;
	int head; /* `state` has come */
};

static int handover_take_record(struct taking *t, const struct record *r, struct error *err)
{
	struct ps *p = t->ps;

	if (record_is(r, "state")) {
		t->head = 1;
		return handover_take_head(p, r, err);
	}
	if (!t->head)
		return error_set(err, ERROR_DATA, NULL, "%.64s before state", r->type);
	if (record_is(r, "map"))
		return move_take_map(p, r, t->in.call, err);
	int kind = incoming_record(&t->in, r, err);
	if (kind != 0)
		return kind < 0 ? -1 : 0;
	if (record_is(r, "thrown"))
		return take_thrown(p, r, err);
	if (record_is(r, "staged"))
		return take_push(p, r, t->in.call, err);
	if (record_is(r, "hold"))
		return take_held(p, r, t->in.call, err);
	if (record_is(r, "written"))
		return ps_take_cut(p, r, err);
	return p->more.take ? p->more.take(p->more.owner, r, t->in.call, err) : 0;
}

/* Asks by this request, and takes all that comes before `ok`, or `copied`. */
static int handover_take_all(struct taking *t, struct record_out *request, struct record *r,
			     struct error *err)
{
	struct call *c = t->in.call;

	if (call_record(c, request, NULL, 0, err) != 0)
		return -1;
	for (;;) {
		if (call_receive(c, r, err) != 0)
			return -1;
		if (record_is(r, "err"))
			return error_set(err, ERROR_TEMPFAIL, call_path(c), "%s: %s",
					 record_get(r, "code") ? record_get(r, "code") : "",
					 r->text ? r->text : "");
		if (record_is(r, "ok") || record_is(r, "copied"))
			break;
		if (handover_take_record(t, r, err) != 0)
			return error_wrap(err, call_path(c));
	}
	return incoming_whole(&t->in, err) == 0 ? 0 : error_wrap(err, call_path(c));
}

/* Says `taken`, waits for the answer, and then for the old server's end, which is the end of the
 * connection. Without the answer it may not have heard us, and may still be there. */
static int part_from(struct call *c, struct record *r, struct error *err)
{
	struct error ignored;

	if (handover_say(c, "taken\n", err) != 0 ||
	    call_receive_within(c, r, GONE_SECONDS, err) != 0)
		return -1;
	if (!record_is(r, "ok"))
		return error_set(err, ERROR_UNAVAILABLE, call_path(c), "it did not let go: %s",
				 r->text ? r->text : r->type);
	(void)call_receive_within(c, r, GONE_SECONDS, &ignored);
	return 0;
}

/* Takes all by this request; then c is the connection. */
static int handover_take_by(struct ps *p, const char *path, struct record_out *request,
			    struct record *r, struct call **c, struct error *err)
{
	struct taking t = {.ps = p, .in.store = p->store};
	int rc = incoming_begin(&t.in, err);

	if (rc == 0)
		rc = call_open(&t.in.call, path, 0.0, ANSWER_SECONDS, err);
	if (rc == 0)
		rc = handover_take_all(&t, request, r, err);
	*c = t.in.call;
	incoming_end(&t.in);
	return rc;
}

int ps_take(struct ps *p, const char *path, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct call *c = NULL;

	if (!r)
		return error_set(err, ERROR_OS, path, "out of memory");
	int rc = handover_take_by(p, path,
				  RECORD("take-over", F("incarnation", p->options.incarnation)), r,
				  &c, err);
	if (rc == 0)
		rc = part_from(c, r, err);
	/* A pull that waits for the last unit has waited until now. */
	p->reached[p->applied % PS_REACHED] = clock_mono();
	call_close(c);
	free(r);
	return rc;
}

int standby_take(struct ps *p, const char *path, const char *socket, const char *name,
		 struct call **out, struct error *err)
{
	struct record *r = malloc(sizeof *r);

	if (!r)
		return error_set(err, ERROR_OS, path, "out of memory");
	double until = clock_mono() + BEHIND_SECONDS;
	int rc = -1;
	while (rc != 0) {
		rc = handover_take_by(p, path,
				      RECORD("follow", F("incarnation", p->options.incarnation),
					     F("socket", socket), name ? F("name", name) : F_NONE,
					     name ? F("pid", (uint64_t)getpid()) : F_NONE),
				      r, out, err);
		/* A part that was a standby a moment ago refuses only for that reason. */
		if (rc == 0 || err->code != ERROR_TEMPFAIL || !call_greets_with(*out, "behind") ||
		    clock_mono() > until)
			break;
		call_close(*out);
		*out = NULL;
		clock_sleep(AGAIN_SECONDS);
	}
	free(r);
	return rc;
}
