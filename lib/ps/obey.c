/*
 * Orders of the lead: as a struct from a lead in this process, or as a request over the socket.
 */
#include "ps/behind.h"
#include "ps/move.h"
#include "ps/replica.h"
#include "ps/standby.h"

#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/memory.h"
#include "param/store_move.h"
#include "record/record.h"
#include "wire/call.h"

#include <sys/stat.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- obeying ---- */

static void obey_done(const struct order_answer *a, const struct order_result *result)
{
	a->done(a->part, result, a->arg);
}

static void obey_refuse(const struct order_answer *a, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void obey_refuse(const struct order_answer *a, const char *code, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	struct order_result result = {.code = code, .text = text};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	obey_done(a, &result);
}

static void obey_refuse_iteration(struct ps *p, const struct order *o, const struct order_answer *a)
{
	obey_refuse(a, "order", "%llu units are applied here, not %llu",
		    (unsigned long long)p->applied, (unsigned long long)o->iteration);
}

static struct staged *obey_find(const struct ps *p, const struct order_push *q)
{
	struct staged *s = stage_find(p->stage, q->worker, q->generation, q->sequence);

	return s && s->push.count == q->count ? s : NULL;
}

static size_t obey_of_sum(const struct ps *p, const struct order_push *q, size_t n, uint64_t sum)
{
	size_t with = 0;

	for (size_t i = 0; i < n; i++) {
		const struct staged *s = obey_find(p, &q[i]);
		with += s && s->sum == sum;
	}
	return with;
}

/* Whether these gradients are what they are without sums: all of each sum are here. A push that was
 * repeated is staged anew, and may be missing in it, or be in it twice. */
static int sums_add_up(const struct ps *p, const struct order_push *q, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct staged *s = obey_find(p, &q[i]);
		if (s && s->sum && obey_of_sum(p, q, n, s->sum) != s->sum_of)
			return 0;
	}
	return 1;
}

int ps_keep_held(struct ps *p, const struct order *o, struct error *err)
{
	struct order_push *held = malloc((o->pushes + 1) * sizeof *held);

	if (!held)
		return error_set(err, ERROR_OS, "hold", "out of memory");
	if (o->pushes)
		memcpy(held, o->push, o->pushes * sizeof *held);
	free(p->held);
	p->held = held;
	p->helds = o->pushes;
	p->held_round = p->newest_round = o->round;
	return 0;
}

static void obey_hold(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct order_result result = {.code = NULL};
	struct error err = {0};

	if (o->round && o->round < p->newest_round) {
		obey_refuse(a, "stale", "there is a hold of round %llu already",
			    (unsigned long long)p->newest_round);
		return;
	}
	if (o->round && ps_keep_held(p, o, &err) != 0) {
		obey_refuse(a, "no-memory", "%s", err.text);
		return;
	}
	if (o->round)
		stage_let_go(p->stage);
	for (size_t at = 0, n; at < o->pushes; at += n) {
		const struct order_push *q = &o->push[at];
		for (n = 1; at + n < o->pushes && q[n].unit == q->unit;)
			n++;
		int adds_up = sums_add_up(p, q, n);
		for (size_t i = 0; i < n; i++) {
			struct staged *s = obey_find(p, &q[i]);
			if (s && adds_up)
				s->held = 1;
			else
				a->missing(a->part, q[i].worker, q[i].generation, q[i].sequence,
					   a->arg);
			if (!s || !adds_up)
				p->held_round = 0;
		}
	}
	obey_done(a, &result);
}

static void obey_apply(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct order_result result = {.repeated = o->iteration + o->units <= p->applied};
	struct order order = *o;
	struct error err = {0};
	size_t missing = 0;

	if (!result.repeated && o->iteration != p->applied) {
		obey_refuse_iteration(p, o, a);
		return;
	}
	if (o->held) {
		order.push = p->held;
		order.pushes = p->helds;
	}
	if (!result.repeated && o->held && o->held != p->held_round) {
		obey_refuse(a, "not-staged", "round %llu is not held here, %llu is",
			    (unsigned long long)o->held, (unsigned long long)p->held_round);
		return;
	}
	if (!result.repeated && ps_apply(p, &order, &missing, &err) != 0) {
		obey_refuse(a, "no-memory", "%s", err.text);
		return;
	}
	if (missing) {
		obey_refuse(a, "not-staged", "%zu parts are committed, but not staged here",
			    missing);
		return;
	}
	result.iteration = p->applied;
	obey_done(a, &result);
}

static void obey_throw(struct ps *p, const struct order *o, const struct order_answer *a)
{
	struct order_result result = {.code = NULL};

	if (o->one)
		stage_drop(p->stage, o->worker, o->generation, o->sequence);
	else {
		stage_throw(p->stage, o->worker, o->generation);
		if (p->replica)
			early_drop(p->replica, o->worker, o->generation);
	}
	ps_waits_run(p); /* pulls that were sent behind the dropped push */
	obey_done(a, &result);
}

