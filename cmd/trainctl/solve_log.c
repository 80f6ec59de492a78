/*
 * trainctl solve --log: a solution again over the snapshots that a job's log has recorded, or over
 * the rounds that a lead's has (solve/balance_log.h).
 *
 * In a job's log: `decision solution= batch= lambda= ... at=`, the snapshot's records, what was
 * decided then (left out here), `decided`.
 */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/fs.h"
#include "base/grow.h"
#include "job/brain_filter.h"
#include "job/solver.h"
#include "plan/rounds.h"
#include "plan/want.h"
#include "proc/child.h"
#include "record/record.h"
#include "solve/balance_log.h"
#include "solve/solution.h"

#include <fcntl.h>
#include <unistd.h>

struct replay {
	const char *path;
	char name[DIRS_PATH_MAX];            /* of the solution; copied, as its record goes */
	const struct solution *built_in; /* NULL: an executable */
	struct solution_options options; /* of then */
	int open;                        /* between `decision` and `decided` */
	struct snapshot snapshot;
	struct balance_replay *balances;
	/* Of a brain: the rounds so far, and the one that is being read. */
	struct rounds rounds;
	struct brain_limits limits;
	const char *brain; /* the brain to ask instead; NULL: the one that was asked */
	char brain_name[DIRS_PATH_MAX];
	int reading, asked; /* inside of a round; the brain is to be asked about it */
	char at[32];
	uint64_t decisions, failed;
	/* For an executable: */
	char *text; /* the snapshot */
	size_t text_len, text_room;
	char why[CHILD_WHY_MAX]; /* how it failed; "" when it did not */
};

/* The options of that time: a decision record has them as its keys. */
static int take_options(struct replay *p, const struct record *r, struct error *err)
{
	const struct solution_option *option;
	solution_options_init(&p->options);
	for (size_t i = 0; (option = solution_option(i)); i++) {
		const char *value = record_get(r, option->key);
		if (!value || !value[0])
			continue;
		if (solution_option_set(option, &p->options, value, err) != 0)
			return err->code = ERROR_DATA, -1;
	}
	solution_options_name(&p->options, p->name);
	return 0;
}

/* ---- an executable ---- */

static int text_add(struct replay *p, const struct record *r, struct error *err)
{
	struct record_out o;
	if (GROW(p->text, p->text_room, p->text_len + RECORD_LINE_MAX) != 0)
		return error_set(err, ERROR_OS, p->name, "out of memory");
	record_begin(&o, p->text + p->text_len, RECORD_LINE_MAX, r->type);
	record_add_fields(&o, r, NULL);
	p->text_len += record_end(&o, NULL);
	return 0;
}

static void solve_log_on_end(const struct child_end *e, void *arg)
{
	struct replay *p = arg;
	fwrite(e->output, 1, e->bytes, stdout);
	if (!child_failure(e, p->why))
		p->why[0] = '\0';
}

/* Prints the output; p->why says how it failed, if it did. */
static int ask_executable(struct replay *p, struct error *err)
{
	struct solver v;
	struct child_options options = solver_child(&v, p->name, &p->options, p->text, p->text_len);
	options.done = solve_log_on_end;
	options.arg = p;
	return child_run(&options, err);
}

/* ---- a brain ---- */

static int solve_log_begin_round(struct replay *p, const struct record *r, struct error *err)
{
	const char *name = record_get(r, "brain"), *at = record_get(r, "at");
	p->asked = record_is(r, "brain-asked");
	p->reading = 1;
	p->text_len = 0;
	snprintf(p->at, sizeof p->at, "%s", at ? at : "");
	snprintf(p->brain_name, sizeof p->brain_name, "%s", p->brain ? p->brain : name ? name : "");
	return p->asked ? brain_limits_take(&p->limits, r, err) : 0;
}

/* Its type begins with WANT_TYPES. */
static int solve_log_add_line(struct replay *p, const struct record *r, struct error *err)
{
	static struct record plain; /* large */
	plain = *r;
	plain.type += strlen(WANT_TYPES);
	return text_add(p, &plain, err);
}

static void solve_log_print_line(const char *line, size_t len, void *arg)
{
	(void)arg;
	fwrite(line, 1, len, stdout);
}

static int ask_brain(struct replay *p, const char *place, struct error *err)
{
	struct argv words = {0};
	char path[DIRS_PATH_MAX], *all, *text = NULL;
	size_t bytes, len;
	if (strcmp(p->brain_name, BRAIN_ON) != 0)
		trainctl_solution_path(p->brain_name, path);
	else
		snprintf(path, sizeof path, "%s", BRAIN_ON);
	p->decisions++;
	record_print(stdout, RECORD("brain-asked", F("brain", p->brain_name), F("at", p->at)));
	if (brain_words(&words, path, &p->limits, getenv("PATH"), err) != 0)
		return -1;
	if (!(all = rounds_text(&p->rounds, &bytes))) {
		argv_free(&words);
		return error_set(err, ERROR_OS, p->path, "out of memory");
	}
	if (brain_ask_once(&words, all, bytes, &text, &len, err) == 0)
		want_lines(text, len, solve_log_print_line, NULL);
	else {
		p->failed++;
		fprintf(stderr, PROGRAM ": %s: brain %s: %s\n", place, p->brain_name, err->text);
	}
	free(text);
	free(all);
	return 0;
}

