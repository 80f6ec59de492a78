/*
 * hosttest(8): a short test of this machine, or of several hosts at once, which names the bad one.
 */
#include "cmd/cmd.h"

#include "meter/machine.h"
#include "proc/host_test.h"
#include "proc/launcher.h"
#include "proc/process.h"
#include "record/record.h"

#include <limits.h>
#include <unistd.h>

#define PROGRAM "hosttest"

static double opt_seconds = 0.5;
static const char *opt_by = "ssh", *opt_program;

static const struct option_row rows[] = {
	{.name = "seconds", .kind = OPTION_REAL, .target = &opt_seconds, .arg = "S",
	 .help = "about so long this machine is tested", .min = 0.01, .max = 60},
	{.name = "by", .kind = OPTION_CHOICE, .target = &opt_by, .arg = "ssh|slurm",
	 .help = "what reaches other hosts (ssh); slurm: srun, in the allocation",
	 .choices = "ssh|slurm"},
	{.name = "program", .kind = OPTION_TEXT, .target = &opt_program, .arg = "PATH",
	 .help = "node-host on the other hosts (beside this program, the same path)"},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[--seconds S]\n"
		    "[--by ssh|slurm] [--program PATH] HOST...",
	.about = "Tests this machine for half a second, or several hosts at once (. is this machine), and\n"
		 "names the bad ones.",
	.rows = rows};

static int test_here(struct error *err)
{
	struct machine m;
	if (machine_test(&m, opt_seconds, err) != 0)
		return -1;
	record_print(stdout, RECORD("machine", F("cores", (uint64_t)m.cores),
				    F("compute", (uint64_t)m.compute),
				    F("memory", (uint64_t)m.memory), F("wrong", m.wrong != 0)));
	return 0;
}

static int test_hosts(char **host, size_t count, struct error *err)
{
	char beside[PATH_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	struct host_test *t = calloc(count, sizeof *t);
	int bad = 0;
	if (!t)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = opt_program ? 0
				 : process_find("node-host", getenv("PATH"), beside, sizeof beside, err);
	for (size_t i = 0; result == 0 && i < count; i++) {
		t[i] = (struct host_test){.host = host[i],
					  .launcher = launcher_find(opt_by),
					  .program = opt_program ? opt_program : beside};
		if (strcmp(host[i], ".") == 0)
			t[i].launcher = launcher_find("local");
		else if (!launcher_host_ok(host[i]))
			result = error_set(err, ERROR_USAGE, NULL, "'%.200s' is no name of a host",
					   host[i]);
	}
	if (result == 0)
		result = host_tests_run(t, count, getenv("PATH"), err);
	for (size_t i = 0; result == 0 && i < count; i++) {
		host_test_record(&o, line, sizeof line, &t[i]);
		record_print(stdout, &o);
		bad |= t[i].why[0] != '\0';
	}
	free(t);
	return result == 0 && bad ? ERROR_NEGATIVE : result;
}

int main(int argc, char **argv)
{
	struct error err;
	int first;
	cmd_begin(PROGRAM);
	int shown = option_parse(&table, argc, argv, &first, stdout, &err);
	if (shown == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	if (shown != OPTION_GO)
		return cmd_fail(PROGRAM, &err);
	int result = first < argc ? test_hosts(argv + first, (size_t)(argc - first), &err)
				  : test_here(&err);
	return cmd_end(PROGRAM, result >= 0 ? result : cmd_fail(PROGRAM, &err));
}
