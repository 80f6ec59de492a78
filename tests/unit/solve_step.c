/*
 * solve_step: Algorithm 2 on emulated devices.  What is balanced is not read from the code under
 * test: the exact optimum of Eq. 3 (batch_share) says it.
 */
#include "base/random.h"
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
	return random_uniform(&random_state);
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
	assert_non_null(strstr(err.text, "w0 appears twice"));
	c.w[1].id = "w1";
	assert_int_equal(step_round(c.s, c.w, 0, &err), 0);
	for (int i = 0; i < 4; i++)
		c.w[i].time = 1;
	assert_int_equal(step_round(c.s, c.w, 4, &err), 0);
	assert_int_equal(c.w[0].size, size);
	step_free(c.s);
}

/* ---- small rounds by hand: times in, sizes out ---- */

struct play {
	struct step *s;
	struct step_worker w[DEVICES_MAX];
	size_t n;
};

static void begin_play(struct play *p, struct step_options o, size_t n, const uint64_t *start)
{
	memset(p, 0, sizeof *p);
	p->n = n;
	for (size_t i = 0; i < n; i++) {
		p->w[i] = (struct step_worker){.id = names[i], .min = 1, .max = BATCH_SIZE_MAX};
		p->w[i].start = start[i];
		o.global += start[i];
	}
	p->s = step_new(&o, NULL);
	assert_non_null(p->s);
}

/* Returns who is warned of, or -1. */
static int play(struct play *p, const double *time)
{
	int warned = -1;
	for (size_t i = 0; i < p->n; i++)
		p->w[i].time = time[i];
	assert_int_equal(step_round(p->s, p->w, p->n, NULL), 0);
	for (size_t i = 0; i < p->n; i++)
		if (p->w[i].remove)
			warned = (int)i;
	return warned;
}

static int is_size(const struct play *p, const uint64_t *size)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->w[i].size != size[i])
			return 0;
	return 1;
}

#define BEGIN(p, step, fine, window, fine_window, n, ...)                                          \
	begin_play(p, (struct step_options){0, step, fine, window, fine_window}, n,                \
		   (const uint64_t[]){__VA_ARGS__})
#define PLAY(p, ...) play(p, (const double[]){__VA_ARGS__})
#define SIZES(p, ...) assert_true(is_size(p, (const uint64_t[]){__VA_ARGS__}))
/* What follows is fine: the slowest has less than a coarse step to give. */
#define COARSE_NEVER 100000

static void faster_in_each_round_means_faster(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, 5, 1, 2, 2, 2, 10, 10);
	PLAY(&p, 1, 1); /* as fast is not faster */
	PLAY(&p, 1, 2);
	SIZES(&p, 10, 10);
	PLAY(&p, 1, 2);
	SIZES(&p, 15, 5);
	step_free(p.s);

	BEGIN(&p, 5, 1, 3, 3, 2, 10, 10);
	PLAY(&p, 0, 2); /* nor is who is not known */
	PLAY(&p, 1, 2);
	PLAY(&p, 1, 2);
	SIZES(&p, 10, 10);
	PLAY(&p, 1, 2);
	SIZES(&p, 15, 5);
	step_free(p.s);

	BEGIN(&p, 5, 1, 1, 1, 2, 2, 2);
	assert_int_equal(PLAY(&p, 1, 1), -1); /* nobody is the straggler */
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	step_free(p.s);

	BEGIN(&p, 5, 1, 1, 1, 4, 10, 10, 10, 10);
	PLAY(&p, 1, 1, 3, 3); /* of equals the first */
	SIZES(&p, 15, 10, 5, 10);
	step_free(p.s);
	step_free(NULL);
}

