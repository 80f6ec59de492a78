/*
 * replica: a part that has all parameters.  There is one on each host of a job, and all are alike.
 *
 * Workers push to it as to any part, but their gradients stay in memory that they share with it.
 * The lead names a round and its members.  The replica sums the gradients of the members that push
 * here, bucket by bucket, each bucket as soon as all members have it (round.c, early.c). fabricd
 * sums over hosts (fabric_client.c), and the replica keeps that sum.  When the lead says that the
 * sum is committed, the replica makes a step with it.  Until then the contributions stay, so that a
 * newer round with other members can sum them again.
 *
 * A replica without parameters copies them from another one (fill.c).  Where trainers have the
 * parameters, a replica has none ever, and keeps the last sums (room.c).
 *
 * The files of a replica share this header; nobody outside lib/ps includes it.
 */
#ifndef PACELINE_PS_REPLICA_H
#define PACELINE_PS_REPLICA_H

#include "base/team.h"
#include "param/store_sum.h"
#include "param/sum_pair.h"
#include "ps/ps_internal.h"
#include "ps/stage.h"

#define PS_STATES 2 /* the last ones are kept */
#define REPLICA_BUCKET ((size_t)1 << 18) /* floats that are summed over hosts together */

struct ps_replica;
struct early;
struct fabric_client;
struct fill;
struct copies;
struct fetch;

enum replica_state { REPLICA_EMPTY, REPLICA_FILLING, REPLICA_SERVING };

enum round_state {
	ROUND_NONE,
	ROUND_ADDING, /* contributions are missing, or not all are added yet */
	ROUND_ABROAD, /* this host's sum is ready; fabricd adds those of other hosts */
	ROUND_HELD,   /* a step may be made with the sum */
	ROUND_FAILED  /* some can't be added, or are not those of the lead; the answer names them */
};

/* A member that pushes to this replica. */
struct round_member {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	double scale;
	/* The push that is added for it. It is fixed at the first look, and no other is taken. */
	int found;
	uint64_t sequence, count;
	/* The gradient of which parts were added before its push came. The push must have this
	 * sequence and this memory. NULL: nothing was added. */
	const float *early;
	uint64_t early_sequence;
	int refused;              /* the lead has another push of it */
	char why[STAGED_WHY_MAX]; /* why it can't be added; a copy, as its push may be gone later */
};

struct round {
	enum round_state state;
	uint64_t number; /* the highest number heard of, in any state */
	int taken;       /* number is of a sum that another process has made: the lead may not know it */
	uint64_t iteration;
	int check;
	int alone;      /* no other replica takes part */
	char *replicas; /* those that take part */
	struct round_member *member;
	size_t members, room; /* of member, push and bad */
	struct store_push *push;
	struct store_bad *bad;
	unsigned char *added; /* buckets that are added */
	size_t buckets, left;
	struct row_sums rows;
	uint64_t digest;       /* with check */
	struct request *asked; /* the lead's request, not yet answered; NULL: it is gone */
	struct timer *turn;
};

/* What a trainer has saved for another one, in sealed memory. */
struct ps_state {
	uint64_t attempt, iteration, length;
	int fd; /* -1: none */
};

struct ps_replica {
	struct ps *ps;
	enum replica_state state;
	uint64_t life; /* number of this process: no two processes of a replica have the same */
	struct team *team;
	float *total;  /* where the dense sum is */
	float *memory; /* for the sum if no fabricd takes part; NULL: not needed yet */
	struct round round;
	struct early *early;
	struct fabric_client *fabric; /* NULL: this is the only replica */
	struct fill *fill;
	struct copies *copies;
	struct sum_pair sums; /* with options.sums, from the first `room` on */
	int newest;           /* which of them was committed last; the other is for the next */
	struct ps_state state_kept[PS_STATES]; /* the last one first */
	struct timer *state_over; /* nobody waits for them any more */
	struct fetch *fetches;
	struct store *gradient; /* as long as one of them, for all that asks for the parameters' length */
};

/* replica.c */
int ps_replica_new(struct ps_replica **out, struct ps *p, struct error *err);
int ps_replica_start(struct ps_replica *r, struct error *err);
void ps_replica_stop(struct ps_replica *r);
void ps_replica_free(struct ps_replica *r);     /* NULL is fine */
float *ps_replica_memory(struct ps_replica *r); /* memory for a sum; NULL: no memory */
size_t ps_replica_rows(const struct ps_replica *r);
void ps_replica_stat(const struct ps_replica *r, struct record_out *o);
/* Whether it has parameters. 0: it has not, and rq was answered. */
int ps_replica_serves(struct ps_replica *r, struct request *rq);

/* round.c */
void round_on_sum(struct request *rq, void *ps);
void round_on_apply(struct request *rq, void *ps);
void round_on_hold(struct request *rq, void *ps);
int round_start(struct ps_replica *r, struct error *err);
void round_stop(struct ps_replica *r);
void round_free(struct ps_replica *r);
/* Looks at what is here, as something new may be of this round. */
void round_look(struct ps_replica *r);
/* Whether s may be staged: from the first added part on, only one push can be added for its member.
 * -1: ERROR_DATA, s is another push. */
int round_check_push(const struct ps_replica *r, const struct staged *s, struct error *err);
/* Gives up the sum and tells the lead; contributions stay. */
void round_end(struct ps_replica *r, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The sums of all hosts are in r->total and r->round.rows. */
void round_summed(struct ps_replica *r, uint64_t digest);

/* The length of a sum is known. */
int round_make_buckets(struct ps_replica *r, struct error *err);
/* Another process of this replica has made the sum that is in r->total. */
void round_take(struct ps_replica *r, const struct sum_pair_head *head);

/* room.c, of a replica with sums only */
void ps_room_on_room(struct request *rq, void *ps);
void ps_room_on_look(struct request *rq, void *ps);
/* Where the sum of the round is made: all who read it are done with what was there. */
float *ps_room_begin(struct ps_replica *r);
/* It is whole; committed. */
void ps_room_mark(struct ps_replica *r, enum sum_pair_state state);
void ps_room_free(struct ps_replica *r);

/* state.c, of a replica with sums only */
void ps_state_on_state(struct request *rq, void *ps);
void ps_state_on_get(struct request *rq, void *ps);
int ps_state_start(struct ps_replica *r, struct error *err);
void ps_state_stop(struct ps_replica *r);
void ps_state_free(struct ps_replica *r);

/* early.c */
void early_on_part(struct request *rq, void *ps);
/* The dense gradient of this worker of which parts are final; NULL: none is known. */
const struct early *early_find(const struct ps_replica *r, const char *worker, uint64_t generation,
			       uint64_t iteration);
const float *early_dense(const struct early *e);
uint64_t early_sequence(const struct early *e);
/* Whether floats begin .. end-1 are final. */
int early_covers(const struct early *e, size_t begin, size_t end);
/* The push of this worker has come: forgets the gradient, unless it is of another generation. */
void early_over(struct ps_replica *r, const char *worker, uint64_t generation);
/* Forgets the gradients of worker up to generation; worker NULL: all. */
void early_drop(struct ps_replica *r, const char *worker, uint64_t generation);
/* Forgets the gradients of earlier iterations. */
void early_drop_before(struct ps_replica *r, uint64_t iteration);

/* fill.c */
void fill_on_fill(struct request *rq, void *ps);
void fill_on_copy(struct request *rq, void *ps);
int fill_start(struct ps_replica *r, struct error *err);
void fill_stop(struct ps_replica *r);
void fill_free(struct ps_replica *r);

#endif
