/* A job on a screen of any width: its course, its table of nodes, its end. */
#include "screen/course.h"
#include "screen/summary.h"
#include "screen/view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "screen_check.h"

static const char job_line[] =
	"job name=adult state=running goal=done iteration=1234 epoch=2 epochs=6 loss=0.43123 "
	"samples-done=12000 samples=36000 samples-per-second=12345 eta=251.5 slowest=w3 "
	"ratio=1.823 "
	"held=0 restarts=5 up=723.4 "
	"decision=w3%20size%2048:%20antdt-nd:%20w3%20takes%204.1%20times%20"
	"the%20mean%20per%20sample%20over%2060%20s decision-age=12.2 checkpoint=/s/checkpoints/7 "
	"run-dir=/r state-dir=/s\n";

static void take(struct view *v, const char *line)
{
	static struct record r;
	struct error err;
	assert_int_equal(record_first(&r, line, strlen(line), &err), 0);
	view_take(v, &r);
}

static void take_nodes(struct view *v, size_t workers)
{
	char line[512];
	take(v, "node role=shardd id=shardd state=up pid=101 restarts=0 size= time= speed= ratio= "
		"accum= why= told= told-age= section= silent=\n");
	take(v,
	     "node role=server id=ps0 state=up pid=102 restarts=0 size=512 time=0.031 speed=16516 "
	     "ratio=1 accum=1 why= told= told-age= section=exchange silent=0.1\n");
	for (size_t i = 0; i < workers; i++) {
		snprintf(line, sizeof line,
			 "node role=worker id=w%zu state=%s pid=%zu restarts=%zu size=%zu time=%g "
			 "speed=%g ratio=%g accum=%zu why=%s told=%s told-age=%s section=batch "
			 "silent=%g\n",
			 i, i == 1 ? "starting" : "up", 200 + i, i % 3, 100 + i,
			 0.1 + 0.01 * (double)i, 2345.6 + (double)i, i == 3 ? 1.823 : 0.9,
			 i == 2 ? (size_t)4 : (size_t)1,
			 i == 3 ? "computes%202.1x%20as%20long" : "", i == 3 ? "size%2048" : "",
			 i == 3 ? "12.2" : "", i == 4 ? 7.0 : 0.2);
		take(v, line);
	}
}

static void job(struct view *v, size_t workers)
{
	view_init(v);
	take(v, job_line);
	take_nodes(v, workers);
	view_sort(v, VIEW_SLOW, 0);
}

static void assert_lines(const struct screen_line *line, size_t count, const char *const *want)
{
	size_t i = 0;
	for (; i < count && want[i]; i++)
		assert_string_equal(line[i].text, want[i]);
	assert_int_equal(i, count);
	assert_null(want[i]);
}
#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void at_40_80_200(void **state)
{
	(void)state;
	struct view v;
	struct screen_line line[VIEW_HEAD_MAX];
	job(&v, 5);
	assert_lines(
		line, view_head(&v, 40, 0, 0, line),
		LINES("adult  running  for 12 min 3 s", "4 min 12 s left  ######............  33%",
		      "loss 0.4312  12.3k samples/s  epoch 2/6", "w3 1.82x  computes 2.1x as long",
		      "decided 12 s ago: w3 size 48: antdt-nd:",
		      "w3 takes 4.1 times the mean per..."));
	assert_lines(
		line, view_head(&v, 80, 0, 0, line),
		LINES("adult  running  for 12 min 3 s",
		      "4 min 12 s left    ################..................................  33%",
		      "loss 0.4312  12.3k samples/s  epoch 2/6  5 restarts  12.0k of 36.0k samples",
		      "slowest w3: 1.82x the mean  computes 2.1x as long  size 48, 12 s ago",
		      "decided 12 s ago: w3 size 48: antdt-nd: w3 takes 4.1 times the mean per "
		      "sample",
		      "over 60 s"));
	assert_int_equal(view_head(&v, 200, 0, 0, line), 4);
	assert_string_equal(
		line[2].text,
		"loss 0.4312  12.3k samples/s  epoch 2/6  5 restarts  12.0k of 36.0k samples"
		"  step 1234  slowest w3: 1.82x the mean  computes 2.1x as long"
		"  size 48, 12 s ago");
	assert_int_equal(line[2].tint, TINT_SLOW);
	assert_int_equal(line[2].len, 5);
	assert_memory_equal(line[2].text + line[2].from, "1.82x", 5);
	assert_lines(line, 1,
		     LINES((view_head(&v, 80, 0, 12.3, line),
			    "adult  trainctl has not answered for 12 s")));
	assert_int_equal(line[0].tint, TINT_BAD);
	view_free(&v);
	/* The same headings always. */
	view_init(&v);
	take(&v, "job name=adult state=running up=1\n");
	v.full = 1;
	size_t count = view_head(&v, 80, 0, 0, line);
	assert_lines(&line[count - 5], 5,
		     LINES("reported: nothing yet", "decided: nothing yet", "failed: nothing yet",
			   "brain: nothing yet", "measured: nothing yet"));
	view_free(&v);
}

