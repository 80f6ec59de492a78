/* child: see child.h. Must never wait: everything comes through the event base. */
#include "proc/child.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"
#include "proc/process.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_STEP 4096 /* bytes */
#define OUTPUT_BYTES_MAX (1u << 20)
#define REAP_TRIES 100 /* a millisecond apart */
#define NAME_MAX_SHOWN 80
#define LINE_MAX_SHOWN 800
#define DRAIN_READS 256 /* bytes: as much as a pipe holds */

struct child {
	struct child_options options;
	pid_t pid;
	int output_fd, words_fd, pid_fd; /* words: its stderr */
	struct event *readable, *speaks, *ended, *deadline;
	char *output;
	size_t bytes, room;
	int eof, reaped;
	char called[NAME_MAX_SHOWN], line[LINE_MAX_SHOWN];
	size_t line_bytes; /* bytes of a line that is not complete yet */
	size_t words_read, said;
	enum child_cut cut;
	struct node_end end;
};

static void child_drop(struct event **e)
{
	if (*e)
		event_free(*e);
	*e = NULL;
}

static void child_release(struct child *c)
{
	child_drop(&c->readable);
	child_drop(&c->speaks);
	child_drop(&c->ended);
	child_drop(&c->deadline);
	fs_close(&c->output_fd);
	fs_close(&c->words_fd);
	fs_close(&c->pid_fd);
	free(c->output);
	free(c);
}

int child_ask(struct child **out, struct event_base *base, struct argv *argv,
	      struct child_options options, struct error *err)
{
	int result = argv_end(argv, err);
	options.argv = argv->word;
	if (result == 0)
		result = child_start(out, base, &options, err);
	if (result != 0)
		*out = NULL;
	argv_free(argv);
	return result;
}

int child_run(const struct child_options *options, struct error *err)
{
	struct child *c;
	struct event_base *base = event_base_new();
	int result = base ? child_start(&c, base, options, err)
			  : error_set(err, ERROR_OS, options->argv[0], "out of memory");
	if (result == 0)
		event_base_dispatch(base); /* until it has ended: nothing else happens there */
	if (base)
		event_base_free(base);
	return result;
}

const char *child_failure(const struct child_end *e, char out[CHILD_WHY_MAX])
{
	if (e->cut == CHILD_LATE)
		snprintf(out, CHILD_WHY_MAX, "no answer in %g s", e->seconds);
	else if (e->cut == CHILD_TALKS)
		snprintf(out, CHILD_WHY_MAX, "more than %zu bytes of output", e->output_bytes_max);
	else if (end_class_of(&e->end) != END_CLEAN)
		end_text(&e->end, out, CHILD_WHY_MAX);
	else
		return NULL;
	return out;
}

void child_free(struct child *c)
{
	if (!c)
		return;
	/* An ended child may have left processes that hold its output. */
	if (!c->reaped || !c->eof)
		kill(-c->pid, SIGKILL);
	/* A process that hangs in the kernel (hung storage) is left to the process that reaps our
	 * children. */
	for (int i = 0; !c->reaped && i < REAP_TRIES && waitpid(c->pid, NULL, WNOHANG) == 0; i++)
		clock_sleep(0.001);
	child_release(c);
}

/* ---- its words ---- */

static void say_line(struct child *c)
{
	if (c->line_bytes == 0)
		return;
	if (c->said + strlen(c->called) + c->line_bytes <= CHILD_WORDS_MAX)
		log_say(LOG_LEVEL_INFO, "%s: %.*s", c->called, (int)c->line_bytes, c->line);
	else if (c->said <= CHILD_WORDS_MAX)
		log_say(LOG_LEVEL_INFO, "%s: its further lines on standard error are left out", c->called);
	c->said += strlen(c->called) + c->line_bytes;
	c->line_bytes = 0;
}

static void say_bytes(struct child *c, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count && c->said <= CHILD_WORDS_MAX; i++) {
		if (bytes[i] != '\n')
			c->line[c->line_bytes++] = bytes[i];
		if (bytes[i] == '\n' || c->line_bytes == sizeof c->line)
			say_line(c);
	}
}

/* 1: there may be more. */
static int child_read_words(struct child *c)
{
	char bytes[4096];
	ssize_t n = read(c->words_fd, bytes, sizeof bytes);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		child_drop(&c->speaks);
		return 0;
	}
	say_bytes(c, bytes, (size_t)n);
	c->words_read += (size_t)n;
	return 1;
}

/* ---- its end ---- */

/* Both the child and its output have ended (a grandchild may hold the pipe: the deadline kills the
 * group). Do not wait for the end of its standard error. */
static void maybe_done(struct child *c)
{
	if (!c->eof || !c->reaped)
		return;
	for (int i = 0; i < DRAIN_READS && c->words_fd >= 0 && child_read_words(c); i++)
		;
	say_line(c);
	const struct child_end e = {.end = c->end,
				    .cut = c->cut,
				    .output = c->output ? c->output : "",
				    .bytes = c->bytes,
				    .seconds = c->options.seconds,
				    .output_bytes_max = c->options.output_bytes_max};
	if (c->options.done)
		c->options.done(&e, c->options.arg);
	child_release(c);
}

