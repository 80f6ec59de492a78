/*
 * What loader.c (the state) and follow.c (the changes since) share, and nobody else.
 */
#ifndef PACELINE_SHARD_LOADER_INTERNAL_H
#define PACELINE_SHARD_LOADER_INTERNAL_H

#include "shard/queue_internal.h"
#include "record/record.h"

#define LINES_OF_SETTLE_MAX (1u << 20)

enum stage { STAGE_HEAD, STAGE_PARTITIONS, STAGE_STATE, STAGE_PIECES, STAGE_CHANGES };

struct queue_loader {
	struct queue *q;
	int has_expected;
	struct queue_parameters expected;
	enum stage stage;
	uint64_t lines;        /* before `end` */
	struct queue_parameters p;    /* until its partitions are known */
	struct queue_partition *partition; /* p.partition, as it fills */
	size_t partitions;
	struct part *part;     /* that `rows` lines belong to */
	struct piece *last;    /* that `run` lines belong to */
	struct table origins;  /* origin -> struct whole, also of pieces that were never cut */
	uint64_t remaining;    /* samples of all pieces */
	uint64_t refusals_due; /* `fenced` lines of `settled` that are to come */
	/* A settle whose lines are coming. */
	struct queue_line *line;
	size_t line_count, line_due;
	struct queue_refusal *refusal;
	size_t refusals;
	uint64_t number, iteration;
	struct record r;
};

/* ---- loader.c ---- */
int loader_wrong(struct error *err, const char *why);
int loader_no_memory(struct error *err);
/* A number that must be there. */
int loader_u64(struct queue_loader *l, const char *key, uint64_t *out, struct error *err);
/* Which boot's lines may be lost; "" is none. */
int loader_loose(struct queue_loader *l, const char *key, struct error *err);
int loader_refusal(struct queue_loader *l, struct queue_refusal *out, struct error *err);

/* ---- loader_parts.c ---- */
int loader_partition(struct queue_loader *l, struct error *err); /* `partition`; 1: the last */
int loader_parts_state(struct queue_loader *l, struct error *err); /* of the `state` line */
int loader_traversal(struct queue_loader *l, struct error *err);
int loader_rows(struct queue_loader *l, struct error *err);
int loader_move(struct queue_loader *l, struct error *err);
int loader_parts_end(struct queue_loader *l, struct error *err); /* all lines are there */

/* ---- follow.c ---- */
/* One line of a change; 1: more lines complete it. */
int follow_line(struct queue_loader *l, struct error *err);
void follow_free(struct queue_loader *l); /* a settle that was not completed */

#endif
