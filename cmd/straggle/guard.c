/*
 * guard: straggle may be killed at any moment, and nothing may stay stopped or slowed by it.  The
 * guardian is straggle's own program under another name, in a session of its own, so that neither
 * a kill of the process group nor one by name hits it.  It reads records from a pipe:
 *
 *     file path=        unlink it
 *     process pid= start=    continue it
 *     done              forget all of that
 *
 * and does what they say when the pipe closes.
 */
#include "cmd/straggle.h"

#include "base/grow.h"
#include "proc/process.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct ward {
	char *path; /* NULL: a process */
	pid_t pid;
	uint64_t start;
};

struct wards {
	struct ward *row;
	size_t count, room;
};

/* ---- in straggle ---- */

static void become_guardian(int in)
{
	char *argv[] = {(char[]){GUARD_NAME}, NULL};
	sigset_t none;
	int null = open("/dev/null", O_WRONLY);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (null < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0u, 0) != 0)
		_exit(ERROR_OS);
	execv("/proc/self/exe", argv);
	_exit(ERROR_OS);
}

int guard_start(struct guard *g, struct error *err)
{
	int pipe[2];
	if (pipe2(pipe, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, GUARD_NAME, "pipe");
	pid_t pid = fork();
	if (pid == 0)
		become_guardian(pipe[0]);
	close(pipe[0]);
	if (pid < 0) {
		close(pipe[1]);
		return error_errno(err, ERROR_OS, GUARD_NAME, "fork");
	}
	*g = (struct guard){pid, pipe[1]};
	return 0;
}

static int guard_tell(struct guard *g, struct record_out *o, struct error *err)
{
	size_t len = record_end(o, NULL), done = 0;
	if (len == 0)
		return error_set(err, ERROR_USAGE, NULL, "a path is too long");
	while (done < len) {
		ssize_t n = write(g->fd, o->data + done, len - done);
		if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_OS, GUARD_NAME, "write");
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int guard_file(struct guard *g, const char *path, struct error *err)
{
	return guard_tell(g, RECORD("file", F("path", path)), err);
}

int guard_process(struct guard *g, pid_t pid, uint64_t start, struct error *err)
{
	return guard_tell(g, RECORD("process", F("pid", (uint64_t)pid), F("start", start)), err);
}

void guard_end(struct guard *g)
{
	struct error ignored;
	if (g->pid == 0)
		return;
	guard_tell(g, RECORD_BARE("done"), &ignored);
	close(g->fd);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	g->pid = 0;
}

int guard_check(struct guard *g, struct error *err)
{
	if (g->pid == 0 || waitpid(g->pid, NULL, WNOHANG) == 0)
		return 0;
	close(g->fd);
	g->pid = 0;
	return error_set(err, ERROR_OS, GUARD_NAME,
			 "has ended; without it nothing is slowed down");
}

/* ---- in the guardian ---- */

static void guard_forget(struct wards *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->row[i].path);
	free(w->row);
	*w = (struct wards){0};
}

static void guard_undo(const struct wards *w)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct ward *ward = &w->row[i];
		if (ward->path)
			unlink(ward->path);
		else if (process_alive(ward->pid, ward->start))
			kill(ward->pid, SIGCONT);
	}
}

static int take_ward(struct wards *w, const struct record *r, struct error *err)
{
	struct ward ward = {0};
	const char *path;
	uint64_t pid = 0;
	if (record_is(r, "done")) {
		guard_forget(w);
		return 0;
	}
	if (record_is(r, "file")) {
		if (record_text(r, "path", &path, err) != 0)
			return -1;
		ward.path = strdup(path);
	} else if (record_u64(r, "pid", 2, INT32_MAX, &pid, err) != 0 ||
		   record_u64(r, "start", 0, UINT64_MAX, &ward.start, err) != 0) {
		return -1;
	}
	ward.pid = (pid_t)pid;
	if ((pid == 0 && !ward.path) || GROW(w->row, w->room, w->count + 1) != 0) {
		free(ward.path);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	w->row[w->count++] = ward;
	return 0;
}

int guard_main(void)
{
	static struct record r;
	struct wards wards = {0};
	struct error err;
	int result = 0;
	prctl(PR_SET_NAME, GUARD_NAME);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	/* An incomplete line means that straggle was killed while it wrote the line. */
	while (in && result == 0 && record_read(in, &r, &err) == RECORD_ONE)
		result = take_ward(&wards, &r, &err);
	guard_undo(&wards);
	guard_forget(&wards);
	record_reader_free(in);
	return in && result == 0 ? 0 : ERROR_OS;
}
