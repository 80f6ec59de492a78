/*
 * The requests that every part answers, pulls excepted.  Nothing that a client sends is trusted: sizes, keys and
 * order are checked before anything is kept, and memory that a client can still write is read once.
 *
 * Never decides what is applied.
 */
#include "ps/ps_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ps_new(struct ps **out, const struct ps_options *options, struct error *err)
{
	struct ps *p = calloc(1, sizeof *p);

	if (!p)
		return error_set(err, ERROR_OS, "ps", "no memory");
	p->options = *options;
	p->drag.path = options->drag;
	p->store = options->store;
	p->applied = options->iteration;
	p->handed_fd = -1;
	p->reported = clock_mono();
	p->waits_end = &p->waits;
	p->rooms = rooms_new();
	if (!p->rooms)
		error_set(err, ERROR_OS, "ps", "no memory");
	if (!p->rooms || stage_new(&p->stage, err) != 0) {
		rooms_free(p->rooms);
		free(p);
		return -1;
	}
	*out = p;
	return 0;
}

int ps_start(struct ps *p, struct server *server, struct error *err)
{
	struct peer_options options = {.path = p->options.monitor, .owner = p};

	p->server = server;
	if (ps_hand_start(p, err) != 0 || ps_waits_start(p, err) != 0)
		return -1;
	if (!p->options.monitor)
		return 0;
	p->monitor = peer_new(server_base(server), &options);
	if (!p->monitor)
		return error_set(err, ERROR_OS, p->options.monitor, "no memory");
	return 0;
}

static void wait_free(struct ps_wait *w)
{
	struct ps *p = w->ps;

	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	else
		p->waits_end = w->at;
	staged_free(w->push);
	free(w->row);
	free(w);
}

void ps_stop(struct ps *p)
{
	if (!p)
		return;
	fork_stop(p->fork);
	ps_hand_stop(p);
	ps_waits_stop(p);
	if (p->monitor)
		peer_free(p->monitor);
}

void ps_free(struct ps *p)
{
	if (!p)
		return;
	stage_free(p->stage);
	rooms_free(p->rooms);
	free(p->scratch);
	free(p->unit);
	if (p->handed_fd >= 0)
		close(p->handed_fd);
	free(p);
}

const struct error *ps_broken(const struct ps *p)
{
	return p->broken ? &p->error : NULL;
}

void ps_break(struct ps *p, const struct error *err)
{
	if (!p->broken)
		p->error = *err;
	p->broken = 1;
	server_stop(p->server);
}

uint64_t ps_iteration(const struct ps *p)
{
	return p->applied;
}

/* ---- waiting for an iteration ---- */

static void on_cancel(struct request *rq, void *arg)
{
	(void)rq;
	wait_free(arg);
}

void ps_wait_add(struct ps_wait *w, struct ps *p, struct request *rq, uint64_t iteration)
{
	w->ps = p;
	w->rq = rq;
	w->iteration = iteration;
	w->at = p->waits_end;
	w->next = NULL;
	*p->waits_end = w;
	p->waits_end = &w->next;
	request_defer(rq, on_cancel, w);
}

/* Whether a request of a worker is of this incarnation; answers when not. */
int ps_in_force(struct ps *p, struct request *rq)
{
	struct error err;
	uint64_t incarnation;

	if (record_u64(request_record(rq), "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0) {
		request_bad(rq, &err);
		return 0;
	}
	if (incarnation != p->options.incarnation) {
		request_err(rq, "fenced", "incarnation %llu is in force",
			    (unsigned long long)p->options.incarnation);
		return 0;
	}
	return 1;
}

/* ---- push ---- */

int ps_push_fields(const struct record *r, struct staged *s, uint64_t *dense, uint64_t *rows,
		       struct error *err)
{
	const char *worker;

	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX - 1, &s->generation, err) != 0 ||
	    record_u64(r, "sequence", 0, UINT64_MAX - 1, &s->sequence, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX - 1, &s->iteration, err) != 0 ||
	    record_u64(r, "count", 0, PS_COUNT_MAX, &s->push.count, err) != 0 ||
	    record_u64_opt(r, "size", 0, PS_COUNT_MAX, &s->push.size, err) != 0 ||
	    record_u64(r, "dense", 0, 1, dense, err) != 0 ||
	    record_u64(r, "rows", 0, UINT32_MAX, rows, err) != 0)
		return -1;
	snprintf(s->worker, sizeof s->worker, "%s", worker);
	s->push.scale = 1.0;
	return 0;
}

