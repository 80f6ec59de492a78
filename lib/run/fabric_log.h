/*
 * fabric_log: finds the host because of which a world of the fabric ended, or did not begin.  Each
 * rank writes into the fabric's log when it has to wait for others, and from which host it has
 * heard nothing.
 */
#ifndef PACELINE_RUN_FABRIC_LOG_H
#define PACELINE_RUN_FABRIC_LOG_H

struct sup_node;

/* Call before another world is started: what is in the log by now is from earlier worlds. */
void sup_fabric_log_begin(struct sup_node *fabric);
/* Call when a world has ended and nobody had asked it to: names the host that stood still. */
void sup_fabric_log_ended(struct sup_node *fabric);

#endif
