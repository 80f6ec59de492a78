/* trainctl run: reads the job file, prepares its state, and gives it to the supervisor. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "base/clock.h"
#include "base/fs.h"
#include "job/deadline.h"
#include "job/fresh.h"
#include "job/job.h"
#include "job/prepare.h"
#include "run/metrics.h"
#include "run/show.h"
#include "run/supervisor.h"
#include "screen/course.h"
#include "screen/summary.h"
#include "screen/text.h"
#include "solve/solution.h"
#include "wire/server.h"
#include "record/record.h"

#include <sys/stat.h>
#include <unistd.h>

#define NAME PROGRAM " run"
#define DRAW_SECONDS 0.9
#define LOW_TERMINAL 6 /* lines: fewer, and the block is one line */

static struct {
	enum terminal_kind terminal; /* what stdout is */
	double shown;                /* clock_mono() of what was drawn last */
	size_t width;                /* of the terminal then */
	struct screen_line line[COURSE_LINES];
} screen;

/* ---- what people see ---- */

/* Messages go to stderr; on a terminal they stand above the block. */
static void say(enum log_level level, const char *text, void *arg)
{
	char line[RECORD_LINE_MAX];
	(void)level;
	(void)arg;
	terminal_clear();
	fflush(stdout);
	screen.width = 0; /* drawn again with the next tick */
	snprintf(line, sizeof line, PROGRAM ": %s", text);
	terminal_say(line);
}

static void course_of(const struct run_row *row, struct course *c)
{
	course_init(c);
	snprintf(c->state, sizeof c->state, "%s", row->state ? row->state : "");
	c->iteration = row->iteration;
	c->epoch = row->epoch;
	c->epochs = row->epochs;
	c->loss = row->loss;
	c->rate = row->rate;
	c->left = row->left;
	if (row->known) {
		c->samples = (double)row->samples;
		c->total = (double)row->total;
	}
	snprintf(c->slowest, sizeof c->slowest, "%s", row->slowest);
	c->ratio = row->ratio;
	text_clean(row->why, c->why, sizeof c->why);
	text_clean(row->told, c->told, sizeof c->told);
	c->told_age = row->told_age;
}

/* One column is left free: a line that fills the last one is wrapped by some terminals. */
static size_t columns(void)
{
	return terminal_width() - 1;
}

static void draw(const struct run_row *row)
{
	struct course c;
	course_of(row, &c);
	screen.width = terminal_width();
	screen.shown = clock_mono();
	size_t count = course_lines(&c, columns(), text_has_blocks(), screen.line);
	terminal_draw(screen.line, terminal_height() < LOW_TERMINAL ? 1 : count);
}

/* Once a second, and when the terminal has another width: some tell it only after they have moved
 * the lines, and what is drawn between goes to the wrong place. */
static void on_tick(const struct run_row *row, void *arg)
{
	(void)arg;
	if (screen.terminal == TERMINAL_FULL && (screen.width != terminal_width() ||
						 clock_mono() - screen.shown >= DRAW_SECONDS))
		draw(row);
}

static void show_row(const struct run_row *row)
{
	struct screen_line line = {.tint = TINT_NONE};
	struct course c;
	course_of(row, &c);
	course_row(&c, columns(), line.text, sizeof line.text);
	terminal_clear();
	terminal_put(&line);
	fflush(stdout);
}

/* Records where a program reads; for people the early rows stay, later ones are in the block. */
static void on_row(const struct run_row *row, void *arg)
{
	char text[RECORD_LINE_MAX];
	(void)arg;
	if (screen.terminal == TERMINAL_NONE) {
		show_record(row, text, sizeof text);
		fputs(text, stdout);
		fflush(stdout);
		return;
	}
	if (screen.terminal == TERMINAL_PLAIN || (row->iteration & (row->iteration - 1)) == 0)
		show_row(row);
	if (screen.terminal == TERMINAL_FULL)
		draw(row);
}

