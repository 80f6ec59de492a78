/* Which hosts a test calls bad. */
#include "proc/host_test.h"

#include "record/record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct host_test host(double compute, double memory, double link)
{
	return (struct host_test){.host = "h", .value = {compute, memory, link}};
}

static void the_slow_one_is_named_with_what_it_lacks(void **state)
{
	struct host_test t[] = {host(1e9, 1e10, NAN), host(0.9e9, 1e10, 5e8), host(1e9, 1e10, 1e6),
				host(0.2e9, 1e10, 6e8)};
	(void)state;
	host_tests_judge(t, 4);
	assert_string_equal(t[0].why, "");
	assert_string_equal(t[1].why, "");
	assert_non_null(strstr(t[2].why, "link: "));
	assert_non_null(strstr(t[3].why, "compute: "));
}

static void of_two_the_slower(void **state)
{
	struct host_test t[] = {host(1e9, 1e10, NAN), host(1e9, 3e9, 1e6)};
	(void)state;
	host_tests_judge(t, 2);
	assert_string_equal(t[0].why, "");
	assert_non_null(strstr(t[1].why, "memory: "));
}

static void alone_only_what_is_wrong(void **state)
{
	struct host_test one = host(1, 1, NAN);
	(void)state;
	host_tests_judge(&one, 1);
	assert_string_equal(one.why, "");
	one.wrong = 1;
	host_tests_judge(&one, 1);
	assert_string_equal(one.why, "calculates wrongly");
}

static void who_does_not_answer_is_no_measure_for_others(void **state)
{
	struct host_test t[] = {host(1e9, 1e10, 1e8), host(NAN, NAN, NAN), host(0.4e9, 1e10, 1e8)};
	char line[RECORD_LINE_MAX];
	struct record_out o;
	(void)state;
	snprintf(t[1].why, sizeof t[1].why, "is not reached");
	host_tests_judge(t, 3);
	assert_string_equal(t[0].why, "");
	assert_string_equal(t[1].why, "is not reached");
	assert_string_equal(t[2].why, "");
	host_test_record(&o, line, sizeof line, &t[1]);
	assert_true(record_end(&o, NULL) > 0);
	assert_string_equal(line, "host-test name=h compute= memory= link= state=bad "
				  "why=is%20not%20reached\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_slow_one_is_named_with_what_it_lacks),
		cmocka_unit_test(of_two_the_slower),
		cmocka_unit_test(alone_only_what_is_wrong),
		cmocka_unit_test(who_does_not_answer_is_no_measure_for_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
