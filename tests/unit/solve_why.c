/* Why a worker is slow, from what was measured. */
#include "solve/why.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct snapshot_node node[4];
static const struct snapshot crew = {.node = node, .node_count = 4};

/* Four workers that are alike; w3 takes 1.6 times the mean. */
static struct snapshot_node *slow_one(void)
{
	for (size_t i = 0; i < 4; i++) {
		node[i] = (struct snapshot_node){.role = NODE_WORKER,
						 .state = NODE_UP,
						 .size = 120,
						 .ratio_short = 0.8,
						 .speed_short = 1200,
						 .compute = 0.08,
						 .comm = 0.02,
						 .cpu = 0.5,
						 .psi_cpu = 0.01,
						 .psi_mem = 0,
						 .throttled = NAN,
						 .own_cpu = 0.5};
		node[i].id[0] = 'w';
		node[i].id[1] = (char)('0' + i);
	}
	node[3].ratio_short = 1.6;
	node[3].speed_short = 600;
	return &node[3];
}

static void check(const char *want)
{
	struct why why;
	char out[WHY_MAX];
	why_gather(&why, &crew, NODE_WORKER);
	why_slow(&why, &node[3], out);
	assert_string_equal(out, want);
}

static void reasons(void **state)
{
	(void)state;
	struct snapshot_node *n = slow_one();
	check(""); /* nothing that was measured tells it from the others */
	n->compute = 0.168;
	check("computes 2.1x as long");
	n->cpu = 0.97;
	check("computes 2.1x as long, its machine is busy (cpu 97%)");
	n->psi_mem = 0.3;
	check("computes 2.1x as long, it is short of memory");
	for (size_t i = 0; i < 4; i++)
		node[i].throttled = 0;
	n->throttled = 0.5;
	check("computes 2.1x as long, its cpu limit holds it back");
	n->ratio_short = 1.05; /* not slow */
	check("");
	n->ratio_short = NAN;
	check("");

	n = slow_one();
	n->comm = 0.2;
	check("sends and receives 10.0x as long");
	n->comm = 20;
	check("sends and receives much longer");

	n = slow_one(); /* as fast as the others, but it has more to do */
	n->size = 240;
	n->speed_short = 1200;
	n->compute = 0.16;
	check("its batch is larger: 240 samples, the others' 120");

	n = slow_one();
	n->psi_cpu = 0.4;
	check("it waits for a processor");
	n->state = NODE_DOWN;
	check("");
}

static void alone(void **state)
{
	(void)state;
	struct snapshot_node *n = slow_one();
	for (size_t i = 0; i < 3; i++)
		node[i].state = NODE_DOWN;
	n->compute = 9;
	check(""); /* there is nobody to compare it with */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasons),
		cmocka_unit_test(alone),
	};
	return cmocka_run_group_tests_name("solve_why", tests, NULL, NULL);
}
