/* predict_group: the predictions of all workers together, by what an iteration would last. */
#include "predict_text.h"
#include "base/random.h"
#include "predict/group.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 6

static uint64_t random_state;

static double gauss(void)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += random_uniform(&random_state);
	return sum;
}

static struct predict_group *make(size_t workers)
{
	struct predict_group *g;
	size_t worker;
	assert_int_equal(predict_group_new(&g, NULL), 0);
	for (size_t i = 0; i < workers; i++) {
		assert_int_equal(predict_group_add(g, &worker, NULL), 0);
		assert_int_equal(worker, i);
	}
	return g;
}

/* Time of an iteration cut by p over the oracle's. */
static double cost(const double *p, const double *v, size_t n)
{
	double longest = 0, said = 0, real = 0;
	for (size_t i = 0; i < n; i++) {
		longest = fmax(longest, p[i] / v[i]);
		said += p[i];
		real += v[i];
	}
	return longest / said * real;
}

/* Speeds around a level of each worker's own; noise differs from worker to worker. */
static void speeds(double *v)
{
	static const double level[WORKERS] = {20, 20, 60, 100, 200, 400};
	static const double noise[WORKERS] = {0.2, 0.05, 0.1, 0.02, 0.15, 0.05};
	for (int i = 0; i < WORKERS; i++)
		v[i] = level[i] * exp(noise[i] * gauss());
}

/* Against ema, and against the best that fixed predictions can do: found here by descent on the same
 * speeds, known in advance. */
static void stragglers_as_often_as_their_share(void **state)
{
	(void)state;
	enum { ROUNDS = 3000, FROM = 1000 };
	struct predict_group *g = make(WORKERS);
	double p[WORKERS], v[WORKERS], ema[WORKERS], mine = 0, plain = 0, late[WORKERS] = {0};
	double share[WORKERS] = {0};
	random_state = 7;
	for (int k = 0; k < ROUNDS; k++) {
		speeds(v);
		double sum = 0;
		for (size_t i = 0; i < WORKERS; i++) {
			p[i] = predict_group_predict(g, i, NAN, PREDICT_LOSS_MAX);
			sum += p[i];
			predict_group_observe(g, i, v[i]);
			ema[i] = k == 0 ? v[i] : ema[i];
		}
		predict_group_close(g);
		if (k >= FROM) {
			size_t last = 0;
			mine += cost(p, v, WORKERS);
			plain += cost(ema, v, WORKERS);
			for (size_t i = 0; i < WORKERS; i++) {
				last = p[i] / v[i] > p[last] / v[last] ? i : last;
				share[i] += p[i] / sum;
			}
			late[last]++;
		}
		for (size_t i = 0; i < WORKERS; i++)
			ema[i] = 0.8 * ema[i] + 0.2 * v[i];
	}
	predict_group_free(g);
	assert_true((mine - (ROUNDS - FROM)) < 0.85 * (plain - (ROUNDS - FROM)));
	for (int i = 0; i < WORKERS; i++)
		assert_true(fabs(late[i] - share[i]) / (ROUNDS - FROM) < 0.13);
	/* The optimum of fixed predictions. */
	double q[WORKERS], fixed = 0;
	random_state = 7;
	speeds(q);
	for (int pass = 0; pass < 2; pass++) {
		random_state = 7;
		fixed = 0;
		for (int k = 0; k < ROUNDS; k++) {
			size_t last = 0;
			double sum = 0;
			speeds(v);
			for (size_t i = 0; i < WORKERS; i++) {
				last = q[i] / v[i] > q[last] / v[last] ? i : last;
				sum += q[i];
			}
			fixed += k >= FROM ? cost(q, v, WORKERS) : 0;
			for (size_t i = 0; i < WORKERS && pass == 0; i++)
				q[i] *= exp(0.01 * (q[i] / sum - (i == last)));
		}
	}
	assert_true((mine - (ROUNDS - FROM)) < 1.1 * (fixed - (ROUNDS - FROM)));
}

