/*
 * scale: how many workers and servers the job has, and which of its hosts, is changed while it
 * trains: a person asks (`trainctl scale`), or another module does.
 *
 * One change at a time, in the order in which they were asked for; one that comes while the job
 * saves, rolls back or changes already waits for its turn.  What is wanted is on disk (STATE/kept)
 * before anything is done, with what there was before, so that a supervisor that comes after a crash goes
 * on with it.  The job file's WORKERS and SERVERS stay what a fresh start has: when somebody
 * changes them between two starts, they win.
 *
 * - More workers: nodes are added to the roster, and join when they are up.  Nobody waits for them.
 * - Fewer: the last ones are told to end, and give back what they had; then they are fenced, as any
 *   worker that has ended (recover.h), and leave the roster.
 * - More servers: empty ones start, and the lead moves to them what is to be theirs.  Fewer: it moves
 *   what the last ones have to the others; then they end (lead/lead_move.c).  Which servers have
 *   parts is in the lead's memory only.  When one that has a part dies, all go back to the last
 *   checkpoint, and then the wanted ones are started; the death of one that has no part yet ends an
 *   attempt, and nothing else.
 * - Hosts are left, and taken into use again (scale_hosts.c): with those that it uses the job is as
 *   if HOSTS named no others.  One that comes is asked first whether it is there.  Servers that are
 *   to be on another host give what they have to those before them, as when there are to be fewer,
 *   and as many new ones start there afterwards; so that is two changes.  In between the fabric is
 *   started anew with hosts that come, their replicas are filled, whoever is to be elsewhere ends,
 *   gives its rows back, and starts there; then replicas of the hosts that are left end, and the
 *   fabric is started anew without those.
 * - Then all workers are told their shares of the global batch, in the same iteration; and their
 *   learning rate, where BATCH scaling says so.
 */
#ifndef PACELINE_RUN_SCALE_H
#define PACELINE_RUN_SCALE_H

#include "base/error.h"

#include "run/talk.h"

#include <stdint.h>

struct request;
struct sup_node;
struct sup_wish;
struct supervisor;

struct sup_sizes {
	uint64_t workers, servers;
};

/* Whether enough files and sockets may be open for the job as it is and so many nodes more: without
 * them processes could neither be started nor stopped, and would be left behind. -1: ERROR_OS. */
int sup_may_open_files(const struct supervisor *s, const struct sup_sizes *more, struct error *err);

#define SCALE_REASON_MAX 200

/* How far servers are. */
enum scale_move {
	SCALE_OVER, /* those that have parts are those that are wanted */
	SCALE_JOIN, /* new ones start */
	SCALE_MOVE, /* the lead moves parts */
	SCALE_LOOK  /* who has parts is asked for */
};

/* The record of a change's end. */
enum scale_logged {
	SCALE_NOT_LOGGED,
	SCALE_LOGGED,	    /* it is as wanted */
	SCALE_LOGGED_FAILED /* not all of it */
};

struct sup_scale_servers {
	enum scale_move step;
	struct question move, look;
	unsigned tries;
	double began;    /* clock_mono(): new ones are awaited; 0: not yet */
	double again;    /* clock_mono(): not before */
	uint64_t bytes;  /* that were moved by the last change */
	double stall;    /* the longest that workers waited for it, seconds */
	char why[512];   /* an attempt failed last, and why; "": none did */
	int is_new;      /* that step OVER was reached is not in the file yet */
	int ever;        /* parts have moved in this job: versions of maps begin high (role.c) */
};

/* Parameters move, for a change or to be shared out anew. */
struct sup_move {
	struct question question;
	uint64_t version; /* of the map, when the lead was asked last */
	double changed, asked; /* clock_mono() */
};

struct sup_scale_hosts {
	int under_way;
	int ready; /* those that come are there: nodes may move */
	char *from; /* names of those that were used before, for the log; NULL: unknown */
	unsigned char *before; /* the same by index: it was used; NULL: unknown */
};

