/* How a job goes, as text. */
#include "run/show.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void rows_for_people_and_programs(void **state)
{
	(void)state;
	struct run_row row = {.iteration = 8,
			      .epoch = 1,
			      .epochs = 2,
			      .loss = 0.5,
			      .samples = 512,
			      .total = 1024,
			      .rate = 100,
			      .left = 5.12,
			      .time = 5,
			      .slowest = "w3",
			      .ratio = 1.5};
	char text[SHOW_LINE_MAX];
	show_line(&row, text, sizeof text);
	assert_string_equal(text,
			    "step 8  epoch 1/2  loss 0.5000  100 samples/s  0:05 left  w3 x1.50");
	show_bar(&row, 40, text, sizeof text);
	assert_string_equal(text, "[############............]  50%  step 8 ");
	show_record(&row, text, sizeof text);
	assert_string_equal(text, "row iteration=8 epoch=1 epochs=2 loss=0.5 samples-done=512 "
				  "samples=1024 samples-per-second=100 left=5.12 slowest=w3 "
				  "ratio=1.5 time=5.000000\n");
	row.loss = row.rate = row.left = row.ratio = NAN;
	row.slowest[0] = '\0';
	show_line(&row, text, sizeof text);
	assert_string_equal(text, "step 8  epoch 1/2");
	show_time(3723.4, text, sizeof text);
	assert_string_equal(text, "1:02:03");
	show_time(NAN, text, sizeof text);
	assert_string_equal(text, "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_for_people_and_programs),
	};
	return cmocka_run_group_tests_name("run_show", tests, NULL, NULL);
}
