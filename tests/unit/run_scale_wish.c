/* The next change for somebody who wants a job to be scaled. */
#include "run/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ALL UINT64_MAX /* servers stay where they are */

static const struct {
	struct sup_sizes have, want;
	int other_hosts;
	uint64_t stay;
	enum scale_next next;
	struct sup_sizes to;
} cases[] = {
	/* nothing differs */
	{{3, 2}, {0, 0}, 0, ALL, SCALE_IS_DONE, {3, 2}},
	{{3, 2}, {3, 2}, 0, ALL, SCALE_IS_DONE, {3, 2}},
	/* sizes, both at once; 0 is as many as there are */
	{{3, 2}, {6, 0}, 0, ALL, SCALE_ALL_OF_IT, {6, 2}},
	{{3, 2}, {0, 4}, 0, ALL, SCALE_ALL_OF_IT, {3, 4}},
	{{3, 2}, {1, 1}, 0, ALL, SCALE_ALL_OF_IT, {1, 1}},
	/* hosts, and no server has to go elsewhere */
	{{3, 2}, {0, 0}, 1, ALL, SCALE_ALL_OF_IT, {3, 2}},
	{{3, 2}, {0, 0}, 1, 2, SCALE_ALL_OF_IT, {3, 2}},
	{{3, 2}, {5, 4}, 1, 2, SCALE_ALL_OF_IT, {5, 4}},
	/* servers leave first, and workers wait */
	{{3, 4}, {0, 0}, 1, 2, SCALE_MAKES_WAY, {3, 2}},
	{{3, 4}, {6, 8}, 1, 1, SCALE_MAKES_WAY, {3, 1}},
	/* as few as are wanted at once */
	{{3, 4}, {0, 1}, 1, 2, SCALE_MAKES_WAY, {3, 1}},
	{{3, 4}, {0, 3}, 1, ALL, SCALE_MAKES_WAY, {3, 3}},
	/* then the rest */
	{{3, 2}, {0, 4}, 1, 2, SCALE_ALL_OF_IT, {3, 4}},
	/* where servers are counts only when hosts are others */
	{{3, 4}, {0, 0}, 0, 2, SCALE_IS_DONE, {3, 4}},
};

static void each_case(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sup_sizes to = {0};
		assert_int_equal(scale_next(&cases[i].have, &cases[i].want, cases[i].other_hosts,
					    cases[i].stay, &to),
				 cases[i].next);
		assert_int_equal(to.workers, cases[i].to.workers);
		assert_int_equal(to.servers, cases[i].to.servers);
	}
}

/* Whatever is wanted, the job has it after two changes. */
static void it_ends(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6 * 6 * 6 * 6 * 8; i++) {
		struct sup_sizes have = {1 + i % 6, 1 + i / 6 % 6}, to;
		const struct sup_sizes want = {i / 36 % 6, i / 216 % 6};
		uint64_t stay = 1 + i / 1296 % 8;
		int others = 1, changes = 0;
		enum scale_next next;
		while ((next = scale_next(&have, &want, others, stay, &to)) != SCALE_IS_DONE) {
			changes++;
			have = to;
			others = next == SCALE_MAKES_WAY;
			assert_true(changes <= 2);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case),
		cmocka_unit_test(it_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
