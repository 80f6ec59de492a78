/* trainctl: what its files share: one main() a subcommand, each returns an exit status. */
#ifndef PACELINE_CMD_TRAINCTL_H
#define PACELINE_CMD_TRAINCTL_H

#include "base/option.h"
#include "job/dirs.h"

#define PROGRAM "trainctl"

int trainctl_init(int argc, char **argv);
int trainctl_run(int argc, char **argv);
int trainctl_status(int argc, char **argv);
int trainctl_ask(int argc, char **argv); /* each question to a job; argv[0] says which */
int trainctl_top(int argc, char **argv);
int trainctl_report(int argc, char **argv);
int trainctl_advise(int argc, char **argv);
int trainctl_compare(int argc, char **argv);
int trainctl_ledger(int argc, char **argv);
int trainctl_wait(int argc, char **argv);
int trainctl_logs(int argc, char **argv);
int trainctl_check(int argc, char **argv);
int trainctl_solve(int argc, char **argv);

/* Rows of an option table: which job a command is about. */
#define TRAINCTL_ROW_JOB(variable)                                                                 \
	{                                                                                          \
		.name = "job", .letter = 'j', .kind = OPTION_ID, .target = (variable),             \
		.arg = "NAME", .help = "the job, in its usual place"                               \
	}
#define TRAINCTL_ROW_RUN_DIR(variable, text)                                                       \
	{                                                                                          \
		.name = "run-dir", .letter = 'd', .kind = OPTION_TEXT, .target = (variable),       \
		.arg = "DIR", .help = (text)                                                       \
	}
#define TRAINCTL_ROW_STATE_DIR(variable, text)                                                     \
	{                                                                                          \
		.name = "state-dir", .kind = OPTION_TEXT, .target = (variable), .arg = "DIR",      \
		.help = (text)                                                                     \
	}

/* One whose process need not run. */
#define TRAINCTL_ROWS_STATE(job, run, state)                                                       \
	TRAINCTL_ROW_JOB(job),                                                                     \
		TRAINCTL_ROW_RUN_DIR(run, "its run directory; state is in DIR/state"),             \
		TRAINCTL_ROW_STATE_DIR(state, "the job's state directory")
/* How it is told: as records on a pipe, in words on a terminal, unless one of these is given. */
#define TRAINCTL_ROW_RECORDS(variable)                                                             \
	{                                                                                          \
		.name = "records", .kind = OPTION_FLAG, .target = (variable),                      \
		.help = "records also on a terminal"                                               \
	}
#define TRAINCTL_ROW_TEXT(variable)                                                                \
	{                                                                                          \
		.name = "text", .kind = OPTION_FLAG, .target = (variable),                         \
		.help = "words also on a pipe"                                                     \
	}

/* list.c: all jobs, printed. */
int trainctl_list(struct error *err);
/* How a job is that does not answer: how it ended, or that it is not there yet. Prints, and returns
 * the exit status. */
struct condition;
int trainctl_show_condition(const struct condition *c, const struct dirs *dirs);

/* report.c: machine or job, and what to do next, in words; nothing where there is no log to read. */
void trainctl_tell_verdict(const struct dirs *dirs);

/* begin.c: what run and check begin with. */
struct job;
struct trainctl_call {
	const char *run_dir, *state_dir; /* NULL: not given */
	struct option_list set;
	int fresh;
};
/* Rows of an option table for these. */
#define TRAINCTL_ROWS_CALL(call)                                                                   \
	{.name = "set",                                                                            \
	 .letter = 's',                                                                            \
	 .kind = OPTION_LIST,                                                                      \
	 .target = &(call)->set,                                                                   \
	 .arg = "KEY=VALUE",                                                                       \
	 .help = "one key of the job file, again and again"},                                      \
		{.name = "run-dir",                                                                \
		 .letter = 'd',                                                                    \
		 .kind = OPTION_TEXT,                                                              \
		 .target = &(call)->run_dir,                                                       \
		 .arg = "DIR",                                                                     \
		 .help = "sockets ($RUNTIME_DIRECTORY, or /tmp/paceline-UID/JOB)"},                \
		TRAINCTL_ROW_STATE_DIR(&(call)->state_dir,                                         \
				       "state (RUN-DIR/state, $STATE_DIRECTORY, or "               \
				       "$XDG_STATE_HOME/paceline/JOB)"),                           \
	{                                                                                          \
		.name = "fresh", .kind = OPTION_FLAG, .target = &(call)->fresh,                    \
		.help = "forget the state of an earlier run"                                       \
	}
/* The job that the file at path describes, whole, and where it lies; nothing is made. On failure
 * there is no job to free. */
int trainctl_begin(struct job *job, struct dirs *dirs, const char *path,
		   const struct trainctl_call *call, struct error *err);
/* Where finished jobs are written down, for the first plans of others; -1: the environment does not
 * tell. */
int trainctl_history(char path[DIRS_PATH_MAX]);
/* Where it runs (job/hosts.h). */
struct hosts;
struct hosts_environment;
void trainctl_hosts_environment(struct hosts_environment *env);
int trainctl_hosts(struct hosts *hosts, const struct job *job, struct error *err);
/* Says what has no effect on so few hosts: FABRIC, and more workers than one machine has cores for. */
void trainctl_tell_hosts(const struct job *job, const struct hosts *hosts);
/* -1 (ERROR_TEMPFAIL): another trainctl runs it. */
int trainctl_runs_already(const struct job *job, const struct dirs *dirs,
			  const struct trainctl_call *call, struct error *err);
/* Epoch seconds as people here write them; "?" for NAN. */
void trainctl_time(double at, char out[32]);

/* solve.c, for solve_log.c, too. */
struct solution;
struct solution_options;
struct snapshot;
/* Prints the actions. Infos of the snapshot that should be numbers and are none are told as lines
 * of file; once, as long as they say the same. */
int trainctl_decide(const struct solution *solution, const struct solution_options *options,
		    const struct snapshot *s, const char *file, struct error *err);
/* "none even ..." */
#define TRAINCTL_SOLUTIONS_MAX 256
void trainctl_solutions(char out[TRAINCTL_SOLUTIONS_MAX]);
/* Of an executable: a name without a slash is a file here, not one that PATH knows. */
void trainctl_solution_path(const char *name, char path[DIRS_PATH_MAX]);
/* solve_log.c; solution, brain: instead of those of then; NULL: those. */
int trainctl_solve_log(const char *path, const char *solution, const char *brain,
		       struct error *err);

struct record;
void trainctl_show_record(const struct record *r);
struct record_reader;
/* Of a log that was read to its end: says so when that was in the middle of a line. */
void trainctl_tell_torn(struct record_reader *in);
void trainctl_environment(struct dirs_environment *env);
/* Where the job is that somebody names. */
int trainctl_find(const char *job, const char *run_dir, struct dirs *dirs, struct error *err);

/* option_parse() with the one operand before, between or behind the options ("trainctl run JOB
 * --fresh"), which must be there. what names it in errors ("job file"); in brackets ("[node]"): it
 * need not be there; NULL: the command takes none. */
int trainctl_parse(const struct option_table *table, int argc, char **argv, const char *what,
		   const char **operand, struct error *err);

#endif
