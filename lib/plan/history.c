/* history: see history.h. */
#include "plan/history.h"

#include "base/fs.h"
#include "base/grow.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int history_take(struct history *h, const struct record *r, struct error *err)
{
	struct finished f = {.rate = NAN};
	if (plan_take_names(&f.names, r, err) != 0 ||
	    record_u64(r, "workers", 1, PLAN_CORES_MAX, &f.count[PLAN_WORKER], err) != 0 ||
	    record_u64(r, "worker-cores", 1, PLAN_CORES_MAX, &f.cores[PLAN_WORKER], err) != 0 ||
	    record_u64(r, "servers", 1, PLAN_CORES_MAX, &f.count[PLAN_SERVER], err) != 0 ||
	    record_u64(r, "server-cores", 1, PLAN_CORES_MAX, &f.cores[PLAN_SERVER], err) != 0 ||
	    record_u64_opt(r, "worker-bytes", 0, PLAN_BYTES_MAX, &f.bytes[PLAN_WORKER], err) != 0 ||
	    record_u64_opt(r, "server-bytes", 0, PLAN_BYTES_MAX, &f.bytes[PLAN_SERVER], err) != 0 ||
	    record_real_opt(r, "steps-per-second", 0, 1e12, &f.rate, err) != 0)
		return -1;
	if (GROW(h->job, h->room, h->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a finished job");
	h->job[h->count++] = f;
	return 0;
}

/* The newer half, from the beginning of a line on. */
static int forget_older(const char *path, struct error *err)
{
	char *text;
	size_t len;
	if (fs_read_file(path, 8 * (size_t)HISTORY_BYTES_MAX, &text, &len, err) != 0)
		return -1;
	const char *from = memchr(text + len / 2, '\n', len - len / 2);
	size_t at = from ? (size_t)(from + 1 - text) : len;
	int result = fs_replace_file(path, text + at, len - at, err);
	free(text);
	return result;
}

/* Several jobs may end at once: a record is one write(2) at the end. */
int history_append(const char *path, const char *line, size_t len, struct error *err)
{
	char dir[PATH_MAX];
	struct stat st;
	fs_dirname(path, dir, sizeof dir);
	if (fs_make_dirs(dir, err) != 0)
		return -1;
	if (stat(path, &st) == 0 && st.st_size > (off_t)HISTORY_BYTES_MAX &&
	    forget_older(path, err) != 0)
		return -1;
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be opened");
	int result = fs_write_all(fd, line, len, path, err);
	if (close(fd) != 0 && result == 0)
		result = error_errno(err, ERROR_IO, path, "can't be written");
	return result;
}

void history_clear(struct history *h)
{
	free(h->job);
	*h = (struct history){0};
}

static int history_is_same(const char *a, const char *b)
{
	return *a && strcmp(a, b) == 0;
}

const struct finished *history_nearest(const struct history *h, const struct usage *u)
{
	const struct finished *best = NULL;
	int most = 0;
	for (size_t i = 0; i < h->count; i++) {
		const struct plan_names *a = &h->job[i].names, *b = &u->names;
		int user = history_is_same(a->user, b->user),
		    data = history_is_same(a->data, b->data);
		int model = history_is_same(a->model, b->model);
		/* How many, then which. */
		int near = 8 * (user + data + model) + 4 * data + 2 * model + user;
		if (!(user || data) || near < most)
			continue;
		most = near;
		best = &h->job[i];
	}
	return best;
}
