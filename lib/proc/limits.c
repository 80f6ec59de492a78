/* limits: see limits.h. */
#include "proc/limits.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "proc/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PREFIX "paceline-node-"
#define FILE_MAX 65536
#define PERIOD_US 100000 /* cores are so many of these in each of them */
#define QUOTA_LEAST_US 1000
#define SYSTEMD_SECONDS 5.0 /* for an answer of systemd */
#define REMOVE_TRIES 100    /* ten milliseconds apart: its last process is just going */

const struct limits_where limits_here = {.cgroups = "/sys/fs/cgroup",
					 .self = "/proc/self/cgroup",
					 .systemd = "/run/systemd/system"};

static const char *const names[] = {"none", "launcher", "cgroup", "systemd", "process"};

const char *limits_way_name(enum limits_way way)
{
	return names[way];
}

int limits_way_find(const char *name, enum limits_way *way)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], name) == 0) {
			*way = (enum limits_way)i;
			return 0;
		}
	return -1;
}

/* ---- files of the kernel ---- */

static int limits_join(char out[PATH_MAX], const char *dir, const char *name)
{
	return fs_join(out, PATH_MAX, dir, name, NULL);
}

static int limits_put(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];
	size_t len = strlen(text);
	if (limits_join(path, dir, name) != 0)
		return -1;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text, len);
	close(fd);
	return n == (ssize_t)len ? 0 : -1;
}

static int put_u64(const char *dir, const char *name, uint64_t value)
{
	char text[24];
	number_format_u64(value, text);
	return limits_put(dir, name, text);
}

static char *limits_read_text(const char *dir, const char *name)
{
	char path[PATH_MAX], *text;
	if (limits_join(path, dir, name) != 0 ||
	    fs_read_file(path, FILE_MAX, &text, NULL, NULL) != 0)
		return NULL;
	return text;
}

/* Whether a word stands in a list that blanks or commas separate. */
static int has_word(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= len; i++)
		if (memcmp(list + i, word, n) == 0 && (i == 0 || strchr(" ,\n", list[i - 1])) &&
		    (i + n == len || strchr(" ,\n", list[i + n])))
			return 1;
	return 0;
}

static int limits_has_all(const char *dir, const char *name, const struct limits *want)
{
	char *text = limits_read_text(dir, name);
	size_t len = text ? strlen(text) : 0;
	int has = text && (want->memory == 0 || has_word(text, len, "memory")) &&
		  (want->cores <= 0 || has_word(text, len, "cpu"));
	free(text);
	return has;
}

/* The number behind a word that begins a line; 0: there is none. */
static uint64_t limits_count_of(const char *path, const char *word)
{
	char *text, *save = NULL;
	uint64_t count = 0;
	size_t n = strlen(word);
	if (path[0] == '\0' || fs_read_file(path, FILE_MAX, &text, NULL, NULL) != 0)
		return 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, word, n) == 0 && line[n] == ' ')
			count = strtoull(line + n, NULL, 10);
	free(text);
	return count;
}

uint64_t limits_kills(void)
{
	return limits_count_of("/proc/vmstat", "oom_kill");
}

/* ---- which control group is ours ---- */

/* The directory of our group; version 2: controller is "". A container may see its own group as the
 * root. -1: none. */
static int own_group(const struct limits_where *where, const char *controller, char out[PATH_MAX])
{
	char root[PATH_MAX], *text, *save = NULL;
	int found = 0;
	snprintf(root, sizeof root, "%s", where->cgroups);
	if ((controller[0] && limits_join(root, where->cgroups, controller) != 0) ||
	    access(root, F_OK) != 0 || fs_read_file(where->self, FILE_MAX, &text, NULL, NULL) != 0)
		return -1;
	for (char *line = strtok_r(text, "\n", &save); line && !found;
	     line = strtok_r(NULL, "\n", &save)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		size_t len = (size_t)(path - list) - 1;
		found = controller[0] ? has_word(list + 1, len, controller) : len == 0;
		if (found && snprintf(out, PATH_MAX, "%s%s", root,
				      strcmp(path + 1, "/") == 0 ? "" : path + 1) >= PATH_MAX)
			found = 0;
	}
	free(text);
	if (found && access(out, F_OK) != 0)
		snprintf(out, PATH_MAX, "%s", root);
	return found ? 0 : -1;
}

static int is_version_2(const struct limits_where *where)
{
	char path[PATH_MAX];
	return limits_join(path, where->cgroups, "cgroup.controllers") == 0 &&
	       access(path, F_OK) == 0;
}

