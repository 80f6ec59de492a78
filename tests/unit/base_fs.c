/* base/fs and base/error: files, locks, and what their errors say. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/fs.h"

#include "rounds.h"
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *at(const char *name)
{
	static char path[4][160];
	static unsigned turn;
	char *out = path[turn++ % 4];
	snprintf(out, sizeof path[0], "%s/%s", scratch, name);
	return out;
}

static void test_dirs(void **state)
{
	(void)state;
	struct stat st;
	struct error err;
	assert_int_equal(fs_make_dirs(at("a/b/c"), &err), 0);
	assert_int_equal(fs_make_dirs(at("a/b/c"), &err), 0);
	assert_int_equal(stat(at("a/b"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fs_replace_file(at("a/file"), "x", 1, &err), 0);
	assert_int_equal(fs_make_dirs(at("a/file"), &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	assert_int_equal(fs_make_dirs(at("a/file/d"), &err), -1);
	assert_non_null(strstr(err.place, "a/file"));
	assert_int_equal(fs_make_dirs("", &err), -1);
	/* Links are removed, what they point to is not. */
	assert_int_equal(symlink(at("a"), at("link")), 0);
	assert_int_equal(fs_remove_tree(at("link"), &err), 0);
	assert_int_equal(stat(at("a/file"), &st), 0);
	assert_int_equal(fs_remove_tree(at("a"), &err), 0);
	assert_int_equal(stat(at("a"), &st), -1);
	assert_int_equal(fs_remove_tree(at("nothing"), &err), 0);
}

/* Whether a file of 1 MiB looks another one when one byte of it is changed. */
static int sees_byte(size_t byte, uint64_t max)
{
	static char text[1u << 20];
	uint64_t before, after;
	struct error err;
	memset(text, 'x', sizeof text);
	assert_int_equal(fs_replace_file(at("copy"), text, sizeof text, &err), 0);
	assert_int_equal(fs_sample_sum(at("copy"), max, &before, &err), 0);
	text[byte] = 'y';
	assert_int_equal(fs_replace_file(at("copy"), text, sizeof text, &err), 0);
	assert_int_equal(fs_sample_sum(at("copy"), max, &after, &err), 0);
	return before != after;
}

static void test_sample_sum(void **state)
{
	(void)state;
	static const size_t byte[] = {0, 65535, 300000, 524288, 1048575};
	struct error err;
	uint64_t sum;
	for (size_t i = 0; i < sizeof byte / sizeof *byte; i++)
		assert_true(sees_byte(byte[i], 1u << 20));
	assert_true(sees_byte(0, 1)); /* head and tail always */
	assert_true(sees_byte(1048575, 1));
	assert_false(sees_byte(300000, 1));
	assert_true(sees_byte(1048575, 700000));
	assert_int_equal(fs_replace_file(at("copy"), "", 0, &err), 0);
	assert_int_equal(fs_sample_sum(at("copy"), 1, &sum, &err), 0);
	assert_int_equal(fs_sample_sum(scratch, 1, &sum, &err), -1);
}

static void test_whose_dirs(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(fs_could_make_dirs(at("new/deep"), &err), 0);
	assert_int_equal(access(at("new"), F_OK), -1);
	assert_int_equal(fs_make_dirs(at("ours"), &err), 0);
	assert_int_equal(fs_is_ours(at("ours"), &err), 0);
	assert_int_equal(fs_is_ours(at("new"), &err), -1);
	assert_int_equal(err.code, ERROR_NOINPUT);
	if (geteuid() != 0) {
		assert_int_equal(chmod(at("ours"), 0500), 0);
		assert_int_equal(fs_could_make_dirs(at("ours/deep/er"), &err), -1);
		assert_int_equal(err.code, ERROR_CANTCREAT);
		assert_int_equal(chmod(at("ours"), 0700), 0);
		return;
	}
	/* Below a place for all, somebody else's directory is no place for ours. */
	assert_int_equal(fs_make_dirs(at("all/theirs/ours"), &err), 0);
	assert_int_equal(chown(at("all/theirs"), 12345, 12345), 0);
	assert_int_equal(fs_is_ours(at("all/theirs/ours"), &err), 0);
	assert_int_equal(chmod(at("all"), 01777), 0);
	assert_int_equal(fs_is_ours(at("all/theirs/ours"), &err), -1);
	assert_int_equal(err.code, ERROR_NOPERM);
	assert_int_equal(fs_is_ours(at("all/theirs"), &err), -1);
}

static void test_names(void **state)
{
	(void)state;
	char out[32];
	struct error err;
	assert_int_equal(fs_join(out, sizeof out, "/run/x", "s.sock", &err), 0);
	assert_string_equal(out, "/run/x/s.sock");
	assert_int_equal(fs_join(out, sizeof out, "/run/x", "/s.sock", &err), 0);
	assert_string_equal(out, "/s.sock");
	assert_int_equal(fs_join(out, 13, "/run/x", "s.sock", &err), -1);
	static const char *const pair[][2] = {
		{"/a/b", "/a"}, {"/a", "/"}, {"a", "."}, {"a/b/c", "a/b"}, {"", "."}};
	for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
		fs_dirname(pair[i][0], out, sizeof out);
		assert_string_equal(out, pair[i][1]);
	}
}

