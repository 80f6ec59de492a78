#include "wire/answers.h"

#include "wire/transport.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void answers_begin(struct answers *a, int fd, const char *name)
{
	a->fd = fd;
	a->name = name;
	a->passed = -1;
	a->in = (struct framer){0};
	framer_lend(&a->in, a->data, sizeof a->data);
}

void answers_end(struct answers *a)
{
	if (a->fd >= 0) {
		close(a->fd);
		if (a->passed >= 0)
			close(a->passed);
	}
	a->fd = a->passed = -1;
	framer_clear(&a->in);
}

ssize_t answers_read(struct answers *a, void *to, size_t bytes, struct error *err)
{
	struct iovec piece[2];
	size_t count = framer_pieces(&a->in, to, bytes, piece);
	ssize_t n = count > 0 ? transport_read(a->fd, piece, count, &a->passed) : TRANSPORT_LATER;
	if (n > 0)
		framer_came(&a->in, (size_t)n);
	if (n == TRANSPORT_LOST && errno != ECONNRESET)
		return error_errno(err, ERROR_UNAVAILABLE, a->name, "read");
	if (n < 0)
		return error_set(err, ERROR_UNAVAILABLE, a->name, "the connection was closed");
	return n;
}

/* The payload that a data record announces: its last key is bytes=N. */
static int expect_payload(struct answers *a, const struct record *r, struct error *err)
{
	uint64_t bytes;
	if (r->count == 0 || answers_is_last(r) ||
	    strcmp(r->field[r->count - 1].key, "bytes") != 0)
		return 0;
	if (record_u64(r, "bytes", 0, SIZE_MAX / 2, &bytes, err) != 0)
		return -1;
	framer_expect(&a->in, bytes);
	return 0;
}

int answers_next(struct answers *a, struct record *r, struct error *err)
{
	const char *line;
	size_t len;
	switch (framer_line(&a->in, RECORD_LINE_MAX, &line, &len)) {
	case FRAMER_MORE:
		return RECORD_END;
	case FRAMER_LONG:
		return error_set(err, ERROR_DATA, a->name, "line longer than %d bytes",
				 RECORD_LINE_MAX);
	case FRAMER_LINE:
		break;
	}
	if (record_parse(r, line, len, err) != 0 || expect_payload(a, r, err) != 0)
		return error_wrap(err, a->name);
	return RECORD_ONE;
}

int answers_is_last(const struct record *r)
{
	return record_is(r, "ok") || record_is(r, "err");
}

int answers_greeting(const struct record *r, const char *name, struct error *err)
{
	const char *version = record_get(r, "version");
	if (record_is(r, "err"))
		return error_set(err, ERROR_TEMPFAIL, name, "%s", r->text ? r->text : "turned away");
	if (!record_is(r, "paceline"))
		return error_set(err, ERROR_DATA, name, "no greeting but '%.80s'", r->type);
	if (!version || strcmp(version, "1") != 0)
		return error_set(err, ERROR_DATA, name, "speaks version '%.20s', not 1",
				 version ? version : "");
	return 0;
}
