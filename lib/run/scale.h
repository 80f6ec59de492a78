/*
 * scale: how many workers the job has is changed while it trains: a person asks (`trainctl scale`), or
 * another module does.
 *
 * One change at a time, in the order in which they were asked for; one that comes while the job
 * saves, rolls back or changes already waits for its turn.  What is wanted is on disk (STATE/scale)
 * before anything is done, with what there was before, so that a supervisor that comes after a crash goes
 * on with it.  The job file's WORKERS stays what a fresh start has: when somebody changes it
 * between two starts, it wins.
 *
 * - More workers: nodes are added to the roster, and join when they are up.  Nobody waits for them.
 * - Fewer: the last ones are told to end, and give back what they had; then they are fenced, as any
 *   worker that has ended (recover.h), and leave the roster.
 * - Then all workers are told their shares of the global batch, in the same iteration; and their
 *   learning rate, where BATCH_SCALING says so.
 */
#ifndef PACELINE_RUN_SCALE_H
#define PACELINE_RUN_SCALE_H

#include "base/error.h"

#include <stdint.h>

struct request;
struct sup_node;
struct sup_scale_ask;
struct supervisor;

struct sup_sizes {
	uint64_t workers, servers;
};

#define SCALE_REASON_MAX 200

struct sup_scale {
	struct sup_sizes now;  /* what the job has, or will have when the change is done */
	struct sup_sizes from; /* what it had before that */
	int under_way, shared; /* all is there, and workers have been told their shares */
	double began; /* clock_mono(): the change */
	char reason[SCALE_REASON_MAX];
	struct sup_scale_ask *first; /* those who wait, in their order */
	struct sup_scale_ask *asked; /* who asked for the change under way; NULL: nobody is known */
	uint64_t changes;            /* of the roster, by this supervisor */
};

/* Asks for so many; 0: as many as there are. reason is for people, and copied. rq (may be NULL) is
 * answered when it is done, or refused. -1: it is refused at once; rq was answered. */
int sup_scale_want(struct supervisor *s, uint64_t workers, uint64_t servers, const char *reason,
		   struct request *rq);
/* A change is under way, or waits. */
int sup_scale_is_due(const struct supervisor *s);
/* How many workers there may be at most, as far as is known here. */
uint64_t sup_scale_workers_most(const struct supervisor *s);
/* Samples of an iteration, all workers together. */
uint64_t sup_scale_batch(const struct supervisor *s);

/* What an earlier supervisor left; before the roster is filled. */
int sup_scale_read(struct supervisor *s, struct error *err);
/* The roster is filled, and who runs is known. */
void sup_scale_begin(struct supervisor *s);
/* In PHASE_RUNNING. */
void sup_scale_step(struct supervisor *s);
/* Whoever waits is told that the job is over. */
void sup_scale_over(struct supervisor *s);

/* For the roster: so many nodes it begins with. */
uint64_t sup_scale_workers(const struct supervisor *s);
uint64_t sup_scale_servers(const struct supervisor *s);
/* It leaves, has ended, and is not fenced yet. */
int sup_scale_fences(const struct sup_node *n);
/* It is. */
void sup_scale_fenced(struct sup_node *n);
/* "joining", "leaving", or NULL. */
const char *sup_scale_word(const struct sup_node *n);

#endif
