/* trainctl run: reads the job file, prepares its state, and gives it to the supervisor. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "base/clock.h"
#include "base/grow.h"
#include "job/condition.h"
#include "job/deadline.h"
#include "job/fresh.h"
#include "job/holder.h"
#include "job/job.h"
#include "job/jobs.h"
#include "job/kind.h"
#include "job/prepare.h"
#include "job/spent.h"
#include "proc/host_test.h"
#include "run/metrics.h"
#include "run/show.h"
#include "run/supervisor.h"
#include "screen/course.h"
#include "screen/summary.h"
#include "screen/text.h"
#include "wire/server.h"
#include "record/record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME PROGRAM " run"
#define DRAW_SECONDS 0.9
#define PRINTED_BYTES 16384 /* of what the first rank prints, each time that one looks */
#define PRINTED_COLUMNS 1024
#define LOW_TERMINAL 6 /* on a terminal with fewer lines the block has one line */

static struct {
	enum terminal_kind terminal; /* what stdout is */
	double shown;                /* clock_mono() of what was drawn last */
	size_t width;                /* of the terminal then */
	struct screen_line line[COURSE_LINES];
	struct course last; /* the last row that is not printed permanently; iteration 0: it is */
} screen;
static double row_seconds = 5;

/* ---- what people see ---- */

/* Messages go to stderr; on a terminal they are printed above the block. */
static void run_say(enum log_level level, const char *text, void *arg)
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

/* ---- what the first rank prints ---- */

struct printed {
	char id[OPTION_ID_MAX];
	off_t at;   /* so much of its log was shown, or need not be */
	off_t size; /* of its log, when this was looked at last */
};

static struct {
	const struct dirs *dirs; /* NULL: nobody looks */
	struct printed *log;     /* of ranks that were shown, or next */
	size_t count, room, shown;
} printed;

static void printed_path(const char *id, char path[DIRS_PATH_MAX])
{
	char name[OPTION_ID_MAX + 16];
	snprintf(name, sizeof name, "logs/%s.log", id);
	dirs_state(printed.dirs, name, path);
}

static void printed_measure(struct printed *p)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	printed_path(p->id, path);
	p->size = stat(path, &st) == 0 ? st.st_size : 0;
}

/* Its number; that of the one which is shown, for lack of memory. */
static size_t printed_find(const char *id)
{
	for (size_t i = 0; i < printed.count; i++)
		if (strcmp(printed.log[i].id, id) == 0)
			return i;
	if (GROW(printed.log, printed.room, printed.count + 1) != 0)
		return printed.shown;
	struct printed *p = &printed.log[printed.count];
	snprintf(p->id, sizeof p->id, "%s", id);
	printed_measure(p);
	p->at = p->size; /* of an earlier run, or shown of another rank */
	return printed.count++;
}

static void printed_begin(const struct job *job, const struct dirs *dirs)
{
	if (screen.terminal == TERMINAL_NONE || job_kind(job)->cut != CUT_SAVED)
		return;
	printed.dirs = dirs;
	printed_find("w0");
}

/* A progress bar writes over its line: what it was last is shown. */
static void printed_line(char *line)
{
	char clean[PRINTED_COLUMNS], text[PRINTED_COLUMNS + OPTION_ID_MAX + 2];
	for (size_t len = strlen(line); len > 0 && line[len - 1] == '\r'; len--)
		line[len - 1] = '\0';
	const char *last = strrchr(line, '\r');
	if (strncmp(line, "spent id=", 9) == 0)
		return; /* its agent's */
	text_clean(last ? last + 1 : line, clean, sizeof clean);
	terminal_clear();
	fflush(stdout);
	screen.width = 0;
	snprintf(text, sizeof text, "%s: %s", printed.log[printed.shown].id, clean);
	terminal_say(text);
}

