/*
 * fabric_log: which host made a world of the fabric end, or not begin.  The fabric's log tells:
 * each rank writes there when it has to wait for others, and from whom it has heard nothing.
 */
#ifndef PACELINE_RUN_FABRIC_LOG_H
#define PACELINE_RUN_FABRIC_LOG_H

struct sup_node;

/* Call before another world is started: what is in the log until now is of earlier worlds. */
void sup_fabric_log_begin(struct sup_node *fabric);
/* Call when a world has ended and nobody asked it to: names the host that stood still. */
void sup_fabric_log_ended(struct sup_node *fabric);

#endif
