/*
 * lda: topics of documents (Blei, Ng, Jordan, JMLR 2003) by collapsed Gibbs sampling (Griffiths,
 * Steyvers, PNAS 2004).  Each worker samples with the counts that it has pulled and those that it
 * changes itself, and gives the differences back (AD-LDA: Newman et al., JMLR 2009).
 *
 * A word's row of the table counts its occurrences by topic.  The dense vector has the same counts
 * of all words together, by documents in LDA_GROUPS groups: a float counts to 2^24, and a corpus
 * may be larger.  A document's own rows (struct model_keys) hold how often it was sampled, then the
 * topic of each of its words, from 1; 0: none yet.
 *
 * Gradients are differences of these whole numbers, which are added as they are.  So whatever is
 * committed, rolled back or saved has both the counts and the topics that they are counts of.  A
 * document must not be in two batches at once.
 */
#include "base/random.h"
#include "model/census.h"
#include "model/kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLED_MAX 16777216.0 /* a float counts so far */
#define FOLD_STEPS 50          /* of EM, from the words of a new document to its topics */

static const struct model_option lda_table[] = {
	{"topics", MODEL_COUNT, MODEL_OWN(struct lda_options, topics), "100", 2, LAYOUT_WIDTH_MAX,
	 NULL, "how many topics there are"},
	{"alpha", MODEL_NUMBER, MODEL_OWN(struct lda_options, alpha), "0.1", 1e-9, 1e9, NULL,
	 "prior of a document's topics"},
	{"beta", MODEL_NUMBER, MODEL_OWN(struct lda_options, beta), "0.01", 1e-9, 1e9, NULL,
	 "prior of a topic's words"},
	{"words", MODEL_LONG, MODEL_OWN(struct lda_options, words), NULL, 0, 0, NULL, ""},
	{"longest", MODEL_LONG, MODEL_OWN(struct lda_options, longest), NULL, 0, 0, NULL, ""},
	{0}};

static const struct lda_options *lda_of(const struct model_spec *spec)
{
	return model_own(spec);
}

static struct model_keys lda_keys(const struct model_spec *spec)
{
	const struct lda_options *o = lda_of(spec);
	return (struct model_keys){.own_rows = (uint32_t)(o->longest / o->topics + 1),
				   .own_width = o->topics};
}

static int lda_check(const struct model_spec *s, struct error *err)
{
	const struct lda_options *o = lda_of(s);
	if (s->fields > 0 || s->dense_inputs > 0 || s->hash_bits != 31)
		return error_set(err, ERROR_CONFIG, "model",
				 "lda needs rows that are documents (FORMAT=bag)");
	if (o->words < 1)
		return error_set(err, ERROR_CONFIG, "words", "lda needs at least one");
	/* The largest key of all is left out: batches count keys from 1. */
	uint64_t rows = o->longest / o->topics + 1;
	if (rows > (MODEL_OWN_KEYS - 1) / (s->samples ? s->samples : 1))
		return error_set(err, ERROR_CONFIG, "model",
				 "%llu documents with room for %llu words each need more than 2^31 "
				 "rows; more topics make rows longer",
				 (unsigned long long)s->samples, (unsigned long long)o->longest);
	return 0;
}

static int lda_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	uint32_t topics = lda_of(spec)->topics;
	if (layout_add_tensor(l, "totals", LDA_GROUPS, topics, LAYOUT_ZERO, 0, LAYOUT_ADD, err) != 0)
		return -1;
	struct layout_table table = {.name = "counts",
				     .width = topics,
				     .zero_columns = topics,
				     .update = LAYOUT_ADD,
				     .export = LAYOUT_EXPORT_ROWS};
	return layout_set_table(l, &table, err);
}

struct lda {
	double *total;   /* [topics] occurrences of all words */
	double *inverse; /* [topics] 1 / (total + words * beta) */
	double *here;    /* [topics] words of the document at hand */
	double *sum;     /* [topics] scratch */
};

/* What a batch is trained on. */
struct lda_step {
	const struct model *m;
	struct lda *lda;
	const struct model_batch *batch;
	const float *rows;
	float *row_gradient;
	float *total_gradient; /* of the group of the document at hand */
	const uint32_t *own;   /* its own rows */
	double known;          /* its words that have a topic */
	uint64_t random;
};

static double lda_inverse(const struct model *m, double total)
{
	const struct lda_options *o = lda_of(&m->spec);
	return 1 / (total + (double)o->words * o->beta);
}

