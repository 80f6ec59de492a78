/* data_missing: values that mean that there is none, from the option to the numbers. */
#include "data/dataset.h"
#include "data/schema.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct error err;

static struct schema *schema_of(const char *missing)
{
	struct schema *s;
	const struct schema_options o = {.format = "csv", .label = "y", .dense = "n", .sparse = "w",
					 .dense_scale = "none", .missing = missing};
	if (schema_new(&s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return s;
}

static void refused(const char *format, const char *missing, const char *text)
{
	struct schema *s;
	const struct schema_options o = {.format = format, .label = format[0] == 'c' ? "y" : NULL,
					 .dense = format[0] == 'c' ? "n" : NULL, .missing = missing};
	assert_int_equal(schema_new(&s, &o, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.place, "MISSING");
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_options(void **state)
{
	char many[400] = "0";
	(void)state;
	struct schema *s = schema_of("NA,a%2Cb");
	assert_int_equal(s->missing_count, 2);
	assert_string_equal(s->missing_word[1].text, "a,b");
	schema_free(s);
	refused("csv", "NA,", "empty name");
	refused("csv", "%zz", "hexadecimal");
	refused("libsvm", "NA", "FORMAT=libsvm");
	for (int i = 0; i < SCHEMA_MISSING_MAX; i++)
		snprintf(many + strlen(many), 13, ",%d", i);
	refused("csv", many, "more than 32 values");
}

static void test_file(void **state)
{
	char path[128];
	(void)state;
	struct schema *s = schema_of("NA,a%2Cb"), *back, *other = schema_of("NA"), *none = schema_of(NULL);
	snprintf(path, sizeof path, "%s/schema", scratch);
	assert_int_equal(schema_write(s, path, &err), 0);
	assert_int_equal(schema_read(&back, path, &err), 0);
	assert_int_equal(schema_equal(s, back, NULL), 1);
	assert_string_equal(back->missing_word[1].text, "a,b");
	assert_int_equal(schema_equal(s, other, &err), 0);
	assert_non_null(strstr(err.text, "missing is 'NA,a%2Cb' in one and 'NA' in the other"));
	assert_int_equal(schema_equal(none, other, NULL), 0);
	schema_free(s);
	schema_free(back);
	schema_free(other);
	schema_free(none);
}

static void test_rows(void **state)
{
	char path[128];
	(void)state;
	snprintf(path, sizeof path, "%s/d.csv", scratch);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	/* The label is no such column. A part of a spelling, or more than one, is a value. */
	fputs("y,n,w\n?,NA,?\n1,3,NA\n?,\"NA\",N\n0,,NAN\n", out);
	assert_int_equal(fclose(out), 0);
	struct schema_options o = {.format = "csv", .label = "y", .dense = "n", .sparse = "w",
				   .dense_scale = "none", .missing = "NA,?", .positive = "?"};
	struct schema *s;
	struct dataset *ds;
	struct rows rows = {0};
	assert_int_equal(schema_new(&s, &o, &err), 0);
	const char *const paths[] = {path};
	const struct dataset_options options = {.paths = paths, .path_count = 1};
	assert_int_equal(dataset_open(&ds, s, &options, &err), 0);
	if (dataset_read(ds, 0, 4, &rows, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	static const float label[] = {1, 0, 1, 0}, dense[] = {0, 3, 0, 0};
	static const char *const word[] = {"", "", "N", "NAN"};
	for (size_t i = 0; i < 4; i++) {
		assert_true(rows.label[i] == label[i]);
		assert_true(rows.dense[i] == dense[i]);
		assert_int_equal(rows.key[i], schema_key(s, &s->sparse[0], word[i], strlen(word[i])));
	}
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test_setup_teardown(test_file, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_rows, scratch_make, scratch_remove),
	};
	return cmocka_run_group_tests_name("data_missing", tests, NULL, NULL);
}
