/*
 * solve_step: Algorithm 2 on emulated devices.  What is balanced is not read from the code under
 * test: the exact optimum of Eq. 3 (batch_share) says it.
 */
#include "solve/step.h"

#include "solve/batch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICES_MAX 8

struct cluster {
	struct step *s;
	struct step_options o;
	int n, warned;
	double fixed[DEVICES_MAX], speed[DEVICES_MAX], mem[DEVICES_MAX], noise;
	struct step_worker w[DEVICES_MAX];
	double slowest; /* of the last iteration */
};

static uint64_t random_state = 1;

static double draw(void)
{
	uint64_t z = random_state += 0x9E3779B97F4A7C15ull;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static const char *const names[DEVICES_MAX] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};

/* The paper's kinds of device: V100, M60, K80, K520, with launch costs. */
static void set_up(struct cluster *c, struct step_options o)
{
	static const double fixed[4] = {0.02, 0.03, 0.04, 0.05}, speed[4] = {890, 215, 130, 70};
	memset(c, 0, sizeof *c);
	c->o = o;
	c->s = step_new(&o, NULL);
	assert_non_null(c->s);
	c->n = 4;
	for (int i = 0; i < DEVICES_MAX; i++) {
		c->fixed[i] = fixed[i % 4];
		c->speed[i] = speed[i % 4];
		c->w[i] = (struct step_worker){.id = names[i], .min = 1, .max = BATCH_SIZE_MAX};
		c->w[i].size = o.global / 4;
	}
}

static uint64_t sum_of(const struct cluster *c)
{
	uint64_t sum = 0;
	for (int i = 0; i < c->n; i++)
		sum += c->w[i].size;
	return sum;
}

/* One iteration with the sizes in force; returns whether a worker was warned of. */
static int iterate(struct cluster *c)
{
	int warned = 0;
	c->slowest = 0;
	for (int i = 0; i < c->n; i++) {
		double t = c->fixed[i] + (double)c->w[i].size / c->speed[i];
		c->w[i].time = t * (1 + c->noise * (draw() - 0.5));
		c->w[i].mem = c->mem[i];
		c->slowest = t > c->slowest ? t : c->slowest;
	}
	assert_int_equal(step_round(c->s, c->w, (size_t)c->n, NULL), 0);
	assert_int_equal(sum_of(c), c->o.global);
	for (int i = 0; i < c->n; i++) {
		warned += c->w[i].remove;
		c->warned |= c->w[i].remove << i;
	}
	return warned;
}

static void iterate_many(struct cluster *c, int rounds)
{
	for (int k = 0; k < rounds; k++)
		iterate(c);
}

static double optimum(const struct cluster *c)
{
	struct batch_worker row[DEVICES_MAX];
	double longest = 0;
	for (int i = 0; i < c->n; i++)
		row[i] = (struct batch_worker){.speed = c->speed[i],
					       .fixed = c->fixed[i],
					       .min = c->w[i].min,
					       .max = c->w[i].max,
					       .count = 1};
	assert_int_equal(batch_share(row, (size_t)c->n, c->o.global, NULL), 0);
	for (int i = 0; i < c->n; i++)
		longest = batch_time(&row[i]) > longest ? batch_time(&row[i]) : longest;
	return longest;
}

static double one_sample(const struct cluster *c)
{
	double most = 0;
	for (int i = 0; i < c->n; i++)
		most = 1 / c->speed[i] > most ? 1 / c->speed[i] : most;
	return most;
}

static void settles_at_the_balanced_point(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	assert_int_equal(step_phase(c.s), STEP_COARSE);
	int fine = -1;
	for (int k = 0; k < 60; k++) {
		iterate(&c);
		if (fine < 0 && step_phase(c.s) == STEP_FINE)
			fine = k;
	}
	/* Coarse until they swing: not before a step was possible, and soon. */
	assert_in_range(fine, 6, 50);
	iterate_many(&c, 400);
	uint64_t settled[4];
	for (int i = 0; i < 4; i++)
		settled[i] = c.w[i].size;
	assert_true(c.slowest <= optimum(&c) + one_sample(&c));
	/* And stays: nothing is tried twice that was no better. */
	for (int k = 0; k < 300; k++) {
		iterate(&c);
		for (int i = 0; i < 4; i++)
			assert_int_equal(c.w[i].size, settled[i]);
	}
	assert_int_equal(step_phase(c.s), STEP_FINE);
	assert_int_equal(c.warned, 0);
	step_free(c.s);
}

