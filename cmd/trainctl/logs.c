/* trainctl logs: a job's log, or what one of its nodes printed; with -f as it grows, until the job
 * ends. A log that grows too large is moved aside or cut while it is followed (lib/run/logs.c). */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/clock.h"
#include "job/condition.h"
#include "job/holder.h"
#include "job/jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_SECONDS 0.2
#define FOLLOW_LINES 10 /* shown at first */

struct log {
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX + 2]; /* older: the part of the log that was
							     * moved aside */
	int fd;
	off_t at; /* shown so far */
};

static int write_failed(void)
{
	return fflush(stdout) != 0 || ferror(stdout);
}

static int on_terminal;

/* A node may have printed text of a data file, which is a stranger's: on a terminal escape
 * sequences are shown, not executed. A \r, with which a bar is redrawn, ends a line. */
static void show_plain(char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n + 1) {
		for (n = 0; i + n < len && !strchr("\n\t\r", text[i + n]); n++) /* NUL, too */
			;
		char end = i + n < len ? text[i + n] : '\0';
		text[i + n] = '\0';
		error_plain(text + i);
		fwrite(text + i, 1, n, stdout);
		if (i + n < len && !(end == '\r' && i + n + 1 < len && text[i + n + 1] == '\n'))
			putchar(end == '\t' ? '\t' : end == '\0' ? '?' : '\n');
	}
}

