/* work_caching: one of several makes the caches, the others wait for nothing; who fails keeps them off. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/rowcache.h"
#include "work/caching.h"

#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char path[128], cache[160], lock[160];
static struct schema *schema;
static struct caching_options options;
static atomic_int made, failed, tried;

/* In place of the one of the library: says that somebody has tried. */
int flock(int fd, int operation)
{
	long result = syscall(SYS_flock, fd, operation);
	tried++;
	return (int)result;
}

static void on_log(enum log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	made += strstr(text, "later epochs read rows from a row cache") != NULL;
	failed += strstr(text, "there will be no row cache") != NULL;
}

static int set_up(void **state)
{
	static const struct schema_options svm = {.format = "libsvm"};
	static const char *paths[] = {path};
	struct error err;
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/rows", scratch);
	snprintf(cache, sizeof cache, "%s/rows.rowcache", scratch);
	snprintf(lock, sizeof lock, "%s/rows.rowcache.lock", scratch);
	assert_int_equal(fs_replace_for_now(path, "1 1:1\n0 2:1\n", 12, &err), 0);
	assert_int_equal(schema_new(&schema, &svm, &err), 0);
	options = (struct caching_options){.schema = schema, .paths = paths, .path_count = 1};
	log_set_sink(on_log, NULL, LOG_LEVEL_INFO);
	made = failed = tried = 0;
	return 0;
}

static int tear_down(void **state)
{
	schema_free(schema);
	return scratch_remove(state);
}

static struct caching *start_one(void)
{
	struct caching *c;
	struct error err;
	assert_int_equal(caching_start(&c, &options, &err), 0);
	return c;
}

static void wait_until(const atomic_int *count, int want)
{
	for (int i = 0; i < 3000 && *count < want; i++)
		clock_sleep(0.01);
	assert_int_equal(*count, want);
}

static void test_one_makes(void **state)
{
	(void)state;
	struct caching *a = start_one(), *b = start_one();
	wait_until(&made, 1);
	assert_true(caching_seconds(a) > 0 && caching_seconds(b) > 0);
	for (int i = 0; i < 3000 && access(lock, F_OK) == 0; i++)
		clock_sleep(0.01);
	double used = caching_seconds(a); /* its thread may have ended, and knows it still */
	assert_true(used > 0 && caching_seconds(a) >= used);
	caching_stop(a);
	caching_stop(b);
	assert_int_equal(made, 1);
	assert_int_equal(failed, 0);
	assert_int_equal(access(cache, F_OK), 0);
	assert_int_equal(access(lock, F_OK), -1);
	/* It is there already. */
	tried = 0;
	a = start_one();
	wait_until(&tried, 1);
	for (int i = 0; i < 3000 && access(lock, F_OK) == 0; i++)
		clock_sleep(0.01);
	caching_stop(a);
	assert_int_equal(made, 1);
}

static void test_other_dies(void **state)
{
	(void)state;
	struct error err;
	int fd;
	char half[200], written[200], other[200];
	snprintf(half, sizeof half, "%s.tmp.0123", cache);
	snprintf(other, sizeof other, "%s.tmp", cache);
	assert_int_equal(fs_replace_for_now(half, "", 0, &err), 0);
	assert_int_equal(fs_replace_for_now(other, "", 0, &err), 0);
	/* An hour old; another one that a host without locks may be writing. */
	const struct timespec old[2] = {{time(NULL) - 3600, 0}, {time(NULL) - 3600, 0}};
	assert_int_equal(utimensat(AT_FDCWD, half, old, 0), 0);
	snprintf(written, sizeof written, "%s.tmp.4567", cache);
	assert_int_equal(fs_replace_for_now(written, "", 0, &err), 0);
	assert_int_equal(fs_lock(lock, &fd, &err), 0);
	struct caching *a = start_one();
	wait_until(&tried, 2);
	assert_int_equal(made, 0);
	close(fd);
	wait_until(&made, 1);
	caching_stop(a);
	assert_int_equal(failed, 0);
	assert_int_equal(access(half, F_OK), -1);
	assert_int_equal(access(written, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
}

static void test_failure_is_told_once(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(fs_make_dirs(cache, &err), 0);
	struct caching *a = start_one();
	wait_until(&failed, 1);
	struct caching *b = start_one();
	caching_stop(b);
	assert_int_equal(failed, 1);
	assert_int_equal(access(lock, F_OK), 0);
	caching_stop(a);
	assert_int_equal(made, 0);
	assert_int_equal(access(lock, F_OK), -1);
}

/* A directory that nobody can write. */
static void test_no_place(void **state)
{
	(void)state;
	options.index_dir = "/proc/self";
	struct caching *a = start_one();
	wait_until(&failed, 1);
	caching_stop(a);
	assert_int_equal(made, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_makes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_dies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failure_is_told_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_place, set_up, tear_down)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
