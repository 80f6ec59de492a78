/*
 * ledger: which rows are in the model, epoch by epoch, as a journal says (paceline-journal(5)).  The
 * same rows always give the same runs, however they were dealt out, returned and cut.  So two
 * ledgers can be compared line by line.
 */
#ifndef PACELINE_SHARD_LEDGER_H
#define PACELINE_SHARD_LEDGER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct queue;

/* Rows begin .. begin+length-1 are in the model, once for this epoch (from 0). */
struct ledger_run {
	uint64_t epoch, begin, length;
};

struct ledger {
	uint64_t samples, epochs; /* of the queue */
	struct ledger_run *run;   /* by epoch and row; runs that touch are one */
	size_t runs;
};

/* Reads the newest file of the journal in dir, also while shardd uses it. ERROR_CONFIG: workers have
 * rows of their own, which are counted by passes and not by epochs. To be freed with
 * ledger_free(). */
int ledger_read(struct ledger *out, const char *dir, struct error *err);
/* The same of a queue. */
int ledger_of(struct ledger *out, const struct queue *q, struct error *err);
void ledger_free(struct ledger *l);

#endif
