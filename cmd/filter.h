/*
 * filter: how filters read, and what they do about record types they do not know: pass over them
 * with one warning a type, or stop when told to be strict.
 */
#ifndef PACELINE_CMD_FILTER_H
#define PACELINE_CMD_FILTER_H

#include "cmd/cmd.h"
#include "record/record.h"

#include <unistd.h>

#define FILTER_TYPES_MAX 32 /* types warned about one by one; further ones share one warning */

struct filter_unknown {
	const char *program;
	int strict;
	size_t count;
	char type[FILTER_TYPES_MAX][40];
};

/* -1 with ERROR_DATA at `place` when strict. */
static inline int filter_unknown(struct filter_unknown *u, const struct record *r,
				 const char *place, struct error *err)
{
	if (u->strict)
		return error_set(err, ERROR_DATA, place, "unknown record type '%.40s'", r->type);
	char type[sizeof u->type[0]];
	snprintf(type, sizeof type, "%s", r->type);
	for (size_t i = 0; i < u->count && i < FILTER_TYPES_MAX; i++)
		if (strcmp(u->type[i], type) == 0)
			return 0;
	if (u->count < FILTER_TYPES_MAX) {
		memcpy(u->type[u->count], type, sizeof type);
		fprintf(stderr, "%s: %s: passing over records of unknown type '%s'\n", u->program,
			place, type);
	} else if (u->count == FILTER_TYPES_MAX) {
		fprintf(stderr, "%s: %s: passing over more unknown types\n", u->program, place);
	}
	if (u->count <= FILTER_TYPES_MAX)
		u->count++;
	return 0;
}

/* -1: and why; the place is the caller's to say. 1: a type that it does not know. */
typedef int filter_take_fn(const struct record *r, void *arg, struct error *err);

/* Records of a type, NULL: of any, one by one; blank lines are passed over. Who waits for an answer gets it
 * before the next line is waited for. name: the file's, where an error says its place. */
static inline int filter_read_from(int fd, const char *name, const char *program, int strict,
				   const char *type, filter_take_fn *take, void *arg,
				   struct error *err)
{
	static struct record r; /* large */
	struct filter_unknown unknown = {.program = program, .strict = strict};
	struct record_reader *in = record_reader_new(fd, name);
	if (!in)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int got, result = 0;
	while (result == 0) {
		if (!record_reader_buffered(in))
			fflush(stdout);
		if ((got = record_read(in, &r, err)) == RECORD_END)
			break;
		if (got < 0)
			result = -1;
		else if (got == RECORD_BLANK)
			continue;
		else if ((got = !type || record_is(&r, type) ? take(&r, arg, err) : 1) > 0)
			result = filter_unknown(&unknown, &r, record_reader_place(in), err);
		else if (got < 0)
			result = error_wrap(err, record_reader_place(in));
	}
	record_reader_free(in);
	return result;
}

static inline int filter_read(const char *program, int strict, const char *type,
			      filter_take_fn *take, void *arg, struct error *err)
{
	return filter_read_from(STDIN_FILENO, "stdin", program, strict, type, take, arg, err);
}

#endif