static void bounds_are_reached_exactly(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, 5, 1, 1, 1, 3, 10, 10, 10);
	p.w[0].max = 15;
	p.w[1].min = 5;
	PLAY(&p, 1, 3, 2);
	SIZES(&p, 15, 5, 10);
	assert_int_equal(PLAY(&p, 1, 3, 2), -1); /* w2 would need 3, too; w0 is full */
	assert_int_equal(PLAY(&p, 1, 3, 1.9), 1);
	SIZES(&p, 15, 5, 10);
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	PLAY(&p, 1, 2, 3); /* w0 is full: w1 leads */
	SIZES(&p, 15, 10, 5);
	step_free(p.s);

	/* Who is at a bound is no other worker than before: two rounds are two rounds. */
	BEGIN(&p, 5, 1, 2, 2, 4, 10, 10, 10, 10);
	p.w[0].max = p.w[2].min = 10;
	PLAY(&p, 1, 2, 3, 4);
	PLAY(&p, 1, 2, 3, 4);
	SIZES(&p, 10, 15, 10, 5);
	step_free(p.s);

	/* Too little for a coarse step is enough for a fine one, down to min. */
	BEGIN(&p, 5, 1, 1, 1, 2, 19, 11);
	p.w[1].min = 10;
	assert_int_equal(PLAY(&p, 1, 2), 1);
	assert_int_equal(step_phase(p.s), STEP_FINE);
	SIZES(&p, 19, 11);
	assert_int_equal(PLAY(&p, 1, 2), -1);
	SIZES(&p, 20, 10);
	PLAY(&p, 1, 2);
	SIZES(&p, 20, 10);
	step_free(p.s);

	BEGIN(&p, 5, 2, 1, 1, 2, 19, 11);
	p.w[1].min = 10;
	assert_int_equal(PLAY(&p, 1, 2), 1); /* and here it is not */
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	step_free(p.s);
}

/* w1 is the slower one in a fine phase that w2 began; a window is three rounds. */
static int loses_balance(uint64_t most, uint64_t least, double first, double second, double third)
{
	struct play p;
	BEGIN(&p, 2, 1, 3, 50, 3, 10, 20, 2);
	p.w[0].max = most;
	p.w[1].min = least;
	PLAY(&p, first, 10, 11);
	assert_int_equal(step_phase(p.s), STEP_FINE);
	PLAY(&p, second, 10, 9.95);
	assert_int_equal(step_phase(p.s), STEP_FINE);
	PLAY(&p, third, 10, 9.95);
	int lost = step_phase(p.s) == STEP_COARSE;
	if (lost) /* and the step is made at once */
		SIZES(&p, 12, 18, 2);
	else
		SIZES(&p, 10, 20, 2);
	step_free(p.s);
	return lost;
}

static void balance_is_lost_when_a_coarse_step_can_not_turn_them(void **state)
{
	(void)state;
	/* 10 - 7 > 2 * (10/20 + 7/10), but 10 - 7.5 = 2 * (10/20 + 7.5/10). */
	assert_true(loses_balance(99, 1, 7, 7, 7));
	assert_false(loses_balance(99, 1, 7.5, 7.5, 7.5));
	assert_false(loses_balance(99, 1, 9.9, 7, 7));
	assert_false(loses_balance(99, 1, 7, 7, 9.9));
	assert_true(loses_balance(12, 18, 7, 7, 7)); /* they can give and take it */
	assert_false(loses_balance(11, 18, 7, 7, 7));
	assert_false(loses_balance(12, 19, 7, 7, 7));
}

static void an_empty_leader_s_time_is_what_a_sample_may_cost(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		struct play p;
		BEGIN(&p, 2, 1, 1, 50, 3, 0, 20, 2);
		p.w[0].min = p.w[0].max = 0;
		PLAY(&p, 0, 0, 0);
		p.w[0].max = 99;
		assert_int_equal(p.w[0].size, 0);
		PLAY(&p, 5, 10, 11);
		assert_int_equal(step_phase(p.s), STEP_FINE);
		/* 10 - 4 < 2 * (10/20 + 4), 10 - 2 > 2 * (10/20 + 2) */
		PLAY(&p, lost ? 2 : 4, 10, 9);
		assert_int_equal(step_phase(p.s), lost ? STEP_COARSE : STEP_FINE);
		step_free(p.s);
	}
}

