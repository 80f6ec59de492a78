/*
 * gate: the lead of a job as a state machine: who is a member, when a unit closes, what is
 * committed, what is applied, and who is told what.  The place where a batch becomes part of the
 * model.
 *
 * Pure: events are function calls, effects wait in a queue (gate_next) until the owner carries them
 * out, in their order.  No socket, no clock, no parameters: a push is a name here (worker,
 * generation, sequence) with the rows that it covers; its gradients are staged elsewhere.
 *
 * A unit is what is committed together.  BSP: an iteration, closed when all active members have
 * pushed, or all but `backup` of them; a push for an iteration closed before is late: settled as
 * dropped.  ASP and SSP: each push by itself; under SSP the answer to a push waits while its worker
 * is more than `staleness` iterations ahead of the slowest active member (Ho et al., NIPS 2013).
 * Backup workers: AntDT V-E, after Chen et al., 2016.
 *
 * Replicas (BSP only): each has all parameters, and what is committed is a sum of all members'
 * gradients that every replica in force has: sum first, commit then, step last.  A sum has an epoch
 * that is never used again; whatever changes its members or its replicas makes a new one, but never
 * while a settle is out.  A unit's settle counts as a whole or not at all.  The unit is closed by
 * its commit, not before.
 *
 * Members that keep the parameters themselves (foreign) have in them what they push, so that it can't be
 * dropped: they have no backup workers. They say before each batch how many samples it has.  Under BSP nobody is answered before all have said so: that is the barrier, and the place of a
 * cut: each member's parameters are then of exactly that iteration.  Under ASP and SSP a cut is
 * between two units for shardd, and comes to each member with its next answer, so a member may have
 * more in its parameters than the queue says.  What a member trained and took away with it can't be in
 * a cut any more: from then on cuts are refused.
 *
 * What holds after every event (tests/unit/lead_random.c):
 * - a push is applied at most once, and only after every server held its part of it and its settle
 *   was answered without refusing it;
 * - one settle is outstanding at most, and its number is repeated until it is answered;
 * - every token is answered exactly once, as long as members live;
 * - no settle is outstanding between SAVE and CUT;
 * - with `balance`, the members of an iteration were told sizes of one call of it;
 * with replicas also (tests/unit/lead_sums.c):
 * - what is settled of a member is the push that its replica has summed;
 * - no replica is told to step with a sum that it lacks, and all of them step alike;
 * - what is in a replica is what was settled up to its iteration, whoever died meanwhile.
 * The Spin models of the life of a batch check the same: change both.
 */
#ifndef PACELINE_LEAD_GATE_H
#define PACELINE_LEAD_GATE_H

#include "base/error.h"
#include "base/option.h"
#include "lead/order.h"
#include "solve/balance.h"
#include "solve/solution.h"

#include <stddef.h>
#include <stdint.h>

#define GATE_RANGES_MAX 64 /* of one push */
#define GATE_TOKENS_MAX 4  /* requests that wait for the same thing */
#define GATE_WORKERS_MAX 65536
#define GATE_ACTIONS_BYTES_MAX (2 * ACTIONS_BYTES_MAX) /* that wait for the next unit */
#define GATE_SETTLE_LINES 8192 /* a unit of more is settled in several requests: one has to fit what
				  shardd takes. One that is whole is settled in one. */
#define GATE_REPLICAS_MAX 256
#define GATE_CHECK_UNITS 64 /* the checksums of every so many-th sum are compared */

enum gate_sync { GATE_BSP, GATE_SSP, GATE_ASP };

/* How large the batches of an iteration are; a pure function of what it was told so far. member is
 * in worker order; its numbers are those of its last push, of a life before if there was none
 * since. -1: sizes stay as they are, and who has none keeps his own. */
typedef int gate_balance_fn(uint64_t iteration, struct balance_member *member, size_t members,
			    void *arg);

struct gate_options {
	enum gate_sync sync;
	uint64_t staleness; /* SSP */
	uint64_t backup;    /* BSP: units close without this many; 0 where they are foreign */
	uint64_t incarnation;
	uint64_t iteration;       /* units that the parameters hold already */
	uint64_t settle_first;    /* number of the first settle */
	int commit;               /* 0: nobody to settle with; units are committed as they close */
	gate_balance_fn *balance; /* BSP: sizes at every barrier; NULL: as the workers have them */
	void *balance_arg;
	uint64_t expect; /* BSP: the first ones enter together, once there are so many, or
			    gate_begin() */
	size_t replicas; /* BSP: r0, r1, ... have all parameters each; 0: there are parts, or: */
	int foreign;     /* the parameters are the members' own */
};

