/*
 * Weighted aggregation (LB-BSP 3.4): a batch that is split over workers in any way gives what one
 * process with the whole batch gives.  To the bit where the sums are exact, to rounding against
 * double arithmetic, and for the models that are trained.  The naive mean of the workers' means
 * does not: it is another function, and a noisier one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"
#include "param/store.h"
#include "tests/unit/opt_papers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIALS 60
#define ITERATIONS 6
#define BATCH_MAX 256
#define WORKERS_MAX 12
#define PARTS_MAX 4


static uint64_t seed;

static uint64_t bits(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33;
}

static size_t below(size_t n)
{
	return (size_t)bits() % n;
}

static double uniform(void)
{
	return (double)bits() * 0x1p-31;
}

static double normal(void)
{
	return sqrt(-2.0 * log(uniform() + 1e-12)) * cos(6.283185307179586 * uniform());
}

/* ---- splits ---- */

struct split {
	size_t batch, workers;
	size_t begin[WORKERS_MAX + 1]; /* of worker w: samples begin[w] .. begin[w + 1] - 1 */
};

static int by_size(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Cuts anywhere; one time in three very uneven, with single samples for all but one. */
static void cut(struct split *s, size_t batch, size_t workers)
{
	s->batch = batch;
	s->workers = workers;
	s->begin[0] = 0;
	for (size_t w = 1; w < workers; w++)
		s->begin[w] = 1 + below(batch - 1);
	if (below(3) == 0) {
		for (size_t w = 1; w < workers; w++)
			s->begin[w] = w;
	}
	qsort(s->begin + 1, workers - 1, sizeof *s->begin, by_size);
	for (size_t w = 1; w < workers; w++) { /* nobody has nothing */
		if (s->begin[w] <= s->begin[w - 1])
			s->begin[w] = s->begin[w - 1] + 1;
	}
	s->begin[workers] = batch;
	for (size_t w = workers; w-- > 1;) {
		if (s->begin[w] >= s->begin[w + 1])
			s->begin[w] = s->begin[w + 1] - 1;
	}
}

static void random_split(struct split *s)
{
	size_t workers = 1 + below(WORKERS_MAX);

	cut(s, workers + 1 + below(BATCH_MAX - workers), workers);
}

/* ---- samples with gradients of their own ---- */

enum { DENSE = 41, WIDTH = 3, KEYS = 23, TOUCHED = 4 };

struct sample {
	float dense[DENSE];
	uint32_t key[TOUCHED];
	float row[TOUCHED][WIDTH];
};

static struct sample sample[BATCH_MAX];
static double trend[DENSE], row_trend[KEYS][WIDTH];

/* whole: multiples of 1/16 below 4, whose sums over a batch are exact in any order. Otherwise all
 * samples lean the same way in an element: means that cancel out would make the optimisers that
 * divide by the gradient's size blow up the last bits. */
static float element(double lean, int whole)
{
	return whole ? (float)((int)below(128) - 64) / 16.0f : (float)(lean * (1 + 0.4 * normal()));
}

static double lean(void)
{
	return (uniform() < 0.5 ? -1 : 1) * (0.5 + uniform());
}

static void draw_samples(size_t n, int whole)
{
	for (size_t j = 0; j < DENSE; j++)
		trend[j] = lean();
	for (size_t k = 0; k < KEYS; k++)
		for (size_t j = 0; j < WIDTH; j++)
			row_trend[k][j] = lean();
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < DENSE; j++)
			sample[i].dense[j] = element(trend[j], whole);
		for (size_t t = 0; t < TOUCHED; t++) {
			uint32_t key = (uint32_t)below(KEYS);
			sample[i].key[t] = key;
			for (size_t j = 0; j < WIDTH; j++)
				sample[i].row[t][j] = element(row_trend[key][j], whole);
		}
	}
}

/* ---- servers ---- */

struct servers {
	uint32_t parts;
	struct map map;
	struct store *part[PARTS_MAX];
};

static void servers_start(struct servers *s, const struct layout *layout, const struct opt *opt,
			  uint32_t parts)
{
	s->parts = parts;
	map_even(&s->map, parts, layout_dense_count(layout));
	for (uint32_t p = 0; p < parts; p++)
		assert_int_equal(store_new(&s->part[p], layout, &s->map, p, opt, NULL), 0);
}

