/* meter_load: what a node's files say, from trees of such files; version 1 and 2 of control groups.
 */
#include "base/clock.h"
#include "base/fs.h"
#include "meter/watch.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[256];
static struct load *load;
static struct load_values v;
static struct error err;

static int make(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(root, sizeof root, "%s/paceline-load-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(root) ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	load_free(load);
	load = NULL;
	return fs_remove_tree(root, &err);
}

/* Rewritten in place, as the kernel's files change: an open descriptor sees it. */
static void say(const char *path, const char *text)
{
	char whole[512], dir[512];
	snprintf(whole, sizeof whole, "%s%s", root, path);
	fs_dirname(whole, dir, sizeof dir);
	assert_int_equal(fs_make_dirs(dir, &err), 0);
	int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text), whole, &err), 0);
	close(fd);
}

static void look(double now)
{
	if (!load)
		assert_int_equal(load_new(&load, root, &err), 0);
	v.cpu = v.mem = -1; /* all of it is said anew */
	load_look(load, now, &v);
}

static void near(double got, double want)
{
	if (!(fabs(got - want) < 1e-9))
		fail_msg("%.9g is not %.9g", got, want);
}

static void nothing_there_is_nothing_known(void **state)
{
	(void)state;
	look(1);
	look(2);
	assert_true(isnan(v.cpu) && isnan(v.mem) && isnan(v.psi_cpu) && isnan(v.psi_mem) &&
		    isnan(v.throttled));
	assert_true(v.own_cpu >= 0);
	assert_int_equal(load_memory_left(load), 0);
}

static void processors_in_use_between_two_looks(void **state)
{
	(void)state;
	say("/proc/stat", "cpu  100 0 0 900 0 0 0 0 50 0\ncpu0 100 0 0 900\nintr 5\n");
	look(1);
	assert_true(isnan(v.cpu)); /* since the node was started says nothing about now */
	assert_true(isnan(v.own_cpu));
	say("/proc/stat", "cpu  110 10 10 945 5 10 10 0 90 0\n"); /* 45 idle, 5 for io, 50 used */
	look(1.05);
	assert_true(isnan(v.cpu)); /* too soon */
	look(2);
	near(v.cpu, 0.5);
	say("/proc/stat", "cpu  110 10 10 945 5 10 10 100 90 0\n"); /* all stolen */
	look(3);
	near(v.cpu, 1);
	look(4); /* no tick went by */
	assert_true(isnan(v.cpu));
}

static void ticks(int busy, int idle)
{
	static int all_busy, all_idle;
	char text[80];
	snprintf(text, sizeof text, "cpu  %d 0 0 %d 0 0 0 0 0 0\n", all_busy += busy,
		 all_idle += idle);
	say("/proc/stat", text);
}

/* Looks don't count then; the newest mark does if it is old enough, else the one before. */
static void shares_are_since_a_mark(void **state)
{
	(void)state;
	ticks(50, 50);
	assert_int_equal(load_new(&load, root, &err), 0);
	load_mark(load, 1);
	ticks(10, 90);
	look(1.4); /* there is no mark before, though this one is new */
	near(v.cpu, 0.1);
	look(2);
	near(v.cpu, 0.1);
	look(2); /* again: from the mark, too */
	near(v.cpu, 0.1);
	load_mark(load, 2);
	ticks(6, 4);
	look(2.4); /* the last mark is less than half as old as the one before was then */
	near(v.cpu, 16 / 110.0);
	ticks(24, 16);
	look(2.5);
	near(v.cpu, 30 / 50.0);
	load_mark(load, 3); /* only two are kept */
	ticks(0, 10);
	look(3.1);
	near(v.cpu, 30 / 60.0);
}