void ps_cut_forget(struct ps *p)
{
	char dir[CKPT_PATH_MAX];

	unlink(p->cut_file);
	fs_dirname(p->cut_file, dir, sizeof dir);
	if (p->cut_made_dir)
		rmdir(dir); /* unless others have put their parts there */
	p->cut_made_dir = 0;
}

static void on_forked(const struct fork_result *forked, void *ps)
{
	struct ps *p = ps;
	struct order_result result = {.code = forked->ok ? NULL : "cut",
				      .text = forked->why,
				      .file = p->cut_file,
				      .bytes = forked->bytes,
				      .sum = forked->sum,
				      .stall = forked->stall};

	p->fork = NULL;
	if (!forked->ok)
		ps_cut_forget(p);
	obey_done(&p->cut_answer, &result);
}

/* Runs in a child, where the keeper's socket has another number. */
static int obey_write_part(void *ps, int keeper, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	const struct ps *p = ps;

	int rc = ckpt_write_part(p->store, p->cut_file, p->cut_since, p->options.level, bytes, sum, err);
	/* The part is on disk: if this fails, a server only starts more slowly. */
	if (rc == 0 && p->options.memory)
		ckpt_memory_write(p->store, p->options.memory, p->options.part, p->cut_since, *sum,
				  p->options.keeper >= 0 ? keeper : -1, NULL);
	return rc;
}

/* Starts a child that has the parameters as they are now. */
int ps_fork(struct ps *p, struct fork_child **out, struct fork_job *job, fork_done_fn *written,
	    void *arg, struct error *err)
{
	job->since = clock_mono();
	if (store_freeze(p->store, ps_team(p), err) != 0)
		return -1;
	int rc = fork_start(out, p->server, job, written, arg, err);
	store_thaw(p->store);
	return rc;
}

/* The mark since which rows must have changed to be written: the others are in the base, which is
 * beside this cut. If the base is not known here, as another process wrote it, all are written. */
static uint32_t since(const struct ps *p, const char *path, const char *base)
{
	char dir[CKPT_PATH_MAX], beside[CKPT_PATH_MAX];

	if (!base)
		return 0;
	fs_dirname(path, dir, sizeof dir);
	if (fs_join(beside, sizeof beside, dir, base, NULL) != 0)
		return 0;
	for (size_t i = 0; i < PS_FULLS; i++)
		if (strcmp(p->full[i].path, beside) == 0)
			return p->full[i].mark;
	return 0;
}

/* Notes that this cut has all rows, as they are now. */
static void note_full(struct ps *p, const char *path)
{
	struct ps_full *f = &p->full[p->fulls++ % PS_FULLS];

	snprintf(f->path, sizeof f->path, "%s", path);
	f->mark = store_mark(p->store);
}

static void obey_cut(struct ps *p, const struct order *o, const struct order_answer *a)
{
	char name[CKPT_NAME_MAX], file[CKPT_PATH_MAX];
	struct fork_job job = {.work = obey_write_part,
			       .owner = p,
			       .name = p->cut_file,
			       .keep = p->options.memory ? p->options.keeper : -1};
	struct error err = {0};

	ckpt_part_name(p->options.part, name);
	if (p->fork) {
		obey_refuse(a, "busy", "another cut is being written");
	} else if (o->iteration != ORDER_ANYWHERE && o->iteration != p->applied) {
		obey_refuse_iteration(p, o,
				      a); /* repeated too late: the others were cut earlier */
	} else if (fs_join(file, sizeof file, o->path, name, &err) != 0) {
		obey_refuse(a, "cut", "%s", err.text);
	} else {
		memcpy(p->cut_file, file, sizeof file);
		p->cut_answer = *a;
		p->cut_since = since(p, o->path, o->base);
		/* The lead has made the directory, but on its own host, which need not share files
		 * with this one. */
		p->cut_made_dir = mkdir(o->path, 0700) == 0;
		if (ps_fork(p, &p->fork, &job, on_forked, p, &err) != 0) {
			ps_cut_forget(p);
			obey_refuse(a, "cut", "%s", err.text);
		} else if (!o->base)
			note_full(p, o->path);
	}
}

static void obey_heat(struct ps *p, const struct order *o, const struct order_answer *a)
{
	char text[HEAT_TEXT];
	struct order_result result = {.attempt = o->attempt,
				      .heat = text,
				      .element = heat_element(&p->heat),
				      .heat_units = p->heat.units,
				      .dense_bytes = store_dense_bytes(p->store),
				      .row_bytes = store_row_bytes(p->store)};

	heat_text(&p->heat, store_width(p->store), text);
	obey_done(a, &result);
}

