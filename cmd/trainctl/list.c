/* trainctl list: all jobs of this user, by what their state directories tell; and what status says
 * of one that does not answer. Nobody is asked, so nothing is waited for. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "job/condition.h"
#include "job/jobs.h"
#include "screen/summary.h"

#include <math.h>
#include <unistd.h>

static void put_record(const char *type, const struct condition *c, const struct dirs *dirs)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, type);
	record_add(&o, "name", c->name);
	record_add(&o, "state", condition_name(c->is));
	record_add_seconds(&o, "since", c->since);
	record_add_u64(&o, "samples-done", c->samples_done);
	record_add_u64(&o, "samples", c->samples);
	if (c->is == CONDITION_RUNNING)
		record_add_u64(&o, "pid", (uint64_t)c->pid);
	if (c->is == CONDITION_STOPPED || c->is == CONDITION_FAILED || c->is == CONDITION_DONE)
		record_add_u64(&o, "exit", (uint64_t)c->status);
	if (c->is == CONDITION_DONE && c->ended[0])
		record_add(&o, "ended", c->ended);
	if (c->node[0])
		record_add(&o, "node", c->node);
	record_add(&o, "run-dir", c->run);
	record_add(&o, "state-dir", dirs->state);
	if (record_end(&o, NULL) > 0)
		fputs(line, stdout);
}

/* ---- list ---- */

struct column_widths {
	int name, state, done;
};

static void done_text(const struct condition *c, char out[16])
{
	double part = c->samples > 0 ? (double)c->samples_done / (double)c->samples : NAN;
	if (isnan(part))
		snprintf(out, 16, "-");
	else /* 100% is all of them */
		snprintf(out, 16, "%d%%", (int)(100 * fmin(part, 1)));
}

static void put_row(const struct condition *c, const struct dirs *dirs,
		    const struct column_widths *w)
{
	char done[16], since[32];
	done_text(c, done);
	trainctl_time(c->since, since);
	printf("%-*s  %-*s  %*s  %-19s  %s\n", w->name, c->name, w->state, condition_name(c->is),
	       w->done, done, since, dirs->state);
}

static int list(struct error *err)
{
	struct dirs_environment env;
	struct jobs jobs;
	struct dirs dirs;
	static struct condition c;
	struct column_widths w = {3, 7, 4};
	int columns = isatty(STDOUT_FILENO), rows = 0;
	trainctl_environment(&env);
	if (jobs_list(&jobs, &env, err) != 0)
		return -1;
	for (size_t i = 0; i < jobs.count; i++)
		if ((int)strlen(jobs.entry[i].name) > w.name)
			w.name = (int)strlen(jobs.entry[i].name);
	for (size_t i = 0; i < jobs.count; i++) {
		snprintf(dirs.state, sizeof dirs.state, "%s", jobs.entry[i].state);
		if (condition_read(&c, &dirs, NULL) != 0)
			continue; /* it has just gone */
		snprintf(c.name, sizeof c.name, "%s", jobs.entry[i].name);
		if (columns && rows++ == 0)
			printf("%-*s  %-*s  %*s  %-19s  %s\n", w.name, "JOB", w.state, "STATE",
			       w.done, "DONE", "SINCE", "STATE DIRECTORY");
		if (columns)
			put_row(&c, &dirs, &w);
		else
			put_record("job", &c, &dirs);
	}
	if (columns && rows == 0)
		fprintf(stderr, PROGRAM ": you have no jobs yet; `trainctl run JOB.env` starts one\n");
	jobs_free(&jobs);
	return 0;
}

int trainctl_list(int argc, char **argv)
{
	const struct option_row rows[] = {{0}};
	const struct option_table table = {
		PROGRAM " list", "",
		"Shows all your jobs: how each is, since when, how far it came, and where its "
		"state is. On a terminal as columns, elsewhere as records.",
		rows, NULL};
	const char *none;
	struct error err;
	int shown = trainctl_parse(&table, argc, argv, NULL, &none, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != OPTION_GO || list(&err) != 0)
		return cmd_fail(PROGRAM, &err);
	return 0;
}

/* ---- status of one that does not answer ---- */

static void tell_end(const struct condition *c)
{
	struct record r;
	struct screen_line line[SUMMARY_LINES];
	if (record_first(&r, c->summary, strlen(c->summary), NULL) != 0)
		return;
	size_t count = summary_lines(&r, terminal_width(), line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	if (record_get(&r, "checkpoint") && record_get(&r, "checkpoint")[0])
		printf("checkpoint %s\n", record_get(&r, "checkpoint"));
}

static void tell_words(const struct condition *c, const struct dirs *dirs)
{
	char since[32], done[16];
	trainctl_time(c->since, since);
	done_text(c, done);
	if (c->is == CONDITION_RUNNING)
		printf("%s: prepares its data since %s, pid %ld; it does not answer yet\n", c->name,
		       since, (long)c->pid);
	else if (c->summary[0]) {
		tell_end(c);
		printf("ended      %s, %s of its samples, exit status %d\n", since, done, c->status);
	} else
		printf("%s: %s (%s), %s of its samples\n", c->name, condition_words(c->is), since,
		       done);
	if (c->node[0])
		printf("nodes      still run, %s for one; `trainctl run` takes them over\n", c->node);
	printf("state      %s\n", dirs->state);
}

int trainctl_show_condition(const struct condition *c, const struct dirs *dirs)
{
	if (terminal_open() != TERMINAL_NONE)
		tell_words(c, dirs);
	else { /* a job record is of one that answers */
		put_record(c->is == CONDITION_RUNNING ? "preparing" : "ended", c, dirs);
		if (c->is != CONDITION_RUNNING)
			fputs(c->summary, stdout);
	}
	return ERROR_NEGATIVE;
}
