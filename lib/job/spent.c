/* spent: see spent.h. */
#include "job/spent.h"

#include "base/fs.h"
#include "record/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int spent_read(const struct dirs *dirs, double *seconds, struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	struct record r;
	*seconds = 0;
	dirs_state(dirs, "spent", path);
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return 0;
	if (fs_read_file(path, RECORD_LINE_MAX, &text, NULL, err) != 0)
		return -1;
	int result = record_first(&r, text, strlen(text), err);
	free(text);
	if (result == 0)
		result = record_real(&r, "seconds", 0, 1e300, seconds, err);
	return result == 0 ? 0 : error_wrap(err, path);
}

size_t spent_line(double seconds, char out[RECORD_LINE_MAX])
{
	struct record_out o;
	record_begin(&o, out, RECORD_LINE_MAX, "time");
	record_add_seconds(&o, "seconds", seconds);
	return record_end(&o, NULL);
}

static int is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

int spent_goes_on(const struct job *job, const struct dirs *dirs, const char *ended)
{
	char path[DIRS_PATH_MAX];
	struct job before;
	double seconds;
	if (!ended[0] || job_init(&before, NULL) != 0)
		return 0;
	dirs_state(dirs, "job.env", path);
	int result = 0;
	if (job_read(&before, path, NULL) == 0 && spent_read(dirs, &seconds, NULL) == 0) {
		int by_time = is(ended, SPENT_MAX_TIME) ||
			      (is(ended, SPENT_EARLY) && before.max_time > 0 &&
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
	if (is(ended, SPENT_MAX_TIME) && spent_read(dirs, &seconds, NULL) == 0) {
		key = "MAX_TIME";
		snprintf(what, sizeof what, "MAX_TIME=%g ended this job after %.1f s",
			 job->max_time, seconds);
	} else if (is(ended, SPENT_PATIENCE)) {
		key = "EVAL patience";
		snprintf(what, sizeof what, "EVAL=patience:%llu ended this job",
			 (unsigned long long)job->patience);
	}
	snprintf(out, SPENT_TEXT_MAX,
		 "%s; `trainctl run` with a greater %s, or never, continues the job", what, key);
}
