/*
 * in_force: what outlives a lead and a supervisor, such as the actions in force (a lead of a new
 * incarnation gets them again) and how often each node was restarted by intention.  It is kept
 * (kept.h) with each change:
 *
 *     force incarnation= life=
 *             the lead that has the actions
 *     action ...
 *             each, without its reason
 *     host name= gone= world= [avoided=]
 *             each of several hosts; gone=1: it is gone; world=N + 1: it is in the fabric of
 *             life N; also, if Slurm gave it besides: more= job= cores= memory-mib= apart=
 *     placed id= host=
 *             each node that does not run at home
 *     place id= spare= number=
 *             each node that has another's role (spare.h)
 *     heavy id= count= at=
 *             each node that was restarted
 *     size id= cores= memory= job-cores= job-memory=
 *             each node that may use something else than the job says
 *     resizing role= cores= memory= reason=
 *             what a brain gives to all nodes of a role when there are as many as it wants
 *     oom id= steps=
 *             each node that got more after an end for lack of memory
 *
 * It is about the processes that run: when none is left, the next run takes only size,
 * resizing and oom.
 */
#ifndef PACELINE_RUN_IN_FORCE_H
#define PACELINE_RUN_IN_FORCE_H

#include "base/error.h"
#include "base/hash.h"
#include "solve/solution.h"

#include <stddef.h>
#include <stdint.h>

struct supervisor;

struct sup_forced {
	char key[OPTION_ID_MAX + 4]; /* kind and id */
	struct action action;
	UT_hash_handle hh;
};

struct sup_in_force {
	struct sup_forced *first; /* uthash: in the order in which they came */
	size_t count;
	uint64_t incarnation, life; /* of the lead that has them */
	uint64_t batch;             /* BATCH of what was restored */
	int changed;                /* since it was kept */
};

/* The life of the lead's process, if the next one may not know what is in force; 0: the lead is in
 * a server whose next process takes over everything. */
uint64_t sup_lead_life(const struct supervisor *s);

/* Takes a line that an earlier supervisor kept. */
int sup_in_force_restore(struct supervisor *s, const struct record *r, struct error *err);
/* Call after a change of anything that is in the list above: it is written soon. */
void sup_in_force_changed(struct supervisor *s);
/* Begins to write, if something has changed. */
void sup_in_force_flush(struct supervisor *s);
void sup_in_force_forget(struct supervisor *s);
void sup_in_force_free(struct supervisor *s);
/* The lead has acknowledged these actions: they are in force. */
void sup_in_force_take(struct supervisor *s, const char *lines);
/* Nothing is in force any more for this node: it no longer exists, or has another role now. */
void sup_in_force_drop(struct supervisor *s, const char *id);
/* The lines of all that is in force; the caller frees them. NULL: none, or out of memory. */
char *sup_in_force_lines(const struct supervisor *s);
const struct action *sup_in_force_find(const struct supervisor *s, enum action_kind kind,
				       const char *id);

#endif
