/* What the files of the lead share: lead.c (effects), lead_requests.c (verbs), lead_settle.c
 * (shardd), lead_replicas.c (replicas), lead_cut.c (checkpoints), lead_replica_cut.c (those of
 * replicas), lead_trainers.c (those of members that have the parameters), lead_balance.c (sizes at
 * every barrier), lead_schedule.c, turns.c (when what is announced is sent), lead_silent.c (members that
 * make no progress), lead_move.c (parameters that move from part to part), lead_rebalance.c (where
 * these should be), lead_handover.c (handing over). */
#ifndef PACELINE_LEAD_LEAD_INTERNAL_H
#define PACELINE_LEAD_LEAD_INTERNAL_H

#include "base/boot.h"
#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "lead/lead.h"
#include "lead/watch.h"
#include "record/recordlog.h"
#include "wire/peer.h"

struct aside;
struct timer;
struct map;
struct moving;
struct rebalance;
struct replicas;
struct turns;
struct silents;

/* A request that the gate will answer. */
struct pending {
	uint64_t token;
	struct lead *lead;
	struct request *rq;
	UT_hash_handle hh;
};

/* Names of workers, each once or more. */
struct names {
	char (*name)[OPTION_ID_MAX];
	size_t count, max;
};

struct part_file {
	uint64_t bytes, sum;
};

/* A checkpoint that is being made. */
struct cutting {
	uint64_t token;
	int busy;
	int failed;
	int is_left;       /* its directory stays, because somebody may still write in it */
	size_t writing;    /* parts that have not answered */
	double held;       /* since when nothing was settled */
	double hold, fork; /* the seconds of that, and of the slowest fork */
	uint64_t iteration;
	char dir[CKPT_PATH_MAX];
	char base[CKPT_NAME_MAX]; /* of a cut with only the rows that changed since base; or "" */
	struct part_file *part; /* what each wrote */
	struct told *told;      /* lead_trainers.c: members that were told to save */
	size_t tolds;
	struct timer *deadline; /* for them; NULL: there are parts, or replicas */
	struct aside *commit;   /* NULL: not yet */
	char why[600];
};

/* The settle that is with shardd. */
struct settling {
	uint64_t number;
	int whole;
	struct names fenced;
	char why[200]; /* why it is not in force any more */
	double sent;      /* when */
	uint64_t answers; /* to all settles so far, */
	double seconds;   /* and what these took */
	uint64_t done;    /* samples in the model, of all epochs, as shardd said last; 0: it has not */
};

/* What the parts are asked to hold. */
struct holding {
	size_t asked;         /* parts that have not answered */
	struct names missing; /* workers whose push a part lacks */
};

/* Sizes at every barrier. */
struct sizes {
	struct balance *balance; /* NULL: none */
	uint64_t sum;            /* of the sizes that were set last */
	int warned;              /* that none could be set */
	struct recordlog log;
	int whole; /* each barrier is logged, not only changes: the method remembers them */
	int begun; /* the log has its first record, about the method */
	uint64_t asked;
	double seconds;
};