/* Finds the parts of the payload: float dense[count], u32 keys[rows], float rows[rows * width]. */
int ps_push_find(struct ps *p, struct staged *s, const void *bulk, size_t have, uint64_t dense,
		 uint64_t rows, struct error *err)
{
	uint64_t width = store_width(p->store);
	uint64_t count = dense ? store_dense_count(p->store) : 0;
	uint64_t want = (count + rows * (1 + width)) * sizeof(float);
	float **row = NULL;

	if (rows && width == 0)
		return error_set(err, ERROR_DATA, NULL, "rows=%llu, but there is no table",
				 (unsigned long long)rows);
	if (want != have)
		return error_set(
			err, ERROR_DATA, NULL,
			"a payload of %zu bytes, %llu floats and %llu rows of %llu make %llu", have,
			(unsigned long long)count, (unsigned long long)rows,
			(unsigned long long)width, (unsigned long long)want);
	if (have == 0)
		return 0;
	const float *data = bulk;
	const uint32_t *key = (const uint32_t *)(const void *)(data + count);
	s->push.dense = count ? data : NULL;
	if (rows) {
		row = malloc((size_t)rows * sizeof *row);
		if (!row)
			return error_set(err, ERROR_OS, NULL, "no memory for %llu rows",
					 (unsigned long long)rows);
		s->push.row = row;
		s->push.rows = (size_t)rows;
		s->push.row_gradient = data + count + rows;
		if (store_rows(p->store, key, (size_t)rows, 1, row, err) != 0)
			return -1;
	}
	return 0;
}

/* Which gradient can't be applied, by the numbers of the first such ones; n: none. */
static void note_diverged(const struct ps *p, struct staged *s, size_t dense, size_t row)
{
	size_t width = store_width(p->store);
	char name[LAYOUT_NAME_MAX + 32];
	const char *what = "parameter";
	float value;

	if (s->push.count == 0)
		return; /* it is never applied */
	if (s->push.dense && dense < store_dense_count(p->store)) {
		store_dense_name(p->store, dense, name, sizeof name);
		value = s->push.dense[dense];
	} else if (row < s->push.rows * width) {
		snprintf(name, sizeof name, "%u", table_key(s->push.row[row / width]));
		what = "key";
		value = s->push.row_gradient[row];
	} else
		return;
	s->diverged = 1;
	snprintf(s->why, sizeof s->why, "the gradient of %s %.100s is %g, beyond %g", what, name,
		 (double)value, (double)OPT_GRADIENT_MAX);
}

void ps_push_judge(const struct ps *p, struct staged *s)
{
	size_t dense = s->push.dense ? store_dense_count(p->store) : 0;

	note_diverged(p, s, opt_bad_gradient(s->push.dense, dense),
		      opt_bad_gradient(s->push.row_gradient, s->push.rows * store_width(p->store)));
}

/* Gradients in memory that the client can still write are copied, and the copy is judged: what was
 * judged is what is applied, whatever the client does meanwhile. */
static int push_copy(struct ps *p, struct staged *s, struct error *err)
{
	size_t dense = s->push.dense ? store_dense_count(p->store) : 0;
	size_t rows = s->push.rows * store_width(p->store);
	float *own = room_take(p->rooms, (dense + rows) * sizeof *own);

	if (!own)
		return error_set(err, ERROR_OS, NULL, "no memory for a push of %zu floats",
				 dense + rows);
	size_t bad_dense = store_copy_judged(own, s->push.dense, dense);
	size_t bad_row = store_copy_judged(own + dense, s->push.row_gradient, rows);
	s->room = own;
	s->push.dense = dense ? own : NULL;
	s->push.row_gradient = own + dense;
	note_diverged(p, s, bad_dense, bad_row);
	return 0;
}

static int push_payload(struct ps *p, struct staged *s, struct payload *payload, uint64_t dense,
			uint64_t rows, struct error *err)
{
	if (ps_push_find(p, s, payload ? payload_data(payload) : NULL,
			 payload ? payload_bytes(payload) : 0, dense, rows, err) != 0)
		return -1;
	if (payload && payload_is_shared(payload))
		return push_copy(p, s, err);
	s->payload = payload ? payload_hold(payload) : NULL;
	ps_push_judge(p, s);
	return 0;
}

