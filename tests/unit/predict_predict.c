/* predict_predict: the models against closed forms, known processes and numeric gradients. */
#include "predict_text.h"
#include "base/random.h"
#include "predict/net.h"
#include "tests/unit/rounds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state;

static double draw(void)
{
	return random_uniform(&random_state);
}

static double gauss(void)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += draw();
	return sum;
}

static struct predictor *make(enum predict_model model, uint64_t warmup)
{
	struct predict_config c;
	struct predictor *p;
	predict_config_init(&c, model);
	c.warmup = warmup;
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	return p;
}

#define MANY 2000
static double square[MANY]; /* of the errors of the last score */

static double root_of_mean(int n, int from)
{
	double sum = 0;
	for (int k = from; k < n; k++)
		sum += square[k];
	return sqrt(sum / (n - from));
}

/* Root of the mean squared error over v[from..n). */
static double score(struct predictor *p, const double *v, const double *cpu, int n, int from)
{
	for (int k = 0; k < n; k++) {
		double said = predictor_predict(p, cpu ? cpu[k] : NAN, NAN);
		square[k] = (said - v[k]) * (said - v[k]);
		predictor_observe(p, v[k]);
	}
	return root_of_mean(n, from);
}

static double score_of(enum predict_model model, const double *v, const double *cpu, int n,
		       int from)
{
	struct predictor *p = make(model, 500);
	double result = score(p, v, cpu, n, from);
	predictor_free(p);
	return result;
}

/* ---- nets ---- */
static void check_gradient(const struct net_shape *shape)
{
	double w[PREDICT_NET_WEIGHTS], g[PREDICT_NET_WEIGHTS] = {0}, x[PREDICT_NET_INPUTS];
	random_state = 5;
	shape->init(w, &random_state);
	for (size_t i = 0; i < shape->weights; i++) /* no zero hides a missing factor */
		w[i] += 0.3 * gauss();
	for (int i = 0; i < PREDICT_NET_INPUTS; i++)
		x[i] = gauss() / 2;
	const double target = 0.7, h = 1e-5;
	double value = shape->gradient(w, x, target, g);
	assert_true(value == shape->value(w, x));
	for (size_t i = 0; i < shape->weights; i++) {
		double was = w[i], up, down;
		w[i] = was + h;
		up = shape->value(w, x) - target;
		w[i] = was - h;
		down = shape->value(w, x) - target;
		w[i] = was;
		double want = (up * up - down * down) / (4 * h);
		if (fabs(g[i] - want) > 1e-7 * (1 + fabs(want)))
			fail_msg("weight %zu: %g, numerically %g", i, g[i], want);
	}
	shape->gradient(w, x, target, g); /* it adds */
	double twice = 0, once = 0, again[PREDICT_NET_WEIGHTS] = {0};
	shape->gradient(w, x, target, again);
	for (size_t i = 0; i < shape->weights; i++) {
		twice += fabs(g[i]);
		once += fabs(again[i]);
	}
	assert_true(fabs(twice - 2 * once) < 1e-9 * twice);
}

static void gradients_are_those_of_differences(void **state)
{
	(void)state;
	check_gradient(&net_narx);
	check_gradient(&net_rnn);
	check_gradient(&net_lstm);
}

/* Jumps that the load shows and noise that it doesn't; returns the noise's deviation. */
static double loaded(double *v, double *cpu, int n, double base)
{
	double c = 0.3, sum = 0;
	for (int k = 0; k < n; k++) {
		if (draw() < 0.05)
			c = draw();
		cpu[k] = c;
		double clean = base * (1 - 0.8 * c * c);
		v[k] = clean * (1 + 0.03 * gauss());
		sum += (v[k] - clean) * (v[k] - clean);
	}
	return sqrt(sum / n);
}

static double v[MANY], cpu[MANY];

