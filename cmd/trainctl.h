/* trainctl: what its files share: one main() a subcommand, each returns an exit status. */
#ifndef PACELINE_CMD_TRAINCTL_H
#define PACELINE_CMD_TRAINCTL_H

#include "base/option.h"
#include "job/dirs.h"

#define PROGRAM "trainctl"

int trainctl_run(int argc, char **argv);
int trainctl_status(int argc, char **argv);
int trainctl_stop(int argc, char **argv);
int trainctl_checkpoint(int argc, char **argv);
int trainctl_kill_restart(int argc, char **argv);
int trainctl_apply(int argc, char **argv);
int trainctl_top(int argc, char **argv);
int trainctl_report(int argc, char **argv);
int trainctl_solve(int argc, char **argv);
int trainctl_replay(int argc, char **argv);

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

struct record_reader;
/* Of a log that was read to its end: says so when that was in the middle of a line. */
void trainctl_tell_torn(struct record_reader *in);
void trainctl_environment(struct dirs_environment *env);
/* Where the job's trainctl answers; socket holds DIRS_PATH_MAX bytes. */
int trainctl_socket(const char *job, const char *run_dir, char *socket, struct error *err);

/* option_parse() with the one operand before, between or behind the options ("trainctl run JOB
 * --fresh"), which must be there. what names it in errors ("job file"); NULL: the command takes
 * none. */
int trainctl_parse(const struct option_table *table, int argc, char **argv, const char *what,
		   const char **operand, struct error *err);

#endif
