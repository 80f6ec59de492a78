/* A simulated job beside formulas: where the answer can be written down, the simulator has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The lines are those of a cluster. */
static struct sim_result simulate(const char *lines)
{
	struct sim_options o = {.seed = 1, .until = INFINITY};
	struct sim_result result = {0};
	struct sim *s;
	static struct record r;
	struct error err = {0};
	struct record_walk walk = record_walk(lines, strlen(lines));

	assert_int_equal(sim_new(&s, &o, &err), 0);
	while (record_next(&walk, &r, &err) == RECORD_ONE)
		assert_int_equal(sim_add(s, &r, &err), 0);
	if (sim_run(s, &result, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	sim_free(s);
	return result;
}

static void is_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * fmax(1, fabs(b))))
		fail_msg("%.12f, not %.12f", a, b);
}

#define JOB "job workers=4 servers=1 samples=40000 batch=400 shard=400 sync="

/* Each iteration has the time of an equal share, and what a pull, push and commit cost. */
static void all_alike(void **state)
{
	(void)state;
	is_near(simulate(JOB "bsp\ncost sample=0.001 batch=0.01 pull=0.002 push=0.003 commit=0.004\n").jct,
		100 * (0.1 + 0.01 + 0.002 + 0.003 + 0.004));
}

/* A message there and back in each iteration. Servers apply four pushes, both at once, and pulls wait for
 * them: all but the last ones, which nobody pulls any more. */
static void messages_and_servers(void **state)
{
	(void)state;
	is_near(simulate(JOB "bsp\ncost sample=0.001 message=0.003\n").jct, 100 * (0.1 + 2 * 0.003));
	is_near(simulate("job workers=4 servers=2 samples=40000 batch=400 shard=400\n"
			 "cost sample=0.001 apply=0.01\n").jct, 100 * 0.1 + 99 * 4 * 0.01);
}

/* Eight workers from 5 s on, when 50 iterations are done: half the time for each. With half the servers'
 * work for each of two, and parts that move for 0.5 s. New nodes wait for their places. */
static void scaled(void **state)
{
	(void)state;
	is_near(simulate(JOB "bsp most-workers=8\ncost sample=0.001\nscale at=4.95 workers=8\n").jct,
		50 * 0.1 + 50 * 0.05);
	is_near(simulate(JOB "bsp\ncost sample=0.001\nscale at=4.95 workers=2\n").jct, 50 * 0.1 + 0.2 * 51);
	is_near(simulate(JOB "bsp most-servers=2\ncost sample=0.001 apply=0.01 hand-over=0.5\n"
			     "scale at=0.13 workers=4 servers=2\n").jct, 0.14 + 0.5 + 0.02 + 0.1 + 97 * 0.12);
	is_near(simulate(JOB "bsp most-workers=8\ncost sample=0.001 start=1 pending=1.95\n"
			     "scale at=5 workers=8\n").jct, 70 * 0.1 + 30 * 0.05);
}

/* All wait for the slowest in each. */
static void one_straggler(void **state)
{
	(void)state;
	is_near(simulate(JOB "bsp\ncost sample=0.001 commit=0.004\nnode id=w2 speed=250\n").jct,
		100 * (100 / 250.0 + 0.004));
	is_near(simulate(JOB "allreduce hosts=2\ncost sample=0.001 commit=0.004 sum=0.02\n"
			     "node id=w2 speed=250\n").jct, 100 * (100 / 250.0 + 0.024));
}

/* One worker, batches of 0.1 s. It is stopped in the eleventh: for five seconds; or for longer than 10 s, when it is
 * killed, and trains that batch once more when it is there again. */
