/*
 * Optimisers: each kernel against its formula in double, ranges against rows, the same bits
 * however a range is cut, and what is stored is finite whatever comes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/opt_papers.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define N 5003 /* more than a block, no multiple of a vector */

static struct opt make(const char *name)
{
	struct opt o;

	assert_int_equal(opt_by_name(&o, name, NULL), 0);
	assert_string_equal(opt_name(o.kind), name);
	o.lr = 0.1f;
	o.l2 = 0.01f;
	o.l1 = o.kind == OPT_FTRL ? 0.001f : 0.0f;
	return o;
}

static float value(size_t i, uint32_t salt)
{
	uint32_t x = (uint32_t)i * 2654435761u + salt * 40503u;

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	return (float)(int32_t)x / 2147483648.0f;
}

static struct opt make_decaying(const char *name)
{
	struct opt o = make(name);

	o.decay = o.kind == OPT_FTRL || o.kind == OPT_ADD ? 0.0f : 0.05f;
	return o;
}

static void steps_follow_the_papers(void **state)
{
	(void)state;
	for (size_t k = 0; k < opt_kinds; k++) {
		struct opt o = make_decaying(opt_name(k));
		struct opt_step s;
		float p[N], s0[N], s1[N], g[N], *slots[] = {s0, s1};
		double rp[N], ra[N], rb[N];
		for (size_t i = 0; i < N; i++)
			p[i] = value(i, 1);
		memset(s0, 0, sizeof s0);
		memset(s1, 0, sizeof s1);
		opt_init(&o, p, slots, N);
		for (size_t i = 0; i < N; i++) {
			rp[i] = (double)p[i];
			ra[i] = (double)s0[i];
			rb[i] = (double)s1[i];
		}
		for (unsigned t = 1; t <= 5; t++) {
			for (size_t i = 0; i < N; i++)
				g[i] = 20.0f * value(i, t + 1);
			opt_step_begin(&s, &o, 0.25, t, 0);
			opt_apply(&s, p, slots, g, N);
			for (size_t i = 0; i < N; i++)
				opt_papers(&o, 0.25, t, &rp[i], &ra[i], &rb[i], (double)g[i]);
		}
		for (size_t i = 0; i < N; i++) {
			if (fabs((double)p[i] - rp[i]) > 2e-5 * (1 + fabs(rp[i])))
				fail_msg("%s: element %zu: %.9g, not %.9g", opt_name(k), i,
					 (double)p[i], rp[i]);
		}
	}
}

static void fresh_ftrl_keeps_its_parameters(void **state)
{
	struct opt o = make("ftrl");
	struct opt_step s;
	float p[4] = {0.5f, -0.25f, 0.0f, 0.002f}, before[4], z[4], n[4], *slots[] = {z, n};
	float g[4] = {0, 0, 0, 0};

	(void)state;
	memcpy(before, p, sizeof p);
	opt_init(&o, p, slots, 4);
	opt_step_begin(&s, &o, 1.0, 1, 0);
	opt_apply(&s, p, slots, g, 4);
	for (size_t i = 0; i < 4; i++)
		assert_true(fabsf(p[i] - before[i]) < 1e-6f);
}

static void rows_are_ranges(void **state)
{
	size_t widths[] = {1, 3, 17};

	(void)state;
	for (size_t k = 0; k < opt_kinds; k++) {
		for (size_t v = 0; v < 3; v++) {
			size_t w = widths[v], count = 7, slots = 0;
			struct opt o = make_decaying(opt_name(k));
			struct opt_step s;
			float row[7][3 * 17], g[7 * 17], p[17], s0[17], s1[17], *rows[7];
			float *slot[] = {s0, s1};
			slots = opt_slots(&o);
			memset(row, 0, sizeof row);
			for (size_t i = 0; i < count; i++) {
				rows[i] = row[i];
				for (size_t j = 0; j < w; j++) {
					row[i][j] = value(i * 17 + j, 3);
					g[i * w + j] = value(i * 17 + j, 4);
				}
			}
			opt_step_begin(&s, &o, 0.5, 3, 0);
			opt_apply_rows(&s, rows, count, w, g);
			for (size_t i = 0; i < count; i++) {
				memset(s0, 0, sizeof s0);
				memset(s1, 0, sizeof s1);
				for (size_t j = 0; j < w; j++)
					p[j] = value(i * 17 + j, 3);
				opt_apply(&s, p, slot, g + i * w, w);
				assert_memory_equal(p, row[i], w * sizeof *p);
				if (slots > 0)
					assert_memory_equal(s0, row[i] + w, w * sizeof *p);
				if (slots > 1)
					assert_memory_equal(s1, row[i] + 2 * w, w * sizeof *p);
			}
		}
	}
}

