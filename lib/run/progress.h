/*
 * progress: how the job goes: what shardd, the lead and the monitor say, gathered into rows, and
 * whether all samples are in the model.  It only asks; nothing here changes a daemon's state.
 */
#ifndef PACELINE_RUN_PROGRESS_H
#define PACELINE_RUN_PROGRESS_H

#include "base/error.h"
#include "run/supervisor.h"
#include "run/talk.h"
#include "solve/snapshot.h"

#include <stddef.h>
#include <stdint.h>

/* What shardd said last. */
struct sup_stat {
	int known;
	uint64_t full; /* 1: no room for its journal; it changes nothing */
	uint64_t lost; /* 1: of another boot; what was not written then may be missing */
	uint64_t epoch, todo, doing, done, held, shards, shards_done, samples_done, incarnation;
	double first_at, last_at; /* NAN: none yet */
};

/* samples-done over the last seconds. */
#define SUP_RATE_POINTS 16
struct sup_rate {
	struct {
		double at; /* clock_mono() */
		uint64_t samples;
	} point[SUP_RATE_POINTS];
	size_t count;
};

/* What the monitor said last. Of what we know better it is not believed (samples-left, rate, ...):
 * that is added when somebody decides on it. */
struct sup_snapshot {
	struct question question;
	struct snapshot now, filling;
	char *text; /* of the one asked for last, as a solution gets it */
	size_t bytes, room;
	int is_wrong;
	struct error wrong;
};

struct sup_progress {
	struct sup_stat stat;
	struct sup_rate rate;
	struct question stat_question, done_question, held_question;
	struct question rows_question, members_question;
	double members_at; /* clock_mono(): asked last */
	int all_done; /* nothing is left, as shardd said in this phase */
	struct {
		int known;
		char held[1024]; /* ids of held shards */
	} last;                  /* asked for in this phase */
	struct run_row row;
	double row_at;        /* at= of the last row */
	uint64_t row_samples; /* of the lead at the last row */
	int row_waits;        /* for shardd's count */
	uint64_t loss_until;  /* iteration of the last row that had a loss; 0: none had */
	unsigned ticks;
	struct sup_snapshot snapshot;
};

void sup_progress_init(struct supervisor *s);
void sup_progress_free(struct supervisor *s);
void sup_progress_phase(struct supervisor *s); /* another one begins */
void sup_progress_tick(struct supervisor *s);
/* Whoever ends well with a model that is lost is to know it. */
void sup_progress_end(struct supervisor *s);

void sup_ask_stat(struct supervisor *s);
/* What shardd said last may not hold any more: it is asked again. */
void sup_stat_forget(struct supervisor *s);
/* The end's numbers and the names of held shards, into stat and last. */
void sup_ask_last(struct supervisor *s);
/* Asks shardd to say (all_done) when there is nothing left to hand out and nothing in anybody's
 * hands. */
void sup_wait_done(struct supervisor *s);
/* Nothing is to do, and nobody does anything, as shardd said last. */
int sup_nothing_left(const struct supervisor *s);
/* Workers that are members now are ready. */
void sup_ask_members(struct supervisor *s);
void sup_ask_snapshot(struct supervisor *s);
/* What the monitor has of a node; NULL: nothing. */
const struct snapshot_node *sup_measured(const struct sup_node *n);
/* `info name= value= age=0`, known here. */
void sup_snapshot_info(struct supervisor *s, const char *name, const char *value);
/* Samples per second, over the last seconds; NAN: not known yet. */
double sup_rate(const struct supervisor *s);
void sup_progress_up(struct link *link, const struct record *greeting); /* the lead is there */

#endif
