/*
 * raw: rows of a data file as they stand there, by number: for who hands them on.
 */
#ifndef PACELINE_DATA_RAW_H
#define PACELINE_DATA_RAW_H

#include "data/rowscan.h"

struct raw;

/* With the index that lies in index_dir (NULL: beside the file), or one made for this. */
int raw_open(struct raw **out, const char *path, enum row_format format, const char *index_dir,
	     struct error *err);
void raw_close(struct raw *r); /* NULL is fine */

uint64_t raw_rows(const struct raw *r);

/* Text, growing; all zero is an empty one, free(data) its end. */
struct raw_text {
	char *data;
	size_t len, room;
};

/* Appends the header line of a csv, and nothing for other formats. */
int raw_header(struct raw *r, struct raw_text *out, struct error *err);
/* Appends rows from begin on, each with a newline: length of them, fewer at the end of the file or
 * when out would be longer than bytes_max; *count says how many, one at least if there is one. */
int raw_read(struct raw *r, uint64_t begin, uint64_t length, size_t bytes_max,
	     struct raw_text *out, uint64_t *count, struct error *err);

#endif
