/*
 * origin: what the data files were when a job began, so that a later start knows whether they are
 * still the same.
 *
 * A small file of records: `data version=1 rows= bad-rows=`, then a `file path= bytes= mtime-ns=
 * head-bytes= head-sum= sum=` each, in order.  The sum is over the whole file as it lies on the disk
 * (XXH3, 64 bits).  A file with the same size and times has not changed; only a file that was
 * touched, or copied back, is read again to compare the sum.
 */
#ifndef PACELINE_DATA_ORIGIN_H
#define PACELINE_DATA_ORIGIN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct origin {
	uint64_t rows;     /* of all files; bad ones are counted too */
	uint64_t bad_rows; /* left out */
};

struct origin_files {
	const char *const *file;
	size_t count;
	int are_idx; /* with each comes the file of its labels */
};

/* Reads every file to its end. Durable. */
int origin_write(const char *path, const struct origin *origin, const struct origin_files *files,
		 struct error *err);
/* Without a look at the data. No file at path: ERROR_NOINPUT. */
int origin_read(const char *path, struct origin *out, struct error *err);
/* 0: the files are those that were written down. ERROR_CONFIG when one was changed, with its name;
 * ERROR_NOINPUT when one is gone. */
int origin_check(const char *path, const struct origin_files *files, struct error *err);

#endif
