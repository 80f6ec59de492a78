/* trainctl report: tells from a job's log why the job took so long: each decision with its reason,
 * each restart with its cost, and where the time went. It reads only the log, so the job may run,
 * be over, or have died. */
#include "cmd/trainctl/report.h"

#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "job/jobs.h"
#include "record/record.h"

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
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe has no end to wait for */
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

int report_read(struct report *p, const struct dirs *dirs, account_tell_fn *tell, struct error *err)
{
	char older[DIRS_PATH_MAX]; /* moved aside when it grew too large; often there is none */
	*p = (struct report){.a = NULL};
	dirs_state(dirs, "job.log", p->path);
	dirs_state(dirs, "job.log.1", older);
	if (account_new(&p->a, tell, NULL, err) != 0 ||
	    (access(older, F_OK) == 0 && report_take_file(p->a, older, err) != 0) ||
	    report_take_file(p->a, p->path, err) != 0)
		return -1;
	if (p->a->runs == 0)
		return error_set(err, ERROR_NEGATIVE, p->path, "no run has begun");
	account_end(p->a);
	return cost_of(p->a, &p->cost, err) != 0 ||
			       effect_list(p->a, &p->effect, &p->effects, err) != 0
		       ? -1
		       : report_nodes_of(p->a, &p->nodes, err);
}

void report_free(struct report *p)
{
	free(p->effect);
	free(p->nodes.node);
	free(p->nodes.value);
	account_free(p->a);
}

/* ---- what is wanted ---- */

struct wanted {
	int records;
	const char *html, *png;
};

static int report_make_all(const struct wanted *w, const struct report *p, struct error *err)
{
	int result = 0;
	if (w->records) {
		report_put_times(p->a);
		report_put_nodes(p->a);
		report_put_links(p->a);
		put_values(p->a);
		report_put_verdict(p);
		put_report(p->a);
	}
	if (w->html)
		result = report_html(p, w->html, err);
	if (result == 0 && w->png)
		result = report_png(p, w->png, err);
	if (!w->html && !w->png && !w->records)
		report_text(p, 0);
	return result;
}

void trainctl_tell_verdict(const struct dirs *dirs)
{
	struct report p;
	if (report_read(&p, dirs, NULL, NULL) == 0)
		report_text(&p, 1);
	report_free(&p);
}

int trainctl_report(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *state_dir = NULL, *none;
	int text = 0;
	struct wanted w = {0};
	struct report p;
	const struct option_row rows[] = {
		TRAINCTL_ROWS_STATE(&job, &run_dir, &state_dir),
		TRAINCTL_ROW_RECORDS(&w.records),
		TRAINCTL_ROW_TEXT(&text),
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
	result = report_read(&p, &dirs, w.records ? report_print_line : NULL, &err);
	if (result == 0)
		result = report_make_all(&w, &p, &err);
	report_free(&p);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
