/* rollback: a queue from a file takes the place of the one in use.  What never goes back, although
 * everything else does: generations, incarnations, ids. */
#include "shard/queue_internal.h"

int queue_roll_back(struct queue *q, const struct queue *replaced, struct error *err)
{
	/* Generations never go back: what was given since the file was written is not given again.
	 */
	for (const struct worker *w = replaced->first_worker; w; w = w->next) {
		struct worker *mine = queue_worker_make(q, w->id);
		if (!mine)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		if (mine->last < w->last)
			mine->last = w->last;
	}
	q->at = replaced->at;
	q->mono = replaced->mono;
	for (struct worker *w = q->first_worker; w; w = w->next) {
		while (w->hand.head)
			piece_return(q, w->hand.head, 0);
		w->generation = 0;
	}
	if (q->incarnation < replaced->incarnation)
		q->incarnation = replaced->incarnation;
	q->incarnation++;
	if (q->next_id < replaced->next_id)
		q->next_id = replaced->next_id;
	if (q->parts && q->parts->next_move < replaced->parts->next_move)
		q->parts->next_move = replaced->parts->next_move;
	if (q->parts)
		q->parts->migrate = replaced->parts->migrate;
	q->loose[0] = '\0';
	q->has_settled = 0;
	q->refusals = 0;
	q->retries = replaced->retries;
	q->lease = replaced->lease;
	if (replaced->first_at > 0)
		q->first_at = replaced->first_at;
	q->samples_repeated = replaced->samples_repeated;
	if (replaced->samples_done > q->samples_done)
		q->samples_repeated += replaced->samples_done - q->samples_done;
	return 0;
}
