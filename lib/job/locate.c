/* locate: see locate.h. */
#include "job/locate.h"

#include "base/fs.h"
#include "solve/balance.h"
#include "solve/solution.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct places {
	char beside[2 * PATH_MAX]; /* as the job file's directory sees it */
	char here[2 * PATH_MAX];   /* as the current one does */
};

static int locate_is_there(const struct job_file *file, const char *path)
{
	return file->is_program ? fs_is_program(path) : access(path, F_OK) == 0;
}

/* Compares by name, whether the file exists or not, or by device and inode. */
static int locate_is_same(const char *a, const char *b)
{
	struct stat x, y;
	if (strcmp(a, b) == 0)
		return 1;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The file with which the job began under this key; NULL: none. */
static const char *began_with(const struct job *kept, const struct job_file *file)
{
	struct job_file other;
	for (size_t i = 0; kept && job_file(kept, i, &other) == 0; i++)
		if (strcmp(other.key, file->key) == 0 && other.index == file->index)
			return *other.name;
	return NULL;
}

/* The file that is meant; NULL: the error says why there is none. */
static const char *locate_choose(const struct job_file *file, const struct places *at,
				 const struct job *kept, struct error *err)
{
	const char *began = began_with(kept, file);
	if (began && (locate_is_same(began, at->beside) || locate_is_same(began, at->here)))
		return began;
	if (strcmp(at->beside, at->here) == 0)
		return at->beside;
	int beside = locate_is_there(file, at->beside), here = locate_is_there(file, at->here);
	if (beside && here && !locate_is_same(at->beside, at->here)) {
		error_set(err, ERROR_CONFIG, file->origin->place,
			  "%s: %.100s is %.120s, beside the job file, and %.120s, in the current "
			  "directory: write the whole name of the one that is meant",
			  file->key, *file->name, at->beside, at->here);
		return NULL;
	}
	if (!beside && !here && !file->is_late && !file->is_program) {
		error_set(err, ERROR_NOINPUT, file->origin->place,
			  "%s: there is neither %.180s, beside the job file, nor %.180s, in the "
			  "current directory",
			  file->key, at->beside, at->here);
		return NULL;
	}
	return here && !beside ? at->here : at->beside;
}

static int is_known_word(const struct job_file *file, const char *name)
{
	if (strcmp(file->key, "BRAIN") == 0)
		return strcmp(name, "on") == 0 || strcmp(name, "off") == 0;
	return solution_find(name) || balance_is(name);
}

static int locate(const struct job_file *file, const char *current, const struct job *kept,
		  struct error *err)
{
	struct places at;
	const char *name = *file->name, *dir = file->origin->dir;
	int is_word = file->is_program && !strchr(name, '/');
	if (name[0] == '/' || (is_word && is_known_word(file, name)))
		return 0;
	if (strcmp(name, "-") == 0) /* not a file: the reader of the key reports it */
		return 0;
	snprintf(at.beside, sizeof at.beside, "%s/%s", dir ? dir : current, name);
	snprintf(at.here, sizeof at.here, "%s/%s", current, name);
	const char *chosen = locate_choose(file, &at, kept, err);
	if (!chosen)
		return -1;
	if (is_word && !locate_is_there(file, chosen))
		return 0; /* an unknown word stays unchanged */
	char *copy = strdup(chosen);
	if (!copy)
		return error_set(err, ERROR_OS, name, "out of memory");
	free(*file->name);
	*file->name = copy;
	return 0;
}

int job_locate(struct job *job, const char *kept, struct error *err)
{
	char current[PATH_MAX];
	struct job_file file;
	struct job began = {0};
	int result = 0;
	if (!getcwd(current, sizeof current))
		return error_errno(err, ERROR_OS, NULL, "current directory");
	/* A file that can't be read is reported when the two jobs are compared. */
	int has_begun =
		kept && job_init(&began, NULL) == 0 && job_read(&began, kept, NULL) == 0;
	for (size_t i = 0; result == 0 && job_file(job, i, &file) == 0; i++)
		result = locate(&file, current, has_begun ? &began : NULL, err);
	job_free(&began);
	return result;
}