/* A worker that knows its next speed is listened to, also when only some do. */
static void who_knows_is_followed(void **state)
{
	(void)state;
	struct predict_group *g = make(WORKERS);
	double p[WORKERS], v[WORKERS], sum = 0;
	random_state = 9;
	for (int k = 0; k < 1200; k++) {
		speeds(v);
		for (size_t i = 0; i < WORKERS; i++) {
			p[i] = predict_group_predict(g, i, v[i], PREDICT_LOSS_MAX);
			assert_true(k == 0 ? isnan(p[i]) : p[i] > 0);
			predict_group_observe(g, i, v[i]);
		}
		predict_group_close(g);
		sum += k >= 1000 ? cost(p, v, WORKERS) : 0;
	}
	assert_true(sum / 200 < 1.005);
	predict_group_free(g);
}

/* Where the best changes, so does what is followed: speeds that stay, then speeds that are noise. */
static void the_best_is_followed_when_it_changes(void **state)
{
	(void)state;
	struct predict_group *g = make(4);
	double p[4], v[4] = {10, 10, 10, 10}, last[4] = {0}, mean[4] = {0};
	double mine[4] = {0}, by_last[4] = {0}, by_mean[4] = {0};
	random_state = 13;
	for (int k = 0; k < 4000; k++) {
		int phase = k / 1000;
		for (size_t i = 0; i < 4; i++) {
			v[i] = phase % 2 ? 10 * exp(0.15 * gauss()) : v[i] * exp(0.03 * gauss());
			p[i] = predict_group_predict(g, i, NAN, PREDICT_LOSS_MAX);
			predict_group_observe(g, i, v[i]);
		}
		predict_group_close(g);
		if (k % 1000 >= 200) {
			mine[phase] += cost(p, v, 4) - 1;
			by_last[phase] += cost(last, v, 4) - 1;
			by_mean[phase] += cost(mean, v, 4) - 1;
		}
		for (int i = 0; i < 4; i++) {
			last[i] = v[i];
			mean[i] = k == 0 ? v[i] : 0.95 * mean[i] + 0.05 * v[i];
		}
	}
	for (int phase = 0; phase < 4; phase++)
		assert_true(mine[phase] < 1.05 * fmin(by_last[phase], by_mean[phase]));
	predict_group_free(g);
}

/* Rounds with some of the workers, one alone, none; workers that join late. */
static void holes_are_survived(void **state)
{
	(void)state;
	struct predict_group *g = make(3);
	size_t worker;
	random_state = 19;
	for (int k = 0; k < 500; k++) {
		if (k == 200)
			assert_int_equal(predict_group_add(g, &worker, NULL), 0);
		for (size_t i = 0; i < predict_group_count(g); i++) {
			if (random_uniform(&random_state) < 0.4)
				continue;
			double said = predict_group_predict(g, i, k % 3 ? NAN : 50, PREDICT_LOSS_MAX);
			assert_true(isnan(said) || (said > 1e-3 && said < 1e6));
			if (random_uniform(&random_state) < 0.8)
				predict_group_observe(g, i, 100 * exp(gauss()));
		}
		predict_group_close(g);
	}
	for (size_t i = 0; i < 4; i++)
		assert_true(predict_group_predict(g, i, NAN, PREDICT_LOSS_MAX) > 1);
	predict_group_free(g);
}

/* Between the two, as far as the error allows. */
static void both_leans_no_more_than_it_may(void **state)
{
	(void)state;
	static const double level[WORKERS] = {20, 20, 60, 100, 200, 400};
	double own[2] = {0}, both[2] = {0}, max[2] = {0}, cost_own = 0, cost_both = 0, cost_max = 0;
	struct predict_group *g = make(WORKERS), *h = make(WORKERS);
	double p[WORKERS], q[WORKERS], v[WORKERS];
	random_state = 29;
	for (int k = 0; k < 2500; k++) {
		for (int i = 0; i < WORKERS; i++)
			v[i] = level[i] * exp(0.1 * gauss());
		for (size_t i = 0; i < WORKERS; i++) {
			p[i] = predict_group_predict(g, i, level[i], PREDICT_LOSS_BOTH);
			q[i] = predict_group_predict(h, i, level[i], PREDICT_LOSS_MAX);
			predict_group_observe(g, i, v[i]);
			predict_group_observe(h, i, v[i]);
			if (k < 500 || i % 5)
				continue;
			own[i / 5] += pow(level[i] - v[i], 2);
			both[i / 5] += pow(p[i] - v[i], 2);
			max[i / 5] += pow(q[i] - v[i], 2);
		}
		predict_group_close(g);
		predict_group_close(h);
		if (k >= 500) {
			cost_own += cost(level, v, WORKERS) - 1;
			cost_both += cost(p, v, WORKERS) - 1;
			cost_max += cost(q, v, WORKERS) - 1;
		}
	}
	for (int i = 0; i < 2; i++) /* of the slowest and the fastest */
		assert_true(both[i] < 1.05 * own[i]);
	assert_true(max[0] > 1.1 * own[0]);
	assert_true(cost_max < cost_both && cost_both < 0.95 * cost_own);
	predict_group_free(g);
	predict_group_free(h);
}

