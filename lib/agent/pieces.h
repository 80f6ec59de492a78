/*
 * pieces: what an agent without a lead says to shardd(8): hello, get, done, back, renew, bye.
 * Requests go out one behind the other, and nobody waits for their answers: pieces_next() tells what
 * came of them.
 *
 * A connection that goes is opened again and the generation resumed: what had no answer is asked
 * once more, and what shardd no longer knows in our hand is lost.  While the disk of shardd is full,
 * what it refuses is said again until it is taken.  For one thread.
 */
#ifndef PACELINE_AGENT_PIECES_H
#define PACELINE_AGENT_PIECES_H

#include "base/error.h"
#include "work/generation.h"

#include <stddef.h>
#include <stdint.h>

struct pieces;

/* of: with what an owner sets, but for resume_seconds, held and owner. */
int pieces_new(struct pieces **out, const struct generation *of, struct error *err);
void pieces_free(struct pieces *p); /* NULL is fine */

/* A new generation; connects when needed. WORK_OK, WORK_STOP, or -1: ERROR_UNAVAILABLE after
 * wait_seconds without shardd. */
int pieces_hello(struct pieces *p, struct error *err);

const struct generation *pieces_generation(const struct pieces *p);

/* All of them: 0, WORK_STOP, or -1. wait_seconds > 0: shardd may hold the answer back so long, and
 * with it all answers behind. */
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
/* Never waits for an answer, but for a connection that went. 0, WORK_STOP, or -1. */
int pieces_next(struct pieces *p, struct pieces_news *news, struct error *err);
int pieces_fd(const struct pieces *p);         /* for poll(2); -1: not connected */
double pieces_seconds(const struct pieces *p); /* until pieces_next() has something to do */

/* Those that are held, whoever had them; what was asked before is answered first. 0, WORK_STOP, or
 * -1. */
int pieces_held(struct pieces *p, void (*each)(const struct piece *piece, void *arg), void *arg,
		struct error *err);
/* Ends the generation, which gives back what is in our hand: best effort, for a few seconds. */
void pieces_bye(struct pieces *p);

#endif
