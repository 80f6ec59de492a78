/* part_clients: see part_clients.h. */
#include "work/part_clients.h"

#include "base/clock.h"
#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_PAUSE 32 /* pushes without a pull behind them, after a pull that came too early */

int part_clients_new(struct part_clients *s, const struct map *map, uint32_t width,
		     struct error *err)
{
	s->part = calloc(map->parts, sizeof(*s->part));
	if (!s->part)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->count = map->parts;
	s->map = map;
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
	free(s->own_key);
	free(s->own_place);
	free(s->own_begin);
	free(s->sorted);
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

static int group_room(struct part_clients *s, size_t keys)
{
	size_t room = s->own_room;
	if (GROW(s->own_key, room, keys + 1) != 0 || GROW(s->own_place, s->own_room, keys + 1) != 0)
		return -1;
	return GROW(s->own_begin, s->begin_room, s->count + 2);
}

/* Groups the keys anew, as the batch was grouped by another map. */
static int group(struct part_clients *s, const struct batch *b, struct error *err)
{
	if (group_room(s, b->unique) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	size_t *begin = s->own_begin + 1; /* the place of each part's next key */
	memset(s->own_begin, 0, (s->count + 2) * sizeof(*s->own_begin));
	for (size_t u = 0; u < b->unique; u++)
		begin[map_part_of_key(s->map, b->key[u]) + 1]++;
	for (uint32_t i = 1; i <= s->count; i++)
		begin[i] += begin[i - 1];
	for (size_t u = 0; u < b->unique; u++) {
		size_t to = begin[map_part_of_key(s->map, b->key[u])]++;
		s->own_key[to] = b->key[u];
		s->own_place[to] = (uint32_t)u;
	}
	s->key = s->own_key;
	s->place = s->own_place;
	s->begin = s->own_begin;
	return 0;
}

/* The same for a single part: it has all keys, in any order. */
static int group_alone(struct part_clients *s, const struct batch *b, struct error *err)
{
	if (group_room(s, b->unique) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->own_begin[0] = 0;
	s->own_begin[1] = b->unique;
	s->key = b->key;
	s->place = NULL;
	s->begin = s->own_begin;
	return 0;
}

int part_clients_speak_of(struct part_clients *s, const struct batch *b, struct error *err)
{
	s->key = b->key;
	s->place = NULL;
	s->begin = b->part_begin;
	if (b->map_version != s->map->version &&
	    (s->count == 1 ? group_alone(s, b, err) : group(s, b, err)) != 0)
		return -1;
	for (uint32_t i = 0; i < s->count; i++)
		part_client_take(&s->part[i], s->key + s->begin[i], s->begin[i],
				 s->begin[i + 1] - s->begin[i]);
	s->straight = s->count == 1 && part_client_fits(&s->part[0]);
	return 0;
}

static int part_clients_reserve(float **p, size_t *room, size_t floats, struct error *err)
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

/* Makes room for everything that is not in shared pages. */
static int reserve_private(struct part_clients *s, const struct batch *b, struct error *err)
{
	size_t dense = s->dense_count, rows = b->unique * s->width;
	if (part_clients_reserve(&s->dense, &s->dense_room, dense, err) != 0 ||
	    part_clients_reserve(&s->dense_gradient, &s->dense_gradient_room, dense, err) != 0 ||
	    part_clients_reserve(&s->rows, &s->rows_room, rows, err) != 0 ||
	    (s->place && part_clients_reserve(&s->sorted, &s->sorted_room, rows, err) != 0))
		return -1;
	return part_clients_reserve(&s->row_gradient, &s->row_gradient_room, rows, err);
}

/* Points the model to its parameters and to its gradients, which are zeroed. */
static void lay_out(struct part_clients *s, const struct batch *b, struct exchange_values *v)
{
	const float *looked = s->count == 1 ? s->part[0].looked : NULL;
	s->laid = s->straight;
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
	int result = part_clients_speak_of(s, b, err);
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++)
		result = part_client_ask_pull(&s->part[i], iteration, after, err);
	return result;
}

/* Moves rows, which came part by part, to their places in the batch. */
static void put_in_order(struct part_clients *s, size_t rows)
{
	for (size_t i = 0; s->place && i < rows; i++)
		memcpy(s->rows + s->place[i] * (size_t)s->width, s->sorted + i * s->width,
		       s->width * sizeof(float));
}

/* If one part uses another map, still read the answers of the others. */
static int part_clients_take_answers(struct part_clients *s, const struct batch *b,
				     struct error *err)
{
	int result = WORK_OK, other_map = 0;
	s->reached = 0;
	s->as_of = UINT64_MAX;
	if (!s->straight && reserve_private(s, b, err) != 0)
		return -1;
	float *rows = s->place ? s->sorted : s->rows;
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++) {
		struct part_client *p = &s->part[i];
		struct part_answer answer;
		struct part_place to = {s->straight ? NULL : s->dense + p->dense_begin,
					s->straight ? NULL : rows + p->first * s->width};
		result = part_client_answer_pull(p, s->straight ? NULL : &to, &answer, err);
		if (result == WORK_MAP) {
			other_map = 1;
			result = WORK_OK;
			continue;
		}
		if (result != WORK_OK)
			break;
		s->reached = fmax(s->reached, answer.reached);
		s->as_of = answer.iteration < s->as_of ? answer.iteration : s->as_of;
	}
	if (result != WORK_OK)
		return result;
	if (other_map)
		return WORK_MAP;
	if (!s->straight)
		put_in_order(s, b->unique);
	return WORK_OK;
}

int part_clients_drain(struct part_clients *s, struct error *err)
{
	s->early = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		struct conversation *c = &s->part[i].talk;
		while (c->call && c->open_count > 0) {
			int result = conversation_answer(c, HASTY, err);
			if (result != WORK_OK && result != WORK_MAP)
				return result;
		}
	}
	return WORK_OK;
}

