/* The forked writer: its end of the pipe may wait, the server's may not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "ps/fork.h"

#include "scratch.h"

#include <event2/event.h>
#include <fcntl.h>

#define PIPE_FD 3 /* as fork.c has it */

static int is_over;
static struct fork_result told;

static int work(void *owner, int fd, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	int flags = fcntl(PIPE_FD, F_GETFL);
	(void)owner;
	(void)fd;
	*bytes = 7;
	*sum = 8;
	return flags >= 0 && !(flags & O_NONBLOCK) ? 0 : error_set(err, ERROR_OS, "pipe", "does not wait");
}

static void done(const struct fork_result *result, void *arg)
{
	(void)arg;
	told = *result;
	is_over = 1;
}

static void its_answer_may_wait_for_the_server(void **state)
{
	char path[100];
	struct server *server;
	struct fork_child *child;
	struct error err;
	(void)state;
	snprintf(path, sizeof path, "%s/sock", scratch);
	assert_int_equal(server_new(&server, &(struct server_options){.path = path, .role = "ps"}, &err), 0);
	struct fork_job job = {.work = work, .name = "a copy", .keep = -1};
	assert_int_equal(fork_start(&child, server, &job, done, NULL, &err), 0);
	while (!is_over)
		event_base_loop(server_base(server), EVLOOP_ONCE);
	assert_true(told.ok);
	assert_int_equal(told.bytes, 7);
	assert_int_equal(told.sum, 8);
	server_free(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(its_answer_may_wait_for_the_server, scratch_make, scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
