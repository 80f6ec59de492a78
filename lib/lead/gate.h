/*
 * gate: the lead of a job as a state machine: who is a member, when a unit closes, what is
 * committed, what is applied, and who is told what.  Here a batch becomes part of the model.
 *
 * Pure: events are function calls; effects wait in a queue (gate_next) until the owner carries them
 * out, in their order.  There is no socket, no clock and no parameter: a push is only a name here
 * (worker, generation, sequence) with the rows that it covers; its gradients are staged elsewhere.
 *
 * A unit is what is committed together.  BSP: an iteration, closed when all active members have
 * pushed, or all but `backup` of them; a push for an iteration that is closed already is late, and
 * settled as dropped.  ASP and SSP: each push alone, or a group (gate_grants.c), which is settled whole
 * or not at all; under SSP the answer to a push waits while its
 * worker is more than `staleness` iterations ahead of the slowest active member (Ho et al., NIPS
 * 2013).  Backup workers: AntDT V-E, after Chen et al., 2016.
 *
 * Replicas (BSP only): each has all parameters.  First every replica in force gets the sum of all
 * members' gradients, then the sum is committed, then each replica makes its step.  A sum has a
 * round, a number that is never used again; when its members or replicas change, there is a new
 * sum, but never while a settle is out.  A unit's settle counts as a whole or not at all.  A unit
 * is closed by its commit, not earlier.
 *
 * Members may keep the parameters themselves (foreign).  A push is then in their parameters already
 * and can't be dropped, so they have no backup workers.  Before each batch they say how many
 * samples it has.  Under BSP no one is answered before all have said so.  That is the barrier, and
 * the place of a cut: each member's parameters are then of exactly that iteration.  Under ASP and
 * SSP a cut is between two units for shardd, and comes to each member with its next answer, so a
 * member may have more in its parameters than the queue says.  If a member leaves with what it
 * trained, that can't be in a cut any more: from then on cuts are refused.
 *
 * With replicas such members are alike: each steps with the sum that was committed.  None of them is
 * needed, as long as one is left who has the state of the last commit, from which others get it
 * (gate_states.c).  They say no batches: the commit is the barrier, and the place of a cut.
 *
 * What holds after every event (tests/unit/lead_random.c):
 * - a push is applied at most once, and only after every server held its part of it and the answer
 *   to its settle did not refuse it;
 * - at most one settle is outstanding, and it is repeated with its number until it is answered;
 * - every token is answered exactly once, as long as members live;
 * - no settle is outstanding between SAVE and CUT;
 * - with `balance`, the members of an iteration were told sizes from the same call of it;
 * with replicas also (tests/unit/lead_sums.c):
 * - what is settled of a member is the push that its replica has summed;
 * - no replica is told to step with a sum that it lacks, and all of them step alike;
 * - a replica contains what was settled up to its iteration, whoever died meanwhile.
 * The Spin models in tests/model check the same: change both.
 */
#ifndef PACELINE_LEAD_GATE_H
#define PACELINE_LEAD_GATE_H

#include "base/error.h"
#include "base/option.h"
#include "lead/delay.h"
#include "lead/order.h"
#include "solve/balance.h"
#include "solve/solution.h"

#include <stddef.h>
#include <stdint.h>

#define GATE_RANGES_MAX 64 /* of one push */
#define GATE_EXPECT_SECONDS 10 /* gate_begin() comes so long after the first worker */
#define GATE_TOKENS_MAX 4  /* requests that wait for the same thing */
#define GATE_WORKERS_MAX 65536
#define GATE_ACTIONS_BYTES_MAX (2 * ACTIONS_BYTES_MAX) /* of actions that wait for the next unit */
#define GATE_SETTLE_LINES 8192 /* of one request, so that shardd takes it: a unit of more needs
				  several. With replicas a unit is always settled in one. */
#define GATE_REPLICAS_MAX 256
#define GATE_CHECK_UNITS 64 /* checksums are compared once in so many sums */

enum gate_sync { GATE_BSP, GATE_SSP, GATE_ASP };

/* Sets the batch sizes of an iteration; a pure function of what it was told so far. member is in
 * worker order; its numbers are those of its last push, which may be of an earlier life. -1: sizes
 * stay as they are, and a worker that has none keeps its own. */
typedef int gate_balance_fn(uint64_t iteration, struct balance_member *member, size_t members,
			    void *arg);

