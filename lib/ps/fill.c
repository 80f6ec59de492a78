/*
 * Parameters from one replica to another.
 *
 * The giving side forks: the child writes the parameters, as they were at the fork, to the
 * connection, and this process goes on serving.  The taking side reads in a thread.  Meanwhile it
 * has no parameters and says so to those who ask for them, but it still obeys other orders of the
 * lead.
 */
#include "ps/replica.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "ps/incoming.h"
#include "record/record.h"
#include "wire/timer.h"

#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_SECONDS 5.0
#define AGAIN_SECONDS 0.05 /* between attempts to connect */
#define PAUSE_SECONDS 20.0 /* longest time in which the other side sends or takes nothing */
#define TELL_SECONDS 2.0   /* between two reports of progress */
#define COPIES_MAX 8       /* at a time */
#define PATH_MAX_BYTES 4096

/* ---- giving ---- */

struct copies {
	struct copies *next;
	struct ps_replica *replica;
	struct request *rq; /* NULL: its client has gone */
	struct connection *connection;
	uint64_t iteration;
	struct fork_child *child;
};

static int fill_write_all(void *ps, int fd, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	const struct ps *p = ps;
	struct call *c;

	*bytes = *sum = 0;
	if (call_adopt(&c, fd, "copy", PAUSE_SECONDS, err) != 0)
		return -1;
	int rc = call_record(c,
			     RECORD("state", F("incarnation", p->options.incarnation),
				    F("iteration", p->applied)),
			     NULL, 0, err);
	if (rc == 0)
		rc = outgoing_write(p->store, c, err);
	call_close(c);
	return rc;
}

static void on_copied(const struct fork_result *forked, void *copy)
{
	struct copies *c = copy, **at = &c->replica->copies;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->rq && forked->ok) {
		request_ok(c->rq, "iteration=%llu", (unsigned long long)c->iteration);
	} else if (c->rq) { /* part of it may have been sent */
		log_say(LOG_LEVEL_WARNING, "a copy came to nothing: %s", forked->why);
		connection_close(c->connection);
		request_defer(c->rq, NULL, NULL);
	}
	free(c);
}

static void taker_gone(struct request *rq, void *copy)
{
	(void)rq;
	((struct copies *)copy)->rq = NULL; /* the child finds out itself */
}

static void fill_copy(struct ps_replica *r, struct request *rq)
{
	struct copies *c = calloc(1, sizeof *c);
	struct connection *connection = request_connection(rq);
	struct fork_job job = {.work = fill_write_all,
			       .owner = r->ps,
			       .name = "a copy",
			       .keep = connection_fd(connection)};
	struct error err = {0};

	if (!c) {
		request_err(rq, "no-memory", "for a copy");
		return;
	}
	*c = (struct copies){r->copies, r, rq, connection, r->ps->applied, NULL};
	if (ps_fork(r->ps, &c->child, &job, on_copied, c, &err) != 0) {
		free(c);
		request_err(rq, "no-memory", "%s", err.text);
		return;
	}
	r->copies = c;
	request_defer(rq, taker_gone, c);
}

void fill_on_copy(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct ps_replica *r = p->replica;
	uint64_t iteration = 0;
	size_t count = 0;
	struct error err = {0};

	if (!ps_in_force(p, rq) || !ps_replica_serves(r, rq))
		return;
	for (const struct copies *c = r->copies; c; c = c->next)
		count++;
	if (record_u64_opt(request_record(rq), "iteration", 0, UINT64_MAX, &iteration, &err) != 0)
		request_bad(rq, &err);
	else if (iteration > p->applied)
		request_err(rq, "order", "%llu units are applied here, not %llu",
			    (unsigned long long)p->applied, (unsigned long long)iteration);
	else if (count >= COPIES_MAX)
		request_err(rq, "busy", "%d copies are being written", COPIES_MAX);
	else if (!request_is_alone(rq)) /* the child writes to the connection: nothing else may */
		request_err(rq, "busy", "ask for a copy when all before it is answered");
	else
		fill_copy(r, rq);
}

/* ---- taking ---- */

struct fill {
	struct ps_replica *replica;
	struct request *asked; /* NULL: nobody waits */
	char from[PATH_MAX_BYTES];
	uint64_t least; /* units that the source must have applied */
	struct event *done;
	int pipe[2];
	pthread_t thread;
	int runs;
	atomic_int over;   /* nobody wants it any more */
	atomic_ulong came; /* records */
	unsigned long told;
	struct timer *tell;
	pthread_mutex_t lock;
	struct call *call; /* with the lock; NULL: not open */
	/* what the thread leaves behind */
	int rc;
	uint64_t iteration;
	struct error error;
	/* what is to be filled next, instead of this */
	struct request *next_asked;
	char next_from[PATH_MAX_BYTES];
	uint64_t next_least;
	int next;
};

static int fill_take_state(struct fill *f, const struct record *r, struct error *err)
{
	uint64_t incarnation;

	if (record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &f->iteration, err) != 0)
		return -1;
	if (incarnation != f->replica->ps->options.incarnation || f->iteration < f->least)
		return error_set(err, ERROR_TEMPFAIL, NULL, "incarnation %llu, iteration %llu",
				 (unsigned long long)incarnation, (unsigned long long)f->iteration);
	return 0;
}

