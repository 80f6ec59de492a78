/* condition: see condition.h. */
#include "job/condition.h"

#include "base/fs.h"
#include "job/holder.h"
#include "job/job.h"
#include "job/jobs.h"
#include "job/prepare.h"
#include "job/spent.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a log's end that are read first; more when they contain no row. */
static const size_t tail_bytes[] = {256u << 10, 8u << 20};

const char *condition_name(enum condition_is is)
{
	static const char *const names[] = {
		[CONDITION_RUNNING] = "running", [CONDITION_CRASHED] = "crashed",
		[CONDITION_STOPPED] = "stopped", [CONDITION_FAILED] = "failed",
		[CONDITION_DONE] = "done",       [CONDITION_NEW] = "new"};
	return names[is];
}

const char *condition_words(enum condition_is is)
{
	static const char *const words[] = {
		[CONDITION_RUNNING] = "it is running",
		[CONDITION_CRASHED] = "its trainctl was killed, or the machine went down",
		[CONDITION_STOPPED] = "it was stopped",
		[CONDITION_FAILED] = "it failed",
		[CONDITION_DONE] = "it is done",
		[CONDITION_NEW] = "it has not begun yet"};
	return words[is];
}

/* ---- the log ---- */

struct tail {
	int has_run;                   /* a run has begun in the part that was read */
	int is_over;                   /* and has written its summary */
	double at;                     /* of the last record that has a time */
	char summary[RECORD_LINE_MAX]; /* of the last run, with newline */
	uint64_t samples_done, samples;
};

static void condition_take_record(struct tail *t, const struct record *r, const char *line,
				  size_t len)
{
	double at = NAN;
	record_real_opt(r, "at", 0, 1e300, &at, NULL);
	if (!isnan(at))
		t->at = at;
	t->has_run = 1; /* a log begins with a run, or continues one */
	if (record_is(r, "begin") && !record_get(r, "goes-on")) {
		t->is_over = 0;
		t->summary[0] = '\0';
	} else if (record_is(r, "row")) {
		record_u64_opt(r, "samples-done", 0, UINT64_MAX, &t->samples_done, NULL);
		record_u64_opt(r, "samples", 0, UINT64_MAX, &t->samples, NULL);
	} else if (record_is(r, "summary")) {
		t->is_over = 1;
		snprintf(t->summary, sizeof t->summary, "%.*s\n", (int)len, line);
		record_u64_opt(r, "samples", 0, UINT64_MAX, &t->samples_done, NULL);
	}
}

static int close_tail(int fd, const char *path, char *text, struct error *err)
{
	error_errno(err, ERROR_IO, path, "can't be read");
	close(fd);
	free(text);
	return -1;
}