struct gate;

int gate_new(struct gate **out, const struct gate_options *options, struct error *err);
void gate_free(struct gate *g); /* NULL is fine */

/* "bsp", "ssp:S", "asp". ERROR_USAGE. */
int gate_sync_parse(const char *text, enum gate_sync *sync, uint64_t *staleness, struct error *err);

/* ---- events: workers ---- */

/* Who asks. token names the request: it comes back in one GATE_ANSWER. Generations count from 1. */
struct gate_who {
	const char *worker;
	uint64_t generation, incarnation;
	uint64_t connection;
	uint64_t token;
};

struct gate_range {
	uint64_t id, begin, length;
};

struct gate_push {
	uint64_t sequence; /* grows within a generation */
	uint64_t iteration;
	uint64_t count;   /* samples; 0: it has no gradient */
	uint64_t skipped; /* rows of the ranges that could not be read */
	uint64_t size;    /* samples of a whole batch, 0: count; see struct order_push */
	double loss;      /* sum over the samples */
	const struct gate_range *range;
	size_t ranges;
	double speed, time, mem; /* as in struct balance_member */
};

void gate_join(struct gate *g, const struct gate_who *who);
/* Before its join, where there are replicas: the one that it pushes to. -1: there is none of this
 * name. */
int gate_pushes_to(struct gate *g, const struct gate_who *who, const char *replica);
/* Before its join: what it says about its next batch, samples a second. */
void gate_speed(struct gate *g, const struct gate_who *who, double speed);
/* The same: samples that fit a step of it. */
void gate_most(struct gate *g, const struct gate_who *who, uint64_t most);
/* Before its join: it says gate_take_part() before each batch. Only where it is foreign. world: so
 * many such members there have to be: no iteration begins (BSP) and no cut is made without them; 0: it
 * does not say. */
void gate_takes_part(struct gate *g, const struct gate_who *who, uint64_t world);

/* The next batch of such a member. */
struct gate_batch {
	uint64_t iteration;
	uint64_t count; /* samples; 0: it has none */
	int with_none;  /* it takes part also without samples */
	int is_ahead;   /* said behind the push before, without its answer */
};

/* Answered by `ok iteration= members= samples=`: those who take part and what they have together;
 * with samples=0 also `wait=1`: there is nothing to do, and it says so again. Without samples it may
 * say so anew at any time: the request before is answered so. */
void gate_take_part(struct gate *g, const struct gate_who *who, const struct gate_batch *batch);

/* Those who wait to enter are let in, without those who are expected and have not come. */
void gate_begin(struct gate *g);
void gate_leave(struct gate *g, const struct gate_who *who);
void gate_end(struct gate *g, const struct gate_who *who);
/* The parts have staged its gradient before: where one has not, the push is refused when they are
 * asked to hold it. */
void gate_push(struct gate *g, const struct gate_who *who, const struct gate_push *push);
/* Whether this push of who is to be staged: it is a member, and the push was not applied or dropped
 * before. What is staged once more after that would stay, and a pull behind it wait, for ever. */
int gate_wants(const struct gate *g, const struct gate_who *who, uint64_t sequence);
/* The connection is gone: its members leave. */
void gate_closed(struct gate *g, uint64_t connection);
/* A push that is wanted (gate_wants()) can't be applied: the worker leaves, and what other parts
 * have of the push goes, unless it is being settled: then that decides. */
void gate_unfit(struct gate *g, const struct gate_who *who, uint64_t sequence);
/* The worker leaves, if this is its generation: it gives no sign of life. Nobody waits for it any
 * more, and it may join again. */
void gate_let_go(struct gate *g, const char *worker, uint64_t generation, const char *why);
/* Something else came from a member that has no connection since gate_load(): it is back. */
void gate_here(struct gate *g, const char *worker, uint64_t generation, uint64_t connection);

/* "ID:BEGIN:LENGTH[,...]" or empty, into range[GATE_RANGES_MAX]. ERROR_DATA with the bad piece. */
int gate_ranges_parse(const char *text, struct gate_range *range, size_t *ranges,
		      struct error *err);

/* ---- events: the supervisor ---- */

void gate_fence(struct gate *g, const char *worker, uint64_t generation, uint64_t token);
/* Lines `action kind=...`; -1 (nothing done) when one is bad (ERROR_DATA), or sets a size that the
 * gate sets at every barrier (ERROR_NOPERM). number: 0, or what names this request: the number of
 * the one before is that one said again, and is answered only. */
