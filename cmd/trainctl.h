/* trainctl: what its files share: one main() a subcommand, each returns an exit status. */
#ifndef PACELINE_CMD_TRAINCTL_H
#define PACELINE_CMD_TRAINCTL_H

#include "base/option.h"
#include "job/dirs.h"

#define PROGRAM "trainctl"

int trainctl_init(int argc, char **argv);
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

/* solve.c, for replay.c, too. */
struct solution;
struct solution_options;
struct snapshot;
/* Prints the actions. Infos of the snapshot that should be numbers and are none are told as lines of
 * file; once, as long as they say the same. */
int trainctl_decide(const struct solution *solution, const struct solution_options *options,
		    const struct snapshot *s, const char *file, struct error *err);
/* Of an executable: a name without a slash is a file here, not one that PATH knows. */
void trainctl_solution_path(const char *name, char path[DIRS_PATH_MAX]);

/* view.c: on standard output, after terminal_open(). */
struct view;
void trainctl_show_view(struct view *v);
/* Of a job whose trainctl has gone: how it ended, as its log says. */
void trainctl_show_end(const struct view *v);

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
