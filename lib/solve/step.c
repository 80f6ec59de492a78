/* step: see step.h. Pure: rounds in, sizes out, no clock. */
#include "solve/step.h"

#include "base/option.h"
#include "solve/batch.h"

#include <stdlib.h>
#include <string.h>

#define TRIED_MAX 64 /* sizes remembered in a fine phase; the oldest is forgotten */
#define NOBODY SIZE_MAX

struct slot { /* in order of id, so that the order of the input does not matter */
	char id[OPTION_ID_MAX];
	uint64_t size, min, max;
	double time, mem; /* of this round */
	int warned;       /* since it became the straggler */
};

/* Sizes that were in force, and how long the slowest took with them. */
struct tried {
	uint64_t key;
	double sum;
	uint64_t rounds;
};

struct step {
	struct step_options o;
	enum step_phase phase;
	size_t n, depth;
	struct slot *slot;
	double *times;    /* depth rounds of n times */
	uint64_t *slower; /* n rows of n bits: was i ever slower than j in this phase? */
	uint64_t round;
	uint64_t known; /* rounds that may be looked back upon */
	struct tried tried[TRIED_MAX];
	size_t tried_count, tried_next;
};

struct step *step_new(const struct step_options *options, struct error *err)
{
	struct step *s = calloc(1, sizeof *s);
	if (!s) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		return NULL;
	}
	s->o = *options;
	s->depth = (size_t)(options->window > options->fine_window ? options->window
								   : options->fine_window);
	return s;
}

void step_free(struct step *s)
{
	if (!s)
		return;
	free(s->slot);
	free(s->times);
	free(s->slower);
	free(s);
}

enum step_phase step_phase(const struct step *s)
{
	return s->phase;
}

/* ---- who is there ---- */

static int compare_ids(const void *a, const void *b)
{
	return strcmp((*(struct step_worker *const *)a)->id, (*(struct step_worker *const *)b)->id);
}

static const struct slot *find_slot(const struct step *s, const char *id)
{
	size_t low = 0, high = s->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(s->slot[middle].id, id);
		if (order == 0)
			return &s->slot[middle];
		*(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
	}
	return NULL;
}

static int same_workers(const struct step *s, struct step_worker *const *w, size_t n)
{
	int same = n == s->n;
	for (size_t i = 0; same && i < n; i++)
		same = strcmp(s->slot[i].id, w[i]->id) == 0 && s->slot[i].size >= w[i]->min &&
		       s->slot[i].size <= w[i]->max;
	return same;
}

static void start_coarse(struct step *s, uint64_t known)
{
	s->phase = STEP_COARSE;
	s->known = known;
	s->tried_count = s->tried_next = 0;
	memset(s->slower, 0, s->n * ((s->n + 63) / 64) * sizeof *s->slower);
}

/* Sizes in proportion to those so far: Eq. 3 with the size as speed, which leaves sizes that sum
 * to the global batch as they are. */
static int step_divide(const struct step *s, struct step_worker *const *w, struct slot *slot,
		       size_t n, struct error *err)
{
	struct batch_worker *row = reallocarray(NULL, n, sizeof *row);
	if (!row)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", n);
	double sum = 0;
	size_t known = 0;
	for (size_t i = 0; i < n; i++) {
		const struct slot *before = find_slot(s, w[i]->id);
		uint64_t size = before ? before->size : w[i]->start;
		slot[i].warned = before ? before->warned : 0;
		/* A worker that had nothing may get something, but last of all. */
		row[i].speed = size ? (double)size : before ? 1e-3 : 0;
		known += row[i].speed > 0;
		sum += row[i].speed;
	}
	for (size_t i = 0; i < n; i++) {
		double mean = known ? sum / (double)known : 1;
		row[i] = (struct batch_worker){.speed = row[i].speed > 0 ? row[i].speed : mean,
					       .min = w[i]->min,
					       .max = w[i]->max,
					       .count = 1};
	}
	int result = batch_share(row, n, s->o.global, err);
	for (size_t i = 0; i < n; i++)
		slot[i].size = row[i].size;
	free(row);
	return result;
}