/* 1: this is not a record of a brain. */
static int take_brain(struct replay *p, const struct record *r, const char *place,
		      struct error *err)
{
	int is_line = record_is(r, "brain-job") || record_is(r, "brain-node");
	if (p->reading && is_line)
		return solve_log_add_line(p, r, err);
	if (p->reading && !is_line) {
		p->reading = 0;
		if (p->text_len > 0 && (rounds_add(&p->rounds, p->text, p->text_len, err) != 0 ||
					(p->asked && ask_brain(p, place, err) != 0)))
			return -1;
	}
	if (record_is(r, "brain-asked") || record_is(r, "brain-known"))
		return solve_log_begin_round(p, r, err);
	return strncmp(r->type, "brain-", strlen("brain-")) != 0;
}

/* ---- decisions ---- */

static int begin_decision(struct replay *p, const struct record *r, const char *solution,
			  struct error *err)
{
	const char *name = record_get(r, "solution"), *at = record_get(r, "at");
	snapshot_clear(&p->snapshot);
	p->text_len = 0;
	snprintf(p->name, sizeof p->name, "%s", solution ? solution : name ? name : "");
	p->built_in = solution_find(p->name);
	if (!p->built_in && !fs_is_program(p->name))
		return error_set(err, ERROR_USAGE, p->name, "is no solution and no executable");
	if (take_options(p, r, err) != 0)
		return -1;
	p->open = 1;
	p->decisions++;
	struct record_out *o = RECORD("decision", F("solution", p->name), F("at", at ? at : ""));
	if (record_end(o, NULL) == 0)
		return error_set(err, ERROR_DATA, p->name, "too long for a record");
	fputs(o->data, stdout);
	return 0;
}

/* A solution that fails is reported and skipped, as in a job. */
static int end_decision(struct replay *p, const char *place, struct error *err)
{
	p->open = 0;
	if (p->built_in)
		return trainctl_decide(p->built_in, &p->options, &p->snapshot, p->path, err);
	if (ask_executable(p, err) != 0)
		return -1;
	if (p->why[0]) {
		p->failed++;
		fprintf(stderr, PROGRAM ": %s: solution %s: %s\n", place, p->name, p->why);
	}
	return 0;
}

static int solve_log_take_record(struct replay *p, const struct record *r, const char *solution,
				 const char *place, struct error *err)
{
	int other = take_brain(p, r, place, err);
	if (other <= 0)
		return other;
	if (record_is(r, "decision"))
		return begin_decision(p, r, solution, err);
	if (!p->open)
		return balance_replay_record(p->balances, r, err);
	if (record_is(r, "decided"))
		return end_decision(p, place, err);
	if (!record_is(r, "job") && !record_is(r, "node") && !record_is(r, "info"))
		return 0;
	return p->built_in ? snapshot_add(&p->snapshot, r, err) : text_add(p, r, err);
}

/* ---- a log ---- */

static void solve_log_put_text(const char *text, size_t len, void *arg)
{
	(void)arg;
	fwrite(text, 1, len, stdout);
}

static int solve_log_read_log(struct replay *p, struct record_reader *in, const char *solution,
			      struct error *err)
{
	static struct record r;
	int got = RECORD_ONE;
	while (got > 0) {
		got = record_read(in, &r, err);
		p->snapshot.line = record_reader_line(in);
		if (got == RECORD_ONE &&
		    solve_log_take_record(p, &r, solution, record_reader_place(in), err) != 0)
			got = error_wrap(err, record_reader_place(in));
	}
	if (got != RECORD_END)
		return -1;
	trainctl_tell_torn(in);
	return balance_replay_end(p->balances, err) == 0
		       ? 0
		       : error_wrap(err, record_reader_place(in));
}

static int solve_log_count(struct replay *p, struct error *err)
{
	uint64_t failed;
	p->decisions += balance_replay_rounds(p->balances, &failed);
	p->failed += failed;
	if (p->decisions == 0)
		return error_set(err, ERROR_NEGATIVE, p->path, "holds no decision");
	if (p->failed > 0)
		return error_set(err, ERROR_NEGATIVE, p->path, "%llu of %llu decisions failed",
				 (unsigned long long)p->failed, (unsigned long long)p->decisions);
	return 0;
}

int trainctl_solve_log(const char *path, const char *solution, const char *brain,
		       struct error *err)
{
	static struct replay p;
	p.path = path;
	p.brain = brain;
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	int result = in ? balance_replay_new(&p.balances, solution, solve_log_put_text, NULL, err)
			: error_set(err, ERROR_OS, path, "out of memory");
	if (in && fd != STDIN_FILENO)
		record_reader_of_log(in);
	snapshot_init(&p.snapshot);
	if (result == 0)
		result = solve_log_read_log(&p, in, solution, err);
	if (result == 0)
		result = solve_log_count(&p, err);
	snapshot_clear(&p.snapshot);
	balance_replay_free(p.balances);
	record_reader_free(in);
	free(p.text);
	rounds_clear(&p.rounds);
	if (fd != STDIN_FILENO)
		close(fd);
	return result;
}
