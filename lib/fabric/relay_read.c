/*
 * relay_read: bytes from one end of a conversation, on their way to the other. Everything is passed
 * on unchanged. Lines are parsed only for three things: payloads that follow in the stream, and are
 * not lines; payloads in shared memory, which are sent first; and the memory itself. Lines that
 * can't be parsed are passed on, too.
 */
#include "fabric/relay_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In c's own turn: what is read is passed on, unless the other side has enough for now. */
static int may_say(const struct conversation *c)
{
	return !c->is_over && !c->line && c->window > 0 && !link_is_full(c->link);
}

/* ---- what goes out ---- */

static void flush_out(struct conversation *c)
{
	struct relay *relay = c->relay;
	size_t bytes = relay->out_len;
	relay->out_len = 0;
	if (bytes == 0 || c->is_over)
		return;
	c->window -= (int64_t)bytes;
	relay->counts.stream_bytes += bytes;
	if (link_tell(c, (struct head){.kind = KIND_DATA}, relay->out, bytes) != 0)
		conversation_leave(c);
}

/* The place for `bytes` of the stream; at most a line. */
static char *out_room(struct conversation *c, size_t bytes)
{
	struct relay *relay = c->relay;
	if (relay->out_len + bytes > DATA_MAX)
		flush_out(c);
	char *at = relay->out + relay->out_len;
	relay->out_len += bytes;
	return at;
}

/* A worker's time of asking is by its host's clock, which is not the daemon's: write 0, which means
 * unknown (paceline-protocol(7)). */
static void forget_asked(char *line, size_t len)
{
	if (len < 5 || memcmp(line, "pull ", 5) != 0)
		return;
	char *end = memchr(line, '\t', len), *at;
	if (!end)
		end = line + len;
	at = memmem(line, (size_t)(end - line), " asked=", 7);
	for (at = at ? at + 7 : end; at < end && *at != ' '; at++)
		if (*at != '.')
			*at = '0';
}

/* len bytes and a newline. */
static void relay_read_copy_line(const struct conversation *c, char *at, const char *line,
				 size_t len)
{
	memcpy(at, line, len);
	at[len] = '\n';
	if (c->is_near)
		forget_asked(at, len);
}

static void relay_read_put_line(struct conversation *c, const char *line, size_t len)
{
	relay_read_copy_line(c, out_room(c, len + 1), line, len);
}

int conversation_keep_line(struct conversation *c, const char *line, size_t len)
{
	struct relay *relay = c->relay;
	relay_read_put_line(c, line, len);
	c->line_len = relay->out_len;
	relay->out_len = 0;
	c->line = malloc(c->line_len);
	if (!c->line)
		return -1;
	memcpy(c->line, relay->out, c->line_len);
	return 0;
}

int conversation_keep_rest(struct conversation *c)
{
	size_t left = framer_left(&c->in), len;
	const char *rest = left > 0 ? c->in.data + c->in.begin : NULL, *line;
	if (left == 0)
		return 1;
	if (c->line_len + left > RECORD_LINE_MAX || rest[left - 1] != '\n' ||
	    memmem(rest, left, "bytes=", 6))
		return 0;
	char *all = realloc(c->line, c->line_len + left);
	if (!all)
		return 0;
	c->line = all;
	while (framer_line(&c->in, RECORD_LINE_MAX, &line, &len) == FRAMER_LINE) {
		relay_read_copy_line(c, c->line + c->line_len, line, len);
		c->line_len += len + 1;
	}
	return 1;
}

void conversation_said_line(struct conversation *c)
{
	free(c->line);
	c->line = NULL;
	c->window -= (int64_t)c->line_len;
	c->relay->counts.stream_bytes += c->line_len;
}

/* ---- lines ---- */

