/* wire/record: the grammar, both ways, and the reader for filters. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "record/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct record r;

static int parse(const char *line)
{
	return record_parse(&r, line, strlen(line), NULL);
}

static void test_parse(void **state)
{
	(void)state;
	assert_int_equal(parse("shard id=7 begin= a-1=x%20y%25%C3%A4 z=a=b\twhy = so"), 0);
	assert_string_equal(r.type, "shard");
	assert_int_equal(r.count, 4);
	assert_string_equal(record_get(&r, "id"), "7");
	assert_string_equal(record_get(&r, "begin"), "");
	assert_string_equal(record_get(&r, "a-1"), "x y%\xc3\xa4");
	assert_string_equal(record_get(&r, "z"), "a=b");
	assert_null(record_get(&r, "i"));
	assert_null(record_get(&r, "shard"));
	assert_string_equal(r.text, "why = so");
	assert_int_equal(parse("ok"), 0);
	assert_int_equal(r.count, 0);
	assert_null(r.text);
	assert_int_equal(parse("ok\t"), 0);
	assert_string_equal(r.text, "");
	assert_int_equal(parse("ok a=%7e%7E"), 0);
	assert_string_equal(record_get(&r, "a"), "~~");
}

static void test_bad_lines(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",        " ",       "A",       "1a",      "a_b",    "a ",        "a  b=1",
		"a b",     "a b c=1", "a =1",    "a B=1",   "a b=1 ", "a b=%",     "a b=%4",
		"a b=%4g", "a b=%00", "a b=\x01", "a b=\x7f", "a b=1\r", "a b=1 b=1", "a=1",
		"a b=1 c", "\ta",     "a b=%0",  "\xc3\xa4 b=1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct error err = {0};
		if (record_parse(&r, bad[i], strlen(bad[i]), &err) == 0)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(err.code, ERROR_DATA);
		assert_string_equal(err.place, "");
		assert_true(err.text[0] != '\0');
	}
	assert_int_equal(record_parse(&r, "a b=\0", 5, NULL), -1);
	assert_int_equal(record_parse(&r, "a\t\0", 3, NULL), -1);
	char longest[RECORD_LINE_MAX + 1];
	memset(longest, 'x', sizeof longest);
	memcpy(longest, "a b=", 4);
	assert_int_equal(record_parse(&r, longest, RECORD_LINE_MAX - 1, NULL), 0);
	assert_int_equal(strlen(record_get(&r, "b")), RECORD_LINE_MAX - 5);
	assert_int_equal(record_parse(&r, longest, RECORD_LINE_MAX, NULL), -1);
}

static void test_as_many_fields_as_fit(void **state)
{
	(void)state;
	char line[RECORD_LINE_MAX];
	size_t len = 1, count = 0;
	line[0] = 'a';
	/* Keys of one, then two letters. */
	for (int i = 0; len + 4 < sizeof line; i++, count++) {
		static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
		line[len++] = ' ';
		line[len++] = letters[i % 26];
		if (i >= 26) {
			line[len++] = letters[i / 26 % 36];
			if (i / 26 / 36 > 0)
				line[len++] = '-';
		}
		line[len++] = '=';
	}
	assert_int_equal(record_parse(&r, line, len, NULL), 0);
	assert_int_equal(r.count, count);
	assert_string_equal(record_get(&r, r.field[count - 1].key), "");
}

static void test_typed_fields(void **state)
{
	(void)state;
	uint64_t n = 7;
	double x = 7;
	const char *s;
	struct error err;
	assert_int_equal(parse("a n=12 x=0.5 bad=1x id=w-0 noid=a/b empty="), 0);
	assert_int_equal(record_u64(&r, "n", 0, 12, &n, &err), 0);
	assert_int_equal(n, 12);
	assert_int_equal(record_real(&r, "x", 0, 1, &x, &err), 0);
	assert_true(x == 0.5);
	assert_int_equal(record_id(&r, "id", &s, &err), 0);
	assert_string_equal(s, "w-0");
	assert_int_equal(record_id(&r, "noid", &s, &err), -1);
	assert_int_equal(record_id(&r, "empty", &s, &err), -1);
	n = 7;
	assert_int_equal(record_u64(&r, "n", 0, 11, &n, &err), -1);
	assert_int_equal(record_u64(&r, "bad", 0, 99, &n, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "bad="));
	assert_non_null(strstr(err.text, "'1x'"));
	assert_int_equal(record_u64(&r, "gone", 0, 99, &n, &err), -1);
	assert_non_null(strstr(err.text, "gone= is missing"));
	assert_int_equal(record_u64_opt(&r, "gone", 0, 99, &n, &err), 0);
	assert_int_equal(record_u64_opt(&r, "bad", 0, 99, &n, &err), -1);
	assert_int_equal(n, 7);
	/* A number that does not exist is written as an empty value. */
	x = 7;
	assert_int_equal(record_real_opt(&r, "empty", 0, 99, &x, &err), 0);
	assert_true(x == 7);
	assert_int_equal(record_real_opt(&r, "bad", 0, 99, &x, &err), -1);
	assert_int_equal(record_real(&r, "empty", 0, 99, &x, &err), -1);
	assert_int_equal(record_u64_opt(&r, "empty", 0, 99, &n, &err), -1);
}