static void the_table(void **state)
{
	(void)state;
	struct view v;
	struct grid t;
	struct screen_line line;
	size_t layout[GRID_MAX];
	job(&v, 5);
	view_table(&v, &t);
	static const struct {
		size_t width;
		const char *text[4]; /* the head; w1, which starts; w3, the slowest; the last */
	} want[] = {
		{40,
		 {"NODE    STATE     RATIO    TIME  SPEED",
		  "w1      starting   0.90   110ms  2.35k",
		  "w3      up         1.82   130ms  2.35k",
		  "ps0     up         1.00    31ms  16.5k"}},
		{80,
		 {"NODE    STATE     RATIO    TIME  SPEED  SILENT  WHY",
		  "w1      starting   0.90   110ms  2.35k      0s",
		  "w3      up         1.82   130ms  2.35k      0s  computes 2.1x as long",
		  "ps0     up         1.00    31ms  16.5k      0s"}},
	};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		grid_layout(&t, want[i].width, layout);
		grid_line(&t, layout, GRID_HEAD, line.text, sizeof line.text);
		assert_string_equal(line.text, want[i].text[0]);
		view_row(&v, &t, layout, 0, &line);
		assert_string_equal(line.text, want[i].text[1]);
		assert_int_equal(line.tint, TINT_BAD);
		assert_memory_equal(line.text + line.from, "starting", line.len);
		view_row(&v, &t, layout, 1, &line);
		assert_string_equal(line.text, want[i].text[2]);
		assert_int_equal(line.tint, TINT_SLOW);
		assert_memory_equal(line.text + line.from, " 1.82", line.len);
		view_row(&v, &t, layout, 6, &line);
		assert_string_equal(line.text, want[i].text[3]);
	}
	grid_layout(&t, 200, layout);
	grid_line(&t, layout, GRID_HEAD, line.text, sizeof line.text);
	assert_non_null(strstr(line.text, "  ACCUM  RESTARTS  SILENT  WHY "));
	assert_non_null(strstr(line.text, "  LAST ACTION         "));
	view_row(&v, &t, layout, 2, &line); /* the others as they are named; w0, w2, w4 */
	view_row(&v, &t, layout, 4, &line);
	assert_non_null(strstr(line.text, "silent for 7 s (batch)"));
	grid_free(&t);
	view_free(&v);
}

static void check_order(struct view *v, enum view_order order, int reverse, const char *want)
{
	char ids[128] = "";
	view_sort(v, order, reverse);
	for (size_t i = 0; i < v->nodes; i++)
		snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%s", i ? " " : "",
			 v->node[i].id);
	assert_string_equal(ids, want);
}

static void orders(void **state)
{
	(void)state;
	struct view v;
	job(&v, 4);
	check_order(&v, VIEW_SLOW, 0, "w1 w3 w0 w2 shardd ps0");
	check_order(&v, VIEW_NODE, 0, "shardd ps0 w0 w1 w2 w3");
	check_order(&v, VIEW_NODE, 1, "w3 w2 w1 w0 ps0 shardd");
	check_order(&v, VIEW_SPEED, 0, "ps0 w3 w2 w1 w0 shardd");
	check_order(&v, VIEW_RESTARTS, 0, "w2 w1 shardd ps0 w0 w3");
	view_free(&v);
}

