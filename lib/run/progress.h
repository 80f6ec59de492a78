/*
 * progress: how the job goes.  Gathers into rows what shardd, the lead and the monitor say, and
 * finds out whether all samples are in the model.  It only asks: it changes no daemon's state.
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
	uint64_t full; /* 1: no room for its journal, so it takes no changes */
	uint64_t lost; /* 1: its journal is of another boot, and may lack what was not on disk */
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

/* What the monitor said last. What the supervisor knows better (samples-left, rate, ...) is not
 * taken from it, but added before a decision is made on the snapshot. */
struct sup_snapshot {
	struct question question;
	struct snapshot now, filling;
	char *text; /* the last snapshot, as a solution gets it */
	size_t bytes, room;
	int is_wrong;
	int is_old; /* the one that was asked for: nodes have changed roles since */
	struct error wrong;
};

/* What trainers have measured of their model; of each name the last value. */
#define SUP_REPORTED_MAX 16
struct sup_reported {
	struct {
		char name[33];
		double value;
	} item[SUP_REPORTED_MAX];
	size_t count;
	uint64_t iteration; /* of the last one */
	double at;          /* clock_mono() */
};
/* "NAME VALUE, ..." for people; "": none. */
#define SUP_REPORTED_TEXT 512
void sup_reported_text(const struct sup_reported *r, char out[SUP_REPORTED_TEXT]);

struct sup_progress {
	struct sup_reported reported;
	struct sup_stat stat;
	struct sup_rate rate;
	struct question stat_question, done_question, held_question;
	struct question rows_question, members_question;
	double members_at;    /* clock_mono(): asked last */
	double members_heard; /* when the last question was asked whose answer is here */
	int members_trained;  /* what is known of that answer: one of them has done a batch */
	int all_done; /* shardd has said in this phase that nothing is left */
	struct {
		int known;
		char held[1024]; /* ids of held shards */
	} last;                  /* asked for in this phase */
	struct run_row row;
	double row_at;        /* at= of the last row */
	uint64_t row_samples; /* of the lead at the last row */
	int row_waits;        /* a row waits for shardd's count */
	uint64_t loss_until;  /* iteration of the last row with a loss; 0: none yet */
	unsigned ticks;
	struct sup_snapshot snapshot;
};

void sup_progress_init(struct supervisor *s);
void sup_progress_free(struct supervisor *s);
void sup_progress_phase(struct supervisor *s); /* another phase begins */
void sup_progress_tick(struct supervisor *s);
/* The job ends well: warns if its trainers reported no loss, or none since some iteration. */
void sup_progress_end(struct supervisor *s);

void sup_ask_stat(struct supervisor *s);
/* What shardd said last may be out of date: it is asked again. */
void sup_stat_forget(struct supervisor *s);
/* Asks for the final numbers, into stat, and for the ids of held shards, into last. */
void sup_ask_last(struct supervisor *s);
/* Asks shardd to say (all_done) when nothing is left to hand out and nothing is in hand. */
void sup_wait_done(struct supervisor *s);
/* Whether shardd said last that nothing is left to hand out, and nothing is in hand. */
int sup_nothing_left(const struct supervisor *s);
/* Asks the lead for its members: workers that are members are ready. */
void sup_ask_members(struct supervisor *s);
/* Whether it has answered since this phase began. Asks it, if it can be asked; if not, there is nothing to hear. */
int sup_members_heard(struct supervisor *s);
/* Whether the lead has just answered that this worker is one. */
int sup_is_member(const struct sup_node *n);
void sup_ask_snapshot(struct supervisor *s);
/* Nodes change their roles: an answer that is under way is of before, and is not used. */
void sup_snapshot_is_old(struct supervisor *s);
/* What the monitor has of a node; NULL: nothing. */
const struct snapshot_node *sup_measured(const struct sup_node *n);
/* Adds `info name= value= age=0`, which we know ourselves. */
void sup_snapshot_info(struct supervisor *s, const char *name, const char *value);
/* Samples per second, over the last seconds; NAN: not known yet. */
double sup_rate(const struct supervisor *s);
void sup_progress_up(struct link *link, const struct record *greeting); /* the lead is there */

#endif