/* Of what comes faster than a person reads, only the end. Returns whether there was a line. */
static int show_printed(void)
{
	char text[PRINTED_BYTES + 1], path[DIRS_PATH_MAX], *end;
	struct stat st;
	if (printed.count == 0)
		return 0;
	struct printed *log = &printed.log[printed.shown];
	printed_path(log->id, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	int skips = fstat(fd, &st) == 0 && st.st_size > log->at + PRINTED_BYTES;
	if (skips || st.st_size < log->at) /* it was cut off, too, when it was too long */
		log->at = skips ? st.st_size - PRINTED_BYTES : 0;
	ssize_t got = pread(fd, text, PRINTED_BYTES, log->at);
	close(fd);
	end = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
	if (!end)
		return 0;
	*end = '\0';
	log->at += end + 1 - text;
	for (char *p = text; p; skips = 0) {
		char *next = memchr(p, '\n', (size_t)(end - p));
		if (next)
			*next = '\0';
		if (!skips)
			printed_line(p);
		p = next ? next + 1 : NULL;
	}
	return 1;
}

/* If the first rank dies, the next one's lines are shown since the first one's last: ranks print the same, one a little
 * later than the other. Who comes back is shown since it went. */
static void printed_on_tick(const struct run_row *row)
{
	int has_shown = show_printed();
	if (printed.count == 0 || !row->first[0])
		return;
	if (row->second[0]) {
		struct printed *next = &printed.log[printed_find(row->second)];
		if (has_shown && next != &printed.log[printed.shown]) {
			/* What it had printed a tick ago: it may be a line ahead of the first. */
			next->at = next->size;
			printed_measure(next);
		}
	}
	printed.shown = printed_find(row->first);
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
	c->eta = row->eta;
	if (row->known) {
		c->samples = (double)row->samples;
		c->total = (double)row->total;
	}
	snprintf(c->slowest, sizeof c->slowest, "%s", row->slowest);
	c->ratio = row->ratio;
	text_clean(row->why, c->why, sizeof c->why);
	text_clean(row->told, c->told, sizeof c->told);
	c->told_age = row->told_age;
	text_clean(row->waits, c->waits, sizeof c->waits);
}

/* Leave one column free: some terminals wrap a line that fills the last column. */
static size_t columns(void)
{
	return terminal_width() - 1;
}

static void run_draw(const struct run_row *row)
{
	struct course c;
	course_of(row, &c);
	screen.width = terminal_width();
	screen.shown = clock_mono();
	size_t count = course_lines(&c, columns(), text_has_blocks(), screen.line);
	terminal_draw(screen.line, terminal_height() < LOW_TERMINAL ? 1 : count);
}

/* Redraw once a second, and when the terminal's width has changed: some terminals report a new
 * width only after they have moved the lines, and anything drawn in between goes to the wrong
 * place. */
static void run_on_tick(const struct run_row *row, void *arg)
{
	(void)arg;
	printed_on_tick(row);
	if (screen.terminal == TERMINAL_FULL && (screen.width != terminal_width() ||
						 clock_mono() - screen.shown >= DRAW_SECONDS))
		run_draw(row);
}

static void run_show_row(const struct course *c)
{
	struct screen_line line = {.tint = TINT_NONE};
	course_row(c, columns(), line.text, sizeof line.text);
	terminal_clear();
	terminal_put(&line);
	fflush(stdout);
}

/* Programs get records; people get the first rows and the last one as lines, and the others in the
 * block. */
static void run_on_row(const struct run_row *row, void *arg)
{
	char text[RECORD_LINE_MAX];
	(void)arg;
	if (screen.terminal == TERMINAL_NONE) {
		show_record(row, text, sizeof text);
		fputs(text, stdout);
		fflush(stdout);
		return;
	}
	course_of(row, &screen.last);
	if (screen.terminal == TERMINAL_PLAIN || (row->iteration & (row->iteration - 1)) == 0) {
		run_show_row(&screen.last);
		screen.last.iteration = 0;
	}
	if (screen.terminal == TERMINAL_FULL)
		run_draw(row);
}

/* Prints a record, or its words on a terminal, and what to do next. */
static void show_summary(const char *text, const struct dirs *dirs)
{
	struct screen_line line[SUMMARY_LINES];
	struct record r;
	terminal_clear();
	if (screen.terminal == TERMINAL_NONE || record_first(&r, text, strlen(text), NULL) != 0) {
		fputs(text, stdout);
		return;
	}
	if (screen.last.iteration > 0)
		run_show_row(&screen.last);
	size_t count = summary_lines(&r, columns(), line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	const char *path = record_get(&r, "checkpoint");
	if (path && path[0])
		printf("checkpoint %s\n", path);
	trainctl_tell_verdict(dirs);
}

static void run_on_progress(const char *what, const char *path, uint64_t done, uint64_t total,
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
	run_say(LOG_LEVEL_INFO, text, NULL);
}

/* ---- the job ---- */

static void tell_early(const struct job *job, const struct dirs *dirs, const char *ended)
{
	char text[SPENT_TEXT_MAX];
	spent_text(job, dirs, ended, text);
	if (text[0])
		run_say(LOG_LEVEL_INFO, text, NULL);
}

/* A finished job: prints its summary again, with the exit status of that time. 0: there is
 * something to do. */
static int finished_before(const struct job *job, const struct dirs *dirs, int *status,
			   struct error *err)
{
	static struct condition c;
	if (condition_read(&c, dirs, err) != 0) {
		*status = -1;
		return error_is_lack(err);
	}
	if (!c.is_finished || spent_goes_on(job, dirs, c.ended))
		return 0;
	*status = prepare_finished(job, dirs, err);
	if (*status != 0)
		return 1;
	fprintf(stderr, PROGRAM ": this job has been finished; --fresh starts it over\n");
	tell_early(job, dirs, c.ended);
	show_summary(c.summary, dirs);
	*status = c.status;
	return 1;
}

static void say_tested(const struct host_test *t)
{
	if (t->why[0])
		log_say(LOG_LEVEL_WARNING, "host %s is bad, as the self-test says: %s", t->host,
			t->why);
}

static int run_test_hosts(struct hosts *hosts, const struct hosts_environment *env,
			  struct error *err)
{
	return hosts_test(hosts, env, say_tested, err) < 0 ? -1 : 0;
}

/* While nodes run, missing hosts are only reported, and waited for less long: the other nodes must
 * be supervised. */
static int look_at_hosts(const struct job *job, const struct dirs *dirs, struct hosts *hosts,
			 struct error *err)
{
	char id[OPTION_ID_MAX], text[HOSTS_TEXT_MAX];
	struct hosts_environment env;
	int running = prepare_running(dirs, id);
	trainctl_hosts_environment(&env);
	int result = hosts_look(hosts, job, dirs, &env,
				deadline_seconds(running ? DEADLINE_ADOPT : DEADLINE_HOSTS), err);
	for (size_t i = 0; result == 0 && hosts->count > 1 && i < hosts->count; i++) {
		hosts_text(hosts, i, text);
		log_say(LOG_LEVEL_INFO, "host %s", text);
	}
	if (result == 0 && !running && strcmp(job->self_test, "on") == 0)
		result = run_test_hosts(hosts, &env, err);
	return result == 0 || running ? 0 : -1;
}

static int look_at_room(const struct job *job, const struct dirs *dirs, const struct hosts *hosts,
			const struct prepared *ready, struct error *err)
{
	char id[OPTION_ID_MAX];
	uint64_t bytes;
	struct hosts_environment env;
	if (hosts->count == 1 || prepare_running(dirs, id))
		return 0;
	trainctl_hosts_environment(&env);
	if (hosts_checkpoint_bytes(job, dirs, ready->samples, &bytes, err) != 0)
		return -1;
	return hosts_room(hosts, dirs, bytes, &env, err);
}

static int make_ready(const struct job *job, const struct dirs *dirs, const struct hosts *hosts,
		      const struct trainctl_call *call, struct prepared *ready, struct error *err)
{
	char id[OPTION_ID_MAX];
	int running = prepare_running(dirs, id);
	if (!running && metrics_try(job, err) != 0)
		return -1;
	if (call->fresh && running)
		return error_set(err, ERROR_TEMPFAIL, dirs->state,
				 "--fresh starts over, but %s of this job still runs: stop the job "
				 "first", id);
	const struct prepare_options options = {
		.running = running,
		.fresh = call->fresh,
		.memory_mib = !running && hosts->count == 1 ? hosts->place[0].memory_mib : 0,
		.progress = run_on_progress};
	int result = prepare(job, dirs, &options, ready, err);
	terminal_clear();
	return result;
}

/* No restriction if the user has named interfaces to Open MPI, or if only Slurm knows the hosts,
 * which may then be in any network. */
static void find_network(const struct job *job, const struct hosts *hosts, char *network)
{
	static const char *const said[] = {
		"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude",
		"OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_oob_tcp_if_exclude"};
	network[0] = '\0';
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (getenv(said[i]))
			return;
	if (hosts->count > 1 && job->more_hosts == 0)
		hosts_network(hosts, network);
	if (network[0])
		log_say(LOG_LEVEL_INFO, "between hosts: %s, no other network", network);
}

static int supervise(const struct job *job, const struct dirs *dirs, const struct hosts *hosts,
		     const struct prepared *ready, struct error *err)
{
	char path[DIRS_PATH_MAX], history[DIRS_PATH_MAX], network[HOSTS_NETWORK_MAX];
	char id[OPTION_ID_MAX];
	struct record r;
	int has_history = trainctl_history(history) == 0;
	struct supervisor_options options = {.job = job,
					     .dirs = *dirs,
					     .samples = ready->samples,
					     .bad_rows = ready->bad_rows,
					     .rows = ready->rows,
					     .hosts = hosts,
					     .network = network,
					     .search_path = getenv("PATH"),
					     .omp_threads = getenv("OMP_NUM_THREADS"),
					     .notify_socket = getenv("NOTIFY_SOCKET"),
					     .history = has_history ? history : NULL,
					     .row_seconds = row_seconds,
					     .row = run_on_row,
					     .tick = run_on_tick};
	static struct supervisor_result result;
	find_network(job, hosts, network);
	if (!prepare_running(dirs, id))
		trainctl_tell_hosts(job, hosts);
	/* MAX_TIME or EVAL patience ended the last run: this one goes on. */
	dirs_state(dirs, "summary", path);
	unlink(path);
	printed_begin(job, dirs);
	if (supervisor_run(&options, &result, err) != 0)
		return -1;
	show_printed();
	if (record_first(&r, result.summary, strlen(result.summary), NULL) == 0)
		tell_early(job, dirs, record_get(&r, "ended") ? record_get(&r, "ended") : "");
	show_summary(result.summary, dirs);
	return result.status;
}

/* For a user whose new run failed before it made a checkpoint. */
static void tell_kept(const struct dirs *dirs)
{
	char path[DIRS_PATH_MAX];
	if (fresh_kept(dirs, path))
		log_say(LOG_LEVEL_INFO,
			"the earlier run is kept in %s, its model in %s/checkpoints", path,
			path);
}

static int locked(const struct job *job, const struct dirs *dirs, struct hosts *hosts,
		  const struct trainctl_call *call, struct error *err)
{
	int lock, result = -1;
	struct prepared ready;
	struct dirs_environment env;
	if (holder_take(dirs, job->name, &lock, err) != 0) {
		if (err->code == ERROR_TEMPFAIL)
			trainctl_runs_already(job, dirs, call, err);
		return -1;
	}
	trainctl_environment(&env);
	jobs_note(dirs, job->name, &env);
	if (prepare_settle(dirs, deadline_seconds(DEADLINE_ADOPT), err) != 0 ||
	    fresh_recover(dirs, err) != 0 || dirs_make(dirs, err) != 0)
		result = -1;
	else if (!call->fresh && finished_before(job, dirs, &result, err))
		;
	else if (look_at_hosts(job, dirs, hosts, err) == 0 &&
		 make_ready(job, dirs, hosts, call, &ready, err) == 0) {
		result = look_at_room(job, dirs, hosts, &ready, err);
		if (result == 0)
			result = supervise(job, dirs, hosts, &ready, err);
		free(ready.rows);
		if (result != 0)
			tell_kept(dirs);
	}
	close(lock);
	return result;
}

static int run_job(const char *path, const struct trainctl_call *call, struct error *err)
{
	struct job job;
	struct dirs dirs;
	struct hosts hosts = {0};
	if (trainctl_begin(&job, &dirs, path, call, err) != 0)
		return -1;
	int result = trainctl_hosts(&hosts, &job, err);
	if (result == 0)
		result = dirs_make(&dirs, err);
	if (result == 0)
		result = locked(&job, &dirs, &hosts, call, err);
	hosts_free(&hosts);
	job_free(&job);
	return result;
}

/* Behind the options: the deadlines. */
static void run_fill_help(char *out, size_t max)
{
	size_t at = (size_t)snprintf(out, max, "Deadlines:\n");
	deadline_text(out + at, max - at);
	at = strlen(out);
	snprintf(out + at, max - at,
			       "\n  %-12s %4g s  until a client has completed a request, and 1 s "
			       "more for each MiB; then its connection is closed",
			       "request", SERVER_BEGUN_SECONDS);
}

int trainctl_run(int argc, char **argv)
{
	static struct trainctl_call call;
	char more[4096];
	run_fill_help(more, sizeof more);
	const struct option_row rows[] = {
		TRAINCTL_ROWS_CALL(&call),
		{.name = "rows", .kind = OPTION_SECONDS, .target = &row_seconds,
		 .arg = "S", .help = "seconds between rows, after the first ones", .min = 0.1,
		 .max = 1e6},
		{0}};
	struct option_table table = {NAME, "JOB.env [OPTION]...",
				     "Runs a job until its end: starts it, or goes on with it.",
				     rows, more};
	struct error err;
	const char *path;
	int shown = trainctl_parse(&table, argc, argv, "job file", &path, &err);
	for (int i = 1; i < argc && shown == -1; i++)
		if (strncmp(argv[i], "--report-every", strlen("--report-every")) == 0)
			error_set(&err, ERROR_USAGE, NULL, "--report-every is --rows now");
	cmd_parsed(PROGRAM, shown, &err);
	screen.terminal = terminal_open();
	screen.shown = clock_mono();
	log_set_sink(run_say, NULL, LOG_LEVEL_INFO);
	int result = run_job(path, &call, &err);
	terminal_clear();
	return result < 0 ? cmd_fail(PROGRAM, &err) : result;
}
