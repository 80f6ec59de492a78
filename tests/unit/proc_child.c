/* proc/child: how a helper process has ended, in words. */
#include "proc/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static char why[CHILD_WHY_MAX], printed[16];

static void on_done(const struct child_end *e, void *arg)
{
	*(const char **)arg = child_failure(e, why);
	snprintf(printed, sizeof printed, "%s", e->output);
}

static enum child_errors errors;

/* What is said of this command of a shell; NULL: nothing. */
static const char *run(const char *command, double seconds, size_t output_bytes_max)
{
	const char *said = "never told";
	struct error err;
	char *const argv[] = {(char *)(size_t) "/bin/sh", (char *)(size_t) "-c",
			      (char *)(size_t)command, NULL};
	const struct child_options options = {.argv = argv,
					      .seconds = seconds,
					      .output_bytes_max = output_bytes_max,
					      .errors = errors,
					      .done = on_done,
					      .arg = &said};
	assert_int_equal(child_run(&options, &err), 0);
	return said;
}

static void a_good_end(void **state)
{
	(void)state;
	assert_null(run("echo yes", 60, 0));
	assert_string_equal(printed, "yes\n");
	assert_null(run("head -c 1048576 /dev/zero", 60, 0)); /* 1 MiB where nobody says how much */
}

static void others(void **state)
{
	(void)state;
	assert_string_equal(run("exit 3", 60, 0), "exit status 3");
	assert_string_equal(run("kill -9 $$", 60, 0), "signal 9 (Killed)");
	assert_string_equal(run("exec sleep 60", 0.25, 0), "no answer in 0.25 s");
	assert_string_equal(run("exec yes", 60, 3), "more than 3 bytes of output");
	assert_string_equal(run("exec yes", 60, 0), "more than 1048576 bytes of output");
	assert_string_equal(run("echo much; exec sleep 20", 10, 3), "more than 3 bytes of output");
}

static void where_its_errors_go(void **state)
{
	(void)state;
	errors = CHILD_ERRORS_IN_OUTPUT;
	assert_null(run("echo one; echo two >&2", 60, 0));
	assert_string_equal(printed, "one\ntwo\n");
	errors = CHILD_ERRORS_DROPPED;
	assert_null(run("echo one; echo two >&2; readlink /proc/self/fd/2", 60, 0));
	assert_string_equal(printed, "one\n/dev/null\n");
	errors = CHILD_ERRORS_OURS;
}

static void files_in_place_of_what_is_collected(void **state)
{
	(void)state;
	struct error err;
	const char *said = "never told";
	char *const argv[] = {(char *)(size_t) "/bin/cat", NULL};
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	char text[8] = "";
	assert_int_equal(pwrite(in, "words", 5, 0), 5);
	const struct child_options options = {
		.argv = argv, .seconds = 60, .input_file = in, .output_file = out, .done = on_done, .arg = &said};
	assert_int_equal(child_run(&options, &err), 0);
	assert_null(said);
	assert_string_equal(printed, "");
	assert_int_equal(pread(out, text, sizeof text, 0), 5);
	assert_string_equal(text, "words");
	assert_int_equal(close(in), 0);
	assert_int_equal(close(out), 0);
}

static void nobody_wants_to_know(void **state)
{
	(void)state;
	struct error err;
	char *const argv[] = {(char *)(size_t) "/bin/true", NULL};
	assert_int_equal(child_run(&(struct child_options){.argv = argv, .seconds = 60}, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_end),
		cmocka_unit_test(others),
		cmocka_unit_test(where_its_errors_go),
		cmocka_unit_test(files_in_place_of_what_is_collected),
		cmocka_unit_test(nobody_wants_to_know),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
