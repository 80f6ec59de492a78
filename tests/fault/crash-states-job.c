/*
 * What a job and ckpt(1) promise, for crash-states:
 *   - the checkpoint that was reported last is there, and whole;
 *   - whatever has a MANIFEST is whole: no half checkpoint is taken for a checkpoint;
 *   - a file that is written once, beside its name, is not there or whole; so is the record of a
 * node.
 *
 *     ARGUMENTS: UNDER REFERENCE [NAME...]
 *
 * A server says `ok path=UNDER/PATH iteration=`, and the test `whole PATH`, of a checkpoint; or the
 * test says `file NAME`: it is there from now on; an agent says `done ... id=N`: the Nth NAME is.  Files NAME are as in REFERENCE, or as NAME.old
 * there.
 */
#include "crash-states.h"

#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NAMES_MAX 64
#define JOB_PATH_MAX 4000

struct content {
	char *data;
	size_t len;
};

static const char *under;
static char reported[JOB_PATH_MAX];    /* the newest checkpoint; "": none */
static char *promised_path[NAMES_MAX]; /* more checkpoints */
static int promised;
static uint64_t reports;
static const char *name[NAMES_MAX];
static struct content whole[NAMES_MAX], old[NAMES_MAX];
static int is_promised[NAMES_MAX];
static int names;
static char wrong[1200];

static int content_read(const char *dir, const char *file, const char *suffix, struct content *c)
{
	char path[JOB_PATH_MAX];
	struct error err;
	snprintf(path, sizeof path, "%s/%s%s", dir, file, suffix);
	return fs_read_file(path, SIZE_MAX / 2, &c->data, &c->len, &err);
}

static void job_begin(int argc, char **argv)
{
	if (argc < 2 || argc - 2 > NAMES_MAX)
		crash_die("job", "needs a directory, references, and some names");
	under = argv[0];
	for (int i = 2; i < argc; i++) {
		name[names] = argv[i];
		if (content_read(argv[1], argv[i], "", &whole[names]) != 0)
			crash_die(argv[i], "is not in the references");
		(void)content_read(argv[1], argv[i], ".old", &old[names]);
		names++;
	}
}

/* What an agent said at once may be several lines. */
static void say_done(const char *text)
{
	int id;
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *at = strncmp(line, "done ", 5) == 0 ? strstr(line, " id=") : NULL;
		if (at && sscanf(at, " id=%d", &id) == 1 && id < names) {
			is_promised[id] = 1;
			reports++;
		}
	}
}

static void job_say(const char *program, const char *data, size_t len)
{
	char line[JOB_PATH_MAX], path[JOB_PATH_MAX];
	size_t skip = strlen(under);
	snprintf(line, sizeof line, "%.*s", len < sizeof line ? (int)len : 0, data);
	if (strcmp(program, "ps-server") == 0 &&
	    sscanf(line, "ok path=%3999s iteration=", path) == 1 &&
	    strncmp(path, under, skip) == 0) {
		memmove(reported, path + skip + 1, strlen(path + skip));
		reports++;
	} else if (strcmp(program, "agent") == 0) {
		say_done(line);
	} else if (strcmp(program, "test") == 0 && sscanf(line, "whole %3999s", path) == 1) {
		if (promised == NAMES_MAX || !(promised_path[promised++] = strdup(path)))
			crash_die("job", "too many checkpoints");
		reports++;
	} else if (strcmp(program, "test") == 0 && sscanf(line, "file %3999s", path) == 1) {
		for (int i = 0; i < names; i++)
			is_promised[i] |= strcmp(name[i], path) == 0;
		reports++;
	}
}

static uint64_t job_said(void)
{
	return reports;
}

static int job_wrong(const char *path, const char *why)
{
	snprintf(wrong, sizeof wrong, "%.500s: %.600s", path, why);
	return -1;
}

