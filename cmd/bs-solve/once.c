/* once: the methods that read all workers first and cut the global batch once. */
#include "cmd/bs-solve.h"

#include "base/grow.h"
#include "cmd/cmd.h"
#include "cmd/filter.h"
#include "solve/accum.h"
#include "solve/batch.h"
#include "solve/idset.h"
#include "record/record.h"

struct workers {
	int accumulate;          /* the array in use; the other stays NULL */
	struct batch_worker *row;
	struct accum_type *type;
	size_t count, room;
	struct idset ids; /* by row */
};

static int bs_once_parse_worker(struct accum_type *t, const struct record *r, struct error *err)
{
	double mem = 0;
	*t = (struct accum_type){
		.min = 1, .max = BATCH_SIZE_MAX, .cmin = 1, .cmax = 1, .count = 1};
	if (record_real(r, "speed", 1e-9, 1e18, &t->speed, err) != 0 ||
	    record_real_opt(r, "fixed", 0, 1e9, &t->fixed, err) != 0 ||
	    record_u64_opt(r, "min", 0, BATCH_SIZE_MAX, &t->min, err) != 0 ||
	    record_u64_opt(r, "max", 0, BATCH_SIZE_MAX, &t->max, err) != 0 ||
	    record_u64_opt(r, "count", 1, BATCH_COUNT_MAX, &t->count, err) != 0 ||
	    record_u64_opt(r, "cmin", 1, ACCUM_STEPS_MAX, &t->cmin, err) != 0 ||
	    record_u64_opt(r, "cmax", 1, ACCUM_STEPS_MAX, &t->cmax, err) != 0 ||
	    record_real_opt(r, "mem", 0, 1, &mem, err) != 0)
		return -1;
	if (t->min > t->max)
		return error_set(err, ERROR_DATA, NULL, "min=%llu is above max=%llu",
				 (unsigned long long)t->min, (unsigned long long)t->max);
	/* A cmin alone moves the default of cmax, too. */
	if (!record_get(r, "cmax") && t->cmax < t->cmin)
		t->cmax = t->cmin;
	if (t->cmin > t->cmax)
		return error_set(err, ERROR_DATA, NULL, "cmin=%llu is above cmax=%llu",
				 (unsigned long long)t->cmin, (unsigned long long)t->cmax);
	return 0;
}

static int keep_worker(struct workers *all, const struct accum_type *t, struct error *err)
{
	if (all->accumulate) {
		all->type[all->count] = *t;
		return 0;
	}
	if (t->cmin > 1)
		return error_set(err, ERROR_DATA, NULL,
				 "cmin=%llu: only the method accum accumulates",
				 (unsigned long long)t->cmin);
	all->row[all->count] = (struct batch_worker){.speed = t->speed,
						     .fixed = t->fixed,
						     .min = t->min,
						     .max = t->max,
						     .count = t->count};
	return 0;
}

static int bs_once_add_worker(const struct record *r, void *workers, struct error *err)
{
	struct workers *all = workers;
	const char *id;
	struct accum_type t;
	if ((all->accumulate ? GROW(all->type, all->room, all->count + 1)
			     : GROW(all->row, all->room, all->count + 1)) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a worker");
	if (record_id(r, "id", &id, err) != 0 || bs_once_parse_worker(&t, r, err) != 0 ||
	    keep_worker(all, &t, err) != 0)
		return -1;
	int added = idset_add(&all->ids, id, err);
	if (added == 0)
		return error_set(err, ERROR_DATA, NULL, "worker id=%s appears twice", id);
	all->count += added > 0;
	return added > 0 ? 0 : -1;
}

static int read_workers(struct workers *all, int strict, struct error *err)
{
	if (filter_read(PROGRAM, strict, "worker", bs_once_add_worker, all, err) != 0)
		return -1;
	return all->count > 0 ? 0 : error_set(err, ERROR_DATA, "stdin", "no worker");
}

static int bs_once_solve(struct workers *all, const char *method, uint64_t global,
			 struct error *err)
{
	if (strcmp(method, "share") == 0) {
		if (batch_share(all->row, all->count, global, err) != 0)
			return error_wrap(err, "stdin");
		return 0;
	}
	if (all->accumulate) {
		if (accum_solve(all->type, all->count, global, err) != 0)
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

static void bs_once_print_batch(const char *id, uint64_t size, uint64_t larger, uint64_t accum,
				double time)
{
	record_print(stdout, RECORD("batch", F("id", id), F("size", size),
				    larger ? F("larger", larger) : F_NONE, F("accum", accum),
				    F_BRIEF("time", time)));
}

static void bs_once_print_sizes(const struct workers *all, const char *method, uint64_t global)
{
	static char buffer[1 << 18];
	double longest = 0;
	uint64_t steps = 0;
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	for (size_t i = 0; i < all->count; i++) {
		const char *id = idset_get(&all->ids, i);
		double time = all->accumulate ? accum_time(&all->type[i]) : batch_time(&all->row[i]);
		longest = time > longest ? time : longest;
		if (all->accumulate) {
			const struct accum_type *t = &all->type[i];
			bs_once_print_batch(id, t->size, 0, t->accum, time);
			steps += t->count * t->accum;
		} else {
			bs_once_print_batch(id, all->row[i].size, all->row[i].larger, 1, time);
		}
	}
	record_print(stdout,
		     RECORD("total", F_BRIEF("time", longest), F("samples", global),
			    F("method", method), all->accumulate ? F("steps", steps) : F_NONE));
}

int bs_solve_once(const char *method, uint64_t global, int strict)
{
	struct error err = {0};
	struct workers all = {.accumulate = strcmp(method, "accum") == 0};
	int status = 0;
	if (read_workers(&all, strict, &err) != 0 || bs_once_solve(&all, method, global, &err) != 0)
		status = cmd_fail(PROGRAM, &err);
	else
		bs_once_print_sizes(&all, method, global);
	idset_clear(&all.ids);
	free(all.row);
	free(all.type);
	return status;
}
