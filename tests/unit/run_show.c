/* How a job goes, as records. */
#include "run/show.h"

#include "record/record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void rows_for_programs(void **state)
{
	(void)state;
	struct run_row row = {.iteration = 8,
			      .epoch = 1,
			      .epochs = 2,
			      .loss = 0.5,
			      .samples = 512,
			      .total = 1024,
			      .rate = 100,
			      .eta = 5.12,
			      .time = 5,
			      .slowest = "w3",
			      .ratio = 1.5};
	char text[RECORD_LINE_MAX];
	show_record(&row, text, sizeof text);
	assert_string_equal(text, "row iteration=8 epoch=1 epochs=2 loss=0.5 samples-done=512 "
				  "samples=1024 samples-per-second=100 eta=5.12 slowest=w3 "
				  "ratio=1.5 time=5.000000\n");
	row.loss = row.rate = row.eta = row.ratio = NAN;
	row.slowest[0] = '\0';
	show_record(&row, text, sizeof text);
	assert_string_equal(text, "row iteration=8 epoch=1 epochs=2 loss= samples-done=512 samples=1024 "
				  "samples-per-second= eta= slowest= ratio= time=5.000000\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_for_programs),
	};
	return cmocka_run_group_tests_name("run_show", tests, NULL, NULL);
}
