/*
 * straggle(1): slows nodes down by the patterns of the papers. lib/straggle decides what is slow
 * when, as a pure function. This program carries it out, with drag files (straggle/files.c) or on
 * processes (straggle/processes.c), and undoes it at the end, however it ends (straggle/guard.c).
 */
#include "cmd/straggle.h"

#include "base/clock.h"
#include "base/number.h"
#include "cmd/cmd.h"
#include "record/record.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MAX 3600.0

struct options {
	const char *dir, *nodes, *servers, *scale, *delay_scale;
	struct processes_options processes;
	uint64_t seed, life;
	int life_seen, force, dry_run, for_seen;
	double intensity, duration;
};

struct run {
	const struct options *options;
	struct schedule *schedule;
	struct schedule_state *now; /* by slot */
	struct processes *processes; /* or */
	struct files *files;
	struct guard guard;
	sigset_t signals;
	double begin; /* clock_mono() of time 0 */
	int ended;    /* by a signal */
};

/* ---- what is said ---- */

static void print_change(const struct run *run, size_t i, double at)
{
	const struct schedule_slot *slot = schedule_slot(run->schedule, i);
	const struct schedule_state *state = &run->now[i];
	struct record_out *o =
		RECORD(state->on ? "on" : "off", F_BRIEF("at", at), F("id", slot->id),
		       slot->life != SCHEDULE_EVERY_LIFE ? F("life", (uint64_t)slot->life) : F_NONE,
		       state->on && run->processes ? F_BRIEF("slowdown", state->slowdown) : F_NONE);
	drag_add(o, &state->drag);
	if (!run->options->dry_run)
		record_add_seconds(o, "epoch", clock_epoch());
	record_print(stdout, o);
}

static void say_gone(size_t i, void *arg)
{
	const struct run *run = arg;
	record_print(stdout, RECORD("gone", F_BRIEF("at", clock_mono() - run->begin),
				    F("id", processes_ids(run->processes)[i]),
				    F_SECONDS("epoch", clock_epoch())));
	fflush(stdout);
}

/* ---- what is done ---- */

static int straggle_change(struct run *run, size_t i, const struct schedule_state *state, double at,
			   struct error *err)
{
	if (schedule_same(&run->now[i], state))
		return 0;
	run->now[i] = *state;
	if (run->files && files_set(run->files, i, state, err) != 0)
		return -1;
	if (run->processes && !run->options->dry_run)
		processes_set(run->processes, schedule_slot(run->schedule, i)->node,
			      state->slowdown, clock_mono());
	print_change(run, i, at);
	return 0;
}

static int change_all(struct run *run, double at, struct error *err)
{
	struct schedule_state state;
	for (size_t i = 0; i < schedule_slots(run->schedule); i++) {
		schedule_at(run->schedule, i, at, &state);
		if (straggle_change(run, i, &state, at, err) != 0)
			return -1;
	}
	if (!run->options->dry_run && fflush(stdout) != 0)
		return error_errno(err, ERROR_IO, "standard output", "write");
	return 0;
}

static int all_off(struct run *run, double at, struct error *err)
{
	const struct schedule_state off = {.slowdown = 1};
	for (size_t i = 0; i < schedule_slots(run->schedule); i++)
		if (straggle_change(run, i, &off, at, err) != 0)
			return -1;
	return 0;
}

static int anything_on(const struct run *run)
{
	for (size_t i = 0; i < schedule_slots(run->schedule); i++)
		if (run->now[i].on)
			return 1;
	return 0;
}

/* ---- time ---- */

static void straggle_take_signals(struct run *run)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD};
	sigemptyset(&run->signals);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&run->signals, numbers[i]);
	sigprocmask(SIG_BLOCK, &run->signals, NULL);
}

static int straggle_on_signal(struct run *run, int number, struct error *err)
{
	if (number == SIGCHLD)
		return guard_check(&run->guard, err);
	if (number == SIGTSTP) { /* no process may stay stopped while we do not look at the clock */
		if (run->processes)
			processes_continue(run->processes, clock_mono());
		raise(SIGSTOP);
		return 0;
	}
	run->ended = 1;
	return 0;
}

static int pause_until(struct run *run, double until, struct error *err)
{
	double seconds = fmin(fmax(until - clock_mono(), 0), WAIT_MAX);
	struct timespec wait = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
	int number = sigtimedwait(&run->signals, NULL, &wait);
	return number > 0 ? straggle_on_signal(run, number, err) : 0;
}

static int straggle_over(const struct run *run)
{
	return run->ended || (run->processes && processes_left(run->processes) == 0);
}

