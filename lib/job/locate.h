/*
 * locate: which file a relative name in a job file means.
 *
 * The directory of the job file in which the name stands, and the current directory, are looked at.
 * Where the file is in one of them, that is the one. In both: it is said, not guessed. Once a job
 * has begun, the file that it began with is the one, as long as one of the two names it: the answer
 * does not change because a file has come, or gone. Names that no job file gave (--set) are seen
 * from the current directory.
 */
#ifndef PACELINE_JOB_LOCATE_H
#define PACELINE_JOB_LOCATE_H

#include "base/error.h"
#include "job/job.h"

/* Makes all names of job absolute, after job_finish(). kept: the job file that an earlier start
 * left in the state directory, which need not be there; NULL: the job starts over. ERROR_CONFIG: a
 * name is that of two files; ERROR_NOINPUT: of none; place is "file:line". */
int job_locate(struct job *job, const char *kept, struct error *err);

#endif