static void hung(void **state)
{
	(void)state;
#define ONE "job workers=1 samples=5000 batch=100\ncost sample=0.001 start=2\nevent id=w0 kind=stop at=3.05\n"
	is_near(simulate(ONE "event id=w0 kind=go-on at=8.05\n").jct, 50 * 0.1 + 5);
	is_near(simulate(ONE "event id=w0 kind=go-on at=13.04\n").jct, 50 * 0.1 + 9.99);
	is_near(simulate(ONE).jct, 1.05 + 10 + 2 + 40 * 0.1);
	is_near(simulate(ONE "event id=w0 kind=go-on at=13.06\n").jct, 1.05 + 10 + 2 + 40 * 0.1);
	/* Batches of 2 s: one may take 20 times as long, 40 s, but no longer. The sixth begins at 10 s. */
#define SLOW "job workers=1 samples=5000 batch=100\ncost sample=0.02\nnode id=w0 at=12\nnode id=w0 at=9 delay="
	is_near(simulate(SLOW "37.9\n").jct, 50 * 2 + 37.9);
	is_near(simulate(SLOW "38.1\n").jct, 10 + 40 + 45 * 2);
}

/* Servers apply the pushes of an iteration before the next one's pulls. One that is slow makes all wait, but
 * after the last; a pattern slows it from 3 s on, by half of 0.4 s in each iteration. */
static void slow_server(void **state)
{
	(void)state;
	is_near(simulate("job workers=4 servers=2 samples=40000 batch=400\ncost sample=0.001 apply=0.01\n"
			 "node id=ps1 delay=0.2\n").jct,
		100 * 0.1 + 99 * (4 * 0.01 + 0.2));
	is_near(simulate("job workers=4 servers=2 samples=40000 batch=400\ncost sample=0.001 apply=0.01\n"
			 "server nodes=ps0 sleep=0.4 intensity=0.5\n").jct,
		100 * 0.1 + 99 * (4 * 0.01 + 0.2));
	/* 21 iterations are done by then, each but the first 0.14 s after the one before. */
	is_near(simulate("job workers=4 servers=2 samples=40000 batch=400\ncost sample=0.001 apply=0.01\n"
			 "server nodes=ps0 sleep=0.4 intensity=0.5 from=3\n").jct,
		100 * 0.1 + 21 * 0.04 + 78 * (0.04 + 0.2));
	/* Without a barrier a worker's next pull waits for its own push, too: 40 batches. */
	is_near(simulate("job workers=1 samples=4000 batch=100 sync=asp\ncost sample=0.001 apply=0.01\n"
			 "server nodes=ps0 sleep=0.4 intensity=0.5\n").jct,
		40 * 0.1 + 39 * (0.01 + 0.2));
}

/* Without a barrier each does what it can, to the last batch. */
static void no_barrier(void **state)
{
	(void)state;
	struct sim_result r = simulate(JOB "asp ahead=1\ncost sample=0.001\nnode id=w3 speed=250\n");
	/* 400 batches of 100 samples, 0.1 s each, w3's 0.4 s: 13 batches each 0.4 s. */
	double bound = 40000 / 3250.0;
	assert_true(r.jct >= bound - 1e-9 && r.jct <= bound + 0.4);
	assert_int_equal(r.samples, 40000);
}

/* The faster one of two may be three batches ahead, and then waits for each of the slower one's. */
static void staleness(void **state)
{
	(void)state;
	/* 20 batches: the slower one's m-th begins at 0.4 (m - 1), the faster one's n-th at 0, 0.1,
	 * 0.2 and then at 0.4 (n - 3). */
	is_near(simulate("job workers=2 samples=2000 batch=200 shard=100 ahead=1 sync=ssp:2\n"
			 "cost sample=0.001\nnode id=w1 speed=250\n").jct,
		0.4 * (1 + (20 - 4) / 2));
}