/* A record, or on a terminal what it says. */
static void show_summary(const char *text)
{
	struct screen_line line[SUMMARY_LINES];
	struct record r;
	terminal_clear();
	if (screen.terminal == TERMINAL_NONE || record_first(&r, text, strlen(text), NULL) != 0) {
		fputs(text, stdout);
		return;
	}
	size_t count = summary_lines(&r, columns(), line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	const char *path = record_get(&r, "checkpoint");
	if (path && path[0])
		printf("checkpoint %s\n", path);
}

static void on_progress(const char *what, const char *path, uint64_t done, uint64_t total,
			void *arg)
{
	char text[512], percent[16];
	double now = clock_mono();
	(void)arg;
	if (done == total || now - screen.shown < (screen.terminal == TERMINAL_FULL ? 0.2 : 5))
		return;
	screen.shown = now;
	snprintf(percent, sizeof percent, "%d%%",
		 total ? (int)(100.0 * (double)done / (double)total) : 0);
	if (screen.terminal == TERMINAL_FULL) {
		struct screen_line line = {.tint = TINT_NONE};
		text_name(path, columns() / 2, text, sizeof text);
		const struct piece piece[] = {
			PIECE(percent), PIECE(what), PIECE(text)};
		line_fit(piece, 3, columns(), line.text, sizeof line.text);
		terminal_draw(&line, 1);
		return;
	}
	snprintf(text, sizeof text, "%s %.300s: %s", what, path, percent);
	say(LOG_LEVEL_INFO, text, NULL);
}

/* ---- the job ---- */

struct call {
	const char *run_dir, *state_dir;
	struct option_list set;
	int fresh;
	double report_every;
};

/* A name mistyped is found now, not by each decision. */
static int check_solution(const struct job *job, const char *path, struct error *err)
{
	if (job_balance(job) || solution_find(job->solution) || fs_is_program(job->solution))
		return 0;
	return error_set(err, ERROR_CONFIG, path,
			 "SOLUTION: '%.200s' is no solution of trainctl(1) and no executable",
			 job->solution);
}

static int read_job(struct job *job, const char *path, const struct call *call, struct error *err)
{
	if (job_init(job, err) != 0)
		return -1;
	int result = job_read(job, path, err);
	for (size_t i = 0; result == 0 && i < call->set.count; i++)
		result = job_set_text(job, call->set.item[i], err);
	if (result == 0)
		result = job_finish(job, path, err);
	if (result == 0)
		result = check_solution(job, path, err);
	if (result != 0)
		job_free(job);
	return result;
}

/* Already done: its summary again, and the status that it had then. */
static int finished_before(const struct job *job, const struct dirs *dirs, int *status,
			   struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	struct record r;
	uint64_t held = 0;
	dirs_state(dirs, "summary", path);
	if (fs_read_file(path, RECORD_LINE_MAX, &text, NULL, NULL) != 0)
		return 0;
	*status = prepare_finished(job, dirs, err);
	if (*status == 0) {
		fprintf(stderr, PROGRAM ": this job has been finished; --fresh starts it over\n");
		show_summary(text);
		if (record_first(&r, text, strlen(text), NULL) == 0)
			record_u64_opt(&r, "held", 0, UINT64_MAX, &held, NULL);
		*status = held > 0 ? ERROR_NEGATIVE : 0;
	}
	free(text);
	return 1;
}

/* Said here: each worker would say that it can't read it, and learn anew. */
static int check_predict_from(const char *path, struct error *err)
{
	char model[DIRS_PATH_MAX];
	struct stat st;
	if (!path[0])
		return 0;
	if (access(path, R_OK) != 0 || stat(path, &st) != 0)
		return error_errno(err, ERROR_NOINPUT, path, "PREDICT_FROM");
	if (S_ISDIR(st.st_mode) && dirs_learnt(path, "w0", model) != 0)
		return error_set(err, ERROR_NOINPUT, path,
				 "PREDICT_FROM: no predict-ID of any worker is in there");
	return 0;
}

static int make_ready(const struct job *job, const struct dirs *dirs, const struct call *call,
		      struct prepared *ready, struct error *err)
{
	char id[OPTION_ID_MAX];
	int running = prepare_running(dirs, id);
	if (!running && metrics_try(job, err) != 0)
		return -1;
	if (check_predict_from(job->predict_from, err) != 0)
		return -1;
	if (call->fresh && running)
		return error_set(err, ERROR_TEMPFAIL, dirs->state,
				 "--fresh, but %s of this job still runs: stop it first", id);
	const struct prepare_options options = {
		.running = running, .fresh = call->fresh, .progress = on_progress};
	int result = prepare(job, dirs, &options, ready, err);
	terminal_clear();
	return result;
}

static int supervise(const struct job *job, const struct dirs *dirs, const struct call *call,
		     const struct prepared *ready, struct error *err)
{
	struct supervisor_options options = {.job = job,
					     .dirs = *dirs,
					     .samples = ready->samples,
					     .bad_rows = ready->bad_rows,
					     .rows = ready->rows,
					     .search_path = getenv("PATH"),
					     .notify_socket = getenv("NOTIFY_SOCKET"),
					     .row_seconds = call->report_every,
					     .row = on_row,
					     .tick = on_tick};
	static struct supervisor_result result;
	if (supervisor_run(&options, &result, err) != 0)
		return -1;
	show_summary(result.summary);
	return result.status;
}

/* To those whose new run failed before it had anything to show. */
static void tell_kept(const struct dirs *dirs)
{
	char path[DIRS_PATH_MAX];
	if (fresh_kept(dirs, path))
		log_say(LOG_LEVEL_INFO,
			"the run before --fresh is kept in %s, its model in %s/checkpoints", path,
			path);
}

static int locked(const struct job *job, const struct dirs *dirs, const struct call *call,
		  struct error *err)
{
	char path[DIRS_PATH_MAX];
	int lock;
	struct prepared ready;
	dirs_state(dirs, "lock", path);
	if (fs_lock(path, &lock, err) != 0)
		return -1;
	int result = -1;
	if (fresh_recover(dirs, err) != 0 || dirs_make(dirs, err) != 0)
		result = -1;
	else if (!call->fresh && finished_before(job, dirs, &result, err))
		;
	else if (make_ready(job, dirs, call, &ready, err) == 0) {
		result = supervise(job, dirs, call, &ready, err);
		free(ready.rows);
		if (result != 0)
			tell_kept(dirs);
	}
	close(lock);
	return result;
}

/* Nodes that run are where they were started, from whatever environment. */
static void stay(struct dirs *dirs)
{
	char id[OPTION_ID_MAX], run[DIRS_MAX];
	if (prepare_running(dirs, id) && dirs_recorded(dirs, run) == 0)
		memcpy(dirs->run, run, sizeof run);
}

static int run(const char *path, const struct call *call, struct error *err)
{
	struct job job;
	struct dirs dirs;
	struct dirs_environment env;
	trainctl_environment(&env);
	if (read_job(&job, path, call, err) != 0)
		return -1;
	int result = dirs_resolve(&dirs, job.name, call->run_dir, call->state_dir, &env, err);
	if (result == 0) {
		if (!call->run_dir)
			stay(&dirs);
		result = dirs_make(&dirs, err);
	}
	if (result == 0)
		result = locked(&job, &dirs, call, err);
	job_free(&job);
	return result;
}

/* Behind the options: the deadlines, and the keys of a job file (completion reads them, too). */
static void fill_help(char *out, size_t max)
{
	const char *key, *given, *help;
	size_t at = (size_t)snprintf(out, max, "Deadlines:\n");
	deadline_text(out + at, max - at);
	at = strlen(out);
	at += (size_t)snprintf(out + at, max - at,
			       "\n  %-12s %4g s  until a request that a client has begun is whole, and "
			       "1 s a MiB; then it is closed",
			       "request", SERVER_BEGUN_SECONDS);
	at += (size_t)snprintf(out + at, max - at, "\n\nKeys of a job file (paceline-job(5)):");
	for (size_t i = 0; at < max && (key = job_key(i, &given, &help)); i++) {
		char head[64];
		const char *values = job_key_values(i);
		int named = values && values[0] >= 'A' && values[0] <= 'Z';
		snprintf(head, sizeof head, "%s%s%s", key, named ? " " : "", named ? values : "");
		at += (size_t)snprintf(out + at, max - at, "\n  %-18s %s%s%s%s%s%s", head, help,
				       given[0] ? " (" : "", given, given[0] ? ")" : "",
				       values && !named ? ": " : "",
				       values && !named ? values : "");
	}
}

int trainctl_run(int argc, char **argv)
{
	static struct call call = {.report_every = 5};
	char more[8192];
	fill_help(more, sizeof more);
	const struct option_row rows[] = {
		{.name = "set", .letter = 's', .kind = OPTION_LIST, .target = &call.set,
		 .arg = "KEY=VALUE", .help = "one key of the job file, again and again"},
		{.name = "run-dir", .letter = 'd', .kind = OPTION_TEXT, .target = &call.run_dir,
		 .arg = "DIR",
		 .help = "sockets ($RUNTIME_DIRECTORY, or /tmp/paceline-UID/JOB)"},
		{.name = "state-dir", .kind = OPTION_TEXT, .target = &call.state_dir, .arg = "DIR",
		 .help = "state (RUN-DIR/state, $STATE_DIRECTORY, or "
			 "$XDG_STATE_HOME/paceline/JOB)"},
		{.name = "fresh", .kind = OPTION_FLAG, .target = &call.fresh,
		 .help = "forget the state of an earlier run"},
		{.name = "report-every", .kind = OPTION_SECONDS, .target = &call.report_every,
		 .arg = "S", .help = "seconds between rows, after the early ones", .min = 0.1,
		 .max = 1e6},
		{0}};
	struct option_table table = {NAME, "JOB.env [OPTION]...",
				     "Starts a job, or goes on with it, until its end.", rows,
				     more};
	struct error err;
	const char *path;
	int shown = trainctl_parse(&table, argc, argv, "job file", &path, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != OPTION_GO)
		return cmd_fail(PROGRAM, &err);
	screen.terminal = terminal_open();
	screen.shown = clock_mono();
	log_set_sink(say, NULL, LOG_LEVEL_INFO);
	int result = run(path, &call, &err);
	terminal_clear();
	return result < 0 ? cmd_fail(PROGRAM, &err) : result;
}
