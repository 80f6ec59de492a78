/*
 * Checkpoints of trainers that are not ours: what MANIFEST names, and what each gets back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "record/record.h"
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ckpt_manifest own, *const m = &own;

static int begin(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	assert_int_equal(ckpt_manifest_start(m, "job", 7, 2, 1.5, NULL), 0);
	m->foreign = 1;
	return 0;
}

static int end(void **state)
{
	ckpt_manifest_free(m);
	return scratch_remove(state);
}

static void names_stay_in_the_directory_unless_they_begin_with_a_slash(void **state)
{
	static const char *const good[] = {"w0/model.pt", "shards", "w0/a b/ü", "/elsewhere/model",
					   "w0/..x", "part-3"};
	static const char *const bad[] = {"", "/", "w0/", "w0//x", "../x", "w0/../../x", ".", "w0/.",
					  "/a/../b", "MANIFEST", "w0/model.pt"};
	char longest[CKPT_FILE_NAME_MAX + 1];
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(ckpt_add(m, good[i], 1, 2, NULL), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(ckpt_add(m, bad[i], 1, 2, NULL), -1);
	memset(longest, 'x', CKPT_FILE_NAME_MAX);
	longest[CKPT_FILE_NAME_MAX] = '\0';
	assert_int_equal(ckpt_add(m, longest, 1, 2, NULL), -1);
	assert_int_equal(ckpt_add_saved(m, "w0", "../x", NULL), -1);
	assert_int_equal(ckpt_add_saved(m, "w/0", "x", NULL), -1);
	longest[CKPT_FILE_NAME_MAX - 1] = '\0';
	assert_int_equal(ckpt_add(m, longest, 1, 2, NULL), 0);
}

/* Sharded ones of a thousand ranks. */
static void many_files(void **state)
{
	char name[64];
	struct error err = {0};
	struct ckpt_manifest back;
	(void)state;
	for (int i = 0; i < CKPT_FILES_MAX; i++) {
		snprintf(name, sizeof name, "rank-%d/shard-%d", i / 16, i % 16);
		assert_int_equal(ckpt_add(m, name, (uint64_t)i, 2, &err), 0);
	}
	assert_int_equal(ckpt_add(m, name, 1, 2, &err), -1); /* twice */
	assert_int_equal(ckpt_add(m, "more", 1, 2, &err), -1);
	assert_non_null(strstr(err.text, "more than 16384 files"));
	assert_int_equal(ckpt_commit(m, scratch, &err), 0);
	assert_int_equal(ckpt_manifest_read(&back, scratch, &err), 0);
	assert_int_equal(back.count, CKPT_FILES_MAX);
	assert_int_equal(ckpt_manifest_file(&back, "rank-999/shard-7")->bytes, 999 * 16 + 7);
	assert_null(ckpt_manifest_file(&back, "rank-999/shard-17"));
	ckpt_manifest_free(&back);
}

static void who_saved_nothing_gets_what_the_first_did(void **state)
{
	(void)state;
	assert_null(ckpt_find_saved(m, "w0"));
	ckpt_add_saved(m, "w0", NULL, NULL);
	assert_null(ckpt_find_saved(m, "w0"));
	ckpt_add_saved(m, "w10", "w10/a", NULL);
	ckpt_add_saved(m, "w2", "w2/a", NULL);
	assert_string_equal(ckpt_find_saved(m, "w0")->path, "w2/a");
	ckpt_add_saved(m, "w1", "w1/a", NULL);
	assert_string_equal(ckpt_find_saved(m, "w0")->path, "w1/a");
	assert_string_equal(ckpt_find_saved(m, "w2")->path, "w2/a");
	assert_string_equal(ckpt_find_saved(m, "w9")->path, "w1/a");
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void a_manifest_comes_back_as_it_was_and_damage_is_found(void **state)
{
	char dir[200], path[300], out[400];
	struct error err;
	(void)state;
	snprintf(dir, sizeof dir, "%s", scratch);
	snprintf(path, sizeof path, "%s/w0", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/w0/model", dir);
	write_file(path, "parameters");
	assert_int_equal(ckpt_add_file(m, dir, "w0/model", &err), 0);
	assert_int_equal(ckpt_add_saved(m, "w0", "w0/model", &err), 0);
	assert_int_equal(ckpt_add_saved(m, "w1", NULL, &err), 0);
	struct record r;
	char line[] = "held bytes=9 sum=00000000000000ff\n";
	assert_int_equal(record_first(&r, line, sizeof line - 1, &err), 0);
	assert_int_equal(ckpt_add_held(m, &r, &err), 0);
	assert_int_equal(ckpt_commit(m, dir, &err), 0);
	ckpt_manifest_free(m);
	assert_int_equal(ckpt_manifest_read(m, dir, &err), 0);
	assert_int_equal(m->foreign, 1);
	assert_int_equal(m->parts, 0);
	assert_int_equal(m->iteration, 7);
	assert_int_equal(m->saved_count, 2);
	assert_string_equal(m->saved[1].path, "");
	assert_int_equal(m->saved[0].bytes, 0);
	assert_int_equal(m->saved[1].bytes, 9);
	assert_int_equal(m->saved[1].sum, 255);
	const struct ckpt_saved *saved = ckpt_find_saved(m, "w1");
	assert_int_equal(ckpt_check_saved(m, dir, saved, out, sizeof out, &err), 0);
	assert_string_equal(out, path);
	struct ckpt *c;
	assert_int_equal(ckpt_open(&c, dir, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	write_file(path, "Parameters");
	assert_int_equal(ckpt_check_saved(m, dir, saved, out, sizeof out, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			names_stay_in_the_directory_unless_they_begin_with_a_slash, begin, end),
		cmocka_unit_test_setup_teardown(many_files, begin, end),
		cmocka_unit_test_setup_teardown(who_saved_nothing_gets_what_the_first_did, begin, end),
		cmocka_unit_test_setup_teardown(a_manifest_comes_back_as_it_was_and_damage_is_found,
						begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
