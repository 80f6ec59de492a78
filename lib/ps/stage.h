/*
 * stage: pushes that wait for the lead's word, by (worker, generation, sequence).  It keeps pushes
 * of two generations of a worker, and of each the last two sequences: the one that is being
 * committed and the next.  Older ones can't be named any more and are thrown away, so that the
 * number of workers bounds a stage.  A push that the lead has asked for (held) stays until the lead
 * decides about it.
 */
#ifndef PACELINE_PS_STAGE_H
#define PACELINE_PS_STAGE_H

#include "base/error.h"
#include "base/option.h"
#include "param/store.h"
#include "wire/server.h"

#include <stddef.h>
#include <stdint.h>

#define STAGED_WHY_MAX 160

struct staged {
	char worker[OPTION_ID_MAX];
	uint64_t generation, sequence, iteration;
	struct store_push push; /* its row array belongs to this struct */
	/* What push points into: the payload, held, where that is the server's own memory; else a
	 * copy in a buffer. Never memory that the client can write, but for replicas, which read
	 * such gradients only by store_sum.h. */
	struct payload *payload;
	void *buffer;
	int diverged;             /* a gradient is not finite, or beyond OPT_GRADIENT_MAX */
	char why[STAGED_WHY_MAX]; /* then: which one, and its value */
	int held;                 /* the lead settles it: no push of its worker replaces it */
	struct staged *next;
};

struct stage;

int stage_new(struct stage **out, struct error *err);
void stage_free(struct stage *s);   /* NULL is fine */
void staged_free(struct staged *p); /* NULL is fine */

/* Takes p; one of the same name is replaced, or stays when it is held. On failure p is still the
 * caller's. ERROR_DATA: its generation was thrown away, or is older than two others. */
int stage_put(struct stage *s, struct staged *p, struct error *err);
/* The same for a push that another process had staged: that process has judged it already. */
int stage_restore(struct stage *s, struct staged *p, struct error *err);
/* NULL when it is not there. */
struct staged *stage_find(const struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence);
/* The last one for this iteration. */
struct staged *stage_find_for(const struct stage *s, const char *worker, uint64_t generation,
			      uint64_t iteration);
/* Whether this generation was thrown away. */
int stage_is_over(const struct stage *s, const char *worker, uint64_t generation);
void stage_drop(struct stage *s, const char *worker, uint64_t generation, uint64_t sequence);
/* Drops all up to this generation, and refuses their later pushes. */
void stage_throw(struct stage *s, const char *worker, uint64_t generation);
/* Drops all whose iteration is before this one. */
void stage_drop_before(struct stage *s, uint64_t iteration);
void stage_drop_all(struct stage *s); /* refuses nothing later */
size_t stage_count(const struct stage *s);

/* For each worker: the generation up to which it was thrown away, and its staged pushes, linked by
 * next. -1 from fn ends the walk and is returned. */
typedef int stage_fn(const char *worker, uint64_t thrown, const struct staged *first, void *arg,
		     struct error *err);
int stage_each(const struct stage *s, stage_fn *fn, void *arg, struct error *err);

#endif
