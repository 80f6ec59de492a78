/*
 * generation: the generation of a worker at shardd(8), from hello to bye. A connection that goes is
 * opened again and the generation resumed, as long as it is in force. What a worker (shards.h) and an
 * agent (agent/pieces.h) say in between is theirs.  For one thread.
 */
#ifndef PACELINE_WORK_GENERATION_H
#define PACELINE_WORK_GENERATION_H

#include "base/error.h"
#include "record/record.h"
#include "work/result.h"

#include <stddef.h>
#include <stdint.h>

/* A piece of a shard, and the order in which its rows are trained (paceline-protocol(7), THE LIFE OF
 * A SHARD): position p (0 <= p < length) is row begin + p, or, when shuffled, begin + order[p],
 * order being random_permute(order, length, seed).
 * Only positions skip .. skip+take-1 are still to be trained. */
struct piece {
	uint64_t id, epoch, begin, length, seed, skip, take;
	int shuffled;
};

#define PIECE_LENGTH_MAX 0x7fffffffu

#define JOURNAL_PAUSE_SECONDS 0.5 /* before what a full disk refused is asked again */

struct call;

struct generation {
	/* Set by the owner. */
	const char *path, *worker;
	double wait_seconds;      /* a daemon that is not there is waited for this long */
	double answer_seconds;    /* longest wait for an answer */
	double resume_seconds;    /* once stopped: for that to a resume */
	const volatile int *stop; /* set by a signal: waits end with WORK_STOP */
	/* A piece that shardd says is in our hand, as the generation is resumed. */
	int (*held)(const struct piece *p, void *owner, struct error *err);
	void *owner;

	/* As the last hello said. */
	uint64_t number, incarnation, samples, epochs;
	uint64_t part_begin, part_samples; /* part_samples 0: no partitions */
	int shuffled;

	struct call *call;    /* NULL: not connected */
	struct record record; /* the last that came */
	double lease;         /* of the last piece, in seconds; 0: none */
};

/* Connects when needed. resume: in the generation that we have; what shardd holds for us is told to
 * held(). WORK_OK, WORK_STOP, WORK_FENCED (of a resume) or -1: ERROR_UNAVAILABLE after wait_seconds
 * without shardd. */
int generation_hello(struct generation *g, int resume, struct error *err);
void generation_disconnect(struct generation *g);
/* Whether *stop is set. */
int generation_stopped(const struct generation *g);
/* Whether err is a connection that went or stays silent: one to open again. All else is an error. */
int generation_is_lost(const struct error *err);

/* The next record, waited for answer_seconds and `more`; once *stop is set for stop_seconds. WORK_OK,
 * WORK_STOP, or -1. */
int generation_receive(struct generation *g, double more, double stop_seconds, struct error *err);
/* Whether something is there to be received. */
int generation_is_answered(const struct generation *g);
/* The record is a `shard`. */
int generation_piece(struct generation *g, struct piece *p, struct error *err);
/* From any `shard` record: ERROR_DATA for one that makes no sense or names rows beyond samples. */
int generation_parse(const struct generation *g, struct piece *p, const struct record *r,
		     struct error *err);
/* The record is an `err`: WORK_FENCED, WORK_WAIT (a full disk, or a queue that waits to be loaded: ask
 * again), or -1. */
int generation_refused(struct generation *g, struct error *err);

/* Ends it, which gives back what it holds, and disconnects. So many answers are owed. Best effort, for
 * two seconds: otherwise all comes back when the generation is replaced. */
void generation_bye(struct generation *g, size_t owed);

#endif