static void fabric_in_the_title(void **state)
{
	static const struct {
		const char *fields;
		size_t width;
		const char *title;
	} jobs[] = {
		{"up=600 fabric=plain fabric-saves=0.5", 80, "adult  running  for 10 min  FABRIC=plain"},
		{"up=600 fabric=plain fabric-saves=123", 80,
		 "adult  running  for 10 min  FABRIC=plain: mlfabric would have saved 2 min 3 s"},
		{"up=600 fabric=mlfabric fabric-saves=123", 80,
		 "adult  running  for 10 min  FABRIC=mlfabric, which saved 2 min 3 s"},
		{"up=600 fabric=mlfabric fabric-saves=123", 45,
		 "adult  running  for 10 min  FABRIC=mlfabric"},
		{"up=600 fabric=mlfabric", 80, "adult  running  for 10 min  FABRIC=mlfabric"},
		{"up=600", 80, "adult  running  for 10 min"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
		char record[200];
		struct screen_line line[VIEW_HEAD_MAX];
		struct view v;
		view_init(&v);
		snprintf(record, sizeof record, "job name=adult state=running %s\n", jobs[i].fields);
		take(&v, record);
		view_head(&v, jobs[i].width, 0, 0, line);
		assert_string_equal(line[0].text, jobs[i].title);
		view_free(&v);
	}
}

/* All that these jobs may say. */
static const char words[] =
	"a-job-with-a-very-long-name-0123456789.0123456789.0123456789 adult running for 12 min 3 s "
	"starting going back to the last checkpoint first workers finish finishing stopping "
	"scoring "
	"TEST over no answer trainctl has not answered "
	"4 left 4m12s left: ? time known yet 33% - 0 0% "
	"loss 0.4312 12.3k samples/s 12.3k/s epoch 2/6 5 restarts 12.0k of 36.0k samples step 1234 "
	"slowest w3: w3 1.82x the mean computes 2.1x as long size 48 48, 12 ago decided "
	"ago: 48: antdt-nd: takes 4.1 times per sample over 60 2 shards held "
	"NODE STATE RATIO TIME SPEED SIZE ACCUM RESTARTS SILENT 0s 7.0s HOST 1 WHY LAST ACTION PID "
	"shardd ps0 w0 w1 w2 w4 up 101 102 103 104 200 201 202 203 204 100 512 1 0.90 1.00 1.82 "
	"100ms "
	"110ms 120ms 130ms 140ms 31ms 2.35k 16.5k 2.35k silent 7 (batch) no worker is slow ";

/* Whatever the width: nothing wider, nothing cut. */
static void check_widths(struct view *v, double silent)
{
	struct screen_line line[VIEW_HEAD_MAX];
	struct grid t;
	size_t layout[GRID_MAX];
	char text[SCREEN_LINE_MAX];
	view_table(v, &t);
	for (size_t width = 20; width <= 300; width++) {
		size_t count = view_head(v, width, 0, silent, line);
		for (size_t i = 0; i < count; i++) {
			assert_true(line[i].from + line[i].len <= strlen(line[i].text));
			/* a name alone may be longer than the terminal */
			if (!strstr(line[i].text, ".."))
				check_line(line[i].text, width, words);
			assert_true(text_width(line[i].text) <= width);
		}
		grid_layout(&t, width, layout);
		for (size_t row = 0; row < t.rows; row++) {
			view_row(v, &t, layout, row, &line[0]);
			assert_true(line[0].from + line[0].len <= strlen(line[0].text));
			check_line(line[0].text, width, words);
		}
		grid_line(&t, layout, GRID_HEAD, text, sizeof text);
		check_line(text, width, words);
		course_row(&v->course, width, text, sizeof text);
		check_line(text, width, words);
	}
	grid_free(&t);
}

static void any_width(void **state)
{
	(void)state;
	static const char *const phases[] = {"services", "rollback", "servers",   "first-cut",
					     "winding",  "last-cut", "finishing", "stopping",
					     "scoring",  "over"};
	struct view v;
	job(&v, 5);
	check_widths(&v, 0);
	check_widths(&v, 12);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		snprintf(v.course.state, sizeof v.course.state, "%s", phases[i]);
		check_widths(&v, 0);
	}
	view_free(&v);
	/* a job that begins: nothing is known, no nodes */
	view_init(&v);
	take(&v,
	     "job name=a-job-with-a-very-long-name-0123456789.0123456789.0123456789 state=running "
	     "iteration=0 epoch=0 epochs=6 loss= samples-done=0 samples=36000 "
	     "samples-per-second= eta= slowest= ratio= held=2 restarts=0 up= decision= "
	     "decision-age=\n");
	check_widths(&v, 0);
	struct screen_line line[VIEW_HEAD_MAX];
	assert_lines(line, view_head(&v, 60, 0, 0, line),
		     LINES("a-job-with-a-very-long-name-0123456789.0123456789.0123456789",
			   "time left not known yet  ..............................   0%",
			   "2 shards held  0 of 36.0k samples"));
	view_free(&v);
	/* 64 nodes */
	job(&v, 64);
	assert_int_equal(v.nodes, 66);
	assert_string_equal(v.node[1].id, "w3");
	assert_string_equal(v.node[63].id, "w63");
	view_free(&v);
}