struct sup_scale {
	struct sup_sizes now;  /* what the job has, or will have when the change is done */
	struct sup_sizes from; /* what it had before that */
	int is_kept;           /* its line was there */
	int is_ahead; /* the file may have a change that was not begun */
	int under_way, shared; /* all is there, and workers have been told their shares */
	uint64_t change;       /* number of the last one begun, from 1; in the file and in the log */
	enum scale_logged logged;
	double began; /* clock_mono(): the change */
	char reason[SCALE_REASON_MAX];
	char why[512]; /* it could not be done, or not all of it; "": it can */
	struct sup_scale_servers servers;
	struct sup_scale_hosts hosts;
	struct sup_wish *wishes;  /* in their order */
	struct sup_wish *carried; /* that for which the last change was begun; NULL: over, or unknown */
	uint64_t changes;         /* of the roster, by this supervisor */
	uint64_t changes_done;
};

/* Asks for so many; 0: as many as there are. reason is for people, and copied. rq (may be NULL) is
 * answered when it is done, or refused. -1: it is refused at once; rq was answered. */
int sup_scale_want(struct supervisor *s, uint64_t workers, uint64_t servers, const char *reason,
		   struct request *rq);
/* The same, and those hosts only, by their names with commas between them; NULL: as they are. */
int sup_scale_want_hosts(struct supervisor *s, uint64_t workers, uint64_t servers, const char *hosts,
			 const char *reason, struct request *rq);
/* How many are the most that somebody waits for; 0: nobody says how many. */
uint64_t sup_scale_servers_wanted(const struct supervisor *s);
/* How many workers there may be at most, as far as is known here. */
uint64_t sup_scale_workers_most(const struct supervisor *s);
/* Samples of an iteration, all workers together. */
uint64_t sup_scale_batch(const struct supervisor *s);

/* What an earlier supervisor kept; before the roster is filled, and then for its nodes. */
int sup_scale_take(struct supervisor *s, const struct record *r, struct error *err);
void sup_scale_mark(struct supervisor *s);
/* Who runs is known. */
void sup_scale_begin(struct supervisor *s);
/* In PHASE_RUNNING. */
void sup_scale_step(struct supervisor *s);
/* Whoever waits is told that the job is over. */
void sup_scale_over(struct supervisor *s);
void sup_scale_free(struct supervisor *s);

/* For the roster: so many nodes it begins with. */
uint64_t sup_scale_workers(const struct supervisor *s);
uint64_t sup_scale_servers(const struct supervisor *s);
/* It leaves, has ended, and is not fenced yet. */
int sup_scale_fences(const struct sup_node *n);
/* It is. */
void sup_scale_fenced(struct sup_node *n);
/* A node that joins ended, and is not to be tried any more: the change fails, not the job. 0: it
 * joins nothing. */
int sup_scale_gives_up(struct sup_node *n, const char *why);
/* It fails so often. */
int sup_scale_is_tried(const struct sup_node *n);
/* A server that has a part, as far as is known. */
int sup_scale_has_part(const struct sup_node *n);
/* A server that joins. */
void sup_scale_joiner_ended(struct sup_node *n);
int sup_scale_may_launch(const struct sup_node *n);
/* All servers are off, and start anew: as many as are wanted, also by those who wait. -1: not yet. */
int sup_scale_rolled_back(struct supervisor *s);
/* The version of the map with which they start; 1: that of a job in which none ever moved. */
uint64_t sup_scale_map(const struct supervisor *s);
/* "joining", "leaving", or NULL. */
const char *sup_scale_word(const struct sup_node *n);

/* ---- scale.c and scale_*.c for each other ---- */

struct sup_scale_refusal {
	const char *code;
	char text[512];
};

/* What somebody wants. It ends when the job is so, or when it is refused. */
struct sup_wish {
	struct sup_wish *next;
	struct supervisor *sup;
	struct sup_sizes want; /* 0: as many as there are */
	unsigned char *hosts;  /* a byte each; NULL: as they are */
	unsigned tries;        /* changes that were begun for it */
	int has_rest;          /* one was, that is not all of it: the file has the rest */
	char reason[SCALE_REASON_MAX];
	struct request *rq; /* NULL: nobody waits */
};

