/* trainctl compare: two jobs, or two runs of one, beside each other: how long they took and for
 * what, what was decided, the scores, and the keys of their job files that differ. It reads only
 * their states, so they may run, be over, or have died. */
#include "cmd/trainctl/report.h"

#include "base/grow.h"
#include "base/human.h"
#include "base/fs.h"
#include "base/number.h"
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "job/jobs.h"
#include "job/jobtext.h"
#include "record/record.h"
#include "screen/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_FILE_MAX (64u << 20)
#define NAME_COLUMNS 32

struct side {
	struct dirs dirs;
	struct report report;
	struct side_key {
		char *name, *value;
	} *key; /* of STATE/job.env */
	size_t keys, room;
};

/* ---- keys ---- */

static int side_take_key(const char *key, const char *value, size_t line, void *arg,
			 struct error *err)
{
	struct side *s = arg;
	(void)line;
	if (GROW(s->key, s->room, s->keys + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	struct side_key *k = &s->key[s->keys++];
	*k = (struct side_key){strdup(key), strdup(value)};
	return k->name && k->value ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

/* The file of a job that was never prepared is not there. */
static int side_read_keys(struct side *s, struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	size_t len;
	dirs_state(&s->dirs, "job.env", path);
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return 0;
	if (fs_read_file(path, JOB_FILE_MAX, &text, &len, err) != 0)
		return -1;
	int result = jobtext_parse(path, text, len, side_take_key, s, err);
	free(text);
	return result;
}

static const char *side_value(const struct side *s, const char *name)
{
	for (size_t i = s->keys; i > 0; i--)
		if (strcmp(s->key[i - 1].name, name) == 0)
			return s->key[i - 1].value;
	return "";
}

/* ---- a job ---- */

/* A name; or, with a slash, a state directory or a run directory. */
static int side_open(struct side *s, const char *what, struct error *err)
{
	struct dirs_environment env;
	char log[DIRS_PATH_MAX];
	int is_path = strchr(what, '/') != NULL;
	snprintf(log, sizeof log, "%s/job.log", what);
	int is_state = is_path && access(log, F_OK) == 0;
	trainctl_environment(&env);
	if (jobs_find(&s->dirs, is_path ? NULL : what, is_path && !is_state ? what : NULL,
		      is_state ? what : NULL, &env, err) != 0 ||
	    jobs_need_state(&s->dirs, is_path ? NULL : what, err) != 0 ||
	    report_read(&s->report, &s->dirs, NULL, err) != 0)
		return -1;
	return side_read_keys(s, err);
}

static void side_free(struct side *s)
{
	for (size_t i = 0; i < s->keys; i++) {
		free(s->key[i].name);
		free(s->key[i].value);
	}
	free(s->key);
	report_free(&s->report);
}

/* ---- beside each other ---- */

enum compare_kind { SECONDS, COUNT, SCORE };

/* table: NULL: as records. */
static void compare_row(struct grid *table, const char *name, const char *text,
			enum compare_kind kind, double a, double b)
{
	char cell[3][HUMAN_MAX] = {"-", "-", ""};
	if (isnan(a) && isnan(b))
		return;
	if (!table) {
		record_print(stdout, RECORD("compare", F("name", name), F_BRIEF("a", a),
					    F_BRIEF("b", b)));
		return;
	}
	for (int i = 0; i < 2; i++) {
		double x = i ? b : a;
		if (kind == SECONDS && !isnan(x))
			human_time(x, cell[i]);
		else if (kind == COUNT)
			human_count(x, cell[i]);
		else
			human_real(x, 4, cell[i]);
	}
	if (a > 0 && !isnan(b) && kind != SCORE)
		human_real(b / a, 2, cell[2]);
	grid_add(table, (const char *const[]){text, cell[0], cell[1], cell[2]});
}

static double jct_of(const struct account *a)
{
	double jct = NAN;
	number_real(a->jct, 0, 1e300, &jct, NULL, NULL);
	return jct;
}

static void compare_jobs(struct grid *table, const struct report *a, const struct report *b)
{
	static const struct {
		const char *name, *text;
		size_t at;
	} count[] = {{"decisions", "decisions", offsetof(struct account, decisions)},
		     {"actions", "actions", offsetof(struct account, actions)},
		     {"restarts", "restarts", offsetof(struct account, restarts)},
		     {"rollbacks", "times back to a checkpoint", offsetof(struct account, rollbacks)}};
	compare_row(table, "seconds", "job time", SECONDS, a->cost.seconds, b->cost.seconds);
	compare_row(table, "jct", "from the first shard to the last (jct)", SECONDS, jct_of(a->a),
		    jct_of(b->a));
	compare_row(table, "samples-per-second", "samples/s while workers train", COUNT, a->cost.speed,
		    b->cost.speed);
	for (int k = 0; k < COST_KINDS; k++)
		if (a->cost.of[k] > 0 || b->cost.of[k] > 0)
			compare_row(table, cost_name[k], cost_text[k], SECONDS, a->cost.of[k],
				    b->cost.of[k]);
	for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
		const uint64_t *x = (const void *)((const char *)a->a + count[i].at);
		const uint64_t *y = (const void *)((const char *)b->a + count[i].at);
		compare_row(table, count[i].name, count[i].text, COUNT, (double)*x, (double)*y);
	}
	for (int k = 0; k < SCORES; k++)
		compare_row(table, score_names[k].field, score_names[k].words, SCORE, a->a->score[k],
			    b->a->score[k]);
}

static void compare_put_value(const char *name, const char *value)
{
	char clean[256];
	text_clean(value, clean, sizeof clean);
	printf("  %-12s %s\n", name, clean[0] ? clean : "(default)");
}

/* Of the keys that differ, those of a; or, only_b, those that a has not. */
static void compare_put_keys(const struct side *a, const struct side *b, int only_b, int words)
{
	const struct side *from = only_b ? b : a;
	for (size_t i = 0; a->keys > 0 && b->keys > 0 && i < from->keys; i++) {
		const char *name = from->key[i].name;
		const char *x = side_value(a, name), *y = side_value(b, name);
		if (strcmp(name, "JOB") == 0 || strcmp(x, y) == 0 || (only_b && x[0]))
			continue;
		if (!words) {
			record_print(stdout, RECORD("differs", F("key", name), F("a", x), F("b", y)));
			continue;
		}
		compare_put_value(name, x);
		compare_put_value("", y);
	}
}

static void compare_words(struct side side[2])
{
	char a[NAME_COLUMNS + 1], b[NAME_COLUMNS + 1], line[1024];
	const struct grid_column column[] = {{.head = "", .least = 16, .words = 1},
					     {.head = a, .align = GRID_RIGHT},
					     {.head = b, .align = GRID_RIGHT},
					     {.head = "times", .rank = 1, .align = GRID_RIGHT}};
	struct grid table;
	size_t layout[GRID_MAX], width = terminal_width();
	text_name(side[0].report.a->job, NAME_COLUMNS, a, sizeof a);
	text_name(side[1].report.a->job, NAME_COLUMNS, b, sizeof b);
	grid_init(&table, column, 4);
	compare_jobs(&table, &side[0].report, &side[1].report);
	grid_layout(&table, width, layout);
	for (size_t i = 0; i <= table.rows; i++) {
		grid_line(&table, layout, i == 0 ? GRID_HEAD : i - 1, line, sizeof line);
		puts(line);
	}
	grid_free(&table);
	puts("\nKeys that differ");
	if (side[0].keys == 0 || side[1].keys == 0)
		puts("  not known: a job without STATE/job.env");
	compare_put_keys(&side[0], &side[1], 0, 1);
	compare_put_keys(&side[0], &side[1], 1, 1);
}

int trainctl_compare(int argc, char **argv)
{
	int records = 0, text = 0, first;
	const struct option_row rows[] = {
		TRAINCTL_ROW_RECORDS(&records), TRAINCTL_ROW_TEXT(&text), {0}};
	const struct option_table table = {
		PROGRAM " compare", "A B",
		"Shows two jobs beside each other: time and its causes, decisions, scores, and the "
		"keys that differ.\nA and B are names, or state or run directories, with a slash.",
		rows, NULL};
	static struct side side[2];
	struct error err;
	int result = option_parse(&table, argc, argv, &first, stdout, &err);
	if (result == OPTION_GO && argc - first != 2)
		result = error_set(&err, ERROR_USAGE, NULL, "two jobs are compared, not %d",
				   argc - first);
	cmd_parsed(PROGRAM, result, &err);
	for (int i = 0; i < 2 && result == 0; i++)
		result = side_open(&side[i], argv[first + i], &err);
	if (result == 0 && (text || (!records && terminal_open() != TERMINAL_NONE)))
		compare_words(side);
	else if (result == 0) {
		compare_jobs(NULL, &side[0].report, &side[1].report);
		compare_put_keys(&side[0], &side[1], 0, 0);
		compare_put_keys(&side[0], &side[1], 1, 0);
	}
	side_free(&side[0]);
	side_free(&side[1]);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
