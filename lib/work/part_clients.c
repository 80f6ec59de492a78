/* part_clients: see part_clients.h. */
#include "work/part_clients.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_PAUSE 32 /* pushes without a pull behind them, after one that came too early */

int part_clients_new(struct part_clients *s, const struct map *map, uint32_t width,
		     struct error *err)
{
	s->part = calloc(map->parts, sizeof(*s->part));
	if (!s->part)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->count = map->parts;
	s->dense_count = map->dense_begin[map->parts];
	s->width = width;
	for (uint32_t i = 0; i < s->count; i++) {
		s->part[i].dense_begin = map->dense_begin[i];
		s->part[i].dense_count = map->dense_begin[i + 1] - map->dense_begin[i];
		s->part[i].width = width;
	}
	return 0;
}

void part_clients_close(struct part_clients *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		part_client_close(&s->part[i]);
	s->early = 0;
}

void part_clients_free(struct part_clients *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		part_client_free(&s->part[i]);
	free(s->part);
	free(s->dense);
	free(s->dense_gradient);
	free(s->rows);
	free(s->row_gradient);
}

int part_clients_connected(const struct part_clients *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (!s->part[i].talk.call)
			return 0;
	return 1;
}

void part_clients_identify(struct part_clients *s, uint64_t generation, uint64_t incarnation)
{
	for (uint32_t i = 0; i < s->count; i++) {
		s->part[i].talk.generation = generation;
		s->part[i].talk.incarnation = incarnation;
	}
}

void part_clients_brief(struct part_clients *s, int brief)
{
	for (uint32_t i = 0; i < s->count; i++)
		s->part[i].talk.brief = brief;
}

int part_clients_connect(struct part_clients *s, double deadline, uint64_t *low, uint64_t *high,
			 struct error *err)
{
	*low = UINT64_MAX;
	*high = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		struct part_client *p = &s->part[i];
		uint64_t incarnation;
		int result = p->talk.call ? WORK_OK : part_client_connect(p, deadline, err);
		if (result != WORK_OK)
			return result;
		if (conversation_incarnation(&p->talk, &incarnation, err) != 0)
			return -1;
		*low = incarnation < *low ? incarnation : *low;
		*high = incarnation > *high ? incarnation : *high;
	}
	return WORK_OK;
}

/* ---- where things lie ---- */

static void speak_of(struct part_clients *s, const struct batch *b)
{
	for (uint32_t i = 0; i < s->count; i++)
		part_client_take(&s->part[i], b->part_begin[i],
				 b->part_begin[i + 1] - b->part_begin[i]);
	s->straight = s->count == 1 && part_client_fits(&s->part[0]);
}

static int reserve(float **p, size_t *room, size_t floats, struct error *err)
{
	if (floats <= *room && *p)
		return 0;
	free(*p);
	*room = floats + floats / 4 + 16;
	*p = malloc(*room * sizeof(float));
	if (*p)
		return 0;
	*room = 0;
	return error_set(err, ERROR_OS, "", "out of memory");
}

/* Room for everything when it is not the shared pages'. */
static int reserve_private(struct part_clients *s, const struct batch *b, struct error *err)
{
	size_t dense = s->dense_count, rows = b->unique * s->width;
	if (reserve(&s->dense, &s->dense_room, dense, err) != 0 ||
	    reserve(&s->dense_gradient, &s->dense_gradient_room, dense, err) != 0 ||
	    reserve(&s->rows, &s->rows_room, rows, err) != 0)
		return -1;
	return reserve(&s->row_gradient, &s->row_gradient_room, rows, err);
}

/* Where the model finds parameters and puts gradients, which are zeroed. */
static void lay_out(struct part_clients *s, const struct batch *b, struct exchange_values *v)
{
	const float *looked = s->count == 1 ? s->part[0].looked : NULL;
	if (s->straight)
		*v = part_client_values(&s->part[0]);
	else
		*v = (struct exchange_values){.dense = looked ? looked : s->dense,
					      .rows = s->rows,
					      .dense_gradient = s->dense_gradient,
					      .row_gradient = s->row_gradient};
	memset(v->dense_gradient, 0, s->dense_count * sizeof(float));
	memset(v->row_gradient, 0, b->unique * s->width * sizeof(float));
}

