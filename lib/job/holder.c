/* holder: see holder.h. */
#include "job/holder.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "proc/process.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The job goes on when the disk is full: then only the holder's pid is missing. */
static void holder_write_down(int lock, const char *path, const char *job)
{
	char boot[BOOT_ID_MAX];
	uint64_t start = 0;
	process_start(getpid(), &start);
	boot_id(boot);
	struct record_out *o =
		RECORD("holder", F("job", job), F("pid", (uint64_t)getpid()), F("start", start),
		       F("boot", boot), F_SECONDS("at", clock_epoch()));
	if (ftruncate(lock, 0) == 0)
		(void)fs_write_all(lock, o->data, record_end(o, NULL), path, NULL);
}

int holder_take(const struct dirs *dirs, const char *job, int *lock, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, "lock", path);
	if (fs_lock(path, lock, err) != 0)
		return -1;
	holder_write_down(*lock, path, job);
	return 0;
}

static int holder_take_record(const struct record *r, struct holder *out)
{
	char boot[BOOT_ID_MAX];
	uint64_t pid;
	const char *then, *job;
	boot_id(boot);
	if (!record_is(r, "holder") || record_id(r, "job", &job, NULL) != 0 ||
	    record_u64(r, "pid", 1, INT32_MAX, &pid, NULL) != 0 ||
	    record_u64(r, "start", 0, UINT64_MAX, &out->start, NULL) != 0 ||
	    record_text(r, "boot", &then, NULL) != 0 ||
	    record_real(r, "at", 0, 1e300, &out->at, NULL) != 0 || strcmp(then, boot) != 0)
		return 0;
	out->pid = (pid_t)pid;
	snprintf(out->job, sizeof out->job, "%s", job);
	return process_alive(out->pid, out->start);
}

int holder_look(const struct dirs *dirs, struct holder *out, struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	struct record r;
	size_t len;
	dirs_state(dirs, "lock", path);
	*out = (struct holder){0};
	if (fs_read_file(path, RECORD_LINE_MAX, &text, &len, err) != 0)
		return error_is_lack(err) ? -1 : 0;
	int found = record_first(&r, text, len, NULL) == 0 && holder_take_record(&r, out);
	free(text);
	return found;
}

int holder_find(const struct dirs *dirs, struct holder *out)
{
	struct error err;
	return holder_look(dirs, out, &err) > 0;
}
