/*
 * worker-torch MODEL-FILE BATCH: our side of the comparison of models (worker-torch.py is the other
 * one, and starts this).  Parameters and batches are made up.  It writes a line of numbers, then the
 * parameters, the batches, and what it makes of the first batch: scores and gradients.  Then for
 * each number that it reads it trains so many batches, and prints the seconds, and how many of them
 * it took to find the unique keys.
 */
#include "model/kernel.h"
#include "model/model.h"
#include "param/layout.h"
#include "param/opt.h"
#include "work/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"

#define BATCHES 8
#define RATE 0.01f

static struct model_spec spec;
static struct model *model;
static struct layout layout;
static struct map map;
static struct rows made[BATCHES];
static size_t dense_count, width, table_rows, batch_rows, unique_room;
static float *dense, *table, *dense_gradient, *rows, *row_gradient, **place, *score;
static struct batch batch;
static double keys_seconds;

static void must(int result, const struct error *err)
{
	if (result >= 0)
		return;
	fprintf(stderr, "worker-torch: %s: %s\n", err->place, err->text);
	exit(1);
}

static void *room(size_t count, size_t size)
{
	void *p = calloc(count + 1, size);
	if (!p)
		abort();
	return p;
}

static float chance(void)
{
	static uint64_t state = 88172645463325252u;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (float)(state >> 40) * 0x1p-24f;
}

/* ---- parameters and batches ---- */

/* Those of a fresh model, moved a little: it must have something to tell classes apart by. */
static void make_parameters(void)
{
	dense = room(dense_count, sizeof *dense);
	dense_gradient = room(dense_count, sizeof *dense);
	table = room(table_rows * width, sizeof *table);
	layout_init_dense(&layout, 0, dense_count, dense);
	for (size_t i = 0; i < dense_count; i++)
		dense[i] += 0.02f * (chance() - 0.5f);
	for (size_t i = 0; i < table_rows * width; i++)
		table[i] = 0.2f * (chance() - 0.5f);
}

static float some_label(void)
{
	if (model_labels_of(&spec) == MODEL_CLASS)
		return (float)(uint32_t)(chance() * (float)spec.classes);
	return model_labels_of(&spec) == MODEL_REAL ? chance() : chance() < 0.25f;
}

/* Columns of very different sizes, their values skewed, as in data of this kind. */
static uint32_t some_key(size_t column)
{
	static const float sizes[] = {10, 100, 1e3, 1e4, 1e5, 1e6};
	float r = chance();
	uint64_t value = (uint64_t)(r * r * r * r * sizes[column % 6]);
	return (uint32_t)((value * 2654435761u + column * 7919) % table_rows);
}

static void make_batch(struct rows *r)
{
	size_t keys = batch_rows * spec.fields, inputs = batch_rows * spec.dense_inputs;
	r->count = batch_rows;
	r->dense_columns = spec.dense_inputs;
	r->fields = spec.fields;
	r->row = room(batch_rows, sizeof *r->row);
	r->label = room(batch_rows, sizeof *r->label);
	r->weight = room(batch_rows, sizeof *r->weight);
	r->dense = room(inputs, sizeof *r->dense);
	r->offset = room(batch_rows + 1, sizeof *r->offset);
	r->key = room(keys, sizeof *r->key);
	for (size_t i = 0; i < batch_rows; i++) {
		r->label[i] = some_label();
		r->weight[i] = 1;
		r->offset[i + 1] = (i + 1) * spec.fields;
	}
	for (size_t i = 0; i < inputs; i++)
		r->dense[i] = chance();
	for (size_t i = 0; i < keys; i++)
		r->key[i] = some_key(i % spec.fields);
}

/* ---- a step ---- */

static void unique_reserve(void)
{
	if (batch.unique <= unique_room)
		return;
	unique_room = 2 * batch.unique;
	rows = realloc(rows, unique_room * width * sizeof *rows);
	row_gradient = realloc(row_gradient, unique_room * width * sizeof *rows);
	place = realloc(place, unique_room * sizeof *place);
	if (!rows || !row_gradient || !place)
		abort();
}