static void child_kill_group(struct child *c, enum child_cut cut)
{
	c->cut = cut;
	kill(-c->pid, SIGKILL);
	c->eof = 1;
	child_drop(&c->readable);
}

static void child_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	child_kill_group(arg, CHILD_LATE);
	maybe_done(arg);
}

static void on_words(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	(void)fd;
	(void)what;
	if (!child_read_words(c) || c->words_read <= c->options.output_bytes_max)
		return;
	child_drop(&c->speaks);
	child_kill_group(c, CHILD_TALKS);
	maybe_done(c);
}

static int child_grow(struct child *c)
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
	if (c->room - c->bytes < 2 && child_grow(c) != 0) {
		child_kill_group(c, CHILD_TALKS);
		maybe_done(c);
		return;
	}
	ssize_t n = read(fd, c->output + c->bytes, c->room - c->bytes - 1);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		c->eof = 1;
		child_drop(&c->readable);
	} else {
		c->bytes += (size_t)n;
		c->output[c->bytes] = '\0';
		if (c->bytes > c->options.output_bytes_max)
			child_kill_group(c, CHILD_TALKS);
	}
	maybe_done(c);
}

static void child_on_end(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	int status;
	(void)fd;
	(void)what;
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return;
	c->reaped = 1;
	c->end = end_of(status);
	child_drop(&c->ended);
	maybe_done(c);
}

static void child_become(const struct child_options *o, int input, int output, int words)
{
	char *const *argv = o->argv;
	if (o->output_file)
		output = o->output_file; /* our end of the pipe says when it has gone */
	setpgid(0, 0);
	process_signals_reset();
	if (o->errors == CHILD_ERRORS_IN_OUTPUT)
		words = output;
	else if (o->errors == CHILD_ERRORS_DROPPED)
		words = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || (words >= 0 && dup2(words, 2) < 0))
		_exit(ERROR_OS);
	execv(argv[0], argv);
	_exit(errno == ENOENT ? ERROR_NOINPUT : ERROR_CONFIG);
}

/* The input is a file in memory, so a child that does not read it can't block us. */
static int input_fd(const struct child_options *o, struct error *err)
{
	int fd = o->input_file ? fcntl(o->input_file, F_DUPFD_CLOEXEC, 0) : memfd_create("input", MFD_CLOEXEC);
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

/* *mine: the end that we read; returns the other one, or -1. */
static int open_pipe(int *mine, const char *program, struct error *err)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, program, "pipe");
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	*mine = fd[0];
	return fd[1];
}

static int child_spawn(struct child *c, struct error *err)
{
	const char *program = c->options.argv[0];
	int output = -1, words = -1, input = input_fd(&c->options, err);
	if (input < 0)
		return -1;
	output = open_pipe(&c->output_fd, program, err);
	if (output >= 0 && c->options.called)
		words = open_pipe(&c->words_fd, program, err);
	if (output < 0 || (c->options.called && words < 0)) {
		fs_close(&output);
		close(input);
		return -1;
	}
	c->pid = process_fork();
	if (c->pid == 0)
		child_become(&c->options, input, output, words);
	if (c->pid > 0)
		setpgid(c->pid, c->pid);
	else
		error_errno(err, ERROR_OS, program, "fork");
	close(input);
	fs_close(&output);
	fs_close(&words);
	return c->pid > 0 ? 0 : -1;
}

int child_start(struct child **out, struct event_base *base, const struct child_options *options,
		struct error *err)
{
	struct child *c = calloc(1, sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, options->argv[0], "out of memory");
	c->options = *options;
	if (c->options.output_bytes_max == 0)
		c->options.output_bytes_max = OUTPUT_BYTES_MAX;
	c->output_fd = c->words_fd = c->pid_fd = -1;
	snprintf(c->called, sizeof c->called, "%s", options->called ? options->called : "");
	if (child_spawn(c, err) != 0) {
		child_release(c);
		return -1;
	}
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	c->readable = event_new(base, c->output_fd, EV_READ | EV_PERSIST, on_output, c);
	if (c->words_fd >= 0)
		c->speaks = event_new(base, c->words_fd, EV_READ | EV_PERSIST, on_words, c);
	c->ended = event_new(base, c->pid_fd, EV_READ | EV_PERSIST, child_on_end, c);
	c->deadline = evtimer_new(base, child_on_deadline, c);
	struct timeval tv = clock_timeval(options->seconds);
	if (c->pid_fd < 0 || !c->readable || !c->ended || !c->deadline ||
	    (c->words_fd >= 0 && (!c->speaks || event_add(c->speaks, NULL) != 0)) ||
	    event_add(c->readable, NULL) != 0 || event_add(c->ended, NULL) != 0 ||
	    event_add(c->deadline, &tv) != 0) {
		child_free(c);
		return error_set(err, ERROR_OS, options->argv[0], "can't be watched");
	}
	*out = c;
	return 0;
}