/* From here on the client's memory is known, and the other side makes as much. */
static void relay_read_share_memory(struct conversation *c, const char *line, size_t len,
				    uint64_t bytes)
{
	if (c->mapping || mapping_new(&c->mapping, c->passed_fd, bytes, NULL) != 0) {
		relay_read_put_line(c, line, len); /* the daemon reports what is wrong, or that
						    * there is no memory */
		return;
	}
	flush_out(c);
	struct head map = {.kind = KIND_MAP, .bytes = bytes};
	if (c->is_over || link_tell(c, map, NULL, 0) != 0) {
		conversation_leave(c);
		return;
	}
	char *at = c->relay->out;
	memcpy(at, line, len);
	at[len] = '\n';
	c->window -= (int64_t)(len + 1);
	if (link_tell(c, (struct head){.kind = KIND_DATA, .pass = 1}, at, len + 1) != 0)
		conversation_leave(c);
}

/* Whether what is said before this payload may wait for it: then all is one message. */
static int goes_at_once(const struct conversation *c, size_t len, uint64_t bytes)
{
	return !c->is_near && bytes <= CHUNK_BYTES && c->relay->out_len + len < RECORD_LINE_MAX;
}

/* A record with a payload in shared memory: send the payload first. */
static void send_payload(struct conversation *c, const char *line, size_t len, uint64_t offset,
			 uint64_t bytes)
{
	if (bytes > SMALL_BYTES) {
		if (!goes_at_once(c, len, bytes))
			flush_out(c);
		if (c->is_over || relay_sum_park(c, line, len, offset, bytes))
			return;
		c->sum_bytes = c->shift = 0;
		if (conversation_keep_line(c, line, len) != 0) {
			conversation_leave(c);
			return;
		}
		c->bulk_offset = c->bulk_at = offset;
		c->hashes = 0;
		c->like = 0;
		c->bulk_bytes = bytes;
		link_bulk(c);
		return;
	}
	struct head small = {.kind = KIND_SMALL, .offset = offset, .bytes = bytes};
	c->relay->counts.payload_bytes += bytes;
	if (link_tell(c, small, c->mapping->base + offset, (size_t)bytes) != 0)
		conversation_leave(c);
	else
		relay_read_put_line(c, line, len);
}

static int is_last_key(const struct record *r, const char *key)
{
	return r->count > 0 && strcmp(r->field[r->count - 1].key, key) == 0;
}

/* A record with a key that ends in "bytes". */
static void handle_record(struct conversation *c, const char *line, size_t len)
{
	struct record *r = &c->relay->record;
	uint64_t bytes, offset;
	int is_map = c->is_near && record_is(r, "map");
	int is_closing = !c->is_near && (record_is(r, "ok") || record_is(r, "err"));
	if (is_map && c->passed_fd >= 0 &&
	    record_u64(r, "bytes", 1, UINT64_MAX, &bytes, NULL) == 0) {
		relay_read_share_memory(c, line, len, bytes);
		if (c->passed_fd >= 0)
			close(c->passed_fd);
		c->passed_fd = -1;
	} else if (is_last_key(r, "bytes") && !is_map && !is_closing) {
		relay_read_put_line(c, line, len);
		if (record_u64(r, "bytes", 0, SIZE_MAX / 2, &bytes, NULL) == 0)
			framer_expect(&c->in, bytes);
	} else if (record_get(r, "map-bytes") &&
		   record_u64(r, "map-bytes", 1, SIZE_MAX / 2, &bytes, NULL) == 0 &&
		   record_u64(r, "map-offset-bytes", 0, UINT64_MAX, &offset, NULL) == 0 &&
		   mapping_at(c->mapping, offset, bytes)) {
		send_payload(c, line, len, offset, bytes);
	} else {
		relay_read_put_line(c, line, len);
	}
}

