/*
 * spare: nodes that stand ready (WORKERS spares): started, their data open, members of nothing.  When a
 * worker has ended, one of them takes its place at once, while what the dead one left behind is
 * removed (recover.h); the worker that comes back is a spare from then on.
 *
 * Both keep their ids; they swap their roles and their numbers.  Who has which is in STATE/standing,
 * for a supervisor that comes after a crash.  A spare asks for its place (`spare id=`), so one that
 * hangs before it is ready is never chosen, and one whose supervisor has gone asks the next.
 *
 * The first parameter server leads, and all servers go back together: there is nothing in which a
 * spare one would be faster (trainctl(1)).
 */
#ifndef PACELINE_RUN_SPARE_H
#define PACELINE_RUN_SPARE_H

#include <stdint.h>
#include <stdio.h>

struct record;
struct request;
struct sup_node;
struct supervisor;

/* Of a node. */
struct sup_spare {
	struct request *rq; /* it waits for a place; NULL: it does not (yet) */
	int given_up;       /* it only ever ends */
};

/* In PHASE_RUNNING: starts those that are wanted, and gives places to those that wait. */
void sup_spares_step(struct supervisor *s);
/* Its request; answered when it has a place. */
void sup_spare_asks(struct sup_node *n, struct request *rq);
/* It has ended once too often, or would again: the job goes on without it. */
void sup_spare_give_up(struct sup_node *n, const char *why);
int sup_node_is_spare(const struct sup_node *n);

/* The job is to have so many workers only: those that were made for places behind that are the ones that
 * leave, whatever place they have now, so that ids are as in a job that begins so.  Workers change
 * places for it; one of them that is a spare now leaves, too. */
void sup_spares_settle(struct supervisor *s, uint64_t workers);
/* A worker that leaves has ended. Where it was made to stay, it becomes the spare in whose place it was:
 * that one is returned, to be dropped in its stead; NULL: it still runs, and is ending. */
struct sup_node *sup_spare_drops(struct sup_node *worker);

/* A line for each node that has another's role. */
void sup_spares_print(const struct supervisor *s, FILE *out);
/* Such a line: the node has this role and number. */
void sup_spare_restore(struct sup_node *n, int is_spare, uint32_t number);
/* Nothing runs: all are again what they were made for. */
void sup_spares_forget(struct supervisor *s);

#endif