int gate_act(struct gate *g, const char *lines, size_t len, uint64_t number, uint64_t token,
	     struct error *err);
void gate_finish(struct gate *g, uint64_t token);
/* Starts a cut: the CUT effect follows, or an answer that refuses it. The answer to a cut that has
 * come to CUT is the owner's; then gate_cut_over(). */
void gate_cut(struct gate *g, uint64_t token);
void gate_cut_over(struct gate *g);
/* With replicas: the one that was asked has forked. Until then, or until it is over, nothing is
 * settled: its next step must not be in the cut. */
void gate_cut_forked(struct gate *g);

/* STILL follows, when no settle is out and no cut is made; a cut that is wanted comes first. Only
 * where there are parts. */
void gate_still(struct gate *g);
/* It is over, or not wanted any more. moved: the parts have another map: pushes that came under the
 * old one are refused with code=map, and may be said again, as if they had not been. */
void gate_go_on(struct gate *g, int moved);

/* ---- events: shardd and the other servers ---- */

void gate_shards(struct gate *g, int up);  /* connected; starts as not */
void gate_servers(struct gate *g, int up); /* all of them connected; starts as up */
/* The answer to HOLD: the workers of which a server has not all; they are refused, nobody else. */
void gate_held(struct gate *g, const char *const *missing, size_t count);
/* The settle's answer: the workers whose lines were refused. Another number is ignored. */
void gate_settled(struct gate *g, uint64_t number, const char *const *fenced, size_t count);

enum gate_refusal {
	GATE_REFUSED_INCARNATION, /* not in force any more: the lead must end */
	GATE_REFUSED_NOW /* a full disk: the same again when the owner says gate_shards(1) */
};
void gate_settle_refused(struct gate *g, uint64_t number, enum gate_refusal why);
void gate_saved(struct gate *g);
void gate_save_refused(struct gate *g, int incarnation, const char *why);

/* ---- events: replicas ---- */

/* What was committed last. */
struct gate_commit {
	uint64_t iteration; /* units in the model since */
	uint64_t epoch, divisor, samples;
};

/* Before it nothing happens. last: NULL: nobody has committed anything yet, and the first replica
 * that serves says where all are. Terms grow from lead to lead. */
void gate_term(struct gate *g, uint64_t term, const struct gate_commit *last);

/* Where a replica is, when it has just been connected. */
struct gate_replica {
	int serving; /* it has parameters */
	int filling; /* or is being filled, for another lead: it is asked again when it is not */
	uint64_t iteration;
	uint64_t epoch; /* of the sum that it has; 0: none */
};
void gate_replica(struct gate *g, size_t replica, const struct gate_replica *where);
void gate_replica_gone(struct gate *g, size_t replica); /* its connection is */
/* Those who have waited to join for a while, and push to a replica that is not in force though
 * others are, are told: their rows are of use to somebody else. 1: somebody waits on. */
int gate_turn_away(struct gate *g);
/* What it has added for a member of its own; before gate_summed() of that epoch. */
void gate_summed_of(struct gate *g, size_t replica, uint64_t epoch, const char *worker,
		    uint64_t generation, uint64_t sequence, uint64_t count);
/* It has the sum of this epoch; an old one is passed over. sum: its checksum, if that was asked. */
void gate_summed(struct gate *g, size_t replica, uint64_t epoch, uint64_t sum);
/* Nothing was summed: that worker's gradient can't be. */
void gate_diverged(struct gate *g, uint64_t epoch, const char *worker, uint64_t generation,
		   const char *why);
/* Nothing was summed: that worker told the lead of another push than its replica. */
void gate_refused(struct gate *g, uint64_t epoch, const char *worker, uint64_t generation,
		  const char *why);
/* The epoch of a sum that is not here, though all its members have pushed; 0: none. */
uint64_t gate_sum_due(const struct gate *g);
/* It takes long: replicas that lack it are told which pushes are here (HOLD). */
void gate_sum_late(struct gate *g);
/* The sum of this epoch can't be made (the fabric went): a new one, now. */
void gate_sum_again(struct gate *g, uint64_t epoch);
/* It has the parameters of gate_iteration(); of another one: the fill has failed. */
void gate_filled(struct gate *g, size_t replica);
/* Others go on without it, until gate_fill_again(). */
void gate_fill_failed(struct gate *g, size_t replica);
void gate_fill_again(struct gate *g, size_t replica);

/* ---- effects ---- */