static void test_files(void **state)
{
	(void)state;
	struct error err;
	struct stat st;
	char *data, part[8];
	size_t len;
	char *big = malloc(100000);
	memset(big, 'b', 100000);
	assert_int_equal(fs_replace_file(at("f"), big, 100000, &err), 0);
	assert_int_equal(stat(at("f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fs_read_file(at("f"), 100000, &data, &len, &err), 0);
	assert_int_equal(len, 100000);
	assert_memory_equal(data, big, len);
	assert_int_equal(data[len], 0);
	free(data);
	free(big);
	assert_int_equal(fs_read_file(at("f"), 99999, &data, &len, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_int_equal(fs_replace_file(at("f"), "new", 3, &err), 0);
	assert_int_equal(fs_read_file(at("f"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "new");
	free(data);
	assert_int_equal(fs_replace_for_now(at("f"), "now", 3, &err), 0);
	assert_int_equal(fs_read_file(at("f"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "now");
	free(data);
	assert_int_equal(fs_read_file(at("none"), 10, &data, NULL, &err), -1);
	assert_int_equal(err.code, ERROR_NOINPUT);
	assert_non_null(strstr(err.place, "none"));
	assert_int_equal(fs_replace_file(at("none/f"), "x", 1, &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	/* What is no regular file keeps its place. */
	assert_int_equal(mkfifo(at("pipe"), 0600), 0);
	assert_int_equal(fs_replace_file(at("pipe"), "x", 1, &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	assert_int_equal(stat(at("pipe"), &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	int fd = open(at("f"), O_RDONLY);
	assert_int_equal(fs_pread_all(fd, part, 2, 1, "f", &err), 0);
	assert_memory_equal(part, "ow", 2);
	assert_int_equal(fs_pread_all(fd, part, 3, 1, "f", &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	close(fd);
	fd = open("/dev/full", O_WRONLY);
	if (fd >= 0) {
		assert_int_equal(fs_write_all(fd, "x", 1, "full", &err), -1);
		assert_int_equal(err.code, ERROR_IO);
		close(fd);
	}
}

static int fill_rival(int fd, const char *path, void *arg, struct error *err)
{
	struct error ignored;
	if (arg) /* somebody else is faster */
		assert_int_equal(fs_replace_file(path, arg, strlen(arg), &ignored), 0);
	return fs_write_all(fd, "mine", 4, path, err);
}

static void test_create(void **state)
{
	(void)state;
	struct error err;
	struct stat st;
	char *data;
	mode_t mask = umask(027);
	assert_int_equal(fs_create(at("f"), 0666, fill_rival, NULL, &err), 0);
	umask(mask);
	assert_int_equal(stat(at("f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fs_create(at("f"), 0666, fill_rival, NULL, &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	assert_int_equal(fs_create(at("g"), 0666, fill_rival, "theirs", &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	assert_int_equal(fs_read_file(at("g"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "theirs");
	free(data);
	assert_int_equal(unlink(at("f")) + unlink(at("g")), 0);
	assert_int_equal(rmdir(scratch) + mkdir(scratch, 0700), 0); /* nothing else is there */
}

/* Whoever may write to the directory can't choose where a replaced file's bytes go. */
static void test_planted_link(void **state)
{
	(void)state;
	struct error err;
	char *data, planted[128];
	assert_int_equal(fs_replace_file(at("victim"), "mine", 4, &err), 0);
	snprintf(planted, sizeof planted, "%s.tmp.%ld", at("f"), (long)getpid());
	assert_int_equal(symlink(at("victim"), planted), 0);
	assert_int_equal(fs_replace_file(at("f"), "x", 1, &err), 0);
	assert_int_equal(fs_read_file(at("victim"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "mine");
	free(data);
	/* A link in the place of the file is replaced, not followed. */
	assert_int_equal(symlink(at("victim"), at("link")), 0);
	assert_int_equal(fs_replace_file(at("link"), "x", 1, &err), 0);
	assert_int_equal(fs_read_file(at("victim"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "mine");
	free(data);
}

static int fill_and_die(int fd, const char *path, void *arg, struct error *err)
{
	(void)arg;
	if (fs_write_all(fd, "half", 4, path, err) == 0)
		raise(SIGKILL);
	return -1;
}

/* Who is killed while it writes leaves the old file, and nothing else. */
static void test_killed(void **state)
{
	(void)state;
	struct error err;
	char *data;
	int status, entries = 0;
	assert_int_equal(fs_make_dirs(at("killed"), &err), 0);
	assert_int_equal(fs_replace_file(at("killed/f"), "old", 3, &err), 0);
	pid_t child = fork();
	if (child == 0)
		_exit(fs_replace(at("killed/f"), 0600, fill_and_die, NULL, &err) != 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	DIR *dir = opendir(at("killed"));
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
		entries += entry->d_name[0] != '.';
	closedir(dir);
	assert_int_equal(entries, 1);
	assert_int_equal(fs_read_file(at("killed/f"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "old");
	free(data);
}

static void test_lock(void **state)
{
	(void)state;
	int a, b;
	struct error err;
	assert_int_equal(fs_lock(at("lock"), &a, &err), 0);
	assert_int_equal(fs_lock(at("lock"), &b, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	close(a);
	assert_int_equal(fs_lock(at("lock"), &b, &err), 0);
	assert_true(fcntl(b, F_GETFD) & FD_CLOEXEC);
	close(b);
	assert_int_equal(fs_lock(at("no/lock"), &b, &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
}

/* As on a disk that has no files without a name, and none with two. */
static int refuse_unnamed(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_linkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof code / sizeof *code, code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0
		       ? -1
		       : 0;
}

static void test_no_unnamed_files(void **state)
{
	(void)state;
	struct error err;
	char *data;
	int status, entries = 0;
	assert_int_equal(fs_make_dirs(at("named"), &err), 0);
	assert_int_equal(fs_replace_file(at("named/f"), "old", 3, &err), 0);
	pid_t child = fork();
	if (child == 0) {
		if (refuse_unnamed() != 0)
			_exit(77); /* not allowed here */
		int fd = open(scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		_exit(fd >= 0 || fs_replace_file(at("named/f"), "new", 3, &err) != 0 ||
		      fs_create(at("named/g"), 0600, fill_rival, NULL, &err) != 0 ||
		      fs_create(at("named/f"), 0600, fill_rival, NULL, &err) == 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
	DIR *dir = opendir(at("named"));
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
		entries += entry->d_name[0] != '.';
	closedir(dir);
	assert_int_equal(entries, 2);
	assert_int_equal(fs_read_file(at("named/f"), 10, &data, NULL, &err), 0);
	assert_string_equal(data, "new");
	free(data);
}

struct locker {
	const char *path;
	atomic_int *inside;
	int met;
};

static void *lock_and_remove(void *locker)
{
	struct locker *l = locker;
	for (int i = 0; i < ROUNDS(20000); i++) {
		int fd;
		if (fs_lock(l->path, &fd, NULL) != 0)
			continue;
		l->met += atomic_fetch_add(l->inside, 1);
		sched_yield();
		atomic_fetch_sub(l->inside, 1);
		unlink(l->path);
		close(fd);
	}
	return NULL;
}

/* Who opened it before that, and locks it then, has locked what nobody else can find. */
static void test_lock_that_is_removed(void **state)
{
	(void)state;
	enum { LOCKERS = 4 };
	char path[160];
	atomic_int inside = 0;
	struct locker locker[LOCKERS];
	pthread_t thread[LOCKERS];
	snprintf(path, sizeof path, "%s", at("removed"));
	for (int i = 0; i < LOCKERS; i++) {
		locker[i] = (struct locker){path, &inside, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, lock_and_remove, &locker[i]), 0);
	}
	int met = 0;
	for (int i = 0; i < LOCKERS; i++) {
		pthread_join(thread[i], NULL);
		met += locker[i].met;
	}
	assert_int_equal(met, 0);
}

static void test_errors(void **state)
{
	(void)state;
	struct error err;
	char whole[64], narrow[8];
	assert_int_equal(error_set(&err, ERROR_DATA, "f", "row %d", 3), -1);
	error_format(&err, whole, sizeof whole);
	assert_string_equal(whole, "f: row 3");
	assert_int_equal(error_wrap(&err, "job"), -1);
	error_format(&err, whole, sizeof whole);
	assert_string_equal(whole, "job: f: row 3");
	error_format(&err, narrow, sizeof narrow);
	assert_string_equal(narrow, "job: f:");
	errno = ENOSPC;
	assert_int_equal(error_errno(&err, 0, NULL, "write"), -1);
	assert_int_equal(err.code, ERROR_IO);
	error_format(&err, whole, sizeof whole);
	assert_string_equal(whole, "write: No space left on device");
	/* Long texts are cut, never written past the end. */
	char text[2000];
	memset(text, 'x', sizeof text);
	text[1999] = '\0';
	error_set(&err, 1, text, "%s", text);
	errno = EIO;
	error_errno(&err, 0, text, "%s", text);
	error_wrap(&err, text);
	assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
	assert_int_equal(error_set(NULL, 1, NULL, "x"), -1);
	assert_int_equal(error_wrap(NULL, "x"), -1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_dirs), T(test_sample_sum), T(test_whose_dirs), T(test_names), T(test_files), T(test_create), T(test_planted_link),
		T(test_killed), T(test_no_unnamed_files), T(test_lock), T(test_lock_that_is_removed),
		T(test_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
