/*
 * agent: a node that trains with a program of the user's, in any language. It takes shards from
 * shardd(8) and reports to the lead what its trainer did.
 */
#include "cmd/names.h"
#include "cmd/node.h"

#include "agent/agent.h"
#include "agent/filter.h"
#include "base/keep.h"
#include "monitor/node.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROGRAM "agent"

static struct {
	const char *shards, *lead, *replica, *spare, *resume, *memory, *rank;
	struct option_list env;
	uint64_t batch, ahead, profile;
	const struct speed_options *speed; /* NULL: it is not predicted */
	double grace;
	/* filters */
	struct option_list rows;
	const char *index_dir, *format, *separator, *output;
	int each, header;
	uint64_t jobs;
	double timeout;
	int seen_batch, seen_ahead;
} opt = {.jobs = 1,
	 .batch = AGENT_BATCH,
	 .ahead = AGENT_AHEAD,
	 .grace = AGENT_GRACE};

static struct node_options node = {
	.meter = {.load_root = "", .report_every = 5, .report_seconds = 1.0},
	.wait = 60,
	.answer = 600};

static const struct option_row option_rows[] = {
	{.name = "id", .kind = OPTION_ID, .target = &node.meter.id, .arg = "ID",
	 .help = "name of this node; required"},
	{.name = "shards", .kind = OPTION_TEXT, .target = &opt.shards, .arg = "SOCKET",
	 .help = "the socket of shardd; required"},
	{.name = "lead", .kind = OPTION_TEXT, .target = &opt.lead, .arg = "SOCKET",
	 .help = "the socket of the lead (ps-server --lead-only); required except for filters"},
	{.name = "replica", .kind = OPTION_TEXT, .target = &opt.replica, .arg = "SOCKET",
	 .help = "the socket of the replica on this host (ps-server --sums), which sums gradients"},
	{.name = "spare", .kind = OPTION_TEXT, .target = &opt.spare, .arg = "SOCKET",
	 .help = "be a spare: COMMAND gets ready, and waits until trainctl, at this socket, has a "
		 "place (needs --replica)"},
	{.name = "monitor", .kind = OPTION_TEXT, .target = &node.meter.monitor, .arg = "SOCKET",
	 .help = "the socket of bpt-monitor, for reports"},
	{.name = "batch", .kind = OPTION_COUNT, .target = &opt.batch, .arg = "ROWS",
	 .help = "rows in a batch, until an action changes it", .min = 1, .max = NODE_BATCH_MAX,
	 .seen = &opt.seen_batch},
	{.name = "rank", .kind = OPTION_TEXT, .target = &opt.rank, .arg = "I/N",
	 .help = "this is trainer I (0 is the first) of N; no iteration begins without all N"},
	{.name = "resume", .kind = OPTION_TEXT, .target = &opt.resume, .arg = "DIR",
	 .help = "the checkpoint from which the trainer is to go on"},
	{.name = "memory", .kind = OPTION_TEXT, .target = &opt.memory, .arg = "DIR",
	 .help = "the last checkpoint of COMMAND is kept in memory, too; links in DIR lead to it"},
	{.name = "env", .kind = OPTION_LIST, .target = &opt.env, .arg = "NAME=VALUE",
	 .help = "a variable for the environment of COMMAND; may be repeated"},
	{.name = "grace", .kind = OPTION_SECONDS, .target = &opt.grace, .arg = "SECONDS",
	 .help = "after SIGTERM: time to finish the batch, then time for COMMAND to end", .max = 86400},
	{.name = "ahead", .kind = OPTION_COUNT, .target = &opt.ahead, .arg = "BATCHES",
	 .help = "most batches reserved at shardd in advance", .min = 1, .max = 1024,
	 .seen = &opt.seen_ahead},
	NODE_REPORT_OPTIONS(node),
	{.name = "profile", .kind = OPTION_COUNT, .target = &opt.profile, .arg = "ROWS",
	 .help = "measure the device by first batches of several sizes, of ROWS or more; "
		 "0: do not (0)",
	 .max = NODE_BATCH_MAX},
	NODE_SPEED_OPTIONS(node),
	{.name = "rows", .kind = OPTION_LIST, .target = &opt.rows, .arg = "FILE[,FILE]",
	 .help = "COMMAND reads the rows of these files from its standard input"},
	{.name = "header", .kind = OPTION_FLAG, .target = &opt.header,
	 .help = "the header line of the csv comes first"},
	{.name = "format", .kind = OPTION_CHOICE, .target = &opt.format, .arg = "FORMAT",
	 .choices = ROW_FORMAT_CHOICES "|lines",
	 .help = "format of the rows (by the index, else by the first line)"},
	{.name = "separator", .kind = OPTION_TEXT, .target = &opt.separator, .arg = "CHARACTER",
	 .help = "separator of a csv: a character, or the word tab (,)"},
	{.name = "index-dir", .kind = OPTION_TEXT, .target = &opt.index_dir, .arg = "DIR",
	 .help = "directory of row indexes (beside the files)"},
	{.name = "each", .kind = OPTION_FLAG, .target = &opt.each,
	 .help = "COMMAND runs once for each shard: $SHARD, $BEGIN, $LENGTH, $EPOCH"},
	{.name = "jobs", .kind = OPTION_COUNT, .target = &opt.jobs, .arg = "N",
	 .help = "--each: how many COMMANDs run at a time", .min = 1, .max = FILTER_JOBS_MAX},
	{.name = "output", .kind = OPTION_TEXT, .target = &opt.output, .arg = "DIR",
	 .help = "--each: directory for the output of COMMAND, a file for each shard once it is "
		 "complete"},
	{.name = "timeout", .kind = OPTION_SECONDS, .target = &opt.timeout, .arg = "SECONDS",
	 .help = "--each: a COMMAND that runs longer has failed; 0: no limit", .max = 8640000},
	NODE_OPTIONS(node),
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "--id ID --shards SOCKET --lead SOCKET [OPTION]... -- COMMAND [ARGUMENT]...\n"
		    "--id ID --shards SOCKET --rows FILE... [OPTION]... -- COMMAND [ARGUMENT]...\n"
		    "--id ID --shards SOCKET --each [--rows FILE...] [--output DIR] [OPTION]... -- "
		    "COMMAND [ARGUMENT]...",
	.about = "Trains with COMMAND, which asks for rows and reports what it has trained, "
		 "through the two\ndescriptors in $PACELINE_IN and $PACELINE_OUT. Without a lead, "
		 "it gives COMMAND rows to\nread, or runs it for each shard.",
	.rows = option_rows};