static int fill_take_all(struct fill *f, struct incoming *in, struct record *r, struct error *err)
{
	char line[128];
	int head = 0;
	int len = snprintf(line, sizeof line, "copy incarnation=%llu iteration=%llu\n",
			   (unsigned long long)f->replica->ps->options.incarnation,
			   (unsigned long long)f->least);

	if (call_send(in->call, line, (size_t)len, NULL, 0, err) != 0)
		return -1;
	for (;;) {
		if (call_receive(in->call, r, err) != 0)
			return -1;
		if (record_is(r, "err"))
			return error_set(err, ERROR_TEMPFAIL, NULL, "%s: %s",
					 record_get(r, "code") ? record_get(r, "code") : "",
					 r->text ? r->text : "");
		if (record_is(r, "ok"))
			return incoming_whole(in, err);
		if (!head && !record_is(r, "state"))
			return error_set(err, ERROR_DATA, NULL, "%.64s before state", r->type);
		if (head ? incoming_record(in, r, err) < 0 : fill_take_state(f, r, err) != 0)
			return -1;
		head = 1;
		atomic_fetch_add(&f->came, 1);
	}
}

/* From now on fill_give_up() can cut the connection c; NULL: none. */
static void fill_show(struct fill *f, struct call *c)
{
	pthread_mutex_lock(&f->lock);
	f->call = c;
	pthread_mutex_unlock(&f->lock);
}

static int fill_is_over(struct fill *f, struct error *err)
{
	if (!atomic_load(&f->over))
		return 0;
	error_set(err, ERROR_TEMPFAIL, NULL, "given up");
	return 1;
}

/* Opens the source. fill_give_up() also works for a source that accepts and does not greet. */
static int open_source(struct fill *f, struct call **out, struct error *err)
{
	double deadline = clock_mono() + CONNECT_SECONDS;

	for (;;) {
		if (call_connect(out, f->from, PAUSE_SECONDS, err) == 0) {
			fill_show(f, *out);
			if (!fill_is_over(f, err) && call_greet(*out, err) == 0)
				return 0;
			fill_show(f, NULL);
			call_close(*out);
			*out = NULL;
		}
		if (fill_is_over(f, err) ||
		    (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TEMPFAIL) ||
		    clock_mono() >= deadline)
			return -1;
		clock_sleep(AGAIN_SECONDS);
	}
}

static int fill_take(struct fill *f, struct error *err)
{
	struct incoming in = {.store = f->replica->ps->store};
	struct record *r = malloc(sizeof *r);
	int rc = r ? incoming_begin(&in, err) : error_set(err, ERROR_OS, NULL, "out of memory");

	if (rc == 0)
		rc = open_source(f, &in.call, err);
	if (rc == 0) {
		rc = fill_is_over(f, err) ? -1 : fill_take_all(f, &in, r, err);
		fill_show(f, NULL);
	}
	call_close(in.call);
	incoming_end(&in);
	free(r);
	return rc;
}

static void *fill_thread_main(void *fill)
{
	struct fill *f = fill;

	f->rc = fill_take(f, &f->error);
	(void)!write(f->pipe[1], "", 1);
	return NULL;
}

/* Gives up the taking that runs; it ends soon. */
static void fill_give_up(struct fill *f)
{
	atomic_store(&f->over, 1);
	pthread_mutex_lock(&f->lock);
	if (f->call)
		(void)shutdown(call_fd(f->call), SHUT_RDWR);
	pthread_mutex_unlock(&f->lock);
}

static void fill_asker_gone(struct request *rq, void *fill)
{
	struct fill *f = fill;

	if (f->asked == rq)
		f->asked = NULL;
	if (f->next_asked == rq)
		f->next_asked = NULL;
}

static void fill_answer_err(struct request **asked, const char *code, const char *text)
{
	struct request *rq = *asked;

	*asked = NULL;
	if (rq)
		request_err(rq, code, "%s", text);
}

static int fill_run(struct fill *f, struct error *err)
{
	struct ps *p = f->replica->ps;

	atomic_store(&f->over, 0);
	atomic_store(&f->came, 0);
	f->told = 0;
	f->replica->state = REPLICA_EMPTY;
	if (store_empty(p->store, err) != 0)
		return -1;
	f->rc = -1;
	f->error = (struct error){0};
	if (thread_start(&f->thread, fill_thread_main, f) != 0)
		return error_set(err, ERROR_OS, NULL, "no thread");
	f->runs = 1;
	f->replica->state = REPLICA_FILLING;
	timer_set(f->tell, TELL_SECONDS);
	return 0;
}

static void fill_begin(struct fill *f)
{
	struct error err = {0};

	if (fill_run(f, &err) != 0)
		fill_answer_err(&f->asked, "no-memory", err.text);
}