static void servers_free(struct servers *s)
{
	for (uint32_t p = 0; p < s->parts; p++)
		store_free(s->part[p]);
}

static void pull_dense(const struct servers *s, float *out)
{
	for (uint32_t p = 0; p < s->parts; p++)
		store_pull_dense(s->part[p], out + store_dense_begin(s->part[p]), 0);
}

static const float *row_of(const struct servers *s, uint32_t key)
{
	float *row;
	uint32_t p = map_part_of_key(&s->map, key);

	assert_int_equal(store_rows(s->part[p], &key, 1, 0, &row, NULL), 0);
	return row;
}

/* What a worker hands over: sums over its samples, rows in the order of first touch. */
struct gradient {
	float *dense, *row; /* [dense], [keys][width] */
	uint32_t *key;
	size_t keys, width;
	uint64_t count, size;
};

/* Each part gets its range of the dense vector and the rows of its keys. */
static void apply(struct servers *s, const struct gradient *g, size_t workers, int naive)
{
	for (uint32_t p = 0; p < s->parts; p++) {
		struct store_push push[WORKERS_MAX];
		float **row[WORKERS_MAX], *values[WORKERS_MAX];
		for (size_t w = 0; w < workers; w++) {
			size_t n = 0, width = g[w].width;
			uint32_t *own = malloc((g[w].keys + 1) * sizeof *own);
			row[w] = malloc((g[w].keys + 1) * sizeof *row[w]);
			values[w] = malloc((g[w].keys * width + 1) * sizeof *values[w]);
			for (size_t i = 0; i < g[w].keys; i++) {
				if (map_part_of_key(&s->map, g[w].key[i]) != p)
					continue;
				memcpy(values[w] + n * width, g[w].row + i * width,
				       width * sizeof(float));
				own[n++] = g[w].key[i];
			}
			assert_int_equal(store_rows(s->part[p], own, n, 1, row[w], NULL), 0);
			push[w] = (struct store_push){
				.dense = g[w].dense + store_dense_begin(s->part[p]),
				.rows = n,
				.row = row[w],
				.row_gradient = values[w],
				.count = g[w].count,
				.size = g[w].size,
				.scale = 1.0};
			free(own);
		}
		if (naive)
			store_naive_mean(push, workers);
		assert_int_equal(store_apply(s->part[p], push, workers, NULL), 0);
		for (size_t w = 0; w < workers; w++) {
			free(row[w]);
			free(values[w]);
		}
	}
}

static size_t place_of(struct gradient *g, uint32_t key)
{
	size_t i = 0;

	while (i < g->keys && g->key[i] != key)
		i++;
	if (i == g->keys)
		g->key[g->keys++] = key;
	return i;
}

static void gradient_new(struct gradient *g, size_t dense, size_t keys, size_t width, size_t count)
{
	g->dense = calloc(dense, sizeof *g->dense);
	g->row = calloc(keys * width, sizeof *g->row);
	g->key = calloc(keys, sizeof *g->key);
	g->keys = 0;
	g->width = width;
	g->count = g->size = count;
}

static void gradient_free(struct gradient *g)
{
	free(g->dense);
	free(g->row);
	free(g->key);
}

static void gradient_of(struct gradient *g, size_t begin, size_t end)
{
	gradient_new(g, DENSE, KEYS, WIDTH, end - begin);
	for (size_t i = begin; i < end; i++) {
		for (size_t j = 0; j < DENSE; j++)
			g->dense[j] += sample[i].dense[j];
		for (size_t t = 0; t < TOUCHED; t++) {
			size_t at = place_of(g, sample[i].key[t]);
			for (size_t j = 0; j < WIDTH; j++)
				g->row[at * WIDTH + j] += sample[i].row[t][j];
		}
	}
}

static void train(struct servers *s, const struct split *split, int naive)
{
	struct gradient g[WORKERS_MAX];

	for (size_t w = 0; w < split->workers; w++)
		gradient_of(&g[w], split->begin[w], split->begin[w + 1]);
	apply(s, g, split->workers, naive);
	for (size_t w = 0; w < split->workers; w++)
		gradient_free(&g[w]);
}

static struct layout plain_layout(void)
{
	struct layout_table table = {
		.name = "t", .width = WIDTH, .zero_columns = 1, .scale = 0.1};
	struct layout layout;

