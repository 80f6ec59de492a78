/*
 * trainctl solve: a solution as a filter over one snapshot, or again over those of a log
 * (solve_log.c). The decision itself is lib/solve, or a person's executable.
 */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/fs.h"
#include "record/record.h"
#include "solve/solution.h"

#include <unistd.h>

void trainctl_solutions(char out[TRAINCTL_SOLUTIONS_MAX])
{
	size_t at = 0;
	for (const struct solution *s = solution_table(); s->name && at < TRAINCTL_SOLUTIONS_MAX;
	     s++)
		at += (size_t)snprintf(out + at, TRAINCTL_SOLUTIONS_MAX - at, "%s%s",
				       at > 0 ? " " : "", s->name);
}

struct filter {
	const char *name;
	const struct solution *built_in; /* NULL: an executable */
	struct option_list set;
	struct solution_options options;
};

static int put_action(const struct action *a, void *arg, struct error *err)
{
	char line[RECORD_LINE_MAX];
	(void)arg;
	(void)err;
	action_format(a, line, sizeof line);
	fputs(line, stdout);
	return 0;
}

static int find_solution(struct filter *f, struct error *err)
{
	solution_options_init(&f->options);
	f->built_in = solution_find(f->name);
	if (!f->built_in && !fs_is_program(f->name)) {
		char known[TRAINCTL_SOLUTIONS_MAX];
		trainctl_solutions(known);
		return error_set(err, ERROR_USAGE, f->name, "is no solution (%s) and no executable",
				 known);
	}
	for (size_t i = 0; f->built_in && i < f->set.count; i++)
		if (solution_options_set(&f->options, f->set.item[i], err) != 0)
			return -1;
	solution_options_name(&f->options, f->name);
	return 0;
}

void trainctl_solution_path(const char *name, char path[DIRS_PATH_MAX])
{
	snprintf(path, DIRS_PATH_MAX, "%s%s", strchr(name, '/') ? "" : "./", name);
}

/* Replaces this process by an executable: same stdin, same stdout, each KEY=VALUE as an
 * argument. */
static int solve_become(const struct filter *f, struct error *err)
{
	char path[DIRS_PATH_MAX];
	char *argv[OPTION_LIST_MAX + 2];
	size_t n = 0;
	trainctl_solution_path(f->name, path);
	argv[n++] = path;
	for (size_t i = 0; i < f->set.count; i++)
		argv[n++] = (char *)(size_t)f->set.item[i];
	argv[n] = NULL;
	execv(path, argv);
	return error_errno(err, ERROR_CONFIG, f->name, "can't be run");
}

/* The last warning, so that a log gives each warning only once. */
static char told[SNAPSHOT_VALUE_MAX];

int trainctl_decide(const struct solution *solution, const struct solution_options *options,
		    const struct snapshot *s, const char *file, struct error *err)
{
	const struct snapshot_info *wrong;
	for (size_t i = 0; (wrong = snapshot_info_wrong(s, &i));) {
		if (strcmp(wrong->value, told) != 0)
			fprintf(stderr,
				PROGRAM ": %s:%llu: info name=%s: '%.80s' is not a number, and "
					"counts as unknown\n",
				file, (unsigned long long)wrong->line, wrong->name, wrong->value);
		snprintf(told, sizeof told, "%s", wrong->value);
	}
	return solution_decide(solution, s, options, put_action, NULL, err);
}

/* One snapshot, to its end. */
static int solve_snapshots(const struct filter *f, struct error *err)
{
	struct snapshot s;
	static struct record r;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	snapshot_init(&s);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, "stdin", "out of memory");
	while (got > 0) {
		got = record_read(in, &r, err);
		s.line = record_reader_line(in);
		if (got == RECORD_ONE && snapshot_add(&s, &r, err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got == 0 && trainctl_decide(f->built_in, &f->options, &s, "stdin", err) != 0)
		got = err->place[0] ? -1 : error_wrap(err, "stdin");
	snapshot_clear(&s);
	record_reader_free(in);
	return got;
}

/* The names and the options, from their tables. */
static void solve_fill_help(char *out, size_t max)
{
	const struct solution_option *o;
	size_t at = (size_t)snprintf(out, max, "NAME is an executable, or:");
	for (const struct solution *s = solution_table(); s->name && at < max; s++)
		at += (size_t)snprintf(out + at, max - at, "\n  %-10s  %s", s->name, s->about);
	for (size_t i = 0; at < max && (o = solution_option(i)); i++)
		at += (size_t)snprintf(out + at, max - at, "%s\n  %-7s  %-16s  %s%s%s%s",
				       i == 0 ? "\n\nKEYs, and those of a job file:" : "", o->key,
				       o->job_key, o->help, o->given[0] ? " (" : "", o->given,
				       o->given[0] ? ")" : "");
}

int trainctl_solve(int argc, char **argv)
{
	static struct filter f;
	const char *log = NULL, *brain = NULL;
	char more[4096];
	solve_fill_help(more, sizeof more);
	const struct option_row rows[] = {
		{.name = "option", .letter = 'o', .kind = OPTION_LIST, .target = &f.set,
		 .arg = "KEY=VALUE",
		 .help = "an option of the solution; an executable gets it as an argument"},
		{.name = "log", .kind = OPTION_TEXT, .target = &log, .arg = "LOG",
		 .help = "decide again on all snapshots of a job's log"},
		{.name = "brain", .kind = OPTION_TEXT, .target = &brain, .arg = "on|FILE",
		 .help = "with --log: ask this brain instead: res-plan (on), or an executable"},
		{0}};
	const struct option_table table = {
		PROGRAM " solve",
		"NAME [-o KEY=VALUE]... < snapshot > actions\n"
		"--log LOG [--brain on|FILE] [NAME]",
		"Lets a built-in solution or an executable decide on one snapshot. With --log it "
		"decides again on\nthe snapshots of a log, with the options of that time, and a "
		"brain on the rounds.",
		rows, more};
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, "[solution]", &f.name, &err), &err);
	int result = 0;
	if (log && f.set.count > 0)
		result = error_set(&err, ERROR_USAGE, "--option", "-o is not for --log: the log "
								  "has the options");
	else if (!log && brain)
		result = error_set(&err, ERROR_USAGE, "--brain", "goes with --log");
	else if (!log && !f.name)
		result = error_set(&err, ERROR_USAGE, NULL, "solve: which solution?");
	else if (!log)
		result = find_solution(&f, &err);
	if (result == 0)
		result = log          ? trainctl_solve_log(log, f.name, brain, &err)
			 : f.built_in ? solve_snapshots(&f, &err)
				      : solve_become(&f, &err);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
