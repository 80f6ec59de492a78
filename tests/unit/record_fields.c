/* record_fields: what one table writes it reads again; what is missing or wrong is named. */
#include "record/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum kind { KIND_NONE, KIND_SOME };
static const char *const kinds[] = {"none", "some", NULL};

struct thing {
	uint64_t id, begin, seed;
	uint32_t deaths;
	double lease, at;
	const char *worker;
	char own[OPTION_ID_MAX];
	enum kind kind;
};

static const struct field fields[] = {
	{FIELD("id", U64, thing, id), .min = 1},
	{FIELD("begin", U64, thing, begin), .is_optional = 1, .none = UINT64_MAX},
	{FIELD("seed", U64, thing, seed), .is_optional = 1, .min = 2},
	{FIELD("deaths", U32, thing, deaths)},
	{FIELD("lease", REAL, thing, lease)},
	{FIELD("at", TIME, thing, at)},
	{FIELD("worker", ID, thing, worker), .is_optional = 1},
	{FIELD("own", ID_COPY, thing, own), .is_optional = 1},
	{FIELD("kind", NAME, thing, kind), .names = kinds},
	{0}};

static const char *written(const struct thing *t)
{
	static char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "thing");
	fields_write(fields, &o, t);
	line[o.len] = '\0';
	return line;
}

static int taken(const char *line, struct thing *t, struct error *err)
{
	static struct record r;
	assert_int_equal(record_parse(&r, line, strlen(line), err), 0);
	return fields_read(fields, &r, t, err);
}

static void test_both_ways(void **state)
{
	(void)state;
	struct thing t = {.id = 7, .begin = 0, .seed = UINT64_MAX, .deaths = 3, .lease = 2.5,
			  .at = fields_milliseconds(1795333716.14499), .worker = "w0", .own = "w-1",
			  .kind = KIND_SOME}, same;
	static const char all[] = "thing id=7 begin=0 seed=18446744073709551615 deaths=3 lease=2.5 "
				  "at=1795333716.144 worker=w0 own=w-1 kind=some";
	struct error err;
	assert_string_equal(written(&t), all);
	assert_int_equal(taken(all, &same, &err), 0);
	assert_string_equal(written(&same), all);
	assert_true(same.at == t.at);
	t.begin = UINT64_MAX;
	t.seed = 0;
	t.worker = NULL;
	t.own[0] = '\0';
	static const char few[] =
		"thing id=7 deaths=3 lease=2.5 at=1795333716.144 kind=some";
	assert_string_equal(written(&t), few);
	assert_int_equal(taken(few, &same, &err), 0);
	assert_string_equal(written(&same), few);
	assert_true(same.begin == UINT64_MAX && same.seed == 0 && !same.worker && !same.own[0]);
}

static void test_what_is_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *line, *why;
	} bad[] = {
		{"thing deaths=3 lease=1 at=1 kind=none", "id"},
		{"thing id=0 deaths=3 lease=1 at=1 kind=none", "id"},
		{"thing id=1 seed=1 deaths=3 lease=1 at=1 kind=none", "seed"},
		{"thing id=1 seed= deaths=3 lease=1 at=1 kind=none", "seed"},
		{"thing id=1 deaths=4294967296 lease=1 at=1 kind=none", "deaths"},
		{"thing id=1 deaths=3 lease=-1 at=1 kind=none", "lease"},
		{"thing id=1 deaths=3 lease=1 at=x kind=none", "at"},
		{"thing id=1 deaths=3 lease=1 at=1 kind=all", "kind"},
		{"thing id=1 deaths=3 lease=1 at=1 kind=none worker=a/b", "worker"},
		{"thing id=1 deaths=3 lease=1 at=1 kind=none own=a/b", "own"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct thing t;
		struct error err = {0};
		if (taken(bad[i].line, &t, &err) == 0)
			fail_msg("%s was taken", bad[i].line);
		assert_int_equal(err.code, ERROR_DATA);
		assert_non_null(strstr(err.text, bad[i].why));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_what_is_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
