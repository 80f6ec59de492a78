/*
 * trainsim(1): a job on a simulated cluster.  A filter: what the cluster is in, the records of the
 * job's log out.
 */
#include "cmd/loop.h"
#include "cmd/filter.h"

#include "sim/sim.h"

#include <math.h>
#include <signal.h>

#define PROGRAM "trainsim"

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* What was simulated so far is told, also to a reader for which a line waits now. */
static void trainsim_catch(void)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

static int put_line(const char *line, size_t len, void *arg, struct error *err)
{
	(void)arg;
	if (fwrite(line, 1, len, stdout) != len)
		return error_errno(err, ERROR_IO, "standard output", "can't be written");
	return 0;
}

static int take_record(const struct record *r, void *sim, struct error *err)
{
	return sim_add(sim, r, err);
}

static int simulate(const struct sim_options *options, int strict, struct error *err)
{
	struct sim *s;
	struct sim_result ignored;
	if (sim_new(&s, options, err) != 0)
		return -1;
	int result = filter_read(PROGRAM, strict, NULL, take_record, s, err);
	trainsim_catch();
	if (result == 0)
		result = sim_run(s, &ignored, err);
	sim_free(s);
	return result;
}

int main(int argc, char **argv)
{
	int strict = 0;
	struct sim_options o = {.seed = 1, .until = INFINITY, .stop = &interrupted, .put = put_line};
	const struct option_row rows[] = {
		{.name = "seed",
		 .kind = OPTION_COUNT,
		 .target = &o.seed,
		 .arg = "N",
		 .help = "of the patterns (1)",
		 .max = 9e15},
		{.name = "solution",
		 .kind = OPTION_TEXT,
		 .target = &o.solution,
		 .arg = "NAME",
		 .help = "in place of the job's"},
		{.name = "until",
		 .kind = OPTION_SECONDS,
		 .target = &o.until,
		 .arg = "SECONDS",
		 .help = "simulated; then it stops",
		 .max = 1e9},
		{.name = "summary",
		 .letter = 's',
		 .kind = OPTION_FLAG,
		 .target = &o.is_brief,
		 .help = "only the last record"},
		{.name = "strict",
		 .kind = OPTION_FLAG,
		 .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "[--seed N] [--solution NAME] [--until SECONDS] [-s] < cluster > log",
		.about = "Simulates a training job on a cluster of any size.",
		.rows = rows};
	struct error err = {0};
	loop_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int status = simulate(&o, strict, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	return status && ferror(stdout) ? status : cmd_end(PROGRAM, status); /* it is said already */
}