/* Parameters of 8000 bytes. */
static void links(void **state)
{
	(void)state;
	/* A slow link: there and back for each batch. */
	is_near(simulate(JOB "bsp bytes=8000\ncost sample=0.001\nlink id=w1 rate=1e5\n").jct,
		100 * (0.1 + 2 * 8000 / 1e5));
	/* Four workers share a server's: it carries all pulls, then all pushes. */
	is_near(simulate(JOB "bsp bytes=8000\ncost sample=0.001\nlink id=ps0 rate=1e5\n").jct,
		100 * (4 + 4) * 8000 / 1e5);
	/* Two servers have half of the parameters each, and one of them the slower link. */
	is_near(simulate("job workers=1 servers=2 samples=1000 batch=100 bytes=8000\ncost sample=0.001\n"
			 "link id=ps0 rate=1e5\nlink id=ps1 rate=4e4\n").jct,
		10 * (0.1 + 2 * 4000 / 4e4));
	/* From 3.05 s on a twentieth of the rate. Ten batches of 0.1 + 0.2 s by then, and of the
	 * eleventh's pull half, 4000 bytes; the other half takes 1 s. */
	is_near(simulate("job workers=1 samples=1200 batch=100 bytes=8000\ncost sample=0.001\n"
			 "link id=w0 rate=8e4\nlink id=w0 at=3.05 rate=4e3\n").jct,
		3.05 + 1 + 0.1 + 2 + (2 + 0.1 + 2));
	/* Two workers share their host's: pulls and pushes one after the other, the first batch between them. */
	is_near(simulate(JOB "bsp bytes=8000 hosts=2\ncost sample=0.001\nlink id=h1 rate=1e5\n").jct,
		100 * (0.08 + 0.1 + 2 * 0.08));
	/* The server is on the host of the others, whose link carries the same. */
	is_near(simulate(JOB "bsp bytes=8000 hosts=2\ncost sample=0.001\nlink id=h0 rate=1e5\n"
			     "node id=ps0 host=h0\n").jct,
		100 * (0.08 + 0.1 + 2 * 0.08));
	/* All on one host, in other places than they would have: nothing crosses the network. */
	is_near(simulate(JOB "bsp bytes=8000 hosts=2\ncost sample=0.001\nlink id=h0 rate=1\nnode id=ps0 host=h1\n"
			     "node id=w0 host=h1\nnode id=w1 host=h1\n").jct,
		100 * 0.1);
	/* A sum goes round the hosts, when each has summed for its workers. */
	is_near(simulate(JOB "allreduce hosts=2 bytes=8000\ncost sample=0.001 sum=0.02\nlink id=h1 rate=1e5\n").jct,
		100 * (0.1 + 2 * 0.5 * 8000 / 1e5 + 0.02));
	is_near(simulate("job workers=4 samples=8000 batch=400 shard=400 sync=allreduce hosts=2 bytes=8000\n"
			 "cost sample=0.001\nlink id=h0 rate=8e4\nlink id=h0 at=0.95 rate=4e4\n").jct,
		/* The fifth sum begins at 0.9 and has half of its bytes at 0.95. */
		4 * 0.2 + 0.1 + 0.05 + 0.1 + 15 * 0.3);
	/* A sum goes round four hosts. */
	is_near(simulate(JOB "allreduce hosts=4 bytes=8000\ncost sample=0.001\nlink id=w2 rate=1e5\n").jct,
		100 * (0.1 + 2 * 0.75 * 8000 / 1e5));
}

/* Where the delay is bounded and there are two hosts, a push is announced: two messages more. */
static void announced(void **state)
{
	(void)state;
	is_near(simulate("job workers=2 hosts=2 samples=10000 batch=200 shard=200 sync=asp delay=9 bytes=8000\n"
			 "cost sample=0.001 message=0.001 push=0.003\n").jct,
		50 * (0.1 + 0.003 + 4 * 0.001));
	/* Each is alone with its link, and the turns of one have nothing to do with those of the other. */
	is_near(simulate("job workers=2 hosts=2 samples=10000 batch=200 shard=200 sync=asp delay=9 bytes=8000 fabric=mlfabric\n"
			 "cost sample=0.001 message=0.001\nlink id=h0 rate=1e5\nlink id=h1 rate=1e5\n").jct,
		50 * (0.1 + 2 * 0.08 + 4 * 0.001));
}

/* A sum by shares: three hosts own all, and the slow one sends and gets the model once. A host of more than half the
 * others' rate counts as fast, and then all are alike: the ring. */
