/*
 * States of trainers on their way to a rank that has none: parameters, optimizer and whatever else a
 * trainer saves.  A rank hands its state over as a sealed file of memory, and other ranks get that
 * file; a replica of another host gets its bytes.  What is in it only trainers know.  It is kept for
 * two minutes: whoever asks later is told that it is not here, and the lead has it given once more.
 *
 * A child fetches a state from another host, so that this process never waits.
 */
#include "ps/replica.h"

#include "base/keep.h"
#include "base/log.h"
#include "ckpt/memory.h"
#include "record/record.h"
#include "wire/timer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECT_SECONDS 2.0
#define PAUSE_SECONDS 20.0 /* longest time in which the other side sends nothing */
#define FETCHES_MAX 4      /* at a time */
#define KEPT_SECONDS 120.0 /* from when it came; whoever was told of it asks at once */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct ask {
	struct request *rq;
	struct ask *next;
};

struct fetch {
	struct ps_replica *replica;
	struct fork_child *child;
	uint64_t attempt;
	int fd; /* where it will be */
	char path[4096];
	struct ask *asks; /* who waits for it */
	struct fetch *next;
};

static struct ps_state *state_find(struct ps_replica *r, uint64_t attempt)
{
	for (size_t i = 0; i < PS_STATES; i++)
		if (r->state_kept[i].fd >= 0 && r->state_kept[i].attempt == attempt)
			return &r->state_kept[i];
	return NULL;
}

/* In place of the one that came first; fd is the replica's from now on. */
static void state_keep(struct ps_replica *r, const struct ps_state *s)
{
	struct ps_state *old = state_find(r, s->attempt);
	size_t i = old ? (size_t)(old - r->state_kept) : PS_STATES - 1;

	if (r->state_kept[i].fd >= 0)
		close(r->state_kept[i].fd);
	memmove(r->state_kept + 1, r->state_kept, i * sizeof *s);
	r->state_kept[0] = *s;
	timer_set(r->state_over, KEPT_SECONDS);
}

static void state_let_go(void *replica)
{
	struct ps_replica *r = replica;

	for (size_t i = 0; i < PS_STATES; i++) {
		if (r->state_kept[i].fd >= 0)
			close(r->state_kept[i].fd);
		r->state_kept[i].fd = -1;
	}
}

/* ---- giving ---- */

void ps_state_on_state(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const struct record *rec = request_record(rq);
	struct ps_state s = {.fd = request_passed(rq)};
	struct stat st;
	struct error err = {0};
	int seals = s.fd < 0 ? -1 : fcntl(s.fd, F_GET_SEALS), ok = 0;

	if (!ps_in_force(p, rq))
		;
	else if (record_u64(rec, "iteration", 0, UINT64_MAX, &s.iteration, &err) != 0 ||
		 record_u64(rec, "attempt", 0, UINT64_MAX, &s.attempt, &err) != 0 ||
		 record_u64(rec, "length", 1, INT64_MAX, &s.length, &err) != 0)
		request_bad(rq, &err);
	else if (seals < 0 || (seals & SEALS) != SEALS)
		request_err(rq, "bad-request",
			    "a state comes as a descriptor of memory, sealed against any change");
	else if (fstat(s.fd, &st) != 0 || (uint64_t)st.st_size != s.length)
		request_err(rq, "bad-request", "length=%llu, but the memory has %lld bytes",
			    (unsigned long long)s.length, (long long)st.st_size);
	else
		ok = 1;
	if (!ok) {
		if (s.fd >= 0)
			close(s.fd);
		return;
	}
	state_keep(p->replica, &s);
	request_ok(rq, NULL);
}

static void state_pass(const struct ps_state *s, struct request *rq)
{
	request_ok_with(rq, RECORD("ok", F("iteration", s->iteration), F("length", s->length)),
			s->fd);
}

struct whole {
	void *base;
	size_t bytes;
};