int part_clients_drop_early(struct part_clients *s, enum patience patience, struct error *err)
{
	int result = WORK_OK;
	if (!s->early)
		return WORK_OK;
	for (uint32_t i = 0; i < s->count && result == WORK_OK; i++) {
		result = conversation_answer(&s->part[i].talk, patience, err);
		if (result == WORK_MAP) /* nobody needs it anyway */
			result = WORK_OK;
	}
	s->early = 0;
	if (result != WORK_OK)
		part_clients_close(s);
	return result;
}

/* Whether the early pull was for this batch: its keys lie in the shared pages. */
static int early_is_for(struct part_clients *s, const struct batch *b)
{
	struct error ignored;
	int same = s->early && part_clients_speak_of(s, b, &ignored) == 0;
	for (uint32_t i = 0; i < s->count && same; i++)
		same = part_client_asked_for(&s->part[i], s->key + s->begin[i],
					     s->begin[i + 1] - s->begin[i]);
	return same;
}

int part_clients_pull(struct part_clients *s, uint64_t iteration, const struct batch *b,
		      struct exchange_values *values, struct error *err)
{
	double began = clock_mono();
	int here = 0, result = WORK_OK;
	if (early_is_for(s, b)) {
		s->early = 0;
		result = part_clients_take_answers(s, b, err);
		here = s->as_of >= iteration;
		/* For example under SSP, where a push is answered when slower workers have caught
		 * up. */
		s->early_pause = here ? 0 : EARLY_PAUSE;
	} else {
		result = part_clients_drop_early(s, HASTY, err);
	}
	if (result == WORK_OK && !here) {
		result = ask_pulls(s, iteration, 0, b, err);
		if (result == WORK_OK)
			result = part_clients_take_answers(s, b, err);
	}
	if (result != WORK_OK)
		return result;
	lay_out(s, b, values);
	values->waited = s->reached > began ? s->reached - began : 0;
	return WORK_OK;
}

/* A push without samples may be in no unit, and a pull behind it would wait long. Keys outside of
 * shared pages could not be checked later. */
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
	if (part_clients_speak_of(s, next, err) != 0)
		return -1;
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

int part_clients_keep(struct part_clients *s, const struct batch *b, struct error *err)
{
	if (!s->laid)
		return WORK_OK;
	if (part_clients_speak_of(s, b, err) != 0 || reserve_private(s, b, err) != 0)
		return -1;
	struct exchange_values v = part_client_values(&s->part[0]);
	memcpy(s->dense_gradient, v.dense_gradient, s->dense_count * sizeof(float));
	memcpy(s->row_gradient, v.row_gradient, b->unique * s->width * sizeof(float));
	s->laid = 0;
	return WORK_OK;
}

/* Gradients of this part's rows, from where the batch has them. */
static const float *sort_gradients(struct part_clients *s, const struct part_client *p)
{
	float *to = s->sorted + p->first * s->width;
	for (size_t i = 0; i < p->rows; i++)
		memcpy(to + i * s->width,
		       s->row_gradient + s->place[p->first + i] * (size_t)s->width,
		       s->width * sizeof(float));
	return to;
}

int part_clients_push(struct part_clients *s, uint32_t i, struct record_out *line,
		      uint64_t sequence, const struct batch *b, struct error *err)
{
	struct part_client *p = &s->part[i];
	struct part_gradients from = {s->dense_gradient, s->row_gradient};
	if (s->laid)
		return part_client_ask_push(p, line, sequence, NULL, err);
	if (s->place &&
	    part_clients_reserve(&s->sorted, &s->sorted_room, b->unique * s->width, err) != 0)
		return -1;
	from.dense += p->dense_begin;
	from.rows = s->place ? sort_gradients(s, p) : s->row_gradient + p->first * s->width;
	return part_client_ask_push(p, line, sequence, &from, err);
}
