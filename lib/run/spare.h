/*
 * spare: nodes that stand ready (WORKERS spares): they run and have their data open, but train
 * nothing.  When a worker has ended, a spare takes its place at once, while what the dead worker
 * left behind is removed (recover.h).  The worker that comes back is a spare from then on.
 *
 * Both keep their ids, and swap their roles and numbers.  STATE/kept says which node has which, for
 * the supervisor that comes after a crash.  A spare asks for its place (`spare id=`).  So a spare
 * that hangs before it is ready is never chosen, and one whose supervisor has died asks the next.
 *
 * There are no spare servers.  All servers go back together: a spare would make nothing faster
 * (trainctl(1)).
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
	struct request *rq; /* it waits for a place; NULL: it does not */
	int given_up;       /* it ended too often */
};

/* In PHASE_RUNNING: starts spares that are wanted, and gives places to spares that wait. */
void sup_spares_step(struct supervisor *s);
/* A spare's request, which is answered when the spare has a place. */
void sup_spare_asks(struct sup_node *n, struct request *rq);
/* The spare has ended too often, or would end again: the job goes on without it. */
void sup_spare_give_up(struct sup_node *n, const char *why);
/* The role of spares: of workers of the kit, or of agents. */
const struct role *sup_spares(const struct supervisor *s);
int sup_node_is_spare(const struct sup_node *n);

/* The job is to have only so many workers, with the ids of a job that begins with this number. So
 * the nodes that were made for higher places leave, whatever places they have now: workers change
 * places for this, and a spare that was made for a higher place leaves, too. */
void sup_spares_settle(struct supervisor *s, uint64_t workers);
/* A worker that leaves has ended. Returns the node that is to be dropped. If the worker was made
 * for a place that stays, it becomes a spare, and the spare that leaves is dropped in its stead.
 * NULL: that spare is still ending. */
struct sup_node *sup_spare_drops(struct sup_node *worker);

/* Prints a line for each node that has another's role. */
void sup_spares_print(const struct supervisor *s, FILE *out);
/* Restores from such a line: the node has this role and number. */
void sup_spare_restore(struct sup_node *n, int is_spare, uint32_t number);
/* Nothing runs: all are again what they were made for. */
void sup_spares_forget(struct supervisor *s);

#endif
