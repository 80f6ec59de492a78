/*
 * load: see load.h.  Must cost next to nothing: it is part of every report, and a report delays the
 * batch behind it.
 */
#include "meter/load.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TEXT_MAX 4096   /* of a file; memory.stat's first lines are enough */
#define NO_LIMIT 0x1p60 /* bytes: what version 1 says when there is none is larger */

/* The files, all of which may be missing (-1). */
enum source {
	NODE_STAT,
	NODE_MEMORY,
	PRESSURE_CPU,
	PRESSURE_MEMORY,
	GROUP_CPU,          /* cpu.stat of the group that has a quota */
	GROUP_MEMORY_LIMIT, /* of the group that has a limit */
	GROUP_MEMORY,
	GROUP_MEMORY_STAT,
	SOURCES
};

struct counters {
	double at, busy, total, periods, throttled, own;
};

struct load {
	char root[PATH_MAX];
	int fd[SOURCES];
	const char *inactive;      /* what memory.stat calls file pages that can go at once */
	struct counters before[2]; /* newest first */
	int held;                  /* of them */
	int marked;                /* by load_mark() */
	double (*beside)(const void *thread); /* NULL: there is no such thread */
	const void *thread;
	struct load_values values;
	char text[TEXT_MAX];
};

/* ---- reading ---- */

/* The beginning of a file as text; -1 when there is none. */
static int load_look_at(struct load *l, enum source s)
{
	ssize_t len = l->fd[s] < 0 ? -1 : pread(l->fd[s], l->text, sizeof l->text - 1, 0);
	l->text[len < 0 ? 0 : len] = '\0';
	return len <= 0 ? -1 : 0;
}

/* A decimal, with fraction; *end behind it. NAN when there is none. */
static double read_number(const char *text, const char **end)
{
	double x = 0, unit = 1;
	while (*text == ' ')
		text++;
	if (*text < '0' || *text > '9')
		return NAN;
	for (; *text >= '0' && *text <= '9'; text++)
		x = x * 10 + (*text - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++)
			x += (unit /= 10) * (*text - '0');
	*end = text;
	return x;
}

