/* See incoming.h. */
#include "ps/incoming.h"

#include <stdlib.h>
#include <string.h>

static int incoming_read_bytes(void *incoming, void *to, size_t bytes, struct error *err)
{
	struct incoming *in = incoming;

	if (in->call)
		return call_bytes(in->call, to, bytes, err);
	if ((size_t)(in->end - in->at) < bytes)
		return error_set(err, ERROR_DATA, NULL, "it ends within a block");
	memcpy(to, in->at, bytes);
	in->at += bytes;
	return 0;
}

/* Called once the stream's first record and notes are there: they must be of the same part, model
 * and optimiser. */
static int incoming_expect(struct incoming *in, struct error *err)
{
	const struct store *s = in->store;
	const struct stream_shape *shape = stream_get_shape(in->stream);
	const char *optimizer = stream_get_note(in->stream, "optimizer");
	int same;

	if (in->expected)
		return 0;
	if (shape->dense_begin != store_dense_begin(s) ||
	    shape->dense_count != store_dense_count(s))
		return error_set(err, ERROR_CONFIG, NULL, "has %llu dense parameters, we %zu",
				 (unsigned long long)shape->dense_count, store_dense_count(s));
	if (store_expect(in->store, in->stream, &same, err) != 0)
		return -1;
	if (!same)
		return error_set(err, ERROR_CONFIG, NULL, "has another --optimizer (%.40s)",
				 optimizer ? optimizer : "none");
	in->expected = 1;
	return 0;
}

int incoming_begin(struct incoming *in, struct error *err)
{
	in->stream = stream_reader_new();
	return in->stream ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

void incoming_end(struct incoming *in)
{
	stream_reader_free(in->stream);
	in->stream = NULL;
}

int incoming_record(struct incoming *in, const struct record *r, struct error *err)
{
	const struct stream_source source = {incoming_read_bytes, in};
	struct stream_block block;
	int kind = stream_record(in->stream, r, &block, err);

	if (kind == STREAM_BLOCK) {
		if (incoming_expect(in, err) != 0)
			return -1;
		const struct stream_taker taker = store_taker(in->store);
		return stream_read(in->stream, &block, &source, &taker, err) == 0 ? 1 : -1;
	}
	return kind < 0 ? -1 : kind != STREAM_OTHER;
}

int incoming_whole(struct incoming *in, struct error *err)
{
	if (stream_complete(in->stream, err) != 0 || incoming_expect(in, err) != 0)
		return -1;
	if (store_row_count(in->store) != stream_get_shape(in->stream)->rows)
		return error_set(err, ERROR_DATA, NULL, "some of its rows are another part's");
	return 0;
}

static int incoming_line(struct incoming *in, struct record *r, struct error *err)
{
	size_t most = (size_t)(in->end - in->at);
	const char *end = memchr(in->at, '\n', most < RECORD_LINE_MAX ? most : RECORD_LINE_MAX);

	if (!end)
		return error_set(err, ERROR_DATA, NULL, "a line without an end");
	int rc = record_parse(r, in->at, (size_t)(end - in->at), err);
	in->at = end + 1;
	return rc;
}

int incoming_text(struct incoming *in, const char *text, size_t bytes, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	int rc = r ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");

	in->at = text;
	in->end = text + bytes;
	while (rc == 0 && in->at < in->end) {
		rc = incoming_line(in, r, err);
		int kind = rc == 0 ? incoming_record(in, r, err) : -1;
		if (kind == 0)
			error_set(err, ERROR_DATA, NULL, "%.64s is none of a stream's", r->type);
		rc = kind == 1 ? 0 : -1;
	}
	free(r);
	if (rc == 0)
		rc = stream_complete(in->stream, err);
	return rc == 0 ? incoming_expect(in, err) : -1;
}

static int put_stream(void *call, struct record_out *r, const void *values, size_t bytes,
		      struct error *err)
{
	if (bytes)
		record_add_u64(r, "bytes", bytes);
	return call_record(call, r, values, bytes, err);
}

int outgoing_write(const struct store *s, struct call *c, struct error *err)
{
	const struct stream_sink sink = {.put = put_stream, .owner = c};

	return store_write(s, &sink, err);
}
