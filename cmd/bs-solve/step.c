/*
 * step: the filter that lives as long as the job. An iteration is the lines up to an empty one; it
 * is answered before the next line is read, so that a job can wait for its sizes.
 */
#include "cmd/bs-solve.h"

#include "base/grow.h"
#include "cmd/cmd.h"
#include "cmd/filter.h"
#include "solve/batch.h"
#include "solve/idset.h"
#include "record/record.h"

#include <math.h>
#include <unistd.h>

#define TIME_MAX 1e9 /* seconds */

struct iteration {
	struct step_worker *worker;
	size_t count, room;
	struct idset ids; /* by worker */
	uint64_t line;    /* line of the iteration's first worker */
};

static int bs_step_parse_worker(struct step_worker *w, const struct record *r, struct error *err)
{
	*w = (struct step_worker){.min = 1, .max = BATCH_SIZE_MAX};
	if (!record_get(r, "time"))
		return error_set(err, ERROR_DATA, NULL, "time= is missing");
	if (record_real_opt(r, "time", 1e-9, TIME_MAX, &w->time, err) != 0 ||
	    record_real_opt(r, "mem", 0, 1, &w->mem, err) != 0 ||
	    record_u64_opt(r, "min", 0, BATCH_SIZE_MAX, &w->min, err) != 0 ||
	    record_u64_opt(r, "max", 0, BATCH_SIZE_MAX, &w->max, err) != 0 ||
	    record_u64_opt(r, "size", 0, BATCH_SIZE_MAX, &w->start, err) != 0)
		return -1;
	if (w->min > w->max)
		return error_set(err, ERROR_DATA, NULL, "min=%llu is above max=%llu",
				 (unsigned long long)w->min, (unsigned long long)w->max);
	return 0;
}

static int bs_step_add_worker(struct iteration *now, const struct record *r, struct error *err)
{
	const char *id;
	if (GROW(now->worker, now->room, now->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a worker");
	if (now->count == STEP_WORKERS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", STEP_WORKERS_MAX);
	if (record_id(r, "id", &id, err) != 0 ||
	    bs_step_parse_worker(&now->worker[now->count], r, err) != 0)
		return -1;
	int added = idset_add(&now->ids, id, err);
	if (added == 0)
		return error_set(err, ERROR_DATA, NULL, "worker id=%s appears twice in an iteration",
				 id);
	now->count += added > 0;
	return added > 0 ? 0 : -1;
}

static void bs_step_print_sizes(const struct iteration *now, const struct step *s, uint64_t global)
{
	double longest = 0;
	for (size_t i = 0; i < now->count; i++) {
		const struct step_worker *w = &now->worker[i];
		longest = w->time > longest ? w->time : longest;
		record_print(stdout,
			     RECORD("batch", F("id", w->id), F("size", w->size), F("accum", 1),
				    w->time > 0 ? F_BRIEF("time", w->time) : F("time", "")));
	}
	for (size_t i = 0; i < now->count; i++) {
		if (!now->worker[i].remove)
			continue;
		record_print(stdout, RECORD("warn", F("id", now->worker[i].id),
					    F("reason", "remove-straggler")));
	}
	record_print(stdout, RECORD("total", F_BRIEF("time", longest > 0 ? longest : NAN),
				    F("samples", global), F("method", "step"),
				    F("phase", step_phase(s) == STEP_FINE ? "fine" : "coarse")));
	fputc('\n', stdout);
}

static int end_iteration(struct iteration *now, struct step *s, uint64_t global, struct error *err)
{
	int result = 0;
	if (now->count > 0) {
		for (size_t i = 0; i < now->count; i++)
			now->worker[i].id = idset_get(&now->ids, i);
		if (step_round(s, now->worker, now->count, err) != 0) {
			char place[64];
			snprintf(place, sizeof place, "stdin:%llu", (unsigned long long)now->line);
			result = error_wrap(err, place);
		} else {
			bs_step_print_sizes(now, s, global);
			if (fflush(stdout) != 0)
				result = error_errno(err, ERROR_IO, "standard output",
						     "can't be written");
		}
	}
	idset_clear(&now->ids);
	now->count = 0;
	return result;
}

static int bs_step_follow(struct record_reader *in, struct step *s, uint64_t global, int strict,
			  struct error *err)
{
	static struct record r;
	struct filter_unknown unknown = {.program = PROGRAM, .strict = strict};
	struct iteration now = {0};
	uint64_t iterations = 0;
	int got = RECORD_ONE, result = 0;
	while (result == 0 && got != RECORD_END) {
		got = record_read(in, &r, err);
		if (got < 0) {
			result = -1;
		} else if (got == RECORD_BLANK || got == RECORD_END) {
			iterations += now.count > 0;
			result = end_iteration(&now, s, global, err);
		} else if (!record_is(&r, "worker")) {
			result = filter_unknown(&unknown, &r, record_reader_place(in), err);
		} else {
			if (now.count == 0)
				now.line = record_reader_line(in);
			if (bs_step_add_worker(&now, &r, err) != 0)
				result = error_wrap(err, record_reader_place(in));
		}
	}
	idset_clear(&now.ids);
	free(now.worker);
	if (result == 0 && iterations == 0)
		return error_set(err, ERROR_DATA, "stdin", "no worker");
	return result;
}

int bs_solve_step(const struct step_options *options, int strict)
{
	struct error err = {0};
	struct step *s = step_new(options, &err);
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	int result;
	if (s && !in)
		result = error_set(&err, ERROR_OS, NULL, "out of memory");
	else
		result = s ? bs_step_follow(in, s, options->global, strict, &err) : -1;
	record_reader_free(in);
	step_free(s);
	if (result != 0 && ferror(stdout))
		return ERROR_IO; /* cmd_end() says it */
	return result == 0 ? 0 : cmd_fail(PROGRAM, &err);
}
