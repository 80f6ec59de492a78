/*
 * Gradients against finite differences, losses and scores against the formulas, computed in double
 * and without any cleverness.
 */
#include "param/layout.h"
#include "model/kind.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 37
#define FIELDS 3
#define DENSE 40 /* also an image of 5 x 4 x 2 */
#define UNIQUE 11
#define CLASSES 4

struct fixture {
	struct model_spec spec;
	struct model *model;
	struct model_batch batch;
	float x[ROWS * DENSE], label[ROWS], weight[ROWS], value[ROWS * FIELDS];
	uint32_t offset[ROWS + 1], index[ROWS * FIELDS];
	size_t dense_count, width;
	float *dense, *rows, *dense_gradient, *row_gradient;
};

static uint64_t state;

static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) * 0x1p-53;
}

static float some_label(unsigned labels)
{
	if (labels == MODEL_CLASS)
		return (float)(int)(uniform() * CLASSES);
	return labels == MODEL_REAL ? (float)(uniform() * 4 - 2) : uniform() < 0.4 ? 1.0f : 0.0f;
}

static void fill_batch(struct fixture *f, int values, int weights)
{
	for (size_t i = 0; i < ROWS * DENSE; i++)
		f->x[i] = (float)(uniform() * 2 - 1);
	for (size_t i = 0; i < ROWS; i++) {
		f->label[i] = some_label(model_labels_of(&f->spec));
		f->weight[i] = (float)(uniform() * 3);
		f->offset[i] = (uint32_t)(i * FIELDS);
	}
	f->offset[ROWS] = ROWS * FIELDS;
	for (size_t k = 0; k < ROWS * FIELDS; k++) {
		f->index[k] = (uint32_t)(uniform() * UNIQUE);
		f->value[k] = (float)(uniform() + 0.5);
	}
	f->batch = (struct model_batch){.count = ROWS,
					.dense = f->x,
					.label = f->label,
					.weight = weights ? f->weight : NULL,
					.offset = f->offset,
					.index = f->index,
					.value = values ? f->value : NULL};
}

/* Sets the choices of a model's options to the n-th way to combine them; -1: there are fewer. */
static int choose(struct model_spec *spec, size_t n)
{
	for (const struct model_option *o = model_options(spec->name); o && o->name; o++) {
		size_t words = 1;
		for (const char *c = o->kind == MODEL_CHOICE ? o->words : ""; *c; c++)
			words += *c == '|';
		if (o->kind == MODEL_CHOICE)
			*(uint32_t *)(void *)((char *)spec + o->at) = (uint32_t)(n % words);
		n /= words;
	}
	return n > 0 ? -1 : 0;
}

/* Whether there is such a model: sets a small one. values: keys have values, and rows differ in how
 * many they have. */
static int small_spec(struct model_spec *spec, const char *name, size_t way, int values)
{
	model_spec_default(spec, name);
	if (choose(spec, way) != 0)
		return -1;
	spec->dense_inputs = DENSE;
	spec->fields = values ? 0 : FIELDS;
	spec->embed = 5;
	for (const struct model_option *o = model_options(name); o && o->name; o++)
		if (o->kind == MODEL_WIDTHS)
			assert_int_equal(model_option_set(spec, o, "7-6", NULL), 0);
	spec->samples = 100;
	spec->classes = CLASSES;
	for (const struct model_option *o = model_options(name); o && o->name; o++)
		if (strcmp(o->name, "image") == 0 || strcmp(o->name, "channels") == 0)
			model_option_set(spec, o, o->name[0] == 'i' ? "5-4-2" : "3-2", NULL);
	return 0;
}

static void set_option(struct model_spec *spec, const char *name, const char *value)
{
	const struct model_option *o = model_options(spec->name);
	while (strcmp(o->name, name) != 0)
		o++;
	assert_int_equal(model_option_set(spec, o, value, NULL), 0);
}