static int wait_until(struct run *run, double until, struct error *err)
{
	while (!straggle_over(run)) {
		double now = clock_mono(), next = until;
		if (now >= until)
			return 0;
		if (run->processes)
			next = fmin(until, processes_tick(run->processes, now, say_gone, run));
		if (!straggle_over(run) && pause_until(run, next, err) != 0)
			return -1;
	}
	return 0;
}

/* Waits until the time is over, a signal comes, or the schedule has no more events. */
static int straggle_walk(struct run *run, struct error *err)
{
	int dry = run->options->dry_run;
	double end = run->options->for_seen ? run->options->duration : INFINITY, at = 0;
	run->begin = clock_mono();
	for (;;) {
		if (change_all(run, at, err) != 0)
			return -1;
		double next = schedule_next(run->schedule, at);
		if (isinf(next) && isinf(end) && (dry || !anything_on(run)))
			return 0;
		next = fmin(next, end);
		if (!dry && wait_until(run, run->begin + next, err) != 0)
			return -1;
		at = next;
		if (at >= end || straggle_over(run))
			break;
	}
	return all_off(run, dry ? end : fmin(end, clock_mono() - run->begin), err);
}

/* ---- start and end ---- */

/* A number, or two with a slash between: 1/60. */
static int read_scale(const char *text, const char *option, double *out, struct error *err)
{
	char head[64];
	double divisor = 1;
	size_t n = strcspn(text, "/");
	if (n >= sizeof head)
		return error_set(err, ERROR_USAGE, option, "'%.80s...' is no number", text);
	memcpy(head, text, n);
	head[n] = '\0';
	if (number_real(head, 1e-9, 1e9, out, option, err) != 0 ||
	    (text[n] && number_real(text + n + 1, 1e-9, 1e9, &divisor, option, err) != 0))
		return -1;
	*out /= divisor;
	return 0;
}

static int read_nodes(const struct options *o, struct nodes *n, char **words, size_t count,
		      struct error *err)
{
	if (o->nodes && nodes_add(n, o->nodes, "--nodes", err) != 0)
		return -1;
	n->workers = n->count;
	if (o->servers)
		return nodes_add(n, o->servers, "--servers", err);
	if (!o->nodes && nodes_of_patterns(n, words, count, err) != 0)
		return -1;
	n->workers = n->count;
	return 0;
}