int ps_push_read(struct ps *p, struct request *rq, struct staged **out, struct error *err)
{
	struct staged *s = calloc(1, sizeof *s);
	uint64_t dense, rows;
	double start = clock_mono();

	if (!s)
		return error_set(err, ERROR_OS, NULL, "no memory");
	p->pushes++;
	if (ps_push_fields(request_record(rq), s, &dense, &rows, err) != 0 ||
	    push_payload(p, s, request_payload(rq), dense, rows, err) != 0) {
		staged_free(s);
		return -1;
	}
	*out = s;
	p->work += clock_mono() - start;
	return 0;
}

int ps_push_keep(struct ps *p, struct staged *push, struct error *err)
{
	return stage_put(p->stage, push, err);
}

void ps_push_drop(struct ps *p, const char *worker, uint64_t generation, uint64_t sequence)
{
	stage_drop(p->stage, worker, generation, sequence);
}

void ps_throw(struct ps *p, const char *worker, uint64_t generation)
{
	stage_throw(p->stage, worker, generation);
}

/* At the 1st, 2nd, 4th, ... time: `stat` has the number, and a client can't fill the disk. */
int ps_tell(uint64_t count)
{
	return (count & (count - 1)) == 0;
}

void ps_diverged_because(struct ps *p, struct request *rq, const char *why)
{
	const char *worker = record_get(request_record(rq), "worker");
	const char *iteration = record_get(request_record(rq), "iteration");

	worker = worker ? worker : "";
	iteration = iteration ? iteration : "";
	if (ps_tell(++p->diverged))
		log_say(LOG_LEVEL_WARNING,
			"a push of %.64s in iteration %.20s is refused: %s; %llu so far", worker,
			iteration, why, (unsigned long long)p->diverged);
	request_err(rq, "diverged", "worker %.64s, iteration %.20s: %s", worker, iteration, why);
}

void ps_diverged(struct ps *p, struct request *rq, struct staged *push)
{
	ps_diverged_because(p, rq, push->why);
	staged_free(push);
}

/* A part that is not the lead: keep it and say so. */
static void push_accept(struct ps *p, struct request *rq, struct staged *s)
{
	struct error err = {0};

	if (p->options.bsp && s->iteration < p->applied) {
		/* Its unit is over: the lead will settle it as dropped. */
		staged_free(s);
	} else if (stage_put(p->stage, s, &err) != 0) {
		staged_free(s);
		request_err(rq, err.code == ERROR_DATA ? "fenced" : "no-memory", "%s", err.text);
		return;
	}
	request_ok(rq, "staged=1");
}

