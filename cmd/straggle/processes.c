/*
 * processes: slows processes down from outside, by SIGSTOP and SIGCONT, as lib/straggle/duty.h
 * says. Each process is held by a descriptor (pidfd_open(2)) whose start time was checked, so
 * another process that gets the same pid later is never signalled.
 */
#include "cmd/straggle.h"

#include "base/fs.h"
#include "base/number.h"
#include "base/reals.h"
#include "proc/process.h"
#include "straggle/duty.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROCESSES_MAX 1024
#define COMMAND_MAX (1 << 20)
#define LOOK_SECONDS 0.2 /* seconds between two checks which processes have ended */

struct process {
	pid_t pid;
	uint64_t start;
	int fd; /* -1: has ended */
	char id[24];
	struct duty duty;
};

struct processes {
	struct process row[PROCESSES_MAX];
	const char *id[PROCESSES_MAX];
	size_t count;
	double period, look;
};

static int processes_send(const struct process *p, int number)
{
	return (int)syscall(SYS_pidfd_send_signal, p->fd, number, NULL, 0);
}

/* ---- who ---- */

static int processes_add(struct processes *all, uint64_t pid, const char *what, struct error *err)
{
	if (pid < 2 || pid == (uint64_t)getpid())
		return error_set(err, ERROR_USAGE, what, "%llu can't be stopped",
				 (unsigned long long)pid);
	for (size_t i = 0; i < all->count; i++)
		if ((uint64_t)all->row[i].pid == pid)
			return error_set(err, ERROR_USAGE, what, "%llu appears twice",
					 (unsigned long long)pid);
	if (all->count == PROCESSES_MAX)
		return error_set(err, ERROR_USAGE, what, "more than %d processes", PROCESSES_MAX);
	struct process *p = &all->row[all->count];
	*p = (struct process){.pid = (pid_t)pid, .duty = {.slowdown = 1, .turn = INFINITY}};
	p->fd = process_start(p->pid, &p->start) == 0 ? process_watch(p->pid, p->start) : -1;
	if (p->fd < 0)
		return error_set(err, ERROR_NOINPUT, what, "no process %llu",
				 (unsigned long long)pid);
	if (processes_send(p, 0) != 0) {
		error_errno(err, 0, what, "process %llu", (unsigned long long)pid);
		close(p->fd);
		return -1;
	}
	snprintf(p->id, sizeof p->id, "%llu", (unsigned long long)pid);
	all->id[all->count++] = p->id;
	return 0;
}

static int add_list(struct processes *all, const char *text, const char *between,
		    const char *what, struct error *err)
{
	for (text += strspn(text, between); *text; text += strspn(text, between)) {
		char word[24];
		uint64_t pid;
		size_t n = strcspn(text, between);
		snprintf(word, sizeof word, "%.*s", (int)(n < 23 ? n : 23), text);
		if (number_u64(word, 1, INT32_MAX, &pid, what, err) != 0 ||
		    processes_add(all, pid, what, err) != 0)
			return -1;
		text += n;
	}
	return 0;
}

static int processes_add_file(struct processes *all, const char *path, struct error *err)
{
	char *text;
	if (fs_read_file(path, 1 << 16, &text, NULL, err) != 0)
		return -1;
	int result = add_list(all, text, " \t\n", path, err);
	free(text);
	return result;
}

static pid_t parent_of(pid_t pid)
{
	char text[FS_PROC_MAX];
	long parent = 0;
	const char *at = fs_stat_fields(fs_read_proc(text, "/proc/%ld/stat", (long)pid));
	return at && sscanf(at, "%*c %ld", &parent) == 1 ? (pid_t)parent : 0;
}

/* The parents of straggle have its words in their own command lines: leave them out. */
static int is_ancestor(pid_t pid)
{
	for (pid_t up = getpid(); up > 1; up = parent_of(up))
		if (up == pid)
			return 1;
	return 0;
}

static int processes_matches(pid_t pid, const char *words)
{
	char path[64], *text;
	size_t len = 0;
	struct stat st;
	snprintf(path, sizeof path, "/proc/%ld", (long)pid);
	if (stat(path, &st) != 0 || st.st_uid != geteuid())
		return 0;
	snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
	if (fs_read_file(path, COMMAND_MAX, &text, &len, NULL) != 0)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	int found = strstr(text, words) != NULL;
	free(text);
	return found;
}