static int has_systemd(const struct limits_where *where)
{
	return access(where->systemd, F_OK) == 0;
}

/* A delegated group belongs to the user who runs in it, and systemd leaves it alone. */
static int is_delegated(const char *dir)
{
	char value[4];
	return (getxattr(dir, "user.delegate", value, sizeof value) == 1 && value[0] == '1') ||
	       (getxattr(dir, "trusted.delegate", value, sizeof value) == 1 && value[0] == '1');
}

/* ---- making one ---- */

/* Removes groups whose processes are gone; a group that still has a member stays. */
static void remove_stale(const char *dir)
{
	char path[PATH_MAX];
	DIR *d = opendir(dir);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		const char *dash = strrchr(e->d_name, '-');
		uint64_t pid;
		if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) == 0 && dash &&
		    number_u64(dash + 1, 1, INT32_MAX, &pid, NULL, NULL) == 0 &&
		    kill((pid_t)pid, 0) != 0 && errno == ESRCH &&
		    limits_join(path, dir, e->d_name) == 0)
			rmdir(path);
	}
	closedir(d);
}

static int make_group(const char *in, const char *id, char out[PATH_MAX])
{
	char name[192];
	snprintf(name, sizeof name, PREFIX "%.100s-%ld", id, (long)getpid());
	if (limits_join(out, in, name) != 0 || access(in, W_OK) != 0) {
		out[0] = '\0';
		return -1;
	}
	remove_stale(in);
	if (mkdir(out, 0755) == 0 || errno == EEXIST)
		return 0;
	out[0] = '\0';
	return -1;
}

static void remove_group(char dir[PATH_MAX])
{
	for (int i = 0; dir[0] && rmdir(dir) != 0 && errno == EBUSY && i < REMOVE_TRIES; i++)
		clock_sleep(0.01);
	dir[0] = '\0';
}

static uint64_t quota_of(double cores)
{
	double quota = ceil(cores * PERIOD_US);
	return quota > QUOTA_LEAST_US ? (uint64_t)quota : QUOTA_LEAST_US;
}

/* Swap is slow memory: with swap there would be no limit. */
static int limit_memory(const char *dir, int version, uint64_t bytes)
{
	if (version == 2) {
		limits_put(dir, "memory.oom.group",
			   "1"); /* kill all processes of the node together */
		limits_put(dir, "memory.swap.max", "0");
		return put_u64(dir, "memory.max", bytes);
	}
	if (put_u64(dir, "memory.limit_in_bytes", bytes) != 0)
		return -1;
	put_u64(dir, "memory.memsw.limit_in_bytes", bytes);
	return 0;
}

static int limit_cores(const char *dir, int version, double cores)
{
	char text[64];
	if (version == 2) {
		snprintf(text, sizeof text, "%llu %d", (unsigned long long)quota_of(cores),
			 PERIOD_US);
		return limits_put(dir, "cpu.max", text);
	}
	put_u64(dir, "cpu.cfs_period_us", PERIOD_US);
	return put_u64(dir, "cpu.cfs_quota_us", quota_of(cores));
}

static void make_memory_1(struct limits_group *g, const char *id, const struct limits_where *where)
{
	char own[PATH_MAX];
	if (g->want.memory == 0 || own_group(where, "memory", own) != 0 ||
	    make_group(own, id, g->memory_dir) != 0)
		return;
	if (limit_memory(g->memory_dir, 1, g->want.memory) == 0)
		g->ways.memory = LIMITS_CGROUP;
	else
		remove_group(g->memory_dir);
}

static void make_cores_1(struct limits_group *g, const char *id, const struct limits_where *where)
{
	char own[PATH_MAX];
	if (g->want.cores <= 0 || own_group(where, "cpu", own) != 0 ||
	    make_group(own, id, g->cpu_dir) != 0)
		return;
	if (limit_cores(g->cpu_dir, 1, g->want.cores) == 0)
		g->ways.cores = LIMITS_CGROUP;
	else
		remove_group(g->cpu_dir);
}

/* Moves the processes of a group that nobody else uses into one below it: only groups without
 * members can give controllers to others. */
static int empty_group(const char *dir)
{
	char rest[PATH_MAX], *text, *save = NULL;
	if (limits_join(rest, dir, PREFIX "rest") != 0 ||
	    (mkdir(rest, 0755) != 0 && errno != EEXIST))
		return -1;
	text = limits_read_text(dir, "cgroup.procs");
	for (char *pid = text ? strtok_r(text, "\n", &save) : NULL; pid;
	     pid = strtok_r(NULL, "\n", &save))
		limits_put(rest, "cgroup.procs", pid);
	free(text);
	return 0;
}

