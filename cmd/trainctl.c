/*
 * trainctl(1): starts, supervises and finishes a job, and talks to a running one. The supervisor
 * itself is lib/run; each subcommand is a file in cmd/trainctl. Under the name node-parent this
 * program is the small parent of one node (lib/proc/parent.h).
 */
#include "cmd/trainctl.h"
#include "base/near.h"
#include "base/version.h"
#include "cmd/loop.h"
#include "proc/parent.h"
#include "proc/process.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"init", trainctl_init, "look at data and write the job file that trains on it"},
	{"run", trainctl_run, "start a job, or go on with it, until its end"},
	{"check", trainctl_check, "check a job as `run` would, and say what it will do"},
	{"status", trainctl_status, "show all your jobs, or the nodes and the progress of one"},
	{"top", trainctl_top, "show the status of one job, again and again"},
	{"wait", trainctl_wait, "wait until a job ends, and exit with its exit status"},
	{"logs", trainctl_logs, "show the log of a job, or of one of its nodes"},
	{"stop", trainctl_ask, "make a checkpoint and stop; `run` goes on from there"},
	{"checkpoint", trainctl_ask, "make a checkpoint now and say where"},
	{"kill-restart", trainctl_ask, "restart one running node; a server hands over"},
	{"scale", trainctl_ask, "change the number of workers, servers or hosts while the job "
				"trains"},
	{"drain", trainctl_ask, "leave a host that will go soon"},
	{"rebalance", trainctl_ask, "move keys from the busiest server to the others"},
	{"apply", trainctl_ask, "carry out actions on stdin, all in the same iteration"},
	{"advise", trainctl_advise, "say what would have made a job shorter, simulated from its log"},
	{"report", trainctl_report, "show where the time went, what was decided, and what failed"},
	{"compare", trainctl_compare, "show two jobs beside each other, and how they differ"},
	{"ledger", trainctl_ledger, "show which rows are in the model, by epoch"},
	{"solve", trainctl_solve, "run a solution on a snapshot, or again on a log"},
};

void trainctl_environment(struct dirs_environment *env)
{
	*env = (struct dirs_environment){.runtime_directory = getenv("RUNTIME_DIRECTORY"),
					 .state_directory = getenv("STATE_DIRECTORY"),
					 .xdg_state_home = getenv("XDG_STATE_HOME"),
					 .home = getenv("HOME")};
}

static int has_option(const struct option_table *table, const char *name)
{
	for (const struct option_row *row = table->rows; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return 1;
	return 0;
}

static int is_setting(const char *word)
{
	size_t len = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
	return len > 0 && word[len] == '=';
}

int trainctl_parse(const struct option_table *table, int argc, char **argv, const char *what,
		   const char **operand, struct error *err)
{
	int first, result = option_parse(table, argc, argv, &first, stdout, err);
	*operand = NULL;
	if (result != OPTION_GO)
		return result;
	if (first == argc)
		return what && what[0] != '['
			       ? error_set(err, ERROR_USAGE, NULL, "%s: which %s?",
					   table->program + sizeof PROGRAM, what)
			       : OPTION_GO;
	for (int i = first; i < argc; i++)
		if (is_setting(argv[i]) && has_option(table, "set"))
			return error_set(err, ERROR_USAGE, NULL,
					 "a key is set with --set: --set '%.80s'", argv[i]);
	if (!what)
		return error_set(err, ERROR_USAGE, NULL, "takes no argument: '%.80s'%s",
				 argv[first],
				 has_option(table, "job") ? "; a job is named with -j NAME" : "");
	if (argc - first > 1)
		return error_set(err, ERROR_USAGE, NULL, "more than one %s: '%.80s'", what,
				 argv[first + 1]);
	*operand = argv[first];
	return OPTION_GO;
}

static void trainctl_usage(FILE *out)
{
	fprintf(out, "usage: " PROGRAM " COMMAND [OPTION]... [ARGUMENT]...\n"
		     "Starts, supervises and finishes a training job.\n\n");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(out, "  %-13s %s\n", commands[i].name, commands[i].help);
	fprintf(out,
		"  %-13s %s\n  %-13s %s\n  %-13s %s\n\n" PROGRAM
		" COMMAND --help shows its options.\n",
		"--exec-path", "print where worker, agent, fabricd and node-host are", "--help",
		"this text", "--version", "name and version");
}

static int trainctl_unknown_command(const char *given)
{
	/* Names of before, and what people try first. */
	static const struct {
		const char *word, *command;
	} meant[] = {{"list", "trainctl status"},
		     {"replay", "trainctl solve --log LOG"},
		     {"continue", "trainctl run JOB.env"},
		     {"resume", "trainctl run JOB.env"},
		     {"start", "trainctl run JOB.env"},
		     {"train", "trainctl run JOB.env"},
		     {"show", "trainctl status -j JOB"},
		     {"watch", "trainctl top -j JOB"},
		     {"help", "trainctl --help"},
		     {"diff", "trainctl compare A B"},
		     {"predict", "predict -j JOB FILE"},
		     {"score", "predict -j JOB FILE"},
		     {"export", "ckpt export -j JOB FILE.safetensors"}};
	struct near near = {0};
	struct error err;
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		if (strcmp(given, meant[i].word) == 0) {
			error_set(&err, ERROR_USAGE, NULL, "unknown command '%s'; `%s` does that",
				  given, meant[i].command);
			return cmd_fail(PROGRAM, &err);
		}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		near_look(&near, given, commands[i].name);
	near_unknown(&near, given, &err);
	return cmd_fail(PROGRAM, &err);
}

static int exec_path(void)
{
	char dir[DIRS_PATH_MAX];
	struct error err;
	if (process_exec_dir(dir, sizeof dir, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	puts(dir);
	return 0;
}

static int no_command(void)
{
	struct error err;
	error_set(&err, ERROR_USAGE, NULL, "no command");
	return cmd_fail(PROGRAM, &err);
}

/* The user's programs (solutions, launchers) exchange numbers with a decimal point with us,
 * whatever the language; the rest of the locale stays unchanged. */
static void numbers_with_point(void)
{
	static const char *const others[] = {"LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY",
					     "LC_TIME"};
	const char *all = getenv("LC_ALL");
	for (size_t i = 0; all && all[0] && i < sizeof others / sizeof *others; i++)
		setenv(others[i], all, 1);
	unsetenv("LC_ALL");
	setenv("LC_NUMERIC", "C", 1);
}

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], PARENT_NAME) == 0)
		return parent_main(argc, argv);
	loop_begin(PROGRAM);
	numbers_with_point();
	if (argc < 2)
		return no_command();
	if (strcmp(argv[1], "--help") == 0) {
		trainctl_usage(stdout);
		return cmd_end(PROGRAM, 0);
	}
	if (strcmp(argv[1], "--exec-path") == 0)
		return cmd_end(PROGRAM, exec_path());
	if (strcmp(argv[1], "--version") == 0) {
		printf(PROGRAM " " PACELINE_VERSION "\n");
		return cmd_end(PROGRAM, 0);
	}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return cmd_end(PROGRAM, commands[i].main(argc - 1, argv + 1));
	return trainctl_unknown_command(argv[1]);
}
