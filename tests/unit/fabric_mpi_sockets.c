/* fabric/mpi_sockets: TCP sockets of this process, as MPI keeps them, and numbers that change hands. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fabric/mpi_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct event_base *base;
static struct mpi_sockets sockets;
static int came_new, came, listener;

static void on_came(int listens, void *arg)
{
	assert_ptr_equal(arg, &came);
	came_new |= listens;
	came++;
}

/* end[0] has connected to end[1]. */
static void connect_pair(int end[2])
{
	struct sockaddr_in at;
	socklen_t len = sizeof at;
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	end[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(end[0], (struct sockaddr *)&at, len), 0);
	end[1] = accept(listener, NULL, NULL);
	assert_true(end[1] >= 0);
}

/* What there is to hear now. */
static int hear(void)
{
	came = 0;
	came_new = 0;
	assert_true(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	return came;
}

static int setup(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	(void)state;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	base = event_base_new();
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(mpi_sockets_begin(&sockets, base, on_came, &came), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mpi_sockets_end(&sockets);
	close(listener);
	event_base_free(base);
	return 0;
}

static void wait_readable(int fd)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	assert_int_equal(select(fd + 1, &set, NULL, NULL, NULL), 1);
}

static void what_comes_is_told_until_it_is_read(void **state)
{
	int end[2];
	char byte;
	(void)state;
	connect_pair(end);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	assert_int_equal(sockets.count, 3);
	(void)hear(); /* that there is room, once */
	assert_int_equal(hear(), 0);
	assert_int_equal(write(end[0], "x", 1), 1);
	wait_readable(end[1]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hear(), 1);
		assert_false(came_new);
	}
	assert_int_equal(read(end[1], &byte, 1), 1);
	assert_int_equal(hear(), 0);
	close(end[0]);
	close(end[1]);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	assert_int_equal(sockets.count, 1);
}

static void a_new_connection_is_told_until_it_is_accepted(void **state)
{
	struct sockaddr_in at;
	socklen_t len = sizeof at;
	(void)state;
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, len), 0);
	wait_readable(listener);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hear(), 1);
		assert_true(came_new);
	}
	close(accept(listener, NULL, NULL));
	assert_int_equal(hear(), 0);
	close(fd);
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(*(int *)arg)++;
}

/* MPI closes a connection without telling; a client that comes next gets its number. */
static void a_number_that_is_used_again_is_watched_for_who_has_it_now(void **state)
{
	int end[2], pair[2], heard = 0;
	(void)state;
	connect_pair(end);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	(void)hear();
	close(end[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	if (pair[0] != end[1]) {
		assert_int_equal(dup2(pair[0], end[1]), end[1]);
		close(pair[0]);
	}
	struct event *client = event_new(base, end[1], EV_READ | EV_PERSIST, on_client, &heard);
	assert_int_equal(event_add(client, NULL), 0);
	assert_int_equal(write(pair[1], "x", 1), 1);
	(void)hear();
	assert_int_equal(heard, 1);
	/* And still when it is seen that MPI's is gone. */
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	(void)hear();
	assert_int_equal(heard, 2);
	event_free(client);
	close(end[0]);
	close(end[1]);
	close(pair[1]);
}

/* The same with another connection of MPI. */
static void a_number_that_MPI_uses_again_is_watched(void **state)
{
	int end[2], other[2];
	(void)state;
	connect_pair(end);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	(void)hear();
	connect_pair(other);
	assert_int_equal(dup2(other[1], end[1]), end[1]); /* closes what was there */
	close(other[1]);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	assert_int_equal(sockets.count, 4);
	(void)hear();
	assert_int_equal(write(other[0], "x", 1), 1);
	wait_readable(end[1]);
	assert_true(hear() > 0);
	close(end[0]);
	close(end[1]);
	close(other[0]);
	assert_int_equal(mpi_sockets_find(&sockets), 0);
	assert_int_equal(sockets.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_is_told_until_it_is_read),
		cmocka_unit_test(a_new_connection_is_told_until_it_is_accepted),
		cmocka_unit_test(a_number_that_is_used_again_is_watched_for_who_has_it_now),
		cmocka_unit_test(a_number_that_MPI_uses_again_is_watched),
	};
	return cmocka_run_group_tests_name("fabric_mpi_sockets", tests, setup, teardown);
}