static int make_schedule(struct run *run, const struct nodes *nodes, const char *const *ids,
			 char **words, size_t count, struct error *err)
{
	const struct options *o = run->options;
	struct schedule_options s = {.seed = o->seed,
				     .intensity = o->intensity,
				     .life = o->life_seen ? (int64_t)o->life : SCHEDULE_EVERY_LIFE,
				     .processes = run->processes != NULL,
				     .node = ids,
				     .workers = nodes->workers,
				     .servers = nodes->count - nodes->workers};
	if (run->processes) {
		s.node = processes_ids(run->processes);
		s.workers = processes_count(run->processes);
	}
	if (read_scale(o->scale, "--scale", &s.scale, err) != 0 ||
	    read_scale(o->delay_scale, "--delay-scale", &s.delay_scale, err) != 0 ||
	    schedule_new(&run->schedule, &s, err) != 0)
		return -1;
	if (count == 0)
		return error_set(err, ERROR_USAGE, NULL, "no pattern");
	for (size_t n; count > 0; words += n, count -= n) {
		n = schedule_words(words, count);
		if (schedule_add(run->schedule, words, n, err) != 0)
			return -1;
	}
	if (o->dry_run && !o->for_seen && schedule_endless(run->schedule))
		return error_set(err, ERROR_USAGE, "--dry-run",
				 "a transient pattern has no end: --for is missing");
	size_t slots = schedule_slots(run->schedule);
	run->now = calloc(slots + 1, sizeof *run->now);
	for (size_t i = 0; run->now && i < slots; i++)
		run->now[i].slowdown = 1;
	return run->now ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

static int straggle_check_options(const struct options *o, struct error *err)
{
	int processes = o->processes.list || o->processes.file || o->processes.match;
	if (o->dir && processes)
		return error_set(err, ERROR_USAGE, "--dir", "drag files or processes, not both");
	if (!o->dir && !processes && !o->dry_run)
		return error_set(err, ERROR_USAGE, NULL,
				 "--dir, --pid, --pid-file or --match is missing");
	if (processes && (o->nodes || o->servers || o->life_seen))
		return error_set(err, ERROR_USAGE, NULL,
				 "--nodes, --servers and --life are for drag files");
	return 0;
}

static int straggle_carry_out(struct run *run, struct error *err)
{
	const struct options *o = run->options;
	if (o->dry_run)
		return straggle_walk(run, err);
	straggle_take_signals(run);
	if (guard_start(&run->guard, err) != 0)
		return -1;
	if (run->processes ? processes_guard(run->processes, &run->guard, err) != 0
			   : files_new(&run->files, o->dir, run->schedule, o->force, &run->guard,
				       err) != 0)
		return -1;
	return straggle_walk(run, err);
}

static int straggle(const struct options *o, char **words, size_t count, struct error *err)
{
	struct run run = {.options = o};
	struct nodes nodes = {0};
	const char *const *ids;
	int result = -1;
	if (straggle_check_options(o, err) == 0 &&
	    (o->processes.list || o->processes.file || o->processes.match
		     ? processes_new(&run.processes, &o->processes, err)
		     : read_nodes(o, &nodes, words, count, err)) == 0 &&
	    (ids = nodes_list(&nodes, err)) &&
	    make_schedule(&run, &nodes, ids, words, count, err) == 0)
		result = straggle_carry_out(&run, err);
	files_free(run.files);
	processes_free(run.processes);
	guard_end(&run.guard);
	schedule_free(run.schedule);
	nodes_free(&nodes);
	free(run.now);
	return result;
}

int main(int argc, char **argv)
{
	struct options o = {.scale = "1",
			    .delay_scale = "1",
			    .seed = 1,
			    .intensity = 1,
			    .processes = {.period = 0.1}};
	const struct option_row rows[] = {
		{.name = "dir", .kind = OPTION_TEXT, .target = &o.dir, .arg = "DIR",
		 .help = "directory of drag files (DRAG= of a job)"},
		{.name = "nodes", .kind = OPTION_TEXT, .target = &o.nodes, .arg = "ID,...",
		 .help = "workers that patterns choose from; w0..w9 is a range"},
		{.name = "servers", .kind = OPTION_TEXT, .target = &o.servers, .arg = "ID,...",
		 .help = "servers that the server pattern chooses from"},
		{.name = "pid", .kind = OPTION_TEXT, .target = &o.processes.list, .arg = "PID,...",
		 .help = "slow down these processes instead, by stopping them again and again"},
		{.name = "pid-file", .kind = OPTION_TEXT, .target = &o.processes.file,
		 .arg = "FILE", .help = "slow down the processes whose pids are in FILE"},
		{.name = "match", .kind = OPTION_TEXT, .target = &o.processes.match, .arg = "TEXT",
		 .help = "slow down your processes that have TEXT in their command line"},
		{.name = "seed", .kind = OPTION_COUNT, .target = &o.seed, .arg = "N",
		 .help = "the same seed gives the same schedule"},
		{.name = "intensity", .kind = OPTION_REAL, .target = &o.intensity, .arg = "X",
		 .help = "a delay is sleep= times this value", .max = 1e6},
		{.name = "scale", .kind = OPTION_TEXT, .target = &o.scale, .arg = "F",
		 .help = "factor for all times of the patterns; 1/60 is allowed (1)"},
		{.name = "delay-scale", .kind = OPTION_TEXT, .target = &o.delay_scale, .arg = "F",
		 .help = "factor for all delays (1)"},
		{.name = "life", .kind = OPTION_COUNT, .target = &o.life, .arg = "N",
		 .help = "persistent stragglers slow only the N-th process of a node (from 0)",
		 .max = 1e9, .seen = &o.life_seen},
		{.name = "for", .kind = OPTION_SECONDS, .target = &o.duration, .arg = "SECONDS",
		 .help = "end after this time; without it, at a signal", .max = 1e9, .seen = &o.for_seen},
		{.name = "period", .kind = OPTION_SECONDS, .target = &o.processes.period,
		 .arg = "SECONDS", .help = "processes: time from one stop to the next", .min = 0.01,
		 .max = 10},
		{.name = "force", .kind = OPTION_FLAG, .target = &o.force,
		 .help = "take over existing drag files"},
		{.name = "dry-run", .letter = 'n', .kind = OPTION_FLAG, .target = &o.dry_run,
		 .help = "print the schedule and do nothing"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "--dir DIR --nodes ID,... [--servers ID,...] [OPTION]... PATTERN...\n"
			    "--pid PID,... | --pid-file FILE | --match TEXT [OPTION]... PATTERN...",
		.about = "Slows nodes or processes down by a pattern; at the end they run at full "
			 "speed again.",
		.rows = rows,
		.epilogue = "A PATTERN is transient, persistent, server, device or replay, and "
			    "key=value words:\nintensity= sleep= slowdown= on= every= p= from= until= "
			    "life= nodes= count= fraction=\nspeed= factor= launch= saturation= memory= "
			    "type= file= unit= own= batch= step=\n"};
	struct error err = {0};
	int first;
	if (argc == 1 && strcmp(argv[0], GUARD_NAME) == 0)
		return guard_main();
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	int status = 0;
	if (straggle(&o, argv + first, (size_t)(argc - first), &err) != 0)
		status = cmd_fail(PROGRAM, &err);
	return cmd_end(PROGRAM, status);
}