static void shares(void **state)
{
	(void)state;
#define SUM JOB "allreduce hosts=4 bytes=8000 fabric=mlfabric\ncost sample=0.001\nlink id=h0 rate=1e5\nlink id=h1 rate=1e5\n" \
	"link id=h2 rate=1e5\nlink id=h3 rate="
	is_near(simulate(SUM "1e4\n").jct, 100 * (0.1 + 8000 / 1e4));
	is_near(simulate(SUM "5e4\n").jct, 100 * (0.1 + 8000 / 5e4));
	is_near(simulate(SUM "8e4\n").jct, 100 * (0.1 + 2 * 0.75 * 8000 / 8e4));
	is_near(simulate(SUM "1e5\n").jct, 100 * (0.1 + 2 * 0.75 * 8000 / 1e5));
}

/* A batch is computed while the last one is summed: an iteration takes as long as the longer of the two. */
static void overlapped(void **state)
{
	(void)state;
#define OVER JOB "allreduce hosts=2 delay=1"
	is_near(simulate(OVER "\ncost sample=0.001 sum=0.05\n").jct, 100 * 0.1 + 0.05);
	is_near(simulate(OVER "\ncost sample=0.001 sum=0.3\n").jct, 0.1 + 100 * 0.3);
	is_near(simulate(OVER "\ncost sample=0.001 sum=0.05\nnode id=w2 speed=250\n").jct, 100 * 0.4 + 0.05);
	/* A push, and the answer to it, are messages; the first waits for no answer. */
	is_near(simulate(OVER "\ncost sample=0.001 sum=0.3 message=0.01 commit=0.02\n").jct, 0.01 + 0.1 + 100 * 0.33 + 99 * 0.01);
	/* The sum is over a link. */
	is_near(simulate(OVER " bytes=8000\ncost sample=0.001\nlink id=h1 rate=4e4\n").jct, 0.1 + 100 * 0.2);
	/* w2 takes a second for its batch that begins at 1 s. From 1.15 s on it is late: one and a half of 0.1 s. Its rows
	 * are trained again from there on, at its usual pace, and it is in the sum after. */
	is_near(simulate(OVER "\ncost sample=0.001\nnode id=w2 at=0.95 speed=100\nnode id=w2 at=1.05\n").jct, 100 * 0.1 + 0.9);
	struct sim_result late = simulate(OVER " late=1.5\ncost sample=0.001\nnode id=w2 at=0.95 speed=100\nnode id=w2 at=1.05\n");
	is_near(late.jct, 1.15 + 90 * 0.1); /* the last of these is of 100 samples */
	assert_int_equal(late.samples, 40000);
	assert_int_equal(late.iterations, 101);
}

/* A server dies at 5.05 s: all go back to the checkpoint of 3.05 s, 30 iterations, or to the beginning; a server begins
 * for two seconds. */
static void goes_back(void **state)
{
	(void)state;
#define DIES "cost sample=0.001 start-server=2\nevent id=ps0 kind=kill at=5.05\n"
	is_near(simulate(JOB "bsp checkpoint=3.05\n" DIES).jct, 7.05 + 70 * 0.1);
	is_near(simulate(JOB "bsp\n" DIES).jct, 7.05 + 100 * 0.1);
	/* That of 4.95 s is not written yet. */
	is_near(simulate(JOB "bsp checkpoint=4.95\ncost save=0.2\n" DIES).jct, 7.05 + 100 * 0.1 + 0.15);
	/* Once more, before there is another one: the 30 are there still. */
	is_near(simulate(JOB "bsp checkpoint=3.05\n" DIES "event id=ps0 kind=kill at=8.05\n").jct, 10.05 + 70 * 0.1);
	struct sim_result r = simulate("job workers=2 servers=3 samples=40000 batch=400 sync=asp checkpoint=3.05\n" DIES);
	assert_int_equal(r.samples, 40000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_alike),
		cmocka_unit_test(messages_and_servers),
		cmocka_unit_test(scaled), cmocka_unit_test(one_straggler), cmocka_unit_test(slow_server),
		cmocka_unit_test(hung),
		cmocka_unit_test(no_barrier),
		cmocka_unit_test(staleness),
		cmocka_unit_test(links), cmocka_unit_test(announced), cmocka_unit_test(shares),
		cmocka_unit_test(overlapped), cmocka_unit_test(goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