static void enable(const char *dir, const struct limits *want)
{
	if (want->memory > 0)
		limits_put(dir, "cgroup.subtree_control", "+memory");
	if (want->cores > 0)
		limits_put(dir, "cgroup.subtree_control", "+cpu");
}

/* In a container, our group belongs to us if it is the top of all that we see. */
static int is_all_ours(const char *dir, const struct limits_where *where)
{
	char type[PATH_MAX];
	return is_delegated(dir) ||
	       (strcmp(dir, where->cgroups) == 0 && limits_join(type, dir, "cgroup.type") == 0 &&
		access(type, F_OK) == 0);
}

/* The directory in which groups with these controllers can be made: ours, or the one beside it. -1:
 * none. */
static int find_place_2(const struct limits *want, const struct limits_where *where,
			char out[PATH_MAX])
{
	char up[PATH_MAX], procs[PATH_MAX];
	if (own_group(where, "", out) != 0 || access(out, W_OK) != 0)
		return -1;
	if (limits_has_all(out, "cgroup.subtree_control", want))
		return 0;
	enable(out, want);
	if (limits_has_all(out, "cgroup.subtree_control", want))
		return 0;
	fs_dirname(out, up, sizeof up);
	if (strlen(out) > strlen(where->cgroups) + 1 && !has_systemd(where) &&
	    limits_join(procs, up, "cgroup.procs") == 0 && access(procs, W_OK) == 0 &&
	    limits_has_all(up, "cgroup.subtree_control", want)) {
		memcpy(out, up, sizeof up);
		return 0;
	}
	if (!is_all_ours(out, where) || empty_group(out) != 0)
		return -1;
	enable(out, want);
	return limits_has_all(out, "cgroup.subtree_control", want) ? 0 : -1;
}

static void make_2(struct limits_group *g, const char *id, const struct limits_where *where)
{
	const struct limits *want = &g->want;
	char place[PATH_MAX];
	if (find_place_2(want, where, place) != 0 || make_group(place, id, g->memory_dir) != 0)
		return;
	if (want->memory > 0 && limit_memory(g->memory_dir, 2, want->memory) == 0)
		g->ways.memory = LIMITS_CGROUP;
	if (want->cores > 0 && limit_cores(g->memory_dir, 2, want->cores) == 0)
		g->ways.cores = LIMITS_CGROUP;
	if (g->ways.memory == LIMITS_NONE && g->ways.cores == LIMITS_NONE)
		remove_group(g->memory_dir);
}

/* ---- systemd ---- */

static int run_quietly(char *const *argv, char *output, size_t max)
{
	int status = -1, pipe_fd[2];
	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = process_fork();
	if (pid == 0) {
		process_signals_reset();
		setpgid(0, 0);
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null < 0 || dup2(null, 0) < 0 || dup2(pipe_fd[1], 1) < 0 || dup2(null, 2) < 0)
			_exit(ERROR_OS);
		execv(argv[0], argv);
		_exit(ERROR_OS);
	}
	close(pipe_fd[1]);
	double until = clock_mono() + SYSTEMD_SECONDS, left;
	size_t len = 0;
	ssize_t n = 1;
	struct pollfd in = {.fd = pipe_fd[0], .events = POLLIN};
	while (pid > 0 && n > 0 && len + 1 < max && (left = until - clock_mono()) > 0)
		if (poll(&in, 1, (int)(left * 1000) + 1) == 1 &&
		    (n = read(pipe_fd[0], output + len, max - len - 1)) > 0)
			len += (size_t)n;
	output[len] = '\0';
	close(pipe_fd[0]);
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_mono() > until)
			kill(-pid, SIGKILL);
		clock_sleep(0.005);
	}
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

__attribute__((format(printf, 2, 3))) static void add_front(struct limits_group *g, const char *fmt,
							   ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(g->front[g->fronts++], sizeof g->front[0], fmt, ap);
	va_end(ap);
}

