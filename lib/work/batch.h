/*
 * batch: a worker's mini-batch, ready to train: inputs, labels, the unique keys it touches, and the
 * ranges of pieces that it covers.  Memory grows to the largest batch and is used again.
 */
#ifndef PACELINE_WORK_BATCH_H
#define PACELINE_WORK_BATCH_H

#include "base/error.h"
#include "data/dataset.h"
#include "model/model.h"
#include "param/map.h"

#include <stddef.h>
#include <stdint.h>

#define BATCH_RANGES_MAX 64 /* in a push; and all of them have to fit its line */
#define BATCH_RANGES_BYTES_MAX 3072

struct batch_range {
	uint64_t id, begin, length; /* begin counts as in settle: begin of the piece + position */
};

struct batch {
	size_t positions; /* of all ranges; skipped bad rows count, too */
	size_t count;     /* samples */
	uint64_t serial;  /* as in struct model_batch; who fills it sets it */
	struct batch_range range[BATCH_RANGES_MAX];
	size_t range_count, ranges_bytes;

	/* as in struct model_batch; the keys of all samples are [0, offset[count]) */
	size_t dense_columns;
	float *dense, *label, *weight, *value;
	int has_value;
	uint64_t *row; /* number of each sample's row in the data */
	uint32_t *offset, *index;

	/* Unique keys, those of part 0 first, then of part 1, ...; part_begin[i] is where part i
	 * begins in key[], part_begin[parts] == unique. */
	size_t unique;
	uint32_t *key;
	size_t *part_begin;
	uint32_t parts;
	uint64_t map_version; /* of the map that they were grouped by */

	/* private */
	size_t row_room, key_room, dense_room, value_room, part_room;
	uint32_t *raw; /* key of each index */
	uint32_t *move;
	uint64_t *table, *bits;
	uint32_t *before;
	size_t table_room, word_room;
};

void batch_free(struct batch *b); /* what it points to; b is the caller's */
/* Empties it. */
void batch_start(struct batch *b, size_t dense_columns, int has_value);
/* Whether one more range fits. */
int batch_takes_range(const struct batch *b, uint64_t id, uint64_t begin, uint64_t length);
/* Adds positions, without their samples. A range right behind the last one of the same piece makes
 * that one longer. */
void batch_add_range(struct batch *b, uint64_t id, uint64_t begin, uint64_t length);
/* Makes room for `rows` more samples with `keys` more keys. */
int batch_reserve(struct batch *b, size_t rows, size_t keys, struct error *err);
/* How many keys sample i of rows has. */
size_t batch_sample_keys(const struct rows *rows, size_t i, const struct model_keys *keys);
/* Appends sample i of rows; there must be room. */
void batch_add_sample(struct batch *b, const struct rows *rows, size_t i,
		      const struct model_keys *keys);
/* Finds the unique keys and groups them by part. keys are below key_count. */
int batch_finish(struct batch *b, const struct map *map, uint64_t key_count, struct error *err);

/* The sample whose weight times its largest input is the largest, for a message: if a row made a
 * gradient too large, it is this one. The batch must not be empty. */
struct batch_extreme {
	uint64_t row;
	double weight, value;
};
struct batch_extreme batch_extreme(const struct batch *b, int unit_weights);

/* Samples [begin, begin+count) as the model wants them. unit_weights: batch without weights. */
struct model_batch batch_slice(const struct batch *b, size_t begin, size_t count,
			       int unit_weights);

#endif