static void narx_learns_what_load_means(void **state)
{
	(void)state;
	random_state = 11;
	double floor = loaded(v, cpu, MANY, 100);
	double ema = score_of(PREDICT_EMA, v, cpu, MANY, 600);
	double narx = score_of(PREDICT_NARX, v, cpu, MANY, 600);
	double blind = score_of(PREDICT_NARX, v, NULL, MANY, 600);
	assert_true(narx < 0.35 * ema);
	assert_true(narx < 1.25 * floor);
	assert_true(blind > 1.5 * narx && blind < 1.1 * ema);
}

/* Before `warmup` speeds the nets are ema, to the bit. */
static void ema_speaks_before_the_warmup(void **state)
{
	(void)state;
	const enum predict_model nets[] = {PREDICT_NARX, PREDICT_RNN, PREDICT_LSTM};
	random_state = 3;
	loaded(v, cpu, 600, 50);
	for (int i = 0; i < 3; i++) {
		struct predictor *ema = make(PREDICT_EMA, 500), *net = make(nets[i], 500);
		int differ = 0;
		for (int k = 0; k < 600; k++) {
			double a = predictor_predict(ema, cpu[k], NAN);
			double b = predictor_predict(net, cpu[k], NAN);
			if (k == 0)
				assert_true(isnan(a) && isnan(b));
			else if (k < 500)
				assert_true(a == b);
			else
				differ += a != b;
			predictor_observe(ema, v[k]);
			predictor_observe(net, v[k]);
		}
		assert_true(differ > 90);
		predictor_free(ema);
		predictor_free(net);
	}
}

/* A new worker of another speed: the model of the old one serves after PREDICT_REUSE_MIN speeds. */
static void a_model_serves_another_worker(void **state)
{
	(void)state;
	const double speeds[] = {100, 30, 700, 0.05, 5e6};
	random_state = 17;
	loaded(v, cpu, MANY, 100);
	struct predictor *old = make(PREDICT_NARX, 500);
	score(old, v, cpu, MANY, 500);
	for (int i = 0; i < 5; i++) {
		struct predictor *p;
		assert_int_equal(predictor_reuse(&p, old, NULL), 0);
		assert_int_equal(predictor_count(p), 0);
		loaded(v, cpu, 300, speeds[i]);
		double ema = score_of(PREDICT_EMA, v, cpu, 300, 20);
		double warm = score(p, v, cpu, 300, 20);
		assert_true(warm < 0.45 * ema);
		predictor_free(p);
	}
	predictor_free(old);
}

/* Loads that were not seen for long are not forgotten: samples of them stay. */
static void old_samples_are_replayed(void **state)
{
	(void)state;
	enum { RICH = 1000, MANY_DULL = 6900, END = 7000 };
	for (uint64_t seed = 24; seed <= 27; seed += 3) {
		struct predictor *p = make(PREDICT_NARX, 500);
		double sum = 0, c = 0, m = 0;
		random_state = seed;
		for (int k = 0; k < END; k++) {
			int rich = k < RICH || k >= MANY_DULL;
			if (k % 10 == 0) {
				c = rich ? draw() : 0.1 + 0.1 * draw();
				m = rich ? draw() : 0.2 + 0.1 * draw();
			}
			double speed = 100 * (1 - 0.8 * c) * (m > 0.6 ? 1.6 - m : 1) *
				       (1 + 0.03 * gauss());
			double said = predictor_predict(p, c, m);
			sum += k >= MANY_DULL ? pow(said / speed - 1, 2) : 0;
			predictor_observe(p, speed);
		}
		assert_true(sqrt(sum / (END - MANY_DULL)) < 0.06); /* without them 0.09 and 0.11 */
		predictor_free(p);
	}
}