static void time_left(void **state)
{
	(void)state;
	struct screen_line line[COURSE_LINES];
	struct course c;
	static const struct {
		double eta;
		const char *text;
	} want[] = {{0, "0 s left"},
		    {0.2, "1 s left"},
		    {9.5, "10 s left"},
		    {59.2, "1 min left"},
		    {3599, "59 min 59 s left"},
		    {7300, "2 h 2 min left"},
		    {90000, "1 d 1 h left"},
		    {NAN, "time left not known yet"}};
	course_init(&c);
	c.samples = c.total = 100;
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		c.eta = want[i].eta;
		course_lines(&c, 100, 0, line);
		assert_memory_equal(line[0].text, want[i].text, strlen(want[i].text));
		assert_int_equal(line[0].tint, TINT_STRONG);
		assert_int_equal(line[0].len, strlen(want[i].text));
	}
}

/* In place of the time left, and of who is slow. */
static void waiting(void **state)
{
	(void)state;
	struct view v;
	struct screen_line line[VIEW_HEAD_MAX];
	view_init(&v);
	take(&v, "job name=x state=running eta=5 loss=0.5 samples-done=1 samples=2 slowest=w1 ratio=3 "
		 "why=no%20room%20in%20/state\n");
	size_t count = view_head(&v, 80, 0, 0, line);
	assert_int_equal(count, 4);
	assert_memory_equal(line[1].text, "waits ", 6);
	assert_string_equal(line[3].text, "the job waits: no room in /state");
	assert_int_equal(line[3].tint, TINT_BAD);
	take(&v, "job name=x state=running eta=5 slowest=w1 ratio=3 why=\n");
	view_head(&v, 80, 0, 0, line);
	assert_memory_equal(line[1].text, "5 s left", 8);
	view_free(&v);
}

/* What comes from outside does nothing to a terminal. */
static void hostile(void **state)
{
	(void)state;
	struct view v;
	struct screen_line line[VIEW_HEAD_MAX];
	view_init(&v);
	take(&v, "job name=x%1B[2J state=%07 decision=a%1B]0;evil%07b%0Ac decision-age=1\n");
	size_t count = view_head(&v, 80, 0, 0, line);
	for (size_t i = 0; i < count; i++)
		for (const char *p = line[i].text; *p; p++)
			assert_true((unsigned char)*p >= ' ' && *p != 127);
	assert_string_equal(line[count - 1].text, "decided 1 s ago: a?]0;evil?b?c");
	view_free(&v);
}

static void what_a_brain_did(void **state)
{
	(void)state;
	struct view v;
	struct screen_line line[VIEW_HEAD_MAX];
	view_init(&v);
	take(&v, "job name=x state=running brain=3%20workers%20of%201%20core,%202%20servers%20of%201:%20faster "
		 "brain-age=75 decision=w0%20size%209:%20why decision-age=1\n");
	size_t count = view_head(&v, 80, 0, 0, line);
	assert_string_equal(line[count - 2].text, "decided 1 s ago: w0 size 9: why");
	assert_string_equal(line[count - 1].text,
			    "brain 1 min ago: 3 workers of 1 core, 2 servers of 1: faster");
	view_free(&v);
}

