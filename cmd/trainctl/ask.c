/* trainctl stop, checkpoint, kill-restart, scale, rebalance, apply: one question each to a job that
 * runs, on its trainctl.sock. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/number.h"
#include "base/words.h"
#include "job/condition.h"
#include "job/deadline.h"
#include "job/jobs.h"
#include "run/supervisor.h"
#include "wire/call.h"

#include <unistd.h>

#define CONNECT_SECONDS 0.0 /* it is there or it is not */
#define SCALE_SECONDS 86400.0 /* its turn may come late; the job answers all when it ends */

struct question {
	const char *name, *about, *verb;
	const char *operand; /* what it names; NULL: none */
	int reads_stdin;     /* the request's payload */
	int scales; /* it says how many nodes of each kind, and where */
	double answer_seconds;
};

static const char *value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text && text[0] ? text : "-";
}

void trainctl_show_record(const struct record *r)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, r->type);
	record_add_fields(&o, r, NULL);
	if (record_end(&o, r->text) > 0)
		fputs(line, stdout);
}

static int converse(const char *socket, const struct question *q, const char *line, size_t len,
		    const char *payload, size_t bytes, struct error *err)
{
	struct call *c;
	static struct record r;
	if (call_open(&c, socket, CONNECT_SECONDS, q->answer_seconds, err) != 0)
		return -1;
	int result = call_send(c, line, len, payload, bytes, err);
	while (result == 0 && (result = call_receive(c, &r, err)) == 0) {
		if (record_is(&r, "ok") || record_is(&r, "err"))
			break;
		trainctl_show_record(&r);
	}
	call_close(c);
	if (result != 0)
		return -1;
	if (record_is(&r, "err"))
		return error_set(err,
				 strcmp(value(&r, "code"), "unknown-node") == 0 ? ERROR_NOINPUT
										: ERROR_NEGATIVE,
				 NULL, "%s: %s", value(&r, "code"), r.text ? r.text : "refused");
	if (r.count > 0)
		trainctl_show_record(&r);
	return 0;
}

/* What stands on the command line. */
struct given {
	const char *id;
	int force, elsewhere;
	const char *workers, *servers, *hosts; /* NULL: as it is */
};

/* The request's line; what the command has not is left out. */
static size_t request_line(const struct question *q, const struct given *given, size_t bytes,
			   char *line)
{
	const struct {
		const char *key, *value;
	} more[] = {{"id", given->id},
		    {"force", given->force ? "1" : NULL},
		    {"elsewhere", given->elsewhere ? "1" : NULL},
		    {"workers", given->workers},
		    {"servers", given->servers},
		    {"hosts", given->hosts}};
	struct record_out o;
	record_begin(&o, line, RECORD_LINE_MAX, q->verb);
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (more[i].value)
			record_add(&o, more[i].key, more[i].value);
	if (q->reads_stdin)
		record_add_u64(&o, "bytes", bytes);
	return record_end(&o, NULL);
}