static void what_was_before_the_balance_was_lost_is_forgotten(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, 2, 1, 3, 6, 3, 10, 20, 2);
	PLAY(&p, 9.9, 10, 11);
	PLAY(&p, 9.9, 10, 9.95);
	for (int k = 0; k < 3; k++)
		PLAY(&p, 7, 10, 9.95);
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	SIZES(&p, 12, 18, 2);
	PLAY(&p, 9.9, 10, 11);
	assert_int_equal(step_phase(p.s), STEP_FINE);
	/* Six rounds are the window: three of the loss, and these. */
	PLAY(&p, 9.9, 10, 9.95);
	SIZES(&p, 12, 18, 2);
	PLAY(&p, 9.9, 10, 9.95);
	SIZES(&p, 13, 17, 2);
	step_free(p.s);

	/* w1 was slower than w0, but not since: no swing. */
	BEGIN(&p, 2, 1, 3, 50, 3, 10, 20, 2);
	PLAY(&p, 7, 10, 11);
	PLAY(&p, 7, 10, 9.95);
	PLAY(&p, 7, 10, 9.95);
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	PLAY(&p, 12, 1, 9.95);
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	step_free(p.s);

	/* Sizes 10, 20 were bad (50 s) in the phase before. */
	BEGIN(&p, 2, 1, 3, 1, 3, 10, 20, 2);
	PLAY(&p, 9.9, 10, 11);
	PLAY(&p, 9.9, 50, 9.95);
	PLAY(&p, 7, 10, 9.95);
	SIZES(&p, 12, 18, 2);
	PLAY(&p, 7, 10, 9.95);
	assert_int_equal(step_phase(p.s), STEP_COARSE);
	SIZES(&p, 14, 16, 2);
	PLAY(&p, 9.9, 10, 11);
	assert_int_equal(step_phase(p.s), STEP_FINE);
	for (int k = 0; k < 4; k++)
		PLAY(&p, 10, 9.95, 9.96);
	SIZES(&p, 10, 20, 2);
	step_free(p.s);
}

static void a_move_of_no_use_is_not_made_again(void **state)
{
	(void)state;
	struct play p;
	/* Two rounds each; what coarse rounds took is no measure. */
	BEGIN(&p, COARSE_NEVER, 2, 2, 2, 2, 10, 10);
	PLAY(&p, .1, .9);
	PLAY(&p, .2, .1);
	SIZES(&p, 10, 10);
	PLAY(&p, .1, .2);
	PLAY(&p, .1, .2);
	SIZES(&p, 12, 8);
	PLAY(&p, .3, .1);
	PLAY(&p, .3, .1);
	SIZES(&p, 10, 10); /* .2 was better than .3 */
	for (int k = 0; k < 9; k++)
		PLAY(&p, .1, .2);
	SIZES(&p, 10, 10); /* .3 was no better than .2 */
	step_free(p.s);

	/* No better is not worse; and it is the mean that counts: 3 s there, 3 s here. */
	BEGIN(&p, COARSE_NEVER, 1, 1, 2, 2, 10, 10);
	PLAY(&p, 2, 1);
	PLAY(&p, 1, 4);
	PLAY(&p, 1, 2);
	SIZES(&p, 11, 9);
	PLAY(&p, 2, 1);
	PLAY(&p, 4, 1);
	SIZES(&p, 11, 9);
	step_free(p.s);

	/* The same sizes on other workers are other sizes. */
	BEGIN(&p, COARSE_NEVER, 1, 1, 1, 2, 10, 11);
	PLAY(&p, 1, 2);
	PLAY(&p, 1, 2);
	SIZES(&p, 11, 10);
	step_free(p.s);
}

/* Tried at first, after the way there and back; then the other sizes took 3 s. Whether they are
 * tried again. */
static int tries_again(double first, double back)
{
	struct play p;
	BEGIN(&p, COARSE_NEVER, 1, 1, 1, 2, 10, 10);
	PLAY(&p, 1, 9);
	PLAY(&p, 1, first);
	SIZES(&p, 11, 9);
	PLAY(&p, 3, 1);
	SIZES(&p, 10, 10);
	PLAY(&p, 1, back);
	int again = p.w[0].size == 11;
	step_free(p.s);
	return again;
}

