/* run/saves: what FABRIC=mlfabric saves, or would save. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "run/saves.h"

#include <math.h>

#define MB 1e6

static int is_near(double value, double wanted)
{
	return fabs(value - wanted) <= 1e-9 * fabs(wanted);
}

/* A server on host 0, workers on the others.  In 100 s a batch takes 2 s: 0.4 s of computing, and
 * the rest with a push and a pull of 1 MB. */
static void job_of(struct saves_host *host, size_t hosts, size_t workers)
{
	host[0] = (struct saves_host){.servers = 1};
	for (size_t i = 1; i < hosts; i++) {
		double batches = 50.0 * (double)workers;
		host[i] = (struct saves_host){.out = {.bytes = batches * MB},
					      .in = {.bytes = batches * MB},
					      .workers = workers,
					      .batches = batches,
					      .time = 2 * batches,
					      .comm = 1.6 * batches};
		host[0].in.bytes += host[i].out.bytes;
		host[0].out.bytes += host[i].out.bytes;
	}
}

static const struct saves_job plain = {.seconds = 100, .dense = MB},
			      mlfabric = {.seconds = 100, .dense = MB, .is_saved = 1};

/* Its link is always busy, 0.5 s for each push. With two groups of two it would be so for half of
 * that. */
static void the_link_of_the_servers_host_is_full(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	host[0].in.busy = 100;
	assert_true(is_near(saves_servers(&plain, host, 3), 50));
	/* Half of a push is of embeddings, and they are not summed. */
	const struct saves_job half = {.seconds = 100, .dense = MB / 2};
	assert_true(is_near(saves_servers(&half, host, 3), 25));
	/* It is busy for half of the time. */
	host[0].in.busy = 50;
	assert_true(is_near(saves_servers(&plain, host, 3), 100 * 0.5 * 0.5 / 2));
}

static void what_nobody_waited_for_is_not_saved(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	host[0].in.busy = 100;
	for (size_t i = 1; i < 3; i++)
		host[i].comm = 0.6 * host[i].batches; /* of it 0.5 is its own push */
	assert_true(is_near(saves_servers(&plain, host, 3), 5));
	host[0].out.busy = 100; /* and as much the pull */
	assert_true(saves_servers(&plain, host, 3) == 0);
}

/* Four hosts with a worker each: none has anything to sum, unless one of them does it for all. */
static void hosts_with_one_worker(void **state)
{
	struct saves_host host[5];
	(void)state;
	job_of(host, 5, 1);
	host[0].in.busy = 100;
	assert_true(saves_servers(&plain, host, 5) == 0);
	/* They receive more than twice as fast as the server. */
	host[2].in.busy = 2;
	assert_true(is_near(saves_servers(&plain, host, 5), 50));
}

/* Two workers behind a slow link of their own take turns already: while one pushes, the other
 * computes. Of four, two groups are left. */
static void the_link_of_a_workers_host_is_slow(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	host[1].out.busy = 100;
	assert_true(saves_servers(&plain, host, 3) == 0);
	job_of(host, 3, 4);
	host[1].out.busy = 100;
	/* Half of the job is twice as fast. */
	assert_true(is_near(saves_servers(&plain, host, 3), 100 * (1 - 1 / 1.5)));
	/* It has less than its part of the servers' link. */
	host[0].in.busy = 10;
	assert_true(saves_servers(&plain, host, 3) > 100 * (1 - 1 / 1.5));
}

/* Other hosts are no reason why more of its own pushes are left. */
static void a_slow_link_beside_many_hosts(void **state)
{
	struct saves_host host[6];
	(void)state;
	job_of(host, 6, 4);
	host[0].in.busy = 10;
	host[1].out.busy = 100;
	assert_true(saves_servers(&plain, host, 6) > 100 * (1 - 1 / 1.2));
}

/* They use no link, and are as fast as before. */
static void workers_beside_the_server(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	host[0].in.busy = 100;
	host[0].workers = 2;
	host[0].batches = 100;
	host[0].time = 200;
	host[0].comm = 160;
	/* Two thirds of the job are twice as fast. */
	assert_true(is_near(saves_servers(&plain, host, 3), 100 * (1 - 3.0 / 5)));
}

