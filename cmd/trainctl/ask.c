/* trainctl status, stop, checkpoint: one question each to a job that runs, on its trainctl.sock. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "run/deadline.h"
#include "run/show.h"
#include "wire/call.h"

#include <unistd.h>

#define CONNECT_SECONDS 0.0 /* it is there or it is not */
#define STATUS_SECONDS 10.0

struct question {
	const char *name, *about, *verb;
	double answer_seconds;
	void (*data)(const struct record *r, void *arg);
};

static const struct {
	const char *key, *head;
	int width;
} node_columns[] = {{"role", "ROLE", 8},         {"id", "ID", 12},
		    {"state", "STATE", 9},       {"pid", "PID", 8},
		    {"restarts", "RESTARTS", 8}, {"size", "SIZE", 7},
		    {"time", "TIME", 10},        {"speed", "SPEED", 10},
		    {"ratio", "RATIO", 7}};

static const char *value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text && text[0] ? text : "-";
}

static void show_job(const struct record *r)
{
	printf("%s: %s, epoch %s of %s, step %s, %s of %s samples, loss %s, %s restarts\n"
	       "last checkpoint %s\n\n",
	       value(r, "name"), value(r, "state"), value(r, "epoch"), value(r, "epochs"),
	       value(r, "iteration"), value(r, "samples-done"), value(r, "samples"),
	       value(r, "loss"), value(r, "restarts"), value(r, "checkpoint"));
	for (size_t i = 0; i < sizeof node_columns / sizeof *node_columns; i++)
		printf("%-*s ", node_columns[i].width, node_columns[i].head);
	putchar('\n');
}

static void show_columns(const struct record *r, void *arg)
{
	(void)arg;
	if (record_is(r, "job"))
		show_job(r);
	if (!record_is(r, "node"))
		return;
	for (size_t i = 0; i < sizeof node_columns / sizeof *node_columns; i++)
		printf("%-*.*s ", node_columns[i].width, node_columns[i].width,
		       value(r, node_columns[i].key));
	putchar('\n');
}

static void show_records(const struct record *r, void *arg)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	(void)arg;
	record_begin(&o, line, sizeof line, r->type);
	record_add_fields(&o, r, NULL);
	if (record_end(&o, r->text) > 0)
		fputs(line, stdout);
}

static int converse(const char *socket, const struct question *q, struct error *err)
{
	struct call *c;
	char line[64];
	static struct record closing;
	struct record_out o;
	if (call_open(&c, socket, CONNECT_SECONDS, q->answer_seconds, err) != 0)
		return -1;
	record_begin(&o, line, sizeof line, q->verb);
	size_t len = record_end(&o, NULL);
	int result = call_request(c, line, len, &closing, q->data, NULL, err);
	call_close(c);
	if (result == CALL_ERR)
		return error_set(err, ERROR_NEGATIVE, socket, "%s: %s", value(&closing, "code"),
				 closing.text ? closing.text : "refused");
	if (result == CALL_OK && closing.count > 0)
		show_records(&closing, NULL);
	return result;
}

static int ask(const struct question *q, int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL;
	char name[64], socket[PLACE_MAX];
	const struct option_row rows[] = {{.name = "job",
					   .letter = 'j',
					   .kind = OPTION_ID,
					   .target = &job,
					   .arg = "NAME",
					   .help = "the job, in its usual place"},
					  {.name = "run-dir",
					   .letter = 'd',
					   .kind = OPTION_TEXT,
					   .target = &run_dir,
					   .arg = "DIR",
					   .help = "the job's run directory"},
					  {0}};
	snprintf(name, sizeof name, PROGRAM " %s", q->name);
	struct option_table table = {name, "-j NAME | --run-dir DIR", q->about, rows, NULL};
	struct place place;
	struct place_environment env;
	struct error err;
	const char *none;
	int shown = trainctl_parse(&table, argc, argv, NULL, &none, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	trainctl_environment(&env);
	if (shown != OPTION_GO || place_resolve(&place, job, run_dir, "/", &env, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	place_run(&place, "trainctl.sock", socket);
	return converse(socket, q, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
}

int trainctl_status(int argc, char **argv)
{
	const struct question q = {"status", "Shows the nodes of a running job and how far it is.",
				   "status", STATUS_SECONDS,
				   isatty(STDOUT_FILENO) ? show_columns : show_records};
	return ask(&q, argc, argv);
}

int trainctl_stop(int argc, char **argv)
{
	const struct question q = {
		"stop", "Makes a checkpoint and stops the job; waits for it.", "stop",
		deadline_seconds(DEADLINE_CUT) + 4 * deadline_seconds(DEADLINE_STOP), show_records};
	return ask(&q, argc, argv);
}

int trainctl_checkpoint(int argc, char **argv)
{
	const struct question q = {
		"checkpoint", "Makes a checkpoint now and says where.", "checkpoint",
		deadline_seconds(DEADLINE_CUT) + deadline_seconds(DEADLINE_ANSWER), show_records};
	return ask(&q, argc, argv);
}
