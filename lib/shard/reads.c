/* reads: what the service tells of itself: stat, list, who, workers, partitions, rows, watch.
 * Changes nothing, needs no room in the journal, and so works on a full disk, too. */
#include "shard/service_internal.h"

#include <stdlib.h>
#include <string.h>

#define LIST_MAX 10000 /* pieces in an answer, if max= is not given */

/* ---- stat ---- */

/* An empty value means: not yet. */
static void add_time(struct record_out *o, const char *key, double at)
{
	if (at > 0)
		record_add_seconds(o, key, at);
	else
		record_add(o, key, "");
}

void reads_put_stat(struct service *s, struct request *rq)
{
	struct queue_stat stat;
	queue_stat(s->queue, &stat);
	struct record_out *o = RECORD(
		"stat", F("epoch", stat.epoch), F("epochs", queue_parameters(s->queue)->epochs),
		F("todo", stat.todo), F("doing", stat.doing), F("done", stat.done),
		F("held", stat.held), F("shards", stat.shards), F("shards-done", stat.shards_done),
		F("samples-done", stat.samples_done), F("samples-repeated", stat.samples_repeated),
		F("incarnation", stat.incarnation), F("iteration", stat.iteration));
	add_time(o, "first-at", stat.first_at);
	add_time(o, "last-at", stat.last_at);
	if (queue_term(s->queue))
		record_add_u64(o, "term", queue_term(s->queue));
	if (queue_loose(s->queue)[0])
		record_add(o, "boot", queue_loose(s->queue));
	if (s->is_lost)
		record_add_u64(o, "lost", 1);
	if (s->was_full)
		record_add_u64(o, "full", 1);
	request_put_record(rq, o);
	request_ok(rq, NULL);
}

static void verb_stat(struct request *rq, void *service)
{
	struct service *s = service;
	struct error err;
	double wait = 0;
	if (record_real_opt(request_record(rq), "wait", 0, WAIT_SECONDS_MAX, &wait, &err) != 0)
		request_bad(rq, &err);
	else if (wait > 0 && !queue_is_over(s->queue))
		wait_for_end(s, rq, wait);
	else
		reads_put_stat(s, rq);
}

/* ---- list, who ---- */

struct listing {
	struct request *rq;
	uint64_t count, max;
	uint64_t more; /* id of the first piece left out */
	int is_cut;
};

static int put_piece(void *arg, const struct queue_piece *piece)
{
	struct listing *l = arg;
	if (l->count == l->max) {
		l->is_cut = 1;
		l->more = piece->id;
		return 1;
	}
	l->count++;
	int part = piece->state != QUEUE_DONE &&
		   (piece->skip > 0 || piece->take != piece->length);
	request_put_record(l->rq, RECORD("shard", F("id", piece->id), F("epoch", piece->epoch),
					 F("state", queue_state_name(piece->state)),
					 F("begin", piece->begin), F("length", piece->length),
					 F("upto", piece->upto), F("worker", piece->worker),
					 F_SECONDS("age", piece->age),
					 F("returns", piece->returns),
					 part ? F("skip", piece->skip) : F_NONE,
					 part ? F("take", piece->take) : F_NONE));
	return 0;
}

static int states_of(const char *name, unsigned *states)
{
	*states = 0;
	for (int i = 0; i < QUEUE_STATES; i++)
		if (strcmp(name, queue_state_name((enum queue_state)i)) == 0)
			*states = 1u << i;
	return *states ? 0 : -1;
}

