/*
 * column: what the values of one column have in common, and what the column is good for.
 *
 * Values are added in the order of their rows.  Different values are counted exactly (by their
 * 64-bit hashes, 8 bytes a row); the texts of the first COLUMN_VALUES_MAX different ones are kept,
 * with how often they came.
 */
#ifndef PACELINE_SURVEY_COLUMN_H
#define PACELINE_SURVEY_COLUMN_H

#include "base/error.h"
#include "survey/value.h"

#include <stddef.h>
#include <stdint.h>

#define COLUMN_VALUES_MAX 32
#define COLUMN_SHOWN 60 /* bytes of a value that a message shows */

struct column_value {
	char *text;
	size_t len;
	uint64_t hash, count, line; /* line: where it came first */
	int missing;                /* reads as one of value_spelling() */
};

struct column {
	char *name;
	uint64_t rows;                     /* values added, missing ones too */
	uint64_t missing[VALUE_SPELLINGS]; /* by spelling */
	uint64_t absent;                   /* the sum of them */
	uint64_t numbers, commas, percents, dates; /* of all others */
	uint64_t whole, padded, days;      /* of the numbers */
	uint64_t words, bytes;             /* in all values that are there */
	uint64_t runs;                     /* of equal values behind each other */
	double min, max, last;             /* of the numbers */
	int falls;                         /* a number is not greater than the one before */
	char odd[COLUMN_SHOWN + 1];        /* the first value that is there and no number */
	uint64_t odd_line;
	struct column_value value[COLUMN_VALUES_MAX]; /* none empty; in order of appearance */
	size_t values;
	int more_values;                   /* than those */
	int twin;                          /* another column has this name; set by survey_file() */
	int tells;                         /* the label of every row; set by survey_tells() */
	uint64_t distinct;                 /* of what is there; from column_close() on */
	/* private */
	uint64_t *hash, last_hash;
	size_t hashes, room;
};

/* A column without a name has "". Takes a copy. -1: out of memory. */
int column_open(struct column *c, const char *name, size_t len, struct error *err);
void column_free(struct column *c);

int column_add(struct column *c, const char *text, size_t len, uint64_t line, struct error *err);
/* After the last value. */
void column_close(struct column *c);

/* Values that are there. */
uint64_t column_present(const struct column *c);
/* Its different values as those of a label: at most max indexes of c->value, those that read as
 * missing left out unless less than two remain. 0: there are more than max, or none. */
size_t column_classes(const struct column *c, size_t *index, size_t max);

enum column_use { COLUMN_DENSE, COLUMN_SPARSE, COLUMN_OUT };

#define COLUMN_WHY_MAX 400

struct column_verdict {
	enum column_use use;
	int mend;                 /* no numbers as it stands; it could be made a column of them */
	char why[COLUMN_WHY_MAX]; /* for people */
};

void column_judge(const struct column *c, struct column_verdict *out);
/* Categories with few rows for each value, like the names of persons: a model learns them by heart
 * and is worse on other rows. Says nothing when only a part of the rows was added. */
int column_rare(const struct column *c, const struct column_verdict *v);

/* "24,130" */
#define COLUMN_COUNT_MAX 32
const char *column_count(uint64_t n, char out[COLUMN_COUNT_MAX]);

#endif
