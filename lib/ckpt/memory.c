/* memory: see memory.h. Whatever is wrong with it, the disk has it, too. */
#include "ckpt/memory.h"

#include "base/fs.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAKING "making" /* in place of the sum */

static int memory_path(const char *dir, uint32_t part, const char *sum, char *out, size_t max,
		       struct error *err)
{
	char name[CKPT_NAME_MAX + 20], part_name[CKPT_NAME_MAX];
	ckpt_part_name(part, part_name);
	snprintf(name, sizeof name, "%s.%s", part_name, sum);
	return fs_join(out, max, dir, name, err);
}

void ckpt_memory_forget(const char *dir, uint32_t part)
{
	char prefix[CKPT_NAME_MAX + 2], path[CKPT_PATH_MAX];
	DIR *d = opendir(dir);
	size_t len = (size_t)snprintf(prefix, sizeof prefix, "part-%u.", part);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, prefix, len) == 0 &&
		    fs_join(path, sizeof path, dir, e->d_name, NULL) == 0)
			unlink(path);
	if (d)
		closedir(d);
	rmdir(dir); /* when it is empty */
}

int ckpt_memory_write(const struct store *s, const char *dir, uint32_t part, uint32_t since,
		      uint64_t sum, struct error *err)
{
	char making[CKPT_PATH_MAX], path[CKPT_PATH_MAX], digits[17];
	uint64_t bytes, own;
	snprintf(digits, sizeof digits, "%016" PRIx64, sum);
	ckpt_memory_forget(dir, part);
	if (fs_make_dirs(dir, err) != 0 || fs_is_ours(dir, err) != 0 ||
	    memory_path(dir, part, MAKING, making, sizeof making, err) != 0 ||
	    memory_path(dir, part, digits, path, sizeof path, err) != 0 ||
	    ckpt_write_part(s, making, since, 0, &bytes, &own, err) != 0)
		return -1;
	if (rename(making, path) != 0) {
		error_errno(err, ERROR_IO, path, "rename");
		unlink(making);
		return -1;
	}
	return 0;
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
		snprintf(digits, sizeof digits, "%016" PRIx64, ckpt_manifest_file(m, name)->sum);
		if (memory_path(dir, i, digits, path, sizeof path, NULL) == 0 &&
		    access(path, R_OK) == 0)
			used += ckpt_replace_part(c, i, path) == 0;
	}
	return used;
}