	layout_start(&layout, 7);
	assert_int_equal(layout_add_tensor(&layout, "a", DENSE, 1, LAYOUT_NORMAL, 0.5,
					   LAYOUT_OPTIMIZER, NULL),
			 0);
	assert_int_equal(layout_set_table(&layout, &table, NULL), 0);
	return layout;
}

static struct opt optimiser(const char *name)
{
	struct opt o;

	assert_int_equal(opt_by_name(&o, name, NULL), 0);
	o.lr = 0.05f;
	o.l2 = o.kind == OPT_FTRL ? 0.0f : 0.01f;
	o.l1 = o.kind == OPT_FTRL ? 0.001f : 0.0f;
	return o;
}

/* ---- the property, to the bit ---- */

static void same_bits(const struct servers *a, const struct servers *b, const char *what)
{
	float x[DENSE], y[DENSE];

	pull_dense(a, x);
	pull_dense(b, y);
	if (memcmp(x, y, sizeof x) != 0)
		fail_msg("%s: dense parameters differ", what);
	for (uint32_t key = 0; key < KEYS; key++) {
		if (memcmp(row_of(a, key), row_of(b, key), WIDTH * sizeof(float)) != 0)
			fail_msg("%s: row %u differs", what, key);
	}
}

static void any_split_gives_the_same_bits(void **state)
{
	(void)state;
	seed = 1;
	for (size_t trial = 0; trial < TRIALS * opt_kinds; trial++) {
		struct layout layout = plain_layout();
		struct opt opt = optimiser(opt_name(trial % opt_kinds));
		struct servers one, many;
		servers_start(&one, &layout, &opt, 1);
		servers_start(&many, &layout, &opt, 1 + (uint32_t)below(PARTS_MAX));
		for (size_t k = 0; k < ITERATIONS; k++) {
			struct split whole, split;
			random_split(&split);
			cut(&whole, split.batch, 1);
			draw_samples(split.batch, 1);
			train(&one, &whole, 0);
			train(&many, &split, 0);
			same_bits(&one, &many, opt_name(opt.kind));
		}
		servers_free(&one);
		servers_free(&many);
	}
}

/* ---- to rounding: double arithmetic over the samples, each weighing 1/X ---- */

struct number {
	double p, a, b; /* parameter and slots */
	double peak;    /* the largest that p was: its last bit is what rounding is measured by */
};

static void step(const struct opt *o, struct number *n, double sum, double count, unsigned t)
{
	opt_papers(o, 1 / count, t, &n->p, &n->a, &n->b, sum);
	n->peak = fmax(n->peak, fabs(n->p));
}

static void numbers_start(struct number *n, const struct opt *o, const float *p, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		float a = 0, b = 0, *slot[] = {&a, &b};
		opt_init(o, &p[i], slot, 1);
		n[i] = (struct number){(double)p[i], (double)a, (double)b, fabs((double)p[i])};
	}
}

static void near(const float *got, const struct number *want, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		if (fabs((double)got[i] - want[i].p) > 5e-6 * (1 + want[i].peak))
			fail_msg("%s: parameter %zu is %.9g, not %.9g", what, i, (double)got[i],
				 want[i].p);
	}
}

/* Rows that no sample of the batch touches stay as they are, with their slots. */
static void reference(const struct opt *o, struct number *dense, struct number (*row)[WIDTH],
		      size_t batch, unsigned t)
{
	double sum[DENSE] = {0}, row_sum[KEYS][WIDTH] = {{0}};
	int touched[KEYS] = {0};

	for (size_t i = 0; i < batch; i++) {
		for (size_t j = 0; j < DENSE; j++)
			sum[j] += (double)sample[i].dense[j];
		for (size_t k = 0; k < TOUCHED; k++) {
			uint32_t key = sample[i].key[k];
			touched[key] = 1;
			for (size_t j = 0; j < WIDTH; j++)
				row_sum[key][j] += (double)sample[i].row[k][j];
		}
	}
	for (size_t j = 0; j < DENSE; j++)
		step(o, &dense[j], sum[j], (double)batch, t);
	for (size_t k = 0; k < KEYS; k++)
		for (size_t j = 0; touched[k] && j < WIDTH; j++)
			step(o, &row[k][j], row_sum[k][j], (double)batch, t);
}

