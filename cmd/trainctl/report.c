/* trainctl report: tells from a job's log why the job took so long: each decision with its reason,
 * each restart with its cost, and where the time went. It reads only the log, so the job may run,
 * be over, or have died. */
#include "cmd/trainctl/report.h"

#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "job/job.h"
#include "job/jobs.h"
#include "record/record.h"
#include "sim/copy.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

void trainctl_tell_torn(struct record_reader *in)
{
	if (record_reader_torn(in))
		fprintf(stderr,
			PROGRAM ": %s: the log ends in the middle of a line, which is left out\n",
			record_reader_place(in));
}

/* ---- as records ---- */

static void report_print_line(const char *line, void *arg)
{
	(void)arg;
	fputs(line, stdout);
}

static void report_put_times(const struct account *a)
{
	double all = account_seconds(a);
	for (size_t i = 0; i < a->phases; i++) {
		record_print(stdout, RECORD("time", F("phase", a->phase[i].name),
					    F_SECONDS("seconds", a->phase[i].seconds),
					    F_BRIEF("fraction",
						    all > 0 ? a->phase[i].seconds / all : NAN)));
	}
}

static void report_put_nodes(const struct account *a)
{
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		record_print(stdout,
			     RECORD("node", F("role", n->role), F("id", n->id),
				    F("restarts", n->restarts),
				    F_SECONDS("up", account_state_seconds(n, ACCOUNT_UP)),
				    F_SECONDS("starting",
					      account_state_seconds(n, ACCOUNT_STARTING) +
						      account_state_seconds(n, ACCOUNT_AGAIN)),
				    F_SECONDS("down", account_state_seconds(n, ACCOUNT_DOWN)),
				    F_BRIEF("busy", n->busy),
				    n->stale ? F("stale", n->stale) : F_NONE));
	}
}

static void report_put_links(const struct account *a)
{
	for (size_t i = 0; i < a->links; i++) {
		const struct account_link *l = &a->link[i];
		record_print(stdout, RECORD("link", F("host", l->host),
					    F_BRIEF("out", l->way[0].bytes / l->way[0].seconds),
					    F_BRIEF("in", l->way[1].bytes / l->way[1].seconds),
					    F_BRIEF("median", a->link_bytes / a->link_seconds),
					    F_REAL("sent-bytes", l->way[0].bytes),
					    F_REAL("received-bytes", l->way[1].bytes),
					    F_SECONDS("out-cost", l->way[0].cost),
					    F_SECONDS("in-cost", l->way[1].cost)));
	}
}

static void put_values(const struct account *a)
{
	for (size_t i = 0; i < a->reported_count; i++) {
		const struct account_reported *v = &a->reported[i];
		record_print(stdout,
			     RECORD("value", F("name", v->name), F_BRIEF("last", v->value[0]),
				    F_BRIEF("least", v->value[1]), F("least-at", v->iteration[1]),
				    F_BRIEF("most", v->value[2]), F("most-at", v->iteration[2])));
	}
}

static void put_report(const struct account *a)
{
	record_print(stdout, RECORD("report", F("job", a->job), F("state", a->state),
				    F("runs", a->runs), F_SECONDS("from", a->first_at),
				    F_SECONDS("seconds", account_seconds(a)), F("jct", a->jct),
				    F("samples", a->samples), F("decisions", a->decisions),
				    F("skipped", a->skipped), F("actions", a->actions),
				    F("refused", a->refused), F("restarts", a->restarts),
				    F("rollbacks", a->rollbacks), F("repeated", a->repeated),
				    F("checkpoints", a->checkpoints),
				    a->delay_known ? F("delay", a->delay[0]) : F_NONE,
				    a->delay_known ? F("delay-95", a->delay[1]) : F_NONE,
				    a->delay_known ? F("delay-most", a->delay[2]) : F_NONE,
				    a->delay_known ? F("stale", a->stale) : F_NONE,
				    a->fabric_saves[0] > 0
					    ? F_SECONDS("fabric-saves", a->fabric_saves[0])
					    : F_NONE,
				    a->fabric_saves[1] > 0
					    ? F_SECONDS("fabric-saved", a->fabric_saves[1])
					    : F_NONE,
				    a->scaled > 0 ? F("scaled", a->scaled) : F_NONE,
				    a->ooms > 0 ? F("ooms", a->ooms) : F_NONE,
				    a->spares > 0 ? F("spares-used", a->spares) : F_NONE,
				    a->rebalances > 0 ? F("rebalances", a->rebalances) : F_NONE,
				    a->rounds > 0 ? F("brain-rounds", a->rounds) : F_NONE,
				    a->rounds > 0 ? F("plans", a->plans) : F_NONE,
				    a->rounds > 0 ? F("plans-refused", a->plans_refused) : F_NONE));
}

/* ---- reading ---- */

static int report_take_file(struct account *a, const char *path, struct error *err)
{
	static struct record r;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, path, "out of memory");
	if (in)
		record_reader_of_log(in);
	while (got > 0) {
		got = record_read(in, &r, err);
		if (got == RECORD_ONE && account_take(a, &r, err) != 0)
			got = error_wrap(err, path);
	}
	if (got == RECORD_END)
		trainctl_tell_torn(in);
	record_reader_free(in);
	close(fd);
	return got;
}

