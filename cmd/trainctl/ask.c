/* The commands of trainctl that are one question to a job that runs, on its trainctl.sock. A new
 * one is a row of trainctl_ask(), and a row in trainctl.c. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/words.h"
#include "job/condition.h"
#include "job/deadline.h"
#include "job/holder.h"
#include "job/jobs.h"
#include "run/supervisor.h"
#include "wire/call.h"

#include <unistd.h>

#define CONNECT_SECONDS 0.0   /* do not wait: the daemon is there or it is not */
#define END_SECONDS 10.0      /* of a trainctl whose job has ended */
#define TURN_SECONDS 86400.0  /* it may come late; the job answers all requests before it ends */

#define OPTIONS_MAX 3

struct question {
	const char *verb; /* of the request, and the command's name */
	const char *usage, *about;
	const char *operand, *key; /* what the command names, and its key in the request; or NULL */
	struct option_row options[OPTIONS_MAX]; /* keys of the request, too, where they are given */
	int reads_stdin;                        /* the request's payload */
	int ends_job;                           /* its trainctl ends, too */
	int (*check)(struct error *err);        /* what can be seen without asking a job; or NULL */
	double answer_seconds;
};

static const char *trainctl_ask_value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text && text[0] ? text : "-";
}

void trainctl_show_record(const struct record *r)
{
	struct record_out *o = RECORD_BARE(r->type);
	record_add_fields(o, r, NULL);
	if (record_end(o, r->text) > 0)
		fputs(o->data, stdout);
}

static int trainctl_ask_converse(const char *socket, const struct question *q, const char *line,
				 size_t len, const char *payload, size_t bytes, struct error *err)
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
				 strcmp(trainctl_ask_value(&r, "code"), "unknown-node") == 0
					 ? ERROR_NOINPUT
					 : ERROR_NEGATIVE,
				 NULL, "%s: %s", trainctl_ask_value(&r, "code"),
				 r.text ? r.text : "refused");
	if (r.count > 0)
		trainctl_show_record(&r);
	return 0;
}

/* Builds the request line, without the keys that were not given. */
static size_t request_line(const struct question *q, const char *operand, size_t bytes, char *line)
{
	struct record_out o;
	record_begin(&o, line, RECORD_LINE_MAX, q->verb);
	if (operand)
		record_add(&o, q->key, operand);
	for (const struct option_row *row = q->options; row < q->options + OPTIONS_MAX; row++) {
		const char *text = NULL;
		if (row->name && row->kind == OPTION_FLAG)
			text = *(const int *)row->target ? "1" : NULL;
		else if (row->name)
			text = *(const char **)row->target;
		if (text)
			record_add(&o, row->name, text);
	}
	if (q->reads_stdin)
		record_add_u64(&o, "bytes", bytes);
	return record_end(&o, NULL);
}

/* Refuse a payload that is too long: the job would close the connection in the middle. */
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

/* For a job that does not answer: err says what is known of it instead. Returns -1. */
static int trainctl_explain(const char *job, const struct dirs *dirs, struct error *err)
{
	static struct condition c;
	char since[32], which[DIRS_MAX + 16], run[300];
	if (jobs_need_state(dirs, job, err) != 0 || condition_read(&c, dirs, err) != 0)
		return -1;
	trainctl_time(c.since, since);
	snprintf(which, sizeof which, "%s %s", job ? "-j" : "--run-dir",
		 words_quote(job ? job : dirs->run, run, sizeof run));
	if (c.is == CONDITION_RUNNING)
		return error_set(
			err, ERROR_TEMPFAIL, NULL,
			"job %s does not answer: pid %ld runs it since %s, and is preparing its "
			"data, or ending",
			c.name, (long)c.pid, since);
	return error_set(err, ERROR_UNAVAILABLE, NULL,
			 "job %s does not run: %s (%s); `trainctl status %s` says more", c.name,
			 condition_words(c.is), since, which);
}

/* ---- what can be asked ---- */

static int force, elsewhere;
static const char *workers, *servers, *hosts; /* NULL: as it is */
static const char *within;                    /* NULL: no limit */

static int trainctl_ask_check_within(struct error *err)
{
	double seconds;
	return within ? number_real(within, 0.1, 1e9, &seconds, "--within", err) : 0;
}

static int trainctl_ask_check_sizes(struct error *err)
{
	uint64_t n;
	if (!workers && !servers && !hosts)
		return error_set(err, ERROR_USAGE, NULL,
				 "scale: what is to change? Give --workers N, --servers N or "
				 "--hosts H1,H2,...");
	if (workers && number_u64(workers, 0, UINT64_MAX, &n, "--workers", err) != 0)
		return -1;
	return servers ? number_u64(servers, 0, UINT64_MAX, &n, "--servers", err) : 0;
}

/* The job has ended, and its trainctl soon: who starts it again right after us must find none. */
static void wait_for_the_end(const struct dirs *dirs)
{
	struct holder holder;
	pid_t pid = 0; /* another one holds it: somebody was faster */
	for (double limit = clock_mono() + END_SECONDS;
	     holder_find(dirs, &holder) && (!pid || pid == holder.pid) && clock_mono() < limit;
	     pid = holder.pid)
		clock_sleep(0.02);
}