static void the_slowest_link(void **state)
{
	(void)state;
	struct view v;
	struct screen_line line[VIEW_HEAD_MAX];
	view_init(&v);
	take(&v, "job name=x state=running\n");
	take(&v, "host name=h0 out=2097152 out-least=0 out-free=0 out-age=1 in=20971520 in-least=0 in-free=0 in-age=1\n");
	take(&v, "host name=h1 out=2097152 out-least=0 out-free=1048576 out-age=3 in=2202010 in-least=1 in-free=0 in-age=2\n");
	take(&v, "host name=h2 out= out-least=0 out-free= out-age= in= in-least=0 in-free= in-age=\n");
	take(&v, "host name=h3\n");
	size_t count = view_head(&v, 120, 0, 0, line);
	assert_string_equal(line[count - 1].text,
			    "measured 2 s ago: h1 has the slowest link: 2.0 MiB/s out (1.0 MiB/s free), "
			    "at least 2.1 MiB/s in (0 B/s free)");
	view_free(&v);
	take(&v, "job name=x state=running\n");
	take(&v, "host name=h2 out= in=1048576 in-least=0 in-free=1048576 in-age=7\n");
	count = view_head(&v, 120, 0, 0, line);
	assert_string_equal(line[count - 1].text,
			    "measured 7 s ago: h2 has the slowest link: 1.0 MiB/s in (1.0 MiB/s free)");
	view_free(&v);
}

static void the_end(void **state)
{
	(void)state;
	static struct record r;
	struct screen_line line[SUMMARY_LINES];
	static const struct {
		const char *record;
		const char *text[5];
	} want[] = {
		{"summary job=adult state=done time=252.1 samples=36000 shards-done=9 shards=9 "
		 "held=0 "
		 "restarts=1 bad-rows=0 checkpoint=/s/c/7 auc=0.83124 logloss=0.41\n",
		 {"adult: done in 4 min 12 s, 36.0k samples, 1 restart",
		  "TEST: AUC 0.8312, log loss 0.4100", NULL}},
		{"summary job=adult state=failed time=2 samples=100 shards-done=1 shards=9 held=2 "
		 "restarts=0 bad-rows=12 checkpoint= failed=w3 signal=11 held-ids=4,5\n",
		 {"adult: failed after 2.0 s, 100 samples", "w3 ended by signal 11",
		  "2 of 9 shards held, not in the model: 4,5", "12 bad rows left out", NULL}},
		{"summary job=adult state=done time=60 samples=100 held=0 restarts=0 bad-rows=0 "
		 "ended=max-time\n",
		 {"adult: ended by MAX_TIME after 1 min, 100 samples", NULL}},
		{"summary job=adult state=done time=60 samples=100 held=0 restarts=2 bad-rows=0 exit=3 "
		 "after-loop=failed\n",
		 {"adult: done in 1 min, 100 samples, 2 restarts",
		  "what follows the trainers' loops failed; `trainctl run` does it again", NULL}},
		{"summary job=adult state=stopped time= samples=0 held=0 restarts=0 bad-rows=0\n",
		 {"adult: stopped, 0 samples; the same command goes on", NULL}},
	};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		assert_int_equal(record_first(&r, want[i].record, strlen(want[i].record), NULL), 0);
		assert_lines(line, summary_lines(&r, 80, line), want[i].text);
		for (size_t width = 20; width < 300; width++) {
			size_t count = summary_lines(&r, width, line);
			for (size_t k = 0; k < count; k++)
				assert_true(text_width(line[k].text) <= width);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_40_80_200), cmocka_unit_test(the_table),
		cmocka_unit_test(orders),       cmocka_unit_test(any_width),
		cmocka_unit_test(time_left), cmocka_unit_test(waiting),    cmocka_unit_test(hostile),
		cmocka_unit_test(what_a_brain_did),
		cmocka_unit_test(the_slowest_link),
		cmocka_unit_test(fabric_in_the_title),
		cmocka_unit_test(the_end),
	};
	return cmocka_run_group_tests_name("screen_view", tests, NULL, NULL);
}