/* The number behind a word, which stands at the beginning of a line. */
static double find_number(const char *text, const char *word)
{
	size_t len = strlen(word);
	const char *end;
	while (text) {
		if (strncmp(text, word, len) == 0)
			return read_number(text + len, &end);
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NAN;
}

/* ---- what the files say ---- */

/* NAN when it can't be one: nothing was counted meanwhile, a counter went back, nonsense. */
static double load_share(double part, double whole)
{
	return whole > 0 && part >= 0 && part <= whole ? part / whole : NAN;
}

/* cpu user nice system idle iowait irq softirq steal ...: guests are in user already. */
static void look_cpu(struct load *l, struct counters *c)
{
	const char *at = l->text + 3;
	double tick[8] = {0};
	if (load_look_at(l, NODE_STAT) != 0 || strncmp(l->text, "cpu ", 4) != 0)
		return;
	for (int i = 0; i < 8; i++) {
		double x = read_number(at, &at);
		if (isnan(x))
			break; /* older kernels know fewer */
		tick[i] = x;
	}
	c->total = 0;
	for (int i = 0; i < 8; i++)
		c->total += tick[i];
	c->busy = c->total - tick[3] - tick[4];
}

static void look_quota(struct load *l, struct counters *c)
{
	if (load_look_at(l, GROUP_CPU) != 0)
		return;
	c->periods = find_number(l->text, "nr_periods");
	c->throttled = find_number(l->text, "nr_throttled");
}

static double look_pressure(struct load *l, enum source s)
{
	return load_look_at(l, s) != 0 ? NAN : load_share(find_number(l->text, "some avg10="), 100);
}

/* Bytes in all and left, of the node. */
static void node_memory(struct load *l, double *total, double *left)
{
	*total = *left = NAN;
	if (load_look_at(l, NODE_MEMORY) != 0)
		return;
	*total = find_number(l->text, "MemTotal:") * 1024;
	*left = find_number(l->text, "MemAvailable:") * 1024;
}

/* The same of the group; file pages that can go count as left, as they do for the node. */
static void group_memory(struct load *l, double *total, double *left)
{
	const char *end;
	*total = *left = NAN;
	if (load_look_at(l, GROUP_MEMORY_LIMIT) != 0)
		return;
	double limit = read_number(l->text, &end);
	if (!(limit < NO_LIMIT) || load_look_at(l, GROUP_MEMORY) != 0)
		return;
	double used = read_number(l->text, &end);
	double idle =
		load_look_at(l, GROUP_MEMORY_STAT) != 0 ? NAN : find_number(l->text, l->inactive);
	if (idle > 0 && idle <= used)
		used -= idle;
	*total = limit;
	*left = used < limit ? limit - used : 0;
}

static double look_memory(struct load *l)
{
	double total, left, limit, spare;
	node_memory(l, &total, &left);
	group_memory(l, &limit, &spare);
	double node = load_share(total - left, total), group = load_share(limit - spare, limit);
	return isnan(group) || node > group ? node : group;
}

uint64_t load_memory_left(struct load *l)
{
	double total, left, limit, spare;
	node_memory(l, &total, &left);
	group_memory(l, &limit, &spare);
	if (isnan(left) || spare < left)
		left = spare;
	return left < NO_LIMIT ? (uint64_t)fmax(left, 1) : 0;
}

static double own_bytes(void)
{
	struct rusage u;
	return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss * 1024 : NAN;
}

static double own_seconds(const struct load *l)
{
	struct rusage u;
	if (getrusage(RUSAGE_SELF, &u) != 0)
		return NAN;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6 -
	       (l->beside ? l->beside(l->thread) : 0);
}

void load_leave_out(struct load *l, double (*seconds)(const void *thread), const void *thread)
{
	l->beside = seconds;
	l->thread = thread;
}

static struct counters load_count(struct load *l, double now)
{
	struct counters c = {now, NAN, NAN, NAN, NAN, own_seconds(l)};
	look_cpu(l, &c);
	look_quota(l, &c);
	return c;
}

static void load_hold(struct load *l, const struct counters *c)
{
	l->before[1] = l->before[0];
	l->before[0] = *c;
	l->held = l->held < 2 ? l->held + 1 : 2;
}

void load_mark(struct load *l, double now)
{
	struct counters c = load_count(l, now);
	load_hold(l, &c);
	l->marked = 1;
}

/* What a look is compared with: the look before, or the last mark that is not too new. */
static const struct counters *load_base(const struct load *l, double now)
{
	const struct counters *b = l->before;
	if (l->held == 0)
		return NULL;
	return l->marked && l->held == 2 && now - b[0].at < (b[0].at - b[1].at) / 2 ? &b[1] : &b[0];
}

void load_look(struct load *l, double now, struct load_values *out)
{
	const struct counters *b = load_base(l, now);
	if (b && !l->marked && now - b->at < LOAD_PERIOD_SECONDS) {
		*out = l->values;
		return;
	}
	struct counters c = load_count(l, now);
	struct load_values v = {.cpu = NAN, .throttled = NAN, .own_cpu = NAN};
	if (b) {
		v.cpu = load_share(c.busy - b->busy, c.total - b->total);
		v.throttled = c.periods == b->periods ? 0
						      : load_share(c.throttled - b->throttled,
								   c.periods - b->periods);
		v.own_cpu = (c.own - b->own) / (now - b->at);
	}
	v.mem = look_memory(l);
	v.own_mem = own_bytes();
	v.psi_cpu = look_pressure(l, PRESSURE_CPU);
	v.psi_mem = look_pressure(l, PRESSURE_MEMORY);
	if (!l->marked)
		load_hold(l, &c);
	l->values = *out = v;
}

/* ---- finding the files ---- */

/* Under a root there may be anything: a pipe must not be waited for. */
static int load_open_file(const char *path)
{
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static int open_at(const struct load *l, const char *path)
{
	char whole[PATH_MAX + 64];
	snprintf(whole, sizeof whole, "%s%s", l->root, path);
	return load_open_file(whole);
}

/* Where this process is in a hierarchy: the line `N:NAMES:PATH` of /proc/self/cgroup whose names
 * hold this one, "" being version 2's. */
static int group_path(const char *lines, const char *name, char *out, size_t max)
{
	size_t len = strlen(name);
	for (const char *line = lines; line && *line;) {
		const char *names = strchr(line, ':'),
			   *path = names ? strchr(names + 1, ':') : NULL;
		size_t path_len = path ? strcspn(path + 1, "\n") : 0;
		for (const char *at = names; at && at < path; at = strpbrk(at + 1, ",:")) {
			size_t word = strcspn(at + 1, ",:");
			if (word != len || strncmp(at + 1, name, len) != 0 || path_len >= max)
				continue;
			memcpy(out, path + 1, path_len);
			out[path_len] = '\0';
			return 0;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return -1;
}

/* A file of the innermost group, from this one outwards, whose file `limit` holds a limit: into
 * dir. The path may be that of another name space: then only its end, the root, is there. */
static int limited_group(struct load *l, const char *base, const char *name, const char *limit,
			 const char *lines, char *dir, size_t max)
{
	char path[PATH_MAX], file[2 * PATH_MAX + 256];
	const char *end;
	if (group_path(lines, name, path, sizeof path) != 0)
		return -1;
	for (;;) {
		char *slash = strrchr(path, '/');
		if (slash && slash[1] == '\0')
			*slash = '\0';
		snprintf(dir, max, "%s%s%s", l->root, base, path);
		snprintf(file, sizeof file, "%s/%s", dir, limit);
		int fd = load_open_file(file);
		ssize_t len = fd < 0 ? -1 : read(fd, l->text, sizeof l->text - 1);
		if (fd >= 0)
			close(fd);
		l->text[len < 0 ? 0 : len] = '\0';
		double x = read_number(l->text, &end); /* "max" and -1 are none */
		if (x > 0 && x < NO_LIMIT)
			return 0;
		slash = strrchr(path, '/');
		if (!slash)
			return -1;
		*slash = '\0';
	}
}

static int open_in(const char *dir, const char *name)
{
	char path[2 * PATH_MAX + 256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return load_open_file(path);
}

static void find_groups(struct load *l)
{
	static const struct {
		const char *base, *name, *quota, *limit, *used, *inactive;
	} kind[] = {
		{"/sys/fs/cgroup", "", "cpu.max", "memory.max", "memory.current", "inactive_file"},
		{"/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us", NULL, NULL, NULL},
		{"/sys/fs/cgroup/memory", "memory", NULL, "memory.limit_in_bytes",
		 "memory.usage_in_bytes", "total_inactive_file"},
	};
	char lines[TEXT_MAX], dir[2 * PATH_MAX];
	int fd = open_at(l, "/proc/self/cgroup");
	ssize_t len = fd < 0 ? -1 : read(fd, lines, sizeof lines - 1);
	if (fd >= 0)
		close(fd);
	lines[len < 0 ? 0 : len] = '\0';
	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		if (kind[i].quota && l->fd[GROUP_CPU] < 0 &&
		    limited_group(l, kind[i].base, kind[i].name, kind[i].quota, lines, dir,
				  sizeof dir) == 0)
			l->fd[GROUP_CPU] = open_in(dir, "cpu.stat");
		if (!kind[i].limit || l->fd[GROUP_MEMORY] >= 0 ||
		    limited_group(l, kind[i].base, kind[i].name, kind[i].limit, lines, dir,
				  sizeof dir) != 0)
			continue;
		l->fd[GROUP_MEMORY_LIMIT] = open_in(dir, kind[i].limit);
		l->fd[GROUP_MEMORY] = open_in(dir, kind[i].used);
		l->fd[GROUP_MEMORY_STAT] = open_in(dir, "memory.stat");
		l->inactive = kind[i].inactive;
	}
}

int load_new(struct load **out, const char *root, struct error *err)
{
	struct load *l = calloc(1, sizeof *l);
	if (!l)
		return error_set(err, ERROR_OS, "", "out of memory");
	for (int i = 0; i < SOURCES; i++)
		l->fd[i] = -1;
	snprintf(l->root, sizeof l->root, "%s", root);
	l->fd[NODE_STAT] = open_at(l, "/proc/stat");
	l->fd[NODE_MEMORY] = open_at(l, "/proc/meminfo");
	l->fd[PRESSURE_CPU] = open_at(l, "/proc/pressure/cpu");
	l->fd[PRESSURE_MEMORY] = open_at(l, "/proc/pressure/memory");
	find_groups(l);
	*out = l;
	return 0;
}

void load_free(struct load *l)
{
	if (!l)
		return;
	for (int i = 0; i < SOURCES; i++)
		if (l->fd[i] >= 0)
			close(l->fd[i]);
	free(l);
}
