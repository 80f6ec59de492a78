/* The record of a model: it survives being written and read, and says what is wrong with it. */
#include "param/layout.h"
#include "model/census.h"
#include "model/option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int set_up(void **unused)
{
	(void)unused;
	strcpy(path, "/tmp/paceline-spec.XXXXXX");
	int fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	return unlink(path);
}

static struct model_spec wdl(void)
{
	struct model_spec s;
	model_spec_default(&s, "wdl");
	s.dense_inputs = 13;
	s.fields = 26;
	s.hidden.count = 3;
	s.hidden.width[2] = 8;
	s.l2 = 0.1;
	s.seed = UINT64_MAX;
	s.samples = 24130;
	return s;
}

static void there_and_back(void **unused)
{
	(void)unused;
	struct model_spec s = wdl(), got;
	struct error err = {0};
	assert_int_equal(model_spec_write(path, &s, &err), 0);
	memset(&got, 0xff, sizeof(got));
	assert_int_equal(model_spec_read(path, &got, &err), 0);
	assert_string_equal(got.name, "wdl");
	assert_int_equal(got.dense_inputs, 13);
	assert_int_equal(got.fields, 26);
	assert_int_equal(got.embed, 16);
	assert_int_equal(got.hidden.count, 3);
	assert_int_equal(got.hidden.width[0], 64);
	assert_int_equal(got.hidden.width[1], 32);
	assert_int_equal(got.hidden.width[2], 8);
	assert_int_equal(got.hash_bits, 20);
	assert_true(got.l2 == 0.1);
	assert_true(got.seed == UINT64_MAX);
	assert_int_equal(got.samples, 24130);
}

/* The option of a model that has it. */
static const struct model_option *option(const char *model, const char *name)
{
	const struct model_option *o = model_options(model);
	while (strcmp(o->name, name) != 0)
		o++;
	return o;
}

static void set_counts(struct model_spec *s, const char *text)
{
	assert_int_equal(model_option_set(s, option("audit", "counts"), text, NULL), 0);
}

static struct model_spec lda(void)
{
	struct model_spec s;
	model_spec_default(&s, "lda");
	s.hash_bits = 31;
	s.samples = 10;
	lda_options(&s)->words = 5;
	lda_options(&s)->longest = 99;
	return s;
}

static void documents(void **unused)
{
	(void)unused;
	struct model_spec s = lda(), got;
	struct error err = {0};
	lda_options(&s)->alpha = 0.5;
	assert_int_equal(model_spec_write(path, &s, &err), 0);
	assert_int_equal(model_spec_read(path, &got, &err), 0);
	assert_int_equal(lda_options(&got)->topics, 100);
	assert_true(lda_options(&got)->alpha == 0.5 && lda_options(&got)->beta == 0.01);
	assert_int_equal(lda_options(&got)->words, 5);
	assert_int_equal(lda_options(&got)->longest, 99);
	assert_int_equal(model_key_count(&s), UINT64_C(1) << 32);
	assert_int_equal(model_keys(&s).own_rows, 1); /* 100 numbers */
	lda_options(&s)->longest = 100;
	assert_int_equal(model_keys(&s).own_rows, 2);
	assert_int_equal(model_spec_check(&s, &err), 0);
	const struct model_keys keys = model_keys(&s);
	assert_int_equal(model_own_count(&keys, 0), 1);
	assert_int_equal(model_own_count(&keys, 100), 2);
	s.samples = (UINT64_C(1) << 30) - 1;
	assert_int_equal(model_spec_check(&s, &err), 0);
	s.samples++; /* the largest key of all is not used */
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_non_null(strstr(err.text, "2^31"));
	s = lda();
	s.hash_bits = 20;
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_non_null(strstr(err.text, "FORMAT=bag"));
	s = lda();
	lda_options(&s)->topics = 1;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s = lda();
	lda_options(&s)->beta = 0;
	assert_int_equal(model_spec_check(&s, &err), -1);
}

static int read_text(const char *text, struct error *err)
{
	struct model_spec s;
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return model_spec_read(path, &s, err);
}

#define GOOD "model version=1 name=lr dense-inputs=2 fields=3 embed=16 hidden=64 hash-bits=20 l2=0 "

static void bad_files(void **unused)
{
	(void)unused;
	struct error err = {0};
	assert_int_equal(read_text(GOOD "seed=1 samples=9 later=x\n", &err), 0);
	static const struct {
		const char *text;
		int code;
		const char *says;
	} bad[] = {
		{"", ERROR_DATA, "line"},
		{GOOD "seed=1 samples=9", ERROR_DATA, "newline"},
		{GOOD "seed=1 samples=9\n\n", ERROR_DATA, "one line"},
		{GOOD "seed=1\n", ERROR_DATA, "samples"},
		{GOOD "seed=x samples=9\n", ERROR_DATA, "x"},
		{"layout version=1 seed=1\n", ERROR_DATA, "layout"},
		{"model version=2 name=lr\n", ERROR_DATA, "2"},
		{"model version=1 name=nosuch dense-inputs=2 fields=3 embed=16 hidden=64 hash-bits=20 "
		 "l2=0 seed=1 samples=9\n",
		 ERROR_CONFIG, MODEL_NAMES},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char text[1100];
		memset(&err, 0, sizeof(err));
		assert_int_equal(read_text(bad[i].text, &err), -1);
		error_format(&err, text, sizeof(text));
		assert_int_equal(err.code, bad[i].code);
		assert_non_null(strstr(text, path));
		if (!strstr(text, bad[i].says))
			fail_msg("\"%s\" does not say \"%s\"", text, bad[i].says);
	}
	unlink(path);
	struct model_spec s;
	assert_int_equal(model_spec_read(path, &s, &err), -1);
	assert_int_equal(err.code, ERROR_NOINPUT);
	set_up(NULL);
}

