/*
 * The seam to a plug-in: the one for CUDA, compiled for a CPU (tests/cudacpu), against the model
 * that trains where there is none.
 */
#include "model/kind.h"
#include "param/layout.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS 150
#define CLASSES 3
#define DENSE_MAX 72
#define FIELDS_MAX 4
#define UNIQUE 23
#define CARD_BYTES ((size_t)1 << 30)

static uint64_t state = 7;

static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) * 0x1p-53;
}

/* build/unit/model_backend: the plug-in is build/cudacpu/model-cuda.so. */
static const char *plugin(void)
{
	static char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);
	assert_true(length > 0);
	path[length] = '\0';
	for (int i = 0; i < 2; i++)
		*strrchr(path, '/') = '\0';
	return strcat(path, "/cudacpu/model-cuda.so");
}

struct shape {
	const char *name, *options; /* options: NAME=VALUE, each ended by a 0 */
	uint32_t fields, dense;
	int weights;
};

struct pair {
	struct model_spec spec;
	struct model_batch batch;
	float x[ROWS * DENSE_MAX], label[ROWS], weight[ROWS], value[ROWS * FIELDS_MAX];
	uint32_t offset[ROWS + 1], index[ROWS * FIELDS_MAX];
	size_t dense_count, floats; /* floats: the dense vector and the rows */
	float *parameters, *gradients[2];
};

static void pair_start(struct pair *p, const struct shape *shape)
{
	uint32_t fields = shape->fields, dense = shape->dense;
	struct error err = {0};
	struct layout layout;
	memset(p, 0, sizeof(*p));
	model_spec_default(&p->spec, shape->name);
	p->spec.dense_inputs = dense;
	p->spec.fields = fields;
	for (const char *option = shape->options; *option; option += strlen(option) + 1) {
		const struct model_option *o = model_options(shape->name);
		size_t length = strcspn(option, "=");
		while (strncmp(o->name, option, length) != 0)
			o++;
		assert_int_equal(model_option_set(&p->spec, o, option + length + 1, &err), 0);
	}
	p->spec.classes = CLASSES;
	p->spec.classes = model_labels_of(&p->spec) == MODEL_CLASS ? CLASSES : 0;
	assert_int_equal(model_layout(&p->spec, &layout, &err), 0);
	p->dense_count = model_dense_count(&p->spec);
	p->floats = p->dense_count + UNIQUE * model_width(&p->spec);
	p->parameters = calloc(3 * p->floats, sizeof(float));
	p->gradients[0] = p->parameters + p->floats;
	p->gradients[1] = p->gradients[0] + p->floats;
	layout_init_dense(&layout, 0, p->dense_count, p->parameters);
	for (size_t i = 0; i < p->floats; i++)
		p->parameters[i] += (float)(uniform() * 0.4 - 0.2);
	for (size_t i = 0; i < ROWS; i++) {
		uint32_t keys = fields ? fields : (uint32_t)(uniform() * FIELDS_MAX);
		p->label[i] = p->spec.classes > 0 ? (float)(int)(uniform() * CLASSES)
			      : uniform() < 0.4   ? 1.0f
						  : 0.0f;
		p->weight[i] = (float)(uniform() * 3);
		p->offset[i + 1] = p->offset[i] + keys;
		for (uint32_t j = 0; j < dense; j++)
			p->x[i * dense + j] = (float)(uniform() * 2 - 1);
		for (uint32_t k = p->offset[i]; k < p->offset[i + 1]; k++) {
			p->index[k] = (uint32_t)(uniform() * UNIQUE);
			p->value[k] = (float)(uniform() + 0.5);
		}
	}
	p->batch = (struct model_batch){.count = ROWS,
					.dense = dense ? p->x : NULL,
					.label = p->label,
					.weight = shape->weights ? p->weight : NULL,
					.offset = p->offset,
					.index = p->index,
					.value = fields ? NULL : p->value};
}

static void assert_near(const float *got, const float *want, size_t count, double scale)
{
	for (size_t i = 0; i < count; i++)
		if (!(fabs((double)got[i] - (double)want[i]) <=
		      2e-6 * (fabs((double)want[i]) + scale)))
			fail_msg("%zu of %zu: %.9g, not %.9g", i, count, (double)got[i],
				 (double)want[i]);
}

