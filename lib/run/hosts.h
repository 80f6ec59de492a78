/*
 * hosts: which of the job's machines are there, and on which of them each node runs.
 *
 * Every node has a home by its number (job/hosts.h).  A host is lost when the launcher of a node
 * says that it was not reached, or when it does not answer (node-host(8), asked for nothing) after a
 * node there was silent for a while: from then on it is asked again and again, and no node is started
 * there.  It answers, and all is as before; or it does not, and it is gone:
 *
 * - after five seconds, when all connections to it have ended: what ran there has been killed;
 * - while some are there, when nothing was heard from it for thirty: it may only be slow, and until
 *   then its ends of them kill nothing.
 *
 * From then on:
 *
 * - its workers and servers run on the other hosts (a server's parameters come from the last
 *   checkpoint, as after any death of one), its replica waits for it;
 * - the fabric is started anew without it.
 *
 * A host that is gone is asked now and then.  When it answers it is used again: the fabric with it,
 * its replica, its workers at once, its servers, and trainers that have parameters, after the next
 * rollback.
 *
 * A host that is there can be avoided for BAD_HOSTS avoid seconds: a node hung there, or was slow even after
 * a restart, or somebody says so.  Nobody is killed for it; who starts in that time and may run elsewhere
 * does, and comes back when it starts after that.  The last one is not avoided.
 *
 * `trainctl scale --hosts` leaves hosts, and takes them into use again: one that is not in use is as if
 * it were none of the job's.
 *
 * The fabric is a node of this machine: the process that holds the MPI world together.  Whoever is
 * on another host is started once the fabric is there.
 */
#ifndef PACELINE_RUN_HOSTS_H
#define PACELINE_RUN_HOSTS_H

#include "base/error.h"
#include "base/option.h"
#include "proc/launcher.h"

#include <stddef.h>
#include <stdint.h>

struct child;
struct supervisor;
struct sup_node;

/* NONE: one that Slurm may give the job, and has not (more_hosts.h). */
enum sup_host_state { HOST_THERE, HOST_LOST, HOST_GONE, HOST_NONE };

/* Whether the job trains there (scale_hosts.c). LEAVES: nobody is started there any more, and those who
 * run go. */
enum sup_host_use { HOST_USED, HOST_LEAVES, HOST_UNUSED };

/* Asked whether it is there, before it is taken into use. */
enum sup_host_probe { PROBE_NONE, PROBE_ASKED, PROBE_THERE, PROBE_MISSING };

struct sup_host {
	struct supervisor *sup;
	const struct node_place *place;
	char name[OPTION_ID_MAX]; /* as the fabric calls it */
	enum sup_host_state state;
	enum sup_host_use use;
	enum sup_host_probe probe;
	uint64_t in_world;   /* it is of the world of the fabric's life N: N + 1; 0: of none */
	struct child *look;  /* it is being asked; NULL: it is not */
	unsigned failed;     /* so many times in a row without an answer */
	double since, again; /* clock_mono(): it is not there; it is asked next */
	double asked, heard; /* clock_mono(): the look began; it has answered last */
	double avoided;      /* clock_mono(): until then whoever may run elsewhere does; 0: never */
	double doubted;      /* clock_mono(): since then a node there is silent, so it is asked; 0 */
};

struct sup_hosts {
	struct node_place here; /* where the job has no hosts */
	struct sup_host *host;  /* [0] is this machine */
	size_t count, first;    /* the first one that trains */
	int64_t log_from;       /* where the log of the fabric that runs begins */
	double none_since;      /* clock_mono(): all that train are gone; 0: they are not */
	uint64_t samples;       /* that were trained, */
	double moved;           /* until this time of clock_mono() */
};

int sup_hosts_init(struct supervisor *s, struct error *err);
void sup_hosts_free(struct supervisor *s);
/* A record each, where there are several: how it is reached, what it has. */
void sup_hosts_log(struct supervisor *s);

/* Where nodes are limited: a record for each host, how that is enforced there, with a word for people
 * where it is less than was asked for. */
void sup_hosts_limits(struct supervisor *s);
/* Its home becomes its place. */
void sup_host_home(struct sup_node *n);
/* Before it is started: chooses where. -1: it must wait. */
int sup_host_choose(struct sup_node *n);
/* It waits for its host, and nobody waits for it. */
int sup_host_is_awaited(const struct sup_node *n);
/* What it answers comes through: it is here, or the fabric is there. */
int sup_host_is_reached(const struct sup_node *n);
/* Whether it was the host that was lost. */
int sup_host_was_lost(const struct sup_node *n, const struct node_end *end);

/* ---- told by others ---- */
void sup_host_ended(struct sup_node *n, const struct node_end *end);
/* Its host is avoided from now on, if it has another one to go to; why is for people. */
void sup_host_leave(struct sup_node *n, const char *why);
/* The same of a host; -1: there is no other one. id (or NULL): of the node that is why. */
int sup_host_avoid(struct sup_host *h, const char *id, const char *why);
struct sup_host *sup_host_by_name(struct supervisor *s, const char *name); /* NULL: none is */
int sup_host_is_avoided(const struct sup_host *h);
/* Why it has no other host to go to, for people; NULL: it has. */
const char *sup_host_stays(const struct sup_node *n);
void sup_host_doubt(struct sup_node *n);    /* it was given up */
/* It gives no sign of life, and may do so for `limit` seconds: its host may be why. */
void sup_host_silent(struct sup_node *n, double silent, double limit);
/* avoided: for so many seconds more; 0 or less: not. */
void sup_host_restore(struct supervisor *s, const char *name, int gone, uint64_t in_world, double avoided);
/* The nodes that run are known. */
void sup_hosts_adopted(struct supervisor *s);
void sup_host_placed(struct sup_node *n, const char *name); /* by an earlier supervisor */
/* A start at which nothing runs: all have just answered. */
void sup_hosts_are_there(struct supervisor *s);
void sup_hosts_tick(struct supervisor *s);
void sup_hosts_step(struct supervisor *s);
/* Of one that was NONE: it has a name; it can be used from now on; it is NONE again. */
void sup_host_named(struct sup_host *h);
void sup_host_came(struct sup_host *h);
void sup_host_left(struct sup_host *h);
const char *sup_host_word(const struct sup_host *h); /* of its state */
/* ---- for scale_hosts.c ---- */
/* From now on; hosts that are used, and those that leave, are in the fabric. */
void sup_host_set_use(struct sup_host *h, enum sup_host_use use);
/* h->probe says it when it is known. */
void sup_host_probe(struct sup_host *h);
/* Index of the host where it would be started now; the count of hosts: nowhere. */
size_t sup_host_choice(const struct sup_node *n);
/* It stays with trainctl, whatever hosts are used. */
int sup_host_is_fixed(const struct sup_node *n);
/* A replica of a host that is not used: the job does without. */
int sup_host_is_done_without(const struct sup_node *n);
/* The fabric is up, with the hosts that it is to have; or there is none to be. */
int sup_hosts_are_joined(const struct supervisor *s);
/* Of a node's place. */
struct sup_host *sup_host_of(const struct sup_node *n);
struct sup_node *sup_fabric(const struct supervisor *s); /* NULL: there are no other hosts */
/* At the job's end. */
void sup_fabric_stop(struct sup_node *fabric);

#endif
