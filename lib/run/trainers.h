/*
 * trainers: trainers of the user's own (TRAINER), each run by an agent(1) in a worker's place.
 *
 * If trainers have parameters (TRAINER_KIND=loop), the end of one is like the end of a server: all
 * go back to one cut, which is shardd's queue and what each trainer saved.  Where replicas sum for
 * them (SYNC=allreduce), the end of one is like that of a worker; only if none of them can go on, all
 * go back.  Samples that counted as done, but are not in that cut, are trained again.  Their number
 * over all starts of the job is in STATE/kept.  While a rollback is under way, the file also has what
 * was done before it, so that a supervisor that comes after a crash counts the same.
 *
 * If each piece of work stands for itself (each, rows), there is no lead, nothing to save, and no
 * rollback: what an agent had in hand is handed out again.
 *
 * An agent ends as its command does; status 128 + n is signal n.  If there are several trainers,
 * the end of one makes the others end, often by abort(), or with ERROR_TEMPFAIL if paceline.py sees
 * that it was in a collective.  Only the one that failed first is named, with its last words.
 * Which one that was is judged before the live ones are stopped: by what the ends look like, then
 * by which came first.  Trainers are tried again, unless one has failed TRAINERS_TRIES times in a
 * row without training a batch.
 */
#ifndef PACELINE_RUN_TRAINERS_H
#define PACELINE_RUN_TRAINERS_H

#include "base/error.h"
#include "proc/end.h"
#include "run/said.h"

#include <stddef.h>
#include <stdint.h>

struct supervisor;
struct sup_node;

#define TRAINERS_TRIES 3

struct sup_trainers {
	unsigned port;      /* MASTER_PORT of the trainers that are started now */
	uint64_t repeated;  /* samples, in all starts of the job */
	uint64_t before;    /* samples done when the rollback under way began */
	int under_way;      /* a rollback is under way; `before` is valid */
	/* Of the ends that caused the rollback, the one that seems to be the first: */
	struct sup_node *first; /* NULL: none has ended */
	struct node_end first_end;
	int certainty;   /* how sure that is (trainers.c) */
	double first_at; /* clock_mono() */
	int is_last;     /* RESTARTS rollbacks are used up */
	char failure[32 + SAID_MAX]; /* which trainer failed (first) the last time, and how; "": none */
	double failure_at; /* clock_mono() */
	char told[SAID_MAX]; /* what the one had printed whose last words were told last */
};

/* The role that trains: workers of the kit, or agents. */
const struct role *sup_trainers(const struct supervisor *s);
/* Whether this node takes part in a rollback: it has parameters, the kit's or a trainer's. */
int sup_goes_back(const struct sup_node *n);
/* Whether all go back with its end: it is a trainer without which the others can't go on. */
int sup_takes_back(const struct sup_node *n);
/* Nobody has any more what its trainer has learnt, which is gone with it. */
int sup_trainers_are_gone(const struct sup_node *n);
/* Whether no other trainer has the parameters now, but one may have them soon: all others are on their
 * way. */
int sup_trainer_is_last(const struct sup_node *n);

/* Address of rank 0's host, as the others reach it. */
void sup_trainers_address(const struct supervisor *s, char *out, size_t max);
/* Whether a checkpoint would have what trainers have learnt: all run that are needed, or none has
 * begun. */
int sup_trainers_can_save(const struct supervisor *s);
/* They begin together, with another port than before. */
void sup_trainers_begin(struct supervisor *s);
/* The end of the agent, as the end of its command. */
struct node_end sup_trainer_end(const struct node_end *end);
/* Notes what a trainer, or the lead, has printed about its end, n->end; of another node nothing. */
void sup_trainer_said(struct sup_node *n);
/* A trainer with which the others do not end was told of with this text: its last words are told if
 * they are others than the last time. */
void sup_trainer_tell(struct sup_node *n, const char *text);
/* A trainer ended: notes whether it may be the one that made the others end. */
void sup_trainer_ended(struct sup_node *n, const struct node_end *end);
/* Whether it ended because nothing was left to do for it; only without a lead. Its status is
 * ERROR_NEGATIVE when shards are held. */
int sup_trainer_is_done(const struct sup_node *n, const struct node_end *end);
/* For a trainer that is off: whether there may be something for it to do. */
int sup_trainer_is_needed(const struct sup_node *n);
/* A rollback is about to stop the live trainers: 0 once it is known which end caused it. */
int sup_trainers_judge(struct supervisor *s);
/* Whether this end is judged with those of the others. */
int sup_trainer_is_judged(const struct sup_node *n);
/* Whether an end that would happen again may have been caused by another trainer's end. */
int sup_trainer_is_tried_again(const struct sup_node *n, const struct node_end *end);

/* ---- samples that are trained again ---- */

int sup_repeated_take(struct supervisor *s, const struct record *r, struct error *err);
/* Call before a cut is loaded, when shardd has said what is done. -1: that is not on disk yet. */
int sup_repeated_before(struct supervisor *s);
/* Call when the cut is loaded. -1: shardd has not yet said what is done now. */
int sup_repeated_after(struct supervisor *s);

#endif
