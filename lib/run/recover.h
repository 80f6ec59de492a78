/*
 * recover: removes what a death leaves behind before anything goes on (paceline-protocol(7),
 * Deaths; as a model: tests/model/batch.pml).
 *
 * Death of a worker: shardd says which generation the worker had; the lead settles or discards what
 * it holds of that generation and refuses it from then on; shardd gives it up; only then a new
 * process says hello.  So nothing of the dead worker is under way when its rows are handed out
 * again.  No step is ever left out: if an answer does not come (the lead is being rolled back,
 * shardd restarts), the question is asked again.
 *
 * Death of a replica while another one has the parameters (SYNC=allreduce): it starts empty, and
 * the lead has it filled.  Death of a lead that has no parameters: it starts again, alone.  In both
 * cases nothing is rolled back.
 *
 * Death of a server, or of the last replica: the intent, which names the cut, is on disk before
 * anything is done.  Then all servers are off, shardd loads that cut's queue under a new
 * incarnation, and the servers start with that cut and no other, even if a forked child completes a
 * later one meanwhile.  A supervisor that finds an intent does all of this again.  Every step may
 * be repeated: a load names the incarnation that it replaces, so that a late one changes nothing.
 * The same is done when servers are gone for another reason: a stop, or a reboot, after which their
 * memory and what shardd had not yet written are lost.
 *
 * A cut that is damaged is passed over, and the one before it is taken (newest.h).
 */
#ifndef PACELINE_RUN_RECOVER_H
#define PACELINE_RUN_RECOVER_H

#include "base/error.h"
#include "job/dirs.h"
#include "run/talk.h"

#include <stdint.h>

/* Next: shardd is asked for the generation, the lead refuses it, shardd gives it up. */
enum fence_step { FENCE_WHO, FENCE_LEAD, FENCE_SHARDD };

/* What has to be removed of a worker that ended, before its next life. */
struct sup_fence {
	enum fence_step step;
	uint64_t generation;
	struct question question;
	double ended; /* a replica: clock_mono() */
};

struct sup_recover {
	int intent;              /* one is kept */
	char cut[DIRS_PATH_MAX]; /* what servers restore; "": none */
	uint64_t incarnation;    /* in force; 0: not known yet */
	uint64_t rollbacks; /* of this supervisor */
	uint64_t in_a_row; /* rollbacks after failures, without a later checkpoint in between */
	int chosen;        /* the cut is chosen, or there is none to choose */
	int had_cut;       /* there was a cut, before the search for one */
	int loaded;
	int told;        /* people were told where the job goes on */
	uint64_t before; /* samples that counted as done before the rollback */
	struct question load;
	struct aside *verifying; /* the cut is read whole; NULL: it is not */
	double began;      /* clock_epoch(): the last rollback began */
	double not_before; /* clock_mono(): servers do not start again before */
	int strays;   /* nodes ran that were not the job's, and may have taken parameters along */
	int together; /* all that hold parameters begin now, with one cut; no replica is empty */
};

void sup_fence_begin(struct sup_node *worker);
void sup_fence_step(struct supervisor *s);

/* Takes an intent that an earlier supervisor kept. */
int sup_intent_take(struct supervisor *s, const struct record *r, struct error *err);
/* Call when the intent was carried out. */
void sup_intent_remove(struct supervisor *s);

void sup_rollback_begin(struct supervisor *s, const char *reason);
/* The same because this node ended; or the job fails, if it has gone back too often. */
void sup_rollback_after(struct sup_node *server);
/* Whether nobody has the parameters any more after the end of this replica or lead. */
int sup_rollback_is_due(const struct sup_node *n);
/* Whether that is not known yet after the end of this replica: sup_fence_step() knows it later. */
int sup_rollback_is_unsure(const struct sup_node *replica);
/* Whether another replica has the parameters, as it said last. */
int sup_others_serve(const struct sup_node *n);
/* Servers start together, or (together 0) one joins those that run. */
void sup_servers_begin(struct supervisor *s, int together);
void sup_rollback_step(struct supervisor *s);
/* The node failed for good when it had to restore a cut. 1: it is being found out whether that cut
 * is damaged; if so, all go back to the cut before it, and the job does not fail. */
int sup_rollback_passes_over(struct sup_node *n);
void sup_rollback_free(struct supervisor *s);
/* A checkpoint has more samples than the last one: the job makes progress, it does not only go
 * back. */
void sup_rollback_gained(struct supervisor *s);
/* The incarnation in force, as shardd says. */
void sup_incarnation(struct supervisor *s, uint64_t incarnation);

#endif
