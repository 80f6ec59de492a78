/*
 * lda with the worker's batches, and the servers as an array to which gradients are added.  Counts
 * are those of the documents' topics to the last word, whatever batches were thrown away; topics
 * that a corpus was made of are found, by one worker and by several side by side.
 */
#include "base/random.h"
#include "data/dataset.h"
#include "model/census.h"
#include "model/model.h"
#include "param/map.h"
#include "tests/unit/rounds.h"
#include "work/batch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOPICS 4
#define WORDS 40
#define DOCUMENTS 60
#define LENGTH_MAX 30
#define OWN_ROWS (LENGTH_MAX / TOPICS + 1)
#define TABLE_ROWS (WORDS + DOCUMENTS * OWN_ROWS)
#define TOTALS 64 /* groups of documents */
#define WORKERS 3

static struct rows corpus;
static float dense[TOTALS * TOPICS], table[TABLE_ROWS][TOPICS];
static struct model_spec spec;

/* Where the table has the row of a key; the last word has the largest key. */
static size_t place(uint32_t key)
{
	if (key >= MODEL_OWN_KEYS)
		return WORDS + key - MODEL_OWN_KEYS;
	return key == BAG_KEY_MAX ? WORDS - 1 : key;
}

static void add_word(uint32_t word, float count)
{
	size_t at = corpus.offset[corpus.count + 1]++;
	corpus.key[at] = word == WORDS - 1 ? BAG_KEY_MAX : word;
	corpus.value[at] = count;
}

static void begin_document(void)
{
	corpus.offset[corpus.count + 1] = corpus.offset[corpus.count];
	corpus.row[corpus.count] = corpus.count;
}

/* Each document is mostly about one topic, and each topic has words of its own. */
static void make_corpus(uint64_t seed)
{
	corpus.count = 0;
	corpus.offset[0] = 0;
	memset(dense, 0, sizeof dense);
	memset(table, 0, sizeof table);
	for (; corpus.count < DOCUMENTS; corpus.count++) {
		uint32_t topic = (uint32_t)(corpus.count % TOPICS);
		size_t words = 1 + random_next(&seed) % LENGTH_MAX;
		words = corpus.count < 3 ? corpus.count : words;
		begin_document();
		for (size_t n = 0; n < words; n++) {
			if (random_next(&seed) % 10 == 0)
				topic = (uint32_t)(random_next(&seed) % TOPICS);
			uint32_t word = (uint32_t)(random_next(&seed) % (WORDS / TOPICS));
			add_word(topic * (WORDS / TOPICS) + word, 1);
		}
	}
	model_spec_default(&spec, "lda");
	spec.hash_bits = 31;
	lda_options(&spec)->topics = TOPICS;
	spec.samples = DOCUMENTS;
	lda_options(&spec)->words = WORDS;
	lda_options(&spec)->longest = LENGTH_MAX;
}

static int set_up(void **unused)
{
	(void)unused;
	corpus = (struct rows){.row = calloc(DOCUMENTS, sizeof *corpus.row),
			       .label = calloc(DOCUMENTS, sizeof *corpus.label),
			       .weight = calloc(DOCUMENTS, sizeof *corpus.weight),
			       .offset = calloc(DOCUMENTS + 1, sizeof *corpus.offset),
			       .key = calloc(DOCUMENTS * LENGTH_MAX, sizeof *corpus.key),
			       .value = calloc(DOCUMENTS * LENGTH_MAX, sizeof *corpus.value)};
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	free(corpus.row);
	free(corpus.label);
	free(corpus.weight);
	free(corpus.offset);
	free(corpus.key);
	free(corpus.value);
	return 0;
}

/* ---- a worker ---- */

struct lda_worker {
	struct model *model;
	struct batch batch;
	float *rows, *gradient;
	float dense_gradient[TOTALS * TOPICS];
	double loss;
};

static void worker_open(struct lda_worker *w)
{
	*w = (struct lda_worker){0};
	assert_int_equal(model_new(&w->model, &spec, NULL, NULL), 0);
}

static void worker_close(struct lda_worker *w)
{
	model_free(w->model);
	batch_free(&w->batch);
	free(w->rows);
	free(w->gradient);
}

