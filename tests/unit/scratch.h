/* scratch: a directory of a test's own, which goes with all that is in it. */
#ifndef PACELINE_TESTS_SCRATCH_H
#define PACELINE_TESTS_SCRATCH_H

#include "base/fs.h"

#include <stdio.h>
#include <stdlib.h>

static char scratch[64];

/* Set-up and tear-down of a test, or called by them. */
static inline int scratch_make(void **state)
{
	(void)state;
	snprintf(scratch, sizeof scratch, "/tmp/paceline-unit.XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_remove(void **state)
{
	(void)state;
	return fs_remove_tree(scratch, NULL);
}

#endif
