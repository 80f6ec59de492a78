/* trainctl advise: what would have made a job shorter: from its log it is simulated again with one thing
 * changed each time (sim/advise.h). The job may run, be over, or have died. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "job/job.h"
#include "job/jobs.h"
#include "record/record.h"
#include "sim/advise.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t advise_stopped;

static void advise_on_signal(int signal)
{
	(void)signal;
	advise_stopped = 1;
}

/* ---- words ---- */

static const char *const advise_text[ADVISE_KINDS] = {
	[ADVISE_WORKER] = "%s as fast as the median worker",
	[ADVISE_HOST] = "workers of %s as fast as the median worker",
	[ADVISE_WORKERS] = "no worker slower than the median",
	[ADVISE_SERVER] = "%s as fast as the median server",
	[ADVISE_SERVERS] = "no server slower than the median",
	[ADVISE_BARRIER] = "pulls, pushes and commits in no time",
	[ADVISE_DATA] = "no waiting for rows",
	[ADVISE_RESTARTS] = "no worker ended or restarted",
	[ADVISE_CHECKPOINTS] = "no checkpoint while it trains",
	[ADVISE_SOLUTION] = "SOLUTION=%s",
	[ADVISE_SYNC] = "SYNC=%s",
	[ADVISE_NODES] = "WORKERS=%s",
	[ADVISE_BATCH] = "BATCH=%s",
	[ADVISE_CHECKPOINT] = "CHECKPOINT=%s"};

static void advise_words(const struct advice *a, char *out, size_t max)
{
	const char *text = advise_text[a->kind], *at = strstr(text, "%s");
	if (at)
		snprintf(out, max, "%.*s%s%s", (int)(at - text), text, a->what, at + 2);
	else
		snprintf(out, max, "%s", text);
}

/* "41 s (14 %)", "-3.2 s (-1 %)" */
static void advise_seconds(double seconds, double of, char *out, size_t max)
{
	char text[HUMAN_MAX];
	human_time(fabs(seconds), text);
	snprintf(out, max, "%s%s (%s%.0f %%)", seconds < 0 ? "-" : "", text, seconds < 0 ? "-" : "",
		 100 * fabs(seconds) / of);
}

static void advise_print(const struct advice_list *l, const struct advice *a)
{
	char words[160], saves[60], only[60] = "", error[HUMAN_MAX];
	advise_words(a, words, sizeof words);
	if (isnan(a->saves)) {
		printf("  %-46s %16s\n", words, "not known");
		return;
	}
	advise_seconds(a->saves, l->real, saves, sizeof saves);
	if (!isnan(a->only))
		advise_seconds(a->only, l->real, only, sizeof only);
	human_time(a->error, error);
	printf("  %-46s %16s %8s %16s%s\n", words, saves, error, only,
	       advise_is_nothing(a) ? "  no difference" : "");
}

static void advise_tell(const struct advice_list *l)
{
	const struct advice *first = advise_first(l);
	char words[160], saves[HUMAN_MAX], of[HUMAN_MAX], error[HUMAN_MAX], ideal[HUMAN_MAX];
	human_time(l->real, of);
	human_time(advise_error(l), error);
	human_time(l->ideal, ideal);
	if (first) {
		advise_words(first, words, sizeof words);
		printf("%s: %s: %s of %s, simulated\n", advise_is_machine(first->kind) ? "machine" : "job, no machine",
		       words, human_time(first->saves, saves), of);
	} else {
		printf("job, no machine: nothing that was looked at cost much of %s\n", of);
	}
	if (l->left_out > 0)
		printf("This is the end of a long job: %s of training before it are left out.\n",
		       human_time(l->left_out, words));
	printf("Simulated as it was, it takes %s more or less; without all suspects it takes %s.\n\n",
	       error, ideal);
	printf("%-48s %16s %8s %16s\n", "Suspects: without", "it saves", "+-", "alone it costs");
	for (size_t i = 0; i < l->suspects; i++)
		advise_print(l, &l->advice[i]);
	printf("\n%-48s %16s %8s\n", "Options: with", "it saves", "+-");
	int untold = 0;
	for (size_t i = l->suspects; i < l->count; i++) {
		advise_print(l, &l->advice[i]);
		untold |= isnan(l->advice[i].saves);
	}
	if (untold)
		printf("\nTo know what antdt-dd would do, the log needs devices that were measured: SOLUTION profile:on\n");
}

/* ---- records ---- */

