/*
 * turn: what changes, for the whole job, who has what: one turn at a time, and here is who may begin
 * while what else is under way.
 *
 * How a turn goes is its own file's: each is a row here, with the step that brings it further (in
 * PHASE_RUNNING, again and again; level-triggered as all of the supervisor is). Reactions to one node
 * (fences, spares, restarts of workers) are no turns.
 */
#ifndef PACELINE_RUN_TURN_H
#define PACELINE_RUN_TURN_H

struct supervisor;

enum turn {
	TURN_SCALE,	/* other workers, servers or hosts: scale.h */
	TURN_MOVE,	/* of that: servers get or give parts, or may */
	TURN_RELEASE,	/* of that: servers and replicas end that nobody needs */
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

/* The turns, as bits, for which this one has to wait; 0: it may begin. */
unsigned turn_waits_for(enum turn t, const struct turn_now *now);

int sup_turn_is(const struct supervisor *s, enum turn t);     /* under way */
int sup_turn_is_due(const struct supervisor *s, enum turn t); /* under way, or wished */
int sup_turn_may_begin(const struct supervisor *s, enum turn t);
/* All of them a step further; in PHASE_RUNNING. */
void sup_turns_step(struct supervisor *s);

#endif