static int step_take_over(struct step *s, struct step_worker *const *w, size_t n, struct error *err)
{
	struct slot *slot = calloc(n, sizeof *slot);
	double *times = reallocarray(NULL, n * s->depth, sizeof *times);
	uint64_t *slower = reallocarray(NULL, n * ((n + 63) / 64), sizeof *slower);
	int result = 0;
	if (!slot || !times || !slower)
		result = error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", n);
	if (result != 0 || step_divide(s, w, slot, n, err) != 0) {
		free(slot);
		free(times);
		free(slower);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		strcpy(slot[i].id, w[i]->id);
	free(s->slot);
	free(s->times);
	free(s->slower);
	s->slot = slot;
	s->times = times;
	s->slower = slower;
	s->n = n;
	start_coarse(s, 0);
	return 0;
}

/* ---- what is known of their times ---- */

/* The time h rounds ago; 0 is this round. If not known, 0, which is neither faster nor slower than
 * anything. */
static double step_time_of(const struct step *s, size_t i, uint64_t h)
{
	return s->times[(size_t)((s->round - h) % s->depth) * s->n + i];
}

static int is_slower(double a, double b)
{
	return b > 0 && a > b;
}

static void step_remember(struct step *s)
{
	size_t words = (s->n + 63) / 64;
	s->round++;
	s->known += s->known < s->depth;
	double *now = s->times + (size_t)(s->round % s->depth) * s->n;
	for (size_t i = 0; i < s->n; i++)
		now[i] = s->slot[i].time;
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < s->n; j++)
			s->slower[i * words + j / 64] |= (uint64_t)is_slower(now[i], now[j])
							 << (j % 64);
}

static int was_ever_slower(const struct step *s, size_t i, size_t j)
{
	return (int)(s->slower[i * ((s->n + 63) / 64) + j / 64] >> (j % 64) & 1);
}

static int always_faster(const struct step *s, size_t i, size_t j, uint64_t window)
{
	int faster = s->known >= window;
	for (uint64_t h = 0; faster && h < window; h++)
		faster = is_slower(step_time_of(s, j, h), step_time_of(s, i, h));
	return faster;
}

/* A sample more costs its mean cost at most, launch included; so a gap wider than a coarse step
 * for both stays one after the step. */
static int balance_lost(const struct step *s, size_t leader, size_t straggler)
{
	const struct slot *l = &s->slot[leader], *g = &s->slot[straggler];
	int lost = s->known >= s->o.window && g->size >= s->o.step + g->min &&
		   l->size + s->o.step <= l->max;
	for (uint64_t h = 0; lost && h < s->o.window; h++) {
		double fast = step_time_of(s, leader, h), slow = step_time_of(s, straggler, h);
		double each = slow / (double)g->size + fast / (double)(l->size ? l->size : 1);
		lost = is_slower(slow, fast) && slow - fast > (double)s->o.step * each;
	}
	return lost;
}

/* ---- sizes that were tried in a fine phase ---- */

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

/* Of the sizes as they would be after a move; from NOBODY: as they are. */
static uint64_t step_key_of(const struct step *s, size_t from, size_t to)
{
	uint64_t key = 0;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t size = s->slot[i].size;
		if (from != NOBODY)
			size = size - (i == from) * s->o.fine_step + (i == to) * s->o.fine_step;
		key += mix((i + 1) * 0x9E3779B97F4A7C15ull ^ mix(size));
	}
	return key;
}

static struct tried *find_tried(struct step *s, uint64_t key)
{
	for (size_t i = 0; i < s->tried_count; i++)
		if (s->tried[i].key == key)
			return &s->tried[i];
	return NULL;
}

static void note_tried(struct step *s, double slowest)
{
	uint64_t key = step_key_of(s, NOBODY, NOBODY);
	struct tried *t = find_tried(s, key);
	if (!t) {
		t = &s->tried[s->tried_next];
		s->tried_next = (s->tried_next + 1) % TRIED_MAX;
		s->tried_count += s->tried_count < TRIED_MAX;
		*t = (struct tried){.key = key};
	}
	t->sum += slowest;
	t->rounds++;
}

static int was_no_better(struct step *s, size_t from, size_t to)
{
	const struct tried *now = find_tried(s, step_key_of(s, NOBODY, NOBODY));
	const struct tried *then = find_tried(s, step_key_of(s, from, to));
	return now && then && then->rounds > 0 &&
	       then->sum / (double)then->rounds >= now->sum / (double)now->rounds;
}

/* ---- Algorithm 2 ---- */

static int can_take(const struct slot *w, uint64_t step)
{
	return w->time > 0 && w->mem <= STEP_MEM_MAX && step <= w->max - w->size;
}

static void step_move(struct step *s, size_t from, size_t to, uint64_t step)
{
	s->slot[from].size -= step;
	s->slot[to].size += step;
	/* Tried again: old times are no measure. */
	struct tried *t = find_tried(s, step_key_of(s, NOBODY, NOBODY));
	if (t)
		t->sum = 0, t->rounds = 0;
}

/* The leader's move is known to be useless: take the next fastest that surely stays faster. */
static size_t next_leader(struct step *s, size_t straggler)
{
	size_t best = NOBODY;
	const struct slot *g = &s->slot[straggler];
	for (size_t i = 0; i < s->n; i++) {
		const struct slot *w = &s->slot[i];
		if (i == straggler || !can_take(w, s->o.fine_step) || w->size == 0 ||
		    w->time + (double)s->o.fine_step * w->time / (double)w->size >= g->time ||
		    (best != NOBODY && w->time >= s->slot[best].time) ||
		    !always_faster(s, i, straggler, s->o.fine_window) ||
		    was_no_better(s, straggler, i))
			continue;
		best = i;
	}
	return best;
}

