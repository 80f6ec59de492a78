/* trainctl report: what a job's log says when one asks why it took so long: each decision with its
 * reason, each restart with what it cost, and where the time went. Only the log is read, so the job
 * may run, be over, or have died. */
#include "cmd/cmd.h"
#include "base/grow.h"
#include "cmd/trainctl.h"
#include "job/jobs.h"
#include "record/record.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define PHASES_MAX 32
#define REASON_MAX 256

struct phase {
	char name[32];
	double seconds;
};

enum node_is { AWAY, STARTING, UP, DOWN };

struct node {
	char id[OPTION_ID_MAX], role[16];
	enum node_is state;
	double since;
	double seconds[4]; /* by state */
	uint64_t restarts;
	uint64_t life; /* number of its process */
	/* a restart under way */
	double ended_at, from; /* 0: none; NAN: nobody saw when it ended */
	char why[32], reason[REASON_MAX];
	int asked, handing; /* handing: a server's next process is there */
	/* from the snapshots of decisions */
	double samples_at, samples, busy, watched;
};

struct report {
	char job[OPTION_ID_MAX], state[16], solution[256];
	struct phase phase[PHASES_MAX];
	size_t phases, now; /* now == phases: none */
	double phase_since, at, first_at;
	struct node *node;
	size_t nodes, room;
	double snapshot_at; /* of the decision that is read; 0: none */
	uint64_t runs, decisions, actions, refused, skipped, restarts, rollbacks, checkpoints;
	char samples[24], jct[32];
	int failed; /* out of memory */
};

static const char *value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text ? text : "";
}

static void print(struct record_out *o)
{
	if (record_end(o, NULL) > 0)
		fputs(o->data, stdout);
}

void trainctl_tell_torn(struct record_reader *in)
{
	if (record_reader_torn(in))
		fprintf(stderr,
			PROGRAM ": %s: the log ends in the middle of a line, which is left out\n",
			record_reader_place(in));
}

/* ---- nodes and phases ---- */

static struct node *find_node(struct report *p, const char *id, const char *role)
{
	for (size_t i = 0; i < p->nodes; i++)
		if (strcmp(p->node[i].id, id) == 0)
			return &p->node[i];
	if (GROW(p->node, p->room, p->nodes + 1) != 0) {
		p->failed = 1;
		return NULL;
	}
	struct node *n = &p->node[p->nodes++];
	*n = (struct node){.samples_at = 0};
	snprintf(n->id, sizeof n->id, "%s", id);
	snprintf(n->role, sizeof n->role, "%s", role);
	return n;
}

static void enter(struct node *n, enum node_is state, double at)
{
	if (n->state != AWAY && at > n->since)
		n->seconds[n->state] += at - n->since;
	n->state = state;
	n->since = at;
}

static void close_phase(struct report *p)
{
	if (p->now < p->phases && p->at > p->phase_since)
		p->phase[p->now].seconds += p->at - p->phase_since;
	p->phase_since = p->at;
}

static void take_phase(struct report *p, const char *name)
{
	close_phase(p);
	for (p->now = 0; p->now < p->phases; p->now++)
		if (strcmp(p->phase[p->now].name, name) == 0)
			return;
	if (p->phases == PHASES_MAX)
		return;
	snprintf(p->phase[p->phases].name, sizeof p->phase->name, "%s", name);
	p->phases++;
}

/* Of a supervisor that was killed nobody knows when: its last record is taken. */
static void take_begin(struct report *p, const struct record *r, double before)
{
	double now = p->at;
	p->at = before;
	close_phase(p);
	for (size_t i = 0; i < p->nodes; i++) {
		enter(&p->node[i], AWAY, before);
		p->node[i].handing = 0;
	}
	p->at = p->phase_since = now;
	p->now = p->phases;
	p->runs++;
	snprintf(p->job, sizeof p->job, "%s", value(r, "job"));
	snprintf(p->state, sizeof p->state, "unfinished");
	take_phase(p, "services");
}

