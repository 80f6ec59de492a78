/*
 * recover: what a death leaves behind is removed before anything goes on (paceline-protocol(7),
 * Deaths; as a model: tests/model/batch.pml).
 *
 * A worker's: shardd says which generation it had; the lead settles or discards what it holds of it
 * and refuses it from then on; shardd gives it up; only then a new process says hello.  So nothing
 * of the dead one is under way when its rows are handed out again.  A step is never left out: an
 * answer that did not come (the lead is being rolled back, shardd restarts) begins again with the
 * question.
 *
 * A replica's, while another one has the parameters (SYNC=allreduce): it starts empty, and the lead
 * has it filled.  The lead's, where it has no parameters: it starts again, alone.  Neither takes
 * anything back.
 *
 * A server's, or the last replica's: the intent, naming the cut, is on disk before anything is
 * done; then all servers are off, shardd loads that cut's queue under a new incarnation, and the
 * servers start with that cut and no other, even if a forked child completes a later one
 * meanwhile.  A supervisor that finds an intent does all of it again: every step may be repeated,
 * because shardd's incarnation says whether the load that is answered is the last.  So it does
 * where servers are gone for another reason: a stop, or the end of a boot, after which neither
 * their memory nor what shardd had not yet written is there.
 *
 * A cut that is damaged is passed over, and the one before it is taken (newest.h).
 */
#ifndef PACELINE_RUN_RECOVER_H
#define PACELINE_RUN_RECOVER_H

#include "base/error.h"
#include "job/dirs.h"
#include "run/talk.h"

#include <stdint.h>

enum fence_step { FENCE_WHO, FENCE_LEAD, FENCE_SHARDD };

/* What is to be removed of a worker that ended, before its next life. */
struct sup_fence {
	enum fence_step step;
	uint64_t generation;
	struct question question;
	int stale; /* it was asked about an earlier death: its answer counts no more */
};

struct sup_recover {
	int intent;              /* the file is there */
	char cut[DIRS_PATH_MAX]; /* what servers restore; "": none */
	uint64_t incarnation;    /* in force; 0: not known yet */
	uint64_t rollbacks; /* of this supervisor */
	uint64_t in_a_row; /* because a server failed, since a checkpoint went beyond the last */
	int chosen;        /* which cut, or that there is none to choose */
	int had_cut;       /* before it was looked for */
	int loaded;
	int told;        /* where it goes on, */
	uint64_t before; /* and what shardd counted as done before */
	struct question load;
	struct aside *verifying; /* the cut is read whole; NULL: it is not */
	double began;      /* clock_epoch(): the last one */
	double not_before; /* clock_mono(): the servers' pause */
	int strays;   /* nodes that were not the job's ran, and may have taken parameters along */
	int together; /* all that hold parameters begin now, with the same; no replica is empty */
};

void sup_fence_begin(struct sup_node *worker);
void sup_fence_step(struct supervisor *s);

int sup_intent_read(struct supervisor *s, struct error *err);
/* The intent is carried out: its file goes. -1: not yet. */
int sup_intent_remove(struct supervisor *s);

void sup_rollback_begin(struct supervisor *s, const char *reason);
void sup_rollback_after(struct sup_node *server); /* its end; unless it is one too many */
/* Whether a replica's or the lead's end takes the parameters along: nobody has them any more. */
int sup_rollback_is_due(const struct sup_node *n);
/* Another replica than this one has the parameters. */
int sup_others_serve(const struct sup_node *n);
/* They start together, or one joins those that run. */
void sup_servers_begin(struct supervisor *s, int together);
void sup_rollback_step(struct supervisor *s);
/* It ended for good as it was to restore a cut. When that is damaged, all go back to the one before,
 * and the node's end is not the job's. */
int sup_rollback_passes_over(struct sup_node *n);
void sup_rollback_free(struct supervisor *s);
/* A checkpoint went beyond the last: the job does not only ever go back. */
void sup_rollback_gained(struct supervisor *s);
/* The one that is in force, as shardd says. */
void sup_incarnation(struct supervisor *s, uint64_t incarnation);

#endif