static void start_spec(struct fixture *f, const struct model_spec *spec, int values, int weights)
{
	struct error err = {0};
	struct layout layout;
	memset(f, 0, sizeof(*f));
	state = 42;
	f->spec = *spec;
	assert_int_equal(model_new(&f->model, &f->spec, NULL, &err), 0);
	assert_int_equal(model_layout(&f->spec, &layout, &err), 0);
	f->dense_count = model_dense_count(&f->spec);
	f->width = model_width(&f->spec);
	assert_int_equal(layout_dense_count(&layout), f->dense_count);
	assert_int_equal(layout.table.width, f->width);
	size_t rows = UNIQUE * f->width;
	f->dense = calloc(2 * (f->dense_count + rows) + 1, sizeof(float));
	f->rows = f->dense + f->dense_count;
	f->dense_gradient = f->rows + rows;
	f->row_gradient = f->dense_gradient + f->dense_count;
	layout_init_dense(&layout, 0, f->dense_count, f->dense);
	/* zero weights would hide a missing factor */
	for (size_t i = 0; i < f->dense_count; i++)
		f->dense[i] += (float)(uniform() * 0.2 - 0.1);
	/* So large in one of two that margins are kept by some rows, too. */
	for (size_t i = 0; i < rows; i++)
		f->rows[i] = (float)((uniform() - 0.5) * (weights ? 2 : 1.2));
	fill_batch(f, values, weights);
}

static void start(struct fixture *f, const char *name, int values, int weights)
{
	struct model_spec spec;
	assert_int_equal(small_spec(&spec, name, 0, values), 0);
	if (strcmp(name, "audit") == 0)
		set_option(&spec, "counts", "2");
	start_spec(f, &spec, values, weights);
}

static void finish(struct fixture *f)
{
	model_free(f->model);
	free(f->dense);
}

static double loss_of(struct fixture *f)
{
	struct error err = {0};
	double loss = 0;
	size_t floats = f->dense_count + UNIQUE * f->width;
	float *thrown_away = calloc(floats + 1, sizeof(float));
	assert_int_equal(model_train(f->model, &f->batch, f->dense, f->rows, thrown_away,
				     thrown_away + f->dense_count, &loss, &err),
			 0);
	free(thrown_away);
	return loss;
}

#define TOLERANCE 0.02

/* A gradient that is missing is one of 0: in each tensor one is far enough from that to be missed. */
static void gradients_tell(const struct fixture *f, const struct layout *l)
{
	const float *gradient = f->dense_gradient;
	for (size_t t = 0; t < l->count; t++) {
		size_t floats = (size_t)(l->tensor[t].rows * l->tensor[t].cols);
		float most = 0;
		for (size_t i = 0; i < floats; i++)
			most = fmaxf(most, fabsf(gradient[i]));
		gradient += floats;
		if (most < 0.2f * TOLERANCE)
			fail_msg("%s: %s has no gradient above %g", f->spec.name, l->tensor[t].name,
				 (double)most);
	}
}

/* All parameters and their gradients lie one behind the other. */
static void compare_gradients(struct fixture *f)
{
	struct error err = {0};
	double loss = 0;
	size_t floats = f->dense_count + UNIQUE * f->width;
	assert_int_equal(model_train(f->model, &f->batch, f->dense, f->rows, f->dense_gradient,
				     f->row_gradient, &loss, &err),
			 0);
	struct layout layout;
	assert_int_equal(model_layout(&f->spec, &layout, &err), 0);
	gradients_tell(f, &layout);
	for (size_t i = 0; i < floats; i++) {
		float was = f->dense[i], step = 2e-3f;
		f->dense[i] = was + step;
		double above = loss_of(f);
		f->dense[i] = was - step;
		double below = loss_of(f);
		f->dense[i] = was;
		double got = (double)f->dense_gradient[i];
		/* Where a ReLU or a maximum has a bend within the step, one of its sides is right. */
		double want[] = {(above - below) / (2 * (double)step), (above - loss) / (double)step,
				 (loss - below) / (double)step};
		size_t right = 0;
		for (size_t k = 0; k < 3; k++)
			right += fabs(want[k] - got) <= TOLERANCE * (fabs(want[k]) + 0.1);
		if (right == 0)
			fail_msg("%s, parameter %zu of %zu: %g, not %g", f->spec.name, i, floats, got,
				 want[0]);
	}
}

/* Of each model, with all that it can choose, with and without values of keys and weights: so a new
 * one is tested as soon as it is in the table. Models that count have no labels. */