static void any_split_gives_the_single_process_update(void **state)
{
	(void)state;
	seed = 2;
	for (size_t trial = 0; trial < TRIALS * opt_kinds; trial++) {
		struct layout layout = plain_layout();
		struct opt opt = optimiser(opt_name(trial % opt_kinds));
		struct servers many;
		struct number dense[DENSE], row[KEYS][WIDTH];
		float p[DENSE];
		servers_start(&many, &layout, &opt, 1 + (uint32_t)below(PARTS_MAX));
		pull_dense(&many, p);
		numbers_start(dense, &opt, p, DENSE);
		for (uint32_t k = 0; k < KEYS; k++)
			numbers_start(row[k], &opt, row_of(&many, k), WIDTH);
		for (unsigned t = 1; t <= ITERATIONS; t++) {
			struct split split;
			random_split(&split);
			draw_samples(split.batch, 0);
			train(&many, &split, 0);
			reference(&opt, dense, row, split.batch, t);
			pull_dense(&many, p);
			near(p, dense, DENSE, opt_name(opt.kind));
			for (uint32_t k = 0; k < KEYS; k++)
				near(row_of(&many, k), row[k], WIDTH, opt_name(opt.kind));
		}
		servers_free(&many);
	}
}

/* ---- models ---- */

enum { INPUTS = 5, FIELDS = 3, MODEL_KEYS = 40 };

struct data {
	float x[BATCH_MAX][INPUTS], label[BATCH_MAX], weight[BATCH_MAX];
	uint32_t key[BATCH_MAX][FIELDS];
};

static void draw_data(struct data *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < INPUTS; j++)
			d->x[i][j] = (float)normal();
		for (size_t j = 0; j < FIELDS; j++)
			d->key[i][j] = (uint32_t)(below(MODEL_KEYS) * 977);
		d->label[i] = uniform() < 0.4 ? 1.0f : 0.0f;
		d->weight[i] = (float)(0.5 + uniform());
	}
}

struct trained {
	struct model_spec spec;
	struct model *model;
	struct servers servers;
	size_t dense, width;
};

static void trained_start(struct trained *t, const char *name, const struct opt *opt,
			  uint32_t parts)
{
	struct layout layout;

	model_spec_default(&t->spec, name);
	t->spec.dense_inputs = INPUTS;
	t->spec.fields = FIELDS;
	t->spec.embed = 4;
	t->spec.hidden = (struct model_widths){2, {9, 5}};
	assert_int_equal(model_new(&t->model, &t->spec, NULL, NULL), 0);
	assert_int_equal(model_layout(&t->spec, &layout, NULL), 0);
	t->dense = (size_t)model_dense_count(&t->spec);
	t->width = model_width(&t->spec);
	servers_start(&t->servers, &layout, opt, parts);
}

static void trained_end(struct trained *t)
{
	model_free(t->model);
	servers_free(&t->servers);
}

/* A worker's batch: the keys that it touches, their rows as the servers have them, and `steps`
 * accumulation steps. */
static void work(struct trained *t, const struct data *d, size_t begin, size_t end, size_t steps,
		 const float *dense, struct gradient *g, double *loss)
{
	static uint32_t offset[BATCH_MAX + 1], index[BATCH_MAX * FIELDS];
	static float rows[MODEL_KEYS * 64];
	size_t count = end - begin, size = (count + steps - 1) / steps;

	gradient_new(g, t->dense, MODEL_KEYS, t->width, count);
	for (size_t i = 0; i <= count; i++)
		offset[i] = (uint32_t)(i * FIELDS);
	for (size_t i = 0; i < count * FIELDS; i++)
		index[i] = (uint32_t)place_of(g, d->key[begin + i / FIELDS][i % FIELDS]);
	for (size_t k = 0; k < g->keys; k++)
		memcpy(rows + k * t->width, row_of(&t->servers, g->key[k]),
		       t->width * sizeof(float));
	for (size_t at = 0; at < count; at += size) {
		struct model_batch b = {.count = count - at < size ? count - at : size,
					.dense = d->x[begin + at],
					.label = d->label + begin + at,
					.weight = d->weight + begin + at,
					.offset = offset + at,
					.index = index};
		assert_int_equal(model_train(t->model, &b, dense, rows, g->dense, g->row, loss,
					     NULL),
				 0);
	}
}