static int lda_begin(struct model *m, const float *dense, const float *gradient, struct error *err)
{
	uint32_t topics = m->width;
	struct lda *l = m->own;
	if (!l) {
		l = m->own = calloc(1, sizeof *l + (size_t)topics * 4 * sizeof(double));
		if (!l)
			return error_set(err, ERROR_OS, "", "out of memory");
		l->total = (double *)(l + 1);
		l->inverse = l->total + topics;
		l->here = l->inverse + topics;
		l->sum = l->here + topics;
	}
	memset(l->total, 0, topics * sizeof *l->total);
	for (size_t i = 0; i < (size_t)LDA_GROUPS * topics; i++)
		l->total[i % topics] += (double)dense[i] + (gradient ? (double)gradient[i] : 0);
	for (uint32_t k = 0; k < topics; k++)
		l->inverse[k] = lda_inverse(m, l->total[k]);
	return 0;
}

/* A stream of its own for each time that a document is sampled. */
static uint64_t lda_random(uint64_t seed, uint64_t row, uint64_t times)
{
	seed = random_next(&seed) + row;
	seed = random_next(&seed) + times;
	return random_next(&seed);
}

/* Where the table has the document's number i. */
static size_t own_place(const struct lda_step *s, size_t i)
{
	uint32_t topics = s->m->width;
	return (size_t)s->own[i / topics] * topics + i % topics;
}

static double own_value(const struct lda_step *s, size_t i)
{
	size_t at = own_place(s, i);
	return (double)s->rows[at] + (double)s->row_gradient[at];
}

static void lda_count(struct lda_step *s, float *gradient, uint32_t topic, int more)
{
	struct lda *l = s->lda;
	gradient[topic] += (float)more;
	s->total_gradient[topic] += (float)more;
	s->known += more;
	l->here[topic] += more;
	l->total[topic] += more;
	l->inverse[topic] = lda_inverse(s->m, l->total[topic]);
}

/* One occurrence of the word with this row, number i of the document: its old topic is taken back,
 * if it has one, and a new one is drawn. Returns minus the logarithm of the word's probability. */
static double sample_word(struct lda_step *s, uint32_t index, size_t i)
{
	const struct lda_options *o = lda_of(&s->m->spec);
	struct lda *l = s->lda;
	uint32_t topics = o->topics, topic = 0;
	const float *row = s->rows + (size_t)index * topics;
	float *gradient = s->row_gradient + (size_t)index * topics;
	uint32_t old = (uint32_t)own_value(s, i);
	double all = 0;
	if (old > 0)
		lda_count(s, gradient, old - 1, -1);
	for (uint32_t k = 0; k < topics; k++) {
		double count = (double)row[k] + (double)gradient[k];
		all += (l->here[k] + o->alpha) * (count + o->beta) * l->inverse[k];
		l->sum[k] = all;
	}
	double loss = -log(all / (s->known + topics * o->alpha));
	double drawn = random_uniform(&s->random) * all;
	while (topic < topics - 1 && l->sum[topic] <= drawn)
		topic++;
	lda_count(s, gradient, topic, 1);
	s->row_gradient[own_place(s, i)] += (float)topic + 1 - (float)old;
	return loss;
}

/* What was pulled must be counts, and topics that there are: another model's or another corpus'
 * parameters are noticed here. */
static int lda_check_topics(const struct lda_step *s, size_t i, size_t words, struct error *err)
{
	double most = s->m->width, times = own_value(s, 0), least = times > 0 ? 1 : 0;
	if (!(times >= 0 && times <= SAMPLED_MAX) || times != floor(times))
		return error_set(err, ERROR_DATA, "",
				 "row %llu was sampled %g times: the parameters are not of these "
				 "documents",
				 (unsigned long long)s->batch->row[i], times);
	for (size_t k = 1; k <= words; k++) {
		double topic = own_value(s, k);
		if (!(topic >= least && topic <= (least > 0 ? most : 0)) || topic != floor(topic))
			return error_set(err, ERROR_DATA, "",
					 "row %llu: word %zu has topic %g of %g: the parameters "
					 "are not of these documents",
					 (unsigned long long)s->batch->row[i], k, topic, most);
	}
	return 0;
}