static void obey_not(struct ps *p, const struct order *o, const struct order_answer *a)
{
	(void)p;
	(void)o;
	obey_refuse(a, "no-replica", "it has a part of the parameters only");
}

static void ps_obey(void *ps, const struct order *o, const struct order_answer *a)
{
	static void (*const obey[ORDERS])(struct ps * p, const struct order *o,
					  const struct order_answer *a) = {
		[ORDER_HOLD] = obey_hold,
		[ORDER_APPLY] = obey_apply,
		[ORDER_THROW] = obey_throw,
		[ORDER_CUT] = obey_cut,
		[ORDER_SUM] = obey_not,
		[ORDER_FILL] = obey_not,
		[ORDER_PREPARE] = move_prepare,
		[ORDER_GIVE] = move_give,
		[ORDER_ADOPT] = move_adopt,
		[ORDER_CANCEL] = move_cancel,
		[ORDER_HEAT] = obey_heat,
	};

	obey[o->kind](ps, o, a);
}

/* Tells the standby, before it is obeyed here, so that both do it at the same time. */
static void obey_repeat(struct ps *p, const struct order *o)
{
	if (o->kind == ORDER_HOLD || o->kind == ORDER_APPLY || o->kind == ORDER_THROW)
		standby_order(p, o);
}

/* ---- from a lead in this process ---- */

struct here_asked {
	struct ps *ps;
	const struct order_answer *answer;
};

static void here_held(uint32_t part, const struct order_result *result, void *asked)
{
	struct here_asked *h = asked;

	(void)part;
	if (result->code)
		obey_done(h->answer, result);
	else
		standby_done(h->ps, h->answer);
}

static void here_missing(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
			 void *asked)
{
	const struct order_answer *a = ((struct here_asked *)asked)->answer;

	a->missing(part, worker, generation, sequence, a->arg);
}

/* What was applied a new lead can have applied again, if the standby holds it: so only a hold waits
 * for the standby. */
void ps_obey_here(void *ps, const struct order *o, const struct order_answer *a)
{
	struct here_asked asked = {ps, a};
	struct order_answer held = {
		.missing = here_missing, .done = here_held, .arg = &asked, .part = a->part};

	if (o->kind == ORDER_PREPARE || o->kind == ORDER_GIVE)
		standby_drop(ps, "parameters move");
	obey_repeat(ps, o);
	ps_obey(ps, o, o->kind == ORDER_HOLD ? &held : a);
}

/* ---- over the socket ---- */

/* An order that is carried out at once. */
struct obey_asked {
	struct ps *ps;
	struct request *rq;
};

static void put_missing(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
			void *asked)
{
	struct request *rq = ((struct obey_asked *)asked)->rq;

	(void)part;
	request_put_record(rq, RECORD("missing", F("worker", worker), F("generation", generation),
				      F("sequence", sequence)));
}

static void put_done(uint32_t part, const struct order_result *result, void *asked)
{
	struct obey_asked *a = asked;

	(void)part;
	if (result->code)
		request_err(a->rq, result->code, "%s", result->text);
	else
		standby_ok(a->ps, a->rq, "%s", "");
}

static void put_applied(uint32_t part, const struct order_result *result, void *asked)
{
	struct obey_asked *a = asked;

	if (result->code)
		put_done(part, result, asked);
	else if (a->ps->stands_by)
		request_ok(a->rq, "iteration=%llu reached=%llu",
			   (unsigned long long)result->iteration,
			   (unsigned long long)behind_reached(a->ps));
	else
		standby_ok(a->ps, a->rq, "iteration=%llu%s", (unsigned long long)result->iteration,
			   result->repeated ? " repeated=1" : "");
}

static void add_written(struct record_out *o, const struct order_result *result)
{
	record_add(o, "file", result->file);
	record_add_u64(o, "bytes", result->bytes);
	record_add_u64(o, "sum", result->sum);
	record_add_seconds(o, "stall", result->stall);
}

/* Answers an order that takes long, when it is done. With later=1, an order is answered at once:
 * with pending=1 while it is under way. Its sender asks again, and the result is kept until
 * then. */
static void put_long(struct ps_long *l, struct request *rq)
{
	const struct order_result *result = &l->result;

	l->is_kept = 0;
	if (result->code) {
		request_err(rq, result->code, "%s", result->text);
		return;
	}
	struct record_out *o = RECORD_BARE("ok");
	if (result->file)
		add_written(o, result);
	else
		record_add_u64(o, "bytes", result->bytes);
	request_ok_record(rq, o);
}

static const char *kept(char *room, size_t max, const char *text)
{
	if (text)
		snprintf(room, max, "%s", text);
	return text ? room : NULL;
}