struct lead {
	struct lead_options options;
	struct server *server;
	struct gate *gate;
	struct lead_parts *parts;
	struct replicas *replicas; /* NULL: there are parts, or none */
	uint64_t term;             /* at shardd; 0: none, or, with replicas, not yet */
	uint64_t sums_broken;      /* with replicas: sums that broke off */
	char boot[BOOT_ID_MAX];    /* of this process */
	enum { TRAINERS_NONE, TRAINERS_HERE, TRAINERS_APART } trainers; /* HERE: all in this boot */
	struct peer *shards;
	struct timer *again;  /* then shardd is asked again what it refused for now */
	struct timer *begin;  /* then members that are expected are waited for no longer */
	struct timer *clock;  /* then a push that was granted is waited for no longer */
	int64_t clock_at;     /* when that is */
	struct timer *absent; /* then those leave who have not come back since a hand-over */
	int expecting;        /* `begin` was started, once */
	int taken;            /* this lead is an heir */
	struct pending *pendings;
	uint64_t token;
	int pumping;
	struct watcher *watchers;
	char enough[RECORD_LINE_MAX]; /* what watchers are told once a trainer says enough; "": none has */
	char reported[CKPT_REPORTED_MAX]; /* by a trainer, last, for checkpoints */
	uint64_t samples; /* applied, by this lead and those before it since the start */
	double started;
	uint64_t started_at; /* at which iteration */
	struct holding holding;
	uint64_t refusals; /* of pushes, by parts and shardd */
	uint64_t told;     /* pushes with a loss */
	uint64_t diverged; /* pushes that were not finite, where no part counts them */
	struct settling settling;
	struct sizes sizes;
	struct trainer_seen *seen; /* what agents report about their trainers */
	struct {
		struct timer *late, *lost;
		uint64_t due;   /* what a settle waits for: gate_state_due() */
		double seconds; /* at most so long */
		enum gate_lost is_lost;
	} states; /* of members whose gradients replicas sum */
	struct silents *silents; /* NULL: members are not watched */
	struct cutting cut;
	struct moving *moving; /* NULL: no parameters are being moved */
	struct turns *turns;         /* NULL: no link is known */
	struct recordlog schedule_log;
	struct rebalance *rebalance; /* NULL: nobody has asked for it */
	uint64_t attempts; /* the last number of an order's attempt, also of leads before this */
	int broken;
	struct error error;
};