/* Takes one line, or the available bytes of a payload. -1: no more is there. */
static int relay_read_take_one(struct conversation *c)
{
	const char *line;
	size_t len;
	if (c->in.due > 0) {
		struct relay *relay = c->relay;
		if (relay->out_len == DATA_MAX)
			flush_out(c);
		size_t n = framer_take(&c->in, relay->out + relay->out_len,
				       DATA_MAX - relay->out_len);
		relay->out_len += n;
		return n > 0 ? 0 : -1;
	}
	switch (framer_line(&c->in, RECORD_LINE_MAX, &line, &len)) {
	case FRAMER_MORE:
		return -1;
	case FRAMER_LONG: /* not a record: the receiver will close */
		framer_expect(&c->in, UINT64_MAX);
		return 0;
	case FRAMER_LINE:
		break;
	}
	if (memmem(line, len, "bytes=", 6) && record_parse(&c->relay->record, line, len, NULL) == 0)
		handle_record(c, line, len);
	else
		relay_read_put_line(c, line, len);
	return 0;
}

/* ---- reading ---- */

/* This end has closed, and all its bytes have been passed on. */
static void relay_read_end(struct conversation *c)
{
	struct relay *relay = c->relay;
	framer_lend(&c->in, relay->input, sizeof relay->input);
	framer_expect(&c->in, UINT64_MAX); /* a line without newline */
	while (framer_left(&c->in) > 0 && relay_read_take_one(c) == 0)
		;
	flush_out(c);
	if (c->is_over)
		return;
	framer_clear(&c->in);
	if (transport_is_gone(c->fd)) {
		conversation_leave(c);
		return;
	}
	c->said_end = 1;
	if (link_tell(c, (struct head){.kind = KIND_SHUT}, NULL, 0) != 0)
		conversation_leave(c);
	else
		conversation_write(c); /* perhaps that was all */
}

/* Passes on what has arrived, as far as allowed; c's input was lent. */
static void relay_read_say(struct conversation *c)
{
	c->relay->out_len = 0;
	if (c->line && c->bulk_bytes == 0) {
		memcpy(out_room(c, c->line_len), c->line, c->line_len);
		free(c->line);
		c->line = NULL;
	}
	int more = 0;
	while (may_say(c) && more == 0)
		more = relay_read_take_one(c);
	flush_out(c);
	if (c->is_over)
		return;
	if (framer_return(&c->in) != 0) {
		conversation_leave(c);
		return;
	}
	if (c->passed_fd >= 0 && framer_left(&c->in) == 0) { /* it came with anything but `map` */
		close(c->passed_fd);
		c->passed_fd = -1;
	}
	if (more != 0 && c->read_end && may_say(c))
		relay_read_end(c);
	if (!c->is_over)
		conversation_watch(c);
}

void conversation_resume(struct conversation *c)
{
	c->resuming = 0;
	if (c->is_over || c->said_end || c->fd < 0)
		return;
	framer_lend(&c->in, c->relay->input, sizeof c->relay->input);
	relay_read_say(c);
}

int conversation_reads(const struct conversation *c)
{
	return !c->read_end && may_say(c);
}

/* A daemon whose answers are not read reads no more requests, and then the client's last requests
 * would never arrive. */
int conversation_drains(const struct conversation *c)
{
	return c->gone && !c->is_near && !c->drained;
}

static void relay_read_drain(struct conversation *c)
{
	struct iovec piece = {c->relay->input, sizeof c->relay->input};
	ssize_t n = transport_read(c->fd, &piece, 1, NULL);
	if (n > 0 || n == TRANSPORT_LATER)
		return;
	c->drained = 1;
	if (transport_is_gone(c->fd))
		conversation_leave(c);
	else
		conversation_watch(c);
}

void conversation_read(struct conversation *c)
{
	struct iovec piece[2];
	if (conversation_drains(c)) {
		relay_read_drain(c);
		return;
	}
	if (c->said_end) {
		if (transport_is_gone(c->fd))
			conversation_leave(c);
		return;
	}
	if (!conversation_reads(c)) {
		c->has_more = 1;
		conversation_watch(c);
		return;
	}
	framer_lend(&c->in, c->relay->input, sizeof c->relay->input);
	size_t count = framer_pieces(&c->in, NULL, 0, piece);
	ssize_t n = transport_read(c->fd, piece, count, &c->passed_fd);
	if (n > 0)
		framer_came(&c->in, (size_t)n);
	else if (n != TRANSPORT_LATER)
		c->read_end = 1;
	relay_read_say(c);
}
