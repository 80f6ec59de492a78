/* monitor_metrics: pages of metrics, letter by letter. */
#include "monitor/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct metrics_page page;
static struct error err;

static int drop(void **state)
{
	(void)state;
	metrics_free(&page);
	return 0;
}

static void holds(const char *text)
{
	assert_int_equal(metrics_end(&page, &err), 0);
	assert_int_equal(page.len, strlen(text));
	assert_memory_equal(page.text, text, page.len);
	metrics_clear(&page);
}

/* The line of a sample of that value, without its name. */
static void written_as(double value, const char *text)
{
	char line[128];
	metrics_begin(&page, METRIC_NODE_UP);
	metrics_clear(&page);
	metrics_put(&page, value, NULL);
	snprintf(line, sizeof line, "paceline_node_up %s\n", text);
	holds(line);
}

static void a_family_has_its_help_and_its_samples(void **state)
{
	(void)state;
	metrics_begin(&page, METRIC_NODE_RESTARTS);
	metrics_put(&page, 2,
		    (const struct metrics_label[]){{"role", "worker"}, {"id", "w0"}, {0}});
	metrics_put(&page, 0, (const struct metrics_label[]){{"role", NULL}, {"id", "w1"}, {0}});
	metrics_begin(&page, METRIC_JOB_EPOCH);
	metrics_put(&page, 1, (const struct metrics_label[]){{0}});
	holds("# HELP paceline_node_restarts_total Restarts of the node.\n"
	      "# TYPE paceline_node_restarts_total counter\n"
	      "paceline_node_restarts_total{role=\"worker\",id=\"w0\"} 2\n"
	      "paceline_node_restarts_total{id=\"w1\"} 0\n"
	      "# HELP paceline_job_epoch The present pass over the data, counted from 1.\n"
	      "# TYPE paceline_job_epoch gauge\n"
	      "paceline_job_epoch 1\n");
}

static void numbers_have_the_digits_that_they_need(void **state)
{
	(void)state;
	written_as(0, "0");
	written_as(-3, "-3");
	written_as(2000000, "2000000");
	written_as(1e300, "1e+300");
	written_as(9007199254740991.0, "9007199254740991");
	written_as(0.1 + 0.2, "0.3");
	written_as(1795345394.775177, "1795345394.775177");
	written_as(1e-9, "1e-09");
}

static void what_is_no_number_is_not_there(void **state)
{
	(void)state;
	metrics_begin(&page, METRIC_JOB_LOSS);
	metrics_put(&page, NAN, NULL);
	metrics_put(&page, INFINITY, NULL);
	holds("# HELP paceline_job_loss Mean loss of the last samples, computed before the model was trained on them.\n"
	      "# TYPE paceline_job_loss gauge\n");
}

static void values_of_labels_are_escaped_and_utf8(void **state)
{
	(void)state;
	metrics_begin(&page, METRIC_JOB_INFO);
	metrics_clear(&page);
	metrics_put(&page, 1,
		    (const struct metrics_label[]){{"a", "\"\\\n"},
						   {"b", "\xc3\xa4\xff\xe2\x82.\xed\xa0\x80"},
						   {"c", ""},
						   {0}});
	holds("paceline_job_info{a=\"\\\"\\\\\\n\",b=\"\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd."
	      "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",c=\"\"} 1\n");
}

/* Prometheus's naming: what only grows ends in _total, and nothing else does. */
static void counters_and_only_they_end_in_total(void **state)
{
	(void)state;
	for (int i = 0; i < METRICS; i++) {
		char name[128], type[32];
		metrics_begin(&page, (enum metric)i);
		metrics_put(&page, 1, NULL);
		page.text[page.len - 1] = '\0';
		const char *line = strstr(page.text, "# TYPE ");
		assert_non_null(line);
		assert_int_equal(sscanf(line, "# TYPE %127s %31s", name, type), 2);
		size_t n = strlen(name);
		int total = n > 6 && strcmp(name + n - 6, "_total") == 0;
		if (total != (strcmp(type, "counter") == 0))
			fail_msg("%s is a %s", name, type);
		metrics_clear(&page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_family_has_its_help_and_its_samples, drop),
		cmocka_unit_test_teardown(numbers_have_the_digits_that_they_need, drop),
		cmocka_unit_test_teardown(what_is_no_number_is_not_there, drop),
		cmocka_unit_test_teardown(values_of_labels_are_escaped_and_utf8, drop),
		cmocka_unit_test_teardown(counters_and_only_they_end_in_total, drop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
