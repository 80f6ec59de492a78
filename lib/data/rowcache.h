/*
 * rowcache: the rows of a data file as numbers, parsed and hashed once (paceline-cache(5)).
 *
 * A cache belongs to one data file and one schema: it holds what dataset_read() would make of the
 * text, in blocks of ROWCACHE_EVERY rows.  A block with a bad row is not in it; the text has to be
 * read for that, so that bad rows are counted and named as without a cache.  Nobody needs a cache:
 * whoever can't read it reads the text.
 *
 * Blocks are read with pread(2) and not mapped: if a file is cut short, or its disk fails, a
 * mapping would kill the process.  It costs one copy, of what the checksum has to look at anyway.
 */
#ifndef PACELINE_DATA_ROWCACHE_H
#define PACELINE_DATA_ROWCACHE_H

#include "base/error.h"
#include "data/dataset.h"
#include "data/index.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

#define ROWCACHE_EVERY 256 /* rows in a block */

/* What a cache was made from. */
struct rowcache_seal {
	struct source_identity identity; /* of the data file */
	uint64_t rows;
	uint64_t schema_sum;
	uid_t owner; /* of the data file; not in the cache */
};

int rowcache_seal(struct rowcache_seal *out, const char *data_path, const struct schema *s,
		  const struct index *ix, struct error *err);
/* FILE.rowcache, or in dir NAME.HASH.rowcache, as index_path(). */
int rowcache_path(char *out, size_t out_max, const char *data_path, const char *dir,
		  struct error *err);

/* ---- reading ---- */

struct rowcache;

/* ERROR_NOINPUT: there is none. ERROR_NEGATIVE: it was made from other data, or with another
 * schema, or belongs to somebody who could not change the data: in a directory where all may create
 * files it may say anything. ERROR_DATA: it is damaged, or cut short. The schema must outlive
 * it. */
int rowcache_open(struct rowcache **out, const char *path, const struct schema *s,
		  const struct rowcache_seal *seal, struct error *err);
void rowcache_close(struct rowcache *c); /* NULL is fine */
/* Gives the descriptor back until the next read. */
void rowcache_rest(struct rowcache *c);
/* 1: rows from begin on were appended to `rows`, numbered from `number` on; 0: they are in the text
 * only. *length, 1 or more, is how many are wanted, and then how many that is true of: no more than
 * to the end of a block. -1: the block is damaged, or can't be read; nothing was appended, and
 * *length is as for 0. */
int rowcache_read(struct rowcache *c, uint64_t begin, uint64_t *length, uint64_t number,
		  struct rows *rows, struct error *err);

/* ---- a reader's cache of a file, found by itself ---- */

#define ROWCACHE_PLACES 2 /* in the directory of indexes, and beside the data */

struct rowcache_use {
	struct rowcache *cache; /* NULL: none yet */
	uint64_t look_again;    /* after so many more rows of text */
	struct stat refused[ROWCACHE_PLACES];
	int told; /* that a block could not be read */
};

/* As rowcache_read(), of the cache of this data file if there is one now; 0 also if there is none.
 * What is wrong with a cache is told once, and is no error. */
int rowcache_use(struct rowcache_use *u, const char *data_path, const char *index_dir,
		 const struct schema *s, const struct index *ix, uint64_t begin, uint64_t *length,
		 uint64_t number, struct rows *rows);
void rowcache_use_rest(struct rowcache_use *u);
void rowcache_use_end(struct rowcache_use *u);

/* ---- making ---- */

struct rowcache_making {
	const struct schema *schema;       /* fitted, if it needs that */
	const char *data_path, *index_dir; /* NULL: the index lies beside the data */
	const char *path;                  /* of the cache */
	const atomic_int *stop;            /* ends it early; may be NULL */
	index_progress_fn *progress;       /* rows; may be NULL */
	void *arg;
};

struct rowcache_made {
	uint64_t rows, bytes;
	uint64_t text_rows; /* of blocks that have a bad row, and are left out */
};

/* Reads the whole data file. The cache is there as a whole or not at all. ERROR_CANTCREAT: also if
 * it would take more than half of what is free on its disk. ERROR_TEMPFAIL: stopped, or the data
 * file was changed meanwhile. */
int rowcache_make(const struct rowcache_making *m, struct rowcache_made *out, struct error *err);
/* Whether the cache at m->path fits, blocks unseen: 1; 0: no; -1: the data can't be read. */
int rowcache_is_made(const struct rowcache_making *m, struct error *err);
/* Compares each row with what the text says. ERROR_NEGATIVE: they differ, or the cache is damaged
 * or does not fit. */
int rowcache_check(const struct rowcache_making *m, struct error *err);

#endif
