/*
 * fields: keys of a record and members of a struct.  One table serves both for writing and for
 * reading, so the two can't drift apart.
 */
#ifndef PACELINE_RECORD_FIELDS_H
#define PACELINE_RECORD_FIELDS_H

#include "base/error.h"
#include "base/option.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_U64,
	FIELD_U32,
	FIELD_REAL, /* double, not negative */
	FIELD_TIME, /* the same, in whole milliseconds */
	FIELD_NUMBER, /* double, up to 1e300 either way */
	FIELD_FLAG,   /* int, 0 or 1 */
	FIELD_ID,   /* const char *: what is read is the record's own */
	FIELD_ID_COPY, /* char[OPTION_ID_MAX] */
	FIELD_NAME, /* an enum; NULL-terminated names[] by its values */
};

struct field {
	const char *key; /* NULL: the end of a table */
	enum field_kind kind;
	size_t offset;    /* of the member */
	/* May be missing: then a U64 becomes `none`, an ID NULL or "", a FLAG 0, and others keep
	 * their value. `none` and "" are not written. */
	int is_optional;
	uint64_t none;    /* of FIELD_U64 */
	uint64_t min;     /* of FIELD_U64 */
	const char *const *names;
};

#define FIELD(name, what, type, member)                                                            \
	.key = name, .kind = FIELD_##what, .offset = offsetof(struct type, member)

/* -1: a field is missing or wrong, err says which (ERROR_DATA). */
int fields_read(const struct field *table, const struct record *r, void *to, struct error *err);
/* Writes the fields of *from, in the order of the table. */
void fields_write(const struct field *table, struct record_out *o, const void *from);

/* A time as FIELD_TIME writes it: rounded to milliseconds. */
double fields_milliseconds(double seconds);
void fields_add_time(struct record_out *o, const char *key, double seconds);

#endif
