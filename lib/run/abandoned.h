/*
 * abandoned: takes rows back from a holder that has gone.  Any client may take rows of the job.  If
 * it goes without a bye, it still holds them, and the supervisor does not see its end, because it
 * is no node of the job.  So when no rows are left to hand out, and nothing has been trained for a
 * while, the supervisor takes the rows back from each holder that is neither a worker of this job
 * nor a member of the lead.  This counts as the holder's own bye: no shard is blamed.
 */
#ifndef PACELINE_RUN_ABANDONED_H
#define PACELINE_RUN_ABANDONED_H

#include "base/option.h"
#include "run/talk.h"

#include <stdint.h>

struct sup_abandoned {
	uint64_t samples;         /* in the model, as seen last, */
	double since;             /* and clock_mono() when that number last changed */
	struct question question; /* if it is lost, the next tick asks again */
	int is_member;
	char id[OPTION_ID_MAX], after[OPTION_ID_MAX]; /* asked about now; the one before */
};

void sup_abandoned_tick(struct supervisor *s);

#endif
