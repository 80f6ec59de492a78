/*
 * parts: what lies on hosts that do not see our state directory, and belongs here.
 *
 * - A checkpoint whose parts were written there: they are brought here, one by one, by node-host(8),
 *   compared with what its manifest says, by ckpt(1), and removed there. Until the last one is here the
 *   checkpoint is not complete: its manifest names parts that are missing.
 * - What trainers of the user's own have saved in a checkpoint there: the same, file by file.
 * - What workers have learnt about their speeds (predict-ID), which their next process needs, wherever
 *   it runs: with each checkpoint, and at the end of the job.
 * - Checkpoints that lie there for nothing are removed, at the same times, until every host has done
 *   so: parts of one that failed, and what was brought there for servers that run by now.  Which these
 *   are need not be remembered: all are, but the one that nodes go back to.  In the end that one is
 *   removed as well, and what killed servers have left in memory.
 */
#ifndef PACELINE_RUN_PARTS_H
#define PACELINE_RUN_PARTS_H

#include "job/dirs.h"

#include <stddef.h>

struct child;
struct sup_node;
struct supervisor;

enum parts_doing {
	PARTS_FETCH,  /* a part is brought, */
	PARTS_CHECK,  /* compared, */
	PARTS_DROP,   /* and removed there */
	PARTS_LEARNT, /* what the workers of a host have learnt is brought */
	PARTS_SWEEP,  /* what is left on a host is removed */
};

struct sup_parts {
	struct child *child;   /* NULL: none is under way */
	struct sup_node *node; /* whose part it is */
	char dir[DIRS_PATH_MAX], file[DIRS_PATH_MAX + 512]; /* with the name that a trainer gives it */
	enum parts_doing doing;
	size_t host;                              /* LEARNT, SWEEP: of which */
	enum { PARTS_OPEN, PARTS_ENDING, PARTS_ENDED } end;
	double began; /* clock_mono() */
};

/* Whether any part of the checkpoint in this directory has to be brought. */
int sup_parts_are_away(const struct supervisor *s, const char *dir);
/* That, or something else has to be brought or removed. */
int sup_parts_are_due(const struct supervisor *s, const char *dir);
/* Does it; the end is told to sup_checkpoint_parts(). */
void sup_parts_bring(struct supervisor *s, const char *dir);
void sup_parts_stop(struct supervisor *s);
/* Something may lie on hosts that do not see ours and is needed no more. It is so, too, when a
 * supervisor begins: the one before it may have died. */
void sup_parts_left(struct supervisor *s);
/* All nodes have ended: whether nothing is left to be done on other hosts, which the first call begins. */
int sup_parts_end(struct supervisor *s);

#endif
