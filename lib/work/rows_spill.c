/* rows_spill: see rows_spill.h. */
#include "work/rows_spill.h"

#include "base/fs.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "BEGIN-COUNT"; any other name (a temporary file, an index) is not ours. */
static int rows_spill_read_name(const char *name, uint64_t *begin, uint64_t *count)
{
	const char *dash = strchr(name, '-');
	return dash && number_u64_span(name, (size_t)(dash - name), begin) == 0 &&
	       number_u64_span(dash + 1, strlen(dash + 1), count) == 0 && *count > 0;
}

int rows_spill_each(const char *dir,
		    int (*each)(const char *path, uint64_t begin, uint64_t count, void *arg,
				struct error *err),
		    void *arg, struct error *err)
{
	char path[PATH_MAX];
	uint64_t begin, count;
	int result = 0;
	DIR *d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : error_errno(err, ERROR_IO, dir, "can't be read");
	for (struct dirent *e; result == 0 && (e = readdir(d));) {
		if (!rows_spill_read_name(e->d_name, &begin, &count))
			continue;
		result = fs_join(path, sizeof path, dir, e->d_name, err);
		if (result == 0)
			result = each(path, begin, count, arg, err);
	}
	closedir(d);
	return result;
}

int rows_spill_write(const char *dir, uint64_t begin, uint64_t count, const void *text, size_t len,
		     struct error *err)
{
	char path[PATH_MAX], name[64];
	snprintf(name, sizeof name, "%llu-%llu", (unsigned long long)begin,
		 (unsigned long long)count);
	if (fs_make_dirs(dir, err) != 0 || fs_join(path, sizeof path, dir, name, err) != 0)
		return -1;
	return fs_replace_file(path, text, len, err);
}

static int load_one(const char *path, uint64_t begin, uint64_t count, void *arg, struct error *err)
{
	struct dataset *ds = arg;
	return dataset_has(ds, begin, count) == count ? 0 : dataset_add(ds, path, begin, err);
}

int rows_spill_load(const char *dir, struct dataset *ds, struct error *err)
{
	return rows_spill_each(dir, load_one, ds, err);
}
