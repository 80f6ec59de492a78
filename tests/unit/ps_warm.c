/* ps/warm: a memory's pages are there before somebody uses them, and what is in it stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/warm.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)40 << 20)

static size_t resident(void *at, size_t pages)
{
	static unsigned char in[BYTES / 4096];
	size_t n = 0;

	assert_int_equal(mincore(at, BYTES, in), 0);
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	return n;
}

static void pages_come_and_what_is_in_them_stays(void **state)
{
	size_t pages = BYTES / (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	at[BYTES - 1] = 7;
	if (madvise(at + BYTES / 2, 4096, MADV_POPULATE_WRITE) != 0)
		skip();
	struct warm *w = warm_begin(at + 1, BYTES - 1);
	assert_non_null(w);
	at[5] = 3;
	for (int i = 0; resident(at, pages) < pages; i++) {
		assert_true(i < 100000);
		usleep(1000);
	}
	warm_end(w);
	assert_int_equal(at[5], 3);
	assert_int_equal(at[BYTES - 1], 7);
	munmap(at, BYTES);
}

static void what_is_small_or_nothing_is_left_alone(void **state)
{
	char small[64];

	(void)state;
	assert_null(warm_begin(small, sizeof small));
	assert_null(warm_begin(NULL, BYTES));
	warm_end(NULL);
}

/* Its owner may have given it back. */
static void memory_that_is_gone_is_left_alone(void **state)
{
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	munmap(at, BYTES);
	warm_end(warm_begin(at, BYTES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_come_and_what_is_in_them_stays),
		cmocka_unit_test(what_is_small_or_nothing_is_left_alone),
		cmocka_unit_test(memory_that_is_gone_is_left_alone),
	};

	return cmocka_run_group_tests_name("ps_warm", tests, NULL, NULL);
}