static void sizes_tried_anew_are_measured_anew(void **state)
{
	(void)state;
	assert_true(tries_again(2, 3.5)); /* though the mean of both is below 3 */
	assert_false(tries_again(2, 2.5));
	assert_false(tries_again(2, 3));
}

static void a_round_with_a_time_unknown_is_no_measure(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, COARSE_NEVER, 1, 1, 1, 2, 10, 10);
	PLAY(&p, 1, 9);
	PLAY(&p, 1, 3);
	SIZES(&p, 11, 9);
	PLAY(&p, 2, 0);
	SIZES(&p, 11, 9);
	PLAY(&p, 4, 1); /* 4, not the mean of 2 and 4: the 3 s were better */
	SIZES(&p, 10, 10);
	step_free(p.s);
}

/* w0's move is of no use; w2 and w3 are there, too. Returns who takes two samples, or 0. */
static size_t takes_instead(uint64_t size, double w1, double w2, double w3)
{
	struct play p;
	BEGIN(&p, COARSE_NEVER, 2, 1, 1, 4, 10, 10, size, 10);
	PLAY(&p, 1, 20, 5, 5);
	PLAY(&p, 1, w1, 3, 3);
	SIZES(&p, 12, 8, size, 10);
	PLAY(&p, 20, 1, 3, 3);
	SIZES(&p, 10, 10, size, 10);
	PLAY(&p, 1, w1, w2, w3);
	size_t who = 0;
	for (size_t i = 2; i < 4; i++)
		if (p.w[i].size > (i == 2 ? size : 10))
			who = i;
	assert_int_equal(p.w[0].size, 10);
	assert_int_equal(p.w[1].size, who ? 8 : 10);
	step_free(p.s);
	return who;
}

static void the_next_fastest_takes_what_the_leader_can_not(void **state)
{
	(void)state;
	assert_int_equal(takes_instead(10, 9, 5, 5), 2); /* the first of equals */
	assert_int_equal(takes_instead(10, 9, 5, 4), 3); /* the faster one */
	assert_int_equal(takes_instead(10, 9, 4, 5), 2);
	assert_int_equal(takes_instead(1, 9, 2, 8.5), 2); /* 2 + 2 * 2/1 < 9 */
	/* Not who would be the straggler then: 5 + 2 * 5/10 = 6, 4.9 + 2 * 4.9/10 < 6. */
	assert_int_equal(takes_instead(10, 6, 5, 5), 0);
	assert_int_equal(takes_instead(10, 6, 5.5, 5), 0);
	assert_int_equal(takes_instead(10, 6, 5, 4.9), 3);
	assert_int_equal(takes_instead(10, 6, 4.9, 5), 2);

	struct play p; /* w2 leads, w0 is the next */
	BEGIN(&p, COARSE_NEVER, 2, 1, 1, 3, 10, 10, 10);
	PLAY(&p, 3, 20, 1);
	PLAY(&p, 3, 9, 1);
	SIZES(&p, 10, 8, 12);
	PLAY(&p, 3, 1, 20);
	PLAY(&p, 3, 9, 1);
	SIZES(&p, 12, 8, 10);
	step_free(p.s);
}

static void the_next_fastest_was_so_for_a_window(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, COARSE_NEVER, 2, 2, 2, 3, 10, 10, 10);
	PLAY(&p, 2, 9, 5);
	PLAY(&p, 1, 9, 8.9);
	SIZES(&p, 12, 8, 10);
	PLAY(&p, 20, 1, 5);
	PLAY(&p, 20, 1, 5);
	SIZES(&p, 10, 10, 10);
	PLAY(&p, 1, 9, 9);
	PLAY(&p, 1, 9, 5); /* w0 has been faster twice, w2 once */
	SIZES(&p, 10, 10, 10);
	PLAY(&p, 1, 9, 5);
	SIZES(&p, 10, 8, 12);
	step_free(p.s);
}

