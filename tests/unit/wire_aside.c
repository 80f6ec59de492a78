/* wire/aside: work beside a loop. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "wire/aside.h"

#include <event2/event.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

struct task {
	sem_t go, released; /* go: its disk answers */
	int worked;
	struct aside *aside;
};

static void work(void *arg)
{
	struct task *t = arg;
	while (sem_wait(&t->go) != 0)
		;
	t->worked = 1;
}

static void release(void *arg)
{
	struct task *t = arg;
	sem_post(&t->released);
}

static void done(void *arg, void *owner)
{
	const struct task *t = arg;
	assert_null(t->aside);
	assert_true(t->worked);
	++*(int *)owner;
}

static const struct aside_work how = {work, done, release};

static void begin(struct task *t, struct event_base *base, int *count)
{
	struct error err;
	*t = (struct task){0};
	sem_init(&t->go, 0, 0);
	sem_init(&t->released, 0, 0);
	assert_int_equal(aside_start(&t->aside, base, &how, t, count, &err), 0);
	assert_non_null(t->aside);
}

static void wait_released(struct task *t)
{
	while (sem_wait(&t->released) != 0)
		;
	sem_destroy(&t->go);
	sem_destroy(&t->released);
}

static void test_the_loop_goes_on_and_is_told(void **state)
{
	struct event_base *base = event_base_new();
	struct task t;
	int count = 0;
	(void)state;
	begin(&t, base, &count);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(count, 0);
	sem_post(&t.go);
	while (count == 0)
		event_base_loop(base, EVLOOP_ONCE);
	wait_released(&t);
	assert_int_equal(count, 1);
	event_base_free(base);
}

static void test_who_waits_is_told_or_late(void **state)
{
	struct event_base *base = event_base_new();
	struct task t;
	int count = 0;
	(void)state;
	begin(&t, base, &count);
	assert_int_equal(aside_wait(&t.aside, 0), -1);
	sem_post(&t.go);
	assert_int_equal(aside_wait(&t.aside, 600), 0);
	assert_int_equal(count, 1);
	wait_released(&t);
	event_base_free(base);
}

static struct task *interrupted;

/* Once; then the disk answers. */
static void on_alarm(int number)
{
	(void)number;
	sem_post(&interrupted->go);
}

/* As a second Ctrl-C, or a child that ends, while the last state is written. */
static void test_a_signal_ends_no_waiting(void **state)
{
	struct event_base *base = event_base_new();
	const struct sigaction alarms = {.sa_handler = on_alarm};
	struct sigaction before;
	struct task t;
	int count = 0;
	(void)state;
	interrupted = &t;
	assert_int_equal(sigaction(SIGALRM, &alarms, &before), 0);
	begin(&t, base, &count);
	assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL), 0);
	assert_int_equal(aside_wait(&t.aside, 600), 0);
	assert_int_equal(count, 1);
	wait_released(&t);
	sigaction(SIGALRM, &before, NULL);
	event_base_free(base);
}

static void test_an_abandoned_one_tells_nobody(void **state)
{
	struct event_base *base = event_base_new();
	struct task t;
	int count = 0;
	(void)state;
	begin(&t, base, &count);
	aside_abandon(&t.aside);
	assert_null(t.aside);
	aside_abandon(&t.aside);
	event_base_free(base); /* before it has ended */
	sem_post(&t.go);
	wait_released(&t);
	assert_int_equal(count, 0);
}

static void test_no_descriptor_is_said(void **state)
{
	struct event_base *base = event_base_new();
	struct rlimit before, none;
	struct task t;
	struct error err;
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int result = aside_start(&t.aside, base, &how, &t, NULL, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result, -1);
	assert_string_equal(err.text, "a thread for the disk: Too many open files");
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_loop_goes_on_and_is_told),
		cmocka_unit_test(test_who_waits_is_told_or_late),
		cmocka_unit_test(test_a_signal_ends_no_waiting),
		cmocka_unit_test(test_an_abandoned_one_tells_nobody),
		cmocka_unit_test(test_no_descriptor_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
