/*
 * sup_decide: every EVERY seconds the solution sees a snapshot and says what to do.  The decision
 * itself is a pure function (lib/solve) or a person's executable; here it is only asked, written to
 * the log with what it saw (so that `trainctl replay` can ask again), and carried out.  A solution
 * that fails or is late is said so and skipped: the job goes on without it.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/number.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (1u << 20)
#define SNAPSHOT_BYTES_MAX (8u << 20)

struct actions {
	struct supervisor *sup;
	char *text; /* global actions, for the lead */
	size_t bytes, room;
	size_t count;
};

static int append(char **text, size_t *bytes, size_t *room, const char *data, size_t len)
{
	if (*bytes + len + 1 > *room) {
		size_t larger = *room ? *room * 2 : 4096;
		while (larger < *bytes + len + 1)
			larger *= 2;
		char *moved = realloc(*text, larger);
		if (!moved)
			return -1;
		*text = moved;
		*room = larger;
	}
	memcpy(*text + *bytes, data, len);
	*bytes += len;
	(*text)[*bytes] = '\0';
	return 0;
}

/* ---- carrying out ---- */

static void on_act(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (closing && (!r || !record_is(r, "ok")))
		sup_note(s, "warning", "actions did not reach the workers: %s",
			 r && r->text ? r->text : "the lead's connection closed");
}

static void kill_restart(struct supervisor *s, const struct action *a)
{
	struct sup_node *n = sup_node_find(s, a->id);
	int fits = n && ((a->role == NODE_WORKER && n->role == ROLE_WORKER) ||
			 (a->role == NODE_SERVER && n->role == ROLE_SERVER));
	if (!fits) {
		sup_note(s, "warning", "solution: no %s %s to restart", node_role_name(a->role),
			 a->id);
		return;
	}
	sup_note(s, "restart", "%s is restarted: %s", n->id,
		 a->reason[0] ? a->reason : "the solution says so");
	sup_node_kill(n);
}

static int take_action(const struct action *a, void *arg, struct error *err)
{
	struct actions *actions = arg;
	char line[RECORD_LINE_MAX];
	size_t len = action_format(a, line, sizeof line);
	(void)err;
	actions->count++;
	if (write(actions->sup->log_fd, line, len) < 0)
		(void)0; /* the log is for people: sup_log says so */
	if (a->kind == ACTION_KILL_RESTART)
		kill_restart(actions->sup, a);
	else if (a->kind != ACTION_NONE &&
		 append(&actions->text, &actions->bytes, &actions->room, line, len) != 0)
		return error_set(err, ERROR_OS, "actions", "out of memory");
	return 0;
}

static void apply(struct actions *actions)
{
	struct supervisor *s = actions->sup;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (actions->bytes > 0) {
		record_begin(&o, line, sizeof line, "act");
		record_add_u64(&o, "bytes", actions->bytes);
		if (sup_link_send(&s->lead_act, &o, actions->text, actions->bytes, on_act, s) != 0)
			sup_note(s, "warning", "actions are dropped: the lead is not there");
	}
	free(actions->text);
}

static void decided(struct supervisor *s, size_t count)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "decided");
	record_add_u64(&o, "actions", count);
	sup_log(s, &o);
	s->deciding = 0;
}

/* ---- an executable ---- */

static int parse_actions(struct actions *actions, const char *text, struct error *err)
{
	struct record r;
	struct action a;
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		if (n > 0 && (record_parse(&r, p, n, err) != 0 ||
			      (record_is(&r, "action") && (action_parse(&a, &r, err) != 0 ||
							   take_action(&a, actions, err) != 0))))
			return -1;
		p += n + (p[n] == '\n');
	}
	return 0;
}

static void on_solved(const struct node_end *end, int late, const char *output, size_t bytes,
		      void *arg)
{
	struct supervisor *s = arg;
	struct actions actions = {.sup = s};
	struct error err;
	char text[128];
	(void)bytes;
	s->solver = NULL;
	policy_end_text(end, text, sizeof text);
	if (late)
		sup_note(s, "warning", "solution %s: no decision in %g s (or too long a one)",
			 s->job->solution, deadline_seconds(DEADLINE_SOLUTION));
	else if (policy_class(end) != END_CLEAN)
		sup_note(s, "warning", "solution %s: %s; skipped", s->job->solution, text);
	else if (parse_actions(&actions, output, &err) != 0)
		sup_note(s, "warning", "solution %s: %s; skipped", s->job->solution, err.text);
	else {
		apply(&actions);
		actions.text = NULL;
	}
	free(actions.text);
	decided(s, actions.count);
}