/* z becomes scores. */
static void scores(const struct pair *p, uint32_t outputs, float *z)
{
	int is_real = model_labels_of(&p->spec) == MODEL_REAL;
	for (size_t i = 0; i < p->batch.count && !is_real; i++, z += outputs) {
		double sum = outputs > 1 ? 0 : 1; /* the other class of two has the logit 0 */
		for (uint32_t k = 0; k < outputs; k++)
			sum += exp((double)z[k]);
		for (uint32_t k = 0; k < outputs; k++)
			z[k] = (float)(exp((double)z[k]) / sum);
	}
}

static void compare(const struct model_backend *b, struct pair *p)
{
	struct error err = {0};
	struct model *m;
	void *s;
	double loss = 0, other = 0;
	float score[ROWS * CLASSES], z[ROWS * CLASSES];
	uint32_t outputs = model_outputs(&p->spec);
	const float *rows = p->parameters + p->dense_count;
	assert_int_equal(model_new(&m, &p->spec, NULL, &err), 0);
	if (b->open(&s, &p->spec, "cuda:0", &err) != 0)
		fail_msg("%s", err.text);
	for (int round = 0; round < 2; round++) {
		struct model_load load = {
			.batch = &p->batch, .unique = UNIQUE, .dense = p->parameters, .rows = rows};
		assert_int_equal(b->begin(s, &load, &err), 0);
		struct model_sums sums = {.dense_gradient = p->gradients[0],
					  .row_gradient = p->gradients[0] + p->dense_count,
					  .loss = &loss};
		assert_int_equal(b->train(s, &sums, &err), 0);
		assert_int_equal(model_train(m, &p->batch, p->parameters, rows, p->gradients[1],
					     p->gradients[1] + p->dense_count, &other, &err),
				 0);
		assert_near(p->gradients[0], p->gradients[1], p->floats, 20);
		assert_true(fabs(loss - other) < 1e-5 * other);
		load.forward_only = 1;
		assert_int_equal(b->begin(s, &load, &err), 0);
		assert_int_equal(b->logits(s, z, &err), 0);
		assert_int_equal(model_predict(m, &p->batch, p->parameters, rows, score, &err), 0);
		scores(p, outputs, z);
		assert_near(z, score, p->batch.count * outputs, 1);
		/* The second time a slice, which begins within index. */
		p->batch.count -= 30;
		p->batch.offset += 30;
		p->batch.label += 30;
		p->batch.weight = p->batch.weight ? p->batch.weight + 30 : NULL;
		p->batch.dense = p->batch.dense ? p->batch.dense + 30 * p->spec.dense_inputs : NULL;
	}
	b->free(s);
	model_free(m);
	free(p->parameters);
}