static void on_push(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct staged *s;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (ps_push_read(p, rq, &s, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (s->diverged) {
		ps_diverged(p, rq, s);
		return;
	}
	if (s->iteration <= p->applied) {
		push_accept(p, rq, s);
		return;
	}
	struct ps_wait *w = calloc(1, sizeof *w);
	if (!w) {
		staged_free(s);
		request_err(rq, "no-memory", "for a push that waits");
		return;
	}
	w->push = s;
	ps_wait_add(w, p, rq, s->iteration);
}

void ps_answer_wait(struct ps_wait *w)
{
	struct ps *p = w->ps;
	struct request *rq = w->rq;
	struct staged *s = w->push;

	w->push = NULL;
	if (s)
		push_accept(p, rq, s);
	else
		ps_pull_answer(p, rq, &w->pull, w->row);
	wait_free(w);
}

/* ---- the lead's requests ---- */

static void on_throw(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const char *worker;
	uint64_t generation;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_u64(request_record(rq), "generation", 0, UINT64_MAX, &generation, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	ps_throw(p, worker, generation);
	request_ok(rq, NULL);
}

static void forked(const struct fork_result *result, void *ps)
{
	struct ps *p = ps;
	fork_done_fn *done = p->fork_done;

	p->fork = NULL;
	done(result, p->fork_arg);
}

int ps_cut(struct ps *p, const char *path, fork_done_fn *done, void *arg, struct error *err)
{
	if (p->fork)
		return error_set(err, ERROR_TEMPFAIL, path, "another cut is being written");
	p->fork_done = done;
	p->fork_arg = arg;
	return fork_start(&p->fork, p->server, p->store, path, forked, p, err);
}

/* A cut asked for over the socket. Its client may go first: the child writes on, nobody is told. */
static void asker_gone(struct request *rq, void *ps)
{
	(void)rq;
	((struct ps *)ps)->asked = NULL;
}

static void answer_cut(const struct fork_result *result, void *ps)
{
	struct ps *p = ps;
	struct request *rq = p->asked;
	char line[RECORD_LINE_MAX];
	struct record_out o;

	p->asked = NULL;
	if (rq && result->ok) {
		record_begin(&o, line, sizeof line, "ok");
		record_add(&o, "file", p->asked_path);
		record_add_u64(&o, "bytes", result->bytes);
		record_add_u64(&o, "sum", result->sum);
		record_add_seconds(&o, "stall", result->stall);
		request_ok_record(rq, &o);
	} else if (rq)
		request_err(rq, "cut", "%s", result->why);
}

static void on_cut(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const char *path;
	struct error err = {0};
	char name[CKPT_NAME_MAX], file[CKPT_PATH_MAX];
	uint64_t iteration = p->applied;

	if (!ps_in_force(p, rq))
		return;
	if (record_u64_opt(request_record(rq), "iteration", 0, UINT64_MAX, &iteration, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (iteration != p->applied) { /* said again, too late: the other parts were cut there */
		request_err(rq, "order", "%llu units are applied here, not %llu",
			    (unsigned long long)p->applied, (unsigned long long)iteration);
		return;
	}
	ckpt_part_name(p->options.part, name);
	if (record_text(request_record(rq), "path", &path, &err) != 0 ||
	    fs_join(file, sizeof file, path, name, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (ps_cut(p, file, answer_cut, p, &err) != 0) {
		request_err(rq, err.code == ERROR_TEMPFAIL ? "busy" : "cut", "%s", err.text);
		return;
	}
	memcpy(p->asked_path, file, sizeof file);
	p->asked = rq;
	request_defer(rq, asker_gone, p);
}

void ps_stat(struct request *rq, struct ps *p, const struct ps_lead_stat *lead)
{
	char line[RECORD_LINE_MAX], part[32];
	struct record_out o;

	snprintf(part, sizeof part, "%u/%u", p->options.part, p->options.parts);
	record_begin(&o, line, sizeof line, "stat");
	record_add(&o, "id", p->options.id);
	record_add(&o, "part", part);
	record_add_u64(&o, "iteration", p->applied);
	record_add_u64(&o, "incarnation", p->options.incarnation);
	record_add_u64(&o, "dense", store_dense_count(p->store));
	record_add_u64(&o, "rows", store_row_count(p->store));
	record_add_u64(&o, "staged", stage_count(p->stage));
	record_add_u64(&o, "pushes", p->pushes);
	record_add_u64(&o, "pulls", p->pulls);
	record_add_u64(&o, "diverged", p->diverged);
	record_add_u64(&o, "bounded", p->bounded);
	record_add_u64(&o, "members", lead ? lead->members : 0);
	if (lead) {
		record_add_u64(&o, "balances", lead->balances);
		record_add_brief(&o, "balance-us", lead->balance_us);
		record_add_u64(&o, "settles", lead->settles);
		record_add_brief(&o, "settle-us", lead->settle_us);
	}
	request_put_record(rq, &o);
	request_ok(rq, NULL);
}

static void on_stat(struct request *rq, void *ps)
{
	ps_stat(rq, ps, NULL);
}

static void on_take_over(struct request *rq, void *ps)
{
	ps_take_over(rq, ps);
}

static void on_taken(struct request *rq, void *ps)
{
	ps_not_given(rq, ps);
}

const struct verb ps_verbs[] = {
	{"pull", PS_PULL_KEYS, PS_PULL_MORE, ps_pull, PS_PAYLOAD_BYTES_MAX,
	 "parameters as of an iteration; payload: u32 keys"},
	{"push", PS_PUSH_KEYS, PS_PUSH_MORE, on_push, PS_PAYLOAD_BYTES_MAX,
	 "gradients, staged until the lead says apply"},
	{"hold", "incarnation", "", ps_on_hold, PS_APPLY_BYTES_MAX,
	 "the lead: keep these staged; those that are not here are told"},
	{"apply", "incarnation iteration units", "", ps_on_apply, PS_APPLY_BYTES_MAX,
	 "the lead: these staged parts are committed"},
	{"throw", "incarnation worker generation", "", on_throw, 0,
	 "the lead: staged parts of a fenced worker go"},
	{"cut", "incarnation path", "iteration", on_cut, 0,
	 "the lead: fork now and write this part into path"},
	{"take-over", "incarnation", "", on_take_over, 0,
	 "an heir: all that is here; then say taken, and this server ends"},
	{"taken", "", "", on_taken, 0, "an heir: it has it all"},
	{"stat", "", "", on_stat, 0, "what is here"},
};
const size_t ps_verb_count = sizeof ps_verbs / sizeof *ps_verbs;
