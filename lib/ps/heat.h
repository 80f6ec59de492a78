/*
 * heat: counts the rows pulled and pushed in each range of places of a part's keys.  So a part with
 * more work than others can give some places away (param/map_balance.h).
 *
 * In a request of at most HEAT_ALL keys, all are counted.  In a longer one, one key in HEAT_EACH is
 * counted, as HEAT_EACH keys: so counting costs nothing compared with looking keys up.  The counts
 * are divided by the number of units applied meanwhile.  They are halved again and again, so that
 * old ones fade.
 */
#ifndef PACELINE_PS_HEAT_H
#define PACELINE_PS_HEAT_H

#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define HEAT_RANGES 64
#define HEAT_EACH 16
#define HEAT_ALL 256
#define HEAT_TEXT 1024 /* bytes of heat_text() */

struct heat {
	uint64_t begin, places;
	uint64_t scale; /* number of a place's range: its distance from begin, times scale, >> 32 */
	uint64_t pulled[HEAT_RANGES], pushed[HEAT_RANGES], counted;
	uint64_t dense_pulls, dense_pushes;
	uint64_t rows_pulled, rows_pushed; /* all, since the start */
	uint64_t turn;
	double units;
};

/* The part has these places now: forgets all counts, except those since the start. */
void heat_start(struct heat *h, uint64_t begin, uint64_t places);
/* A pull or push of rows keys; dense: also of the dense range. */
void heat_pull(struct heat *h, const uint32_t *key, size_t rows, int dense);
void heat_push(struct heat *h, const uint32_t *key, size_t rows, int dense);
/* A unit was applied. */
static inline void heat_unit(struct heat *h)
{
	h->units++;
}

/* heat_text(): the work of each range, separated by commas; heat_element(): that of one element of
 * the dense vector. Both in floats touched in a unit. */
void heat_text(const struct heat *h, size_t width, char out[HEAT_TEXT]);
double heat_element(const struct heat *h);

/* For a hand-over: writes the counts as fields heat-...= of a record, and reads them; a missing
 * field is 0. */
void heat_save(const struct heat *h, struct record_out *o);
int heat_load(struct heat *h, const struct record *r, struct error *err);
/* Sets the places to which the loaded counts belong: like heat_start(), but the counts stay. */
void heat_place(struct heat *h, uint64_t begin, uint64_t places);

/* Fields for `stat`: rows-pulled= and rows-pushed=; and of the busiest range hot-begin=,
 * hot-places= and hot-fraction=, its fraction of all work for rows. */
void heat_stat(const struct heat *h, size_t width, struct record_out *o);

#endif
