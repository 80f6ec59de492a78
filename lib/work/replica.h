/*
 * replica: an exchange (exchange.h) with the replica of all parameters on the worker's own host,
 * and with the lead of the job, which is another process (SYNC=allreduce).
 *
 * Dense parameters are read in the replica's own memory, without a copy; the rows of a batch are
 * pulled.  Gradients are computed in memory that is shared with the replica, and summed in place:
 * the first of them while the backward pass still computes the others.  The push goes to the
 * replica first, and then, without gradients, to the lead, which answers when the sum over all
 * hosts is in the parameters.
 *
 * With a delay of one iteration the sum of a batch is on the wire while the next one is computed.
 * The smallest change does it: the worker waits for the lead's answer to a push not behind it, but
 * before the next push.  So the lead still has one push of each member, an iteration is committed
 * as ever, and what a worker computes ahead is nothing but a batch in hand: it goes back to the
 * queue with the worker.  All that is new:
 * - push() pulls the parameters of the next batch, after the replica has the gradients, so that it
 *   sums meanwhile, but before the lead is told of them.  The lead commits no iteration without its
 *   members, so these are the parameters to which this push will be added, on every worker.
 * - Dense parameters are copied then: the step would change them under the computation.
 * - Gradients lie in two places in turn: a replica may read those of a push until its step.
 * - Who was not waited for (backup workers) may have copied while a step was made; its push is
 *   dropped, and what it has computed ahead is computed anew.
 * - Sizes that come with an answer hold from the batch after the next.
 *
 * When a replica goes, all that it held is lost: the worker starts over (WORK_RESET), so that its
 * rows go back to the queue, and then waits for the replica to come back.  It also waits for a lead
 * that goes; a lead that has forgotten us refuses (WORK_FENCED).
 */
#ifndef PACELINE_WORK_REPLICA_H
#define PACELINE_WORK_REPLICA_H

#include "work/conversation.h"
#include "work/exchange.h"

struct replica_options {
	const char *lead, *replica; /* sockets */
	uint64_t dense_count; /* floats */
	uint32_t width;       /* floats in a row */
	uint64_t key_count;   /* rows there can be */
	int delay;            /* parameters may miss the last iteration */
	/* With both: worker, longest waits, stop; action is the lead's. */
	struct conversation_options talk;
};

int replica_new(struct exchange **out, const struct replica_options *options, struct error *err);

#endif
