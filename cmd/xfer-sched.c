/*
 * xfer-sched(1): when each update goes to the server, by which way, and which one does not.  A
 * filter: the state of hosts and updates in, the schedule out.
 */
#include "cmd/xfer-sched.h"

#include "base/number.h"
#include "cmd/cmd.h"

/* D, or N:updates. */
static int divergence_of(struct sched_options *o, const char *text, struct error *err)
{
	const char *colon = strchr(text, ':');
	char number[40];
	snprintf(number, sizeof number, "%s", text);
	if (colon && (size_t)(colon - text) < sizeof number && strcmp(colon, ":updates") == 0) {
		number[colon - text] = '\0';
		o->counts_updates = 1;
	}
	o->has_divergence = 1;
	if (number_real(number, 1e-150, 1e150, &o->divergence_max, "--divergence-max", err) == 0)
		return 0;
	return error_set(err, ERROR_USAGE, "--divergence-max",
			 "'%.80s' is neither a distance nor N:updates", text);
}

int main(int argc, char **argv)
{
	struct sched_options o = {.mode = "async", .method = "paper"};
	const char *divergence = NULL;
	int seen_plan = 0, seen_momentum = 0; /* seen_plan: of what plans transfers */
	const struct option_row rows[] = {
		{.name = "mode",
		 .letter = 'm',
		 .kind = OPTION_CHOICE,
		 .target = &o.mode,
		 .arg = "MODE",
		 .help = "how the job trains (async)",
		 .choices = "async|ssp|sync|round"},
		{.name = "delay-max",
		 .kind = OPTION_COUNT,
		 .target = &o.delay_max,
		 .arg = "VERSIONS",
		 .help = "an update meets a model at most this much newer than its own",
		 .max = 1e15,
		 .seen = &o.has_delay_max},
		{.name = "margin",
		 .kind = OPTION_COUNT,
		 .target = &o.margin,
		 .arg = "PERCENT",
		 .help = "an update is dropped only if it is so much later than its rival",
		 .max = XFER_MARGIN_MAX,
		 .seen = &seen_plan},
		{.name = "aggregators",
		 .letter = 'k',
		 .kind = OPTION_COUNT,
		 .target = &o.aggregators,
		 .arg = "COUNT",
		 .help = "hosts that sum on the way, at most",
		 .max = 1e6,
		 .seen = &o.has_aggregators},
		{.name = "method",
		 .kind = OPTION_CHOICE,
		 .target = &o.method,
		 .arg = "METHOD",
		 .help = "paper; local: search on from there, up to 16 updates (paper)",
		 .choices = "paper|local",
		 .seen = &seen_plan},
		{.name = "divergence-max",
		 .kind = OPTION_TEXT,
		 .target = &divergence,
		 .arg = "D|N:updates",
		 .help = "how far a server may be ahead of its replica"},
		{.name = "momentum",
		 .kind = OPTION_REAL,
		 .target = &o.momentum,
		 .arg = "G",
		 .help = "momentum of the optimiser, for --divergence-max",
		 .max = 0.999999,
		 .seen = &seen_momentum},
		{.name = "strict",
		 .kind = OPTION_FLAG,
		 .target = &o.strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "[-m async|ssp|sync] [--delay-max VERSIONS] [-k COUNT] "
			    "< state > schedule\n-m round < state > owners",
		.about = "Schedules the transfers of updates and models between hosts.",
		.rows = rows};
	struct sched_state state = {.options = &o};
	struct error err = {0};
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int result = 0;
	if (seen_momentum && !divergence)
		result = error_set(&err, ERROR_USAGE, "--momentum", "is for --divergence-max");
	else if (strcmp(o.mode, "round") == 0 &&
		 (seen_plan || o.has_delay_max || o.has_aggregators || divergence))
		result = error_set(&err, ERROR_USAGE, "--mode round",
				   "plans no transfers: of the other options only --strict goes with it");
	else if (divergence)
		result = divergence_of(&o, divergence, &err);
	cmd_confine(&(struct confine_ask){.sockets = CONFINE_NO_SOCKETS});
	if (result == 0)
		result = sched_read(&state, &err);
	if (result == 0)
		result = strcmp(o.mode, "round") == 0 ? sched_round(&state, &err)
						      : sched_plan(&state, &err);
	sched_clear(&state);
	return cmd_end(PROGRAM, result == 0 ? 0 : cmd_fail(PROGRAM, &err));
}
