/*
 * bs-solve(1): batch sizes for workers of different speeds. A filter: records of workers in,
 * records of batches out.
 */
#include "cmd/bs-solve.h"

#include "cmd/cmd.h"
#include "solve/batch.h"

int main(int argc, char **argv)
{
	uint64_t global = 0;
	int global_seen = 0, step_seen = 0, strict = 0;
	struct step_options step = STEP_OPTIONS_DEFAULT;
	const char *method = "share";
	const struct option_row rows[] = {
		{.name = "global-batch", .letter = 'B', .kind = OPTION_COUNT, .target = &global,
		 .arg = "SAMPLES", .help = "global batch, to be divided among the workers; required",
		 .min = 1, .max = (double)BATCH_SIZE_MAX, .seen = &global_seen},
		{.name = "method", .letter = 'm', .kind = OPTION_CHOICE, .target = &method,
		 .arg = "METHOD", .help = "how to divide the batch (share)", .choices = "even|share|accum|step"},
		{.name = "step", .kind = OPTION_COUNT, .target = &step.step, .arg = "SAMPLES",
		 .help = "-m step: samples moved at a time", .min = 1,
		 .max = (double)BATCH_SIZE_MAX, .seen = &step_seen},
		{.name = "window", .kind = OPTION_COUNT, .target = &step.window,
		 .arg = "ITERATIONS", .help = "-m step: iterations with the same straggler before "
					      "samples are moved",
		 .min = 1, .max = STEP_WINDOW_MAX, .seen = &step_seen},
		{.name = "fine-step", .kind = OPTION_COUNT, .target = &step.fine_step,
		 .arg = "SAMPLES", .help = "-m step: the same once sizes swing", .min = 1,
		 .max = (double)BATCH_SIZE_MAX, .seen = &step_seen},
		{.name = "fine-window", .kind = OPTION_COUNT, .target = &step.fine_window,
		 .arg = "ITERATIONS", .help = "-m step: the same once sizes swing", .min = 1,
		 .max = STEP_WINDOW_MAX, .seen = &step_seen},
		{.name = "strict", .kind = OPTION_FLAG, .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "-B GLOBAL_BATCH [-m even|share|accum] [--strict] < workers > batches\n"
			    "-B GLOBAL_BATCH -m step [--step N] [--window K] [--fine-step N] "
			    "[--fine-window K] < iterations > batches",
		.about = "Computes batch sizes for workers of different speeds, to the exact "
			 "optimum.",
		.rows = rows};
	struct error err = {0};
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int parsed = 0;
	if (!global_seen)
		parsed = error_set(&err, ERROR_USAGE, "-B", "the global batch is missing");
	if (parsed == 0 && step_seen && strcmp(method, "step") != 0)
		parsed = error_set(&err, ERROR_USAGE, "-m",
				   "steps and windows belong to the method step, not to %s", method);
	if (parsed != 0)
		return cmd_fail(PROGRAM, &err);
	step.global = global;
	cmd_confine(&(struct confine_ask){.sockets = CONFINE_NO_SOCKETS});
	int status = strcmp(method, "step") == 0 ? bs_solve_step(&step, strict)
						 : bs_solve_once(method, global, strict);
	return cmd_end(PROGRAM, status);
}
