/* survey_column: what values look like, and what a column of them is good for. */
#include "survey/column.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct column c;
static struct column_verdict v;

static void begin(const char *name)
{
	assert_int_equal(column_open(&c, name, strlen(name), NULL), 0);
}

static void add(const char *text)
{
	assert_int_equal(column_add(&c, text, strlen(text), c.rows + 2, NULL), 0);
}

static void judged(enum column_use use, const char *why)
{
	column_close(&c);
	column_judge(&c, &v);
	if (v.use != use || !strstr(v.why, why))
		fail_msg("%s is %d, %s", c.name, v.use, v.why);
	column_free(&c);
}

/* A column of count values by a format of one whole number. */
static void fill(const char *name, const char *format, int count, int different)
{
	char text[64];
	begin(name);
	for (int i = 0; i < count; i++) {
		/* In no order. */
		snprintf(text, sizeof text, format, i * 37 % count % different);
		add(text);
	}
}

static enum value_kind kind_of(const char *text)
{
	struct value value;
	value_look(text, strlen(text), &value);
	return value.kind;
}

static void test_values(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum value_kind kind;
	} table[] = {
		{"", VALUE_MISSING},     {"?", VALUE_MISSING},      {"NA", VALUE_MISSING},
		{"NaN", VALUE_MISSING},  {"\\N", VALUE_MISSING},      {"-", VALUE_MISSING},
		{"5", VALUE_NUMBER},     {"-1.5e3", VALUE_NUMBER},  {"007", VALUE_NUMBER},
		{"20240229", VALUE_NUMBER}, {"1,5", VALUE_COMMA},     {"1.234,56", VALUE_COMMA},
		{"12,", VALUE_WORD},     {"2024-02-29", VALUE_DATE},  {"29.2.2024", VALUE_DATE},
		{"2/29/24", VALUE_DATE}, {"2024-02-29T13:05:01Z", VALUE_DATE},
		{"2024-02-29 13:05", VALUE_DATE}, {"13:05:01.25", VALUE_DATE},
		{"2024-13-01", VALUE_WORD}, {"1.2.3.4", VALUE_WORD}, {"1-2-3", VALUE_WORD},
		{"12:75", VALUE_WORD},   {"Nein", VALUE_WORD},        {"25%", VALUE_PERCENT}, {"2.5 %", VALUE_PERCENT}, {"%", VALUE_WORD},
		{"0x10", VALUE_WORD}, {" 5", VALUE_WORD}, {" ?", VALUE_WORD},    {"inf", VALUE_WORD},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (kind_of(table[i].text) != table[i].kind)
			fail_msg("'%s' is %d", table[i].text, kind_of(table[i].text));
	struct value day;
	value_look("20240229", 8, &day);
	assert_int_equal(day.day, 1);
	value_look("20241301", 8, &day);
	assert_int_equal(day.day, 0);
	assert_int_equal(value_yes("Yes", "no"), 1);
	assert_int_equal(value_yes("0", "1"), -1);
	assert_int_equal(value_yes("1.0", "0.0"), 1);
	assert_int_equal(value_yes("-1", "+1"), -1);
	assert_int_equal(value_yes("1", "2"), 0);
	assert_int_equal(value_yes("red", "blue"), 0);
}

static void test_numbers(void **state)
{
	(void)state;
	fill("price", "%d.25", 100, 80);
	judged(COLUMN_DENSE, "80 different numbers, 0.25 to 79.25");
	fill("income", "%d", 100, 90);
	judged(COLUMN_DENSE, "90 different numbers");
	/* Few whole numbers are categories, unless there are few rows of each. */
	fill("stars", "%d", 100, 5);
	judged(COLUMN_SPARSE, "5 values: 0 20 %");
	fill("stars", "%d", 12, 6);
	judged(COLUMN_DENSE, "6 different");
	fill("flag", "%d", 8, 2);
	judged(COLUMN_SPARSE, "2 values");
	/* Numbers that are names. */
	fill("shop_id", "%d", 100, 40);
	judged(COLUMN_SPARSE, "a code by its name");
	fill("customerID", "%d", 100, 100);
	judged(COLUMN_OUT, "different in every row");
	fill("shop_id", "%d9", 10, 10);
	judged(COLUMN_OUT, "it names the row");
	fill("shop_id", "a%d", 10, 10);
	judged(COLUMN_OUT, "it names the row");
	fill("n", "0%d", 100, 40);
	judged(COLUMN_SPARSE, "leading zeros");
	fill("anything", "%d", 100, 100);
	judged(COLUMN_OUT, "they name the row");
	/* Every number different, but neither counted nor in order. */
	fill("weight", "1%d7", 100, 100);
	judged(COLUMN_DENSE, "100 different");
}

