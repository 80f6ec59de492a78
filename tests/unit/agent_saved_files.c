/* agent/saved_files: what a trainer has saved, on a disk that answers late. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "scratch.h"

#include "agent/saved_files.h"
#include "base/keep.h"
#include "ckpt/memory.h"
#include "proc/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static sem_t asked, answers; /* the disk's */

/* In place of the C library's. */
int fsync(int fd)
{
	(void)fd;
	sem_post(&asked);
	while (sem_wait(&answers) != 0)
		;
	return 0;
}

static const struct saved_memory nowhere = {.worker = "w0", .keeper = -1, .load_root = ""};
static char dir[80], file[100];

static void make_dir(void)
{
	snprintf(dir, sizeof dir, "%s/w0", scratch);
	snprintf(file, sizeof file, "%s/state", dir);
	sem_init(&asked, 0, 0);
	sem_init(&answers, 0, 0);
	assert_true(mkdir(dir, 0700) == 0);
}

static struct saved_files *begin(void)
{
	struct saved_files *s;
	struct error err;
	make_dir();
	FILE *f = fopen(file, "w");
	assert_non_null(f);
	fputs("weights", f);
	fclose(f);
	assert_int_equal(saved_files_start(&s, scratch, dir, "state", -1, 0, &nowhere, &err), 0);
	while (sem_wait(&asked) != 0)
		;
	return s;
}

static void answer_all(void)
{
	for (int i = 0; i < 100; i++)
		sem_post(&answers);
}

static void test_files_are_told_once_they_are_on_the_disk(void **state)
{
	struct saved_files *s = begin();
	struct pollfd p = {.fd = saved_files_fd(s), .events = POLLIN};
	char name[CKPT_FILE_NAME_MAX], *lines;
	struct error err;
	size_t len;
	struct saved_state held;
	int memory;
	(void)state;
	assert_int_equal(poll(&p, 1, 0), 0);
	answer_all();
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(saved_files_take(s, name, &lines, &len, &held, &memory, &err), 0);
	assert_int_equal(memory, -1);
	assert_string_equal(name, "w0/state");
	assert_true(len > 0 && strstr(lines, "bytes=7") != NULL);
	free(lines);
}

/* Who gives it up does not wait for the disk, which answers nothing. */
static void test_one_that_is_abandoned_holds_nobody_up(void **state)
{
	struct saved_files *s = begin();
	int fd = saved_files_fd(s);
	struct stat st;
	(void)state;
	saved_files_abandon(NULL);
	saved_files_abandon(s);
	answer_all();
	while (fstat(fd, &st) == 0) /* until the thread has freed it */
		usleep(1000);
}

/* ---- memory ---- */

static int written(const char *text)
{
	int fd = keep_new(CKPT_MEMORY_STATE, NULL);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* -1: it can't be saved; *fd is the next memory. */
static int saved_fd(int memory, const struct saved_memory *kept, struct ckpt_file *out, int *fd,
		    struct error *err)
{
	char name[CKPT_FILE_NAME_MAX], *lines = NULL;
	struct record r;
	struct saved_files *s;
	struct saved_state held;
	size_t len;
	answer_all();
	assert_int_equal(saved_files_start(&s, scratch, dir, "state", memory, 7, kept, err), 0);
	struct pollfd p = {.fd = saved_files_fd(s), .events = POLLIN};
	assert_int_equal(poll(&p, 1, -1), 1);
	if (saved_files_take(s, name, &lines, &len, &held, fd, err) != 0)
		return -1;
	assert_int_equal(held.fd >= 0, kept->keeper >= 0);
	if (held.fd >= 0) {
		assert_int_equal(ckpt_memory_keep(kept->dir, kept->worker, held.sum, held.fd,
						  kept->keeper, err),
				 0);
		close(held.fd);
	}
	const char *sum;
	assert_string_equal(name, "w0/state");
	assert_int_equal(record_first(&r, lines, len, err), 0);
	assert_int_equal(record_u64(&r, "bytes", 1, 1000, &out->bytes, err), 0);
	assert_int_equal(record_text(&r, "sum", &sum, err), 0);
	out->sum = strtoull(sum, NULL, 16);
	free(lines);
	return 0;
}

static int saved(const char *text, const struct saved_memory *kept, struct ckpt_file *out, int *fd,
		 struct error *err)
{
	return saved_fd(written(text), kept, out, fd, err);
}

static void holds(const char *path, const char *text)
{
	char is[64];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, is, sizeof is - 1);
	is[n > 0 ? n : 0] = '\0';
	assert_string_equal(is, text);
	close(fd);
}

static void test_memory_becomes_a_file_and_there_is_as_much_for_the_next(void **state)
{
	struct ckpt_file f;
	struct error err;
	struct stat st;
	int next;
	(void)state;
	make_dir();
	assert_int_equal(saved("weights", &nowhere, &f, &next, &err), 0);
	holds(file, "weights");
	assert_int_equal(fstat(next, &st), 0);
	assert_int_equal(st.st_size, 7);
	assert_int_equal(fcntl(next, F_GET_SEALS), 0);
	close(next);
}

