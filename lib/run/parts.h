/*
 * parts: brings the job's files from hosts that do not see our state directory, and removes there
 * what nobody needs any more.
 *
 * - Parts of a checkpoint.  A host writes them into its own state directory.  Each part is brought
 *   here by node-host(8), compared by ckpt(1) with what the manifest says, and removed there.  The
 *   checkpoint is complete when its last part is here: before that its manifest names parts that
 *   are missing.
 * - What users' trainers have saved in a checkpoint there.  These files are brought one by one,
 *   compared when all are here, and then removed there by the sweep (below).
 * - What workers have learnt about their speeds (predict-ID).  A worker's next process needs it,
 *   wherever it runs, so it is brought with each checkpoint, and at the end of the job.
 * - Checkpoints that are of no use there: parts of a checkpoint that failed, and checkpoints that
 *   were brought there for servers which run by now.  A sweep removes them at the same times, and
 *   is tried again until every host has done it.  No list of them is kept: the sweep removes all
 *   but the checkpoint that nodes go back to.  The sweep at the end of the job removes that one,
 *   too, and what killed servers have left in memory.
 * - Sockets of what was killed there, at the end of the job, and on hosts that see our state, too.
 *
 * The end waits a while for a host that does not answer.
 */
#ifndef PACELINE_RUN_PARTS_H
#define PACELINE_RUN_PARTS_H

#include "job/dirs.h"

#include <stddef.h>

struct child;
struct sup_node;
struct supervisor;

enum parts_doing {
	PARTS_FETCH,  /* a part is brought */
	PARTS_CHECK,  /* a part is compared */
	PARTS_DROP,   /* a part is removed there */
	PARTS_LEARNT, /* what the workers of a host have learnt is brought */
	PARTS_SWEEP,  /* checkpoints that are of no use on a host are removed */
};

struct sup_parts {
	struct child *child;   /* NULL: none is under way */
	struct sup_node *node; /* FETCH, CHECK, DROP: whose part it is */
	char dir[DIRS_PATH_MAX], file[DIRS_PATH_MAX + 512]; /* a trainer gives its file any name */
	enum parts_doing doing;
	size_t host;                              /* LEARNT, SWEEP: on which host */
	enum { PARTS_OPEN, PARTS_ENDING, PARTS_ENDED } end; /* the last round */
	double began; /* clock_mono() */
};

/* Whether any part of the checkpoint in this directory has to be brought. */
int sup_parts_are_away(const struct supervisor *s, const char *dir);
/* Whether anything has to be brought or removed: such a part, or one of the other things above. */
int sup_parts_are_due(const struct supervisor *s, const char *dir);
/* Begins to bring and remove all of that; calls sup_checkpoint_parts() at the end. */
void sup_parts_bring(struct supervisor *s, const char *dir);
void sup_parts_stop(struct supervisor *s);
/* Checkpoints may lie on hosts for nothing: all hosts are to be swept. This also holds when a
 * supervisor begins, because the one before it may have died. */
void sup_parts_left(struct supervisor *s);
/* Call when all nodes have ended, and the fabric, until it returns 1: nothing is left to be done on
 * other hosts. The first call begins with what is left. */
int sup_parts_end(struct supervisor *s);

#endif