/* What a client may have sent, or a sum of many may come to. */
static const float wild[] = {1e18f,    -1e18f,    1e30f, -1e30f, FLT_MAX, -FLT_MAX,
			     INFINITY, -INFINITY, NAN,   1.0f,   -1e-44f, 6.6e31f,
			     0.0f,     1e15f,     -1e3f, 1e-30f};
#define WILD (sizeof wild / sizeof *wild)

static void all_finite(const struct opt *o, const float *p, const float *s0, const float *s1,
		       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(p[i]) || !isfinite(s0[i]) || !isfinite(s1[i]))
			fail_msg("%s lr=%g l2=%g: element %zu is %g, slots %g %g", opt_name(o->kind),
				 (double)o->lr, (double)o->l2, i, (double)p[i], (double)s0[i],
				 (double)s1[i]);
	}
}

/* Wild gradients on wild parameters, in many orders. */
static void stay_finite(const struct opt *o, double factor)
{
	enum { COUNT = WILD * WILD };
	float p[COUNT], s0[COUNT], s1[COUNT], g[COUNT], *slots[] = {s0, s1};
	struct opt_step s;
	size_t held = 0;

	memset(s0, 0, sizeof s0);
	memset(s1, 0, sizeof s1);
	for (size_t i = 0; i < COUNT; i++) {
		p[i] = wild[i % WILD];
		if (!isfinite(p[i])) /* a store holds no such */
			p[i] = -FLT_MAX;
	}
	opt_init(o, p, slots, COUNT);
	for (unsigned turn = 0; turn < 200; turn++) {
		for (size_t i = 0; i < COUNT; i++)
			g[i] = wild[(i / WILD + turn * (i % 3)) % WILD];
		opt_step_begin(&s, o, factor, turn + 1, 0);
		held += opt_apply(&s, p, slots, g, COUNT);
		all_finite(o, p, s0, s1, COUNT);
	}
	assert_true(held > 0);
}

static void whatever_comes_what_stands_is_finite(void **state)
{
	const float lrs[] = {1e-30f, 0.05f, 1e9f}, l2s[] = {0.0f, 0.01f, 1e9f};
	const double factors[] = {1e-14, 1.0, 1e9};

	(void)state;
	for (size_t k = 0; k < opt_kinds * 27; k++) {
		struct opt o = make(opt_name(k / 27));
		o.lr = lrs[k % 3];
		o.l2 = l2s[k / 3 % 3];
		o.l1 = k % 2 ? 1e9f : 0.0f;
		o.momentum = k % 2 ? 1.0f : 0.9f;
		stay_finite(&o, factors[k / 9 % 3]);
	}
}

