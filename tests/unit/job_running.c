/* What runs of a job, as its records and locks say, when a trainctl has just been killed. */
#include "job/prepare.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "proc/parent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include "scratch.h"

static struct dirs dirs;

static int begin(void **state)
{
	char path[DIRS_PATH_MAX];
	struct error err;
	if (scratch_make(state) != 0)
		return -1;
	snprintf(dirs.state, sizeof dirs.state, "%s", scratch);
	dirs_state(&dirs, "nodes", path);
	return fs_make_dirs(path, &err);
}

/* Held by this process, as a node's parent holds it. */
static int hold(const char *name)
{
	char path[DIRS_PATH_MAX];
	struct error err;
	int fd;
	dirs_state(&dirs, name, path);
	assert_int_equal(fs_lock(path, &fd, &err), 0);
	return fd;
}

static void write_record(const char *name, int ended)
{
	char path[DIRS_PATH_MAX];
	struct error err;
	struct node_record r = {.id = "w0", .parent = getpid(), .pid = getpid(), .ended = ended};
	boot_id(r.boot);
	assert_int_equal(process_start(r.pid, &r.start), 0);
	r.parent_start = r.start;
	dirs_state(&dirs, name, path);
	assert_int_equal(node_record_write(path, &r, &err), 0);
}

static void one_that_is_being_started_is_waited_for(void **state)
{
	char id[OPTION_ID_MAX];
	struct error err;
	(void)state;
	assert_int_equal(prepare_settle(&dirs, 0, &err), 0);
	assert_false(prepare_running(&dirs, id));
	int lock = hold("nodes/w0.lock");
	assert_false(prepare_running(&dirs, id));
	assert_int_equal(prepare_settle(&dirs, 0, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	assert_non_null(strstr(err.place, "nodes/w0.lock"));
	write_record("nodes/w0.0", 0);
	assert_int_equal(prepare_settle(&dirs, 0, &err), 0);
	assert_true(prepare_running(&dirs, id));
	assert_string_equal(id, "w0");
	/* The next process of a server holds another lock. */
	int heir = hold("nodes/w0.heir.lock");
	assert_int_equal(prepare_settle(&dirs, 0, &err), -1);
	close(heir);
	close(lock);
}

static void one_that_has_ended_is_known(void **state)
{
	struct error err;
	(void)state;
	int lock = hold("nodes/w0.lock");
	write_record("nodes/w0.0", 1);
	assert_int_equal(prepare_settle(&dirs, 0, &err), 0);
	close(lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_is_being_started_is_waited_for, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(one_that_has_ended_is_known, begin, scratch_remove),
	};
	return cmocka_run_group_tests_name("job_running", tests, NULL, NULL);
}
