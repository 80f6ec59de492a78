/*
 * data_rowscan: bytes and rows.  Text is written plain and as gzip in pieces of many kinds; what
 * comes out must be the text.  Rows found by rowscan (which keeps libcsv away from most lines) must
 * be those that libcsv finds by itself.
 */
#include "base/fs.h"
#include "base/random.h"
#include "data/index.h"
#include "data/rowscan.h"
#include "data/source.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include <cmocka.h>

static char path[128];
static uint64_t rng;

static uint64_t below(uint64_t n)
{
	return random_next(&rng) % n;
}

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/file", scratch);
	rng = 7;
	return 0;
}

static void write_file(const void *data, size_t len)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* One gzip member behind another. */
static size_t add_member(unsigned char *out, size_t room, const void *data, size_t len, int level)
{
	z_stream z = {0};
	assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (uInt)len;
	z.next_out = out;
	z.avail_out = (uInt)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	size_t n = room - z.avail_out;
	deflateEnd(&z);
	return n;
}

/* Text that deflate turns into blocks of all kinds. */
static unsigned char *make_text(size_t len)
{
	unsigned char *text = malloc(len);
	assert_non_null(text);
	for (size_t i = 0; i < len;) {
		size_t run = 1 + below(200);
		int kind = (int)below(3);
		unsigned char c = (unsigned char)below(256);
		for (; run > 0 && i < len; run--, i++) {
			text[i] = kind == 0 ? c
				  : kind == 1 ? (unsigned char)below(256)
					      : (unsigned char)('a' + below(4));
			if (below(60) == 0)
				text[i] = '\n';
		}
	}
	return text;
}

static void read_all(const unsigned char *want, size_t len)
{
	struct source *s;
	struct error err;
	assert_int_equal(source_open(&s, path, &err), 0);
	unsigned char buffer[5000];
	size_t at = 0, got;
	do {
		assert_int_equal(source_read(s, buffer, 1 + below(sizeof buffer - 1), &got, &err), 0);
		assert_true(at + got <= len);
		assert_memory_equal(buffer, want + at, got);
		at += got;
	} while (got > 0);
	assert_int_equal(at, len);
	source_close(s);
}

static void test_members_are_one_stream(void **state)
{
	(void)state;
	size_t len = 1 << 20, n = 0;
	unsigned char *text = make_text(len), *gz = calloc(1, 2 * len);
	for (size_t at = 0; at < len;) {
		size_t piece = below(4) == 0 ? 0 : below(200000);
		if (piece > len - at)
			piece = len - at;
		n += add_member(gz + n, 2 * len - n, text + at, piece, (int)below(10));
		at += piece;
	}
	write_file(gz, n);
	read_all(text, len);
	write_file(gz, n + 1000); /* zero padding, as tar adds it */
	read_all(text, len);
	write_file(text + 1, len - 1);
	if (text[1] != 0x1f)
		read_all(text + 1, len - 1);
	free(text);
	free(gz);
}

/* Every cut of a gzip file is an error that names file and byte, never a shorter text. */
static void test_truncated_gzip_names_the_byte(void **state)
{
	(void)state;
	unsigned char *text = make_text(3000), gz[8192], buffer[4096];
	size_t n = add_member(gz, sizeof gz, text, 1500, 6);
	size_t first = n;
	n += add_member(gz + n, sizeof gz - n, text + 1500, 1500, 6);
	for (size_t cut = 3; cut < n; cut++) {
		struct source *s;
		struct error err = {0};
		write_file(gz, cut);
		assert_int_equal(source_open(&s, path, &err), 0);
		size_t got, total = 0;
		int result;
		while ((result = source_read(s, buffer, sizeof buffer, &got, &err)) == 0 && got > 0)
			total += got;
		if (cut == first) {
			assert_int_equal(result, 0);
			assert_int_equal(total, 1500);
		} else {
			char byte[32];
			snprintf(byte, sizeof byte, "byte %zu:", cut);
			assert_int_equal(result, -1);
			assert_int_equal(err.code, ERROR_DATA);
			assert_string_equal(err.place, path);
			/* One byte behind a member is garbage, not a cut. */
			if (cut != first + 1)
				assert_non_null(strstr(err.text, byte));
		}
		source_close(s);
	}
	free(text);
}