/* ---- pulling ---- */

static int ask_pulls(struct part_clients *s, uint64_t iteration, uint64_t after,
		     const struct batch *b, struct error *err)
{
	int result = WORK_OK;
	speak_of(s, b);
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++)
		result = part_client_ask_pull(&s->part[i], iteration, after, b, err);
	return result;
}

static int take_answers(struct part_clients *s, const struct batch *b, struct error *err)
{
	int result = WORK_OK;
	s->reached = 0;
	s->as_of = UINT64_MAX;
	if (!s->straight && reserve_private(s, b, err) != 0)
		return -1;
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++) {
		struct part_client *p = &s->part[i];
		struct part_answer answer;
		struct part_place to = {s->straight ? NULL : s->dense + p->dense_begin,
					s->straight ? NULL : s->rows + p->first * s->width};
		result = part_client_answer_pull(p, s->straight ? NULL : &to, &answer, err);
		if (result != WORK_OK)
			break;
		s->reached = fmax(s->reached, answer.reached);
		s->as_of = answer.iteration < s->as_of ? answer.iteration : s->as_of;
	}
	return result;
}

int part_clients_drop_early(struct part_clients *s, enum patience patience, struct error *err)
{
	int result = WORK_OK;
	if (!s->early)
		return WORK_OK;
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++)
		result = conversation_answer(&s->part[i].talk, patience, err);
	s->early = 0;
	if (result != WORK_OK)
		part_clients_close(s);
	return result;
}

/* Whether the early pull was for this batch: its keys lie in the shared pages. */
static int early_is_for(const struct part_clients *s, const struct batch *b)
{
	int same = s->early;
	for (uint32_t i = 0; i < s->count && same; i++)
		same = part_client_asked_for(&s->part[i], b->key + b->part_begin[i],
					     b->part_begin[i + 1] - b->part_begin[i]);
	return same;
}

int part_clients_pull(struct part_clients *s, uint64_t iteration, const struct batch *b,
		      struct exchange_values *values, struct error *err)
{
	double began = clock_mono();
	int here = 0, result = WORK_OK;
	if (early_is_for(s, b)) {
		s->early = 0;
		result = take_answers(s, b, err);
		here = s->as_of >= iteration;
		/* As under SSP, where a push is answered when slower workers have caught up. */
		s->early_pause = here ? 0 : EARLY_PAUSE;
	} else {
		result = part_clients_drop_early(s, HASTY, err);
	}
	if (result == WORK_OK && !here) {
		result = ask_pulls(s, iteration, 0, b, err);
		if (result == WORK_OK)
			result = take_answers(s, b, err);
	}
	if (result != WORK_OK)
		return result;
	lay_out(s, b, values);
	values->waited = s->reached > began ? s->reached - began : 0;
	return WORK_OK;
}

/* A push without samples may be in no unit, and what waits for the next one would wait long. Keys
 * that do not lie in shared pages could not be looked at again. */
int part_clients_ask_early(struct part_clients *s, const struct exchange_push *push,
			   const struct batch *b, const struct batch *next, struct error *err)
{
	int fit = 1;
	if (!next || b->count == 0)
		return WORK_OK;
	if (s->early_pause > 0) {
		s->early_pause--;
		return WORK_OK;
	}
	speak_of(s, next);
	for (uint32_t i = 0; i < s->count; i++)
		fit = fit && part_client_fits(&s->part[i]);
	if (!fit)
		return WORK_OK;
	s->early = 1;
	s->early_iteration = push->iteration + 1;
	return ask_pulls(s, s->early_iteration, push->sequence, next, err);
}

int part_clients_check_early(const struct part_clients *s, uint64_t iteration)
{
	return s->early && iteration < s->early_iteration ? WORK_RESET : WORK_OK;
}

/* ---- pushing ---- */

int part_clients_push(struct part_clients *s, uint32_t i, struct record_out *line,
		      const struct batch *b, struct error *err)
{
	struct part_client *p = &s->part[i];
	struct part_gradients from = {s->dense_gradient, s->row_gradient};
	if (s->straight)
		return part_client_ask_push(p, line, b, NULL, err);
	from.dense += p->dense_begin;
	from.rows += p->first * s->width;
	return part_client_ask_push(p, line, b, &from, err);
}