/* ---- arima ---- */
static void arima_is_as_good_as_the_process(void **state)
{
	(void)state;
	random_state = 29;
	/* ARMA(2,1) around 100, innovations of deviation 2; ARIMA(1,1,1). */
	double z1 = 0, z2 = 0, e1 = 0;
	for (int k = 0; k < MANY; k++) {
		double e = 2 * gauss(), z = 0.5 * z1 + 0.3 * z2 + e + 0.4 * e1;
		v[k] = 100 + z;
		z2 = z1;
		z1 = z;
		e1 = e;
	}
	struct predict_config c;
	struct predictor *p;
	predict_config_init(&c, PREDICT_ARIMA);
	c.p = 2;
	c.d = 0;
	c.q = 1;
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	assert_true(score(p, v, NULL, MANY, 300) < 2 * 1.05);
	predictor_free(p);
	c.by_aic = 1;
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	assert_true(score(p, v, NULL, MANY, 300) < 2 * 1.07);
	predictor_free(p);
	assert_true(score_of(PREDICT_EMA, v, NULL, MANY, 300) > 2 * 1.25);
	/* A drift with an MA of -0.8, where (2,2,1) and ema are both wrong. */
	double level = 1000, d1 = 0;
	e1 = 0;
	for (int k = 0; k < MANY; k++) {
		double e = 2 * gauss();
		d1 = 0.6 * d1 + e + 0.5 * e1;
		e1 = e;
		v[k] = level += d1;
	}
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	assert_true(score(p, v, NULL, MANY, 300) < 2 * 1.07);
	predictor_free(p);
}

/* What comes back after three batches is seen by q = 3 only: p = 3 leaves 17 % more error. */
static void arima_of_the_highest_order_is_found(void **state)
{
	(void)state;
	double e[3] = {0};
	struct predict_config c;
	struct predictor *p;
	random_state = 41;
	for (int k = 0; k < MANY; k++) {
		double now = 2 * gauss();
		v[k] = 100 + now + 0.9 * e[k % 3];
		e[k % 3] = now;
	}
	predict_config_init(&c, PREDICT_ARIMA);
	c.by_aic = 1;
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	assert_true(score(p, v, NULL, MANY, 300) < 2 * 1.1);
	predictor_free(p);
}

/* Second differences of a straight line and of a parabola are constant. */
static void arima_goes_on_with_a_line(void **state)
{
	(void)state;
	for (int k = 0; k < 300; k++)
		v[k] = 100 + 3 * k;
	assert_true(score_of(PREDICT_ARIMA, v, NULL, 300, 100) < 1e-3);
	for (int k = 0; k < 300; k++)
		v[k] = 50;
	assert_true(score_of(PREDICT_ARIMA, v, NULL, 300, 1) == 0);
	/* Whoever chooses the order finds that out. */
	struct predict_config c;
	struct predictor *p;
	random_state = 37;
	for (int k = 0; k < 300; k++)
		v[k] = 100 + 3 * k + 0.01 * gauss();
	predict_config_init(&c, PREDICT_ARIMA);
	c.by_aic = 1;
	assert_int_equal(predictor_new(&p, &c, NULL), 0);
	assert_true(score(p, v, NULL, 300, 120) < 0.02);
	predictor_free(p);
}

/* A level that walks by 1 under noise of 3: the least error is 3.54, the second differences are
 * moving averages near the edge. */
static void arima_is_refined(void **state)
{
	(void)state;
	double level = 100;
	random_state = 2;
	for (int k = 0; k < MANY; k++) {
		level += gauss();
		v[k] = level + 3 * gauss();
	}
	assert_true(score_of(PREDICT_ARIMA, v, NULL, MANY, 300) < 3.54 * 1.095);
}

/* ---- gam ---- */

/* A power of what is free, less beyond a threshold of memory, a speed halved now and then. */
static double bent(double *mem, int n)
{
	double c = 0.2, m = 0.3, sum = 0;
	for (int k = 0; k < n; k++) {
		if (draw() < 0.03) {
			c = 0.9 * draw();
			m = draw();
		}
		cpu[k] = c;
		mem[k] = m;
		double clean = 100 * pow(1 - c, 1.5) * (m > 0.7 ? 0.6 : 1);
		v[k] = clean * (1 + 0.03 * gauss()) * (draw() < 0.01 ? 0.5 : 1);
		sum += k < 500 ? 0 : (v[k] - clean) * (v[k] - clean);
	}
	return sqrt(sum / (n - 500));
}

