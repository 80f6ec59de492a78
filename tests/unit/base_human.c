/* Numbers as people read them. */
#include "base/human.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
	double x;
	const char *text;
};

static void check(const char *(*format)(double, char[HUMAN_MAX]), const struct row *row,
		  size_t rows)
{
	char out[HUMAN_MAX];
	for (size_t i = 0; i < rows; i++)
		assert_string_equal(format(row[i].x, out), row[i].text);
}
#define CHECK(format, rows) check(format, rows, sizeof(rows) / sizeof *(rows))

static void counts(void **state)
{
	(void)state;
	const struct row rows[] = {
		{0, "0"},          {7, "7"},         {999, "999"},     {3.25, "3.25"},
		{0.5, "0.50"},     {0.031, "0.031"}, {-4, "-4"},       {99.96, "100"},
		{999.7, "1.00k"},  {1000, "1.00k"},  {12345, "12.3k"}, {999499, "999k"},
		{999500, "1.00M"}, {1.4e6, "1.40M"}, {2e9, "2.00G"},   {-12345, "-12.3k"},
		{1e30, "1e+30"},   {NAN, "-"},       {INFINITY, "-"}};
	CHECK(human_count, rows);
}

static void bytes(void **state)
{
	(void)state;
	const struct row rows[] = {
		{0, "0 B"},         {17, "17 B"},        {1023, "1023 B"},
		{1024, "1.0 KiB"},  {319488, "312 KiB"}, {1048575, "1.0 MiB"},
		{1.5e9, "1.4 GiB"}, {NAN, "-"},          {-1, "-"},
	};
	CHECK(human_bytes, rows);
}

static void times(void **state)
{
	(void)state;
	const struct row rows[] = {
		{0, "0 s"},       {-3, "0 s"},         {2e-6, "2 us"},    {0.0042, "4.2 ms"},
		{0.031, "31 ms"}, {0.9994, "999 ms"},  {0.9996, "1.0 s"}, {4.2, "4.2 s"},
		{9.96, "10 s"},   {42, "42 s"},        {59.6, "1 min"},   {252, "4 min 12 s"},
		{3599.6, "1 h"},  {7500, "2 h 5 min"}, {86399, "1 d"},    {273600, "3 d 4 h"},
		{NAN, "-"},       {INFINITY, "-"},
	};
	const struct row brief[] = {
		{0, "0s"},      {0.031, "31ms"}, {42, "42s"},       {60, "1m00s"},
		{252, "4m12s"}, {7500, "2h05m"}, {273600, "3d04h"}, {400 * 86400.0, "400d00h"},
		{NAN, "-"},
	};
	const struct row whole[] = {{0, "0 s"},   {-1, "0 s"},          {0.6, "1 s"}, {9.4, "9 s"},
				    {9.6, "10 s"}, {252, "4 min 12 s"}, {NAN, "-"}};
	CHECK(human_wait, whole);
	CHECK(human_time, rows);
	CHECK(human_time_brief, brief);
}

static void reals_and_parts(void **state)
{
	(void)state;
	char out[HUMAN_MAX];
	assert_string_equal(human_real(0.43123, 4, out), "0.4312");
	assert_string_equal(human_real(1.8, 2, out), "1.80");
	assert_string_equal(human_real(0, 4, out), "0.0000");
	assert_string_equal(human_real(0.00001234, 4, out), "1.234e-05");
	assert_string_equal(human_real(123456789, 2, out), "1.2e+08");
	assert_string_equal(human_real(NAN, 4, out), "-");
	const struct row rows[] = {{0, "0%"},   {0.349, "34%"}, {0.9999, "99%"},
				   {1, "100%"}, {-1, "-"},      {NAN, "-"}};
	CHECK(human_percent, rows);
}

/* None is longer than a column can be made for. */
static void widths(void **state)
{
	(void)state;
	char out[HUMAN_MAX];
	for (double x = 1e-7; x < 1e25; x *= 1.0173) {
		assert_in_range(strlen(human_count(x, out)), 1, 8);
		assert_in_range(strlen(human_bytes(x, out)), 1, 12);
		assert_in_range(strlen(human_time(x, out)), 1, 13);
		assert_in_range(strlen(human_time_brief(x, out)), 1, 9);
		assert_in_range(strlen(human_real(x, 4, out)), 1, 11);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts), cmocka_unit_test(bytes),
		cmocka_unit_test(times),  cmocka_unit_test(reals_and_parts),
		cmocka_unit_test(widths),
	};
	return cmocka_run_group_tests_name("base_human", tests, NULL, NULL);
}