/* A scope that runs nothing, made first, shows whether this user may. */
static void make_scope(struct limits_group *g, const char *id, const struct limits_where *where)
{
	char run[PATH_MAX], scope[sizeof g->scope - sizeof ".scope"], output[256];
	char *argv[LIMITS_FRONTS + 2] = {NULL};
	if (!has_systemd(where) || !where->search ||
	    process_find("systemd-run", where->search, run, sizeof run, NULL) != 0 ||
	    process_find("systemctl", where->search, g->systemctl, sizeof g->systemctl, NULL) != 0)
		return;
	snprintf(scope, sizeof scope, PREFIX "%.48s-%ld", id, (long)getpid());
	g->fronts = 0;
	add_front(g, "%s", run);
	if (geteuid() != 0)
		add_front(g, "--user");
	add_front(g, "--scope");
	add_front(g, "--quiet");
	add_front(g, "--unit=%s-try", scope);
	if (g->want.memory > 0)
		add_front(g, "--property=MemoryMax=%llu", (unsigned long long)g->want.memory);
	if (g->want.memory > 0)
		add_front(g, "--property=MemorySwapMax=0");
	if (g->want.cores > 0)
		add_front(g, "--property=CPUQuota=%.0f%%", ceil(g->want.cores * 100));
	for (size_t i = 0; i < g->fronts; i++)
		argv[i] = g->front[i];
	argv[g->fronts] = (char *)(size_t)"true";
	char true_path[PATH_MAX];
	if (process_find("true", where->search, true_path, sizeof true_path, NULL) == 0)
		argv[g->fronts] = true_path;
	if (run_quietly(argv, output, sizeof output) != 0) {
		g->fronts = 0;
		return;
	}
	for (size_t i = 0; i < g->fronts; i++)
		if (strncmp(g->front[i], "--unit=", 7) == 0)
			snprintf(g->front[i], sizeof g->front[i], "--unit=%s", scope);
	snprintf(g->scope, sizeof g->scope, "%s.scope", scope);
	if (g->want.memory > 0)
		g->ways.memory = LIMITS_SYSTEMD;
	if (g->want.cores > 0)
		g->ways.cores = LIMITS_SYSTEMD;
}

/* systemctl [--user] WORD... SCOPE */
static int ask_systemd(const struct limits_group *g, const char *const words[3], char *output,
		       size_t max)
{
	char *argv[8] = {NULL};
	size_t n = 0;
	argv[n++] = (char *)(size_t)g->systemctl;
	if (geteuid() != 0)
		argv[n++] = (char *)(size_t)"--user";
	for (size_t i = 0; i < 3 && words[i]; i++)
		argv[n++] = (char *)(size_t)words[i];
	argv[n] = (char *)(size_t)g->scope;
	return run_quietly(argv, output, max);
}

/* A scope whose process was killed for memory has failed, and stays known until it is reset. */
static int scope_was_killed(const struct limits_group *g)
{
	static const char *const show[3] = {"show", "--property=Result", "--value"},
				*const forget[3] = {"reset-failed", NULL, NULL};
	char result[256] = "", output[256];
	int shown = ask_systemd(g, show, result, sizeof result);
	ask_systemd(g, forget, output, sizeof output);
	return shown == 0 && strncmp(result, "oom-kill", 8) == 0;
}

/* ---- who counts ---- */

/* Version 2 also counts what was killed in groups below: not of ours. */
static void find_events(struct limits_group *g, const struct limits_where *where)
{
	char own[PATH_MAX];
	int version = is_version_2(where) ? 2 : 1;
	const char *file = version == 1 ? "memory.oom_control" : "memory.events";
	if (g->memory_dir[0])
		limits_join(g->events, g->memory_dir, file);
	else if (own_group(where, version == 1 ? "memory" : "", own) == 0)
		limits_join(g->events, own, version == 1 ? file : "memory.events.local");
	g->before = limits_count_of(g->events, "oom_kill");
}

/* A file of one number; 0: there is none ("max"). */
static uint64_t number_in(const char *dir, const char *name)
{
	char *text = limits_read_text(dir, name);
	uint64_t number = text ? strtoull(text, NULL, 10) : 0;
	free(text);
	return number;
}

#define UNLIMITED_1 (UINT64_C(1) << 62) /* version 1 has a very large number instead of a word */

uint64_t limits_memory(const struct limits_where *where)
{
	char dir[PATH_MAX], path[PATH_MAX], up[PATH_MAX];
	uint64_t least = 0;
	if (!is_version_2(where)) {
		if (own_group(where, "memory", dir) != 0 ||
		    limits_join(path, dir, "memory.stat") != 0)
			return 0;
		least = limits_count_of(path, "hierarchical_memory_limit");
		return least < UNLIMITED_1 ? least : 0;
	}
	if (own_group(where, "", dir) != 0)
		return 0;
	while (strlen(dir) > strlen(where->cgroups)) {
		uint64_t limit = number_in(dir, "memory.max");
		if (limit > 0 && (least == 0 || limit < least))
			least = limit;
		fs_dirname(dir, up, sizeof up);
		memcpy(dir, up, sizeof dir);
	}
	return least;
}

