/* proc_keeper: what is held outlives who made it, nobody can change it, and it is taken for no other. */
#include "proc/keeper.h"

#include "base/fs.h"
#include "base/keep.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char link_path[256];

static int begin(void **state)
{
	int made = scratch_make(state);
	snprintf(link_path, sizeof link_path, "%s/link", scratch);
	return made;
}

static int made(const char *name, const char *text)
{
	int fd = keep_new(name, NULL);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void holds(const char *name, const char *text)
{
	char is[64];
	int fd = keep_open(link_path, name);
	assert_true(fd >= 0);
	ssize_t n = read(fd, is, sizeof is - 1);
	is[n > 0 ? n : 0] = '\0';
	assert_string_equal(is, text);
	close(fd);
}

static void it_outlives_who_made_it(void **state)
{
	struct error err;
	int status, keeper = keeper_start();
	(void)state;
	assert_true(keeper >= 0);
	int fd = made("one", "first");
	assert_int_equal(keep_give(keeper, link_path, fd, &err), 0);
	/* Sealed, for everybody. */
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	close(fd);
	holds("one", "first");
	assert_int_equal(keep_open(link_path, "two"), -1);
	/* One at a time. */
	fd = made("two", "second");
	assert_int_equal(keep_give(keeper, link_path, fd, &err), 0);
	close(fd);
	holds("two", "second");
	assert_int_equal(keep_open(link_path, "one"), -1);
	close(keeper);
	holds("two", "second");
	/* Whoever takes over removes the link; then it ends. */
	assert_int_equal(unlink(link_path), 0);
	assert_true(waitpid(-1, &status, 0) > 0);
	assert_int_equal(status, 0);
}

static void it_lets_go_and_ends(void **state)
{
	struct error err;
	int status, keeper = keeper_start();
	(void)state;
	int fd = made("one", "first");
	assert_int_equal(keep_give(keeper, link_path, fd, &err), 0);
	close(fd);
	assert_int_equal(keep_give(keeper, link_path, -1, &err), 0);
	assert_int_equal(access(link_path, F_OK), -1);
	close(keeper);
	assert_true(waitpid(-1, &status, 0) > 0);
	assert_int_equal(status, 0);
}

/* A file, or a link to one that is not sealed: whoever it belongs to. */
static void others_are_not_taken(void **state)
{
	char target[64];
	int fd = made("one", "first");
	(void)state;
	snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), fd);
	assert_int_equal(symlink(target, link_path), 0);
	assert_int_equal(keep_open(link_path, "one"), -1);
	close(fd);
	assert_int_equal(keep_open(link_path, "one"), -1);
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(fs_replace_file(link_path, "x", 1, NULL), 0);
	assert_int_equal(keep_open(link_path, "one"), -1);
	assert_int_equal(unlink(link_path), 0);
}

static void a_number_is_no_socket(void **state)
{
	char number[16];
	int ends[2];
	(void)state;
	assert_int_equal(keep_socket(NULL), -1);
	assert_int_equal(keep_socket(""), -1);
	assert_int_equal(keep_socket("x"), -1);
	assert_int_equal(keep_socket("99999999999"), -1);
	assert_int_equal(keep_socket("1000"), -1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	snprintf(number, sizeof number, "%d", ends[0]);
	assert_int_equal(keep_socket(number), -1);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	snprintf(number, sizeof number, "%d", ends[0]);
	assert_int_equal(keep_socket(number), ends[0]);
	/* Nobody answers: it is not kept. */
	close(ends[1]);
	assert_int_equal(keep_give(ends[0], link_path, -1, NULL), -1);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_outlives_who_made_it),
		cmocka_unit_test(it_lets_go_and_ends),
		cmocka_unit_test(others_are_not_taken),
		cmocka_unit_test(a_number_is_no_socket),
	};
	return cmocka_run_group_tests(tests, begin, scratch_remove);
}
