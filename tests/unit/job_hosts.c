/* The hosts of a job: this machine first, the launcher that fits, which worker belongs where. */
#include "job/hosts.h"

#include "job/job.h"

#include "scratch.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct job job;
static struct hosts hosts;
static char here[256], path[512];
static struct hosts_environment env;

/* Programs of ours, which the search path leads to. */
static void program(const char *name, const char *text)
{
	char file[512];
	snprintf(file, sizeof file, "%s/%s", scratch, name);
	FILE *out = fopen(file, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
	assert_int_equal(chmod(file, 0700), 0);
}

static int begin(void **state)
{
	struct error err;
	if (scratch_make(state) != 0 || job_init(&job, &err) != 0)
		return -1;
	hosts = (struct hosts){0};
	gethostname(here, sizeof here - 1);
	snprintf(path, sizeof path, "%s", scratch);
	env = (struct hosts_environment){.search_path = path};
	program("node-host", "#!/bin/sh\n");
	return 0;
}

static int end(void **state)
{
	hosts_free(&hosts);
	job_free(&job);
	return scratch_remove(state);
}

static const char *find(const char *names, const char *launcher, const char *place)
{
	static struct error err;
	err = (struct error){0};
	hosts_free(&hosts);
	if (job_set(&job, "HOSTS", names, "f", &err) != 0 ||
	    job_set(&job, "LAUNCHER", launcher, "f", &err) != 0 ||
	    job_set(&job, "PLACE", place, "f", &err) != 0 || hosts_find(&hosts, &job, &env, &err) != 0)
		return err.text;
	return "";
}

static void one_machine_without_names(void **state)
{
	(void)state;
	assert_string_equal(find("", "", "spread"), "");
	assert_int_equal(hosts.count, 1);
	assert_int_equal(hosts.first, 0);
	assert_string_equal(hosts.launcher->name, "local");
	assert_string_equal(hosts.place[0].host, here);
	assert_int_equal(hosts_worker(&hosts, 7), 0);
	assert_string_equal(find(here, "", "fill"), "");
	assert_int_equal(hosts.count, 1);
	assert_string_equal(find("localhost", "ssh", "spread"), "");
	assert_string_equal(hosts.launcher->name, "local");
}

static void this_machine_comes_first(void **state)
{
	(void)state;
	char names[512];
	snprintf(names, sizeof names, "h1, %s h2", here);
	assert_string_equal(find(names, "", "spread"), "");
	assert_int_equal(hosts.count, 3);
	assert_int_equal(hosts.first, 0);
	assert_string_equal(hosts.launcher->name, "ssh");
	assert_string_equal(hosts.place[0].host, here);
	assert_string_equal(hosts.place[0].launcher->name, "local");
	assert_string_equal(hosts.place[1].host, "h1");
	assert_string_equal(hosts.place[2].launcher->name, "ssh");
	assert_non_null(strstr(hosts.place[2].node_host, "/node-host"));
	assert_int_equal(hosts_worker(&hosts, 0), 0);
	assert_int_equal(hosts_worker(&hosts, 5), 2);
	assert_int_equal(hosts_holder(&hosts, 4), 1);
	assert_int_equal(hosts_holder(&hosts, 2), 2);
}

static void a_network_is_known_where_all_hosts_are_in_one_of_ours(void **state)
{
	(void)state;
	char network[HOSTS_NETWORK_MAX], name[64], names[160];
	struct ifaddrs *all = NULL;
	assert_int_equal(getifaddrs(&all), 0);
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
		    !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) ||
		    getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), name, sizeof name, NULL, 0,
				NI_NUMERICHOST) != 0)
			continue;
		snprintf(names, sizeof names, "me@%s", name);
		assert_string_equal(find(names, "ssh", "spread"), "");
		hosts_network(&hosts, network);
		assert_non_null(strchr(network, '/'));
		assert_int_equal(strncmp(network, name, 2), 0); /* a network of fewer than 8 bits is none */
		/* One that is elsewhere. */
		snprintf(names, sizeof names, "%s 203.0.113.77", name);
		assert_string_equal(find(names, "ssh", "spread"), "");
		hosts_network(&hosts, network);
		assert_string_equal(network, "");
	}
	freeifaddrs(all);
	assert_string_equal(find("127.0.0.1", "ssh", "spread"), "");
	hosts_network(&hosts, network);
	assert_string_equal(network, "");
}

