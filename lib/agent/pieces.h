/*
 * pieces: what an agent without a lead says to shardd(8): hello, get, done, back, renew, bye.
 * Requests go out one after the other without waiting for their answers; pieces_next() tells the
 * results.
 *
 * If the connection closes, it is opened again and the generation is resumed: requests without an
 * answer are sent again, and pieces that shardd does not know in our hand any more are lost.  While
 * the disk of shardd is full, a refused request is sent again until it is accepted.  For one
 * thread.
 */
#ifndef PACELINE_AGENT_PIECES_H
#define PACELINE_AGENT_PIECES_H

#include "base/error.h"
#include "work/generation.h"

#include <stddef.h>
#include <stdint.h>

struct pieces;

/* of: what an owner sets, without resume_seconds, held and owner. */
int pieces_new(struct pieces **out, const struct generation *of, struct error *err);
void pieces_free(struct pieces *p); /* NULL is fine */

/* Begins a new generation; connects if needed. WORK_OK, WORK_STOP, or -1: ERROR_UNAVAILABLE after
 * wait_seconds without shardd. */
int pieces_hello(struct pieces *p, struct error *err);

const struct generation *pieces_generation(const struct pieces *p);

/* These return 0, WORK_STOP, or -1. wait_seconds > 0: shardd may delay the answer for so long, and
 * with it all later answers. */
int pieces_get(struct pieces *p, double wait_seconds, struct error *err);
int pieces_done(struct pieces *p, uint64_t id, struct error *err);
enum pieces_back { PIECES_UNDONE, PIECES_FAILED, PIECES_HOLD };
int pieces_back(struct pieces *p, uint64_t id, enum pieces_back why, struct error *err);
int pieces_renew(struct pieces *p, uint64_t id, struct error *err);

size_t pieces_asked(const struct pieces *p); /* get requests without an answer */
size_t pieces_owed(const struct pieces *p);  /* done and back requests without one */

enum pieces_kind {
	PIECES_NOTHING, /* for now */
	PIECES_GIVEN,   /* piece is in our hand */
	PIECES_WAIT,    /* nothing to hand out now; others still work */
	PIECES_END,     /* nothing left at all; `held` pieces are held */
	PIECES_DONE,    /* id is done for good */
	PIECES_LOST,    /* id is no longer in our hand */
	PIECES_FENCED   /* nothing is; pieces_hello() begins anew */
};
struct pieces_news {
	enum pieces_kind kind;
	struct piece piece;
	uint64_t id, held;
};
/* Never waits for an answer, only for a lost connection to come back. 0, WORK_STOP, or -1. */
int pieces_next(struct pieces *p, struct pieces_news *news, struct error *err);
int pieces_fd(const struct pieces *p);         /* for poll(2); -1: not connected */
double pieces_seconds(const struct pieces *p); /* until pieces_next() has something to do */

/* All held shards, whichever worker had them; earlier requests are answered first. 0, WORK_STOP, or
 * -1. */
int pieces_held(struct pieces *p, void (*each)(const struct piece *piece, void *arg), void *arg,
		struct error *err);
/* Ends the generation and so gives back what is in our hand: best effort, for a few seconds. */
void pieces_bye(struct pieces *p);

#endif
