/*
 * fit: keys that can have no effect in a job of this kind, or none that is wanted
 * (paceline-job(5)), in two tables: what does not fit, row by row, and which keys are without an
 * effect.
 *
 * What somebody has asked for and can't get is refused before anything starts; where a job is as
 * good without it, that is only told.
 */
#ifndef PACELINE_JOB_FIT_H
#define PACELINE_JOB_FIT_H

#include "job/job.h"

enum job_fit { JOB_FIT_OVER = -1, JOB_FIT_FINE, JOB_FIT_TOLD, JOB_FIT_REFUSED };

/* The i-th row of both tables, about a finished job; JOB_FIT_OVER behind the last. what (TOLD,
 * REFUSED): ERROR_CONFIG with the place where the key was given; path where that is not known. */
enum job_fit job_fit(const struct job *job, size_t i, const char *path, struct error *what);

#endif
