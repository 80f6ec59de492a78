/* balance: see balance.h. */
#include "solve/balance.h"

#include "base/grow.h"
#include "solve/batch.h"
#include "solve/step.h"
#include "monitor/node.h"

#include <stdlib.h>
#include <string.h>

struct balance {
	uint64_t global, least;
	struct step *step; /* NULL: Algorithm 1 */
	size_t room;
	struct batch_worker *batch;
	struct step_worker *step_worker;
};

int balance_is(const char *method)
{
	return strcmp(method, "lb-bsp") == 0 || strcmp(method, "lb-bsp-gpu") == 0;
}

int balance_new(struct balance **out, const char *method, uint64_t global, uint64_t least,
		struct error *err)
{
	struct balance *b = calloc(1, sizeof *b);
	struct step_options options = STEP_OPTIONS_DEFAULT;

	if (!b)
		return error_set(err, ERROR_OS, "--balance", "out of memory");
	b->global = options.global = global;
	b->least = least;
	if (strcmp(method, "lb-bsp-gpu") == 0 && !(b->step = step_new(&options, err))) {
		free(b);
		return -1;
	}
	*out = b;
	return 0;
}

void balance_free(struct balance *b)
{
	if (!b)
		return;
	step_free(b->step);
	free(b->batch);
	free(b->step_worker);
	free(b);
}

static int balance_reserve(struct balance *b, size_t n, struct error *err)
{
	size_t room = b->room; /* of both */

	if (GROW(b->batch, room, n) != 0 || GROW(b->step_worker, b->room, n) != 0)
		return error_set(err, ERROR_OS, "--balance", "out of memory");
	return 0;
}

/* The predicted speed; without a prediction the speed stays the same. */
static double speed_of(const struct balance_member *m)
{
	if (m->speed > 0.0)
		return m->speed;
	return m->count && m->time > 0.0 ? (double)m->count / m->time : 0.0;
}

/* A larger step would not fit into its memory. */
static uint64_t balance_most_of(const struct balance_member *m)
{
	return m->most > 0 && m->most < NODE_BATCH_MAX ? m->most : NODE_BATCH_MAX;
}

static uint64_t balance_least_of(const struct balance *b, const struct balance_member *m)
{
	return batch_least(b->least, balance_most_of(m));
}

static int balance_share(struct balance *b, struct balance_member *m, size_t n, struct error *err)
{
	double sum = 0.0;
	size_t known = 0;

	for (size_t i = 0; i < n; i++) {
		double speed = speed_of(&m[i]);
		sum += speed;
		known += speed > 0.0;
		b->batch[i] = (struct batch_worker){.speed = speed,
						    .min = balance_least_of(b, &m[i]),
						    .max = balance_most_of(&m[i]),
						    .count = 1};
	}
	for (size_t i = 0; i < n; i++) {
		if (!(b->batch[i].speed > 0.0))
			b->batch[i].speed = known ? sum / (double)known : 1.0;
	}
	if (batch_share(b->batch, n, b->global, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		m[i].size = b->batch[i].size;
	return 0;
}

static int balance_step(struct balance *b, struct balance_member *m, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++)
		b->step_worker[i] = (struct step_worker){.id = m[i].worker,
							 .time = m[i].time,
							 .mem = m[i].mem,
							 .min = balance_least_of(b, &m[i]),
							 .max = balance_most_of(&m[i]),
							 .start = m[i].size};
	if (step_round(b->step, b->step_worker, n, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		m[i].size = b->step_worker[i].size;
		m[i].warn = b->step_worker[i].remove;
	}
	return 0;
}

/* If the members' bounds can't meet the global batch, each gets the nearest size that it may have:
 * Algorithm 2 does not see such a round. */
static int bounded(const struct balance *b, struct balance_member *m, size_t n)
{
	uint64_t most = 0, least = 0;

	for (size_t i = 0; i < n; i++) {
		most += balance_most_of(&m[i]);
		least += balance_least_of(b, &m[i]);
	}
	if (most >= b->global && least <= b->global)
		return 0;
	for (size_t i = 0; i < n; i++) {
		m[i].size = most < b->global ? balance_most_of(&m[i]) : balance_least_of(b, &m[i]);
		m[i].warn = 0;
	}
	return 1;
}

int balance_round(struct balance *b, struct balance_member *m, size_t n, struct error *err)
{
	if (bounded(b, m, n))
		return 0;
	if (balance_reserve(b, n, err) != 0)
		return -1;
	return b->step ? balance_step(b, m, n, err) : balance_share(b, m, n, err);
}
