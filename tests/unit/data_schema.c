/*
 * data_schema: made from options, kept as a file, compared.  The keys are those that a reader of
 * paceline's documents computes with any XXH3 library.
 */
#include "base/fs.h"
#include "data/schema.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char path[128];

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/schema", scratch);
	return 0;
}

static struct schema *make(struct schema_options o)
{
	struct schema *s;
	struct error err = {0};
	assert_int_equal(schema_new(&s, &o, &err), 0);
	return s;
}

static void refused(struct schema_options o, const char *place, const char *text)
{
	struct schema *s;
	struct error err = {0};
	assert_int_equal(schema_new(&s, &o, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.place, place);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_options(void **state)
{
	(void)state;
	refused((struct schema_options){.format = "arff"}, "FORMAT", "'arff'");
	refused((struct schema_options){0}, "FORMAT", ROW_FORMAT_CHOICES);
	refused((struct schema_options){.format = "csv", .dense = "a"}, "LABEL", "is needed");
	refused((struct schema_options){.format = "csv", .label = "y"}, "DENSE", "needs columns");
	refused((struct schema_options){.format = "csv", .label = "y", .dense = "a,,b"}, "DENSE",
		"empty name");
	refused((struct schema_options){.format = "csv", .label = "y", .sparse = "a,"}, "SPARSE",
		"empty name");
	refused((struct schema_options){.format = "csv", .label = "y", .sparse = "b,a,b"}, "SPARSE",
		"'b' appears twice");
	refused((struct schema_options){.format = "csv", .label = "y", .dense = "a%2"}, "DENSE",
		"hexadecimal");
	refused((struct schema_options){.format = "csv", .label = "y", .dense = "a%00"}, "DENSE",
		"hexadecimal");
	refused((struct schema_options){.format = "criteo", .dense = "I14"}, "DENSE", "I1..I13");
	refused((struct schema_options){.format = "criteo", .sparse = "I1"}, "SPARSE", "C1..C26");
	refused((struct schema_options){.format = "criteo", .label = "y"}, "LABEL", "criteo");
	refused((struct schema_options){.format = "bag", .positive = "1"}, "POSITIVE", "labels");
	refused((struct schema_options){.format = "libsvm", .dense = "y"}, "DENSE", "libsvm");
	refused((struct schema_options){.format = "libsvm", .hash_bits = 32}, "MODEL hash-bits", "1..31");
	refused((struct schema_options){.format = "libsvm", .negative = "2"}, "NEGATIVE", "POSITIVE");
	refused((struct schema_options){.format = "libsvm", .positive = "2", .negative = "2"},
		"NEGATIVE", "POSITIVE too");
	refused((struct schema_options){.format = "libsvm", .dense_scale = "log"}, "MODEL scale",
		"'log'");

	struct schema *s = make((struct schema_options){.format = "criteo"});
	assert_int_equal(s->dense_count, 13);
	assert_int_equal(s->sparse_count, 26);
	assert_int_equal(schema_fields(s), 26);
	assert_string_equal(s->dense[12].name, "I13");
	assert_string_equal(s->sparse[25].name, "C26");
	assert_int_equal(s->hash_bits, 20);
	assert_true(schema_needs_fit(s));
	schema_free(s);
	s = make((struct schema_options){.format = "csv", .label = "y", .dense = "a%2Cb,c%25"});
	assert_string_equal(s->dense[0].name, "a,b");
	assert_string_equal(s->dense[1].name, "c%");
	schema_free(s);
	s = make((struct schema_options){.format = "libsvm"});
	assert_int_equal(schema_fields(s), 0);
	assert_false(schema_needs_fit(s));
	schema_free(s);
}

/* Fixed for ever: a model is only as good as the keys it was trained with. */
static void test_keys(void **state)
{
	(void)state;
	struct schema *s = make((struct schema_options){.format = "criteo", .hash_bits = 31});
	assert_int_equal(s->sparse[0].seed, UINT64_C(4286596853037386291));
	assert_int_equal(schema_key(s, &s->sparse[0], "68fd1e64", 8), 873120318);
	assert_int_equal(schema_key(s, &s->sparse[0], "", 0), 1902179178);
	assert_int_equal(schema_index_key(s, -1, 3), 1106521725);
	assert_int_equal(schema_index_key(s, 7, 3), 161900598);
	schema_free(s);
	s = make((struct schema_options){.format = "criteo", .hash_bits = 4});
	assert_int_equal(schema_key(s, &s->sparse[0], "68fd1e64", 8), 873120318 & 15);
	schema_free(s);
}

static void round_trip(struct schema *s)
{
	struct schema *read;
	struct error err = {0};
	assert_int_equal(schema_write(s, path, &err), 0);
	if (schema_read(&read, path, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(schema_equal(s, read, &err), 1);
	assert_int_equal(read->fitted, s->fitted);
	for (size_t i = 0; i < s->dense_count; i++) {
		assert_true(read->dense[i].mean == s->dense[i].mean);
		assert_true(read->dense[i].deviation == s->dense[i].deviation);
	}
	if (s->dense_count && s->fitted) {
		read->dense[0].mean += 1e-9;
		assert_int_equal(schema_equal(read, s, &err), 0);
	}
	schema_free(read);
	schema_free(s);
}

static void test_file(void **state)
{
	(void)state;
	round_trip(make((struct schema_options){.format = "libsvm", .positive = "+1"}));
	round_trip(make((struct schema_options){.format = "bag"}));
	struct schema *s = make((struct schema_options){.format = "csv",
							.label = "the label",
							.dense = "age,tab%09,per%25,a%2Cb",
							.sparse = "\xc3\xa9t\xc3\xa9,%0A",
							.weight = "w",
							.positive = ">50K",
							.negative = "<=50K",
							.dense_scale = "z",
							.hash_bits = 7});
	s->fitted = 1;
	s->dense[0].mean = 1.0 / 3;
	s->dense[0].deviation = 1e-7 / 3;
	round_trip(s);
	s = make((struct schema_options){.format = "criteo", .dense = "I3", .sparse = "C2,C1"});
	s->fitted = 1;
	round_trip(s);
	static const char *const separators[] = {"tab", ";", " ", "%", "\001", "="};
	for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
		round_trip(make((struct schema_options){.format = "csv",
							.separator = separators[i],
							.label = "y",
							.dense = "a"}));
}

static void test_longest_names(void **state)
{
	(void)state;
	char name[3 * SCHEMA_NAME_MAX + 1];
	for (size_t i = 0; i < SCHEMA_NAME_MAX; i++)
		memcpy(name + 3 * i, "%01", 4);
	char label[SCHEMA_NAME_MAX + 1], positive[SCHEMA_NAME_MAX + 1];
	memset(label, '%', SCHEMA_NAME_MAX);
	memset(positive, ' ', SCHEMA_NAME_MAX);
	label[SCHEMA_NAME_MAX] = positive[SCHEMA_NAME_MAX] = '\0';
	round_trip(make((struct schema_options){.format = "csv",
						.label = label,
						.weight = label,
						.positive = positive,
						.negative = label,
						.dense = name}));
	char longer[3 * SCHEMA_NAME_MAX + 8];
	snprintf(longer, sizeof longer, "%s%%01", name);
	refused((struct schema_options){.format = "csv", .label = "y", .dense = longer}, "DENSE",
		"longer than");
}

/* A schema with a line lost would score, wrongly: any damage must be refused. */
static void test_damaged_file(void **state)
{
	(void)state;
	struct error err;
	struct schema *s = make((struct schema_options){.format = "criteo"}), *read;
	char *data;
	size_t len;
	assert_int_equal(schema_write(s, path, &err), 0);
	assert_int_equal(fs_read_file(path, 1u << 20, &data, &len, &err), 0);
	for (size_t i = 0; i < len; i++) {
		data[i] ^= 1;
		assert_int_equal(fs_replace_file(path, data, len, &err), 0);
		assert_int_equal(schema_read(&read, path, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_int_equal(strncmp(err.place, path, strlen(path)), 0);
		data[i] ^= 1;
		i += i > 400 ? 30 : 0;
	}
	for (size_t cut = 0; cut < len; cut += 7) {
		assert_int_equal(fs_replace_file(path, data, cut, &err), 0);
		assert_int_equal(schema_read(&read, path, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
	}
	free(data);
	schema_free(s);
}

/* By hand: no sum; means, deviations and what has a default only where they are known. */
static void test_by_hand(void **state)
{
	(void)state;
	static const char text[] = "schema version=1 format=csv label=y\ndense name=a\n"
				   "sparse name=b\nend\n",
			  bare[] = "schema version=1 format=csv label=y fitted=1\ndense name=a\nend\n";
	struct error err = {0};
	struct schema *s, *same = make((struct schema_options){
				  .format = "csv", .label = "y", .dense = "a", .sparse = "b"});
	assert_int_equal(fs_replace_file(path, text, sizeof text - 1, &err), 0);
	if (schema_read(&s, path, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(schema_equal(s, same, &err), 1);
	assert_true(!s->fitted && s->dense[0].mean == 0 && s->dense[0].deviation == 1);
	schema_free(s);
	schema_free(same);
	assert_int_equal(fs_replace_file(path, bare, sizeof bare - 1, &err), 0);
	assert_int_equal(schema_read(&s, path, &err), -1);
	assert_non_null(strstr(err.text, "mean"));
}

static void test_equal(void **state)
{
	(void)state;
	struct schema_options base = {.format = "csv", .label = "y", .dense = "a", .sparse = "b"};
	struct schema_options other[10];
	struct error err;
	for (size_t i = 0; i < 10; i++)
		other[i] = base;
	other[0].label = "z";
	other[1].dense = "c";
	other[2].dense = "a,c";
	other[3].sparse = "c";
	other[4].hash_bits = 19;
	other[5].dense_scale = "none";
	other[6].positive = "1";
	other[7].weight = "w";
	other[8].format = "tsv";
	other[9].separator = ";";
	struct schema *a = make(base);
	for (size_t i = 0; i < 10; i++) {
		struct schema *b = make(other[i]);
		assert_int_equal(schema_equal(a, b, &err), 0);
		assert_true(err.text[0] != '\0');
		assert_int_equal(schema_equal(b, a, NULL), 0);
		schema_free(b);
	}
	schema_free(a);
}

static void test_nearest(void **state)
{
	(void)state;
	const char *names[] = {"age", "income", "race"};
	assert_string_equal(schema_nearest("incme", names, 3), "income");
	assert_string_equal(schema_nearest("rase", names, 3), "race");
	assert_null(schema_nearest("completely-else", names, 3));
	assert_null(schema_nearest("x", names, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_keys),
		cmocka_unit_test_setup_teardown(test_file, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_longest_names, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_damaged_file, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_by_hand, set_up, scratch_remove),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_nearest),
	};
	return cmocka_run_group_tests_name("data_schema", tests, NULL, NULL);
}
