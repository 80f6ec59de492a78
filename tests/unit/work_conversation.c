/*
 * Who waits for a daemon that is gone: it is looked for often at first, then seldom.
 */
#include "work/conversation.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define AWAY_SECONDS 1.0
#define CONNECTS_MAX 60 /* in that time */

static atomic_int connects;

/* The first one is greeted; then it is gone, and who comes again finds nobody. */
static void *serve(void *listener)
{
	static const char greeting[] = "paceline role=test version=1 incarnation=1\n";
	for (int fd; (fd = accept(*(int *)listener, NULL, NULL)) >= 0; close(fd))
		if (atomic_fetch_add(&connects, 1) == 0)
			assert_int_equal(write(fd, greeting, sizeof greeting - 1),
					 sizeof greeting - 1);
	return NULL;
}

static void test_who_is_gone_is_looked_for_less_and_less(void **state)
{
	char dir[] = "/tmp/paceline-conversation.XXXXXX", line[RECORD_LINE_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct conversation *c = calloc(1, sizeof *c);
	struct record_out o;
	struct error err = {0};
	pthread_t thread;
	(void)state;
	assert_non_null(c);
	assert_non_null(mkdtemp(dir));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 64), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, &listener), 0);

	c->options = (struct conversation_options){.path = address.sun_path,
						   .worker = "w0",
						   .wait_seconds = AWAY_SECONDS,
						   .answer_seconds = 30};
	assert_int_equal(conversation_connect(c, 0, &err), WORK_OK);
	assert_int_equal(conversation_incarnation(c, &c->incarnation, &err), 0);
	conversation_begin(c, &o, line, "pull");
	int result = conversation_ask(c, &o, NULL, 0, &err);
	if (result == WORK_OK)
		result = conversation_answer(c, PATIENT, &err);
	assert_int_equal(result, -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_true(atomic_load(&connects) <= CONNECTS_MAX);
	conversation_close(c);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
	unlink(address.sun_path);
	rmdir(dir);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_gone_is_looked_for_less_and_less),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