static void every_gradient(void **unused)
{
	(void)unused;
	const char *name;
	struct fixture f;
	struct model_spec spec;
	size_t forms = 0, models = 0;
	for (size_t i = 0; (name = model_name_at(i)); i++) {
		size_t before = forms;
		for (size_t way = 0; model_takes_labels(name); way++) {
			if (small_spec(&spec, name, way / 4, way & 1) != 0)
				break;
			if (model_spec_check(&spec, NULL) != 0)
				continue;
			start_spec(&f, &spec, way & 1, (way & 2) != 0);
			compare_gradients(&f);
			finish(&f);
			forms++;
		}
		models += forms > before;
		assert_true(forms > before || !model_takes_labels(name));
	}
	assert_true(models >= 2);
}

/* Numbers and widths of layers that take another way through the code. */
static void other_sizes(void **unused)
{
	(void)unused;
	static const struct {
		const char *model, *option, *value;
	} sizes[] = {{"dcn", "cross", "1"},	  {"dcn", "cross", "16"},
		     {"xdeepfm", "cin", "4"},	  {"xdeepfm", "cin", "3-4-5"},
		     {"xdeepfm", "cin", "100-2-2"}, /* more products than a slice has */
		     {"ffm", "embed", "1"},	  {"ffm", "embed", "4"},
		     {"fm", "embed", "16"},	  {"fm", "embed", "20"}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct fixture f;
		struct model_spec spec;
		assert_int_equal(small_spec(&spec, sizes[i].model, 0, 0), 0);
		set_option(&spec, sizes[i].option, sizes[i].value);
		start_spec(&f, &spec, 0, 1);
		compare_gradients(&f);
		finish(&f);
	}
}

/* Gradients are added, so that halves add up to the whole; blocks of rows make no difference. */
static void wdl_halves(void **unused)
{
	(void)unused;
	struct fixture f;
	struct error err = {0};
	start(&f, "wdl", 0, 0);
	size_t floats = f.dense_count + UNIQUE * f.width;
	float *whole = calloc(floats, sizeof(float));
	double loss = 0, halves = 0;
	assert_int_equal(model_train(f.model, &f.batch, f.dense, f.rows, whole,
				     whole + f.dense_count, &loss, &err),
			 0);
	struct model_batch half = f.batch;
	half.count = 20;
	assert_int_equal(model_train(f.model, &half, f.dense, f.rows, f.dense_gradient,
				     f.row_gradient, &halves, &err),
			 0);
	half.count = ROWS - 20;
	half.dense += 20 * DENSE;
	half.label += 20;
	half.offset += 20;
	assert_int_equal(model_train(f.model, &half, f.dense, f.rows, f.dense_gradient,
				     f.row_gradient, &halves, &err),
			 0);
	assert_true(fabs(loss - halves) < 1e-4 * loss);
	for (size_t i = 0; i < floats; i++)
		assert_true(fabsf(whole[i] - f.dense_gradient[i]) < 1e-4f * (fabsf(whole[i]) + 1));
	free(whole);
	finish(&f);
}

/* ---- batches large enough for folding: first.h, fold.h ---- */

#define MANY 1100
#define CATEGORIES 1300

struct large {
	const char *name;
	uint32_t embed, hidden[2], layers, dense_inputs;
	int weights;
	uint32_t categories[FIELDS], first[FIELDS]; /* of each column; 0: one for each row */
	size_t count;
	int folds;
};

static const struct large larges[] = {
	{"two folded, one not; same keys", 5, {70, 6}, 2, 4, 0, {9, 900, 50}, {0, 0, 5}, MANY, 1},
	{"one category, all different", 16, {80, 6}, 2, 0, 1, {1, 0, 300}, {7, 0, 0}, MANY, 1},
	{"all folded, no dense columns", 16, {16, 6}, 2, 0, 0, {3, 2, 600}, {0, 0, 0}, MANY, 1},
	{"all folded, dense columns", 20, {33, 6}, 2, 4, 1, {3, 20, 200}, {0, 0, 0}, 700, 1},
	{"nothing folded", 8, {40, 6}, 2, 4, 0, {0, 0, 0}, {0, 100, 200}, 1030, 0},
	{"too small to fold", 2, {40, 6}, 2, 4, 0, {3, 3, 3}, {0, 0, 0}, MANY, 0},
	{"too few rows to fold", 16, {40, 6}, 2, 4, 0, {3, 3, 3}, {0, 0, 0}, 511, 0},
	{"one layer", 4, {7, 0}, 1, 2, 1, {10, 10, 0}, {0, 5, 0}, 513, 1},
};

