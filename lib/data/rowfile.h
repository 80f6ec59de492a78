/*
 * rowfile: one data file and its index: its rows by number, as they stand there.
 *
 * What a row means is parse.h's business.  A rowfile belongs to one thread at a time.
 */
#ifndef PACELINE_DATA_ROWFILE_H
#define PACELINE_DATA_ROWFILE_H

#include "data/index.h"

struct rowfile_options {
	const char *index_path; /* the index file itself; NULL: index_path() says, in index_dir */
	const char *index_dir;  /* NULL: beside the data file */
	struct index_making making;
};

struct rowfile {
	char *path;
	struct index *index;
	struct rowscan scan;   /* of the row given last */
	struct source *source; /* open while rows are read, or NULL */
	uint64_t at;           /* the row that rowfile_next() gives next */
	int aside;             /* scan does not stand there */
	char *kept;            /* see rowfile_keep() */
};

/* The format of a file's rows if none is given: that of its index, whether the index fits the file
 * or not, else the one guessed from the first line. */
int rowfile_guess(const char *path, const char *index_path, struct row_syntax *syntax,
		  struct error *err);

/* Sets what the start of a file of this format says of its rows: pixels of an idx file. */
int rowfile_look(const char *path, struct row_syntax *syntax, struct error *err);

/* Reads its index, or makes one. All zero bytes are a rowfile without memory; rowfile_close() after
 * any use. */
int rowfile_open(struct rowfile *f, const char *path, struct row_syntax syntax,
		 const struct rowfile_options *options, struct error *err);
void rowfile_close(struct rowfile *f);
/* From now on rows that were read stay in memory until rowfile_close(), if the file is packed, its
 * rows are images, and all of them take no more than *left bytes, which become fewer by that. */
void rowfile_keep(struct rowfile *f, uint64_t *left);
/* Gives back descriptor and buffers until the next read, so that thousands may be open. After an
 * error, too: where it stands is not known any more. */
void rowfile_rest(struct rowfile *f);

/* The header line of a csv, valid until the next call: 1, or 0 for other formats. An empty file is
 * ERROR_DATA. */
int rowfile_header(struct rowfile *f, struct row_ref *row, struct error *err);
/* Makes `row`, which must be there, the next. Where the last read ended there is nothing to seek.
 * ERROR_DATA: the file was changed since it was opened. */
int rowfile_go_to(struct rowfile *f, uint64_t row, struct error *err);
/* The next row, which must be there; valid until the next call. */
int rowfile_next(struct rowfile *f, struct row_ref *row, struct error *err);

/* ---- for callers that pass rows on ---- */

/* Text, growing; all zero is an empty one, free(data) its end. */
struct rowfile_text {
	char *data;
	size_t len, room;
};

/* Appends the header line of a csv, and nothing for other formats. */
int rowfile_add_header(struct rowfile *f, struct rowfile_text *out, struct error *err);
/* Appends rows from begin on, each with a newline: length of them, fewer at the end of the file or
 * when out would be longer than bytes_max; *count says how many, one at least if there is one. */
int rowfile_add_rows(struct rowfile *f, uint64_t begin, uint64_t length, size_t bytes_max,
		     struct rowfile_text *out, uint64_t *count, struct error *err);

#endif
