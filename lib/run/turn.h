/*
 * turn: something that is done by the whole job: its nodes change, or who has which parameters, or
 * a checkpoint is made.  This module says which turn may begin while which others are under way, or
 * are waited for.
 *
 * Each turn has a file of its own, whose struct is in sup.h, and a row in turn.c with its step
 * function, which is called again and again in PHASE_RUNNING (level-triggered, as all of the
 * supervisor is).  The row says beside which turns this one may not begin.  Nothing follows from it
 * for those: where one of them may not begin beside this one, its own row says so.
 *
 * Reactions to one node (fences, spares, restarts of workers) are not turns, and no row holds them
 * up.  Phases start a worker that is off (phase.c), and a spare takes its place (spare.c).  A turn
 * in which workers are to stay off has to be asked for there: sup_turn_is().
 */
#ifndef PACELINE_RUN_TURN_H
#define PACELINE_RUN_TURN_H

struct supervisor;

enum turn {
	TURN_SCALE,	/* other workers, servers or hosts: scale.h */
	TURN_MOVE,	/* during TURN_SCALE: servers get or give parts, or may */
	TURN_RELEASE,	/* during TURN_SCALE: servers and replicas that nobody needs end */
	TURN_HAND_OVER, /* a server's next process takes its place: restart.h */
	TURN_REBALANCE, /* servers share out their keys anew: rebalance.h */
	TURN_PLAN,	/* the brain changes the job: brain.h */
	TURN_CUT,	/* a checkpoint is made: checkpoint.h */
	TURNS
};

/* As bits: 1u << TURN_CUT. */
struct turn_now {
	unsigned under_way;
	unsigned wished; /* asked for, and not begun */
};

/* The turns, as bits, that this one has to wait for; 0: it may begin. */
unsigned turn_waits_for(enum turn t, const struct turn_now *now);

int sup_turn_is(const struct supervisor *s, enum turn t);     /* under way */
int sup_turn_is_due(const struct supervisor *s, enum turn t); /* under way, or wished */
int sup_turn_may_begin(const struct supervisor *s, enum turn t);
/* In PHASE_RUNNING: a step of every turn. */
void sup_turns_step(struct supervisor *s);
/* The job is over: who waits for a turn is told. */
void sup_turns_over(struct supervisor *s);

#endif