static double score_bent(enum predict_model model, const double *mem, int n)
{
	double sum = 0;
	struct predictor *p = make(model, 500);
	for (int k = 0; k < n; k++) {
		double d = predictor_predict(p, cpu[k], mem[k]) - v[k];
		sum += k < 500 ? 0 : d * d;
		predictor_observe(p, v[k]);
	}
	predictor_free(p);
	return sqrt(sum / (n - 500));
}

static void gam_finds_curves_and_passes_over_spikes(void **state)
{
	enum { N = 1000 };
	static double mem[N];
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		random_state = seed;
		double floor = bent(mem, N);
		assert_true(score_bent(PREDICT_GAM, mem, N) < 1.4 * floor);
		assert_true(score_bent(PREDICT_NARX, mem, N) < 1.6 * floor);
		assert_true(score_bent(PREDICT_GAM, mem, N) <
			    0.7 * score_bent(PREDICT_EMA, mem, N));
	}
}

/* One step is taken for a spike, the second for a change: from then on the new speed is said. */
static void gam_follows_a_change(void **state)
{
	(void)state;
	random_state = 3;
	struct predictor *p = make(PREDICT_GAM, 0);
	for (int k = 0; k < 100; k++) {
		predictor_predict(p, 0.3, 0.3);
		predictor_observe(p, 100 + gauss());
	}
	predictor_predict(p, 0.3, 0.3);
	predictor_observe(p, 50);
	assert_true(predictor_predict(p, 0.3, 0.3) > 95);
	predictor_observe(p, 50);
	predictor_predict(p, 0.3, 0.3);
	predictor_observe(p, 50);
	assert_true(predictor_predict(p, 0.3, 0.3) < 75);
	for (int k = 0; k < 6; k++) {
		predictor_predict(p, 0.3, 0.3);
		predictor_observe(p, 50);
	}
	assert_true(predictor_predict(p, 0.3, 0.3) < 56);
	predictor_free(p);
}

/* ---- auto ---- */
static void auto_keeps_up_with_ema_and_follows_the_best(void **state)
{
	(void)state;
	enum { N = 1400 };
	for (int kind = 0; kind < 4; kind++) {
		double level = 100;
		random_state = 31 + (uint64_t)kind;
		loaded(v, cpu, N, 100);
		for (int k = 0; k < N && kind < 3; k++) {
			if (kind == 0)
				v[k] = 100 + 10 * gauss(); /* ema with a small weight is best */
			else if (kind == 1)
				v[k] = level = fmax(level + gauss(), 20); /* last is best */
			else
				v[k] = (k / 400 % 2 ? 100 + 10 * gauss() : (level += gauss() / 2));
		}
		double ema = score_of(PREDICT_EMA, v, cpu, N, 1);
		double all = score_of(PREDICT_MIX, v, cpu, N, 1), late = root_of_mean(N, 600);
		assert_true(all < 1.02 * ema);
		if (kind == 1)
			assert_true(all < 1.03 * score_of(PREDICT_LAST, v, cpu, N, 1));
		if (kind == 3)
			assert_true(late < 1.03 * score_of(PREDICT_NARX, v, cpu, N, 600));
	}
}

/* Who was least wrong about one outlier, the slowest average, is not followed for the sake of that:
 * the speed walks on as before. */
static void auto_turns_to_who_is_right_now(void **state)
{
	(void)state;
	enum { ODD = 300, FROM = ODD + 6, N = 380 };
	double level = 100;
	random_state = 12;
	for (int k = 0; k < N; k++) {
		level = fmax(level + gauss(), 20);
		v[k] = k == ODD ? level / 4 : level;
	}
	double last = score_of(PREDICT_LAST, v, NULL, N, FROM);
	double all = score_of(PREDICT_MIX, v, NULL, N, FROM);
	assert_true(all < 1.1 * last);
	assert_true(score_of(PREDICT_GAM, v, NULL, N, FROM) > 1.5 * last);
}