/* Slurm has limited us: srun --mem. */
static int is_limited(const struct limits_group *g, const struct limits_where *where)
{
	uint64_t limit = g->want.memory > 0 ? limits_memory(where) : 0;
	return limit > 0 && limit <= g->want.memory;
}

/* ---- all of it ---- */

void limits_make(struct limits_group *g, const struct limits *want, const char *id,
		 const struct limits_where *where)
{
	*g = (struct limits_group){.want = *want};
	char own[PATH_MAX];
	int version = is_version_2(where) ? 2 : 1;
	int delegated = own_group(where, version == 1 ? "memory" : "", own) == 0 && is_delegated(own);
	if (limits_any(want)) {
		if (has_systemd(where) && !delegated)
			make_scope(g, id, where);
		if (!g->scope[0] && version == 2)
			make_2(g, id, where);
		if (!g->scope[0] && version == 1) {
			make_memory_1(g, id, where);
			make_cores_1(g, id, where);
		}
		if (g->ways.memory == LIMITS_NONE && is_limited(g, where))
			g->ways.memory = LIMITS_LAUNCHER;
		if (g->ways.memory == LIMITS_NONE && want->memory > 0)
			g->ways.memory = LIMITS_PROCESS;
		if (g->ways.cores == LIMITS_NONE && want->cores > 0)
			g->ways.cores = LIMITS_PROCESS;
	}
	find_events(g, where);
}

/* -1: too few cores are there for a set to mean anything, or it can't be set. */
static int choose_cores(const struct limits *want, pid_t pid)
{
	cpu_set_t usable, chosen;
	if (sched_getaffinity(pid, sizeof usable, &usable) != 0)
		return -1;
	uint64_t count = (uint64_t)CPU_COUNT(&usable), most = (uint64_t)ceil(want->cores);
	if (most >= count)
		return 0;
	CPU_ZERO(&chosen);
	uint64_t at = 0, first = want->first_core % count;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable))
			continue;
		if ((at + count - first) % count < most)
			CPU_SET(cpu, &chosen);
		at++;
	}
	return sched_setaffinity(pid, sizeof chosen, &chosen);
}

static int limit_data(const struct limits *want, pid_t pid)
{
	const struct rlimit most = {.rlim_cur = want->memory, .rlim_max = want->memory};
	return prlimit(pid, RLIMIT_DATA, &most, NULL);
}

void limits_take(struct limits_group *g, pid_t pid)
{
	if (g->memory_dir[0] && put_u64(g->memory_dir, "cgroup.procs", (uint64_t)pid) != 0) {
		remove_group(g->memory_dir);
		g->events[0] = '\0';
		if (g->want.memory > 0)
			g->ways.memory = LIMITS_PROCESS;
		if (g->want.cores > 0 && !g->cpu_dir[0])
			g->ways.cores = LIMITS_PROCESS;
	}
	if (g->cpu_dir[0] && put_u64(g->cpu_dir, "cgroup.procs", (uint64_t)pid) != 0) {
		remove_group(g->cpu_dir);
		g->ways.cores = LIMITS_PROCESS;
	}
	if (g->ways.cores == LIMITS_PROCESS && choose_cores(&g->want, pid) != 0)
		g->ways.cores = LIMITS_NONE;
	if (g->ways.memory == LIMITS_PROCESS && limit_data(&g->want, pid) != 0)
		g->ways.memory = LIMITS_NONE;
}

/* In a shared group, only a death by SIGKILL can be for want of memory. */
static int was_memory(const struct limits_group *g, const struct node_end *end)
{
	int killed = end->signal == SIGKILL || (!end->signal && end->status == 128 + SIGKILL);
	int well = !end->signal && end->status == 0;
	if (!end->seen || well)
		return 0;
	if (g->scope[0] && scope_was_killed(g))
		return 1;
	if (g->ways.memory == LIMITS_PROCESS && !end->signal && end->status == ERROR_OS)
		return 1;
	return (killed || g->memory_dir[0]) && limits_count_of(g->events, "oom_kill") > g->before;
}

void limits_end(struct limits_group *g, struct node_end *end)
{
	end->oom = was_memory(g, end);
	remove_group(g->memory_dir);
	remove_group(g->cpu_dir);
}

struct limits_ways limits_look(const struct limits *want, const struct limits_where *where)
{
	struct limits_group g;
	limits_make(&g, want, "look", where);
	remove_group(g.memory_dir);
	remove_group(g.cpu_dir);
	return g.ways;
}