static int solve_outside(struct supervisor *s, struct error *err)
{
	char batch[48], lambda[48], number[32];
	number_format_u64(s->job->batch, number);
	snprintf(batch, sizeof batch, "batch=%s", number);
	number_format_real(s->job->lambda, number);
	snprintf(lambda, sizeof lambda, "lambda=%s", number);
	char *const argv[] = {s->job->solution, batch, lambda, NULL};
	struct child_options options = {.argv = argv,
					.input = s->decide_text,
					.input_bytes = s->decide_bytes,
					.seconds = deadline_seconds(DEADLINE_SOLUTION),
					.output_bytes_max = OUTPUT_BYTES_MAX,
					.done = on_solved,
					.arg = s};
	return child_start(&s->solver, s->base, &options, err);
}

/* ---- a built-in one ---- */

static int solve_inside(struct supervisor *s, struct error *err)
{
	struct snapshot snapshot;
	struct record r;
	struct solution_options options = SOLUTION_OPTIONS_DEFAULT;
	struct actions actions = {.sup = s};
	int result = 0;
	options.batch = s->job->batch;
	options.lambda = s->job->lambda;
	snapshot_init(&snapshot);
	for (const char *p = s->decide_text; result == 0 && *p;) {
		size_t n = strcspn(p, "\n");
		if (record_parse(&r, p, n, err) != 0 || snapshot_add(&snapshot, &r, err) != 0)
			result = -1;
		p += n + (p[n] == '\n');
	}
	if (result == 0)
		result = solution_decide(solution_find(s->job->solution), &snapshot, &options,
					 take_action, &actions, err);
	snapshot_clear(&snapshot);
	if (result != 0) {
		free(actions.text);
		return -1;
	}
	apply(&actions);
	decided(s, actions.count);
	return 0;
}

/* ---- asking ---- */

static void decide(struct supervisor *s)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	record_begin(&o, line, sizeof line, "decision");
	record_add(&o, "solution", s->job->solution);
	record_add_u64(&o, "batch", s->job->batch);
	record_add_real(&o, "lambda", s->job->lambda);
	sup_log(s, &o);
	if (write(s->log_fd, s->decide_text, s->decide_bytes) < 0)
		(void)0;
	int built_in = solution_find(s->job->solution) != NULL;
	if ((built_in ? solve_inside(s, &err) : solve_outside(s, &err)) != 0) {
		sup_note(s, "warning", "solution %s: %s; skipped", s->job->solution, err.text);
		decided(s, 0);
	}
}

static void on_snapshot(const struct record *r, int closing, const void *payload, size_t bytes,
			void *arg)
{
	struct supervisor *s = arg;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	(void)payload;
	(void)bytes;
	if (!closing) {
		record_begin(&o, line, sizeof line, r->type);
		record_add_fields(&o, r, NULL);
		size_t len = record_end(&o, NULL);
		if (s->decide_bytes < SNAPSHOT_BYTES_MAX)
			append(&s->decide_text, &s->decide_bytes, &s->decide_room, line, len);
		return;
	}
	if (r && record_is(r, "ok") && s->decide_bytes > 0 && s->phase == PHASE_RUNNING)
		decide(s);
	else
		s->deciding = 0;
}

void sup_decide_periodic(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	double now = clock_mono();
	if (strcmp(s->job->solution, "none") == 0 || s->deciding ||
	    now - s->decide_at < s->job->every)
		return;
	s->decide_at = now;
	s->decide_bytes = 0;
	record_begin(&o, line, sizeof line, "snapshot");
	if (sup_link_send(&s->monitor->link, &o, NULL, 0, on_snapshot, s) == 0)
		s->deciding = 1;
}

void sup_decide_free(struct supervisor *s)
{
	child_free(s->solver);
	free(s->decide_text);
	s->solver = NULL;
	s->decide_text = NULL;
}
