/* trainctl status of all jobs of this user, and of one job that does not answer, from their state
 * directories. No daemon is asked, so nothing is waited for. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "base/clock.h"
#include "base/human.h"
#include "job/condition.h"
#include "job/jobs.h"
#include "screen/grid.h"
#include "screen/summary.h"
#include "screen/text.h"

#include <math.h>

static void list_put_record(const char *type, const char *state, const struct condition *c,
			    const struct dirs *dirs)
{
	record_print(
		stdout,
		RECORD(type, F("name", c->name), F("state", state), F_SECONDS("since", c->since),
		       F("samples-done", c->samples_done), F("samples", c->samples),
		       c->is == CONDITION_RUNNING ? F("pid", (uint64_t)c->pid) : F_NONE,
		       (c->is == CONDITION_STOPPED || c->is == CONDITION_FAILED ||
			c->is == CONDITION_DONE)
			       ? F("exit", (uint64_t)c->status)
			       : F_NONE,
		       (c->is == CONDITION_DONE && c->ended[0]) ? F("ended", c->ended) : F_NONE,
		       c->node[0] ? F("node", c->node) : F_NONE, F("run-dir", c->run),
		       F("state-dir", dirs->state)));
}

static double list_part_of(const struct condition *c)
{
	return c->samples > 0 ? fmin((double)c->samples_done / (double)c->samples, 1) : NAN;
}

/* ---- all of them ---- */

#define DIRECTORY_LEAST 12 /* columns: a shorter name would be useless */

enum { JOB, STATE, DONE, SINCE, COLUMNS };
static const struct grid_column columns[COLUMNS] = {
	[JOB] = {.head = "JOB"},
	[STATE] = {.head = "STATE", .rank = 1},
	[DONE] = {.head = "DONE", .rank = 2, .align = GRID_RIGHT},
	[SINCE] = {.head = "SINCE", .rank = 3},
};

/* The time if it was today, else the day. */
static void since_text(double at, char out[32])
{
	char today[32];
	trainctl_time(at, out);
	trainctl_time(clock_epoch(), today);
	char *blank = strchr(out, ' ');
	if (!blank)
		return;
	size_t day = (size_t)(blank - out);
	if (strncmp(out, today, day) == 0)
		memmove(out, blank + 1, strlen(blank));
	else
		out[day] = '\0';
}

static void list_add_row(struct grid *table, const struct condition *c)
{
	char done[HUMAN_MAX], since[32];
	human_percent(list_part_of(c), done);
	since_text(c->since, since);
	const char *const cell[COLUMNS] = {c->name, condition_name(c->is), done, since};
	grid_add(table, cell);
}

/* state: a directory for each row, as far as there is room for it. */
static void list_put_rows(const struct grid *table, const struct jobs *jobs, const size_t *shown)
{
	size_t layout[GRID_MAX], width = terminal_width();
	grid_layout(table, width, layout);
	for (size_t i = 0; i <= table->rows; i++) {
		char text[1024], name[DIRS_MAX];
		const char *state = i == 0 ? "STATE DIRECTORY" : jobs->entry[shown[i - 1]].state;
		size_t used =
			grid_line(table, layout, i == 0 ? GRID_HEAD : i - 1, text, sizeof text);
		size_t at = GRID_GAP;
		for (size_t k = 0; k < COLUMNS; k++)
			at += layout[k] > 0 ? layout[k] + (k > 0 ? GRID_GAP : 0) : 0;
		if (width < at + DIRECTORY_LEAST) {
			puts(text);
			continue;
		}
		text_name(state, width - at, name, sizeof name);
		printf("%s%*s%s\n", text, (int)(at - used), "", name);
	}
}

int trainctl_list(struct error *err)
{
	struct dirs_environment env;
	struct jobs jobs;
	struct dirs dirs;
	struct grid table;
	static struct condition c;
	int people = terminal_open() != TERMINAL_NONE;
	trainctl_environment(&env);
	if (dirs_base(dirs.state, &env) != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "the environment has neither XDG_STATE_HOME nor HOME, so your jobs "
				 "can't be found");
	if (jobs_list(&jobs, &env, err) != 0)
		return -1;
	size_t *shown = calloc(jobs.count + 1, sizeof *shown);
	grid_init(&table, columns, COLUMNS);
	int result = shown ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < jobs.count; i++) {
		snprintf(dirs.state, sizeof dirs.state, "%s", jobs.entry[i].state);
		if (condition_read(&c, &dirs, err) != 0) {
			if (error_is_lack(err))
				jobs.lack = *err;
			continue; /* it has just gone */
		}
		snprintf(c.name, sizeof c.name, "%s", jobs.entry[i].name);
		if (!people) {
			list_put_record("job", condition_name(c.is), &c, &dirs);
			continue;
		}
		shown[table.rows] = i;
		list_add_row(&table, &c);
	}
	if (result == 0 && table.failed)
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0 && people && table.rows > 0)
		list_put_rows(&table, &jobs, shown);
	else if (result == 0 && people && !jobs.lack.code)
		fprintf(stderr,
			PROGRAM ": you have no jobs yet; `trainctl run JOB.env` starts one\n");
	if (result == 0 && jobs.lack.code) {
		*err = jobs.lack;
		result = -1;
	}
	grid_free(&table);
	free(shown);
	jobs_free(&jobs);
	return result;
}

/* ---- one that does not answer ---- */

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
	char since[32], done[HUMAN_MAX];
	trainctl_time(c->since, since);
	human_percent(list_part_of(c), done);
	if (c->is == CONDITION_RUNNING)
		printf("%s: has been preparing its data since %s, pid %ld; it does not answer "
		       "yet\n", c->name,
		       since, (long)c->pid);
	else if (c->summary[0]) {
		tell_end(c);
		printf("ended      %s, %s of its samples, exit status %d\n", since, done,
		       c->status);
	} else
		printf("%s: %s (%s), %s of its samples\n", c->name, condition_words(c->is), since,
		       done);
	if (c->node[0])
		printf("nodes      still run, %s for one; `trainctl run` takes them over\n",
		       c->node);
	printf("state      %s\n", dirs->state);
}

int trainctl_show_condition(const struct condition *c, const struct dirs *dirs)
{
	if (terminal_open() != TERMINAL_NONE)
		tell_words(c, dirs);
	else { /* a job record is of one that answers */
		if (c->is == CONDITION_RUNNING) /* not `running`, because scripts wait for that, and
						 * nothing trains yet */
			list_put_record("preparing", "preparing", c, dirs);
		else {
			list_put_record("ended", condition_name(c->is), c, dirs);
			fputs(c->summary, stdout);
		}
	}
	return ERROR_NEGATIVE;
}