/* After `steps` fine moves one way and back: is it remembered that the sizes at first were bad? */
static int remembers(int steps)
{
	struct play p;
	BEGIN(&p, COARSE_NEVER, 1, 1, 1, 2, 200, 200);
	PLAY(&p, 1, 9);
	PLAY(&p, 1, 5000);
	for (int k = 1; k < steps; k++)
		PLAY(&p, 1, 2);
	assert_int_equal(p.w[0].size, 200 + steps);
	for (int k = 0; k < steps; k++)
		PLAY(&p, 1000, 1);
	int remembered = p.w[0].size == 201;
	assert_true(remembered || p.w[0].size == 200);
	step_free(p.s);
	return remembered;
}

static void the_oldest_of_many_sizes_is_forgotten(void **state)
{
	(void)state;
	assert_true(remembers(63)); /* 64 sizes */
	assert_false(remembers(64));
}

/* ---- many workers ---- */

struct crowd {
	struct step *s;
	size_t n;
	struct step_worker *w;
	char (*id)[80];
};

static void gather(struct crowd *c, size_t n, struct step_options o)
{
	c->n = n;
	c->w = calloc(n, sizeof *c->w);
	c->id = calloc(n, sizeof *c->id);
	for (size_t i = 0; i < n; i++) {
		snprintf(c->id[i], sizeof c->id[i], "w%05zu", i);
		c->w[i] = (struct step_worker){.id = c->id[i], .max = BATCH_SIZE_MAX, .time = 2};
		c->w[i].start = i + 10;
		o.global += c->w[i].start;
	}
	c->s = step_new(&o, NULL);
	assert_non_null(c->s);
}

static void part(struct crowd *c)
{
	step_free(c->s);
	free(c->w);
	free(c->id);
}

