/*
 * data_dataset: rows to numbers.  Small literal files with what must come out of them; bad rows with
 * their places; several files as one; the same rows by stream.
 */
#include "base/fs.h"
#include "data/dataset.h"
#include "data/rowfile.h"

#include "scratch.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include <cmocka.h>

static char path[2][128];

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path[0], sizeof path[0], "%s/a", scratch);
	snprintf(path[1], sizeof path[1], "%s/b", scratch);
	return 0;
}

static void write_text(int file, const char *text)
{
	FILE *f = fopen(path[file], "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	fclose(f);
}

static struct schema *make(struct schema_options o)
{
	struct schema *s;
	struct error err = {0};
	if (schema_new(&s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return s;
}

static struct dataset *open_files(const struct schema *s, size_t files, uint64_t bad_rows_max)
{
	const char *paths[] = {path[0], path[1]};
	struct dataset_options o = {.paths = paths, .path_count = files, .bad_rows_max = bad_rows_max};
	struct dataset *ds;
	struct error err = {0};
	if (dataset_open(&ds, s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return ds;
}

static void open_fails(const struct schema *s, int code, const char *place, const char *text)
{
	const char *paths[] = {path[0]};
	struct dataset_options o = {.paths = paths, .path_count = 1};
	struct dataset *ds;
	struct error err = {0};
	char want[256];
	snprintf(want, sizeof want, "%s%s", path[0], place);
	assert_int_equal(dataset_open(&ds, s, &o, &err), -1);
	assert_int_equal(err.code, code);
	assert_string_equal(err.place, want);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
}

/* Reads all; the error's place and text without the directory. */
static void read_fails(const struct schema *s, const char *place, const char *text)
{
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err = {0};
	char want[256];
	snprintf(want, sizeof want, "%s%s", path[0], place);
	assert_int_equal(dataset_read(ds, 0, dataset_rows(ds), &rows, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_string_equal(err.place, want);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
	rows_free(&rows);
	dataset_close(ds);
}

static void near(float a, double b)
{
	if (fabs((double)a - b) > 1e-5)
		fail_msg("%g is not %g", (double)a, b);
}

static void test_csv(void **state)
{
	(void)state;
	write_text(0, "\xef\xbb\xbf" "city, age ,\"in,come\",w,y\r\n"
		      "Rome,9,-3,0.5,yes\r\n"
		      "\r\n"
		      "\" Rome\",\"\",1e2,2,no\r\n"
		      ",0,,1,yes");
	struct schema *s = make((struct schema_options){.format = "csv",
							.label = "y",
							.positive = "yes",
							.weight = "w",
							.dense = "in%2Ccome,age",
							.sparse = "city,y",
							.dense_scale = "log-z"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_rows(ds), 3);
	assert_int_equal(dataset_read(ds, 0, 3, &rows, &err), 0);
	assert_int_equal(rows.count, 3);
	assert_int_equal(rows.fields, 2);
	assert_int_equal(rows.dense_columns, 2);
	assert_null(rows.value);
	const float dense[] = {-logf(4), logf(10), logf(101), 0, 0, 0};
	const float label[] = {1, 0, 1}, weight[] = {0.5f, 2, 1};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(rows.row[i], i);
		near(rows.label[i], (double)label[i]);
		near(rows.weight[i], (double)weight[i]);
		assert_int_equal(rows.offset[i + 1], 2 * (i + 1));
	}
	for (size_t i = 0; i < 6; i++)
		near(rows.dense[i], (double)dense[i]);
	assert_int_equal(rows.key[0], schema_key(s, &s->sparse[0], "Rome", 4));
	assert_int_equal(rows.key[2], schema_key(s, &s->sparse[0], " Rome", 5));
	assert_int_equal(rows.key[4], schema_key(s, &s->sparse[0], "", 0));
	assert_int_equal(rows.key[1], schema_key(s, &s->sparse[1], "yes", 3));
	/* Fitted: mean 0, deviation 1 over what is there; what is missing stays 0. */
	assert_int_equal(schema_fit(s, ds, &err), 0);
	near((float)s->dense[0].mean, (-log(4) + log(101)) / 2);
	near((float)s->dense[1].deviation, log(10) / 2);
	assert_int_equal(dataset_read(ds, 0, 3, &rows, &err), 0);
	near(rows.dense[0], -1);
	near(rows.dense[2], 1);
	near(rows.dense[4], 0);
	near(rows.dense[3], 0);
	near(rows.dense[5], -1);
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

/* The same rows between commas, tabs and semicolons become the same numbers. */
static void test_separators(void **state)
{
	(void)state;
	static const char *const text[] = {
		"y,a,c\n1,2,\"x,y\"\n0,,z\n",
		"y\ta\tc\n1\t2\tx,y\n0\t\tz\n",
		"\xef\xbb\xbf\"y\";\"a\";c\r\n1;2; \"x,y\"\r\n0;;z",
		"y a c\n1 2 x,y\n0  z\n"};
	static const char *const separator[] = {NULL, "tab", ";", " "};
	for (size_t i = 0; i < 4; i++) {
		struct rows rows = {0};
		struct error err;
		write_text(0, text[i]);
		struct schema *s = make((struct schema_options){.format = "csv",
								.separator = separator[i],
								.label = "y",
								.dense = "a",
								.sparse = "c",
								.dense_scale = "none"});
		struct dataset *ds = open_files(s, 1, 0);
		assert_int_equal(dataset_rows(ds), 2);
		assert_int_equal(dataset_read(ds, 0, 2, &rows, &err), 0);
		assert_int_equal(rows.count, 2);
		near(rows.label[0], 1);
		near(rows.dense[0], 2);
		near(rows.dense[1], 0);
		assert_int_equal(rows.key[0], schema_key(s, &s->sparse[0], "x,y", 3));
		assert_int_equal(rows.key[1], schema_key(s, &s->sparse[0], "z", 1));
		rows_free(&rows);
		dataset_close(ds);
		schema_free(s);
	}
}

static void test_wrong_separator_is_guessed(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a"}),
		      *tsv = make((struct schema_options){.format = "tsv", .label = "y", .dense = "a"}),
		      *criteo = make((struct schema_options){.format = "criteo"});
	write_text(0, "y;a;c\n1;2;x\n");
	open_fails(s, ERROR_DATA, ":1",
		   "no column 'y': the header has 1 column; did you mean FORMAT='csv,separator:;'?");
	write_text(0, "y\ta, kg\tc\n1\t2\tx\n");
	open_fails(s, ERROR_DATA, ":1", "the header has 2 columns; did you mean FORMAT=tsv?");
	write_text(0, "y,a\n1,2\n");
	open_fails(tsv, ERROR_DATA, ":1", "did you mean FORMAT=csv?");
	write_text(0, "1,2\n0,3\n");
	open_fails(s, ERROR_DATA, ":1", "the first line holds numbers");
	write_text(0, "0" "\t1\t\t\t\t\t\t\t\t\t\t\t\t\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp"
		      "\tq\tr\ts\tt\tu\tv\tw\tx\tz\n");
	open_fails(tsv, ERROR_DATA, ":1", "the first line looks like a row of FORMAT=criteo");
	write_text(0, "y,a\n0,\"2,5\"\n");
	read_fails(s, ":2:3", "a: '2,5' is not a number: write a point instead of the comma");
	write_text(0, "y\ta\n1\t2\n");
	read_fails(criteo, ":1:4", "2 fields instead of");
	read_fails(criteo, ":1:4", "if this is a header, say FORMAT=tsv and LABEL=");
	schema_free(s);
	schema_free(tsv);
	schema_free(criteo);
}

static void test_scales(void **state)
{
	(void)state;
	write_text(0, "y,a,b,c\n0,5,7,\n1,9,7,\n");
	const char *scales[] = {"z", "none", "log-z"};
	const double want[] = {-1, 5, -1};
	for (size_t i = 0; i < 3; i++) {
		struct schema *s = make((struct schema_options){
			.format = "csv", .label = "y", .dense = "a,b,c", .dense_scale = scales[i]});
		struct dataset *ds = open_files(s, 1, 0);
		struct rows rows = {0};
		struct error err;
		assert_int_equal(schema_needs_fit(s), i != 1);
		assert_int_equal(schema_fit(s, ds, &err), 0);
		assert_false(schema_needs_fit(s));
		assert_true(s->dense[1].deviation == 1); /* constant */
		assert_true(s->dense[2].deviation == 1 && s->dense[2].mean == 0); /* no values */
		assert_int_equal(dataset_read(ds, 0, 1, &rows, &err), 0);
		near(rows.dense[0], want[i]);
		near(rows.dense[1], i == 1 ? 7 : 0);
		near(rows.dense[2], 0);
		rows_free(&rows);
		dataset_close(ds);
		schema_free(s);
	}
}

#define CATEGORIES(last3) \
	"a\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\t12345678" last3

static void test_criteo(void **state)
{
	(void)state;
	write_text(0, "1\t0\t-1\t1023\t1024\t\t123456789\t7\t8\t9\t10\t11\t12\t13\t" CATEGORIES(
			      "\tx\ty\tz") "\n"
		      "0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t2.5\t" CATEGORIES("\t\ty\t") "\r\n"
		      "0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t" CATEGORIES("") "\n");
	struct schema *s = make((struct schema_options){.format = "criteo"}),
		      *some = make((struct schema_options){
			      .format = "criteo", .dense = "I13,I2", .sparse = "C26,C1"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err = {0};
	if (dataset_read(ds, 0, 3, &rows, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	const double want[] = {0, -log(2), log(1024), log(1025), 0, log(123456790), log(8)};
	for (size_t i = 0; i < 7; i++)
		near(rows.dense[i], want[i]);
	near(rows.dense[13 + 12], log(3.5));
	assert_int_equal(rows.fields, 26);
	near(rows.label[0], 1);
	near(rows.label[1], 0);
	assert_int_equal(rows.key[0], schema_key(s, &s->sparse[0], "a", 1));
	assert_int_equal(rows.key[22], schema_key(s, &s->sparse[22], "12345678", 8));
	assert_int_equal(rows.key[25], schema_key(s, &s->sparse[25], "z", 1));
	assert_int_equal(rows.key[26 + 23], schema_key(s, &s->sparse[23], "", 0));
	assert_int_equal(rows.key[26 + 24], schema_key(s, &s->sparse[24], "y", 1));
	for (size_t i = 23; i < 26; i++) /* tabs of empty fields are lost */
		assert_int_equal(rows.key[52 + i], schema_key(s, &s->sparse[i], "", 0));
	dataset_close(ds);
	ds = open_files(some, 1, 0);
	assert_int_equal(dataset_read(ds, 0, 3, &rows, &err), 0);
	near(rows.dense[0], log(14));
	near(rows.dense[1], -log(2));
	assert_int_equal(rows.key[0], schema_key(some, &some->sparse[0], "z", 1));
	assert_int_equal(rows.key[1], schema_key(some, &some->sparse[1], "a", 1));
	rows_free(&rows);
	dataset_close(ds);

	write_text(0, "0\t0\t0\n");
	read_fails(s, ":1:6", "3 fields instead of 40");
	write_text(0, "0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t" CATEGORIES("\t\t\t\t") "\n");
	read_fails(s, ":1:85", "fields instead of 40");
	write_text(0, "\n0\t0\t0\t0\t0\tx7\t0\t0\t0\t0\t0\t0\t0\t0\t" CATEGORIES("\t\t\t") "\n");
	read_fails(s, ":2:11", "I5: 'x7' is not a number");
	write_text(0, "2\t0\t0\t0\t0\t\t0\t0\t0\t0\t0\t0\t0\t0\t" CATEGORIES("\t\t\t") "\n");
	read_fails(s, ":1:1", "label '2' is neither 0 nor 1");
	schema_free(some);
	schema_free(s);
}

static void test_bag(void **state)
{
	(void)state;
	write_text(0, "# made by hand\n"
		      "2 3:1 4294967295:16777216\n"
		      "0\n"
		      "doc-17\n"
		      "7:2 7:3 # the same word twice\n");
	struct schema *s = make((struct schema_options){.format = "bag"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_read(ds, 0, 4, &rows, &err), 0);
	const size_t offset[] = {0, 2, 2, 2, 4};
	const uint32_t key[] = {3, BAG_KEY_MAX, 7, 7};
	const float value[] = {1, 16777216, 2, 3};
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(rows.offset[i], offset[i]);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(rows.key[i], key[i]);
		near(rows.value[i], (double)value[i]);
		assert_true(isnan(rows.label[i]));
	}
	rows_free(&rows);
	dataset_close(ds);
	const char *bad[] = {"1 x\n",	   "1 3:\n",   "1 :3\n",   "1 1:2:3\n",	   "1 3:0\n",
			     "1 3:1.5\n", "1 3:-1\n", "1 -3:1\n", "1 4294967296:1\n",
			     "1 3:16777217\n"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		write_text(0, bad[i]);
		read_fails(s, ":1:3", "is not word:count, with a ");
	}
	schema_free(s);
}

static void test_libsvm(void **state)
{
	(void)state;
	write_text(0, "# made by hand\n"
		      "+1 3:1 10:-0.5\n"
		      "-1 qid:7 7:3:2e1 # tail 9:9\n"
		      "0\n"
		      "1 1:0 ");
	struct schema *s = make((struct schema_options){.format = "libsvm"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_rows(ds), 4);
	assert_int_equal(dataset_read(ds, 2, 1, &rows, &err), 0); /* NULL: all values are 1 */
	assert_non_null(rows.value);
	assert_int_equal(dataset_read(ds, 0, 4, &rows, &err), 0);
	const size_t offset[] = {0, 2, 3, 3, 4};
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(rows.offset[i], offset[i]);
	const float label[] = {1, 0, 0, 1}, value[] = {1, -0.5f, 20, 0};
	for (size_t i = 0; i < 4; i++) {
		near(rows.label[i], (double)label[i]);
		near(rows.value[i], (double)value[i]);
	}
	assert_int_equal(rows.fields, 0);
	assert_int_equal(rows.key[1], schema_index_key(s, -1, 10));
	assert_int_equal(rows.key[2], schema_index_key(s, 7, 3));
	/* Rows by the thousand make the arrays grow. */
	dataset_close(ds);
	FILE *f = fopen(path[0], "w");
	for (unsigned i = 0; i < 3000; i++) {
		fprintf(f, "%u", i % 2);
		for (unsigned k = 0; k < i % 7; k++)
			fprintf(f, " %u:%u", i, k);
		fputc('\n', f);
	}
	fclose(f);
	ds = open_files(s, 1, 0);
	assert_int_equal(dataset_read(ds, 0, 3000, &rows, &err), 0);
	for (size_t i = 0; i < 3000; i++) {
		assert_int_equal(rows.offset[i + 1] - rows.offset[i], i % 7);
		for (size_t k = 0; k < i % 7; k++) {
			assert_int_equal(rows.key[rows.offset[i] + k], schema_index_key(s, -1, i));
			near(rows.value[rows.offset[i] + k], (double)k);
		}
	}
	rows_free(&rows);
	dataset_close(ds);
	const char *bad[] = {"1 x\n",	    "1 3:\n",	     "1 :3\n",	       "1 1:2:3:4\n",
			     "1 3:nan\n",   "1 -3:1\n",	     "1 1:1e99\n",     "1 9999999999:1:1\n"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		write_text(0, bad[i]);
		read_fails(s, ":1:3", "is not ");
	}
	write_text(0, "3:1 4:1\n");
	read_fails(s, ":1:1", "is not a label");
	write_text(0, "2 4:1\n");
	read_fails(s, ":1:1", "neither 0 nor 1 (or -1)");
	schema_free(s);
}

/* However a number is written, it is the same one; and so is the key of an index. */
static void test_libsvm_spellings(void **state)
{
	(void)state;
	static const struct {
		int64_t field;
		const char *index, *value;
	} words[] = {{-1, "1", "1"},	    {-1, "2", "-0.5"},	  {-1, "3", "+7"},	 {-1, "4", "0.1"},
		     {-1, "5", ".5"},	    {-1, "6", "5."},	  {-1, "007", "-0"},	 {-1, "8", "1e3"},
		     {-1, "9", "-1.25E-3"}, {3, "4", "5"},	  {3, "4", "-5.25"},	 {2147483647, "0", "1e-3"},
		     {-1, "10", "0.00000000000001"},		  {-1, "11", "123456789012345"},
		     {-1, "12345678", "12345678.1234567"},		  {-1, "13", "12345678901234.1234567"},
		     {-1, "14", "-12345678901234567890"},	  {-1, "999999999999999", "1"},
		     {-1, "9999999999999999", "1"},		  {7, "18446744073709551615", "2.5"}};
	enum { WORDS = sizeof words / sizeof *words };
	char text[2000] = "1";
	for (size_t i = 0; i < WORDS; i++) {
		size_t len = strlen(text);
		if (words[i].field >= 0)
			len += (size_t)sprintf(text + len, " %d:", (int)words[i].field);
		sprintf(text + len, "%s%s:%s", words[i].field < 0 ? "\t " : "", words[i].index,
			words[i].value);
	}
	strcat(text, " #1:1\n0 qid:5 1:2\r\n");
	write_text(0, text);
	struct schema *s = make((struct schema_options){.format = "libsvm"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_read(ds, 0, 2, &rows, &err), 0);
	assert_int_equal(rows.offset[1], WORDS);
	assert_int_equal(rows.offset[2], WORDS + 1);
	for (size_t i = 0; i < WORDS; i++) {
		float want = (float)strtod(words[i].value, NULL);
		assert_int_equal(rows.key[i],
				 schema_index_key(s, words[i].field, strtoull(words[i].index, NULL, 10)));
		assert_memory_equal(&rows.value[i], &want, sizeof want);
	}
	rows_free(&rows);
	dataset_close(ds);
	static const char *const bad[] = {"1:", ":1", "1:-", "1:.", "1:1x", "1:1:", "1::1", "1:2:3:4", "-1:1",
					  "1:-2:3", "2147483648:1:1", "1:1e", "1:1#2", "1.5:1", "1:1e99", "1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text, "1 5:5 %s\n", bad[i]);
		write_text(0, text);
		read_fails(s, ":1:7", "' is not ");
	}
	schema_free(s);
}

static void test_labels(void **state)
{
	(void)state;
	static const struct {
		const char *positive, *negative, *label;
		int want; /* -1: bad */
	} cases[] = {
		{NULL, NULL, "1", 1},	{NULL, NULL, "0", 0},	 {NULL, NULL, "1.0", 1},
		{NULL, NULL, "-1", -1}, {NULL, NULL, "yes", -1}, {NULL, NULL, "", -1},
		{"2", NULL, "2", 1},	{"2", NULL, "2.0", 1},	 {"2", NULL, "1", 0},
		{"2", NULL, "x", 0},	{"2", "1", "1", 0},	 {"2", "1", "3", -1},
		{"a", "b", "a", 1},	{"a", "b", "b", 0},	 {"a", "b", "A", -1},
		{"a", NULL, "", -1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];
		snprintf(text, sizeof text, "a,y\n1,%s\n", cases[i].label);
		write_text(0, text);
		struct schema *s = make((struct schema_options){.format = "csv",
								.label = "y",
								.dense = "a",
								.positive = cases[i].positive,
								.negative = cases[i].negative});
		if (cases[i].want < 0) {
			read_fails(s, ":2:3", "label");
		} else {
			struct dataset *ds = open_files(s, 1, 0);
			struct rows rows = {0};
			struct error err;
			assert_int_equal(dataset_read(ds, 0, 1, &rows, &err), 0);
			near(rows.label[0], cases[i].want);
			rows_free(&rows);
			dataset_close(ds);
		}
		schema_free(s);
	}
}

static void test_bad_csv(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){
		.format = "csv", .label = "income", .dense = "age,hours", .weight = "w"});
	write_text(0, "age,hours,income\n1,2,0\n");
	open_fails(s, ERROR_DATA, ":1", "no column 'w'");
	write_text(0, "\nage,hour,w,incme\n1,2,0\n");
	open_fails(s, ERROR_DATA, ":2", "no column 'income' in the header; the nearest is 'incme'");
	write_text(0, "age,hours,w,age,income\n1,2,3,4,0\n");
	open_fails(s, ERROR_DATA, ":1:13", "column 'age' appears twice");
	write_text(0, "");
	open_fails(s, ERROR_DATA, "", "is empty");
	write_text(0, "age,hours,w,income\n");
	open_fails(s, ERROR_DATA, "", "no rows");
	write_text(0, "age,hours,w,income\n1,2,3,0\n\"1,2,3,0\n4,5,6,0\n");
	open_fails(s, ERROR_DATA, ":3", "quote");
	unlink(path[0]);
	open_fails(s, ERROR_NOINPUT, "", "can't be read");
	assert_int_equal(mkdir(path[0], 0700), 0);
	open_fails(s, ERROR_NOINPUT, "", "is a directory");
	rmdir(path[0]);
	write_text(0, "age,hours,w,income\n1,2,3,0\n1,2,3\n");
	read_fails(s, ":3:6", "3 fields instead of the header's 4");
	write_text(0, "age,hours,w,income\n1,2,3,0,5\n");
	read_fails(s, ":2:9", "5 fields instead of the header's 4");
	write_text(0, "age,hours,w,income\n1,\"2\n,\nx\",3,0\n");
	read_fails(s, ":2:3", "hours: '2\n,\nx' is not a number");
	write_text(0, "age,hours,w,income\n1,2,3,0\n\"1\",\n\n");
	read_fails(s, ":3:5", "2 fields instead of the header's 4"); /* ends behind the comma */
	write_text(0, "age,hours,w,income\n\"1\n\",2,3,0\n");
	read_fails(s, ":2:1", "age: '1\n' is not a number");
	write_text(0, "w,x,hours,income,age\n1,\"\n\n\",2,0,?\n");
	read_fails(s, ":4:7", "age: '?' is not a number");
	write_text(0, "w,x,hours,income,age\n1,a\"b,2,0,?\n");
	read_fails(s, ":2:11", "age: '?' is not a number");
	write_text(0, "age,hours,w,income\n1,2,-3,0\n");
	read_fails(s, ":2:5", "weight '-3'");
	write_text(0, "age,hours,w,income\n1,1e300,3,0\n");
	struct schema *z = make((struct schema_options){
		.format = "csv", .label = "income", .dense = "age,hours", .dense_scale = "none"});
	read_fails(z, ":2:3", "hours: 1e+300 is too large");
	schema_free(z);
	schema_free(s);
}

/* What a spreadsheet or a script leaves in a header is no harm where no column of ours is meant. */
static void test_odd_headers(void **state)
{
	(void)state;
	static const char *const text[] = {"y,,a,,x,x,\n1,?,2,?,?,?,?\n0,,4,,,,",
					   "\" y \",\"a\"\r\n1,2\r\n0,4\r\n",
					   "\xef\xbb\xbf\"y\",a\n1,2\n0,4",
					   "\n\n  y  ,\ta\t\n1,2\n\n0,4\n\n",
					   "\"long\nname\",y,\"a\"\n\"b\n\n\"\"b\"\"\",1,2\nc,0,\"4\""};
	static const char *const label[] = {"y", " y ", "y", "y", "y"};
	for (size_t i = 0; i < 5; i++) {
		struct rows rows = {0};
		struct error err;
		write_text(0, text[i]);
		struct schema *s = make((struct schema_options){
			.format = "csv", .label = label[i], .dense = "a", .dense_scale = "none"});
		struct dataset *ds = open_files(s, 1, 0);
		assert_int_equal(dataset_rows(ds), 2);
		assert_int_equal(dataset_read(ds, 0, 2, &rows, &err), 0);
		assert_int_equal(rows.count, 2);
		near(rows.label[0], 1);
		near(rows.dense[0], 2);
		near(rows.dense[1], 4);
		rows_free(&rows);
		dataset_close(ds);
		schema_free(s);
	}
	struct schema *s = make((struct schema_options){.format = "csv", .label = "x", .dense = "a"});
	write_text(0, text[0]);
	open_fails(s, ERROR_DATA, ":1:9", "column 'x' appears twice in the header: rename one");
	write_text(0, "x,a,\n1,2\n");
	read_fails(s, ":2:4", "2 fields instead of the header's 3");
	write_text(0, "x,a\n1,2,\n");
	read_fails(s, ":2:5", "3 fields instead of the header's 2");
	write_text(0, "x,a\n1\n");
	read_fails(s, ":2:2", "1 field instead of the header's 2");
	schema_free(s);
}

static void test_files_that_are_no_text(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "csv", .label = "x", .dense = "a"});
	write_text(0, "PAR1\x15\x04");
	open_fails(s, ERROR_DATA, "", "is Parquet, which Paceline does not read; write its rows as csv");
	write_text(0, "BZh91AY&SY");
	open_fails(s, ERROR_DATA, "", "is bzip2, which Paceline does not read; convert it to zstd: bzip2 -dc FILE | pzstd");
	write_text(0, "\xff\xfex");
	open_fails(s, ERROR_DATA, "", "iconv -f UTF-16 -t UTF-8");
	write_text(0, "PAR1,x,a\n1,1,2\n");
	struct dataset *ds = open_files(s, 1, 0);
	dataset_close(ds);
	schema_free(s);
}

static void test_bad_rows_are_counted_once(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a"});
	struct rows rows = {0};
	struct error err = {0};
	write_text(0, "a,y\n1,0\nx,0\n2,1\n3,7\n4,1\n5,?\n6,0\n");
	struct dataset *ds = open_files(s, 1, 3);
	const uint64_t good[] = {0, 2, 4, 6};
	for (int epoch = 0; epoch < 3; epoch++) {
		assert_int_equal(dataset_read(ds, 0, 7, &rows, &err), 0);
		assert_int_equal(rows.count, 4);
		for (size_t i = 0; i < 4; i++) {
			assert_int_equal(rows.row[i], good[i]);
			near(rows.dense[i], log1p((double[]){1, 2, 4, 6}[i]));
		}
		assert_int_equal(dataset_bad_rows(ds), 3);
	}
	assert_non_null(strstr(dataset_last_bad(ds), "a:7:3: label '?'"));
	dataset_close(ds);
	ds = open_files(s, 1, 2);
	assert_int_equal(dataset_read(ds, 0, 7, &rows, &err), -1);
	assert_non_null(strstr(err.place, "a:7:3"));
	assert_non_null(strstr(err.text, "more than 2 bad rows"));
	/* After an error reading goes on elsewhere. */
	assert_int_equal(dataset_read(ds, 6, 1, &rows, &err), 0);
	assert_int_equal(rows.count, 1);
	near(rows.dense[0], log(7));
	assert_int_equal(dataset_read(ds, 0, 5, &rows, &err), 0);
	assert_int_equal(rows.count, 3);
	dataset_close(ds);
	/* The pass that fits counts them too. */
	ds = open_files(s, 1, 2);
	assert_int_equal(schema_fit(s, ds, &err), -1);
	assert_non_null(strstr(err.place, "a:7:3"));
	dataset_close(ds);
	uint64_t n = 99;
	assert_int_equal(dataset_bad_rows_option("stop", &n, &err), 0);
	assert_int_equal(n, 0);
	assert_int_equal(dataset_bad_rows_option("skip:12", &n, &err), 0);
	assert_int_equal(n, 12);
	assert_int_equal(dataset_bad_rows_option("skip:", &n, &err), -1);
	assert_int_equal(dataset_bad_rows_option("skip:0", &n, &err), -1);
	assert_int_equal(dataset_bad_rows_option("skip", &n, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	rows_free(&rows);
	schema_free(s);
}

/* Columns in another order, gzip, another number of rows: one dataset, rows numbered through. */
static void make_two_files(size_t n0, size_t n1)
{
	FILE *f = fopen(path[0], "w");
	fputs("a,y,k\n", f);
	for (size_t i = 0; i < n0; i++)
		fprintf(f, "%zu,%zu,%zu\n", i, i & 1, i);
	fclose(f);
	gzFile z = gzopen(path[1], "wb");
	gzputs(z, "k,junk,y,a\n");
	for (size_t i = n0; i < n0 + n1; i++)
		gzprintf(z, "%zu,\"x\ny\",%zu,%zu\n", i, i & 1, i);
	gzclose(z);
}

static void check_range(struct dataset *ds, const struct schema *s, struct rows *rows,
			uint64_t begin, uint64_t length)
{
	struct error err = {0};
	if (dataset_read(ds, begin, length, rows, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(rows->count, length);
	for (size_t i = 0; i < length; i++) {
		char name[32];
		int n = snprintf(name, sizeof name, "%llu", (unsigned long long)(begin + i));
		assert_int_equal(rows->row[i], begin + i);
		assert_true(rows->dense[i] == (float)(begin + i));
		assert_true(rows->label[i] == (float)((begin + i) & 1));
		assert_int_equal(rows->key[i], schema_key(s, &s->sparse[0], name, (size_t)n));
	}
}

static void test_two_files_are_one(void **state)
{
	(void)state;
	make_two_files(1000, 2500);
	struct schema *s = make((struct schema_options){.format = "csv",
							.label = "y",
							.dense = "a",
							.sparse = "k",
							.dense_scale = "none"});
	struct dataset *ds = open_files(s, 2, 0);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_rows(ds), 3500);
	check_range(ds, s, &rows, 0, 3500);
	check_range(ds, s, &rows, 999, 2);
	check_range(ds, s, &rows, 3499, 1);
	check_range(ds, s, &rows, 0, 0);
	check_range(ds, s, &rows, 3500, 0);
	uint64_t rng = 3;
	for (int i = 0; i < 300; i++) {
		rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
		uint64_t begin = (rng >> 33) % 3500, length = (rng >> 20) % 700;
		if (i % 3 == 0)
			length %= 4;
		check_range(ds, s, &rows, begin, length < 3500 - begin ? length : 3500 - begin);
	}
	assert_int_equal(dataset_read(ds, 3000, 501, &rows, &err), -1);
	assert_int_equal(dataset_read(ds, UINT64_MAX, 2, &rows, &err), -1);
	/* Changed while in use. */
	FILE *f = fopen(path[0], "a");
	fputs("1,1,1\n", f);
	fclose(f);
	check_range(ds, s, &rows, 1000, 5);
	assert_int_equal(dataset_read(ds, 0, 5, &rows, &err), -1);
	assert_non_null(strstr(err.text, "changed"));
	dataset_close(ds);
	ds = open_files(s, 2, 0); /* and its index is built anew */
	assert_int_equal(dataset_rows(ds), 3501);
	dataset_close(ds);
	rows_free(&rows);
	schema_free(s);
}

static unsigned progressed;

static void on_progress(const char *what, const char *file, uint64_t done, uint64_t total, void *arg)
{
	assert_ptr_equal(arg, &progressed);
	assert_string_equal(what, "index");
	assert_string_equal(file, path[0]);
	assert_true(done <= total);
	progressed += done == total;
}

static void test_index_directory(void **state)
{
	(void)state;
	write_text(0, "1 1:1\n");
	struct schema *s = make((struct schema_options){.format = "libsvm"});
	char indexes[128];
	snprintf(indexes, sizeof indexes, "%s/deep/index", scratch);
	const char *paths[] = {path[0]};
	struct dataset_options o = {.paths = paths,
				    .path_count = 1,
				    .index_dir = indexes,
				    .progress = on_progress,
				    .progress_arg = &progressed};
	struct dataset *ds;
	struct error err;
	progressed = 0;
	assert_int_equal(dataset_open(&ds, s, &o, &err), 0);
	assert_int_equal(progressed, 1);
	dataset_close(ds);
	assert_int_equal(dataset_open(&ds, s, &o, &err), 0);
	assert_int_equal(progressed, 1); /* it was there */
	dataset_close(ds);
	char beside[160];
	snprintf(beside, sizeof beside, "%s.rowidx", path[0]);
	assert_int_equal(access(beside, F_OK), -1);
	schema_free(s);
}

/* ---- images that are kept ---- */

#define IMAGES 3000
#define PIXELS 16

static unsigned char pixel_of(size_t image, size_t at)
{
	return (unsigned char)((image * 31 + at * at * 7) ^ (image >> 5));
}

static void write_images(void)
{
	const unsigned char head[] = {0, 0, 8, 2, 0, 0, IMAGES >> 8, IMAGES & 255, 0, 0, 0, PIXELS};
	const unsigned char labels[] = {0, 0, 8, 1, 0, 0, IMAGES >> 8, IMAGES & 255};
	char beside[128];
	snprintf(path[0], sizeof path[0], "%s/images.gz", scratch);
	snprintf(beside, sizeof beside, "%s/labels", scratch);
	FILE *f = fopen(beside, "wb");
	assert_non_null(f);
	fwrite(labels, 1, sizeof labels, f);
	gzFile z = gzopen(path[0], "wb");
	gzwrite(z, head, sizeof head);
	for (size_t i = 0; i < IMAGES; i++) {
		fputc((int)(i & 1), f);
		for (size_t k = 0; k < PIXELS; k++)
			gzputc(z, pixel_of(i, k));
	}
	gzclose(z);
	fclose(f);
}

static struct dataset *open_images(const struct schema *s, uint64_t keep_max)
{
	const char *paths[] = {path[0]};
	struct dataset_options o = {.paths = paths, .path_count = 1, .keep_max = keep_max};
	struct dataset *ds;
	struct error err = {0};
	if (dataset_open(&ds, s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return ds;
}

static void check_images(struct dataset *ds, struct rows *rows, uint64_t begin, uint64_t length)
{
	struct error err = {0};
	if (dataset_read(ds, begin, length, rows, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(rows->count, length);
	for (size_t i = 0; i < length; i++) {
		assert_int_equal(rows->row[i], begin + i);
		assert_true(rows->label[i] == (float)((begin + i) & 1));
		for (size_t k = 0; k < PIXELS; k++)
			assert_true(rows->dense[i * PIXELS + k] ==
				    (float)pixel_of(begin + i, k) / 255.0f);
	}
}

/* Zeros in place of the file's bytes, and the old time: only who reads it again sees that. */
static void blank_file(void)
{
	struct stat st;
	char zero[4096] = {0};
	int fd = open(path[0], O_WRONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at += (off_t)sizeof zero) {
		off_t left = st.st_size - at;
		size_t len = left < (off_t)sizeof zero ? (size_t)left : sizeof zero;
		assert_int_equal(pwrite(fd, zero, len, at), len);
	}
	assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
	close(fd);
}

static void test_images_are_kept(void **state)
{
	(void)state;
	write_images();
	struct schema *s = make((struct schema_options){.format = "idx", .pixels = PIXELS});
	struct rows rows = {0};
	struct error err = {0};
	struct dataset *ds = open_images(s, IMAGES * (PIXELS + 1));
	/* Some from memory, then from the file where its scan does not stand, and back. */
	check_images(ds, &rows, 1000, 100);
	check_images(ds, &rows, 1050, 100);
	check_images(ds, &rows, 1000, 10);
	check_images(ds, &rows, 1010, 1);
	check_images(ds, &rows, 900, 300);
	check_images(ds, &rows, 2990, 10);
	check_images(ds, &rows, 0, IMAGES);
	blank_file();
	check_images(ds, &rows, 500, 2000);
	check_images(ds, &rows, 0, IMAGES);
	/* Another file, though all rows are in memory. */
	assert_int_equal(truncate(path[0], 100), 0);
	assert_int_equal(dataset_read(ds, 0, 1, &rows, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_string_equal(err.place, path[0]);
	assert_string_equal(err.text, "was changed while in use");
	dataset_close(ds);
	/* A byte too little. */
	write_images();
	ds = open_images(s, IMAGES * (PIXELS + 1) - 1);
	check_images(ds, &rows, 0, IMAGES);
	blank_file();
	assert_int_equal(dataset_read(ds, 0, IMAGES, &rows, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	dataset_close(ds);
	rows_free(&rows);
	schema_free(s);
}

/* The same rows through a pipe, gzip or not, as through the index. */
static void test_stream(void **state)
{
	(void)state;
	make_two_files(300, 200);
	struct schema *s = make((struct schema_options){.format = "csv",
							.label = "y",
							.dense = "a",
							.sparse = "k",
							.dense_scale = "none"});
	for (int file = 0; file < 2; file++) {
		struct row_stream *in;
		struct rows rows = {0};
		struct error err = {0};
		struct row_stream_options o = {.name = "stdin"};
		int fd = open(path[file], O_RDONLY);
		assert_int_equal(row_stream_open(&in, s, fd, &o, &err), 0);
		uint64_t seen = 0;
		for (;;) {
			assert_int_equal(row_stream_read(in, 7, &rows, &err), 0);
			if (rows.count == 0)
				break;
			assert_true(rows.count <= 7);
			for (size_t i = 0; i < rows.count; i++, seen++) {
				assert_int_equal(rows.row[i], seen);
				assert_true(rows.dense[i] == (float)(seen + (file ? 300 : 0)));
			}
		}
		assert_int_equal(seen, file ? 200 : 300);
		rows_free(&rows);
		row_stream_close(in);
		close(fd);
	}
	schema_free(s);
}

static void test_stream_gives_what_is_there(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a"});
	int fd[2];
	struct row_stream *in;
	struct rows rows = {0};
	struct error err = {0};
	struct row_stream_options o = {.name = "stdin", .label_optional = 1, .bad_rows_max = 1};
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], "a\n1\n2\n\"3", 8), 8);
	assert_int_equal(row_stream_open(&in, s, fd[0], &o, &err), 0);
	assert_int_equal(row_stream_read(in, 100, &rows, &err), 0);
	assert_int_equal(rows.count, 2);
	assert_true(isnan(rows.label[0]));
	assert_int_equal(write(fd[1], "\"\nx\n4\ny\n", 9), 9);
	assert_int_equal(row_stream_read(in, 2, &rows, &err), 0);
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.row[1], 4);
	assert_int_equal(row_stream_bad_rows(in), 1);
	assert_int_equal(row_stream_read(in, 2, &rows, &err), -1);
	assert_string_equal(err.place, "stdin:7:1");
	rows_free(&rows);
	row_stream_close(in);
	close(fd[0]);
	close(fd[1]);
	schema_free(s);
}

static void test_unlabelled_criteo(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "criteo"});
	write_text(0, "7\t0\t0\t0\t0\t\t0\t0\t0\t0\t0\t0\t5\tabcdefgh\t" CATEGORIES("\t\t") "\n"
		      "1\t7\t0\t0\t0\t0\t\t0\t0\t0\t0\t0\t0\t5\tabcdefgh\t" CATEGORIES("\t") "\n");
	struct row_stream *in;
	struct rows rows = {0};
	struct error err = {0};
	struct row_stream_options o = {.name = "x", .label_optional = 1};
	int fd = open(path[0], O_RDONLY);
	assert_int_equal(row_stream_open(&in, s, fd, &o, &err), 0);
	if (row_stream_read(in, 5, &rows, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(rows.count, 2);
	assert_true(isnan(rows.label[0]));
	near(rows.label[1], 1);
	for (size_t i = 0; i < 2; i++) {
		near(rows.dense[13 * i], log(8));
		near(rows.dense[13 * i + 12], log(6));
		assert_int_equal(rows.key[26 * i], schema_key(s, &s->sparse[0], "abcdefgh", 8));
	}
	rows_free(&rows);
	row_stream_close(in);
	close(fd);
	schema_free(s);
}

/* A part of more: own rows are 100 to 102, and 98, 99 come from another file, other columns first. */
static void test_numbers(void **state)
{
	(void)state;
	write_text(0, "y,a\n0,10\n1,11\n0,12\n");
	write_text(1, "a,y\n8,1\n9,1\n");
	struct schema *s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a",
							.dense_scale = "none"});
	struct dataset *ds = open_files(s, 1, 0);
	struct rows rows = {0};
	struct error err = {0};
	assert_int_equal(dataset_has(ds, 1, 5), 2);
	assert_int_equal(dataset_number(ds, 100, &err), 0);
	assert_int_equal(dataset_has(ds, 0, 3), 0);
	assert_int_equal(dataset_has(ds, 98, 5), 0);
	assert_int_equal(dataset_read(ds, 101, 2, &rows, &err), 0);
	assert_int_equal(dataset_read(ds, 99, 2, &rows, &err), -1);
	/* one that can't be read changes nothing: it may be added when it can */
	unlink(path[1]);
	assert_int_equal(dataset_add(ds, path[1], 98, &err), -1);
	assert_int_equal(dataset_read(ds, 101, 2, &rows, &err), 0);
	write_text(1, "a,y\n8,1\n9,1\n");
	assert_int_equal(dataset_add(ds, path[1], 98, &err), 0);
	assert_int_equal(dataset_has(ds, 98, 50), 5);
	assert_int_equal(dataset_read(ds, 98, 5, &rows, &err), 0);
	assert_int_equal(rows.count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(rows.row[i], 98 + i);
		near(rows.dense[i], 8 + (double)i);
		near(rows.label[i], i == 0 || i == 1 || i == 3);
	}
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

static void place_is(struct dataset *ds, uint64_t row, const char *file, const char *line)
{
	char place[512], want[512];
	dataset_place(ds, row, place, sizeof place);
	snprintf(want, sizeof want, "%s%s", file, line);
	assert_string_equal(place, want);
}

/* Where a row stands: a quoted newline and an empty line count as lines, not as rows. */
static void test_places(void **state)
{
	(void)state;
	write_text(0, "y,a\n0,\"1\n\"\n\n1,11\n0,12\n");
	write_text(1, "y,a\n1,8\n1,9\n");
	struct schema *s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a",
							.dense_scale = "none"});
	struct dataset *ds = open_files(s, 2, 0);
	struct rows rows = {0};
	struct error err = {0};
	place_is(ds, 4, path[1], ":3");
	place_is(ds, 1, path[0], ":5");
	place_is(ds, 0, path[0], ":2");
	place_is(ds, 5, "row 5", "");
	/* Reading goes on as if nobody had asked. */
	assert_int_equal(dataset_read(ds, 1, 2, &rows, &err), 0);
	place_is(ds, 4, path[1], ":3");
	assert_int_equal(dataset_read(ds, 3, 2, &rows, &err), 0);
	near(rows.dense[1], 9);
	assert_int_equal(dataset_number(ds, 100, &err), 0);
	place_is(ds, 103, path[1], ":2");
	place_is(ds, 3, "row 3", "");
	write_text(1, "y,a\n1,8\n"); /* changed meanwhile: only the file is known */
	place_is(ds, 104, path[1], "");
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

static void rowfile_is(struct rowfile *file, uint64_t begin, uint64_t length, size_t bytes_max,
		   const char *want)
{
	struct rowfile_text text = {0};
	struct error err = {0};
	uint64_t count, lines = 0;
	assert_int_equal(rowfile_add_rows(file, begin, length, bytes_max, &text, &count, &err), 0);
	assert_int_equal(text.len, strlen(want));
	assert_memory_equal(text.data ? text.data : "", want, text.len);
	for (const char *p = want; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_equal(count, lines);
	free(text.data);
}

static void test_rowfile(void **state)
{
	(void)state;
	struct rowfile file;
	const struct rowfile_options options = {0};
	struct rowfile_text header = {0};
	struct error err = {0};
	write_text(0, "\xef\xbb\xbfy,a\r\n0,10\r\n\r\n1,11\n0,12");
	assert_int_equal(rowfile_open(&file, path[0], row_syntax(ROW_CSV), &options, &err), 0);
	assert_int_equal(file.index->rows, 3);
	rowfile_is(&file, 1, 9, SIZE_MAX, "1,11\n0,12\n");
	assert_int_equal(rowfile_add_header(&file, &header, &err), 0);
	assert_int_equal(header.len, 5);
	assert_memory_equal(header.data, "y,a\r\n", 5);
	rowfile_is(&file, 2, 1, SIZE_MAX, "0,12\n");
	rowfile_is(&file, 0, 3, 1, "0,10\r\n"); /* one at least */
	rowfile_is(&file, 1, 1, SIZE_MAX, "1,11\n");
	rowfile_is(&file, 3, 1, SIZE_MAX, "");
	free(header.data);
	rowfile_close(&file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_csv),
		TEST(test_separators),
		TEST(test_wrong_separator_is_guessed),
		TEST(test_scales),
		TEST(test_criteo),
		TEST(test_bag),
		TEST(test_libsvm),
		TEST(test_libsvm_spellings),
		TEST(test_labels),
		TEST(test_bad_csv),
		TEST(test_odd_headers),
		TEST(test_files_that_are_no_text),
		TEST(test_bad_rows_are_counted_once),
		TEST(test_two_files_are_one),
		TEST(test_images_are_kept),
		TEST(test_numbers),
		TEST(test_places),
		TEST(test_rowfile),
		TEST(test_index_directory),
		TEST(test_stream),
		TEST(test_stream_gives_what_is_there),
		TEST(test_unlabelled_criteo),
	};
	return cmocka_run_group_tests_name("data_dataset", tests, NULL, NULL);
}
