/* spent: see spent.h. */
#include "job/spent.h"

#include "base/fs.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int spent_take(const struct record *r, double *seconds, struct error *err)
{
	return record_real(r, "seconds", 0, 1e300, seconds, err);
}

/* 0 s if there is no file. -1: the file can't be read. */
static int spent_find(const struct dirs *dirs, double *seconds)
{
	char path[DIRS_PATH_MAX], *text = NULL;
	size_t len = 0;
	struct error err;
	struct record r;
	int got, result = 0;
	*seconds = 0;
	dirs_state(dirs, DIRS_KEPT, path);
	if (fs_read_file(path, DIRS_KEPT_BYTES_MAX, &text, &len, &err) != 0)
		return err.code == ERROR_NOINPUT ? 0 : -1;
	struct record_walk walk = record_walk(text, len);
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END)
		if (got == RECORD_ONE && record_is(&r, "time"))
			result = spent_take(&r, seconds, NULL);
	free(text);
	return result;
}

size_t spent_line(double seconds, char out[RECORD_LINE_MAX])
{
	struct record_out o;
	record_begin(&o, out, RECORD_LINE_MAX, "time");
	record_add_seconds(&o, "seconds", seconds);
	return record_end(&o, NULL);
}

static int spent_is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

int spent_goes_on(const struct job *job, const struct dirs *dirs, const char *ended)
{
	char path[DIRS_PATH_MAX];
	struct job before;
	double seconds;
	if (!ended[0] || spent_is(ended, SPENT_ENOUGH) || job_init(&before, NULL) != 0)
		return 0;
	dirs_state(dirs, "job.env", path);
	int result = 0;
	if (job_read(&before, path, NULL) == 0 && spent_find(dirs, &seconds) == 0) {
		int by_time = spent_is(ended, SPENT_MAX_TIME) ||
			      (spent_is(ended, SPENT_EARLY) && before.max_time > 0 &&
			       seconds >= before.max_time);
		result = by_time ? job->max_time == 0 || job->max_time > seconds
				 : job->patience == 0 || job->patience > before.patience;
	}
	job_free(&before);
	return result;
}

void spent_text(const struct job *job, const struct dirs *dirs, const char *ended,
		char out[SPENT_TEXT_MAX])
{
	char what[96] = "MAX_TIME or EVAL patience ended this job";
	const char *key = "MAX_TIME or EVAL patience";
	double seconds = 0;
	out[0] = '\0';
	if (!ended[0])
		return;
	if (spent_is(ended, SPENT_ENOUGH)) {
		snprintf(out, SPENT_TEXT_MAX, "its trainer said that it has trained enough");
		return;
	}
	if (spent_is(ended, SPENT_MAX_TIME) && spent_find(dirs, &seconds) == 0) {
		key = "MAX_TIME";
		snprintf(what, sizeof what, "MAX_TIME=%g ended this job after %.1f s",
			 job->max_time, seconds);
	} else if (spent_is(ended, SPENT_PATIENCE)) {
		key = "EVAL patience";
		snprintf(what, sizeof what, "EVAL=patience:%llu ended this job",
			 (unsigned long long)job->patience);
	}
	snprintf(out, SPENT_TEXT_MAX,
		 "%s; `trainctl run` with a greater %s, or never, continues the job", what, key);
}