/* A push that is announced: it may be sent, or is on its way. */
struct gate_offer {
	const char *worker;
	uint64_t deadline;           /* the last position for its commit, see xfer_order.h */
	const uint64_t *size;        /* bytes to each part */
	size_t sizes;
	int is_on_its_way;
	double left; /* of it, 0 to 1 */
	/* out */
	size_t host;          /* offers of one host, not 0, may be summed there before they are sent */
	/* Offers of one crew, not 0, are on several hosts and are summed on this one of them. */
	size_t crew;
	int64_t hop, alone;   /* ns from one of these hosts to another, and to its servers if nothing
				 else is sent; hop -1: no crew is of use */
	int is_late;          /* it is to be dropped */
	int64_t start, there; /* ns from now */
};
/* When each of these is sent. Pure. -1: nothing is known, all may be sent now. */
typedef int gate_schedule_fn(struct gate_offer *offer, size_t offers, void *arg);

struct gate_options {
	enum gate_sync sync;
	uint64_t staleness; /* SSP */
	uint64_t backup;    /* BSP: units close without this many; 0 with foreign members */
	uint64_t incarnation;
	uint64_t iteration;       /* units that the parameters hold already */
	uint64_t settle_first;    /* number of the first settle */
	int commit;               /* 0: nobody to settle with; units are committed as they close */
	/* With parts: a unit is settled as a whole or not at all, and what is held for it has a
	 * round, so that a new lead that only knows this round can have it applied. The first round
	 * is the one after this; 0: not so. */
	uint64_t round_first;
	gate_balance_fn *balance; /* BSP: sizes at every barrier; NULL: as the workers have them */
	void *balance_arg;
	size_t workers_max; /* that it knows, ever; 0: GATE_WORKERS_MAX */
	size_t actions_max; /* bytes of actions that wait; 0: GATE_ACTIONS_BYTES_MAX */
	uint64_t expect; /* BSP: the first workers enter together: when so many wait, or at
			    gate_begin() */
	size_t replicas; /* BSP: so many (r0, r1, ...) sum, and have all parameters each if members
			    are not foreign; 0: there are parts, or members that sum themselves */
	int foreign;     /* the parameters are the members' own */
	/* SSP, ASP: a push whose delay (lead/delay.h) would be more than delay_max at its commit is
	 * dropped, and its rows go back. */
	int bounds_delay;
	uint64_t delay_max;
	int announces; /* SSP, ASP: gate_announce() */
	int counts;    /* APPLY only says how many pushes there are, HOLD nothing of them: push is NULL */
	/* With replicas: a member whose batch takes so many times the median is late (lead/late.h);
	 * 0: nobody is. */
	double late;
	gate_schedule_fn *schedule; /* of what is announced; NULL: all is sent at once */
	const char *(*host_name)(size_t host, void *schedule_arg); /* of one in an offer */
	void *schedule_arg;
};

struct gate;

int gate_new(struct gate **out, const struct gate_options *options, struct error *err);
void gate_free(struct gate *g); /* NULL is fine */

/* "bsp", "ssp:S", "asp". ERROR_USAGE. */
int gate_sync_parse(const char *text, enum gate_sync *sync, uint64_t *staleness, struct error *err);

/* ---- events: workers ---- */

/* The worker that asks. token names the request: it comes back in exactly one GATE_ANSWER.
 * Generations count from 1. */
struct gate_who {
	const char *worker;
	uint64_t generation, incarnation;
	uint64_t connection;
	uint64_t token;
	size_t seat; /* as gate_seat() said of it: it is found by that alone; 0: by its name */
};

/* A worker that has said anything has a number for good, from 1 on; 0: it has not. */
size_t gate_seat(const struct gate *g, const char *worker);
/* It will soon say something: where its memory is, is fetched meanwhile; is_near: its memory, shortly before. 0 is fine. */
void gate_fetch(const struct gate *g, size_t seat, int is_near);

struct gate_range {
	uint64_t id, begin, length;
};

#define GATE_PULLED_UNKNOWN UINT64_MAX

struct gate_push {
	uint64_t sequence; /* grows within a generation */
	uint64_t iteration;
	uint64_t count;   /* samples; 0: it has no gradient */
	uint64_t skipped; /* rows of the ranges that could not be read */
	uint64_t size;    /* samples of a whole batch, 0: count; see struct order_push */
	uint64_t pulled;  /* units in the parameters that it was computed from */
	double loss;      /* sum over the samples */
	const struct gate_range *range;
	size_t ranges;
	double speed, time, mem; /* as in struct balance_member */
	uint64_t most;           /* the same; 0: as before */
	const uint64_t *part;    /* for gate_announce(): bytes of the gradient to each part */
	size_t parts;
	uint64_t group; /* it was granted in, as its worker says; 0: none */
};