static void verb_list(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	const char *state = record_get(r, "state");
	struct listing l = {.rq = rq, .max = LIST_MAX};
	unsigned states = 1u << QUEUE_TODO | 1u << QUEUE_DOING | 1u << QUEUE_HELD;
	uint64_t from = 0;
	struct error err;
	if (record_u64_opt(r, "from", 0, UINT64_MAX, &from, &err) != 0 ||
	    record_u64_opt(r, "max", 1, 100 * LIST_MAX, &l.max, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (state && states_of(state, &states) != 0) {
		request_err(rq, "bad-request", "state=: '%.40s' is none of todo, doing, done, held",
			    state);
		return;
	}
	service_clock(s);
	if (queue_list(s->queue, states, from, put_piece, &l) != 0)
		request_err(rq, "no-memory", "out of memory");
	else if (l.is_cut)
		request_ok(rq, "count=%llu more=%llu", (unsigned long long)l.count,
			   (unsigned long long)l.more);
	else
		request_ok(rq, "count=%llu", (unsigned long long)l.count);
}

static void verb_who(struct request *rq, void *service)
{
	struct service *s = service;
	const char *worker;
	uint64_t generation, last;
	struct listing l = {.rq = rq, .max = UINT64_MAX};
	struct error err;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	service_clock(s);
	enum queue_result result =
		queue_who(s->queue, worker, &generation, &last, put_piece, &l, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_ok(rq, "generation=%llu last=%llu", (unsigned long long)generation,
			   (unsigned long long)last);
}

static void put_worker(void *rq, const struct queue_worker_stat *w)
{
	request_put_record(rq,
			   RECORD("worker", F("worker", w->worker), F("generation", w->generation),
				  F("asks", w->asks), F("pieces", w->pieces)));
}

static void verb_workers(struct request *rq, void *service)
{
	struct service *s = service;
	queue_workers(s->queue, put_worker, rq);
	request_ok(rq, NULL);
}

/* ---- partitions ---- */

static void put_partition(struct request *rq, const struct partitions *own, size_t i)
{
	const struct partition *p = &own->partition[i];
	uint64_t in = 0, out = 0;
	for (size_t k = 0; k < own->moves; k++) {
		in += own->move[k].to == i ? own->move[k].length : 0;
		out += own->move[k].from == i ? own->move[k].length : 0;
	}
	request_put_record(rq, RECORD("partition", F("worker", p->worker), F("begin", p->begin),
				      F("samples", p->samples), F("rows", p->rows),
				      F("passes", p->passes), F("left", p->left),
				      F_BRIEF("since", (double)p->given / (double)p->rows),
				      F("incoming", in), F("outgoing", out)));
}

static void verb_partitions(struct request *rq, void *service)
{
	static const struct partitions none;
	const struct service *s = service;
	const struct partitions *own = queue_own(s->queue);
	if (!own)
		own = &none;
	for (size_t i = 0; i < own->count; i++)
		put_partition(rq, own, i);
	request_ok_record(rq, RECORD("ok", F("budget", own->budget), F("unseen", own->unseen),
				     F_REAL("migrate", own->migrate), F("moves", own->moves),
				     F("moves-done", own->moves_done),
				     F("rows-moved", own->rows_moved)));
}

static void reads_put_rows(struct request *rq, const struct partition *p)
{
	for (size_t i = 0; i < p->count; i++) {
		request_put_record(
			rq, RECORD("rows", F("worker", p->worker), F("begin", p->run[i].begin),
				   F("length", p->run[i].length), F("times", p->run[i].times)));
	}
}

static void verb_rows(struct request *rq, void *service)
{
	const struct service *s = service;
	const struct partitions *own = queue_own(s->queue);
	const char *only = record_get(request_record(rq), "worker");
	for (size_t i = 0; own && i < own->count; i++)
		if (!only || !*only || strcmp(only, own->partition[i].worker) == 0)
			reads_put_rows(rq, &own->partition[i]);
	request_ok(rq, NULL);
}

/* ---- watch ---- */

static void stop_watching(struct request *rq, void *watcher)
{
	struct watcher *w = watcher;
	(void)rq;
	if (w->prev)
		w->prev->next = w->next;
	else
		w->service->watchers = w->next;
	if (w->next)
		w->next->prev = w->prev;
	free(w);
}

static void verb_watch(struct request *rq, void *service)
{
	struct service *s = service;
	struct watcher *w = calloc(1, sizeof *w);
	if (!w) {
		request_err(rq, "no-memory", "out of memory");
		return;
	}
	w->service = s;
	w->rq = rq;
	w->next = s->watchers;
	if (w->next)
		w->next->prev = w;
	s->watchers = w;
	request_defer(rq, stop_watching, w);
}

static void reads_tell(const struct service *s, struct record_out *o)
{
	struct queue_stat stat;
	queue_stat(s->queue, &stat);
	record_add_seconds(o, "at", stat.at);
	size_t len = record_end(o, NULL);
	for (const struct watcher *w = s->watchers, *next; w; w = next) {
		next = w->next; /* request_put() may end a client that does not read */
		request_put(w->rq, o->data, len);
	}
}

void watch_change(void *service, uint64_t id, enum queue_state state, const char *worker)
{
	const struct service *s = service;
	if (!s->watchers)
		return;
	reads_tell(s, RECORD("change", F("id", id), F("state", queue_state_name(state)),
			     F("worker", worker)));
}

void watch_load(struct service *s)
{
	reads_tell(s, RECORD("load", F("incarnation", queue_incarnation(s->queue))));
}

const struct verb read_verbs[] = {
	{"stat", "", "wait", verb_stat, 0, "counts; with wait=, once all is done or held"},
	{"list", "", "state from max", verb_list, 0, "pieces, by id"},
	{"who", "worker", "", verb_who, 0, "what a worker holds, and its generation"},
	{"workers", "", "", verb_workers, 0,
	 "all who ever said hello: how often they asked, what they hold"},
	{"partitions", "", "", verb_partitions, 0,
	 "who has how many rows, and how often they came"},
	{"rows", "", "worker", verb_rows, 0,
	 "the runs of rows of partitions, and how often each came"},
	{"watch", "", "", verb_watch, 0, "each transition, until the client closes"},
	{0}};
