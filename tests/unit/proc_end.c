/* What the end of a process means. */
#include "proc/end.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum end_class exited(int status)
{
	struct node_end end = {.seen = 1, .status = status};
	return end_class_of(&end);
}

static enum end_class died(int sig)
{
	struct node_end end = {.seen = 1, .signal = sig};
	return end_class_of(&end);
}

static void classes(void **state)
{
	(void)state;
	const int retryable[] = {69, 71, 74, 75},
		  not [] = {1, 64, 65, 66, 70, 73, 77, 78, 127, 137, 139};
	const int kills[] = {SIGKILL, SIGTERM, SIGHUP, SIGPIPE},
		  crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
	assert_int_equal(exited(0), END_CLEAN);
	for (size_t i = 0; i < sizeof retryable / sizeof *retryable; i++)
		assert_int_equal(exited(retryable[i]), END_RETRYABLE);
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		assert_int_equal(exited(not [i]), END_UNRETRYABLE);
	for (size_t i = 0; i < sizeof kills / sizeof *kills; i++)
		assert_int_equal(died(kills[i]), END_RETRYABLE);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		assert_int_equal(died(crashes[i]), END_UNRETRYABLE);
	struct node_end unseen = {0};
	assert_int_equal(end_class_of(&unseen), END_RETRYABLE);
	struct node_end killed = {.seen = 1, .signal = SIGKILL, .oom = 1};
	char text[64];
	assert_int_equal(end_class_of(&killed), END_OOM);
	end_text(&killed, text, sizeof text);
	assert_string_equal(text, "out of memory, signal 9 (Killed)");
}

static void status_of_a_job(void **state)
{
	(void)state;
	struct node_end end = {.seen = 1, .status = 65};
	assert_int_equal(end_status(&end), 65);
	end = (struct node_end){.seen = 1, .signal = SIGSEGV};
	assert_int_equal(end_status(&end), 128 + SIGSEGV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),
		cmocka_unit_test(status_of_a_job),
	};
	return cmocka_run_group_tests_name("proc_end", tests, NULL, NULL);
}
