/*
 * rows_text: writes rows of data files, as they are in the file, by number into a pipe.
 *
 * The rows of all files are numbered in one sequence from `begin`.  A row is given byte by byte
 * with its line end; a last row without one gets a newline.  What lies between rows (empty lines, a
 * libsvm comment) is left out.
 *
 * Bytes of plain files are not copied if rows are whole lines (splice(2)).  Packed files are
 * unpacked from the present place, or from the nearest access point of the index.  The end of a
 * shard is found by scanning less than one stride of the index.
 *
 * A struct rows_text is only read once it is open, and may be shared by threads; a reader belongs to
 * one thread at a time.
 */
#ifndef PACELINE_AGENT_ROWS_TEXT_H
#define PACELINE_AGENT_ROWS_TEXT_H

#include "base/error.h"
#include "data/index.h"
#include "work/shards.h"

#include <stddef.h>
#include <stdint.h>

struct rows_text;

struct rows_text_options {
	const char *const *paths; /* data files, in the order of their rows */
	size_t count;
	const char *index_dir; /* made if it is not there; NULL: beside each file, and if that
				can't be written, in memory */
	int named;             /* syntax is given; else it is that of the first file with rows */
	struct row_syntax syntax;
	int header; /* the header line is wanted: ERROR_CONFIG if there is none */
	index_progress_fn *progress; /* may be NULL; arg is the file's path */
};

/* Reads or makes all indexes. ERROR_DATA: the header lines of two csv files differ. */
int rows_text_open(struct rows_text **out, const struct rows_text_options *options,
		   struct error *err);
void rows_text_free(struct rows_text *t); /* NULL is fine */

uint64_t rows_text_rows(const struct rows_text *t);
/* Checks that the rows are all samples of a queue, or our partition of `part` of them from
 * part_begin on. -1: ERROR_CONFIG. part 0: there are no partitions. */
int rows_text_fit(struct rows_text *t, uint64_t samples, uint64_t part_begin, uint64_t part,
		  struct error *err);

struct rows_reader;

int rows_reader_new(struct rows_reader **out, const struct rows_text *text, struct error *err);
void rows_reader_free(struct rows_reader *r); /* NULL is fine */

enum rows_given {
	ROWS_GIVEN,
	ROWS_CLOSED,   /* nobody reads any more */
	ROWS_CANCELLED /* `cancel` became readable */
};
/* Where the rows go: fd is non-blocking; cancel: -1, or a descriptor that ends a wait when it
 * becomes readable. */
struct rows_sink {
	int fd, cancel;
};

/* Writes the header line, if it is wanted. enum rows_given, or -1. */
int rows_reader_header(struct rows_reader *r, const struct rows_sink *to, struct error *err);
/* Writes the rows of a piece that are still to be trained, in their order. enum rows_given, or -1:
 * ERROR_DATA: a file was changed since it was opened. */
int rows_reader_give(struct rows_reader *r, const struct piece *p, const struct rows_sink *to,
		     struct error *err);

#endif