/* Flipped bits are found by the checksum at the latest. */
static void test_damaged_gzip_is_an_error(void **state)
{
	(void)state;
	enum { ROOM = 1 << 20 }; /* a flipped bit may make the text longer, but not by that much */
	unsigned char *text = make_text(3000), gz[8192], *buffer = malloc(ROOM);
	size_t harmless = 0, n = add_member(gz, sizeof gz, text, 3000, 6);
	for (size_t i = 10; i < n; i++) {
		struct source *s;
		struct error err = {0};
		size_t got, total = 0;
		gz[i] ^= 0x10;
		write_file(gz, n);
		gz[i] ^= 0x10;
		assert_int_equal(source_open(&s, path, &err), 0);
		int result;
		while ((result = source_read(s, buffer + total, ROOM - total, &got, &err)) == 0 &&
		       got > 0)
			total += got;
		assert_true(total < ROOM);
		if (result == 0) { /* bits that only fill a byte up, at the end and before stored blocks */
			assert_true(++harmless < 4);
			assert_int_equal(total, 3000);
			assert_memory_equal(buffer, text, total);
		} else {
			assert_int_equal(err.code, ERROR_DATA);
		}
		source_close(s);
	}
	free(buffer);
	free(text);
}

/* ---- access points ---- */

struct kept {
	struct source_point p[4096];
	unsigned char *window[4096];
	size_t len[4096], count;
};

static int keep(const struct source_point *p, const void *window, size_t len, void *arg,
		struct error *err)
{
	struct kept *k = arg;
	(void)err;
	assert_true(k->count < 4096);
	k->p[k->count] = *p;
	k->p[k->count].window_len = (uint32_t)len;
	k->window[k->count] = malloc(len + 1);
	if (len)
		memcpy(k->window[k->count], window, len);
	k->len[k->count++] = len;
	return 0;
}

static void test_reading_from_access_points(void **state)
{
	(void)state;
	size_t len = 3 << 20, n = 0, members[3] = {0, 1 << 20, 3 << 20};
	unsigned char *text = make_text(len), *gz = malloc(2 * len), buffer[3000];
	for (size_t i = 0; i + 1 < 3; i++)
		n += add_member(gz + n, 2 * len - n, text + members[i], members[i + 1] - members[i],
				i ? 9 : 1);
	write_file(gz, n);
	struct source *s;
	struct error err;
	struct kept *k = calloc(1, sizeof *k);
	uint64_t span = 30000;
	assert_int_equal(source_open(&s, path, &err), 0);
	source_collect(s, &span, keep, k);
	size_t got;
	do {
		assert_int_equal(source_read(s, buffer, sizeof buffer, &got, &err), 0);
	} while (got);
	source_collect(s, NULL, NULL, NULL);
	assert_true(k->count > 20);
	size_t starts = 0, odd = 0;
	for (size_t i = 0; i < k->count; i++) {
		starts += k->len[i] == 0;
		odd += k->p[i].bits != 0;
	}
	assert_true(starts >= 1);
	assert_true(odd > 5); /* or the bits would not be tested */
	for (int round = 0; round < 300; round++) {
		size_t i = below(k->count);
		assert_int_equal(source_seek_point(s, &k->p[i], k->len[i] ? k->window[i] : NULL,
						   k->len[i], &err),
				 0);
		uint64_t to = k->p[i].out + below(len - k->p[i].out);
		assert_int_equal(source_skip_to(s, to, &err), 0);
		assert_int_equal(source_offset(s), to);
		size_t at = (size_t)to, end = at + below(100000);
		while (at < end) {
			assert_int_equal(source_read(s, buffer, sizeof buffer, &got, &err), 0);
			if (got == 0)
				break;
			assert_true(at + got <= len);
			assert_memory_equal(buffer, text + at, got);
			at += got;
		}
		if (got == 0)
			assert_int_equal(at, len); /* over the member's end, to the last byte */
	}
	source_close(s);
	for (size_t i = 0; i < k->count; i++)
		free(k->window[i]);
	free(k);
	free(text);
	free(gz);
}

/* ---- rows ---- */

struct found {
	uint64_t offset[5000], line[5000];
	size_t len[5000], count;
};

static char separator = ','; /* of a csv */

