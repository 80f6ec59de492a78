/* ckpt_reshard: the same parameters in another number of parts. */
#include "ckpt_make.h"

#include "ckpt/export.h"
#include "ckpt/reshard.h"
#include "base/fs.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct make small = {.dense = 101, .dense_slots = 2, .width = 3, .row_slots = 1,
				  .rows = 200, .parts = 3, .piece = 17};

static int reshard(const char *from, const char *to, uint32_t parts, struct error *why)
{
	struct ckpt *c;
	OK(ckpt_open(&c, in_dir(from), err));
	int result = ckpt_reshard(c, in_dir(to), parts, PLANES_LEVEL, why);
	ckpt_close(c);
	return result;
}

static void check(const char *name, uint32_t parts, const struct make *m)
{
	struct ckpt *c;
	assert_int_equal(ckpt_verify(in_dir(name), NULL, NULL, NULL), 0);
	OK(ckpt_open(&c, in_dir(name), err));
	assert_int_equal(ckpt_get_manifest(c)->parts, parts);
	assert_int_equal(ckpt_get_manifest(c)->iteration, 9);
	assert_int_equal(ckpt_get_manifest(c)->incarnation, 4);
	assert_int_equal(check_content(c, m), 0);
	assert_non_null(ckpt_find_file(c, "shards"));
	OK(ckpt_export_file(c, in_dir("now.safetensors"), err));
	ckpt_close(c);
}

static void there_and_back(void **state)
{
	static const uint32_t parts[] = {5, 2, 3, 1, 16};
	struct ckpt *c;
	char from[16] = "p0", to[16];
	(void)state;
	make_checkpoint(in_dir("p0"), &small, 9, 4);
	OK(ckpt_open(&c, in_dir("p0"), err));
	OK(ckpt_export_file(c, in_dir("first.safetensors"), err));
	ckpt_close(c);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		snprintf(to, sizeof to, "p%zu", i + 1);
		OK(reshard(from, to, parts[i], err));
		check(to, parts[i], &small);
		same_file("first.safetensors", "now.safetensors");
		strcpy(from, to);
	}
}

/* Each part has what its server wants, and nothing else. */
static void rows_are_where_they_belong(void **state)
{
	struct part_reader *p;
	char path[256];
	uint64_t rows = 0;
	(void)state;
	make_checkpoint(in_dir("a"), &small, 9, 4);
	OK(reshard("a", "b", 4, err));
	for (uint32_t i = 0; i < 4; i++) {
		snprintf(path, sizeof path, "%s/part-%u", in_dir("b"), i);
		OK(part_open(&p, path, err));
		assert_true(part_row_count(p) > 20);
		rows += part_row_count(p);
		part_close(p);
	}
	assert_int_equal(rows, small.rows);
}

static void without_rows_or_without_dense(void **state)
{
	const struct make dense = {.dense = 10, .parts = 2, .piece = 3};
	const struct make rows = {.width = 2, .rows = 30, .parts = 2, .piece = 3};
	(void)state;
	make_checkpoint(in_dir("d"), &dense, 9, 4);
	OK(reshard("d", "d3", 3, err));
	check("d3", 3, &dense);
	make_checkpoint(in_dir("r"), &rows, 9, 4);
	OK(reshard("r", "r3", 3, err));
	check("r3", 3, &rows);
}

/* What a maker that was killed has left is no reason not to make it; one that still makes it is. */
static void made_again_after_a_kill(void **state)
{
	struct error why = {0};
	int making, status;
	(void)state;
	make_checkpoint(in_dir("from"), &small, 9, 4);
	pid_t child = fork();
	if (child == 0) {
		if (ckpt_make_dir(in_dir("to"), &making, &why) == 0 &&
		    fs_replace_file(in_dir("to/part-0"), "half", 4, &why) == 0)
			raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	OK(reshard("from", "to", 2, err));
	check("to", 2, &small);
	assert_int_equal(reshard("from", "to", 2, &why), -1); /* it is whole */
	assert_int_equal(why.code, ERROR_CANTCREAT);
	OK(ckpt_make_dir(in_dir("busy"), &making, err));
	assert_int_equal(reshard("from", "busy", 2, &why), -1);
	assert_int_equal(why.code, ERROR_TEMPFAIL);
	assert_int_equal(ckpt_made_dir(in_dir("busy"), making, -1, &why), -1);
	OK(reshard("from", "busy", 2, err));
	OK(fs_make_dirs(in_dir("early"), err)); /* killed before it had its lock */
	OK(reshard("from", "early", 2, err));
	check("early", 2, &small);
}

/* It can't be locked: nothing is left that would be in the way of the next one. */
static void without_a_descriptor_nothing_is_left(void **state)
{
	struct rlimit limit, none;
	struct error why = {0};
	int making;
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int made = ckpt_make_dir(in_dir("none"), &making, &why);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(made, -1);
	assert_int_equal(access(in_dir("none"), F_OK), -1);
}

static void a_damaged_one_gives_nothing(void **state)
{
	struct error why = {0};
	char *data;
	size_t len;
	(void)state;
	make_checkpoint(in_dir("x"), &small, 9, 4);
	OK(fs_read_file(in_dir("x/part-1"), 1 << 20, &data, &len, err));
	data[200] ^= 1;
	OK(fs_replace_file(in_dir("x/part-1"), data, len, err));
	free(data);
	assert_int_equal(reshard("x", "y", 2, &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	assert_non_null(strstr(why.place, "/x/part-1: block "));
	assert_int_equal(access(in_dir("y"), F_OK), -1);
	/* What is there stays. */
	make_checkpoint(in_dir("z"), &small, 9, 4);
	OK(fs_make_dirs(in_dir("there/it"), err));
	assert_int_equal(reshard("z", "there", 2, &why), -1);
	assert_int_equal(why.code, ERROR_CANTCREAT);
	assert_int_equal(access(in_dir("there/it"), F_OK), 0);
}

/* As on a full disk: nothing is left, and the old one is as it was. */
static void no_room_leaves_nothing(void **state)
{
	struct rlimit old, limit;
	struct error why = {0};
	(void)state;
	make_checkpoint(in_dir("full"), &small, 9, 4);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t room = 0; room < 9000; room += 1000) {
		limit = (struct rlimit){.rlim_cur = room, .rlim_max = old.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		int result = reshard("full", "out", 1, &why);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		if (result == 0)
			break;
		assert_int_equal(why.code, ERROR_IO);
		assert_int_equal(access(in_dir("out"), F_OK), -1);
	}
	check("full", 3, &small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(there_and_back, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(rows_are_where_they_belong, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(without_rows_or_without_dense, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(made_again_after_a_kill, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(without_a_descriptor_nothing_is_left, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_damaged_one_gives_nothing, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(no_room_leaves_nothing, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
