/*
 * sup_decide: the solution sees a snapshot and says what to do: as soon as every worker has
 * reported once, then every EVERY seconds.  The decision itself is a pure function (lib/solve) or a
 * person's executable; here it is only asked, and written to the log with what it saw (so that
 * `trainctl replay` can ask again).  What it says is carried out by sup_act.c.  A solution that
 * fails, is late or talks nonsense is skipped, and said so when that begins, has another reason and
 * is over: the job goes on, and the next round asks again.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (1u << 20)
#define SNAPSHOT_BYTES_MAX (8u << 20)

/* ---- what a solution is told ---- */

static void append(struct supervisor *s, const char *data, size_t len)
{
	if (s->decide_bytes + len > SNAPSHOT_BYTES_MAX)
		return;
	if (s->decide_bytes + len + 1 > s->decide_room) {
		size_t room = s->decide_room ? s->decide_room * 2 : 4096;
		while (room < s->decide_bytes + len + 1)
			room *= 2;
		char *moved = realloc(s->decide_text, room);
		if (!moved)
			return;
		s->decide_text = moved;
		s->decide_room = room;
	}
	memcpy(s->decide_text + s->decide_bytes, data, len);
	s->decide_bytes += len;
	s->decide_text[s->decide_bytes] = '\0';
}

static const char *const own_info[] = {"samples-left",   "rate", "backup-workers", "restart-worker",
				       "restart-server", "sync"};

/* What we know better than anybody who tells the monitor. */
static int is_ours(const struct record *r)
{
	const char *name = record_is(r, "info") ? record_get(r, "name") : NULL;
	for (size_t i = 0; name && i < sizeof own_info / sizeof *own_info; i++)
		if (strcmp(name, own_info[i]) == 0)
			return 1;
	return 0;
}

static void add_info(struct supervisor *s, const char *name, const char *value)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "info");
	record_add(&o, "name", name);
	record_add(&o, "value", value);
	record_add(&o, "age", "0");
	append(s, line, record_end(&o, NULL));
}

static void add_info_real(struct supervisor *s, const char *name, double value)
{
	char text[40];
	if (isnan(value))
		return;
	snprintf(text, sizeof text, "%.6g", value);
	add_info(s, name, text);
}

static void add_own_info(struct supervisor *s)
{
	char text[40];
	uint64_t total = s->options.samples * s->job->epochs, done = s->stat.samples_done;
	const struct action *backup = sup_force_find(s, ACTION_BACKUP_WORKERS, "");
	number_format_u64(total > done ? total - done : 0, text);
	add_info(s, "samples-left", text);
	add_info_real(s, "rate", sup_rate(s));
	number_format_u64(backup ? backup->count : 0, text);
	add_info(s, "backup-workers", text);
	add_info_real(s, "restart-worker", sup_restart_seconds(s, ROLE_WORKER));
	add_info_real(s, "restart-server", sup_restart_seconds(s, ROLE_SERVER));
	add_info(s, "sync", s->job->sync);
}

/* ---- the end of a decision ---- */

static void decided(struct supervisor *s, int count, int skipped)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "decided");
	record_add_u64(&o, "actions", count > 0 ? (uint64_t)count : 0);
	if (skipped)
		record_add_u64(&o, "skipped", 1);
	sup_log(s, &o);
	s->deciding = 0;
}

__attribute__((format(printf, 2, 3))) static void skip(struct supervisor *s, const char *fmt, ...)
{
	char text[sizeof s->solution_fails];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (s->solution_failed++ == 0 || strcmp(text, s->solution_fails) != 0)
		sup_note(s, "warning", "solution %s: %s; skipped", s->job->solution, text);
	snprintf(s->solution_fails, sizeof s->solution_fails, "%s", text);
	decided(s, 0, 1);
}

static void well(struct supervisor *s)
{
	if (s->solution_failed > 0)
		sup_note(s, "solution", "solution %s is well again: %llu %s failed",
			 s->job->solution, (unsigned long long)s->solution_failed,
			 s->solution_failed == 1 ? "round" : "rounds");
	s->solution_failed = 0;
}

static void carry(struct supervisor *s, const struct sup_actions *list)
{
	struct error err;
	if (s->phase != PHASE_RUNNING) { /* no fault of the solution's */
		sup_note(s, "warning", "a decision is skipped: the job is in phase %s",
			 sup_phase_name(s->phase));
		decided(s, 0, 1);
		return;
	}
	int count = sup_actions_carry(s, list, s->job->solution, NULL, &err);
	if (count < 0) {
		skip(s, "%s", err.text);
		return;
	}
	well(s);
	decided(s, count, 0);
}

/* ---- an executable ---- */

static void on_solved(const struct node_end *end, enum child_cut cut, const char *output,
		      size_t bytes, void *arg)
{
	struct supervisor *s = arg;
	struct sup_actions list = {0};
	struct error err;
	char text[128];
	s->solver = NULL;
	policy_end_text(end, text, sizeof text);
	if (cut == CHILD_LATE)
		skip(s, "no decision in %g s", deadline_seconds(DEADLINE_SOLUTION));
	else if (cut == CHILD_TALKS)
		skip(s, "more than %u bytes of decision", OUTPUT_BYTES_MAX);
	else if (policy_class(end) != END_CLEAN)
		skip(s, "%s", text);
	else if (sup_actions_parse(&list, output, bytes, &err) != 0)
		skip(s, "%s", err.text);
	else
		carry(s, &list);
	sup_actions_free(&list);
}

