/*
 * bs-solve(1): batch sizes for workers of different speeds. A filter: records of workers in,
 * records of batches out, nothing remembered.
 */
#include "cmd/cmd.h"
#include "cmd/filter.h"
#include "solve/batch.h"
#include "solve/idset.h"
#include "wire/record.h"

#include <unistd.h>

#define PROGRAM "bs-solve"

struct workers {
	struct batch_worker *row;
	size_t count, room;
	struct idset ids; /* by row */
};

static int parse_worker(struct batch_worker *w, const struct record *r, struct error *err)
{
	uint64_t cmin = 1, cmax = 1;
	double mem = 0;
	*w = (struct batch_worker){.min = 1, .max = BATCH_SIZE_MAX, .count = 1};
	if (record_real(r, "speed", 1e-9, 1e18, &w->speed, err) != 0 ||
	    record_real_opt(r, "fixed", 0, 1e9, &w->fixed, err) != 0 ||
	    record_u64_opt(r, "min", 0, BATCH_SIZE_MAX, &w->min, err) != 0 ||
	    record_u64_opt(r, "max", 0, BATCH_SIZE_MAX, &w->max, err) != 0 ||
	    record_u64_opt(r, "count", 1, BATCH_COUNT_MAX, &w->count, err) != 0 ||
	    record_u64_opt(r, "cmin", 1, 1 << 20, &cmin, err) != 0 ||
	    record_u64_opt(r, "cmax", 1, 1 << 20, &cmax, err) != 0 ||
	    record_real_opt(r, "mem", 0, 1, &mem, err) != 0)
		return -1;
	if (w->min > w->max)
		return error_set(err, ERROR_DATA, NULL, "min=%llu is above max=%llu",
				 (unsigned long long)w->min, (unsigned long long)w->max);
	if (cmin > 1)
		return error_set(err, ERROR_DATA, NULL,
				 "cmin=%llu: these methods do not accumulate",
				 (unsigned long long)cmin);
	return 0;
}

static int add_worker(struct workers *all, const struct record *r, struct error *err)
{
	const char *id;
	if (all->count == all->room) {
		size_t room = all->room ? all->room * 2 : 256;
		struct batch_worker *row = reallocarray(all->row, room, sizeof *row);
		if (!row)
			return error_set(err, ERROR_OS, NULL, "no memory for %zu workers", room);
		all->row = row;
		all->room = room;
	}
	if (record_id(r, "id", &id, err) != 0 || parse_worker(&all->row[all->count], r, err) != 0)
		return -1;
	int added = idset_add(&all->ids, id, err);
	if (added == 0)
		return error_set(err, ERROR_DATA, NULL, "worker id=%s stands twice", id);
	all->count += added > 0;
	return added > 0 ? 0 : -1;
}

static int read_workers(struct workers *all, int strict, struct error *err)
{
	static struct record r;
	struct filter_unknown unknown = {.program = PROGRAM, .strict = strict};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		return error_set(err, ERROR_OS, NULL, "no memory");
	int got, result = 0;
	while (result == 0 && (got = record_read(in, &r, err)) != RECORD_END) {
		if (got < 0)
			result = -1;
		else if (got == RECORD_BLANK)
			continue;
		else if (!record_is(&r, "worker"))
			result = filter_unknown(&unknown, &r, record_reader_place(in), err);
		else if (add_worker(all, &r, err) != 0)
			result = error_wrap(err, record_reader_place(in));
	}
	record_reader_free(in);
	if (result == 0 && all->count == 0)
		return error_set(err, ERROR_DATA, "stdin", "no worker");
	return result;
}

static int solve(struct workers *all, const char *method, uint64_t global, struct error *err)
{
	if (strcmp(method, "share") == 0) {
		if (batch_share(all->row, all->count, global, err) != 0)
			return error_wrap(err, "stdin");
		return 0;
	}
	size_t broken;
	if (batch_even(all->row, all->count, global, &broken, err) == 0)
		return 0;
	if (broken < all->count) {
		char place[128];
		snprintf(place, sizeof place, "worker id=%s", idset_get(&all->ids, broken));
		error_wrap(err, place);
	}
	return error_wrap(err, "stdin");
}

static void print_plan(const struct workers *all, const char *method, uint64_t global)
{
	static char buffer[1 << 18];
	char line[RECORD_LINE_MAX];
	struct record_out o;
	double longest = 0;
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	for (size_t i = 0; i < all->count; i++) {
		const struct batch_worker *w = &all->row[i];
		double time = batch_time(w);
		longest = time > longest ? time : longest;
		record_begin(&o, line, sizeof line, "batch");
		record_add(&o, "id", idset_get(&all->ids, i));
		record_add_u64(&o, "size", w->size);
		if (w->larger)
			record_add_u64(&o, "larger", w->larger);
		record_add_u64(&o, "accum", 1);
		record_add_brief(&o, "time", time);
		fwrite(line, 1, record_end(&o, NULL), stdout);
	}
	record_begin(&o, line, sizeof line, "plan");
	record_add_brief(&o, "time", longest);
	record_add_u64(&o, "total", global);
	record_add(&o, "method", method);
	fwrite(line, 1, record_end(&o, NULL), stdout);
}

int main(int argc, char **argv)
{
	uint64_t global = 0;
	int global_seen = 0, strict = 0, first;
	const char *method = "share";
	const struct option_row rows[] = {
		{.name = "global-batch",
		 .letter = 'B',
		 .kind = OPTION_COUNT,
		 .target = &global,
		 .arg = "SAMPLES",
		 .help = "global batch, to be cut among the workers; needed",
		 .min = 1,
		 .max = (double)BATCH_SIZE_MAX,
		 .seen = &global_seen},
		{.name = "method",
		 .letter = 'm',
		 .kind = OPTION_CHOICE,
		 .target = &method,
		 .arg = "METHOD",
		 .help = "how to cut (share)",
		 .choices = "even|share"},
		{.name = "strict",
		 .kind = OPTION_FLAG,
		 .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "-B GLOBAL_BATCH [-m even|share] [--strict] < workers > batches",
		.about = "Batch sizes for workers of different speeds, to the exact optimum.",
		.rows = rows};
	struct error err = {0};
	struct workers all = {0};
	cmd_begin(PROGRAM);
	int parsed = option_parse(&table, argc, argv, &first, stdout, &err);
	if (parsed == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	if (parsed == 0 && first < argc)
		parsed = error_set(&err, ERROR_USAGE, argv[first], "is no option");
	if (parsed == 0 && !global_seen)
		parsed = error_set(&err, ERROR_USAGE, "-B", "the global batch is missing");
	if (parsed != 0)
		return cmd_fail(PROGRAM, &err);
	int status = 0;
	if (read_workers(&all, strict, &err) != 0 || solve(&all, method, global, &err) != 0)
		status = cmd_fail(PROGRAM, &err);
	else
		print_plan(&all, method, global);
	idset_clear(&all.ids);
	free(all.row);
	return cmd_end(PROGRAM, status);
}
