/*
 * prepare: what must lie in the state directory before any node starts: indexes of the data, schema
 * (fitted once, then kept), model, layout, and the resolved job.
 */
#ifndef PACELINE_RUN_PREPARE_H
#define PACELINE_RUN_PREPARE_H

#include "base/error.h"
#include "data/dataset.h"
#include "run/job.h"
#include "run/place.h"

#include <stdint.h>

struct prepared {
	uint64_t samples; /* rows of DATA */
	uint64_t *rows;   /* of each of its files; to be freed */
};

/* May take as long as one or two passes over the data, the first time; progress may be NULL.
 * *out is filled when 0 is returned. The job must fit what the state directory was made with (ERROR_CONFIG
 * naming the key): running tells whether nodes of it run. */
int prepare(const struct job *job, const struct place *place, int running,
	    dataset_progress_fn *progress, void *arg, struct prepared *out, struct error *err);

/* Removes what an earlier run left in the state directory, but nothing else that may lie there, and
 * not the indexes, which are the data's. */
int prepare_fresh(const struct job *job, const struct place *place, struct error *err);

/* Whether anything of the job runs, by its records; id (OPTION_ID_MAX bytes) is one that does. */
int prepare_running(const struct place *place, char *id);

#endif