/* What a damaged or strange checkpoint may have put there: finite, and no more is known. */
static void wild_slots_stay_finite(void **state)
{
	const float slot[] = {0.0f, 1e-45f, 1.0f, 1e18f, FLT_MAX};

	(void)state;
	for (size_t k = 0; k < opt_kinds * 25; k++) {
		struct opt o = make(opt_name(k / 25));
		float p[WILD], s0[WILD], s1[WILD], *slots[] = {s0, s1};
		struct opt_step s;
		o.lr = 1e9f;
		for (size_t i = 0; i < WILD; i++) {
			p[i] = i % 2 ? FLT_MAX : -FLT_MAX;
			s0[i] = slot[k % 5];
			s1[i] = slot[k / 5 % 5];
		}
		if (opt_bad_slot(&o, 0, s0, WILD) < WILD)
			continue; /* is refused */
		for (unsigned t = 1; t <= 300; t++) {
			opt_step_begin(&s, &o, 1.0, t, 0);
			opt_apply(&s, p, slots, wild, WILD);
			all_finite(&o, p, s0, s1, WILD);
		}
	}
}

/* The first step of an outlier is like that of any large gradient, and later ones are made. */
static void an_outlier_stops_nothing(void **state)
{
	const char *squares[] = {"adagrad", "adam", "ftrl"};

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct opt o = make(squares[k]);
		struct opt_step s;
		float p = 0.5f, s0, s1, g, *slots[] = {&s0, &s1}, before;
		size_t held = 0;
		o.l2 = 0.0f;
		opt_init(&o, &p, slots, 1);
		for (unsigned t = 1; t <= 50; t++) {
			g = t == 25 ? 1e14f : 1.0f;
			before = p;
			opt_step_begin(&s, &o, 1.0, t, 0);
			held += opt_apply(&s, &p, slots, &g, 1);
			assert_int_equal(held, t >= 25);
			if (t == 25) /* down, by no more than a few learning rates */
				assert_true(p < before && p > before - 5.0f * o.lr);
		}
		assert_true(p < before);
		assert_true(before - p > 1e-5f * o.lr);
	}
}

/* Data whose gradients are large throughout: as with small ones, but for the first steps. */
static void large_gradients_are_followed(void **state)
{
	struct opt o = make("adagrad");
	struct opt_step s;
	float p = 0.0f, q = 0.0f, ps[1], qs[1], *a[] = {ps}, *b[] = {qs};
	size_t held = 0, late = 0;

	(void)state;
	o.l2 = 0.0f;
	opt_init(&o, &p, a, 1);
	opt_init(&o, &q, b, 1);
	for (unsigned t = 1; t <= 100; t++) {
		float small = 1.0f + 0.5f * value(t, 9), large = 1e9f * small;
		opt_step_begin(&s, &o, 1.0, t, 0);
		held += opt_apply(&s, &q, b, &small, 1);
		late += opt_apply(&s, &p, a, &large, 1);
	}
	assert_int_equal(held, 0);
	assert_in_range(late, 1, 5);
	assert_true(fabsf(p - q) < 0.15f * fabsf(q));
}

static void what_may_not_stand_is_found(void **state)
{
	struct opt adagrad = make("adagrad"), adam = make("adam"), mom = make("momentum");
	float x[100];

	(void)state;
	for (size_t i = 0; i < 100; i++)
		x[i] = i % 2 ? 1e18f : -1e18f;
	assert_int_equal(opt_bad_gradient(x, 100), 100);
	x[77] = 1.1e18f;
	assert_int_equal(opt_bad_gradient(x, 100), 77);
	assert_int_equal(opt_bad_gradient(x, 77), 77);
	x[70] = NAN;
	x[71] = INFINITY;
	assert_int_equal(opt_bad_gradient(x, 100), 70);
	assert_int_equal(opt_bad_slot(&mom, 0, x, 100), 70);
	assert_int_equal(opt_bad_slot(&adam, 0, x, 70), 70);
	x[69] = 1.1e18f;
	assert_int_equal(opt_bad_slot(&adam, 0, x, 70), 69);
	assert_int_equal(opt_bad_slot(&mom, 0, x, 70), 70);
	assert_int_equal(opt_bad_slot(&adam, 1, x, 70), 0);
	assert_int_equal(opt_bad_slot(&adagrad, 0, x + 1, 1), 1);
	assert_int_equal(opt_bad_slot(&adagrad, 0, x + 1, 2), 1);
	assert_int_equal(opt_bad_gradient(x, 0), 0);
}

