/*
 * verdict: what a job lost most time to, and so whether it is a machine or the job itself.
 *
 * Each suspect is judged by how much shorter the job would have been without it (cost.h: from the
 * batch times and the waiting of each window of the log).  The one that cost most is told, if it
 * cost as large a part of the job as is usual for none of its kind; else it is the job itself: all
 * are alike, and only more workers, or less work, would make it shorter.
 *
 * Pure.
 */
#ifndef PACELINE_ACCOUNT_VERDICT_H
#define PACELINE_ACCOUNT_VERDICT_H

#include "account/cost.h"

enum verdict_kind {
	VERDICT_JOB, /* itself */
	VERDICT_UNKNOWN, /* the log has no measurements */
	VERDICT_FAILED,
	VERDICT_WORKER,
	VERDICT_HOST, /* several workers on it */
	VERDICT_SERVER,
	VERDICT_LINK, /* of a host */
	VERDICT_TURNS, /* waiting for workers, but for no single one */
	VERDICT_DATA,
	VERDICT_RESTARTS,
	VERDICT_STOOD, /* nothing was committed for a while */
	VERDICT_CHECKPOINTS,
	VERDICT_MEETING, /* servers and the commit, or sums between trainers, as for all */
	VERDICT_AROUND,  /* start, end, scoring */
	VERDICTS
};
extern const char *const verdict_name[VERDICTS]; /* in records */

struct verdict {
	enum verdict_kind kind;
	int machine;     /* one is to blame, not the job */
	double seconds;  /* that the job would have been shorter; JOB: training; NAN: not known */
	const char *id;  /* the account's: of the node, of the host; "": none */
	size_t node; /* WORKER, HOST (one of it), SERVER; RESTARTS: with most; else ACCOUNT_NOBODY */
};

struct verdict verdict_of(const struct account *a, const struct cost *c);

#endif
