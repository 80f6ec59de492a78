/* job_metrics_to: words of METRICS. */
#include "job/metrics_to.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct metrics_to to;
static struct error err;

static void is(const char *word, enum metrics_to_kind kind, const char *path)
{
	if (metrics_to_parse(&to, word, &err) != 0)
		fail_msg("%s: %s", word, err.text);
	assert_int_equal(to.kind, kind);
	assert_string_equal(to.path, path);
}

static void is_at(const char *word, const char *address, unsigned port)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&to.address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&to.address;
	if (metrics_to_parse(&to, word, &err) != 0)
		fail_msg("%s: %s", word, err.text);
	assert_int_equal(to.kind, METRICS_TO_TCP);
	assert_null(to.path);
	int is_6 = to.address.ss_family == AF_INET6;
	inet_ntop(to.address.ss_family, is_6 ? (const void *)&in6->sin6_addr : &in->sin_addr, text,
		  sizeof text);
	assert_string_equal(text, address);
	assert_int_equal(ntohs(is_6 ? in6->sin6_port : in->sin_port), port);
	assert_int_equal(to.len, is_6 ? sizeof *in6 : sizeof *in);
}

static void is_not(const char *word, const char *why)
{
	assert_int_equal(metrics_to_parse(&to, word, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", word, err.text);
}

static void files_directories_and_sockets(void **state)
{
	(void)state;
	is("/var/lib/job.prom", METRICS_TO_FILE, "/var/lib/job.prom");
	is("job.prom", METRICS_TO_FILE, "job.prom");
	is("/var/lib/", METRICS_TO_DIR, "/var/lib/");
	is("/", METRICS_TO_DIR, "/");
	is("unix:run/m.sock", METRICS_TO_UNIX, "run/m.sock");
	is_not("job.txt", "none of DIR/NAME.prom");
	is_not(".prom", "none of");
	is_not("dir/.prom", "none of");
	is_not("unix:", "names no socket");
	is_not("https://127.0.0.1:1", "none of");
}

static void ports(void **state)
{
	(void)state;
	is_at("http://127.0.0.1:9188", "127.0.0.1", 9188);
	is_at("http://:9188", "127.0.0.1", 9188);
	is_at("http://localhost:9188/", "127.0.0.1", 9188);
	is_at("http://0.0.0.0:0/metrics", "0.0.0.0", 0);
	is_at("http://[::1]:65535", "::1", 65535);
	is_at("http://[::]:1", "::", 1);
	is_not("http://127.0.0.1", "does not end with a port");
	is_not("http://127.0.0.1:", "does not end with a port");
	is_not("http://127.0.0.1:65536", "does not end with a port");
	is_not("http://127.0.0.1:+1", "does not end with a port");
	is_not("http://9188", "does not end with a port");
	is_not("http://::1:9188", "'::1' is no address");
	is_not("http://[::1:9188", "'[::1' is no address");
	is_not("http://[]:9188", "'[]' is no address");
	is_not("http://host.example:9188", "'host.example' is no address");
	is_not("http://127.0.0.1:9188/stats", "leave /stats out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_directories_and_sockets),
		cmocka_unit_test(ports),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
