/* turn: see turn.h. */
#include "run/sup.h"

#define IS(name) (1u << TURN_##name)

/* ---- what is so ---- */

static int scales(const struct supervisor *s)
{
	return s->scale.under_way;
}

static int scale_is_wished(const struct supervisor *s)
{
	return s->scale.wishes != NULL;
}

static int moves(const struct supervisor *s)
{
	return s->scale.servers.step != SCALE_OVER;
}

static int hands_over(const struct supervisor *s)
{
	EACH_NODE (n, s)
		if (sup_restart_hands_over(n))
			return 1;
	return 0;
}

static int rebalances(const struct supervisor *s)
{
	return s->rebalance.open;
}

static int rebalance_is_wished(const struct supervisor *s)
{
	return s->rebalance.wanted;
}

static int turn_cuts(const struct supervisor *s)
{
	return s->checkpoint.cut.open > 0 || s->checkpoint.cut_line[0];
}

/* ---- who may begin beside whom ---- */

struct turn_kind {
	int (*is_under_way)(const struct supervisor *s); /* NULL: no other turn asks */
	int (*is_wished)(const struct supervisor *s); /* by somebody who waits; NULL: by nobody */
	unsigned not_beside; /* may not begin while these are under way */
	unsigned not_before; /* nor before these, which somebody waits for */
	void (*step)(struct supervisor *s); /* NULL: another turn's, or the phase's */
	void (*over)(struct supervisor *s); /* the job is over: who waits is told; NULL: nobody does */
};

/* In the order in which they begin, when several could. */
static const struct turn_kind kinds[TURNS] = {
	/* A checkpoint and a hand-over wait for all members, which must stay the same. */
	[TURN_SCALE] = {.is_under_way = scales,
			.is_wished = scale_is_wished,
			.not_beside = IS(SCALE) | IS(CUT) | IS(HAND_OVER) | IS(REBALANCE),
			.step = sup_scale_step,
			.over = sup_scale_over},
	[TURN_MOVE] = {.is_under_way = moves},
	/* The part that a server wrote may still be on its host; a replica may be writing one. */
	[TURN_RELEASE] = {.not_beside = IS(CUT)},
	/* The server that is to be replaced would delay a checkpoint. */
	[TURN_HAND_OVER] = {.is_under_way = hands_over,
			    .not_beside = IS(HAND_OVER) | IS(CUT) | IS(MOVE) | IS(REBALANCE),
			    .step = sup_restart_step},
	[TURN_REBALANCE] = {.is_under_way = rebalances,
			    .is_wished = rebalance_is_wished,
			    .not_beside = IS(REBALANCE) | IS(SCALE) | IS(CUT) | IS(HAND_OVER),
			    .not_before = IS(SCALE),
			    .step = sup_rebalance_step,
			    .over = sup_rebalance_over},
	/* What a plan does is measured: nothing else may change the job meanwhile. */
	[TURN_PLAN] = {.not_beside = IS(SCALE) | IS(REBALANCE),
		       .not_before = IS(SCALE) | IS(REBALANCE),
		       .step = sup_brain_step},
	/* A server that is handing over would not answer. During a move the lead makes a checkpoint
	 * between two pieces. */
	[TURN_CUT] = {.is_under_way = turn_cuts, .not_beside = IS(CUT) | IS(HAND_OVER)},
};

unsigned turn_waits_for(enum turn t, const struct turn_now *now)
{
	return (kinds[t].not_beside & now->under_way) | (kinds[t].not_before & now->wished);
}

int sup_turn_is(const struct supervisor *s, enum turn t)
{
	return kinds[t].is_under_way && kinds[t].is_under_way(s);
}

static int is_wished(const struct supervisor *s, enum turn t)
{
	return kinds[t].is_wished && kinds[t].is_wished(s);
}

int sup_turn_is_due(const struct supervisor *s, enum turn t)
{
	return sup_turn_is(s, t) || is_wished(s, t);
}

int sup_turn_may_begin(const struct supervisor *s, enum turn t)
{
	struct turn_now now = {0};
	for (enum turn other = 0; other < TURNS; other++) {
		now.under_way |= (unsigned)sup_turn_is(s, other) << other;
		now.wished |= (unsigned)is_wished(s, other) << other;
	}
	return turn_waits_for(t, &now) == 0;
}

void sup_turns_step(struct supervisor *s)
{
	for (enum turn t = 0; t < TURNS && s->phases.now == PHASE_RUNNING; t++)
		if (kinds[t].step)
			kinds[t].step(s);
}

void sup_turns_over(struct supervisor *s)
{
	for (enum turn t = 0; t < TURNS; t++)
		if (kinds[t].over)
			kinds[t].over(s);
}