/* Reports progress: the lead waits as long as something comes. */
static void on_tell(void *fill)
{
	struct fill *f = fill;
	unsigned long came = atomic_load(&f->came);

	if (!f->runs)
		return;
	if (f->asked && came != f->told) {
		request_put_record(f->asked, RECORD("filling", F("records", came)));
	}
	f->told = came;
	timer_set(f->tell, TELL_SECONDS);
}

static void filled(struct fill *f)
{
	struct ps_replica *r = f->replica;
	struct ps *p = r->ps;
	struct request *rq = f->asked;

	f->asked = NULL;
	p->applied = f->iteration;
	p->reached[p->applied % PS_REACHED] = clock_mono();
	r->state = REPLICA_SERVING;
	log_say(LOG_LEVEL_INFO, "filled from %s at iteration %llu", f->from,
		(unsigned long long)f->iteration);
	if (rq)
		request_ok(rq, "iteration=%llu", (unsigned long long)f->iteration);
}

static void fill_on_done(evutil_socket_t fd, short what, void *fill)
{
	struct fill *f = fill;
	char byte, text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];

	(void)what;
	if (read(fd, &byte, 1) != 1)
		return;
	pthread_join(f->thread, NULL);
	f->runs = 0;
	f->replica->state = REPLICA_EMPTY;
	if (f->next) {
		f->next = 0;
		f->asked = f->next_asked;
		f->next_asked = NULL;
		memcpy(f->from, f->next_from, sizeof f->from);
		f->least = f->next_least;
		fill_begin(f);
	} else if (f->rc == 0) {
		filled(f);
	} else {
		error_format(&f->error, text, sizeof text);
		log_say(LOG_LEVEL_WARNING, "not filled from %s: %s", f->from, text);
		fill_answer_err(&f->asked, "fill", text);
	}
}

/* Forgets everything that was here: it is of no use any more. */
static void forget_all(struct ps_replica *r)
{
	round_end(r, "empty", "it is filled anew");
	ps_waits_refuse(r->ps, "empty", "there are no parameters here yet");
	stage_drop_all(r->ps->stage);
	early_drop(r, NULL, UINT64_MAX);
}

void fill_on_fill(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct fill *f = p->replica->fill;
	struct round *rd = &p->replica->round;
	const char *from;
	uint64_t least, round = rd->number;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_text(request_record(rq), "from", &from, &err) != 0 ||
	    record_u64_opt(request_record(rq), "round", 1, UINT64_MAX, &round, &err) != 0 ||
	    record_u64(request_record(rq), "iteration", 0, UINT64_MAX, &least, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	/* An old lead's order would empty what a newer one has filled. */
	if (round < rd->number) {
		request_err(rq, "stale", "round %llu is in force", (unsigned long long)rd->number);
		return;
	}
	fill_answer_err(&f->asked, "stale", "another fill was asked for");
	fill_answer_err(&f->next_asked, "stale", "another fill was asked for");
	if (!f->runs)
		forget_all(p->replica);
	rd->number = round;
	if (f->runs) {
		f->next = 1;
		f->next_asked = rq;
		snprintf(f->next_from, sizeof f->next_from, "%s", from);
		f->next_least = least;
		request_defer(rq, fill_asker_gone, f);
		fill_give_up(f);
		return;
	}
	f->asked = rq;
	snprintf(f->from, sizeof f->from, "%s", from);
	f->least = least;
	request_defer(rq, fill_asker_gone, f);
	fill_begin(f);
}

/* ---- life ---- */

int fill_start(struct ps_replica *r, struct error *err)
{
	struct fill *f = calloc(1, sizeof *f);

	if (!f)
		return error_set(err, ERROR_OS, "replica", "out of memory");
	f->replica = r;
	f->pipe[0] = f->pipe[1] = -1;
	pthread_mutex_init(&f->lock, NULL);
	r->fill = f;
	if (pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return error_errno(err, ERROR_OS, "replica", "pipe");
	f->done = event_new(server_base(r->ps->server), f->pipe[0], EV_READ | EV_PERSIST,
			    fill_on_done, f);
	f->tell = timer_new(server_base(r->ps->server), on_tell, f);
	if (!f->tell || !f->done || event_add(f->done, NULL) != 0)
		return error_set(err, ERROR_OS, "replica", "out of memory");
	return 0;
}

void fill_stop(struct ps_replica *r)
{
	struct fill *f = r->fill;

	for (struct copies *c = r->copies, *next; c; c = next) {
		next = c->next;
		fork_stop(c->child);
		if (c->rq)
			request_defer(c->rq, NULL, NULL);
		free(c);
	}
	r->copies = NULL;
	if (!f)
		return;
	if (f->runs) {
		fill_give_up(f);
		pthread_join(f->thread, NULL);
		f->runs = 0;
	}
	if (f->done)
		event_free(f->done);
	f->done = NULL;
	timer_free(f->tell);
	f->tell = NULL;
}

/* After the server, and its requests, have gone. */
void fill_free(struct ps_replica *r)
{
	struct fill *f = r->fill;

	if (!f)
		return;
	if (f->pipe[0] >= 0)
		close(f->pipe[0]);
	if (f->pipe[1] >= 0)
		close(f->pipe[1]);
	pthread_mutex_destroy(&f->lock);
	free(f);
	r->fill = NULL;
}
