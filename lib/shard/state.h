/*
 * What state.c, settle.c and follow.c share, and nobody else: a state that is being read, and the
 * head of a settle.
 */
#ifndef PACELINE_SHARD_STATE_H
#define PACELINE_SHARD_STATE_H

#include "shard/queue_internal.h"

#define SETTLE_LINES_MAX (1u << 20)

/* What comes before the lines of a settle, and of its answer. */
struct settle_head {
	uint64_t number, iteration, lines, term, is_whole;
	char note[OPTION_ID_MAX];
};
extern const struct field settle_fields[]; /* settle.c */

enum state_stage { STATE_HEAD, STATE_PARTITIONS, STATE_NUMBERS, STATE_PIECES, STATE_WHOLE };

struct state_reader {
	struct queue *q; /* whoever takes it sets NULL */
	int has_expected;
	struct queue_parameters expected; /* its partitions are borrowed */
	enum state_stage stage;
	uint64_t lines;
	struct queue_parameters p; /* until its partitions are known */
	struct partition_own *own; /* grows to be p.partition */
	size_t owns, room;
	struct piece *last;    /* the piece to which `run` lines belong */
	struct u64map origins;  /* origin -> struct whole, also for shards that were never cut */
	uint64_t remaining;    /* samples of all pieces */
	uint64_t refusals_due; /* so many `fenced` lines of `settled` must follow */
};

/* Takes the next line, until stage is STATE_WHOLE. -1: it is refused (ERROR_DATA, ERROR_OS). */
int state_read(struct state_reader *s, const struct record *r, struct error *err);
void state_reader_free(struct state_reader *s); /* frees what is in it */

#endif