/* The last bytes of a file, from the beginning of a line on; NULL: there is none. To be freed. */
static int read_tail(const char *path, size_t bytes, char **out, size_t *len, struct error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	*out = NULL;
	*len = 0;
	if (fd < 0) {
		error_errno(err, 0, path, "can't be read");
		return error_is_lack(err) ? -1 : 0;
	}
	if (fstat(fd, &st) != 0)
		return close_tail(fd, path, NULL, err);
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return 0;
	}
	off_t from = st.st_size > (off_t)bytes ? st.st_size - (off_t)bytes : 0;
	size_t got = 0;
	char *text = malloc(bytes);
	if (!text)
		return close_tail(fd, path, text, err);
	while (got < bytes) {
		ssize_t n = pread(fd, text + got, bytes - got, from + (off_t)got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return close_tail(fd, path, text, err);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	char *first = from > 0 ? memchr(text, '\n', got) : NULL;
	size_t skip = first ? (size_t)(first - text) + 1 : 0;
	*len = got - skip;
	memmove(text, text + skip, *len);
	*out = text;
	return 0;
}

static int condition_read_end(struct tail *t, const struct dirs *dirs, size_t bytes,
			      struct error *err)
{
	static const char *const files[] = {"job.log.1", "job.log"};
	char path[DIRS_PATH_MAX], *text;
	struct record r;
	int got;
	*t = (struct tail){.at = NAN};
	for (size_t i = 0; i < 2; i++) {
		size_t len;
		dirs_state(dirs, files[i], path);
		if (read_tail(path, bytes, &text, &len, err) != 0)
			return -1;
		struct record_walk walk = record_walk(text ? text : "", len);
		while ((got = record_next(&walk, &r, NULL)) != RECORD_END)
			if (got == RECORD_ONE)
				condition_take_record(t, &r, walk.line, walk.len);
		free(text);
	}
	return 0;
}

static int condition_read_log(struct tail *t, const struct dirs *dirs, struct error *err)
{
	for (size_t i = 0; i < sizeof tail_bytes / sizeof *tail_bytes; i++) {
		if (condition_read_end(t, dirs, tail_bytes[i], err) != 0)
			return -1;
		if (t->samples > 0)
			return 0;
	}
	return 0;
}

/* ---- what it comes to ---- */

/* For logs of a version that did not write trainctl's status: what the status must have been. */
static int old_status(const struct record *r, enum condition_is is)
{
	uint64_t held = 0, status = 0, signal = 0;
	record_u64_opt(r, "held", 0, UINT64_MAX, &held, NULL);
	record_u64_opt(r, "status", 0, 255, &status, NULL);
	record_u64_opt(r, "signal", 0, 127, &signal, NULL);
	if (is == CONDITION_DONE)
		return held > 0 ? ERROR_NEGATIVE : 0;
	if (is == CONDITION_STOPPED)
		return ERROR_TEMPFAIL;
	return signal ? 128 + (int)signal : status ? (int)status : ERROR_SOFTWARE;
}

/* The same for what ended the job: MAX_TIME and EVAL patience leave samples over. */
static void old_end(struct condition *c, const struct record *r)
{
	uint64_t shards = 0, done = 0, held = 0;
	record_u64_opt(r, "shards", 0, UINT64_MAX, &shards, NULL);
	record_u64_opt(r, "shards-done", 0, UINT64_MAX, &done, NULL);
	record_u64_opt(r, "held", 0, UINT64_MAX, &held, NULL);
	if (done + held < shards)
		snprintf(c->ended, sizeof c->ended, "%s", SPENT_EARLY);
}

static void condition_take_summary(struct condition *c, const char *line)
{
	struct record r;
	uint64_t status;
	snprintf(c->summary, sizeof c->summary, "%s", line);
	if (record_first(&r, line, strlen(line), NULL) != 0)
		return;
	const char *state = record_get(&r, "state"), *ended = record_get(&r, "ended");
	c->is = !state                          ? CONDITION_FAILED
		: strcmp(state, "done") == 0    ? CONDITION_DONE
		: strcmp(state, "stopped") == 0 ? CONDITION_STOPPED
						: CONDITION_FAILED;
	record_real_opt(&r, "at", 0, 1e300, &c->since, NULL);
	record_u64_opt(&r, "samples", 0, UINT64_MAX, &c->samples_done, NULL);
	if (record_u64(&r, "exit", 0, 255, &status, NULL) == 0) {
		c->status = (int)status;
		snprintf(c->ended, sizeof c->ended, "%s", ended ? ended : "");
		return;
	}
	c->status = old_status(&r, c->is);
	if (c->is == CONDITION_DONE)
		old_end(c, &r);
}

/* The summary of a finished job, which its log may no longer have; NULL: the job is not finished.
 * To be freed. */
static int finished(const struct dirs *dirs, char **out, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, "summary", path);
	*out = NULL;
	if (fs_read_file(path, RECORD_LINE_MAX - 1, out, NULL, err) == 0)
		return 0;
	return error_is_lack(err) ? -1 : 0;
}

static int condition_take_state(struct condition *c, const struct dirs *dirs, struct error *err)
{
	struct tail t;
	struct holder holder;
	char *summary;
	if (finished(dirs, &summary, err) != 0)
		return -1;
	if (condition_read_log(&t, dirs, err) != 0) {
		free(summary);
		return -1;
	}
	c->samples_done = t.samples_done;
	c->samples = t.samples;
	c->since = t.at;
	if (summary || t.is_over)
		condition_take_summary(c, summary ? summary : t.summary);
	else
		c->is = t.has_run ? CONDITION_CRASHED : CONDITION_NEW;
	c->is_finished = summary != NULL;
	free(summary);
	int runs = prepare_look(dirs, c->node, err);
	int is_held = runs < 0 ? -1 : holder_look(dirs, &holder, err);
	if (is_held < 0)
		return -1;
	if (runs && c->is == CONDITION_NEW)
		c->is = CONDITION_CRASHED;
	if (!is_held)
		return 0;
	c->is = CONDITION_RUNNING;
	snprintf(c->name, sizeof c->name, "%s", holder.job);
	c->pid = holder.pid;
	c->start = holder.start;
	c->since = holder.at;
	c->node[0] = '\0';
	return 0;
}

/* The job's name is known from the first start on, but not while that start is still preparing. */
static int condition_read_name(struct condition *c, const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct job job;
	dirs_state(dirs, "job.env", path);
	if (job_init(&job, err) != 0)
		return -1;
	int result = job_read(&job, path, err);
	snprintf(c->name, sizeof c->name, "%s", job.name ? job.name : "");
	job_free(&job);
	return result == 0 || !error_is_lack(err) ? 0 : -1;
}

int condition_read(struct condition *c, const struct dirs *dirs, struct error *err)
{
	*c = (struct condition){.since = NAN};
	if (jobs_need_state(dirs, NULL, err) != 0)
		return -1;
	int has_begun = jobs_has_begun(dirs, err);
	if (has_begun <= 0)
		return has_begun < 0 ? -1 : jobs_none(dirs, NULL, err);
	if (condition_read_name(c, dirs, err) != 0)
		return -1;
	if (dirs_recorded(dirs, c->run, err) != 0) {
		if (error_is_lack(err))
			return -1;
		c->run[0] = '\0';
	}
	return condition_take_state(c, dirs, err);
}
