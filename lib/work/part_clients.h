/*
 * part_clients: all parts of the parameters, as one.  With one part the model reads and writes the
 * memory that is shared with it; with several, ranges of the dense vector are put together and
 * taken apart by copying.
 *
 * The pull of the next batch may be sent right behind a push, which saves a round trip: the servers
 * hold it back until the push is applied.  If it was not for the next batch after all, or its
 * answer is older than what the push's answer promises, that answer is thrown away, and the pull is
 * sent again.
 *
 * A batch says which map grouped its keys.  If another map is in force (the owner has changed map
 * and parts), the keys are grouped again here, and rows and gradients are put in order: the model
 * sees the order of the batch.
 */
#ifndef PACELINE_WORK_PART_CLIENTS_H
#define PACELINE_WORK_PART_CLIENTS_H

#include "param/map.h"
#include "work/part_client.h"

struct part_clients {
	struct part_client *part; /* the owner sets up each */
	uint32_t count;
	const struct map *map;
	uint64_t dense_count; /* floats, in all parts */
	uint32_t width;       /* floats in a row */

	/* private */
	int laid;     /* `straight` of the batch whose gradients are where lay_out() says */
	/* Keys of the present batch, part by part. place: the position in the batch of each; NULL:
	 * the batch has the same order. */
	const uint32_t *key, *place;
	const size_t *begin;
	uint32_t *own_key, *own_place;
	size_t *own_begin;
	size_t own_room, begin_room;
	float *sorted; /* their rows, or their gradients */
	size_t sorted_room;
	int straight; /* this batch is computed in the memory shared with the only part */
	/* otherwise in our own; rooms in floats */
	float *dense, *dense_gradient, *rows, *row_gradient;
	size_t dense_room, dense_gradient_room, rows_room, row_gradient_room;
	int early; /* a pull was sent behind the push, for this iteration */
	uint64_t early_iteration;
	uint32_t early_pause; /* for this many pushes none is sent */
	/* Of this pull: when the last part could answer, and the oldest iteration that a part has
	 * given. */
	double reached;
	uint64_t as_of;
};

/* -1: no memory. map is the owner's. */
int part_clients_new(struct part_clients *s, const struct map *map, uint32_t width,
		     struct error *err);
void part_clients_free(struct part_clients *s); /* what it points to */
void part_clients_close(struct part_clients *s);
int part_clients_connected(const struct part_clients *s);
void part_clients_identify(struct part_clients *s, uint64_t generation, uint64_t incarnation);
/* From now on parts that went are not waited for (brief), or are. */
void part_clients_brief(struct part_clients *s, int brief);
/* Connects those that are not connected. *low and *high: the incarnations met. */
int part_clients_connect(struct part_clients *s, double deadline, uint64_t *low, uint64_t *high,
			 struct error *err);

/* Parameters of a batch, and room for its gradients. */
int part_clients_pull(struct part_clients *s, uint64_t iteration, const struct batch *b,
		      struct exchange_values *values, struct error *err);
/* The push of the batch that was pulled, to part i; line: begun, with what describes it. */
int part_clients_push(struct part_clients *s, uint32_t i, struct record_out *line,
		      uint64_t sequence, const struct batch *b, struct error *err);
/* Keeps the gradients of the batch that was pulled here: they may be needed after the parts have
 * changed. */
int part_clients_keep(struct part_clients *s, const struct batch *b, struct error *err);
/* From now on, this is the batch that is pushed. */
int part_clients_speak_of(struct part_clients *s, const struct batch *b, struct error *err);
/* Throws away the answers to all open requests; a refusal because of the map is not an error. */
int part_clients_drain(struct part_clients *s, struct error *err);
/* Behind a push: the pull of the next batch. */
int part_clients_ask_early(struct part_clients *s, const struct exchange_push *push,
			   const struct batch *b, const struct batch *next, struct error *err);
/* The push brought us to `iteration`: what was sent early may never be answered (WORK_RESET). */
int part_clients_check_early(const struct part_clients *s, uint64_t iteration);
/* Nobody needs the early pull: throws its answers away. If that fails, disconnects all. */
int part_clients_drop_early(struct part_clients *s, enum patience patience, struct error *err);

#endif