struct batch_memory {
	float *x, *label, *weight;
	uint32_t *offset, *index;
};

static void fill_large(const struct large *l, struct batch_memory *m)
{
	m->x = malloc((MANY * (DENSE + 2)) * sizeof(float));
	m->label = m->x + MANY * DENSE;
	m->weight = m->label + MANY;
	m->index = malloc((MANY * (FIELDS + 1) + 1) * sizeof(uint32_t));
	m->offset = m->index + MANY * FIELDS;
	for (size_t i = 0; i < MANY * DENSE; i++)
		m->x[i] = (float)(uniform() * 2 - 1);
	for (size_t i = 0; i <= MANY; i++)
		m->offset[i] = (uint32_t)(i * FIELDS);
	for (size_t i = 0; i < MANY; i++) {
		m->label[i] = uniform() < 0.4 ? 1.0f : 0.0f;
		m->weight[i] = (float)(uniform() * 3);
		for (size_t j = 0; j < FIELDS; j++) {
			double most = l->categories[j], key = most > 0 ? uniform() * most : (double)i;
			m->index[i * FIELDS + j] = l->first[j] + (uint32_t)key;
		}
	}
}

static struct model_batch part_of(const struct large *l, const struct batch_memory *m, size_t begin,
				  size_t count)
{
	return (struct model_batch){.count = count,
				    .dense = l->dense_inputs ? m->x + begin * l->dense_inputs : NULL,
				    .label = m->label + begin,
				    .weight = l->weights ? m->weight + begin : NULL,
				    .offset = m->offset + begin,
				    .index = m->index};
}

/* memory: parameters, one behind the other, and gradients of the same shape; NULL: thrown away. */
static double train_large(struct model *model, const struct model_batch *b, const float *memory,
			  size_t dense_count, size_t floats, float *gradient)
{
	struct error err = {0};
	double loss = 0;
	float *own = gradient ? NULL : calloc(floats, sizeof(float));
	float *to = gradient ? gradient : own;
	assert_int_equal(model_train(model, b, memory, memory + dense_count, to, to + dense_count,
				     &loss, &err),
			 0);
	free(own);
	return loss;
}

/* The whole batch against the same rows in batches too small for folding. */
static void against_parts(const struct large *l, const struct batch_memory *m, struct model *model,
			  const float *memory, size_t dense_count, size_t floats)
{
	float *whole = malloc(2 * floats * sizeof(float)), *parts = whole + floats;
	struct model_batch all = part_of(l, m, 0, l->count);
	for (size_t i = 0; i < 2 * floats; i++)
		whole[i] = 0.5f; /* gradients are added to what is there */
	double losses = 0, loss = train_large(model, &all, memory, dense_count, floats, whole);
	for (size_t begin = 0; begin < l->count; begin += 100) {
		size_t count = l->count - begin < 100 ? l->count - begin : 100;
		struct model_batch some = part_of(l, m, begin, count);
		losses += train_large(model, &some, memory, dense_count, floats, parts);
	}
	assert_true(fabs(loss - losses) < 1e-5 * loss);
	for (size_t i = 0; i < floats; i++)
		if (fabsf(whole[i] - parts[i]) > 1e-3f * (fabsf(parts[i]) + 0.1f))
			fail_msg("%s: parameter %zu of %zu: %g, not %g", l->name, i, floats,
				 (double)whole[i], (double)parts[i]);
	free(whole);
}

/* Whether the model's fraction makes a difference, which is one in the last bits. */
static void folds_or_not(const struct large *l, const struct batch_memory *m, struct model *model,
			 const float *memory, size_t dense_count, size_t floats)
{
	float *gradient = calloc(2 * floats, sizeof(float));
	struct model_batch all = part_of(l, m, 0, l->count);
	model_fold_fraction(model, 0);
	train_large(model, &all, memory, dense_count, floats, gradient);
	model_fold_fraction(model, 0.9);
	train_large(model, &all, memory, dense_count, floats, gradient + floats);
	int differ = memcmp(gradient, gradient + floats, floats * sizeof(float)) != 0;
	if (differ != l->folds)
		fail_msg("%s: %s", l->name, differ ? "folded" : "not folded");
	free(gradient);
}