static double trained_iterate(struct trained *t, const struct data *d, const struct split *split,
			      int accumulate)
{
	struct gradient g[WORKERS_MAX];
	float *dense = malloc(t->dense * sizeof *dense);
	double loss = 0;

	pull_dense(&t->servers, dense);
	for (size_t w = 0; w < split->workers; w++)
		work(t, d, split->begin[w], split->begin[w + 1], accumulate ? 1 + below(5) : 1,
		     dense, &g[w], &loss);
	apply(&t->servers, g, split->workers, 0);
	for (size_t w = 0; w < split->workers; w++)
		gradient_free(&g[w]);
	free(dense);
	return loss;
}

static void near_model(const struct trained *a, const struct trained *b, const char *what)
{
	float *x = malloc(a->dense * sizeof *x), *y = malloc(a->dense * sizeof *y);

	pull_dense(&a->servers, x);
	pull_dense(&b->servers, y);
	for (size_t i = 0; i < a->dense; i++) {
		if (fabsf(x[i] - y[i]) > 1e-5f * (1 + fabsf(x[i])))
			fail_msg("%s: dense %zu is %.9g, not %.9g", what, i, (double)y[i],
				 (double)x[i]);
	}
	for (uint32_t k = 0; k < MODEL_KEYS; k++) {
		const float *r = row_of(&a->servers, k * 977), *q = row_of(&b->servers, k * 977);
		for (size_t j = 0; j < a->width; j++) {
			if (fabsf(r[j] - q[j]) > 1e-5f * (1 + fabsf(r[j])))
				fail_msg("%s: row %u, column %zu is %.9g, not %.9g", what, k, j,
					 (double)q[j], (double)r[j]);
		}
	}
	free(x);
	free(y);
}

/* sgd with a large step shows the gradients themselves, momentum and adagrad carry slots. */
static void any_split_trains_the_same_model(void **state)
{
	static const char *const models[] = {"lr", "wdl"}, *const opts[] = {"sgd", "momentum",
									    "adagrad"};
	static struct data data;

	(void)state;
	seed = 3;
	for (size_t trial = 0; trial < 60; trial++) {
		struct opt opt = optimiser(opts[trial / 2 % 3]);
		const char *name = models[trial % 2];
		struct trained one, many;
		if (opt.kind == OPT_SGD)
			opt.lr = 0.5f;
		trained_start(&one, name, &opt, 1);
		trained_start(&many, name, &opt, 1 + (uint32_t)below(PARTS_MAX));
		for (size_t k = 0; k < ITERATIONS; k++) {
			struct split whole, split;
			random_split(&split);
			cut(&whole, split.batch, 1);
			draw_data(&data, split.batch);
			double a = trained_iterate(&one, &data, &whole, 0);
			double b = trained_iterate(&many, &data, &split, 1);
			assert_true(fabs(a - b) < 1e-5 * fabs(a));
			near_model(&one, &many, name);
		}
		trained_end(&one);
		trained_end(&many);
	}
}

/* ---- the naive mean ---- */

/* Exactly the mean of means; with equal sizes, and with one worker, that is the mean. */
static void naive_mean_weighs_workers(void **state)
{
	struct layout layout = plain_layout();
	struct opt opt = optimiser("sgd");

	(void)state;
	seed = 4;
	opt.lr = 1.0f;
	opt.l2 = 0.0f;
	for (size_t trial = 0; trial < TRIALS; trial++) {
		struct servers s, even, naive_even;
		struct split split;
		struct number want[DENSE];
		float p[DENSE];
		servers_start(&s, &layout, &opt, 1);
		pull_dense(&s, p);
		numbers_start(want, &opt, p, DENSE);
		random_split(&split);
		draw_samples(split.batch, 0);
		for (size_t w = 0; w < split.workers; w++) {
			double x = (double)(split.begin[w + 1] - split.begin[w]);
			for (size_t i = split.begin[w]; i < split.begin[w + 1]; i++)
				for (size_t j = 0; j < DENSE; j++)
					want[j].p -= (double)sample[i].dense[j] / x /
						     (double)split.workers;
		}
		train(&s, &split, 1);
		pull_dense(&s, p);
		near(p, want, DENSE, "naive");
		servers_free(&s);
		size_t size = 1 + below(20);
		split.workers = 1 + below(WORKERS_MAX);
		split.batch = split.workers * size;
		for (size_t w = 0; w <= split.workers; w++)
			split.begin[w] = w * size;
		draw_samples(split.batch, 1);
		servers_start(&even, &layout, &opt, 1);
		servers_start(&naive_even, &layout, &opt, 2);
		train(&even, &split, 0);
		train(&naive_even, &split, 1);
		same_bits(&even, &naive_even, "equal sizes");
		servers_free(&even);
		servers_free(&naive_even);
	}
}