/* The same job after mlfabric has saved it half of its time. */
static void what_mlfabric_saved(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	assert_true(saves_servers(&mlfabric, host, 3) == 0);
	host[0].in.busy = 50;
	for (size_t i = 1; i < 3; i++) {
		host[i].added = host[i].out.bytes;
		host[i].comm = 1.6 * host[i].batches;
	}
	/* Each push would take 0.5 s, n D = 2 s: 1 s more, were the link always busy. */
	double saved = saves_servers(&mlfabric, host, 3);
	assert_true(saved > 0 && saved < 50);
	double then = 2 * (1 + saved / 100); /* then = 2 + min(1, 2 / then) min(then - least, 1) */
	assert_true(is_near(then, 2 + 2 / then));
	/* Nothing was added: nothing was saved. */
	host[1].added = host[2].added = 0;
	assert_true(saves_servers(&mlfabric, host, 3) == 0);
}

static void what_is_not_known_saves_nothing(void **state)
{
	struct saves_host host[3];
	(void)state;
	job_of(host, 3, 2);
	assert_true(saves_servers(&plain, host, 3) == 0); /* no rate is known */
	host[0].in.busy = 100;
	host[1].batches = host[1].time = host[1].comm = NAN; /* nothing was reported */
	assert_true(saves_servers(&plain, host, 3) == 0);
	job_of(host, 3, 2);
	host[0].in.busy = 100;
	host[1].servers = host[2].servers = 1; /* who sends what is not known */
	assert_true(saves_servers(&plain, host, 3) == 0);
	assert_true(saves_servers(&plain, host, 0) == 0);
}

/* Ten sums: 12 s by a ring, 9 s by shares. Of 20 batches workers waited for 2 wait seconds. */
static double sums_of(double wait, double behind, int is_saved)
{
	const struct saves_job job = {
		.ring = 12, .shares = 9, .sums = 10, .is_behind = behind > 0, .is_saved = is_saved};
	const struct saves_host host[] = {
		{.batches = 20, .time = 500, .wait = 400}, /* for slower workers, too */
		{.batches = 20, .time = 2 * (wait + behind), .wait = 2 * wait},
		{.batches = 20, .time = 500, .wait = 400},
		{.batches = NAN, .time = NAN, .wait = NAN}};
	return saves_sums(&job, host, 4);
}

static void sums_by_a_ring_and_by_shares(void **state)
{
	const struct saves_job job = {.ring = 12, .shares = 9, .sums = 10};
	(void)state;
	assert_true(saves_sums(&job, NULL, 0) == 0);
	/* The ring took 14 s; what was hidden is not waited for. */
	assert_true(is_near(sums_of(14, 0, 0), 5));
	assert_true(is_near(sums_of(4, 10, 0), 4));
	assert_true(sums_of(0, 10, 0) == 0);
	/* Rates too low, or workers that waited for something else. */
	assert_true(is_near(sums_of(10, 0, 0), 3));
	assert_true(is_near(sums_of(100, 0, 0), 9));
	/* Workers that left a host take their sums with them. */
	assert_true(is_near(sums_of(-4, 10, 0), 9)); /* the others waited */
	/* Shares took 7 s, or workers waited for something else, or most is hidden. */
	assert_true(is_near(sums_of(7, 0, 1), 5));
	assert_true(is_near(sums_of(6, 0, 1), 6));
	/* All batches took 1 s: by rates six times as high shares take 1.5 s, and a ring 2 s. */
	assert_true(is_near(sums_of(1, 0, 1), 1));
	assert_true(is_near(sums_of(100, 0, 1), 3));
	assert_true(is_near(sums_of(0, 11, 1), 1));
	assert_true(sums_of(0, 20, 1) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_link_of_the_servers_host_is_full),
		cmocka_unit_test(what_nobody_waited_for_is_not_saved),
		cmocka_unit_test(hosts_with_one_worker),
		cmocka_unit_test(the_link_of_a_workers_host_is_slow),
		cmocka_unit_test(a_slow_link_beside_many_hosts),
		cmocka_unit_test(workers_beside_the_server),
		cmocka_unit_test(what_mlfabric_saved),
		cmocka_unit_test(what_is_not_known_saves_nothing),
		cmocka_unit_test(sums_by_a_ring_and_by_shares),
	};
	return cmocka_run_group_tests_name("run_saves", tests, NULL, NULL);
}