/* Some of its gradients against differences. */
static void against_differences(const struct large *l, const struct batch_memory *m,
				struct model *model, float *memory, size_t dense_count, size_t floats)
{
	float *gradient = calloc(floats, sizeof(float)), step = 1e-3f;
	struct model_batch all = part_of(l, m, 0, l->count);
	train_large(model, &all, memory, dense_count, floats, gradient);
	for (size_t i = 0; i < floats; i += floats / 200) {
		float was = memory[i];
		memory[i] = was + step;
		double above = train_large(model, &all, memory, dense_count, floats, NULL);
		memory[i] = was - step;
		double below = train_large(model, &all, memory, dense_count, floats, NULL);
		memory[i] = was;
		double want = (above - below) / (2 * (double)step), got = (double)gradient[i];
		if (fabs(want - got) > 0.03 * (fabs(want) + 2))
			fail_msg("%s: parameter %zu of %zu: %g, not %g", l->name, i, floats, got,
				 want);
	}
	free(gradient);
}

static void large_model(const struct large *l, const char *name, int differences)
{
	struct error err = {0};
	struct model_spec spec;
	struct model *model;
	struct batch_memory m;
	model_spec_default(&spec, name);
	spec.dense_inputs = l->dense_inputs;
	spec.fields = FIELDS;
	spec.embed = l->embed;
	memcpy(spec.hidden.width, l->hidden, sizeof(l->hidden));
	spec.hidden.count = l->layers;
	assert_int_equal(model_new(&model, &spec, NULL, &err), 0);
	size_t dense_count = model_dense_count(&spec);
	size_t floats = dense_count + CATEGORIES * model_width(&spec);
	float *memory = malloc(floats * sizeof(float));
	for (size_t i = 0; i < floats; i++)
		memory[i] = (float)(uniform() * 0.6 - 0.3);
	fill_large(l, &m);
	if (strcmp(name, "wdl") == 0)
		folds_or_not(l, &m, model, memory, dense_count, floats);
	against_parts(l, &m, model, memory, dense_count, floats);
	if (differences)
		against_differences(l, &m, model, memory, dense_count, floats);
	model_free(model);
	free(memory);
	free(m.x);
	free(m.index);
}

static void wdl_folded(void **unused)
{
	(void)unused;
	state = 11;
	for (size_t c = 0; c < sizeof(larges) / sizeof(*larges); c++)
		large_model(&larges[c], "wdl", 1);
}

/* Blocks and slices add up, and what is kept between them is that of the right one. */
static void many_blocks(void **unused)
{
	(void)unused;
	static const char *const models[] = {"deepfm", "dcn", "xdeepfm", "ffm"};
	state = 14;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		for (size_t c = 0; c < 3; c++)
			large_model(&larges[2 * c + 1], models[i], 0);
}

/* A model sees batches of every kind one after the other; none may meet what another left. */
static void wdl_sizes_mixed(void **unused)
{
	(void)unused;
	const struct large *l = &larges[0];
	struct error err = {0};
	struct model_spec spec;
	struct model *used, *fresh;
	struct batch_memory m;
	state = 12;
	model_spec_default(&spec, "wdl");
	spec.dense_inputs = l->dense_inputs;
	spec.fields = FIELDS;
	spec.embed = l->embed;
	assert_int_equal(model_new(&used, &spec, NULL, &err), 0);
	size_t dense_count = model_dense_count(&spec);
	size_t floats = dense_count + CATEGORIES * model_width(&spec);
	float *memory = malloc(3 * floats * sizeof(float));
	for (size_t i = 0; i < floats; i++)
		memory[i] = (float)(uniform() * 0.6 - 0.3);
	fill_large(l, &m);
	static const size_t counts[] = {MANY, 100, 600, MANY, 512, 511, 1};
	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		struct model_batch b = part_of(l, &m, MANY - counts[c], counts[c]);
		memset(memory + floats, 0, 2 * floats * sizeof(float));
		assert_int_equal(model_new(&fresh, &spec, NULL, &err), 0);
		double a = train_large(used, &b, memory, dense_count, floats, memory + floats);
		double z = train_large(fresh, &b, memory, dense_count, floats, memory + 2 * floats);
		assert_true(fabs(a - z) <= 1e-9 * z);
		for (size_t i = 0; i < floats; i++)
			assert_true(fabsf(memory[floats + i] - memory[2 * floats + i]) <=
				    1e-5f * (fabsf(memory[2 * floats + i]) + 0.1f));
		model_free(fresh);
	}
	model_free(used);
	free(memory);
	free(m.x);
	free(m.index);
}