/* Finds the keys of a batch, and takes their rows from the table. */
static struct model_batch take_batch(const struct rows *r)
{
	static const struct model_keys keys;
	struct error err = {0};
	double began = now();
	batch_start(&batch, r->dense_columns, 0);
	must(batch_reserve(&batch, r->count, r->offset[r->count], &err), &err);
	for (size_t i = 0; i < r->count; i++)
		batch_add_sample(&batch, r, i, &keys);
	must(batch_finish(&batch, &map, table_rows, &err), &err);
	keys_seconds += now() - began;
	unique_reserve();
	for (size_t u = 0; u < batch.unique; u++) {
		place[u] = table + (size_t)batch.key[u] * width;
		memcpy(rows + u * width, place[u], width * sizeof *rows);
	}
	return batch_slice(&batch, 0, batch.count, 1);
}

static double gradients(const struct rows *r)
{
	struct error err = {0};
	double loss = 0;
	struct model_batch b = take_batch(r);
	memset(dense_gradient, 0, dense_count * sizeof *dense);
	memset(row_gradient, 0, batch.unique * width * sizeof *rows);
	must(model_train(model, &b, dense, rows, dense_gradient, row_gradient, &loss, &err), &err);
	return loss;
}

static void step(const struct rows *r)
{
	static uint64_t steps;
	const struct opt sgd = {.kind = OPT_SGD, .lr = RATE};
	struct opt_step s;
	gradients(r);
	opt_step_begin(&s, &sgd, 1.0 / (double)r->count, ++steps, 0);
	opt_apply(&s, dense, NULL, dense_gradient, dense_count);
	opt_apply_rows(&s, place, batch.unique, width, row_gradient);
}

/* ---- what is told ---- */

static void put(const void *data, size_t count)
{
	if (fwrite(data, 4, count, stdout) != count)
		exit(1);
}

static void tell(void)
{
	struct error err = {0};
	uint32_t outputs = model_outputs(&spec);
	size_t keys = batch_rows * spec.fields, inputs = batch_rows * spec.dense_inputs;
	score = room(batch_rows * outputs, sizeof *score);
	struct model_batch b = take_batch(&made[0]);
	must(model_predict(model, &b, dense, rows, score, &err), &err);
	double loss = gradients(&made[0]) / (double)batch_rows;
	printf("%zu %zu %zu %u %zu %.9g %s\n", dense_count, table_rows, width, outputs,
	       batch.unique, loss, kernel_name());
	put(dense, dense_count);
	put(table, table_rows * width);
	for (size_t i = 0; i < BATCHES; i++) {
		put(made[i].key, keys);
		put(made[i].dense, inputs);
		put(made[i].label, batch_rows);
	}
	put(score, batch_rows * outputs);
	put(dense_gradient, dense_count);
	put(batch.key, batch.unique);
	put(row_gradient, batch.unique * width);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	unsigned long steps;
	if (argc != 3)
		return 64;
	must(model_spec_read(argv[1], &spec, &err), &err);
	must(model_new(&model, &spec, NULL, &err), &err);
	must(model_layout(&spec, &layout, &err), &err);
	struct kernel_speed speed; /* as a worker has measured it */
	kernel_measure(&speed);
	model_fold_fraction(model, speed.fold_fraction);
	batch_rows = strtoul(argv[2], NULL, 10);
	dense_count = model_dense_count(&spec);
	width = layout.has_table ? model_width(&spec) : 0;
	table_rows = layout.has_table ? (size_t)model_key_count(&spec) : 0;
	map_even(&map, 1, dense_count);
	make_parameters();
	for (size_t i = 0; i < BATCHES; i++)
		make_batch(&made[i]);
	tell();
	while (scanf("%lu", &steps) == 1) {
		double began = now();
		keys_seconds = 0;
		for (unsigned long i = 0; i < steps; i++)
			step(&made[i % BATCHES]);
		printf("%.9f %.9f\n", now() - began, keys_seconds);
		fflush(stdout);
	}
	return 0;
}
