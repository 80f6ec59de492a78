/*
 * stage: pushes that wait until the lead decides about them, by (worker, generation, sequence).
 * For each worker it keeps pushes of two generations, and of each the last two sequences: the one
 * that is being committed and the next.  The lead can't name older ones any more, so they are
 * dropped, and the number of workers bounds the size of a stage.  A push that the lead has asked
 * for (held) stays until the lead decides about it.
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
	/* What push points into: the held payload, if that is the server's own memory; otherwise a
	 * copy in a buffer. It is never memory that the client can write, except at a replica,
	 * which reads such gradients only by store_sum.h. */
	struct payload *payload;
	void *buffer;
	int diverged;             /* a gradient is not finite, or beyond OPT_GRADIENT_MAX */
	char why[STAGED_WHY_MAX]; /* if diverged: which one, and its value */
	int held;                 /* the lead will decide about it: no other push replaces it */
	/* The dense gradients of so many pushes were summed on the way, and are in one of them; the
	 * others have none. No other sum has this number. 0: it has its own. */
	uint64_t sum, sum_of;
	int kept;   /* its worker keeps it, and a standby has only its name */
	int full;   /* its worker has no room to keep another one */
	int absent; /* this is that standby: the gradients are not here */
	struct staged *next;
};

struct stage;

int stage_new(struct stage **out, struct error *err);
void stage_free(struct stage *s);   /* NULL is fine */
void staged_free(struct staged *p); /* NULL is fine */

/* Takes p. It replaces a push of the same name, unless that one is held. On failure p still belongs
 * to the caller. ERROR_DATA: its generation was thrown away, or is older than two others. */
int stage_put(struct stage *s, struct staged *p, struct error *err);
/* The same for a push that another process had staged, and so has judged already. */
int stage_restore(struct stage *s, struct staged *p, struct error *err);
/* Finds a push by its name; NULL: it is not there. */
struct staged *stage_find(const struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence);
/* A push of this generation that is kept; NULL: there is none. */
struct staged *stage_find_kept(const struct stage *s, const char *worker, uint64_t generation);
/* The first sequence of this generation that is kept, if it is below `sequence`. */
uint64_t stage_first_kept(const struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence);
/* Finds the worker's last push for this iteration. */
struct staged *stage_find_for(const struct stage *s, const char *worker, uint64_t generation,
			      uint64_t iteration);
/* Whether this generation was thrown away. */
int stage_is_over(const struct stage *s, const char *worker, uint64_t generation);
/* Takes a push out, if it is there: it is the caller's now. */
struct staged *stage_take(struct stage *s, const char *worker, uint64_t generation,
			  uint64_t sequence);
/* Drops the push of this name, if it is there. */
void stage_drop(struct stage *s, const char *worker, uint64_t generation, uint64_t sequence);
/* Drops all pushes up to this generation, and refuses later ones of them. */
void stage_throw(struct stage *s, const char *worker, uint64_t generation);
/* Nothing is held any more. */
void stage_let_go(struct stage *s);
/* Drops all pushes of earlier iterations. */
void stage_drop_before(struct stage *s, uint64_t iteration);
void stage_drop_all(struct stage *s); /* later pushes are not refused */
size_t stage_count(const struct stage *s);
int stage_lacks(const struct stage *s); /* whether a push is absent */

/* Calls fn for each worker with the generation up to which it was thrown away, and its staged
 * pushes, linked by next. If fn returns -1, the walk ends and returns that. */
typedef int stage_fn(const char *worker, uint64_t thrown, const struct staged *first, void *arg,
		     struct error *err);
int stage_each(const struct stage *s, stage_fn *fn, void *arg, struct error *err);

#endif
