/* survey_survey: what a file looks like, which column is the label, and the job file that follows. */
#include "job/jobtext.h"
#include "survey/plan.h"
#include "survey/survey.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char path[128];
static struct survey s;
static struct error err;

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/data", scratch);
	return 0;
}

static void write_bytes(const char *text, size_t len)
{
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
}

static void looks(const char *text)
{
	write_bytes(text, strlen(text));
	if (survey_file(&s, path, SURVEY_BYTES, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
}

static void refused(const char *text, size_t len, const char *why)
{
	write_bytes(text, len);
	memset(&err, 0, sizeof err);
	assert_int_equal(survey_file(&s, path, SURVEY_BYTES, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	if (!strstr(err.text, why))
		fail_msg("'%s' is not in '%s'", why, err.text);
}

static void columns(const char *names)
{
	char all[256] = "";
	for (size_t i = 0; i < s.count; i++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "[%s]", s.column[i].name);
	assert_string_equal(all, names);
	survey_free(&s);
}

static void test_syntax(void **state)
{
	(void)state;
	looks("a,b,y\n1,2,0\n3,4,1\n");
	assert_int_equal(s.syntax.separator, ',');
	assert_int_equal(s.rows, 2);
	assert_int_equal(s.whole, 1);
	columns("[a][b][y]");
	/* Commas inside of values, semicolons between them. */
	looks("a;b;y\n1,5;2;0\n3;4,25;1\n");
	assert_int_equal(s.syntax.separator, ';');
	columns("[a][b][y]");
	looks("a\tb c\ty\r\n1\t2\t0\r\n");
	assert_int_equal(s.syntax.separator, '\t');
	columns("[a][b c][y]");
	looks("a|b|y\n1|2|0\n");
	assert_int_equal(s.syntax.separator, '|');
	columns("[a][b][y]");
	looks("\xef\xbb\xbf\"first, name\",\"\"\"b\"\"\",y\n1,\"2\n3\",0\n");
	assert_int_equal(s.rows, 1);
	columns("[first, name][\"b\"][y]");
	/* What pandas writes where columns have no names. */
	looks("0,1,2\n5,6,7\n8,9,10\n");
	columns("[0][1][2]");
	looks(",a,y\n0,5,1\n");
	columns("[][a][y]");
	looks("-1 3:1 10:0.5\n+1 4:1\n");
	assert_int_equal(s.syntax.format, ROW_LIBSVM);
	assert_true(s.features > 1.4 && s.features < 1.6);
	columns("[label]");
}

static void test_refused(void **state)
{
	(void)state;
#define REFUSED(text, why) refused(text, sizeof text - 1, why)
	REFUSED("", "is empty");
	REFUSED("a,b\n\0,1\n", "byte 4 is 0");
	REFUSED("PAR1\x15\0\0", "Parquet");
	REFUSED("PK\3\4abc", "zip archive");
	REFUSED("\xfd" "7zXZ\0\0", "xzcat");
	REFUSED("\xff\xfe" "a\0,\0", "iconv");
	REFUSED("{\"a\": 1}\n", "JSON");
	REFUSED("a,b\r1,2\r", "carriage returns");
	REFUSED("\n \r\n\n", "begins with 5 bytes of blank lines");
	REFUSED("\177ELF\2\1\1\0\r", "is no text: byte 7 is 0");
	REFUSED("a,b,y\n", "no row behind it");
	REFUSED("just words\nin lines\n", "one column only");
	REFUSED("2 words:1 in:1\n0\n", "one column only"); /* no documents: words are numbers */
	REFUSED("a b c\n1 2 3\n", "tr -s");
	REFUSED("39,State-gov,0\n50,Private,1\n", "not the names of the 3 columns");
	REFUSED("39\tState-gov\t0\n50\tPrivate\t1\n", "seq -s \"$(printf '\\t')\" -f c%g 3");
	REFUSED("red,big,red,big\nred,big,red,big\n", "not the names");
	REFUSED("a,b\n1,2\n3,4\n1,2,3\n", "1 of 3 rows do not have the 2 columns of");
	assert_non_null(strstr(err.text, "line 4, with 3"));
}

static void test_ragged(void **state)
{
	char text[400] = "a,b\n";
	(void)state;
	for (int i = 0; i < 30; i++)
		strcat(text, i == 7 ? "1\n" : "1,2\n");
	looks(text);
	assert_int_equal(s.ragged, 1);
	assert_int_equal(s.ragged_line, 9);
	assert_int_equal(s.column[0].rows, 29);
	survey_free(&s);
}

static void test_part(void **state)
{
	char *text = malloc(200000), *p = text;
	(void)state;
	p = stpcpy(p, "a,y\n");
	for (int i = 0; i < 20000; i++)
		p = stpcpy(p, "12345,0\n");
	write_bytes(text, (size_t)(p - text));
	free(text);
	assert_int_equal(survey_file(&s, path, 8004, &err), 0);
	assert_int_equal(s.whole, 0);
	assert_int_equal(s.rows, 1000);
	/* Reading is ahead of what is looked at. */
	assert_true(s.rows_about >= 100 && s.rows_about <= 20000);
	survey_free(&s);
}

static void test_label(void **state)
{
	struct survey_label label[SURVEY_LABELS_MAX];
	(void)state;
	looks("sex,town,age,class\nm,a,1,x\nf,b,2,x\nm,c,3,y\nf,d,4,x\n");
	/* All but none has few values here; what is called class comes first. */
	assert_int_equal(survey_labels(&s, label), 2);
	assert_int_equal(label[0].column, 3);
	assert_int_equal(label[1].column, 0);
	assert_string_equal(s.column[3].value[survey_positive(&s.column[3])].text, "y");
	survey_free(&s);
	looks("clicked,a\nyes,1\nyes,1\nno,1\n");
	assert_int_equal(survey_labels(&s, label), 1);
	/* Known words, though yes is not rarer. */
	assert_string_equal(s.column[0].value[survey_positive(&s.column[0])].text, "yes");
	assert_int_equal(survey_positive(&s.column[1]), -1);
	assert_int_equal(survey_column(&s, "f", "a", &err), 1);
	assert_int_equal(survey_column(&s, "f", "clickd", &err), SIZE_MAX);
	assert_non_null(strstr(err.text, "the nearest is 'clicked'"));
	survey_free(&s);
	char text[3000] = "a,y\n";
	for (int i = 0; i < 200; i++)
		strcat(text, i < 100 ? "5,0\n" : "6,1\n");
	looks(text);
	assert_int_equal(survey_sorted(&s.column[1]), 1);
	survey_free(&s);
	looks("a,a,y\n1,2,0\n");
	assert_int_equal(s.column[0].twin && s.column[1].twin, 1);
	assert_int_equal(s.column[2].twin, 0);
	survey_free(&s);
}

static void test_tells(void **state)
{
	(void)state;
	char text[4000] = "same,near,low,few,id,y\n";
	for (int i = 0; i < 60; i++)
		snprintf(text + strlen(text), 60, "%s,%s,%d,%s,k%d,%d\n", i % 3 ? i % 2 ? "a" : "b" : "c",
			 i % 3 || i == 6 ? "a" : "c", i % 3 ? i : i + 100, i % 3 ? "" : "c", i, i % 3 == 0);
	looks(text);
	assert_int_equal(survey_tells(&s, path, 5, NULL, &err), 0);
	assert_int_equal(s.column[0].tells, 1);
	assert_int_equal(s.column[1].tells, 0); /* but for one row */
	assert_int_equal(s.column[2].tells, 1); /* numbers of the one lie below */
	assert_int_equal(s.column[3].tells, 0); /* mostly missing */
	assert_int_equal(s.column[4].tells, 0); /* it names the row */
	assert_int_equal(s.column[5].tells, 0); /* the label */
	struct column_verdict v;
	column_judge(&s.column[0], &v);
	assert_non_null(strstr(v.why, "TELLS THE LABEL"));
	survey_free(&s);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{"adult-train.csv.gz", "adult-test.csv"}, {"adult.csv", "adult_test.csv.gz"},
		{"train.csv", "test.csv"},                {"Train_A.csv", "valid_A.csv"},
		{"x.train.svm", "x.test.svm"}};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (!survey_is_test(pairs[i][0], pairs[i][1]))
			fail_msg("%s is no test of %s", pairs[i][1], pairs[i][0]);
	assert_false(survey_is_test("adult-train.csv", "other-test.csv"));
	assert_false(survey_is_test("adult-train.csv", "adult-train.csv"));
	assert_false(survey_is_test("adult.csv", "adult.csv.gz"));
	assert_false(survey_is_test("greatest.csv", "greatest.tsv"));
	static const char *const jobs[][2] = {{"adult-train.csv.gz", "adult"},
					      {"train.csv", "train"},
					      {"my data.csv", "my-data"},
					      {"criteo-sample.tsv", "criteo-sample"},
					      {"\xc3\xa4.csv", "--"}};
	char name[80];
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
		survey_job_name(jobs[i][0], name);
		assert_string_equal(name, jobs[i][1]);
	}
}

static struct jobfile f;

static void plan(const struct plan_choices *c)
{
	if (plan_make(&f, &s, c, NULL, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
}

static int count_keys(const char *key, const char *value, size_t line, void *arg, struct error *e)
{
	(void)key, (void)value, (void)line, (void)e;
	++*(int *)arg;
	return 0;
}

static void test_plan(void **state)
{
	(void)state;
	char text[20000] = "id,\"a,b\",n,empty,y\n";
	for (int i = 0; i < 400; i++)
		snprintf(text + strlen(text), 60, "%d,%s,%s,,%s\n", i, i % 2 ? "x" : "z",
			 i % 7 ? i % 3 ? "1.5" : "2.25" : i % 2 ? "NA" : "?", i % 5 ? "bad" : "good");
	looks(text);
	/* Two different numbers are categories, whatever they are. */
	plan(&(struct plan_choices){.file = "x.env", .job = "x", .data = "x.csv", .shown = "x.csv",
				    .label = 4, .positive = "good", .negative = "bad"});
	assert_string_equal(jobfile_get(&f, "JOB"), "x");
	assert_string_equal(jobfile_get(&f, "FORMAT"), "csv");
	assert_string_equal(jobfile_get(&f, "LABEL"), "y");
	assert_string_equal(jobfile_get(&f, "POSITIVE"), "good");
	assert_string_equal(jobfile_get(&f, "NEGATIVE"), "bad");
	assert_string_equal(jobfile_get(&f, "SPARSE"), "a%2Cb,n");
	assert_null(jobfile_get(&f, "DENSE"));
	assert_null(jobfile_get(&f, "BAD_ROWS"));
	assert_string_equal(jobfile_get(&f, "BATCH"), "16,shard:3");
	char *out;
	size_t len;
	assert_int_equal(jobfile_set(&f, "INIT", "it's", "two\nlines\n", &err), 0);
	assert_int_equal(jobfile_set(&f, "BATCH", "8", "", &err), 0);
	assert_int_equal(jobfile_text(&f, &out, &len, &err), 0);
	assert_non_null(strstr(out, "# left out:\n#   id "));
	assert_non_null(strstr(out, "always missing; 400 missing (empty)"));
	assert_non_null(strstr(out, "\n# two\n# lines\nINIT=\"it's\"\n"));
	assert_non_null(strstr(out, "\n\n# ---- Nodes\n"));
	assert_non_null(strstr(out, "\n#CHECKPOINT=60,keep:3\n"));
	int keys = 0;
	assert_int_equal(jobtext_parse("x.env", out, len, count_keys, &keys, &err), 0);
	assert_int_equal(keys, f.count);
	free(out);
	jobfile_free(&f);
	survey_free(&s);
}

static void test_every_key(void **state)
{
	(void)state;
	char *out;
	size_t len;
	int keys = 0;
	assert_int_equal(jobfile_keys(&out, &len, &err), 0);
	assert_non_null(strstr(out, "\n#OPTIMIZER=adagrad,lr:auto,l2:0,schedule:constant,beta:0,factor:auto,warmup:0,decay:0,clip:never\n#   name        how gradients"));
	assert_non_null(strstr(out, "\n#MONITOR=report:10,short:300,long:600\n"));
	assert_non_null(strstr(out, "\n#HUNG=auto\n"));
	assert_int_equal(jobtext_parse("x.env", out, len, count_keys, &keys, &err), 0);
	assert_int_equal(keys, 0);
	free(out);
}

static void test_plan_bad_rows(void **state)
{
	(void)state;
	char text[20000] = "n;y\n";
	for (int i = 0; i < 400; i++) {
		char number[16];
		snprintf(number, sizeof number, i % 7 ? "%d.5" : i % 2 ? "NA" : "?", i % 90);
		snprintf(text + strlen(text), 60, "%s;%s\n", number, i % 20 ? i % 5 ? "0" : "1" : "");
	}
	looks(text);
	plan(&(struct plan_choices){.file = "x.env", .job = "x", .data = "x.csv", .shown = "x.csv",
				    .test = "t.csv", .test_why = "because\n", .label = 1});
	assert_string_equal(jobfile_get(&f, "FORMAT"), "csv,separator:;");
	assert_string_equal(jobfile_get(&f, "DENSE"), "n");
	assert_string_equal(jobfile_get(&f, "MISSING"), "NA,?");
	assert_string_equal(jobfile_get(&f, "BAD_ROWS"), "skip:40");
	assert_string_equal(jobfile_get(&f, "TEST"), "t.csv");
	assert_null(jobfile_get(&f, "POSITIVE"));
	jobfile_free(&f);
	survey_free(&s);
}

static void test_plan_nothing(void **state)
{
	(void)state;
	looks("a,y\n5,0\n5,1\n");
	assert_int_equal(plan_make(&f, &s,
				   &(struct plan_choices){.file = "x.env", .job = "x", .data = "x.csv",
							  .shown = "x.csv", .label = 1},
				   NULL, &err),
			 -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "no column besides the label"));
	jobfile_free(&f);
	survey_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_syntax, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_refused, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_ragged, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_part, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_label, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_tells, set_up, scratch_remove),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_plan, set_up, scratch_remove),
		cmocka_unit_test(test_every_key),
		cmocka_unit_test_setup_teardown(test_plan_bad_rows, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_plan_nothing, set_up, scratch_remove),
	};
	return cmocka_run_group_tests_name("survey_survey", tests, NULL, NULL);
}