static void more_names_than_a_sum_can_name(void **state)
{
	(void)state;
	static char names[64 * 1024];
	struct error err;
	size_t len = 0;
	for (int i = 0; i < 200; i++)
		len += (size_t)snprintf(names + len, sizeof names - len, "host%03d.example.com ", i);
	assert_string_equal(find(names, "ssh", "spread"), "");
	assert_int_equal(job_set(&job, "SYNC", "allreduce", "f", &err), 0);
	assert_non_null(strstr(find(names, "ssh", "spread"),
			       "200 hosts have names of 4000 bytes together, and SYNC=allreduce has room for 3072"));
	len = 0;
	for (int i = 0; i < 700; i++)
		len += (size_t)snprintf(names + len, sizeof names - len, "h%d ", i);
	assert_non_null(strstr(find(names, "ssh", "spread"), "SYNC=allreduce has room for 3072"));
}

static void a_machine_that_is_not_named_trains_nothing(void **state)
{
	(void)state;
	assert_string_equal(find("h1 h2", "", "spread"), "");
	assert_int_equal(hosts.count, 3);
	assert_int_equal(hosts.first, 1);
	assert_string_equal(hosts.place[0].host, here);
	assert_int_equal(hosts_worker(&hosts, 0), 1);
	assert_int_equal(hosts_worker(&hosts, 3), 2);
	assert_int_equal(hosts_holder(&hosts, 0), 1);
	assert_int_equal(hosts_holder(&hosts, 1), 2);
	assert_int_equal(hosts_holder(&hosts, 2), 1);
}

static void workers_are_placed_as_said(void **state)
{
	(void)state;
	struct error err;
	static const size_t filled[] = {1, 1, 2, 2, 3}, listed[] = {1, 2, 2, 2, 2};
	assert_int_equal(job_set(&job, "WORKERS", "5", "f", &err), 0);
	assert_string_equal(find("h1 h2 h3", "ssh", "fill"), "");
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(hosts_worker(&hosts, i), filled[i]);
	assert_string_equal(find("h1 h2 h3", "ssh", "h2:4, h1:1"), "");
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(hosts_worker(&hosts, i), listed[i]);
	assert_string_equal(find("h1 h2", "ssh", "h2:4"), "has a host for 4 workers, WORKERS is 5");
	assert_string_equal(find("h1 h2", "ssh", "h7:5"), "h7 is none of HOSTS");
}

static void values_that_can_not_be(void **state)
{
	(void)state;
	struct error err;
	static const char *const bad[] = {"", "h1", "h1:", ":3", "h1:x", "h1:2000", "-x:1", "h 1:2"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(hosts_place_check(bad[i], &err), -1);
	assert_int_equal(hosts_place_check("[::1]:2", &err), 0);
	assert_string_equal(find("h1 h1", "", "spread"), "HOSTS: h1 is given twice");
	assert_non_null(strstr(find("h1 -x", "", "spread"), "'-x' is no name of a host"));
	assert_non_null(strstr(find("h1", "local", "spread"), "'local' is none of auto|slurm|ssh"));
	assert_non_null(strstr(find("h1", "slurm", "spread"), "trainctl runs outside of one"));
	env.search_path = "";
	assert_non_null(strstr(find("h1", "ssh", "spread"), "neither beside"));
}

static void slurm_names_the_hosts(void **state)
{
	(void)state;
	char script[512];
	env.slurm_nodes = "h[0-2]";
	assert_non_null(strstr(find("", "", "spread"), "scontrol is not on PATH"));
	snprintf(script, sizeof script,
		 "#!/bin/sh\n[ \"$*\" = 'show hostnames h[0-2]' ] && printf 'h0\\n%s\\nh2\\n'\n", here);
	program("scontrol", script);
	assert_string_equal(find("", "", "spread"), "");
	assert_int_equal(hosts.count, 3);
	assert_string_equal(hosts.launcher->name, "slurm");
	assert_string_equal(hosts.place[0].host, here);
	assert_string_equal(hosts.place[2].host, "h2");
	program("scontrol", "#!/bin/sh\nprintf 'h0\\nh1\\n'\n");
	assert_non_null(strstr(find("", "", "spread"), "this machine is not a host of the job"));
	program("scontrol", "#!/bin/sh\nexit 3\n");
	assert_string_equal(find("", "", "spread"), "exit status 3");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(one_machine_without_names),
		TEST(this_machine_comes_first),
		TEST(a_network_is_known_where_all_hosts_are_in_one_of_ours),
		TEST(more_names_than_a_sum_can_name),
		TEST(a_machine_that_is_not_named_trains_nothing),
		TEST(workers_are_placed_as_said),
		TEST(values_that_can_not_be),
		TEST(slurm_names_the_hosts),
	};
	return cmocka_run_group_tests_name("job_hosts", tests, NULL, NULL);
}
