/*
 * load: how busy this worker's node is, from /proc and the control groups (proc(5), cgroups(7), the
 * kernel's accounting/psi).  What a node does not have is left out, never guessed.
 *
 * The files stay open and are read again with pread(2).  Looks closer together than
 * LOAD_PERIOD_SECONDS get the same answer: the kernel counts in ticks of 10 ms.
 */
#ifndef PACELINE_METER_LOAD_H
#define PACELINE_METER_LOAD_H

#include "base/error.h"

#include <stdint.h>

#define LOAD_PERIOD_SECONDS 0.1

struct load;

/* NAN: not known here. Shares are 0..1 and, but for memory and pressure, of the time since the look
 * before, or since a mark; the first look has none of those. */
struct load_values {
	double cpu;       /* of the node's processor time in use, by whomever; stolen time too */
	double mem;       /* in use: of the node's memory or of the control group's, the fuller */
	double psi_cpu;   /* time in which somebody waited for a processor, last 10 s */
	double psi_mem;   /* for memory */
	double throttled; /* periods of the control group's quota in which it was stopped */
	double own_cpu;   /* processors that this process kept busy, see load_leave_out() */
	double own_mem;   /* bytes of memory that it has had at most */
};

/* root: where the node's /proc and /sys are mounted; "": here. -1 only without memory. */
int load_new(struct load **out, const char *root, struct error *err);
void load_free(struct load *l); /* NULL is fine */

/* own_cpu leaves out what a thread beside has used: seconds() of processor time so far. */
void load_leave_out(struct load *l, double (*seconds)(const void *thread), const void *thread);

/* now: clock_mono(). */
void load_look(struct load *l, double now, struct load_values *out);

/* Once there are marks, a look is compared with the last one that is at least half as old as two
 * marks are apart, however often one looks. */
void load_mark(struct load *l, double now);

/* Bytes that this node, or the control group, has left, 1 or more; 0: not known. */
uint64_t load_memory_left(struct load *l);

#endif