/* Nothing leans before a worker's own errors are known, however wild the others are. */
static void both_begins_upright(void **state)
{
	(void)state;
	struct predict_group *g = make(2);
	for (int k = 0; k < 20; k++) {
		double said = predict_group_predict(g, 0, 100, PREDICT_LOSS_BOTH);
		assert_true(k == 0 || fabs(said / 100 - 1) < 1e-9);
		predict_group_predict(g, 1, k < 2 ? 1e9 : 100, PREDICT_LOSS_BOTH);
		predict_group_observe(g, 0, 100);
		predict_group_observe(g, 1, k < 2 ? 1e9 : 100);
		predict_group_close(g);
	}
	predict_group_free(g);
}

/* All too fast or too slow alike changes no batch; predictions are of the level of own ones. */
static void the_level_is_that_of_the_workers(void **state)
{
	(void)state;
	struct predict_group *g = make(WORKERS);
	double v[WORKERS], sum = 0;
	random_state = 31;
	for (int k = 0; k < 600; k++) {
		speeds(v);
		for (size_t i = 0; i < WORKERS; i++) {
			double said = predict_group_predict(g, i, 2 * v[i], PREDICT_LOSS_MAX);
			sum += k >= 500 ? log(said / (2 * v[i])) : 0;
			predict_group_observe(g, i, v[i]);
		}
		predict_group_close(g);
	}
	assert_true(fabs(sum) / (100 * WORKERS) < 0.02);
	predict_group_free(g);
}

/* ---- files ---- */
static void a_saved_one_goes_on_bit_for_bit(void **state)
{
	(void)state;
	static struct record r;
	struct predict_group *g = make(WORKERS), *h;
	struct text t = {0};
	struct error err;
	double v[WORKERS];
	random_state = 23;
	for (int k = 0; k < 300; k++) {
		speeds(v);
		for (size_t i = 0; i < WORKERS; i++) {
			double own = k % 5 ? v[i] : NAN;
			double said = predict_group_predict(g, i, own, PREDICT_LOSS_BOTH);
			if (k > 100)
				assert_true(said ==
					    predict_group_predict(h, i, own, PREDICT_LOSS_BOTH));
			predict_group_observe(g, i, v[i]);
			if (k > 100)
				predict_group_observe(h, i, v[i]);
			if (k == 100 && i == WORKERS - 1) { /* in mid-round */
				assert_int_equal(predict_group_save(g, put, &t, &err), 0);
				assert_int_equal(take(&r, &t, &err), 0);
				assert_int_equal(predict_group_load(&h, &r, take, &t, &err), 0);
				assert_int_equal(t.at, t.len);
				predict_group_close(h);
			}
		}
		predict_group_close(g);
		if (k > 100)
			predict_group_close(h);
	}
	predict_group_free(g);
	predict_group_free(h);
	for (size_t len = 1; len < t.len; len++) { /* cut off anywhere */
		struct text cut = {.data = t.data, .len = len};
		if (t.data[len - 1] != '\n')
			continue;
		assert_int_equal(take(&r, &cut, &err), 0);
		assert_int_equal(predict_group_load(&h, &r, take, &cut, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
	}
	free(t.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stragglers_as_often_as_their_share),
		cmocka_unit_test(who_knows_is_followed),
		cmocka_unit_test(the_best_is_followed_when_it_changes),
		cmocka_unit_test(holes_are_survived),
		cmocka_unit_test(both_leans_no_more_than_it_may),
		cmocka_unit_test(both_begins_upright),
		cmocka_unit_test(the_level_is_that_of_the_workers),
		cmocka_unit_test(a_saved_one_goes_on_bit_for_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