/* Another worker, four times as fast, starts with what this one learnt of load. */
static void auto_serves_others(void **state)
{
	(void)state;
	enum { LEARN = 300, N = 340 };
	struct predictor *p = make(PREDICT_MIX, 500), *fresh = make(PREDICT_MIX, 500), *other;
	double wrong = 0, wrong_fresh = 0, first = 0;
	random_state = 34;
	for (int k = 0; k < N; k++) {
		double load = draw(), speed = 100 * (1 - 0.8 * load);
		if (k == LEARN)
			assert_int_equal(predictor_reuse(&other, p, NULL), 0);
		if (k < LEARN) {
			predictor_predict(p, load, NAN);
			predictor_observe(p, speed);
			continue;
		}
		double a = predictor_predict(other, load, NAN);
		double b = predictor_predict(fresh, load, NAN);
		predictor_observe(other, 4 * speed);
		predictor_observe(fresh, 4 * speed);
		if (k == LEARN)
			first = 4 * speed;
		if (k == LEARN + 1) /* all that is known */
			assert_true(fabs(b / first - 1) < 1e-9);
		if (k < LEARN + 3)
			continue;
		wrong += fabs(a / 4 - speed);
		wrong_fresh += fabs(b / 4 - speed);
	}
	assert_true(wrong < 0.5 * wrong_fresh);
	predictor_free(p);
	predictor_free(fresh);
	predictor_free(other);
}

/* ---- arx ---- */
static double shown(struct predictor *p, const double *speed, const double *load, int from, int to)
{
	double worst = 0;
	for (int k = from; k < to; k++) {
		double said = predictor_predict(p, load[k], NAN);
		worst = fmax(worst, fabs(said / speed[k] - 1));
		predictor_observe(p, speed[k]);
	}
	return worst;
}

/* A straight line is found from less than 40 speeds, as far as the mean is known, which is its
 * unit; of too few speeds nothing is made: then it is `last`. */
static void arx_finds_the_line(void **state)
{
	(void)state;
	random_state = 21;
	for (int k = 0; k < 400; k++) {
		cpu[k] = draw();
		v[k] = 300 * (1 - 0.8 * cpu[k]);
	}
	struct predictor *p = make(PREDICT_ARX, 500);
	shown(p, v, cpu, 0, 40);
	assert_true(shown(p, v, cpu, 40, 400) < 0.05);
	predictor_free(p);
	for (int k = 0; k < 9; k++) { /* too few to learn from */
		p = make(PREDICT_ARX, 500);
		for (int j = 0; j <= k; j++) {
			predictor_predict(p, cpu[j], NAN);
			predictor_observe(p, v[j]);
		}
		assert_true(predictor_predict(p, 1, NAN) == v[k] || k == 8);
		predictor_free(p);
	}
}

/* What jumps and noise allow is reached ten times as soon as by a net. */
static void arx_learns_in_tens(void **state)
{
	(void)state;
	random_state = 11;
	loaded(v, cpu, MANY, 100);
	for (int k = 0; k < 200; k++)
		v[k] = 100 * (1 - 0.8 * cpu[k]) * (1 + 0.02 * gauss());
	double last = score_of(PREDICT_LAST, v, cpu, 200, 50);
	double ema = score_of(PREDICT_EMA, v, cpu, 200, 50);
	double arx = score_of(PREDICT_ARX, v, cpu, 200, 50);
	double blind = score_of(PREDICT_ARX, v, NULL, 200, 50);
	assert_true(arx < 0.3 * fmin(last, ema));
	assert_true(blind < 1.1 * fmin(last, ema));
}

