/*
 * again: when a node whose process has ended is started again. Pure.
 */
#ifndef PACELINE_PROC_AGAIN_H
#define PACELINE_PROC_AGAIN_H

#include <stdint.h>

/* Seconds before relaunch number n in a row (from 1): 0.1, doubling, 5 at most. */
double again_pause(uint64_t in_a_row);
/* A node did well before it ended if it was ready for so long and has done its work; then its
 * failures are counted from 0 again. How long it took to start does not matter. */
#define AGAIN_WELL_SECONDS 10.0
int again_did_well(double ready_seconds, int worked);

#endif
