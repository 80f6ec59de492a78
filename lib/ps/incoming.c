/* See incoming.h. */
#include "ps/incoming.h"

static int incoming_read_bytes(void *call, void *to, size_t bytes, struct error *err)
{
	return call_bytes(call, to, bytes, err);
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
	const struct stream_source source = {incoming_read_bytes, in->call};
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
