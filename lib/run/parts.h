/*
 * parts: a checkpoint whose parts were written on hosts that do not see our state directory: they
 * are brought here, one by one, by node-host(8), and removed there.  Until the last one is here the
 * checkpoint is not complete: its manifest names parts that are missing.
 */
#ifndef PACELINE_RUN_PARTS_H
#define PACELINE_RUN_PARTS_H

#include "ckpt/ckpt.h"
#include "job/dirs.h"

#include <stddef.h>

struct child;
struct sup_node;
struct supervisor;

#define PARTS_LEFT_MAX 8 /* more of them stay where they are */

struct sup_parts {
	struct child *child; /* NULL: none is under way */
	struct sup_node *node;
	char dir[DIRS_PATH_MAX], file[DIRS_PATH_MAX + CKPT_NAME_MAX];
	enum { PARTS_FETCH, PARTS_DROP, PARTS_SWEEP } doing; /* bring it; remove it there; what is left */
	char left[PARTS_LEFT_MAX][DIRS_PATH_MAX]; /* checkpoints that may lie on other hosts for nothing */
	size_t left_count;
	double began; /* clock_mono() */
};

/* Whether any part of the checkpoint in this directory has to be brought. */
int sup_parts_are_away(const struct supervisor *s, const char *dir);
/* That, or something has to be removed on other hosts. */
int sup_parts_are_due(const struct supervisor *s, const char *dir);
/* Brings them; the end is told to sup_checkpoint_parts(). */
void sup_parts_bring(struct supervisor *s, const char *dir);
void sup_parts_stop(struct supervisor *s);
/* This checkpoint is needed no more on hosts that do not see ours: it failed, or was brought there for
 * servers that run by now. It goes with the next one. */
void sup_parts_left(struct supervisor *s, const char *dir);

#endif
