/*
 * index: where rows begin in a data file (paceline-index(5)).
 *
 * Keeps the place of every every-th row (offset in the text, line number) and access points: for gzip
 * with the text before them, for zstd the starts of frames.  Both are thinned by half when they grow
 * beyond a bound, so that the index of a file of any size stays small.  Read-only once made and
 * written.
 */
#ifndef PACELINE_DATA_INDEX_H
#define PACELINE_DATA_INDEX_H

#include "base/error.h"
#include "data/rowscan.h"
#include "data/source.h"

#include <stdint.h>

#define INDEX_EVERY 256                  /* rows between two places, at first */
#define INDEX_PLACES_MAX (1u << 20)
#define INDEX_SPAN (UINT64_C(2) << 20)   /* bytes of text between two access points, at first */
#define INDEX_POINTS_MAX 8192

struct index_place {
	uint64_t offset; /* of a row's first byte, in the text */
	uint64_t line;   /* from 1 */
};

struct index {
	struct row_syntax syntax;
	enum source_packing packing;
	struct source_identity identity;
	uint64_t rows;
	uint64_t lines;      /* in the whole text */
	uint64_t text_bytes;
	uint64_t every;
	size_t place_count;  /* ceil(rows / every): place i is row i * every */
	struct index_place *place;
	size_t point_count;  /* 0 for plain text */
	struct source_point *point;
	uint64_t *window_at; /* of each point's window: in the index file, or unused */
	unsigned char **window; /* deflated, in memory; NULL when they lie in the file */
	char *path;          /* index file, or NULL: in memory only */
	char head[1024];     /* its first line, to notice that the file was replaced */
};

typedef void index_progress_fn(uint64_t done, uint64_t total, void *arg);

/* One pass over the source, which must stand at its start. source_identify() is called before and
 * after: a file that changes meanwhile is ERROR_TEMPFAIL. progress may be NULL. */
int index_build(struct index **out, struct source *source, struct row_syntax syntax,
		index_progress_fn *progress, void *arg, struct error *err);
/* The same with other bounds than those above, in one place for both. */
struct index_bounds {
	uint64_t every;
	size_t places_max; /* even, at most INDEX_PLACES_MAX */
	uint64_t span;
	size_t points_max; /* the same for INDEX_POINTS_MAX */
};
int index_build_within(struct index **out, struct source *source, struct row_syntax syntax,
		       const struct index_bounds *bounds, index_progress_fn *progress, void *arg,
		       struct error *err);
void index_free(struct index *ix); /* NULL is fine */

/* Written new and renamed into place. Afterwards windows are read from the file. */
int index_write(struct index *ix, const char *path, struct error *err);
/* ERROR_NOINPUT: not there. ERROR_DATA: damaged. Windows are checked when used, or all now. */
int index_read(struct index **out, const char *path, int check_windows, struct error *err);
/* 1 when the index was made from this file; 0 and why in err (may be NULL); -1 when the file can't
 * be read. */
int index_is_of(const struct index *ix, struct source *source, struct error *err);
/* 1 when both say the same of the same text (windows left out); 0 and why in err. */
int index_same(const struct index *a, const struct index *b, struct error *err);

/* The index of a data file: the one at `path`, if it was made from this file and format, else a new
 * one. source must stand at its start, and is anywhere afterwards. */
enum index_keep {
	INDEX_KEEP_NOT, /* in memory only */
	INDEX_KEEP_IF,  /* written to path if that can be written */
	INDEX_KEEP      /* written, or the error */
};
struct index_making {
	enum index_keep keep;
	int anew; /* whatever there is at path */
	index_progress_fn *progress; /* may be NULL */
	void *arg;
};
int index_open(struct index **out, struct source *source, struct row_syntax syntax,
	       const char *path, const struct index_making *making, struct error *err);

/* Text that must be decompressed at most to reach a row; 0: the file is not compressed. */
uint64_t index_span_most(const struct index *ix);

/* Brings source and scan to the start of a row <= row (*at), as near as the index knows. row must
 * be < rows. The index must live as long as the source is read from there. */
int index_seek(const struct index *ix, struct source *source, struct rowscan *scan, uint64_t row,
	       uint64_t *at, struct error *err);

/* For index_seek(): the deflated window of point i, from the index file. To be freed. */
int index_fetch_window(const struct index *ix, size_t i, unsigned char **out, struct error *err);

/* FILE.rowidx, or in dir NAME.HASH.rowidx, HASH from the absolute path, because files of different
 * directories may share a name. */
int index_path(char *out, size_t out_max, const char *data_path, const char *dir,
	       struct error *err);

#endif
