/* decide: see decide.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "job/solver.h"
#include "solve/facts.h"
#include "solve/solution.h"

#include <stdio.h>
#include <string.h>

/* ---- what the supervisor adds to a snapshot ---- */

static void decide_put_fact(const char *name, const char *value, void *supervisor)
{
	sup_snapshot_info(supervisor, name, value);
}

static void add_own_info(struct supervisor *s)
{
	const struct action *backup = sup_in_force_find(s, ACTION_BACKUP_WORKERS, "");
	const struct facts f = {.samples = s->options.samples * s->job->epochs,
				.done = s->progress.stat.samples_done,
				.rate = sup_rate(s),
				.pending = sup_more_pending(s),
				.may_leave = job_kind(s->job)->backup,
				.backup = backup ? backup->count : 0,
				.restart_worker = sup_restart_seconds(s, sup_trainers(s)),
				.restart_server = sup_restart_seconds(s, sup_holders(s)),
				.restart_all = job_kind(s->job)->goes_back,
				.sync = s->job->sync};
	facts_put(&f, decide_put_fact, s);
}

/* ---- the end of a decision ---- */

static void decided(struct supervisor *s, int count, int skipped)
{
	s->decide.skipped += skipped != 0;
	sup_log(s, RECORD("decided", F("actions", count > 0 ? (uint64_t)count : 0),
			  skipped ? F("skipped", 1) : F_NONE));
	s->decide.under_way = 0;
}

static void decide_skip(struct supervisor *s, const char *why)
{
	if (s->decide.failed++ == 0 || strcmp(why, s->decide.fails) != 0)
		sup_note(s, "warning", "solution %s: %s; skipped", s->job->solution, why);
	snprintf(s->decide.fails, sizeof s->decide.fails, "%s", why);
	decided(s, 0, 1);
}

static void decide_well(struct supervisor *s)
{
	if (s->decide.failed > 0)
		sup_note(s, "solution", "solution %s works again: %llu %s failed",
			 s->job->solution, (unsigned long long)s->decide.failed,
			 s->decide.failed == 1 ? "round" : "rounds");
	s->decide.failed = 0;
}

static void decide_carry(struct supervisor *s, const struct decision *list)
{
	struct error err;
	if (s->phases.now != PHASE_RUNNING) { /* not the solution's fault */
		sup_note(s, "warning", "a decision is skipped: the job is in phase %s",
			 sup_phase_name(s->phases.now));
		decided(s, 0, 1);
		return;
	}
	if (s->decide.changes != s->scale.changes) {
		sup_note(s, "warning",
			 "a decision is skipped: nodes come or go since it was asked for");
		decided(s, 0, 1);
		return;
	}
	int count = sup_actions_carry(s, list, s->job->solution, NULL, &err);
	if (count < 0) {
		decide_skip(s, err.text);
		return;
	}
	decide_well(s);
	decided(s, count, 0);
}

/* ---- an executable ---- */

static void on_solved(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	struct decision list = {0};
	struct error err;
	char text[CHILD_WHY_MAX];
	s->decide.solver = NULL;
	if (child_failure(e, text))
		decide_skip(s, text);
	else if (decision_parse(&list, e->output, e->bytes, &err) != 0)
		decide_skip(s, err.text);
	else
		decide_carry(s, &list);
	decision_free(&list);
}

static int solve_outside(struct supervisor *s, struct error *err)
{
	struct solver v;
	struct child_options options = solver_child(&v, s->job->solution, &s->job->options,
						    s->progress.snapshot.text, s->progress.snapshot.bytes);
	options.done = on_solved;
	options.arg = s;
	return child_start(&s->decide.solver, s->base, &options, err);
}

/* ---- a built-in one ---- */

static int decide_take_action(const struct action *a, void *arg, struct error *err)
{
	return decision_add(arg, a, 0, err);
}

/* Reports a bad value of an info record, once until it changes. */
static void check_info(struct supervisor *s, const struct snapshot *snapshot)
{
	size_t at = 0;
	const struct snapshot_info *wrong = snapshot_info_wrong(snapshot, &at);
	if (wrong && strcmp(wrong->value, s->decide.info_wrong) != 0)
		sup_note(s, "warning",
			 "the monitor has info name=%s: '%.80s' is not a number, and counts "
			 "as unknown",
			 wrong->name, wrong->value);
	snprintf(s->decide.info_wrong, sizeof s->decide.info_wrong, "%s",
		 wrong ? wrong->value : "");
}

static int solve_inside(struct supervisor *s, struct error *err)
{
	const struct snapshot *snapshot = &s->progress.snapshot.now;
	struct solution_options options = s->job->options;
	struct decision list = {0};
	solution_options_name(&options, s->job->solution);
	check_info(s, snapshot);
	int result = solution_decide(solution_find(s->job->solution), snapshot, &options,
				     decide_take_action, &list, err);
	if (result == 0)
		decide_carry(s, &list);
	decision_free(&list);
	return result;
}

/* ---- asking ---- */

static void log_question(struct supervisor *s)
{
	struct record_out *o = RECORD("decision", F("solution", s->job->solution));
	solution_options_add(o, &s->job->options);
	sup_log(s, o);
	sup_log_text(s, s->progress.snapshot.text, s->progress.snapshot.bytes);
}

static int decide_ask(struct supervisor *s, struct error *err)
{
	if (s->progress.snapshot.is_wrong) {
		*err = s->progress.snapshot.wrong;
		return -1;
	}
	return solution_find(s->job->solution) ? solve_inside(s, err) : solve_outside(s, err);
}

/* Whether each worker has trained a batch: before that there is little to decide on. */
static int all_reported(const struct supervisor *s)
{
	EACH_OF (n, s, sup_trainers(s)) {
		const struct snapshot_node *m = sup_measured(n);
		if (n->stage != STAGE_READY || !m || m->size == 0)
			return 0;
	}
	return 1;
}

static int decide_is_due(const struct supervisor *s, int all_reported)
{
	return facts_may_decide(s->decide.at, clock_mono(), s->job->every, s->decide.once, all_reported);
}

static int decide_may_ask(const struct supervisor *s)
{
	return strcmp(s->job->solution, "none") != 0 && !job_balance(s->job) &&
	       s->phases.now == PHASE_RUNNING && !s->decide.under_way;
}

void sup_decide(struct supervisor *s)
{
	struct error err;
	if (!decide_may_ask(s) || !decide_is_due(s, all_reported(s)))
		return;
	s->decide.at = facts_decided(s->decide.at, clock_mono(), s->job->every, s->decide.once);
	s->decide.once = s->decide.under_way = 1;
	s->decide.changes = s->scale.changes;
	s->decide.asked++;
	add_own_info(s);
	log_question(s);
	if (decide_ask(s, &err) != 0)
		decide_skip(s, err.text);
}

void sup_decide_periodic(struct supervisor *s)
{
	if (decide_may_ask(s) && decide_is_due(s, 0))
		sup_ask_snapshot(s);
}

void sup_decide_first(struct supervisor *s)
{
	if (s->phases.now < PHASE_RUNNING && !s->decide.once)
		s->decide.at = clock_mono();
	if (decide_may_ask(s) && !s->decide.once)
		sup_ask_snapshot(s);
}

void sup_decide_init(struct supervisor *s)
{
	s->decide.at = clock_mono();
}

void sup_decide_stop(struct supervisor *s)
{
	child_free(s->decide.solver);
	s->decide.solver = NULL;
}
