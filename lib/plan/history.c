/* history: see history.h. */
#include "plan/history.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int history_take(struct history *h, const struct record *r, struct error *err)
{
	struct finished f = {.rate = NAN};
	if (plan_take_names(&f.names, r, err) != 0 ||
	    record_u64(r, "workers", 1, PLAN_CORES_MAX, &f.count[PLAN_WORKER], err) != 0 ||
	    record_u64(r, "worker-cores", 1, PLAN_CORES_MAX, &f.cores[PLAN_WORKER], err) != 0 ||
	    record_u64(r, "servers", 1, PLAN_CORES_MAX, &f.count[PLAN_SERVER], err) != 0 ||
	    record_u64(r, "server-cores", 1, PLAN_CORES_MAX, &f.cores[PLAN_SERVER], err) != 0 ||
	    record_u64_opt(r, "worker-bytes", 0, PLAN_BYTES_MAX, &f.bytes[PLAN_WORKER], err) != 0 ||
	    record_u64_opt(r, "server-bytes", 0, PLAN_BYTES_MAX, &f.bytes[PLAN_SERVER], err) != 0 ||
	    record_real_opt(r, "steps-per-second", 0, 1e12, &f.rate, err) != 0)
		return -1;
	if (GROW(h->job, h->room, h->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a finished job");
	h->job[h->count++] = f;
	return 0;
}

void history_clear(struct history *h)
{
	free(h->job);
	*h = (struct history){0};
}

static int is_same(const char *a, const char *b)
{
	return *a && strcmp(a, b) == 0;
}

const struct finished *history_nearest(const struct history *h, const struct usage *u)
{
	const struct finished *best = NULL;
	int most = 0;
	for (size_t i = 0; i < h->count; i++) {
		const struct plan_names *a = &h->job[i].names, *b = &u->names;
		int user = is_same(a->user, b->user), data = is_same(a->data, b->data);
		int model = is_same(a->model, b->model);
		/* How many, then which. */
		int near = 8 * (user + data + model) + 4 * data + 2 * model + user;
		if (!(user || data) || near < most)
			continue;
		most = near;
		best = &h->job[i];
	}
	return best;
}