static void test_write(void **state)
{
	(void)state;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "a");
	record_add(&o, "s", "x y%\t\n\xc3\xa4");
	record_add_u64(&o, "n", UINT64_MAX);
	record_add_real(&o, "x", 0.1);
	record_add_real(&o, "nan", NAN);
	record_add_seconds(&o, "t", 1.0000004);
	record_add_seconds(&o, "inf", INFINITY);
	size_t len = record_end(&o, "two\nlines");
	assert_string_equal(line, "a s=x%20y%25%09%0A\xc3\xa4 n=18446744073709551615 x=0.1 nan= "
				  "t=1.000000 inf=\ttwo lines\n");
	assert_int_equal(len, strlen(line));
	/* And back. */
	assert_int_equal(record_parse(&r, line, len - 1, NULL), 0);
	assert_string_equal(record_get(&r, "s"), "x y%\t\n\xc3\xa4");
	record_begin(&o, line, sizeof line, "b");
	record_add_fields(&o, &r, "n");
	record_end(&o, NULL);
	assert_string_equal(line,
			    "b s=x%20y%25%09%0A\xc3\xa4 x=0.1 nan= t=1.000000 inf=\n");
}

/* Whatever the room, nothing is written past it, and what does not fit says so. */
static void test_expression(void **state)
{
	(void)state;
	char name[8] = "a b";
	struct record_out *o = RECORD("a", F("text", name), F("empty", ""), F("count", UINT64_MAX),
				      name[0] == 'x' ? F("x", 1) : F_NONE, F_REAL("real", 0.1),
				      F_BRIEF("brief", 1.0 / 3), F_BRIEF("none", NAN),
				      F_SECONDS("seconds", 1.5), F_NONE);
	assert_int_not_equal(record_end(o, NULL), 0);
	assert_string_equal(o->data, "a text=a%20b empty= count=18446744073709551615 real=0.1 "
				     "brief=0.333333333 none= seconds=1.500000\n");
	o = RECORD_BARE("end");
	assert_int_equal(record_end(o, "for people"), strlen("end\tfor people\n"));
	assert_string_equal(o->data, "end\tfor people\n");
	char long_text[RECORD_LINE_MAX + 1];
	memset(long_text, 'x', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = '\0';
	o = RECORD("a", F("text", long_text), F("count", 1));
	assert_int_equal(record_end(o, NULL), 0);
	assert_string_equal(o->data, "");
}

static void test_no_room(void **state)
{
	(void)state;
	for (size_t max = 1; max < 40; max++) {
		char *line = malloc(max);
		struct record_out o;
		record_begin(&o, line, max, "type");
		record_add(&o, "key", "a b c");
		record_add_u64(&o, "n", 123456);
		size_t len = record_end(&o, NULL);
		assert_true(len == (max >= 29 ? 28 : 0));
		free(line);
	}
	/* A text that is too long is cut, the record stays. */
	char line[16];
	struct record_out o;
	record_begin(&o, line, sizeof line, "ok");
	assert_int_equal(record_end(&o, "a text that is too long"), 15);
	assert_memory_equal(line, "ok\ta text that ", 14);
	assert_int_equal(line[14], '\n');
}

static uint64_t seed = 88172645463325252u;

static unsigned next(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed % n);
}

/* Any bytes: taken or refused; what is taken and written again means the same. */
static void test_noise(void **state)
{
	(void)state;
	static const char common[] = "ab cd=ef% 09AF-\t==  ";
	static struct record again;
	for (int i = 0; i < 200000; i++) {
		char line[64], copy[RECORD_LINE_MAX];
		size_t len = next(sizeof line);
		for (size_t k = 0; k < len; k++)
			line[k] = next(16) ? common[next(sizeof common - 1)] : (char)next(256);
		char *exact = malloc(len ? len : 1);
		memcpy(exact, line, len);
		int taken = record_parse(&r, exact, len, NULL) == 0;
		free(exact);
		if (!taken)
			continue;
		struct record_out o;
		record_begin(&o, copy, sizeof copy, r.type);
		record_add_fields(&o, &r, NULL);
		size_t n = record_end(&o, NULL);
		assert_true(n > 0);
		assert_int_equal(record_parse(&again, copy, n - 1, NULL), 0);
		assert_int_equal(again.count, r.count);
		for (size_t k = 0; k < r.count; k++) {
			assert_string_equal(again.field[k].key, r.field[k].key);
			assert_string_equal(again.field[k].value, r.field[k].value);
		}
	}
}

/* A pipe that holds data, written by a child in pieces of step bytes. */
static int feed(const char *data, size_t len, size_t step, pid_t *child)
{
	int end[2];
	assert_int_equal(pipe(end), 0);
	*child = fork();
	if (*child == 0) {
		close(end[0]);
		for (size_t at = 0; at < len; at += step)
			if (write(end[1], data + at, len - at < step ? len - at : step) < 0)
				_exit(1);
		_exit(0);
	}
	close(end[1]);
	return end[0];
}

