/* Ways of limiting a process: which one is taken where, and what is written; control groups of version 2
 * and systemd stand here as files and scripts, as no machine has all of them. */
#include "proc/limits.h"

#include "base/fs.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static char *in(const char *name)
{
	static char path[4][PATH_MAX];
	static int at;
	at = (at + 1) % 4;
	snprintf(path[at], sizeof path[at], "%s/%.200s", dir, name);
	return path[at];
}

static void file(const char *name, const char *text, mode_t mode)
{
	FILE *out = fopen(in(name), "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
	chmod(in(name), mode);
}

static int holds(const char *name, const char *text)
{
	char *is;
	if (fs_read_file(in(name), 65536, &is, NULL, NULL) != 0)
		return 0;
	int same = strcmp(is, text) == 0;
	free(is);
	return same;
}

/* In place of the C library's: what the kernel puts into a new group. */
int mkdir(const char *path, mode_t mode)
{
	static const char *const files[] = {"memory.max", "memory.swap.max", "memory.oom.group",
					    "cpu.max", "cgroup.procs", "memory.limit_in_bytes",
					    "cpu.cfs_quota_us", "cpu.cfs_period_us"};
	char name[PATH_MAX];
	int result = mkdirat(AT_FDCWD, path, mode);
	for (size_t i = 0; result == 0 && strstr(path, "/paceline-node-") &&
			   i < sizeof files / sizeof *files;
	     i++) {
		snprintf(name, sizeof name, "%s/%s", path, files[i]);
		close(open(name, O_WRONLY | O_CREAT, 0644));
	}
	return result;
}

/* A group goes with its files. */
int rmdir(const char *path)
{
	return fs_remove_tree(path, NULL);
}

static struct limits_where where(void)
{
	static char path[4][PATH_MAX];
	static const char *const names_of[4] = {"cg", "self", "systemd", "bin"};
	for (size_t i = 0; i < 4; i++)
		snprintf(path[i], sizeof path[i], "%s", in(names_of[i]));
	return (struct limits_where){
		.cgroups = path[0], .self = path[1], .systemd = path[2], .search = path[3]};
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/paceline-limits-XXXXXX");
	assert_non_null(mkdtemp(dir));
	mkdir(in("cg"), 0755);
	mkdir(in("cg/job"), 0755);
	mkdir(in("bin"), 0755);
	file("self", "0::/job\n", 0644);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return fs_remove_tree(dir, NULL);
}

static const struct limits want = {.cores = 1.5, .memory = 64 << 20};

static pid_t sleeper(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void version_2(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	char name[96], path[PATH_MAX], pid_text[24];
	file("cg/cgroup.controllers", "cpu memory\n", 0644);
	file("cg/job/cgroup.subtree_control", "cpu memory\n", 0644);
	file("cg/job/cgroup.procs", "", 0644);
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.ways.cores, LIMITS_CGROUP);
	assert_int_equal(g.ways.memory, LIMITS_CGROUP);
	snprintf(name, sizeof name, "cg/job/paceline-node-w0-%ld", (long)getpid());
	assert_string_equal(g.memory_dir, in(name));
	snprintf(path, sizeof path, "%s/memory.max", name);
	assert_true(holds(path, "67108864"));
	snprintf(path, sizeof path, "%s/memory.swap.max", name);
	assert_true(holds(path, "0"));
	snprintf(path, sizeof path, "%s/memory.oom.group", name);
	assert_true(holds(path, "1"));
	snprintf(path, sizeof path, "%s/cpu.max", name);
	assert_true(holds(path, "150000 100000"));
	pid_t pid = sleeper();
	limits_take(&g, pid);
	snprintf(path, sizeof path, "%s/cgroup.procs", name);
	snprintf(pid_text, sizeof pid_text, "%ld", (long)pid);
	assert_true(holds(path, pid_text));
	end_sleeper(pid);
	/* Killed, and its group has counted that. */
	snprintf(path, sizeof path, "%s/memory.events", name);
	file(path, "low 0\noom 2\noom_kill 1\noom_group_kill 1\n", 0644);
	struct node_end end = {.seen = 1, .signal = SIGKILL};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 1);
	assert_int_not_equal(access(in(name), F_OK), 0);
}

static void a_kill_that_nobody_counts_is_no_want_of_memory(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	file("cg/cgroup.controllers", "cpu memory\n", 0644);
	file("cg/job/memory.events.local", "oom_kill 3\n", 0644);
	limits_make(&g, &(struct limits){0}, "w0", &w);
	assert_int_equal(g.ways.memory, LIMITS_NONE);
	struct node_end end = {.seen = 1, .signal = SIGKILL};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 0);
	/* A group with others in it: another one's kill is no exit status of ours. */
	file("cg/job/memory.events.local", "oom_kill 4\n", 0644);
	end = (struct node_end){.seen = 1, .status = 65};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 0);
	end = (struct node_end){.seen = 1, .signal = SIGKILL};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 1);
}

static void beside_ours_where_ours_has_members(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	file("cg/cgroup.controllers", "cpu memory\n", 0644);
	file("cg/cgroup.procs", "", 0644);
	file("cg/cgroup.subtree_control", "memory cpu\n", 0644);
	file("cg/job/cgroup.subtree_control", "", 0644);
	chmod(in("cg/job/cgroup.subtree_control"), 0444);
	if (geteuid() == 0) /* to root nothing is read-only: what it writes has no effect in a file */
		unlink(in("cg/job/cgroup.subtree_control"));
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.ways.memory, LIMITS_CGROUP);
	assert_true(strncmp(g.memory_dir, in("cg/paceline-node-"), strlen(in("cg/paceline-node-"))) == 0);
	limits_end(&g, &(struct node_end){0});
	/* Where systemd runs that is its own. */
	mkdir(in("systemd"), 0755);
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.ways.memory, LIMITS_PROCESS);
	assert_int_equal(g.ways.cores, LIMITS_PROCESS);
}