struct told {
	const float *gradient;
	float *then; /* as it was when it was told */
	size_t from; /* from here on it was told */
	size_t times;
};

static void take_told(void *owner, size_t begin, size_t count)
{
	struct told *t = owner;
	assert_int_equal(begin + count, t->from); /* from the end, no gap */
	memcpy(t->then + begin, t->gradient + begin, count * sizeof(float));
	t->from = begin;
	t->times++;
}

/* What is told to be final stays as it is, and is all but the first layer. */
static void told_final(const uint32_t *hidden, size_t times)
{
	static const struct large large = {"final",      4, {40, 0}, 0, 2, 0, {10, 10, 0},
					   {0, 5, 0}, 700, 0};
	struct error err = {0};
	struct model_spec spec;
	struct model *model;
	struct batch_memory m;
	state = 13;
	model_spec_default(&spec, "wdl");
	spec.dense_inputs = large.dense_inputs;
	spec.fields = FIELDS;
	spec.embed = large.embed;
	memcpy(spec.hidden.width, hidden, 4 * sizeof(uint32_t));
	spec.hidden.count = 4;
	assert_int_equal(model_new(&model, &spec, NULL, &err), 0);
	size_t dense_count = model_dense_count(&spec);
	size_t floats = dense_count + CATEGORIES * model_width(&spec);
	size_t first = 1 + large.dense_inputs + (FIELDS * large.embed + large.dense_inputs + 1) * 9;
	float *memory = malloc(4 * floats * sizeof(float));
	for (size_t i = 0; i < floats; i++)
		memory[i] = (float)(uniform() * 0.2 - 0.1);
	memset(memory + floats, 0, 3 * floats * sizeof(float));
	fill_large(&large, &m);
	struct model_batch b = part_of(&large, &m, 0, large.count);
	struct told told = {memory + floats, memory + 2 * floats, dense_count, 0};
	model_on_final(model, take_told, &told);
	train_large(model, &b, memory, dense_count, floats, memory + floats);
	assert_int_equal(told.from, first);
	assert_int_equal(told.times, times);
	assert_memory_equal(told.then + first, told.gradient + first,
			    (dense_count - first) * sizeof(float));
	model_on_final(model, NULL, NULL);
	train_large(model, &b, memory, dense_count, floats, memory + 3 * floats);
	for (size_t i = 0; i < floats; i++) {
		float want = memory[3 * floats + i];
		assert_true(fabsf(told.gradient[i] - want) <= 1e-4f * (fabsf(want) + 0.1f));
	}
	model_free(model);
	free(memory);
	free(m.x);
	free(m.index);
}

static void wdl_final(void **unused)
{
	(void)unused;
	told_final((uint32_t[]){9, 20, 40, 30}, 3); /* in the last of two blocks */
	told_final((uint32_t[]){9, 1100, 1600, 30}, 9); /* 1.7 million weights in pieces */
}

static void lr_scores(void **unused)
{
	(void)unused;
	struct fixture f;
	struct error err = {0};
	float score[ROWS];
	start(&f, "lr", 0, 0);
	assert_int_equal(model_predict(f.model, &f.batch, f.dense, f.rows, score, &err), 0);
	double loss = 0;
	for (size_t i = 0; i < ROWS; i++) {
		double z = (double)f.dense[0];
		for (size_t d = 0; d < DENSE; d++)
			z += (double)f.dense[1 + d] * (double)f.x[i * DENSE + d];
		for (size_t k = 0; k < FIELDS; k++)
			z += (double)f.rows[f.index[i * FIELDS + k]];
		double p = 1 / (1 + exp(-z));
		assert_true(fabs(p - (double)score[i]) < 1e-6);
		loss -= f.label[i] > 0 ? log(p) : log(1 - p);
	}
	assert_true(fabs(loss - loss_of(&f)) < 1e-4);
	finish(&f);
}

