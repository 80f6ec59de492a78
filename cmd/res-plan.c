/*
 * res-plan(1): how many workers and servers a job gets, of which size. A filter: a round of what
 * the job uses in, what to change out.
 */
#include "cmd/cmd.h"
#include "cmd/filter.h"

#include "plan/plan.h"
#include "record/record.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define PROGRAM "res-plan"

/* ---- history ---- */

static int take_finished(const struct record *r, void *history, struct error *err)
{
	return history_take(history, r, err);
}

static int read_history(struct history *h, const char *path, int strict, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	int result = filter_read_from(fd, path, PROGRAM, strict, "finished", take_finished, h, err);
	close(fd);
	return result;
}

/* ---- answers ---- */

static void print_fit(const struct fit *f)
{
	record_print(stdout,
		     RECORD("fit", F_BRIEF("io-time", f->io),
			    F_BRIEF("worker-work", f->worker_work),
			    F_BRIEF("server-work", f->server_work),
			    F_BRIEF("worker-cores", f->worker_cores),
			    F_BRIEF("server-cores", f->server_cores), F_BRIEF("spread", f->spread),
			    F("configurations", f->count), F("rounds", f->rounds)));
}

static void print_role(const struct plan_answer *a, enum plan_role role)
{
	record_print(stdout,
		     RECORD("plan", F("role", plan_role_name(role)),
			    F("count", a->role[role].count), F("cores", a->role[role].cores),
			    a->role[role].bytes ? F("mem-bytes", a->role[role].bytes) : F_NONE));
}

static void print_action(const struct plan_action *action)
{
	record_print(stdout, RECORD(plan_what_name(action->what),
				    F("role", plan_role_name(action->node->role)),
				    F("id", action->node->id),
				    action->cores ? F("cores", action->cores) : F_NONE,
				    action->bytes ? F("mem-bytes", action->bytes) : F_NONE,
				    action->batch ? F("batch", action->batch) : F_NONE,
				    F("reason", action->reason)));
}

static void res_plan_print_answer(const struct plan *p, const struct usage *u)
{
	const struct plan_answer *a = &p->answer;
	if (p->fit.rounds)
		print_fit(&p->fit);
	for (int i = 0; i < PLAN_ROLES; i++)
		if (a->changes[i])
			print_role(a, (enum plan_role)i);
	for (size_t i = 0; i < a->actions; i++)
		print_action(&a->action[i]);
	record_print(stdout, RECORD("decision", F("change", plan_changes(a) ? "yes" : "no"),
				    F("reason", a->reason), F("method", a->method),
				    F_BRIEF("now", u->rate > 0 ? u->rate : NAN),
				    F_BRIEF("expected", a->rate),
				    F_BRIEF("confidence", a->confidence),
				    a->like ? F("user", a->like->names.user) : F_NONE,
				    a->like ? F("data", a->like->names.data) : F_NONE,
				    a->like ? F("model", a->like->names.model) : F_NONE));
	fputc('\n', stdout);
}

/* ---- rounds ---- */

struct stream {
	struct plan *plan;
	struct usage usage;
	uint64_t line; /* line of the round's first record; 0: the round has no record yet */
	uint64_t rounds;
};

static int res_plan_end_round(struct stream *s, struct error *err)
{
	int result = 0;
	char place[64];
	if (s->line == 0)
		return 0;
	snprintf(place, sizeof place, "stdin:%llu", (unsigned long long)s->line);
	if (!s->usage.has_job)
		return error_set(err, ERROR_DATA, place,
				 "a round without a job record; an empty line ends a round");
	if (plan_round(s->plan, &s->usage, err) != 0)
		result = error_wrap(err, place);
	else
		res_plan_print_answer(s->plan, &s->usage);
	if (result == 0 && fflush(stdout) != 0)
		result = error_errno(err, ERROR_IO, "standard output", "can't be written");
	usage_begin(&s->usage);
	s->line = 0;
	s->rounds++;
	return result;
}

static int res_plan_follow(struct record_reader *in, struct stream *s, int strict,
			   struct error *err)
{
	static struct record r;
	struct filter_unknown unknown = {.program = PROGRAM, .strict = strict};
	int got = RECORD_ONE, result = 0;
	while (result == 0 && got != RECORD_END) {
		got = record_read(in, &r, err);
		int is_job = got == RECORD_ONE && record_is(&r, "job");
		if (got < 0) {
			result = -1;
		} else if (got == RECORD_BLANK || got == RECORD_END) {
			result = res_plan_end_round(s, err);
		} else if (!is_job && !record_is(&r, "node")) {
			result = filter_unknown(&unknown, &r, record_reader_place(in), err);
		} else {
			if (s->line == 0)
				s->line = record_reader_line(in);
			result = is_job ? usage_take_job(&s->usage, &r, err)
					: usage_take_node(&s->usage, &r, err);
			if (result != 0)
				error_wrap(err, record_reader_place(in));
		}
	}
	if (result == 0 && s->rounds == 0)
		return error_set(err, ERROR_DATA, "stdin", "no job record");
	return result;
}