static void as_the_model(void **unused)
{
	(void)unused;
	static const struct shape shapes[] = {
		{"lr", "", 0, 5, 0},
		{"lr", "", 0, 0, 1},
		{"lr", "", 3, 2, 0},
		{"svm", "", 0, 5, 1},
		{"svm", "loss=squared-hinge\0", 3, 0, 0},
		{"linear", "", 0, 5, 1},
		{"softmax", "", 0, 5, 1},
		{"softmax", "", 3, 0, 0},
		{"fm", "embed=5\0", 0, 5, 1},
		{"fm", "", 4, 0, 0},
		{"wdl", "embed=5\0hidden=17-6\0", 4, 5, 1},
		{"wdl", "", 1, 0, 0},
		{"wdl", "embed=5\0", 3, 1, 0},
		{"deepfm", "embed=5\0", 4, 5, 1},
		{"deepfm", "hidden=17\0", 2, 0, 0},
		{"ffm", "embed=5\0", 4, 5, 1},
		{"ffm", "", 1, 1, 0},
		{"dcn", "embed=5\0hidden=17-6\0cross=3\0", 4, 5, 1},
		{"dcn", "cross=1\0", 1, 0, 0},
		{"xdeepfm", "embed=5\0cin=7-3-4\0hidden=17-6\0", 4, 5, 1},
		{"xdeepfm", "cin=5\0", 3, 0, 0},
		{"xdeepfm", "cin=9-2\0", 2, 3, 1},
		{"mlp", "hidden=17-6\0", 0, 5, 1},
		{"mlp", "labels=binary\0embed=5\0", 3, 2, 0},
		{"mlp", "labels=real\0", 0, 1, 1},
		{"conv", "image=9-4-2\0channels=5-3\0", 0, 72, 1},
		{"conv", "image=4-5-1\0channels=7\0", 3, 20, 0},
	};
	const struct model_backend *b;
	struct error err = {0};
	if (model_backend_load(plugin(), &b, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct pair p;
		pair_start(&p, &shapes[i]);
		compare(b, &p);
	}
}

/* Sums of the samples from `begin` on, by a model on the card and by one that is not. */
static void compare_part(struct model *card, struct model *m, const struct pair *p, size_t begin,
			 size_t count)
{
	const float *rows = p->parameters + p->dense_count;
	struct model_block k;
	struct error err = {0};
	double loss[2] = {0, 0};
	float score[2][ROWS];
	struct model *both[2] = {card, m};
	model_block_take(m, &p->batch, begin, count, &k);
	memset(p->gradients[0], 0, 2 * p->floats * sizeof(float));
	for (int i = 0; i < 2; i++) {
		if (model_train(both[i], &k.batch, p->parameters, rows, p->gradients[i],
				p->gradients[i] + p->dense_count, &loss[i], &err) != 0)
			fail_msg("%s", err.text);
		assert_int_equal(model_predict(both[i], &k.batch, p->parameters, rows, score[i],
					       &err),
				 0);
	}
	assert_near(p->gradients[0], p->gradients[1], p->floats, 20);
	assert_near(score[0], score[1], count, 1);
	assert_true(fabs(loss[0] - loss[1]) < 1e-5 * loss[1]);
}

static size_t finals;

static void on_final(void *owner, size_t begin, size_t count)
{
	(void)owner;
	(void)begin;
	finals += count;
}

static void tell(const char *name, size_t number)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", getenv("PACELINE_CUDACPU"), name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%zu\n", number);
	fclose(f);
}

static void forget(const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", getenv("PACELINE_CUDACPU"), name);
	unlink(path);
}

/* A batch that does not fit the card's memory is computed in parts: the same sums. So is a step of
 * a batch, which has rows that it does not use. A card without memory for one sample is an error. */
