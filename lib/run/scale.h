/*
 * scale: changes the number of workers and servers, and the hosts that the job uses, while it
 * trains.  A person asks for a change (`trainctl scale`), or another module does.
 *
 * There is one change at a time, in the order in which they were asked for.  A change waits while
 * the job saves, rolls back, or makes another one.  What is wanted is on disk (STATE/kept) before
 * anything is done, with what there was before: so a supervisor that comes after a crash goes on
 * with it.  A fresh start has WORKERS and SERVERS of the job file.  If somebody changes these
 * between two starts, they hold, and earlier changes do not.
 *
 * - More workers: nodes are added to the roster, and join when they are up.  Training does not wait
 *   for them.
 * - Fewer workers: the last ones are told to end, and give back what they had.  Then they are
 *   fenced, as any worker that has ended (recover.h), and leave the roster.
 * - More servers: empty ones start, and the lead moves parameters to them (lead/lead_move.c).
 *   Fewer: it moves what the last ones have to the others; then they end.
 *   Which servers have parts is in the lead's memory only.  When one that has a part dies, all go
 *   back to the last checkpoint, and the wanted servers start with that.  The death of one that has
 *   no part yet only ends this attempt.
 * - Other hosts (scale_hosts.c): the job leaves some of HOSTS, or uses them again.  It then does as
 *   if HOSTS named only those that it uses.  A host that comes is first asked whether it is there.
 *   The fabric is started anew with it, and its replica is filled.  Workers that are to be
 *   elsewhere end, give their rows back, and start there.  Then replicas of the hosts that the job
 *   leaves end, and the fabric is started anew without these hosts.
 *   A trainer whose parameters no other one has (SYNC=allreduce) waits until another one is up, also
 *   if it is to leave.  If it is the only one of the job, another one joins for the time of the change.
 *   Servers that are to be on another host need two changes.  First they give what they have to the
 *   servers before them, as when there are to be fewer; then as many new ones start there.
 * - At the end all workers are told their shares of the global batch, in the same iteration, and
 *   their learning rate, if BATCH scaling says so.
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

#define SCALE_REASON_MAX 200

/* What is done next so that the wanted servers have the parts. */
enum scale_move {
	SCALE_OVER, /* nothing: they have them */
	SCALE_JOIN, /* new ones start */
	SCALE_MOVE, /* the lead moves parts */
	SCALE_LOOK  /* who has parts is asked for */
};

/* Whether the log has the end of the change. */
enum scale_logged {
	SCALE_NOT_LOGGED,
	SCALE_LOGGED,	    /* as done */
	SCALE_LOGGED_FAILED /* as failed, or done only in part */
};

struct sup_scale_servers {
	enum scale_move step;
	struct question move, look;
	unsigned tries;
	double began;    /* clock_mono(): new ones are awaited; 0: not yet */
	double not_before; /* clock_mono(): the next step */
	uint64_t bytes;  /* moved by the last change */
	double stall;    /* the longest that workers waited for it, seconds */
	char why[512];   /* why the last attempt failed; "": none did */
	int is_unkept;   /* the file does not say yet that step OVER was reached */
	int maps_moved;  /* parts have moved in this job (sup_scale_map()) */
};

/* Parameters that move, for a change or a rebalance. */
struct sup_move {
	struct question question;
	uint64_t version; /* of the map, when the lead was asked last */
	double changed, asked; /* clock_mono(): the version was another; the lead was asked */
};

struct sup_scale_hosts {
	int under_way;
	int ready; /* the hosts that come can be used: nodes may move there */
	int moved; /* all are where they are to be */
	char *from; /* names of those that were used before, for the log; NULL: unknown */
	unsigned char *before; /* the same, a byte for each host; NULL: unknown */
};

struct sup_scale {
	struct sup_sizes now;  /* what the job has, or will have when the change is done */
	struct sup_sizes from; /* what it had before that */
	int is_kept;           /* STATE/kept had a line of it */
	int file_is_ahead; /* the file may have a change that was not begun */
	int under_way, shared; /* shared: all is there, and workers were told their shares */
	uint64_t change;       /* number of the last one begun, from 1; in the file and in the log */
	enum scale_logged logged;
	double began; /* clock_mono(): the change */
	double looked; /* clock_mono(): whether something was trained since */
	char reason[SCALE_REASON_MAX];
	char why[512]; /* why it was not done, or not all of it; "": nothing failed */
	struct sup_scale_servers servers;
	struct sup_scale_hosts hosts;
	struct sup_wish *wishes;  /* the queue */
	struct sup_wish *carried; /* for which the last change was begun; NULL: over, or unknown */
	uint64_t changes;         /* of the roster, by this supervisor */
	uint64_t changes_done;
};