static void groups_of_those_that_are_gone_are_removed(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	pid_t gone = fork();
	char name[96];
	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	file("cg/cgroup.controllers", "cpu memory\n", 0644);
	file("cg/job/cgroup.subtree_control", "cpu memory\n", 0644);
	snprintf(name, sizeof name, "cg/job/paceline-node-w7-%ld", (long)gone);
	mkdir(in(name), 0755);
	mkdir(in("cg/job/paceline-node-w8-1"), 0755); /* the first process is always there */
	limits_make(&g, &want, "w0", &w);
	assert_int_not_equal(access(in(name), F_OK), 0);
	assert_int_equal(access(in("cg/job/paceline-node-w8-1"), F_OK), 0);
	limits_end(&g, &(struct node_end){0});
}

static void slurm_has_done_it(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	file("cg/cgroup.controllers", "cpu memory\n", 0644);
	file("cg/job/memory.max", "67108864\n", 0644);
	assert_int_equal(limits_memory(&w), 67108864);
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.ways.memory, LIMITS_LAUNCHER);
	assert_int_equal(g.ways.cores, LIMITS_PROCESS);
	file("cg/job/memory.max", "max\n", 0644);
	assert_int_equal(limits_memory(&w), 0);
}

/* systemd-run and systemctl, which write down what they are asked. */
static void systemd(int works)
{
	char text[PATH_MAX + 200];
	mkdir(in("systemd"), 0755);
	snprintf(text, sizeof text, "#!/bin/sh\necho run \"$@\" >>%s/said\nexit %d\n", dir, !works);
	file("bin/systemd-run", text, 0755);
	snprintf(text, sizeof text,
		 "#!/bin/sh\necho ctl \"$@\" >>%s/said\ncase $* in *show*) echo oom-kill;; esac\n", dir);
	file("bin/systemctl", text, 0755);
	file("bin/true", "#!/bin/sh\n", 0755);
}

static void a_scope_of_systemd(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	char front[8 * 256] = "", expected[PATH_MAX + 400];
	const char *user = geteuid() == 0 ? "" : " --user";
	systemd(1);
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.ways.cores, LIMITS_SYSTEMD);
	assert_int_equal(g.ways.memory, LIMITS_SYSTEMD);
	for (size_t i = 0; i < g.fronts; i++)
		snprintf(front + strlen(front), sizeof front - strlen(front), "%s%s", i ? " " : "",
			 g.front[i]);
	snprintf(expected, sizeof expected,
		 "%s%s --scope --quiet --unit=paceline-node-w0-%ld --property=MemoryMax=67108864 "
		 "--property=MemorySwapMax=0 --property=CPUQuota=150%%",
		 in("bin/systemd-run"), user, (long)getpid());
	assert_string_equal(front, expected);
	unlink(in("said"));
	struct node_end end = {.seen = 1, .signal = SIGKILL};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 1);
	snprintf(expected, sizeof expected,
		 "ctl%s show --property=Result --value paceline-node-w0-%ld.scope\n"
		 "ctl%s reset-failed paceline-node-w0-%ld.scope\n",
		 user, (long)getpid(), user, (long)getpid());
	assert_true(holds("said", expected));
}

static void systemd_that_refuses(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	systemd(0);
	limits_make(&g, &want, "w0", &w);
	assert_int_equal(g.fronts, 0);
	assert_int_equal(g.ways.memory, LIMITS_PROCESS);
}

static void by_the_process_itself(void **state)
{
	(void)state;
	struct limits_group g;
	struct limits_where w = where();
	struct rlimit data;
	cpu_set_t all, set, other;
	sched_getaffinity(0, sizeof all, &all);
	struct limits one = {.cores = 0.5, .memory = 64 << 20};
	pid_t pid = sleeper();
	limits_make(&g, &one, "w0", &w);
	limits_take(&g, pid);
	assert_int_equal(g.ways.cores, LIMITS_PROCESS);
	assert_int_equal(prlimit(pid, RLIMIT_DATA, NULL, &data), 0);
	assert_int_equal(data.rlim_cur, 64 << 20);
	sched_getaffinity(pid, sizeof set, &set);
	assert_int_equal(CPU_COUNT(&set), 1);
	end_sleeper(pid);
	struct node_end end = {.seen = 1, .status = 71};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 1);
	end = (struct node_end){.seen = 1, .signal = SIGKILL};
	limits_end(&g, &end);
	assert_int_equal(end.oom, 0);
	one.first_core = 1;
	pid = sleeper();
	limits_make(&g, &one, "w1", &w);
	limits_take(&g, pid);
	sched_getaffinity(pid, sizeof other, &other);
	if (CPU_COUNT(&all) > 1)
		assert_false(CPU_EQUAL(&set, &other));
	end_sleeper(pid);
}

static void names(void **state)
{
	(void)state;
	enum limits_way way;
	assert_int_equal(limits_way_find("cgroup", &way), 0);
	assert_string_equal(limits_way_name(way), "cgroup");
	assert_int_equal(limits_way_find("magic", &way), -1);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(version_2),
		IN_DIR(a_kill_that_nobody_counts_is_no_want_of_memory),
		IN_DIR(beside_ours_where_ours_has_members),
		IN_DIR(groups_of_those_that_are_gone_are_removed),
		IN_DIR(slurm_has_done_it),
		IN_DIR(a_scope_of_systemd),
		IN_DIR(systemd_that_refuses),
		IN_DIR(by_the_process_itself),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests_name("proc_limits", tests, NULL, NULL);
}