/* One parameter that is 0, and a gradient: where the step leads. */
static float stepped(const char *name, const char *schedule, float gradient, uint64_t t,
		     uint64_t delay)
{
	struct opt o;
	struct opt_step s;
	float p = 0.0f, slot = 0.0f, *slots[] = {&slot};

	assert_int_equal(opt_by_name(&o, name, NULL), 0);
	const struct opt_rate rate = {
		.schedule = schedule, .beta = strcmp(schedule, "constant") ? 1.0 : 0.0, .factor = NAN};
	assert_int_equal(opt_set_rate(&o, &rate, NULL), 0);
	o.lr = 8.0f;
	opt_step_begin(&s, &o, 1.0, t, delay);
	assert_int_equal(opt_apply(&s, &p, slots, &gradient, 1), 0);
	return p;
}

/* By hand, with lr 8, beta 1, and squares that are 0 before. */
static void schedules_are_the_formulas(void **state)
{
	(void)state;
	/* 8/(1 + sqrt(9)) = 2 */
	assert_float_equal(stepped("sgd", "sqrt", 3.0f, 9, 7), -6.0f, 0);
	assert_float_equal(stepped("sgd", "adadelay", 3.0f, 9, 0), -6.0f, 0);
	assert_float_equal(stepped("sgd", "adadelay", 3.0f, 2, 7), -6.0f, 0);
	assert_float_equal(stepped("momentum", "adadelay", 3.0f, 2, 7), -6.0f, 0);
	/* 8/(1 + sqrt(49)) = 1 */
	assert_float_equal(stepped("sgd", "adadelay", 3.0f, 9, 40), -3.0f, 0);
	/* sqrt(2^2) sqrt((16 + 20)/16) + 1 = 4; without a delay 2 + 1 = 3 */
	assert_float_equal(stepped("adagrad", "adadelay", 2.0f, 16, 20), -4.0f, 0);
	assert_float_equal(stepped("adagrad", "adadelay", 2.0f, 16, 0), -16.0f / 3.0f, 1e-6f);
	assert_float_equal(stepped("adagrad", "constant", 2.0f, 16, 20), -8.0f, 0);
	assert_float_equal(stepped("sgd", "constant", 3.0f, 9, 40), -24.0f, 0);
}

/* The rate of step t, with lr 8. */
static float rate_of(const char *name, const struct opt_rate *rate, uint64_t t)
{
	struct opt o;
	struct opt_step s;

	assert_int_equal(opt_by_name(&o, name, NULL), 0);
	assert_int_equal(opt_set_rate(&o, rate, NULL), 0);
	o.lr = 8.0f;
	opt_step_begin(&s, &o, 1.0, t, 0);
	return s.opt.lr;
}

static void rates_are_the_formulas(void **state)
{
	static const struct opt_rate stairs = {.schedule = "step", .steps = 10, .factor = 0.5};
	static const struct opt_rate tenth = {.schedule = "step", .steps = 3, .factor = NAN};
	static const struct opt_rate cosine = {.schedule = "cosine", .steps = 4, .factor = NAN};
	static const struct opt_rate half = {.schedule = "cosine", .steps = 4, .factor = 0.5};
	static const struct opt_rate warm = {.schedule = "constant", .warmup = 4, .factor = NAN};
	static const struct opt_rate both = {
		.schedule = "step", .steps = 2, .warmup = 4, .factor = 0.5};
	static const struct {
		const struct opt_rate *rate;
		uint64_t t;
		float lr;
	} known[] = {
		{&stairs, 1, 8},  {&stairs, 10, 8}, {&stairs, 11, 4}, {&stairs, 21, 2},
		{&tenth, 4, 0.8f}, {&cosine, 1, 8}, {&cosine, 3, 4},  {&cosine, 5, 0},
		{&cosine, 99, 0}, {&half, 1, 8},    {&half, 3, 6},    {&half, 9, 4},
		{&warm, 1, 2},    {&warm, 3, 6},    {&warm, 4, 8},    {&warm, 100, 8},
		{&both, 3, 3},    {&both, 5, 2},
	};
	static const char *const names[] = {"sgd", "momentum", "adagrad", "adam"};

	(void)state;
	for (size_t i = 0; i < 4 * sizeof known / sizeof *known; i++)
		assert_float_equal(rate_of(names[i % 4], known[i / 4].rate, known[i / 4].t),
				   known[i / 4].lr, 1e-6f);
	/* adam's own correction comes on top: (1 - 0.9^1) */
	struct opt o;
	struct opt_step s;
	assert_int_equal(opt_by_name(&o, "adam", NULL), 0);
	assert_int_equal(opt_set_rate(&o, &warm, NULL), 0);
	o.lr = 8.0f;
	opt_step_begin(&s, &o, 1.0, 1, 0);
	assert_float_equal(s.adam_lr, 20.0f, 1e-4f);
}