static int scan(enum row_format format, struct found *f, struct error *err)
{
	struct row_syntax syntax = {.format = format, .separator = format == ROW_CSV ? separator : '\0'};
	struct source *s;
	struct rowscan r;
	struct row_ref row;
	int got;
	f->count = 0;
	assert_int_equal(source_open(&s, path, err), 0);
	assert_int_equal(rowscan_init(&r, syntax, err), 0);
	got = rowscan_start(&r, s, 1, err);
	while (got == 0 && (got = rowscan_next(&r, &row, 0, err)) == ROWSCAN_ROW) {
		assert_true(f->count < 5000);
		f->offset[f->count] = row.offset;
		f->line[f->count] = row.line;
		f->len[f->count++] = row.raw_len;
		got = 0;
	}
	rowscan_free(&r);
	source_close(s);
	return got;
}

static void check_rows(enum row_format format, const char *text, size_t len, const char *want)
{
	struct found f;
	struct error err;
	char seen[512] = "";
	write_file(text, len);
	assert_int_equal(scan(format, &f, &err), 0);
	for (size_t i = 0; i < f.count; i++)
		snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%llu+%zu:%llu ",
			 (unsigned long long)f.offset[i], f.len[i], (unsigned long long)f.line[i]);
	assert_string_equal(seen, want);
}

#define ROWS(format, text, want) check_rows(format, text, sizeof text - 1, want)

static void test_what_a_row_is(void **state)
{
	(void)state;
	ROWS(ROW_LINES, "", "");
	ROWS(ROW_LINES, "a\n\nb", "0+2:1 2+1:2 3+1:3 ");
	ROWS(ROW_LINES, "\xef\xbb\xbf" "a\r\nb\r\n", "3+3:1 6+3:2 ");
	ROWS(ROW_LINES, "\xef\xbb", "0+2:1 ");
	ROWS(ROW_LINES, "\0\0\n\0", "0+3:1 3+1:2 ");
	ROWS(ROW_CRITEO, "0\t1\r\n\r\n\n1\t2", "0+5:1 8+3:4 ");
	ROWS(ROW_LIBSVM, "# what\n1 1:1\n  \n-1 2:1 # x\n", "7+6:2 16+11:4 ");
	ROWS(ROW_CSV, "h,i\n1,2\n\n \t\n3,4", "0+4:1 4+4:2 12+3:5 ");
	ROWS(ROW_CSV, "h\r\n\"a\r\nb\"\r\n\"c\"", "0+3:1 3+8:2 11+3:4 ");
	ROWS(ROW_CSV, "a\"b\nc\"d\n", "0+4:1 4+4:2 "); /* a quote inside a field opens nothing */
	ROWS(ROW_CSV, "\"a\"\"\nb\",\"\n\"\nx\n", "0+12:1 12+2:4 ");
	ROWS(ROW_CSV, "\"\"", "0+2:1 ");
	/* Which quote opens a field depends on what stands between fields. */
	separator = ';';
	ROWS(ROW_CSV, "h;i\na;\"b\nc\"\n", "0+4:1 4+8:2 ");
	separator = ',';
	ROWS(ROW_CSV, "h;i\na;\"b\nc\"\n", "0+4:1 4+5:2 9+3:3 ");
	/* A line of tabs is a row of empty fields between tabs, a line of blanks is none. */
	separator = '\t';
	ROWS(ROW_CSV, "h\ti\n\t\n  \r\n\"a\nb\"\tc", "0+4:1 4+2:2 10+7:4 ");
	separator = ',';
}

