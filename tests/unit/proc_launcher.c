/* Templates of launchers, and what an end means where a shell may stand in front. */
#include "proc/launcher.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct node_place place = {.host = "north", .cores = 8, .memory_mib = 4096};
static const struct node_name name = {.id = "w3", .number = 3, .place = &place};

static void each_word_has_its_value(void **state)
{
	(void)state;
	struct error err;
	char *out;
	assert_int_equal(launcher_words("%i/%n on %h: %cores x %mem%%, 100%%i", &name, &out, &err),
			 0);
	assert_string_equal(out, "w3/3 on north: 8 x 4096%, 100%i");
	free(out);
}

static void what_stands_for_nothing_is_named_with_its_column(void **state)
{
	(void)state;
	struct error err;
	char *out;
	assert_int_equal(launcher_words("nice %x", &name, &out, &err), -1);
	assert_null(out);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.text, "'%x' in column 6"));
	assert_int_equal(launcher_check("at the end %", &err), -1);
	assert_non_null(strstr(err.text, "column 12"));
	assert_int_equal(launcher_check("%co", &err), -1);
	assert_int_equal(launcher_check("", &err), 0);
	assert_int_equal(launcher_check("taskset -c %n", &err), 0);
}

static void a_plain_command_needs_no_shell(void **state)
{
	(void)state;
	const struct {
		const char *template, *line;
	} cases[] = {{"nice -n %n", "exec nice -n 3 \"$@\""},
		     {"cd / && nice", "cd / && nice \"$@\""},
		     {"A=%i nice", "A=w3 nice \"$@\""},
		     {"env A=%i", "exec env A=w3 \"$@\""},
		     {"", NULL},
		     {NULL, NULL}};
	const struct launcher *local = launcher_find("local");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		char *line;
		assert_int_equal(local->start(cases[i].template, &name, &line, &err), 0);
		if (cases[i].line)
			assert_string_equal(line, cases[i].line);
		else
			assert_null(line);
		free(line);
	}
	assert_null(launcher_find("none"));
}

static void a_shell_in_front_tells_of_signals_by_its_status(void **state)
{
	(void)state;
	const struct launcher *local = launcher_find("local");
	struct node_end end = {.seen = 1, .status = 128 + SIGKILL};
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
	end.status = 128 + SIGTERM;
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
	end.status = 128 + SIGSEGV;
	assert_int_equal(local->class_of(&end), END_UNRETRYABLE);
	end.status = 0;
	assert_int_equal(local->class_of(&end), END_CLEAN);
	end.seen = 0;
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
}

static void here_is_a_host(void **state)
{
	(void)state;
	struct node_place here;
	launcher_here(&here);
	assert_ptr_equal(here.launcher, launcher_find("local"));
	assert_true(here.host[0] != '\0');
	assert_true(here.cores >= 1);
	assert_true(here.memory_mib >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_word_has_its_value),
		cmocka_unit_test(what_stands_for_nothing_is_named_with_its_column),
		cmocka_unit_test(a_plain_command_needs_no_shell),
		cmocka_unit_test(a_shell_in_front_tells_of_signals_by_its_status),
		cmocka_unit_test(here_is_a_host),
	};
	return cmocka_run_group_tests_name("proc_launcher", tests, NULL, NULL);
}
