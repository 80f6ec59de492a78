/* wire/drag: what a drag file says, how long a batch lasts, and that a wrong one stops nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/log.h"
#include "record/drag.h"

#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[96];
static int told;
static char last[1024];

static void sink(enum log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	told++;
	snprintf(last, sizeof last, "%s", text);
}

static int make_dir(void **state)
{
	log_set_sink(sink, NULL, LOG_LEVEL_DEBUG);
	told = 0;
	if (scratch_make(state) != 0)
		return -1;
	snprintf(path, sizeof path, "%s/w0", scratch);
	return 0;
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static struct drag parsed(const char *text)
{
	struct drag d;
	struct error err;
	assert_int_equal(drag_parse(text, strlen(text), &d, &err), 0);
	return d;
}

static void refused(const char *text, const char *why)
{
	struct drag d = {.delay = 1};
	struct error err;
	assert_int_equal(drag_parse(text, strlen(text), &d, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
	assert_true(d.delay == 0 && d.speed == 0);
}

static void test_parse(void **state)
{
	(void)state;
	struct drag d = parsed("drag delay=0.5 speed=100 launch=0.01 saturation=64 memory=512 "
			       "type=v100\n");
	assert_true(d.delay == 0.5 && d.speed == 100 && d.launch == 0.01);
	assert_int_equal(d.saturation, 64);
	assert_int_equal(d.memory, 512);
	assert_string_equal(d.type, "v100");
	d = parsed("drag speed=0 later=1\tfor people\ndrag delay=9\n");
	assert_true(d.delay == 0 && d.speed == 0);
	assert_true(parsed("drag delay=3").delay == 3); /* a text without newline is whole, too */
	assert_int_equal(parsed("drag memory=7\n").memory, 7);
	refused("drag delay=soon\n", "soon");
	refused("drag delay=-1\n", "-1");
	refused("drag speed=nan\n", "nan");
	refused("drag saturation=1.5 speed=1\n", "1.5");
	refused("dragon delay=1\n", "dragon");
	refused("drag pace=100\n", "pace= is called speed= now");
	refused("drag launch=1\n", "without speed");
	refused("drag saturation=2 delay=1\n", "saturation= without speed");
	refused("drag type=a%20b\n", "type");
	refused("drag type=a12345678901234567890123456789012345678901234567890123456789012345\n",
		"type");
	refused("\n", "");
}

/* What is written is read again. */
static void test_add(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"drag delay=0.5 speed=100 launch=0.01 saturation=64 memory=512 type=v100\n",
		"drag speed=1e+10\n", "drag memory=7\n", "drag\n"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char line[RECORD_LINE_MAX];
		struct record_out o;
		struct drag d = parsed(texts[i]);
		record_begin(&o, line, sizeof line, "drag");
		drag_add(&o, &d);
		assert_true(record_end(&o, NULL) > 0);
		assert_string_equal(line, texts[i]);
	}
}

static void test_seconds(void **state)
{
	(void)state;
	struct drag d = parsed("drag speed=100\n");
	assert_true(drag_seconds(&d, 250, 100) == 2.5); /* the old meaning: size/speed */
	assert_true(drag_seconds(&d, 250, 250) == 2.5);
	assert_true(drag_seconds(&d, 0, 100) == 0);
	assert_true(drag_seconds(&d, 0, 0) == 0);
	d = parsed("drag speed=100 launch=0.25\n");
	assert_true(drag_seconds(&d, 250, 100) == 2.5 + 3 * 0.25);
	assert_true(drag_seconds(&d, 200, 100) == 2.0 + 2 * 0.25);
	d = parsed("drag speed=100 launch=0.25 saturation=50\n");
	assert_true(drag_seconds(&d, 3, 3) == 0.5 + 0.25);
	assert_true(drag_seconds(&d, 120, 100) == 1.0 + 0.5 + 2 * 0.25);
	assert_true(drag_seconds(&d, 120, 10) == 12 * (0.5 + 0.25));
	d = parsed("drag delay=3\n");
	assert_true(drag_seconds(&d, 100, 10) == 0);
}

static void test_pause(void **state)
{
	(void)state;
	struct drag d = parsed("drag speed=100 delay=0.5\n");
	assert_true(drag_pause(&d, 100, 50, 0.25) == 0.75 + 0.5);
	assert_true(drag_pause(&d, 100, 50, 4) == 0.5); /* delay comes on top of any work */
	d = parsed("drag\n");
	assert_true(drag_pause(&d, 100, 50, 0) == 0);
}

static void test_memory(void **state)
{
	(void)state;
	struct error err;
	struct drag d = parsed("drag memory=100\n");
	assert_int_equal(drag_fits(&d, 100, &err), 0);
	assert_int_equal(drag_fits(&d, 101, &err), -1);
	assert_int_equal(err.code, ERROR_OS);
	assert_string_equal(err.text, "out of memory: a step of 101 samples, room for 100");
	d = parsed("drag\n");
	assert_int_equal(drag_fits(&d, UINT64_MAX, &err), 0);
}

static void test_look(void **state)
{
	(void)state;
	struct drag_file f = {.path = path}, none = {0};
	assert_true(drag_look(&none)->delay == 0);
	assert_true(drag_look(&f)->delay == 0);
	write_file("drag delay=2\n");
	assert_true(drag_look(&f)->delay == 2);
	assert_true(drag_look(&f)->delay == 2);
	write_file("drag delay=3\n"); /* as long as it was */
	assert_true(drag_look(&f)->delay == 3);
	write_file("drag delay=3\ndrag delay=4\n");
	assert_true(drag_look(&f)->delay == 3);
	write_file(""); /* between truncation and writing */
	assert_true(drag_look(&f)->delay == 0);
	write_file("drag delay=3\n");
	assert_true(drag_look(&f)->delay == 3);
	assert_int_equal(unlink(path), 0);
	assert_true(drag_look(&f)->delay == 0);
	assert_int_equal(told, 0);
}

static void test_look_bad(void **state)
{
	(void)state;
	struct drag_file f = {.path = path};
	char longer[DRAG_BYTES_MAX + 1];
	write_file("drag delay=soon\n");
	for (int i = 0; i < 3; i++)
		assert_true(drag_look(&f)->delay == 0);
	assert_int_equal(told, 1);
	assert_non_null(strstr(last, path));
	assert_non_null(strstr(last, "soon"));
	write_file("drag delay=later\n"); /* bad still */
	drag_look(&f);
	assert_int_equal(told, 1);
	write_file("drag delay=1\n");
	assert_true(drag_look(&f)->delay == 1);
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	write_file(longer);
	assert_true(drag_look(&f)->delay == 0);
	assert_int_equal(told, 2);
	assert_int_equal(unlink(path), 0);
	assert_true(drag_look(&f)->delay == 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(drag_look(&f)->delay == 0);
	assert_int_equal(told, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_memory),
		cmocka_unit_test_setup_teardown(test_look, make_dir, scratch_remove),
		cmocka_unit_test_setup_teardown(test_look_bad, make_dir, scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
