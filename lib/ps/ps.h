/*
 * ps: one parameter server's conversations: pull, push (staged), and what the lead says: apply,
 * throw, cut.  The lead itself is a server too: it calls the same functions without a socket.
 *
 * Counts units: a pull or push for iteration K waits until K units are applied here.  What is
 * applied is decided by the lead (lib/lead); this only does it, and reports its own batch
 * processing time (bpt) to a monitor.
 *
 * All of it on the server's event loop; nothing blocks but `drag`, whose purpose that is.
 */
#ifndef PACELINE_PS_PS_H
#define PACELINE_PS_PS_H

#include "base/error.h"
#include "ps/fork.h"
#include "ps/stage.h"
#include "param/store.h"
#include "wire/call.h"
#include "wire/server.h"

#include <stddef.h>
#include <stdint.h>

#define PS_PAYLOAD_BYTES_MAX (UINT64_C(1) << 34)
#define PS_COUNT_MAX (UINT64_C(1) << 48) /* samples of a push */
#define PS_APPLY_BYTES_MAX (UINT64_C(64) << 20)

struct ps;

struct ps_options {
	const char *id;
	uint32_t part, parts;
	uint64_t incarnation;
	uint64_t iteration;    /* units in the parameters already */
	int bsp;               /* a push for an iteration that is over is not kept */
	int naive_mean;        /* for comparison: store_naive_mean() of each unit */
	struct store *store;   /* borrowed */
	const char *drag;      /* file with a `drag` record, read before each unit; NULL */
	const char *monitor;   /* socket for `bpt` records; NULL */
	uint64_t report_every; /* units */
	double report_seconds; /* or so long, whichever comes first; 0: by units only */
};

int ps_new(struct ps **out, const struct ps_options *options, struct error *err);
/* After server_new(): timers, the monitor. */
int ps_start(struct ps *p, struct server *server, struct error *err);
/* The monitor and a checkpoint's writer go, before server_free(), which ends the requests; then
 * ps_free(). NULL is fine for both. */
void ps_stop(struct ps *p);
void ps_free(struct ps *p);

/* Requests of a part that is not the lead; their owner is a struct ps. */
extern const struct verb ps_verbs[];
extern const size_t ps_verb_count;
#define PS_PULL_KEYS "worker generation incarnation iteration dense rows"
#define PS_PULL_MORE "into-offset-bytes into-bytes asked"
#define PS_PUSH_KEYS "worker generation incarnation sequence iteration count dense rows"
#define PS_PUSH_MORE "size skipped ranges loss"

/* Set once: what apply can't recover from. The server ends with it. */
const struct error *ps_broken(const struct ps *p); /* NULL: fine */

/* ---- for the lead ---- */

void ps_pull(struct request *rq, void *ps);
/* What only a lead can tell; means in microseconds. */
struct ps_lead_stat {
	size_t members;
	uint64_t balances, settles;
	double balance_us, settle_us;
};
void ps_stat(struct request *rq, struct ps *p, const struct ps_lead_stat *lead); /* NULL: none */

/* The push that rq is, checked and with its rows found; not staged yet. ERROR_DATA says what is
 * wrong with it. */
int ps_push_read(struct ps *p, struct request *rq, struct staged **out, struct error *err);
/* Answers a push whose `diverged` is set, and frees it. */
void ps_diverged(struct ps *p, struct request *rq, struct staged *push);
/* The same for a push that nobody has read: what of worker in iteration is wrong. */
void ps_diverged_because(struct ps *p, struct request *rq, const char *why);
int ps_push_keep(struct ps *p, struct staged *push, struct error *err);
void ps_push_drop(struct ps *p, const char *worker, uint64_t generation, uint64_t sequence);
void ps_throw(struct ps *p, const char *worker, uint64_t generation);

struct ps_part {
	const char *worker;
	uint64_t generation, sequence;
	uint64_t unit;  /* 0 .. units-1, ascending */
	uint64_t count; /* of its push, as the lead was told */
	uint64_t size;  /* as in struct store_push, as the lead has judged it; 0: as its push said */
	double scale;
};
/* Keeps these staged until they are applied or thrown away, whatever else their workers push; those
 * that are not staged here with this count are told to missing (which may be NULL). How many. */
size_t ps_hold(struct ps *p, const struct ps_part *part, size_t parts,
	       void (*missing)(const struct ps_part *part, void *arg), void *arg);
/* Applies units in order; *missing counts parts that are not staged here. Pulls that waited for it
 * are answered. -1: the parameters can't be trusted any more (ps_broken). */
int ps_apply(struct ps *p, uint64_t units, const struct ps_part *part, size_t parts,
	     size_t *missing, struct error *err);

/* Forks now. One at a time: ERROR_TEMPFAIL. */
int ps_cut(struct ps *p, const char *path, fork_done_fn *done, void *arg, struct error *err);

uint64_t ps_iteration(const struct ps *p);
/* Whether what a client made happen for the count-th time is logged: it must not fill the disk. */
int ps_tell(uint64_t count);

/* ---- handing over to another process of the same part ---- */

/* What the lead has besides. */
struct ps_more {
	int (*ready)(void *owner); /* 0: what is under way can't be handed over; asked again soon */
	int (*give)(void *owner, struct call *c, struct error *err);
	/* A record that ps does not know. */
	int (*take)(void *owner, const struct record *r, struct call *c, struct error *err);
	void *owner;
};
void ps_set_more(struct ps *p, const struct ps_more *more);
/* Ends r and sends it, and its bulk if it announced some, to the heir. */
int ps_say(struct call *c, struct record_out *r, const void *bulk, size_t bytes, struct error *err);

/* The requests `take-over` and `taken`. The state is sent between two events, and nobody else is
 * served until the heir has said that it has it, or is gone. Then the server's loop ends. */
void ps_take_over(struct request *rq, struct ps *p);
void ps_not_given(struct request *rq, struct ps *p); /* `taken` of somebody else */

/* The heir, before ps_start(): everything from who listens at path. When this returns 0 the other
 * is gone and has left its name. ERROR_UNAVAILABLE: it is not there, or went before it heard that we
 * have it all; ERROR_TEMPFAIL: it refuses; ERROR_CONFIG: it is another part, model or optimiser. */
int ps_take(struct ps *p, const char *path, struct error *err);

#endif
