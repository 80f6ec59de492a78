/* record_recordlog: the file always ends with a whole line, whatever is torn or does not fit. */
#include "record/recordlog.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"

static char path[96];

static int make(void **state)
{
	int result = scratch_make(state);
	snprintf(path, sizeof path, "%s/log", scratch);
	return result;
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fputs(text, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *text)
{
	char *data;
	size_t len;
	assert_int_equal(fs_read_file(path, 1 << 22, &data, &len, NULL), 0);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(data, text, len);
	free(data);
}

static void test_a_torn_line_goes(void **state)
{
	(void)state;
	static const struct {
		const char *before, *after;
	} files[] = {
		{"", "new n=1\n"},
		{"old n=1\n", "old n=1\nnew n=1\n"},
		{"old n=1\nold n=", "old n=1\nnew n=1\n"},
		{"old n=", "new n=1\n"},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct recordlog log;
		put(files[i].before);
		assert_int_equal(recordlog_open(&log, path, NULL), 0);
		recordlog_add(&log, "new n=1\n", 8);
		assert_int_equal(recordlog_flush(&log, NULL), 0);
		recordlog_close(&log);
		assert_file(files[i].after);
	}
}

/* The longest that this process may make a file. */
static void allow(rlim_t bytes)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_no_half_batch(void **state)
{
	(void)state;
	struct recordlog log;
	struct error err = {0};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(recordlog_open(&log, path, NULL), 0);
	recordlog_add(&log, "a n=1\n", 6);
	assert_int_equal(recordlog_flush(&log, &err), 0);
	allow(20);
	for (int i = 0; i < 3; i++) { /* the first two would fit */
		recordlog_add(&log, "b n=2\n", 6);
		recordlog_add(&log, "c n=3\n", 6);
		recordlog_add(&log, "d n=4\n", 6);
		assert_int_equal(recordlog_flush(&log, &err), i == 0 ? -1 : 0); /* said once */
		assert_int_equal(log.lost, 3 * (i + 1));
	}
	assert_int_equal(err.code, ERROR_IO);
	assert_string_equal(err.place, path);
	assert_file("a n=1\n");
	allow(RLIM_INFINITY);
	recordlog_add(&log, "e n=5\n", 6);
	assert_int_equal(recordlog_flush(&log, &err), 0);
	assert_int_equal(log.lost, 0);
	assert_file("a n=1\ne n=5\n");
	allow(12);
	recordlog_add(&log, "f n=6\n", 6);
	assert_int_equal(recordlog_flush(&log, &err), -1); /* another row of failures */
	allow(RLIM_INFINITY);
	recordlog_close(&log);
}

/* So many lines that some are written before anybody flushes: that they are lost is said, too. */
static void test_many_lines(void **state)
{
	(void)state;
	struct recordlog log;
	struct error err = {0};
	char line[1024];
	signal(SIGXFSZ, SIG_IGN);
	memset(line, 'x', sizeof line);
	line[sizeof line - 1] = '\n';
	assert_int_equal(recordlog_open(&log, path, NULL), 0);
	allow(100);
	for (int i = 0; i < 1500; i++)
		recordlog_add(&log, line, sizeof line);
	assert_true(log.lost > 0);
	assert_int_equal(recordlog_flush(&log, &err), -1);
	assert_int_equal(log.lost, 1500);
	allow(RLIM_INFINITY);
	for (int i = 0; i < 1500; i++)
		recordlog_add(&log, line, sizeof line);
	assert_int_equal(recordlog_flush(&log, &err), 0);
	assert_int_equal(log.lost, 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1500 * sizeof line);
	recordlog_close(&log);
}

static void test_reopen(void **state)
{
	(void)state;
	struct recordlog log;
	char old[112];
	snprintf(old, sizeof old, "%s.1", path);
	assert_int_equal(recordlog_open(&log, path, NULL), 0);
	recordlog_add(&log, "a n=1\n", 6);
	assert_int_equal(rename(path, old), 0);
	assert_int_equal(recordlog_reopen(&log, NULL), 0);
	recordlog_add(&log, "b n=2\n", 6);
	assert_int_equal(recordlog_flush(&log, NULL), 0);
	assert_file("b n=2\n");
	assert_int_equal(rename(old, path), 0);
	assert_file("a n=1\n");
	recordlog_close(&log);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, scratch_remove)

static void a_line(struct recordlog *log, const char *line)
{
	recordlog_add(log, line, strlen(line));
	assert_int_equal(recordlog_flush(log, NULL), 0);
}

static void fill(struct recordlog *log)
{
	assert_int_equal(ftruncate(log->fd, RECORDLOG_BYTES_MAX), 0);
}

static void test_a_full_one_is_moved(void **state)
{
	struct recordlog log;
	struct stat st;
	struct error err;
	char older[128];
	(void)state;
	snprintf(older, sizeof older, "%s.1", path);
	assert_int_equal(recordlog_open(&log, path, NULL), 0);
	a_line(&log, "first n=1\n");
	assert_int_equal(recordlog_turn(&log, &err), 0);
	fill(&log);
	assert_int_equal(recordlog_turn(&log, &err), 1);
	assert_int_equal(stat(older, &st), 0);
	assert_int_equal(st.st_size, RECORDLOG_BYTES_MAX);
	a_line(&log, "next n=1\n");
	assert_file("next n=1\n");
	/* One that another owner has moved is left, and what lies there now is not moved. */
	fill(&log);
	assert_int_equal(rename(path, older), 0);
	put("other n=1\n");
	assert_int_equal(recordlog_turn(&log, &err), 1);
	a_line(&log, "next n=1\n");
	assert_file("other n=1\nnext n=1\n");
	/* Nor does it matter then how long it is. */
	assert_int_equal(rename(path, older), 0);
	assert_int_equal(recordlog_turn(&log, &err), 1);
	assert_int_equal(recordlog_turn(&log, &err), 0);
	a_line(&log, "next n=2\n");
	assert_file("next n=2\n");
	/* What can't be moved goes on, and that is said once, until it can. */
	assert_int_equal(unlink(older), 0);
	assert_int_equal(mkdir(older, 0700), 0);
	fill(&log);
	assert_int_equal(recordlog_turn(&log, &err), -1);
	assert_string_equal(err.place, older);
	assert_int_equal(recordlog_turn(&log, &err), 0);
	assert_int_equal(rmdir(older), 0);
	assert_int_equal(recordlog_turn(&log, &err), 1);
	assert_file("");
	recordlog_close(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_torn_line_goes), T(test_no_half_batch),       T(test_many_lines),
		T(test_reopen),           T(test_a_full_one_is_moved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
