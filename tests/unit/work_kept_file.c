/* work_kept_file: what a worker kept outlives it, and goes to one who asks for that part; what is
 * wrong is taken for nothing. */
#include "work/kept_file.h"

#include "base/fs.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct kept_owner owner = {
	.part = "run/ps1.sock", .worker = "w0", .generation = 7, .incarnation = 2};
static char dir[128];

#define BEFORE_PUSHES 135168 /* bytes of the file: the owner, and the table */

static int begin(void **state)
{
	int made = scratch_make(state);
	snprintf(dir, sizeof dir, "%s/memory", scratch);
	return made;
}

static int add(struct kept_file *f, uint64_t sequence, const void *payload, size_t bytes)
{
	char line[64];
	struct error err;
	int n = snprintf(line, sizeof line, "push worker=w0 sequence=%d", (int)sequence);
	return kept_file_add(f, line, (size_t)n, sequence, payload, bytes, &err);
}

static void has(struct kept_file *f, uint64_t from, uint64_t sequence, const char *text)
{
	struct kept_push q;
	struct error err;
	assert_int_equal(kept_file_get(f, from, &q, &err), 1);
	assert_int_equal(q.sequence, sequence);
	assert_int_equal(q.head + q.bytes, strlen(text));
	assert_memory_equal(q.text, text, strlen(text));
	free(q.text);
}

/* A worker that keeps pushes 1 to 4, needs the first two no more, and dies when *go ends. */
static pid_t worker(int *go)
{
	struct kept_file *f;
	struct error err;
	int ready[2], end[2];
	char word;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(end[1]);
		if (kept_file_new(&f, &owner, dir, &err) != 0)
			_exit(1);
		for (uint64_t i = 1; i <= 4; i++)
			if (add(f, i, "abcd", i) != 0)
				_exit(1);
		kept_file_until(f, 3);
		close(ready[1]);
		_exit(read(end[0], &word, 1) != 0);
	}
	close(ready[1]);
	close(end[0]);
	assert_int_equal(read(ready[0], &word, 1), 0);
	close(ready[0]);
	*go = end[1];
	return pid;
}

static void dies(pid_t pid, int go)
{
	int status;
	close(go);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* The only file there; "" if there is none. */
static const char *only(void)
{
	static char path[512];
	char line[400] = "";
	snprintf(path, sizeof path, "ls %s 2>/dev/null", dir);
	FILE *in = popen(path, "r");
	assert_non_null(in);
	path[0] = '\0';
	if (fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(path, sizeof path, "%.100s/%.200s", dir, line);
	}
	pclose(in);
	return path;
}

static void it_outlives_its_worker(void **state)
{
	struct kept_file *f, *g;
	struct kept_push q;
	struct error err;
	int go;
	(void)state;
	pid_t pid = worker(&go);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 0); /* it lives */
	dies(pid, go);
	assert_int_equal(kept_file_adopt(&f, dir, "other/ps1.sock"), 0);
	assert_int_equal(kept_file_adopt(&f, dir, "run/ps2.sock"), 0);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	assert_int_equal(kept_file_adopt(&g, dir, owner.part), 0); /* only one gets it */
	assert_string_equal(kept_file_owner(f)->worker, "w0");
	assert_int_equal(kept_file_owner(f)->generation, 7);
	assert_int_equal(kept_file_owner(f)->incarnation, 2);
	has(f, 0, 3, "kept worker=w0 sequence=3 bytes=3\nabc");
	has(f, 4, 4, "kept worker=w0 sequence=4 bytes=4\nabcd");
	assert_int_equal(kept_file_get(f, 5, &q, &err), 0);
	kept_file_close(f, 0); /* not needless: the next one gets it */
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	has(f, 0, 3, "kept worker=w0 sequence=3 bytes=3\nabc");
	kept_file_until(f, 4);
	has(f, 0, 4, "kept worker=w0 sequence=4 bytes=4\nabcd");
	kept_file_close(f, 1);
	assert_int_not_equal(access(dir, F_OK), 0);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 0);
}

