#include "fabric-table2-loss.h"

#include "base/random.h"
#include "data/dataset.h"
#include "model/census.h"
#include "model/model.h"
#include "param/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK 30 /* updates from one look at the loss to the next */
#define LOOKS 4
#define TOPICS 20
#define GIVE_UP 5 /* times the target: the learning rate is too high */

/* ---- data ---- */

/* Rows with their keys as places in one list of all keys. */
struct table {
	struct rows rows;
	uint32_t *place, *offset;
};

static struct schema *schema;
static struct table train, test;
static struct model *model;
static struct model_spec spec;
static struct layout layout;
static uint32_t *key; /* those of both tables */
static size_t keys;
static size_t batch; /* rows of an update */
static size_t batch_keys_max;
static struct model_keys own; /* rows of the table that a document has for itself */

static void loss_must(int result, const struct error *err)
{
	if (result == 0)
		return;
	fprintf(stderr, "fabric-table2: %s: %s\n", err->place, err->text);
	exit(1);
}

static void *loss_get(size_t count, size_t bytes)
{
	void *p = calloc(count + 1, bytes);
	if (!p)
		abort();
	return p;
}

static void read_table(struct table *t, const char *path)
{
	const struct dataset_options options = {.paths = &path, .path_count = 1};
	struct dataset *ds;
	struct error err;
	loss_must(dataset_open(&ds, schema, &options, &err), &err);
	if (schema_needs_fit(schema))
		loss_must(schema_fit(schema, ds, &err), &err);
	loss_must(dataset_read(ds, 0, dataset_rows(ds), &t->rows, &err), &err);
	dataset_close(ds);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void find_places(struct table *t)
{
	const struct rows *r = &t->rows;
	size_t n = r->offset[r->count];
	t->place = loss_get(n, sizeof *t->place);
	t->offset = loss_get(r->count + 1, sizeof *t->offset);
	for (size_t i = 0; i <= r->count; i++)
		t->offset[i] = (uint32_t)r->offset[i];
	for (size_t i = 0; i < n; i++)
		t->place[i] = (uint32_t)((uint32_t *)bsearch(&r->key[i], key, keys, sizeof *key,
							     by_number) -
					 key);
}

static double words_of(size_t document)
{
	double words = 0;
	for (size_t k = train.offset[document]; k < train.offset[document + 1]; k++)
		words += (double)train.rows.value[k];
	return words;
}

static void set_documents(void)
{
	spec.hash_bits = 31;
	struct lda_options *o = lda_options(&spec);
	o->topics = TOPICS;
	o->words = keys;
	for (size_t i = 0; i < train.rows.count; i++)
		if (words_of(i) > (double)o->longest)
			o->longest = (uint64_t)words_of(i);
}

static size_t most_keys(void)
{
	size_t most = 0;
	for (size_t i = 0; i < train.rows.count; i++)
		if (train.offset[i + 1] - train.offset[i] > most)
			most = train.offset[i + 1] - train.offset[i];
	return most;
}

void loss_open(const char *name, size_t rows, const char *train_path, const char *test_path)
{
	const struct schema_options
		bags = {.format = "bag"},
		adult = {.format = "csv",
			 .label = "income",
			 .positive = ">50K",
			 .dense = "age,fnlwgt,education_num,capital_gain,capital_loss,hr_per_week",
			 .sparse = "type_employer,education,marital,occupation,relationship,race,"
				   "sex,country"};
	struct error err;
	int is_lda = strcmp(name, "lda") == 0;
	batch = rows;
	loss_must(schema_new(&schema, is_lda ? &bags : &adult, &err), &err);
	read_table(&train, train_path);
	read_table(&test, test_path);
	size_t n = train.rows.offset[train.rows.count], m = test.rows.offset[test.rows.count];
	key = loss_get(n + m, sizeof *key);
	memcpy(key, train.rows.key, n * sizeof *key);
	memcpy(key + n, test.rows.key, m * sizeof *key);
	qsort(key, n + m, sizeof *key, by_number);
	for (size_t i = 0; i < n + m; i++)
		if (keys == 0 || key[keys - 1] != key[i])
			key[keys++] = key[i];
	find_places(&train);
	find_places(&test);
	model_spec_default(&spec, name);
	spec.hidden = (struct model_widths){1, {16}};
	spec.embed = 4;
	spec.dense_inputs = (uint32_t)train.rows.dense_columns;
	spec.fields = (uint32_t)schema_fields(schema);
	spec.samples = train.rows.count;
	if (is_lda)
		set_documents();
	loss_must(model_new(&model, &spec, NULL, &err), &err);
	loss_must(model_layout(&spec, &layout, &err), &err);
	own = model_keys(&spec);
	batch_keys_max = batch * (most_keys() + own.own_rows);
}

/* ---- a training ---- */

struct gradient {
	struct gradient *next; /* of those that are free */
	float *dense, *row;    /* gradients */
	float **of;            /* rows of the store */
	size_t rows;
};

struct training {
	const struct loss_training *t;
	struct store *store;
	struct gradient *free;
	struct gradient **of; /* by push; NULL: not computed, or applied */
	uint32_t *order;      /* of the training data */
	size_t dealt, given[LOSS_WORKERS];
	uint64_t epoch;
	/* scratch; slot[place]: 1 + the number of that key in the batch */
	uint32_t *batch_key, *batch_place, *index, *slot, *offset;
	uint64_t *number;
	float *row, *dense, *label, *value, *score, *words;
	struct store_push *unit;
};

static struct gradient *gradient_new(struct training *x)
{
	struct gradient *g = x->free;
	size_t dense = (size_t)model_dense_count(&spec);
	if (g) {
		x->free = g->next;
	} else {
		g = loss_get(1, sizeof *g);
		g->dense = loss_get(dense, sizeof(float));
		g->row = loss_get(batch_keys_max * model_width(&spec), sizeof(float));
		g->of = loss_get(batch_keys_max, sizeof *g->of);
	}
	memset(g->dense, 0, dense * sizeof(float));
	return g;
}

/* The next row of the training data, or of the worker's documents. */
static size_t next_row(struct training *x, size_t worker)
{
	size_t rows = train.rows.count;
	if (own.own_rows)
		return worker + LOSS_WORKERS * (x->given[worker]++ % (rows / LOSS_WORKERS));
	if (x->dealt % rows == 0)
		random_permute(x->order, rows, x->t->seed * 1000 + x->epoch++);
	return x->order[x->dealt++ % rows];
}

/* The gradient of the next rows with the parameters of now. */
static struct gradient *compute(struct training *x, size_t worker)
{
	struct gradient *g = gradient_new(x);
	struct error err;
	size_t n = 0, at = 0, places = 0, width = model_width(&spec), dense = spec.dense_inputs;
	double loss = 0;
	for (size_t i = 0; i < batch; i++) {
		size_t row = next_row(x, worker);
		x->number[i] = row;
		x->label[i] = train.rows.label[row];
		if (dense > 0)
			memcpy(x->dense + i * dense, train.rows.dense + row * dense,
			       dense * sizeof(float));
		for (size_t k = train.offset[row]; k < train.offset[row + 1]; k++) {
			uint32_t place = train.place[k];
			if (x->slot[place] == 0) {
				x->batch_key[n] = key[place];
				x->batch_place[places++] = place;
				x->slot[place] = (uint32_t)++n;
			}
			x->value[at] = train.rows.value ? train.rows.value[k] : 1;
			x->index[at++] = x->slot[place] - 1;
		}
		size_t own_rows = own.own_rows ? model_own_count(&own, words_of(row)) : 0;
		for (size_t k = 0; k < own_rows; k++) {
			x->batch_key[n] = (uint32_t)(MODEL_OWN_KEYS + row * own.own_rows + k);
			x->value[at] = 0;
			x->index[at++] = (uint32_t)n++;
		}
		x->offset[i + 1] = (uint32_t)at;
	}
	for (size_t i = 0; i < places; i++)
		x->slot[x->batch_place[i]] = 0;
	const struct model_batch b = {.count = batch,
				      .dense = x->dense,
				      .label = x->label,
				      .offset = x->offset,
				      .index = x->index,
				      .value = train.rows.value ? x->value : NULL,
				      .row = x->number};
	g->rows = n;
	memset(g->row, 0, n * width * sizeof(float));
	loss_must(store_rows(x->store, x->batch_key, n, 0, g->of, &err), &err);
	store_pull_rows(x->store, g->of, n, x->row);
	loss_must(model_train(model, &b, store_dense(x->store), x->row, g->dense, g->row, &loss,
			      &err),
		  &err);
	return g;
}

static double look_at_words(struct training *x, const struct model_batch *b)
{
	struct error err;
	double loss = 0, words = 0;
	loss_must(model_complete(model, b, store_dense(x->store), x->row, x->score, x->words, &err),
		  &err);
	for (size_t i = 0; i < b->count; i++) {
		loss -= (double)x->words[i] * log((double)x->score[i]);
		words += (double)x->words[i];
	}
	return loss / words;
}

static double look(struct training *x)
{
	const struct model_batch b = {.count = test.rows.count,
				      .dense = test.rows.dense,
				      .offset = test.offset,
				      .index = test.place,
				      .value = test.rows.value};
	struct error err;
	double loss = 0;
	store_look_rows(x->store, key, keys, x->row);
	if (own.own_rows)
		return look_at_words(x, &b);
	loss_must(model_predict(model, &b, store_dense(x->store), x->row, x->score, &err), &err);
	for (size_t i = 0; i < test.rows.count; i++) {
		double p = (double)(test.rows.label[i] > 0 ? x->score[i] : 1 - x->score[i]);
		loss -= log(p > 1e-7 ? p : 1e-7);
	}
	return loss / (double)test.rows.count;
}

static void training_begin(struct training *x, const struct loss_training *t, size_t count)
{
	struct error err;
	struct map map;
	struct opt opt = {0};
	*x = (struct training){.t = t};
	if (own.own_rows) { /* another chain */
		model_free(model);
		spec.seed = t->seed;
		loss_must(model_new(&model, &spec, NULL, &err), &err);
	}
	loss_must(opt_by_name(&opt, "adagrad", &err), &err);
	loss_must(opt_set_rate(&opt, &(struct opt_rate){.schedule = "adadelay", .factor = NAN}, &err), &err);
	opt.lr = (float)t->lr;
	map_even(&map, 1, model_dense_count(&spec));
	loss_must(store_new(&x->store, &layout, &map, 0, &opt, &err), &err);
	x->of = loss_get(count, sizeof(void *));
	x->unit = loss_get(count, sizeof *x->unit);
	x->order = loss_get(train.rows.count, sizeof *x->order);
	x->batch_key = loss_get(batch_keys_max, sizeof *x->batch_key);
	x->batch_place = loss_get(batch_keys_max, sizeof *x->batch_place);
	x->index = loss_get(batch_keys_max, sizeof *x->index);
	x->slot = loss_get(keys, sizeof *x->slot);
	x->row = loss_get((keys + batch_keys_max) * model_width(&spec), sizeof(float));
	x->dense = loss_get(batch * spec.dense_inputs, sizeof(float));
	x->label = loss_get(batch, sizeof(float));
	x->offset = loss_get(batch + 1, sizeof *x->offset);
	x->value = loss_get(batch_keys_max, sizeof(float));
	x->number = loss_get(batch, sizeof *x->number);
	x->words = loss_get(test.rows.count, sizeof(float));
	x->score = loss_get(test.rows.count, sizeof(float));
}

static void training_end(struct training *x, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (x->of[i]) {
			x->of[i]->next = x->free;
			x->free = x->of[i];
		}
	for (struct gradient *g = x->free, *next; g; g = next) {
		next = g->next;
		free(g->dense);
		free(g->row);
		free(g->of);
		free(g);
	}
	store_free(x->store);
	free(x->of);
	free(x->unit);
	free(x->order);
	free(x->batch_key);
	free(x->batch_place);
	free(x->index);
	free(x->slot);
	free(x->row);
	free(x->dense);
	free(x->score);
	free(x->value);
	free(x->number);
	free(x->words);
	free(x->label);
	free(x->offset);
}

/* One unit: push[begin..end). delay[i]: how many units the push missed. */
static void apply(struct training *x, const uint64_t *delay, size_t begin, size_t end)
{
	struct error err;
	for (size_t i = begin; i < end; i++)
		x->unit[i - begin] = (struct store_push){.dense = x->of[i]->dense,
							 .rows = x->of[i]->rows,
							 .row = x->of[i]->of,
							 .row_gradient = x->of[i]->row,
							 .count = batch,
							 .size = batch,
							 .scale = 1,
							 .delay = delay[i]};
	loss_must(store_apply(x->store, x->unit, end - begin, &err), &err);
	for (size_t i = begin; i < end; i++) {
		x->of[i]->next = x->free;
		x->free = x->of[i];
		x->of[i] = NULL;
	}
}

static int by_commit(const void *a, const void *b)
{
	const struct loss_push *x = a, *y = b;
	if (x->committed != y->committed)
		return x->committed < y->committed ? -1 : 1;
	return (x->pulled > y->pulled) - (x->pulled < y->pulled);
}

struct pull {
	double at;
	size_t push;
};

static int by_pull(const void *a, const void *b)
{
	const struct pull *x = a, *y = b;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->push > y->push) - (x->push < y->push);
}

