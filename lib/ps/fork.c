/*
 * The forked writer.  The child uses only its copy of the parameters, its file and its pipe.  It
 * closes sockets first, so that it keeps neither name, lock nor clients when the parent ends.
 */
#include "ps/fork.h"

#include "base/clock.h"
#include "base/fs.h"
#include "record/record.h"
#include "wire/timer.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_FD 3
#define KEPT_FD 4
#define NAME_MAX_BYTES 4096
#define REAP_SECONDS 1.0
#define REAP_TRIES 10 /* a millisecond apart */

struct fork_child {
	pid_t pid;
	int pipe;
	struct event *readable;
	struct timer *reaper;
	fork_done_fn *done;
	void *arg;
	double stall;
	char path[NAME_MAX_BYTES];
	char answer[RECORD_LINE_MAX];
	size_t len;
	struct fork_child *next; /* of leaving */
};

static void child(struct server *server, const struct fork_job *job, int out)
	__attribute__((noreturn));

/* Moves fd above all descriptors that will be closed or given a fixed number. */
static int fork_away(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD, KEPT_FD + 1);
}

static void child(struct server *server, const struct fork_job *job, int out)
{
	struct error err = {0};
	struct record_out o;
	char line[RECORD_LINE_MAX], why[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	uint64_t bytes = 0, sum = 0;
	int pipe_fd = fork_away(out), kept = fork_away(job->keep);

	server_forked(server);
	if (dup2(pipe_fd, PIPE_FD) < 0 || (job->keep >= 0 && dup2(kept, KEPT_FD) < 0))
		_exit(ERROR_OS);
	close_range(job->keep >= 0 ? KEPT_FD + 1 : KEPT_FD, ~0u, 0);
	/* Only the end of the parent, which has others to serve, must not wait. */
	(void)fcntl(PIPE_FD, F_SETFL, 0);
	/* The parent goes on meanwhile, and comes first. */
	(void)setpriority(PRIO_PROCESS, 0, 10);
	if (job->work(job->owner, KEPT_FD, &bytes, &sum, &err) == 0) {
		record_begin(&o, line, sizeof line, "ok");
		record_add_u64(&o, "bytes", bytes);
		record_add_u64(&o, "sum", sum);
	} else {
		error_format(&err, why, sizeof why);
		record_begin(&o, line, sizeof line, "err");
		record_add(&o, "why", why);
	}
	size_t len = record_end(&o, NULL);
	int written = fs_write_all(PIPE_FD, line, len, "pipe", &err);
	_exit(written == 0 ? 0 : ERROR_IO);
}

/* Children that have answered or that nobody needs any more, but that have not ended yet. */
static struct fork_child *leaving;

static void fork_forget(struct fork_child *f)
{
	for (struct fork_child **at = &leaving; *at; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			break;
		}
	}
	timer_free(f->reaper);
	free(f);
}

/* Nobody waits for a killed child: it ends only when its storage lets it. Usually that is soon. */
static void try_reap(struct fork_child *f)
{
	pid_t got;

	for (int i = 0; (got = waitpid(f->pid, NULL, WNOHANG)) == 0 && i < REAP_TRIES; i++)
		clock_sleep(0.001);
	if (got == 0 && f->reaper)
		timer_set(f->reaper, REAP_SECONDS);
	else
		fork_forget(f);
}

static void on_reap(void *arg)
{
	try_reap(arg);
}

/* Its answer has come, or nobody needs it any more. It frees itself when the child has ended. */
static void clear(struct fork_child *f)
{
	if (f->readable)
		event_free(f->readable);
	f->readable = NULL;
	close(f->pipe);
	f->next = leaving;
	leaving = f;
	try_reap(f);
}

static void read_answer(struct fork_child *f, struct fork_result *result)
{
	struct record *r = malloc(sizeof *r);
	const char *why = NULL;
	size_t len = f->len && f->answer[f->len - 1] == '\n' ? f->len - 1 : 0;

	snprintf(result->why, sizeof result->why, "the writer of %.400s died", f->path);
	if (r && len && record_parse(r, f->answer, len, NULL) == 0) {
		result->ok = record_is(r, "ok") &&
			     record_u64(r, "bytes", 0, UINT64_MAX, &result->bytes, NULL) == 0 &&
			     record_u64(r, "sum", 0, UINT64_MAX, &result->sum, NULL) == 0;
		why = record_get(r, "why");
		if (why)
			snprintf(result->why, sizeof result->why, "%s", why);
	}
	free(r);
}

static void fork_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct fork_child *f = arg;
	struct fork_result result = {.stall = f->stall};
	fork_done_fn *done = f->done;
	void *done_arg = f->arg;

	if (what & EV_TIMEOUT) {
		kill(f->pid, SIGKILL);
	} else {
		ssize_t n = read(fd, f->answer + f->len, sizeof f->answer - f->len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n > 0) {
			f->len += (size_t)n;
			return;
		}
		read_answer(f, &result);
	}
	if (what & EV_TIMEOUT)
		snprintf(result.why, sizeof result.why, "%.400s was not written in %.0f s", f->path,
			 FORK_SECONDS_MAX);
	clear(f);
	done(&result, done_arg);
}

int fork_start(struct fork_child **out, struct server *server, const struct fork_job *job,
	       fork_done_fn *done, void *arg, struct error *err)
{
	const char *path = job->name;
	struct timeval limit = clock_timeval(FORK_SECONDS_MAX);
	struct fork_child *f = calloc(1, sizeof *f);
	int ends[2];

	if (!f)
		return error_set(err, ERROR_OS, path, "out of memory");
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		free(f);
		return error_errno(err, ERROR_OS, path, "pipe");
	}
	f->pipe = ends[0];
	f->done = done;
	f->arg = arg;
	snprintf(f->path, sizeof f->path, "%s", path);
	f->readable =
		event_new(server_base(server), f->pipe, EV_READ | EV_PERSIST, fork_on_readable, f);
	f->reaper = timer_new(server_base(server), on_reap, f);
	f->pid = f->readable && f->reaper ? fork() : -1;
	if (f->pid == 0)
		child(server, job, ends[1]);
	f->stall = clock_mono() - job->since;
	close(ends[1]);
	if (f->pid < 0) {
		error_errno(err, ERROR_OS, path, "fork");
		if (f->readable)
			event_free(f->readable);
		timer_free(f->reaper);
		close(f->pipe);
		free(f);
		return -1;
	}
	if (event_add(f->readable, &limit) != 0) {
		kill(f->pid, SIGKILL);
		clear(f);
		return error_set(err, ERROR_OS, path, "no event");
	}
	*out = f;
	return 0;
}

void fork_stop(struct fork_child *f)
{
	if (!f)
		return;
	kill(f->pid, SIGKILL);
	/* The server is about to end; init reaps the child. */
	timer_free(f->reaper);
	f->reaper = NULL;
	clear(f);
}