static volatile int stop, look;
static int wake = -1;

static void agent_main_on_stop(int number)
{
	int before = errno;
	uint64_t one = 1;
	(void)number;
	stop = stop ? 2 : 1;
	if (write(wake, &one, sizeof one) < 0) /* it is readable already */
		errno = before;
	errno = before;
}

static void agent_main_on_look(int number)
{
	int before = errno;
	uint64_t one = 1;
	(void)number;
	look = 1;
	if (write(wake, &one, sizeof one) < 0)
		errno = before;
	errno = before;
}

static int is_filter(void)
{
	return opt.each || (opt.rows.count > 0 && !opt.lead);
}

static int agent_main_catch_signals(struct error *err)
{
	struct sigaction looks = {.sa_handler = is_filter() ? SIG_IGN : agent_main_on_look};
	struct sigaction action = {.sa_handler = agent_main_on_stop};
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0)
		return error_errno(err, ERROR_OS, "", "eventfd");
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigemptyset(&looks.sa_mask);
	sigaction(SIGUSR1, &looks, NULL);
	return 0;
}

static int read_rank(struct agent_options *o, struct error *err)
{
	char rest;
	unsigned long long rank, world;
	if (!opt.rank)
		return 0;
	if (sscanf(opt.rank, "%llu/%llu%c", &rank, &world, &rest) != 2 || strpbrk(opt.rank, "+- ") ||
	    rank >= world || world > 65536)
		return error_set(err, ERROR_USAGE, "--rank",
				 "'%.80s' is not I/N; 0/2 is the first of two", opt.rank);
	o->rank = rank;
	o->world = world;
	return 0;
}

static int check_filter(struct error *err)
{
	if (opt.lead)
		return error_set(err, ERROR_USAGE, "--each", "needs no --lead");
	const char *needs = opt.resume	       ? "--resume"
			    : opt.memory       ? "--memory"
			    : opt.replica      ? "--replica"
			    : opt.spare        ? "--spare"
			    : opt.rank	       ? "--rank"
			    : opt.seen_batch   ? "--batch"
			    : opt.seen_ahead   ? "--ahead"
			    : opt.profile      ? "--profile"
			    : opt.speed        ? "--predict"
			    : node.device_file ? "--device-file"
					       : NULL;
	if (needs)
		return error_set(err, ERROR_USAGE, needs, "needs a --lead");
	return 0;
}

