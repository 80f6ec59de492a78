/*
 * survey: what a data file looks like, from its first megabytes: how its rows are written, and what
 * each of its columns holds.
 *
 * Rows are seen as lib/data will see them when a job trains on the file.
 */
#ifndef PACELINE_SURVEY_SURVEY_H
#define PACELINE_SURVEY_SURVEY_H

#include "base/error.h"
#include "data/format.h"
#include "survey/column.h"

#include <stddef.h>
#include <stdint.h>

#define SURVEY_BYTES (8u << 20) /* of text, the usual amount */

struct survey {
	struct row_syntax syntax; /* never ROW_LINES */
	char image[40]; /* of images: "28-28-1", as MODEL has it */
	int whole;            /* the file was read to its end */
	uint64_t rows, bytes; /* looked at; bytes of text */
	uint64_t rows_about;  /* in the whole file, as far as its size tells */
	/* csv: the columns in order. criteo, libsvm: one, the label. bag, images: none. */
	struct column *column;
	size_t count;
	/* csv: rows with more or fewer fields than the header, which are in no column */
	uint64_t ragged, ragged_line;
	size_t ragged_fields;
	uint64_t not_utf8; /* the first line that is no UTF-8; 0: all of them are */
	int many_lines; /* a row has more than one line: a line end in quotes */
	double features; /* of a row, in the mean: index:value of libsvm, word:count of bag */
};

/* Errors: ERROR_NOINPUT; ERROR_DATA with what the file is instead (empty, binary, a format that has
 * to be converted and by what, no names in its first line) and what to do about it. */
int survey_file(struct survey *s, const char *path, uint64_t bytes_max, struct error *err);
void survey_free(struct survey *s);

/* The column of this name; SIZE_MAX: there is none, err says which is the nearest, or which there are. */
size_t survey_column(const struct survey *s, const char *path, const char *name, struct error *err);

/* ---- the label ---- */

#define SURVEY_LABELS_MAX 9

struct survey_label {
	size_t column;
	int score;
};

/* Columns that may be the label, the likeliest first; how many. */
size_t survey_labels(const struct survey *s, struct survey_label out[SURVEY_LABELS_MAX]);
/* "yes" 24 %, "no" 76 %: what a column of a few values holds, for people. */
#define SURVEY_CLASSES_MAX 300
void survey_classes(const struct column *c, char out[SURVEY_CLASSES_MAX]);

/* Of the values of a label the one that means 1, as an index of c->value: the one that is known to
 * mean yes, else the rarer one of two. -1: there are more than two, or one. */
int survey_positive(const struct column *c);
/* Whether equal labels stand behind each other in long runs: such a file wants to be shuffled. */
int survey_sorted(const struct column *c);

/* Looks at the same rows again, for columns that tell the label exactly: the same value has always
 * the same label, or the numbers of each label lie apart from those of all others. Often such a
 * column is the label in other words, or is known afterwards only. positive as plan_choices has it;
 * NULL: each value of the label is a label, and nothing is said of more than COLUMN_VALUES_MAX. */
int survey_tells(struct survey *s, const char *path, size_t label, const char *positive,
		 struct error *err);

/* ---- the file to score ---- */

/* Whether other is named like the test file of name: "adult-test.csv" of "adult-train.csv.gz",
 * "adult_test.csv" of "adult.csv", "test.csv" of "train.csv". Both are names without directory. */
int survey_is_test(const char *name, const char *other);
/* The command that shows the file: cat, zcat or zstdcat. */
const char *survey_cat(const char *name);
/* Whether the name ends in .bag, perhaps packed: libsvm may look the same. */
int survey_is_named_bag(const char *name);
/* How a file written like this one is usually called: "csv", "svm". */
const char *survey_ending(const struct survey *s);
#define SURVEY_COMMAND_MAX 4400
/* The command that prints every tenth row of the file, or, rest, all others; the names in both. */
const char *survey_split(const struct survey *s, const char *path, int rest, char *out);
/* Commands that write the file once more, as JOB-shuffled.csv with its rows in any order and the names
 * still first, and as JOB-utf8.csv. Return out, of SURVEY_COMMAND_MAX bytes, as survey_split() does. */
const char *survey_shuffle(const struct survey *s, const char *path, const char *job, char *out);
const char *survey_recode(const struct survey *s, const char *path, const char *job, char *out);
/* The name without ".csv.gz" and "-train", cut to what may be the name of a job; out holds
 * OPTION_ID_MAX bytes. */
void survey_job_name(const char *name, char *out);

#endif
