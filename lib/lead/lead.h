/*
 * lead: the gate with its sockets.  Requests of workers and the supervisor become events; effects
 * become answers, settles with shardd, orders to the parts, and cuts.
 *
 * The lead has no parameters: the parts have them (lead/parts.h), one of which may be in this
 * process; or each replica has all of them (gate.h), or only sums.  Without parts and replicas it leads all the
 * same: workers join, push only counts, and obey actions; the rows that they covered are committed
 * with shardd.
 */
#ifndef PACELINE_LEAD_LEAD_H
#define PACELINE_LEAD_LEAD_H

#include "base/error.h"
#include "base/option.h"
#include "lead/gate.h"
#include "lead/parts.h"
#include "param/map.h"
#include "wire/call.h"
#include "wire/server.h"

struct lead;
struct layout;

struct lead_options {
	struct gate_options gate;
	const char *id;
	const char *socket;           /* where it serves, for the answer to `parts` */
	const struct part_here *here; /* part 0, in this process; NULL: it is elsewhere, or none */
	const char *const *servers;   /* sockets of the other parts, in order */
	size_t server_count;
	const struct map *map; /* which part has which parameters; copied; NULL: there are no parts */
	void (*adopted)(void *owner); /* it has changed; may be NULL */
	void *adopted_owner;
	const char *const *replicas; /* sockets of r0, r1, ...; then there are no parts */
	size_t replica_count;
	int sums; /* replicas only sum: members have the parameters */
	const char *shards;                /* socket, or NULL: units close without a commit */
	/* Of lead_term_ask(), for a lead of parts that another one may follow; 0: none will. It
	 * goes with gate.round_first. An heir gets both from the lead before it. */
	uint64_t term;
	/* The last units of gate.iteration: parts may only hold them, under this round. */
	uint64_t units, round;
	const struct option_list *include; /* files for every checkpoint */
	const struct layout *layout;       /* written into checkpoints that do not include one; not
					      looked at where there are no parameters; NULL: one
					      is included */
	const char *job;                   /* for MANIFEST; may be "" */
	/* BSP: sizes at every barrier, see solve/balance.h; gate.balance is the lead's then. */
	const char *balance_method; /* NULL: as the workers have them */
	uint64_t balance_batch;     /* samples of an iteration */
	uint64_t balance_least;     /* of a worker in an iteration, at least */
	int schedules; /* what is announced, by `links`; see gate_schedule_fn */
	const char *schedule_log; /* file for each such schedule; NULL: none */
	const char *balance_log;    /* file for `balance` records; NULL: none */
	double hung_seconds;        /* a member that owes a push for so long (or for PULSE_TIMES its
				       usual time, if that is longer) leaves; 0: never */
};

/* Takes a new term at shardd, which ends that of the lead before. *last: what was committed last,
 * by a lead with a term; its divisor is how many units that were; iteration 0: nothing. Waits for
 * shardd. */
int lead_term_ask(const char *shards, uint64_t incarnation, uint64_t *term,
		  struct gate_commit *last, struct error *err);

/* What parts say of themselves that are all in other processes. */
struct lead_parts_state {
	struct map map;
	uint64_t low, high; /* the least and the highest of their iterations */
};
/* Waits for all of them, in order. ERROR_TEMPFAIL: they are not what the lead needs, and only a
 * rollback makes them so. */
int lead_parts_ask(const char *const *sockets, size_t count, uint64_t incarnation,
		   struct lead_parts_state *s, struct error *err);

int lead_new(struct lead **out, const struct lead_options *options, struct error *err);
/* Call after server_new(): connects to shardd and the other servers. */
int lead_start(struct lead *l, struct server *server, struct error *err);
/* Ends peers and timers. Call it before server_free(), which ends the requests; then lead_free().
 * NULL is fine for both. */
void lead_stop(struct lead *l);
void lead_free(struct lead *l);

/* Requests; their owner is a struct lead. */
extern const struct verb lead_verbs[];
extern const size_t lead_verb_count;
/* server_options.closed of a lead. */
void lead_closed(struct connection *c, void *lead);

/* Another request came from a worker to a part in this process: the worker is there. */
void lead_seen(struct request *rq, void *lead);

/* ---- handing over to another process, together with the part in this one ---- */

int lead_can_go(void *lead); /* 0: a cut is being made; ask again soon */
int lead_give(void *lead, struct call *heir, struct error *err);
/* A record that lead_give() wrote; others are ignored. */
int lead_take(void *lead, const struct record *r, struct call *c, struct error *err);
/* The part in this process has taken all: this is its map. */
void lead_go_by(struct lead *l, const struct map *map);

/* Which part has which parameters now; NULL: there are no parts. */
const struct map *lead_map(const struct lead *l);

/* Why the server must end, or NULL: fenced (ERROR_TEMPFAIL), a server that lacks what is committed
 * (ERROR_TEMPFAIL), no memory. */
const struct error *lead_broken(const struct lead *l);

#endif