void gate_join(struct gate *g, const struct gate_who *who);
/* Before its join, if there are replicas: the replica that it pushes to. -1: no replica has this
 * name. */
int gate_pushes_to(struct gate *g, const struct gate_who *who, const char *replica);
/* Before its join: the speed that it says for its next batch, in samples a second. */
void gate_speed(struct gate *g, const struct gate_who *who, double speed);
/* Before its join: the samples that fit into one of its steps. */
void gate_most(struct gate *g, const struct gate_who *who, uint64_t most);
#define GATE_NO_STATE UINT64_MAX
/* Before its join, where foreign members have replicas: its state is that of this iteration; or it
 * has none, GATE_NO_STATE. Then its join is answered by `ok iteration= fill=REPLICA attempt=`, or, one
 * behind, by `ok iteration= step=ROUND samples= bad=1`: it is no member yet, and joins again.
 * beginning: with a state of iteration 0, which one of the members' beginnings made it, as the answer to a join
 * has named it; 0: none. A state of an earlier beginning is as good as none. */
void gate_state(struct gate *g, const struct gate_who *who, uint64_t version, uint64_t beginning);
/* It has given its state to its replica, as it was told, or could not. */
void gate_given(struct gate *g, const struct gate_who *who, uint64_t attempt, int failed);
/* A number of what a settle waits for: a state that is being given; 0: nothing. */
uint64_t gate_state_due(const struct gate *g);
/* It takes too long: the settle waits no more, and those who were to have the state are out. */
void gate_state_late(struct gate *g);
/* Workers wait, and nobody who is here has the state of the lead's iteration. ABSENT: it may come
 * back with one who was cut off, or whose replica is not in force, and who was not fenced since. */
enum gate_lost { GATE_LOST_NOT, GATE_LOST, GATE_LOST_ABSENT };
enum gate_lost gate_lost(const struct gate *g);
/* Before its join: it will say gate_take_part() before each batch. Only for foreign members without
 * replicas. world:
 * the number of such members that is needed: with fewer no iteration begins (BSP) and no cut is
 * made; 0: it does not say. */
void gate_takes_part(struct gate *g, const struct gate_who *who, uint64_t world);

/* The next batch of such a member. */
struct gate_batch {
	uint64_t iteration;
	uint64_t count; /* samples; 0: it has none */
	int with_none;  /* it takes part even without samples */
	int is_ahead;   /* said right after the push before, whose answer has not come */
};

/* Answered by `ok iteration= members= samples=`: the members that take part and their samples
 * together. With samples=0 also `wait=1`: there is nothing to do, and the member says its batch
 * again. A member without samples may say its batch again at any time; its earlier request is then
 * answered so. */
void gate_take_part(struct gate *g, const struct gate_who *who, const struct gate_batch *batch);

/* The model is trained enough: only what has begun is still trained. Each member is told so with its
 * next answer, and then ends. who->worker NULL: the supervisor says so. */
void gate_enough(struct gate *g, const struct gate_who *who);

/* Lets in the workers that wait to enter, without those that are expected and have not come. */
void gate_begin(struct gate *g);
void gate_leave(struct gate *g, const struct gate_who *who);
void gate_end(struct gate *g, const struct gate_who *who);
/* The parts have staged its gradient before this: if one has not, the push is refused when they are
 * asked to hold it. */
void gate_push(struct gate *g, const struct gate_who *who, const struct gate_push *push);
/* It could be pushed. Answered by `granted=1`, or, when it would be too
 * stale, as a push that was dropped. */
void gate_announce(struct gate *g, const struct gate_who *who, const struct gate_push *push);
/* With `late`, a member computes a batch: answered by `ok iteration=` when it is done or its push
 * has come, or by `ok iteration= late=1` when the sum goes on without it: then it pulls anew, and
 * its next push is for that iteration. */
void gate_compute(struct gate *g, const struct gate_who *who, int done);
/* The time, in ns since anything, before gate_announce(), gate_compute() and gate_push(), and when
 * it is what this returned: then a push may be sent, one that was granted and has not come is
 * waited for no longer, or a member is late. INT64_MAX: never. */
