/* ckpt_list: which checkpoint is the newest, and which go. */
#include "ckpt_make.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <xxhash.h>

static const struct make tiny = {.dense = 2, .parts = 1, .piece = 2};

static char gone[256];

static void remember(const char *name, void *arg)
{
	(void)arg;
	snprintf(gone + strlen(gone), sizeof gone - strlen(gone), "%s ", name);
}

static void checkpoint(const char *name, uint64_t iteration, uint64_t incarnation)
{
	make_checkpoint(in_dir(name), &tiny, iteration, incarnation);
}

static const char *prune(uint64_t keep, const char *protect)
{
	const char *const list[] = {protect, NULL};
	const struct ckpt_pruning how = {.keep = keep, .protect = list, .removed = remember};
	gone[0] = '\0';
	OK(ckpt_prune(in_dir("d"), &how, err));
	return gone;
}

static const char *latest(void)
{
	static char path[CKPT_PATH_MAX];
	OK(ckpt_latest(in_dir("d"), path, sizeof path, err));
	return strrchr(path, '/') + 1;
}

/* By incarnation before iteration, whatever the names say. */
static void newest_is_found(void **state)
{
	char path[CKPT_PATH_MAX];
	struct error why = {0};
	(void)state;
	OK(fs_make_dirs(in_dir("d"), err));
	assert_int_equal(ckpt_latest(in_dir("d"), path, sizeof path, &why), -1);
	assert_int_equal(why.code, ERROR_NEGATIVE);
	checkpoint("d/000001", 10, 0);
	assert_string_equal(latest(), "000001");
	checkpoint("d/000002", 20, 0);
	assert_string_equal(latest(), "000002");
	checkpoint("d/000003", 15, 1);
	assert_string_equal(latest(), "000003");
	OK(fs_make_dirs(in_dir("d/000004"), err));
	assert_string_equal(latest(), "000003");
	assert_int_equal(ckpt_latest(in_dir("none"), path, sizeof path, &why), -1);
	assert_int_equal(why.code, ERROR_NOINPUT);
}

static void torn_ones_are_passed_over(void **state)
{
	(void)state;
	checkpoint("d/000001", 10, 0);
	checkpoint("d/000002", 20, 0);
	assert_int_equal(truncate(in_dir("d/000002/part-0"), 10), 0);
	assert_string_equal(latest(), "000001");
	checkpoint("d/000003", 30, 0);
	assert_int_equal(truncate(in_dir("d/000003/MANIFEST"), 100), 0);
	assert_string_equal(latest(), "000001");
	checkpoint("d/000004", 40, 0);
	assert_int_equal(unlink(in_dir("d/000004/MANIFEST")), 0);
	assert_string_equal(latest(), "000001");
}

static void old_ones_go(void **state)
{
	(void)state;
	checkpoint("d/000002", 10, 0);
	checkpoint("d/000010", 20, 0);
	checkpoint("d/000011", 30, 0);
	OK(fs_make_dirs(in_dir("d/000001"), err)); /* never finished */
	OK(fs_make_dirs(in_dir("d/000012"), err)); /* in the making */
	OK(fs_make_dirs(in_dir("d/notes"), err));  /* none of ours */
	assert_string_equal(prune(3, NULL), "000001 ");
	const char *const two[] = {"/elsewhere/000010", "000002", NULL};
	const struct ckpt_pruning how = {.keep = 1, .protect = two, .removed = remember};
	gone[0] = '\0';
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "");
	assert_string_equal(prune(1, "/elsewhere/000002/"), "000010 ");
	assert_string_equal(prune(1, "000002"), "");
	assert_string_equal(prune(1, in_dir("d/000002/.")), "");
	assert_int_equal(symlink("d/000002", in_dir("in-use")), 0);
	assert_string_equal(prune(1, in_dir("in-use")), "");
	assert_string_equal(prune(1, NULL), "000002 ");
	assert_string_equal(prune(1, NULL), "");
	assert_string_equal(latest(), "000011");
	assert_int_equal(access(in_dir("d/000012"), F_OK), 0);
	assert_int_equal(access(in_dir("d/notes"), F_OK), 0);
	assert_int_equal(access(in_dir("d/000002"), F_OK), -1);
}