/* Bytes at the end that are the beginning of a letter. */
static size_t half_letter(const char *text, size_t len)
{
	for (size_t n = 1; n < 4 && n <= len; n++) {
		unsigned char c = (unsigned char)text[len - n];
		if (c >= 0xc0)
			return n < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? n : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

/* From *at to the end. */
static int logs_show(int fd, off_t *at, const char *path, struct error *err)
{
	char buffer[65536 + 1];
	ssize_t got;
	while ((got = pread(fd, buffer, sizeof buffer - 1, *at)) > 0) {
		size_t len = (size_t)got;
		if (on_terminal && len > half_letter(buffer, len))
			len -= half_letter(buffer, len);
		*at += (off_t)len;
		if (on_terminal)
			show_plain(buffer, len);
		else if (fwrite(buffer, 1, len, stdout) != len)
			return 0; /* main() says why */
	}
	return got == 0 ? 0 : error_errno(err, ERROR_IO, path, "can't be read");
}

/* Where the last `lines` lines of a file begin. */
static off_t find_last(int fd, uint64_t lines)
{
	char buffer[65536];
	struct stat st;
	if (fstat(fd, &st) != 0)
		return 0;
	uint64_t seen = 0;
	for (off_t end = st.st_size; end > 0;) {
		off_t from = end > (off_t)sizeof buffer ? end - (off_t)sizeof buffer : 0;
		ssize_t got = pread(fd, buffer, (size_t)(end - from), from);
		if (got <= 0)
			return end;
		for (ssize_t i = got; i-- > 0;)
			if (buffer[i] == '\n' && from + i + 1 < st.st_size && ++seen == lines)
				return from + i + 1;
		end = from;
	}
	return 0;
}

static int show_older(const struct log *log, struct error *err)
{
	off_t at = 0;
	int fd = open(log->older, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	int result = logs_show(fd, &at, log->older, err);
	close(fd);
	return result;
}

/* ---- following ---- */

/* The log was copied aside and cut while its writer went on: the lines not shown yet are in the
 * copy. */
static int follow_cut(struct log *log, struct error *err)
{
	struct stat st;
	if (fstat(log->fd, &st) != 0 || st.st_size >= log->at)
		return 0;
	int fd = open(log->older, O_RDONLY | O_CLOEXEC);
	int result = fd >= 0 ? logs_show(fd, &log->at, log->older, err) : 0;
	if (fd >= 0)
		close(fd);
	log->at = 0;
	return result;
}

/* The log was renamed, and a new file has its name. */
static int follow_rename(struct log *log, struct error *err)
{
	struct stat now, st;
	if (stat(log->path, &now) != 0 || fstat(log->fd, &st) != 0 ||
	    (now.st_ino == st.st_ino && now.st_dev == st.st_dev))
		return 0;
	int fd = open(log->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	int result = logs_show(log->fd, &log->at, log->path, err);
	close(log->fd);
	log->fd = fd;
	log->at = 0;
	return result;
}

static int logs_follow(struct log *log, const struct dirs *dirs, struct error *err)
{
	struct holder holder;
	for (;;) {
		int running = holder_find(dirs, &holder);
		if (follow_cut(log, err) != 0 || follow_rename(log, err) != 0 ||
		    logs_show(log->fd, &log->at, log->path, err) != 0)
			return -1;
		if (!running || write_failed())
			return 0;
		clock_sleep(LOOK_SECONDS);
	}
}

/* ---- which ---- */

/* "w0 w1 ps0": the nodes that have logs. */
static void known(const struct dirs *dirs, char *out, size_t max)
{
	char dir[DIRS_PATH_MAX];
	size_t at = 0;
	out[0] = '\0';
	dirs_state(dirs, "logs", dir);
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		if (len > 4 && strcmp(e->d_name + len - 4, ".log") == 0 && at + len < max)
			at += (size_t)snprintf(out + at, max - at, " %.*s", (int)len - 4,
					       e->d_name);
	}
	if (d)
		closedir(d);
}

static int open_log(struct log *log, const struct dirs *dirs, const char *id, struct error *err)
{
	char name[OPTION_ID_MAX + 16] = "job.log", others[300];
	if (id && !option_id_ok(id))
		return error_set(err, ERROR_USAGE, NULL, "'%.80s' is no node's id", id);
	if (id)
		snprintf(name, sizeof name, "logs/%s.log", id);
	dirs_state(dirs, name, log->path);
	snprintf(log->older, sizeof log->older, "%s.1", log->path);
	log->fd = open(log->path, O_RDONLY | O_CLOEXEC);
	if (log->fd >= 0)
		return 0;
	if (!id || errno != ENOENT)
		return error_errno(err, 0, log->path, "can't be read");
	known(dirs, others, sizeof others);
	return error_set(err, ERROR_NOINPUT, log->path, "there is no log of %s; there are:%s", id,
			 others);
}

struct wanted {
	int follow, limited;
	uint64_t lines;
};

static int logs(const char *job, const char *run_dir, const char *id, const struct wanted *wanted,
		struct error *err)
{
	static struct condition c;
	struct dirs dirs;
	struct log log = {.at = 0};
	if (trainctl_find(job, run_dir, &dirs, err) != 0 ||
	    jobs_need_state(&dirs, job, err) != 0 || condition_read(&c, &dirs, err) != 0 ||
	    open_log(&log, &dirs, id, err) != 0)
		return -1;
	int result = 0;
	on_terminal = isatty(STDOUT_FILENO);
	if (wanted->limited || wanted->follow)
		log.at = find_last(log.fd, wanted->lines);
	else
		result = show_older(&log, err);
	if (result == 0)
		result = wanted->follow ? logs_follow(&log, &dirs, err)
					: logs_show(log.fd, &log.at, log.path, err);
	close(log.fd);
	return result;
}

int trainctl_logs(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *id;
	struct wanted wanted = {.lines = FOLLOW_LINES};
	const struct option_row rows[] = {TRAINCTL_ROW_JOB(&job),
					  TRAINCTL_ROW_RUN_DIR(&run_dir, "the job's run directory"),
					  {.name = "follow",
					   .letter = 'f',
					   .kind = OPTION_FLAG,
					   .target = &wanted.follow,
					   .help = "show new lines until the job ends"},
					  {.name = "lines",
					   .letter = 'n',
					   .kind = OPTION_COUNT,
					   .target = &wanted.lines,
					   .arg = "N",
					   .help = "only the last N lines; with --follow by "
						   "default",
					   .min = 1,
					   .max = 1e15,
					   .seen = &wanted.limited},
					  {0}};
	const struct option_table table = {
		PROGRAM " logs", "[ID] -j NAME | --run-dir DIR [-f] [-n LINES]",
		"Shows the log of a job or, with the id of a node, the output of that node.", rows,
		NULL};
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, "[node]", &id, &err), &err);
	if (logs(job, run_dir, id, &wanted, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	return 0;
}
