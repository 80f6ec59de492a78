/*
 * trainers: a trainer of the user's own (TRAINER), which an agent(1) runs in a worker's place.
 *
 * Where trainers have parameters (TRAINER_KIND=loop), the end of one is what a server's is: all go
 * back to one cut, which is shardd's queue and what each trainer saved.  Samples that count as done
 * now, and not in that cut, are trained again: they are counted, over all starts of the job.  The
 * file STATE/repeated has the sum; while a rollback is under way also what was done before it, so
 * that a supervisor that comes after a crash counts the same.
 *
 * Where each piece of work stands for itself (each, rows) there is no lead, nothing to save, and
 * nothing goes back: what an agent had in hand is handed out again.
 *
 * What an end means: an agent ends as its command does.  128 + n is signal n.  Where there are several
 * trainers, the end of one makes the others end, often by abort(), or with ERROR_TEMPFAIL where
 * paceline.py sees that it was in a collective.  Only the one that has failed first is told, with its last
 * words, and has tried in vain: its end is tried again, unless it is the TRAINERS_TRIES-th in a row.
 * Who it was is judged before those that live are stopped: by what the ends look like, then by which
 * came first.
 */
#ifndef PACELINE_RUN_TRAINERS_H
#define PACELINE_RUN_TRAINERS_H

#include "base/error.h"
#include "proc/end.h"

#include <stddef.h>
#include <stdint.h>

struct supervisor;
struct sup_node;

#define TRAINERS_TRIES 3

struct sup_trainers {
	unsigned port;      /* MASTER_PORT of those that are started now */
	uint64_t repeated;  /* samples, in all starts of the job */
	uint64_t before;    /* done when the rollback that is under way began */
	int under_way;      /* before counts */
	/* Of the ends that a rollback comes from the one that is thought to be the first: */
	struct sup_node *first; /* NULL: none has ended */
	struct node_end first_end;
	int surely;      /* how much it looks like that: see trainers.c */
	double first_at; /* clock_mono() */
	int is_last;     /* RESTARTS rollbacks are used up */
	char failure[128]; /* which one it was last, and how it ended; "": none */
	double failure_at; /* clock_mono() */
};

/* Who train: workers of the kit, or agents. */
const struct role *sup_trainers(const struct supervisor *s);
/* Whether this node goes back to a cut with the parameters, or what trainers have of them. */
int sup_goes_back(const struct sup_node *n);

/* Of rank 0's host, as the others reach it. */
void sup_trainers_address(const struct supervisor *s, char *out, size_t max);
/* Whether a checkpoint would have what each of them has learnt: all are there, or none was yet. */
int sup_trainers_can_save(const struct supervisor *s);
/* They begin together: another port than before. */
void sup_trainers_begin(struct supervisor *s);
/* An end as the command's own. */
struct node_end sup_trainer_end(const struct node_end *end);
/* It ended: is it the one that made others end? */
void sup_trainer_ended(struct sup_node *n, const struct node_end *end);
/* It ended because nothing is left to do for it, where there is no lead that it has to wait for; with
 * ERROR_NEGATIVE when shards are held. */
int sup_trainer_is_done(const struct sup_node *n, const struct node_end *end);
/* That is off: whether there may be something for it to do. */
int sup_trainer_is_needed(const struct sup_node *n);
/* A rollback is about to stop those that live: 0 once it is known which end it comes from. */
int sup_trainers_judge(struct supervisor *s);
/* Whether this end is judged with those of the others. */
int sup_trainer_is_judged(const struct sup_node *n);
/* Whether an end that would happen again may be one that another's has caused. */
int sup_trainer_is_tried_again(const struct sup_node *n, const struct node_end *end);

/* ---- samples that are trained again ---- */

int sup_repeated_read(struct supervisor *s, struct error *err);
/* A cut is about to be loaded; shardd has said what is done. -1: it can't be written down yet. */
int sup_repeated_before(struct supervisor *s);
/* It is loaded. -1: shardd has not said yet what is done now. */
int sup_repeated_after(struct supervisor *s);

#endif