static void test_rows_without_end(void **state)
{
	(void)state;
	struct found f;
	struct error err;
	char *big = malloc(ROWSCAN_ROW_MAX + 10);
	memset(big, 'x', ROWSCAN_ROW_MAX + 10);
	big[0] = '\n';
	for (int format = ROW_LINES; format <= ROW_LIBSVM; format++) {
		if (row_is_image(row_syntax((enum row_format)format)))
			continue;
		big[ROWSCAN_ROW_MAX] = '\n'; /* exactly the longest row */
		write_file(big, ROWSCAN_ROW_MAX + 1);
		assert_int_equal(scan((enum row_format)format, &f, &err), 0);
		big[ROWSCAN_ROW_MAX] = 'x';
		big[ROWSCAN_ROW_MAX + 1] = '\n'; /* one byte more */
		write_file(big, ROWSCAN_ROW_MAX + 2);
		assert_int_equal(scan((enum row_format)format, &f, &err), -1);
		big[ROWSCAN_ROW_MAX + 1] = 'x';
		write_file(big, ROWSCAN_ROW_MAX + 10);
		assert_int_equal(scan((enum row_format)format, &f, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_non_null(strstr(err.place, "file:2"));
		assert_non_null(strstr(err.text, "longer than 1 MiB"));
	}
	big[1] = '"';
	big[50] = '\n';
	write_file(big, ROWSCAN_ROW_MAX + 10);
	assert_int_equal(scan(ROW_CSV, &f, &err), -1);
	assert_non_null(strstr(err.place, "file:2"));
	assert_non_null(strstr(err.text, "quote"));
	write_file(big, 100);
	assert_int_equal(scan(ROW_CSV, &f, &err), -1);
	assert_non_null(strstr(err.place, "file:2"));
	assert_string_equal(err.text, "a quote is never closed");
	free(big);
}

/* libcsv over the whole text at once: rows as lists of fields. */
struct table {
	char text[200000];
	size_t len, rows;
};

static void on_field(void *data, size_t len, void *arg)
{
	struct table *t = arg;
	t->len += (size_t)snprintf(t->text + t->len, sizeof t->text - t->len, "[%.*s]", (int)len,
				   (char *)data);
	assert_true(t->len < sizeof t->text);
}

static void on_row(int c, void *arg)
{
	(void)c;
	((struct table *)arg)->rows++;
	on_field("|", 1, arg);
}

static int blank(unsigned char c)
{
	return c != (unsigned char)separator && (c == ' ' || c == '\t' || c == '\r');
}

static int newline(unsigned char c)
{
	return c == '\n';
}

static void test_rows_are_those_of_libcsv(void **state)
{
	(void)state;
	static const char alphabet[] = "ab\",\n \"\n,x\r", separators[] = ",\t; |";
	struct table *want = malloc(sizeof *want), *have = malloc(sizeof *have);
	size_t quoted = 0, unquoted = 0, left_open = 0;
	for (int round = 0; round < 3000; round++) {
		char text[2000];
		size_t len = below(round < 2900 ? 60 : sizeof text);
		separator = separators[round % 5];
		for (size_t i = 0; i < len; i++) {
			text[i] = alphabet[below(sizeof alphabet - 1)];
			if (text[i] == ',' && below(4) > 0)
				text[i] = separator;
		}
		*want = *have = (struct table){.len = 0};
		struct csv_parser csv;
		csv_init(&csv, 0);
		csv_set_delim(&csv, (unsigned char)separator);
		csv_set_space_func(&csv, blank);
		csv_set_term_func(&csv, newline);
		csv_parse(&csv, text, len, on_field, on_row, want);
		csv_set_opts(&csv, CSV_STRICT | CSV_STRICT_FINI);
		int open = csv_fini(&csv, on_field, on_row, want) != 0;
		csv_free(&csv);

		write_file(text, len);
		struct source *s;
		struct rowscan r;
		struct row_ref row;
		struct error err;
		int got;
		assert_int_equal(source_open(&s, path, &err), 0);
		assert_int_equal(
			rowscan_init(&r, (struct row_syntax){.format = ROW_CSV, .separator = separator}, &err), 0);
		assert_int_equal(rowscan_start(&r, s, 1, &err), 0);
		while ((got = rowscan_next(&r, &row, 0, &err)) == ROWSCAN_ROW) {
			const struct row_field *field;
			size_t count;
			assert_int_equal(rowscan_fields(&r, &row, &field, &count, &err), 0);
			for (size_t i = 0; i < count; i++)
				on_field((void *)(uintptr_t)field[i].data, field[i].len, have);
			on_row(0, have);
			if (row.quoted)
				quoted++;
			else
				unquoted++;
		}
		left_open += (size_t)open;
		assert_int_equal(got, open ? -1 : 0);
		if (!open) {
			assert_string_equal(have->text, want->text);
			assert_int_equal(have->rows, want->rows);
		}
		rowscan_free(&r);
		source_close(s);
	}
	assert_true(quoted > 500 && unquoted > 500 && left_open > 100);
	free(want);
	free(have);
}

#define GUESS(text) row_syntax_guess(text, sizeof text - 1).format
#define SEPARATOR(text) row_syntax_guess(text, sizeof text - 1).separator
#define MANY                                                                                       \
	"\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg"                              \
	"\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz\n"

static void test_guess(void **state)
{
	(void)state;
	assert_int_equal(GUESS(""), ROW_LINES);
	assert_int_equal(GUESS("hello world\n"), ROW_LINES);
	assert_int_equal(GUESS("a,b\n"), ROW_CSV);
	assert_int_equal(GUESS("\n\xef\xbb\xbf"), ROW_LINES);
	assert_int_equal(GUESS("1 3:1 4:1\n"), ROW_LIBSVM);
	assert_int_equal(GUESS("# a comment, first\n+1 qid:3 1:0.5\n"), ROW_LIBSVM);
	assert_int_equal(GUESS("0 1:2:3\n"), ROW_LIBSVM);
	assert_int_equal(GUESS("0" MANY), ROW_CRITEO);
	assert_int_equal(GUESS(MANY), ROW_CRITEO);
	assert_int_equal(SEPARATOR("0" MANY), '\0');
	/* As many columns, and a name where the label would be. */
	assert_int_equal(GUESS("clicked" MANY), ROW_CSV);
	assert_int_equal(SEPARATOR("clicked" MANY), '\t');
	assert_int_equal(SEPARATOR("a,b\tc,d\n1\t2\t3\n"), ',');
	assert_int_equal(SEPARATOR("name, first;age;weight, kg;y\n"), ';');
	assert_int_equal(SEPARATOR("a|b"), '|');
}

static void refused(const char *format, const char *text, const char *place, const char *why)
{
	struct row_syntax s;
	struct error err;
	assert_int_equal(row_syntax_find(format, text, &s, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.place, place);
	assert_non_null(strstr(err.text, why));
}

static void test_syntax_from_its_names(void **state)
{
	(void)state;
	static const struct {
		const char *format, *separator, *name, *text;
	} right[] = {{"csv", NULL, "csv", ","},	     {"csv", "", "csv", ","},
		     {"tsv", NULL, "tsv", "tab"},    {"csv", "tab", "tsv", "tab"},
		     {"csv", "\\t", "tsv", "tab"},   {NULL, "\t", "tsv", "tab"},
		     {"tsv", "tab", "tsv", "tab"},   {"", ";", "csv", ";"},
		     {"csv", "\001", "csv", "\001"}, {"csv", " ", "csv", " "},
		     {"criteo", "", "criteo", ""},   {"libsvm", NULL, "libsvm", ""}};
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		struct row_syntax s, again;
		struct error err;
		char text[8];
		assert_int_equal(row_syntax_find(right[i].format, right[i].separator, &s, &err), 0);
		row_separator_text(s.separator, text);
		assert_string_equal(row_syntax_name(s), right[i].name);
		assert_string_equal(text, right[i].text);
		/* What is written down is read again. */
		assert_int_equal(row_syntax_find(row_syntax_name(s), text, &again, &err), 0);
		assert_true(row_syntax_same(s, again));
	}
	refused("arff", NULL, "FORMAT", "'arff' is none of " ROW_FORMAT_CHOICES);
	refused(NULL, NULL, "FORMAT", "not given: give one of bag|");
	refused("csv", "x", "FORMAT separator", "'x' is neither");
	refused("csv", "3", "FORMAT separator", "neither");
	refused("csv", "\"", "FORMAT separator", "neither");
	refused("csv", "||", "FORMAT separator", "neither");
	refused("csv", "\xc2\xa6", "FORMAT separator", "neither");
	refused("tsv", ";", "FORMAT separator", "it is FORMAT=csv");
	refused("libsvm", ";", "FORMAT separator", "FORMAT is libsvm");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_members_are_one_stream, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_truncated_gzip_names_the_byte, set_up,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_damaged_gzip_is_an_error, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_reading_from_access_points, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_what_a_row_is, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_rows_without_end, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_rows_are_those_of_libcsv, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_guess, set_up, scratch_remove),
		cmocka_unit_test(test_syntax_from_its_names),
	};
	return cmocka_run_group_tests_name("data_rowscan", tests, NULL, NULL);
}
