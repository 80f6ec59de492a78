/* trial: see trial.h. */
#include "work/trial.h"

#include "work/batch.h"

#include <stdlib.h>

struct trial {
	struct trial_options options;
	struct rows rows;
	struct batch batch;
	struct map map;
	float *dense, *dense_gradient, *row, *row_gradient;
	size_t row_room;
};

int trial_new(struct trial **out, const struct trial_options *options, struct error *err)
{
	uint64_t rows = dataset_rows(options->dataset);
	struct trial *t = calloc(1, sizeof *t);
	if (!t)
		return error_set(err, ERROR_OS, "", "out of memory");
	t->options = *options;
	map_even(&t->map, 1, 0);
	int result = dataset_read(options->dataset, 0, rows < options->rows ? rows : options->rows,
				  &t->rows, err);
	if (result == 0 && t->rows.count == 0)
		result = error_set(err, ERROR_DATA, "", "no row to measure the device with");
	if (result != 0) {
		trial_free(t);
		return -1;
	}
	*out = t;
	return 0;
}

void trial_free(struct trial *t)
{
	if (!t)
		return;
	rows_free(&t->rows);
	batch_free(&t->batch);
	free(t->dense);
	free(t->dense_gradient);
	free(t->row);
	free(t->row_gradient);
	free(t);
}

/* Keys of the first `size` rows; few rows are used again and again. */
static size_t trial_count_keys(const struct rows *rows, uint64_t size, const struct model_keys *of)
{
	size_t all = 0, rest = 0;
	for (size_t i = 0; i < rows->count; i++) {
		if (i == size % rows->count)
			rest = all;
		all += batch_sample_keys(rows, i, of);
	}
	return (size_t)(size / rows->count) * all + rest;
}

static int fill_batch(struct trial *t, uint64_t size, struct error *err)
{
	const struct rows *rows = &t->rows;
	const struct model_spec *spec = t->options.spec;
	struct batch *b = &t->batch;
	const struct model_keys keys = model_keys(spec);
	int audit = keys.are_rows;
	batch_start(b, audit ? 0 : rows->dense_columns, !audit && rows->value != NULL);
	if (batch_reserve(b, (size_t)size, trial_count_keys(rows, size, &keys), err) != 0)
		return -1;
	for (uint64_t i = 0; i < size; i++)
		batch_add_sample(b, rows, (size_t)(i % rows->count), &keys);
	return batch_finish(b, &t->map, model_key_count(spec), err);
}

static int make_parameters(struct trial *t, struct error *err)
{
	size_t dense = model_dense_count(t->options.spec);
	size_t rows = t->batch.unique * model_width(t->options.spec);
	if (!t->dense) {
		t->dense = calloc(dense + 1, sizeof(float));
		t->dense_gradient = calloc(dense + 1, sizeof(float));
	}
	if (rows >= t->row_room) {
		free(t->row);
		free(t->row_gradient);
		t->row_room = rows + 1;
		t->row = calloc(t->row_room, sizeof(float));
		t->row_gradient = calloc(t->row_room, sizeof(float));
	}
	if (!t->dense || !t->dense_gradient || !t->row || !t->row_gradient)
		return error_set(err, ERROR_OS, "", "out of memory");
	return 0;
}

/* The least memory of a sample, with any allocator: its own numbers, and the rows of its keys with
 * their gradients. */
static double sample_bytes_min(const struct trial *t)
{
	const struct batch *b = &t->batch;
	double keys = (double)b->offset[b->count] / (double)b->count;
	return (double)(b->dense_columns + 2) * sizeof(float) +
	       keys * (3 * sizeof(uint32_t) +
		       2 * sizeof(float) * (double)model_width(t->options.spec));
}

int trial_prepare(void *trial, uint64_t size, double *sample_bytes, struct error *err)
{
	struct trial *t = trial;
	if (fill_batch(t, size, err) != 0 || make_parameters(t, err) != 0)
		return -1;
	*sample_bytes = sample_bytes_min(t);
	return 0;
}

int trial_step(void *trial, struct error *err)
{
	struct trial *t = trial;
	double loss = 0;
	struct model_batch all =
		batch_slice(&t->batch, 0, t->batch.count, t->options.unit_weights);
	if (model_train(t->options.model, &all, t->dense, t->row, t->dense_gradient,
			t->row_gradient, &loss, err) != 0)
		return -1;
	size_t fits = model_fits(t->options.model);
	return fits > 0 && fits < all.count;
}

size_t trial_left(void *trial)
{
	struct trial *t = trial;
	return model_card_left(t->options.model);
}
