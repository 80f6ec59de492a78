/*
 * stock: the rows that an agent holds and has not yet given to its trainer: pieces go in, batches
 * of ranges come out.  Memory only; pure.
 */
#ifndef PACELINE_AGENT_STOCK_H
#define PACELINE_AGENT_STOCK_H

#include "base/error.h"
#include "work/batch.h"
#include "work/shards.h"

#include <stddef.h>
#include <stdint.h>

/* A run of rows of one piece. */
struct stock_range {
	struct piece piece;
	uint64_t position, length; /* positions of the piece's order, as skip and take are */
};

/* What is cut for one batch. */
struct stock_cut {
	struct stock_range range[BATCH_RANGES_MAX];
	size_t ranges;
	uint64_t rows;
};

/* All zero: empty. */
struct stock {
	struct piece *piece; /* the next cut of the first one is at its skip */
	size_t first, count, room;
	uint64_t rows;
};

void stock_free(struct stock *s);
int stock_add(struct stock *s, const struct piece *p, struct error *err);
/* Whether a piece of this id was added and is not wholly cut. */
int stock_knows(const struct stock *s, uint64_t id);
void stock_drop(struct stock *s);
/* Cuts at most so many rows; fewer if there are no more, or if their ranges would not fit into a
 * push. batch gets the same ranges, as a push names them. */
void stock_cut(struct stock *s, uint64_t rows, struct stock_cut *cut, struct batch *batch);
/* Undoes the last cut; then cut and batch are empty. */
int stock_uncut(struct stock *s, struct stock_cut *cut, struct batch *batch, struct error *err);

#endif
