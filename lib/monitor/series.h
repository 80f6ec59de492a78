/*
 * series: the course of a job's nodes in its log: now and then a `series` record for each node, from
 * its record in the monitor's snapshot.
 *
 * The log must not grow without end.  The longer a job has run and the more nodes it has, the rarer
 * the records are: less than 32 MiB in a week for up to 300 nodes, with about 220 bytes a record
 * (300 where devices were measured).
 */
#ifndef PACELINE_MONITOR_SERIES_H
#define PACELINE_MONITOR_SERIES_H

#include "record/record.h"

#include <stddef.h>

/* Seconds between two records of a node, `elapsed` seconds after the start. Pure. */
double series_seconds(double elapsed, size_t nodes);

/* The fields of such a record, but for at=, from a node's record. */
void series_fields(struct record_out *o, const struct record *node);

#endif