static void coarse_moves_are_the_papers(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	for (int k = 0; k < 4; k++) {
		iterate(&c);
		for (int i = 0; i < 4; i++)
			assert_int_equal(c.w[i].size, 32);
	}
	iterate(&c); /* the fifth: w0 was faster than w3 in each */
	assert_int_equal(c.w[0].size, 37);
	assert_int_equal(c.w[3].size, 27);
	assert_int_equal(c.w[1].size, 32);
	assert_int_equal(c.w[2].size, 32);
	iterate(&c); /* and in the last five again */
	assert_int_equal(c.w[0].size, 42);
	assert_int_equal(c.w[3].size, 22);
	step_free(c.s);
}

static void resettles_when_a_link_slows(void **state)
{
	(void)state;
	for (int which = 0; which < 4; which++) {
		struct cluster c;
		set_up(&c, (struct step_options){256, 5, 1, 5, 20});
		iterate_many(&c, 400);
		assert_int_equal(step_phase(c.s), STEP_FINE);
		c.fixed[which] += 0.12; /* the same batch, later by a transfer */
		int coarse = 0, back = -1;
		for (int k = 0; k < 120; k++) {
			iterate(&c);
			coarse += step_phase(c.s) == STEP_COARSE;
			if (coarse && back < 0 && step_phase(c.s) == STEP_FINE)
				back = k;
		}
		/* One by one would take for ever where there is much to move; w2 and w3 have so
		 * little that fine steps do. */
		assert_true(which >= 2 || (coarse > 0 && back > 0));
		iterate_many(&c, 500);
		assert_true(c.slowest <= optimum(&c) + one_sample(&c));
		assert_int_equal(c.warned, 0);
		step_free(c.s);
	}
}

static void noise_does_not_unsettle(void **state)
{
	(void)state;
	for (int round = 0; round < 50; round++) {
		struct cluster c;
		set_up(&c, (struct step_options){256, 5, 1, 5, 20});
		c.noise = 0.04;
		iterate_many(&c, 500);
		int coarse = 0;
		for (int k = 0; k < 300; k++) {
			iterate(&c);
			coarse += step_phase(c.s) == STEP_COARSE;
			assert_true(c.slowest <= optimum(&c) * 1.05 + 2 * one_sample(&c));
		}
		assert_int_equal(coarse, 0);
		step_free(c.s);
	}
}

static void random_clusters_settle(void **state)
{
	(void)state;
	for (int round = 0; round < 500; round++) {
		struct cluster c;
		set_up(&c, (struct step_options){400 + (uint64_t)(draw() * 400), 5, 1, 5, 20});
		c.n = 2 + (int)(draw() * 7);
		for (int i = 0; i < c.n; i++) {
			c.speed[i] = 100 + 900 * draw();
			c.fixed[i] = 0.05 * draw();
		}
		for (int i = 0; i < c.n; i++)
			c.w[i].size = 0;
		for (uint64_t k = 0; k < c.o.global; k++)
			c.w[k % (uint64_t)c.n].size++;
		iterate_many(&c, 1500);
		assert_true(c.slowest <= optimum(&c) + 2 * one_sample(&c));
		step_free(c.s);
	}
}

static void warns_of_a_worker_that_should_go(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	c.fixed[2] = 2;
	int first = -1;
	for (int k = 0; k < 100 && first < 0; k++)
		if (iterate(&c))
			first = k;
	assert_true(first > 0);
	assert_int_equal(c.warned, 1 << 2);
	assert_true(c.w[2].size <= 5);
	uint64_t size = c.w[2].size;
	/* Said once, not in each iteration; later steps are fine ones, and it keeps one sample. */
	for (int k = 0; k < 200; k++)
		assert_int_equal(iterate(&c), 0);
	assert_true(c.w[2].size <= size && c.w[2].size >= 1);
	assert_int_equal(c.warned, 1 << 2);
	step_free(c.s);
}

static void full_memory_takes_no_more(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	c.mem[0] = 0.951; /* the fastest */
	iterate_many(&c, 100);
	assert_int_equal(c.w[0].size, 32);
	assert_true(c.w[1].size > 32);
	c.mem[0] = 0.95;
	iterate_many(&c, 100);
	assert_true(c.w[0].size > 32);
	uint64_t size = c.w[0].size;
	for (int i = 0; i < 4; i++)
		c.mem[i] = 1; /* nobody may lead */
	c.fixed[3] = 1;
	iterate_many(&c, 100);
	assert_int_equal(c.w[0].size, size);
	step_free(c.s);
}