static void whole_release(void *whole)
{
	struct whole *w = whole;

	munmap(w->base, w->bytes);
	free(w);
}

/* To another replica. */
static void state_send(const struct ps_state *s, struct request *rq)
{
	struct whole *w = malloc(sizeof *w);

	if (w)
		*w = (struct whole){mmap(NULL, (size_t)s->length, PROT_READ, MAP_SHARED, s->fd, 0),
				    (size_t)s->length};
	if (!w || w->base == MAP_FAILED) {
		free(w);
		request_err(rq, "no-memory", "%llu bytes", (unsigned long long)s->length);
		return;
	}
	request_put_record(rq, RECORD("state", F("iteration", s->iteration),
				      F("bytes", s->length)));
	request_put_ref(rq, w->base, w->bytes, whole_release, w);
	request_ok(rq, NULL);
}

/* ---- fetching, in a child ---- */

static int fetch_bytes(struct call *c, int fd, uint64_t length, struct error *err)
{
	if (keep_fill(fd, length) != 0)
		return error_errno(err, ERROR_OS, NULL, "%llu bytes for a state",
				   (unsigned long long)length);
	void *base = mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return error_errno(err, ERROR_OS, NULL, "%llu bytes of a state",
				   (unsigned long long)length);
	int rc = call_bytes(c, base, (size_t)length, err);
	munmap(base, (size_t)length);
	return rc;
}

static int fetch_from(const struct fetch *f, struct call *c, int fd, struct record *r,
		      uint64_t *bytes, uint64_t *iteration, struct error *err)
{
	if (call_record(c,
			RECORD("state-get", F("incarnation", f->replica->ps->options.incarnation),
			       F("attempt", f->attempt)),
			NULL, 0, err) != 0)
		return -1;
	for (;;) {
		if (call_receive(c, r, err) != 0)
			return -1;
		if (record_is(r, "ok") && *bytes > 0)
			return 0;
		if (record_is(r, "err") || record_is(r, "ok"))
			return error_set(err, ERROR_TEMPFAIL, NULL, "%s",
					 r->text ? r->text : "it sends none");
		if (record_is(r, "state") &&
		    (record_u64(r, "iteration", 0, UINT64_MAX, iteration, err) != 0 ||
		     record_u64(r, "bytes", 1, INT64_MAX, bytes, err) != 0 ||
		     fetch_bytes(c, fd, *bytes, err) != 0))
			return -1;
	}
}

static int fetch_work(void *fetch, int fd, uint64_t *bytes, uint64_t *iteration, struct error *err)
{
	const struct fetch *f = fetch;
	struct call *c = NULL;
	struct record *r = malloc(sizeof *r);
	int rc = r ? call_open(&c, f->path, CONNECT_SECONDS, PAUSE_SECONDS, err)
		   : error_set(err, ERROR_OS, NULL, "out of memory");

	if (rc == 0)
		rc = fetch_from(f, c, fd, r, bytes, iteration, err);
	call_close(c);
	free(r);
	return rc;
}

/* ---- fetching, here ---- */