static void in_parts(void **unused)
{
	(void)unused;
	char dir[] = "/tmp/paceline-cards.XXXXXX";
	const struct model_backend *b;
	struct error err = {0};
	struct pair p;
	struct model *m, *card;
	assert_non_null(mkdtemp(dir));
	setenv("PACELINE_CUDACPU", dir, 1);
	assert_int_equal(model_backend_load(plugin(), &b, &err), 0);
	static const struct shape shape = {"wdl", "embed=5\0hidden=17-6\0", 4, 5, 1};
	pair_start(&p, &shape);
	p.batch.unique = UNIQUE;
	assert_int_equal(model_new(&m, &p.spec, NULL, &err), 0);
	assert_int_equal(model_new(&card, &p.spec, NULL, &err), 0);
	assert_null(model_card(card));
	assert_int_equal(b->open(&card->card.state, &p.spec, "cuda", &err), 0);
	card->card.backend = b;
	assert_non_null(strstr(model_card(card), "CPU stand-in"));
	compare_part(card, m, &p, 20, 3);
	compare_part(card, m, &p, 0, ROWS);
	assert_int_equal(model_fits(card), 0);
	b->free(card->card.state);
	assert_int_equal(b->open(&card->card.state, &p.spec, "cuda", &err), 0);
	tell("memory", CARD_BYTES);
	size_t taken = CARD_BYTES - b->left(card->card.state); /* by cuBLAS */
	assert_in_range(taken, 1, CARD_BYTES / 2);
	tell("memory", taken + 40000);
	model_on_final(card, on_final, NULL);
	compare_part(card, m, &p, 0, ROWS);
	assert_in_range(model_fits(card), 1, ROWS / 2);
	assert_int_equal(finals, p.dense_count);
	compare_part(card, m, &p, 7, ROWS - 7);
	b->free(card->card.state);
	assert_int_equal(b->open(&card->card.state, &p.spec, "cuda", &err), 0);
	tell("memory", taken + 1000);
	double loss;
	assert_int_equal(model_train(card, &p.batch, p.parameters, p.parameters + p.dense_count,
				     p.gradients[0], p.gradients[0] + p.dense_count, &loss, &err),
			 -1);
	assert_int_equal(err.code, ERROR_OS);
	/* One that is gone. */
	tell("memory", CARD_BYTES);
	tell("lost-0", 1);
	assert_int_equal(model_train(card, &p.batch, p.parameters, p.parameters + p.dense_count,
				     p.gradients[0], p.gradients[0] + p.dense_count, &loss, &err),
			 -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	model_free(card);
	model_free(m);
	free(p.parameters);
	forget("memory");
	forget("lost-0");
	rmdir(dir);
	unsetenv("PACELINE_CUDACPU");
}

static void devices(void **unused)
{
	(void)unused;
	static const char *const right[] = {"cpu", "auto", "cuda", "cuda:0", "cuda:17",
					    "cuda+tf32", "cuda:1+tf32", "cuda:0+2+tf32",
					    "cuda:0+1+2+3+4+5+6+7+8+9+10+11+12+13+14+15"};
	static const char *const wrong[] = {"",       "gpu",     "cuda:",   "cuda:x", "cuda:1x",
					    "cuda:-1", "cuda:1234", "cuda0", "CPU",
					    "cuda+", "cuda+tf32x", "cuda:+tf32", "auto+tf32",
					    "cuda+tf32:1", "c", "cud", "cuda:2+2", "cuda:2+0",
					    "cuda:0+", "cuda:0+tf32+1", "cuda+1",
					    "cuda:0+1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16"};
	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		assert_true(model_device_ok(right[i]));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(model_device_ok(wrong[i]));
}

static void no_such_model(void **unused)
{
	(void)unused;
	const struct model_backend *b;
	struct model_spec spec;
	struct error err = {0};
	void *s = NULL;
	assert_int_equal(model_backend_load(plugin(), &b, &err), 0);
	model_spec_default(&spec, "audit");
	assert_int_equal(b->open(&s, &spec, "cuda", &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.text, "audit is not computed on a card: lr svm linear softmax fm ffm wdl "
				      "deepfm dcn xdeepfm mlp conv are");
	b->free(s);
}

static void no_plugin(void **unused)
{
	(void)unused;
	const struct model_backend *b = NULL;
	struct error err = {0};
	assert_int_equal(model_backend_load("/nowhere/model-cuda.so", &b, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_string_equal(err.place, "/nowhere/model-cuda.so");
	assert_string_equal(err.text, "not there: Paceline was built without CUDA");
	assert_int_equal(model_backend_load("/dev/null", &b, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_non_null(strstr(err.text, "can't be loaded: "));
	assert_int_equal(model_backend_load("/tmp", &b, &err), -1);
	assert_non_null(strstr(err.text, "can't be loaded: "));
	/* A library that is something else. */
	struct link_map *libm;
	assert_int_equal(dlinfo(dlopen("libm.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &libm), 0);
	assert_int_equal(model_backend_load(libm->l_name, &b, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_string_equal(err.text, "is no backend: it has no paceline_model_backend");
	assert_null(b);
}

/* One that was compiled with other structs is not used. */
static void other_version(void **unused)
{
	(void)unused;
	const struct model_backend *b;
	struct error err = {0};
	assert_int_equal(model_backend_load(plugin(), &b, &err), 0);
	struct model_backend other = *b;
	other.spec_bytes++;
	assert_int_equal(model_backend_check(&other, "a.so", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_string_equal(err.text,
			    "it belongs to another version of Paceline: install both anew");
	assert_int_equal(model_backend_check(b, "a.so", &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_model),
		cmocka_unit_test(in_parts),
		cmocka_unit_test(devices),
		cmocka_unit_test(no_such_model),
		cmocka_unit_test(no_plugin),
		cmocka_unit_test(other_version),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
