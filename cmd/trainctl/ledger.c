/* trainctl ledger: which rows are in the model, epoch by epoch, as the journal of the job says. It
 * reads only the journal, so the job may run, be over, or have died. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "job/jobs.h"
#include "record/record.h"
#include "shard/ledger.h"

int trainctl_ledger(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *state_dir = NULL, *none;
	char journal[DIRS_PATH_MAX];
	const struct option_row rows[] = {
		TRAINCTL_ROWS_STATE(&job, &run_dir, &state_dir),
		{0}};
	const struct option_table table = {
		PROGRAM " ledger", "-j NAME | --run-dir DIR | --state-dir DIR",
		"Prints which rows are in the model, as runs of rows by epoch. The same rows always "
		"give the\nsame lines, so that diff(1) compares two jobs.",
		rows, NULL};
	struct dirs dirs;
	struct dirs_environment env;
	struct ledger ledger;
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, NULL, &none, &err), &err);
	trainctl_environment(&env);
	if (jobs_find(&dirs, job, run_dir, state_dir, &env, &err) != 0 ||
	    jobs_need_state(&dirs, job, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	dirs_state(&dirs, "journal", journal);
	if (ledger_read(&ledger, journal, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	for (size_t i = 0; i < ledger.runs; i++)
		record_print(stdout, RECORD("rows", F("epoch", ledger.run[i].epoch),
					    F("begin", ledger.run[i].begin),
					    F("length", ledger.run[i].length)));
	ledger_free(&ledger);
	return 0;
}