/* ---- restarts ---- */

static void put_restart(struct report *p, struct node *n)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "restarted");
	record_add_seconds(&o, "at", n->from);
	record_add(&o, "role", n->role);
	record_add(&o, "id", n->id);
	record_add(&o, "why", n->why);
	if (n->reason[0])
		record_add(&o, "reason", n->reason);
	record_add_seconds(&o, "seconds", p->at - n->from);
	record_add_seconds(&o, "down", p->at - n->ended_at);
	print(&o);
	p->restarts++;
	n->restarts++;
}

static void forget_restart(struct node *n)
{
	n->ended_at = n->from = 0;
	n->asked = n->handing = 0;
	n->reason[0] = '\0';
}

static void take_ready(struct report *p, struct node *n)
{
	enter(n, UP, p->at);
	if (n->ended_at != 0)
		put_restart(p, n);
	else if (n->handing) /* the process before, to a supervisor that is new */
		return;
	forget_restart(n);
}

/* Left over from a supervisor that was killed. Another process than it knew: there was a restart
 * that nobody saw. */
static void take_adopted(struct report *p, struct node *n, uint64_t life)
{
	enter(n, STARTING, p->at);
	if (life <= n->life || n->ended_at != 0)
		return;
	n->ended_at = NAN;
	if (n->asked)
		return;
	snprintf(n->why, sizeof n->why, "unseen");
	n->from = p->at;
}

static void take_end(struct report *p, struct node *n, const struct record *r)
{
	n->ended_at = p->at;
	if (!n->asked) {
		const char *signal = record_get(r, "signal"), *status = record_get(r, "status");
		snprintf(n->why, sizeof n->why, "%s%.8s",
			 signal   ? "signal-"
			 : status ? "status-"
				  : "unseen",
			 signal   ? signal
			 : status ? status
				  : "");
		n->from = p->at;
		n->reason[0] = '\0';
	}
	enter(n, DOWN, p->at);
}

static void take_event(struct report *p, const struct record *r)
{
	struct node *n = find_node(p, value(r, "id"), value(r, "role"));
	const char *kind = value(r, "kind");
	uint64_t life = n ? n->life : 0;
	if (!n || record_u64_opt(r, "life", 0, UINT64_MAX, &life, NULL) != 0)
		return;
	if (strcmp(kind, "kill") == 0) {
		if (!n->asked) /* not from the guard: a person's kill, or a deadline */
			snprintf(n->why, sizeof n->why, "killed");
		n->from = n->from > 0 && n->asked ? n->from : p->at;
		n->asked = 1;
	} else if (strcmp(kind, "lost") == 0) {
		if (!n->handing) { /* else it is the next process that is given up */
			snprintf(n->why, sizeof n->why, "lost");
			n->from = p->at;
			n->asked = 1;
		}
	} else if (strcmp(kind, "exit") == 0)
		take_end(p, n, r);
	else if (strcmp(kind, "start") == 0) {
		enter(n, STARTING, p->at);
		forget_restart(n); /* the first of its run */
	} else if (strcmp(kind, "restart") == 0)
		enter(n, STARTING, p->at);
	else if (strcmp(kind, "adopt") == 0)
		take_adopted(p, n, life);
	else if (strcmp(kind, "ready") == 0)
		take_ready(p, n);
	n->life = life;
}

/* Of a server: its next process is there, or has failed and the one before goes on. */
static void take_hand_over(struct report *p, const struct record *r, int failed)
{
	struct node *n = find_node(p, value(r, "id"), "");
	if (!n)
		return;
	if (failed && n->ended_at == 0)
		forget_restart(n);
	n->handing = !failed;
}

