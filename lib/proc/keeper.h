/*
 * keeper: a process beside a node that holds what the node wants to outlive it (base/keep.h): the
 * node's parent starts it before the node, in a session of its own.
 *
 * When the node has gone, the keeper waits for the next one, which takes the file over by its link:
 * as long as the link leads here, and no longer than KEEPER_SECONDS.
 */
#ifndef PACELINE_PROC_KEEPER_H
#define PACELINE_PROC_KEEPER_H

#define KEEPER_NAME "memory-keeper"
#define KEEPER_SECONDS 300.0

/* Starts it, and returns the descriptor for the node; the keeper ends when that is closed
 * everywhere and it holds nothing. -1: there is none; a node can do without. */
int keeper_start(void);
/* In the node, before exec: the descriptor becomes the node's. -1 is fine. */
void keeper_pass(int keeper);

#endif
