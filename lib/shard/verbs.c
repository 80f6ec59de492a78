/* verbs: requests that change the queue. Here text becomes numbers, and results become answers; the
 * queue decides what is allowed. An ordinary change needs no function here: verb_change() does what
 * the change's row says. */
#include "shard/service_internal.h"

#include "base/grow.h"
#include "record/sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void verb_refuse(struct request *rq, enum queue_result result, const struct error *err)
{
	request_err(rq, queue_result_code(result), "%s%s%s", err->place, err->place[0] ? ": " : "",
		    err->text);
}

#define SETTLE_BYTES_MAX (16u << 20)

/* Whether the worker's generation is in force; this error comes before all others. 0: it is not,
 * and was answered. */
static int is_in_force(struct service *s, struct request *rq, const struct queue_change *c)
{
	struct error err;
	enum queue_result result = queue_in_force(s->queue, c->worker, c->generation, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	return result == QUEUE_OK;
}

/* Over links between hosts, a get may arrive long after its connection was given up. Only that: others, as trainctl,
 * say of a worker that it has ended. */
int verb_is_past(const struct service *s, struct request *rq, const char *worker)
{
	size_t seat = queue_seat(s->queue, worker);
	if (seat == 0 || seat > s->hello_room ||
	    connection_number(request_connection(rq)) >= s->hello[seat - 1])
		return 0;
	request_err(rq, "fenced", "%s has said hello on a later connection", worker);
	return 1;
}

/* Without memory nothing is noted, and such a request is carried out. */
static void hello_note(struct service *s, struct request *rq, const char *worker)
{
	size_t before = s->hello_room, seat = queue_seat(s->queue, worker);
	if (GROW(s->hello, s->hello_room, seat) != 0)
		return;
	for (size_t i = before; i < s->hello_room; i++)
		s->hello[i] = 0;
	s->hello[seat - 1] = connection_number(request_connection(rq));
}

/* Reads worker= and generation=. 0: they are wrong, or nothing can be changed now; it was
 * answered. */
static int shard_verbs_read_worker(struct service *s, struct request *rq, struct queue_change *c)
{
	struct error err;
	const struct record *r = request_record(rq);
	if (!service_is_whole(s, rq))
		return 0;
	if (record_id(r, "worker", &c->worker, &err) == 0 &&
	    record_u64(r, "generation", 0, UINT64_MAX, &c->generation, &err) == 0)
		return 1;
	request_bad(rq, &err);
	return 0;
}

/* Makes room in the journal for what this worker asks. 0: there was none, and it was answered. */
static int may_change(struct service *s, struct request *rq, const struct queue_change *c)
{
	struct error full;
	if (service_make_room(s, JOURNAL_LINE_BYTES, &full) == 0)
		return 1;
	if (is_in_force(s, rq, c))
		request_err(rq, "journal", "%s: %s", full.place, full.text);
	return 0;
}

/* ---- any change ---- */

/* Reads the fields of the change's row. 0: they are wrong, and it was answered. */
static int read_change(struct service *s, struct request *rq, const struct queue_kind *kind,
		       struct queue_change *c)
{
	struct error err;
	const struct record *r = request_record(rq);
	if (!(kind->flags & QUEUE_BY_WORKER)) {
		if ((record_get(r, "worker") && record_id(r, "worker", &c->worker, &err) != 0) ||
		    fields_read(kind->fields, r, c, &err) != 0) {
			request_bad(rq, &err);
			return 0;
		}
		return 1;
	}
	if (!shard_verbs_read_worker(s, rq, c))
		return 0;
	if (fields_read(kind->fields + 1, r, c, &err) == 0) /* the first is the worker */
		return 1;
	if (is_in_force(s, rq, c))
		request_bad(rq, &err);
	return 0;
}

/* Whether a worker itself may say that rows are in the model. 0: no, and it was answered. */
static int may_count(struct service *s, struct request *rq, const struct queue_change *c)
{
	if (!s->options.settle_only)
		return 1;
	if (is_in_force(s, rq, c))
		request_err(rq, "settle-only",
			    "with --settle-only, rows are done only when the lead settles them");
	return 0;
}

static void shard_verbs_change(struct service *s, struct request *rq, const struct queue_kind *kind)
{
	struct queue_change c = {0};
	struct error err;
	if (!read_change(s, rq, kind, &c) ||
	    ((kind->flags & QUEUE_COUNTS) && !may_count(s, rq, &c)) ||
	    !(kind->flags & QUEUE_BY_WORKER ? may_change(s, rq, &c)
					    : service_may_change(s, rq, JOURNAL_LINE_BYTES)))
		return;
	enum queue_result result = queue_make(s->queue, kind, &c, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	s->is_fencing |= kind->flags & QUEUE_FENCES;
	service_changed(s, rq);
	if (kind->flags & QUEUE_TELLS)
		request_ok(rq, "shards=%llu", (unsigned long long)c.shards);
	else
		request_ok(rq, NULL);
}

static void verb_change(struct request *rq, void *service)
{
	shard_verbs_change(service, rq, queue_kind(request_record(rq)->type));
}

static void verb_drop_move(struct request *rq, void *service)
{
	shard_verbs_change(service, rq, queue_kind("drop"));
}

/* A lease ends with this process: nothing is written down. */
static void verb_renew(struct request *rq, void *service)
{
	struct service *s = service;
	struct queue_change c;
	struct error err;
	if (!shard_verbs_read_worker(s, rq, &c))
		return;
	if (record_u64(request_record(rq), "id", 0, UINT64_MAX, &c.id, &err) != 0) {
		if (is_in_force(s, rq, &c))
			request_bad(rq, &err);
		return;
	}
	service_clock(s);
	enum queue_result result = queue_renew(s->queue, c.worker, c.generation, c.id, &err);
	if (result != QUEUE_OK)
		verb_refuse(rq, result, &err);
	else
		request_ok(rq, NULL);
}

static void verb_put_piece(const struct service *s, struct request *rq, const struct queue_piece *piece)
{
	int part = piece->skip > 0 || piece->take != piece->length;
	request_put_record(rq, RECORD("shard", F("id", piece->id), F("epoch", piece->epoch),
				      F("begin", piece->begin), F("length", piece->length),
				      F("lease", s->lease_text), F("seed", piece->seed),
				      part ? F("skip", piece->skip) : F_NONE,
				      part ? F("take", piece->take) : F_NONE));
}

/* ---- hello ---- */

static void answer_hello(struct service *s, struct request *rq, const char *worker,
			 uint64_t generation)
{
	const struct queue_parameters *p = queue_parameters(s->queue);
	const struct partitions *own = queue_own(s->queue);
	uint64_t done = queue_samples_done(s->queue);
	struct record_out *o =
		RECORD("ok", F("generation", generation), F("samples", p->samples),
		       F("shards", queue_shards(s->queue)), F("epochs", p->epochs),
		       F("incarnation", queue_incarnation(s->queue)),
		       F("shuffle", queue_shuffle_name(p->shuffle)), F("batch", p->batch),
		       done ? F("samples-done", done) : F_NONE);
	if (own && partitions_find(own, worker) < own->count) {
		const struct partition *mine = &own->partition[partitions_find(own, worker)];
		record_add_u64(o, "partition-begin", mine->begin);
		record_add_u64(o, "partition-samples", mine->samples);
	}
	request_ok_record(rq, o);
}

struct piece_target {
	const struct service *service;
	struct request *rq;
};

static int put_held(void *target, const struct queue_piece *piece)
{
	struct piece_target *to = target;
	verb_put_piece(to->service, to->rq, piece);
	return 0;
}

static void shard_verbs_resume(struct service *s, struct request *rq)
{
	struct queue_change c;
	uint64_t in_force, last;
	if (!shard_verbs_read_worker(s, rq, &c) || !is_in_force(s, rq, &c))
		return;
	queue_asked(s->queue, c.worker);
	hello_note(s, rq, c.worker);
	struct piece_target to = {s, rq};
	queue_who(s->queue, c.worker, &in_force, &last, put_held, &to, NULL);
	answer_hello(s, rq, c.worker, c.generation);
}

static int pass_over(void *arg, const struct queue_piece *piece)
{
	(void)arg;
	(void)piece;
	return 1;
}

/* If a worker dies, the supervisor says `fail` before the worker says `hello` again. So a worker
 * that says `hello` and still holds something was refused, or has no supervisor: this is not a
 * death. */
static void shard_verbs_give_back(struct service *s, const char *worker)
{
	struct queue_change c = {.worker = worker};
	uint64_t last;
	if (queue_who(s->queue, worker, &c.generation, &last, pass_over, NULL, NULL) == QUEUE_OK &&
	    c.generation > 0)
		queue_make(s->queue, queue_kind("bye"), &c, NULL);
}

static void verb_hello(struct request *rq, void *service)
{
	struct service *s = service;
	struct queue_change c = {0};
	struct error err;
	if (record_get(request_record(rq), "generation")) {
		shard_verbs_resume(s, rq);
		return;
	}
	if (record_id(request_record(rq), "worker", &c.worker, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!service_may_change(s, rq, 2 * JOURNAL_LINE_BYTES)) {
		queue_asked(s->queue, c.worker); /* it lives, and will ask again */
		return;
	}
	if (s->options.settle_only)
		shard_verbs_give_back(s, c.worker);
	enum queue_result result = queue_make(s->queue, queue_kind("hello"), &c, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	s->is_fencing |= c.generation > 1;
	queue_asked(s->queue, c.worker);
	hello_note(s, rq, c.worker);
	service_changed(s, rq);
	answer_hello(s, rq, c.worker, c.generation);
}

/* ---- get ---- */

int verb_try_get(struct service *s, struct request *rq, const struct queue_change *asked,
		 int is_here)
{
	struct queue_change c = *asked;
	struct queue_stat stat;
	struct error err;
	if (queue_has_todo(s->queue) && !may_change(s, rq, &c))
		return 1;
	s->is_loose = is_here && queue_loose(s->queue)[0];
	enum queue_result result = queue_make(s->queue, queue_kind("get"), &c, &err);
	if (result == QUEUE_OK)
		service_changed(s, rq);
	s->is_loose = 0;
	switch (result) {
	case QUEUE_OK:
		verb_put_piece(s, rq, &c.piece);
		request_ok(rq, NULL);
		return 1;
	case QUEUE_WAIT:
		return 0;
	case QUEUE_END:
		queue_stat(s->queue, &stat);
		request_ok(rq, "state=end held=%llu", (unsigned long long)stat.held);
		return 1;
	default:
		verb_refuse(rq, result, &err);
		return 1;
	}
}

static void verb_get(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	struct queue_change c = {0};
	struct error err;
	double wait = 0;
	if (!shard_verbs_read_worker(s, rq, &c) || verb_is_past(s, rq, c.worker))
		return;
	if (record_u64_opt(r, "max", 1, UINT64_MAX, &c.max, &err) != 0 ||
	    record_real_opt(r, "wait", 0, WAIT_SECONDS_MAX, &wait, &err) != 0) {
		if (is_in_force(s, rq, &c))
			request_bad(rq, &err);
		return;
	}
	queue_asked(s->queue, c.worker);
	/* A piece need not be on disk before its answer if that is true of the settles of its
	 * rows. */
	int is_here = queue_loose(s->queue)[0] && service_is_here(s, r);
	if (!verb_try_get(s, rq, &c, is_here))
		wait_for_piece(s, rq, &c, is_here, wait);
}

/* ---- settle: its payload becomes ranges, and the queue's refusals become the answer ---- */

/* Copies, because a payload may lie in memory to which the client still writes. */
struct settle_text {
	struct queue_range *range;
	char (*worker)[OPTION_ID_MAX];
	size_t count, room;
};

static void free_text(struct settle_text *t)
{
	free(t->range);
	free(t->worker);
}

static size_t count_lines(const char *text, size_t len)
{
	size_t count = 0;
	for (const char *end; len > 0 && (end = memchr(text, '\n', len)) != NULL; count++) {
		len -= (size_t)(end - text) + 1;
		text = end + 1;
	}
	return count;
}

static int read_range(struct settle_text *t, const struct record *r, struct error *err)
{
	struct queue_range *range = &t->range[t->count];
	const char *worker;
	*range = (struct queue_range){.is_back = record_is(r, "back")};
	if (!range->is_back && !record_is(r, "apply"))
		return error_set(err, ERROR_DATA, NULL, "'%.40s' is neither apply nor back",
				 r->type);
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &range->generation, err) != 0 ||
	    record_u64(r, "id", 0, UINT64_MAX, &range->id, err) != 0 ||
	    record_u64(r, "begin", 0, UINT64_MAX, &range->begin, err) != 0 ||
	    record_u64(r, "length", 1, UINT64_MAX, &range->length, err) != 0)
		return -1;
	memcpy(t->worker[t->count], worker, strlen(worker) + 1);
	range->worker = t->worker[t->count];
	t->count++;
	return 0;
}

static int read_ranges(struct service *s, struct settle_text *t, const char *text, size_t len,
		      struct error *err)
{
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		if (!end)
			return error_set(err, ERROR_DATA, NULL, "line %zu has no newline",
					 t->count + 1);
		size_t n = (size_t)(end - text);
		if (t->count == t->room)
			return error_set(err, ERROR_DATA, NULL, "the payload changed while read");
		if (record_parse(&s->record, text, n, err) != 0 ||
		    read_range(t, &s->record, err) != 0) {
			char place[32];
			snprintf(place, sizeof place, "line %zu", t->count + 1);
			return error_wrap(err, place);
		}
		text = end + 1;
		len -= n + 1;
	}
	return 0;
}

static void answer_settle(struct service *s, struct request *rq)
{
	size_t count;
	const struct queue_refusal *refusal = queue_refusals(s->queue, &count);
	for (size_t i = 0; i < count; i++) {
		request_put_record(rq, RECORD("fenced", F("worker", refusal[i].worker),
					      F("generation", refusal[i].generation),
					      F("id", refusal[i].id)));
	}
	uint64_t done = queue_samples_done(s->queue);
	if (queue_settled_whole(s->queue))
		request_ok_record(rq, RECORD("ok", F("settled", count == 0),
					     done ? F("samples-done", done) : F_NONE));
	else
		request_ok(rq, NULL);
}

/* A durable line announces the first settle that does not wait for the disk. */
static void change_loosely(struct service *s)
{
	struct queue_change c = {.boot = s->boot};
	if (strcmp(queue_loose(s->queue), s->boot) != 0) {
		queue_make(s->queue, queue_kind("loose"), &c, NULL);
		service_changed(s, NULL);
	}
	s->is_loose = 1;
}

static void settle_text(struct service *s, struct request *rq, const struct queue_settlement *said,
			int is_loose, const char *text, size_t len)
{
	struct error err;
	struct settle_text t = {.room = count_lines(text, len)};
	t.range = malloc((t.room + 1) * sizeof *t.range);
	t.worker = malloc((t.room + 1) * sizeof *t.worker);
	enum queue_result result = QUEUE_MEMORY;
	error_set(&err, ERROR_OS, NULL, "out of memory");
	if (t.range && t.worker)
		result = read_ranges(s, &t, text, len, &err) != 0 ? QUEUE_BAD : QUEUE_OK;
	/* Each line that is written has no more than the line of the request, and a sum. */
	size_t bytes = 2 * JOURNAL_LINE_BYTES + len + t.count * (SEALED_SUM_BYTES + 1);
	if (result == QUEUE_OK && !service_may_change(s, rq, bytes)) {
		free_text(&t);
		return;
	}
	if (result == QUEUE_OK && is_loose)
		change_loosely(s);
	if (result == QUEUE_OK)
		result = queue_settle(s->queue, said, t.range, t.count, &err);
	free_text(&t);
	if (result == QUEUE_OK) {
		service_changed(s, rq);
		answer_settle(s, rq);
	} else {
		verb_refuse(rq, result, &err);
	}
	s->is_loose = 0;
}

static void verb_settle(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	const struct payload *payload = request_payload(rq);
	struct queue_settlement said = {.note = NULL};
	uint64_t whole = 0;
	struct error err;
	int is_loose = service_is_here(s, r);
	if (!service_is_whole(s, rq))
		return;
	if (record_u64(r, "incarnation", 0, UINT64_MAX, &said.incarnation, &err) != 0 ||
	    record_u64(r, "number", 0, UINT64_MAX, &said.number, &err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX - 1, &said.iteration, &err) != 0 ||
	    record_u64_opt(r, "term", 1, UINT64_MAX, &said.term, &err) != 0 ||
	    record_u64_opt(r, "whole", 0, 1, &whole, &err) != 0 ||
	    (record_get(r, "note") && record_id(r, "note", &said.note, &err) != 0)) {
		request_bad(rq, &err);
		return;
	}
	said.is_whole = whole != 0;
	enum queue_result result = queue_settle_known(s->queue, &said, &err);
	if (result == QUEUE_FENCED) {
		verb_refuse(rq, result, &err);
		return;
	}
	if (result == QUEUE_REPEATED) {
		s->is_firm |= !is_loose;
		answer_settle(s, rq);
		return;
	}
	size_t len = payload ? payload_bytes(payload) : 0;
	char *text = malloc(len + 1);
	if (!text) {
		request_err(rq, "no-memory", "out of memory");
		return;
	}
	if (len > 0)
		memcpy(text, payload_data(payload), len);
	settle_text(s, rq, &said, is_loose, text, len);
	free(text);
}

/* A lead begins: from now on what older ones settle is refused. */
static void verb_term(struct request *rq, void *service)
{
	struct service *s = service;
	struct queue_change c = {0};
	struct error err;
	uint64_t incarnation;
	const char *note;
	if (!service_is_whole(s, rq))
		return;
	if (record_u64(request_record(rq), "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (incarnation != queue_incarnation(s->queue)) {
		request_err(rq, "fenced", "incarnation %llu is in force",
			    (unsigned long long)queue_incarnation(s->queue));
		return;
	}
	if (!service_may_change(s, rq, JOURNAL_LINE_BYTES))
		return;
	enum queue_result result = queue_make(s->queue, queue_kind("term"), &c, &err);
	if (result != QUEUE_OK) {
		verb_refuse(rq, result, &err);
		return;
	}
	service_changed(s, rq);
	uint64_t committed = queue_committed(s->queue, &note);
	uint64_t done = queue_samples_done(s->queue);
	request_ok_record(rq, RECORD("ok", F("term", c.term),
				     committed ? F("iteration", committed) : F_NONE,
				     committed ? F("note", note) : F_NONE,
				     done ? F("samples-done", done) : F_NONE));
}

const struct verb change_verbs[] = {
	{"hello", "worker", "generation", verb_hello, 0,
	 "begins a generation of a worker, or resumes one"},
	{"get", "worker generation", "max wait boot", verb_get, 0, "the next piece"},
	{"done", "worker generation id", "", verb_change, 0, "all of the piece is in the model"},
	{"progress", "worker generation id upto", "", verb_change, 0,
	 "the first upto= samples are in the model"},
	{"back", "worker generation id", "begin length", verb_change, 0,
	 "the piece, or some of its rows, to the end of the queue"},
	{"settle", "number iteration incarnation", "boot term whole note", verb_settle,
	 SETTLE_BYTES_MAX,
	 "the lead's commit: apply and back lines; those that are refused are told"},
	{"term", "incarnation", "", verb_term, 0,
	 "a new lead: settles of older terms are refused; what was committed last"},
	{"renew", "worker generation id", "", verb_renew, 0, "the lease begins again"},
	{"bye", "worker generation", "front", verb_change, 0,
	 "what the worker holds comes back, to the end or the front of the queue"},
	{"fail", "worker", "", verb_change, 0, "given up for dead: fenced, its pieces come back"},
	{"release", "id", "", verb_change, 0, "a held piece is handed out again"},
	{"moved", "worker id", "", verb_change, 0,
	 "the worker has them: they are of its partition"},
	{"drop-move", "id", "", verb_drop_move, 0, "a move that will not be"},
	{0}};