/* The mean of the last looks counts: a lucky one does not. */
struct loss_end loss_train(struct loss_push *push, size_t count, const struct loss_training *t)
{
	struct training x;
	struct loss_end end = {INFINITY, INFINITY, 0, 0};
	struct pull *pull = loss_get(count, sizeof *pull);
	uint64_t *delay = loss_get(count, sizeof *delay), units = 0;
	double seen[LOOKS], sum = 0;
	size_t pulls = 0, looks = 0, *had = loss_get(count, sizeof *had);
	qsort(push, count, sizeof *push, by_commit);
	for (size_t i = 0; i < count; i++)
		pull[i] = (struct pull){push[i].pulled, i};
	qsort(pull, count, sizeof *pull, by_pull);
	training_begin(&x, t, count);
	for (size_t begin = 0, next; begin < count; begin = next, units++) {
		double at = push[begin].committed;
		for (; pulls < count && pull[pulls].at < at; pulls++) {
			x.of[pull[pulls].push] = compute(&x, push[pull[pulls].push].worker);
			delay[pull[pulls].push] = units;
			had[pull[pulls].push] = begin;
		}
		for (next = begin; next < count && push[next].committed == at; next++) {
			double missed = (double)(begin - had[next]);
			delay[next] = units - delay[next];
			end.delay += (missed - end.delay) / (double)(next + 1);
			end.most = fmax(end.most, missed);
		}
		if (at > t->within)
			break;
		apply(&x, delay, begin, next);
		if (next / LOOK == begin / LOOK)
			continue;
		double loss = look(&x);
		sum += loss - (looks >= LOOKS ? seen[looks % LOOKS] : 0);
		seen[looks++ % LOOKS] = loss;
		if (looks >= LOOKS && sum <= LOOKS * t->target) {
			end.seconds = at;
			end.updates = (double)next;
			break;
		}
		if (!(loss < GIVE_UP * t->target))
			break;
	}
	training_end(&x, count);
	free(pull);
	free(delay);
	free(had);
	return end;
}
