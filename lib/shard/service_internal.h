/*
 * What the files of the service (service.c, verbs.c, reads.c, moves.c, files.c, wait.c) share, and
 * nobody else uses.
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
#define AFTER_SECONDS 1.0        /* without wait=, a worker is told to ask again after this */

/* A request whose answer is held back: a get until there is a piece, a stat until the end, a
 * question for moves until there are some. */
struct waiter {
	struct service *service;
	struct request *rq;
	struct timer *timer;
	struct waiter *prev, *next;
	int is_stat, is_moves, is_here;
	struct queue_change asked; /* what a get asks for */
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
	int is_lost;  /* the journal is of another boot, and may have lost lines */
	int is_loose; /* the present change may be answered before it is on disk */
	int is_firm;  /* some change must be on disk before its answer */
	int is_stirred;      /* something changed since the waiters were looked at */
	int is_fencing;      /* a generation has ended since then */
	/* Commits are numbered from 1. The user pointer of a connection is the number of the commit
	 * of its last change. */
	uintptr_t commit;
	/* Clients with changes in this commit, and in the last one. */
	size_t clients, clients_before;
	size_t clients_back;            /* of clients_before, how many have changes in this one */
	double sync_seconds;            /* how long a commit took lately */
	int is_fatal;
	struct error fatal; /* when is_fatal */
	int was_full;       /* the journal had no room, and this was said */
	char lease_text[32];
	double set_back; /* seconds by which the clock was set back since the last run */
	double planned; /* when the open moves were first seen (monotonic); 0: there are none */
	/* By the seat of a worker (queue_seat()) - 1: the connection of its last hello. */
	uint64_t *hello;
	size_t hello_room;
	struct record record; /* lines of a settle's payload */
};

/* ---- service.c ---- */
/* Sets the time for ages and leases. It stands still while lines wait for their commit: a replay
 * knows only one time for each batch, and must come to the same state. */
void service_clock(struct service *s);
/* Whether changes can be made at all: they can't while lines may be missing. 0: they can't, and the
 * request was answered. */
int service_is_whole(struct service *s, struct request *rq);
/* Whether the client ends with this boot of the machine, as its boot= says. Then its changes need
 * not be on disk before their answers. */
int service_is_here(const struct service *s, const struct record *r);
/* Makes room for a change of so many bytes; -1: there is none. */
int service_make_room(struct service *s, size_t bytes, struct error *err);
/* The same; 0: there was none, and the request was answered. */
int service_may_change(struct service *s, struct request *rq, size_t bytes);
/* To be called after a change, before its answer. With --sync always the change goes to the disk
 * now or, if is_loose, to the kernel. rq is the request that made it; NULL: a lease. */
void service_changed(struct service *s, struct request *rq);
/* Ends the service with this error: nothing is acknowledged any more. */
void service_set_fatal(struct service *s, const struct error *err);
void service_adopt(struct service *s, struct queue *q); /* from now on s owns it */
void service_write_state(void *service, void (*line)(void *arg, const char *line, size_t len),
			 void *arg);

/* ---- wait.c ---- */
/* Hold the answer back until there is something to say, for so many seconds at most: then the
 * answer says so. */
void wait_for_piece(struct service *s, struct request *rq, const struct queue_change *asked,
		    int is_here, double seconds);
void wait_for_end(struct service *s, struct request *rq, double seconds);
void wait_for_moves(struct service *s, struct request *rq, const char *worker, double seconds);
/* Answers waiters that can be answered now. To be called before each commit. */
void wait_serve(struct service *s);
void wait_free(struct service *s);

/* ---- verbs: each file that has some ends with their table ---- */
extern const struct verb change_verbs[], read_verbs[], move_verbs[], file_verbs[];

/* ---- verbs.c: what changes the queue ---- */
/* Whether the worker has said hello on a later connection than this one: it has given up a get that comes here, and was
 * told there what it has. After a load all say hello anew, so seats that it has numbered anew do no harm. 1: it was
 * answered. */
int verb_is_past(const struct service *s, struct request *rq, const char *worker);
void verb_refuse(struct request *rq, enum queue_result result, const struct error *err);
/* A get without waiting. Answers, or returns 0: there is nothing to hand out now. */
int verb_try_get(struct service *s, struct request *rq, const struct queue_change *asked,
		 int is_here);

/* ---- reads.c: what only asks ---- */
void reads_put_stat(struct service *s, struct request *rq);
/* Tells a transition to all who watch. */
void watch_change(void *service, uint64_t id, enum queue_state state, const char *worker);
/* Tells all who watch that another state was loaded. */
void watch_load(struct service *s);

/* ---- moves.c: rows that go to another partition ---- */
/* Plans moves if they are due, and drops those that took too long. */
void moves_plan(struct service *s);
/* Whether some planned move is neither done nor dropped. */
int moves_are_open(const struct service *s);
/* Answers with the moves of this worker. 0: it has none, and no answer was given. even_none: it is
 * answered in any case. */
int moves_put(struct service *s, struct request *rq, const char *worker, int even_none);

#endif
