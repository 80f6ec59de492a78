/* The record of a model: it survives being written and read, and says what is wrong with it. */
#include "param/layout.h"
#include "model/model.h"

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
	model_spec_default(&s);
	strcpy(s.name, "wdl");
	s.dense_inputs = 13;
	s.fields = 26;
	s.hidden_count = 3;
	s.hidden[2] = 8;
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
	assert_int_equal(got.hidden_count, 3);
	assert_int_equal(got.hidden[0], 64);
	assert_int_equal(got.hidden[1], 32);
	assert_int_equal(got.hidden[2], 8);
	assert_int_equal(got.hash_bits, 20);
	assert_true(got.l2 == 0.1);
	assert_true(got.seed == UINT64_MAX);
	assert_int_equal(got.samples, 24130);
}

static struct model_spec lda(void)
{
	struct model_spec s;
	model_spec_default(&s);
	strcpy(s.name, "lda");
	s.hash_bits = 31;
	s.samples = 10;
	s.words = 5;
	s.longest = 99;
	return s;
}

static void documents(void **unused)
{
	(void)unused;
	struct model_spec s = lda(), got;
	struct error err = {0};
	s.alpha = 0.5;
	assert_int_equal(model_spec_write(path, &s, &err), 0);
	assert_int_equal(model_spec_read(path, &got, &err), 0);
	assert_int_equal(got.topics, 100);
	assert_true(got.alpha == 0.5 && got.beta == 0.01);
	assert_int_equal(got.words, 5);
	assert_int_equal(got.longest, 99);
	assert_int_equal(model_key_count(&s), UINT64_C(1) << 32);
	assert_int_equal(model_keys(&s).own_rows, 1); /* 100 numbers */
	s.longest = 100;
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
	s.topics = 1;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s = lda();
	s.beta = 0;
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
		{"model version=1 name=svm dense-inputs=2 fields=3 embed=16 hidden=64 hash-bits=20 "
		 "l2=0 seed=1 samples=9\n",
		 ERROR_CONFIG, "lr, wdl, audit, lda"},
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
	strcpy(s.name, "lr");
	assert_int_equal(model_spec_check(&s, &err), 0);
	strcpy(s.name, "fm");
	assert_int_equal(model_spec_check(&s, &err), -1);
	assert_non_null(strstr(err.text, "lr, wdl, audit"));
	strcpy(s.name, "audit");
	s.samples = 0;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s.samples = (uint64_t)UINT32_MAX + 1;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s.samples = 5;
	assert_int_equal(model_spec_check(&s, &err), 0);
	s.counts = 1025;
	assert_int_equal(model_spec_check(&s, &err), -1);
	s.counts = 1024;
	s.hash_bits = 32;
	assert_int_equal(model_spec_check(&s, &err), -1);
}

static void hidden_lists(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct model_spec s = wdl();
	assert_int_equal(model_spec_hidden(&s, "400", &err), 0);
	assert_int_equal(s.hidden_count, 1);
	assert_int_equal(s.hidden[0], 400);
	assert_int_equal(s.hidden[1], 0);
	static const char *const bad[] = {"", "4,", ",4", "4,,4", "0", "4 ,4", "x", "65537",
					  "1,2,3,4,5,6,7,8,9"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(model_spec_hidden(&s, bad[i], &err), -1);
		assert_int_equal(err.code, ERROR_CONFIG);
	}
	assert_int_equal(s.hidden[0], 400);
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
	s.counts = 3;
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
		cmocka_unit_test(layouts),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