/* No load shows it: a spike teaches little, and is over when it is out of the averages. */
static void arx_is_not_taught_by_spikes(void **state)
{
	(void)state;
	enum { N = 1000 };
	double c = 0.3, sum = 0;
	int counted = 0, since = 0;
	random_state = 8;
	struct predictor *p = make(PREDICT_ARX, 500);
	for (int k = 0; k < N; k++) {
		c = draw() < 0.1 ? 0.1 + 0.7 * draw() : c;
		since = draw() < 0.03 ? 0 : since + 1;
		double said = predictor_predict(p, c, NAN);
		double clean = 100 * (1 - 0.8 * c);
		predictor_observe(p, clean * (1 + 0.01 * gauss()) * (since == 0 ? 0.4 : 1));
		if (k < 100 || since < 12)
			continue;
		sum += fabs(said / clean - 1);
		counted++;
	}
	assert_true(sum / counted < 0.008);
	predictor_free(p);
}

/* Nothing is believed for good: neither what an odd batch among the first ones taught, nor that
 * there is no noise where nothing has moved yet. */
static void arx_starts_from_anything(void **state)
{
	(void)state;
	for (int odd = 0; odd < 8; odd++)
		for (int big = 0; big < 2; big++) {
			double load = 0.3;
			random_state = 31;
			for (int k = 0; k < 300; k++) {
				load = draw() < 0.1 ? draw() : load;
				cpu[k] = load + 0.02 * draw();
				v[k] = 100 * (1 - 0.8 * load) * (1 + 0.02 * gauss());
				v[k] *= k == odd ? (big ? 20 : 0.05) : 1;
			}
			assert_true(score_of(PREDICT_ARX, v, cpu, 300, 100) <
				    0.7 * score_of(PREDICT_LAST, v, cpu, 300, 100));
		}
	random_state = 32;
	for (int k = 0; k < 200; k++) {
		cpu[k] = k < 50 ? 0.2 : draw() < 0.2 ? draw() : cpu[k - 1];
		v[k] = 100 * (1 - 0.8 * cpu[k]);
	}
	assert_true(score_of(PREDICT_ARX, v, cpu, 200, 100) <
		    0.3 * score_of(PREDICT_LAST, v, cpu, 200, 100));
}

/* Who has nothing to say after a fall by far is not heard at all: a thousandth of nonsense is much. */
static void auto_falls_with_the_speed(void **state)
{
	(void)state;
	random_state = 41;
	struct predictor *p = make(PREDICT_MIX, 500);
	for (int k = 0; k < 800; k++) {
		double speed = (k < 600 ? 1e6 : 100) * exp(0.1 * gauss());
		double said = predictor_predict(p, NAN, NAN);
		assert_true(k < 625 || (said > 50 && said < 200));
		predictor_observe(p, speed);
	}
	predictor_free(p);
}

/* A load that is not known once is as it was; and another worker, four times as fast, has the same
 * line. */
static void arx_serves_gaps_and_others(void **state)
{
	(void)state;
	random_state = 9;
	for (int k = 0; k < 200; k++) {
		cpu[k] = draw();
		v[k] = 100 * (1 - 0.8 * cpu[k]);
	}
	struct predictor *p = make(PREDICT_ARX, 500), *q = make(PREDICT_ARX, 500), *other;
	for (int k = 0; k < 100; k++) {
		cpu[k] = k % 10 == 9 ? cpu[k - 1] : cpu[k];
		double said = predictor_predict(p, cpu[k], NAN);
		double gap = predictor_predict(q, k % 10 == 9 ? NAN : cpu[k], NAN);
		assert_true(k == 0 || said == gap);
		predictor_observe(p, v[k]);
		predictor_observe(q, v[k]);
	}
	/* A batch that says nothing about the speed, three looks at the load: the last one counts. */
	predictor_predict(q, 0.9, NAN);
	predictor_predict(q, 0.1, NAN);
	assert_true(predictor_predict(p, 0.5, NAN) == predictor_predict(q, 0.5, NAN));
	assert_int_equal(predictor_reuse(&other, p, NULL), 0);
	for (int k = 100; k < 200; k++)
		v[k] *= 4;
	shown(other, v, cpu, 100, 110);
	double worst = shown(other, v, cpu, 110, 200);
	assert_true(worst < 0.12);
	predictor_free(p);
	predictor_free(q);
	predictor_free(other);
}