/* What is too long is not sent: the job would hang up in the middle of it. */
static int read_stdin(char **text, size_t *bytes, struct error *err)
{
	*text = malloc(SUPERVISOR_ACTIONS_MAX + 1);
	if (!*text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (*bytes = 0; *bytes <= SUPERVISOR_ACTIONS_MAX;) {
		ssize_t n = read(STDIN_FILENO, *text + *bytes, SUPERVISOR_ACTIONS_MAX + 1 - *bytes);
		if (n < 0)
			return error_errno(err, ERROR_IO, "stdin", "can't be read");
		if (n == 0)
			return 0;
		*bytes += (size_t)n;
	}
	return error_set(err, ERROR_DATA, "stdin", "too long: more than %u bytes of actions",
			 SUPERVISOR_ACTIONS_MAX);
}

int trainctl_find(const char *job, const char *run_dir, struct dirs *dirs, struct error *err)
{
	struct dirs_environment env;
	trainctl_environment(&env);
	return jobs_find(dirs, job, run_dir, NULL, &env, err);
}

int trainctl_explain(const char *job, const struct dirs *dirs, struct error *err)
{
	static struct condition c;
	char since[32], which[DIRS_MAX + 16], run[300];
	if (jobs_need_state(dirs, job, err) != 0 || condition_read(&c, dirs, err) != 0)
		return -1;
	trainctl_time(c.since, since);
	snprintf(which, sizeof which, "%s %s", job ? "-j" : "--run-dir",
		 words_quote(job ? job : dirs->run, run, sizeof run));
	if (c.is == CONDITION_RUNNING)
		return error_set(err, ERROR_TEMPFAIL, NULL,
				 "job %s does not answer: pid %ld runs it since %s, and prepares its "
				 "data, or ends",
				 c.name, (long)c.pid, since);
	return error_set(err, ERROR_UNAVAILABLE, NULL,
			 "job %s does not run: %s (%s); `trainctl status %s` says more", c.name,
			 condition_words(c.is), since, which);
}

/* What can be seen without asking a job. */
static int check_sizes(const struct given *given, struct error *err)
{
	uint64_t n;
	if (!given->workers && !given->servers && !given->hosts)
		return error_set(err, ERROR_USAGE, NULL,
				 "scale: to how many? --workers N, --servers N, --hosts H1,H2,...");
	if (given->workers && number_u64(given->workers, 0, UINT64_MAX, &n, "--workers", err) != 0)
		return -1;
	return given->servers ? number_u64(given->servers, 0, UINT64_MAX, &n, "--servers", err) : 0;
}

static int ask(const struct question *q, int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL;
	struct given given = {0};
	char name[64], usage[96], socket[DIRS_PATH_MAX], line[RECORD_LINE_MAX], *text = NULL;
	struct dirs dirs;
	size_t bytes = 0;
	const struct option_row rows[] = {
		TRAINCTL_ROW_JOB(&job),
		TRAINCTL_ROW_RUN_DIR(&run_dir, "the job's run directory"),
		{.name = q->operand  ? "force"
			 : q->scales ? "workers"
				     : NULL,
		 .kind = q->operand ? OPTION_FLAG : OPTION_TEXT,
		 .target = q->operand ? (void *)&given.force : (void *)&given.workers,
		 .arg = q->operand ? NULL : "N",
		 .help = q->operand ? "whatever KILL_RESTART says"
				    : "so many workers from now on"},
		{.name = q->operand  ? "elsewhere"
			 : q->scales ? "servers"
				     : NULL,
		 .kind = q->operand ? OPTION_FLAG : OPTION_TEXT,
		 .target = q->operand ? (void *)&given.elsewhere : (void *)&given.servers,
		 .arg = q->operand ? NULL : "N",
		 .help = q->operand ? "on another host; its own is avoided (BAD_HOSTS avoid)"
				    : "so many parameter servers"},
		{.name = q->scales ? "hosts" : NULL,
		 .kind = OPTION_TEXT,
		 .target = &given.hosts,
		 .arg = "H1,H2,...",
		 .help = "these of HOSTS, and no others"},
		{0}};
	snprintf(name, sizeof name, PROGRAM " %s", q->name);
	snprintf(usage, sizeof usage, "%s-j NAME | --run-dir DIR%s",
		 q->operand  ? "ID "
		 : q->scales ? "[--workers N] [--servers N] [--hosts H1,H2,...] "
			     : "",
		 q->reads_stdin ? " < actions" : "");
	struct option_table table = {name, usage, q->about, rows, NULL};
	struct error err;
	int shown = trainctl_parse(&table, argc, argv, q->operand, &given.id, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != OPTION_GO || (q->scales && check_sizes(&given, &err) != 0) ||
	    trainctl_find(job, run_dir, &dirs, &err) != 0 ||
	    (q->reads_stdin && read_stdin(&text, &bytes, &err) != 0)) {
		free(text);
		return cmd_fail(PROGRAM, &err);
	}
	dirs_run(&dirs, "trainctl.sock", socket);
	size_t len = request_line(q, &given, bytes, line);
	int result = converse(socket, q, line, len, text, bytes, &err);
	free(text);
	if (result != 0 && err.code == ERROR_UNAVAILABLE)
		trainctl_explain(job, &dirs, &err);
	return result >= 0 ? result : cmd_fail(PROGRAM, &err);
}

int trainctl_stop(int argc, char **argv)
{
	const struct question q = {.name = "stop",
				   .about = "Makes a checkpoint and stops the job; waits for it.",
				   .verb = "stop",
				   .answer_seconds = deadline_seconds(DEADLINE_SAVE) +
						     4 * deadline_seconds(DEADLINE_STOP)};
	return ask(&q, argc, argv);
}

int trainctl_checkpoint(int argc, char **argv)
{
	const struct question q = {.name = "checkpoint",
				   .about = "Makes a checkpoint now and says where.",
				   .verb = "checkpoint",
				   .answer_seconds = deadline_seconds(DEADLINE_SAVE) +
						     deadline_seconds(DEADLINE_ANSWER)};
	return ask(&q, argc, argv);
}

int trainctl_kill_restart(int argc, char **argv)
{
	const struct question q = {
		.name = "kill-restart",
		.about = "Restarts a live worker, or a live server without a rollback; waits "
			 "until it is there again.",
		.verb = "kill-restart",
		.operand = "node",
		.answer_seconds =
			deadline_seconds(DEADLINE_SAVE) + deadline_seconds(DEADLINE_HANDOVER)};
	return ask(&q, argc, argv);
}

int trainctl_apply(int argc, char **argv)
{
	const struct question q = {
		.name = "apply",
		.about = "Gives the action lines on stdin to a running job, all of them or none, "
			 "and says from which iteration on they hold.",
		.verb = "apply",
		.reads_stdin = 1,
		.answer_seconds =
			deadline_seconds(DEADLINE_ACT) + deadline_seconds(DEADLINE_ANSWER)};
	return ask(&q, argc, argv);
}

int trainctl_scale(int argc, char **argv)
{
	const struct question q = {
		.name = "scale",
		.about = "Changes how many workers and servers a running job has, and on which hosts, "
			 "and waits until it has them.",
		.verb = "scale",
		.scales = 1,
		.answer_seconds = SCALE_SECONDS};
	return ask(&q, argc, argv);
}

int trainctl_rebalance(int argc, char **argv)
{
	const struct question q = {
		.name = "rebalance",
		.about = "Lets the servers share out their parameters anew, so that one of which more "
			 "is asked has less to do; waits for it.",
		.verb = "rebalance",
		.answer_seconds = SCALE_SECONDS};
	return ask(&q, argc, argv);
}