static void audit_counts(void **unused)
{
	(void)unused;
	struct fixture f;
	struct error err = {0};
	double loss = 0;
	float score[ROWS];
	start(&f, "audit", 0, 0);
	for (uint32_t i = 0; i <= UNIQUE; i++)
		f.offset[i] = i;
	for (uint32_t i = 0; i < UNIQUE; i++)
		f.index[i] = UNIQUE - 1 - i;
	f.index[3] = 3;
	f.batch.count = UNIQUE;
	uint64_t row[UNIQUE];
	for (uint32_t i = 0; i < UNIQUE; i++)
		row[i] = i == 3 ? 99 : i;
	f.batch.row = row;
	assert_int_equal(f.dense_count, 200);
	assert_int_equal(model_train(f.model, &f.batch, f.dense, f.rows, f.dense_gradient,
				     f.row_gradient, &loss, &err),
			 0);
	for (uint32_t i = 0; i < UNIQUE; i++)
		assert_true(f.row_gradient[i] == (i == 3 ? 2.0f : i == UNIQUE - 4 ? 0.0f : 1.0f));
	for (uint32_t i = 0; i < 200; i++) {
		int has = i / 2 == 99 || (i / 2 < UNIQUE && i / 2 != 3);
		assert_true(f.dense_gradient[i] == (has ? 1.0f : 0.0f));
	}
	assert_int_equal(model_predict(f.model, &f.batch, f.dense, f.rows, score, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	finish(&f);
}

/* Every count, so that vector blocks and their ends are met; far out logits. */
static void logistic_exact(void **unused)
{
	(void)unused;
	enum { MOST = 20000 };
	float *z = malloc(4 * MOST * sizeof(float)), *y = z + MOST, *w = y + MOST, *d = w + MOST;
	state = 7;
	for (size_t i = 0; i < MOST; i++) {
		double wide = i % 5 == 0 ? 400 : 12;
		z[i] = (float)((uniform() - 0.5) * wide);
		y[i] = uniform() < 0.5 ? 0.0f : 1.0f;
		w[i] = (float)uniform();
	}
	static const size_t counts[] = {0, 1, 15, 16, 17, 31, 100, 8192, 8193, MOST};
	for (size_t c = 0; c < 2 * sizeof(counts) / sizeof(*counts); c++) {
		size_t count = counts[c / 2];
		const float *weight = c % 2 ? w : NULL;
		double want = 0, got = model_logistic(count, z, y, weight, d);
		for (size_t i = 0; i < count; i++) {
			double x = (double)z[i], label = (double)y[i], p = 1 / (1 + exp(-x));
			double each = weight ? (double)w[i] : 1;
			want += each * (fmax(x, 0) - x * label + log1p(exp(-fabs(x))));
			assert_true(fabs((double)d[i] - each * (p - label)) < 1e-6);
		}
		assert_true(fabs(got - want) <= 1e-5 * want);
	}
	free(z);
}

static void not_a_number(void **unused)
{
	(void)unused;
	float z[40] = {0}, y[40] = {0}, w[40] = {0}, d[40];
	for (size_t at = 0; at < 40; at += 13) {
		for (int label = 0; label < 2; label++) {
			memset(z, 0, sizeof(z));
			z[at] = NAN;
			y[at] = (float)label;
			assert_true(isnan(model_logistic(40, z, y, NULL, d)));
			assert_true(isnan(model_logistic(40, z, y, w, d)));
		}
	}
	z[0] = INFINITY;
	double loss = model_logistic(40, z, y, NULL, d);
	assert_true(isinf(loss) || isnan(loss));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_gradient), cmocka_unit_test(other_sizes),
		cmocka_unit_test(many_blocks),
		cmocka_unit_test(wdl_halves),	  cmocka_unit_test(wdl_folded),
		cmocka_unit_test(wdl_sizes_mixed),
		cmocka_unit_test(wdl_final),
		cmocka_unit_test(lr_scores),	  cmocka_unit_test(audit_counts),
		cmocka_unit_test(logistic_exact),
		cmocka_unit_test(not_a_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
