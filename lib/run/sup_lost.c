/*
 * sup_lost: a node that lives and does not move is given up.  What the kernel knows of it is kept
 * in its log first, as nobody can ask it any more: of each of its threads the state, the kernel
 * function that it waits in, its system call, and the kernel's stack where that may be read.  Then
 * SIGKILL, which a stopped process obeys, too; from there on it is a death like any other.
 *
 * Nothing is read that could wait for the node itself (cmdline, maps).
 */
#include "run/sup.h"

#include "base/fs.h"
#include "base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX 16384
#define THREADS_MAX 64
#define PROCESSES_MAX 16
#define STACK_LINES_MAX 24

/* A file of /proc without the end of its last line; "" when it can't be read. */
static char *proc_read(char *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static char *proc_read(char *out, const char *fmt, ...)
{
	char path[128];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(path, sizeof path, fmt, ap);
	va_end(ap);
	ssize_t n = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, out, FILE_MAX - 1);
		close(fd);
	}
	while (n > 0 && out[n - 1] == '\n')
		n--;
	out[n > 0 ? n : 0] = '\0';
	return out;
}

/* "T (stopped)", of a thread's status. */
static void state_of(pid_t pid, pid_t thread, char *out, size_t out_max)
{
	char text[FILE_MAX];
	proc_read(text, "/proc/%ld/task/%ld/status", (long)pid, (long)thread);
	const char *state = strstr(text, "State:");
	state = state ? state + strlen("State:") : "";
	state += strspn(state, " \t");
	snprintf(out, out_max, "%.*s", (int)strcspn(state, "\n"), state);
}

static void thread_words(FILE *out, pid_t pid, pid_t thread)
{
	char name[FILE_MAX], wchan[FILE_MAX], call[FILE_MAX], stack[FILE_MAX], state[64];
	int lines = 0;
	state_of(pid, thread, state, sizeof state);
	proc_read(name, "/proc/%ld/task/%ld/comm", (long)pid, (long)thread);
	proc_read(wchan, "/proc/%ld/task/%ld/wchan", (long)pid, (long)thread);
	proc_read(call, "/proc/%ld/task/%ld/syscall", (long)pid, (long)thread);
	proc_read(stack, "/proc/%ld/task/%ld/stack", (long)pid, (long)thread);
	fprintf(out, "trainctl:   thread %ld %.32s: %s, waits in %.100s, system call %.*s\n",
		(long)thread, name, state, wchan[0] ? wchan : "?", (int)strcspn(call, " "),
		call[0] ? call : "?");
	for (char *save = NULL, *line = strtok_r(stack, "\n", &save);
	     line && lines++ < STACK_LINES_MAX; line = strtok_r(NULL, "\n", &save))
		fprintf(out, "trainctl:     %.200s\n", line);
}

static pid_t number_of(const struct dirent *e)
{
	return isdigit((unsigned char)e->d_name[0]) ? (pid_t)strtol(e->d_name, NULL, 10) : 0;
}

static void process_words(FILE *out, pid_t pid)
{
	char path[64];
	int threads = 0;
	snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
	DIR *d = opendir(path);
	if (!d)
		return;
	fprintf(out, "trainctl: process %ld\n", (long)pid);
	for (struct dirent *e; (e = readdir(d)) && threads < THREADS_MAX;)
		if (number_of(e) > 0) {
			thread_words(out, pid, number_of(e));
			threads++;
		}
	closedir(d);
}

/* A launch template leaves more than one process in the node's group. */
static void group_words(FILE *out, pid_t leader)
{
	DIR *d = opendir("/proc");
	int count = 0;
	process_words(out, leader);
	for (struct dirent *e; d && (e = readdir(d)) && count < PROCESSES_MAX;) {
		pid_t pid = number_of(e);
		if (pid > 0 && pid != leader && getpgid(pid) == leader) {
			process_words(out, pid);
			count++;
		}
	}
	if (d)
		closedir(d);
}

static void keep_words(struct sup_node *n, const char *why)
{
	char path[PLACE_MAX], *text = NULL;
	size_t len = 0;
	struct error err;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return;
	fprintf(out, "trainctl: %s %s\n", n->id, why);
	if (n->seen.last[0])
		fprintf(out, "trainctl: the lead said last: %s", n->seen.last);
	if (n->now.pid > 0)
		group_words(out, n->now.pid);
	if (n->heir.runs && n->heir.pid > 0)
		group_words(out, n->heir.pid);
	sup_node_log_path(n, path);
	int fd = fclose(out) == 0 ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (fd >= 0 && fs_write_all(fd, text, len, path, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", path, err.text);
	if (fd >= 0)
		close(fd);
	free(text);
}

/* Its pid may not have been asked for yet. */
static void know_pid(struct sup_process *p)
{
	struct node_record r;
	if (p->runs && p->pid == 0 && sup_process_read(p, &r) == 0 && !r.ended) {
		p->pid = r.pid;
		p->start = r.start;
	}
}

void sup_lost_words(struct sup_node *n, struct sup_process *p, struct sup_silence *silence)
{
	char why[256], wchan[FILE_MAX];
	know_pid(p);
	if (p->pid > 0) {
		state_of(p->pid, p->pid, silence->state, sizeof silence->state);
		proc_read(wchan, "/proc/%ld/wchan", (long)p->pid);
		snprintf(silence->wchan, sizeof silence->wchan, "%.63s", wchan);
	}
	snprintf(why, sizeof why,
		 "has given no sign of life for %.3g s (section %s, at most %.3g s): killed",
		 silence->seconds, pulse_section_name(silence->section), silence->limit);
	keep_words(n, why);
	sup_event_lost(n->sup, p, silence);
	log_say(LOG_LEVEL_WARNING, "%s %s%s%s", n->id, why, silence->state[0] ? "; it was " : "",
		silence->state);
}

void sup_lost(struct sup_node *n, struct sup_silence *silence)
{
	if ((n->stage != STAGE_STARTING && n->stage != STAGE_READY) || n->now.doomed)
		return;
	sup_lost_words(n, &n->now, silence);
	sup_restart_failed(n, "it gave no sign of life");
	sup_node_give_up(n);
}
