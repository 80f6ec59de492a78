/*
 * rowscan: where rows begin and end.
 *
 * lines: each line, empty ones too.  criteo: each line that is not empty.  libsvm: the same, without
 * lines that begin with '#'.  csv: as libcsv sees rows (non-strict; rows end with a newline, which a
 * quoted field may hold; blanks around a field are not part of it, unless the blank is the separator;
 * lines of blanks are no rows); the first row is the header and is not counted.  idx, cifar10,
 * cifar100: as many bytes as a row has, whatever they are; a "line" is a row.
 *
 * A byte order mark at the start of the text is left out.  A carriage return before the newline is
 * part of the line end.  Lines count from 1.
 */
#ifndef PACELINE_DATA_ROWSCAN_H
#define PACELINE_DATA_ROWSCAN_H

#include "base/error.h"
#include "data/format.h"
#include "data/source.h"

#include <csv.h>
#include <stddef.h>
#include <stdint.h>

#define ROWSCAN_ROW_MAX (1u << 20) /* bytes of a row, its line end included */
#define ROWSCAN_SLACK 64           /* readable bytes behind every row, for vector loads */

struct row_ref {
	const char *data;
	size_t len;      /* without line end */
	size_t raw_len;  /* with it */
	uint64_t offset; /* in the text */
	uint64_t line;
	char separator;  /* csv: between two fields */
	int quoted;      /* csv: split by libcsv, see rowscan_fields() */
};

struct row_field {
	const char *data;
	size_t len;
};

/* Fields of the row that libcsv is reading, kept until the next row. */
struct rowscan_fields {
	char *bytes;
	size_t bytes_len, bytes_room;
	size_t *end; /* of each field in bytes */
	size_t count, room;
	struct row_field *field;
	size_t field_room;
	int failed; /* out of memory in a callback, which can't say so itself */
	int row_done;
};

struct rowscan {
	struct source *source;
	struct row_syntax syntax;
	char *buffer;
	size_t room;
	size_t begin, scan, end; /* row begins; looked at up to here; bytes end */
	uint64_t offset, line;   /* of buffer[begin] */
	uint64_t lines_in_row;   /* whole lines of the open row before scan (csv) */
	uint64_t rows_until;     /* offset behind which no row is looked for; 0: up to the end */
	int row_open, eof;
	size_t row_bytes;   /* of an image, with its label; 0: rows are text */
	uint64_t rows_left; /* idx, from its header; UINT64_MAX: not known */
	int csv_ready;
	struct csv_parser csv;
	struct rowscan_fields fields;
};

enum rowscan_result { ROWSCAN_END = 0, ROWSCAN_ROW = 1, ROWSCAN_WAIT = 2 };

/* All zero bytes are a rowscan without memory; rowscan_free() after any use. */
int rowscan_init(struct rowscan *r, struct row_syntax syntax, struct error *err);
void rowscan_free(struct rowscan *r);
/* Goes on reading at the source's place, which is the start of line `line`. At the start of an idx
 * file its header is read, and sets syntax.pixels. */
int rowscan_start(struct rowscan *r, struct source *source, uint64_t line, struct error *err);

/* After rowscan_start() at the start of the text, in place of a known syntax: takes what the first
 * line looks like (see row_syntax_guess). */
int rowscan_guess(struct rowscan *r, struct error *err);

/* The next row: enum rowscan_result, or -1. Valid until the next call. ROWSCAN_WAIT: with nowait,
 * instead of waiting for the descriptor; and where lines that are no rows go on behind rows_until.
 * Errors: those of source_read; a row too long or a quote that is never closed (ERROR_DATA, place
 * file:line). */
int rowscan_next(struct rowscan *r, struct row_ref *row, int nowait, struct error *err);

/* The fields of the csv row given last. Unquoted rows are split here, quoted ones were by libcsv;
 * both give the same for a row without quotes. */
int rowscan_fields(struct rowscan *r, const struct row_ref *row, const struct row_field **field,
		   size_t *count, struct error *err);

/* Where field number `index` of a csv row begins, as an offset into it, for error places. */
size_t rowscan_field_at(const struct row_ref *row, size_t index);

#endif
