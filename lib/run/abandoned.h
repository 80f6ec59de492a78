/*
 * abandoned: rows whose holder has gone.  Any client may take rows of the job.  One that goes
 * without a word keeps them, and no death of a node brings them back.  So when nothing is left to
 * hand out and nothing has been trained for a while, the supervisor takes rows back from each
 * holder that is neither a worker of this job nor a member of the lead.  This counts as the
 * holder's own bye: no shard is blamed.
 */
#ifndef PACELINE_RUN_ABANDONED_H
#define PACELINE_RUN_ABANDONED_H

#include "base/option.h"
#include "run/talk.h"

#include <stdint.h>

struct sup_abandoned {
	uint64_t samples; /* in the model, since that second of clock_mono() */
	double since;
	struct question question; /* if it is lost, the next tick asks again */
	int is_member;
	char id[OPTION_ID_MAX], after[OPTION_ID_MAX]; /* who is asked about; who was before */
};

void sup_abandoned_tick(struct supervisor *s);

#endif
