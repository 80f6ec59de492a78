/*
 * Staged pushes.  This only keeps and finds them; the lead decides when something is applied or
 * thrown away.  It never reads a gradient.
 */
#include "ps/stage.h"

#include "base/hash.h"
#include "ps/buffers.h"

#include <stdio.h>
#include <stdlib.h>

#define WORKERS_MAX 65536

struct worker {
	char id[OPTION_ID_MAX];
	uint64_t thrown; /* generations up to it are refused */
	struct staged *first;
	UT_hash_handle hh;
};

struct stage {
	struct worker *workers;
	size_t count;
};

int stage_new(struct stage **out, struct error *err)
{
	*out = calloc(1, sizeof **out);
	return *out ? 0 : error_set(err, ERROR_OS, "stage", "out of memory");
}

void staged_free(struct staged *p)
{
	if (!p)
		return;
	payload_release(p->payload);
	buffer_give(p->buffer);
	free((void *)p->push.row);
	free(p);
}

static struct worker *stage_find_worker(const struct stage *s, const char *id)
{
	struct worker *w;

	HASH_FIND_STR(s->workers, id, w);
	return w;
}

static struct worker *stage_find_or_make(struct stage *s, const char *id)
{
	struct worker *w = stage_find_worker(s, id);

	if (w || HASH_COUNT(s->workers) >= WORKERS_MAX)
		return w;
	w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	snprintf(w->id, sizeof w->id, "%s", id);
	HASH_ADD_STR(s->workers, id, w);
	if (hash_lacks(w)) {
		free(w);
		return NULL;
	}
	return w;
}

