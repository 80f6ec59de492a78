/*
 * record: the one text format (paceline-record(5)).
 *
 *     type key=value key=value<TAB>text for people\n
 *
 * A record is parsed into a buffer of its own, without allocation.  Values are percent-decoded and
 * NUL-terminated; a value that contains a NUL is refused, because every reader here takes values as
 * C strings.
 */
#ifndef PACELINE_RECORD_RECORD_H
#define PACELINE_RECORD_RECORD_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

#define RECORD_LINE_MAX 4096 /* bytes, newline included */
#define RECORD_FIELDS_MAX 1366 /* as many "k=" as fit */

enum record_result {
	RECORD_END = 0,   /* end of input */
	RECORD_ONE = 1,   /* *r holds a record */
	RECORD_BLANK = 2  /* an empty line */
};

struct record_field {
	const char *key;
	const char *value;
};

struct record {
	const char *type;
	const char *text; /* after the tab; NULL: none */
	size_t count;
	/* A bit for each key's hash: most lookups of absent keys end here. Others compare only keys with that hash. */
	uint64_t key_bits;
	unsigned char hash[RECORD_FIELDS_MAX];
	struct record_field field[RECORD_FIELDS_MAX];
	char line[RECORD_LINE_MAX];
};

/* Parses a line of len bytes, without its newline. -1: ERROR_DATA; err.place stays empty, and the
 * text says what is wrong and at which byte. */
int record_parse(struct record *r, const char *line, size_t len, struct error *err);

/*
 * The records of a text that is in memory, one by one:
 *
 *     struct record_walk walk = record_walk(text, len);
 *     while ((got = record_next(&walk, &r, err)) == RECORD_ONE)
 *             ...
 *
 * Blank lines are skipped. A last line without its newline is no record. After a bad line (-1) the
 * next call goes on with the line after it.
 */
struct record_walk {
	const char *at, *end; /* what is still to come */
	const char *line;     /* the last line given, without its newline */
	size_t len;
	uint64_t number;      /* its number, from 1 */
};
struct record_walk record_walk(const char *text, size_t len);
/* RECORD_ONE, RECORD_END (no more) or -1: ERROR_DATA, err.place stays empty. The text is not
 * changed, and must stay as long as the walk. */
int record_next(struct record_walk *w, struct record *r, struct error *err);
/* Parses the first line of a text, which need not have a newline. */
int record_first(struct record *r, const char *text, size_t len, struct error *err);

/* The value of key, or NULL. */
const char *record_get(const struct record *r, const char *key);
/* Whether r is of this type. */
int record_is(const struct record *r, const char *type);

/* A field that must be there (ERROR_DATA otherwise, naming the key and the offending value). */
int record_text(const struct record *r, const char *key, const char **out, struct error *err);
int record_id(const struct record *r, const char *key, const char **out, struct error *err);
int record_u64(const struct record *r, const char *key, uint64_t min, uint64_t max, uint64_t *out,
	       struct error *err);
int record_real(const struct record *r, const char *key, double min, double max, double *out,
		struct error *err);
/* A field that may be missing: then *out is not changed. Bad values are errors all the same; an
 * empty real is a value that does not exist (paceline-record(5)) and counts as missing. */
int record_u64_opt(const struct record *r, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out, struct error *err);
int record_real_opt(const struct record *r, const char *key, double min, double max, double *out,
		    struct error *err);

/*
 * Writing.  The caller gives the buffer (RECORD_LINE_MAX is always enough for one record); what
 * does not fit makes record_end() fail, never write past it.
 */
struct record_out {
	char *data;
	size_t len;
	size_t max;
	int overflow;
};

/* Begins a record in data[max], which must stay until record_end(). */
void record_begin(struct record_out *o, char *data, size_t max, const char *type);
void record_add(struct record_out *o, const char *key, const char *value); /* encodes */
void record_add_u64(struct record_out *o, const char *key, uint64_t value);
/* Reading it gives the same value; one that is not finite is written as an empty value. */
void record_add_real(struct record_out *o, const char *key, double value);
/* Nine digits: for measured values. Not finite: empty. */
void record_add_brief(struct record_out *o, const char *key, double value);
void record_add_seconds(struct record_out *o, const char *key, double value); /* microseconds */
/* Every field of r, decoded values encoded again, except those whose key is `except` (or NULL). */
void record_add_fields(struct record_out *o, const struct record *r, const char *except);
/* Ends the record: text (may be NULL; newlines in it become spaces), newline, NUL. Returns the
 * length without NUL, or 0 when it did not fit. */
