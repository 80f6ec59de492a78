/*
 * parts: a checkpoint whose parts were written on hosts that do not see our state directory: they
 * are brought here, one by one, by node-host(8), and removed there.  Until the last one is here the
 * checkpoint is not complete: its manifest names parts that are missing.
 */
#ifndef PACELINE_RUN_PARTS_H
#define PACELINE_RUN_PARTS_H

#include "job/dirs.h"

#include <stddef.h>

struct child;
struct sup_node;
struct supervisor;

struct sup_parts {
	struct child *child; /* NULL: none is under way */
	struct sup_node *node;
	char dir[DIRS_PATH_MAX], file[DIRS_PATH_MAX + 32];
	int removes; /* the part is here: what it left there goes */
	double began; /* clock_mono() */
};

/* Whether any part of the checkpoint in this directory has to be brought. */
int sup_parts_are_away(const struct supervisor *s, const char *dir);
/* Brings them; the end is told to sup_checkpoint_parts(). */
void sup_parts_bring(struct supervisor *s, const char *dir);
void sup_parts_stop(struct supervisor *s);

#endif