static void fetch_free(struct fetch *f)
{
	struct fetch **at = &f->replica->fetches;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

/* The child's `sum` is the iteration. */
static void fetch_done(const struct fork_result *forked, void *fetch)
{
	struct fetch *f = fetch;
	struct ps_state s = {f->attempt, forked->sum, forked->bytes, f->fd};
	struct stat st;
	int ok = forked->ok && fcntl(f->fd, F_ADD_SEALS, SEALS) == 0 && fstat(f->fd, &st) == 0 &&
		 (uint64_t)st.st_size == s.length;

	const char *why = forked->ok ? "it is not as long as was said, or can't be sealed" : forked->why;

	if (!ok)
		log_say(LOG_LEVEL_WARNING, "no state from %s: %s", f->path, why);
	for (struct ask *a = f->asks, *next; a; a = next) {
		next = a->next;
		if (ok)
			state_pass(&s, a->rq);
		else
			request_err(a->rq, "no-state", "%s: %s", f->path, why);
		free(a);
	}
	if (ok) {
		state_keep(f->replica, &s);
		f->fd = -1;
	}
	fetch_free(f);
}

static void asker_gone(struct request *rq, void *fetch)
{
	struct ask **at = &((struct fetch *)fetch)->asks, *a;

	while ((a = *at) && a->rq != rq)
		at = &a->next;
	if (!a)
		return;
	*at = a->next;
	free(a);
}

/* The other replica's socket is beside ours. NULL: err says why not. */
static struct fetch *fetch_begin(struct ps_replica *r, uint64_t attempt, const char *from,
				 struct error *err)
{
	const char *own = r->ps->options.socket, *slash = strrchr(own, '/');
	struct fetch *f = calloc(1, sizeof *f);
	struct fork_job job = {.work = fetch_work, .owner = f, .name = "a state"};

	if (!f) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		return NULL;
	}
	*f = (struct fetch){.replica = r, .attempt = attempt, .next = r->fetches};
	r->fetches = f;
	snprintf(f->path, sizeof f->path, "%.*s%s.sock", slash ? (int)(slash - own) + 1 : 0, own,
		 from);
	f->fd = keep_new(CKPT_MEMORY_STATE, err);
	job.keep = f->fd;
	if (f->fd >= 0 && fork_start(&f->child, r->ps->server, &job, fetch_done, f, err) == 0)
		return f;
	fetch_free(f);
	return NULL;
}

static void state_fetch(struct ps_replica *r, struct request *rq, uint64_t attempt,
			const char *from)
{
	struct fetch *f = r->fetches;
	struct ask *a = calloc(1, sizeof *a);
	struct error err = {0};
	size_t count = 0;

	for (const struct fetch *one = f; one; one = one->next)
		count++;
	while (f && f->attempt != attempt)
		f = f->next;
	if (!a) {
		request_err(rq, "no-memory", "for a state");
	} else if (!f && count >= FETCHES_MAX) {
		request_err(rq, "busy", "%d states are being fetched", FETCHES_MAX);
	} else if (!f && !(f = fetch_begin(r, attempt, from, &err))) {
		request_err(rq, "no-memory", "%s", err.text);
	} else {
		*a = (struct ask){rq, f->asks};
		f->asks = a;
		request_defer(rq, asker_gone, f);
		return;
	}
	free(a);
}

void ps_state_on_get(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const char *from = record_get(request_record(rq), "from");
	uint64_t attempt;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_u64(request_record(rq), "attempt", 0, UINT64_MAX, &attempt, &err) != 0 ||
	    (from && record_id(request_record(rq), "from", &from, &err) != 0)) {
		request_bad(rq, &err);
		return;
	}
	const struct ps_state *s = state_find(p->replica, attempt);
	if (s && from)
		state_pass(s, rq);
	else if (s)
		state_send(s, rq);
	else if (from && strcmp(from, p->options.id) != 0)
		state_fetch(p->replica, rq, attempt, from);
	else
		request_err(rq, "no-state", "the state of attempt %llu is not here",
			    (unsigned long long)attempt);
}

/* ---- life ---- */

int ps_state_start(struct ps_replica *r, struct error *err)
{
	r->state_over = timer_new(server_base(r->ps->server), state_let_go, r);
	return r->state_over ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

void ps_state_stop(struct ps_replica *r)
{
	timer_free(r->state_over);
	r->state_over = NULL;
	while (r->fetches) {
		struct fetch *f = r->fetches;
		fork_stop(f->child);
		for (struct ask *a = f->asks, *next; a; a = next) {
			next = a->next;
			request_defer(a->rq, NULL, NULL);
			free(a);
		}
		fetch_free(f);
	}
}

void ps_state_free(struct ps_replica *r)
{
	state_let_go(r);
}
