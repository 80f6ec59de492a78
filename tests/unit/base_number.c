/* base/number: what is a number here and what is not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_u64(void **state)
{
	(void)state;
	uint64_t x = 77;
	struct error err;
	static const char *const bad[] = {"",     "-1",  "+1",  " 1", "1 ",
					  "0x10", "1.0", "1e3", "a",  "18446744073709551616",
					  "99999999999999999999", "000000000000000000001"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(number_u64(bad[i], 0, UINT64_MAX, &x, "--n", &err), -1);
		assert_int_equal(err.code, ERROR_USAGE);
		assert_string_equal(err.place, "--n");
		assert_true(bad[i][0] == '\0' || strstr(err.text, bad[i]) != NULL);
		assert_int_equal(x, 77);
	}
	assert_int_equal(number_u64("18446744073709551615", 0, UINT64_MAX, &x, "n", &err), 0);
	assert_true(x == UINT64_MAX);
	assert_int_equal(number_u64("007", 0, 7, &x, "n", NULL), 0);
	assert_int_equal(x, 7);
	assert_int_equal(number_u64("8", 0, 7, &x, "n", &err), -1);
	assert_int_equal(number_u64("0", 1, 7, &x, "n", NULL), -1);
}

static void test_real(void **state)
{
	(void)state;
	double x = 77;
	static const char *const bad[] = {"",    ".",    "-",    "1.2.3", "1e",   "1e+",  "e5",
					  "inf", "nan",  "0x1p3", " 1",   "1 ",   "1,5",  "1e999",
					  "--1", "1-",   "infinity", "1f"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(number_real(bad[i], -1e300, 1e300, &x, "n", NULL), -1);
		assert_true(x == 77);
	}
	static const struct {
		const char *text;
		double value;
	} good[] = {{"1", 1},
		    {"-1.5", -1.5},
		    {".5", .5},
		    {"5.", 5},
		    {"+2", 2},
		    {"1e3", 1000},
		    {"1E-3", 0.001},
		    {"0.1", 0.1},
		    {"123456789012345", 123456789012345.0},
		    {"0.000000000000001", 1e-15},
		    {"3.141592653589793238462643383", 3.141592653589793238462643383},
		    {"9007199254740993", 9007199254740993.0},
		    {"1e-400", 0}};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(number_real(good[i].text, -1e300, 1e300, &x, "n", NULL), 0);
		assert_true(x == good[i].value);
	}
	assert_int_equal(number_real("2", 0, 1, &x, "n", NULL), -1);
	/* The span forms do not look beyond their end. */
	assert_int_equal(number_real_span("12345", 2, &x), 0);
	assert_true(x == 12);
	uint64_t n;
	assert_int_equal(number_u64_span("12x", 2, &n), 0);
	assert_int_equal(n, 12);
}

static void test_bytes(void **state)
{
	(void)state;
	uint64_t x = 0;
	assert_int_equal(number_bytes("3K", 0, UINT64_MAX, &x, "n", NULL), 0);
	assert_int_equal(x, 3072);
	assert_int_equal(number_bytes("2G", 0, UINT64_MAX, &x, "n", NULL), 0);
	assert_true(x == 2ull << 30);
	assert_int_equal(number_bytes("17", 0, 17, &x, "n", NULL), 0);
	static const char *const bad[] = {"", "K", "1k", "1KB", "1.5M", "-1K", "17179869184G"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(number_bytes(bad[i], 0, UINT64_MAX, &x, "n", NULL), -1);
	assert_int_equal(number_bytes("1K", 0, 1000, &x, "n", NULL), -1);
}

static uint64_t state_of_test = 88172645463325252u;

static uint64_t next(void)
{
	state_of_test ^= state_of_test << 13;
	state_of_test ^= state_of_test >> 7;
	state_of_test ^= state_of_test << 17;
	return state_of_test;
}

static void test_format(void **state)
{
	(void)state;
	char text[40];
	double back;
	for (int i = 0; i < 100000; i++) {
		uint64_t bits = next();
		double x;
		memcpy(&x, &bits, sizeof x);
		if (!(x > -1e308 && x < 1e308))
			continue;
		size_t n = number_format_real(x, text);
		assert_true(n < 32 && n == strlen(text));
		assert_int_equal(number_real_span(text, n, &back), 0);
		assert_true(back == x);
	}
	number_format_real(0.1, text);
	assert_string_equal(text, "0.1");
	assert_int_equal(number_format_u64(0, text), 1);
	assert_string_equal(text, "0");
	assert_int_equal(number_format_u64(UINT64_MAX, text), 20);
	assert_string_equal(text, "18446744073709551615");
}

static void test_as_printf(double x)
{
	char text[NUMBER_TEXT_MAX], wanted[NUMBER_TEXT_MAX];
	for (int sign = 0; sign < 2; sign++, x = -x) {
		snprintf(wanted, sizeof wanted, "%.6f", x);
		assert_int_equal(number_format_seconds(x, text), strlen(wanted));
		assert_string_equal(text, wanted);
		snprintf(wanted, sizeof wanted, "%.9g", x);
		assert_int_equal(number_format_brief(x, text), strlen(wanted));
		assert_string_equal(text, wanted);
	}
}

/* Of each size, also in the middle between two texts and beside it. */
static void test_formats(void **state)
{
	static const double some[] = {0, 1, 0.5, 2.5e-6, 1e-3, 9.9999999e-4, 0.0999999999, 0.09999999995, 0.1, 0.999999999,
				      0.9999999995, 9.9999999949, 9.9999999951, 99999999.9, 99999999.95, 99999999.4,
				      1e8, 999999999.999999, 999999999.9999999, 1e9, 1727000000.1234565,
				      1e13, 9999999999999.998, 4503599627370497.5, 9e15, 1e22,
				      1e300, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308};
	uint64_t draw = 1;
	(void)state;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		test_as_printf(some[i]);
	for (int i = 0; i < 200000; i++) {
		draw = draw * 6364136223846793005u + 1442695040888963407u;
		double x = (double)(draw >> 11) * 0x1p-53, size = pow(10, (int)(draw % 20) - 8);
		test_as_printf(x * size);
		test_as_printf(nextafter(x * size, draw % 2 ? 0 : 1e9));
		double middle = (floor(x * 1e6) + 0.5) / 64; /* exact */
		test_as_printf(middle);
		test_as_printf(middle * 0x1p-14);
		test_as_printf(nextafter(middle, 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_format),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
