/* Who may begin beside whom. */
#include "run/turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Of each turn a letter, and the letters of those that it waits for: while all are under way, and
 * while all are wished. */
static const struct {
	char letter;
	const char *under_way, *wished;
} turns[] = {
	[TURN_SCALE] = {'S', "S H B C", ""},
	[TURN_MOVE] = {'M', "", ""},
	[TURN_RELEASE] = {'R', "C", ""},
	[TURN_HAND_OVER] = {'H', "M H B C", ""},
	[TURN_REBALANCE] = {'B', "S H B C", "S"},
	[TURN_PLAN] = {'P', "S B", "S B"},
	[TURN_CUT] = {'C', "H C", ""},
};

static unsigned bits(const char *letters)
{
	unsigned all = 0;
	for (unsigned t = 0; t < TURNS; t++)
		if (strchr(letters, turns[t].letter))
			all |= 1u << t;
	return all;
}

static void every_pair(void **state)
{
	(void)state;
	assert_int_equal(sizeof turns / sizeof *turns, TURNS);
	for (enum turn begins = 0; begins < TURNS; begins++)
		for (unsigned other = 0; other < TURNS; other++) {
			struct turn_now one = {.under_way = 1u << other}, wish = {.wished = 1u << other};
			assert_int_equal(turn_waits_for(begins, &one),
					 bits(turns[begins].under_way) & 1u << other);
			assert_int_equal(turn_waits_for(begins, &wish),
					 bits(turns[begins].wished) & 1u << other);
		}
}

static void none_waits_where_nothing_is_under_way(void **state)
{
	(void)state;
	for (enum turn t = 0; t < TURNS; t++)
		assert_int_equal(turn_waits_for(t, &(struct turn_now){0}), 0);
}

/* Two that waited for each other's wishes would wait for ever. */
static void no_two_wait_for_each_others_wishes(void **state)
{
	const struct turn_now all = {.wished = (1u << TURNS) - 1};
	(void)state;
	for (enum turn t = 0; t < TURNS; t++)
		for (enum turn other = 0; other < TURNS; other++)
			assert_false(turn_waits_for(t, &all) & 1u << other &&
				     turn_waits_for(other, &all) & 1u << t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair),
		cmocka_unit_test(none_waits_where_nothing_is_under_way),
		cmocka_unit_test(no_two_wait_for_each_others_wishes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