static void move_fine(struct step *s, size_t leader, size_t straggler)
{
	if (was_no_better(s, straggler, leader))
		leader = next_leader(s, straggler);
	if (leader != NOBODY)
		step_move(s, straggler, leader, s->o.fine_step);
}

static void find_ends(const struct step *s, size_t *leader, size_t *straggler)
{
	uint64_t step = s->phase == STEP_FINE ? s->o.fine_step : s->o.step;
	*leader = *straggler = NOBODY;
	for (size_t i = 0; i < s->n; i++) {
		const struct slot *w = &s->slot[i];
		if (w->time > 0 && (*straggler == NOBODY || w->time > s->slot[*straggler].time))
			*straggler = i;
		if (can_take(w, step) && (*leader == NOBODY || w->time < s->slot[*leader].time))
			*leader = i;
	}
}

/* Could the others take all its samples and still finish before it? One more sample costs each of
 * them at most its mean cost, and full workers take none. */
static int is_better_without(const struct step *s, size_t straggler)
{
	const struct slot *g = &s->slot[straggler];
	double left = (double)g->size;
	for (size_t i = 0; i < s->n; i++) {
		const struct slot *w = &s->slot[i];
		if (i == straggler || !can_take(w, 1) || w->size == 0)
			continue;
		double more = (g->time - w->time) * (double)w->size / w->time;
		double room = (double)(w->max - w->size);
		left -= more < room ? more : room;
	}
	return left < 0;
}

/* Returns the worker to warn of, or NOBODY. */
static size_t step_decide(struct step *s)
{
	size_t leader, straggler;
	find_ends(s, &leader, &straggler);
	if (leader == NOBODY || !(s->slot[leader].time < s->slot[straggler].time))
		return NOBODY;
	if (s->phase == STEP_FINE && balance_lost(s, leader, straggler))
		start_coarse(s, s->o.window); /* these two can give and take a coarse step, too */
	uint64_t step = s->phase == STEP_FINE ? s->o.fine_step : s->o.step;
	uint64_t window = s->phase == STEP_FINE ? s->o.fine_window : s->o.window;
	const struct slot *g = &s->slot[straggler];
	if (g->size - g->min < step) {
		/* Not in the paper: samples that are too few for a coarse step may do for a fine
		 * one. */
		if (g->size - g->min >= s->o.fine_step)
			s->phase = STEP_FINE;
		return is_better_without(s, straggler) ? straggler : NOBODY;
	}
	if (always_faster(s, leader, straggler, window)) {
		if (s->phase == STEP_FINE)
			move_fine(s, leader, straggler);
		else
			step_move(s, straggler, leader, step);
	} else if (was_ever_slower(s, leader, straggler)) {
		s->phase = STEP_FINE;
	}
	return NOBODY;
}

static void take_times(struct step *s, struct step_worker *const *w)
{
	double slowest = 0;
	int all = 1;
	for (size_t i = 0; i < s->n; i++) {
		struct slot *slot = &s->slot[i];
		slot->time = w[i]->time;
		slot->mem = w[i]->mem;
		slot->min = w[i]->min;
		slot->max = w[i]->max;
		slowest = slot->time > slowest ? slot->time : slowest;
		all = all && slot->time > 0;
	}
	step_remember(s);
	if (all && s->phase == STEP_FINE)
		note_tried(s, slowest);
}

int step_round(struct step *s, struct step_worker *w, size_t n, struct error *err)
{
	if (n > STEP_WORKERS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", STEP_WORKERS_MAX);
	if (n == 0)
		return 0;
	struct step_worker **order = reallocarray(NULL, n, sizeof(struct step_worker *));
	if (!order)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", n);
	for (size_t i = 0; i < n; i++)
		order[i] = &w[i];
	qsort(order, n, sizeof *order, compare_ids);
	int result = 0;
	for (size_t i = 0; result == 0 && i < n; i++)
		if (strlen(order[i]->id) >= OPTION_ID_MAX)
			result = error_set(err, ERROR_DATA, NULL, "'%s' is too long for an id",
					   order[i]->id);
		else if (i > 0 && strcmp(order[i - 1]->id, order[i]->id) == 0)
			result = error_set(err, ERROR_DATA, NULL, "worker id=%s appears twice",
					   order[i]->id);
	if (result == 0 && !same_workers(s, order, n))
		result = step_take_over(s, order, n, err);
	if (result == 0) {
		take_times(s, order);
		size_t leader, slowest;
		find_ends(s, &leader, &slowest);
		size_t warn = step_decide(s);
		for (size_t i = 0; i < n; i++) {
			order[i]->size = s->slot[i].size;
			order[i]->remove = i == warn && !s->slot[i].warned;
			if (i == warn)
				s->slot[i].warned = 1;
			else if (i != slowest && slowest != NOBODY)
				s->slot[i].warned = 0;
		}
	}
	free(order);
	return result;
}
