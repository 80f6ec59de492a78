/* base/option: one table gives parser and help. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/option.h"

#include <stdlib.h>
#include <string.h>

static int flag, seen_size;
static const char *text, *choice, *id;
static uint64_t count, bytes;
static double seconds, real;
static struct option_list list;

static const struct option_row rows[] = {
	{.name = "flag", .letter = 'f', .kind = OPTION_FLAG, .target = &flag, .help = "a flag"},
	{.name = "text", .kind = OPTION_TEXT, .target = &text, .arg = "TEXT", .help = "a text"},
	{.name = "count", .letter = 'n', .kind = OPTION_COUNT, .target = &count, .arg = "N",
	 .help = "a count", .min = 1, .max = 9},
	{.name = "bytes", .kind = OPTION_BYTES, .target = &bytes, .arg = "BYTES", .help = "a size",
	 .seen = &seen_size},
	{.name = "seconds", .kind = OPTION_SECONDS, .target = &seconds, .arg = "S",
	 .help = "a time"},
	{.name = "real", .kind = OPTION_REAL, .target = &real, .arg = "X", .help = "a number",
	 .min = -1, .max = 1},
	{.name = "choice", .kind = OPTION_CHOICE, .target = &choice, .arg = "WORD",
	 .help = "one of", .choices = "one|two|three"},
	{.name = "item", .kind = OPTION_LIST, .target = &list, .arg = "ITEM", .help = "items"},
	{.name = "id", .kind = OPTION_ID, .target = &id, .arg = "ID", .help = "an id"},
	{0}};
static const struct option_table table = {.program = "prog",
					  .synopsis = "-n N\n--flag",
					  .about = "Does things.",
					  .rows = rows,
					  .epilogue = "The end."};

static int forget(void **state)
{
	(void)state;
	flag = seen_size = 0;
	text = choice = id = NULL;
	count = 3;
	bytes = 0;
	seconds = 2.5;
	real = 0;
	list.count = 0;
	return 0;
}

static char shown[8192], *words[32];
static int word_count;

typedef int parser(const struct option_table *, int, char **, int *, FILE *, struct error *);

/* Words of a command line, cut at blanks. */
static int parse_by(parser *how, const char *line, int *first, struct error *err)
{
	static char copy[512];
	char *rest;
	word_count = 0;
	snprintf(copy, sizeof copy, "prog %s", line);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		words[word_count++] = word;
	words[word_count] = NULL;
	memset(shown, 0, sizeof shown);
	FILE *out = fmemopen(shown, sizeof shown - 1, "w");
	int result = how(&table, word_count, words, first, out, err);
	fclose(out);
	return result;
}

static int parse(const char *line, int *first, struct error *err)
{
	return parse_by(option_parse, line, first, err);
}

static void test_kinds(void **state)
{
	(void)state;
	int first;
	struct error err;
	assert_int_equal(parse("-f --text a=b -n 7 --bytes=2K --seconds 0.5 --real -1 --choice two "
			       "--item x --item y --id w-0",
			       &first, &err),
			 OPTION_GO);
	assert_int_equal(flag, 1);
	assert_string_equal(text, "a=b");
	assert_int_equal(count, 7);
	assert_int_equal(bytes, 2048);
	assert_int_equal(seen_size, 1);
	assert_true(seconds == 0.5 && real == -1);
	assert_string_equal(choice, "two");
	assert_int_equal(list.count, 2);
	assert_string_equal(list.item[1], "y");
	assert_string_equal(id, "w-0");
	assert_int_equal(first, word_count);
}