/* Asks for so many; 0: as many as there are. reason is for people, and copied. rq (may be NULL) is
 * answered when it is done, or refused. -1: it is refused at once; rq was answered. */
int sup_scale_want(struct supervisor *s, uint64_t workers, uint64_t servers, const char *reason,
		   struct request *rq);
struct sup_wish;
/* The same, and those hosts only, by their names with commas between them; NULL: as they are. Returns
 * NULL if it was refused. */
struct sup_wish *sup_scale_want_hosts(struct supervisor *s, uint64_t workers, uint64_t servers,
				      const char *hosts, const char *reason, struct request *rq);
/* The same: all hosts that are used but this one. What still runs there after `within` seconds
 * (0: no limit) is killed. -1: there is no such host; rq was not answered. */
int sup_scale_drain(struct supervisor *s, const char *host, double within, struct request *rq);
/* The greatest number of servers for which anybody waits; 0: nobody waits for a number of
 * servers. */
uint64_t sup_scale_servers_wanted(const struct supervisor *s);
/* How many workers there may be at most, as far as is known here. */
uint64_t sup_scale_workers_most(const struct supervisor *s);
/* Samples of an iteration, all workers together. */
uint64_t sup_scale_batch(const struct supervisor *s);

/* Takes what an earlier supervisor kept: call before the roster is filled. */
int sup_scale_take(struct supervisor *s, const struct record *r, struct error *err);
/* Marks the nodes that join or leave: call when the roster is filled. */
void sup_scale_mark(struct supervisor *s);
/* Call when it is known which nodes run. */
void sup_scale_begin(struct supervisor *s);
/* In PHASE_RUNNING. */
void sup_scale_step(struct supervisor *s);
/* Whoever waits is told that the job is over. */
void sup_scale_over(struct supervisor *s);
void sup_scale_free(struct supervisor *s);

/* How many nodes the roster begins with. */
uint64_t sup_scale_workers(const struct supervisor *s);
uint64_t sup_scale_servers(const struct supervisor *s);
/* Whether it leaves, has ended, and is to be fenced. */
int sup_scale_fences(const struct sup_node *n);
/* It was fenced. */
void sup_scale_fenced(struct sup_node *n);
/* A node ended, and is not tried again. 1: it was joining: the change fails, and the job goes on.
 * 0: it was not joining. */
int sup_scale_gives_up(struct sup_node *n, const char *why);
/* Whether a node that ended is joining, and has not failed too often: it is tried again. */
int sup_scale_is_tried(const struct sup_node *n);
/* Whether it is a server that has a part, as far as is known. */
int sup_scale_has_part(const struct sup_node *n);
/* A server ended while it was joining. */
void sup_scale_joiner_ended(struct sup_node *n);
/* Whether it may be launched now. */
int sup_scale_may_launch(const struct sup_node *n);
/* All servers are off, and start anew: as many as are wanted, also by those who wait. -1: that is
 * not on disk yet, or the job fails. */
int sup_scale_rolled_back(struct supervisor *s);
/* The version of the map with which they start; 1 in a job in which no part ever moved. */
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
	unsigned char *hosts;  /* a byte for each host; NULL: as they are */
	struct sup_host *drained; /* one that is to be left; NULL: none is named */
	double leave_by;	  /* what that host gets as leave_by; 0: it has time */
	int is_late;		  /* that time is over, and what was there was killed */
	char reason[SCALE_REASON_MAX];
	struct request *rq; /* NULL: nobody waits */
};

/* Adds one at the end of the queue. NULL: no memory. */
struct sup_wish *sup_wish_add(struct supervisor *s, const struct sup_sizes *want, const char *reason);
/* Takes it out of the queue, and frees it. Returns the request that is to be answered, or NULL. */
struct request *sup_wish_drop(struct sup_wish *w);
void sup_wish_refuse(struct sup_wish *w, const struct sup_scale_refusal *why);
/* Whether the job, as it is now, can become so. -1: it can't; why is filled. */
int sup_scale_check(const struct supervisor *s, const struct sup_wish *w,
		    struct sup_scale_refusal *why);