/* As ckpt_check_sum(), without its large buffer. */
static int check_sum_of(const char *dir, const struct ckpt_file *f, struct error *err)
{
	struct content is;
	if (content_read(dir, f->name, "", &is) != 0)
		return error_set(err, ERROR_DATA, f->name, "is not there");
	uint64_t sum = XXH3_64bits(is.data, is.len);
	free(is.data);
	return is.len == f->bytes && sum == f->sum
		       ? 0
		       : error_set(err, ERROR_DATA, f->name, "is not what was written");
}

static int check_checkpoint(const char *dir)
{
	char path[JOB_PATH_MAX];
	struct ckpt_manifest m;
	struct ckpt *c = NULL;
	struct error err;
	int result = ckpt_manifest_read(&m, dir, &err);
	for (size_t i = 0; result == 0 && i < m.count; i++)
		if (m.file[i].name[0] != '/')
			result = check_sum_of(dir, &m.file[i], &err);
	if (result == 0 && !m.foreign)
		result = ckpt_open(&c, dir, &err);
	ckpt_close(c);
	ckpt_manifest_free(&m);
	if (result == 0)
		return 0;
	error_format(&err, path, sizeof path);
	return job_wrong("taken for a checkpoint", path);
}

/* nodes/ID.LIFE: its first line; the second comes when the node has ended. */
static int check_record(const char *path, const char *file)
{
	const char *dot = strrchr(file, '.');
	char *text;
	struct error err;
	if (!dot || strspn(dot + 1, "0123456789") != strlen(dot + 1))
		return 0;
	if (fs_read_file(path, SIZE_MAX / 2, &text, NULL, &err) != 0)
		return job_wrong(path, err.text);
	const char *newline = strchr(text, '\n'), *at = strstr(text, " at=");
	int is_whole = strncmp(text, "node id=", 8) == 0 && at && newline && at < newline;
	free(text);
	return is_whole ? 0 : job_wrong(path, "the record of a node is not whole");
}

/* All below the directory. */
static int check_below(const char *path, int is_nodes)
{
	DIR *d = opendir(path);
	int result = 0;
	for (const struct dirent *e; d && result == 0 && (e = readdir(d)) != NULL;) {
		char file[JOB_PATH_MAX];
		if (e->d_name[0] == '.' ||
		    snprintf(file, sizeof file, "%s/%s", path, e->d_name) >= (int)sizeof file)
			continue;
		if (e->d_type == DT_DIR)
			result = check_below(file, strcmp(e->d_name, "nodes") == 0);
		else if (strcmp(e->d_name, CKPT_MANIFEST) == 0)
			result = check_checkpoint(path);
		else if (is_nodes)
			result = check_record(file, e->d_name);
	}
	if (d)
		closedir(d);
	return result;
}

static int is_content(const struct content *is, const struct content *c)
{
	return c->data && is->len == c->len && memcmp(is->data, c->data, c->len) == 0;
}

static int check_names(const char *dir)
{
	for (int i = 0; i < names; i++) {
		struct content is;
		if (content_read(dir, name[i], "", &is) != 0) {
			if (is_promised[i])
				return job_wrong(name[i], "is not there");
			continue;
		}
		int is_old = is_content(&is, &old[i]) && !is_promised[i];
		int is_right = is_old || is_content(&is, &whole[i]);
		free(is.data);
		if (!is_right)
			return job_wrong(name[i], "is not what was written");
	}
	return 0;
}

static int check_promised(const char *dir, const char *path)
{
	char full[2 * JOB_PATH_MAX];
	snprintf(full, sizeof full, "%s/%s", dir, path);
	return check_checkpoint(full);
}

static const char *job_check(const char *dir)
{
	int result = check_names(dir);
	if (result == 0)
		result = check_below(dir, 0);
	if (result == 0 && reported[0])
		result = check_promised(dir, reported);
	for (int i = 0; result == 0 && i < promised; i++)
		result = check_promised(dir, promised_path[i]);
	return result == 0 ? NULL : wrong;
}

const struct promise promise_job = {"job", job_begin, job_say, job_said, job_check};
