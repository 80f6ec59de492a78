/*
 * What the files of the service share (service.c, verbs.c, reads.c, moves.c, files.c, wait.c), and
 * nobody else.
 */
#ifndef PACELINE_SHARD_SERVICE_INTERNAL_H
#define PACELINE_SHARD_SERVICE_INTERNAL_H

#include "base/boot.h"
#include "shard/service.h"
#include "wire/server.h"

#include <event2/event.h>
#include <limits.h>

#define WAIT_SECONDS_MAX 86400.0 /* longest wait= */
#define VERBS_MAX 32
#define AFTER_SECONDS 1.0        /* what a worker is told to wait when it did not say wait= */

/* A request whose answer is held back: a get until there is a piece, a stat until the end. */
struct waiter {
	struct service *service;
	struct request *rq;
	struct timer *timer;
	struct waiter *prev, *next;
	int is_stat, is_moves, is_here;
	struct queue_change asked; /* of a get */
	char worker[OPTION_ID_MAX];
};

struct watcher {
	struct service *service;
	struct request *rq;
	struct watcher *prev, *next;
};

struct service {
	struct service_options options;
	struct queue *queue;
	struct journal *journal;
	struct server *server;
	struct verb verbs[VERBS_MAX];
	struct timer *lease_timer;
	struct event *compaction;
	struct waiter *first_waiter, *last_waiter;
	struct watcher *watchers;
	char boot[BOOT_ID_MAX]; /* of this machine; "": the kernel does not tell */
	int is_lost;  /* the journal is of another boot, and lines of it may be missing */
	int is_loose; /* the present change need not be on disk before its answer */
	int is_firm;  /* some change must be */
	int is_stirred;      /* something changed since the waiters were looked at */
	int is_fencing;      /* a generation has ended since */
	/* Commits are numbered from 1; a connection's user pointer is that of its last change. */
	uintptr_t commit;
	size_t clients, clients_before; /* with changes in this commit, in the last one */
	size_t clients_back;            /* of the last one's, with changes in this one */
	double sync_seconds;            /* what a commit takes, lately */
	int is_fatal;
	struct error fatal; /* when is_fatal */
	int was_full;       /* the journal had no room; said so */
	char lease_text[32];
	double set_back; /* seconds: the clock since the last run */
	double planned; /* monotonic: when the open moves were first seen; 0: there are none */
	struct record record; /* lines of a settle's payload */
};

/* ---- service.c ---- */
/* The time for ages and leases; it stands still while lines wait for their commit, so that replay,
 * which knows one time a batch, comes to the same state. */
void service_clock(struct service *s);
/* Whether changes can be made at all: not while lines may be missing, whatever the request. 0: no,
 * and the request was answered so. */
int service_is_whole(struct service *s, struct request *rq);
/* Whether the client ends with this boot of the machine, as its boot= says: then its answers need
 * not be on disk. */
int service_is_here(const struct service *s, const struct record *r);
/* Room for a change of so many bytes; -1: there is none. */
int service_make_room(struct service *s, size_t bytes, struct error *err);
/* The same; 0: there was none, and the request was answered so. */
int service_may_change(struct service *s, struct request *rq, size_t bytes);
/* After a change, before its answer: with --sync always it goes to disk now, or (is_loose) to the
 * kernel. rq is the request that made it; NULL: a lease. */
void service_changed(struct service *s, struct request *rq);
void service_set_fatal(struct service *s, const struct error *err);
void service_adopt(struct service *s, struct queue *q); /* s owns it from now on */
void service_write_state(void *service, void (*line)(void *arg, const char *line, size_t len),
			 void *arg);
void service_arm_lease(struct service *s);

/* ---- wait.c ---- */
void wait_for_piece(struct service *s, struct request *rq, const struct queue_change *asked,
		    int is_here, double seconds);
void wait_for_end(struct service *s, struct request *rq, double seconds);
void wait_for_moves(struct service *s, struct request *rq, const char *worker, double seconds);
/* Answers the waiters that are due; before each commit. */
void wait_serve(struct service *s);
void wait_free(struct service *s);

/* ---- verbs: each file that has some ends with their table ---- */
extern const struct verb change_verbs[], read_verbs[], move_verbs[], file_verbs[];

/* ---- verbs.c: what changes the queue ---- */
void verb_refuse(struct request *rq, enum queue_result result, const struct error *err);
/* A get without waiting: answers, or returns 0 when there is nothing to hand out now. */
int verb_try_get(struct service *s, struct request *rq, const struct queue_change *asked,
		 int is_here);

/* ---- reads.c: what only asks ---- */
void reads_put_stat(struct service *s, struct request *rq);
/* A transition, to all who watch. */
void watch_change(void *service, uint64_t id, enum queue_state state, const char *worker);
void watch_load(struct service *s);

/* ---- moves.c: rows that go to another partition ---- */
/* Plans moves when they are due, and drops those that nobody made in time. */
void moves_plan(struct service *s);
int moves_are_open(const struct service *s);
/* Answers with the moves of this worker; 0: there is none, and no answer was given (with even_none
 * it is answered nevertheless). */
int moves_put(struct service *s, struct request *rq, const char *worker, int even_none);

#endif