size_t record_end(struct record_out *o, const char *text);
/* Ends the record, without text, and writes it; writes nothing if it did not fit. */
void record_print(FILE *out, struct record_out *o);

/*
 * A whole record as one expression; valid as long as the block in which it stands:
 *
 *     sup_log(s, RECORD("part", F("path", path), F_SECONDS("seconds", took),
 *                       why ? F("why", why) : F_NONE));
 *
 * Its buffer is filled with zeros first, which takes 40 ns more than record_begin().
 */
struct record_value {
	enum record_value_kind { RECORD_LAST, RECORD_NONE, RECORD_TEXT, RECORD_COUNT, RECORD_REAL,
				 RECORD_BRIEF, RECORD_SECONDS } kind;
	const char *key;
	union {
		const char *text;
		uint64_t count;
		double real;
	};
};

struct record_line {
	struct record_out out;
	char line[RECORD_LINE_MAX];
};

/* Use RECORD(). Reads its arguments at once; values end with RECORD_LAST. */
struct record_out *record_make(struct record_line *l, const char *type,
			       const struct record_value *value);

#define RECORD(type, ...)                                                                          \
	record_make(&(struct record_line){.line = ""}, (type),                                     \
		    (struct record_value[]){__VA_ARGS__, {0}})
#define RECORD_BARE(type) /* without a field */                                                    \
	record_make(&(struct record_line){.line = ""}, (type), &(struct record_value){0})

/* A field: F for a text or a whole number, the others as record_add_real() and so on write them. */
#define F(key, value)                                                                              \
	_Generic((value), char *: record_value_text, const char *: record_value_text,              \
		 default: record_value_count)((key), (value))
#define F_REAL(key, value) record_value_real(RECORD_REAL, (key), (value))
#define F_BRIEF(key, value) record_value_real(RECORD_BRIEF, (key), (value))
#define F_SECONDS(key, value) record_value_real(RECORD_SECONDS, (key), (value))
#define F_NONE ((struct record_value){.kind = RECORD_NONE})

static inline struct record_value record_value_text(const char *key, const char *text)
{
	return (struct record_value){.kind = RECORD_TEXT, .key = key, .text = text};
}
static inline struct record_value record_value_count(const char *key, uint64_t count)
{
	return (struct record_value){.kind = RECORD_COUNT, .key = key, .count = count};
}
static inline struct record_value record_value_real(enum record_value_kind kind, const char *key,
						    double real)
{
	return (struct record_value){.kind = kind, .key = key, .real = real};
}

/*
 * Reading records from a descriptor, for filters and files: a line is returned as soon as it is
 * there, even if it comes from a pipe that stays open.
 */
struct record_reader;
/* name is what error places say ("stdin"); the descriptor stays the caller's. NULL: out of
 * memory. */
struct record_reader *record_reader_new(int fd, const char *name);
void record_reader_free(struct record_reader *in);
/* For a log that is being written, or whose writer died: what follows the last newline is no record
 * yet, and counts as the end. */
void record_reader_of_log(struct record_reader *in);
/* For such a log, at the end: whether there was a piece without a newline. */
int record_reader_torn(const struct record_reader *in);
/* -1: ERROR_DATA with place "name:line" (grammar, too long, NUL, no newline at the end), or
 * ERROR_IO. */
int record_read(struct record_reader *in, struct record *r, struct error *err);
/* Whether the next record_read() finds a whole line without asking the descriptor: a filter that
 * has no such line flushes what it has written so far. */
int record_reader_buffered(const struct record_reader *in);
uint64_t record_reader_line(const struct record_reader *in); /* of the last record, from 1 */
/* "name:line" of the last record. */
const char *record_reader_place(struct record_reader *in);

#endif
