/* agent/saved_files: what a trainer has saved, on a disk that answers late. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "scratch.h"

#include "agent/saved_files.h"

#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static struct saved_files *begin(void)
{
	char dir[80], file[100];
	struct saved_files *s;
	struct error err;
	snprintf(dir, sizeof dir, "%s/w0", scratch);
	snprintf(file, sizeof file, "%s/state", dir);
	sem_init(&asked, 0, 0);
	sem_init(&answers, 0, 0);
	assert_true(mkdir(dir, 0700) == 0);
	FILE *f = fopen(file, "w");
	assert_non_null(f);
	fputs("weights", f);
	fclose(f);
	assert_int_equal(saved_files_start(&s, scratch, dir, "state", &err), 0);
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
	(void)state;
	assert_int_equal(poll(&p, 1, 0), 0);
	answer_all();
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(saved_files_take(s, name, &lines, &len, &err), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_are_told_once_they_are_on_the_disk,
						scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_one_that_is_abandoned_holds_nobody_up,
						scratch_make, scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