static double own_seconds(void)
{
	struct rusage u;
	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double all_seconds(const void *thread)
{
	(void)thread;
	return own_seconds();
}

/* Between two looks 4 s apart, as they are told. */
static void own_time_is_a_share_of_that_between(void **state)
{
	(void)state;
	double before = own_seconds();
	look(3);
	double begun = own_seconds();
	while (own_seconds() < begun + 0.05)
		;
	double worked = own_seconds() - begun;
	look(7);
	double all = own_seconds() - before;
	assert_true(v.own_cpu * 4 >= worked - 1e-9);
	assert_true(v.own_cpu * 4 <= all + 1e-9);
	load_leave_out(load, all_seconds, NULL); /* as if a thread beside had used it all */
	look(11);
	for (begun = own_seconds(); own_seconds() < begun + 0.05;)
		;
	look(15);
	assert_true(fabs(v.own_cpu) * 4 < 0.02);
}

static void some_periods(void)
{
	usleep(3 * (useconds_t)(LOAD_PERIOD_SECONDS * 1e6));
}

/* The node is looked at while nobody asks: what is said is of the last moments, not of all the time
 * since somebody last did. */
static void watched_is_now(void **state)
{
	(void)state;
	struct watch *w;
	ticks(0, 100);
	assert_int_equal(watch_new(&w, root, 1, &err), 0);
	some_periods();
	watch_seconds(w, 1e6); /* one long batch, */
	usleep(2 * (useconds_t)(LOAD_PERIOD_SECONDS * 1e6));
	watch_seconds(w, 0); /* and short ones again */
	v.cpu = 0;
	for (int tries = 0; !(v.cpu > 0.4) && tries < 9;
	     tries++) { /* it may read a file half written */
		ticks(0, 100000);
		some_periods();
		ticks(50, 50);
		watch_look(w, clock_mono(), &v);
	}
	near(v.cpu, 0.5);
	watch_free(w);
	/* Without marks there is nothing to compare the first look with. */
	assert_int_equal(watch_new(&w, root, 0, &err), 0);
	usleep(3 * (useconds_t)(LOAD_PERIOD_SECONDS * 1e6));
	ticks(50, 50);
	watch_look(w, clock_mono(), &v);
	assert_true(isnan(v.cpu));
	watch_free(w);
	watch_free(NULL);
}

/* Of the last hour, if it is to be so: nothing was looked at between the two. */
static void watched_as_seldom_as_asked(void **state)
{
	(void)state;
	v.cpu = NAN;
	/* It may be late: once more. */
	for (int tries = 0; !(fabs(v.cpu - 0.25) < 1e-9) && tries < 9; tries++) {
		struct watch *w;
		ticks(0, 100);
		assert_int_equal(watch_new(&w, root, 1, &err), 0);
		watch_seconds(w, 3600);
		some_periods();
		ticks(50, 50);
		some_periods();
		ticks(0, 100);
		watch_look(w, clock_mono(), &v);
		watch_free(w);
	}
	near(v.cpu, 0.25);
}

static void memory_and_pressure(void **state)
{
	(void)state;
	say("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 10 kB\nMemAvailable:    250 kB\n");
	say("/proc/pressure/cpu",
	    "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=99\n");
	say("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	look(1);
	near(v.mem, 0.75);
	near(v.psi_cpu, 0.125);
	near(v.psi_mem, 0);
	assert_int_equal(load_memory_left(load), 250 * 1024);
}

/* The quota is two groups further out, the memory limit one. */
static void groups_of_version_2(void **state)
{
	(void)state;
	say("/proc/self/cgroup", "9:name=systemd:/no\n0::/a/b/c\n");
	say("/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n");
	say("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
	say("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
	say("/sys/fs/cgroup/a/cpu.stat",
	    "usage_usec 5\nnr_periods 100\nnr_throttled 10\nthrottled_usec 7\n");
	say("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
	say("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
	say("/sys/fs/cgroup/a/b/memory.current", "786432\n");
	say("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 2\ninactive_file 262144\n");
	look(1);
	near(v.mem, 0.5);
	assert_int_equal(load_memory_left(load), 524288);
	say("/sys/fs/cgroup/a/cpu.stat", "nr_periods 120\nnr_throttled 15\n");
	look(2);
	near(v.throttled, 0.25);
	look(3);
	near(v.throttled, 0);
	say("/sys/fs/cgroup/a/b/memory.current", "1310720\n");
	look(4);
	near(v.mem, 1);
}

static void groups_of_version_1(void **state)
{
	(void)state;
	say("/proc/self/cgroup", "4:memory:/job\n2:cpuacct,cpu:/job/x\n0::/\n");
	say("/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 100000 kB\n");
	say("/sys/fs/cgroup/cpu/job/x/cpu.cfs_quota_us", "-1\n");
	say("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "20000\n");
	say("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 10\nnr_throttled 0\nthrottled_time 0\n");
	say("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
	say("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "5\n");
	look(1);
	near(v.mem, 0.9); /* that limit is none */
	say("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 20\nnr_throttled 10\n");
	look(2);
	near(v.throttled, 1);
}

static void the_fuller_of_node_and_group(void **state)
{
	(void)state;
	say("/proc/self/cgroup", "4:memory:/job\n");
	say("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 100 kB\n");
	say("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
	say("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
	say("/sys/fs/cgroup/memory/memory.stat", "cache 0\ntotal_inactive_file 100000\n");
	look(1);
	near(v.mem, 0.9);
	assert_int_equal(load_memory_left(load), 102400);
	say("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1080000\n");
	look(2);
	near(v.mem, 0.98);
	assert_int_equal(load_memory_left(load), 20000);
	say("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200000\n");
	assert_int_equal(load_memory_left(load), 1); /* it is full: that is known */
}

/* A kernel that says something else must not end a worker. */
static void nonsense_is_nothing(void **state)
{
	(void)state;
	static char longer[10000];
	memset(longer, '9', sizeof longer - 1);
	say("/proc/self/cgroup", "0\n:\n::\n4:memory\n0::no-slash\n");
	say("/proc/stat", "cpu\n");
	say("/proc/meminfo", longer);
	say("/proc/pressure/cpu", "some avg10=nan\n");
	say("/proc/pressure/memory", "");
	say("/sys/fs/cgroup/cpu.max", longer);
	look(1);
	say("/proc/stat", "cpu  a b c\n");
	look(2);
	assert_true(isnan(v.cpu) && isnan(v.mem) && isnan(v.psi_cpu) && isnan(v.psi_mem) &&
		    isnan(v.throttled));
}

/* Nor what can't be: it would be learnt from. */
static void what_can_t_be_is_nothing(void **state)
{
	(void)state;
	static char longer[4000];
	memset(longer, '9', sizeof longer - 1);
	const char *const memory[] = {"MemTotal: 0 kB\nMemAvailable: 5 kB\n",
				      "MemTotal: 1000 kB\nMemAvailable: 1001 kB\n",
				      "MemTotal: 0 kB\nMemAvailable: 0 kB\n", longer};
	memcpy(longer, "MemTotal: 5 kB\nMemAvailable: ", 29);
	say("/proc/pressure/cpu", "some avg10=100.01\n");
	say("/proc/pressure/memory", "some avg10=99999999999999\n");
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
		say("/proc/meminfo", memory[i]);
		look((double)i + 1);
		assert_true(isnan(v.mem) && isnan(v.psi_cpu) && isnan(v.psi_mem));
	}
	assert_int_equal(load_memory_left(load), 0);
}

static void a_pipe_is_not_waited_for(void **state)
{
	(void)state;
	const char *const pipes[] = {"/proc/stat", "/sys/fs/cgroup/cpu.max"};
	char path[512];
	say("/proc/self/cgroup", "0::/\n");
	say("/sys/fs/cgroup/x", "");
	for (size_t i = 0; i < sizeof pipes / sizeof *pipes; i++) {
		snprintf(path, sizeof path, "%s%s", root, pipes[i]);
		assert_int_equal(mkfifo(path, 0600), 0);
	}
	look(1);
	look(2);
	assert_true(isnan(v.cpu) && isnan(v.throttled));
}

/* This machine, whatever it has: all that is said lies in its range. */
static void here(void **state)
{
	(void)state;
	root[0] = '\0';
	look(1);
	for (volatile int i = 0; i < 50000000; i++)
		;
	look(2);
	const double all[] = {v.cpu, v.mem, v.psi_cpu, v.psi_mem, v.throttled};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		assert_true(isnan(all[i]) || (all[i] >= 0 && all[i] <= 1));
	assert_true(v.own_cpu > 0);
	assert_true(load_memory_left(load) > 0);
}

static int drop_nothing(void **state)
{
	(void)state;
	load_free(load);
	load = NULL;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
		TEST(nothing_there_is_nothing_known),
		TEST(processors_in_use_between_two_looks),
		TEST(shares_are_since_a_mark),
		TEST(own_time_is_a_share_of_that_between),
		TEST(watched_is_now),
		TEST(watched_as_seldom_as_asked),
		TEST(memory_and_pressure),
		TEST(groups_of_version_2),
		TEST(groups_of_version_1),
		TEST(the_fuller_of_node_and_group),
		TEST(nonsense_is_nothing),
		TEST(what_can_t_be_is_nothing),
		TEST(a_pipe_is_not_waited_for),
		cmocka_unit_test_teardown(here, drop_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