/* Without a complete one nothing is older than the newest. */
static void incomplete_ones_alone_stay(void **state)
{
	(void)state;
	OK(fs_make_dirs(in_dir("d/000001"), err));
	OK(fs_make_dirs(in_dir("d/000002"), err));
	assert_string_equal(prune(1, NULL), "");
}

static void flip(const char *name)
{
	char *data;
	size_t len;
	OK(fs_read_file(in_dir(name), 1 << 20, &data, &len, err));
	data[len / 2] ^= 1;
	OK(fs_replace_file(in_dir(name), data, len, err));
	free(data);
}

/* As long as they were: only who reads them sees it. */
static void the_newest_whole_one_stays(void **state)
{
	const struct ckpt_pruning known = {.keep = 1, .good = "/anywhere/000005", .removed = remember};
	const struct ckpt_pruning one = {.keep = 1, .removed = remember};
	struct error why = {0};
	(void)state;
	for (unsigned i = 1; i <= 5; i++) {
		char name[32];
		snprintf(name, sizeof name, "d/%06u", i);
		checkpoint(name, i, 0);
	}
	flip("d/000004/part-0");
	flip("d/000005/part-0");
	assert_string_equal(prune(4, NULL), "000001 ");
	assert_string_equal(prune(1, NULL), "000002 000004 "); /* 3 is the newest whole one */
	assert_string_equal(prune(1, NULL), "");
	/* None is whole: none goes. */
	flip("d/000003/shards");
	gone[0] = '\0';
	assert_int_equal(ckpt_prune(in_dir("d"), &one, &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	assert_string_equal(gone, "");
	/* Who has just written it need not read it. */
	OK(ckpt_prune(in_dir("d"), &known, err));
	assert_string_equal(gone, "000003 ");
}

static void replace(const char *name, const char *target)
{
	assert_int_equal(unlink(in_dir(name)), 0);
	assert_int_equal(symlink(target, in_dir(name)), 0);
}

/* A disk that fails for a moment takes none of them away. */
static void what_can_not_be_read_now_stays(void **state)
{
	char path[CKPT_PATH_MAX];
	struct error why = {0};
	(void)state;
	checkpoint("alone/000001", 10, 0);
	replace("alone/000001/MANIFEST", "/proc/self/mem"); /* EIO */
	assert_int_equal(ckpt_latest(in_dir("alone"), path, sizeof path, &why), -1);
	assert_int_equal(why.code, ERROR_IO);
	checkpoint("d/000001", 10, 0);
	checkpoint("d/000002", 20, 0);
	checkpoint("d/000003", 30, 0);
	checkpoint("d/000004", 40, 0);
	replace("d/000001/MANIFEST", "/proc/self/mem"); /* EIO */
	replace("d/000002/MANIFEST", "none");
	assert_string_equal(prune(2, NULL), "000002 ");
	assert_string_equal(latest(), "000004");
}

/* Neither is it complete, nor may an older one be taken in its place, nor does it go. */
static void one_of_a_newer_program_stays(void **state)
{
	static const char head[] = "checkpoint version=3 job=j iteration=5 incarnation=0 at=1 of=tomorrow\n"
				   "end sum=";
	const struct ckpt_pruning how = {.keep = 1, .removed = remember};
	struct error why = {0};
	char path[CKPT_PATH_MAX], text[256];
	(void)state;
	checkpoint("d/000001", 10, 0);
	checkpoint("d/000002", 20, 0);
	checkpoint("d/000003", 30, 0);
	snprintf(text, sizeof text, "%s%016" PRIx64 "\n", head,
		 (uint64_t)XXH3_64bits(head, strlen(head)));
	OK(fs_replace_file(in_dir("d/000002/MANIFEST"), text, strlen(text), err));
	assert_int_equal(ckpt_latest(in_dir("d"), path, sizeof path, &why), -1);
	assert_int_equal(why.code, ERROR_CONFIG);
	assert_non_null(strstr(why.text, "newer"));
	gone[0] = '\0';
	assert_int_equal(ckpt_prune(in_dir("d"), &how, NULL), -1);
	assert_string_equal(gone, "");
	assert_int_equal(ckpt_verify(in_dir("d/000002"), NULL, NULL, &why), -1);
	assert_int_equal(why.code, ERROR_CONFIG);
}

/* What is planted there is not waited for, and not followed. */
static void links_and_pipes(void **state)
{
	(void)state;
	alarm(300);
	checkpoint("d/000001", 10, 0);
	checkpoint("d/000002", 20, 0);
	checkpoint("elsewhere", 30, 0);
	assert_int_equal(symlink("../elsewhere", in_dir("d/000003")), 0);
	assert_int_equal(unlink(in_dir("d/000002/MANIFEST")), 0);
	assert_int_equal(mkfifo(in_dir("d/000002/MANIFEST"), 0600), 0);
	assert_string_equal(latest(), "000001");
	checkpoint("d/000004", 40, 0);
	assert_string_equal(prune(2, NULL), "000002 ");
	replace("d/000001/part-0", in_dir("elsewhere/part-0"));
	assert_string_equal(prune(1, NULL), "000001 ");
	assert_int_equal(access(in_dir("elsewhere/part-0"), F_OK), 0);
	alarm(0);
}

static void one_that_can_not_be_removed_keeps_no_other(void **state)
{
	const struct ckpt_pruning how = {.keep = 1, .removed = remember};
	struct error why = {0};
	(void)state;
	checkpoint("d/000001", 10, 0);
	checkpoint("d/000002", 20, 0);
	checkpoint("d/000003", 30, 0);
	assert_int_equal(unlink(in_dir("d/000001/MANIFEST")), 0);
	OK(fs_make_dirs(in_dir("d/000001/MANIFEST"), err)); /* no file that could be unlinked */
	gone[0] = '\0';
	assert_int_equal(ckpt_prune(in_dir("d"), &how, &why), -1);
	assert_non_null(strstr(why.place, "000001/MANIFEST"));
	assert_string_equal(gone, "000002 ");
}

static void what_is_known_to_be_damaged_does_not_count(void **state)
{
	const char *const damaged[] = {"000004", "/d/000003", NULL};
	const struct ckpt_pruning how = {
		.keep = 2, .damaged = damaged, .good = "000005", .removed = remember};
	(void)state;
	for (unsigned i = 1; i <= 5; i++) {
		char name[32];
		snprintf(name, sizeof name, "d/%06u", i);
		checkpoint(name, i, 0);
	}
	gone[0] = '\0';
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "000001 "); /* 5 and 2 stay, and what is between */
	checkpoint("d/000006", 6, 0);
	gone[0] = '\0';
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "000002 000003 000004 ");
}

static void list_tells_all(void **state)
{
	struct ckpt_entry *e;
	size_t count;
	(void)state;
	checkpoint("d/7", 70, 2);
	checkpoint("d/final", 80, 2);
	OK(fs_make_dirs(in_dir("d/9"), err));
	OK(ckpt_list(in_dir("d"), &e, &count, err));
	assert_int_equal(count, 3);
	assert_string_equal(e[0].name, "9");
	assert_int_equal(e[0].complete, 0);
	assert_string_equal(e[1].name, "7");
	assert_int_equal(e[1].iteration, 70);
	assert_int_equal(e[1].incarnation, 2);
	assert_true(e[1].bytes > 100);
	assert_string_equal(e[2].name, "final");
	free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(newest_is_found, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(torn_ones_are_passed_over, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(old_ones_go, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(incomplete_ones_alone_stay, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(the_newest_whole_one_stays, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(what_can_not_be_read_now_stays, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(one_of_a_newer_program_stays, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(links_and_pipes, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(one_that_can_not_be_removed_keeps_no_other, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(what_is_known_to_be_damaged_does_not_count, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(list_tells_all, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
