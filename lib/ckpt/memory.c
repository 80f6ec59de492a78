/* memory: see memory.h. Nothing here is needed for safety: the part is on the disk, too. */
#include "ckpt/memory.h"

#include "base/fs.h"
#include "base/keep.h"
#include "base/option.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING "making" /* in place of the sum */
#define STATE "state-"
#define STATE_NAME_MAX (OPTION_ID_MAX + 32)

static int memory_path(const char *dir, uint32_t part, const char *sum, char *out, size_t max,
		       struct error *err)
{
	char name[CKPT_NAME_MAX + 20], part_name[CKPT_NAME_MAX];
	ckpt_part_name(part, part_name);
	snprintf(name, sizeof name, "%s.%s", part_name, sum);
	return fs_join(out, max, dir, name, err);
}

/* All; with `but` only names as long as that, and not itself. The directory stays: another part may be
 * about to be written there. */
static void remove_prefix(const char *dir, const char *prefix, const char *but)
{
	char path[CKPT_PATH_MAX];
	DIR *d = opendir(dir);
	size_t len = strlen(prefix);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, prefix, len) == 0 &&
		    (!but || (strlen(e->d_name) == strlen(but) && strcmp(e->d_name, but) != 0)) &&
		    fs_join(path, sizeof path, dir, e->d_name, NULL) == 0)
			unlink(path);
	if (d)
		closedir(d);
}

static void remove_part(const char *dir, uint32_t part)
{
	char prefix[CKPT_NAME_MAX + 2];
	snprintf(prefix, sizeof prefix, "part-%u.", part);
	remove_prefix(dir, prefix, NULL);
}

void ckpt_memory_forget_all(const char *dir)
{
	if (fs_is_ours(dir, NULL) != 0)
		return;
	remove_prefix(dir, "part-", NULL);
	remove_prefix(dir, STATE, NULL);
	remove_prefix(dir, "kept-", NULL); /* of workers (work/kept_file.h) */
	rmdir(dir);
}

void ckpt_memory_forget(const char *dir, uint32_t part)
{
	if (fs_is_ours(dir, NULL) != 0)
		return;
	remove_part(dir, part);
	rmdir(dir); /* when it is empty */
}

/* The name under which keep_open() asks for it. */
static void memory_name(uint32_t part, uint64_t sum, char *out, size_t max)
{
	snprintf(out, max, "paceline-part-%u.%016" PRIx64, part, sum);
}

static int write_sealed(const struct store *s, const char *path, uint32_t part, uint32_t since,
			uint64_t sum, int keeper, struct error *err)
{
	char name[CKPT_NAME_MAX + 20];
	uint64_t bytes, own;
	memory_name(part, sum, name, sizeof name);
	int fd = keep_new(name, err);
	if (fd < 0)
		return -1;
	int result = ckpt_write_part_in(s, fd, path, since, 0, &bytes, &own, err);
	if (result == 0)
		result = keep_give(keeper, path, fd, err);
	close(fd);
	return result;
}

static int ckpt_memory_write_file(const struct store *s, const char *dir, const char *path,
				  uint32_t part, uint32_t since, struct error *err)
{
	char making[CKPT_PATH_MAX];
	uint64_t bytes, own;
	if (memory_path(dir, part, MAKING, making, sizeof making, err) != 0 ||
	    ckpt_write_part(s, making, since, 0, &bytes, &own, err) != 0)
		return -1;
	if (rename(making, path) != 0) {
		error_errno(err, ERROR_IO, path, "rename");
		unlink(making);
		return -1;
	}
	return 0;
}

int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, int keeper, struct error *err)
{
	char path[CKPT_PATH_MAX], digits[17];
	snprintf(digits, sizeof digits, "%016" PRIx64, sum);
	if (fs_make_dirs(dir, err) != 0 || fs_is_ours(dir, err) != 0 ||
	    memory_path(dir, part, digits, path, sizeof path, err) != 0)
		return -1;
	/* The old copy is removed first: there may be no room for two. */
	remove_part(dir, part);
	if (keeper >= 0 && keep_give(keeper, path, -1, err) == 0)
		return write_sealed(s, path, part, since, sum, keeper, err);
	return ckpt_memory_write_file(s, dir, path, part, since, err);
}

/* Uses the copy that a process holds, or else the file. */
static int use(struct ckpt *c, uint32_t part, uint64_t sum, const char *path)
{
	char name[CKPT_NAME_MAX + 20], held[64];
	struct stat st;
	if (lstat(path, &st) != 0)
		return -1;
	if (!S_ISLNK(st.st_mode))
		return ckpt_replace_part(c, part, path);
	memory_name(part, sum, name, sizeof name);
	int fd = keep_open(path, name);
	if (fd < 0)
		return -1;
	snprintf(held, sizeof held, "/proc/self/fd/%d", fd);
	int result = ckpt_replace_part(c, part, held);
	close(fd);
	return result;
}

uint32_t ckpt_memory_use(struct ckpt *c, const char *dir)
{
	const struct ckpt_manifest *m = ckpt_get_manifest(c);
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX], digits[17];
	uint32_t used = 0;
	if (access(dir, F_OK) != 0 || fs_is_ours(dir, NULL) != 0) /* anybody might have put it there */
		return 0;
	for (uint32_t i = 0; i < m->parts; i++) {
		ckpt_part_name(i, name);
		uint64_t sum = ckpt_manifest_file(m, name)->sum;
		snprintf(digits, sizeof digits, "%016" PRIx64, sum);
		if (memory_path(dir, i, digits, path, sizeof path, NULL) == 0)
			used += use(c, i, sum, path) == 0;
	}
	return used;
}

/* ---- states of trainers ---- */

static void state_name(const char *worker, uint64_t sum, char out[STATE_NAME_MAX])
{
	snprintf(out, STATE_NAME_MAX, STATE "%s.%016" PRIx64, worker, sum);
}

int ckpt_memory_keep(const char *dir, const char *worker, uint64_t sum, int fd, int keeper,
		     struct error *err)
{
	char path[CKPT_PATH_MAX], name[STATE_NAME_MAX], prefix[STATE_NAME_MAX];
	state_name(worker, sum, name);
	if (fs_make_dirs(dir, err) != 0 || fs_is_ours(dir, err) != 0 ||
	    fs_join(path, sizeof path, dir, name, err) != 0 ||
	    keep_give(keeper, path, fd, err) != 0)
		return -1;
	/* The keeper of an earlier process lets go of its file when no link leads there any more.
	 * Another worker's id may be longer, and begin with this one and a dot. */
	snprintf(prefix, sizeof prefix, STATE "%s.", worker);
	remove_prefix(dir, prefix, name);
	return 0;
}

int ckpt_memory_find(const char *dir, const char *worker, uint64_t bytes, uint64_t sum)
{
	char path[CKPT_PATH_MAX], name[STATE_NAME_MAX], held[64];
	uint64_t is_bytes, is_sum;
	state_name(worker, sum, name);
	if (access(dir, F_OK) != 0 || fs_is_ours(dir, NULL) != 0 ||
	    fs_join(path, sizeof path, dir, name, NULL) != 0)
		return -1;
	int fd = keep_open(path, CKPT_MEMORY_STATE);
	snprintf(held, sizeof held, "/proc/self/fd/%d", fd);
	if (fd >= 0 && ckpt_sum_file(held, 0, &is_bytes, &is_sum, NULL) == 0 && is_bytes == bytes &&
	    is_sum == sum)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}