/* By a decision, or a person. */
static void take_restart(struct report *p, const struct record *r)
{
	struct node *n = find_node(p, value(r, "id"), "");
	if (!n)
		return;
	snprintf(n->reason, sizeof n->reason, "%s", value(r, "reason"));
	snprintf(n->why, sizeof n->why, "kill-restart");
	n->from = p->at;
	n->asked = 1;
}

/* ---- decisions ---- */

static void take_node(struct report *p, const struct record *r)
{
	double samples = 0, speed = NAN;
	struct node *n = find_node(p, value(r, "id"), value(r, "role"));
	if (!n || record_real_opt(r, "samples", 0, 1e300, &samples, NULL) != 0 ||
	    record_real_opt(r, "speed-short", 0, 1e300, &speed, NULL) != 0)
		return;
	double time = p->snapshot_at - n->samples_at;
	if (n->samples_at > 0 && time > 0 && samples >= n->samples && speed > 0) {
		n->busy += (samples - n->samples) / speed;
		n->watched += time;
	}
	n->samples_at = p->snapshot_at;
	n->samples = samples;
}

static void take_action(struct report *p, const struct record *r)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (strcmp(value(r, "kind"), "none") == 0)
		return;
	p->actions++;
	record_begin(&o, line, sizeof line, "decided");
	record_add_seconds(&o, "at", p->at);
	record_add(&o, "by", p->solution);
	record_add_fields(&o, r, NULL);
	print(&o);
}

static void take_refused(struct report *p, const struct record *r)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	p->refused++;
	record_begin(&o, line, sizeof line, "refused");
	record_add_fields(&o, r, NULL);
	print(&o);
}

static void take_summary(struct report *p, const struct record *r)
{
	snprintf(p->state, sizeof p->state, "%s", value(r, "state"));
	snprintf(p->samples, sizeof p->samples, "%s", value(r, "samples"));
	snprintf(p->jct, sizeof p->jct, "%s", value(r, "jct"));
}

static void take_record(struct report *p, const struct record *r)
{
	double before = p->at;
	record_real_opt(r, "at", 0, 1e300, &p->at, NULL);
	if (p->first_at == 0)
		p->first_at = p->at;
	if (record_is(r, "begin") && (p->runs == 0 || !record_get(r, "goes-on")))
		take_begin(p, r, before);
	else if (record_is(r, "phase"))
		take_phase(p, value(r, "name"));
	else if (record_is(r, "event"))
		take_event(p, r);
	else if (record_is(r, "restart"))
		take_restart(p, r);
	else if (record_is(r, "hand-over") || record_is(r, "handover-failed"))
		take_hand_over(p, r, record_is(r, "handover-failed"));
	else if (record_is(r, "decision")) {
		p->decisions++;
		p->snapshot_at = p->at;
		snprintf(p->solution, sizeof p->solution, "%s", value(r, "solution"));
	} else if (record_is(r, "by-hand"))
		snprintf(p->solution, sizeof p->solution, "hand");
	else if (record_is(r, "node"))
		take_node(p, r);
	else if (record_is(r, "action"))
		take_action(p, r);
	else if (record_is(r, "refused"))
		take_refused(p, r);
	else if (record_is(r, "decided"))
		p->skipped += record_get(r, "skipped") != NULL;
	else if (record_is(r, "rollback"))
		p->rollbacks++;
	else if (record_is(r, "checkpoint"))
		p->checkpoints++;
	else if (record_is(r, "summary"))
		take_summary(p, r);
}

/* ---- the end ---- */

static double total(const struct report *p)
{
	double seconds = 0;
	for (size_t i = 0; i < p->phases; i++)
		seconds += p->phase[i].seconds;
	return seconds;
}

