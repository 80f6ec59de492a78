/* commit: the lead's `settle`: its payload becomes lines for the queue, the queue's refusals become
 * the answer.  A repeated number is answered before its payload is looked at. */
#include "shard/service_internal.h"

#include "record/sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies: payloads may lie in memory that the client goes on writing to. */
struct settle_text {
	struct queue_line *line;
	char (*worker)[OPTION_ID_MAX];
	size_t count, room;
};

static void free_text(struct settle_text *t)
{
	free(t->line);
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

static int read_line(struct settle_text *t, const struct record *r, struct error *err)
{
	struct queue_line *line = &t->line[t->count];
	const char *worker;
	*line = (struct queue_line){.is_back = record_is(r, "back")};
	if (!line->is_back && !record_is(r, "apply"))
		return error_set(err, ERROR_DATA, NULL, "'%.40s' is neither apply nor back",
				 r->type);
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 0, UINT64_MAX, &line->generation, err) != 0 ||
	    record_u64(r, "id", 0, UINT64_MAX, &line->id, err) != 0 ||
	    record_u64(r, "begin", 0, UINT64_MAX, &line->begin, err) != 0 ||
	    record_u64(r, "length", 1, UINT64_MAX, &line->length, err) != 0)
		return -1;
	memcpy(t->worker[t->count], worker, strlen(worker) + 1);
	line->worker = t->worker[t->count];
	t->count++;
	return 0;
}

static int read_lines(struct service *s, struct settle_text *t, const char *text, size_t len,
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
		    read_line(t, &s->record, err) != 0) {
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
	char data[RECORD_LINE_MAX];
	struct record_out o;
	size_t count;
	const struct queue_refusal *refusal = queue_refusals(s->queue, &count);
	for (size_t i = 0; i < count; i++) {
		record_begin(&o, data, sizeof data, "fenced");
		record_add(&o, "worker", refusal[i].worker);
		record_add_u64(&o, "generation", refusal[i].generation);
		record_add_u64(&o, "id", refusal[i].id);
		request_put_record(rq, &o);
	}
	request_ok(rq, NULL);
}

/* Before the first settle that is not waited for, the journal says that there are such, durably. */
static void change_loosely(struct service *s)
{
	if (strcmp(queue_loose(s->queue), s->boot) != 0) {
		queue_set_loose(s->queue, s->boot);
		service_changed(s, NULL);
	}
	s->is_loose = 1;
}

static void settle_text(struct service *s, struct request *rq, uint64_t number, uint64_t iteration,
			uint64_t incarnation, int is_loose, const char *text, size_t len)
{
	struct error err;
	struct settle_text t = {.room = count_lines(text, len)};
	t.line = malloc((t.room + 1) * sizeof *t.line);
	t.worker = malloc((t.room + 1) * sizeof *t.worker);
	enum queue_result result = QUEUE_MEMORY;
	error_set(&err, ERROR_OS, NULL, "out of memory");
	if (t.line && t.worker)
		result = read_lines(s, &t, text, len, &err) != 0 ? QUEUE_BAD : QUEUE_OK;
	/* Each line written down says no more than the line that asked, and a sum. */
	size_t bytes = 2 * JOURNAL_LINE_BYTES + len + t.count * (LINES_SUM_BYTES + 1);
	if (result == QUEUE_OK && !service_may_change(s, rq, bytes)) {
		free_text(&t);
		return;
	}
	if (result == QUEUE_OK && is_loose)
		change_loosely(s);
	if (result == QUEUE_OK)
		result = queue_settle(s->queue, number, iteration, incarnation, t.line, t.count,
				      &err);
	free_text(&t);
	if (result == QUEUE_OK) {
		service_changed(s, rq);
		answer_settle(s, rq);
	} else {
		verb_refuse(rq, result, &err);
	}
	s->is_loose = 0;
}

void verb_settle(struct request *rq, void *service)
{
	struct service *s = service;
	const struct record *r = request_record(rq);
	const struct payload *payload = request_payload(rq);
	uint64_t number, iteration, incarnation;
	struct error err;
	int is_loose = service_is_here(s, r);
	if (!service_is_whole(s, rq))
		return;
	if (record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0 ||
	    record_u64(r, "number", 0, UINT64_MAX, &number, &err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &iteration, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	enum queue_result result = queue_settle_known(s->queue, number, incarnation, &err);
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
		request_err(rq, "memory", "out of memory");
		return;
	}
	if (len > 0)
		memcpy(text, payload_data(payload), len);
	settle_text(s, rq, number, iteration, incarnation, is_loose, text, len);
	free(text);
}
