/*
 * machine: what this machine can give whoever computes on it: a short test of all its cores and of
 * its memory.  The numbers are the best of many short pieces, so that what others do there meanwhile is
 * hardly in them; they are for comparing hosts.
 */
#ifndef PACELINE_METER_MACHINE_H
#define PACELINE_METER_MACHINE_H

#include "base/error.h"

struct machine {
	double cores;   /* that were tested */
	double compute; /* additions and multiplications a second, of a core, on average over cores */
	double memory;  /* bytes a second, copied by one thread */
	int wrong;      /* the same calculation had two results, or memory has changed what lay in it */
};

/* Takes about so many seconds, and not much longer whatever the machine does. */
int machine_test(struct machine *out, double seconds, struct error *err);

#endif
