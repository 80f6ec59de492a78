/*
 * dataset: rows of one or several files, numbered through from 0, as arrays of numbers.
 *
 * One struct dataset (or row_stream) belongs to one thread at a time and shares nothing but the
 * schema, which is only read: open one a thread (not two of the same file at the same moment while
 * its index is not built: both would write it).  There are no globals.
 *
 * Data file: plain, gzip or zstd (by its first bytes, not its name; several gzip members or zstd frames
 * are one stream).
 * A byte order mark at its start, CRLF line ends, and a last line without newline are fine; an empty
 * line is no row, and neither is a libsvm line that begins with '#'.  A row is 1 MiB at most.
 *
 * Each file has a row index (paceline-index(5)), built when it is missing or stale.
 */
#ifndef PACELINE_DATA_DATASET_H
#define PACELINE_DATA_DATASET_H

#include "base/error.h"
#include "data/labels.h"
#include "data/rowscan.h"
#include "data/schema.h"

#include <stddef.h>
#include <stdint.h>

#define DATASET_FILES_MAX 65536

/*
 * Rows as arrays.  Start with `struct rows rows = {0}`, give it to dataset_read() again and again:
 * arrays only grow, so that reading costs no allocation once they are large enough.  Everything in
 * it belongs to the struct; rows_free() at the end.  A skipped bad row is not in it: look at row[].
 */
struct rows {
	size_t count;         /* rows */
	size_t dense_columns; /* schema dense_count */
	size_t fields;        /* >0: every row has exactly that many keys, in schema order */
	uint64_t *row;        /* [count] global row number, ascending */
	float *label;         /* [count] 0 or 1 (NAN: unlabelled, only with label_optional) */
	float *weight;        /* [count] 1 where the schema names no weight column */
	float *dense;         /* [count * dense_columns], scaled */
	size_t *offset;       /* [count + 1] row i has keys offset[i] .. offset[i+1]-1 */
	uint32_t *key;        /* [offset[count]] in [0, 2^hash_bits) */
	float *value;         /* [offset[count]], or NULL: all 1 (criteo, csv) */
	/* private: room in the arrays */
	size_t row_room, dense_room, key_room;
	float *value_room;
	size_t value_room_count;
	int value_wanted;
};

void rows_free(struct rows *rows);

/* Called now and then during long work: what is "index" (units: bytes of the file on disk) or "fit"
 * (units: rows of the dataset); at the end once with done == total. May be NULL. */
typedef void dataset_progress_fn(const char *what, const char *path, uint64_t done, uint64_t total,
				 void *arg);

struct dataset_options {
	const char *const *paths; /* data files in order */
	size_t path_count;
	const char *index_dir;    /* where indexes are kept (made when missing); NULL: beside each
				     file as FILE.rowidx, and where that directory can't be
				     written, in memory only */
	uint64_t bad_rows_max;    /* 0: the first bad row is an error; N: as many are skipped */
	int label_optional;       /* a missing label is NAN and no bad row (predict) */
	int caches;               /* row caches are read where there are some (rowcache.h) */
	uint64_t keep_max;        /* bytes of memory for images of packed files, once read */
	dataset_progress_fn *progress;
	void *progress_arg;
};

struct dataset;

/* Opens all files, reading or building their indexes, and binds csv columns to their headers.
 * Errors: ERROR_NOINPUT, ERROR_DATA (file:line:column; damaged gzip or zstd: file and byte; a column the
 * file lacks: file:line, the name and the nearest known one), ERROR_IO, ERROR_CANTCREAT. The schema
 * must outlive the dataset. */
int dataset_open(struct dataset **out, const struct schema *schema,
		 const struct dataset_options *options, struct error *err);
void dataset_close(struct dataset *ds); /* NULL is fine */

uint64_t dataset_rows(const struct dataset *ds); /* in all files; bad ones are counted too */

/* From now on the rows of this dataset are numbered from begin on, as a part of more rows. */
int dataset_number(struct dataset *ds, uint64_t begin, struct error *err);
/* One more file, whose rows are numbered from begin on, wherever the others are. After
 * dataset_number() only. */
int dataset_add(struct dataset *ds, const char *path, uint64_t begin, struct error *err);
/* How many rows from begin on, at most length, the dataset has without a gap. */
uint64_t dataset_has(const struct dataset *ds, uint64_t begin, uint64_t length);
struct row_syntax dataset_syntax(const struct dataset *ds);
uint64_t dataset_file_rows(const struct dataset *ds, size_t file); /* of the files opened first */
uint64_t dataset_text_bytes(const struct dataset *ds); /* of all files, uncompressed */
/* Of the rows read so far, those that came from caches. */
uint64_t dataset_cached_rows(const struct dataset *ds);

/* Rows [begin, begin+length), which must be inside the dataset. Bad rows are left out, or, beyond
 * bad_rows_max, an ERROR_DATA with place file:line:column. Reading on where the last read ended
 * costs no seek. After an error the dataset may be used again. A file that was changed since
 * dataset_open() is an ERROR_DATA. */
int dataset_read(struct dataset *ds, uint64_t begin, uint64_t length, struct rows *rows,
		 struct error *err);

/* "FILE:LINE" of a row, for a message about it; FILE alone when that can't be read any more. */
void dataset_place(struct dataset *ds, uint64_t row, char *out, size_t max);

/* Different bad rows skipped so far (one met again in a later epoch counts once), and the error of
 * the last of them ("" when there was none). */
uint64_t dataset_bad_rows(const struct dataset *ds);
const char *dataset_last_bad(const struct dataset *ds);

/* From now on the labels of all rows read are counted there, those of bad rows too; NULL: no longer. */
void dataset_count_labels(struct dataset *ds, struct labels *labels);
/* Of those counted, as labels_describe() says it; names of files without their directories. */
void dataset_describe_labels(struct dataset *ds, const struct labels *labels, char *out, size_t max);

/* BAD_ROWS= of a job: "stop" -> 0, "skip:N" -> N (1 or more). ERROR_CONFIG otherwise. */
int dataset_bad_rows_option(const char *text, uint64_t *bad_rows_max, struct error *err);

/* One pass over the dataset: mean and deviation of each dense column (see schema.h); s must be the
 * schema the dataset was opened with, or a copy. Bad rows count against bad_rows_max. */
int schema_fit(struct schema *s, struct dataset *ds, struct error *err);

/*
 * Rows from a descriptor, until its end, without an index: plain, gzip or zstd, a pipe or a
 * file.  Row numbers count from 0.
 */
struct row_stream;

struct row_stream_options {
	const char *name;      /* for places: "stdin" */
	uint64_t bad_rows_max;
	int label_optional;
};

/* Reads the header of a csv. fd stays the caller's. */
int row_stream_open(struct row_stream **out, const struct schema *schema, int fd,
		    const struct row_stream_options *options, struct error *err);
void row_stream_close(struct row_stream *in); /* NULL is fine */
/* Up to max rows; rows->count == 0 means the end. Does not wait for a full batch when the pipe
 * pauses: gives what is there, one row at least. With -1, rows holds those before the error. */
int row_stream_read(struct row_stream *in, size_t max, struct rows *rows, struct error *err);
uint64_t row_stream_bad_rows(const struct row_stream *in);

#endif
