/*
 * heat: the load of the places of a part's keys: rows pulled and pushed in each range of places, so
 * that a part with more work than others can give some places away (param/map_balance.h).
 *
 * In a request of more than HEAT_ALL keys, one key in HEAT_EACH is counted, and counts as that
 * many: then counting costs nothing compared with looking them up.  In a shorter one all count.
 * Divided by the units applied meanwhile, this gives rows a unit.  Old counts are halved again and
 * again.
 */
#ifndef PACELINE_PS_HEAT_H
#define PACELINE_PS_HEAT_H

#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define HEAT_RANGES 64
#define HEAT_EACH 16
#define HEAT_ALL 256
#define HEAT_TEXT 1024 /* of all ranges */

struct heat {
	uint64_t begin, places;
	uint64_t scale; /* a place's range: its distance from begin times this, >> 32 */
	uint64_t pulled[HEAT_RANGES], pushed[HEAT_RANGES], counted;
	uint64_t dense_pulls, dense_pushes;
	uint64_t rows_pulled, rows_pushed; /* all, since the start */
	uint64_t turn;
	double units;
};

/* The part has these places now: all counts are forgotten, except the sums. */
void heat_start(struct heat *h, uint64_t begin, uint64_t places);
void heat_pull(struct heat *h, const uint32_t *key, size_t rows, int dense);
void heat_push(struct heat *h, const uint32_t *key, size_t rows, int dense);
static inline void heat_unit(struct heat *h)
{
	h->units++;
}

/* The work of each range, separated by commas, and that of an element of the dense vector, in
 * floats touched in a unit. */
void heat_text(const struct heat *h, size_t width, char out[HEAT_TEXT]);
double heat_element(const struct heat *h);

/* Hand-over: to fields heat-...= of a record, and back; a missing field is 0. */
void heat_save(const struct heat *h, struct record_out *o);
int heat_load(struct heat *h, const struct record *r, struct error *err);
/* The places of what was loaded: like heat_start(), but the counts stay. */
void heat_place(struct heat *h, uint64_t begin, uint64_t places);

/* For `stat`: rows-pulled= rows-pushed=, and of the busiest range hot-begin= hot-places= and
 * hot-fraction=, of all work for rows. */
void heat_stat(const struct heat *h, size_t width, struct record_out *o);

#endif