static void test_operands(void **state)
{
	static const struct {
		const char *line, *operands;
	} cases[] = {
		{"a -f -n 7", " a"},
		{"-f a -n 7 b c", " a b c"},
		{"a -n 7 - -f", " a -"},
		{"a -f -n 7 -- b --text", " a b --text"},
		{"a --count=7 b -f --", " a b"},
		{"a -fn7 -- -f b", " a -f b"},
		{"-n 7 -f --", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char found[64] = "";
		int first;
		struct error err = {0};
		forget(state);
		assert_int_equal(parse(cases[i].line, &first, &err), OPTION_GO);
		assert_int_equal(flag, 1);
		assert_int_equal(count, 7);
		for (int at = first; at < word_count; at++)
			snprintf(found + strlen(found), sizeof found - strlen(found), " %s",
				 words[at]);
		assert_string_equal(found, cases[i].operands);
	}
	int first;
	struct error err;
	assert_int_equal(parse("a --nothing", &first, &err), -1);
	assert_string_equal(err.text, "unknown option --nothing");
	assert_int_equal(parse("a -n", &first, &err), -1);
	assert_string_equal(err.text, "option needs a value: -n");
	/* An option's value is none. */
	assert_int_equal(parse("--text -- -f", &first, &err), OPTION_GO);
	assert_string_equal(text, "--");
	assert_int_equal(first, word_count);
}

/* What follows a command is not ours. */
static void test_command(void **state)
{
	(void)state;
	int first;
	assert_int_equal(parse_by(option_parse_command, "-f run -n 7 --help", &first, NULL),
			 OPTION_GO);
	assert_int_equal(first, 2);
	assert_int_equal(count, 3);
	assert_int_equal(parse_by(option_parse_command, "-- run", &first, NULL), OPTION_GO);
	assert_int_equal(first, 2);
	assert_int_equal(parse_by(option_parse_command, "--help run", &first, NULL), OPTION_SHOWN);
}

static void test_end_of_options(void **state)
{
	(void)state;
	int first;
	assert_int_equal(parse("-f -- --text", &first, NULL), OPTION_GO);
	assert_int_equal(first, 3);
	assert_null(text);
	/* Abbreviations that are not ambiguous, as getopt_long has them. */
	assert_int_equal(parse("--cou 4", &first, NULL), OPTION_GO);
	assert_int_equal(count, 4);
}

static void test_mistakes(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{"--sing", "--sing"},        {"-x", "-x"},
		{"-n", "-n"},                {"--text", "--text"},
		{"-n 0", "1..9"},            {"-n 10", "1..9"},
		{"-n x", "'x'"},             {"--real 2", "2"},
		{"--seconds -1", "-1"},      {"--choice four", "one|two|three"},
		{"--choice on", "'on'"},     {"--choice one|two", "'one|two'"},
		{"--id a/b", "'a/b'"},       {"--id ..", "'..'"},
		{"--bytes 1X", "'1X'"},      {"--flag=1", "--flag"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int first;
		struct error err = {0};
		char whole[1200];
		assert_int_equal(parse(bad[i][0], &first, &err), -1);
		assert_int_equal(err.code, ERROR_USAGE);
		error_format(&err, whole, sizeof whole);
		if (!strstr(whole, bad[i][1]))
			fail_msg("'%s' said '%s'", bad[i][0], whole);
	}
}

/* --st LABEL=x was once taken for --state-dir. */
static void test_beginnings(void **state)
{
	(void)state;
	static int set, state_dir;
	static const struct option_row two[] = {
		{.name = "set", .kind = OPTION_FLAG, .target = &set, .help = "a key"},
		{.name = "state-dir", .kind = OPTION_FLAG, .target = &state_dir, .help = "a place"},
		{.name = "fresh", .kind = OPTION_FLAG, .target = &flag, .help = "anew"},
		{0}};
	static const struct option_table small = {"prog", "", "", two, NULL};
	static const struct {
		const char *given, *said; /* NULL: taken */
	} cases[] = {
		{"--st", "--st could be --set, --state-dir: write it in full"},
		{"--s", "--s could be --set, --state-dir: write it in full"},
		{"--stat", NULL},
		{"--set", NULL},
		{"--fre", NULL},
		{"--est", "unknown option --est; the nearest is --set"},
		{"--freshly", "unknown option --freshly; the nearest is --fresh"},
		{"--colour", "unknown option --colour"},
		{"--hel=1", "option takes no value: --hel=1"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char given[32];
		char *argv[] = {(char *)(size_t)"prog", given, NULL};
		int first;
		struct error err = {0};
		snprintf(given, sizeof given, "%s", cases[i].given);
		int result = option_parse(&small, 2, argv, &first, stdout, &err);
		assert_int_equal(result, cases[i].said ? -1 : OPTION_GO);
		assert_string_equal(err.text, cases[i].said ? cases[i].said : "");
	}
	assert_int_equal(set, 1);
	assert_int_equal(state_dir, 1);
}

static void test_help(void **state)
{
	(void)state;
	int first;
	/* Defaults are shown, whatever stands before --help. */
	assert_int_equal(parse("-n 7 --help", &first, NULL), OPTION_SHOWN);
	assert_non_null(strstr(shown, "usage: prog -n N\n       prog --flag\n"));
	for (const struct option_row *row = rows; row->name; row++) {
		char name[64];
		snprintf(name, sizeof name, "--%s", row->name);
		assert_non_null(strstr(shown, name));
		assert_non_null(strstr(shown, row->help));
	}
	assert_non_null(strstr(shown, "(2.5 s)"));
	assert_non_null(strstr(shown, "one|two|three"));
	assert_non_null(strstr(shown, "The end."));
	assert_int_equal(parse("--version", &first, NULL), OPTION_SHOWN);
	assert_memory_equal(shown, "prog ", 5);
	assert_int_equal(parse("file --help", &first, NULL), OPTION_SHOWN);
	/* Behind -- it is not ours. */
	assert_int_equal(parse("-- --help", &first, NULL), OPTION_GO);
}

static void test_ids(void **state)
{
	(void)state;
	char longest[66];
	memset(longest, 'a', sizeof longest);
	longest[64] = '\0';
	assert_true(option_id_ok(longest));
	longest[64] = 'a';
	longest[65] = '\0';
	assert_false(option_id_ok(longest));
	assert_true(option_id_ok("w0") && option_id_ok("a.b_c-D9") && option_id_ok("..."));
	assert_false(option_id_ok("") || option_id_ok(".") || option_id_ok("..") ||
		     option_id_ok("a b") || option_id_ok("a/b") || option_id_ok("\xc3\xa4"));
}

#define T(name) cmocka_unit_test_setup(name, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_kinds), T(test_operands), T(test_command), T(test_end_of_options), T(test_mistakes), T(test_beginnings),
		T(test_help), T(test_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
