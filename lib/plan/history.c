/* history: see history.h. */
#include "plan/history.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int take_name(const struct record *r, const char *key, char *to, size_t room,
		     struct error *err)
{
	const char *value = record_get(r, key);
	to[0] = '\0';
	if (!value)
		return 0;
	if (strlen(value) >= room)
		return error_set(err, ERROR_DATA, NULL, "%s= is longer than %zu bytes", key,
				 room - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

int history_take(struct history *h, const struct record *r, struct error *err)
{
	struct finished f = {.rate = NAN};
	if (take_name(r, "user", f.user, sizeof f.user, err) != 0 ||
	    take_name(r, "data", f.data, sizeof f.data, err) != 0 ||
	    take_name(r, "model", f.model, sizeof f.model, err) != 0 ||
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
		const struct finished *f = &h->job[i];
		int user = is_same(f->user, u->user), data = is_same(f->data, u->data);
		int model = is_same(f->model, u->model);
		/* How many, then which. */
		int near = 8 * (user + data + model) + 4 * data + 2 * model + user;
		if (!(user || data) || near < most)
			continue;
		most = near;
		best = f;
	}
	return best;
}