static int trainctl_ask_job(const struct question *q, int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *operand = NULL;
	char name[64], usage[128], socket[DIRS_PATH_MAX], line[RECORD_LINE_MAX], *text = NULL;
	struct dirs dirs;
	size_t bytes = 0;
	struct option_row rows[OPTIONS_MAX + 3] = {
		TRAINCTL_ROW_JOB(&job), TRAINCTL_ROW_RUN_DIR(&run_dir, "the job's run directory")};
	memcpy(rows + 2, q->options, sizeof q->options);
	snprintf(name, sizeof name, PROGRAM " %s", q->verb);
	snprintf(usage, sizeof usage, "%s-j NAME | --run-dir DIR%s", q->usage ? q->usage : "",
		 q->reads_stdin ? " < actions" : "");
	struct option_table table = {name, usage, q->about, rows, NULL};
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, q->operand, &operand, &err), &err);
	if ((q->check && q->check(&err) != 0) ||
	    trainctl_find(job, run_dir, &dirs, &err) != 0 ||
	    (q->reads_stdin && read_stdin(&text, &bytes, &err) != 0)) {
		free(text);
		return cmd_fail(PROGRAM, &err);
	}
	dirs_run(&dirs, "trainctl.sock", socket);
	size_t len = request_line(q, operand, bytes, line);
	int result = trainctl_ask_converse(socket, q, line, len, text, bytes, &err);
	free(text);
	if (result == 0 && q->ends_job)
		wait_for_the_end(&dirs);
	if (result != 0 && err.code == ERROR_UNAVAILABLE)
		trainctl_explain(job, &dirs, &err);
	return result >= 0 ? result : cmd_fail(PROGRAM, &err);
}

int trainctl_ask(int argc, char **argv)
{
	const double save = deadline_seconds(DEADLINE_SAVE),
		     answer = deadline_seconds(DEADLINE_ANSWER);
	const struct question questions[] = {
		{.verb = "stop",
		 .about = "Makes a checkpoint and stops the job; waits for it.",
		 .ends_job = 1,
		 .answer_seconds = save + 4 * deadline_seconds(DEADLINE_STOP)},
		{.verb = "checkpoint",
		 .about = "Makes a checkpoint now and says where.",
		 .answer_seconds = save + answer},
		{.verb = "kill-restart",
		 .usage = "ID ",
		 .about = "Restarts a running worker or, without a rollback, a running server; "
			  "waits until it is up again.",
		 .operand = "node",
		 .key = "id",
		 .options = {{.name = "force",
			      .kind = OPTION_FLAG,
			      .target = &force,
			      .help = "whatever KILL_RESTART says"},
			     {.name = "elsewhere",
			      .kind = OPTION_FLAG,
			      .target = &elsewhere,
			      .help = "restart it on another host, and avoid its own (BAD_HOSTS "
				      "avoid)"}},
		 .answer_seconds = save + deadline_seconds(DEADLINE_HANDOVER)},
		{.verb = "apply",
		 .about = "Gives the action lines on stdin to a running job, all of them or none, "
			  "and prints the iteration in which they take effect.",
		 .reads_stdin = 1,
		 .answer_seconds = answer + deadline_seconds(DEADLINE_ACT)},
		{.verb = "scale",
		 .usage = "[--workers N] [--servers N] [--hosts H1,H2,...] ",
		 .about = "Changes the number of workers and servers of a running job, or its "
			  "hosts, and waits until the change is done.",
		 .options = {{.name = "workers",
			      .kind = OPTION_TEXT,
			      .target = &workers,
			      .arg = "N",
			      .help = "new number of workers"},
			     {.name = "servers",
			      .kind = OPTION_TEXT,
			      .target = &servers,
			      .arg = "N",
			      .help = "new number of parameter servers"},
			     {.name = "hosts",
			      .kind = OPTION_TEXT,
			      .target = &hosts,
			      .arg = "H1,H2,...",
			      .help = "use only these of HOSTS"}},
		 .check = trainctl_ask_check_sizes,
		 .answer_seconds = TURN_SECONDS},
		{.verb = "drain",
		 .usage = "HOST|ID [--within SECONDS] ",
		 .about = "Leaves a host that will go soon: servers hand over, workers give back what "
			  "they have not\ntrained; waits until nothing of the job runs there.",
		 .operand = "host or node",
		 .key = "id",
		 .options = {{.name = "within",
			      .kind = OPTION_TEXT,
			      .target = &within,
			      .arg = "SECONDS",
			      .help = "what still runs there then is killed"}},
		 .check = trainctl_ask_check_within,
		 .answer_seconds = TURN_SECONDS},
		{.verb = "rebalance",
		 .about = "Divides the parameters among the servers anew, so that the busiest "
			  "server has less to do, and waits until this is done.",
		 .answer_seconds = TURN_SECONDS},
	};
	const struct question *q = questions;
	while (strcmp(q->verb, argv[0]) != 0)
		q++;
	return trainctl_ask_job(q, argc, argv);
}
