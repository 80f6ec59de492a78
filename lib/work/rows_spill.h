/*
 * rows_spill: rows that have come to this worker's partition from others, as files (LB-BSP 3.5).
 *
 * A file BEGIN-COUNT in the worker's directory holds that many rows from row BEGIN on, with a
 * header line if the format has one, as they are in the giver's file.  It gets its name when it is
 * whole and durable, and never changes: any file that is there may be used, whatever process wrote
 * it.
 */
#ifndef PACELINE_WORK_ROWS_SPILL_H
#define PACELINE_WORK_ROWS_SPILL_H

#include "data/dataset.h"

/* Calls `each` for each file; a nonzero result ends this and is returned. No directory: no file. */
int rows_spill_each(const char *dir,
		    int (*each)(const char *path, uint64_t begin, uint64_t count, void *arg,
				struct error *err),
		    void *arg, struct error *err);
/* Writes the rows of text as a file, durably. */
int rows_spill_write(const char *dir, uint64_t begin, uint64_t count, const void *text, size_t len,
		     struct error *err);
/* Adds files with rows that the dataset lacks to it. */
int rows_spill_load(const char *dir, struct dataset *ds, struct error *err);

#endif