/* Pulls what documents [begin, end) need. */
static void take(struct lda_worker *w, size_t begin, size_t end)
{
	const struct model_keys keys = model_keys(&spec);
	struct batch *b = &w->batch;
	struct map map;
	size_t count = 0;
	map_even(&map, 2, 0);
	for (size_t i = begin; i < end; i++)
		count += batch_sample_keys(&corpus, i, &keys);
	batch_start(b, 0, 1);
	assert_int_equal(batch_reserve(b, end - begin, count, NULL), 0);
	for (size_t i = begin; i < end; i++)
		batch_add_sample(b, &corpus, i, &keys);
	assert_int_equal(b->offset[b->count], count);
	assert_int_equal(batch_finish(b, &map, model_key_count(&spec), NULL), 0);
	free(w->rows);
	free(w->gradient);
	w->rows = calloc(b->unique + 1, sizeof table[0]);
	w->gradient = calloc(b->unique + 1, sizeof table[0]);
	for (size_t u = 0; u < b->unique; u++)
		memcpy(w->rows + u * TOPICS, table[place(b->key[u])], sizeof table[0]);
	memset(w->dense_gradient, 0, sizeof w->dense_gradient);
	w->loss = 0;
}

static int compute(struct lda_worker *w, size_t begin, size_t count, struct error *err)
{
	struct model_batch b = batch_slice(&w->batch, begin, count, 1);
	return model_train(w->model, &b, dense, w->rows, w->dense_gradient, w->gradient, &w->loss,
			   err);
}

static void push(const struct lda_worker *w)
{
	for (size_t i = 0; i < TOTALS * TOPICS; i++)
		dense[i] += w->dense_gradient[i];
	for (size_t u = 0; u < w->batch.unique; u++)
		for (size_t k = 0; k < TOPICS; k++)
			table[place(w->batch.key[u])][k] += w->gradient[u * TOPICS + k];
}

/* Each document once; all workers pull before one of them pushes. lost: one of so many pushes never
 * comes, and its documents are trained again; 0: none. */
static void pass(struct lda_worker *w, size_t workers, uint64_t lost, uint64_t *random)
{
	enum { SIZE = 7 };
	for (size_t at = 0; at < DOCUMENTS;) {
		size_t next = at;
		for (size_t i = 0; i < workers; i++, next += SIZE) {
			size_t begin = next < DOCUMENTS ? next : DOCUMENTS;
			size_t end = next + SIZE < DOCUMENTS ? next + SIZE : DOCUMENTS;
			take(&w[i], begin, end);
			/* In two steps: the second one sees what the first one changed. */
			size_t half = (end - begin) / 2;
			assert_int_equal(compute(&w[i], 0, half, NULL), 0);
			assert_int_equal(compute(&w[i], half, end - begin - half, NULL), 0);
		}
		if (lost && random_next(random) % lost == 0)
			continue;
		for (size_t i = 0; i < workers; i++)
			push(&w[i]);
		at = next;
	}
}

/* ---- exact counts ---- */

static float own(size_t document, size_t i)
{
	return table[WORDS + document * OWN_ROWS + i / TOPICS][i % TOPICS];
}

/* From nothing but the documents' topics. */
static void check_counts(size_t passes)
{
	static float totals[TOTALS * TOPICS], words[WORDS][TOPICS];
	memset(totals, 0, sizeof totals);
	memset(words, 0, sizeof words);
	for (size_t d = 0; d < DOCUMENTS; d++) {
		size_t n = 0;
		assert_true(own(d, 0) == (float)passes);
		for (size_t k = corpus.offset[d]; k < corpus.offset[d + 1]; k++)
			for (float c = 0; c < corpus.value[k]; c++) {
				float topic = own(d, ++n);
				assert_true(topic >= 1 && topic <= TOPICS);
				assert_true(topic == floorf(topic));
				words[place(corpus.key[k])][(size_t)topic - 1]++;
				totals[d % TOTALS * TOPICS + (size_t)topic - 1]++;
			}
		for (n++; n < OWN_ROWS * TOPICS; n++)
			assert_true(own(d, n) == 0);
	}
	assert_memory_equal(totals, dense, sizeof dense);
	for (size_t word = 0; word < WORDS; word++)
		for (size_t k = 0; k < TOPICS; k++)
			assert_true(words[word][k] == table[word][k]);
}

static void test_counts_are_exact(void **unused)
{
	(void)unused;
	struct lda_worker w[WORKERS];
	for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(20); seed++) {
		uint64_t random = seed;
		make_corpus(seed);
		for (size_t i = 0; i < WORKERS; i++)
			worker_open(&w[i]);
		for (size_t passes = 1; passes <= 4; passes++) {
			pass(w, WORKERS, 3, &random);
			check_counts(passes);
		}
		for (size_t i = 0; i < WORKERS; i++)
			worker_close(&w[i]);
	}
}