/* The factor by which each worker's learning rate is multiplied. */
double sup_scale_rate_factor(const struct supervisor *s);
/* Tells all workers their shares. */
void sup_scale_share(struct supervisor *s);
/* The learning rates of a scaled job, for a lead that knows nothing yet. Nothing ran, so nothing is
 * in force. */
void sup_scale_put_rates(struct supervisor *s);

__attribute__((format(printf, 3, 4))) int sup_scale_refuse(struct sup_scale_refusal *why,
							   const char *code, const char *fmt, ...);

/* Reads names into a block that the caller frees; it has a byte for each host, 1 if it is named.
 * -1: refused. */
int sup_scale_hosts_parse(const struct supervisor *s, const char *names, unsigned char **out,
			  struct sup_scale_refusal *why);
#define SCALE_HOSTS_MAX 1024 /* bytes of all names */
/* The names of wanted, or (NULL) of the hosts that are used; "": all are used. */
void sup_scale_hosts_text(const struct supervisor *s, const unsigned char *wanted,
			  char out[SCALE_HOSTS_MAX]);
/* A sum of the names in HOSTS. It is kept with a change: if HOSTS has changed since, it differs. */
uint64_t sup_scale_hosts_sum(const struct supervisor *s);
int sup_scale_hosts_differ(const struct supervisor *s, const unsigned char *wanted);
/* The answers of hosts are too old: they are asked again. */
void sup_scale_hosts_forget(struct supervisor *s);
/* Asks the hosts that come. 0: all are there. 1: an answer is awaited. -1: one does not answer. */
int sup_scale_hosts_ask(struct supervisor *s, const unsigned char *wanted,
			struct sup_scale_refusal *why);
/* Whether the server is to go to another host now, that of sup_host_choice(): its next process there
 * takes over. */
int sup_scale_goes(const struct sup_node *n);
void sup_scale_hosts_begin(struct supervisor *s, const unsigned char *wanted);
/* Uses hosts as the file says: call before the roster is filled. */
void sup_scale_hosts_take(struct supervisor *s, const unsigned char *wanted, int under_way);
/* How many more workers there are while hosts change: one, where a single worker has the parameters. It
 * gets them before that one goes, and leaves when it has them again. */
uint64_t sup_scale_hosts_more(const struct supervisor *s);
/* That worker does not start: the job stays on its hosts, unless one of them goes anyway. */
void sup_scale_hosts_stay(struct supervisor *s);
/* 1: not yet as wanted. */
int sup_scale_hosts_step(struct supervisor *s);
/* No change can begin yet, because a checkpoint waits for a server that stands still, say: when a host goes
 * that is to be left, what is there is killed all the same, once. */
void sup_scale_hosts_late(struct supervisor *s);
void sup_scale_hosts_end(struct supervisor *s);

/* 1: they are not yet as wanted. */
int sup_scale_servers_step(struct supervisor *s);
void sup_scale_servers_begin(struct supervisor *s, int anew);
/* The attempt under way is the last one. */
void sup_scale_servers_fail(struct supervisor *s);
/* Whether the change under way takes so long that nothing more is waited for. */
int sup_scale_is_late(const struct supervisor *s);
/* Whether a rank that is to leave or to change its host stays for now: all others may stand still,
 * or be on their way, so that nobody else has what it has learnt. */
int sup_scale_holds(const struct sup_node *n);
/* Writes into the file what holds now. -1: it is not on disk yet. */
int sup_scale_keep(struct supervisor *s, int under_way);
void sup_scale_leave(struct sup_node *n);
/* Call when the lead is asked to move parameters. */
void sup_move_began(struct supervisor *s);
/* Call again and again while it does. 1: no piece has moved for too long, and all go back. */
int sup_move_is_late(struct supervisor *s);
/* As many servers are wanted now as those who wait want. 1: that is another number than before. */
int sup_scale_take_servers(struct supervisor *s);
/* Adds nodes for them. -1: the job fails. */
int sup_scale_add_servers(struct supervisor *s);

#endif