static void on_long_done(uint32_t part, const struct order_result *result, void *asked)
{
	struct ps_long *l = asked;
	struct request *rq = l->rq;

	(void)part;
	l->over = 1;
	l->rq = NULL;
	l->result = *result;
	l->result.code = kept(l->code, sizeof l->code, result->code);
	l->result.text = kept(l->text, sizeof l->text, result->text);
	l->result.file = kept(l->file, sizeof l->file, result->file);
	if (rq)
		put_long(l, rq);
}

/* The client may go first: the order goes on, and nobody is told. */
static void obey_asker_gone(struct request *rq, void *asked)
{
	struct ps_long *l = asked;

	if (l->rq == rq)
		l->rq = NULL;
}

/* Whether it is under way; then it was not answered, or as pending. */
static int ask_long(struct ps *p, struct ps_long *l, const struct order *o, struct request *rq)
{
	struct order_answer answer = {.done = on_long_done, .arg = l};
	int again = o->later && l->is_kept && l->kind == o->kind && l->attempt == o->attempt;

	if (again && l->over) {
		put_long(l, rq);
		return 0;
	}
	if (!again && l->is_kept && !l->over) {
		request_err(rq, "busy", "another one is under way");
		return 0;
	}
	if (!again) {
		l->is_kept = 1;
		l->over = 0;
		l->kind = o->kind;
		l->attempt = o->attempt;
		l->rq = rq;
		ps_obey(p, o, &answer);
		if (l->over)
			return 0;
	}
	if (o->later) {
		obey_asker_gone(rq, l);
		request_ok(rq, "pending=1");
	} else {
		request_defer(rq, obey_asker_gone, l);
	}
	return 1;
}

int ps_give_cut(const struct ps *p, struct call *c, struct error *err)
{
	const struct ps_long *l = &p->cut;

	if (!l->is_kept || !l->over || l->result.code)
		return 0;
	struct record_out *o = RECORD("written", F("attempt", l->attempt));
	add_written(o, &l->result);
	return call_record(c, o, NULL, 0, err);
}

int ps_take_cut(struct ps *p, const struct record *r, struct error *err)
{
	struct ps_long *l = &p->cut;
	struct order_result *result = &l->result;
	const char *file;

	if (record_u64(r, "attempt", 0, UINT64_MAX, &l->attempt, err) != 0 ||
	    record_text(r, "file", &file, err) != 0 ||
	    record_u64(r, "bytes", 0, UINT64_MAX, &result->bytes, err) != 0 ||
	    record_u64(r, "sum", 0, UINT64_MAX, &result->sum, err) != 0 ||
	    record_real(r, "stall", 0.0, 1e9, &result->stall, err) != 0)
		return -1;
	result->file = kept(l->file, sizeof l->file, file);
	l->kind = ORDER_CUT;
	l->is_kept = l->over = 1;
	return 0;
}

static void cut(struct ps *p, const struct order *o, struct request *rq)
{
	if (!ask_long(p, &p->cut, o, rq) || o->later)
		return;
	/* The answer comes when the cut is written. But it is said at once that the cut is made,
	 * and so does not include later steps. */
	request_put_record(rq, RECORD("forked", F("iteration", p->applied)));
}

static int takes_parameters(const struct order *o)
{
	return o->kind == ORDER_CUT || o->kind == ORDER_PREPARE || o->kind == ORDER_GIVE;
}

/* They are not all here yet. */
static void put_off(const struct order *o, struct request *rq)
{
	if (o->later)
		request_ok(rq, "pending=1");
	else
		request_err(rq, "busy", "gradients that a standby lacked are on their way");
}

void ps_on_order(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct payload *payload = request_payload(rq);
	struct obey_asked asked = {p, rq};
	struct order_answer answer = {.missing = put_missing, .done = put_done, .arg = &asked};
	struct order order;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_is(request_record(rq), "cut") && p->replica &&
	    !ps_replica_serves(p->replica, rq))
		return;
	int rc = order_read(&order, request_record(rq), payload ? payload_data(payload) : NULL,
			    payload ? payload_bytes(payload) : 0, &err);
	if (rc != 0)
		request_bad(rq, &err);
	else if (takes_parameters(&order) && behind_lacks(p))
		put_off(&order, rq);
	else if (order.kind == ORDER_CUT)
		cut(p, &order, rq);
	else if (order.kind == ORDER_PREPARE || order.kind == ORDER_GIVE) {
		standby_drop(p, "parameters move");
		(void)ask_long(p, &p->moving, &order, rq);
	} else {
		if (order.kind == ORDER_APPLY)
			answer.done = put_applied;
		obey_repeat(p, &order);
		ps_obey(p, &order, &answer);
		if (order.kind == ORDER_APPLY)
			standby_applied(p);
	}
	order_clear(&order);
}
