/* child: see child.h. Must never wait: everything comes through the event base. */
#include "proc/child.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "proc/process.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_STEP 4096 /* bytes */
#define REAP_TRIES 100 /* a millisecond apart */

struct child {
	struct child_options options;
	pid_t pid;
	int output_fd, pid_fd;
	struct event *readable, *ended, *deadline;
	char *output;
	size_t bytes, room;
	int eof, reaped;
	enum child_cut cut;
	struct node_end end;
};

static void drop(struct event **e)
{
	if (*e)
		event_free(*e);
	*e = NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void release(struct child *c)
{
	drop(&c->readable);
	drop(&c->ended);
	drop(&c->deadline);
	close_fd(&c->output_fd);
	close_fd(&c->pid_fd);
	free(c->output);
	free(c);
}

void child_free(struct child *c)
{
	if (!c)
		return;
	/* A child that has ended may have left others, who hold its output. */
	if (!c->reaped || !c->eof)
		kill(-c->pid, SIGKILL);
	/* One that the kernel holds (its storage hangs) is left to whoever reaps us. */
	for (int i = 0; !c->reaped && i < REAP_TRIES && waitpid(c->pid, NULL, WNOHANG) == 0; i++)
		clock_sleep(0.001);
	release(c);
}

/* Both its end and the end of its output are there (a grandchild may hold the pipe: the deadline
 * kills the group). */
static void maybe_done(struct child *c)
{
	if (!c->eof || !c->reaped)
		return;
	c->options.done(&c->end, c->cut, c->output ? c->output : "", c->bytes, c->options.arg);
	release(c);
}

static void kill_group(struct child *c, enum child_cut cut)
{
	c->cut = cut;
	kill(-c->pid, SIGKILL);
	c->eof = 1;
	drop(&c->readable);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	kill_group(arg, CHILD_LATE);
	maybe_done(arg);
}

static int grow(struct child *c)
{
	if (GROW(c->output, c->room, c->bytes + OUTPUT_STEP) != 0)
		return -1;
	c->output[c->bytes] = '\0'; /* also behind nothing */
	return 0;
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	(void)what;
	if ((c->room - c->bytes < 2 && grow(c) != 0) || c->bytes > c->options.output_bytes_max) {
		kill_group(c, CHILD_TALKS);
		maybe_done(c);
		return;
	}
	ssize_t n = read(fd, c->output + c->bytes, c->room - c->bytes - 1);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		c->eof = 1;
		drop(&c->readable);
	} else {
		c->bytes += (size_t)n;
		c->output[c->bytes] = '\0';
	}
	maybe_done(c);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	int status;
	(void)fd;
	(void)what;
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return;
	c->reaped = 1;
	c->end = end_of(status);
	drop(&c->ended);
	maybe_done(c);
}

static void become(char *const *argv, int input, int output)
{
	setpgid(0, 0);
	process_signals_reset();
	if (dup2(input, 0) < 0 || dup2(output, 1) < 0)
		_exit(ERROR_OS);
	execv(argv[0], argv);
	_exit(errno == ENOENT ? ERROR_NOINPUT : ERROR_CONFIG);
}

/* The input lies in memory, so that a child which does not read it can't block us. */
static int input_fd(const struct child_options *o, struct error *err)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	if (fd < 0)
		return error_errno(err, ERROR_OS, o->argv[0], "memfd");
	if (o->input_bytes > 0 &&
	    fs_write_all(fd, o->input, o->input_bytes, o->argv[0], err) != 0) {
		close(fd);
		return -1;
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static int spawn(struct child *c, struct error *err)
{
	int pipe_fd[2], input = input_fd(&c->options, err);
	if (input < 0)
		return -1;
	if (pipe2(pipe_fd, O_CLOEXEC) != 0) {
		error_errno(err, ERROR_OS, c->options.argv[0], "pipe");
		close(input);
		return -1;
	}
	c->pid = process_fork();
	if (c->pid == 0)
		become(c->options.argv, input, pipe_fd[1]);
	if (c->pid > 0)
		setpgid(c->pid, c->pid);
	else
		error_errno(err, ERROR_OS, c->options.argv[0], "fork");
	close(input);
	close(pipe_fd[1]);
	c->output_fd = pipe_fd[0];
	fcntl(c->output_fd, F_SETFL, O_NONBLOCK);
	return c->pid > 0 ? 0 : -1;
}

int child_start(struct child **out, struct event_base *base, const struct child_options *options,
		struct error *err)
{
	struct child *c = calloc(1, sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, options->argv[0], "out of memory");
	c->options = *options;
	c->output_fd = c->pid_fd = -1;
	if (spawn(c, err) != 0) {
		release(c);
		return -1;
	}
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	c->readable = event_new(base, c->output_fd, EV_READ | EV_PERSIST, on_output, c);
	c->ended = event_new(base, c->pid_fd, EV_READ | EV_PERSIST, on_end, c);
	c->deadline = evtimer_new(base, on_deadline, c);
	struct timeval tv = clock_timeval(options->seconds);
	if (c->pid_fd < 0 || !c->readable || !c->ended || !c->deadline ||
	    event_add(c->readable, NULL) != 0 || event_add(c->ended, NULL) != 0 ||
	    event_add(c->deadline, &tv) != 0) {
		child_free(c);
		return error_set(err, ERROR_OS, options->argv[0], "can't be watched");
	}
	*out = c;
	return 0;
}
