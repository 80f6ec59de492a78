/*
 * kind: the kinds of job that there are, and how they differ, as a table.
 *
 * SYNC, TRAINER and TRAINER_KIND say of which kind a job is.  Whoever does something in one way or
 * another asks for the fact that this hangs on, and not for the kind.  PARTITIONS=local is no kind:
 * it says where rows are, see job_is_local().
 */
#ifndef PACELINE_JOB_KIND_H
#define PACELINE_JOB_KIND_H

#include "job/deadline.h"

struct job;

/* Who has the parameters. */
enum kind_holds {
	HOLD_SERVERS,  /* each server a part of them */
	HOLD_REPLICAS, /* each replica all of them: gradients are summed over replicas */
	HOLD_TRAINERS, /* trainers of the user's own that sum themselves, and only they can save
			  them */
	HOLD_NOBODY    /* each piece of work stands for itself */
};

/* Where the lead is, which commits iterations. */
enum kind_lead {
	LEAD_IN_SERVER, /* the first one; where there are other hosts, as the next */
	LEAD_ALONE,     /* in a process of its own */
	LEAD_NONE       /* nothing is trained in iterations */
};

/* What a checkpoint is. */
enum kind_cut {
	CUT_PARTS, /* files of the kit, one for each part */
	CUT_SAVED, /* a directory in which trainers have saved what they like */
	CUT_NONE   /* there is none: what is done is done */
};

/* What a process that trains is given. */
enum kind_given {
	GIVEN_BATCHES, /* by the lead */
	GIVEN_WORDS,   /* the same, in words on its stdin */
	GIVEN_SHARD,   /* one, and its end says what became of it */
	GIVEN_ROWS     /* on its stdin */
};

struct job_kind {
	const char *name, *program; /* program: of the kit, what workers run */
	const char *does;           /* how a TRAINER works, for people; NULL: there is none */
	int foreign;                /* a TRAINER of the user's own trains */
	enum kind_given given;
	enum kind_holds holds;
	enum kind_lead lead;
	enum kind_cut cut;
	int sums; /* trainers have them in place of the replicas, each all: replicas only sum */
	int goes_back; /* with the end of one that trains all go back to the last checkpoint */
	int backup;    /* an iteration can end without the batches of some */
	enum deadline cut_limit, finish_limit; /* of a checkpoint; from the last one to the end */
	/* Why these can't be scaled; NULL: they can. In the first, %llu is how many are wanted. */
	const char *workers_stay, *servers_stay, *hosts_stay;
};

const struct job_kind *job_kind(const struct job *job);

#endif
