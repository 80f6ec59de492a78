/*
 * replica: a part that holds all parameters, one on each host of a job, all alike.
 *
 * Its workers push as they do to any part, but their gradients stay where they are, in memory that
 * the workers share with it.  The lead names a round and its members.  The replica sums the
 * gradients of the members that push here, bucket by bucket, as soon as all have a bucket (round.c,
 * early.c); fabricd sums over hosts (fabric_client.c), and the replica holds that sum.  It makes a
 * step with it when the lead says that it is committed.  Until then the contributions stay: a newer
 * round, with other members, sums them again.
 *
 * A replica without parameters copies them from another one (fill.c).
 *
 * What the files of a replica share; nobody outside lib/ps includes this.
 */
#ifndef PACELINE_PS_REPLICA_H
#define PACELINE_PS_REPLICA_H

#include "base/team.h"
#include "param/store_sum.h"
#include "ps/ps_internal.h"
#include "ps/stage.h"

#define REPLICA_BUCKET ((size_t)1 << 20) /* floats that are summed over hosts together */

struct ps_replica;
struct early;
struct fabric_client;
struct fill;
struct copies;

enum replica_state { REPLICA_EMPTY, REPLICA_FILLING, REPLICA_SERVING };

enum round_state {
	ROUND_NONE,
	ROUND_ADDING, /* not all contributions are here, or not all are added */
	ROUND_ABROAD, /* this host's sum is ready: those of the others are added */
	ROUND_HELD,   /* a step may be made with the sum */
	ROUND_FAILED  /* some can't be added, or are not what the lead has: they are named */
};

/* A member that pushes to this replica. */
struct round_member {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	double scale;
	/* The push that is added for it, fixed at the first look: no other one is. */
	int found;
	uint64_t sequence, count;
	/* The gradient of which parts were added before the push came: the push must have this
	 * sequence and this memory. NULL: nothing was added. */
	const float *early;
	uint64_t early_sequence;
	int refused;              /* the lead holds another push of it */
	char why[STAGED_WHY_MAX]; /* why it can't be added: kept, as its push may be gone later */
};

struct round {
	enum round_state state;
	uint64_t number; /* the highest ever heard of, whatever the state is */
	uint64_t iteration;
	int check;
	int alone;      /* no other replica takes part */
	char *replicas; /* which do */
	struct round_member *member;
	size_t members, room; /* of member, push and bad */
	struct store_push *push;
	struct store_bad *bad;
	unsigned char *added; /* buckets */
	size_t buckets, left;
	struct row_sums rows;
	uint64_t digest;       /* with check */
	struct request *asked; /* the lead's, not yet answered; NULL: it is gone */
	struct timer *turn;
};

struct ps_replica {
	struct ps *ps;
	enum replica_state state;
	uint64_t life; /* of this process: no two of one replica have the same */
	struct team *team;
	float *total;  /* the sum: floats of the dense vector */
	float *memory; /* for the sum when no fabricd takes part; NULL: not needed yet */
	struct round round;
	struct early *early;
	struct fabric_client *fabric; /* NULL: this is the only replica */
	struct fill *fill;
	struct copies *copies;
};

/* replica.c */
int ps_replica_new(struct ps_replica **out, struct ps *p, struct error *err);
int ps_replica_start(struct ps_replica *r, struct error *err);
void ps_replica_stop(struct ps_replica *r);
void ps_replica_free(struct ps_replica *r);     /* NULL is fine */
float *ps_replica_memory(struct ps_replica *r); /* for a sum; NULL: there is none */
size_t ps_replica_rows(const struct ps_replica *r);
void ps_replica_stat(const struct ps_replica *r, struct record_out *o);
/* Whether it has parameters; if not, rq was answered. */
int ps_replica_serves(struct ps_replica *r, struct request *rq);

/* round.c */
void round_on_sum(struct request *rq, void *ps);
void round_on_apply(struct request *rq, void *ps);
void round_on_hold(struct request *rq, void *ps);
int round_start(struct ps_replica *r, struct error *err);
void round_stop(struct ps_replica *r);
void round_free(struct ps_replica *r);
/* Something is here that may be of this round. */
void round_look(struct ps_replica *r);
/* Whether s may be staged: one push is added for its member, from the first part on. -1,
 * ERROR_DATA: s is another push. */
int round_check_push(const struct ps_replica *r, const struct staged *s, struct error *err);
/* The sum so far is of no use: tells the lead; contributions stay. */
void round_end(struct ps_replica *r, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The sums of all hosts are in r->total and r->round.rows. */
void round_summed(struct ps_replica *r, uint64_t digest);

/* early.c */
void early_on_part(struct request *rq, void *ps);
/* The dense gradient of which parts are final; NULL: none is known. */
const struct early *early_find(const struct ps_replica *r, const char *worker, uint64_t generation,
			       uint64_t iteration);
const float *early_dense(const struct early *e);
uint64_t early_sequence(const struct early *e);
int early_covers(const struct early *e, size_t begin, size_t end);
/* The push of this worker is here: forgets the gradient, unless it is of another generation. */
void early_over(struct ps_replica *r, const char *worker, uint64_t generation);
/* Those of worker up to generation; all when worker is NULL. */
void early_drop(struct ps_replica *r, const char *worker, uint64_t generation);
void early_drop_before(struct ps_replica *r, uint64_t iteration);

/* fill.c */
void fill_on_fill(struct request *rq, void *ps);
void fill_on_copy(struct request *rq, void *ps);
int fill_start(struct ps_replica *r, struct error *err);
void fill_stop(struct ps_replica *r);
void fill_free(struct ps_replica *r);

#endif