static int res_plan_run(const struct plan_limits *limits, enum plan_stage stage, const char *path,
			int strict, struct error *err)
{
	static struct plan plan; /* large */
	struct history history = {0};
	struct stream s = {.plan = &plan};
	struct record_reader *in = NULL;
	int result = path ? read_history(&history, path, strict, err) : 0;
	plan_init(&plan, limits, stage, &history);
	if (result == 0 && !(in = record_reader_new(STDIN_FILENO, "stdin")))
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0)
		result = res_plan_follow(in, &s, strict, err);
	record_reader_free(in);
	usage_clear(&s.usage);
	plan_clear(&plan);
	history_clear(&history);
	return result;
}

int main(int argc, char **argv)
{
	struct plan_limits l = PLAN_LIMITS_DEFAULT;
	const char *stage_name = "auto", *history = NULL;
	enum plan_stage stage = PLAN_AUTO;
	int cores_seen = 0, node_seen = 0, strict = 0;
	const struct option_row rows[] = {
		{.name = "cores",
		 .letter = 'C',
		 .kind = OPTION_COUNT,
		 .target = &l.cores,
		 .arg = "CORES",
		 .help = "cores that the job may have; required",
		 .min = 2,
		 .max = PLAN_CORES_MAX,
		 .seen = &cores_seen},
		{.name = "node-cores",
		 .kind = OPTION_COUNT,
		 .target = &l.node_cores,
		 .arg = "CORES",
		 .help = "cores that one node may have; required",
		 .min = 1,
		 .max = PLAN_CORES_MAX,
		 .seen = &node_seen},
		{.name = "server-cores",
		 .kind = OPTION_COUNT,
		 .target = &l.server_cores,
		 .arg = "CORES",
		 .help = "cores of a server, if there is no reason for another number",
		 .min = 1,
		 .max = PLAN_CORES_MAX},
		{.name = "memory",
		 .kind = OPTION_BYTES,
		 .target = &l.bytes,
		 .arg = "BYTES",
		 .help = "memory that the job may have (0: not limited)",
		 .max = (double)PLAN_BYTES_MAX},
		{.name = "node-memory",
		 .kind = OPTION_BYTES,
		 .target = &l.node_bytes,
		 .arg = "BYTES",
		 .help = "memory that one node may have (0: not limited)",
		 .max = (double)PLAN_BYTES_MAX},
		{.name = "stage",
		 .letter = 's',
		 .kind = OPTION_CHOICE,
		 .target = &stage_name,
		 .arg = "STAGE",
		 .help = "stage of rounds without stage= (auto)",
		 .choices = PLAN_STAGES},
		{.name = "history",
		 .kind = OPTION_TEXT,
		 .target = &history,
		 .arg = "FILE",
		 .help = "finished jobs; the most similar one gives the first plan"},
		{.name = "gain",
		 .kind = OPTION_REAL,
		 .target = &l.gain,
		 .arg = "PART",
		 .help = "a change must make the job faster by at least this fraction",
		 .max = 100},
		{.name = "every",
		 .kind = OPTION_SECONDS,
		 .target = &l.every,
		 .arg = "SECONDS",
		 .help = "least time between two changes",
		 .max = 1e9},
		{.name = "change-cost",
		 .kind = OPTION_SECONDS,
		 .target = &l.cost,
		 .arg = "SECONDS",
		 .help = "training time that a change costs",
		 .max = 1e9},
		{.name = "slow",
		 .kind = OPTION_REAL,
		 .target = &l.slow,
		 .arg = "TIMES",
		 .help = "times as long as its peers: such a node is slow",
		 .min = 1.01,
		 .max = 1e6},
		{.name = "strict",
		 .kind = OPTION_FLAG,
		 .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "--cores CORES --node-cores CORES [-s STAGE] [--history FILE] "
			    "< usage > plan",
		.about = "Plans how many workers and servers a job gets, and of which size.",
		.rows = rows};
	struct error err = {0};
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	if (!cores_seen || !node_seen) {
		error_set(&err, ERROR_USAGE, cores_seen ? "--node-cores" : "--cores",
			  "the number of cores that %s may have is missing",
			  cores_seen ? "a node" : "the job");
		return cmd_fail(PROGRAM, &err);
	}
	cmd_confine(&(struct confine_ask){.read = {history}});
	plan_stage_of(stage_name, &stage); /* a choice is a stage */
	int status =
		res_plan_run(&l, stage, history, strict, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	return cmd_end(PROGRAM, status);
}
