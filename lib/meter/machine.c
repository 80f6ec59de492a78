/* machine: see machine.h. */
#include "meter/machine.h"

#include "base/clock.h"
#include "base/team.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 8         /* independent, so that a core is kept busy */
#define STEPS 20000      /* of each, between two looks at the clock: well below a millisecond */
#define BLOCK (8u << 20)  /* bytes, beyond most caches */

struct core {
	double rate;
	int wrong;
};

struct test {
	double seconds;
	struct core *core;
};

/* The same each time, which only the machine is to find out. */
static const volatile double start = 1.0;

static double calculate(void)
{
	double x[CHAINS], sum = 0, first = start;
	for (int k = 0; k < CHAINS; k++)
		x[k] = first + 0.125 * k;
	for (int i = 0; i < STEPS; i++)
		for (int k = 0; k < CHAINS; k++)
			x[k] = x[k] * 0.9990234375 + 0.0078125;
	for (int k = 0; k < CHAINS; k++)
		sum += x[k];
	return sum;
}

static void test_core(size_t i, void *arg)
{
	const struct test *t = arg;
	struct core *core = &t->core[i];
	double began = clock_mono(), first = calculate(), now = clock_mono(), least = now - began;
	while (now - began < t->seconds) {
		double again = calculate(), before = now;
		now = clock_mono();
		least = now - before < least ? now - before : least;
		core->wrong |= memcmp(&again, &first, sizeof again) != 0;
	}
	core->rate = 2.0 * CHAINS * STEPS / least;
}

static int test_cores(struct machine *out, double seconds, struct error *err)
{
	unsigned cores = team_cores();
	struct team *team;
	cores = cores < TEAM_THREADS_MAX ? cores : TEAM_THREADS_MAX;
	struct test t = {.seconds = seconds, .core = calloc(cores, sizeof *t.core)};
	if (!t.core)
		return error_set(err, ERROR_OS, "cores", "out of memory");
	if (team_new(&team, cores, err) != 0) {
		free(t.core);
		return -1;
	}
	team_run(team, cores, test_core, &t);
	team_free(team);
	for (unsigned i = 0; i < cores; i++) {
		out->compute += t.core[i].rate / cores;
		out->wrong |= t.core[i].wrong;
	}
	out->cores = cores;
	free(t.core);
	return 0;
}

static uint64_t pattern(size_t i)
{
	return (uint64_t)i * 0x9e3779b97f4a7c15u;
}

static int test_memory(struct machine *out, double seconds, struct error *err)
{
	size_t count = BLOCK / sizeof(uint64_t);
	uint64_t *from = malloc(BLOCK), *to = malloc(BLOCK);
	if (!from || !to) {
		free(from);
		free(to);
		return error_set(err, ERROR_OS, "memory", "out of memory");
	}
	for (size_t i = 0; i < count; i++)
		from[i] = to[i] = pattern(i);
	double began = clock_mono(), now = began, least = 1e9;
	do {
		uint64_t *other = from;
		double before = now;
		memcpy(to, from, BLOCK);
		from = to;
		to = other;
		now = clock_mono();
		least = now - before < least ? now - before : least;
	} while (now - began < seconds);
	out->memory = BLOCK / least;
	for (size_t i = 0; i < count; i++)
		out->wrong |= from[i] != pattern(i);
	free(from);
	free(to);
	return 0;
}

int machine_test(struct machine *out, double seconds, struct error *err)
{
	*out = (struct machine){0};
	return test_cores(out, seconds / 2, err) != 0 ? -1 : test_memory(out, seconds / 2, err);
}