int64_t gate_clock(struct gate *g, int64_t ns);
/* Links have other rates: whoever waits for his turn by the schedule gets another one. */
void gate_reschedule(struct gate *g);
/* Whether this push of who is to be staged: it is a member, and the push was not applied or dropped
 * before. If it were staged again after that, it would stay for ever, and a pull behind it would
 * wait for ever. */
int gate_wants(const struct gate *g, const struct gate_who *who, uint64_t sequence);
/* Before its leave: nothing is handed out to this worker, which else would train so many samples in
 * each iteration. Until it joins again, is fenced, or its connection closes, units of BSP have them
 * in their mean, as if the end of the data had cut its batch short (struct order_push): who trains
 * the last rows alone makes no step as large as that of all. Not where the lead shares a batch out
 * among those who are there. */
void gate_idle(struct gate *g, const struct gate_who *who, uint64_t size);
/* The connection is gone: its members leave. */
void gate_closed(struct gate *g, uint64_t connection);
/* A push that is wanted (gate_wants()) can't be applied: the worker leaves, and other parts throw
 * what they have of the push, unless it is being settled: then the settle decides. */
void gate_unfit(struct gate *g, const struct gate_who *who, uint64_t sequence);
/* A worker of this generation gives no sign of life: it leaves. Nobody waits for it any more, and
 * it may join again. */
void gate_let_go(struct gate *g, const char *worker, uint64_t generation, const char *why);
/* Another request came from a member that had no connection since gate_load(): it is back. */
void gate_here(struct gate *g, const char *worker, uint64_t generation, uint64_t connection);

/* "ID:BEGIN:LENGTH[,...]" or empty, into range[GATE_RANGES_MAX]. ERROR_DATA with the bad piece. */
int gate_ranges_parse(const char *text, struct gate_range *range, size_t *ranges,
		      struct error *err);

/* ---- events: the supervisor ---- */

void gate_fence(struct gate *g, const char *worker, uint64_t generation, uint64_t token);
/* Lines `action kind=...`; -1 (nothing done) when one is bad (ERROR_DATA), or sets a size that the
 * gate sets at every barrier (ERROR_NOPERM). number: 0, or a name for this request: a request with
 * the number of the one before is a repetition, and is only answered. */
int gate_act(struct gate *g, const char *lines, size_t len, uint64_t number, uint64_t token,
	     struct error *err);
void gate_finish(struct gate *g, uint64_t token);
/* Starts a cut: the CUT effect follows, or an answer that refuses it. After CUT the owner answers
 * the request, and then calls gate_cut_over(). */
void gate_cut(struct gate *g, uint64_t token);
void gate_cut_over(struct gate *g);
/* Call before that, if the cut is a checkpoint now: those who have saved for it are told. */
void gate_cut_saved(struct gate *g);
/* With replicas: the one that was asked to write has forked. Until then, or until the cut is over,
 * nothing is settled: the replica's next step must not be in the cut. */
void gate_cut_forked(struct gate *g);

/* STILL follows as soon as no settle is out and no cut is being made; a cut that is wanted comes
 * first. Only if there are parts. */
void gate_still(struct gate *g);
/* The still time is over, or not wanted any more. moved: the parts have another map: pushes under
 * the old map are refused with code=map, and may be said again, as if they had not come. */
void gate_go_on(struct gate *g, int moved);

/* ---- events: shardd and the other servers ---- */

void gate_shards(struct gate *g, int up);  /* shardd is connected; at first it is not */
void gate_servers(struct gate *g, int up); /* all of them are connected; at first they are */
/* The answer to HOLD: the workers whose push a server does not have; only they are refused. */
void gate_held(struct gate *g, const char *const *missing, size_t count);
/* The settle's answer: the workers whose lines were refused. Another number is ignored. */
void gate_settled(struct gate *g, uint64_t number, const char *const *fenced, size_t count);

enum gate_refusal {
	GATE_REFUSED_INCARNATION, /* it is not in force any more: the lead must end */
	GATE_REFUSED_NOW /* its disk is full: it is asked again after the owner's gate_shards(1) */
};
void gate_settle_refused(struct gate *g, uint64_t number, enum gate_refusal why);
void gate_saved(struct gate *g);
void gate_save_refused(struct gate *g, int incarnation, const char *why);

/* ---- events: replicas ---- */

/* The last commit. */
struct gate_commit {
	uint64_t iteration; /* units in the model after it */
	uint64_t round, divisor, samples;
	uint64_t beginning; /* of foreign members, if that was the first unit: see gate_state() */
};