static int agent_main_check_options(struct agent_options *o, char **command, struct error *err)
{
	if (!node.meter.id || !opt.shards || (!opt.lead && !is_filter()) || !command[0])
		return error_set(err, ERROR_USAGE, "",
				 "--id, --shards, a COMMAND, and --lead, --rows or --each are needed");
	if (opt.rows.count == 0 && (opt.header || opt.format || opt.separator || opt.index_dir))
		return error_set(err, ERROR_USAGE, "", "--header, --format, --separator, --index-dir: "
				 "need --rows");
	if (!opt.each && (opt.output || opt.jobs > 1 || opt.timeout > 0))
		return error_set(err, ERROR_USAGE,
				 opt.output	? "--output"
				 : opt.jobs > 1 ? "--jobs"
						: "--timeout",
				 "is for --each");
	if (node_predicts(&node, &opt.speed, err) != 0)
		return -1;
	o->meter = node.meter;
	o->speed = opt.speed;
	if (is_filter() && check_filter(err) != 0)
		return -1;
	if (opt.spare && !opt.replica)
		return error_set(err, ERROR_USAGE, "--spare", "needs --replica");
	for (size_t i = 0; i < opt.env.count; i++)
		if (command_env_check(opt.env.item[i], err) != 0)
			return -1;
	return read_rank(o, err);
}

/* ---- running ---- */

static int open_rows(struct rows_text **rows, struct error *err)
{
	static struct names files;
	struct rows_text_options o = {.index_dir = opt.index_dir,
				      .named = opt.format || opt.separator,
				      .header = opt.header};
	*rows = NULL;
	if (opt.rows.count == 0)
		return 0;
	for (size_t i = 0; i < opt.rows.count; i++)
		if (names_split(&files, opt.rows.item[i], "--rows", err) != 0)
			return -1;
	o.paths = files.item;
	o.count = files.count;
	if (o.count == 0)
		return error_set(err, ERROR_USAGE, "--rows", "names no file");
	if (o.named && row_syntax_find(opt.format, opt.separator, &o.syntax, err) != 0) {
		err->code = ERROR_USAGE;
		return -1;
	}
	return rows_text_open(rows, &o, err);
}

static int agent_main_train(const struct agent_options *o, struct node_end *end, struct error *err)
{
	struct agent *agent = NULL;
	int result = agent_new(&agent, o, err);
	if (result == 0)
		result = agent_run(agent, end, err);
	agent_free(agent);
	return result;
}

static int agent_main_run(struct agent_options *o, struct node_end *end, struct error *err)
{
	int log_fd;
	if (agent_main_catch_signals(err) != 0 || node_open_log(&node, &log_fd, err) != 0)
		return -1;
	o->wake = wake;
	o->look = &look;
	if (node.log || !is_filter()) /* the standard error of a pipeline is read by people */
		o->meter.log = node_write_log;
	o->meter.owner = &log_fd;
	int result = open_rows(&o->rows, err);
	if (result == 0 && !is_filter())
		result = agent_main_train(o, end, err);
	else if (result == 0)
		result = opt.each ? filter_each(o, err) : filter_rows(o, end, err);
	rows_text_free(o->rows);
	node_close_log(log_fd);
	return result;
}

/* Die as the trainer died, so that our parent can judge its end. */
static void die_by(int number)
{
	struct rlimit none = {0, 0};
	sigset_t set;
	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	struct node_end end = {0};
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse_command(&table, argc, argv, &first, stdout, &err), &err);
	struct command_options command = {.argv = argv + first,
					  .id = node.meter.id,
					  .env = opt.env.item,
					  .env_count = opt.env.count,
					  .input = -1,
					  .output = -1};
	struct agent_options options = {.shards = opt.shards,
					.lead = opt.lead,
					.replica = opt.replica,
					.spare = opt.spare,
					.resume = opt.resume,
					.memory = {.dir = opt.memory,
						   .worker = node.meter.id,
						   .keeper = keep_socket(getenv(KEEP_VARIABLE)),
						   .load_root = node.meter.load_root},
					.command = command,
					.batch = opt.batch,
					.ahead = opt.ahead,
					.profile = opt.profile,
					.device_file = node.device_file,
					.output = opt.output,
					.jobs = opt.jobs,
					.timeout_seconds = opt.timeout,
					.grace_seconds = opt.grace,
					.wait_seconds = node.wait,
					.answer_seconds = node.answer,
					.stop = &stop};
	int result = agent_main_check_options(&options, argv + first, &err);
	if (result == 0)
		result = agent_main_run(&options, &end, &err);
	int status = result < 0 ? cmd_fail(PROGRAM, &err) : 0;
	if (end.seen && end.signal) {
		cmd_end(PROGRAM, status);
		die_by(end.signal);
	}
	return cmd_end(PROGRAM, status);
}
