/*
 * abandoned: rows in the hands of nobody.  Any client may take rows of the job; one that goes
 * without a word keeps them, and no death of a node will ever bring them back.  When nothing is
 * left to hand out and nothing has been trained for a while, a holder that is neither a worker of
 * this job nor a member of the lead has what it holds taken from it: as by its own bye, since no
 * shard is to blame.
 */
#ifndef PACELINE_RUN_ABANDONED_H
#define PACELINE_RUN_ABANDONED_H

#include "base/option.h"
#include "run/talk.h"

#include <stdint.h>

struct sup_abandoned {
	uint64_t samples; /* in the model, since that second of clock_mono() */
	double since;
	struct question question; /* a lost one begins anew with the next look */
	int is_member;
	char id[OPTION_ID_MAX], behind[OPTION_ID_MAX]; /* who is asked about, and was before */
};

void sup_abandoned_tick(struct supervisor *s);

#endif
