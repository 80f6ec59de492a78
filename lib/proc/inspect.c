/* inspect: see inspect.h. */
#include "proc/inspect.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define THREADS_MAX 64
#define PROCESSES_MAX 16
#define STACK_LINES_MAX 24

/* "T (stopped)", of a thread's status. */
static void inspect_state_of(pid_t pid, pid_t thread, char *out, size_t out_max)
{
	char text[FS_PROC_MAX];
	fs_read_proc(text, "/proc/%ld/task/%ld/status", (long)pid, (long)thread);
	const char *state = strstr(text, "State:");
	state = state ? state + strlen("State:") : "";
	state += strspn(state, " \t");
	snprintf(out, out_max, "%.*s", (int)strcspn(state, "\n"), state);
}

static void thread_words(FILE *out, const char *prefix, pid_t pid, pid_t thread)
{
	char name[FS_PROC_MAX], wchan[FS_PROC_MAX], call[FS_PROC_MAX], stack[FS_PROC_MAX], state[64];
	int lines = 0;
	inspect_state_of(pid, thread, state, sizeof state);
	fs_read_proc(name, "/proc/%ld/task/%ld/comm", (long)pid, (long)thread);
	fs_read_proc(wchan, "/proc/%ld/task/%ld/wchan", (long)pid, (long)thread);
	fs_read_proc(call, "/proc/%ld/task/%ld/syscall", (long)pid, (long)thread);
	fs_read_proc(stack, "/proc/%ld/task/%ld/stack", (long)pid, (long)thread);
	fprintf(out, "%s  thread %ld %.32s: %s, waits in %.100s, system call %.*s\n", prefix,
		(long)thread, name, state, wchan[0] ? wchan : "?", (int)strcspn(call, " "),
		call[0] ? call : "?");
	for (char *save = NULL, *line = strtok_r(stack, "\n", &save);
	     line && lines++ < STACK_LINES_MAX; line = strtok_r(NULL, "\n", &save))
		fprintf(out, "%s    %.200s\n", prefix, line);
}

static pid_t inspect_number_of(const struct dirent *e)
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
		if (inspect_number_of(e) > 0) {
			thread_words(out, prefix, pid, inspect_number_of(e));
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
		pid_t pid = inspect_number_of(e);
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
	char text[FS_PROC_MAX];
	inspect_state_of(pid, pid, state, state_max);
	fs_read_proc(text, "/proc/%ld/wchan", (long)pid);
	snprintf(wchan, wchan_max, "%.*s", (int)(wchan_max - 1), text);
}

static int rank_of(const char *state)
{
	return *state == 'T' || *state == 't' ? 2 : *state == 'D';
}

void inspect_worst(pid_t leader, char *state, size_t state_max, char *wchan, size_t wchan_max)
{
	char other[64], where[64];
	DIR *d = opendir("/proc");
	int looked = 0;
	inspect_process(leader, state, state_max, wchan, wchan_max);
	for (struct dirent *e; d && (e = readdir(d)) && looked < PROCESSES_MAX;) {
		pid_t pid = inspect_number_of(e);
		if (pid <= 0 || pid == leader || getpgid(pid) != leader)
			continue;
		looked++;
		inspect_process(pid, other, sizeof other, where, sizeof where);
		if (rank_of(other) > rank_of(state)) {
			snprintf(state, state_max, "%s", other);
			snprintf(wchan, wchan_max, "%s", where);
		}
	}
	if (d)
		closedir(d);
}

/* ---- whether it moves ---- */

struct moves {
	uint64_t work;
	int processes, stopped, busy;
};

static void add_threads(pid_t pid, struct moves *out)
{
	char path[64], text[FS_PROC_MAX];
	int threads = 0;
	snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d)) && threads < THREADS_MAX;) {
		if (inspect_number_of(e) <= 0)
			continue;
		const char *at = fs_stat_fields(fs_read_proc(text, "/proc/%ld/task/%ld/stat", (long)pid,
							     (long)inspect_number_of(e)));
		out->busy |= at && (*at == 'R' || *at == 'D');
		threads++;
	}
	if (d)
		closedir(d);
}

/* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime */
static void add_process(pid_t pid, struct moves *out)
{
	char text[FS_PROC_MAX], state;
	unsigned long long minor, major, user, sys;
	const char *at = fs_stat_fields(fs_read_proc(text, "/proc/%ld/stat", (long)pid));
	if (!at || sscanf(at, "%c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu", &state,
			  &minor, &major, &user, &sys) != 5)
		return;
	out->work += minor + major + user + sys;
	out->processes++;
	out->stopped += state == 'T' || state == 't';
	add_threads(pid, out);
}

static int by_group(const void *a, const void *b)
{
	const struct inspect_member *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The group of its parent. */
static pid_t inspect_from(pid_t pid)
{
	char text[FS_PROC_MAX];
	const char *at = fs_stat_fields(fs_read_proc(text, "/proc/%ld/stat", (long)pid));
	pid_t parent = at && at[0] ? (pid_t)strtol(at + 1, NULL, 10) : 0;
	return parent > 0 ? getpgid(parent) : 0;
}

/* Without memory it takes the processes that fit: the leaders are examined in any case. */
void inspect_groups_read(struct inspect_groups *g)
{
	DIR *d = opendir("/proc");
	g->is_read = 1;
	for (struct dirent *e; d && (e = readdir(d));) {
		pid_t pid = inspect_number_of(e), group = pid > 0 ? getpgid(pid) : -1;
		if (group > 0 && GROW(g->item, g->room, g->count + 1) == 0)
			g->item[g->count++] = (struct inspect_member){
				group, pid, pid == group ? inspect_from(pid) : 0};
	}
	if (d)
		closedir(d);
	if (g->count > 0)
		qsort(g->item, g->count, sizeof *g->item, by_group);
}

void inspect_groups_free(struct inspect_groups *g)
{
	free(g->item);
	*g = (struct inspect_groups){0};
}

static void add_group(const struct inspect_groups *groups, pid_t leader, struct moves *out)
{
	size_t low = 0, high = groups->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (groups->item[middle].group < leader)
			low = middle + 1;
		else
			high = middle;
	}
	add_process(leader, out);
	for (; low < groups->count && groups->item[low].group == leader && out->processes < PROCESSES_MAX;
	     low++)
		if (groups->item[low].pid != leader)
			add_process(groups->item[low].pid, out);
}

static void part_look(struct inspect_part *p, const struct moves *now, double seconds)
{
	int moves = now->processes == 0 || now->busy || now->work != p->work;
	p->still = moves ? 0 : p->still + seconds;
	p->stopped = now->stopped > 0 && !moves ? p->stopped + seconds : 0;
	p->work = now->work;
}

void inspect_motion(struct inspect_motion *m, const struct inspect_groups *groups, pid_t leader,
		    double seconds)
{
	struct moves own = {0}, started = {0};
	add_group(groups, leader, &own);
	for (size_t i = 0; i < groups->count; i++)
		if (groups->item[i].from == leader)
			add_group(groups, groups->item[i].group, &started);
	part_look(&m->own, &own, seconds);
	part_look(&m->started, &started, seconds);
	m->still = started.processes == 0 ? m->own.still : fmin(m->own.still, m->started.still);
	m->stopped = fmax(m->own.stopped, m->started.stopped);
}

#define NAME_MAX_BYTES 16 /* of a process, with its NUL */
#define OWN_NAME "node-host"

void inspect_show(const struct inspect_motion *m)
{
	char name[NAME_MAX_BYTES] = OWN_NAME;
	if (m->stopped >= 1)
		snprintf(name, sizeof name, "stopped %.0f", m->stopped < 1e6 ? m->stopped : 1e6);
	else if (m->still >= 1)
		snprintf(name, sizeof name, "still %.0f", m->still < 1e6 ? m->still : 1e6);
	prctl(PR_SET_NAME, name);
}

int inspect_shown(struct inspect_motion *m, pid_t pid)
{
	char name[FS_PROC_MAX];
	uint64_t seconds;
	*m = (struct inspect_motion){0};
	fs_read_proc(name, "/proc/%ld/comm", (long)pid);
	const char *number = strchr(name, ' ');
	int stopped = strncmp(name, "stopped ", 8) == 0;
	if (!(stopped || strncmp(name, "still ", 6) == 0) ||
	    number_u64(number + 1, 0, UINT64_MAX, &seconds, NULL, NULL) != 0)
		return -1;
	m->still = (double)seconds;
	m->stopped = stopped ? (double)seconds : 0;
	return 0;
}