/* Drops the pushes of w for which gone() is true. */
static void stage_drop_if(struct stage *s, struct worker *w,
			  int (*gone)(const struct staged *p, const struct staged *like),
			  const struct staged *like)
{
	struct staged **at = &w->first, *p;

	while ((p = *at)) {
		if (!gone(p, like)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		s->count--;
		staged_free(p);
	}
}

static int same_name(const struct staged *p, const struct staged *like)
{
	return p->generation == like->generation && p->sequence == like->sequence;
}

static int up_to(const struct staged *p, const struct staged *like)
{
	return p->generation <= like->generation;
}

static int up_to_and_free(const struct staged *p, const struct staged *like)
{
	return !p->held && up_to(p, like);
}

static int before(const struct staged *p, const struct staged *like)
{
	return p->iteration < like->iteration;
}

/* Whether p is of like's generation, and its sequence is neither like's nor next to it. */
static int out_of_window(const struct staged *p, const struct staged *like)
{
	return !p->held && p->generation == like->generation && p->sequence != like->sequence &&
	       p->sequence + 1 != like->sequence && p->sequence != like->sequence + 1;
}

/* Keeps only the two highest generations of w and p. 0: p is older than both. */
static int stage_make_room(struct stage *s, struct worker *w, const struct staged *p)
{
	uint64_t newest = p->generation, second = 0;

	for (const struct staged *q = w->first; q; q = q->next)
		newest = q->generation > newest ? q->generation : newest;
	for (const struct staged *q = w->first; q; q = q->next) {
		if (q->generation != newest && q->generation > second)
			second = q->generation;
	}
	if (p->generation != newest && p->generation > second)
		second = p->generation;
	if (second == 0)
		return 1;
	struct staged like = {.generation = second - 1};
	stage_drop_if(s, w, up_to_and_free, &like);
	return p->generation >= second;
}

static void link_in(struct stage *s, struct worker *w, struct staged *p)
{
	p->next = w->first;
	w->first = p;
	s->count++;
}

static int no_room(const struct staged *p, struct error *err)
{
	return error_set(err, ERROR_OS, "stage", "no room for worker %s", p->worker);
}

int stage_restore(struct stage *s, struct staged *p, struct error *err)
{
	struct worker *w = stage_find_or_make(s, p->worker);

	if (!w)
		return no_room(p, err);
	link_in(s, w, p);
	return 0;
}

int stage_put(struct stage *s, struct staged *p, struct error *err)
{
	struct worker *w = stage_find_or_make(s, p->worker);

	if (!w)
		return no_room(p, err);
	if (p->generation <= w->thrown || !stage_make_room(s, w, p))
		return error_set(err, ERROR_DATA, "stage", "generation %llu of %s is over",
				 (unsigned long long)p->generation, p->worker);
	const struct staged *here = stage_find(s, p->worker, p->generation, p->sequence);
	if (here && here->held) {
		staged_free(p);
		return 0;
	}
	stage_drop_if(s, w, same_name, p);
	stage_drop_if(s, w, out_of_window, p);
	link_in(s, w, p);
	return 0;
}

struct staged *stage_find(const struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence)
{
	struct worker *w = stage_find_worker(s, worker);
	struct staged *p = w ? w->first : NULL;

	while (p && (p->generation != generation || p->sequence != sequence))
		p = p->next;
	return p;
}

struct staged *stage_take(struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence)
{
	struct worker *w = stage_find_worker(s, worker);
	struct staged **at = w ? &w->first : NULL, *p;

	while (at && (p = *at)) {
		if (p->generation == generation && p->sequence == sequence) {
			*at = p->next;
			s->count--;
			return p;
		}
		at = &p->next;
	}
	return NULL;
}

struct staged *stage_find_kept(const struct stage *s, const char *worker, uint64_t generation)
{
	struct worker *w = stage_find_worker(s, worker);
	struct staged *p = w ? w->first : NULL;

	while (p && (!p->kept || p->generation != generation))
		p = p->next;
	return p;
}

uint64_t stage_first_kept(const struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence)
{
	const struct worker *w = stage_find_worker(s, worker);

	for (const struct staged *p = w ? w->first : NULL; p; p = p->next) {
		if (p->kept && p->generation == generation && p->sequence < sequence)
			sequence = p->sequence;
	}
	return sequence;
}

struct staged *stage_find_for(const struct stage *s, const char *worker, uint64_t generation,
			      uint64_t iteration)
{
	struct worker *w = stage_find_worker(s, worker);
	struct staged *last = NULL;

	for (struct staged *p = w ? w->first : NULL; p; p = p->next) {
		if (p->generation == generation && p->iteration == iteration &&
		    (!last || p->sequence > last->sequence))
			last = p;
	}
	return last;
}

int stage_is_over(const struct stage *s, const char *worker, uint64_t generation)
{
	const struct worker *w = stage_find_worker(s, worker);

	return w && generation <= w->thrown;
}

void stage_drop(struct stage *s, const char *worker, uint64_t generation, uint64_t sequence)
{
	struct worker *w = stage_find_worker(s, worker);
	struct staged like = {.generation = generation, .sequence = sequence};

	if (w)
		stage_drop_if(s, w, same_name, &like);
}

void stage_throw(struct stage *s, const char *worker, uint64_t generation)
{
	struct worker *w = stage_find_or_make(s, worker);
	struct staged like = {.generation = generation};

	if (!w)
		return; /* too many workers: this one can't stage anything either */
	if (w->thrown < generation)
		w->thrown = generation;
	stage_drop_if(s, w, up_to, &like);
}

void stage_let_go(struct stage *s)
{
	for (struct worker *w = s->workers; w; w = w->hh.next) {
		for (struct staged *p = w->first; p; p = p->next)
			p->held = 0;
	}
}

void stage_drop_before(struct stage *s, uint64_t iteration)
{
	struct staged like = {.iteration = iteration};

	for (struct worker *w = s->workers; w; w = w->hh.next)
		stage_drop_if(s, w, before, &like);
}

void stage_drop_all(struct stage *s)
{
	stage_drop_before(s, UINT64_MAX);
}

size_t stage_count(const struct stage *s)
{
	return s->count;
}

int stage_lacks(const struct stage *s)
{
	for (const struct worker *w = s->workers; w; w = w->hh.next) {
		for (const struct staged *p = w->first; p; p = p->next)
			if (p->absent)
				return 1;
	}
	return 0;
}

int stage_each(const struct stage *s, stage_fn *fn, void *arg, struct error *err)
{
	for (const struct worker *w = s->workers; w; w = w->hh.next) {
		if (fn(w->id, w->thrown, w->first, arg, err) != 0)
			return -1;
	}
	return 0;
}

void stage_free(struct stage *s)
{
	struct worker *w, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->workers, w, next)
	{
		struct staged like = {.generation = UINT64_MAX};
		stage_drop_if(s, w, up_to, &like);
		HASH_DEL(s->workers, w);
		free(w);
	}
	free(s);
}
