/* trainctl status, top: a job that runs: its course, and its nodes as a table that can be sorted.
 * On a pipe status gives records; on a terminal it is shown once, and top draws it again and again
 * (top.c). It only asks the job's `status`. */
#include "cmd/trainctl/top.h"

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "job/condition.h"
#include "job/jobs.h"
#include "screen/text.h"
#include "wire/call.h"

#include <signal.h>

#define ANSWER_SECONDS 10.0
#define END_SECONDS 2.0 /* seconds: a trainctl that is ending first gives its last answer */

/* ---- the job's answers ---- */

int top_ask(struct top *t, struct error *err)
{
	view_free(&t->filling);
	t->asked = 1;
	return call_send(t->call, "status\n", 7, NULL, 0, err);
}

static void status_take_answer(struct top *t)
{
	struct view old = t->view;
	t->view = t->filling;
	t->filling = old;
	t->asked = 0;
	t->answered_at = clock_mono();
	t->ask_at = t->answered_at + t->every;
	view_sort(&t->view, t->order, t->reverse);
}

int top_receive(struct top *t, double seconds, struct error *err)
{
	static struct record r;
	while (t->asked) {
		if (call_receive_within(t->call, &r, seconds, err) != 0)
			return err->code == ERROR_TEMPFAIL ? 0 : -1;
		if (record_is(&r, "err"))
			return error_set(err, ERROR_NEGATIVE, t->socket, "%s",
					 r.text ? r.text : "refused");
		if (record_is(&r, "ok"))
			status_take_answer(t);
		else if (t->records)
			trainctl_show_record(&r);
		else
			view_take(&t->filling, &r);
	}
	return 1;
}

/* ---- once ---- */

static int show_once(struct view *v, struct error *err)
{
	struct screen_line line[VIEW_HEAD_MAX];
	struct grid table;
	size_t layout[GRID_MAX], width = terminal_width();
	/* A bar as wide as a file would take is no help. */
	size_t head_width = terminal_width() == SCREEN_WIDTH_MAX ? 100 : width;
	v->full = 1;
	size_t count = view_head(v, head_width, text_has_blocks(), 0, line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	printf("checkpoint %s", v->checkpoint[0] ? v->checkpoint : "none yet");
	if (v->in_memory > 0)
		printf(", also in memory of %.0f worker%s", v->in_memory, v->in_memory > 1 ? "s" : "");
	putchar('\n');
	putchar('\n');
	view_table(v, &table);
	grid_layout(&table, width, layout);
	line[0] = (struct screen_line){.tint = TINT_HEAD};
	grid_line(&table, layout, GRID_HEAD, line[0].text, sizeof line[0].text);
	line[0].len = strlen(line[0].text);
	terminal_put(&line[0]);
	for (size_t i = 0; i < table.rows; i++) {
		view_row(v, &table, layout, i, &line[0]);
		terminal_put(&line[0]);
	}
	int failed = v->failed || table.failed;
	grid_free(&table);
	return failed ? error_set(err, ERROR_OS, NULL, "out of memory: nodes are missing") : 0;
}

static int show_end(const struct dirs *dirs, struct error *err)
{
	static struct condition c;
	double until = clock_mono() + END_SECONDS;
	int got;
	while ((got = condition_read(&c, dirs, err)) == 0 && c.is == CONDITION_RUNNING &&
	       clock_mono() < until)
		clock_sleep(0.05);
	if (got == 0)
		trainctl_show_condition(&c, dirs);
	return got == 0 || !error_is_lack(err) ? 0 : -1;
}

static void die_of(int signal_number)
{
	sigset_t one;
	signal(signal_number, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, signal_number);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static int status_show(struct top *t, enum terminal_kind kind, struct error *err)
{
	if (call_connect(&t->call, t->socket, ANSWER_SECONDS, err) != 0 ||
	    call_greet(t->call, err) != 0 || top_ask(t, err) != 0 ||
	    top_receive(t, ANSWER_SECONDS, err) != 1)
		return -1; /* even when there was no answer: err says so */
	if (t->every > 0 && kind == TERMINAL_FULL)
		return top_on_screen(t, err);
	return t->records ? 0 : show_once(&t->view, err);
}

/* every: without -i. */
static int status(int argc, char **argv, const struct option_table *shown_as, double every)
{
	const char *none, *order = NULL;
	static struct top t;
	static struct condition c;
	char socket[DIRS_PATH_MAX];
	struct dirs dirs;
	struct error err, of_state;
	t.every = every;
	const struct option_row rows[] = {TRAINCTL_ROW_JOB(&t.job),
					  TRAINCTL_ROW_RUN_DIR(&t.run_dir,
							       "the job's run directory"),
					  {.name = "every",
					   .letter = 'i',
					   .kind = OPTION_SECONDS,
					   .target = &t.every,
					   .arg = "S",
					   .help = "on a terminal, a new table every so many "
						   "seconds, until q is typed",
					   .min = 0.1,
					   .max = 3600},
					  {.name = "sort",
					   .kind = OPTION_CHOICE,
					   .target = &order,
					   .arg = "ORDER",
					   .help = "which nodes come first (slow)",
					   .choices = VIEW_ORDER_WORDS},
					  {0}};
	struct option_table table = *shown_as;
	table.rows = rows;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, NULL, &none, &err), &err);
	if (!t.job && !t.run_dir && !order && !(t.every > 0))
		return trainctl_list(&err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	if (trainctl_find(t.job, t.run_dir, &dirs, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	dirs_run(&dirs, "trainctl.sock", socket);
	t.socket = socket;
	while (order && strcmp(view_order_name[t.order], order) != 0)
		t.order++;
	view_init(&t.view);
	view_init(&t.filling);
	enum terminal_kind kind = terminal_open();
	t.records = kind == TERMINAL_NONE && !(t.every > 0);
	int result = status_show(&t, kind, &err), over = 0;
	if (t.is_over) {
		if (show_end(&dirs, &of_state) != 0) {
			err = of_state;
			result = -1;
		}
	} else if (result < 0 && err.code == ERROR_UNAVAILABLE &&
		 jobs_need_state(&dirs, t.job, &err) == 0) {
		if (condition_read(&c, &dirs, &of_state) != 0)
			err = error_is_lack(&of_state) ? of_state : err;
		/* Else it answers, and this connection broke. */
		else if (!(c.is == CONDITION_RUNNING && t.call))
			over = trainctl_show_condition(&c, &dirs);
	}
	call_close(t.call);
	view_free(&t.view);
	view_free(&t.filling);
	if (result > 0)
		die_of(result);
	return result == 0 ? 0 : over ? over : cmd_fail(PROGRAM, &err);
}

int trainctl_status(int argc, char **argv)
{
	const struct option_table table = {
		.program = PROGRAM " status",
		.synopsis = "[-j NAME | --run-dir DIR [-i SECONDS] [--sort ORDER]]",
		.about = "Shows all your jobs, with state, progress and state directory. Of one "
			 "job it shows the nodes and the progress, or how the job ended."};
	return status(argc, argv, &table, 0);
}

int trainctl_top(int argc, char **argv)
{
	const struct option_table table = {
		.program = PROGRAM " top",
		.synopsis = "-j NAME | --run-dir DIR [-i SECONDS] [--sort ORDER]",
		.about = "The same as status -i 1: a table of a running job's nodes, again and "
			 "again on a terminal (h shows the keys, q ends it), once elsewhere."};
	return status(argc, argv, &table, 1);
}