static int sample_document(struct lda_step *s, size_t i, double *loss, struct error *err)
{
	const struct model_batch *b = s->batch;
	const struct model_keys keys = model_keys(&s->m->spec);
	size_t at = b->offset[i], end = b->offset[i + 1], words = 0, n = 0;
	for (size_t k = at; k < end; k++)
		words += (size_t)b->value[k];
	size_t own = model_own_count(&keys, (double)words);
	if (own > keys.own_rows)
		return error_set(err, ERROR_CONFIG, "model",
				 "row %llu has %zu words; the longest document has %llu",
				 (unsigned long long)b->row[i], words,
				 (unsigned long long)lda_of(&s->m->spec)->longest);
	end -= own;
	s->own = b->index + end;
	if (lda_check_topics(s, i, words, err) != 0)
		return -1;
	memset(s->lda->here, 0, s->m->width * sizeof *s->lda->here);
	s->known = own_value(s, 0) > 0 ? (double)words : 0;
	for (size_t k = 1; s->known > 0 && k <= words; k++)
		s->lda->here[(uint32_t)own_value(s, k) - 1]++;
	s->random = lda_random(s->m->spec.seed, b->row[i], (uint64_t)own_value(s, 0));
	for (size_t k = at; k < end; k++)
		for (float c = 0; c < b->value[k]; c++)
			*loss += sample_word(s, b->index[k], ++n);
	s->row_gradient[own_place(s, 0)] += 1;
	return 0;
}

static int lda_train(struct model *m, const struct model_step *of, double *loss_sum,
		     struct error *err)
{
	const struct model_batch *b = of->batch;
	struct lda_step s = {
		.m = m, .batch = b, .rows = of->rows, .row_gradient = of->row_gradient};
	if (lda_begin(m, of->dense, of->dense_gradient, err) != 0)
		return -1;
	s.lda = m->own;
	for (size_t i = 0; i < b->count; i++) {
		s.total_gradient = of->dense_gradient + b->row[i] % LDA_GROUPS * m->width;
		if (sample_document(&s, i, loss_sum, err) != 0)
			return -1;
	}
	return 0;
}

/* ---- new documents ---- */

/* Of a word with `count` occurrences behind n others, those that are in odd places from 1. */
static double odd_places(double n, double count)
{
	return floor((n + count + 1) / 2) - floor((n + 1) / 2);
}

/* l->sum[k] = the probability of topic k and the word with this row; returns that of the word. */
static double word_probability(const struct model *m, const float *row)
{
	struct lda *l = m->own;
	double beta = lda_of(&m->spec)->beta, all = 0;
	for (uint32_t k = 0; k < m->width; k++)
		all += l->sum[k] = l->here[k] * ((double)row[k] + beta) * l->inverse[k];
	return all;
}

/* l->here = the topics' shares of a document, by the words in odd places. */
static void fold_in(const struct model *m, const struct model_batch *b, size_t i, const float *rows)
{
	struct lda *l = m->own;
	uint32_t topics = m->width;
	double *next = l->total, sum; /* totals are in l->inverse now */
	double alpha = lda_of(&m->spec)->alpha;
	for (uint32_t k = 0; k < topics; k++)
		l->here[k] = 1.0 / topics;
	for (int step = 0; step < FOLD_STEPS; step++) {
		double n = 0;
		for (uint32_t k = 0; k < topics; k++)
			next[k] = alpha;
		sum = topics * alpha;
		for (size_t k = b->offset[i]; k < b->offset[i + 1]; k++) {
			double count = odd_places(n, (double)b->value[k]);
			n += (double)b->value[k];
			sum += count;
			if (count == 0)
				continue;
			double all = word_probability(m, rows + (size_t)b->index[k] * topics);
			for (uint32_t j = 0; j < topics; j++)
				next[j] += count * l->sum[j] / all;
		}
		for (uint32_t k = 0; k < topics; k++)
			l->here[k] = next[k] / sum;
	}
}

static int lda_complete(struct model *m, const struct model_batch *b, const float *dense,
			const float *rows, float *score, float *words, struct error *err)
{
	if (lda_begin(m, dense, NULL, err) != 0)
		return -1;
	for (size_t i = 0; i < b->count; i++) {
		double n = 0, scored = 0, likelihood = 0;
		fold_in(m, b, i, rows);
		for (size_t k = b->offset[i]; k < b->offset[i + 1]; k++) {
			double count = (double)b->value[k] - odd_places(n, (double)b->value[k]);
			const float *row = rows + (size_t)b->index[k] * m->width;
			n += (double)b->value[k];
			scored += count;
			if (count > 0)
				likelihood += count * log(word_probability(m, row));
		}
		score[i] = (float)(scored > 0 ? exp(likelihood / scored) : 1);
		words[i] = (float)scored;
	}
	return 0;
}

static void lda_free(struct model *m)
{
	free(m->own);
}

const struct model_kind model_lda = {
	.name = "lda",
	.documents = 1,
	.options = lda_table,
	.check = lda_check,
	.layout = lda_layout,
	.keys = lda_keys,
	.train = lda_train,
	.complete = lda_complete,
	.free = lda_free,
};