/* With replicas nothing happens before this call. last NULL: nothing was committed yet, and the
 * first replica that serves says at which iteration all are. Terms grow from lead to lead. */
void gate_term(struct gate *g, uint64_t term, const struct gate_commit *last);

/* What a replica says when it has just been connected. */
struct gate_replica {
	int serving; /* it has parameters */
	int filling; /* it has none, and another lead fills it: it is asked again after that */
	uint64_t iteration;
	uint64_t round; /* of the sum that it has; 0: none */
};
void gate_replica(struct gate *g, size_t replica, const struct gate_replica *where);
void gate_replica_gone(struct gate *g, size_t replica); /* its connection is */
/* Refuses workers that have waited to join for a while and push to a replica that is not in force,
 * if others are in force: their rows can be trained by others. 1: some workers still wait. */
int gate_turn_away(struct gate *g);
/* What a replica has added for one of its members; before gate_summed() of that round. */
void gate_summed_of(struct gate *g, size_t replica, uint64_t round, const char *worker,
		    uint64_t generation, uint64_t sequence, uint64_t count);
/* A replica has the sum of this round; an old round is ignored. sum: its checksum, if asked for. */
void gate_summed(struct gate *g, size_t replica, uint64_t round, uint64_t sum);
/* The sum of the last gate_round() is not finite; members are told so with it. */
void gate_sum_is_bad(struct gate *g);
/* Nothing was summed, because this worker's gradient can't be summed. */
void gate_diverged(struct gate *g, uint64_t round, const char *worker, uint64_t generation,
		   const char *why);
/* Nothing was summed, because this worker told the lead about another push than its replica. */
void gate_refused(struct gate *g, uint64_t round, const char *worker, uint64_t generation,
		  const char *why);
/* The round of a sum that has not come, though all its members have pushed; 0: none. */
uint64_t gate_sum_due(const struct gate *g);
/* That sum takes long: replicas that lack it are told which pushes have come here (HOLD). */
void gate_sum_late(struct gate *g);
/* The sum of this round can't be made (the fabric is gone): orders a new one now. */
void gate_sum_again(struct gate *g, uint64_t round);
/* Call when it has the parameters of gate_iteration(); if it has others, the fill has failed. */
void gate_filled(struct gate *g, size_t replica);
/* The other replicas go on without it, until gate_fill_again(). */
void gate_fill_failed(struct gate *g, size_t replica);
void gate_fill_again(struct gate *g, size_t replica);

/* ---- effects ---- */

enum gate_effect_kind {
	GATE_ANSWER,  /* token, ok, fields or code and text, actions; to a push that is settled: iteration */
	GATE_HOLD,    /* push[pushes], round: parts keep them until APPLY or THROW, or say what they
			 lack; with replicas (to[tos], round) that is their answer to the sum */
	GATE_SETTLE,  /* number, iteration, line[lines]; whole: round (0: nothing is held), divisor
			 (with parts: units), samples, beginning */
	GATE_APPLY,   /* iteration (before), units, push[pushes], samples, loss; with replicas:
			 to[tos], round, divisor; units 0: it was committed before */
	GATE_DROP,    /* worker, generation, sequence: this push, which nobody will name again */
	GATE_THROW,   /* worker, generation: staged pushes up to it */
	GATE_SAVE,    /* ask shardd to save */
	GATE_CUT,     /* iteration: every part forks behind the last apply; or one replica; or
			 member[members] are told by `save` in their answers */
	GATE_SUM,     /* to[tos]: round, iteration, check, member[members] */
	GATE_FILL,    /* replica: round, from the replica `from`, which is at iteration */
	GATE_STILL,   /* nothing is with the parts or shardd, nor will be until gate_go_on() */
	GATE_REFUSED, /* worker, generation, fields: why it is out, for people */
	GATE_QUIT     /* the lead must end; fields: why; "": the incarnation, or the term, is not in
			 force any more */
};

enum gate_saves { GATE_SAVES_NOT, GATE_SAVES_FILES, GATE_SAVES_MEMORY };

struct gate_line {
	const char *worker; /* the gate's own copy, which stays */
	size_t seat;        /* gate_seat() */
	uint64_t generation;
	struct gate_range range;
	int back; /* dropped: to the end of the queue */
};