static void cut_to(const char *path, off_t less)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - less), 0);
}

static void what_is_cut_off_is_not_there(void **state)
{
	struct kept_file *f;
	struct kept_push q;
	struct error err;
	int go;
	(void)state;
	pid_t pid = worker(&go);
	dies(pid, go);
	cut_to(only(), 1); /* push 4 lacks its last byte */
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	has(f, 0, 3, "kept worker=w0 sequence=3 bytes=3\nabc");
	assert_int_equal(kept_file_get(f, 4, &q, &err), 0);
	kept_file_close(f, 0);
	cut_to(only(),
	       strlen("kept worker=w0 sequence=4 bytes=4\nabcd")); /* and 3 a byte of its own */
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	assert_int_equal(kept_file_bytes(f), 0);
	kept_file_close(f, 1);
}

static void what_is_no_such_file_is_removed(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"kept-file part=run/ps1.sock worker=w0 generation=7 incarnation=2", /* cut off */
		"kept-file part=run/ps1.sock worker=w0 generation=0 incarnation=2\n",
		"kept-file part=run/ps1.sock generation=7 incarnation=2\n",
		"kept part=run/ps1.sock worker=w0 generation=7 incarnation=2\n",
		"\x01\x02 no record\n",
	};
	struct kept_file *f;
	FILE *out;
	char path[200];
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		mkdir(dir, 0700);
		snprintf(path, sizeof path, "%s/kept-ps1.sock-w0-7-1", dir);
		out = fopen(path, "w");
		assert_non_null(out);
		assert_true(fputs(bad[i], out) >= 0);
		fclose(out);
		assert_int_equal(kept_file_adopt(&f, dir, owner.part), 0);
		assert_int_not_equal(access(path, F_OK), 0);
	}
	/* A link could lead anywhere: it stays, and is not followed. */
	mkdir(dir, 0700);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 0);
	assert_string_equal(only(), path);
	/* A table of nonsense. */
	assert_int_equal(unlink(path), 0);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs("kept-file part=run/ps1.sock worker=w0 generation=7 incarnation=2\n", out);
	for (int i = 0; i < 200000; i++)
		fputc(i % 32 < 8 ? '\xff' : i % 32 < 16 ? 0 : '\1', out);
	fclose(out);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	assert_int_equal(kept_file_bytes(f), 0);
	kept_file_close(f, 1);
}

static void a_push_that_is_damaged_is_not_there(void **state)
{
	static const char first[] = "kept worker=w0 sequence=3";
	struct kept_file *f;
	size_t len;
	char *text;
	int go;
	(void)state;
	pid_t pid = worker(&go);
	dies(pid, go);
	assert_int_equal(fs_read_file(only(), 1 << 20, &text, &len, NULL), 0);
	char *at = memmem(text, len, first, sizeof first - 1);
	assert_non_null(at);
	int fd = open(only(), O_WRONLY);
	assert_int_equal(pwrite(fd, "push", 4, at - text), 4);
	close(fd);
	free(text);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	has(f, 0, 4, "kept worker=w0 sequence=4 bytes=4\nabcd");
	kept_file_close(f, 1);
}