/* A worker whose batch was empty has no mean, and changes nobody's. */
static void naive_mean_leaves_out_who_has_no_samples(void **state)
{
	struct store_push push[] = {{.count = 2, .size = 4, .scale = 1.0},
				    {.count = 0, .size = 5, .scale = 1.0},
				    {.count = 1, .size = 1, .scale = 0.5}};

	(void)state;
	store_naive_mean(push, 3);
	assert_float_equal(push[0].scale, 10.0 / (2 * 4), 1e-12);
	assert_float_equal(push[2].scale, 0.5 * 10.0 / (2 * 1), 1e-12);
	store_naive_mean(push + 1, 1);
	assert_float_equal(push[1].scale, 1.0, 1e-12);
}

/* ---- groups ---- */

/* Under sgd a group of pushes of one size is what they are one after the other; adagrad makes one
 * step of their mean. */
static void a_group_is_as_many_steps(void **state)
{
	static const char *const name[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};
	struct layout layout = plain_layout();

	(void)state;
	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		struct store_push push[] = {{.count = 4, .size = 4, .scale = 1.0},
					    {.count = 4, .size = 4, .scale = 0.5},
					    {.count = 2, .size = 4, .scale = 1.0}};
		struct opt opt = optimiser(name[i]);
		float times = i < 2 ? 3.0f : 1.0f;
		struct servers s;
		servers_start(&s, &layout, &opt, 1);
		store_group(s.part[0], push, 3);
		assert_float_equal((float)push[0].scale, times, 0);
		assert_float_equal((float)push[1].scale, 0.5f * times, 0);
		assert_float_equal((float)push[2].scale, times, 0);
		servers_free(&s);
	}
}

/* Alike data: what sizes of 89, 21, 12 and 6 cost. Both means are unbiased; the naive one has the
 * noise of a batch of 16 / (1/89 + 1/21 + 1/12 + 1/6) = 52 samples, 2.47 times the variance. */
static void naive_mean_of_alike_data_is_noisier(void **state)
{
	const int draws = 20000;
	const struct split split = {128, 4, {0, 89, 110, 122, 128}};
	struct layout layout;
	struct opt opt = optimiser("sgd");
	struct servers s;
	double sum[2] = {0}, squares[2] = {0};

	(void)state;
	seed = 5;
	opt.lr = 1.0f;
	opt.l2 = 0.0f;
	layout_start(&layout, 1);
	layout_add_tensor(&layout, "a", 1, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, NULL);
	servers_start(&s, &layout, &opt, 1);
	for (int draw = 0; draw < draws; draw++) {
		float total[4] = {0}, before, after;
		for (size_t w = 0; w < 4; w++)
			for (size_t i = split.begin[w]; i < split.begin[w + 1]; i++)
				total[w] += (float)normal();
		for (int naive = 0; naive < 2; naive++) {
			struct store_push push[4];
			for (size_t w = 0; w < 4; w++)
				push[w] = (struct store_push){
					.dense = &total[w],
					.count = split.begin[w + 1] - split.begin[w],
					.scale = 1.0};
			if (naive)
				store_naive_mean(push, 4);
			pull_dense(&s, &before);
			assert_int_equal(store_apply(s.part[0], push, 4, NULL), 0);
			pull_dense(&s, &after);
			double mean = (double)before - (double)after;
			sum[naive] += mean;
			squares[naive] += mean * mean;
		}
	}
	servers_free(&s);
	assert_true(fabs(sum[0] / draws) < 0.003 && fabs(sum[1] / draws) < 0.005);
	double ratio = squares[1] / squares[0];
	if (fabs(ratio - 2.47) > 0.1 || fabs(squares[0] / draws * 128 - 1) > 0.04)
		fail_msg("variance %.3f of a sample's over 128, naive %.3f times that",
			 squares[0] / draws * 128, ratio);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_split_gives_the_same_bits),
		cmocka_unit_test(any_split_gives_the_single_process_update),
		cmocka_unit_test(any_split_trains_the_same_model),
		cmocka_unit_test(naive_mean_weighs_workers),
		cmocka_unit_test(naive_mean_leaves_out_who_has_no_samples),
		cmocka_unit_test(naive_mean_of_alike_data_is_noisier),
		cmocka_unit_test(a_group_is_as_many_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
