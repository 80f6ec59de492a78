/* wire_http: a page over HTTP, and clients that mean harm. The loop turns here: nothing else runs. */
#include "wire/http.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

#define TURNS_MAX 1200 /* of 0.05 s: a limit, not a measurement */

static struct event_base *base;
static struct http *http;
static struct error err;
static struct sockaddr_in there;
static char name[HTTP_NAME_MAX], path[100];
static int pages, fails;
static char *page;
static size_t page_len;

static int give(void *owner, const char **text, size_t *len, struct error *why)
{
	(void)owner;
	pages++;
	if (fails)
		return error_set(why, ERROR_OS, NULL, "out of paper");
	*text = page;
	*len = page_len;
	return 0;
}

static int make(void **state)
{
	const struct sockaddr_in any = {.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	signal(SIGPIPE, SIG_IGN);
	scratch_make(state);
	base = event_base_new();
	const struct http_options options = {.base = base,
					     .path = "/metrics",
					     .type = "text/x-page",
					     .about = "It is at /metrics.\n",
					     .seconds = 0.5,
					     .page = give};
	pages = fails = 0;
	page = strdup("one\ntwo\n");
	page_len = strlen(page);
	unsigned port;
	if (http_new(&http, &options, &err) != 0 ||
	    http_listen_tcp(http, (const struct sockaddr *)&any, sizeof any, name, &err) != 0 ||
	    sscanf(name, "http://127.0.0.1:%u", &port) != 1)
		return -1;
	there = any;
	there.sin_port = htons((uint16_t)port);
	return 0;
}

static int drop(void **state)
{
	http_free(http);
	event_base_free(base);
	free(page);
	return scratch_remove(state);
}

static void turn(void)
{
	const struct timeval most = {0, 50000};
	event_base_loopexit(base, &most);
	event_base_dispatch(base);
}

static int connect_to(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* What comes until the other side hangs up. */
static char *hear(int fd)
{
	static char said[1 << 16];
	size_t len = 0;
	for (int i = 0; i < TURNS_MAX; i++) {
		ssize_t n = read(fd, said + len, sizeof said - 1 - len);
		if (n == 0) {
			said[len] = '\0';
			close(fd);
			return said;
		}
		if (n > 0)
			len += (size_t)n;
		else
			turn();
	}
	fail_msg("nobody hangs up");
	return NULL;
}

static char *ask(const char *request)
{
	int fd = connect_to();
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	return hear(fd);
}

static void the_page_and_no_other(void **state)
{
	(void)state;
	const char *said = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_non_null(strstr(said, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(said, "Content-Type: text/x-page\r\n"));
	assert_non_null(strstr(said, "\r\n\r\none\ntwo\n"));
	said = ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n");
	assert_non_null(strstr(said, "\r\n\r\none\ntwo\n"));
	said = ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_non_null(strstr(said, "200 OK"));
	assert_null(strstr(said, "one"));
	said = ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_non_null(strstr(said, "404 Not Found"));
	assert_non_null(strstr(said, "It is at /metrics."));
	said = ask("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_null(strstr(said, "one"));
	said = ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	assert_null(strstr(said, "one"));
	said = ask("\x01\x02 nonsense\r\n\r\n");
	assert_null(strstr(said, "one"));
}

static void many_questions_make_one_page(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++)
		ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(pages >= 1);
	assert_true(pages < 12);
}

static void a_page_that_can_not_be_made(void **state)
{
	(void)state;
	fails = 1;
	const char *said = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_non_null(strstr(said, "503 Service Unavailable"));
	assert_non_null(strstr(said, "out of paper"));
	fails = 0;
	assert_non_null(strstr(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "one\n"));
}

/* Larger than what is written at once, and the client has closed its side. */
static void a_client_that_says_no_more_gets_all(void **state)
{
	(void)state;
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
	free(page);
	page_len = 60000;
	page = malloc(page_len);
	memset(page, 'x', page_len);
	int fd = connect_to();
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	shutdown(fd, SHUT_WR);
	const char *body = strstr(hear(fd), "\r\n\r\n");
	assert_non_null(body);
	assert_int_equal(strlen(body + 4), page_len);
}

/* More than there is room for: half of a request, drop by drop, and one who reads nothing. */
static void slow_clients_go_and_others_are_served(void **state)
{
	(void)state;
	enum { SLOW = 2 * HTTP_CLIENTS_MAX };
	int slow[SLOW], left = SLOW;
	free(page);
	page_len = 8u << 20; /* more than the kernel takes for somebody who does not read */
	page = malloc(page_len);
	memset(page, 'x', page_len);
	for (int i = 0; i < SLOW; i++) {
		slow[i] = connect_to();
		const char *begin = i % 2 ? "GET /metrics HTTP/1.1\r\nX-Slow: "
					  : "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
		assert_true(write(slow[i], begin, strlen(begin)) > 0);
	}
	for (int k = 0; k < TURNS_MAX && left > 0; k++) {
		turn();
		left = 0;
		for (int i = 0; i < SLOW; i++)
			left += write(slow[i], "x", 1) == 1; /* fails once they are hung up on */
	}
	assert_int_equal(left, 0);
	char *large = page; /* it is kept for a second */
	page = strdup("one\n");
	page_len = 4;
	for (int k = 0; k < TURNS_MAX; k++)
		if (strstr(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "\r\n\r\none\n"))
			break;
		else
			assert_true(k + 1 < TURNS_MAX);
	free(large);
	for (int i = 0; i < SLOW; i++)
		close(slow[i]);
}

static void a_port_in_use_is_said(void **state)
{
	(void)state;
	char other[HTTP_NAME_MAX];
	assert_int_equal(http_try_tcp((const struct sockaddr *)&there, sizeof there, other, &err),
			 -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	assert_string_equal(err.place, name);
	assert_string_equal(other, name);
}

static void a_unix_socket_for_user_and_group(void **state)
{
	struct stat st;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
	(void)state;
	snprintf(path, sizeof path, "%s/m.sock", scratch);
	assert_int_equal(http_listen_unix(http, path, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	assert_non_null(strstr(hear(fd), "\r\n\r\none\ntwo\n"));
	http_free(http);
	http = NULL;
	assert_int_equal(stat(path, &st), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_page_and_no_other, make, drop),
		cmocka_unit_test_setup_teardown(many_questions_make_one_page, make, drop),
		cmocka_unit_test_setup_teardown(a_page_that_can_not_be_made, make, drop),
		cmocka_unit_test_setup_teardown(a_client_that_says_no_more_gets_all, make, drop),
		cmocka_unit_test_setup_teardown(slow_clients_go_and_others_are_served, make, drop),
		cmocka_unit_test_setup_teardown(a_port_in_use_is_said, make, drop),
		cmocka_unit_test_setup_teardown(a_unix_socket_for_user_and_group, make, drop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