static void bounds_hold(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	c.w[0].max = 50;
	c.w[3].min = 6;
	for (int k = 0; k < 400; k++) {
		iterate(&c);
		for (int i = 0; i < 4; i++)
			assert_in_range(c.w[i].size, c.w[i].min, c.w[i].max);
	}
	assert_true(c.w[0].size > 45);
	c.w[0].max = 40; /* a bound that moves is obeyed at once */
	iterate(&c);
	assert_int_equal(c.w[0].size, 40);
	step_free(c.s);
}

static void workers_come_and_go(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){200, 5, 1, 5, 20});
	iterate_many(&c, 300);
	assert_int_equal(step_phase(c.s), STEP_FINE);
	uint64_t before[4];
	for (int i = 0; i < 4; i++)
		before[i] = c.w[i].size;
	c.n = 3; /* w3 has gone: its samples go to the others, in proportion */
	iterate(&c);
	assert_int_equal(step_phase(c.s), STEP_COARSE);
	for (int i = 0; i < 3; i++) {
		double want = (double)before[i] * 200 / (double)(200 - before[3]);
		assert_true(fabs((double)c.w[i].size - want) < 1.5);
	}
	iterate_many(&c, 300);
	c.n = 5; /* w3 is back, w4 is new: the mean each */
	iterate(&c);
	assert_in_range(c.w[3].size, 39, 41);
	assert_in_range(c.w[4].size, 39, 41);
	iterate_many(&c, 500);
	assert_true(c.slowest <= optimum(&c) + one_sample(&c));
	/* In another order they are the same workers. */
	struct step_worker swap = c.w[0];
	enum step_phase phase = step_phase(c.s);
	c.w[0] = c.w[4];
	c.w[4] = swap;
	uint64_t sizes[2] = {c.w[0].size, c.w[4].size};
	assert_int_equal(step_round(c.s, c.w, 5, NULL), 0);
	assert_int_equal(step_phase(c.s), phase);
	assert_int_equal(c.w[0].size, sizes[0]);
	assert_int_equal(c.w[4].size, sizes[1]);
	step_free(c.s);
}

static void starts_from_given_sizes(void **state)
{
	(void)state;
	struct cluster c;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	static const uint64_t start[4] = {89, 21, 12, 6};
	for (int i = 0; i < 4; i++) {
		c.w[i].start = start[i];
		c.w[i].time = 0; /* nothing measured yet */
	}
	assert_int_equal(step_round(c.s, c.w, 4, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(c.w[i].size, start[i]);
	/* Whose time is not known neither gives nor takes. */
	for (int k = 0; k < 30; k++) {
		for (int i = 0; i < 4; i++)
			c.w[i].time = i == 0 ? 0 : 1.0 + i;
		assert_int_equal(step_round(c.s, c.w, 4, NULL), 0);
	}
	assert_int_equal(c.w[0].size, 89);
	assert_true(c.w[1].size > 21);
	step_free(c.s);
}

static void what_can_not_be_is_an_error_and_changes_nothing(void **state)
{
	(void)state;
	struct cluster c;
	struct error err;
	set_up(&c, (struct step_options){128, 5, 1, 5, 20});
	iterate_many(&c, 10);
	uint64_t size = c.w[0].size;
	c.w[1].min = 200;
	assert_int_equal(step_round(c.s, c.w, 4, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "sum of min"));
	c.w[1].min = 1;
	c.w[1].id = "w0";
	assert_int_equal(step_round(c.s, c.w, 4, &err), -1);
	assert_non_null(strstr(err.text, "w0 stands twice"));
	c.w[1].id = "w1";
	assert_int_equal(step_round(c.s, c.w, 0, &err), 0);
	for (int i = 0; i < 4; i++)
		c.w[i].time = 1;
	assert_int_equal(step_round(c.s, c.w, 4, &err), 0);
	assert_int_equal(c.w[0].size, size);
	step_free(c.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coarse_moves_are_the_papers),
		cmocka_unit_test(settles_at_the_balanced_point),
		cmocka_unit_test(resettles_when_a_link_slows),
		cmocka_unit_test(noise_does_not_unsettle),
		cmocka_unit_test(random_clusters_settle),
		cmocka_unit_test(warns_of_a_worker_that_should_go),
		cmocka_unit_test(full_memory_takes_no_more),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(workers_come_and_go),
		cmocka_unit_test(starts_from_given_sizes),
		cmocka_unit_test(what_can_not_be_is_an_error_and_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
