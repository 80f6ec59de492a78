/*
 * generation: the generation of a worker at shardd(8), from hello to bye. It opens a lost
 * connection again and resumes the generation, as long as that is in force. What is said in between
 * is up to a worker (shards.h) and an agent (agent/pieces.h).  For one thread.
 */
#ifndef PACELINE_WORK_GENERATION_H
#define PACELINE_WORK_GENERATION_H

#include "base/error.h"
#include "record/record.h"
#include "work/result.h"

#include <stddef.h>
#include <stdint.h>

/* A piece of a shard, and the order in which its rows are trained (paceline-protocol(7), THE LIFE
 * OF A SHARD): position p (0 <= p < length) is row begin + p, or, when shuffled, begin + order[p],
 * order being random_permute(order, length, seed). Only positions skip .. skip+take-1 are still to
 * be trained. */
struct piece {
	uint64_t id, epoch, begin, length, seed, skip, take;
	int shuffled;
};

#define PIECE_LENGTH_MAX 0x7fffffffu

#define JOURNAL_PAUSE_SECONDS 0.5 /* before asking again after a full disk refused */

struct call;

struct generation {
	/* Set by the owner. */
	const char *path, *worker;
	double wait_seconds;      /* longest wait for a daemon that is not there */
	double answer_seconds;    /* longest wait for an answer */
	double resume_seconds;    /* once stopped: for the answer to a resume */
	const volatile int *stop; /* set by a signal: waits end with WORK_STOP */
	/* Called when a generation is resumed, for each piece that shardd says is in our hand. */
	int (*held)(const struct piece *p, void *owner, struct error *err);
	void *owner;

	/* As the last hello said. */
	uint64_t number, incarnation, samples, epochs;
	uint64_t samples_done; /* in the model, of all epochs */
	uint64_t part_begin, part_samples; /* part_samples 0: no partitions */
	int shuffled;

	struct call *call;    /* NULL: not connected */
	struct record record; /* the last that came */
	double lease;         /* of the last piece, in seconds; 0: none */
};

/* Connects when needed. resume: in our present generation; held() hears which pieces shardd has for
 * us. WORK_OK, WORK_STOP, WORK_FENCED (of a resume) or -1: ERROR_UNAVAILABLE after wait_seconds
 * without shardd. */
int generation_hello(struct generation *g, int resume, struct error *err);
void generation_disconnect(struct generation *g);
/* Whether err means a connection that went or is silent: open it again. All else is an error. */
int generation_is_lost(const struct error *err);

/* Waits for the next record, for answer_seconds plus `more`; once *stop is set, for stop_seconds.
 * WORK_OK, WORK_STOP, or -1. */
int generation_receive(struct generation *g, double more, double stop_seconds, struct error *err);
/* Whether something is there to be received. */
int generation_is_answered(const struct generation *g);
/* Reads the record, which is a `shard`. */
int generation_piece(struct generation *g, struct piece *p, struct error *err);
/* Reads any `shard` record. ERROR_DATA: it makes no sense, or names rows beyond samples. */
int generation_parse(const struct generation *g, struct piece *p, const struct record *r,
		     struct error *err);
/* What an `err` record means: WORK_FENCED, WORK_WAIT (a full disk, or a queue that waits to be
 * loaded: ask again), or -1. */
int generation_refused(struct generation *g, struct error *err);

/* Ends the generation, which gives back its pieces, and disconnects. owed: answers still to come.
 * Best effort, for two seconds: otherwise all comes back when the generation is replaced. */
void generation_bye(struct generation *g, size_t owed);

#endif