/* A word that occurs twice in a document, by its count or because it is named twice. */
static void test_repeated_words(void **unused)
{
	(void)unused;
	struct lda_worker w;
	make_corpus(1);
	corpus.count = 0;
	for (; corpus.count < DOCUMENTS; corpus.count++) {
		begin_document();
		add_word(3, 5);
		add_word(3, 2);
		add_word(WORDS - 1, 1);
	}
	worker_open(&w);
	pass(&w, 1, 0, NULL);
	pass(&w, 1, 0, NULL);
	check_counts(2);
	worker_close(&w);
}

/* ---- topics ---- */

/* Minus the logarithm of the probability of a word of new documents, of the same topics. */
static double held_out(void)
{
	struct lda_worker w;
	static uint32_t offset[DOCUMENTS + 1], index[DOCUMENTS * LENGTH_MAX];
	static float score[DOCUMENTS], words[DOCUMENTS];
	double sum = 0, count = 0;
	worker_open(&w);
	for (size_t i = 0; i <= DOCUMENTS; i++)
		offset[i] = (uint32_t)corpus.offset[i];
	for (size_t k = 0; k < offset[DOCUMENTS]; k++)
		index[k] = (uint32_t)place(corpus.key[k]);
	struct model_batch b = {
		.count = DOCUMENTS, .offset = offset, .index = index, .value = corpus.value};
	assert_int_equal(model_complete(w.model, &b, dense, table[0], score, words, NULL), 0);
	for (size_t i = 0; i < DOCUMENTS; i++) {
		size_t all = corpus.offset[i + 1] - corpus.offset[i];
		assert_true(words[i] == (float)(all / 2));
		assert_true(all > 1 ? score[i] > 0 && score[i] < 1 : score[i] == 1);
		sum -= (double)words[i] * log((double)score[i]);
		count += (double)words[i];
	}
	worker_close(&w);
	return sum / count;
}

static double learn(size_t workers)
{
	static float keep_dense[TOTALS * TOPICS], keep_table[TABLE_ROWS][TOPICS];
	struct lda_worker w[WORKERS];
	double first = 0, last = 0;
	make_corpus(11);
	for (size_t i = 0; i < workers; i++)
		worker_open(&w[i]);
	for (int i = 0; i < 60; i++) {
		pass(w, workers, 0, NULL);
		last = w[0].loss; /* of the same documents each time */
		first = i == 0 ? last : first;
	}
	assert_true(last < first);
	for (size_t i = 0; i < workers; i++)
		worker_close(&w[i]);
	memcpy(keep_dense, dense, sizeof dense);
	memcpy(keep_table, table, sizeof table);
	make_corpus(12);
	memcpy(dense, keep_dense, sizeof dense);
	memcpy(table, keep_table, sizeof table);
	return held_out();
}

static void test_topics_are_found(void **unused)
{
	(void)unused;
	double one = learn(1), several = learn(WORKERS);
	make_corpus(12);
	double nothing = held_out();
	assert_true(fabs(nothing - log(WORDS)) < 1e-5);
	assert_true(one < nothing - 0.3);
	assert_true(fabs(one - several) < 0.15);
}

/* ---- what does not fit ---- */

static void test_other_documents(void **unused)
{
	(void)unused;
	struct lda_worker w;
	struct error err;
	make_corpus(1);
	worker_open(&w);
	table[WORDS + 20 * OWN_ROWS][0] = 1; /* was sampled once, but its words have no topics */
	take(&w, 20, 21);
	assert_int_equal(compute(&w, 0, 1, &err), -1);
	assert_non_null(strstr(err.text, "row 20: word 1 has topic 0 of 4"));
	static const float wrong[] = {-1, 0.5f, 1e30f, NAN};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		table[WORDS + 20 * OWN_ROWS][0] = wrong[i];
		take(&w, 20, 21);
		assert_int_equal(compute(&w, 0, 1, &err), -1);
		assert_non_null(strstr(err.text, "row 20 was sampled "));
	}
	table[WORDS + 20 * OWN_ROWS][0] = 0;
	worker_close(&w);
	lda_options(&spec)->longest = 1;
	worker_open(&w);
	take(&w, 20, 21);
	assert_int_equal(compute(&w, 0, 1, &err), -1);
	assert_non_null(strstr(err.text, "the longest document has 1"));
	worker_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_are_exact),
		cmocka_unit_test(test_repeated_words),
		cmocka_unit_test(test_topics_are_found),
		cmocka_unit_test(test_other_documents),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
