/*
 * trainctl solve, replay: a solution as a filter, over one snapshot or over those that a job's log
 * has recorded. The decisions themselves are lib/solve, or a person's executable.
 */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "job/deadline.h"
#include "solve/balance_log.h"
#include "solve/solution.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

/* A name without a slash is a file here, not one that PATH knows. */
static void path_of(const char *name, char path[DIRS_PATH_MAX])
{
	snprintf(path, DIRS_PATH_MAX, "%s%s", strchr(name, '/') ? "" : "./", name);
}

/* An executable takes our place: same stdin, same stdout, each KEY=VALUE an argument. */
static int become(const struct filter *f, struct error *err)
{
	char path[DIRS_PATH_MAX];
	char *argv[OPTION_LIST_MAX + 2];
	size_t n = 0;
	path_of(f->name, path);
	argv[n++] = path;
	for (size_t i = 0; i < f->set.count; i++)
		argv[n++] = (char *)(size_t)f->set.item[i];
	argv[n] = NULL;
	execv(path, argv);
	return error_errno(err, ERROR_CONFIG, f->name, "can't be run");
}

/* What was told last, so that a log tells each of them once. */
static char told[SNAPSHOT_VALUE_MAX];

static int decide(const struct filter *f, const struct snapshot *s, const char *file,
		  struct error *err)
{
	const struct snapshot_info *wrong;
	for (size_t i = 0; (wrong = snapshot_info_wrong(s, &i));) {
		if (strcmp(wrong->value, told) != 0)
			fprintf(stderr,
				PROGRAM ": %s:%llu: info name=%s: '%.80s' is no number, and taken "
					"as not known\n",
				file, (unsigned long long)wrong->line, wrong->name, wrong->value);
		snprintf(told, sizeof told, "%s", wrong->value);
	}
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
		s.line = record_reader_line(in);
		if (got == RECORD_ONE && snapshot_add(&s, &r, err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got == 0 && decide(f, &s, "stdin", err) != 0)
		got = err->place[0] ? -1 : error_wrap(err, "stdin");
	snapshot_clear(&s);
	record_reader_free(in);
	return got;
}

/* The names and the options, from their tables. */
static void fill_help(char *out, size_t max)
{
	const struct solution_option *o;
	size_t at = (size_t)snprintf(out, max, "NAME is an executable, or:");
	for (const struct solution *s = solution_table(); s->name && at < max; s++)
		at += (size_t)snprintf(out + at, max - at, "\n  %-10s  %s", s->name, s->about);
	for (size_t i = 0; at < max && (o = solution_option(i)); i++)
		at += (size_t)snprintf(out + at, max - at, "%s\n  %-7s  %-11s  %s%s%s%s",
				       i == 0 ? "\n\nKEYs, and those of a job file:" : "", o->key,
				       o->job_key, o->help, o->given[0] ? " (" : "", o->given,
				       o->given[0] ? ")" : "");
}

int trainctl_solve(int argc, char **argv)
{
	static struct filter f;
	char more[4096];
	fill_help(more, sizeof more);
	const struct option_row rows[] = {
		{.name = "option", .letter = 'o', .kind = OPTION_LIST, .target = &f.set,
		 .arg = "KEY=VALUE",
		 .help = "an option of the solution; to an executable as an argument"},
		{0}};
	const struct option_table table = {
		PROGRAM " solve", "NAME [-o KEY=VALUE]... < snapshot > actions",
		"Lets a built-in solution or an executable decide on one snapshot.", rows, more};
	struct error err;
	int shown = trainctl_parse(&table, argc, argv, "solution", &f.name, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != 0 || find_solution(&f, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	int result = f.built_in ? solve(&f, &err) : become(&f, &err);
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}

/* ---- replay ---- */

/* In a job's log: `decision solution= batch= lambda= ... at=`, the snapshot's records, what was
 * decided then (left out here), `decided`.  In a lead's: solve/balance_log.h. */
struct replay {
	struct filter f;
	struct snapshot snapshot;
	int open;
	struct balance_replay *balances; /* what a lead decided at its barriers */
	const char *path;
	uint64_t decisions, failed;
	char name[DIRS_PATH_MAX]; /* of the solution; records are gone by the end of a snapshot */
	int text_fd;          /* the snapshot as text, for an executable */
};

/* The options of then: a decision record has them as its keys. */
static int take_options(struct replay *p, const struct record *r, struct error *err)
{
	const struct solution_option *option;
	solution_options_init(&p->f.options);
	for (size_t i = 0; (option = solution_option(i)); i++) {
		const char *value = record_get(r, option->key);
		if (!value || !value[0])
			continue;
		if (solution_option_set(option, &p->f.options, value, err) != 0)
			return err->code = ERROR_DATA, -1;
	}
	solution_options_name(&p->f.options, p->f.name);
	return 0;
}

/* The snapshot is text again for an executable; it lies in memory, so that one that does not read
 * it can't block us. */
static int text_begin(struct replay *p, struct error *err)
{
	if (p->text_fd >= 0)
		close(p->text_fd);
	p->text_fd = memfd_create("snapshot", MFD_CLOEXEC);
	return p->text_fd < 0 ? error_errno(err, ERROR_OS, p->f.name, "memfd") : 0;
}

static int text_add(struct replay *p, const struct record *r, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, r->type);
	record_add_fields(&o, r, NULL);
	size_t n = record_end(&o, NULL);
	return fs_write_all(p->text_fd, line, n, p->f.name, err);
}

/* As long as in a job. */
static int await(const struct replay *p, pid_t pid, int *status, int *late, struct error *err)
{
	double deadline = clock_mono() + deadline_seconds(DEADLINE_SOLUTION);
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	int result;
	do {
		double left = deadline - clock_mono();
		result = poll(&end, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
	} while (result < 0 && errno == EINTR && end.fd >= 0);
	if (end.fd >= 0)
		close(end.fd);
	*late = result == 0 && end.fd >= 0;
	if (*late)
		kill(-pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return error_errno(err, ERROR_OS, p->f.name, "waitpid");
	return 0;
}

/* What it prints is printed; 0 when it ended well. late: it was killed. */
static int ask_executable(struct replay *p, int *status, int *late, struct error *err)
{
	char path[DIRS_PATH_MAX];
	char *argv[SOLUTION_OPTIONS_MAX + 2] = {path};
	struct solution_arguments given;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	pid_t pid;
	path_of(p->f.name, path);
	solution_options_arguments(&p->f.options, &given);
	memcpy(argv + 1, given.item, sizeof given.item);
	if (fflush(stdout) != 0) /* it writes behind us */
		return error_errno(err, ERROR_IO, "stdout", "can't be written");
	lseek(p->text_fd, 0, SEEK_SET);
	if (posix_spawn_file_actions_init(&files) != 0 || posix_spawnattr_init(&attributes) != 0)
		return error_set(err, ERROR_OS, p->f.name, "out of memory");
	int failed = posix_spawn_file_actions_adddup2(&files, p->text_fd, STDIN_FILENO);
	if (failed == 0) /* a group of its own, so that its children end with it */
		failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	if (failed == 0)
		failed = posix_spawn(&pid, path, &files, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (failed != 0) {
		errno = failed;
		return error_errno(err, ERROR_CONFIG, p->f.name, "can't be run");
	}
	return await(p, pid, status, late, err);
}

static int begin_decision(struct replay *p, const struct record *r, const char *solution,
			  struct error *err)
{
	const char *name = record_get(r, "solution"), *at = record_get(r, "at");
	char line[RECORD_LINE_MAX];
	struct record_out o;
	snapshot_clear(&p->snapshot);
	snprintf(p->name, sizeof p->name, "%s", solution ? solution : name ? name : "");
	p->f.name = p->name;
	p->f.built_in = solution_find(p->f.name);
	if (!p->f.built_in && !fs_is_program(p->f.name))
		return error_set(err, ERROR_USAGE, p->f.name, "is no solution and no executable");
	if (take_options(p, r, err) != 0 || (!p->f.built_in && text_begin(p, err) != 0))
		return -1;
	p->open = 1;
	p->decisions++;
	record_begin(&o, line, sizeof line, "decision");
	record_add(&o, "solution", p->f.name);
	record_add(&o, "at", at ? at : "");
	if (record_end(&o, NULL) == 0)
		return error_set(err, ERROR_DATA, p->f.name, "too long for a record");
	fputs(line, stdout);
	return 0;
}

/* A solution that fails is noted and passed over, as in a job. */
static int end_decision(struct replay *p, const char *place, struct error *err)
{
	int status = 0, late = 0;
	p->open = 0;
	if (p->f.built_in)
		return decide(&p->f, &p->snapshot, p->path, err);
	if (ask_executable(p, &status, &late, err) != 0)
		return -1;
	if (late) {
		p->failed++;
		fprintf(stderr, PROGRAM ": %s: solution %s: no decision in %g s\n", place,
			p->f.name, deadline_seconds(DEADLINE_SOLUTION));
	} else if (status != 0) {
		p->failed++;
		fprintf(stderr, PROGRAM ": %s: solution %s: %s %d\n", place, p->f.name,
			WIFSIGNALED(status) ? "signal" : "exit status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return 0;
}

static int replay_record(struct replay *p, const struct record *r, const char *solution,
			 const char *place, struct error *err)
{
	if (record_is(r, "decision"))
		return begin_decision(p, r, solution, err);
	if (!p->open)
		return balance_replay_record(p->balances, r, err);
	if (record_is(r, "decided"))
		return end_decision(p, place, err);
	if (!record_is(r, "job") && !record_is(r, "node") && !record_is(r, "info"))
		return 0;
	if (!p->f.built_in)
		return text_add(p, r, err);
	return snapshot_add(&p->snapshot, r, err);
}

static void put_text(const char *text, size_t len, void *arg)
{
	(void)arg;
	fwrite(text, 1, len, stdout);
}

static int replay(const char *path, const char *solution, struct error *err)
{
	static struct record r;
	static struct replay p = {.text_fd = -1};
	p.path = path;
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	uint64_t failed;
	snapshot_init(&p.snapshot);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, path, "out of memory");
	if (got > 0 && balance_replay_new(&p.balances, solution, put_text, NULL, err) != 0)
		got = -1;
	if (in && fd != STDIN_FILENO)
		record_reader_of_log(in);
	while (got > 0) {
		got = record_read(in, &r, err);
		p.snapshot.line = record_reader_line(in);
		if (got == RECORD_ONE &&
		    replay_record(&p, &r, solution, record_reader_place(in), err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got == 0)
		trainctl_tell_torn(in);
	if (got == 0 && balance_replay_end(p.balances, err) != 0)
		got = error_wrap(err, record_reader_place(in));
	if (p.balances) {
		p.decisions += balance_replay_rounds(p.balances, &failed);
		p.failed += failed;
	}
	if (got == 0 && p.decisions == 0)
		got = error_set(err, ERROR_NEGATIVE, path, "holds no decision");
	if (got == 0 && p.failed > 0)
		got = error_set(err, ERROR_NEGATIVE, path, "%llu of %llu decisions failed",
				(unsigned long long)p.failed, (unsigned long long)p.decisions);
	snapshot_clear(&p.snapshot);
	balance_replay_free(p.balances);
	record_reader_free(in);
	if (p.text_fd >= 0)
		close(p.text_fd);
	if (fd != STDIN_FILENO)
		close(fd);
	return got;
}

int trainctl_replay(int argc, char **argv)
{
	const char *solution = NULL;
	const struct option_row rows[] = {
		{.name = "solution", .kind = OPTION_TEXT, .target = &solution, .arg = "NAME",
		 .help = "another than the one that decided then, or an executable"},
		{0}};
	const struct option_table table = {
		PROGRAM " replay", "LOG [--solution NAME]",
		"Lets a solution decide again on the snapshots of a job's "
		"log.",
		rows, NULL};
	struct error err;
	const char *path;
	int shown = trainctl_parse(&table, argc, argv, "log", &path, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != 0 || replay(path, solution, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	return 0;
}