static int add_matching(struct processes *all, const char *words, struct error *err)
{
	uint64_t found[PROCESSES_MAX];
	size_t count = 0, before = all->count;
	DIR *proc = opendir("/proc");
	if (!proc)
		return error_errno(err, ERROR_OS, "/proc", "open");
	for (struct dirent *d; (d = readdir(proc)) && count < PROCESSES_MAX;) {
		uint64_t pid;
		if (isdigit((unsigned char)d->d_name[0]) &&
		    number_u64_span(d->d_name, strlen(d->d_name), &pid) == 0 && pid > 1 &&
		    processes_matches((pid_t)pid, words) && !is_ancestor((pid_t)pid))
			found[count++] = pid;
	}
	closedir(proc);
	u64_sort(found, count);
	for (size_t i = 0; i < count; i++)
		if (processes_add(all, found[i], "--match", err) != 0 && err->code != ERROR_NOINPUT)
			return -1; /* a process that has ended meanwhile does not count */
	return all->count > before
		       ? 0
		       : error_set(err, ERROR_NOINPUT, "--match",
				   "no process of yours has '%.80s' in its command line", words);
}

int processes_new(struct processes **out, const struct processes_options *options,
		  struct error *err)
{
	struct processes *p = calloc(1, sizeof *p);
	if (!p)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	p->period = options->period;
	if ((options->list && add_list(p, options->list, ",", "--pid", err) != 0) ||
	    (options->file && processes_add_file(p, options->file, err) != 0) ||
	    (options->match && add_matching(p, options->match, err) != 0)) {
		processes_free(p);
		return -1;
	}
	if (p->count == 0) {
		free(p);
		return error_set(err, ERROR_NOINPUT, options->file ? options->file : "--pid",
				 "no process");
	}
	*out = p;
	return 0;
}

size_t processes_count(const struct processes *p)
{
	return p->count;
}

const char *const *processes_ids(const struct processes *p)
{
	return p->id;
}

int processes_guard(struct processes *p, struct guard *g, struct error *err)
{
	for (size_t i = 0; i < p->count; i++)
		if (guard_process(g, p->row[i].pid, p->row[i].start, err) != 0)
			return -1;
	return 0;
}

/* ---- stop and go ---- */

static void processes_obey(struct process *p, int was_stopped)
{
	if (p->duty.stopped != was_stopped)
		processes_send(p, p->duty.stopped ? SIGSTOP : SIGCONT);
}

void processes_set(struct processes *all, size_t i, double slowdown, double now)
{
	struct process *p = &all->row[i];
	int was_stopped = p->duty.stopped;
	if (p->fd < 0)
		return;
	/* at different times, or all processes would be stopped at the same moments */
	double first = now + all->period * (double)i / (double)all->count;
	duty_start(&p->duty, slowdown, first);
	processes_obey(p, was_stopped);
}

static void processes_look_around(struct processes *all, double now, void (*gone)(size_t, void *),
				  void *arg)
{
	if (now < all->look)
		return;
	all->look = now + LOOK_SECONDS;
	for (size_t i = 0; i < all->count; i++) {
		struct process *p = &all->row[i];
		struct pollfd end = {.fd = p->fd, .events = POLLIN};
		if (p->fd < 0 || poll(&end, 1, 0) <= 0)
			continue;
		close(p->fd);
		p->fd = -1;
		p->duty = (struct duty){.slowdown = 1, .turn = INFINITY};
		gone(i, arg);
	}
}

double processes_tick(struct processes *all, double now, void (*gone)(size_t, void *), void *arg)
{
	processes_look_around(all, now, gone, arg);
	double next = all->look;
	for (size_t i = 0; i < all->count; i++) {
		struct process *p = &all->row[i];
		int was_stopped = p->duty.stopped;
		if (p->duty.turn <= now)
			duty_turn(&p->duty, all->period, now);
		processes_obey(p, was_stopped);
		next = fmin(next, p->duty.turn);
	}
	return next;
}

int processes_left(const struct processes *p)
{
	int left = 0;
	for (size_t i = 0; i < p->count; i++)
		left += p->row[i].fd >= 0;
	return left;
}

void processes_continue(struct processes *p, double now)
{
	for (size_t i = 0; i < p->count; i++) {
		int was_stopped = p->row[i].duty.stopped;
		duty_go_on(&p->row[i].duty, now);
		if (p->row[i].fd >= 0)
			processes_obey(&p->row[i], was_stopped);
	}
}

void processes_free(struct processes *p)
{
	if (!p)
		return;
	processes_continue(p, 0);
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].fd >= 0)
			close(p->row[i].fd);
	free(p);
}
