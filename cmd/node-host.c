/*
 * node-host(8): runs a command on another host and represents it here: it passes signals on, ends
 * with the command's exit status, and leaves nothing there when the connection is gone.
 *
 * The far end is the same program with --serve, started by the launcher. With --test it measures
 * this machine, or finds out which of several hosts is bad.
 */
#include "cmd/cmd.h"

#include "base/number.h"
#include "meter/machine.h"
#include "proc/host_test.h"
#include "proc/remote_run.h"
#include "proc/remote_serve.h"
#include "record/record.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROGRAM "node-host"

static const char *opt_by = "ssh", *opt_id, *opt_program;
static double opt_cores, opt_seconds = 0.5;
static uint64_t opt_memory, opt_first, opt_job;
static struct option_list opt_make, opt_bring, opt_lock, opt_fetch;
static int opt_serve, opt_hold, opt_test;

static const struct option_row rows[] = {
	{.name = "by", .kind = OPTION_CHOICE, .target = &opt_by, .arg = "LAUNCHER",
	 .choices = LAUNCHER_CHOICES,
	 .help = "what reaches the host (ssh); slurm: srun, in the allocation"},
	{.name = "id", .kind = OPTION_ID, .target = &opt_id, .arg = "ID",
	 .help = "name of the node, shown in lists of processes"},
	{.name = "make", .kind = OPTION_LIST, .target = &opt_make, .arg = "DIR",
	 .help = "make this directory there first, with mode 0700"},
	{.name = "bring", .kind = OPTION_LIST, .target = &opt_bring, .arg = "PATH",
	 .help = "copy this file or directory there first, under the same name"},
	{.name = "lock", .kind = OPTION_LIST, .target = &opt_lock, .arg = "FILE",
	 .help = "lock this file there; an earlier command that still has it is killed"},
	{.name = "cores", .kind = OPTION_REAL, .target = &opt_cores, .arg = "N", .max = 1e9,
	 .help = "cores that it may use, 1.5 for example; 0: all"},
	{.name = "memory", .kind = OPTION_BYTES, .target = &opt_memory, .arg = "BYTES",
	 .help = "memory that it may use; 0: all"},
	{.name = "first-core", .kind = OPTION_COUNT, .target = &opt_first, .arg = "N",
	 .help = "first core to use, where cores can only be chosen"},
	{.name = "hold", .kind = OPTION_FLAG, .target = &opt_hold,
	 .help = "hold the memory there that is to outlive the command"},
	{.name = "slurm-job", .kind = OPTION_COUNT, .target = &opt_job, .arg = "JOB",
	 .help = "the allocation of Slurm that has the host; 0: the one that this runs in"},
	{.name = "fetch", .kind = OPTION_LIST, .target = &opt_fetch, .arg = "PATH=HERE",
	 .help = "run nothing: copy the file PATH from there"},
	{.name = "program", .kind = OPTION_TEXT, .target = &opt_program, .arg = "PATH",
	 .help = "this program on the other host (the same path as here)"},
	{.name = "test", .kind = OPTION_FLAG, .target = &opt_test,
	 .help = "run nothing: test these hosts and name the bad ones; without one, this machine"},
	{.name = "seconds", .kind = OPTION_REAL, .target = &opt_seconds, .arg = "S",
	 .help = "with --test: about how long this machine is tested", .min = 0.01, .max = 60},
	{.name = "serve", .kind = OPTION_FLAG, .target = &opt_serve,
	 .help = "be the far end, on standard input and output"},
	{0}};

static char deadlines[400];

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[OPTION]... HOST COMMAND [ARG]...\n"
		    "[--by LAUNCHER] --fetch PATH=HERE HOST\n"
		    "[--by LAUNCHER] [--seconds S] --test [HOST]...\n"
		    "--serve",
	.about = "Runs a command on another host and represents it here.",
	.rows = rows,
	.epilogue = deadlines};

/* Splits PATH=HERE. Names may contain a `=`: if both halves can be the same name they are, else the
 * first `=` separates them. */
static const char *equals_of(const char *pair)
{
	size_t half = strlen(pair) / 2;
	if (strlen(pair) == 2 * half + 1 && pair[half] == '=' &&
	    strncmp(pair, pair + half + 1, half) == 0)
		return pair + half;
	return strchr(pair, '=');
}

static int read_pair(char *text, struct remote_pair *pair, struct error *err)
{
	const char *equals = equals_of(text);
	if (!equals || equals == text || !equals[1])
		return error_set(err, ERROR_USAGE, "--fetch", "'%.200s' is not PATH=HERE", text);
	text[equals - text] = '\0';
	*pair = (struct remote_pair){.path = text, .to = equals + 1};
	return 0;
}