static void without_room_nothing_is_half_kept(void **state)
{
	struct kept_file *f;
	struct rlimit was, now;
	static char payload[1 << 16];
	struct kept_push q;
	struct error err;
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(kept_file_new(&f, &owner, dir, &err), 0);
	assert_int_equal(add(f, 1, "abcd", 4), 0);
	now = was;
	now.rlim_cur = BEFORE_PUSHES + sizeof payload / 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
	assert_int_equal(add(f, 2, payload, sizeof payload), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(add(f, 3, "abcd", 4), 0);
	kept_file_close(f, 0);
	assert_int_equal(kept_file_adopt(&f, dir, owner.part), 1);
	has(f, 0, 1, "kept worker=w0 sequence=1 bytes=4\nabcd");
	has(f, 2, 3, "kept worker=w0 sequence=3 bytes=4\nabcd");
	assert_int_equal(kept_file_get(f, 4, &q, &err), 0);
	kept_file_close(f, 1);
}

/* With a name and without: the room of what goes is used again, also when the file is never empty.
 */
static void what_is_not_needed_makes_room(void **state)
{
	static char payload[10000];
	(void)state;
	for (int named = 0; named < 2; named++) {
		struct kept_file *f;
		struct error err;
		struct stat st;
		memset(payload, 1, sizeof payload);
		assert_int_equal(kept_file_new(&f, &owner, named ? dir : NULL, &err), 0);
		for (uint64_t i = 1; i <= 300; i++) {
			assert_int_equal(add(f, i, payload, sizeof payload - i % 7), 0);
			kept_file_until(f, i > 3 ? i - 2 : 0); /* three stay */
			assert_in_range(kept_file_bytes(f), 0, 4 * sizeof payload);
		}
		if (named) {
			assert_int_equal(stat(only(), &st), 0);
			assert_true(st.st_size < BEFORE_PUSHES + 10 * (off_t)sizeof payload);
		}
		/* They are what they were. */
		for (uint64_t i = 298; i <= 300; i++) {
			struct kept_push q;
			assert_int_equal(kept_file_get(f, i, &q, &err), 1);
			assert_int_equal(q.sequence, i);
			assert_int_equal(q.bytes, sizeof payload - i % 7);
			assert_memory_equal(q.text + q.head, payload, q.bytes);
			free(q.text);
		}
		kept_file_until(f, 301);
		assert_int_equal(kept_file_bytes(f), 0);
		assert_int_equal(add(f, 301, payload, 1), 0);
		has(f, 0, 301, "kept worker=w0 sequence=301 bytes=1\n\x01");
		kept_file_close(f, 1);
	}
}

static void a_place_that_is_too_small_takes_no_memory(void **state)
{
	static char payload[120000];
	struct kept_file *f;
	struct error err;
	struct stat st;
	(void)state;
	memset(payload, 1, sizeof payload);
	assert_int_equal(kept_file_new(&f, &owner, dir, &err), 0);
	assert_int_equal(add(f, 1, payload, 100000), 0);
	assert_int_equal(add(f, 2, payload, 100000), 0);
	kept_file_until(f, 2);
	assert_int_equal(add(f, 3, payload, 120000), 0);
	assert_int_equal(stat(only(), &st), 0);
	assert_in_range(st.st_blocks * 512, 220000, 280000);
	kept_file_close(f, 1);
}

static void there_is_a_bound(void **state)
{
	struct kept_file *f;
	struct error err;
	char *large = calloc(1, KEPT_FILE_MAX);
	(void)state;
	assert_non_null(large);
	assert_int_equal(kept_file_new(&f, &owner, NULL, &err), 0);
	assert_int_equal(add(f, 1, large, KEPT_FILE_MAX), -1);
	for (uint64_t i = 0; i < 4096; i++)
		assert_int_equal(add(f, i, "a", 1), 0);
	assert_int_equal(add(f, 4096, "a", 1), -1);
	kept_file_until(f, 1);
	assert_int_equal(add(f, 4096, "a", 1), 0);
	has(f, 4096, 4096, "kept worker=w0 sequence=4096 bytes=1\na");
	kept_file_close(f, 1);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_outlives_its_worker, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(what_is_cut_off_is_not_there, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(what_is_no_such_file_is_removed, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(without_room_nothing_is_half_kept, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(what_is_not_needed_makes_room, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(a_place_that_is_too_small_takes_no_memory, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(there_is_a_bound, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_push_that_is_damaged_is_not_there, begin,
						scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