static int solve_outside(struct supervisor *s, struct error *err)
{
	struct solution_arguments given;
	char *argv[SOLUTION_OPTIONS_MAX + 2] = {s->job->solution};
	solution_options_arguments(&s->job->options, &given);
	memcpy(argv + 1, given.item, sizeof given.item);
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

static int take_action(const struct action *a, void *arg, struct error *err)
{
	return sup_actions_add(arg, a, 0, err);
}

static int fill(struct snapshot *snapshot, const char *text, struct error *err)
{
	struct record r;
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		if (record_parse(&r, p, n, err) != 0 || snapshot_add(snapshot, &r, err) != 0)
			return -1;
		p += n + (p[n] == '\n');
	}
	return 0;
}

/* Of what comes from elsewhere; said once, as long as it says the same. */
static void look_at_info(struct supervisor *s, const struct snapshot *snapshot)
{
	size_t at = 0;
	const struct snapshot_info *wrong = snapshot_info_wrong(snapshot, &at);
	if (wrong && strcmp(wrong->value, s->info_wrong) != 0)
		sup_note(s, "warning",
			 "the monitor was told info name=%s: '%.80s' is no number, and taken as "
			 "not known",
			 wrong->name, wrong->value);
	snprintf(s->info_wrong, sizeof s->info_wrong, "%s", wrong ? wrong->value : "");
}

static int solve_inside(struct supervisor *s, struct error *err)
{
	struct snapshot snapshot;
	struct solution_options options = s->job->options;
	struct sup_actions list = {0};
	solution_options_name(&options, s->job->solution);
	snapshot_init(&snapshot);
	int result = fill(&snapshot, s->decide_text, err);
	if (result == 0) {
		look_at_info(s, &snapshot);
		result = solution_decide(solution_find(s->job->solution), &snapshot, &options,
					 take_action, &list, err);
	}
	snapshot_clear(&snapshot);
	if (result == 0)
		carry(s, &list);
	sup_actions_free(&list);
	return result;
}

/* ---- asking ---- */

static void log_question(struct supervisor *s)
{
	const struct solution_option *option;
	char line[RECORD_LINE_MAX], value[SOLUTION_OPTION_TEXT_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "decision");
	record_add(&o, "solution", s->job->solution);
	for (size_t i = 0; (option = solution_option(i)); i++)
		if (solution_option_format(option, &s->job->options, value) > 0)
			record_add(&o, option->key, value);
	sup_log(s, &o);
	sup_log_text(s, s->decide_text, s->decide_bytes);
}

static void decide(struct supervisor *s)
{
	struct error err;
	s->decided_once = 1;
	s->decide_at = clock_mono();
	add_own_info(s);
	log_question(s);
	int built_in = solution_find(s->job->solution) != NULL;
	if ((built_in ? solve_inside(s, &err) : solve_outside(s, &err)) != 0)
		skip(s, "%s", err.text);
}

/* Whether each worker has trained at least a batch: before that there is little to decide on. */
static int all_reported(const struct supervisor *s)
{
	struct record r;
	size_t reported = 0;
	for (const char *p = s->decide_text; *p;) {
		size_t n = strcspn(p, "\n");
		uint64_t size = 0;
		if (record_parse(&r, p, n, NULL) == 0 && record_is(&r, "node") &&
		    record_get(&r, "role") && strcmp(record_get(&r, "role"), "worker") == 0 &&
		    record_u64_opt(&r, "size", 0, UINT64_MAX, &size, NULL) == 0)
			reported += size > 0;
		p += n + (p[n] == '\n');
	}
	return reported >= s->job->workers;
}

static int due(const struct supervisor *s)
{
	return clock_mono() - s->decide_at >= s->job->every;
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
		const char *id = record_is(r, "node") ? record_get(r, "id") : NULL;
		const struct sup_node *n = id ? sup_node_find(s, id) : NULL;
		record_begin(&o, line, sizeof line, r->type);
		record_add_fields(&o, r, n ? "silent" : NULL);
		if (n && sup_pulse_section(n)[0])
			record_add_seconds(&o, "silent", n->pulse.silent);
		if (!is_ours(r))
			append(s, line, record_end(&o, NULL));
		return;
	}
	if (r && record_is(r, "ok") && s->decide_bytes > 0 && s->phase == PHASE_RUNNING &&
	    (due(s) || (!s->decided_once && all_reported(s))))
		decide(s);
	else
		s->deciding = 0;
}

static void ask(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (strcmp(s->job->solution, "none") == 0 || job_balance(s->job) || s->deciding)
		return;
	s->decide_bytes = 0;
	record_begin(&o, line, sizeof line, "snapshot");
	if (sup_link_send(&s->monitor->link, &o, NULL, 0, on_snapshot, s) == 0)
		s->deciding = 1;
}

void sup_decide_periodic(struct supervisor *s)
{
	if (due(s))
		ask(s);
}

void sup_decide_first(struct supervisor *s)
{
	if (!s->decided_once && s->phase == PHASE_RUNNING)
		ask(s);
}

void sup_decide_free(struct supervisor *s)
{
	child_free(s->solver);
	free(s->decide_text);
	s->solver = NULL;
	s->decide_text = NULL;
}
