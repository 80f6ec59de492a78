/* merge: see merge.h. */
#include "ps/merge.h"

#include "base/grow.h"
#include "ps/behind.h"
#include "ps/incoming.h"

#include <stdlib.h>
#include <string.h>

struct text {
	char *data;
	size_t len, room;
};

static int merge_put(void *text, struct record_out *r, const void *values, size_t bytes,
		     struct error *err)
{
	struct text *t = text;

	if (bytes)
		record_add_u64(r, "bytes", bytes);
	size_t len = record_end(r, NULL);
	if (GROW(t->data, t->room, t->len + len + bytes) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(t->data + t->len, r->data, len);
	if (bytes)
		memcpy(t->data + t->len + len, values, bytes);
	t->len += len + bytes;
	return 0;
}

char *merge_write(struct ps *p, uint32_t since, size_t *len, struct error *err)
{
	struct text t = {0};
	const struct stream_sink sink = {.put = merge_put, .owner = &t};
	char line[128], *text = NULL;
	struct record_out o;

	if (store_write_since(p->store, since, &sink, err) == 0) {
		record_begin(&o, line, sizeof line, "merge");
		record_add_u64(&o, "incarnation", p->options.incarnation);
		record_add_u64(&o, "iteration", p->applied);
		record_add_u64(&o, "bytes", t.len);
		size_t head = record_end(&o, NULL);
		*len = head + t.len;
		text = buffer_take(p->buffers, *len);
		if (text) {
			memcpy(text, line, head);
			memcpy(text + head, t.data, t.len);
		} else
			error_set(err, ERROR_OS, NULL, "out of memory");
	}
	free(t.data);
	return text;
}

static int merge_take(struct ps *p, const struct payload *payload, struct error *err)
{
	struct incoming in = {.store = p->store};
	int rc = incoming_begin(&in, err);

	if (rc == 0)
		rc = incoming_text(&in, payload_data(payload), payload_bytes(payload), err);
	incoming_end(&in);
	return rc;
}

/* All that the part was told before it wrote this has come here, too. */
void merge_on_merge(struct request *rq, void *ps)
{
	struct ps *p = ps;
	uint64_t iteration;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (!p->stands_by || !request_payload(rq) || payload_is_shared(request_payload(rq))) {
		request_err(rq, "bad-request", "it is for a standby, and has a payload");
	} else if (record_u64(request_record(rq), "iteration", p->applied, p->applied, &iteration,
			      &err) != 0) {
		request_bad(rq, &err);
	} else if (merge_take(p, request_payload(rq), &err) != 0) {
		ps_break(p, &err); /* half of it may be in the parameters */
		request_bad(rq, &err);
	} else {
		behind_skip(p, iteration);
		request_ok(rq, "reached=%llu", (unsigned long long)behind_reached(p));
	}
}