static void done(struct record_reader *in, int fd, pid_t child)
{
	record_reader_free(in);
	close(fd);
	waitpid(child, NULL, 0);
}

static void test_reader(void **state)
{
	(void)state;
	static const char data[] = "a n=1\n\nb n=2\ttext\nc n=3";
	for (size_t step = 1; step < sizeof data; step++) {
		pid_t child;
		struct error err;
		int fd = feed(data, sizeof data - 1, step, &child);
		struct record_reader *in = record_reader_new(fd, "stdin");
		assert_false(record_reader_buffered(in));
		assert_int_equal(record_read(in, &r, &err), RECORD_ONE);
		assert_string_equal(record_reader_place(in), "stdin:1");
		assert_int_equal(record_read(in, &r, &err), RECORD_BLANK);
		assert_int_equal(record_read(in, &r, &err), RECORD_ONE);
		assert_string_equal(r.text, "text");
		assert_int_equal(record_reader_line(in), 3);
		assert_int_equal(record_read(in, &r, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_string_equal(err.place, "stdin:4");
		done(in, fd, child);
	}
}

static void test_reader_edges(void **state)
{
	(void)state;
	size_t len = 300000, at = 0, lines = 0;
	char *data = malloc(len);
	while (at + 20 < len) {
		at += (size_t)snprintf(data + at, len - at, "bpt i=%zu\n", lines);
		lines++;
	}
	pid_t child;
	struct error err;
	int fd = feed(data, at, 70001, &child);
	struct record_reader *in = record_reader_new(fd, "x");
	for (size_t i = 0; i < lines; i++) {
		uint64_t n;
		assert_int_equal(record_read(in, &r, &err), RECORD_ONE);
		assert_int_equal(record_u64(&r, "i", 0, UINT64_MAX, &n, &err), 0);
		assert_int_equal(n, i);
	}
	assert_int_equal(record_read(in, &r, &err), RECORD_END);
	done(in, fd, child);
	/* A line of 4096 bytes with its newline, then one that is a byte longer. */
	memset(data, 'x', 3 * RECORD_LINE_MAX);
	memcpy(data, "a b=", 4);
	data[RECORD_LINE_MAX - 1] = '\n';
	memcpy(data + RECORD_LINE_MAX, "a b=", 4);
	data[2 * RECORD_LINE_MAX] = '\n';
	fd = feed(data, 2 * RECORD_LINE_MAX + 1, 1000, &child);
	in = record_reader_new(fd, "x");
	assert_int_equal(record_read(in, &r, &err), RECORD_ONE);
	assert_int_equal(record_read(in, &r, &err), -1);
	assert_string_equal(err.place, "x:2");
	done(in, fd, child);
	fd = feed("a n=1 n=2\n", 10, 10, &child);
	in = record_reader_new(fd, "x");
	assert_int_equal(record_read(in, &r, &err), -1);
	assert_string_equal(err.place, "x:1");
	done(in, fd, child);
	fd = feed("", 0, 1, &child);
	in = record_reader_new(fd, "x");
	assert_int_equal(record_read(in, &r, &err), RECORD_END);
	done(in, fd, child);
	free(data);
	/* A descriptor that can't be read. */
	in = record_reader_new(-1, "x");
	assert_int_equal(record_read(in, &r, &err), -1);
	assert_int_equal(err.code, ERROR_IO);
	record_reader_free(in);
}

static void test_walk(void **state)
{
	(void)state;
	static const char text[] = "a b=1\n\nno record\nc\n\n\nd e=";
	struct error err = {0};
	struct record_walk w = record_walk(text, strlen(text));
	assert_int_equal(record_next(&w, &r, &err), RECORD_ONE);
	assert_true(record_is(&r, "a"));
	assert_int_equal(w.number, 1);
	assert_int_equal(w.len, 5);
	assert_ptr_equal(w.line, text);
	assert_int_equal(record_next(&w, &r, &err), -1);
	assert_int_equal(w.number, 3);
	assert_int_equal(err.code, ERROR_DATA);
	assert_int_equal(record_next(&w, &r, &err), RECORD_ONE);
	assert_true(record_is(&r, "c"));
	assert_int_equal(w.number, 4);
	assert_int_equal(record_next(&w, &r, &err), -1);
	assert_string_equal(err.text, "the last line has no newline");
	assert_int_equal(w.number, 7);
	assert_int_equal(record_next(&w, &r, &err), RECORD_END);
	w = record_walk("", 0);
	assert_int_equal(record_next(&w, &r, &err), RECORD_END);

	assert_int_equal(record_first(&r, text, 5, &err), 0);
	assert_string_equal(record_get(&r, "b"), "1");
	assert_int_equal(record_first(&r, text, sizeof text - 1, &err), 0);
	assert_string_equal(record_get(&r, "b"), "1");
	assert_int_equal(record_first(&r, "", 0, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_as_many_fields_as_fit),
		cmocka_unit_test(test_typed_fields),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_expression),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_reader),
		cmocka_unit_test(test_reader_edges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
