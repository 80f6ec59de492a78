/* Timers: once, in their order, set anew, stopped, freed by what they call, and set without memory. */
#include "wire/timer.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char said[17];
static struct timer *one, *again;

static void say(void *word)
{
	strcat(said, word);
}

static void say_twice(void *word)
{
	strcat(said, word);
	if (strlen(said) < 2)
		timer_set(again, 0);
}

/* Until so many have been called, or none is left. */
static void run_until(struct event_base *base, size_t called)
{
	while (strlen(said) < called && event_base_loop(base, EVLOOP_ONCE) == 0)
		;
}

static void end(void *word)
{
	strcat(said, word);
	timer_free(one);
	one = NULL;
}

static void a_timer_calls_once_when_it_is_set(void **state)
{
	struct event_base *base = event_base_new();
	struct timer *later = timer_new(base, say, "b"), *sooner = timer_new(base, say, "a");
	struct timer *never = timer_new(base, say, "c"), *stopped = timer_new(base, say, "d");
	(void)state;
	said[0] = '\0';
	assert_false(timer_is_set(later));
	timer_set(later, 0);
	timer_set(later, 0.02); /* in place of the one before */
	timer_set(sooner, 0.001);
	timer_set(stopped, 0.001);
	timer_stop(stopped);
	assert_true(timer_is_set(later));
	assert_false(timer_is_set(stopped));
	run_until(base, 2);
	assert_string_equal(said, "ab");
	assert_false(timer_is_set(later));
	timer_set(never, 1000); /* what is freed calls nobody */
	timer_free(never);
	timer_free(later);
	timer_free(sooner);
	timer_free(stopped);
	timer_free(NULL);
	event_base_dispatch(base);
	event_base_free(base);
}

static void what_is_called_may_set_and_free_it(void **state)
{
	struct event_base *base = event_base_new();
	(void)state;
	said[0] = '\0';
	again = timer_new(base, say_twice, "a");
	one = timer_new(base, end, "b");
	timer_set(again, 0);
	timer_set(one, 0.05);
	run_until(base, 3);
	assert_string_equal(said, "aab");
	assert_null(one);
	timer_free(again);
	event_base_free(base);
}

static int lacks_memory;

static void *may_lack(void *old, size_t n)
{
	return lacks_memory ? NULL : realloc(old, n);
}

static void without_memory_each_is_called(void **state)
{
	struct timer *timers[15];
	struct event_base *base;
	(void)state;
	event_set_mem_functions(malloc, may_lack, free);
	base = event_base_new();
	said[0] = '\0';
	for (size_t i = 0; i < 15; i++)
		timers[i] = timer_new(base, say, "a");
	lacks_memory = 1;
	for (size_t i = 0; i < 15; i++)
		timer_set(timers[i], 0.001 * (double)i);
	run_until(base, 15);
	timer_set(timers[0], 0); /* also one that was called before */
	lacks_memory = 0;
	event_base_loop(base, EVLOOP_ONCE);
	assert_string_equal(said, "aaaaaaaaaaaaaaaa");
	for (size_t i = 0; i < 15; i++)
		timer_free(timers[i]);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timer_calls_once_when_it_is_set),
		cmocka_unit_test(what_is_called_may_set_and_free_it),
		cmocka_unit_test(without_memory_each_is_called),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
