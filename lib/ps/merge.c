/* merge: see merge.h. */
#include "ps/merge.h"

#include "param/store_move.h"
#include "ps/behind.h"
#include "ps/incoming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 128                 /* of a record, at most */
#define BLOCK_BYTES ((size_t)64 << 10) /* of a block's values, at least, except the last ones */
#define ROWS_BYTES ((uint64_t)32 << 20) /* 0.1 to 0.2 s for a standby that must make them */
#define LASTS 32                       /* such blocks, and records without values, at most */

struct text {
	struct buffers *buffers;
	char *data; /* a buffer; NULL: none yet */
	size_t len, room;
};

/* Makes room for so many bytes more. */
static int merge_grow(struct text *t, size_t more, struct error *err)
{
	size_t room = t->room + t->room / 2 + more;
	char *data = t->len + more > t->room ? buffer_take(t->buffers, room) : t->data;

	if (!data)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (data != t->data) {
		if (t->len)
			memcpy(data, t->data, t->len);
		buffer_give(t->data);
		t->data = data;
		t->room = room;
	}
	return 0;
}

static int merge_put(void *text, struct record_out *r, const void *values, size_t bytes,
		     struct error *err)
{
	struct text *t = text;

	if (bytes)
		record_add_u64(r, "bytes", bytes);
	size_t len = record_end(r, NULL);
	if (merge_grow(t, len + bytes, err) != 0)
		return -1;
	memcpy(t->data + t->len, r->data, len);
	if (bytes)
		memcpy(t->data + t->len + len, values, bytes);
	t->len += len + bytes;
	return 0;
}

/* As long whatever bytes is: it is written again when the payload's length is known. */
static size_t merge_head(const struct ps *p, size_t bytes, char line[LINE_BYTES])
{
	struct record_out o;
	char digits[32];

	snprintf(digits, sizeof digits, "%020zu", bytes);
	record_begin(&o, line, LINE_BYTES, "merge");
	record_add_u64(&o, "incarnation", p->options.incarnation);
	record_add_u64(&o, "iteration", p->applied);
	record_add(&o, "bytes", digits);
	return record_end(&o, NULL);
}

size_t merge_room(const struct ps *p)
{
	size_t bytes = (size_t)store_changes_bytes(p->store);

	return bytes + (bytes / BLOCK_BYTES + LASTS + 1) * LINE_BYTES;
}

char *merge_write(struct ps *p, struct buffers *buffers, size_t *len, struct error *err)
{
	struct text t = {.buffers = buffers};
	const struct stream_sink sink = {.put = merge_put, .owner = &t};
	char line[LINE_BYTES];
	size_t head = merge_head(p, 0, line);

	if (merge_grow(&t, merge_room(p), err) != 0)
		return NULL;
	t.len = head;
	if (store_write_changes(p->store, &sink, err) != 0) {
		buffer_give(t.data);
		return NULL;
	}
	merge_head(p, t.len - head, line);
	memcpy(t.data, line, head);
	store_begin_changes(p->store);
	*len = t.len;
	return t.data;
}

int merge_is_large(const struct ps *p)
{
	uint64_t dense = store_dense_bytes(p->store);
	uint64_t rows = store_changes_bytes(p->store) - dense;

	return rows > ROWS_BYTES && rows > dense; /* the dense range goes each time */
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