struct gate_effect {
	enum gate_effect_kind kind;
	int ok;
	uint64_t token;
	const char *code; /* of a refusal */
	enum gate_saves save; /* this answer tells `worker` of the cut of iteration `iteration` */
	uint64_t saved; /* not 0: and that the cut of the iteration before this number is a checkpoint */
	uint64_t attempt; /* not 0: and to give its state of that iteration, under this number */
	int enough;       /* this answer tells a worker that no iteration begins any more */
	int enters;       /* this answer lets a worker in */
	char *actions; /* records to send before `ok`, or NULL */
	uint64_t iteration;
	const char *worker; /* the gate's own copy, which stays; NULL: none */
	char fields[192]; /* behind `ok`, or the text for people */
	/* of others than answers */
	uint64_t number, units, samples;
	double loss;
	struct gate_line *line;
	size_t lines;
	struct order_push *push;
	size_t pushes;
	uint64_t generation, sequence;
	/* with replicas */
	size_t *to, tos;
	uint64_t round, divisor, beginning;
	struct order_member *member;
	size_t members;
	size_t replica, from;
	int check;
	int whole; /* settle: all lines or none */
};

/* The next effect, or NULL. It belongs to the gate and is valid until the next call. */
const struct gate_effect *gate_next(struct gate *g);
/* If so many behind the one that was taken last a push is answered, as far as is known: the token; or 0. */
uint64_t gate_ahead(const struct gate *g, size_t count);
int gate_rests(const struct gate *g); /* there is no effect, and memory has not run out */
/* How many effects there are, if all are answers to pushes that are settled; else 0. */
size_t gate_only_answers(const struct gate *g);
/* Before so many pushes are here, nothing comes of them: a unit of BSP waits for all of them. 0: any may matter. */
size_t gate_awaits(const struct gate *g);
/* Memory ran out: what the gate says can't be trusted any more. */
int gate_failed(const struct gate *g);

/* ---- handing over to another process ---- */

/* The whole gate as lines of records; the caller frees them. ERROR_TEMPFAIL: an effect waits, or a
 * cut is under way. Requests that wait are not in the lines: their clients ask again. */
int gate_save(const struct gate *g, char **text, size_t *len, struct error *err);
/* Into a new gate with the same options. shardd and the other servers are not connected; members
 * have no connection until they say something (a push is recognised by its sequence). gate_absent()
 * puts out those that have said nothing. ERROR_DATA names the line. */
int gate_load(struct gate *g, const char *text, size_t len, struct error *err);
/* Members that have not come back since gate_load() leave. */
void gate_absent(struct gate *g);

/* ---- looking ---- */

uint64_t gate_iteration(const struct gate *g); /* units applied */
size_t gate_active(const struct gate *g);
/* The round of the last sum that was ordered. */
uint64_t gate_round(const struct gate *g);
const struct delays *gate_delays(const struct gate *g); /* of all members, since the lead began */
uint64_t gate_groups(const struct gate *g); /* that were granted */
uint64_t gate_far_groups(const struct gate *g); /* of them with members on several hosts */
uint64_t gate_spared(const struct gate *g); /* bytes that were announced, dropped, and never sent */
/* shardd has been asked and has not answered. */
int gate_is_settling(const struct gate *g);
int gate_in_force(const struct gate *g, size_t replica);

/* Members are foreign and all say gate_take_part(), or sum: all of them can be told of a cut. */
int gate_tells_all(const struct gate *g);
/* Whether it takes part, or has ended and waits for the job's end. */
int gate_is_member(const struct gate *g, const char *worker, uint64_t generation);

/* A worker that is not out. */
struct gate_member {
	const char *worker, *state;
	uint64_t generation, iteration;
	/* It was let in or answered, and its next push (or leave) is to come: the unit waits for
	 * it. 0: it waits itself, for others or for shardd. */
	int owes;
	/* This generation's pushes that were answered for good, whether applied or not. Compare
	 * only with what was said before: after a hand-over they count from 0. */
	uint64_t pushes, samples;
	uint64_t size; /* samples of the batch that it owes, as far as is known here */
	const char *grant; /* of what it has announced: waits, given, over; "": nothing */
	const char *replica; /* it pushes to this one; "": there are none */
	const struct delays *delays; /* of this generation's pushes that were applied or too stale */
};
typedef void gate_member_fn(const struct gate_member *member, void *arg);
/* In worker order: node_id_compare(). -1: no memory, and of none. */
int gate_members(const struct gate *g, gate_member_fn *fn, void *arg);

#endif