/* A batch that nobody measured is no batch: the loads of the others stay beside their speeds. */
static void batches_without_a_speed_count_for_none(void **state)
{
	(void)state;
	for (int model = 0; model < PREDICT_MODELS; model++) {
		struct predictor *p = make((enum predict_model)model, 20);
		struct predictor *q = make((enum predict_model)model, 20);
		random_state = 43;
		for (int k = 0; k < 150; k++) {
			double load = draw(), speed = 100 * (1 - 0.8 * load);
			if (k % 5 == 0)
				predictor_predict(q, draw(), draw());
			double said = predictor_predict(p, load, load / 2);
			double gap = predictor_predict(q, load, load / 2);
			assert_true(k == 0 || said == gap);
			predictor_observe(p, speed);
			predictor_observe(q, speed);
		}
		predictor_free(p);
		predictor_free(q);
	}
}

/* What is true of processors in use is true of memory: the same numbers as one or the other. */
static void arx_takes_memory_as_it_takes_processors(void **state)
{
	(void)state;
	random_state = 33;
	struct predictor *p = make(PREDICT_ARX, 500), *q = make(PREDICT_ARX, 500);
	for (int k = 0; k < 100; k++) {
		double load = k % 10 == 9 ? NAN : draw(); /* not known: as it was */
		double a = predictor_predict(p, load, NAN), b = predictor_predict(q, NAN, load);
		assert_true(k == 0 || fabs(a / b - 1) < 1e-9);
		double speed = 100 * (1 - 0.8 * (isnan(load) ? 0.5 : load)) + draw();
		predictor_observe(p, speed);
		predictor_observe(q, speed);
	}
	predictor_free(p);
	predictor_free(q);
}

static void quantile_is_of_times(void **state)
{
	(void)state;
	struct predictor *p = make(PREDICT_QUANTILE, 0);
	for (int k = 1; k <= 20; k++) { /* times 1..20; of the last 8, 13..20, the 0.75 quantile */
		predictor_predict(p, NAN, NAN);
		predictor_observe(p, 1.0 / k);
	}
	assert_true(fabs(1 / predictor_predict(p, NAN, NAN) - 18.25) < 1e-12);
	predictor_free(p);
}

/* ---- every model ---- */
static void extremes_stay_numbers(void **state)
{
	(void)state;
	for (int model = 0; model < PREDICT_MODELS; model++) {
		struct predictor *p = make((enum predict_model)model, 100);
		random_state = 41;
		for (int k = 0; k < 700; k++) {
			double said =
				predictor_predict(p, draw() < 0.3 ? NAN : (double)(k % 2), draw());
			if (k > 5)
				assert_true(said >= PREDICT_SPEED_MIN && said <= PREDICT_SPEED_MAX);
			if (k % 7 == 3)
				continue; /* not measured */
			double speed = k % 50 == 0   ? PREDICT_SPEED_MIN
				       : k % 50 == 1 ? PREDICT_SPEED_MAX
				       : k < 400     ? 100
						     : exp(20 * draw());
			predictor_observe(p, speed);
		}
		predictor_free(p);
	}
}

/* ---- files ---- */
static struct predictor *load(struct text *t, struct error *err)
{
	static struct record r;
	struct predictor *p = NULL;
	t->at = 0;
	if (take(&r, t, err) != 0 || predictor_load(&p, &r, take, t, err) != 0)
		return NULL;
	return p;
}