void lead_pump(struct lead *l);
/* What was added; nothing if it is not open. Says what can't be written: training goes on. */
void lead_log_write(struct recordlog *log);
void lead_expect(struct lead *l); /* somebody joins */
void lead_clock(struct lead *l);  /* tells the gate the time; lead_pump() follows */
int lead_breakf(struct lead *l, int code, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Makes rq a request that the gate will answer. Returns its token; 0: no memory, and rq was
 * answered. */
uint64_t lead_defer(struct lead *l, struct request *rq);
/* The request of a token, which is forgotten; NULL when its client went. */
struct request *lead_undefer(struct lead *l, uint64_t token);

/* lead_settle.c */
int lead_settle_start(struct lead *l, struct event_base *base, struct error *err);
void lead_settle_stop(struct lead *l);
void lead_settle(struct lead *l, const struct gate_effect *e);
void lead_names_put(struct lead *l, struct names *names, const char *worker);
/* The names as an array, which the caller frees; each is logged with the reason. NULL: no memory,
 * and the lead is broken. */
const char **lead_names_list(struct lead *l, const struct names *names, const char *why);

/* lead_replicas.c: only if there are replicas, except the first four, _wait() and _are() */
int lead_replicas_new(struct lead *l, struct error *err);
int lead_replicas_start(struct lead *l, struct event_base *base);
void lead_replicas_stop(struct lead *l);
void lead_replicas_free(struct lead *l);
void lead_sum(struct lead *l, const struct gate_effect *e);
void lead_hold(struct lead *l, const struct gate_effect *e);
void lead_step(struct lead *l, const struct gate_effect *e);
void lead_fill(struct lead *l, const struct gate_effect *e);
void lead_replicas_wait(struct lead *l); /* a worker joins, and may have to wait for its replica */
void lead_replicas_ask(struct lead *l, const char *name); /* where it is, if it is not in force */
void lead_replicas_throw(struct lead *l, struct order *order);
/* lead_replica_cut.c: a replica in force writes all parameters: the first one if it is in force, as
 * it is on this host. */
void lead_replicas_cut(struct lead *l, struct order *order, const struct order_answer *a);
/* As lead_parts_boot(), of those in force. */
const char *lead_replicas_boot(const struct lead *l);
void lead_replicas_names(const struct lead *l, char *out, size_t max); /* r0,r2: in force */
int lead_replicas_are(const struct lead *l); /* there are none, or one is in force */
void lead_replicas_look(struct lead *l); /* after an event that may change which are in force */

/* lead_cut.c */
void lead_cut_begin(struct lead *l, struct request *rq, const char *dir, const char *base);
void lead_cut_save(struct lead *l);
void lead_cut_fork(struct lead *l, const struct gate_effect *e);
void lead_cut_refused(struct lead *l);
/* One of the writers has finished, or failed. */
void lead_cut_answered(struct lead *l);
/* The lead ends: a commit goes on alone. */
void lead_cut_stop(struct lead *l);
void lead_cut_fail(struct lead *l, const char *place, const char *why);

/* lead_trainers.c: where the members have the parameters */
int lead_trainers_start(struct lead *l, struct event_base *base);
void lead_trainers_join(struct lead *l, const struct record *join); /* boot= */
const char *lead_trainers_boot(const struct lead *l); /* as lead_parts_boot(), of all who joined */
void lead_trainers_stop(struct lead *l);
/* Adds the members to those who write; they are told by the answers that follow. */
void lead_trainers_cut(struct lead *l, const struct gate_effect *e);
/* Tells the client of rq to save, before the answer to rq. */
void lead_trainers_tell(struct lead *l, struct request *rq, const struct gate_effect *e);
/* Whether it was told to save and has not answered yet. */
int lead_trainers_saves(const struct lead *l, const char *worker, uint64_t generation);
/* Whether any trainer writes a checkpoint or pauses: those that wait for it do not count as
 * silent. */
int lead_trainers_rest(const struct lead *l);
/* What its agent reports about a member's trainer, as fields. */
void lead_trainers_put(const struct lead *l, const struct gate_member *m, struct record_out *o);
void lead_on_trainer(struct request *rq, void *lead);
void lead_trainers_look(struct lead *l); /* after a member that was told may be lost */
void lead_states_look(struct lead *l); /* after any event, where replicas sum for trainers */
void lead_on_given(struct request *rq, void *lead);
int lead_trainers_files(struct lead *l, struct ckpt_manifest *m, struct error *err);
void lead_trainers_forget(struct lead *l); /* the cut is over */
/* Bytes of the lines of all files that a checkpoint may have, whatever their names. */
#define LEAD_SAVED_BYTES_MAX (CKPT_FILES_MAX * CKPT_FILE_LINE_MAX)
void lead_on_saved(struct request *rq, void *lead);

/* lead_handover.c */
int lead_hand_start(struct lead *l, struct event_base *base);

/* lead_balance.c */
int lead_balance_new(struct lead *l, struct error *err); /* before gate_new() */
void lead_balance_free(struct lead *l);

/* lead_schedule.c */
int lead_schedule_new(struct lead *l, struct error *err); /* opens its log */
int lead_schedule(struct gate_offer *offer, size_t offers, void *lead);
const char *lead_schedule_host(size_t host, void *lead); /* of an offer */
void lead_on_links(struct request *rq, void *lead);

/* lead_silent.c */
int lead_silent_start(struct lead *l, struct event_base *base);
void lead_silent_stop(struct lead *l);

/* lead_move.c */
void lead_on_move(struct request *rq, void *lead);
void lead_on_parts(struct request *rq, void *lead);
void lead_move_still(struct lead *l);
void lead_move_look(struct lead *l); /* somebody came or went */
int lead_move_is_busy(const struct lead *l);
void lead_move_stop(struct lead *l);
/* Moves parameters so that the present parts get these bounds; the request is answered as a move
 * is, with peak= and busiest= besides. */
void lead_move_bounds(struct lead *l, const struct map *map, uint64_t token, const char *peak,
		      const char *busiest);
const char *lead_part_id(const struct lead *l, uint32_t part); /* as its --id says; "": not known */
int lead_map_is(const struct lead *l, uint64_t version); /* in force; yes if there are no parts */
void lead_refuse_map(struct lead *l, struct request *rq);

/* lead_rebalance.c */
void lead_on_rebalance(struct request *rq, void *lead);
void lead_rebalance_stop(struct lead *l);

/* lead_requests.c */
int lead_who(struct request *rq, struct gate_who *who, struct error *err); /* without its token */
/* Whether it is of a member of this life of the job; else rq was answered. */
int lead_is_of_member(const struct lead *l, struct request *rq, const struct gate_who *who);
void lead_rows(struct lead *l, uint64_t iteration, uint64_t samples, double loss);

#endif
