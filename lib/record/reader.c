/* reader: records from a descriptor, one by one, as soon as they are there. */
#include "record/framer.h"
#include "record/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define READER_ROOM 65536

struct record_reader {
	int fd;
	int of_log, torn;
	uint64_t line; /* lines returned so far */
	struct framer in;
	char name[256];
	char place[300];
	char data[READER_ROOM];
};

struct record_reader *record_reader_new(int fd, const char *name)
{
	struct record_reader *in = malloc(sizeof *in);
	if (!in)
		return NULL;
	in->fd = fd;
	in->of_log = in->torn = 0;
	in->line = 0;
	in->in = (struct framer){0};
	framer_lend(&in->in, in->data, sizeof in->data);
	snprintf(in->name, sizeof in->name, "%s", name);
	return in;
}

void record_reader_free(struct record_reader *in)
{
	free(in);
}

void record_reader_of_log(struct record_reader *in)
{
	in->of_log = 1;
}

int record_reader_torn(const struct record_reader *in)
{
	return in->torn;
}

int record_reader_buffered(const struct record_reader *in)
{
	return framer_has_line(&in->in);
}

uint64_t record_reader_line(const struct record_reader *in)
{
	return in->line;
}

const char *record_reader_place(struct record_reader *in)
{
	snprintf(in->place, sizeof in->place, "%s:%llu", in->name, (unsigned long long)in->line);
	return in->place;
}

/* Reads more bytes behind the existing ones; 0 at the end of input. */
static int refill(struct record_reader *in, struct error *err)
{
	struct iovec piece[2];
	size_t count = framer_pieces(&in->in, NULL, 0, piece);
	ssize_t n;
	do
		n = readv(in->fd, piece, (int)count);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, ERROR_IO, in->name, "read");
	framer_came(&in->in, (size_t)n);
	return n > 0;
}

/* The input has ended, perhaps in the middle of a line. */
static int reader_take_end(struct record_reader *in, struct error *err)
{
	if (framer_left(&in->in) == 0)
		return RECORD_END;
	in->line++;
	if (!in->of_log)
		return error_set(err, ERROR_DATA, record_reader_place(in),
				 "the input ends without a newline");
	in->torn = 1;
	in->in.begin = in->in.end;
	return RECORD_END;
}

int record_read(struct record_reader *in, struct record *r, struct error *err)
{
	const char *line;
	size_t len;
	enum framer_found found;
	while ((found = framer_line(&in->in, RECORD_LINE_MAX, &line, &len)) == FRAMER_MORE) {
		int more = refill(in, err);
		if (more <= 0)
			return more < 0 ? -1 : reader_take_end(in, err);
	}
	in->line++;
	if (found == FRAMER_LONG)
		return error_set(err, ERROR_DATA, record_reader_place(in),
				 "line longer than %d bytes", RECORD_LINE_MAX);
	if (len == 0)
		return RECORD_BLANK;
	if (record_parse(r, line, len, err) != 0)
		return error_wrap(err, record_reader_place(in));
	return RECORD_ONE;
}