static enum step_phase swing(size_t n, size_t leader, size_t straggler, size_t before)
{
	struct crowd c;
	gather(&c, n, (struct step_options){0, 5, 1, 3, 3});
	for (size_t i = 0; i < n; i++)
		c.w[i].time = i == before ? 1 : i == leader ? 1.5 : 0;
	assert_int_equal(step_round(c.s, c.w, n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		c.w[i].time = 2;
	c.w[leader].time = 1;
	c.w[straggler].time = 3;
	assert_int_equal(step_round(c.s, c.w, n, NULL), 0);
	enum step_phase phase = step_phase(c.s);
	part(&c);
	return phase;
}

static void a_swing_is_one_of_these_two(void **state)
{
	(void)state;
	static const size_t some[] = {0, 1, 8, 62, 63, 64};
	/* Who leads now was slower than who is the straggler now; or than somebody else. */
	for (size_t n = 64; n <= 65; n++)
		for (size_t i = 0; i < sizeof some / sizeof *some; i++)
			for (size_t j = 0; j < n; j++) {
				size_t leader = some[i] % n, other = (j + 1) % n;
				if (j == leader || other == leader)
					continue;
				assert_int_equal(swing(n, leader, j, j), STEP_FINE);
				assert_int_equal(swing(n, leader, j, other), STEP_COARSE);
			}
}

static void who_stays_is_found_again(void **state)
{
	(void)state;
	for (size_t n = 2; n < 70; n++) {
		struct crowd c;
		uint64_t before[70];
		gather(&c, n, (struct step_options){0, 5, 1, 3, 3});
		assert_int_equal(step_round(c.s, c.w, n - 1, NULL), 0);
		for (size_t i = 0; i < n - 1; i++) {
			before[i] = c.w[i].size;
			c.w[i].start = 1000; /* of no interest: it is not new */
		}
		c.w[n - 1].max = 0; /* one more, who can't have anything */
		assert_int_equal(step_round(c.s, c.w, n, NULL), 0);
		for (size_t i = 0; i < n - 1; i++)
			assert_int_equal(c.w[i].size, before[i]);
		part(&c);
	}
}

static void a_new_worker_gets_the_mean(void **state)
{
	(void)state;
	struct play p;
	/* 10 : 10 : 10 ...: one each, and the two that are left to the first of equals. */
	BEGIN(&p, 5, 1, 5, 5, 1, 10);
	PLAY(&p, 1);
	p.n = 8;
	for (size_t i = 1; i < p.n; i++)
		p.w[i] = (struct step_worker){.id = names[i], .min = 1, .max = BATCH_SIZE_MAX};
	PLAY(&p, 1, 1, 1, 1, 1, 1, 1, 1);
	SIZES(&p, 2, 2, 1, 1, 1, 1, 1, 1);
	step_free(p.s);

	/* 8 : 1 : 4.5; who has one sample counts, too. */
	BEGIN(&p, 5, 1, 5, 5, 2, 8, 1);
	PLAY(&p, 1, 1);
	p.n = 3;
	p.w[2] = (struct step_worker){.id = names[2], .min = 1, .max = BATCH_SIZE_MAX};
	PLAY(&p, 1, 1, 1);
	SIZES(&p, 5, 1, 3);
	step_free(p.s);
}

static void a_warning_is_not_repeated(void **state)
{
	(void)state;
	struct play p;
	BEGIN(&p, 5, 1, 5, 5, 2, 10, 1);
	assert_int_equal(PLAY(&p, 1, 2), 1);
	assert_int_equal(PLAY(&p, 1, 2), -1);
	PLAY(&p, 0, 0); /* a round in which nothing is known */
	assert_int_equal(PLAY(&p, 1, 2), -1);
	p.n = 3; /* nor when somebody comes */
	p.w[2] = (struct step_worker){.id = names[2], .max = 0};
	assert_int_equal(PLAY(&p, 1, 2, 1.5), -1);
	SIZES(&p, 10, 1, 0);
	assert_int_equal(PLAY(&p, 1, 2, 1.5), -1);
	assert_int_equal(PLAY(&p, 2, 1, 1.5), -1); /* until another was the slowest */
	assert_int_equal(PLAY(&p, 1, 2, 1.5), 1);
	step_free(p.s);
}

static void too_many_workers_and_too_long_ids_are_errors(void **state)
{
	(void)state;
	struct error err;
	struct crowd c;
	gather(&c, STEP_WORKERS_MAX + 1, (struct step_options){0, 5, 1, 1, 1});
	assert_int_equal(step_round(c.s, c.w, STEP_WORKERS_MAX + 1, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "more than 4096 workers"));
	assert_int_equal(step_round(c.s, c.w, STEP_WORKERS_MAX, &err), 0);
	part(&c);

	for (size_t i = 0; i < 2; i++) {
		gather(&c, 2, (struct step_options){0, 5, 1, 1, 1});
		memset(c.id[i], i ? 'z' : 'a', 65);
		assert_int_equal(step_round(c.s, c.w, 2, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_non_null(strstr(err.text, "is too long for an id"));
		c.id[i][64] = '\0';
		assert_int_equal(step_round(c.s, c.w, 2, &err), 0);
		part(&c);
	}
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
		cmocka_unit_test(faster_in_each_round_means_faster),
		cmocka_unit_test(bounds_are_reached_exactly),
		cmocka_unit_test(balance_is_lost_when_a_coarse_step_can_not_turn_them),
		cmocka_unit_test(an_empty_leader_s_time_is_what_a_sample_may_cost),
		cmocka_unit_test(what_was_before_the_balance_was_lost_is_forgotten),
		cmocka_unit_test(a_move_of_no_use_is_not_made_again),
		cmocka_unit_test(sizes_tried_anew_are_measured_anew),
		cmocka_unit_test(a_round_with_a_time_unknown_is_no_measure),
		cmocka_unit_test(the_next_fastest_takes_what_the_leader_can_not),
		cmocka_unit_test(the_next_fastest_was_so_for_a_window),
		cmocka_unit_test(the_oldest_of_many_sizes_is_forgotten),
		cmocka_unit_test(a_swing_is_one_of_these_two),
		cmocka_unit_test(who_stays_is_found_again),
		cmocka_unit_test(a_new_worker_gets_the_mean),
		cmocka_unit_test(a_warning_is_not_repeated),
		cmocka_unit_test(too_many_workers_and_too_long_ids_are_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