static void schedules_that_an_optimiser_lacks(void **state)
{
	static const char *const wrong[][3] = {
		{"adam", "sqrt", "adam has constant, step and cosine"},
		{"ftrl", "adadelay", "ftrl has only constant"},
		{"add", "adadelay", "add has only constant"},
		{"adagrad", "sqrt", "by themselves"},
		{"sgd", "linear", "unknown: linear (constant|sqrt|adadelay|step|cosine)"},
		{"sgd", "constant", "is for the schedules"},
	};
	static const struct {
		const char *name;
		struct opt_rate rate;
		const char *place;
	} fields[] = {
		{"sgd", {.schedule = "step", .factor = NAN}, "schedule"},
		{"sgd", {.schedule = "sqrt", .steps = 3, .factor = NAN}, "steps"},
		{"sgd", {.schedule = "constant", .factor = 0.5}, "factor"},
		{"sgd", {.schedule = "cosine", .steps = 3, .beta = 1, .factor = NAN}, "beta"},
		{"ftrl", {.schedule = "cosine", .steps = 3, .factor = NAN}, "schedule"},
		{"ftrl", {.schedule = "constant", .warmup = 3, .factor = NAN}, "warmup"},
		{"ftrl", {.schedule = "constant", .decay = 1, .factor = NAN}, "decay"},
		{"add", {.schedule = "constant", .decay = 1, .factor = NAN}, "decay"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct opt o;
		struct error err;
		assert_int_equal(opt_by_name(&o, wrong[i][0], &err), 0);
		const struct opt_rate rate = {.schedule = wrong[i][1], .beta = 1.0, .factor = NAN};
		assert_int_equal(opt_set_rate(&o, &rate, &err), -1);
		assert_int_equal(err.code, ERROR_CONFIG);
		assert_non_null(strstr(err.text, wrong[i][2]));
	}
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		struct opt o;
		struct error err;
		assert_int_equal(opt_by_name(&o, fields[i].name, &err), 0);
		assert_int_equal(opt_set_rate(&o, &fields[i].rate, &err), -1);
		assert_string_equal(err.place, fields[i].place);
	}
}

static void unknown_names_are_errors(void **state)
{
	struct opt o;
	struct error err;

	(void)state;
	assert_int_equal(opt_by_name(&o, "sdg", &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.text, "sdg"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_follow_the_papers),
		cmocka_unit_test(fresh_ftrl_keeps_its_parameters),
		cmocka_unit_test(rows_are_ranges),
		cmocka_unit_test(whatever_comes_what_stands_is_finite),
		cmocka_unit_test(wild_slots_stay_finite),
		cmocka_unit_test(an_outlier_stops_nothing),
		cmocka_unit_test(large_gradients_are_followed),
		cmocka_unit_test(what_may_not_stand_is_found),
		cmocka_unit_test(schedules_are_the_formulas),
		cmocka_unit_test(rates_are_the_formulas),
		cmocka_unit_test(schedules_that_an_optimiser_lacks),
		cmocka_unit_test(unknown_names_are_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
