/*
 * fabric_log: whose fault it was that a world of the fabric ended, or did not begin.  Its ranks say so
 * in the fabric's log: each that has to wait for others, and who has heard nothing from another one.
 */
#ifndef PACELINE_RUN_FABRIC_LOG_H
#define PACELINE_RUN_FABRIC_LOG_H

struct sup_node;

/* Another world is to be started: what is in the log by now is of those before. */
void sup_fabric_log_begin(struct sup_node *fabric);
/* Its world has ended, and nobody had asked for it: who stood still is named. */
void sup_fabric_log_ended(struct sup_node *fabric);

#endif