static void a_saved_one_goes_on_bit_for_bit(void **state)
{
	(void)state;
	random_state = 43;
	loaded(v, cpu, MANY, 100);
	for (int model = 0; model < PREDICT_MODELS; model++) {
		struct predictor *p = make((enum predict_model)model, 60), *q = NULL;
		for (int k = 0; k < 900; k++) {
			double a = predictor_predict(p, cpu[k], NAN), b;
			if (q) {
				b = predictor_predict(q, cpu[k], NAN);
				assert_true(a == b || (isnan(a) && isnan(b)));
				predictor_observe(q, v[k]);
			}
			predictor_observe(p, v[k]);
			if (k % 36 != 35)
				continue;
			/* The one from the file goes on, and another one is made from a file of it.
			 */
			struct text t = {0};
			struct error err;
			if (q) {
				predictor_free(p);
				p = q;
			}
			assert_int_equal(predictor_save(p, put, &t, &err), 0);
			q = load(&t, &err);
			assert_non_null(q);
			assert_int_equal(t.at, t.len);
			free(t.data);
		}
		predictor_free(p);
		predictor_free(q);
	}
}

/* Each line of a file lost, and each number replaced: refused, or loaded and usable. */
static void damage_is_refused_or_harmless(void **state)
{
	(void)state;
	struct predictor *p = make(PREDICT_NARX, 60), *q;
	struct text t = {0};
	struct error err;
	random_state = 47;
	score(p, v, cpu, 100, 50);
	assert_int_equal(predictor_save(p, put, &t, &err), 0);
	predictor_free(p);
	for (size_t end = 0; end < t.len; end++) {
		struct text cut = {.data = t.data, .len = end};
		if (end > 0 && t.data[end - 1] != '\n')
			continue;
		assert_null(load(&cut, &err));
		assert_int_equal(err.code, ERROR_DATA);
	}
	int loaded_ones = 0;
	double step = rounds_part() > 5 ? 240 : 80;
	for (size_t i = 0; i < t.len; i += 1 + (size_t)(draw() * step)) {
		char was = t.data[i];
		if (was == '\n')
			continue;
		t.data[i] = "09-.e, xa"[(int)(draw() * 9)];
		if ((q = load(&t, &err)) != NULL) {
			for (int k = 0; k < 80; k++) {
				double said = predictor_predict(q, 0.5, 0.5);
				assert_true(isnan(said) || (said >= PREDICT_SPEED_MIN &&
							    said <= PREDICT_SPEED_MAX));
				predictor_observe(q, 100);
			}
			predictor_free(q);
			loaded_ones++;
		} else {
			assert_int_equal(err.code, ERROR_DATA);
		}
		t.data[i] = was;
	}
	assert_true(loaded_ones > 10);
	free(t.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_those_of_differences),
		cmocka_unit_test(narx_learns_what_load_means),
		cmocka_unit_test(ema_speaks_before_the_warmup),
		cmocka_unit_test(a_model_serves_another_worker),
		cmocka_unit_test(old_samples_are_replayed),
		cmocka_unit_test(arima_is_as_good_as_the_process),
		cmocka_unit_test(arima_of_the_highest_order_is_found),
		cmocka_unit_test(arima_goes_on_with_a_line),
		cmocka_unit_test(arima_is_refined),
		cmocka_unit_test(gam_finds_curves_and_passes_over_spikes),
		cmocka_unit_test(gam_follows_a_change),
		cmocka_unit_test(auto_keeps_up_with_ema_and_follows_the_best),
		cmocka_unit_test(auto_turns_to_who_is_right_now),
		cmocka_unit_test(auto_serves_others),
		cmocka_unit_test(arx_finds_the_line),
		cmocka_unit_test(arx_learns_in_tens),
		cmocka_unit_test(arx_is_not_taught_by_spikes),
		cmocka_unit_test(arx_starts_from_anything),
		cmocka_unit_test(arx_serves_gaps_and_others),
		cmocka_unit_test(batches_without_a_speed_count_for_none),
		cmocka_unit_test(arx_takes_memory_as_it_takes_processors),
		cmocka_unit_test(auto_falls_with_the_speed),
		cmocka_unit_test(quantile_is_of_times),
		cmocka_unit_test(extremes_stay_numbers),
		cmocka_unit_test(a_saved_one_goes_on_bit_for_bit),
		cmocka_unit_test(damage_is_refused_or_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
