/*
 * plrec: reads lines that are not records, and checks that a line fits into a record.
 */
#include "cmd/plrec.h"

#include <unistd.h>

#define LINE_MAX_BYTES (1u << 20) /* longer lines are not data */
#define ROOM (LINE_MAX_BYTES + 65536)

/* 0 at the end of the input. */
static int more_lines(struct rec_lines *in, struct error *err)
{
	struct iovec piece[2];
	if (!in->data) {
		in->data = malloc(ROOM + 1); /* and a NUL */
		if (!in->data)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		framer_lend(&in->in, in->data, ROOM);
	}
	size_t count = framer_pieces(&in->in, NULL, 0, piece);
	ssize_t n;
	do
		n = readv(STDIN_FILENO, piece, (int)count);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, ERROR_IO, "stdin", "read");
	framer_came(&in->in, (size_t)n);
	return n > 0;
}

int rec_next_line(struct rec_lines *in, char **line, size_t *len, int *whole, struct error *err)
{
	const char *at = NULL;
	enum framer_found found;
	while ((found = framer_line(&in->in, LINE_MAX_BYTES + 1, &at, len)) == FRAMER_MORE) {
		int more = rec_flush(err) == 0 ? more_lines(in, err) : -1;
		if (more < 0)
			return -1;
		if (more == 0)
			break;
	}
	if (found == FRAMER_LONG)
		return error_set(err, ERROR_DATA, "stdin", "line %llu is longer than %u bytes",
				 in->number + 1, LINE_MAX_BYTES);
	*whole = found == FRAMER_LINE;
	if (!*whole) {
		*len = framer_left(&in->in);
		at = in->data + in->in.begin;
		in->in.begin = in->in.end;
		if (*len == 0)
			return 0;
	}
	*line = in->data + (at - in->data);
	(*line)[*len] = '\0';
	snprintf(in->place, sizeof in->place, "stdin:%llu", ++in->number);
	return 1;
}

int rec_put(struct record_out *o, const char *text, const char *place, struct error *err)
{
	size_t len = record_end(o, text);
	if (len == 0)
		return error_set(err, ERROR_DATA, place, "does not fit into a record of %d bytes",
				 RECORD_LINE_MAX);
	fwrite(o->data, 1, len, stdout);
	return 0;
}