static void advise_put_records(const struct advice_list *l, const char *job)
{
	const struct advice *first = advise_first(l);
	record_print(stdout, RECORD("advice", F("job", job),
				    F("is", first && advise_is_machine(first->kind) ? "machine" : "job"),
				    F("kind", first ? advise_name[first->kind] : ""),
				    F("what", first ? (const char *)first->what : ""),
				    F_SECONDS("saves", first ? first->saves : 0),
				    F_SECONDS("of", l->real), F_SECONDS("simulated", l->simulated),
				    F_SECONDS("ideal", l->ideal), F_SECONDS("error", advise_error(l)),
				    l->left_out > 0 ? F_SECONDS("left-out", l->left_out) : F_NONE));
	for (size_t i = 0; i < l->count; i++) {
		const struct advice *a = &l->advice[i];
		record_print(stdout, RECORD(i < l->suspects ? "suspect" : "option",
					    F("kind", advise_name[a->kind]), F("what", (const char *)a->what),
					    F_SECONDS("saves", a->saves), F_SECONDS("error", a->error),
					    isnan(a->only) ? F_NONE : F_SECONDS("only", a->only)));
	}
}

static int advise_put_line(const char *line, size_t len, void *arg, struct error *err)
{
	(void)arg;
	if (fwrite(line, 1, len, stdout) != len)
		return error_errno(err, ERROR_IO, "standard output", "can't be written");
	return 0;
}

static int advise_put_cluster(const struct account *a, const struct job *job, struct error *err)
{
	struct copy c;
	if (copy_of(&c, a, job, err) != 0)
		return -1;
	struct job as = *job;
	copy_first(&c, &as);
	uint64_t all = a->epochs > 0 && !(c.left_out > 0) ? (uint64_t)a->total / a->epochs : c.samples;
	int result = copy_put(&c, &as, all, a->replicas > 0 ? a->replicas : 1, advise_put_line, NULL, err);
	copy_free(&c);
	return result;
}

/* ---- the command ---- */

struct advise_wanted {
	int records, cluster;
};

static int advise_job(const struct advise_wanted *w, const struct account *a, const struct job *job,
		      struct error *err)
{
	struct advice_list list;
	if (strcmp(a->job, job->name) != 0)
		return error_set(err, ERROR_DATA, NULL, "the log is of job %s, its job file of %s", a->job, job->name);
	if (w->cluster)
		return advise_put_cluster(a, job, err);
	const struct sigaction action = {.sa_handler = advise_on_signal};
	sigaction(SIGINT, &action, NULL);
	if (advise(&list, a, job, &advise_stopped, err) != 0)
		return -1;
	if (w->records)
		advise_put_records(&list, a->job);
	else
		advise_tell(&list);
	advise_free(&list);
	return 0;
}

/* The job file as it was resolved when the job ran. */
static int advise_read_job(struct job *job, const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, "job.env", path);
	if (job_init(job, err) != 0)
		return -1;
	if (job_read(job, path, err) == 0 && job_finish(job, path, err) == 0)
		return 0;
	job_free(job);
	return -1;
}

int trainctl_advise(int argc, char **argv)
{
	const char *name = NULL, *run_dir = NULL, *state_dir = NULL, *none;
	struct advise_wanted w = {0};
	const struct option_row rows[] = {
		TRAINCTL_ROWS_STATE(&name, &run_dir, &state_dir),
		TRAINCTL_ROW_RECORDS(&w.records),
		{.name = "cluster",
		 .kind = OPTION_FLAG,
		 .target = &w.cluster,
		 .help = "print the job and what it was measured to cost, as trainsim reads it"},
		{0}};
	const struct option_table table = {
		PROGRAM " advise", "-j NAME | --run-dir DIR | --state-dir DIR [OPTION]...",
		"Says what made a job long, machine or job, and what would have made it shorter: from "
		"its log it\nis simulated again with one thing changed each time. On a terminal in words, "
		"elsewhere as records.",
		rows, NULL};
	struct dirs dirs;
	struct dirs_environment env;
	struct report report = {.a = NULL};
	struct job job;
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, NULL, &none, &err), &err);
	trainctl_environment(&env);
	if (jobs_find(&dirs, name, run_dir, state_dir, &env, &err) != 0 ||
	    jobs_need_state(&dirs, name, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	w.records |= !isatty(STDOUT_FILENO);
	int result = report_read(&report, &dirs, NULL, &err);
	if (result == 0 && (result = advise_read_job(&job, &dirs, &err)) == 0) {
		result = advise_job(&w, report.a, &job, &err);
		job_free(&job);
	}
	report_free(&report);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
