/*
 * rec: lines that are no records, and what a line's record must be to get out.
 */
#include "cmd/rec.h"

#include "base/grow.h"

#include <unistd.h>

#define LINE_MAX_BYTES (1u << 20) /* longer ones are no data */

static int more_lines(struct rec_lines *in, struct error *err)
{
	if (in->begin > 0) {
		memmove(in->data, in->data + in->begin, in->end - in->begin);
		in->end -= in->begin;
		in->begin = 0;
	}
	if (GROW(in->data, in->room, in->end + 65536) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	ssize_t n;
	do
		n = read(STDIN_FILENO, in->data + in->end, in->room - in->end - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, ERROR_IO, "stdin", "read");
	in->end += (size_t)n;
	in->ended = n == 0;
	return 0;
}

/* The next line, NUL for its newline; 1, or 0 at the end. *whole is 0 for a last line without
 * newline. */
int rec_next_line(struct rec_lines *in, char **line, size_t *len, int *whole, struct error *err)
{
	for (;;) {
		size_t have = in->end - in->begin;
		char *start = in->data ? in->data + in->begin : NULL;
		char *newline = have ? memchr(start, '\n', have) : NULL;
		if (newline || (in->ended && have > 0)) {
			*line = start;
			*len = newline ? (size_t)(newline - start) : have;
			*whole = newline != NULL;
			start[*len] = '\0';
			in->begin += *len + (newline != NULL);
			snprintf(in->place, sizeof in->place, "stdin:%llu", ++in->number);
			return 1;
		}
		if (in->ended)
			return 0;
		if (have > LINE_MAX_BYTES)
			return error_set(err, ERROR_DATA, "stdin", "line %llu is longer than %u bytes",
					 in->number + 1, LINE_MAX_BYTES);
		if (rec_flush(err) != 0 || more_lines(in, err) != 0)
			return -1;
	}
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