static int node_host_fetch(const struct remote_options *host, struct error *err)
{
	struct remote_pair *pair = calloc(opt_fetch.count, sizeof *pair);
	char **text = calloc(opt_fetch.count, sizeof *text);
	int result = pair && text ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < opt_fetch.count; i++) {
		text[i] = strdup(opt_fetch.item[i]);
		result = text[i] ? read_pair(text[i], &pair[i], err)
				 : error_set(err, ERROR_OS, NULL, "out of memory");
	}
	if (result == 0)
		result = remote_fetch(host, pair, opt_fetch.count, err);
	for (size_t i = 0; text && i < opt_fetch.count; i++)
		free(text[i]);
	free(text);
	free(pair);
	return result;
}

/* Ends as the command ended. Other signals stay blocked: one that came just now is not the
 * command's end. */
static int end_like(const struct node_end *end)
{
	const struct rlimit no_core = {0};
	sigset_t one;
	if (end->oom) {
		fprintf(stderr, PROGRAM ": the command was ended: there was no memory for it\n");
		return OOM_STATUS;
	}
	if (!end->signal)
		return end->status;
	setrlimit(RLIMIT_CORE, &no_core);
	signal(end->signal, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, end->signal);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(end->signal);
	return 128 + end->signal; /* one that ends nothing here */
}

static uint64_t node_host_number_of(const char *variable)
{
	const char *text = getenv(variable);
	uint64_t value = 0;
	if (text)
		number_u64(text, 0, UINT32_MAX, &value, variable, NULL);
	return value;
}

/* The memory to request from srun, in MiB: only from an allocation that has memory, and no more
 * than it has. */
static uint64_t slurm_memory(void)
{
	uint64_t all = node_host_number_of("SLURM_MEM_PER_NODE"),
		 wanted = (opt_memory + 1048575) / 1048576;
	if (all == 0)
		all = node_host_number_of("SLURM_MEM_PER_CPU") *
		      node_host_number_of("SLURM_CPUS_ON_NODE");
	return wanted <= all ? wanted : 0;
}

static int find_self(char path[PATH_MAX], struct error *err)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	if (n < 0)
		return error_errno(err, ERROR_OS, "/proc/self/exe", "can't be read");
	path[n] = '\0';
	return 0;
}

static int near(int argc, char **argv, struct error *err)
{
	char self[PATH_MAX];
	struct node_end end;
	struct remote_run what = {.host = {.launcher = launcher_find(opt_by),
					   .host = argv[0],
					   .program = opt_program ? opt_program : self,
					   .memory_mib = slurm_memory(),
					   .slurm_job = opt_job,
					   .search_path = getenv("PATH")},
				  .make = opt_make.item,
				  .bring = opt_bring.item,
				  .lock = opt_lock.item,
				  .limits = {.cores = opt_cores,
					     .memory = opt_memory,
					     .first_core = opt_first},
				  .keeps = opt_hold,
				  .argv = argv + 1};
	if (find_self(self, err) != 0)
		return -1;
	if (argc < 1)
		return error_set(err, ERROR_USAGE, NULL, "which host?");
	if (!launcher_host_ok(argv[0]))
		return error_set(err, ERROR_USAGE, NULL, "'%.200s' is no name of a host", argv[0]);
	if ((argc == 1) != (opt_fetch.count > 0))
		return error_set(err, ERROR_USAGE, NULL,
				 argc == 1 ? "which command?" : "--fetch runs no command");
	if (opt_fetch.count > 0)
		return node_host_fetch(&what.host, err);
	return remote_run(&what, &end, err) == 0 ? end_like(&end) : -1;
}

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

/* "." is this machine. */
static int node_host_test_hosts(char **host, size_t count, struct error *err)
{
	char self[PATH_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	struct host_test *t = calloc(count, sizeof *t);
	int bad = 0, result = t ? find_self(self, err)
				: error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < count; i++) {
		int here = strcmp(host[i], ".") == 0;
		t[i] = (struct host_test){.host = host[i],
					  .launcher = launcher_find(here ? "local" : opt_by),
					  .program = opt_program ? opt_program : self};
		if (!here && !launcher_host_ok(host[i]))
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
	snprintf(deadlines, sizeof deadlines,
		 "Deadlines:\n  %4g s  until the far end, when it hears nothing, kills the "
		 "command\n  %4g s  until this end, when it hears nothing, gives the host up (exit "
		 "status %d)",
		 REMOTE_FAR_SECONDS, REMOTE_NEAR_SECONDS, LOST_STATUS);
	cmd_parsed(PROGRAM, option_parse_command(&table, argc, argv, &first, stdout, &err), &err);
	if (opt_serve && first < argc) {
		error_set(&err, ERROR_USAGE, argv[first], "--serve takes no operands");
		return cmd_fail(PROGRAM, &err);
	}
	if (opt_serve)
		return remote_serve(getenv("PATH"));
	argc -= first;
	argv += first;
	int status = !opt_test  ? near(argc, argv, &err)
		     : argc > 0 ? node_host_test_hosts(argv, (size_t)argc, &err)
				: test_here(&err);
	if (status >= 0)
		return cmd_end(PROGRAM, status);
	status = cmd_fail(PROGRAM, &err);
	return status == ERROR_UNAVAILABLE ? LOST_STATUS : status;
}