static void bad_specs(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct model_spec s = wdl();
	assert_int_equal(model_spec_check(&s, &err), 0);
	s.fields = 0;
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.text, "libsvm"));
	model_spec_default(&s, "ffm"); /* a key has an embedding for each column */
	s.fields = 4096;
	s.embed = 15;
	assert_int_equal(model_spec_check(&s, &err), 0);
	s.embed = 16;
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.text, "embed 16 for each of 4096 sparse columns"));
	s = wdl();
	s.fields = 0;
	strcpy(s.name, "lr");
	assert_int_equal(model_spec_check(&s, &err), 0);
	strcpy(s.name, "nosuch");
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_non_null(strstr(err.text, MODEL_NAMES));
	strcpy(s.name, "audit");
	s.samples = 0;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s.samples = (uint64_t)UINT32_MAX + 1;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s.samples = 5;
	assert_int_equal(model_spec_check(&s, &err), 0);
	assert_int_equal(model_option_set(&s, option("audit", "counts"), "1025", &err), -1);
	set_counts(&s, "1024");
	s.hash_bits = 32;
	assert_int_equal(model_spec_check(&s, &err), -1);
}

static void hidden_lists(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct model_spec s = wdl();
	const struct model_option *hidden = option("wdl", "hidden");
	char text[MODEL_OPTION_TEXT_MAX];
	assert_int_equal(model_option_set(&s, hidden, "400", &err), 0);
	assert_int_equal(s.hidden.count, 1);
	assert_int_equal(s.hidden.width[0], 400);
	assert_int_equal(s.hidden.width[1], 0);
	static const char *const bad[] = {"", "4,", ",4", "4,,4", "0", "4 ,4", "x", "65537",
					  "1,2,3,4,5,6,7,8,9"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(model_option_set(&s, hidden, bad[i], &err), -1);
		assert_int_equal(err.code, ERROR_CONFIG);
	}
	assert_int_equal(s.hidden.width[0], 400);
	assert_int_equal(model_option_set(&s, hidden, "65536-1", &err), 0);
	model_option_text(&s, hidden, ',', text);
	assert_string_equal(text, "65536,1");
	assert_int_equal(model_option_normal(hidden, "3,2", text, &err), 0);
	assert_string_equal(text, "3-2");
}

/* An option of one name is the same in all models, but for its default; a spec has its model's. */
static void options_of_all(void **unused)
{
	(void)unused;
	const char *name;
	for (size_t i = 0; (name = model_name_at(i)); i++)
		for (const struct model_option *o = model_options(name); o && o->name; o++) {
			char text[MODEL_OPTION_TEXT_MAX], owners[200];
			struct model_spec s;
			size_t k = 0;
			if (!o->given)
				continue;
			while (strcmp(model_option_at(k)->name, o->name) != 0)
				k++;
			const struct model_option *first = model_option_at(k);
			assert_int_equal(o->kind, first->kind);
			assert_string_equal(o->help, first->help);
			assert_true(o->min == first->min && o->max == first->max);
			model_option_owners(o->name, owners, sizeof owners);
			assert_non_null(strstr(owners, name));
			assert_true(o->at + sizeof(uint32_t) <= sizeof s);
			model_spec_default(&s, name);
			model_option_text(&s, o, '-', text);
			assert_string_equal(text, o->given);
		}
}

static void layouts(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct model_spec s = wdl();
	struct layout l;
	assert_int_equal(model_layout(&s, &l, &err), 0);
	assert_int_equal(layout_dense_count(&l), model_dense_count(&s));
	assert_int_equal(l.table.width, 17);
	assert_int_equal(l.table.zero_columns, 1);
	assert_non_null(layout_tensor(&l, "hidden3.weight"));
	assert_int_equal(layout_tensor(&l, "hidden1.weight")->cols, 26 * 16 + 13);
	strcpy(s.name, "audit");
	assert_int_equal(model_layout(&s, &l, &err), 0);
	assert_int_equal(layout_dense_count(&l), 0);
	assert_string_equal(l.table.name, "audit");
	assert_int_equal(l.table.rows, 24130);
	assert_int_equal(l.table.update, LAYOUT_ADD);
	assert_int_equal(l.table.export, LAYOUT_EXPORT_DENSE);
	set_counts(&s, "3");
	assert_int_equal(model_spec_write(path, &s, &err), 0);
	assert_int_equal(model_spec_read(path, &s, &err), 0);
	assert_int_equal(model_layout(&s, &l, &err), 0);
	assert_int_equal(layout_dense_count(&l), 3 * 24130);
	assert_int_equal(layout_dense_count(&l), model_dense_count(&s));
	assert_int_equal(layout_tensor(&l, "counts")->update, LAYOUT_ADD);
	strcpy(s.name, "lr");
	s.dense_inputs = 0;
	assert_int_equal(model_layout(&s, &l, &err), 0);
	assert_int_equal(layout_dense_count(&l), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(documents), cmocka_unit_test(bad_files),
		cmocka_unit_test(bad_specs),	  cmocka_unit_test(hidden_lists),
		cmocka_unit_test(layouts),	  cmocka_unit_test(options_of_all),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
