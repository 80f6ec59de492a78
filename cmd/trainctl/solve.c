/*
 * trainctl solve, replay: a solution as a filter, over one snapshot or over those that a job's log
 * has recorded. The decisions themselves are lib/solve, or a person's executable.
 */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/fs.h"
#include "base/number.h"
#include "solve/solution.h"
#include "wire/record.h"

#include <fcntl.h>
#include <unistd.h>

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

static int find(struct filter *f, struct error *err)
{
	f->options = SOLUTION_OPTIONS_DEFAULT;
	f->built_in = solution_find(f->name);
	if (!f->built_in && access(f->name, X_OK) != 0) {
		char known[256] = "";
		for (const struct solution *s = solution_table(); s->name; s++)
			snprintf(known + strlen(known), sizeof known - strlen(known), " %s",
				 s->name);
		return error_set(err, ERROR_USAGE, f->name, "is no solution (%s) and no executable",
				 known + 1);
	}
	for (size_t i = 0; f->built_in && i < f->set.count; i++)
		if (solution_options_set(&f->options, f->set.item[i], err) != 0)
			return -1;
	solution_options_name(&f->options, f->name);
	return 0;
}

/* An executable takes our place: same stdin, same stdout, each KEY=VALUE an argument. */
static int become(const struct filter *f, struct error *err)
{
	char path[PLACE_MAX];
	char *argv[OPTION_LIST_MAX + 2];
	size_t n = 0;
	snprintf(path, sizeof path, "%s%s", strchr(f->name, '/') ? "" : "./", f->name);
	argv[n++] = path;
	for (size_t i = 0; i < f->set.count; i++)
		argv[n++] = (char *)(size_t)f->set.item[i];
	argv[n] = NULL;
	execv(path, argv);
	return error_errno(err, ERROR_CONFIG, f->name, "can't be run");
}

static int decide(const struct filter *f, const struct snapshot *s, struct error *err)
{
	return solution_decide(f->built_in, s, &f->options, put_action, NULL, err);
}

/* One snapshot, to its end. */
static int solve(const struct filter *f, struct error *err)
{
	struct snapshot s;
	static struct record r;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	snapshot_init(&s);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, "stdin", "out of memory");
	while (got > 0) {
		got = record_read(in, &r, err);
		if (got == RECORD_ONE && snapshot_add(&s, &r, err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got == 0 && decide(f, &s, err) != 0)
		got = err->place[0] ? -1 : error_wrap(err, "stdin");
	snapshot_clear(&s);
	record_reader_free(in);
	return got;
}

int trainctl_solve(int argc, char **argv)
{
	static struct filter f;
	const struct option_row rows[] = {
		{.name = "option",
		 .letter = 'o',
		 .kind = OPTION_LIST,
		 .target = &f.set,
		 .arg = "KEY=VALUE",
		 .help = "batch=, lambda=, pending=, sync=, limit=, cmax=; to an executable as an "
			 "argument"},
		{0}};
	const struct option_table table = {
		PROGRAM " solve", "NAME [-o KEY=VALUE]... < snapshot > actions",
		"Lets a built-in solution or an executable decide on one snapshot.", rows, NULL};
	struct error err;
	int shown = trainctl_parse(&table, argc, argv, "solution", &f.name, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown == OPTION_GO && !f.name)
		shown = error_set(&err, ERROR_USAGE, NULL, "solve: which solution?");
	if (shown != 0 || find(&f, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	int result = f.built_in ? solve(&f, &err) : become(&f, &err);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}

/* ---- replay ---- */

/* In a log: `decision solution= batch= lambda= ... at=`, the snapshot's records, what was decided
 * then (left out here), `decided`. */
struct replay {
	struct filter f;
	struct snapshot snapshot;
	int open;
	uint64_t decisions;
};

/* The options of then: a decision record has them as its keys. */
static int take_options(struct solution_options *o, const struct record *r, struct error *err)
{
	static const char *const key[] = {"batch", "lambda", "pending", "sync", "limit", "cmax"};
	for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
		char text[64];
		const char *value = record_get(r, key[i]);
		if (!value || !value[0] || (i == 0 && strcmp(value, "0") == 0))
			continue;
		snprintf(text, sizeof text, "%s=%.40s", key[i], value);
		if (solution_options_set(o, text, err) != 0)
			return err->code = ERROR_DATA, -1;
	}
	return 0;
}

static int begin(struct replay *p, const struct record *r, const char *solution, struct error *err)
{
	const char *name = record_get(r, "solution"), *at = record_get(r, "at");
	snapshot_clear(&p->snapshot);
	p->f.name = solution ? solution : name ? name : "";
	p->f.options = SOLUTION_OPTIONS_DEFAULT;
	p->f.built_in = solution_find(p->f.name);
	if (!p->f.built_in)
		return error_set(err, ERROR_USAGE, p->f.name,
				 "only built-in solutions can be replayed");
	if (take_options(&p->f.options, r, err) != 0)
		return -1;
	solution_options_name(&p->f.options, p->f.name);
	p->open = 1;
	p->decisions++;
	printf("decision solution=%s at=%s\n", p->f.name, at ? at : "");
	return 0;
}

static int replay_record(struct replay *p, const struct record *r, const char *solution,
			 struct error *err)
{
	if (record_is(r, "decision"))
		return begin(p, r, solution, err);
	if (!p->open)
		return 0;
	if (record_is(r, "decided")) {
		p->open = 0;
		return decide(&p->f, &p->snapshot, err);
	}
	if (record_is(r, "job") || record_is(r, "node") || record_is(r, "info"))
		return snapshot_add(&p->snapshot, r, err);
	return 0;
}

static int replay(const char *path, const char *solution, struct error *err)
{
	static struct record r;
	static struct replay p;
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	snapshot_init(&p.snapshot);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, path, "out of memory");
	while (got > 0) {
		got = record_read(in, &r, err);
		if (got == RECORD_ONE && replay_record(&p, &r, solution, err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got == 0 && p.decisions == 0)
		got = error_set(err, ERROR_NEGATIVE, path, "holds no decision");
	snapshot_clear(&p.snapshot);
	record_reader_free(in);
	if (fd != STDIN_FILENO)
		close(fd);
	return got;
}

int trainctl_replay(int argc, char **argv)
{
	const char *solution = NULL;
	const struct option_row rows[] = {{.name = "solution",
					   .kind = OPTION_TEXT,
					   .target = &solution,
					   .arg = "NAME",
					   .help = "another than the one that decided then"},
					  {0}};
	const struct option_table table = {PROGRAM " replay", "LOG [--solution NAME]",
					   "Lets a built-in solution decide again on the snapshots "
					   "of a job's log.",
					   rows, NULL};
	struct error err;
	const char *path;
	int shown = trainctl_parse(&table, argc, argv, "log", &path, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown == OPTION_GO && !path)
		shown = error_set(&err, ERROR_USAGE, NULL, "replay: which log?");
	if (shown != 0 || replay(path, solution, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	return 0;
}