static void put_times(const struct report *p)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	double all = total(p);
	for (size_t i = 0; i < p->phases; i++) {
		record_begin(&o, line, sizeof line, "time");
		record_add(&o, "phase", p->phase[i].name);
		record_add_seconds(&o, "seconds", p->phase[i].seconds);
		record_add_brief(&o, "share", all > 0 ? p->phase[i].seconds / all : NAN);
		print(&o);
	}
	for (size_t i = 0; i < p->nodes; i++) {
		const struct node *n = &p->node[i];
		record_begin(&o, line, sizeof line, "node");
		record_add(&o, "role", n->role);
		record_add(&o, "id", n->id);
		record_add_u64(&o, "restarts", n->restarts);
		record_add_seconds(&o, "up", n->seconds[UP]);
		record_add_seconds(&o, "starting", n->seconds[STARTING]);
		record_add_seconds(&o, "down", n->seconds[DOWN]);
		record_add_brief(&o, "busy", n->watched > 0 ? n->busy / n->watched : NAN);
		print(&o);
	}
}

static void put_report(const struct report *p)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "report");
	record_add(&o, "job", p->job);
	record_add(&o, "state", p->state);
	record_add_u64(&o, "runs", p->runs);
	record_add_seconds(&o, "from", p->first_at);
	record_add_seconds(&o, "seconds", total(p));
	record_add(&o, "jct", p->jct);
	record_add(&o, "samples", p->samples);
	record_add_u64(&o, "decisions", p->decisions);
	record_add_u64(&o, "skipped", p->skipped);
	record_add_u64(&o, "actions", p->actions);
	record_add_u64(&o, "refused", p->refused);
	record_add_u64(&o, "restarts", p->restarts);
	record_add_u64(&o, "rollbacks", p->rollbacks);
	record_add_u64(&o, "checkpoints", p->checkpoints);
	print(&o);
}

static int take_file(struct report *p, const char *path, struct error *err)
{
	static struct record r;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	int got = in ? RECORD_ONE : error_set(err, ERROR_OS, path, "out of memory");
	if (in)
		record_reader_of_log(in);
	while (got > 0) {
		got = record_read(in, &r, err);
		if (got == RECORD_ONE)
			take_record(p, &r);
	}
	if (got == RECORD_END)
		trainctl_tell_torn(in);
	record_reader_free(in);
	close(fd);
	return got;
}

/* older: what the log was before it grew too large; often there is none. */
static int report(const char *older, const char *path, struct error *err)
{
	static struct report p;
	int got = access(older, F_OK) == 0 ? take_file(&p, older, err) : 0;
	if (got == 0)
		got = take_file(&p, path, err);
	if (p.failed)
		got = error_set(err, ERROR_OS, path, "out of memory");
	if (got == 0 && p.runs == 0)
		got = error_set(err, ERROR_NEGATIVE, path, "no run has begun");
	if (got == 0) {
		close_phase(&p);
		for (size_t i = 0; i < p.nodes; i++)
			enter(&p.node[i], AWAY, p.at);
		put_times(&p);
		put_report(&p);
	}
	free(p.node);
	return got;
}

int trainctl_report(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *state_dir = NULL, *none;
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX];
	const struct option_row rows[] = {
		TRAINCTL_ROW_JOB(&job),
		TRAINCTL_ROW_RUN_DIR(&run_dir, "its run directory; state is in DIR/state"),
		{.name = "state-dir", .kind = OPTION_TEXT, .target = &state_dir, .arg = "DIR",
		 .help = "the job's state directory"},
		{0}};
	const struct option_table table = {
		PROGRAM " report", "-j NAME | --run-dir DIR | --state-dir DIR",
		"Tells from a job's log what was decided and why, what was restarted, and where "
		"the time went.",
		rows, NULL};
	struct dirs dirs;
	struct dirs_environment env;
	struct error err;
	int shown = trainctl_parse(&table, argc, argv, NULL, &none, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	trainctl_environment(&env);
	if (shown != OPTION_GO || jobs_find(&dirs, job, run_dir, state_dir, &env, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	dirs_state(&dirs, "job.log", path);
	dirs_state(&dirs, "job.log.1", older);
	return report(older, path, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
