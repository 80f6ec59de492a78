/*
 * trainsim(1): a job on a simulated cluster.  A filter: what the cluster is in, the records of the
 * job's log out.
 */
#include "cmd/cmd.h"
#include "cmd/filter.h"

#include "record/record.h"
#include "sim/sim.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#define PROGRAM "trainsim"

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* What was simulated so far is told. */
static void trainsim_catch(void)
{
	struct sigaction a = {.sa_handler = on_signal};
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

static int read_cluster(struct sim *s, int strict, struct error *err)
{
	static struct record r; /* large */
	struct filter_unknown unknown = {.program = PROGRAM, .strict = strict};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	int got, result = 0;
	if (!in)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	while (result == 0 && (got = record_read(in, &r, err)) != RECORD_END) {
		if (got < 0) {
			result = -1;
		} else if (got == RECORD_ONE) {
			int taken = sim_add(s, &r, err);
			result = taken > 0 ? filter_unknown(&unknown, &r, record_reader_place(in), err)
				 : taken < 0 ? error_wrap(err, record_reader_place(in))
					     : 0;
		}
	}
	record_reader_free(in);
	return result;
}

static int simulate(const struct sim_options *options, int strict, struct error *err)
{
	struct sim *s;
	struct sim_result ignored;
	if (sim_new(&s, options, err) != 0)
		return -1;
	int result = read_cluster(s, strict, err);
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
		 .max = 1e12},
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
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int status = simulate(&o, strict, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	return cmd_end(PROGRAM, status);
}
