/* inspect: see inspect.h. */
#include "proc/inspect.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
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

static void thread_words(FILE *out, const char *prefix, pid_t pid, pid_t thread)
{
	char name[FILE_MAX], wchan[FILE_MAX], call[FILE_MAX], stack[FILE_MAX], state[64];
	int lines = 0;
	state_of(pid, thread, state, sizeof state);
	proc_read(name, "/proc/%ld/task/%ld/comm", (long)pid, (long)thread);
	proc_read(wchan, "/proc/%ld/task/%ld/wchan", (long)pid, (long)thread);
	proc_read(call, "/proc/%ld/task/%ld/syscall", (long)pid, (long)thread);
	proc_read(stack, "/proc/%ld/task/%ld/stack", (long)pid, (long)thread);
	fprintf(out, "%s  thread %ld %.32s: %s, waits in %.100s, system call %.*s\n", prefix,
		(long)thread, name, state, wchan[0] ? wchan : "?", (int)strcspn(call, " "),
		call[0] ? call : "?");
	for (char *save = NULL, *line = strtok_r(stack, "\n", &save);
	     line && lines++ < STACK_LINES_MAX; line = strtok_r(NULL, "\n", &save))
		fprintf(out, "%s    %.200s\n", prefix, line);
}

static pid_t number_of(const struct dirent *e)
{
	return isdigit((unsigned char)e->d_name[0]) ? (pid_t)strtol(e->d_name, NULL, 10) : 0;
}

static void process_words(FILE *out, const char *prefix, pid_t pid)
{
	char path[64];
	int threads = 0;
	snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
	DIR *d = opendir(path);
	if (!d)
		return;
	fprintf(out, "%sprocess %ld\n", prefix, (long)pid);
	for (struct dirent *e; (e = readdir(d)) && threads < THREADS_MAX;)
		if (number_of(e) > 0) {
			thread_words(out, prefix, pid, number_of(e));
			threads++;
		}
	closedir(d);
}

void inspect_group(FILE *out, const char *prefix, pid_t leader)
{
	DIR *d = opendir("/proc");
	int count = 0;
	process_words(out, prefix, leader);
	for (struct dirent *e; d && (e = readdir(d)) && count < PROCESSES_MAX;) {
		pid_t pid = number_of(e);
		if (pid > 0 && pid != leader && getpgid(pid) == leader) {
			process_words(out, prefix, pid);
			count++;
		}
	}
	if (d)
		closedir(d);
}

void inspect_process(pid_t pid, char *state, size_t state_max, char *wchan, size_t wchan_max)
{
	char text[FILE_MAX];
	state_of(pid, pid, state, state_max);
	proc_read(text, "/proc/%ld/wchan", (long)pid);
	snprintf(wchan, wchan_max, "%.*s", (int)(wchan_max - 1), text);
}