static void test_a_disk_that_is_full_keeps_nothing(void **state)
{
	struct rlimit all, few;
	struct ckpt_file f;
	struct error err;
	int next, fd = written("weights");
	(void)state;
	make_dir();
	getrlimit(RLIMIT_FSIZE, &all);
	few = (struct rlimit){3, all.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &few);
	int result = saved_fd(fd, &nowhere, &f, &next, &err);
	setrlimit(RLIMIT_FSIZE, &all);
	assert_int_equal(result, -1);
	assert_non_null(strstr(err.text, "File too large"));
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(next, -1);
}

static void test_a_state_that_is_only_to_be_held_is_on_no_disk(void **state)
{
	char name[CKPT_FILE_NAME_MAX], *lines;
	const struct saved_memory kept = {"/nowhere", "w1", 0, ""};
	struct saved_files *s;
	struct saved_state held;
	struct record r;
	struct error err;
	size_t len;
	int next;
	(void)state;
	make_dir();
	assert_int_equal(saved_files_start(&s, dir, dir, NULL, written("weights"), 7, &kept, &err), 0);
	struct pollfd p = {.fd = saved_files_fd(s), .events = POLLIN};
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(saved_files_take(s, name, &lines, &len, &held, &next, &err), 0);
	assert_int_equal(record_first(&r, lines, len, NULL), 0);
	assert_true(record_is(&r, "held"));
	snprintf(name, sizeof name, "/proc/self/fd/%d", held.fd);
	holds(name, "weights");
	close(held.fd);
	close(next);
	free(lines);
	assert_int_equal(rmdir(dir), 0);
}

static void test_what_is_kept_is_found_if_it_is_that_file(void **state)
{
	char kept_dir[100], path[200], other[200];
	struct error err;
	struct ckpt_file f = {0}, wrong;
	const struct saved_memory kept = {kept_dir, "w0", keeper_start(), ""};
	int next, fd;
	(void)state;
	make_dir();
	snprintf(kept_dir, sizeof kept_dir, "%s/kept", scratch);
	assert_int_equal(ckpt_memory_find(kept_dir, "w0", f.bytes, f.sum), -1);
	assert_int_equal(saved("weights", &kept, &f, &next, &err), 0);
	close(next);
	close(kept.keeper); /* its node has ended */
	fd = ckpt_memory_find(kept_dir, "w0", f.bytes, f.sum);
	assert_true(fd >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	holds(path, "weights");
	assert_int_equal(ckpt_memory_find(kept_dir, "w1", f.bytes, f.sum), -1);
	wrong = f;
	wrong.bytes++;
	assert_int_equal(ckpt_memory_find(kept_dir, "w0", wrong.bytes, wrong.sum), -1);
	/* There is one of each worker. */
	const struct saved_memory dotted = {kept_dir, "w0.1", keeper_start(), ""};
	assert_int_equal(unlink(file), 0);
	assert_int_equal(saved("weights", &dotted, &wrong, &next, &err), 0);
	close(next);
	const struct saved_memory again = {kept_dir, "w0", keeper_start(), ""};
	assert_int_equal(unlink(file), 0);
	assert_int_equal(saved("heights", &again, &wrong, &next, &err), 0);
	close(next);
	assert_int_equal(ckpt_memory_find(kept_dir, "w0", f.bytes, f.sum), -1);
	close(fd);
	fd = ckpt_memory_find(kept_dir, "w0.1", f.bytes, f.sum);
	assert_true(fd >= 0);
	close(fd);
	close(dotted.keeper);
	f = wrong;
	fd = ckpt_memory_find(kept_dir, "w0", f.bytes, f.sum);
	assert_true(fd >= 0);
	/* A link of that name to another one's memory. */
	wrong = f;
	wrong.sum++;
	snprintf(path, sizeof path, "%s/state-w0.%016llx", kept_dir, (unsigned long long)f.sum);
	snprintf(other, sizeof other, "%s/state-w0.%016llx", kept_dir,
		 (unsigned long long)wrong.sum);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(ckpt_memory_find(kept_dir, "w0", wrong.bytes, wrong.sum), -1);
	assert_int_equal(ckpt_memory_find(kept_dir, "w0", f.bytes, f.sum), -1);
	ckpt_memory_forget_all(kept_dir);
	assert_int_equal(access(kept_dir, F_OK), -1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_are_told_once_they_are_on_the_disk,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_one_that_is_abandoned_holds_nobody_up,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(
			test_memory_becomes_a_file_and_there_is_as_much_for_the_next, scratch_make,
			scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_disk_that_is_full_keeps_nothing,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_a_state_that_is_only_to_be_held_is_on_no_disk,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_what_is_kept_is_found_if_it_is_that_file,
						scratch_make, scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