/* older: the log that was moved aside when it grew too large; often there is none */
static int take_files(struct account *a, const char *older, const char *path, struct error *err)
{
	int got = access(older, F_OK) == 0 ? report_take_file(a, older, err) : 0;
	if (got == 0)
		got = report_take_file(a, path, err);
	if (got == 0 && a->runs == 0)
		got = error_set(err, ERROR_NEGATIVE, path, "no run has begun");
	if (got == 0)
		account_end(a);
	return got;
}

/* ---- what is wanted ---- */

struct wanted {
	int records, only_verdict, cluster;
	const char *html, *png;
	const char *older, *path; /* the log */
	const char *job;          /* the job file that ran */
};

static int report_put_cluster_line(const char *line, size_t len, void *arg, struct error *err)
{
	(void)arg;
	if (fwrite(line, 1, len, stdout) != len)
		return error_errno(err, ERROR_IO, "standard output", "can't be written");
	return 0;
}

static int report_cluster(const struct wanted *w, const struct account *a, struct error *err)
{
	struct job job;
	struct record_out *o = RECORD_BARE("job");
	if (job_init(&job, err) != 0)
		return -1;
	int result = job_read(&job, w->job, err);
	if (result == 0)
		result = job_finish(&job, w->job, err);
	if (result == 0) {
		uint64_t samples = a->epochs > 0 ? (uint64_t)a->total / a->epochs : 0;
		copy_job(o, &job, samples, a->replicas > 0 ? a->replicas : 1);
		record_print(stdout, o);
		result = copy_log(a, report_put_cluster_line, NULL, err);
	}
	job_free(&job);
	return result;
}

static int report_make_all(const struct wanted *w, const struct account *a, struct error *err)
{
	struct report p = {.a = a, .path = w->path};
	int result = cost_of(a, &p.cost, err);
	if (result == 0)
		result = effect_list(a, &p.effect, &p.effects, err);
	if (result == 0 && w->records) {
		report_put_times(a);
		report_put_nodes(a);
		report_put_links(a);
		put_values(a);
		report_put_verdict(&p);
		put_report(a);
	}
	if (result == 0 && w->html)
		result = report_html(&p, w->html, err);
	if (result == 0 && w->png)
		result = report_png(&p, w->png, err);
	if (result == 0 && !w->html && !w->png && !w->records)
		report_text(&p, w->only_verdict);
	free(p.effect);
	return result;
}

static int report_job(const struct wanted *w, struct error *err)
{
	struct account *a;
	int plain = w->records && !w->cluster;
	if (account_new(&a, plain ? report_print_line : NULL, NULL, err) != 0)
		return -1;
	int result = take_files(a, w->older, w->path, err);
	if (result == 0 && w->cluster)
		result = report_cluster(w, a, err);
	else if (result == 0)
		result = report_make_all(w, a, err);
	account_free(a);
	return result;
}

void trainctl_tell_verdict(const struct dirs *dirs)
{
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX];
	struct wanted w = {.only_verdict = 1, .path = path, .older = older};
	dirs_state(dirs, "job.log", path);
	dirs_state(dirs, "job.log.1", older);
	report_job(&w, NULL);
}

int trainctl_report(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *state_dir = NULL, *none;
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX], job_file[DIRS_PATH_MAX];
	int text = 0;
	struct wanted w = {.path = path, .older = older, .job = job_file};
	const struct option_row rows[] = {
		TRAINCTL_ROW_JOB(&job),
		TRAINCTL_ROW_RUN_DIR(&run_dir, "its run directory; state is in DIR/state"),
		TRAINCTL_ROW_STATE_DIR(&state_dir, "the job's state directory"),
		{.name = "records",
		 .kind = OPTION_FLAG,
		 .target = &w.records,
		 .help = "records also on a terminal"},
		{.name = "cluster",
		 .kind = OPTION_FLAG,
		 .target = &w.cluster,
		 .help = "the job and what it was measured to cost, as trainsim reads it"},
		{.name = "text",
		 .kind = OPTION_FLAG,
		 .target = &text,
		 .help = "words also on a pipe"},
		{.name = "html",
		 .kind = OPTION_TEXT,
		 .target = &w.html,
		 .arg = "FILE",
		 .help = "the report as one file, with pictures (needs gnuplot)"},
		{.name = "png",
		 .kind = OPTION_TEXT,
		 .target = &w.png,
		 .arg = "FILE.png|DIR",
		 .help = "the pictures, in one file or one file each (needs gnuplot)"},
		{0}};
	const struct option_table table = {
		PROGRAM " report", "-j NAME | --run-dir DIR | --state-dir DIR [OPTION]...",
		"Reports from a job's log how long the job took and why, what was decided, and "
		"what that changed.\nOn a terminal in words, elsewhere as records.",
		rows, NULL};
	struct dirs dirs;
	struct dirs_environment env;
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, NULL, &none, &err), &err);
	trainctl_environment(&env);
	int result = 0;
	if (w.records && (text || w.html || w.png))
		result = error_set(
			&err, ERROR_USAGE, NULL,
			"--records can't be combined with --text, --html or --png");
	if (result != 0 || jobs_find(&dirs, job, run_dir, state_dir, &env, &err) != 0 ||
	    jobs_need_state(&dirs, job, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	if (!text && !w.html && !w.png && !isatty(STDOUT_FILENO))
		w.records = 1;
	dirs_state(&dirs, "job.log", path);
	dirs_state(&dirs, "job.log.1", older);
	dirs_state(&dirs, "job.env", job_file);
	return report_job(&w, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