static void test_missing(void **state)
{
	(void)state;
	begin("age");
	for (int i = 0; i < 60; i++)
		add(i % 3 == 0 ? "NA" : i % 3 == 1 ? "" : i % 2 ? "1.5" : i % 4 ? "2.5" : "7.25");
	judged(COLUMN_DENSE, "3 different numbers, 1.5 to 7.25; 40 missing (empty, NA)");
	fill("gone", "", 10, 10);
	judged(COLUMN_OUT, "always missing; 10 missing (empty)");
	fill("same", "x", 10, 10);
	judged(COLUMN_OUT, "always the same");
	begin("sometimes");
	add("x");
	add("");
	judged(COLUMN_SPARSE, "1 value: x 50 %; 1 missing (empty)");
	begin("country");
	for (int i = 0; i < 100; i++)
		add(i % 2 ? "NA" : i % 4 ? "DE" : "FR");
	judged(COLUMN_SPARSE, "2 values: FR 25 %, DE 25 %; 50 missing (NA)");
}

static void test_words(void **state)
{
	(void)state;
	fill("town", "town%d", 100, 60);
	judged(COLUMN_SPARSE, "60 values");
	fill("name", "name%d", 100, 100);
	judged(COLUMN_OUT, "different in nearly every row");
	fill("name", "name%d", 10, 10);
	judged(COLUMN_SPARSE, "10 values");
	fill("comment", "this is what user %d wrote", 100, 80);
	judged(COLUMN_OUT, "free text, 6 words");
	fill("when", "2024-01-%02d", 30, 30); /* one of them is no day */
	judged(COLUMN_OUT, "dates, like 2024-01-");
	fill("day", "201001%02d", 28, 28);
	judged(COLUMN_OUT, "date");
	begin("timestamp");
	add("1700000000");
	add("1700000555");
	judged(COLUMN_OUT, "counted from 1970");
	fill("", "%d.5", 100, 80);
	judged(COLUMN_OUT, "no name");
}

static void test_mixed(void **state)
{
	(void)state;
	begin("price");
	for (int i = 0; i < 100; i++) {
		char text[32];
		snprintf(text, sizeof text, i == 40 ? "sold out" : "%d.5", i);
		add(text);
	}
	judged(COLUMN_OUT, "'sold out' in line 42");
	fill("price", "%d,50", 100, 90);
	judged(COLUMN_OUT, "numbers with a comma ('0,50' in line 2)");
	/* Codes that are mostly digits. */
	fill("icd_code", "%dA", 100, 40);
	judged(COLUMN_SPARSE, "40 values");
}

static void test_classes(void **state)
{
	(void)state;
	size_t index[4];
	begin("y");
	add("?");
	add("b");
	add("a");
	add("b");
	column_close(&c);
	assert_int_equal(column_classes(&c, index, 4), 2);
	assert_string_equal(c.value[index[0]].text, "b");
	assert_int_equal(c.value[index[0]].count, 2);
	assert_int_equal(c.value[index[0]].line, 3);
	assert_int_equal(column_classes(&c, index, 1), 0);
	column_free(&c);
	/* A sign that usually means nothing is half of a label. */
	begin("y");
	add("+");
	add("-");
	column_close(&c);
	assert_int_equal(column_classes(&c, index, 4), 2);
	column_free(&c);
	fill("many", "%d", 100, 33);
	column_close(&c);
	assert_int_equal(c.distinct, 33);
	assert_int_equal(column_classes(&c, index, 4), 0);
	column_free(&c);
	char number[COLUMN_COUNT_MAX];
	assert_string_equal(column_count(999, number), "999");
	assert_string_equal(column_count(24130, number), "24,130");
	assert_string_equal(column_count(1000000, number), "1,000,000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),  cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_missing), cmocka_unit_test(test_words),
		cmocka_unit_test(test_mixed),   cmocka_unit_test(test_classes),
	};
	return cmocka_run_group_tests_name("survey_column", tests, NULL, NULL);
}