/* At the end of the queue. NULL: no memory. */
struct sup_wish *sup_wish_add(struct supervisor *s, const struct sup_sizes *want, const char *reason);
/* Who is to be answered, or NULL. */
struct request *sup_wish_drop(struct sup_wish *w);
void sup_wish_refuse(struct sup_wish *w, const struct sup_scale_refusal *why);
/* Whether the job, as it is now, may be so. */
int sup_scale_check(const struct supervisor *s, const struct sup_wish *w,
		    struct sup_scale_refusal *why);

enum scale_next {
	SCALE_IS_DONE,	 /* nothing differs */
	SCALE_MAKES_WAY, /* fewer servers first: those that are to be on another host */
	SCALE_ALL_OF_IT
};
/* The next change for a wish; to: the sizes after it. Pure. stay: servers before the first one that
 * is to be on another host. */
enum scale_next scale_next(const struct sup_sizes *have, const struct sup_sizes *want, int other_hosts,
			   uint64_t stay, struct sup_sizes *to);

/* By which each worker's learning rate is multiplied. */
double sup_scale_rate_factor(const struct supervisor *s);
/* All workers are told their shares. */
void sup_scale_share(struct supervisor *s);
/* Lines for a lead that knows nothing yet. Nothing ran, so nothing is in force. */
void sup_scale_put_rates(struct supervisor *s);

__attribute__((format(printf, 3, 4))) int sup_scale_refuse(struct sup_scale_refusal *why,
							   const char *code, const char *fmt, ...);

/* Names to a block that the caller frees, of a byte for each host: it is one of them. -1: refused. */
int sup_scale_hosts_parse(const struct supervisor *s, const char *names, unsigned char **out,
			  struct sup_scale_refusal *why);
#define SCALE_HOSTS_MAX 1024 /* bytes of all names */
/* wanted, or those that are used (NULL); "": all of them. */
void sup_scale_hosts_text(const struct supervisor *s, const unsigned char *wanted,
			  char out[SCALE_HOSTS_MAX]);
/* Other ones than HOSTS had when this was kept are others. */
uint64_t sup_scale_hosts_sum(const struct supervisor *s);
int sup_scale_hosts_differ(const struct supervisor *s, const unsigned char *wanted);
/* What was answered is too old. */
void sup_scale_hosts_forget(struct supervisor *s);
/* Those that come are asked. 1: an answer is awaited. -1: one is not there. */
int sup_scale_hosts_ask(struct supervisor *s, const unsigned char *wanted,
			struct sup_scale_refusal *why);
/* Servers before the first one that is to be elsewhere. */
uint64_t sup_scale_hosts_stay(struct supervisor *s, const unsigned char *wanted);
void sup_scale_hosts_begin(struct supervisor *s, const unsigned char *wanted);
/* As the file says, before the roster is filled. */
void sup_scale_hosts_take(struct supervisor *s, const unsigned char *wanted, int under_way);
/* 1: not yet as wanted. */
int sup_scale_hosts_step(struct supervisor *s);
void sup_scale_hosts_end(struct supervisor *s);

/* 1: they are not yet as wanted. */
int sup_scale_servers_step(struct supervisor *s);
void sup_scale_servers_begin(struct supervisor *s, int anew);
/* It is not tried any more. */
void sup_scale_servers_fail(struct supervisor *s);
/* The file says what is so now. -1: not yet. */
int sup_scale_keep(struct supervisor *s, int under_way);
void sup_scale_leave(struct sup_node *n);
/* The lead is asked to move parameters. */
void sup_move_began(struct supervisor *s);
/* While it does: whether no piece of them has moved for too long, so that all go back. */
int sup_move_is_late(struct supervisor *s);
/* Servers that those who wait want are wanted now. 1: they are others than before. */
int sup_scale_take_servers(struct supervisor *s);
/* Nodes for them. -1: the job fails. */
int sup_scale_add_servers(struct supervisor *s);

#endif
