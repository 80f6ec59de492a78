/*
 * caching: a thread of lowest priority that makes row caches of the data (data/rowcache.h) while
 * the first epoch runs; the dataset of whoever trains finds them by itself.
 *
 * Of all workers that share a directory of caches one makes them: it holds a lock there.  The
 * others look now and then whether it still does, and go on from there if it died.  Whoever fails
 * (a full disk, a directory that can't be written) says so and keeps the lock, so that no other one
 * tries. Where locks don't reach from host to host two may do the same work; each cache is whole
 * all the same.
 */
#ifndef PACELINE_WORK_CACHING_H
#define PACELINE_WORK_CACHING_H

#include "base/error.h"
#include "data/schema.h"

#include <stddef.h>

struct caching;

struct caching_options {
	const struct schema *schema; /* fitted, if it needs that */
	const char *const *paths;
	size_t path_count;
	const char *index_dir; /* NULL: beside the data */
};

/* What the options point to must outlive it. */
int caching_start(struct caching **out, const struct caching_options *options, struct error *err);
/* Of the struct caching: processor time of its thread so far, which is not spent on training. */
double caching_seconds(const void *caching);
/* What is half made is dropped. NULL is fine. */
void caching_stop(struct caching *c);

#endif