enum gate_effect_kind {
	GATE_ANSWER, /* token, ok, fields or code and text, actions */
	GATE_HOLD,   /* push[pushes]: parts keep them until APPLY or THROW, or say what they lack;
			with replicas: to[tos], epoch: they say it to the sum */
	GATE_SETTLE, /* number, iteration, line[lines] */
	GATE_APPLY,  /* iteration (before), units, push[pushes], samples, loss; with replicas:
			to[tos], epoch, divisor; units 0: it was committed before */
	GATE_DROP,   /* worker, generation, sequence: this push, which nobody will name again */
	GATE_THROW,  /* worker, generation: staged pushes up to it */
	GATE_SAVE,   /* ask shardd to save */
	GATE_CUT,    /* iteration: every part forks behind the last apply; or one replica; or
			member[members] are told by `save` in their answers */
	GATE_SUM,    /* to[tos]: epoch, iteration, check, member[members] */
	GATE_FILL,   /* replica: epoch, from the replica `from`, which is at iteration */
	GATE_STILL,  /* nothing is with the parts or shardd, and will be until gate_go_on() */
	GATE_REFUSED, /* worker, generation, fields: why it is out, for people */
	GATE_QUIT    /* the lead must end; fields: why; "": the incarnation, or the term, is not in
			force any more */
};

struct gate_line {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	struct gate_range range;
	int back; /* dropped: to the end of the queue */
};

struct gate_effect {
	enum gate_effect_kind kind;
	uint64_t token;
	int ok;
	const char *code; /* of a refusal */
	int save;         /* this answer tells `worker` of the cut of iteration `iteration` */
	char fields[192]; /* behind `ok`, or the text for people */
	char *actions;    /* records to send before `ok`, or NULL */
	uint64_t number, iteration, units, samples;
	double loss;
	struct gate_line *line;
	size_t lines;
	struct order_push *push;
	size_t pushes;
	char worker[OPTION_ID_MAX];
	uint64_t generation, sequence;
	/* with replicas */
	size_t *to, tos;
	uint64_t epoch, divisor;
	struct order_member *member;
	size_t members;
	size_t replica, from;
	int check;
	int whole; /* settle: all lines or none */
};

/* The next effect, or NULL. It belongs to the gate and lives until the next call. */
const struct gate_effect *gate_next(struct gate *g);
/* Memory ran out: what the gate says can't be trusted any more. */
int gate_failed(const struct gate *g);

/* ---- handing over to another process ---- */

/* The whole gate as lines of records, to be freed; no effect may be waiting and no cut be under way
 * (ERROR_TEMPFAIL). Requests that wait are not in it: who asked asks again. */
int gate_save(const struct gate *g, char **text, size_t *len, struct error *err);
/* Into a gate that is new and has the same options. shardd and the other servers are not connected;
 * members have no connection until they say something (a push is known again by its sequence), and
 * are out with gate_absent(). ERROR_DATA naming the line. */
int gate_load(struct gate *g, const char *text, size_t len, struct error *err);
/* Members that have not come back since gate_load() leave. */
void gate_absent(struct gate *g);

/* ---- looking ---- */

uint64_t gate_iteration(const struct gate *g); /* units applied */
size_t gate_active(const struct gate *g);
/* Of the last sum that was ordered. */
uint64_t gate_epoch(const struct gate *g);
/* shardd has been asked and has not answered. */
int gate_is_settling(const struct gate *g);
int gate_in_force(const struct gate *g, size_t replica);

/* Foreign, and every member says gate_take_part(): a cut can be told to all of them. */
int gate_tells_all(const struct gate *g);
/* Whether it takes part, or has ended and waits for the job's end. */
int gate_is_member(const struct gate *g, const char *worker, uint64_t generation);

/* A worker that is not out. */
struct gate_member {
	const char *worker, *state;
	uint64_t generation, iteration;
	/* It was let in or answered, and its next push (or leave) is to come: whoever waits for
	 * the unit waits for it. 0: it waits itself, for others or for shardd. */
	int owes;
	/* Of this generation's pushes that were answered for good, whatever became of them: to be
	 * compared with what was said before, as a hand-over begins them anew. */
	uint64_t pushes, samples;
	uint64_t size; /* samples of the batch that it owes, as far as is known here */
	const char *replica; /* that it pushes to; "": there are none */
};
typedef void gate_member_fn(const struct gate_member *member, void *arg);
/* In worker order: node_id_compare(). */
void gate_members(const struct gate *g, gate_member_fn *fn, void *arg);

#endif
