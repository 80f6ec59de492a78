/*
 * ps: one part of the parameters.  It answers pulls, stages gradients, and obeys the lead: hold,
 * apply, throw, cut.  The lead may be in the same process (ps_here()) or behind a socket
 * (ps_led_verbs); the orders are the same.  It may also be a replica of all parameters
 * (ps_replica_verbs), whose lead orders sums; or one with sums only, for ranks that have the
 * parameters.
 *
 * It counts units: a pull or push for iteration K waits until K units are applied here.  The lead
 * (lib/lead) decides what is applied; this only applies it, and reports its own batch processing
 * time (bpt) to a monitor.
 *
 * All this runs on the server's event loop; only `drag` blocks, as that is its purpose.
 */
#ifndef PACELINE_PS_PS_H
#define PACELINE_PS_PS_H

#include "base/error.h"
#include "lead/parts.h"
#include "param/store.h"
#include "wire/call.h"
#include "wire/server.h"

#include <stddef.h>
#include <stdint.h>

struct ps;

struct ps_options {
	const char *id;
	uint32_t part, parts;
	uint64_t incarnation;
	uint64_t iteration;    /* units that are in the parameters at the start */
	int bsp;               /* pushes for an iteration that is over are dropped */
	int naive_mean;        /* for comparison: store_naive_mean() of each unit */
	struct store *store;   /* borrowed */
	const char *drag;      /* file with a `drag` record, read before each unit; NULL: none */
	const char *monitor;   /* socket for `bpt` records; NULL: none */
	uint64_t report_every; /* units */
	double report_seconds; /* or this long, whichever comes first; 0: by units only */
	double (*throttled)(void *owner); /* as in struct load_values, for reports; NULL: not known */
	void *throttled_owner;
	/* A replica instead of a part: it is part 0 of 1, and one of `replicas`. */
	uint32_t replica, replicas;     /* 0 replicas: a part */
	const char *fabric;             /* socket of fabricd; NULL: this is the only replica */
	const char *const *hosts;       /* host of replica i, as fabricd knows it */
	size_t hosts_count;
	const char *memory;             /* directory for the last cut in memory; NULL: none */
	/* Socket of the process that holds it (base/keep.h); -1: none. */
	int keeper;
	int level;                      /* of the compression of checkpoints (param/planes.h) */
	/* Its standby may be so many pushes behind; 0: it has all (standby.h). */
	uint64_t divergence;
	const char *socket;             /* where it serves; another replica is beside it */
	int sums;                       /* it has no parameters ever, only sums (room.c); bsp */
	int empty;                      /* it has no parameters yet, but others have them */
	int followed;                   /* a standby may follow it also if the lead is here */
};

#define PS_THREADS 8 /* more would only wait for memory */

/* Options are copied, and what they point to is borrowed. ERROR_OS: no memory. */
int ps_new(struct ps **out, const struct ps_options *options, struct error *err);
/* To be called after server_new(): starts timers and the monitor. */
int ps_start(struct ps *p, struct server *server, struct error *err);
/* Ends the monitor and the writer of a checkpoint. The order is ps_stop(), server_free(), which
 * ends the requests, and ps_free(). NULL is fine for ps_stop() and ps_free(). */
void ps_stop(struct ps *p);
void ps_free(struct ps *p);

/* Requests that every part answers (pull, take-over, taken), and those of a part whose lead is
 * another process (push, stat, and the orders). Their owner is a struct ps. */
extern const struct verb ps_verbs[], ps_led_verbs[];
extern const size_t ps_verb_count, ps_led_verb_count;
/* All requests that a replica answers; and those of one with parameters, or with sums only. */
extern const struct verb ps_replica_verbs[], ps_full_verbs[], ps_sums_verbs[];
extern const size_t ps_replica_verb_count, ps_full_verb_count, ps_sums_verb_count;

/* The error from which it can't recover; set once, and the server ends with it. */
const struct error *ps_broken(const struct ps *p); /* NULL: fine */

/* This part, for a lead in the same process. */
struct part_here ps_here(struct ps *p);

/* It was a standby, and gradients of what it was told are not here yet (behind.h). */
int ps_lacks(const struct ps *p);
uint32_t ps_part(const struct ps *p); /* its number in the map in force, store_map() */
uint64_t ps_iteration(const struct ps *p);
uint64_t ps_life(const struct ps *p); /* of a replica: no two processes have the same number */
const char *ps_boot(const struct ps *p);

/* ---- handing over to another process of the same part ---- */

/* What a lead in the same process adds. Set before ps_take() and ps_start(). */
struct ps_more {
	/* 0: something is under way that can't be handed over; asked again soon. */
	int (*ready)(void *owner);
	int (*give)(void *owner, struct call *c, struct error *err);
	/* Takes a record that ps does not know. */
	int (*take)(void *owner, const struct record *r, struct call *c, struct error *err);
	/* A pull has come, so its worker lives. May be NULL. */
	void (*seen)(struct request *rq, void *owner);
	void *owner;
	/* The map has changed, so the greeting must change, too (ps_part()). NULL: nothing to
	 * do. */
	void (*adopted)(void *owner);
	void *adopted_owner;
};
void ps_set_more(struct ps *p, const struct ps_more *more);

/* For the heir, before ps_start(): takes everything from the server at path. 0: that server is gone
 * and has given up its name. ERROR_UNAVAILABLE: it is not there, or it went before it heard that we
 * have everything. ERROR_TEMPFAIL: it refuses. ERROR_CONFIG: it has another part, model or
 * optimiser. */
int ps_take(struct ps *p, const char *path, struct error *err);

/* For a standby, before ps_start(): follows the server at path until that dies (standby.h). 0: it
 * is gone, and the part is here. 1: a signal has ended this. ERROR_UNAVAILABLE: it is gone, or goes
 * on, without having left the part to this process. ERROR_TEMPFAIL: it refuses for now. is_far: it
 * is on another host, and its death is told by SIGUSR1. */
int ps_stand_by(struct ps *p, const char *path, int is_far, struct error *err);

#endif
